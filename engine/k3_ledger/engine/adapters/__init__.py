"""Result files of other benchmark tools as bundles: their own times, in role reference, graded by nobody.

Strict about shape, unit and token counts. What a file does not say is asked of the operator or left null; a file that
could be read in two ways is refused. Tokens are what the engine counted, never the number of events of a stream.
"""

from __future__ import annotations

from k3_ledger.engine.adapters.llama_bench import read_llama_bench
from k3_ledger.engine.adapters.reading import Reading, Told
from k3_ledger.engine.adapters.sglang import read_sglang
from k3_ledger.engine.adapters.vllm import read_vllm

READERS = {"llama-bench": read_llama_bench, "sglang": read_sglang, "vllm": read_vllm}
"""Reader by name of the tool."""

__all__ = ["READERS", "Reading", "Told", "read_llama_bench", "read_sglang", "read_vllm"]
