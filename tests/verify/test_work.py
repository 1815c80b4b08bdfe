"""How the work is spread over processes, and what is asked of every line."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k3_ledger.verify import parallel, scan
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.work import follows, link_faults, link_of
from tests.ledgers import small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Entry:
    """The chain fields of an entry."""

    index: int
    prev: str
    time: str
    kind: str


TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2027-01-01T00:00:00Z"])
ENTRIES = st.builds(
    Entry, st.integers(0, 3), st.sampled_from(["aa", "bb", "cc"]), TIMES, st.sampled_from(["genesis", "run"])
)


@given(ENTRIES, st.sampled_from(["aa", "bb"]), ENTRIES)
@example(Entry(1, "aa", "2026-01-01T00:00:00Z", "run"), "bb", Entry(2, "bb", "2026-01-01T00:00:00Z", "run"))
@example(Entry(1, "aa", "2026-01-01T00:00:01Z", "run"), "bb", Entry(2, "bb", "2026-01-01T00:00:00Z", "run"))
def test_the_short_question_about_a_link_has_the_long_answer(before: Entry, identity: str, entry: Entry) -> None:
    found = list(link_faults(link_of(before, 4, 100, identity), identity, link_of(entry, 5, 200, "dd")))
    assert follows(before, identity, entry) == (not found)


def report(data: bytes, head: bytes, processes: int, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    source = MemorySource(data, checkpoint=head, block=1000)
    return check_log(source, options=Options(processes=processes, chunk_bytes=4000, progress=progress)).as_dict()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others begin before this process goes on: a small log would be done before they are there."""
    take = parallel._Worker.take

    def until_begun(self: parallel._Worker, pending: parallel._Pending[Any, Any]) -> bool:
        taken = take(self, pending)
        while taken and pending._free and self.is_able():
            time.sleep(0.001)
        return taken

    monkeypatch.setattr(parallel._Worker, "take", until_begun)


@pytest.mark.usefixtures("patient")
def test_a_worker_that_dies_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    ledger = small_ledger(80)
    ledger.lines[60] = ledger.lines[60].replace(b'"count":10', b'"count":11')
    killed: list[int] = []

    def kill_all(_: int) -> None:
        for process in multiprocessing.active_children():
            process.kill()
            killed.append(process.pid or 0)

    alone = report(ledger.data, ledger.head(), 1)
    assert report(ledger.data, ledger.head(), 3, kill_all) == alone
    assert len(killed) >= 2
    assert alone["exit_code"] == 1


class Lazy:
    """A worker who does a piece of work only when its result is waited for, or fails instead."""

    def __init__(self, broken: frozenset[int] = frozenset(), refused: int = 1 << 30, begun: bool = True) -> None:
        self.broken = broken
        self.refused = refused
        self.begun = begun
        self.given = 0
        self.in_vain = False
        self.has: list[tuple[int, parallel._Pending[Any, Any]]] = []

    def __call__(self, context: object, work: Callable[..., Any]) -> Lazy:
        del context
        self.work = work
        return self

    def is_able(self) -> bool:
        return True

    def take(self, pending: parallel._Pending[Any, Any]) -> bool:
        number, self.given = self.given, self.given + 1
        if number >= self.refused:
            return False
        assert not self.begun or pending.claim()
        pending.worker = self  # type: ignore[assignment]
        self.has.append((number, pending))
        return True

    def collect(self) -> int:
        self.has = [(number, pending) for number, pending in self.has if not pending.done()]
        return len(self.has)

    def wait_for(self, pending: parallel._Pending[Any, Any]) -> None:
        (number,) = [number for number, mine in self.has if mine is pending]
        self.in_vain |= not self.begun
        if number not in self.broken:
            pending.answer(self.work(*pending.arguments))

    def end(self) -> None:
        """Nothing is held."""


NO_THREAD = "can't start new thread"
POOLS = {
    "slow": Lazy(),
    "broken once": Lazy(frozenset({0})),
    "broken": Lazy(frozenset({0, 1, 2, 3})),
    "refusing": Lazy(refused=0),
    "refusing later": Lazy(refused=2),
    "never beginning": Lazy(begun=False, broken=frozenset(range(99))),
}


