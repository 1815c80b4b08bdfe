"""A witness lets go of a log's key: the thief gets nothing more, and the log goes on from what was cosigned."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from k3_ledger.ledger.core.note import Verifier, parse_verifier_key
from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
from k3_ledger.ledger.witness.cosign import ORPHANED
from k3_ledger.ledger.witness.state import MAX_KEYS, WitnessState, origin_hash
from tests.ledger.core.samples import code_of, refusal
from tests.ledger.witness.support import LOG, NOW, ORIGIN, STRANGER, WITNESS, A, B, Branch, new_witness
from tests.reference.naive_note import NoteKey

NEW = NoteKey(ORIGIN, "log two")
STOLEN_KEY, NEW_KEY = (parse_verifier_key(key.verifier_key) for key in (LOG, NEW))
HONEST = replace(A, key=NEW)
THIEF = B
"""Another history from the third leaf on, signed with the log's first key."""


@pytest.fixture
def witness(tmp_path):
    """It cosigned five entries under the key that is then stolen; the owner told it of both."""
    made = new_witness(tmp_path / "w")
    made.add_checkpoint(A.request(0, 5))
    made.state.add_log(ORIGIN, [NEW_KEY])
    return made


def evidence(witness):
    return sorted(path.read_bytes() for path in (witness.state.root / "forks").glob("*/*"))


def both(branch, size):
    """A head that the old key and the new one signed."""
    return branch.note(size) + NEW.line(branch.text(size)).encode()


def test_a_thief_has_nothing_cosigned_under_a_dropped_key_and_the_log_goes_on(witness):
    log = witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert (log.verifiers, log.dropped, log.head.size) == ((NEW_KEY,), (STOLEN_KEY,), 5)
    before = witness.state.log(ORIGIN)
    for request in (A.request(5, 8), THIEF.request(5, 8), THIEF.request(5, 5), THIEF.request(0, 9), A.request(5, 5)):
        error = refusal(witness.add_checkpoint, request)
        assert (error.code.name, "told to drop" in error.finding.message) == ("NOTE_UNSIGNED", True)
    assert witness.state.log(ORIGIN) == before
    assert code_of(witness.add_checkpoint, HONEST.request(4, 4)) == "WITNESS_OLD_SIZE"
    assert code_of(witness.add_checkpoint, replace(HONEST.request(5, 4))) == "WITNESS_SMALLER"
    assert code_of(witness.add_checkpoint, AddCheckpoint(5, (), HONEST.note(8))) is not None
    witness.add_checkpoint(HONEST.request(5, 5))
    witness.add_checkpoint(HONEST.request(5, 8))
    assert witness.state.log(ORIGIN).head.size == 8


def test_what_contradicts_the_log_is_kept_as_evidence_and_hinders_nobody(witness):
    witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert code_of(witness.add_checkpoint, THIEF.request(5, 8)) == "NOTE_UNSIGNED"
    assert evidence(witness) == []  # two sizes contradict each other by no signature alone
    for _ in range(2):
        assert code_of(witness.add_checkpoint, THIEF.request(5, 5)) == "NOTE_UNSIGNED"
    kept = [A.note(5) + WITNESS.line(A.text(5), NOW).encode(), THIEF.note(5)]
    assert evidence(witness) == sorted(kept)
    assert code_of(witness.add_checkpoint, A.request(5, 5)) == "NOTE_UNSIGNED"
    assert evidence(witness) == sorted(kept)
    witness.add_checkpoint(HONEST.request(5, 8))
    log = witness.state.root / "logs" / f"{origin_hash(ORIGIN)}.json"
    log.unlink()
    last = HONEST.note(8) + WITNESS.line(HONEST.text(8), NOW).encode()
    witness.state.take_up(ORIGIN, [NEW_KEY], [last], [STOLEN_KEY])
    witness.add_checkpoint(HONEST.request(8, 9))


