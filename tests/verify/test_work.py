"""How the work is spread over processes, and what is asked of every line."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k3_ledger.verify import scan
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


class Lazy(concurrent.futures.Executor):
    """Does a piece of work only when its result is asked for, or breaks instead."""

    def __init__(self, broken: frozenset[int] = frozenset(), refused: int = 1 << 30) -> None:
        self.broken = broken
        self.refused = refused
        self.given = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Any:
        number, self.given = self.given, self.given + 1
        if number >= self.refused:
            raise BrokenProcessPool
        outer = self

        class Later(concurrent.futures.Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                del timeout
                if number in outer.broken:
                    raise BrokenProcessPool
                return work(*arguments)

        return Later()


@pytest.mark.parametrize(
    "pool", [Lazy(), Lazy(frozenset({0})), Lazy(frozenset({0, 1, 2, 3})), Lazy(refused=0), Lazy(refused=2)]
)
def test_slow_broken_and_refusing_pools_change_nothing_and_hold_few_chunks(
    pool: Lazy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", lambda *_, **__: pool)
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
    assert pool.given >= 3
    longest = 4000 + 1000 + 2000  # what was aimed at, a block, a line
    assert 3 * 4000 < ahead[0] <= 7 * longest


def test_other_faults_of_a_worker_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)

    class Failing(Lazy):
        def submit(self, work: Callable[..., Any], /, *arguments: Any, **_: Any) -> Any:
            del work, arguments
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_exception(ZeroDivisionError())
            return future

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", lambda *_, **__: Failing())
    ledger = small_ledger(80)
    with pytest.raises(ZeroDivisionError):
        report(ledger.data, ledger.head(), 2)