@pytest.mark.parametrize("pool", POOLS)
def test_slow_broken_and_refusing_pools_change_nothing_and_hold_few_chunks(
    pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(parallel, "_Worker", POOLS[pool])
    ledger = small_ledger(80)
    data, head = ledger.data, ledger.head()
    read, ahead = [0], [0]

    class Counting(MemorySource):
        def blocks(self) -> Any:
            for block in super().blocks():
                read[0] += len(block)
                yield block

    def progress(joined: int) -> None:
        ahead[0] = max(ahead[0], read[0] - joined)

    source = Counting(data, checkpoint=head, block=1000)
    found = check_log(source, options=Options(processes=2, chunk_bytes=4000, progress=progress)).as_dict()
    assert found == report(data, head, 1)
    assert POOLS[pool].given >= 3
    assert not POOLS[pool].in_vain
    longest = 4000 + 1000 + 2000  # what was aimed at, a block, a line
    least = 0 if pool.startswith("refusing") else 3 * 4000
    assert least < ahead[0] <= 9 * longest


def limited_threads(patch: pytest.MonkeyPatch, allowed: int) -> None:
    """As under a limit on processes that a container has: so many more threads start, and no other one."""
    start, started = threading.Thread.start, queue.SimpleQueue[int]()

    def limited(self: threading.Thread) -> None:
        if started.qsize() >= allowed:
            raise RuntimeError(NO_THREAD)
        started.put(0)
        start(self)

    patch.setattr(threading.Thread, "start", limited)


def failing(error: BaseException) -> Callable[..., Any]:
    """A function that does nothing but fail."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


OBSTACLES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no thread": lambda patch: limited_threads(patch, 0),
    "one thread": lambda patch: limited_threads(patch, 1),
    "no process": lambda patch: patch.setattr(
        "multiprocessing.forkserver.ForkServer.ensure_running",
        failing(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
    ),
    "a server of processes that ends": lambda patch: patch.setattr(
        "multiprocessing.popen_forkserver.Popen._launch", failing(EOFError("unexpected EOF"))
    ),
    "no descriptor": lambda patch: patch.setattr(
        "multiprocessing.context.BaseContext.Pipe", failing(OSError(errno.EMFILE, "Too many open files"))
    ),
    "no memory in a thread": lambda patch: patch.setattr(parallel._Worker, "_start", failing(MemoryError())),
    "what cannot be sent": lambda patch: patch.setattr(
        "multiprocessing.connection.Connection.send", failing(MemoryError())
    ),
    "what cannot be read": lambda patch: patch.setattr(
        "multiprocessing.connection.Connection.recv", failing(MemoryError())
    ),
    "no memory for the others": lambda patch: patch.setattr(parallel, "_Crew", failing(MemoryError())),
    "a module that does not load": lambda patch: patch.setattr(
        "multiprocessing.get_context", failing(ImportError("failed to map segment from shared object"))
    ),
    "no memory in a worker": lambda patch: patch.setattr(parallel, "serve", failing_serve),
}


def failing_serve(line: Any, work: Callable[..., Any]) -> None:
    """A worker whose work fails: it is asked once."""
    del work
    parallel.serve(line, failing(MemoryError()))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_keeps_others_from_working_costs_no_verdict_and_no_end(
    obstacle: str, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    ledger = small_ledger(80)
    alone = report(ledger.data, ledger.head(), 1)
    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        OBSTACLES[obstacle](patch)
        assert report(ledger.data, ledger.head(), processes) == alone
    assert set(threading.enumerate()) <= before
    assert multiprocessing.active_children() == []
    assert alone["exit_code"] == 0


@pytest.mark.usefixtures("patient")
def test_others_do_part_of_the_work_and_none_fails_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that could not be sent to them would be done here, and nothing but the time would tell."""
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    crews: list[parallel._Crew] = []
    answer, close, answered = parallel._Pending.answer, parallel._Crew.close, queue.SimpleQueue[object]()

    def watched(self: parallel._Pending[Any, Any], result: object) -> None:
        answered.put(result)
        answer(self, result)

    def watched_close(self: parallel._Crew) -> None:
        assert all(worker.is_able() for worker in self._workers)
        crews.append(self)
        close(self)

    monkeypatch.setattr(parallel._Pending, "answer", watched)
    monkeypatch.setattr(parallel._Crew, "close", watched_close)
    ledger = small_ledger(80)
    assert report(ledger.data, ledger.head(), 3)["exit_code"] == 0
    assert answered.qsize() >= 1
    assert len(crews) == 1


def ask(crew: parallel._Crew, *arguments: Any) -> Any:
    """What another process makes of arguments, and nobody else."""
    pending = parallel._Pending(None, failing(AssertionError("done here")), arguments)
    assert crew.take(pending)
    return pending.result()


@pytest.mark.usefixtures("patient")
def test_one_process_works_on_piece_after_piece() -> None:
    with contextlib.closing(parallel._Crew(os.getpid, 1, 2)) as crew:
        others = {ask(crew) for _ in range(3)}
    assert len(others) == 1
    assert os.getpid() not in others


@pytest.mark.usefixtures("patient")
def test_the_number_of_a_worker_that_has_ended_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    with contextlib.closing(parallel._Crew(divmod, 1, 2)) as crew:
        assert ask(crew, 7, 2) == (3, 1)
        process = crew._workers[0]._process
        process.kill()
        wait([process.sentinel])
        monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))  # by now it may be that of a stranger
    assert killed == []


