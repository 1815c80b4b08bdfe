"""What counts as a root key that somebody holds, when one is to be retired."""

from __future__ import annotations

import pytest

from k3_ledger.ledger.writer.possession import check_shown
from k3_ledger.ledger.writer.roster import read_state
from k3_ledger.ledger.writer.store import NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import SIGNERS, STRANGER, public

ROOT = SIGNERS["root"].key_id
NEW = enrolment(NewKey("root", "new", public(STRANGER)))
OLD = enrolment(NewKey("root", "old", public(SIGNERS["root"])))
ROTATE = {**NEW, "action": "rotate", "replaces": ROOT}
REVOKE = {**OLD, "action": "revoke"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("threshold", {"threshold": 2, "reason": None, "endorsements": []}),
        ("key", NEW),
        ("key", {**NEW, "role": "log", "action": "rotate", "replaces": SIGNERS["log"].key_id}),
        ("key", REVOKE),  # no root key is left at all: that is another refusal
    ],
)
def test_what_leaves_the_log_to_no_other_root_key_is_not_asked_about(ledger, kind, body):
    check_shown(read_state(ledger), kind, body, [ROOT])


def test_a_new_root_key_has_to_be_shown(ledger):
    state = read_state(ledger)
    with pytest.raises(LedgerError) as caught:
        check_shown(state, "key", ROTATE, [ROOT])
    assert caught.value.code is Code.KEY_NOT_SHOWN
    assert STRANGER.key_id[:16] in caught.value.finding.message
    check_shown(state, "key", ROTATE, [ROOT, STRANGER.key_id])


def test_who_endorses_an_action_has_shown_the_key(ledger):
    with ledger.writer(SIGNERS["root"]) as writer:
        writer.append("key", NEW)
    state = read_state(ledger)
    with pytest.raises(LedgerError):
        check_shown(state, "key", REVOKE, [ROOT])
    check_shown(state, "key", {**REVOKE, "endorsements": [{"key": STRANGER.key_id, "sig": ""}]}, [ROOT])
    check_shown(state, "key", REVOKE, [STRANGER.key_id])