def test_a_head_is_judged_by_the_keys_that_are_left(witness):
    witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    spoiled = THIEF.note(8)[:-6] + b"AAAA=\n"  # a bad line under the dropped key is a stranger's
    assert code_of(witness.add_checkpoint, AddCheckpoint(5, (), spoiled)) is not None
    witness.add_checkpoint(replace(A.request(5, 8), checkpoint=both(A, 8)))
    assert code_of(witness.add_checkpoint, replace(A.request(8, 9), checkpoint=replace(A, key=STRANGER).note(9))) == (
        "NOTE_UNSIGNED"
    )


def test_a_witness_that_cosigned_the_thief_s_history_signs_no_other_and_accuses_nobody(tmp_path):
    """It was told too late. Never a fork: the log needs another witness."""
    made, thief, honest = new_witness(tmp_path / "w"), Branch("thief", 5), Branch("own", 5, NEW)
    made.state.add_log(ORIGIN, [NEW_KEY])
    made.add_checkpoint(honest.request(0, 5))
    made.add_checkpoint(thief.request(5, 9))
    log = made.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert log.is_orphaned
    for request, code in (
        (honest.request(9, 9), "WITNESS_FORK"),
        (honest.request(9, 12), "CONSISTENCY_MISMATCH"),
        (replace(honest.request(8, 8), old_size=9), "WITNESS_SMALLER"),
    ):
        error = refusal(made.add_checkpoint, request)
        assert (error.code.name, ORPHANED in error.finding.message) == (code, True)
    assert made.state.log(ORIGIN) == log
    assert len(evidence(made)) == 2


def test_the_own_head_under_a_dropped_key_is_no_hindrance_and_then_forgotten(witness):
    log = witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert log.is_orphaned
    error = refusal(witness.add_checkpoint, replace(HONEST, name="c").request(5, 8))
    assert (error.code.name, ORPHANED in error.finding.message) == ("CONSISTENCY_MISMATCH", True)
    witness.add_checkpoint(HONEST.request(5, 8))
    assert not witness.state.log(ORIGIN).is_orphaned
    error = refusal(witness.add_checkpoint, replace(HONEST, name="c").request(8, 9))
    assert (error.code.name, ORPHANED in error.finding.message) == ("CONSISTENCY_MISMATCH", False)


def test_a_head_that_a_key_signed_that_is_left_is_no_orphan(tmp_path):
    made = new_witness(tmp_path / "w")
    assert not made.state.drop_keys(ORIGIN, [STOLEN_KEY]).is_orphaned  # nothing was cosigned
    made.state.add_log(ORIGIN, [NEW_KEY])
    made.add_checkpoint(HONEST.request(0, 3))
    assert not made.state.log(ORIGIN).is_orphaned


def test_a_head_that_both_keys_signed_is_no_orphan(witness):
    witness.add_checkpoint(replace(A.request(5, 6), checkpoint=both(A, 6)))
    assert not witness.state.drop_keys(ORIGIN, [STOLEN_KEY]).is_orphaned


def test_a_dropped_key_never_comes_back_under_any_name(witness):
    witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    again = (STOLEN_KEY, Verifier("another.name", STOLEN_KEY.public_key))
    for key in again:
        with pytest.raises(ValueError, match="was dropped"):
            witness.state.add_log(ORIGIN, [NEW_KEY, key])
    assert witness.state.drop_keys(ORIGIN, [STOLEN_KEY]) == witness.state.log(ORIGIN)
    assert witness.state.log(ORIGIN).verifiers == (NEW_KEY,)


def test_a_key_is_dropped_under_every_name_that_it_is_known_by(witness):
    alias = Verifier("another.name", STOLEN_KEY.public_key)
    witness.state.add_log(ORIGIN, [alias])
    log = witness.state.drop_keys(ORIGIN, [alias])
    assert (log.verifiers, set(log.dropped)) == ((NEW_KEY,), {STOLEN_KEY, alias})


