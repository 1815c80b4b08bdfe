"""Named synthetic models."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from k3_ledger.engine.synth.spec import SynthSpec
from k3_ledger.engine.synth.write import synthetic_size, write_synthetic

PREFIX: Final = "synth:"
_TINY: Final = SynthSpec(
    layers=6,
    hidden=64,
    heads=2,
    head=32,
    q_rank=32,
    kv_rank=32,
    nope=32,
    rope=16,
    value=32,
    dense_width=128,
    experts=16,
    top_k=4,
    shared=1,
    expert_width=32,
    latent=32,
    bank_stride=2,
    vocabulary=512,
)
_PARITY: Final = replace(_TINY, layers=26, hidden=128, heads=4, q_rank=64, kv_rank=64, bank_stride=12, experts=32)
_REAL: Final = SynthSpec(
    layers=5,
    hidden=7168,
    heads=96,
    head=128,
    q_rank=1536,
    kv_rank=512,
    nope=128,
    rope=64,
    value=128,
    dense_width=33_792,
    experts=896,
    top_k=16,
    shared=2,
    expert_width=3072,
    latent=3584,
    bank_stride=12,
    vocabulary=163_840,
    storage="Q8_0",
    expert_storage="MXFP4",
    context=1_048_576,
)
_SLICE: Final = replace(
    _REAL,
    layers=2,
    dense_width=3072,
    experts=8,
    top_k=4,
    vocabulary=2048,
    storage="F32",
    expert_storage="F32",
)

PRESETS: Final[dict[str, SynthSpec]] = {
    "tiny": _TINY,
    "tiny-q8": replace(_TINY, storage="Q8_0", expert_storage="Q8_0"),
    "tiny-mxfp4": replace(_TINY, storage="Q8_0", expert_storage="MXFP4"),
    "tiny-iq1": replace(_TINY, expert_width=256, latent=256, storage="Q8_0", expert_storage="IQ1_S"),
    "tiny-bf16": replace(_TINY, layers=2, experts=4, top_k=4, storage="BF16", expert_storage="BF16"),
    "parity26": _PARITY,
    "deep": replace(_TINY, layers=93, bank_stride=12),
    "real-slice": _SLICE,
    "real-slice-bf16": replace(_SLICE, experts=4, storage="BF16", expert_storage="BF16"),
    "real-1": replace(_REAL, layers=1, vocabulary=4096),
    "real-period": _REAL,
    "real-two-banks": replace(_REAL, layers=16, expert_storage="IQ1_S"),
}
"""``tiny*`` run anywhere in seconds; ``parity26`` is what parity is accepted on; ``deep`` has K3's own layer map;
``real-*`` have K3's widths: a dense KDA layer and an MLA layer with 8 experts in float32 (``real-slice``, 4.5 GiB: one
H200 checks it in minutes), 1 dense layer, one period of 5 layers, 16 layers with two residual banks. Where weights are
bfloat16 (``*-bf16``) every expert is chosen: on random weights its rounding flips a choice in one row of a hundred or
so, and two engines are then nats apart."""


def preset(name: str, **changes: Any) -> SynthSpec:
    """The preset ``name`` (with or without a leading ``synth:``), with some fields changed."""
    spec = PRESETS.get(name.removeprefix(PREFIX))
    if spec is None:
        raise ValueError(f"no preset named {name!r}: one of {', '.join(PRESETS)}")
    return replace(spec, **changes)


def is_synthetic_name(name: str) -> bool:
    """Whether a model argument names a preset (``synth:tiny``) rather than a file."""
    return name.startswith(PREFIX)


def materialise(name: str, folder: Path) -> Path:
    """Path of the model that ``name`` stands for; a preset is written into ``folder`` unless it is there already.

    The same preset always has the same bytes, so a file that is there is the file that would be written.

    Raises:
        ValueError: there is no such preset, or no room for it in the folder; nothing was written.
    """
    if not is_synthetic_name(name):
        return Path(name)
    spec = preset(name)
    path = folder / f"{name.removeprefix(PREFIX)}-{spec.seed}.gguf"
    if not path.exists():
        total = synthetic_size(spec)
        if total > shutil.disk_usage(folder).free:
            raise ValueError(f"{name} would take {total} bytes, more than are free in {folder.parent}")
        write_synthetic(spec, path)
    return path
