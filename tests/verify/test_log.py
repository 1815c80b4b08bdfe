"""Whole logs: good ones verify; every structural change is found, under the code that names it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.note import parse_verifier_key
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome, Position
from k3_ledger.verify.log import Options, check_log, verify_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.report import STEPS, Report, VerificationError
from k3_ledger.verify.source import MemorySource
from tests.ledgers import (
    JUDGE,
    LOG,
    ORIGIN,
    ROOT,
    RUNNER,
    Builder,
    Key,
    genesis_body,
    key_body,
    run_body,
    sign_head,
    small_ledger,
    tree_root,
)
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)


def check(data: bytes | Builder, policy: TrustPolicy | None = POLICY, **options: Any) -> Report:
    """Verify bytes; keywords of MemorySource and of Options go to where they belong."""
    data = data.data if isinstance(data, Builder) else data
    known = {field.name for field in dataclasses.fields(Options)}
    chosen = Options(**{k: v for k, v in options.items() if k in known})
    return check_log(MemorySource(data, **{k: v for k, v in options.items() if k not in known}), policy, chosen)


def codes(report: Report) -> set[Code]:
    return set(report.counts)


def identity(ledger: Builder, index: int) -> str:
    return hashlib.sha256(ledger.lines[index][9:-99]).hexdigest()


def outcome(report: Report, name: str) -> Outcome:
    return next(step.outcome for step in report.steps if step.name == name)


def test_a_good_log_verifies_and_says_what_it_covers() -> None:
    ledger = small_ledger()
    report = check(ledger, checkpoint=ledger.head())
    assert (report.exit_code, report.findings, report.authenticated, report.origin) == (0, (), True, ORIGIN)
    assert report.head.size == 10
    assert report.head.root == tree_root(ledger.lines).hex()
    for step in ("framing", "schema", "chain", "signatures", "keys", "checkpoint", "receipts"):
        assert outcome(report, step) is Outcome.PASS, step
    assert [step.checked for step in report.steps[:5]] == [10, 10, 10, 10, 11]


def test_what_was_not_checked_is_never_called_ok() -> None:
    report = check(small_ledger(), None)
    for step in ("checkpoint", "memory", "witnesses", "artifacts", "verdicts", "pins", "attestations"):
        assert outcome(report, step) is Outcome.NOT_CHECKED, step
    assert report.exit_code == 0
    assert not report.authenticated
    assert report.policy == "integrity checked; signer not authenticated (no trust policy)"


@pytest.mark.parametrize("chunk_bytes", [1, 900, 3000, 1 << 20])
@pytest.mark.parametrize("block", [1, 64, 1 << 20])
def test_the_report_does_not_depend_on_how_the_bytes_arrive(chunk_bytes: int, block: int) -> None:
    ledger = small_ledger()
    ledger.lines[5] = ledger.lines[5].replace(b'"count":10', b'"count":11')
    ledger.lines[7] = b"nonsense\n"
    del ledger.lines[8]
    expected = check(ledger, checkpoint=ledger.head())
    report = check(ledger, checkpoint=ledger.head(), chunk_bytes=chunk_bytes, block=block)
    assert report.as_dict() == expected.as_dict()


# ----------------------------------------------------------------------------------------- structure of the chain


def _swap(lines: list[bytes]) -> None:
    lines[5], lines[6] = lines[6], lines[5]


def _repeat(lines: list[bytes]) -> None:
    lines.append(lines[-1])


STRUCTURAL: dict[str, tuple[Callable[[list[bytes]], object], set[Code], set[Code]]] = {
    # name: (change, codes without a checkpoint, further codes with one)
    "first entry removed": (
        lambda lines: lines.pop(0),
        {Code.CHAIN_NO_GENESIS, Code.ROOT_NOT_CHECKED},
        {Code.CHECKPOINT_AHEAD},
    ),
    "middle entry removed": (
        lambda lines: lines.pop(5),
        {Code.CHAIN_INDEX, Code.CHAIN_PREV},
        {Code.CHECKPOINT_AHEAD},
    ),
    "last entry removed": (lambda lines: lines.pop(), {Code.UNCHECKPOINTED}, {Code.CHECKPOINT_AHEAD}),
    "entries swapped": (_swap, {Code.CHAIN_INDEX, Code.CHAIN_PREV, Code.CLAIMED_TIME}, {Code.CHECKPOINT_ROOT}),
    "last entry repeated": (_repeat, {Code.CHAIN_REPEATED}, {Code.UNCHECKPOINTED}),
    "second ledger joined": (
        lambda lines: lines.extend(lines[:]),
        {Code.CHAIN_SECOND_GENESIS, Code.KEY_ENROLLED_TWICE},
        {Code.UNCHECKPOINTED},
    ),
}


@pytest.mark.parametrize("name", STRUCTURAL)
def test_a_structural_change_has_its_own_code_with_a_checkpoint_and_without(name: str) -> None:
    change, alone, beside = STRUCTURAL[name]
    ledger = small_ledger()
    head = ledger.head()
    change(ledger.lines)
    without = check(ledger)
    assert codes(without) == alone
    assert without.exit_code == (ExitCode.VERIFIED if alone == {Code.UNCHECKPOINTED} else ExitCode.FALSE)
    with_head = check(ledger, checkpoint=head)
    assert codes(with_head) == alone - {Code.UNCHECKPOINTED} | beside
    assert with_head.exit_code == ExitCode.FALSE


def test_a_fork_inside_the_log_is_called_a_fork() -> None:
    ledger = small_ledger(2)
    fork = Builder(ledger.lines[:-1])
    fork.add("run", run_body(99), RUNNER)
    report = check(ledger.data + fork.lines[-1])
    assert codes(report) == {Code.CHAIN_FORK}
    assert report.findings[0].position.line == 7


def test_an_entry_spliced_from_another_log_does_not_follow() -> None:
    other = Builder(origin="example.org/other").open().runs(6)
    ledger = small_ledger(6)
    ledger.lines[6] = other.lines[6]
    assert codes(check(ledger)) == {Code.CHAIN_PREV}
    assert check(ledger).counts[Code.CHAIN_PREV] == 2  # it follows nothing here, and nothing follows it


def test_genesis_commits_to_the_name_of_the_log() -> None:
    ledger = Builder()
    ledger.add("genesis", genesis_body(), ROOT, prev="0" * 64)
    assert codes(check(ledger)) == {Code.CHAIN_PREV}


def test_a_log_that_starts_at_another_index_is_refused() -> None:
    ledger = Builder()
    ledger.add("genesis", genesis_body(), ROOT, index=1)
    assert Code.CHAIN_INDEX in codes(check(ledger))


def test_order_comes_from_the_chain_and_a_clock_only_warns() -> None:
    ledger = small_ledger(1)
    ledger.add("run", run_body(7), RUNNER, time="2999-01-01T00:00:00Z")
    ledger.runs(1)
    report = check(ledger, checkpoint=ledger.head())
    assert (codes(report), report.exit_code) == ({Code.CLAIMED_TIME}, 0)
    assert report.findings[0].position.index == 6


# --------------------------------------------------------------------------------------------- signatures and keys


def test_a_signature_of_another_entry_is_a_bad_signature() -> None:
    ledger = small_ledger()
    ledger.lines[5] = ledger.lines[5][:-99] + ledger.lines[6][-99:]
    report = check(ledger)
    assert codes(report) == {Code.SIGNATURE_MISMATCH}
    assert report.findings[0].position.index == 5


def test_a_key_that_was_never_enrolled_is_named_as_missing_not_as_a_bad_signature() -> None:
    ledger = small_ledger(1)
    ledger.add("run", run_body(1), Key("stranger"))
    report = check(ledger)
    assert codes(report) == {Code.KEY_UNKNOWN}
    assert outcome(report, "signatures") is Outcome.NOT_CHECKED


def test_a_key_that_a_wrong_signer_enrolled_counts_for_nothing() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(Key("mine"), "runner"), JUDGE)
    ledger.add("run", run_body(1), Key("mine"))
    assert codes(check(ledger)) == {Code.KEY_WRONG_ROLE, Code.KEY_UNKNOWN}


def test_a_key_counts_only_behind_the_entry_that_enrols_it() -> None:
    ledger = small_ledger(1)
    late = Key("late")
    ledger.add("run", run_body(1), late)
    ledger.add("key", key_body(late, "runner"), ROOT)
    ledger.add("run", run_body(2), late)
    report = check(ledger)
    assert (codes(report), report.counts[Code.KEY_NOT_YET]) == ({Code.KEY_NOT_YET}, 1)


def test_a_rotated_key_stays_good_for_what_it_signed_before() -> None:
    ledger = small_ledger(5)
    successor = Key("runner-two")
    ledger.add("key", key_body(successor, "runner", "rotate", replaces=RUNNER.id), ROOT)
    for number in range(5):
        ledger.add("run", run_body(number), successor)
    assert check(ledger).exit_code == 0
    ledger.add("run", run_body(9), RUNNER)
    report = check(ledger)
    assert (codes(report), report.findings[0].position.index) == ({Code.KEY_RETIRED}, 15)


def test_a_revoked_key_stays_good_for_what_it_signed_before() -> None:
    ledger = small_ledger(3)
    ledger.add("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    assert check(ledger).exit_code == 0
    ledger.runs(2)
    report = check(ledger)
    assert report.counts == {Code.KEY_RETIRED: 2}


def test_a_compromise_revocation_disowns_what_came_after_and_leaves_what_came_before() -> None:
    ledger = small_ledger(6)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=7), ROOT)
    log = verify_log(MemorySource(ledger.data, checkpoint=ledger.head()), POLICY)
    assert log.report.counts == {Code.KEY_DISOWNED: 3}
    assert log.report.disowned == ((7, 9, 10),)
    assert [entry.index for entry in log if entry.disowned] == [7, 8, 9]


def test_disowned_entries_are_ranges_in_log_order_whoever_signed_them_and_whatever_they_are() -> None:
    ledger = small_ledger(1)
    at = len(ledger.lines)
    for number in range(2):
        ledger.add("run", run_body(number), RUNNER)
        ledger.add("note", {"text": "x", "artifacts": []}, RUNNER)
    ledger.add("note", {"text": "x", "artifacts": []}, JUDGE)
    ledger.add("run", run_body(2), RUNNER)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=at), ROOT)
    assert check(ledger).disowned == ((at, at + 3, at + 6), (at + 5, at + 5, at + 6))


def test_a_revoked_thief_takes_back_the_keys_he_enrolled_and_gives_back_those_he_retired() -> None:
    ledger = small_ledger(1)
    thief, evil = Key("thief"), Key("evil")
    ledger.add("key", key_body(thief, "root"), ROOT)  # 5: still honest
    ledger.add("key", key_body(evil, "runner"), thief)  # 6: stolen from here on
    ledger.add("key", key_body(RUNNER, "runner", "revoke"), thief)  # 7
    ledger.add("run", run_body(1), evil)  # 8
    ledger.add("key", key_body(thief, "root", "revoke", revoked_from=6), ROOT)  # 9
    ledger.add("run", run_body(2), RUNNER)  # 10: counts, for the thief's revocation does not
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [6, 7, 8]
    assert outcome(log.report, "keys") is Outcome.PASS
    ledger.add("run", run_body(3), evil)
    report = check(ledger)
    assert report.exit_code == ExitCode.FALSE
    assert {c for c in codes(report) if c.info.exit} == {Code.KEY_RETIRED}


@pytest.mark.parametrize("starts", [(8, 6), (6, 8), (8, 6, 9)])
def test_of_several_revocations_of_a_key_the_one_that_reaches_furthest_back_counts(starts: tuple[int, ...]) -> None:
    ledger = small_ledger(6)
    for start in starts:
        ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=start), ROOT)
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [6, 7, 8, 9]


def test_a_later_revocation_excuses_nobody_whom_an_earlier_one_caught() -> None:
    ledger = small_ledger(1)
    thief, first, second = Key("thief"), Key("first"), Key("second")
    ledger.add("key", key_body(thief, "root"), ROOT)  # 5
    ledger.add("key", key_body(first, "runner"), thief)  # 6
    ledger.add("key", key_body(second, "runner"), thief)  # 7: stolen from here on, it is thought
    ledger.add("key", key_body(thief, "root", "revoke", revoked_from=7), ROOT)  # 8
    ledger.add("run", run_body(1), first)  # 9
    assert check(ledger).exit_code == ExitCode.VERIFIED
    late = Builder([*ledger.lines])
    late.add("run", run_body(2), second)  # 10: its enrolment was taken back before
    for tampered in (ledger, late):
        tampered.add("key", key_body(thief, "root", "revoke", revoked_from=6), ROOT)  # it was stolen earlier
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [6, 7, 9]
    report = check(late)
    assert {code for code in codes(report) if code.info.exit} == {Code.KEY_RETIRED}


def test_what_a_thief_enrolled_enrols_nobody_either() -> None:
    ledger = small_ledger(1)
    thief, heir, evil = Key("thief"), Key("heir"), Key("evil")
    ledger.add("key", key_body(thief, "root"), ROOT)  # 5: still honest
    ledger.add("key", key_body(heir, "root"), thief)  # 6: stolen from here on
    ledger.add("key", key_body(evil, "runner"), heir)  # 7
    ledger.add("run", run_body(1), evil)  # 8
    ledger.add("key", key_body(evil, "runner", "revoke"), ROOT)  # 9: too late, and then without an object
    ledger.add("key", key_body(thief, "root", "revoke", revoked_from=6), ROOT)  # 10
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert [entry.index for entry in log if entry.disowned] == [6, 7, 8]


def test_entries_are_selected_by_marks_and_disowned_ones_are_not() -> None:
    ledger = small_ledger(3)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=6), ROOT)
    log = verify_log(MemorySource(ledger.data), POLICY)
    assert list(log.select(b'"kind":"pin"')) == []
    assert [found.index for found in log.select(b'"kind":"run"', b'"kind":"genesis"')] == [0, 4, 5]


def test_a_required_keys_step_is_met_although_entries_were_disowned() -> None:
    ledger = small_ledger(3)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=6), ROOT)
    assert check(ledger).exit_code == ExitCode.VERIFIED
    report = check(ledger, TrustPolicy(require=frozenset({"keys"})))
    assert (report.exit_code, report.steps[4].disowned) == (ExitCode.VERIFIED, 1)


def test_a_disowned_log_key_covers_nothing() -> None:
    ledger = small_ledger(3)
    early, late = sign_head(ledger.lines[:5]), ledger.head()
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=6), ROOT)
    assert Code.CHECKPOINT_SIGNATURE not in codes(check(ledger, checkpoint=early))
    assert Code.CHECKPOINT_SIGNATURE in codes(check(ledger, checkpoint=late))


def test_a_kept_head_by_a_disowned_log_key_covers_nothing_and_accuses_nobody() -> None:
    ledger = small_ledger(3)
    late = ledger.head()
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=6), ROOT)
    report = check(ledger, checkpoint=None, kept=(("checkpoints/7.note", late),))
    assert codes(report) == {Code.CHECKPOINT_DISOWNED, Code.UNCHECKPOINTED}
    assert report.exit_code == ExitCode.VERIFIED
    required = TrustPolicy(require=frozenset({"checkpoint"}))
    assert check(ledger, required, kept=(("checkpoints/7.note", late),)).exit_code == ExitCode.NOT_CHECKED
    forked = small_ledger(2)
    forked.add("run", run_body(99), RUNNER)
    kept = (("checkpoints/7.note", forked.head()),)  # the thief's, for all we know
    assert codes(check(ledger, kept=kept)) == {Code.CHECKPOINT_DISOWNED, Code.UNCHECKPOINTED}
    kept = (("checkpoints/8.note", sign_head(ledger.lines, Key("nobody"))),)
    assert Code.CHECKPOINT_SIGNATURE in codes(check(ledger, kept=kept))


BEHIND = Code.CHECKPOINT_BEHIND


def test_an_owner_who_has_not_signed_anew_after_a_revocation_is_said_to_keep_nothing_back() -> None:
    """The head that was remembered is the very one that is shown, and a revocation took it back."""
    ledger = small_ledger(3)
    early, seen = sign_head(ledger.lines[:5]), ledger.head()
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=6), ROOT)
    both = (("checkpoints/000000000005.note", early), ("checkpoints/000000000007.note", seen))
    remembered = (("memory", seen),)
    newest = check(ledger, checkpoint=seen, kept=both, expected_heads=remembered)
    assert codes(newest) == {Code.CHECKPOINT_SIGNATURE, Code.CHECKPOINT_DISOWNED, Code.UNCHECKPOINTED}
    assert newest.exit_code == ExitCode.FALSE
    assert BEHIND not in codes(check(ledger, checkpoint=seen, expected_heads=remembered))
    kept = check(ledger, checkpoint=early, kept=both, expected_heads=remembered)
    assert codes(kept) == {Code.CHECKPOINT_DISOWNED, Code.UNCHECKPOINTED}


def test_who_shows_an_older_head_is_still_said_to_after_a_revocation() -> None:
    ledger = small_ledger(3)
    early, late = sign_head(ledger.lines[:5]), ledger.head()
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=6), ROOT)
    ledger.add("key", key_body(Key("log2"), "log"), ROOT)
    ledger.add("run", run_body(9), RUNNER)
    seen = ledger.head(key=Key("log2"))
    own = sign_head(ledger.lines[:7])  # by the key that was taken back, over other entries than were remembered
    for checkpoint, kept in ((early, ()), (own, ()), (early, (("checkpoints/000000000007.note", late),))):
        report = check(ledger, checkpoint=checkpoint, kept=kept, expected_heads=(("memory", seen),))
        assert BEHIND in codes(report)
    stranger = sign_head(ledger.lines, Key("stranger"))
    assert BEHIND in codes(check(ledger, checkpoint=stranger, expected_heads=(("memory", seen),)))
    assert BEHIND not in codes(check(ledger, checkpoint=seen, expected_heads=(("memory", seen),)))


def test_a_taken_back_head_of_another_history_excuses_nobody() -> None:
    ledger, other = small_ledger(3), Key("log2")
    ledger.add("key", key_body(other, "log"), ROOT)
    early, seen = sign_head(ledger.lines[:8], other), Builder(list(ledger.lines)).runs(2).head(key=other)
    forked = Builder(list(ledger.lines))
    forked.add("run", run_body(99), RUNNER)
    forked.add("run", run_body(98), RUNNER)
    ledger.runs(2)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=6), ROOT)
    memory = (("memory", seen),)
    for kept, behind in ((forked.head(), True), (sign_head(ledger.lines[:10]), False)):
        report = check(ledger, checkpoint=early, kept=(("checkpoints/000000000010.note", kept),), expected_heads=memory)
        assert codes(report) >= {Code.CHECKPOINT_DISOWNED}
        assert (BEHIND in codes(report)) is behind


def test_a_head_by_a_log_key_whose_enrolment_was_taken_back_covers_nothing() -> None:
    ledger, second, stolen = small_ledger(2), Key("second root"), Key("stolen log")
    ledger.add("key", key_body(second, "root") | {"name": "second"}, ROOT)
    start = len(ledger.lines)
    ledger.add("key", key_body(stolen, "log") | {"name": "stolen"}, second)
    ledger.add("run", run_body(1), RUNNER)
    head = ledger.head(key=stolen)
    ledger.add("key", key_body(second, "root", "revoke", revoked_from=start) | {"name": "second"}, ROOT)
    assert Code.CHECKPOINT_DISOWNED in codes(check(ledger, kept=(("checkpoints/8.note", head),)))


def test_a_taken_back_key_of_another_role_does_not_excuse_a_head() -> None:
    ledger = small_ledger(3)
    head = sign_head(ledger.lines, RUNNER)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=5), ROOT)
    assert Code.CHECKPOINT_SIGNATURE in codes(check(ledger, kept=(("checkpoints/7.note", head),)))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (key_body(RUNNER, "judge", "revoke"), Code.KEY_UNKNOWN_TARGET),
        (key_body(RUNNER, "runner", "revoke", replaces=LOG.id), Code.KEY_UNKNOWN_TARGET),
        (key_body(ROOT, "root", "revoke", revoked_from=0), Code.KEY_UNKNOWN_TARGET),
        (key_body(Key("a"), "runner", replaces=RUNNER.id), Code.KEY_UNKNOWN_TARGET),
        (key_body(Key("a"), "runner", revoked_from=1), Code.KEY_UNKNOWN_TARGET),
        (key_body(RUNNER, "runner"), Code.KEY_ENROLLED_TWICE),
        (key_body(Key("a"), "runner", key_id="0" * 64), Code.KEY_ID_MISMATCH),
        (key_body(Key("a"), "runner", "revoke"), Code.KEY_UNKNOWN_TARGET),
        (key_body(Key("a"), "runner", "rotate"), Code.KEY_UNKNOWN_TARGET),
        (key_body(Key("a"), "judge", "rotate", replaces=RUNNER.id), Code.KEY_UNKNOWN_TARGET),
        (key_body(RUNNER, "runner", "revoke", revoked_from=6), Code.KEY_UNKNOWN_TARGET),
    ],
)
def test_a_key_entry_that_cannot_count_says_why(body: dict[str, Any], code: Code) -> None:
    ledger = small_ledger(1)
    ledger.add("key", body, ROOT)
    report = check(ledger)
    assert codes(report) == {code}
    assert report.findings[0].position.index == 5


def test_a_weak_root_key_opens_no_log() -> None:
    """Everything verifies under the identity point in a verifier that takes it; this one takes nothing."""
    weak = bytes([1]) + bytes(31)
    body = {**genesis_body(), "root_public_key": weak.hex()}
    forged = Builder()
    forged.add("genesis", body, ROOT, key=hashlib.sha256(weak).hexdigest())
    forged.lines[0] = forged.lines[0][:-91] + base64.b64encode(weak + bytes(32)) + b'"}\n'
    report = check(forged, None)
    assert codes(report) == {Code.PUBLIC_KEY_LOW_ORDER, Code.ROOT_NOT_CHECKED}


def test_a_weak_public_key_is_not_enrolled() -> None:
    weak = bytes([1]) + bytes(31)  # the identity
    ledger = small_ledger(1)
    body = key_body(Key("a"), "runner", public_key=weak.hex(), key_id=hashlib.sha256(weak).hexdigest())
    ledger.add("key", body, ROOT)
    assert codes(check(ledger)) == {Code.KEY_WEAK}


# -------------------------------------------------------------------------------------------------------- policy


def test_another_root_than_the_trusted_one_is_refused() -> None:
    report = check(small_ledger(), TrustPolicy(root_public_key=Key("other").public))
    assert (codes(report), report.exit_code, report.authenticated) == ({Code.ROOT_NOT_TRUSTED}, 1, False)


def test_another_origin_than_the_trusted_one_is_refused() -> None:
    assert codes(check(small_ledger(), TrustPolicy(origin="example.org/else"))) == {Code.ORIGIN_NOT_TRUSTED}


def test_what_the_policy_requires_and_nobody_checked_is_exit_4() -> None:
    ledger = small_ledger()
    policy = TrustPolicy(require=frozenset({"checkpoint"}))
    assert check(ledger, policy).exit_code == ExitCode.NOT_CHECKED
    assert check(ledger, policy, checkpoint=sign_head(ledger.lines[:8])).exit_code == ExitCode.NOT_CHECKED
    assert check(ledger, policy, checkpoint=ledger.head()).exit_code == ExitCode.VERIFIED


def test_a_head_smaller_than_the_policy_accepts_is_refused() -> None:
    ledger = small_ledger()
    assert codes(check(ledger, TrustPolicy(minimum_size=11), checkpoint=ledger.head())) == {Code.HEAD_TOO_SMALL}
    assert not codes(check(ledger, TrustPolicy(minimum_size=10), checkpoint=ledger.head()))


# --------------------------------------------------------------------------------------------------------- heads


def test_a_checkpoint_signed_by_a_key_that_is_no_log_key_is_refused() -> None:
    ledger = small_ledger()
    for key in (RUNNER, ROOT, Key("stranger")):
        assert codes(check(ledger, checkpoint=ledger.head(key=key))) == {Code.CHECKPOINT_SIGNATURE}


def test_a_checkpoint_of_another_log_is_refused() -> None:
    ledger = small_ledger()
    report = check(ledger, checkpoint=ledger.head(origin="example.org/other"))
    assert codes(report) == {Code.CHECKPOINT_ORIGIN}


def test_of_several_log_keys_any_enrolled_one_may_have_signed_and_a_bad_signature_is_told_apart() -> None:
    ledger = small_ledger()
    ledger.add("key", key_body(Key("log-two"), "log"), ROOT)
    for key in (LOG, Key("log-two")):
        assert check(ledger, checkpoint=ledger.head(key=key)).exit_code == 0
    good = ledger.head(key=LOG)
    bad = good[:-10] + bytes([good[-10] ^ 1]) + good[-9:]
    report = check(ledger, checkpoint=bad)
    assert codes(report) == {Code.CHECKPOINT_SIGNATURE}
    assert "is bad" in report.findings[0].message
    early = sign_head(ledger.lines[:10], Key("log-two"))
    assert codes(check(ledger, checkpoint=early)) == {Code.CHECKPOINT_SIGNATURE}


def test_kept_checkpoints_are_all_compared() -> None:
    ledger = small_ledger()
    kept = [(f"checkpoints/{n}", sign_head(ledger.lines[:n])) for n in (4, 7, 9)]
    assert check(ledger, checkpoint=ledger.head(), kept=kept).exit_code == 0
    changed = Builder(ledger.lines[:6])
    changed.add("run", run_body(77), RUNNER)
    changed.runs(3)
    report = check(changed, checkpoint=changed.head(), kept=kept)
    assert report.counts == {Code.CHECKPOINT_ROOT: 2}
    assert [finding.position.source for finding in report.findings] == ["checkpoints/7", "checkpoints/9"]


@pytest.mark.parametrize("note", [b"", b"\0" * 187, b"nonsense", b"example.org/speed\n10\nAAAA\n\n"])
def test_a_checkpoint_that_is_no_checkpoint_is_an_error(note: bytes) -> None:
    report = check(small_ledger(), checkpoint=note)
    assert report.exit_code == 1
    assert codes(report) <= {Code.NOTE_MALFORMED, Code.CHECKPOINT_MALFORMED, Code.UNCHECKPOINTED}


def faults(report: Report) -> dict[Code, int]:
    return {code: count for code, count in report.counts.items() if code.info.exit}


def test_a_bad_head_and_its_kept_copy_are_one_fault() -> None:
    """Both are counted as heads that were checked and failed; what is wrong is said once."""
    ledger = small_ledger()
    changed = Builder(ledger.lines[:9])
    changed.add("run", run_body(99), RUNNER)
    newer = Builder(changed.lines[:]).runs(1)
    head, name = ledger.head(), "checkpoints/000000000010.note"
    for bad, code in (
        (head, Code.CHECKPOINT_ROOT),
        (sign_head(changed.lines, ROOT), Code.CHECKPOINT_SIGNATURE),
        (sign_head(newer.lines), Code.CHECKPOINT_AHEAD),
        (b"damaged", Code.NOTE_MALFORMED),
        (sign_head(changed.lines, origin="example.org/other"), Code.CHECKPOINT_ORIGIN),
    ):
        report = check(changed, checkpoint=bad, kept=[(name, bad)])
        assert report.counts[code] == 1, code
        assert [finding.position.source for finding in report.findings if finding.code is code] == ["checkpoint"]
        assert (report.steps[5].checked, report.steps[5].failed) == (2, 2)
    report = check(
        changed, checkpoint=head, kept=[(name, b"damaged"), ("checkpoints/8.note", sign_head(ledger.lines[:8]))]
    )
    assert faults(report) == {Code.CHECKPOINT_ROOT: 1, Code.NOTE_MALFORMED: 1}
    cosigned = head + head.splitlines(keepends=True)[-1].replace(b"example", b"another")
    assert faults(check(changed, checkpoint=head, kept=[(name, cosigned)])) == {Code.CHECKPOINT_ROOT: 1}
    other = Builder(ledger.lines[:8])
    other.add("run", run_body(98), RUNNER)
    report = check(changed, checkpoint=head, kept=[("checkpoints/9.note", other.head())])
    assert faults(report) == {Code.CHECKPOINT_ROOT: 2}, "two heads that are wrong are two faults"
    third = Builder(ledger.lines[:8])
    third.add("run", run_body(97), RUNNER)
    kept = [("checkpoints/9.note", other.head()), ("checkpoints/09.note", third.head())]
    assert faults(check(changed, kept=kept)) == {Code.CHECKPOINT_ROOT: 2}, "of one size as well"


def test_a_rollback_and_a_fork_are_told_apart_from_a_remembered_head() -> None:
    ledger = small_ledger()
    seen = (("memory", ledger.head()),)
    assert check(ledger, expected_heads=seen).exit_code == 0
    ledger.runs(3)
    grown = check(ledger, expected_heads=seen)
    assert (grown.exit_code, outcome(grown, "memory")) == (0, Outcome.PASS)
    del ledger.lines[8:]
    assert codes(check(ledger, expected_heads=seen)) == {Code.ROLLBACK}
    ledger.add("run", run_body(55), RUNNER)
    ledger.runs(4)
    assert codes(check(ledger, expected_heads=seen)) == {Code.FORK}


@pytest.mark.parametrize("note", [b"", b"\0" * 187])
def test_a_damaged_memory_accuses_nobody_and_is_never_a_first_visit(note: bytes) -> None:
    report = check(small_ledger(), expected_heads=(("memory", note),))
    assert (codes(report), report.exit_code) == ({Code.MEMORY_UNREADABLE}, ExitCode.UNREADABLE)


def forged(ledger: Builder, size: int, key: Key) -> bytes:
    """A head over as many entries, with a root of nothing."""
    other = Builder(list(ledger.lines)).runs(1)
    return sign_head([*other.lines[1:], *other.lines][:size], key, size=size)


@pytest.mark.parametrize("size", [3, 8, 10, 99_999])
@pytest.mark.parametrize("key", [Key("stranger"), RUNNER, ROOT], ids=lambda key: key.seed)
def test_a_head_by_no_log_key_of_this_log_accuses_nobody(size: int, key: Key) -> None:
    report = check(small_ledger(6), expected_heads=(("handed over", forged(small_ledger(6), size, key)),))
    assert (codes(report), report.exit_code) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)


def test_a_head_of_the_true_tree_by_a_stranger_is_none_either() -> None:
    ledger = small_ledger(6)
    head = ledger.head(key=Key("stranger"))
    assert codes(check(ledger, expected_heads=(("handed over", head),))) == {Code.MEMORY_FOREIGN}
    older = Builder(ledger.lines[:6]).head()
    report = check_log(
        MemorySource(ledger.data, checkpoint=older), None, Options(processes=1, expected_heads=(("handed over", head),))
    )
    assert Code.CHECKPOINT_BEHIND not in codes(report)


def test_a_size_or_a_signature_that_was_edited_in_the_memory_accuses_nobody() -> None:
    ledger = small_ledger(6)
    head = ledger.head()
    for edited in (head.replace(b"\n10\n", b"\n99999\n"), head.replace(b"\n10\n", b"\n9\n")):
        assert edited != head
        assert codes(check(ledger, expected_heads=(("memory", edited),))) == {Code.MEMORY_FOREIGN}


@pytest.mark.parametrize("ended", ["rotated", "revoked", "taken back"])
def test_a_head_by_a_log_key_that_ended_since_still_accuses(ended: str) -> None:
    ledger = small_ledger(2)
    seen = (("seen", Builder(list(ledger.lines)).runs(1).head()),)  # of a history that was replaced
    new = Key("log-2")
    if ended == "rotated":
        ledger.add("key", key_body(new, "log", "rotate", replaces=LOG.id), ROOT)
    else:
        ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=4 if ended == "taken back" else None), ROOT)
    ledger.runs(2)
    assert Code.FORK in codes(check(ledger, expected_heads=seen))


def test_where_line_one_is_damaged_whose_a_remembered_head_is_cannot_be_told() -> None:
    ledger = small_ledger(2)
    seen = (("seen", forged(ledger, 4, Key("stranger"))),)
    ledger.lines[0] = ledger.lines[0].replace(b"example.org", b"exampl3.org")
    report = check(ledger, expected_heads=seen)
    assert codes(report) & {Code.FORK, Code.ROLLBACK, Code.MEMORY_FOREIGN} == set()
    assert (outcome(report, "memory"), report.exit_code) == (Outcome.NOT_CHECKED, ExitCode.FALSE)


# ------------------------------------------------------------------------------------------------------ the end


def test_a_log_that_nothing_commits_to_is_said_to_look_whole_once_and_only_where_it_does() -> None:
    ledger = small_ledger(2)
    note = check(ledger).findings
    assert [(finding.code, finding.position.index) for finding in note] == [(Code.UNCHECKPOINTED, 0)]
    assert "cut between two lines looks whole" in note[0].message
    assert codes(check(ledger, checkpoint=ledger.head())) == set()
    stranger = check(ledger, checkpoint=sign_head(ledger.lines, Key("stranger")))
    assert codes(stranger) == {Code.CHECKPOINT_SIGNATURE}, "what is wrong with the head says it"
    ledger.add("supersede", {"target": "ab" * 32, "reason": "bad clock", "replacement": None}, JUDGE)
    assert codes(check(ledger)) == {Code.REFERENCE_UNKNOWN}, "what is false does not look whole"


def test_every_proper_prefix_is_a_torn_tail_or_a_shorter_log() -> None:
    ledger = small_ledger(1)
    data = ledger.data
    ends = {len(b"".join(ledger.lines[: n + 1])) for n in range(len(ledger.lines))}
    for length in range(9, len(data)):  # less than nine bytes could be the beginning of anything
        report = check(data[:length])
        whole = ({Code.UNCHECKPOINTED}, ExitCode.VERIFIED)
        expected = whole if length in ends else ({Code.TORN_TAIL}, ExitCode.TORN_TAIL)
        assert (codes(report), report.exit_code) == expected, length


def test_a_torn_tail_says_at_which_byte_and_a_missing_promised_entry_outweighs_it() -> None:
    ledger = small_ledger()
    torn = ledger.data[:-100]
    at = len(b"".join(ledger.lines[:-1]))
    report = check(torn)
    assert report.findings[0].message.startswith(f"torn tail at byte {at}")
    assert (report.head.size, report.exit_code) == (9, ExitCode.TORN_TAIL)
    report = check(torn, checkpoint=ledger.head())
    assert (codes(report), report.exit_code) == ({Code.TORN_TAIL, Code.CHECKPOINT_AHEAD}, ExitCode.FALSE)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.EMPTY_LEDGER),
        (b"\n", Code.NOT_A_LEDGER),
        (b"PK\x03\x04 not a ledger", Code.NOT_A_LEDGER),
        (b'{"a":1}\n{"b":2}\n', Code.NOT_A_LEDGER),
        (b"[" * 20_000 + b"]" * 20_000 + b"\n", Code.NOT_A_LEDGER),
        (small_ledger(1).data.decode().encode("utf-16"), Code.UTF16),
    ],
)
def test_what_is_no_ledger_is_exit_3_with_a_cause(data: bytes, code: Code) -> None:
    report = check(data)
    assert report.exit_code == ExitCode.UNREADABLE
    assert code in codes(report)


def test_one_changed_byte_anywhere_is_exit_1() -> None:
    ledger = Builder().open().runs(1)
    data, head = ledger.data, ledger.head()
    for at in range(len(data)):
        change = (1, 0x20, 0x80)[at % 3]
        tampered = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
        assert check(tampered, checkpoint=head if at % 2 else None).exit_code == ExitCode.FALSE, (at, change)


def test_a_line_over_the_limit_is_refused_and_the_next_one_is_read() -> None:
    ledger = small_ledger(2)
    ledger.lines[4] = ledger.lines[4][:-1] + b" " * 70_000 + b"\n"
    report = check(ledger, block=5000)
    assert codes(report) == {Code.LINE_TOO_LONG}
    assert (report.findings[0].position.line, report.head.size) == (5, 6)


# ------------------------------------------------------------------------------------------ artifacts, references


def artifact(data: bytes, name: str = "raw.json", **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    return {"name": name, "sha256": digest, "size": len(data), "media_type": "application/json", **more}


def test_artifacts_are_hashed_again_and_a_missing_one_is_counted_not_passed() -> None:
    ledger = small_ledger(1)
    one, two = artifact(b"one"), artifact(b"two", "more.json")
    ledger.add("run", run_body(1, artifacts=[one, two]), RUNNER)
    stored = {one["sha256"]: b"one", two["sha256"]: b"two"}
    report = check_log(MemorySource(ledger.data, artifacts=stored), POLICY)
    assert (report.exit_code, outcome(report, "artifacts")) == (0, Outcome.PASS)
    some = {one["sha256"]: b"one"}
    report = check_log(MemorySource(ledger.data, checkpoint=ledger.head(), artifacts=some), POLICY)
    assert (codes(report), report.exit_code) == ({Code.ARTIFACT_MISSING}, 0)
    assert outcome(report, "artifacts") is Outcome.NOT_CHECKED
    for edited in (b"ONE", b"one and more", b"", b"on"):
        report = check_log(MemorySource(ledger.data, artifacts={**stored, one["sha256"]: edited}), POLICY)
        assert (codes(report), report.exit_code) == ({Code.ARTIFACT_MISMATCH}, 1)
    report = check_log(MemorySource(ledger.data, artifacts=stored), POLICY, Options(artifacts=False))
    assert outcome(report, "artifacts") is Outcome.NOT_CHECKED


def test_imports_and_notes_have_artifacts_too_and_quotes_are_counted_not_checked() -> None:
    ledger = small_ledger(1)
    one = artifact(b"one")
    body = {
        "format": "other/1", "foreign_id": "a1", "original_sha256": one["sha256"], "attestation": "tdx-quote",
        "fields": [], "findings": [], "artifacts": [one],
    }  # fmt: skip
    ledger.add("import", body, LOG)
    ledger.add("note", {"text": "hello", "artifacts": [artifact(b"two")]}, JUDGE)
    held = {one["sha256"]: b"one"}
    report = check_log(MemorySource(ledger.data, checkpoint=ledger.head(), artifacts=held), POLICY)
    counts = {step.name: (step.checked, step.not_checked) for step in report.steps}
    assert (counts["artifacts"], counts["attestations"]) == ((1, 1), (0, 1))
    assert codes(report) == {Code.ARTIFACT_MISSING}


def test_an_artifact_that_cannot_be_read_is_not_checked_and_stops_nothing() -> None:
    class Broken(MemorySource):
        def open_artifact(self, sha256: str) -> BinaryIO | None:
            raise StoreError(Code.UNREADABLE, "input/output error", position=Position(source=sha256))

    ledger = small_ledger(1)
    ledger.add("run", run_body(1, artifacts=[artifact(b"one")]), RUNNER)
    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY)
    assert (codes(report), report.exit_code) == ({Code.ARTIFACT_UNREADABLE}, ExitCode.VERIFIED)
    assert outcome(report, "artifacts") is Outcome.NOT_CHECKED


def test_an_artifact_whose_medium_fails_half_way_is_not_checked_and_stops_nothing() -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(2)

    class Broken(MemorySource):
        def open_artifact(self, sha256: str) -> BinaryIO | None:
            return Failing(b"one")

    ledger = small_ledger(1)
    ledger.add("run", run_body(1, artifacts=[artifact(b"one")]), RUNNER)
    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY)
    assert (codes(report), report.exit_code) == ({Code.ARTIFACT_UNREADABLE}, ExitCode.VERIFIED)
    assert outcome(report, "artifacts") is Outcome.NOT_CHECKED
    assert "Input/output error" in report.findings[0].message
    assert check_log(Broken(ledger.data), dataclasses.replace(POLICY, require=frozenset({"artifacts"}))).exit_code == 4


@pytest.mark.parametrize("kept", [False, True])
def test_a_signed_head_that_cannot_be_read_accuses_nobody_and_is_no_pass(kept: bool) -> None:
    class Broken(MemorySource):
        def checkpoint(self) -> bytes | None:
            if kept:
                return super().checkpoint()
            raise StoreError(Code.UNREADABLE, "input/output error")

        def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
            raise StoreError(Code.UNREADABLE, "input/output error")

    ledger = small_ledger(1)
    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY)
    assert (codes(report), report.exit_code) == ({Code.CHECKPOINT_UNREADABLE}, ExitCode.UNREADABLE)
    assert outcome(report, "checkpoint") is Outcome.NOT_CHECKED
    assert outcome(report, "signatures") is Outcome.PASS
    forged = ledger.data.replace(b'"batch":1', b'"batch":2')
    assert check_log(Broken(forged, checkpoint=ledger.head()), POLICY).exit_code == 1


@pytest.mark.parametrize("where", ["alone", "beside a kept one", "remembered"])
def test_of_a_newest_head_that_cannot_be_read_nothing_is_asked(where: str) -> None:
    class Broken(MemorySource):
        def checkpoint(self) -> bytes | None:
            raise StoreError(Code.UNREADABLE, "input/output error")

    ledger = small_ledger(1)
    size = len(ledger.lines)
    kept = (("checkpoints/000000000004.note", sign_head(ledger.lines[:4])),) if where != "alone" else ()
    memory = Options(expected_heads=(("seen", ledger.head()),) if where == "remembered" else ())
    witness = NoteKey("witness.example/w", "w", COSIGNER_TYPE).verifier_key
    witnesses = (Witness(parse_verifier_key(witness), "w"),)
    asking = dataclasses.replace(POLICY, minimum_size=size, quorum=1, witnesses=witnesses)
    report = check_log(Broken(ledger.data, kept=kept), asking, memory)
    assert codes(report) == {Code.CHECKPOINT_UNREADABLE} | ({Code.UNCHECKPOINTED} if kept else set())
    assert report.exit_code == ExitCode.UNREADABLE
    assert (outcome(report, "checkpoint"), outcome(report, "witnesses")) == (Outcome.NOT_CHECKED,) * 2
    short = check_log(Broken(b"".join(ledger.lines[:-1]), kept=kept), asking, Options())
    assert Code.HEAD_TOO_SMALL in codes(short), "a log of fewer lines has no such head"
    assert short.exit_code == ExitCode.FALSE


def test_a_head_by_a_key_that_was_stolen_is_a_fork_and_the_log_s_word_on_it_is_told() -> None:
    ledger = small_ledger(0)
    size = len(ledger.lines)
    thief = Builder(list(ledger.lines)).runs(3)
    ledger.runs(1)
    ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=size), ROOT)
    longer = Builder(list(ledger.lines)).runs(4)
    for log, code in ((longer, Code.FORK), (ledger, Code.ROLLBACK)):
        (finding,) = [one for one in check(log, expected_heads=(("seen", thief.head()),)).findings if one.code is code]
        assert f"entry {size + 1} takes back what the key of that head signed from entry {size} on" in finding.message
        assert str(finding.advice).endswith("put the memory aside with --forget")
    below = sign_head([*ledger.lines[: size - 1], b"another\n"])
    (finding,) = [one for one in check(longer, expected_heads=(("seen", below),)).findings if one.code is Code.FORK]
    assert "takes back" not in finding.message, "what the key signed there, nobody took back"


def test_a_log_that_cannot_be_read_is_said_to_be() -> None:
    class Broken(MemorySource):
        def blocks(self) -> Iterator[bytes]:
            yield small_ledger().data[:5000]
            raise StoreError(Code.UNREADABLE, "input/output error")

    report = check_log(Broken(b""), POLICY)
    assert (codes(report), report.exit_code, report.head) == ({Code.UNREADABLE}, ExitCode.UNREADABLE, None)


def test_one_digest_has_one_size() -> None:
    ledger = small_ledger(1)
    ledger.add("run", run_body(1, artifacts=[artifact(b"one")]), RUNNER)
    ledger.add("run", run_body(2, artifacts=[artifact(b"one", size=4)]), RUNNER)
    assert Code.ARTIFACT_SIZE in codes(check(ledger))


def test_entries_that_are_named_exist_and_stand_before() -> None:
    ledger = small_ledger(2)
    target = ledger.add("run", run_body(50), RUNNER)
    ledger.add("supersede", {"target": target, "reason": "bad clock", "replacement": None}, JUDGE)
    assert check(ledger).exit_code == 0
    ledger.add("supersede", {"target": "ab" * 32, "reason": "bad clock", "replacement": target}, JUDGE)
    report = check(ledger)
    assert (report.counts, report.findings[0].position.index) == ({Code.REFERENCE_UNKNOWN: 1}, 8)
    ledger.lines.append(b"nonsense\n")
    assert check(ledger).counts[Code.REFERENCE_UNKNOWN] == 1


# ----------------------------------------------------------------------------------------------- verified objects


def test_a_verified_log_comes_out_of_verify_log_only() -> None:
    from k3_ledger.verify.log import VerifiedLog

    with pytest.raises(TypeError, match="verify_log"):
        VerifiedLog(MemorySource(b""), check(b""), (), frozenset(), object())


def test_a_log_that_does_not_verify_raises_with_the_report() -> None:
    ledger = small_ledger()
    ledger.lines.pop(4)
    with pytest.raises(VerificationError) as caught:
        verify_log(MemorySource(ledger.data), POLICY)
    assert caught.value.report.exit_code == 1
    assert caught.value.code in (Code.CHAIN_INDEX, Code.CHAIN_PREV)


def test_what_is_iterated_is_what_was_verified() -> None:
    ledger = small_ledger(30)
    source = MemorySource(ledger.data, block=700)
    log = verify_log(source, POLICY, Options(chunk_bytes=2000))
    assert [entry.index for entry in log] == list(range(34))
    assert [entry.entry.kind for entry in log][:5] == ["genesis", "key", "key", "key", "run"]
    source._log = source._log[:-1500] + source._log[-1500:].replace(b'"count":10', b'"count":99')
    read = iter(log)
    assert next(read).index == 0  # earlier chunks are still those that were verified
    with pytest.raises(VerificationError) as caught:
        list(read)
    assert caught.value.code is Code.CHANGED_WHILE_READ


def test_findings_beyond_a_number_are_counted_not_kept() -> None:
    ledger = small_ledger(80)
    ledger.lines[10:70] = [line.replace(b'"count":10', b'"count":11') for line in ledger.lines[10:70]]
    report = check(ledger, chunk_bytes=5000)
    assert report.counts[Code.SIGNATURE_MISMATCH] == 60
    assert sum(finding.code is Code.SIGNATURE_MISMATCH for finding in report.findings) == 50


def test_processes_do_not_change_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from k3_ledger.verify import scan

    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    ledger = small_ledger(60)
    ledger.lines[30] = ledger.lines[30].replace(b'"count":10', b'"count":11')
    done: list[int] = []
    parallel = check(ledger, processes=2, chunk_bytes=4000, block=1000, checkpoint=ledger.head(), progress=done.append)
    assert parallel.as_dict() == check(ledger, checkpoint=ledger.head()).as_dict()
    assert len(done) > 10
    assert done == sorted(done)
    assert done[-1] == len(ledger.data)


@pytest.mark.parametrize("processes", [1, 2])
def test_signatures_that_a_caller_vouches_for_are_counted_and_not_looked_at(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k3_ledger.verify import scan

    monkeypatch.setattr(scan, "PARALLEL_BYTES", 0)
    ledger = small_ledger(20)
    at, size = 12, len(ledger.lines)
    ledger.lines[at] = ledger.lines[at][:-91] + ledger.lines[at - 1][-91:]
    assert b'"kind":"run"' in ledger.lines[at]
    for vouched in (0, at, at + 1, size):
        report = check(ledger, processes=processes, chunk_bytes=4000, vouched=vouched)
        found = vouched <= at
        assert (report.counts == {Code.SIGNATURE_MISMATCH: 1}) is found, report.findings
        signatures, keys = report.steps[3], report.steps[4]
        assert (signatures.checked, signatures.failed, signatures.not_checked) == (size - vouched, found, vouched)
        assert keys.checked == size + 1 - found


def test_misuse_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="processes"):
        Options(processes=0)
    with pytest.raises(ValueError, match="block"):
        MemorySource(b"", block=0)
    with pytest.raises(ValueError, match="finding"):
        VerificationError(check(small_ledger(), checkpoint=small_ledger().head()))


def test_every_step_is_reported_in_order() -> None:
    report = check(small_ledger())
    assert [(step.number, step.name) for step in report.steps] == [
        (number, name) for number, (name, _) in enumerate(STEPS, start=1)
    ]


def test_the_log_key_signs_the_tree_and_no_run() -> None:
    ledger = small_ledger()
    ledger.add("run", run_body(1), LOG)
    assert codes(check(ledger, checkpoint=ledger.head())) == {Code.KEY_WRONG_ROLE}


class TwoLogs(MemorySource):
    """One log at the first reading, another from then on."""

    def __init__(self, first: bytes, then: bytes | StoreError) -> None:
        super().__init__(first)
        self.then, self.read = then, 0

    def blocks(self) -> Iterator[bytes]:
        self.read += 1
        if self.read == 1:
            yield from super().blocks()
        elif isinstance(self.then, StoreError):
            raise self.then
        else:
            yield self.then


def superseding() -> Builder:
    ledger = small_ledger(3)
    body = {"target": identity(ledger, 5), "reason": "again", "replacement": None}
    ledger.add("supersede", body, JUDGE)
    return ledger


def test_names_are_looked_up_in_the_very_bytes_that_were_verified() -> None:
    ledger = superseding()
    report = check_log(TwoLogs(ledger.data, ledger.data.replace(b"engine", b"engyne")))
    assert (report.exit_code, codes(report)) == (ExitCode.UNREADABLE, {Code.CHANGED_WHILE_READ})
    assert report.findings[0].position.line == 1
    grown = check_log(TwoLogs(ledger.data, ledger.data + ledger.lines[-1]))
    assert grown.exit_code == ExitCode.VERIFIED


def test_names_are_looked_up_beside_a_line_that_is_too_long() -> None:
    ledger = superseding()
    ledger.lines.insert(6, ledger.lines[4][:40] + b"a" * 200_000 + ledger.lines[4][40:])
    report = check_log(MemorySource(ledger.data))
    assert Code.LINE_TOO_LONG in codes(report)
    assert not codes(report) & {Code.REFERENCE_UNKNOWN, Code.CHANGED_WHILE_READ}


def test_a_medium_that_fails_later_is_not_called_a_changed_log() -> None:
    ledger = small_ledger(1)
    log = verify_log(TwoLogs(ledger.data, StoreError(Code.UNREADABLE, "gone")))
    with pytest.raises(StoreError, match="gone"):
        list(log)


@pytest.mark.parametrize("position", [0, 1])
def test_nothing_supersedes_what_says_which_keys_count(position: int) -> None:
    ledger = small_ledger(1)
    body = {"target": identity(ledger, 4), "reason": "again", "replacement": identity(ledger, position)}
    ledger.add("supersede", body, JUDGE)
    report = check_log(MemorySource(ledger.data))
    assert (report.exit_code, codes(report)) == (ExitCode.FALSE, {Code.REFERENCE_KIND})
    (finding,) = report.findings
    assert (finding.position.index, finding.position.field) == (5, "body.replacement")
    assert finding.found == f"entry {position} of kind {'key' if position else 'genesis'}"


def _hint(report: Report) -> str:
    (found,) = [finding for finding in report.findings if finding.code in (Code.TORN_TAIL, Code.NUL_TAIL)]
    return found.advice


@pytest.mark.parametrize("tail", [b"{", b"\0" * 20], ids=["torn", "NUL"])
@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ("nothing else", "run `k3-ledger recover`, which keeps"),
        ("a smaller head", "run `k3-ledger recover`, which keeps"),
        ("a larger head", "do not recover"),
        ("a larger head that was kept", "do not recover"),
        ("a larger head that is remembered", "do not recover"),
        ("one entry more was signed for", "do not recover"),
        ("a head that is none", "see to the other errors first"),
        ("a wrong line", "see to the other errors first"),
        ("no whole entry", "clears the place"),
        ("no whole entry and a head", "do not recover"),
    ],
)
def test_the_hint_for_a_torn_tail_is_what_recover_would_do(tail: bytes, how: str, hint: str) -> None:
    ledger = small_ledger()
    data = b"".join(ledger.lines[:-2])
    more: dict[str, Any] = {}
    if how == "a larger head":
        more["checkpoint"] = ledger.head()
    elif how == "a larger head that was kept":
        more["kept"] = (("checkpoints/9.note", ledger.head()),)
    elif how == "a larger head that is remembered":
        more["expected_heads"] = (("seen", ledger.head()),)
    elif how == "one entry more was signed for":
        more["checkpoint"] = sign_head(ledger.lines[:-1])
    elif how == "a smaller head":
        more["checkpoint"] = sign_head(ledger.lines[:-3])
    elif how == "a head that is none":
        more["checkpoint"] = b"nothing\n"
    elif how == "a wrong line":
        data = data.replace(b'"sig":"', b'"sig":"A', 1)
    elif how == "no whole entry":
        data, tail = b"", b'{"entry":{' + tail[1:]
    elif how == "no whole entry and a head":
        data, tail, more["checkpoint"] = b"", b'{"entry":{' + tail[1:], ledger.head()
    assert hint in _hint(check(data + tail, **more))


def test_the_hint_for_a_missing_line_feed_depends_on_what_the_largest_head_commits_to() -> None:
    ledger = small_ledger()
    whole = b"".join(ledger.lines)[:-1]
    assert "puts the missing line feed back" in _hint(check(whole, checkpoint=ledger.head()))
    assert "which keeps the cut bytes aside" in _hint(check(whole))
    assert "do not recover" in _hint(check(whole, expected_heads=(("seen", ledger.head()),)))
    assert "do not recover" in _hint(check(b"".join(ledger.lines[:-1])[:-1], checkpoint=ledger.head()))
    assert "do not recover" in _hint(check(ledger.lines[0][:-1], checkpoint=sign_head(ledger.lines[:1])))
