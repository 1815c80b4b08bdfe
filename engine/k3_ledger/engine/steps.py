"""One decode step, recorded once as a CUDA graph and replayed: one launch a token in place of hundreds.

At a batch of one a step is bound by what the host takes to launch it. The recorded step is the model's own, on tensors
that stay where they are: the token and its place are read from the device, and attention sees the whole cache under a
length, so that no number of the host is frozen into it. A sequence that is decoded moves in: its state is copied here
once, and from then on these tensors are its own, until another one comes.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from k3_ledger.engine.state import SLICE_ROWS, State

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from torch import Tensor

    from k3_ledger.engine.model import Model
    from k3_ledger.engine.sampling import Chosen
    from k3_ledger.kernels.dispatch import Ran


def record(step: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """What replays ``step`` on the current CUDA device, and the tensor that a replay writes."""
    step()  # compiles kernels and makes what libraries make once: neither can be recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    return graph.replay, out


class Steps:
    """A recorded step with a state of its own.

    Args:
        model: whose step.
        capacity: tokens that a sequence may have room for, at most.
    """

    def __init__(self, model: Model, capacity: int) -> None:
        self.capacity = -(-capacity // SLICE_ROWS) * SLICE_ROWS
        self._state = model.new_state(self.capacity)
        self._token, self._state.place = (torch.zeros(1, dtype=torch.int64, device=model.device) for _ in range(2))
        self._inside: weakref.ref[State] | None = None
        self._counts = model.runs.counts
        before = self._counts.copy()
        self._replay, self._logits = record(lambda: model.step(self._token, self._state))
        seen = self._counts - before
        self._counts.clear()
        self._counts.update(before)
        # `record` took the step twice, and neither was asked for: a replay counts as one.
        self._ran: Counter[Ran] = type(seen)({ran: calls // 2 for ran, calls in seen.items()})

    def __call__(self, token: Chosen, state: State) -> Tensor:
        """Takes one token, of the host or of the device; returns the float32 logits ``[V]`` of the next."""
        if self._inside is None or self._inside() is not state:
            self._move_in(state)
        assert self._state.place is not None
        self._token.fill_(token)
        self._state.place.fill_(state.position)
        self._replay()
        self._counts.update(self._ran)
        state.position += 1
        return self._logits.clone()

    def _move_in(self, state: State) -> None:
        former = self._inside() if self._inside is not None else None
        if former is not None:  # it goes on elsewhere
            left = former.clone()
            former.rows, former.windows, former.memory = left.rows, left.windows, left.memory
        own, capacity = self._state, state.capacity
        for layer, rows in state.rows.items():
            own.rows[layer][:, :capacity].copy_(rows)
            own.rows[layer][:, capacity:].fill_(torch.nan)
            state.rows[layer] = own.rows[layer][:, :capacity]
        for kept, given in ((own.windows, state.windows), (own.memory, state.memory)):
            for layer, tensor in given.items():
                kept[layer].copy_(tensor)
                given[layer] = kept[layer]
        self._inside = weakref.ref(state)
