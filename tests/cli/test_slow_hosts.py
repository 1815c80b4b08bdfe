"""A host that sends byte by byte is left, by a clock that the test moves; one that is slow and gets there is not."""

from __future__ import annotations

import gzip
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app, remote
from k3_ledger.cli.remote import LEAST_RATE, SLOW_SECONDS
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledgers import ROOT, small_ledger
from tests.static_host import ledger_files, mirror_files, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tests.static_host import Handler

pytest.importorskip("fsspec", reason="the extra k3-ledger[remote] is not installed")
pytest.importorskip("aiohttp", reason="the extra k3-ledger[remote] is not installed")


class Clock:
    """Stands still but for what moves it; each look may cost something."""

    def __init__(self, each: float = 0.0) -> None:
        self.now, self.each = 0.0, each

    def __call__(self) -> float:
        self.now += self.each
        return self.now


class Slow:
    """Gives at most ``count`` bytes at a time, each after ``wait`` seconds."""

    def __init__(self, clock: Clock, data: bytes, count: int, wait: float, encoding: str = "identity") -> None:
        self.clock, self.data, self.count, self.wait = clock, data, count, wait
        self.r = SimpleNamespace(headers={"Content-Encoding": encoding})
        self.given = 0

    def read(self, count: int) -> bytes:
        self.clock.now += self.wait
        part = self.data[self.given : self.given + min(count, self.count)]
        self.given += len(part)
        return part


def fail(name: str, error: Exception) -> NoReturn:
    raise AssertionError(name) from error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(remote, "_now", made)
    return made


def read_all(slow: Slow, between: float = 0.0) -> bytes:
    stream, parts = remote._Stream(slow, "host/ledger.jsonl", fail), []
    while part := stream.read(1 << 20):
        parts.append(part)
        slow.clock.now += between
    return b"".join(parts)


@pytest.mark.parametrize(("count", "wait"), [(1, 3), (1, 59), (100, 1), (LEAST_RATE - 1, 1), (60_000, 61), (1, 0.001)])
def test_what_is_slower_than_the_least_rate_is_left_within_two_windows(clock: Clock, count: int, wait: float) -> None:
    slow = Slow(clock, bytes(200_000), count, wait)
    with pytest.raises(StoreError) as caught:
        read_all(slow)
    found = caught.value.finding
    assert (found.code, found.position.source) == (Code.REMOTE_UNREADABLE, "host/ledger.jsonl")
    assert (found.expected, found.found) == (
        "at least 1,024 bytes a second",
        f"{slow.given:,} bytes in {clock.now:,.0f} s",
    )
    assert "copy it to this machine" in found.advice
    assert clock.now <= SLOW_SECONDS + wait + 1


@pytest.mark.parametrize(("count", "wait"), [(LEAST_RATE, 1), (1 << 20, 59), (122_880, 60), (1 << 16, 0), (1, 0.0001)])
def test_what_is_slow_and_gets_there_is_read(clock: Clock, count: int, wait: float) -> None:
    data = bytes(range(250)) * 800
    assert read_all(Slow(clock, data, count, wait)) == data


def test_what_was_fast_before_is_no_credit(clock: Clock) -> None:
    slow = Slow(clock, bytes(10_000_000), 5_000_000, 1)
    stream = remote._Stream(slow, "host/ledger.jsonl", fail)
    assert len(stream.read(5_000_000) or b"") == 5_000_000
    slow.count, slow.wait = 1, 30
    with pytest.raises(StoreError):
        stream.readall()
    assert slow.given < 5_000_010


def test_a_short_file_that_ends_is_read_however_it_came(clock: Clock) -> None:
    assert read_all(Slow(clock, b"head", 4, 59)) == b"head"


def test_time_that_the_reader_takes_is_not_the_hosts(clock: Clock) -> None:
    assert read_all(Slow(clock, bytes(100), 1, 0.1), between=3600) == bytes(100)


def test_what_is_packed_is_counted_as_it_comes(clock: Clock) -> None:
    packed = gzip.compress(bytes(50_000_000))
    with pytest.raises(StoreError, match="so slowly"):
        read_all(Slow(clock, packed, 1, 3, "gzip"))


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("files", [ledger_files, mirror_files], ids=["ledger", "mirror"])
def test_a_verification_of_a_host_that_dribbles_ends_and_is_no_verdict(
    files: Callable[..., dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_now", Clock(each=1000))
    with serve(files(small_ledger(40))) as host:
        result = k3("verify", host.address, "--root-key", ROOT.public.hex())
    assert isinstance(result.exception, LedgerError)
    assert result.exception.code is Code.REMOTE_UNREADABLE
    assert result.exception.finding.expected == "at least 1,024 bytes a second"


def test_a_host_whose_answer_never_begins_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.05)
    over = threading.Event()

    def keep_waiting(handler: Handler, data: bytes | None) -> None:
        over.wait()
        handler.close_connection = True

    with serve(ledger_files(small_ledger(1))) as host:
        for path in [*host.files, ""]:
            host.faults[path] = keep_waiting
        try:
            result = k3("verify", host.address)
        finally:
            over.set()
    assert isinstance(result.exception, LedgerError)
    assert result.exception.code is Code.REMOTE_UNREADABLE
    assert "no answer has begun within 0.05 s" in str(result.exception)


def test_what_an_answer_raises_is_raised_where_it_was_asked_for() -> None:
    def ask() -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        remote._within(10, ask)
    assert remote._within(10, lambda: 7) == 7
