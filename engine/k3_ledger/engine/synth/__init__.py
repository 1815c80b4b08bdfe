"""Random-weight K3 files of any size: streaming, deterministic, and with routers that spread load."""

from __future__ import annotations

from k3_ledger.engine.synth.presets import PRESETS, is_synthetic_name, materialise, preset
from k3_ledger.engine.synth.spec import SynthSpec
from k3_ledger.engine.synth.write import write_synthetic

__all__ = ["PRESETS", "SynthSpec", "is_synthetic_name", "materialise", "preset", "write_synthetic"]
