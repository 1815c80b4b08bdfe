"""Work on pieces of a log in several processes, with results in the order of the pieces.

This process works too, so ``processes`` is how many are busy. What is done to a piece must be a pure function of it:
a worker that dies (killed for memory, say) takes nothing with it, its pieces are worked on here instead.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

Piece = TypeVar("Piece")
Result = TypeVar("Result")

PARALLEL_BYTES = 8 << 20
"""Logs smaller than this are worked on in one process: starting others would cost more than it saves."""


def in_order(
    pieces: Iterable[tuple[Piece, tuple[Any, ...]]], work: Callable[..., Result], processes: int, *, ahead: int = 2
) -> Iterator[tuple[Piece, Result]]:
    """(piece, ``work(*arguments)``) for each (piece, arguments), in order; at most ``(ahead + 1) * processes`` at once.

    Args:
        pieces: taken one after another, no sooner than there is room for it.
        work: a function at the top of a module.
        processes: how many work, this one among them; at least 2.
        ahead: how many pieces wait for a worker: as many as keep it busy while this process is at one of its own.
    """
    import multiprocessing  # noqa: PLC0415 - costs more than a small log does
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor  # noqa: PLC0415

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    waiting: deque[_Pending[Piece, Result]] = deque()
    with ProcessPoolExecutor(processes - 1, mp_context=context) as pool:
        for piece, arguments in pieces:
            pending = _Pending(piece, work, arguments, BrokenExecutor)
            waiting.append(pending)
            if sum(not each.done() for each in waiting) <= ahead * (processes - 1):
                pending.submit(pool)
            else:
                pending.work_here()
            while waiting and (waiting[0].done() or len(waiting) >= (ahead + 1) * processes):
                pending = waiting.popleft()
                yield pending.piece, pending.result()
        for pending in waiting:
            yield pending.piece, pending.result()


class _Pending(Generic[Piece, Result]):
    """One piece whose result is on its way."""

    def __init__(
        self, piece: Piece, work: Callable[..., Result], arguments: tuple[Any, ...], broken: type[Exception]
    ) -> None:
        self.piece = piece
        self._work = work
        self._arguments = arguments
        self._broken = broken  # what a pool raises whose worker died
        self._future: Future[Result] | None = None
        self._results: list[Result] = []

    def submit(self, pool: Executor) -> None:
        """Give it to a worker."""
        with contextlib.suppress(self._broken):
            self._future = pool.submit(self._work, *self._arguments)

    def work_here(self) -> None:
        """Do it in this process."""
        self._results.append(self._work(*self._arguments))

    def done(self) -> bool:
        """Whether :meth:`result` returns at once."""
        return bool(self._results) or (self._future is not None and self._future.done())

    def result(self) -> Result:
        """What came out, waiting for it where need be."""
        if not self._results and self._future is not None:
            with contextlib.suppress(self._broken):
                self._results.append(self._future.result())
        if not self._results:
            self.work_here()
        return self._results[0]
