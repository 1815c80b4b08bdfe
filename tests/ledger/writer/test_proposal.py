"""A root action on its way past the holders of root keys: what changes it makes it void, what is late is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from k3_ledger.ledger.writer.keys import Signer
from k3_ledger.ledger.writer.proposal import (
    LIMITS,
    check_proposal,
    endorse,
    format_proposal,
    merge,
    parse_proposal,
    propose,
)
from k3_ledger.ledger.writer.store import NewKey, enrolment
from k3_ledger.schemas.envelope import MOST_ENDORSEMENTS
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from tests.ledger.writer.support import ORIGIN, SIGNERS, STRANGER, append_notes, new_ledger, public, read_entries

ROOT = SIGNERS["root"]
SECOND, THIRD = (Signer(hashlib.sha256(name).digest()) for name in (b"second root", b"third root"))
THRESHOLD = {"threshold": 2, "reason": None, "endorsements": []}
BODY = enrolment(NewKey("runner", "new", public(STRANGER)))


@pytest.fixture
def ledger(tmp_path):
    """Three root keys, two of which have to stand behind what is next."""
    made = new_ledger(tmp_path / "ledger")
    with made.writer(ROOT) as writer:
        for name, signer in (("second", SECOND), ("third", THIRD)):
            writer.append("key", enrolment(NewKey("root", name, public(signer))))
        writer.append("threshold", THRESHOLD)
    return made


def append(ledger, proposal, signer=ROOT):
    with ledger.writer(signer) as writer:
        return writer.append(proposal.kind, merge([proposal], signer=signer.key_id).body)


def refused(action):
    with pytest.raises(LedgerError) as caught:
        action()
    return caught.value


def test_endorsed_action_is_appended_and_the_new_key_signs(ledger):
    proposal = endorse(propose(ledger, "key", BODY), SECOND)
    append(ledger, proposal)
    append_notes(ledger, "I am in", signer=STRANGER)
    (endorsement,) = read_entries(ledger.log_path)[-2]["body"]["endorsements"]
    assert endorsement["key"] == SECOND.key_id


def test_action_without_the_threshold_is_not_signed(ledger):
    before = ledger.log_path.read_bytes()
    error = refused(lambda: append(ledger, propose(ledger, "key", BODY)))
    assert error.code is Code.THRESHOLD_NOT_MET
    assert "--propose" in error.finding.advice
    assert ledger.log_path.read_bytes() == before


def test_signers_own_endorsement_is_left_out_and_counts_once(ledger):
    both = endorse(endorse(propose(ledger, "key", BODY), ROOT), SECOND)
    append(ledger, both)
    alone = endorse(propose(ledger, "threshold", THRESHOLD), ROOT)
    assert refused(lambda: append(ledger, alone)).code is Code.THRESHOLD_NOT_MET


def test_endorsing_again_replaces_the_endorsement(ledger):
    once = endorse(propose(ledger, "key", BODY), SECOND)
    assert endorse(once, SECOND) == once
    assert endorse(once, THIRD).endorsers == (SECOND.key_id, THIRD.key_id)


def test_file_of_a_proposal_reads_back_in_any_spacing(ledger):
    proposal = endorse(propose(ledger, "key", BODY), SECOND)
    data = format_proposal(proposal)
    assert data.count(b"\n") == 1
    assert parse_proposal(data) == proposal
    assert parse_proposal(json.dumps(json.loads(data), indent=4).encode()) == proposal


def test_copies_that_holders_endorsed_apart_are_put_together(ledger):
    proposal = propose(ledger, "key", BODY)
    merged = merge([endorse(proposal, SECOND), endorse(proposal, THIRD), endorse(proposal, SECOND)])
    assert merged == endorse(endorse(proposal, SECOND), THIRD)


def test_copies_of_different_proposals_are_told_apart(ledger):
    one, other = propose(ledger, "key", BODY), propose(ledger, "threshold", {**THRESHOLD, "threshold": 1})
    error = refused(lambda: merge([one, other]))
    assert error.code is Code.PROPOSALS_DIFFER
    assert '"kind":"key"' in error.finding.expected
    assert '"kind":"threshold"' in error.finding.found


def test_proposal_is_void_once_another_root_action_is_appended(ledger):
    proposal = endorse(propose(ledger, "key", BODY), SECOND)
    append_notes(ledger, "a note does not matter")
    check_proposal(ledger, proposal)
    append(ledger, endorse(propose(ledger, "threshold", {**THRESHOLD, "reason": "same again"}), THIRD))
    assert refused(lambda: check_proposal(ledger, proposal)).code is Code.ENDORSEMENT_STALE
    error = refused(lambda: append(ledger, proposal))
    assert error.code is Code.ENDORSEMENT_STALE
    assert error.finding.expected.startswith("an endorsement after ")


def test_proposal_for_another_log_is_refused(ledger, tmp_path):
    other = new_ledger(tmp_path / "other")
    error = refused(lambda: check_proposal(other, propose(ledger, "key", BODY)))
    assert error.code is Code.ENDORSEMENT_STALE
    assert error.finding.found.startswith(f"{ORIGIN}, after ")


def test_changed_proposal_makes_its_endorsements_void(ledger):
    data = format_proposal(endorse(propose(ledger, "key", BODY), SECOND)).replace(b'"runner"', b'"judge"')
    assert refused(lambda: append(ledger, parse_proposal(data))).code is Code.ENDORSEMENT_SIGNATURE


def test_action_that_could_never_count_is_not_proposed(ledger):
    judge = {**enrolment(NewKey("judge", "judge-1", public(SIGNERS["judge"])))}
    assert refused(lambda: propose(ledger, "key", judge)).code is Code.KEY_ENROLLED_TWICE
    assert (
        refused(lambda: propose(ledger, "threshold", {**THRESHOLD, "threshold": 4})).code is Code.THRESHOLD_IMPOSSIBLE
    )


@pytest.mark.parametrize(
    ("signer", "code"), [(SIGNERS["judge"], Code.KEY_WRONG_ROLE), (STRANGER, Code.KEY_UNKNOWN), (SECOND, None)]
)
def test_who_endorses_is_held_against_the_ledger(ledger, signer, code):
    proposal = propose(ledger, "key", BODY)
    if code is None:
        check_proposal(ledger, proposal, endorser=signer.key_id)
    else:
        assert refused(lambda: check_proposal(ledger, proposal, endorser=signer.key_id)).code is code


def retold(proposal, **changes):
    """The proposal as a courier would have it."""
    return dataclasses.replace(proposal, body={**proposal.body, **changes})


FORGED = {
    "another action": (lambda given: retold(given, name="evil"), Code.ENDORSEMENT_SIGNATURE),
    "another key": (
        lambda given: retold(given, **{n: enrolment(NewKey("runner", "new", public(EVE)))[n] for n in KEYED}),
        Code.ENDORSEMENT_SIGNATURE,
    ),
    "another root's name": (lambda given: renamed(given, ROOT.key_id), Code.ENDORSEMENT_SIGNATURE),
    "nobody's name": (lambda given: renamed(given, "00" * 32), Code.ENDORSER_UNKNOWN),
    "a judge's name": (lambda given: renamed(given, SIGNERS["judge"].key_id), Code.ENDORSER_UNKNOWN),
    "twice": (
        lambda given: retold(given, endorsements=given.body["endorsements"] * 2),
        Code.ENDORSEMENT_REPEATED,
    ),
}
KEYED = ("key_id", "public_key")
EVE = Signer(hashlib.sha256(b"eve").digest())


def renamed(proposal, key):
    (given,) = proposal.body["endorsements"]
    return retold(proposal, endorsements=[{**given, "key": key}])


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("endorser", [THIRD.key_id, None], ids=["endorse", "append"])
def test_what_only_seems_endorsed_is_refused_before_anybody_stands_behind_it(ledger, how, endorser):
    """The threshold rests on holders who see truly who else stands behind the action."""
    good = endorse(propose(ledger, "key", BODY), SECOND)
    check_proposal(ledger, good, endorser=endorser)
    change, code = FORGED[how]
    assert refused(lambda: check_proposal(ledger, change(good), endorser=endorser)).code is code


def test_an_endorsement_of_an_earlier_state_is_told_from_a_forged_one(ledger):
    old = endorse(propose(ledger, "key", BODY), SECOND)
    append(ledger, endorse(propose(ledger, "threshold", {**THRESHOLD, "reason": "same again"}), THIRD))
    moved = dataclasses.replace(propose(ledger, "key", BODY), body=old.body)
    assert refused(lambda: check_proposal(ledger, moved, endorser=THIRD.key_id)).code is Code.ENDORSEMENT_STALE


def test_ones_own_endorsement_is_replaced_whatever_it_was(ledger):
    spoiled = retold(endorse(propose(ledger, "key", BODY), SECOND), name="other")
    check_proposal(ledger, spoiled, endorser=SECOND.key_id)
    check_proposal(ledger, endorse(spoiled, SECOND))
    assert refused(lambda: check_proposal(ledger, spoiled)).code is Code.ENDORSEMENT_SIGNATURE


def test_nothing_is_proposed_to_a_ledger_without_a_root(tmp_path):
    made = new_ledger(tmp_path / "ledger")
    revocation = {**enrolment(NewKey("root", "root", public(ROOT))), "action": "revoke"}
    with made.writer(ROOT) as writer:
        writer.append("key", revocation, last_root=True)
    assert refused(lambda: propose(made, "key", BODY)).code is Code.KEY_RETIRED


def test_last_root_below_the_threshold_is_not_retired_by_accident(ledger):
    for signer in (THIRD, SECOND):
        revocation = {**enrolment(NewKey("root", "gone", public(signer))), "action": "revoke"}
        if signer is THIRD:
            append(ledger, endorse(propose(ledger, "key", revocation), SECOND))
        else:
            assert refused(lambda body=revocation: propose(ledger, "key", body)).code is Code.ROOTS_TOO_FEW
            meant = endorse(propose(ledger, "key", revocation, last_root=True), SECOND)
            assert refused(lambda made=meant: append(ledger, made)).code is Code.ROOTS_TOO_FEW


def revocation_of(signer, since):
    return {**enrolment(NewKey("root", "stolen", public(signer))), "action": "revoke", "revoked_from": since}


def test_revocation_is_proposed_where_any_root_key_can_sign_it(ledger, tmp_path):
    """The first root key cannot: a thief enrolled it, with what he stole."""
    child, other = (Signer(hashlib.sha256(name).digest()) for name in (b"child", b"other"))
    made = new_ledger(tmp_path / "other")
    for signer, key in ((ROOT, SECOND), (SECOND, child), (ROOT, other)):
        with made.writer(signer) as writer:
            writer.append("key", enrolment(NewKey("root", key.key_id[:8], public(key))))  # 5, 6, 7
    with made.writer(ROOT) as writer:
        writer.append("key", {**revocation_of(ROOT, None)})
        with pytest.raises(LedgerError):
            writer.append("threshold", THRESHOLD)
    proposal = propose(made, "key", revocation_of(SECOND, 6))
    assert refused(lambda: append(made, proposal, child)).code is Code.REVOCATION_CIRCULAR
    append(made, proposal, other)


def test_what_no_root_key_can_sign_is_not_proposed_and_what_others_cannot_is_said(ledger):
    with ledger.writer(ROOT) as writer, pytest.raises(LedgerError) as alone:
        writer.append("key", revocation_of(ROOT, 2))
    assert alone.value.code is Code.KEY_UNKNOWN_TARGET
    assert refused(lambda: propose(ledger, "key", revocation_of(ROOT, 2))).code is Code.REVOCATION_CIRCULAR


def test_endorsements_end_where_an_entry_is_full(ledger):
    proposal = propose(ledger, "key", BODY)
    signers = [Signer(hashlib.sha256(bytes([number])).digest()) for number in range(MOST_ENDORSEMENTS + 1)]
    for signer in signers[:-1]:
        proposal = endorse(proposal, signer)
    endorse(proposal, signers[0])
    assert refused(lambda: endorse(proposal, signers[-1])).code is Code.ENDORSEMENT_REPEATED
    assert parse_proposal(format_proposal(proposal)) == proposal


def test_long_but_allowed_texts_fit_into_a_proposal(ledger):
    body = {**BODY, "reason": "\x01" * 4096}
    data = format_proposal(endorse(propose(ledger, "key", body), SECOND))
    assert len(data) < LIMITS.max_bytes
    assert parse_proposal(data).body["reason"] == body["reason"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda _: [], None),
        (lambda value: {**value, "more": 1}, None),
        (lambda value: {**value, "schema": "k3-ledger/proposal/2"}, "schema"),
        (lambda value: {**value, "kind": "run"}, "kind"),
        (lambda value: {**value, "kind": ["key"]}, "kind"),
        (lambda value: {**value, "after": "a" * 63}, "after"),
        (lambda value: {**value, "after": 7}, "after"),
        (lambda value: {**value, "origin": None}, "origin"),
    ],
    ids=["list", "more", "version", "kind", "kinds", "short", "number", "nameless"],
)
def test_file_that_is_no_proposal_is_named(ledger, change, field):
    value = change(json.loads(format_proposal(propose(ledger, "key", BODY))))
    error = refused(lambda: parse_proposal(json.dumps(value).encode(), position=Position(source="p.json")))
    place = error.finding.position
    assert (error.code, place.source, place.field) == (Code.PROPOSAL_MALFORMED, "p.json", field)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data[:-2], Code.JSON_SYNTAX),
        (lambda data: data.replace(b'"role":"runner"', b'"role":"king"'), Code.SCHEMA_VALUE),
        (lambda data: data.replace(b',"role":"runner"', b""), Code.SCHEMA_MISSING_FIELD),
    ],
    ids=["cut", "value", "field"],
)
def test_damaged_proposal_is_refused_by_cause(ledger, change, code):
    data = change(format_proposal(propose(ledger, "key", BODY)))
    error = refused(lambda: parse_proposal(data, position=Position(source="p.json")))
    assert (error.code, error.finding.position.source) == (code, "p.json")
