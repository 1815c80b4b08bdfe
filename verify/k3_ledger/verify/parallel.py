"""Work on pieces of a log in several processes, with results in the order of the pieces.

This process works too, so ``processes`` is how many are busy. What is done to a piece must be a pure function of it:
whatever fails of the others (one is killed for memory, none can be started, there is no room for a thread) takes
nothing with it, the pieces are worked on here instead. So they can make the work faster and do nothing else: what
comes out, what is raised and that it ends are up to this process. A pool of the standard library promises less: one
whose threads cannot start is waited for without end. And its threads hand out the next piece and take in the last when
the interpreter lets them, which the work on a piece here does every few milliseconds: as long as the others take for
one. So each has the next pieces lie ready, and what they answer is taken in between pieces by whoever works on these.
"""

from __future__ import annotations

import contextlib
from collections import deque
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection

Piece = TypeVar("Piece")
Result = TypeVar("Result")

PARALLEL_BYTES = 8 << 20
"""Logs smaller than this are worked on in one process: starting others would cost more than it saves."""


def in_order(
    pieces: Iterable[tuple[Piece, tuple[Any, ...]]], work: Callable[..., Result], processes: int, *, ahead: int = 2
) -> Iterator[tuple[Piece, Result]]:
    """(piece, ``work(*arguments)``) for each (piece, arguments), in order; at most ``(ahead + 2) * processes`` at once.

    Args:
        pieces: taken one after another, no sooner than there is room for it.
        work: a function at the top of a module.
        processes: how many work, this one among them; at least 2.
        ahead: how many pieces each other process has: as many as keep it busy while this one is at one of its own.
    """
    waiting: deque[_Pending[Piece, Result]] = deque()
    with contextlib.ExitStack() as stack:
        crew: _Crew | None = None
        with contextlib.suppress(Exception):
            crew = stack.enter_context(contextlib.closing(_Crew(work, processes - 1, ahead)))
        for piece, arguments in pieces:
            pending = _Pending(piece, work, arguments)
            waiting.append(pending)
            if crew is None or not crew.take(pending):
                pending.work_here()
            while waiting and (waiting[0].done() or len(waiting) >= (ahead + 2) * processes):
                pending = waiting.popleft()
                yield pending.piece, pending.result()
        while waiting:
            pending = waiting.popleft()
            yield pending.piece, pending.result()


class _Pending(Generic[Piece, Result]):
    """One piece whose result is on its way."""

    def __init__(self, piece: Piece, work: Callable[..., Result], arguments: tuple[Any, ...]) -> None:
        self.piece = piece
        self.arguments = arguments
        self.worker: _Worker | None = None
        self._work = work
        self._free = [True]  # whoever takes this out works on it, in whichever thread
        self._results: list[Result] = []

    def claim(self) -> bool:
        """Whether it is the caller's to work on: it is nobody else's from here on."""
        try:
            return self._free.pop()
        except IndexError:
            return False

    def work_here(self) -> None:
        """Do it in this process."""
        self._results.append(self._work(*self.arguments))

    def answer(self, result: Result) -> None:
        """Take what came out elsewhere."""
        self._results.append(result)

    def done(self) -> bool:
        """Whether :meth:`result` returns at once."""
        return bool(self._results)

    def result(self) -> Result:
        """What came out, waiting for it where somebody is at it."""
        if not self._results and self.worker is not None and not self.claim():
            self.worker.wait_for(self)
        if not self._results:  # or something went wrong there: where it is the fault of the piece, the like is raised
            self.work_here()
        return self._results[0]


class _Crew:
    """Other processes."""

    def __init__(self, work: Callable[..., Any], size: int, ahead: int) -> None:
        import multiprocessing  # noqa: PLC0415 - costs more than a small log does

        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([work.__module__])
        self._ahead = ahead
        self._workers = [_Worker(context, work) for _ in range(size)]

    def take(self, pending: _Pending[Any, Any]) -> bool:
        """Have a piece worked on by who has least to do; False where all have enough. Takes in what they answered."""
        able = [(worker.collect(), number) for number, worker in enumerate(self._workers) if worker.is_able()]
        least, number = min(able, default=(self._ahead, 0))
        return least < self._ahead and self._workers[number].take(pending)

    def close(self) -> None:
        """Leave nobody behind."""
        for worker in self._workers:
            worker.end()


