"""A damaged log accuses nobody of a fork or a rollback; a history that was replaced is one, whatever else is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, RUNNER, Builder, Key, run_body, sign_head, small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

LEDGER = small_ledger(4)
SIZE = len(LEDGER.lines)
HEAD = LEDGER.head()
ACCUSING = {Code.FORK, Code.ROLLBACK, Code.CHECKPOINT_BEHIND, Code.CHAIN_FORK}
DISAGREEMENT = {Code.CHECKPOINT_ROOT, Code.CHECKPOINT_AHEAD}
"""What is said of the log's own heads, which commit to the lines as they were."""


def seen(*sizes: int) -> tuple[tuple[str, bytes], ...]:
    return tuple((f"memory {size}", sign_head(LEDGER.lines[:size])) for size in sizes)


def check(data: bytes, *remembered: int, chunk_bytes: int = 1 << 20, **more: Any) -> Report:
    options = Options(expected_heads=seen(*(remembered or (SIZE,))), chunk_bytes=chunk_bytes)
    return check_log(MemorySource(data, block=chunk_bytes, **({"checkpoint": HEAD} | more)), None, options)


def memory(report: Report) -> tuple[int, int, int]:
    (step,) = [step for step in report.steps if step.name == "memory"]
    return step.checked, step.failed, step.not_checked


def fork(at: int) -> Builder:
    """Another history from an entry on, by the log's own keys, as long as this one and longer."""
    other = Builder(LEDGER.lines[:at])
    for _ in range(at, SIZE + 2):
        other.add("run", run_body(77), RUNNER)
    return other


def test_the_log_extends_what_was_seen() -> None:
    report = check(LEDGER.data, 1, 5, SIZE)
    assert (report.exit_code, report.counts, memory(report)) == (0, {}, (3, 0, 0))


@pytest.mark.parametrize("bit", [0x01, 0x20])
def test_no_damaged_byte_accuses_anybody(bit: int) -> None:
    for at in range(0, len(LEDGER.data), 43):
        data = bytearray(LEDGER.data)
        data[at] ^= bit
        report = check(bytes(data), 2, 6, SIZE)
        assert report.exit_code == 1, at
        assert not ACCUSING & report.counts.keys(), (at, report.counts)
        line = LEDGER.data[:at].count(b"\n")
        checked, failed, open_ = memory(report)
        if line > 3:  # behind the entries that say which keys count
            assert (checked, failed, open_) == (1 + (line >= 6), 0, 2 - (line >= 6)), at


@pytest.mark.parametrize("number", range(SIZE))
def test_a_lost_line_feed_accuses_nobody(number: int) -> None:
    lines = [line[:-1] + b"\v" if at == number else line for at, line in enumerate(LEDGER.lines)]
    report = check(b"".join(lines))
    assert report.exit_code == 1
    assert not ACCUSING & report.counts.keys()


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 700])
@pytest.mark.parametrize("what", ["lost", "twice", "swapped"])
def test_entries_out_of_place_are_that_and_no_other_history(what: str, chunk_bytes: int) -> None:
    lines = list(LEDGER.lines)
    if what == "lost":
        del lines[5]
        lines.append(lines[-1])
    elif what == "twice":
        lines.insert(5, lines[5])
    else:
        lines[5:7] = lines[6], lines[5]
    report = check(b"".join(lines), chunk_bytes=chunk_bytes)
    assert report.exit_code == 1
    assert not (ACCUSING - {Code.CHAIN_FORK}) & report.counts.keys()
    assert memory(report) == (0, 0, 1)
    assert check(b"".join(lines), 5, chunk_bytes=chunk_bytes).counts.keys().isdisjoint(ACCUSING - {Code.CHAIN_FORK})


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 700])
@pytest.mark.parametrize("at", range(4, SIZE))
def test_another_history_of_entries_that_verify_is_a_fork(at: int, chunk_bytes: int) -> None:
    other = fork(at)
    report = check(other.data, checkpoint=other.head(), chunk_bytes=chunk_bytes)
    assert report.counts == {Code.FORK: 1}


def _beyond(other: Builder) -> None:
    other.lines[SIZE] = other.lines[SIZE].replace(b'"count":10', b'"count":11')


