"""Prefill and decode as they are timed, and the same two as they are graded: one code, so that neither can be faster.

What is timed is :meth:`~k3_ledger.engine.model.Model.prefill` on the whole prompt and
:meth:`~k3_ledger.engine.model.Model.decode_n` from a given token. A graded row is the end of one such prefill, of a
prefix, with the same chunk and room; or one step of one such decode, fed with given ids in place of its own choices.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from k3_ledger.engine.model import Model
    from k3_ledger.engine.state import State


class Noted:
    """Chooses the largest logit (the lowest id of equals) and notes its log-probability, on the device."""

    def __init__(self) -> None:
        self._noted: list[Tensor] = []

    def __call__(self, logits: Tensor) -> Tensor:
        """See :data:`~k3_ledger.engine.sampling.Sampler`; the id stays on the device, and nobody waits for it."""
        best, chosen = logits.max(dim=-1)
        self._noted.append(best - logits.logsumexp(dim=-1))
        return chosen

    def logprobs(self) -> list[float]:
        """On the host: when they are there, the work is done.

        Raises:
            ValueError: a log-probability is not finite.
        """
        values: list[float] = torch.stack(self._noted).double().tolist()
        if not all(map(math.isfinite, values)):
            raise ValueError("a log-probability is not finite")
        return values


class Forced:
    """Takes given ids whatever the logits say, and keeps these."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = list(ids)
        self.rows: list[Tensor] = []

    def __call__(self, logits: Tensor) -> int:
        """See :data:`~k3_ledger.engine.sampling.Sampler`; after the last given id, that of no other token is needed."""
        self.rows.append(logits)
        return self._ids[len(self.rows) - 1] if len(self.rows) <= len(self._ids) else 0


def timed_prefill(model: Model, ids: Sequence[int], state: State, chunk: int) -> tuple[int, float]:
    """Takes a prompt; returns what would come next and its log-probability."""
    noted = Noted()
    token = noted(model.prefill(ids, state, chunk))
    return int(token), noted.logprobs()[0]


def timed_decode(model: Model, token: int, count: int, state: State) -> tuple[list[int], list[float]]:
    """Takes ``token``, then what it chose, ``count`` steps in all; returns chosen ids and their log-probabilities."""
    noted = Noted()
    return model.decode_n(token, count, state, noted), noted.logprobs()


def graded_rows(
    model: Model, ids: Sequence[int], count: int, way: Literal["prefill", "decode"], *, chunk: int, capacity: int
) -> Tensor:
    """Float32 logits ``[count, V]`` after each of the last ``count`` of ``ids``, from an empty state.

    Args:
        model: what is graded.
        ids: at least ``count`` token ids.
        count: rows, at least 1.
        way: each row is the end of a prefill of its own, or a step of one decode behind a prefill of the rest.
        chunk: tokens that prefill takes together.
        capacity: tokens that the state has room for, at least ``len(ids)``.
    """
    if way == "prefill":
        lengths = range(len(ids) - count + 1, len(ids) + 1)
        return torch.stack([model.prefill(ids[:length], model.new_state(capacity), chunk) for length in lengths])
    state, forced = model.new_state(capacity), Forced(ids[len(ids) - count + 1 :])
    if len(ids) > count:
        model.prefill(ids[:-count], state, chunk)
    model.decode_n(ids[-count], count, state, forced)
    return torch.stack(forced.rows)