def test_all_keys_may_be_dropped_before_there_is_another(tmp_path):
    made = new_witness(tmp_path / "w")
    made.add_checkpoint(A.request(0, 5))
    log = made.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert (log.verifiers, WitnessState.open(made.state.root).log(ORIGIN)) == ((), log)
    assert code_of(made.add_checkpoint, A.request(5, 8)) == "NOTE_UNSIGNED"
    assert code_of(made.add_checkpoint, HONEST.request(5, 8)) == "NOTE_UNSIGNED"
    made.state.add_log(ORIGIN, [NEW_KEY])
    made.add_checkpoint(HONEST.request(5, 8))


def test_what_is_no_key_of_the_log_is_not_dropped(witness):
    before = witness.state.log(ORIGIN)
    stranger = parse_verifier_key(STRANGER.verifier_key)
    for keys in ([], [stranger], [STOLEN_KEY, stranger], [witness.state.verifier]):
        with pytest.raises(ValueError, match="key"):
            witness.state.drop_keys(ORIGIN, keys)
    assert witness.state.log(ORIGIN) == before
    assert code_of(witness.state.drop_keys, "example.org/a", [STOLEN_KEY]) == "WITNESS_ORIGIN"


def test_more_keys_than_a_log_has_are_not_dropped(tmp_path):
    made = new_witness(tmp_path / "w")
    keys = [parse_verifier_key(NoteKey(ORIGIN, f"log {number}").verifier_key) for number in range(MAX_KEYS)]
    for key in keys:
        made.state.add_log(ORIGIN, [key])
        if key is not keys[-1]:
            made.state.drop_keys(ORIGIN, [key])
    made.state.drop_keys(ORIGIN, [keys[-1]])
    with pytest.raises(ValueError, match="at most"):
        made.state.drop_keys(ORIGIN, [STOLEN_KEY])
    assert made.state.log(ORIGIN).verifiers == (STOLEN_KEY,)


def test_a_lost_memory_is_taken_up_from_a_head_that_a_dropped_key_signed(witness):
    """The owner cannot name the stolen key as one of the log's: the thief would be cosigned again."""
    path = witness.state.root / "logs" / f"{origin_hash(ORIGIN)}.json"
    path.unlink()
    last = A.note(5) + WITNESS.line(A.text(5), NOW).encode()
    assert code_of(witness.state.take_up, ORIGIN, [NEW_KEY], [last]) == "NOTE_UNSIGNED"
    with pytest.raises(ValueError, match="as one that was dropped"):
        witness.state.take_up(ORIGIN, [STOLEN_KEY, NEW_KEY], [last], [STOLEN_KEY])
    with pytest.raises(ValueError, match="key"):
        witness.state.take_up(ORIGIN, [NEW_KEY], [last], [witness.state.verifier])
    log = witness.state.take_up(ORIGIN, [NEW_KEY], [last], [STOLEN_KEY])
    assert (log, log.head.size, log.dropped) == (witness.state.log(ORIGIN), 5, (STOLEN_KEY,))
    assert code_of(witness.add_checkpoint, THIEF.request(5, 8)) == "NOTE_UNSIGNED"
    assert code_of(witness.add_checkpoint, A.request(5, 8)) == "NOTE_UNSIGNED"
    witness.add_checkpoint(HONEST.request(5, 8))


def test_a_log_without_a_dropped_key_is_written_as_before(witness):
    path = witness.state.root / "logs" / f"{origin_hash(ORIGIN)}.json"
    assert set(json.loads(path.read_bytes())) == {"checkpoint", "keys", "origin", "schema"}
    witness.state.drop_keys(ORIGIN, [STOLEN_KEY])
    written = json.loads(path.read_bytes())
    assert written["dropped"] == [LOG.verifier_key]
    for spoiled in ("none", ["junk"], {}, None):
        path.write_text(json.dumps({**written, "dropped": spoiled}, separators=(",", ":"), sort_keys=True))
        assert code_of(witness.state.log, ORIGIN) == "WITNESS_STATE"
        assert code_of(witness.add_checkpoint, HONEST.request(5, 8)) == "WITNESS_STATE"