@pytest.mark.usefixtures("patient")
def test_pieces_lie_ready_for_a_worker_who_answers_in_turn() -> None:
    with contextlib.closing(parallel._Crew(divmod, 2, 3)) as crew:
        pieces = [parallel._Pending(number, divmod, (number, 7)) for number in range(9)]
        taken = [crew.take(piece) for piece in pieces]
        assert taken[:6] == [True] * 6, "three for each of two"
        assert [piece.result() for piece in pieces] == [divmod(number, 7) for number in range(9)]


def interrupts_come(_: object) -> bool:
    """Whether an interrupt would come through to this process."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("patient")
def test_an_interrupt_is_for_this_process_alone() -> None:
    with contextlib.closing(parallel._Crew(interrupts_come, 1, 2)) as crew:
        assert not ask(crew, 0)
    assert interrupts_come(0)


def large(data: bytes) -> bytes:
    """An answer that no line takes in at once."""
    return data


def test_a_pool_that_is_closed_while_it_starts_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun, go = parallel._Worker._start, threading.Event(), threading.Event()

    def slow(self: parallel._Worker) -> Any:
        begun.set()
        go.wait(30)
        return start(self)

    monkeypatch.setattr(parallel._Worker, "_start", slow)
    crew = parallel._Crew(large, 1, 2)
    pieces = [parallel._Pending(number, large, (bytes(1 << 20),)) for number in range(2)]
    assert [crew.take(piece) for piece in pieces] == [True, True]
    assert begun.wait(30)
    closing = threading.Thread(target=crew.close, daemon=True)
    closing.start()
    go.set()
    closing.join(30)
    assert not closing.is_alive()


def test_a_reader_who_leaves_early_leaves_nobody_behind() -> None:
    before = set(threading.enumerate())
    results = parallel.in_order(((number, (number, 2)) for number in range(50)), divmod, 2)
    assert next(results) == (0, (0, 0))
    del results
    assert set(threading.enumerate()) <= before
    assert multiprocessing.active_children() == []


def test_a_worker_answers_until_nobody_asks_or_its_work_fails(capfd: pytest.CaptureFixture[str]) -> None:
    for questions, answers in (([(7, 2)], [(3, 1)]), ([(7, 2), (1, 0), (9, 2)], [(3, 1)])):
        line, its_end = multiprocessing.Pipe()
        with line:
            for question in questions:
                line.send(question)
            with ThreadPoolExecutor(1) as pool:
                served = pool.submit(parallel.serve, its_end, divmod)
                got = [line.recv() for _ in answers]
                if questions[-1] == (7, 2):
                    line.close()
            assert served.result() is None
            assert got == answers
            assert its_end.closed
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("processes", [2, 3])
def test_what_is_wrong_with_a_piece_is_raised_here_and_not_swallowed(processes: int) -> None:
    results = parallel.in_order(((number, (1, 5 - number)) for number in range(9)), divmod, processes)
    with pytest.raises(ZeroDivisionError):
        list(results)
