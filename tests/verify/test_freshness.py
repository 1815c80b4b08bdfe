"""A head that does not move: whose clock says so, and what nobody's clock can say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.freshness import Clock
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry, prove_heads
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ROOT, sign_head, small_ledger
from tests.verify.test_witnesses import DAY, HEAD, NOON, SIZE, W1, W2, W3, cosigned, policy

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report, StepResult
    from tests.reference.naive_note import NoteKey

LIMIT = 7 * DAY
ALONE = TrustPolicy(ROOT.public, maximum_head_age_seconds=LIMIT)
OWN = "the reader's own clock"


def witnessed(quorum: int = 2) -> TrustPolicy:
    return policy(quorum, W1, W2, W3, maximum_head_age_seconds=LIMIT)


def check(trust: TrustPolicy, clock: Clock | None, note: bytes | None = HEAD, **more: Any) -> Report:
    return check_log(MemorySource(small_ledger().data, checkpoint=note, **more), trust, Options(clock=clock))


def step(report: Report) -> StepResult:
    return report.steps[5]


def frozen(report: Report) -> str:
    """What the one finding says about when there was a last sign of life."""
    assert set(report.counts) == {Code.HEAD_FROZEN}
    assert (report.exit_code, step(report).outcome) == (ExitCode.FALSE, Outcome.FAIL)
    found = report.findings[0].found
    assert found is not None
    return found


# ----------------------------------------------------------------------------------------------- the reader's clock


@pytest.mark.parametrize(("age", "is_frozen"), [(0, False), (LIMIT, False), (LIMIT + 1, True), (10 * LIMIT, True)])
def test_a_head_that_the_reader_saw_long_ago_and_sees_again_is_frozen(age: int, is_frozen: bool) -> None:
    report = check(ALONE, Clock(NOON + age, SIZE, NOON))
    if is_frozen:
        assert frozen(report) == f"2026-01-01T12:00:00Z according to {OWN}"
        assert str(age) in report.findings[0].message
    else:
        assert (report.exit_code, report.counts) == (0, {})
        assert f"newest head of 2026-01-01T12:00:00Z according to {OWN}" in step(report).detail


def test_a_head_that_moved_is_of_this_moment() -> None:
    report = check(ALONE, Clock(NOON + 10 * LIMIT, SIZE - 1, NOON))
    assert (report.exit_code, step(report).checked, step(report).outcome) == (0, 2, Outcome.PASS)


def test_a_fresh_head_is_no_remembered_one() -> None:
    report = check(replace(ALONE, require=frozenset({"memory"})), Clock(NOON, 0, NOON))
    assert (report.steps[6].outcome, report.exit_code) == (Outcome.NOT_CHECKED, ExitCode.NOT_CHECKED)


def test_an_older_head_than_the_remembered_one_is_no_sign_of_life() -> None:
    assert frozen(check(ALONE, Clock(NOON + LIMIT + 1, SIZE + 1, NOON)))


def test_the_claimed_time_of_entries_is_never_looked_at() -> None:
    """Every entry claims a time long before; only the reader's own clock counts."""
    assert check(ALONE, Clock(NOON + 1000 * DAY, SIZE, NOON + 1000 * DAY)).exit_code == 0


def test_a_policy_without_a_limit_asks_no_clock() -> None:
    for clock in (None, Clock(NOON + 1000 * DAY, SIZE, 0)):
        report = check(replace(ALONE, maximum_head_age_seconds=None), clock)
        assert (report.exit_code, step(report).checked, "newest head of" in step(report).detail) == (0, 1, False)
    assert check_log(MemorySource(small_ledger().data), None, Options(clock=Clock(NOON))).exit_code == 0


# -------------------------------------------------------------------------------------------------- cosignatures


def test_cosignatures_say_how_old_a_head_is_and_the_readers_clock_is_not_asked() -> None:
    note = cosigned(HEAD, (W1, NOON), (W2, NOON + 60))
    report = check(witnessed(), Clock(NOON + LIMIT, SIZE, 0), note)
    assert (report.exit_code, report.counts) == (0, {})
    assert f"newest head of 2026-01-01T12:00:00Z according to {W2.name}, {W1.name}" in step(report).detail
    report = check(witnessed(), Clock(NOON + LIMIT + 1, 0, NOON + LIMIT + 1), note)
    assert frozen(report) == f"2026-01-01T12:00:00Z according to {W2.name}, {W1.name}"


def test_a_quiet_log_that_is_cosigned_again_is_fresh() -> None:
    """An old quorum stands on the kept copy; the newest one vouches for the same head later."""
    again = cosigned(HEAD, (W1, NOON + 30 * DAY), (W3, NOON + 31 * DAY))
    old = [(f"checkpoints/{SIZE:012}.note", cosigned(HEAD, (W1, NOON), (W2, NOON)))]
    assert check(witnessed(), Clock(NOON + 32 * DAY), again, kept=old).exit_code == 0
    assert frozen(check(witnessed(), Clock(NOON + 32 * DAY), old[0][1]))
    swapped = [(f"checkpoints/{SIZE:012}.note", again)]
    assert check(witnessed(), Clock(NOON + 32 * DAY), old[0][1], kept=swapped).exit_code == 0


