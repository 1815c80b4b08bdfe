"""Kimi delta attention in chunks of 16 tokens, safe at any decay; the tolerance path of prefill."""

from __future__ import annotations

from typing import Final

from k3_ledger.kernels.kda_chunk import naive
from k3_ledger.kernels.kda_step import check
from k3_ledger.kernels.op import Op

OP: Final = Op("kda_chunk", check, naive.kda_chunk, __name__)
