"""Who reads along hears of every entry that is good by itself, in order, and of nothing once the log is false."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.along import ChunkReader, Companion
from k3_ledger.verify.log import Options, check_log, verify_log
from k3_ledger.verify.report import VerificationError
from k3_ledger.verify.source import MemorySource
from tests.ledgers import RUNNER, Builder, run_body, small_ledger

if TYPE_CHECKING:
    from k3_ledger.verify.log import VerifiedLog


class Indices:
    """Reads the index that each entry states."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []

    def take(self, offset: int, entry: Any) -> None:
        self.read.append((offset, entry.index))

    def finish(self) -> list[tuple[int, int]]:
        return self.read


class Listener:
    """Remembers what it was told."""

    start = Indices

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.chunks: list[bytes] = []
        self.log: VerifiedLog | None = None

    def take(self, first_line: int, chunk: bytes, read: list[tuple[int, int]]) -> None:
        assert [first_line + offset for offset, _ in read] == [index for _, index in read]
        self.heard += [index for _, index in read]
        self.chunks.append(chunk)

    def verified(self, log: VerifiedLog) -> None:
        self.log = log


def listen(builder: Builder, **options: Any) -> tuple[Listener, VerifiedLog | None]:
    listener = Listener()
    chosen = Options(companion=listener, chunk_bytes=2000, **options)
    try:
        return listener, verify_log(MemorySource(builder.data, block=500), None, chosen)
    except VerificationError:
        return listener, None


@pytest.mark.parametrize("processes", [1, 2])
def test_every_entry_is_read_once_in_order(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3_ledger.verify.scan.PARALLEL_BYTES", 0)
    ledger = small_ledger(20)
    listener, log = listen(ledger, processes=processes)
    assert listener.heard == list(range(24))
    assert b"".join(listener.chunks) == ledger.data
    assert len(listener.chunks) > 3
    assert log is not None
    assert listener.log is log


def test_once_a_line_is_false_nothing_is_handed_on() -> None:
    ledger = small_ledger(20)
    ledger.lines[12] = ledger.lines[12].replace(b'"count":10', b'"count":11')
    listener, log = listen(ledger)
    assert (log, listener.log) == (None, None)
    assert listener.heard == list(range(listener.heard[-1] + 1))
    assert 0 < listener.heard[-1] < 12
    assert hashlib.sha256(b"".join(listener.chunks)).digest() != hashlib.sha256(ledger.data).digest()


def test_a_receipt_that_is_wrong_by_itself_is_not_read() -> None:
    """Nor is one whose signature does not hold: whatever reads along may rely on both."""
    ledger = Builder().open()
    body = run_body(4)
    body["bundle"] = "f" * 64
    ledger.add("run", body, RUNNER, seal=False)
    ledger.runs(1)
    ledger.lines.append(ledger.lines[-1].replace(b'"count":10', b'"count":11'))
    reader = Indices()
    from k3_ledger.verify.chunks import Chunker
    from k3_ledger.verify.scan import Joiner, Scan
    from k3_ledger.verify.work import check_chunk

    (chunk,) = Chunker([ledger.data])
    joiner = Joiner(Scan(), ())
    joiner.enrol(chunk)
    result = check_chunk(chunk, (), joiner.keys, lambda: reader)
    assert [index for _, index in result.read] == [0, 1, 2, 3, 5]
    assert [position for position, _, _ in result.faulty] == [4]
    assert result.counts["signatures"][1] == 1


def test_a_report_without_a_verified_log_tells_nobody() -> None:
    listener = Listener()
    assert check_log(MemorySource(small_ledger(2).data), None, Options(companion=listener)).exit_code == 0
    assert listener.log is None


@pytest.mark.parametrize(("role", "made"), [(ChunkReader, Indices), (Companion, Listener)])
def test_whoever_reads_along_here_is_all_that_one_has_to_be(role: type, made: type) -> None:
    assert {name for name in vars(role) if not name.startswith("_")} <= set(dir(made))