def test_a_newer_word_beside_an_older_one_keeps_a_head_fresh() -> None:
    both = cosigned(HEAD, (W1, NOON), (W2, NOON), (W1, NOON + 30 * DAY), (W2, NOON + 31 * DAY))
    report = check(witnessed(), Clock(NOON + 32 * DAY), both)
    assert (report.exit_code, report.bounds[0].timestamp) == (0, NOON)
    assert frozen(check(witnessed(), Clock(NOON + 38 * DAY), both)).startswith("2026-01-31T12:00:00Z")


def test_one_witness_of_two_does_not_keep_a_head_fresh() -> None:
    note = cosigned(HEAD, (W1, NOON), (W2, NOON + 30 * DAY))
    assert frozen(check(witnessed(), Clock(NOON + 30 * DAY), note)).startswith("2026-01-01T12:00:00Z")
    assert check(witnessed(1), Clock(NOON + 30 * DAY), note).exit_code == 0


def test_two_witnesses_of_one_operator_are_one_sign_of_life() -> None:
    trust = policy(2, W1, W2, W3, operators=("one", "one", "two"), maximum_head_age_seconds=LIMIT)
    note = cosigned(HEAD, (W1, NOON + 30 * DAY), (W2, NOON + 30 * DAY), (W3, NOON))
    report = check(trust, Clock(NOON + 30 * DAY), note)
    assert Code.HEAD_FROZEN in report.counts


def test_a_cosignature_of_an_older_head_keeps_nothing_fresh() -> None:
    lines = small_ledger().lines[:-1]
    kept = [
        (f"checkpoints/{len(lines):012}.note", cosigned(sign_head(lines), (W1, NOON + 30 * DAY), (W2, NOON + 30 * DAY)))
    ]
    note = cosigned(HEAD, (W1, NOON), (W2, NOON))
    assert frozen(check(witnessed(), Clock(NOON + 30 * DAY), note, kept=kept))


FOR_EVER = 2**62


@pytest.mark.parametrize("ahead", [301, 3600, 2**40, FOR_EVER])
def test_a_word_from_the_future_hides_no_honest_one(ahead: int) -> None:
    for trust, others in ((witnessed(1), ((W1, NOON - 100),)), (witnessed(2), ((W1, NOON - 100), (W3, NOON - 90)))):
        note = cosigned(HEAD, *others, (W2, NOON + ahead))
        report = check(trust, Clock(NOON), note)
        assert (report.exit_code, step(report).outcome) == (0, Outcome.PASS)
        assert W2.name not in step(report).detail.partition("according to")[2]


@pytest.mark.parametrize("ahead", [301, 3600, FOR_EVER])
def test_a_witness_that_was_once_ahead_does_not_lose_its_other_word(ahead: int) -> None:
    note = cosigned(HEAD, (W1, NOON - 100), (W1, NOON + ahead))
    assert check(witnessed(1), Clock(NOON), note).exit_code == 0


@pytest.mark.parametrize("ahead", [301, FOR_EVER])
def test_a_word_from_the_future_keeps_no_head_fresh_and_accuses_none(ahead: int) -> None:
    old = (W1, NOON - LIMIT - 1)
    for note in (cosigned(HEAD, old, (W2, NOON + ahead)), cosigned(HEAD, old, (W1, NOON + ahead))):
        report = check(witnessed(1), Clock(NOON), note)
        assert (report.exit_code, set(report.counts)) == (4, {Code.REQUIRED_NOT_CHECKED})
    assert frozen(check(witnessed(1), Clock(NOON), cosigned(HEAD, old)))
    both = cosigned(HEAD, old, (W3, NOON - LIMIT - 2), (W2, NOON + ahead))
    assert frozen(check(witnessed(2), Clock(NOON), both)), "it takes a quorum to say so, and only one is ahead"


@pytest.mark.parametrize("ahead", [301, FOR_EVER])
@pytest.mark.parametrize("before", [(), ((W1, NOON - LIMIT - 1),)])
def test_a_quorum_that_would_be_in_time_with_one_word_from_the_future_is_not_called_anything(
    before: tuple[tuple[NoteKey, int], ...], ahead: int
) -> None:
    note = cosigned(HEAD, *before, (W1, NOON + ahead), (W3, NOON - 100))
    report = check(witnessed(2), Clock(NOON), note)
    assert (report.exit_code, set(report.counts)) == (4, {Code.REQUIRED_NOT_CHECKED})
    assert W1.name in str(report.findings[-1].found)


