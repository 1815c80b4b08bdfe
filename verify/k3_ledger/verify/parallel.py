"""Work on pieces of a log in several processes, with results in the order of the pieces.

This process works too, so ``processes`` is how many are busy. What is done to a piece must be a pure function of it:
whatever fails of the others (one is killed for memory, none can be started, there is no room for a thread) takes
nothing with it, the pieces are worked on here instead. So they can make the work faster and do nothing else: what
comes out, what is raised and that it ends are up to this process. A pool of the standard library promises less: one
whose threads cannot start is waited for without end.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from multiprocessing.connection import Connection

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
    waiting: deque[_Pending[Piece, Result]] = deque()
    with contextlib.ExitStack() as stack:
        crew: _Crew | None = None
        with contextlib.suppress(Exception):
            crew = stack.enter_context(contextlib.closing(_Crew(work, processes - 1)))
        for piece, arguments in pieces:
            pending = _Pending(piece, work, arguments)
            waiting.append(pending)
            if sum(not each.done() for each in waiting) <= ahead * (processes - 1):
                pending.submit(crew)
            else:
                pending.work_here()
            while waiting and (waiting[0].done() or len(waiting) >= (ahead + 1) * processes):
                pending = waiting.popleft()
                yield pending.piece, pending.result()
        while waiting:
            pending = waiting.popleft()
            yield pending.piece, pending.result()


class _Pending(Generic[Piece, Result]):
    """One piece whose result is on its way."""

    def __init__(self, piece: Piece, work: Callable[..., Result], arguments: tuple[Any, ...]) -> None:
        self.piece = piece
        self._work = work
        self._arguments = arguments
        self._future: Future[Result] | None = None
        self._results: list[Result] = []

    def submit(self, crew: _Crew | None) -> None:
        """Give it to the others, where there are any."""
        with contextlib.suppress(Exception):
            self._future = None if crew is None else crew.submit(self._arguments)

    def work_here(self) -> None:
        """Do it in this process."""
        self._results.append(self._work(*self._arguments))

    def done(self) -> bool:
        """Whether :meth:`result` returns at once, or fails in a worker and is to be had here."""
        return bool(self._results) or (self._future is not None and self._future.done())

    def result(self) -> Result:
        """What came out, waiting for it where somebody is at it."""
        if not self._results and self._future is not None and not self._future.cancel():
            # Whatever went wrong there: where it is the fault of the piece, the like is raised here.
            with contextlib.suppress(Exception):
                self._results.append(self._future.result())
        if not self._results:
            self.work_here()
        return self._results[0]


class _Crew:
    """Other processes, and a thread here for each, which hands it one piece after another."""

    def __init__(self, work: Callable[..., Any], size: int) -> None:
        import multiprocessing  # noqa: PLC0415 - costs more than a small log does
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415
        from queue import SimpleQueue  # noqa: PLC0415

        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([work.__module__])
        self._workers = [_Worker(context, work) for _ in range(size)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(size)

    def submit(self, arguments: tuple[Any, ...]) -> Future[Any]:
        """Have a piece worked on."""
        return self._threads.submit(self._hand, arguments)

    def _hand(self, arguments: tuple[Any, ...]) -> Any:
        worker = self._idle.get_nowait()  # as many as threads, less those that failed: these are not put back
        result = worker.ask(arguments)
        self._idle.put(worker)
        return result

    def close(self) -> None:
        """Wait for what is being worked on, and end."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.end()


def _hold_interrupts_off() -> None:
    """Have no process that is started from this thread interrupted: each would show where it was, and ends anyway."""
    import signal  # noqa: PLC0415 - as the next
    from multiprocessing import resource_tracker  # noqa: PLC0415 - costs more than a small log does

    resource_tracker.ensure_running()  # the first process that is started starts it, and lets interrupts in behind it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


class _Worker:
    """A process that is started when it is first asked."""

    def __init__(self, context: Any, work: Callable[..., Any]) -> None:
        self._context = context
        self._work = work
        self._process: Any = None
        self._line: Connection | None = None

    def ask(self, arguments: tuple[Any, ...]) -> Any:
        """What the work on these arguments gives.

        Raises:
            Exception: of any kind; then the process is not to be asked again.
        """
        if self._line is None:
            _hold_interrupts_off()
            line, its_end = self._context.Pipe()
            with its_end:  # then the line ends when the process does
                process = self._context.Process(target=serve, args=(its_end, self._work), daemon=True)
                process.start()
            self._process, self._line = process, line
        self._line.send(arguments)
        return self._line.recv()

    def end(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()
            if self._process.is_alive():  # the number of one that has ended may be that of a stranger by now
                self._process.kill()  # nothing is lost, and it cannot refuse
            self._process.join()
            self._process.close()


def serve(line: Connection, work: Callable[..., Any]) -> None:
    """What another process does: work on what it is sent until nobody sends anything.

    It never says a word. Where anything fails it ends, and whoever waits for the answer sees that.
    """
    with contextlib.suppress(BaseException), line:
        while True:
            line.send(work(*line.recv()))