def _hold_interrupts_off() -> None:
    """Have no process that is started from this thread interrupted: each would show where it was, and ends anyway."""
    import signal  # noqa: PLC0415 - as the next
    from multiprocessing import resource_tracker  # noqa: PLC0415 - costs more than a small log does

    resource_tracker.ensure_running()  # the first process that is started starts it, and lets interrupts in behind it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


class _Worker:
    """A process that is started when it is first given a piece, and a thread here that sends it one after another."""

    def __init__(self, context: Any, work: Callable[..., Any]) -> None:
        self._context = context
        self._work = work
        self._process: Any = None
        self._line: Connection | None = None
        self._thread: Thread | None = None
        self._queue: SimpleQueue[_Pending[Any, Any] | None] = SimpleQueue()
        self._sent: deque[_Pending[Any, Any]] = deque()
        self._has: list[_Pending[Any, Any]] = []
        self._failed = False

    def is_able(self) -> bool:
        """Whether nothing went wrong so far."""
        return not self._failed

    def take(self, pending: _Pending[Any, Any]) -> bool:
        """Have a piece worked on; False where that cannot be."""
        if self._thread is None:
            thread = Thread(target=self._send, daemon=True)
            try:
                thread.start()
            except Exception:  # noqa: BLE001 - whatever it was, the piece is worked on here
                self._failed = True
                return False
            self._thread = thread
        pending.worker = self
        self._has.append(pending)
        self._queue.put(pending)
        return True

    def collect(self) -> int:
        """Take in what it answered so far; how many pieces it has left."""
        with self._failing():
            while self._line is not None and self._line.poll():
                self._hear(self._line)
        self._has = [pending for pending in self._has if not pending.done()]
        return len(self._has)

    def wait_for(self, pending: _Pending[Any, Any]) -> None:
        """Wait until it has answered about a piece that it was sent, or has failed."""
        with self._failing():
            while not self._failed and not pending.done():
                assert self._line is not None, "what was sent was sent somewhere"
                self._hear(self._line)

    def end(self) -> None:
        """End the process."""
        for pending in self._has:
            pending.claim()  # what was not begun is nobody's: a process that starts now is sent nothing
        self._queue.put(None)
        self._kill()  # whoever is still sending to it is not heard, and stops
        if self._thread is not None:
            self._thread.join()
        self._kill()  # if it was being started
        if self._process is not None:
            self._process.join()
            self._process.close()
        if self._line is not None:
            self._line.close()

    def _hear(self, line: Connection) -> None:
        answer = line.recv()
        self._sent.popleft().answer(answer)

    def _send(self) -> None:
        with self._failing():
            line = self._start()
            while (pending := self._queue.get()) is not None:
                if pending.claim():
                    self._sent.append(pending)
                    line.send(pending.arguments)

    def _start(self) -> Connection:
        _hold_interrupts_off()
        line: Connection
        line, its_end = self._context.Pipe()
        with its_end:  # then the line ends when the process does
            process = self._context.Process(target=serve, args=(its_end, self._work), daemon=True)
            process.start()
        self._process, self._line = process, line
        return line

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong within, nobody is to wait for this process any more."""
        try:
            yield
        except Exception:  # noqa: BLE001 - whatever it was, the pieces are worked on by this process
            self._failed = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.is_alive():  # the number of one that ended may be a stranger's
            self._process.kill()  # nothing is lost, and it cannot refuse


def serve(line: Connection, work: Callable[..., Any]) -> None:
    """What another process does: work on what it is sent until nobody sends anything.

    It never says a word. Where anything fails it ends, and whoever waits for the answer sees that.
    """
    import gc  # noqa: PLC0415 - of no use to whoever asks

    gc.set_threshold(20_000)  # what is made of a piece goes with it; to look for rings in it every 700 takes 5 %
    with contextlib.suppress(BaseException), line:
        while True:
            line.send(work(*line.recv()))
