"""Prompts that no engine can have seen: fresh ones, and ones that resemble another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

TRIES: Final = 100
"""How often a prompt is drawn until it is one that was not given before."""


class Prompts:
    """Fresh random prompts of ordinary tokens, and prompts that resemble the one before of their length."""

    def __init__(self, usable: Sequence[int], seed: int) -> None:
        self._pool = np.asarray(usable)
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._last: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self._given: set[tuple[int, ...]] = set()

    def token(self) -> int:
        """One token."""
        return int(self._pool[self._generator.integers(0, len(self._pool))])

    def next(self, length: int, *, resembling: bool = False) -> tuple[int, ...]:
        """A prompt of ``length`` ids that was not given before, unless nearly all of that length were.

        Args:
            length: number of ids.
            resembling: differ from the last prompt of this length in the first and the last token only.
        """
        drawn = self._draw(length, resembling=resembling)
        for _ in range(TRIES):
            if tuple(drawn.tolist()) not in self._given:
                break
            drawn = self._draw(length, resembling=resembling)
        ids = tuple(int(token) for token in drawn)
        self._last[length] = drawn
        self._given.add(ids)
        return ids

    def _draw(self, length: int, *, resembling: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not resembling or length not in self._last:
            return self._pool[self._generator.integers(0, len(self._pool), length)]
        ids = self._last[length].copy()
        for at in {0, length - 1}:
            others = self._pool[self._pool != ids[at]]
            ids[at] = others[self._generator.integers(0, len(others))]
        return ids