@pytest.mark.parametrize("ahead", [0, 1, 300])
def test_a_little_ahead_is_the_present(ahead: int) -> None:
    report = check(witnessed(1), Clock(NOON), cosigned(HEAD, (W1, NOON + ahead)))
    assert (report.exit_code, report.counts) == (0, {})
    assert "newest head of 2026-01-01T12:00:00Z according to" in step(report).detail


# --------------------------------------------------------------------------------------- what cannot be told is said


def test_of_two_clocks_that_disagree_it_is_not_said_which_one_is_wrong() -> None:
    ahead = check(witnessed(), Clock(NOON - 301), cosigned(HEAD, (W1, NOON), (W2, NOON)))
    own = check(ALONE, Clock(NOON - 1, SIZE, NOON), HEAD)
    (said,), (mine,) = (
        [one.advice for one in report.findings if one.code is Code.REQUIRED_NOT_CHECKED] for report in (ahead, own)
    )
    assert said.startswith("one of the clocks is wrong: hold this machine's against a third one")
    assert mine == "this machine's clock was set back since the memory was kept: set it right"


@pytest.mark.parametrize(
    ("trust", "clock", "note", "found"),
    [
        (ALONE, None, HEAD, "no clock"),
        (ALONE, Clock(NOON), HEAD, "neither"),
        (ALONE, Clock(NOON, SIZE, NOON), None, "no good head"),
        (ALONE, Clock(NOON - 1, SIZE, NOON), HEAD, "2026-01-01T12:00:00Z according to the reader's own clock"),
        (witnessed(), Clock(NOON - 301), cosigned(HEAD, (W1, NOON), (W2, NOON)), "2026-01-01T12:00:00Z according to"),
    ],
    ids=["no clock", "first visit, nobody", "no head", "own clock set back", "clock before the witnesses"],
)
def test_an_age_that_cannot_be_told_is_not_called_fresh(
    trust: TrustPolicy, clock: Clock | None, note: bytes | None, found: str
) -> None:
    report = check(trust, clock, note)
    assert Code.REQUIRED_NOT_CHECKED in report.counts
    assert Code.HEAD_FROZEN not in report.counts
    finding = next(finding for finding in report.findings if finding.code is Code.REQUIRED_NOT_CHECKED)
    assert found in (finding.found or "")
    assert step(report).not_checked == (1 if note else 2)
    assert step(report).outcome is Outcome.NOT_CHECKED
    assert report.exit_code == ExitCode.NOT_CHECKED


def test_a_head_that_the_log_did_not_sign_is_no_sign_of_life() -> None:
    report = check(ALONE, Clock(NOON, 0, NOON), sign_head(small_ledger().lines, ROOT))
    assert set(report.counts) == {Code.CHECKPOINT_SIGNATURE}  # whether it is fresh is then no second fault


def test_a_proof_is_held_to_the_age_of_its_head() -> None:
    note = cosigned(HEAD, (W1, NOON), (W2, NOON))
    proof = format_proof(prove_entry(MemorySource(small_ledger().data, checkpoint=note), 4))
    assert check_proof(proof, "p", witnessed(), clock=Clock(NOON + LIMIT)).exit_code == 0
    assert Code.HEAD_FROZEN in check_proof(proof, "p", witnessed(), clock=Clock(NOON + LIMIT + 1)).counts
    assert check_proof(proof, "p", witnessed()).exit_code == ExitCode.NOT_CHECKED
    assert check_proof(proof, "p", policy(2, W1, W2)).exit_code == 0


def test_a_consistency_file_is_held_to_the_age_of_its_newer_head() -> None:
    lines = small_ledger().lines
    old = (f"checkpoints/{8:012}.note", cosigned(sign_head(lines[:8]), (W1, NOON + LIMIT), (W2, NOON + LIMIT)))
    note = cosigned(HEAD, (W1, NOON), (W2, NOON))
    source = MemorySource(small_ledger().data, checkpoint=note, kept=[old])
    data = format_consistency(prove_heads(source, 8, SIZE))
    assert check_consistency_file(data, "c", witnessed(), clock=Clock(NOON + LIMIT)).exit_code == 0
    assert Code.HEAD_FROZEN in check_consistency_file(data, "c", witnessed(), clock=Clock(NOON + LIMIT + 1)).counts
    assert check_consistency_file(data, "c", witnessed()).exit_code == ExitCode.NOT_CHECKED


def test_fewer_cosignatures_than_the_quorum_leave_the_readers_own_clock() -> None:
    report = check(witnessed(), Clock(NOON + LIMIT, SIZE, NOON + LIMIT), cosigned(HEAD, (W1, NOON)))
    assert set(report.counts) == {Code.WITNESS_QUORUM}
    assert f"according to {OWN}" in step(report).detail
    assert (
        Code.HEAD_FROZEN in check(witnessed(), Clock(NOON + LIMIT + 1, SIZE, NOON), cosigned(HEAD, (W1, NOON))).counts
    )
