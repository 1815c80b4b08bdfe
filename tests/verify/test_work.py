"""How the work is spread over processes, and what is asked of every line."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import queue
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
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
    """Others who do a piece of work only when its result is asked for, or fail instead."""

    def __init__(self, broken: frozenset[int] = frozenset(), refused: int = 1 << 30, begun: bool = True) -> None:
        self.broken = broken
        self.refused = refused
        self.begun = begun
        self.given = 0
        self.in_vain = False
        self.work: Callable[..., Any]

    def __call__(self, work: Callable[..., Any], size: int) -> Lazy:
        assert size == 1
        self.work = work
        return self

    def submit(self, arguments: tuple[Any, ...]) -> Future[Any]:
        number, self.given = self.given, self.given + 1
        if number >= self.refused:
            raise RuntimeError(NO_THREAD)
        outer = self

        class Later(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                del timeout
                outer.in_vain |= not outer.begun
                if number in outer.broken:
                    raise EOFError
                return outer.work(*arguments)

        later = Later()
        if self.begun:
            later.set_running_or_notify_cancel()
        return later

    def close(self) -> None:
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
    monkeypatch.setattr(parallel, "_Crew", POOLS[pool])
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
    assert 3 * 4000 < ahead[0] <= 7 * longest


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
    "no memory in a thread": lambda patch: patch.setattr(parallel._Worker, "ask", failing(MemoryError())),
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


def test_others_do_part_of_the_work_and_none_fails_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that could not be sent to them would be done here, and nothing but the time would tell."""
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    ask, answered, failed = parallel._Worker.ask, queue.SimpleQueue[object](), queue.SimpleQueue[Exception]()

    def watched(self: parallel._Worker, arguments: tuple[Any, ...]) -> Any:
        try:
            answer = ask(self, arguments)
        except Exception as error:
            failed.put(error)
            raise
        answered.put(answer)
        return answer

    monkeypatch.setattr(parallel._Worker, "ask", watched)
    ledger = small_ledger(80)
    assert report(ledger.data, ledger.head(), 3)["exit_code"] == 0
    assert answered.qsize() >= 1
    assert failed.empty()


def test_one_process_works_on_piece_after_piece() -> None:
    with contextlib.closing(parallel._Crew(os.getpid, 1)) as crew:
        others = {crew.submit(()).result() for _ in range(3)}
    assert len(others) == 1
    assert os.getpid() not in others


def test_the_number_of_a_worker_that_has_ended_is_let_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    with contextlib.closing(parallel._Crew(divmod, 1)) as crew:
        assert crew.submit((7, 2)).result() == (3, 1)
        process = crew._workers[0]._process
        process.kill()
        wait([process.sentinel])
        monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))  # by now it may be that of a stranger
    assert killed == []


def interrupts_come(_: object) -> bool:
    """Whether an interrupt would come through to this process."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_an_interrupt_is_for_this_process_alone() -> None:
    with contextlib.closing(parallel._Crew(interrupts_come, 1)) as crew:
        assert not crew.submit((0,)).result()
    assert interrupts_come(0)


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
