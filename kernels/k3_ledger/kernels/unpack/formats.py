"""Block layouts of quantised storage. Source: K3_MATH §10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Layout:
    """Bytes and values of one block."""

    block_bytes: int
    block_values: int


LAYOUTS: Final = {
    "f32": Layout(4, 1),
    "f16": Layout(2, 1),
    "bf16": Layout(2, 1),
    "q8_0": Layout(34, 32),
    "mxfp4": Layout(17, 32),
    "iq1_s": Layout(50, 256),
}
"""Little-endian throughout.

``q8_0``: f16 scale, 32 signed bytes. ``mxfp4``: exponent byte ``e`` (scale ``2^(e - 127)``; 255 is NaN), then 16 bytes
whose low nibbles are values 0-15 and high nibbles 16-31, each E2M1. ``iq1_s``: f16 ``d``; 32 index bytes; 8 words of
16 bits, one for 32 values: 3 high index bits for each of 4 groups of 8, then 3 bits of scale ``s``, then the sign of
delta: ``value = d (2 s + 1) (grid[index] + delta)``, ``delta = -1/8`` where the top bit is set, else ``1/8``.
"""

IQ1_S_GRID: Final = (2048, 8)
"""Shape of the table of ternary groups that ``iq1_s`` indexes; callers bring it (PyPI ``gguf`` has it)."""
