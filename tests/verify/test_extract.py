"""Some entries of a log with heads and timestamps beside them: they are held to what the whole log would be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.extract import check_extract
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.prove import prove_entry, prove_extension, prove_extensions
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.timestamps import REPLY_TYPE
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, Key, run_body, sign_head, small_ledger
from tests.verify.test_timestamps import NOON, POLICY, reader, token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from k3_ledger.verify.report import Report

SAMPLES = b"samples"
OLD = 7


def artifact(data: bytes, name: str, media_type: str) -> dict[str, object]:
    return {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "media_type": media_type}


def stamp_of(data: bytes) -> bytes:
    return b"%d CN=a " % NOON + hashlib.sha256(data).digest()


def whole(
    ledger: Builder, old: bytes | None, tokens: dict[str, bytes], blobs: tuple[bytes, ...] = (), **options: object
) -> tuple[Report, Report]:
    """What is said of a log, and of an extract with its entries 5 and the last, the same heads and tokens."""
    policy = replace(POLICY, **options)  # type: ignore[arg-type]
    kept = [] if old is None else [("checkpoints/000000000007.note", old)]
    source = MemorySource(
        ledger.data,
        checkpoint=ledger.head(),
        kept=kept,
        tokens=tokens.items(),
        artifacts={hashlib.sha256(blob).hexdigest(): blob for blob in blobs},
    )
    entries = (5, len(ledger.lines) - 1)
    proofs = [(f"proofs/{index:012d}.proof", format_proof(prove_entry(source, index))) for index in entries]
    older = []
    if old is not None:
        file = prove_extension(source, sign_head(ledger.lines[:OLD]), ledger.head())
        older = [("consistency/000000000007.proof", format_consistency(replace(file, old=old)))]
    given = Options(read_token=reader)
    return check_log(source, policy, given), check_extract(proofs, older, source, policy, given)


def step(report: Report, name: str) -> tuple[str, int, int, int]:
    (found,) = [item for item in report.steps if item.name == name]
    return str(found.outcome), found.checked, found.failed, found.not_checked


LINES = small_ledger().lines
HEADS: dict[str, tuple[Callable[[], bytes], int]] = {
    "the log's own": (lambda: sign_head(LINES[:OLD]), 0),
    "another history by the log's own key": (lambda: sign_head([*LINES[:6], LINES[8]]), 1),
    "a stranger's": (lambda: sign_head(LINES[:OLD], Key("nobody")), 1),
    "by a key of another role": (lambda: sign_head(LINES[:OLD], JUDGE), 1),
    "of another log": (lambda: sign_head(LINES[:OLD], origin="example.org/other"), 1),
    "before its key was enrolled": (lambda: sign_head(LINES[:1]), 1),
    "nothing": (lambda: b"junk\n", 1),
    "cut off": (lambda: sign_head(LINES[:OLD])[:-20], 1),
}


@pytest.mark.parametrize("case", HEADS)
def test_an_older_head_is_held_to_the_same_in_an_extract_as_beside_the_log(case: str) -> None:
    made, expected = HEADS[case]
    of_log, of_extract = whole(small_ledger(), made(), {})
    assert (of_log.exit_code, of_extract.exit_code) == (expected, expected)
    assert (step(of_log, "checkpoint")[2] > 0) == (step(of_extract, "checkpoint")[2] > 0) == bool(expected)


def test_two_faces_in_one_file_are_found() -> None:
    """The log key signed both, so this is evidence, and no one reads it but the auditor."""
    fork = sign_head([*LINES[:6], LINES[8]])
    _, report = whole(small_ledger(), fork, {})
    assert report.counts == {Code.CONSISTENCY_MISMATCH: 1}


TOKENS: dict[str, tuple[bytes, int, tuple[str, int, int, int]]] = {
    "of the newest head": (token(sign_head(LINES)), 0, ("pass", 1, 0, 0)),
    "of an older head": (token(sign_head(LINES[:OLD])), 0, ("pass", 1, 0, 0)),
    "of a head that is not here": (token(sign_head(LINES[:6])), 4, ("not-checked", 0, 0, 1)),
    "that does not hold": (b"TIMESTAMP_BAD", 1, ("fail", 1, 1, 0)),
    "by a stranger": (b"TIMESTAMP_UNTRUSTED", 4, ("not-checked", 0, 0, 1)),
    "that is none": (b"TIMESTAMP_UNREADABLE", 4, ("not-checked", 0, 0, 1)),
}


@pytest.mark.parametrize("case", TOKENS)
def test_a_timestamp_is_held_to_the_same_in_an_extract_as_beside_the_log(case: str) -> None:
    data, expected, counts = TOKENS[case]
    for report in whole(small_ledger(), sign_head(LINES[:OLD]), {"t": data}, require=frozenset({"timestamps"})):
        assert (report.exit_code, tuple(map(str, step(report, "timestamps")))) == (expected, tuple(map(str, counts)))
        assert len(report.stamps) == (counts[0] == "pass")


@pytest.mark.parametrize(
    ("data", "expected", "bounds"),
    [(stamp_of(SAMPLES), 0, 1), (stamp_of(b"others"), 0, 0), (b"TIMESTAMP_BAD", 1, 0), (b"TIMESTAMP_UNTRUSTED", 0, 0)],
)
def test_a_timestamp_among_the_artifacts_of_a_proved_entry_is_read(data: bytes, expected: int, bounds: int) -> None:
    ledger = small_ledger()
    named = [artifact(SAMPLES, "samples", "text/plain"), artifact(data, "stamp", REPLY_TYPE)]
    ledger.add("run", run_body(90, artifacts=named), RUNNER)
    reports = whole(ledger, sign_head(LINES[:OLD]), {}, (SAMPLES, data))
    for report in reports:
        assert (report.exit_code, len(report.artifact_stamps)) == (expected, bounds)
    assert step(reports[0], "timestamps") == step(reports[1], "timestamps")


def test_what_is_over_a_head_that_does_not_hold_bounds_nothing() -> None:
    fork = sign_head([*LINES[:6], LINES[8]])
    for report in whole(small_ledger(), fork, {"t": token(fork)}):
        assert (report.stamps, step(report, "timestamps")) == ((), ("not-checked", 0, 0, 1))


def test_nothing_follows_from_a_head_where_a_proof_does_not_hold() -> None:
    ledger = small_ledger()
    other = Builder(list(ledger.lines))
    other.lines[5] = ledger.lines[6]
    source = MemorySource(other.data, checkpoint=ledger.head(), tokens=[("t", token(ledger.head()))])
    proof = format_proof(prove_entry(MemorySource(ledger.data, checkpoint=ledger.head()), 5))
    broken = proof.replace(b'"index":5,"line"', b'"index":6,"line"').replace(b'"subject":5', b'"subject":6')
    report = check_extract([("p", broken)], [], source, POLICY, Options(read_token=reader))
    assert (report.exit_code, report.stamps) == (1, ())


def test_authenticated_is_who_every_file_says_so_of() -> None:
    assert whole(small_ledger(), sign_head(LINES[:OLD]), {})[1].authenticated
    assert not whole(small_ledger(), sign_head(LINES[:OLD]), {}, root_public_key=LOG.public)[1].authenticated


def test_the_earliest_bound_of_each_size_counts() -> None:
    tokens = {"a": token(sign_head(LINES), NOON + 9), "b": token(sign_head(LINES[:OLD]), NOON)}
    for report in whole(small_ledger(), sign_head(LINES[:OLD]), tokens):
        assert [(bound.size, bound.timestamp) for bound in report.stamps] == [(10, NOON + 9), (OLD, NOON)]


def test_without_a_policy_timestamps_are_counted() -> None:
    ledger = small_ledger()
    source = MemorySource(ledger.data, checkpoint=ledger.head(), tokens=[("t", token(ledger.head()))])
    proof = format_proof(prove_entry(source, 5))
    for policy in (None, TrustPolicy(ROOT.public)):
        report = check_extract([("p", proof)], [], source, policy, Options(artifacts=False, read_token=reader))
        assert (report.exit_code, step(report, "timestamps")) == (0, ("not-checked", 0, 0, 1))


def test_many_heads_are_proved_in_as_many_passes_as_one() -> None:
    """A file for each of a thousand kept heads took three passes over the log each."""
    ledger = small_ledger(40)
    new = ledger.head()
    olds = [sign_head(ledger.lines[:size]) for size in range(5, 40)]
    fork = sign_head([*ledger.lines[:8], ledger.lines[9]])
    passes = 0

    class Counted(MemorySource):
        def blocks(self) -> Iterator[bytes]:
            nonlocal passes
            passes += 1
            return super().blocks()

    source = Counted(ledger.data, checkpoint=new)
    files = prove_extensions(source, [*olds, fork], new)
    assert passes == 3
    assert files == {old: prove_extension(source, old, new) for old in olds}
    assert prove_extensions(MemorySource(b"".join(ledger.lines[:9])), olds, new) == {}


def test_a_head_that_rests_on_too_many_entries_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = small_ledger(3)
    old, new = sign_head(ledger.lines[:OLD]), ledger.head()
    assert list(prove_extensions(MemorySource(ledger.data), [old], new)) == [old]
    monkeypatch.setattr("k3_ledger.verify.prove.MAX_ENTRIES", 1)
    assert prove_extensions(MemorySource(ledger.data), [old], new) == {}
