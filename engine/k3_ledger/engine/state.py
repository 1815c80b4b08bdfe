"""What one sequence keeps between tokens. What it costs in bytes is :mod:`k3_ledger.engine.fit`'s to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from k3_ledger.engine.config import K3Config

SLICE_ROWS: Final = 512
"""Cache rows of one attention slice: part of the result's bits, so it never depends on the chunk."""


@dataclass
class State:
    """State of one sequence. Residual banks are not in it: they live for one chunk.

    Attributes:
        position: tokens taken so far.
        capacity: tokens that the caches have room for.
        rows: per MLA layer ``[1, capacity, kv_rank + rope]``: normed latent, then the un-rotated key part.
        windows: per KDA layer ``[1, taps - 1, 3·inner]`` float32, the q, k and v streams side by side.
        memory: per KDA layer ``[1, heads, head, head]`` float32, key index before value index.
        place: where a recorded step writes, ``[1]`` int64 on the device, in place of ``position``; None elsewhere.
    """

    position: int
    capacity: int
    rows: dict[int, Tensor]
    windows: dict[int, Tensor]
    memory: dict[int, Tensor]
    place: Tensor | None = None

    def clone(self) -> State:
        """An independent copy: the prefix is shared work, what follows is not."""
        return State(
            self.position,
            self.capacity,
            {layer: tensor.clone() for layer, tensor in self.rows.items()},
            {layer: tensor.clone() for layer, tensor in self.windows.items()},
            {layer: tensor.clone() for layer, tensor in self.memory.items()},
        )


def new_state(config: K3Config, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State:
    """An empty state with room for ``capacity`` tokens. Unused cache rows hold NaN, so a read past the end shows."""
    if capacity < 1:
        raise ValueError(f"capacity {capacity} is not positive")
    rows, windows, memory = {}, {}, {}
    for layer in range(config.layers):
        if config.mla[layer]:
            shape = (1, capacity, config.cached_row)
            rows[layer] = torch.full(shape, torch.nan, device=device, dtype=dtype)
        else:
            windows[layer] = torch.zeros((1, config.taps - 1, 3 * config.inner), device=device)
            memory[layer] = torch.zeros((1, config.heads, config.head, config.head), device=device)
    return State(0, capacity, rows, windows, memory)
