"""k of n root keys: what counts behind a root action, and what a thief of fewer keys than that cannot do."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.keyring import EARLIER_STATES
from k3_ledger.schemas.envelope import SIGNING_ROLES
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.log import check_log, verify_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import (
    JUDGE,
    LOG,
    ORIGIN,
    ROOT,
    RUNNER,
    Builder,
    Key,
    endorsement,
    key_body,
    run_body,
    sign_head,
    small_ledger,
    threshold_body,
)
from tests.schemas import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report, StepResult

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
SECOND, THIRD, WITNESS = Key("second"), Key("third"), Key("witness")
NEW = key_body(Key("new"), "runner")


def check(ledger: Builder) -> Report:
    return check_log(MemorySource(ledger.data, checkpoint=ledger.head()), POLICY)


def codes(ledger: Builder) -> set[Code]:
    return set(check(ledger).counts)


def step(report: Report) -> StepResult:
    return report.steps[4]


def of_three(threshold: int = 2) -> Builder:
    """Three root keys and a threshold; then one run, so that the newest entry is no root action."""
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)  # 5
    ledger.add("key", key_body(THIRD, "root"), ROOT)  # 6
    ledger.add("threshold", threshold_body(threshold), ROOT)  # 7
    return ledger.runs(1)


# ------------------------------------------------------------------------------------------- what counts


def test_an_action_counts_with_as_many_roots_behind_it_as_the_threshold_says() -> None:
    ledger = of_three()
    ledger.act("key", NEW, SECOND, THIRD)
    ledger.add("run", run_body(1), Key("new"))
    report = check(ledger)
    assert (report.exit_code, report.counts, step(report).outcome) == (0, {}, Outcome.PASS)
    assert "1 endorsements; root actions need 2 of 3 root keys" in step(report).detail
    assert step(report).checked == len(ledger.lines) + 1 + 1  # every signer, the endorsement, the policy's root key


def test_one_root_alone_does_nothing_once_the_threshold_is_two() -> None:
    ledger = of_three()
    ledger.add("key", NEW, ROOT)
    ledger.add("run", run_body(1), Key("new"))
    report = check(ledger)
    assert set(report.counts) == {Code.THRESHOLD_NOT_MET, Code.KEY_UNKNOWN}
    assert report.exit_code == ExitCode.FALSE
    worst = next(finding for finding in report.findings if finding.code is Code.THRESHOLD_NOT_MET)
    assert (worst.position.index, worst.found) == (9, "1")


def test_the_threshold_holds_from_the_next_entry_on_and_not_before() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    assert codes(ledger) == set()
    ledger.add("threshold", threshold_body(1), ROOT)
    assert codes(ledger) == {Code.THRESHOLD_NOT_MET}


def test_a_threshold_is_lowered_by_the_threshold_in_force() -> None:
    ledger = of_three()
    ledger.act("threshold", threshold_body(1), THIRD, ROOT)
    ledger.add("key", NEW, SECOND)
    assert codes(ledger) == set()
    assert "root actions need" not in step(check(ledger)).detail


@pytest.mark.parametrize("threshold", [4, 17])
def test_a_threshold_above_the_number_of_roots_is_refused(threshold: int) -> None:
    ledger = of_three()
    ledger.act("threshold", threshold_body(threshold), ROOT, SECOND)
    assert codes(ledger) == {Code.THRESHOLD_IMPOSSIBLE}


def test_all_of_all_is_a_threshold() -> None:
    ledger = of_three(3)
    ledger.act("key", NEW, ROOT, THIRD, SECOND)
    assert codes(ledger) == set()


@pytest.mark.parametrize("action", ["enrol", "rotate", "revoke"])
def test_every_key_action_needs_the_threshold(action: str) -> None:
    ledger = of_three()
    bodies = {
        "enrol": NEW,
        "rotate": key_body(Key("next"), "judge", "rotate", replaces=JUDGE.id),
        "revoke": key_body(RUNNER, "runner", "revoke"),
    }
    ledger.act("key", bodies[action], ROOT, SECOND)
    assert codes(ledger) == set()
    ledger = of_three()
    ledger.add("key", bodies[action], ROOT)
    assert codes(ledger) == {Code.THRESHOLD_NOT_MET}


def test_an_endorsement_that_no_threshold_asks_for_is_checked_all_the_same() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    body = key_body(Key("new"), "runner", endorsements=[{"key": SECOND.id, "sig": "A" * 86 + "=="}])
    ledger.add("key", body, ROOT)
    assert codes(ledger) == {Code.ENDORSEMENT_SIGNATURE}


def test_retiring_the_only_root_is_said_and_locks_the_keys() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(ROOT, "root", "revoke"), ROOT)
    report = check(ledger)
    assert (report.exit_code, report.counts, step(report).failed) == (0, {Code.ROOTS_TOO_FEW: 1}, 0)
    assert "no root keys are left and the threshold is 1" in report.findings[0].message
    ledger.add("key", NEW, ROOT)
    assert codes(ledger) == {Code.ROOTS_TOO_FEW, Code.KEY_RETIRED}


def test_retiring_a_root_below_the_threshold_is_said_and_locks_the_keys() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    ledger.act("key", key_body(SECOND, "root", "revoke"), SECOND, ROOT)
    report = check(ledger)
    assert (report.exit_code, report.counts, step(report).failed) == (0, {Code.ROOTS_TOO_FEW: 1}, 0)
    ledger.add("key", NEW, ROOT)
    assert codes(ledger) == {Code.ROOTS_TOO_FEW, Code.THRESHOLD_NOT_MET}


# ------------------------------------------------------------------------------- endorsements that do not count

WRONG: dict[str, tuple[Callable[[Builder], dict[str, Any]], set[Code]]] = {
    "by the signer": (lambda ledger: ledger.endorsed("key", NEW, ROOT), {Code.ENDORSEMENT_REPEATED}),
    "by a stranger": (lambda ledger: ledger.endorsed("key", NEW, Key("stranger")), {Code.ENDORSER_UNKNOWN}),
    "by another role": (lambda ledger: ledger.endorsed("key", NEW, JUDGE), {Code.ENDORSER_UNKNOWN}),
    "of another body": (
        lambda ledger: {**ledger.endorsed("key", {**NEW, "role": "judge"}, SECOND), "role": "runner"},
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "of another reason": (
        lambda ledger: {**ledger.endorsed("key", NEW, SECOND), "reason": "he said so"},
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "of another kind": (
        lambda ledger: {**NEW, "endorsements": [endorsement(SECOND, "threshold", NEW, ledger.newest_action)]},
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "from another log of another name": (
        lambda ledger: {
            **NEW,
            "endorsements": [endorsement(SECOND, "key", NEW, ledger.newest_action, origin="example.org/other")],
        },
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "from another log of this name": (
        lambda _: {**NEW, "endorsements": [endorsement(SECOND, "key", NEW, of_three(3).newest_action)]},
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "signed as an entry": (
        lambda ledger: {
            **NEW,
            "endorsements": [
                endorsement(SECOND, "key", NEW, ledger.newest_action, prefix=b"k3-ledger/entry/v1\n"),
            ],
        },
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "under the name of another root": (
        lambda ledger: {
            **NEW,
            "endorsements": [{**endorsement(SECOND, "key", NEW, ledger.newest_action), "key": THIRD.id}],
        },
        {Code.ENDORSEMENT_SIGNATURE},
    ),
    "naming the state two actions ago": (
        lambda ledger: {
            **NEW,
            "endorsements": [endorsement(SECOND, "key", NEW, Builder(ledger.lines[:7]).newest_action)],
        },
        {Code.ENDORSEMENT_STALE},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_endorsement_does_not_count(name: str) -> None:
    change, expected = WRONG[name]
    ledger = of_three()
    ledger.add("key", change(ledger), ROOT)
    ledger.add("run", run_body(1), Key("new"))
    assert codes(ledger) == expected | {Code.THRESHOLD_NOT_MET, Code.KEY_UNKNOWN}


def test_one_root_that_endorses_twice_counts_once() -> None:
    ledger = of_three(3)
    ledger.act("key", NEW, ROOT, SECOND, SECOND)
    assert codes(ledger) == {Code.ENDORSEMENT_REPEATED, Code.THRESHOLD_NOT_MET}


def test_a_wrong_endorsement_beside_enough_good_ones_is_not_let_through() -> None:
    ledger = of_three()
    ledger.act("key", NEW, ROOT, SECOND, JUDGE)
    assert codes(ledger) == {Code.ENDORSER_UNKNOWN}


@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_a_root_that_was_retired_endorses_nothing(action: str) -> None:
    ledger = of_three()
    body = (
        key_body(THIRD, "root", "revoke")
        if action == "revoke"
        else key_body(Key("fourth"), "root", "rotate", replaces=THIRD.id)
    )
    ledger.act("key", body, ROOT, SECOND)
    ledger.act("key", NEW, ROOT, THIRD)
    report = check(ledger)
    assert set(report.counts) == {Code.ENDORSER_UNKNOWN, Code.THRESHOLD_NOT_MET}
    assert report.findings[0].found == "a root key, valid from entry 6 to 9"


def test_endorsements_of_an_identical_earlier_action_cannot_be_used_again() -> None:
    """The judge is enrolled, revoked, and a thief of one root key brings the old endorsements back."""
    ledger = of_three()
    enrolment = ledger.endorsed("key", NEW, SECOND)
    ledger.add("key", enrolment, ROOT)
    ledger.act("key", key_body(Key("new"), "runner", "revoke"), ROOT, SECOND)
    ledger.add("key", enrolment, ROOT)
    assert codes(ledger) == {Code.KEY_ENROLLED_TWICE, Code.ENDORSEMENT_STALE, Code.THRESHOLD_NOT_MET}
    ledger = of_three(2)
    lowered = ledger.endorsed("threshold", threshold_body(1), SECOND)
    ledger.add("threshold", lowered, ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    assert codes(ledger) == set()
    ledger.add("threshold", lowered, ROOT)
    assert codes(ledger) == {Code.ENDORSEMENT_STALE, Code.THRESHOLD_NOT_MET}


def test_an_endorsement_survives_entries_that_are_no_root_actions() -> None:
    ledger = of_three()
    body = ledger.endorsed("key", NEW, SECOND)
    ledger.runs(3)
    ledger.add("note", {"text": "meanwhile", "artifacts": []}, JUDGE)
    ledger.add("key", body, ROOT)
    assert codes(ledger) == set()


def test_how_far_back_a_stale_endorsement_is_recognised_is_bounded() -> None:
    ledger = of_three()
    old = ledger.endorsed("key", NEW, SECOND)
    for number in range(EARLIER_STATES + 1):
        ledger.act("key", key_body(Key(f"judge-{number}"), "judge"), ROOT, SECOND)
    at_the_bound = Builder(ledger.lines[:-1])
    at_the_bound.add("key", old, ROOT)
    assert codes(at_the_bound) == {Code.ENDORSEMENT_STALE, Code.THRESHOLD_NOT_MET}
    ledger.add("key", old, ROOT)
    assert codes(ledger) == {Code.ENDORSEMENT_SIGNATURE, Code.THRESHOLD_NOT_MET}


def test_how_often_a_stale_endorsement_is_looked_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = of_three()
    old = [ledger.endorsed("key", key_body(Key(f"old-{number}"), "judge"), SECOND) for number in range(3)]
    ledger.act("key", NEW, ROOT, SECOND)
    for body in old:  # one, two and three states behind
        ledger.add("key", body, ROOT)
    for tries, stale in ((6, 3), (5, 2), (3, 2), (2, 1), (1, 1), (0, 0)):
        monkeypatch.setattr("k3_ledger.ledger.core.keyring.EARLIER_TRIES", tries)
        counts = check(ledger).counts
        assert counts.get(Code.ENDORSEMENT_STALE, 0) == stale
        assert counts.get(Code.ENDORSEMENT_SIGNATURE, 0) == 3 - stale
        assert counts[Code.THRESHOLD_NOT_MET] == 3


def test_a_log_of_refused_endorsements_costs_no_more_than_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = of_three()
    body = key_body(Key("more"), "judge") | {
        "endorsements": [{"key": SECOND.id, "sig": base64.b64encode(bytes(64)).decode()}] * 16
    }
    for _ in range(20):
        ledger.add("key", body, ROOT)
    tried = []

    def counted(*given: bytes) -> None:
        tried.append(given)
        check_signature(*given)

    monkeypatch.setattr("k3_ledger.ledger.core.keyring.check_signature", counted)
    monkeypatch.setattr("k3_ledger.ledger.core.keyring.EARLIER_TRIES", 40)
    assert check(ledger).counts[Code.ENDORSEMENT_SIGNATURE] == 20 * 16
    assert 20 * 16 <= len(tried) <= 20 * 16 + 40


# ----------------------------------------------------------------------------------------- compromise and recovery


def disowned(ledger: Builder) -> list[int]:
    return [entry.index for entry in verify_log(MemorySource(ledger.data), POLICY) if entry.disowned]


def test_what_a_stolen_endorser_stood_behind_is_taken_back_with_it() -> None:
    ledger = of_three()
    evil = Key("evil")
    ledger.act("key", key_body(evil, "runner"), SECOND, THIRD)  # 9: the third key is stolen from here on
    ledger.add("run", run_body(1), evil)  # 10
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=9), ROOT, SECOND)  # 11
    assert disowned(ledger) == [10]
    ledger.add("run", run_body(2), evil)
    assert check(ledger).exit_code == ExitCode.FALSE


def test_a_threshold_that_thieves_lowered_stands_again_and_what_followed_is_taken_back() -> None:
    """Two of four keys are stolen; they lower the threshold, and one of them then acts alone."""
    ledger = of_three()
    fourth, evil = Key("fourth"), Key("evil")
    ledger.act("key", key_body(fourth, "root"), ROOT, SECOND)  # 9
    ledger.act("threshold", threshold_body(1), SECOND, THIRD)  # 10: both stolen
    ledger.add("key", key_body(evil, "runner"), SECOND)  # 11
    ledger.add("run", run_body(1), evil)  # 12
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=10), ROOT, fourth)  # 13
    report = check(ledger)
    assert disowned(ledger) == [12]  # 11 was signed by a key nobody has revoked yet; that it enrols nobody is enough
    assert "root actions need 2 of 3" in step(report).detail
    ledger.add("key", NEW, ROOT)
    assert codes(ledger) >= {Code.THRESHOLD_NOT_MET}


def test_an_heir_signs_nothing_behind_the_revocation_that_took_its_enrolment_back() -> None:
    """However many revocations follow: the first that took the enrolment back is where it ended."""
    ledger = small_ledger(1)
    thief, heir, evil = Key("thief"), Key("heir"), Key("evil")
    ledger.add("key", key_body(thief, "root"), ROOT)  # 5
    ledger.add("key", key_body(heir, "root"), thief)  # 6: stolen from here on
    ledger.add("key", key_body(evil, "runner"), heir)  # 7
    ledger.add("key", key_body(thief, "root", "revoke", revoked_from=6), ROOT)  # 8
    ledger.add("run", run_body(1), evil)  # 9
    ledger.add("key", key_body(JUDGE, "judge", "revoke", revoked_from=9), ROOT)  # 10: for another reason
    assert Code.KEY_RETIRED in codes(ledger)


def test_an_action_ends_with_the_first_of_its_keys_that_was_taken_back() -> None:
    ledger = of_three()
    fourth, evil = Key("fourth"), Key("evil")
    ledger.act("key", key_body(fourth, "root"), ROOT, SECOND)  # 9
    ledger.act("key", key_body(evil, "runner"), SECOND, THIRD)  # 10: both are stolen
    ledger.act("key", key_body(SECOND, "root", "revoke", revoked_from=10), ROOT, fourth)  # 11
    ledger.add("run", run_body(1), evil)  # 12
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=10), ROOT, fourth)  # 13
    assert Code.KEY_RETIRED in codes(ledger)


def test_a_revocation_that_takes_back_its_own_endorser_cannot_count() -> None:
    ledger = of_three()
    fourth = Key("fourth")
    ledger.act("key", key_body(fourth, "root"), SECOND, THIRD)  # 9
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=9), ROOT, fourth)  # 10: undoes 9, so fourth
    assert codes(ledger) == {Code.REVOCATION_CIRCULAR}
    ledger.lines.pop()
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=10), ROOT, fourth)
    assert codes(ledger) == set()


def rotated() -> tuple[Builder, Key]:
    """A thief of the only root key enrols a runner; then the owner rotates to a new root key. The next entry is 9."""
    ledger = small_ledger(1)  # 4 is a run
    ledger.add("key", key_body(Key("thiefs-runner"), "runner"), ROOT)  # 5
    ledger.add("run", run_body(90), Key("thiefs-runner"))  # 6
    ledger.add("run", run_body(91), RUNNER)  # 7
    ledger.add("key", key_body(SECOND, "root", "rotate", replaces=ROOT.id), ROOT)  # 8
    return ledger, SECOND


@pytest.mark.parametrize("since", range(10))
def test_a_root_key_takes_back_what_a_key_signed_before_the_root_was_rotated_in(since: int) -> None:
    ledger, new = rotated()
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=since), new)  # 9
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [run for run in (4, 7) if run >= since]


def test_what_a_thief_enrolled_before_the_rotation_is_revoked_key_by_key() -> None:
    ledger, new = rotated()
    ledger.add("key", key_body(Key("thiefs-runner"), "runner", "revoke", revoked_from=6), new)
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [6]


def test_the_root_key_that_enrolled_its_successor_is_not_taken_back_by_it() -> None:
    for since in range(9):
        ledger, new = rotated()
        ledger.add("key", key_body(ROOT, "root", "revoke", revoked_from=since), new)
        assert Code.REVOCATION_CIRCULAR in codes(ledger)


def test_a_root_key_that_was_there_before_takes_back_a_stolen_root_key_and_its_rotation() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(THIRD, "root"), ROOT)  # 5
    ledger.add("key", key_body(SECOND, "root", "rotate", replaces=ROOT.id), ROOT)  # 6: by the thief
    ledger.add("key", key_body(Key("thiefs-runner"), "runner"), SECOND)  # 7
    ledger.add("key", key_body(ROOT, "root", "revoke", revoked_from=6), THIRD)  # 8
    assert {code for code in codes(ledger) if code.info.exit} == set()
    ledger.add("run", run_body(92), Key("thiefs-runner"))
    assert Code.KEY_RETIRED in codes(ledger)


def test_three_roots_that_undo_one_another_in_a_circle_are_stopped_at_the_last() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)  # 5
    ledger.add("key", key_body(THIRD, "root"), ROOT)  # 6
    ledger.add("key", key_body(SECOND, "root", "revoke", revoked_from=7), ROOT)  # 7: ROOT against SECOND
    ledger.add("key", key_body(ROOT, "root", "revoke", revoked_from=7), THIRD)  # 8: THIRD against ROOT, undoes 7
    assert {code for code in codes(ledger) if code.info.exit} == set()
    ledger.add("key", key_body(THIRD, "root", "revoke", revoked_from=8), SECOND)  # 9: SECOND against THIRD, undoes 8
    assert {code for code in codes(ledger) if code.info.exit} == {Code.REVOCATION_CIRCULAR}
    ledger.lines.pop()
    ledger.add("key", key_body(THIRD, "root", "revoke", revoked_from=9), SECOND)  # from behind 8: undoes nothing
    assert {code for code in codes(ledger) if code.info.exit} == set()


def three() -> Builder:
    """Three root keys of which any one is enough; the next entry is 7."""
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)  # 5
    ledger.add("key", key_body(THIRD, "root"), ROOT)  # 6
    return ledger


def note(ledger: Builder, key: Key) -> None:
    ledger.add("note", {"text": "a word", "artifacts": []}, key)


def test_a_threshold_that_was_taken_back_asks_for_nothing_while_the_keys_are_gone_through() -> None:
    ledger = three()
    ledger.add("threshold", threshold_body(2), SECOND)  # 7: by the thief of the second key
    ledger.act("key", key_body(SECOND, "root", "revoke", revoked_from=7), ROOT, THIRD)  # 8
    ledger.add("key", NEW, ROOT)  # 9: one root key is enough again
    ledger.add("run", run_body(5), Key("new"))  # 10
    assert codes(ledger) <= {Code.KEY_DISOWNED}
    assert disowned(ledger) == [7]


@pytest.mark.parametrize("stolen", range(3))
def test_every_root_key_is_taken_back_by_the_two_others_under_a_threshold(stolen: int) -> None:
    ledger = of_three()
    roots = [ROOT, SECOND, THIRD]
    thief = roots.pop(stolen)
    note(ledger, thief)  # 9
    ledger.act("key", key_body(thief, "root", "revoke", revoked_from=9), *roots)
    assert check(ledger).exit_code == 0
    assert disowned(ledger) == [9]


def test_who_only_endorsed_more_than_was_asked_for_takes_nothing_with_him() -> None:
    """The action stands without him: what it enrolled counts until the signer himself is taken back."""
    ledger = three()
    ledger.act("key", NEW, SECOND, THIRD)  # 7
    ledger.add("key", key_body(THIRD, "root", "revoke", revoked_from=7), ROOT)  # 8
    ledger.add("run", run_body(5), Key("new"))  # 9
    assert codes(ledger) == set()
    ledger.add("key", key_body(SECOND, "root", "revoke", revoked_from=7), ROOT)  # 10
    assert check(ledger).exit_code == 0
    assert disowned(ledger) == [7, 9]


def test_a_later_revocation_of_something_else_excuses_nothing() -> None:
    ledger = of_three()
    fourth, evil = Key("fourth"), Key("evil")
    ledger.act("key", key_body(fourth, "root"), ROOT, SECOND)  # 9
    ledger.act("threshold", threshold_body(1), SECOND, THIRD)  # 10: both stolen
    ledger.add("key", key_body(evil, "runner"), SECOND)  # 11
    ledger.act("key", key_body(THIRD, "root", "revoke", revoked_from=10), ROOT, fourth)  # 12: undoes 10, so 11
    ledger.add("run", run_body(1), evil)  # 13
    assert Code.KEY_RETIRED in codes(ledger)
    note(ledger, JUDGE)  # 14
    ledger.act("key", key_body(JUDGE, "judge", "revoke", revoked_from=14), ROOT, fourth)  # 15
    report = check(ledger)
    late = next(finding for finding in report.findings if finding.code is Code.KEY_RETIRED)
    assert (late.position.index, late.expected) == (13, "before entry 12")


def back_and_forth(*, rotate: bool = False) -> Builder:
    """The judge is revoked by a thief, that is undone, and then the undoing is: he stays revoked."""
    ledger = three()
    ledger.add("key", key_body(JUDGE, "judge", "revoke"), SECOND)  # 7
    note(ledger, JUDGE)  # 8
    ledger.add("key", key_body(SECOND, "root", "revoke", revoked_from=7), ROOT)  # 9
    if rotate:
        ledger.add("key", key_body(Key("next"), "judge", "rotate", replaces=JUDGE.id), THIRD)  # 10
    else:
        note(ledger, JUDGE)  # 10
    assert check(ledger).exit_code == 0
    ledger.add("key", key_body(ROOT, "root", "revoke", revoked_from=9), THIRD)  # 11
    return ledger


def test_what_counted_once_is_taken_back_and_never_held_against_its_signer() -> None:
    ledger = back_and_forth()
    report = check(ledger)
    assert report.exit_code == 0
    assert [tuple(each) for each in report.disowned] == [(8, 10, 11)]
    note(ledger, JUDGE)  # 12
    assert Code.KEY_RETIRED in codes(ledger)


def test_a_rotation_does_not_prolong_the_life_of_a_key_that_was_revoked_before() -> None:
    assert disowned(back_and_forth(rotate=True)) == [8, 9]


def test_what_a_key_signed_before_its_enrolment_is_one_fault_and_not_two() -> None:
    ledger = small_ledger(1)
    note(ledger, SECOND)  # 5
    ledger.add("key", key_body(SECOND, "judge"), ROOT)  # 6
    note(ledger, SECOND)  # 7
    ledger.add("key", key_body(SECOND, "judge", "revoke", revoked_from=2), ROOT)  # 8
    report = check(ledger)
    assert {code: count for code, count in report.counts.items() if code.info.exit} == {Code.KEY_NOT_YET: 1}


@pytest.mark.parametrize("size", range(5, 9))
def test_a_kept_head_up_to_the_revocation_that_took_it_back_accuses_nobody(size: int) -> None:
    ledger = small_ledger(3)
    ledger.add("key", key_body(Key("log-2"), "log"), ROOT)  # 7
    kept = sign_head(ledger.lines[:size], LOG)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=4), ROOT)  # 8
    source = MemorySource(
        ledger.data, checkpoint=ledger.head(key=Key("log-2")), kept=[(f"checkpoints/{size:012}.note", kept)]
    )
    report = check_log(source, POLICY)
    assert (report.exit_code, set(report.counts)) == (0, {Code.CHECKPOINT_DISOWNED})


# ----------------------------------------------------------------------------------------------- roles and kinds

ROLES = {"root": ROOT, "log": LOG, "runner": RUNNER, "judge": JUDGE, "witness": WITNESS}
KINDS = [kind for kind in SIGNING_ROLES if kind != "genesis"]
ALLOWED = {
    "root": {"key", "threshold", "note"},
    "log": {"import", "witness", "note"},
    "runner": {"run", "failed", "note"},
    "judge": {"verdict", "rule", "pin", "merge", "round", "supersede", "note"},
    "witness": {"note"},
}
"""Written out here, so that a change of the table in the code is a change of this one."""


def body_of(kind: str) -> dict[str, Any]:
    if kind == "key":
        return key_body(Key("another"), "runner")
    if kind == "run":
        return run_body(7)
    body: dict[str, Any] = examples.smallest(kind)["body"]
    return body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_signs_what_the_design_gives_it_and_nothing_else(role: str, kind: str) -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(WITNESS, "witness"), ROOT)
    ledger.add(kind, body_of(kind), ROLES[role])
    expected = set() if kind in ALLOWED[role] else {Code.KEY_WRONG_ROLE}
    assert codes(ledger) & {Code.KEY_WRONG_ROLE, Code.KEY_UNKNOWN, Code.SIGNATURE_MISMATCH} == expected


def test_the_table_has_every_kind_and_role() -> None:
    assert set().union(*ALLOWED.values()) == set(KINDS)
    assert SIGNING_ROLES["genesis"] == {"root"}