def _torn(other: Builder) -> None:
    other.lines.append(b'{"entry":{"body"')


def _strange(other: Builder) -> None:
    other.add("note", {"text": "x", "artifacts": []}, Key("stranger"))


@pytest.mark.parametrize("spoil", [_beyond, _torn, _strange])
def test_damage_behind_what_was_seen_hides_no_fork(spoil: Callable[[Builder], None]) -> None:
    other = fork(5)
    head = other.head()
    spoil(other)
    assert Code.FORK in check(other.data, checkpoint=head).counts


def test_damage_hides_no_fork_in_front_of_it() -> None:
    other = fork(5)
    head = other.head()
    other.lines[7] = other.lines[7].replace(b'"count":10', b'"count":11')
    report = check(other.data, 6, SIZE, checkpoint=head)
    assert report.counts[Code.FORK] == 1
    assert memory(report) == (1, 1, 1)


def test_a_signed_head_of_damaged_lines_is_the_logs_own_word_for_them() -> None:
    other = fork(5)
    other.lines[5] = other.lines[5].replace(b'"count":10', b'"count":11')
    report = check(other.data, SIZE, checkpoint=other.head())
    assert (report.counts[Code.FORK], memory(report)) == (1, (1, 1, 0))
    for signer in (JUDGE, Key("stranger")):
        assert Code.FORK not in check(other.data, SIZE, checkpoint=other.head(key=signer)).counts


@pytest.mark.parametrize("kept", [False, True])
def test_two_signed_heads_of_one_size_are_a_fork_whatever_is_damaged(kept: bool) -> None:
    other = fork(5)
    head, newest = sign_head(other.lines[:SIZE]), sign_head(other.lines)
    other.lines[4] = other.lines[4].replace(b'"count":10', b'"count":11')
    more = {"checkpoint": newest, "kept": (("checkpoints/000000000008.note", head),)} if kept else {"checkpoint": head}
    assert check(other.data, **more).counts[Code.FORK] == 1
    for signer in (JUDGE, Key("stranger")):
        forged = sign_head(other.lines[:SIZE], signer)
        assert Code.FORK not in check(other.data, checkpoint=forged).counts


def test_a_log_that_lacks_more_than_its_damage_took_was_rolled_back() -> None:
    lines = LEDGER.lines[: SIZE - 1]
    assert Code.ROLLBACK in check(b"".join(lines)).counts
    lines[5] = lines[5].replace(b'"count":10', b'"count":11')
    assert Code.ROLLBACK in check(b"".join(lines)).counts
    glued = LEDGER.lines[: SIZE - 1]
    glued[5] = glued[5][:-1] + b"\v"
    report = check(b"".join(glued))
    assert (Code.ROLLBACK in report.counts, Code.FORK in report.counts) == (True, False)


def test_a_log_that_signed_a_head_as_large_does_not_show_an_older_one_whatever_is_damaged() -> None:
    lines = list(LEDGER.lines)
    lines[6] = lines[6].replace(b'"count":10', b'"count":11')
    assert Code.CHECKPOINT_BEHIND not in check(b"".join(lines), 5).counts
    older = sign_head(LEDGER.lines[:4])
    assert Code.CHECKPOINT_BEHIND in check(b"".join(lines), 5, checkpoint=older).counts
    assert Code.CHECKPOINT_BEHIND in check(LEDGER.data, 5, checkpoint=sign_head(LEDGER.lines, LOG, size=3)).counts


@pytest.mark.parametrize("signer", [LOG, RUNNER, Key("stranger")], ids=lambda key: key.seed)
def test_a_proof_forks_a_log_only_with_a_head_that_the_log_signed(signer: Key) -> None:
    other = Builder(fork(5).lines[:SIZE])
    source = MemorySource(other.data, checkpoint=sign_head(other.lines, signer))
    report = check_proof(format_proof(prove_entry(source, 6)), "p", None, seen(SIZE))
    assert report.exit_code == 1
    assert (Code.FORK in report.counts) is (signer is LOG)
    assert memory(report) == ((1, 1, 0) if signer is LOG else (0, 0, 1))
