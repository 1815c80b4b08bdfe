"""The specification in float64 as a second opinion on outputs of timed walks, where the model is small enough for it.

llama.cpp is one rounding among others: where a router's choice hangs on the last bit, it can be the one that took the
other expert, and then everything behind that is off by it. The specification is slow and rounds a millionfold less. It
is asked about outputs that missed alone. On a file with coarse types it gives two rows, both right: with activations as
the file has them, and rounded as llama.cpp's kernels do.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from k3_ledger.engine.grading import emulates
from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.reference import Reference, ReferenceState

if TYPE_CHECKING:
    from k3_ledger.engine.runner.observations import Place, Walk
    from k3_ledger.engine.weights import Weights

    Row = np.ndarray[tuple[int], np.dtype[np.float64]]

MOST_TOKENS: Final = 4000
"""Tokens that it is given in one run."""
MOST_WEIGHTS: Final = 1 << 27
"""Weights of the largest model that it is asked about: a gibibyte in float64."""
MOST_WORK: Final = 1 << 36
"""Weights times tokens in one run: minutes."""


class Specified(Protocol):
    """A second opinion."""

    def rows(self, number: int, walk: Walk, place: Place) -> tuple[Row, ...]:
        """Log-probabilities behind an output's ids, each of which is right; none where it was not asked."""
        ...


class Specification:
    """Asked walk by walk, each at most once, while its tokens last.

    Args:
        weights: the opened file.
        tokens: that it may take in all.
    """

    def __init__(self, weights: Weights, tokens: int = MOST_TOKENS) -> None:
        self._weights = weights
        size = sum(int(np.prod(info.shape)) for info in weights.tensors.values())
        self._ways = (False, True) if emulates(weights) else (False,)
        self._left = 0 if size > MOST_WEIGHTS else min(tokens, MOST_WORK // max(1, size))
        self._known: dict[tuple[int, int], tuple[tuple[Row, ...], ...]] = {}
        self._references: list[Reference] = []

    def rows(self, number: int, walk: Walk, place: Place) -> tuple[Row, ...]:
        """See :class:`Specified`."""
        op, at = place
        earlier = op == "prefill" and at < len(walk.earlier)
        ids = walk.ids(place if earlier else ("decode", len(walk.output) - 1))
        first = len(ids) if earlier else len(walk.prompt)
        key = (number, at if earlier else -1)
        if key not in self._known:
            self._known[key] = self._ask(ids, first)
        return tuple(rows[len(walk.ids(place)) - first] for rows in self._known[key])

    def _ask(self, ids: tuple[int, ...], first: int) -> tuple[tuple[Row, ...], ...]:
        needed = len(ids) * len(self._ways)
        if needed > self._left:
            return ()
        self._left -= needed
        if not self._references:
            one = Reference(self._weights)
            self._references = [one]
            if len(self._ways) > 1:  # on the same arrays, which are most of what this takes
                rounding = copy.copy(one)
                rounding.emulate = True
                self._references.append(rounding)
        return tuple(self._walk(one, ids, first) for one in self._references)

    def _walk(self, reference: Reference, ids: tuple[int, ...], first: int) -> tuple[Row, ...]:
        """Rows behind the first so many tokens and behind each further one."""
        state, kept = ReferenceState(), []
        for taken, token in enumerate(ids, 1):
            logits = reference.step(token, state)
            if taken >= first:
                kept.append(log_softmax(logits[None])[0])
        return tuple(kept)
