"""The memory of a witness: whole, damaged, missing; it never starts over by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key, parse_verifier_key
from k3_ledger.ledger.witness.documents import MAX_FILE
from k3_ledger.ledger.witness.state import MAX_KEYS, WitnessState, origin_hash, seconds_now
from k3_ledger.schemas.errors import StoreError
from tests.ledger.core.samples import code_of, refusal
from tests.ledger.witness.support import LOG, NAME, NOW, ORIGIN, SIGNER, STRANGER, WITNESS, A, B, Branch, new_witness
from tests.reference.naive_note import NoteKey
from tests.support import ROOT

if TYPE_CHECKING:
    from k3_ledger.ledger.witness.cosign import CosigningWitness


@pytest.fixture
def witness(tmp_path):
    made = new_witness(tmp_path / "w")
    made.add_checkpoint(A.request(0, 5))
    return made


def log_file(witness: CosigningWitness):
    return witness.state.root / "logs" / f"{origin_hash(ORIGIN)}.json"


def test_a_new_witness_knows_no_log(tmp_path):
    made = WitnessState.create(tmp_path / "w", NAME, SIGNER.public_key)
    opened = WitnessState.open(tmp_path / "w")
    assert opened.verifier == made.verifier == Verifier(NAME, SIGNER.public_key, KeyType.COSIGNATURE)
    assert format_verifier_key(opened.verifier) == WITNESS.verifier_key
    assert opened.origins() == ()
    assert code_of(opened.log, ORIGIN) == "WITNESS_ORIGIN"
    assert opened.note_of(origin_hash(ORIGIN)) is None


def test_nothing_is_overwritten(tmp_path):
    WitnessState.create(tmp_path / "w", NAME, SIGNER.public_key)
    before = (tmp_path / "w" / "witness.json").read_bytes()
    assert code_of(WitnessState.create, tmp_path / "w", "other.example", bytes(range(32))) == "WITNESS_EXISTS"
    assert (tmp_path / "w" / "witness.json").read_bytes() == before
    assert code_of(WitnessState.create, tmp_path / "no" / "where", NAME, SIGNER.public_key) == "STORE_MISSING"
    with pytest.raises(ValueError, match="key name"):
        WitnessState.create(tmp_path / "x", "with space", SIGNER.public_key)


def test_logs_are_added_once_and_listed(tmp_path):
    state = WitnessState.create(tmp_path / "w", NAME, SIGNER.public_key)
    other = Branch(origin="example.org/a")
    for branch in (A, other, A):
        state.add_log(branch.origin, [parse_verifier_key(LOG.verifier_key)])
    assert state.origins() == ("example.org/a", ORIGIN)
    log = state.log(ORIGIN)
    assert (log.note, log.head.size, log.timestamp, len(log.verifiers)) == (b"", 0, 0, 1)
    assert state.note_of(origin_hash(ORIGIN)) is None


def test_the_last_note_is_found_by_the_hash_of_its_origin(witness):
    witness.state.add_log("example.org/a", [parse_verifier_key(LOG.verifier_key)])
    assert witness.state.note_of(origin_hash(ORIGIN)) == witness.state.log(ORIGIN).note
    for name in ("../witness", origin_hash(ORIGIN).upper(), origin_hash(ORIGIN) + "\n", "", "00" * 32):
        assert witness.state.note_of(name) is None


def test_one_damaged_log_file_says_nothing_of_another_log(witness):
    other = witness.state.root / "logs" / f"{origin_hash('example.org/a')}.json"
    for put in (b"damaged", log_file(witness).read_bytes()):
        other.write_bytes(put)
        assert witness.state.note_of(origin_hash(ORIGIN)) == witness.state.log(ORIGIN).note
        assert code_of(witness.state.note_of, other.stem) == "WITNESS_STATE"
        assert code_of(witness.state.log, "example.org/a") == "WITNESS_STATE"
    witness.add_checkpoint(A.request(5, 8))


def test_the_note_of_a_log_that_was_lost_is_not_one_that_never_was(witness):
    log_file(witness).unlink()
    assert code_of(witness.state.note_of, origin_hash(ORIGIN)) == "WITNESS_STATE"


def test_keys_that_no_log_signs_with_are_misuse(tmp_path):
    state = WitnessState.create(tmp_path / "w", NAME, SIGNER.public_key)
    log = parse_verifier_key(LOG.verifier_key)
    many = [parse_verifier_key(NoteKey(ORIGIN, f"log {number}").verifier_key) for number in range(MAX_KEYS + 1)]
    for origin, keys in ((ORIGIN, []), (ORIGIN, [state.verifier]), ("", [log]), ("a\nb", [log]), (ORIGIN, many)):
        with pytest.raises(ValueError, match=r"key|origin"):
            state.add_log(origin, keys)
    assert state.origins() == ()


# ----------------------------------------------------------------------------------------------------------- damage


def edited(data: bytes, **changes: object) -> bytes:
    document = {**json.loads(data), **changes}
    document = {name: value for name, value in document.items() if value is not ...}
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


LOG_DAMAGE = {
    "empty": lambda data: b"",
    "zeroes": lambda data: bytes(len(data)),
    "cut": lambda data: data[:-1],
    "too long": lambda data: b'"' + b"x" * MAX_FILE,
    "list": lambda data: b"[]",
    "member lost": lambda data: edited(data, keys=...),
    "member too many": lambda data: edited(data, more=1),
    "other schema": lambda data: edited(data, schema="k3-ledger/witness-log/2"),
    "keys are no list": lambda data: edited(data, keys="x"),
    "key is no key": lambda data: edited(data, keys=["x"]),
    "key is a number": lambda data: edited(data, keys=[1]),
    "note is a number": lambda data: edited(data, checkpoint=1),
    "head made larger": lambda data: data.replace(rb"log\n5\n", rb"log\n6\n"),
    "head made smaller": lambda data: data.replace(rb"log\n5\n", rb"log\n4\n"),
    "cosignature lost": lambda data: edited(data, checkpoint=A.note(5).decode()),
    "cosignature of another head": lambda data: edited(
        data, checkpoint=A.note(4).decode() + WITNESS.line(A.text(5), 7)
    ),
    "head of another log": lambda data: edited(
        data, checkpoint=f"{(t := A.text(5).replace('org/log', 'org/lag'))}\n{WITNESS.line(t, 7)}"
    ),
    "other origin": lambda data: edited(data, origin="example.org/other", checkpoint=""),
}


@pytest.mark.parametrize("name", LOG_DAMAGE)
def test_a_damaged_log_file_signs_nothing(witness, name):
    path = log_file(witness)
    path.write_bytes(LOG_DAMAGE[name](path.read_bytes()))
    for request in (A.request(5, 8), A.request(0, 8), B.request(0, 8)):
        error = refusal(witness.add_checkpoint, request)
        assert (error.code.name, error.finding.position.source) == ("WITNESS_STATE", str(path))


def test_a_log_file_that_cannot_be_read_is_no_unknown_log(witness):
    path = log_file(witness)
    path.unlink()
    path.mkdir()  # whoever runs the tests, this cannot be read
    error = refusal(witness.add_checkpoint, B.request(0, 8))
    assert (type(error), error.code.name) == (StoreError, "WITNESS_STATE")
    assert code_of(witness.state.add_log, ORIGIN, [parse_verifier_key(LOG.verifier_key)]) == "WITNESS_STATE"


PLACES = {
    "a named pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("put", PLACES.values(), ids=PLACES)
def test_whatever_stands_in_the_place_of_state_is_said_and_never_waited_for(witness, put):
    log, own = log_file(witness), witness.state.root / "witness.json"
    log.unlink()
    put(log)
    assert code_of(witness.state.add_log, ORIGIN, [parse_verifier_key(LOG.verifier_key)]) == "WITNESS_STATE"
    assert code_of(witness.state.origins) == "WITNESS_STATE"
    own.unlink()
    put(own)
    error = refusal(WitnessState.open, witness.state.root)
    assert (error.code.name, "witness init" in error.finding.advice) == ("WITNESS_STATE", False)


def test_a_damaged_log_file_is_not_written_over(witness):
    log_file(witness).write_bytes(b"damaged")
    assert code_of(witness.state.add_log, ORIGIN, [parse_verifier_key(LOG.verifier_key)]) == "WITNESS_STATE"
    assert log_file(witness).read_bytes() == b"damaged"


# ------------------------------------------------------------------------------------------------------------- loss


KEYS = [parse_verifier_key(LOG.verifier_key)]


def cosigned(size: int, branch: Branch = A, time: int = NOW) -> bytes:
    """A head as the log published it: with the witness's line."""
    return branch.note(size) + WITNESS.line(branch.text(size), time).encode()


def test_a_lost_log_file_signs_nothing_and_is_no_unknown_log(witness):
    path = log_file(witness)
    witness.state.check_nothing_lost()
    path.unlink()
    for attempt in (
        lambda: witness.add_checkpoint(B.request(0, 8)),
        lambda: witness.add_checkpoint(A.request(5, 8)),
        lambda: witness.state.add_log(ORIGIN, KEYS),
        witness.state.check_nothing_lost,
    ):
        error = refusal(attempt)
        assert (error.code.name, error.finding.position.source) == ("WITNESS_STATE", str(path))
        assert "--from" in error.finding.advice
    assert not path.exists()


def test_a_log_of_which_nothing_was_cosigned_can_be_added_again(tmp_path):
    fresh = new_witness(tmp_path / "w")
    log_file(fresh).unlink()
    fresh.state.check_nothing_lost()
    assert code_of(fresh.add_checkpoint, B.request(0, 8)) == "WITNESS_ORIGIN"
    fresh.state.add_log(ORIGIN, KEYS)
    fresh.add_checkpoint(B.request(0, 8))


def test_a_log_file_from_before_the_first_cosignature_signs_nothing(tmp_path):
    fresh = new_witness(tmp_path / "w")
    old = log_file(fresh).read_bytes()
    fresh.add_checkpoint(A.request(0, 5))
    log_file(fresh).write_bytes(old)
    assert code_of(fresh.add_checkpoint, B.request(0, 8)) == "WITNESS_STATE"


def test_a_state_without_marks_gets_them_with_the_next_cosignature(witness):
    """States of before there were marks, and what a crash between note and mark leaves."""
    mark = witness.state.root / "cosigned" / origin_hash(ORIGIN)
    assert mark.read_text(encoding="utf-8") == f"{ORIGIN}\n"
    mark.unlink()
    mark.parent.rmdir()
    witness.add_checkpoint(A.request(5, 8))
    assert mark.is_file()


@pytest.mark.parametrize("notes", [[cosigned(5)], [cosigned(3), cosigned(5), cosigned(4)], [b"junk", cosigned(5)]])
def test_a_lost_memory_goes_on_from_the_last_head_that_carries_its_own_signature(witness, notes):
    before = witness.state.log(ORIGIN)
    log_file(witness).unlink()
    after = witness.state.take_up(ORIGIN, KEYS, notes)
    assert after == witness.state.log(ORIGIN) == before
    assert code_of(witness.add_checkpoint, B.request(5, 8)) == "CONSISTENCY_MISMATCH"
    assert code_of(witness.add_checkpoint, B.request(5, 5)) == "WITNESS_FORK"
    assert code_of(witness.add_checkpoint, B.request(0, 8)) == "WITNESS_OLD_SIZE"
    witness.add_checkpoint(A.request(5, 8))


def test_of_several_own_lines_the_last_one_is_kept(witness):
    log_file(witness).unlink()
    twice = cosigned(5, time=NOW + 9) + WITNESS.line(A.text(5), NOW).encode()
    assert witness.state.take_up(ORIGIN, KEYS, [twice, cosigned(5, time=NOW - 9)]).timestamp == NOW + 9
    assert witness.state.log(ORIGIN).note == cosigned(5, time=NOW + 9)


OTHER = NoteKey("witness.example/other", "other", WITNESS.kind)
NOT_OWN = {
    "nothing": ([], "WITNESS_STATE"),
    "a head that nobody cosigned": ([A.note(5)], "WITNESS_STATE"),
    "a head that another witness cosigned": ([A.note(5) + OTHER.line(A.text(5), NOW).encode()], "WITNESS_STATE"),
    "its line of another head": ([A.note(8) + WITNESS.line(A.text(5), NOW).encode()], "WITNESS_STATE"),
    "its line without a time": ([cosigned(5, time=0)], "WITNESS_STATE"),
    "a head of another log": ([cosigned(5, Branch(origin="example.org/other"))], "WITNESS_STATE"),
    "no checkpoint": ([b"text\n\n" + WITNESS.line("text\n", NOW).encode()], "WITNESS_STATE"),
    "two histories": ([cosigned(5), cosigned(5, B)], "WITNESS_FORK"),
    "a head that the log did not sign": (
        [A.text(5).encode() + b"\n" + WITNESS.line(A.text(5), NOW).encode()],
        "NOTE_UNSIGNED",
    ),
}


@pytest.mark.parametrize("name", NOT_OWN)
def test_nothing_else_is_a_head_to_go_on_from(witness, name):
    log_file(witness).unlink()
    notes, code = NOT_OWN[name]
    assert code_of(witness.state.take_up, ORIGIN, KEYS, notes) == code
    assert not log_file(witness).exists()


def test_what_the_evidence_of_forks_shows_is_never_gone_behind(witness):
    witness.add_checkpoint(A.request(5, 8))
    assert code_of(witness.add_checkpoint, B.request(8, 8)) == "WITNESS_FORK"
    log_file(witness).unlink()
    assert witness.state.take_up(ORIGIN, KEYS, [cosigned(5)]).head.size == 8


def test_a_memory_that_is_there_is_not_taken_up(witness):
    for damage in (None, b"damaged"):
        if damage:
            log_file(witness).write_bytes(damage)
        before = log_file(witness).read_bytes()
        with pytest.raises(ValueError, match="has a memory of"):
            witness.state.take_up(ORIGIN, KEYS, [cosigned(5)])
        assert log_file(witness).read_bytes() == before


def test_keys_and_origin_are_checked_when_a_memory_is_taken_up(witness):
    for origin, keys in ((ORIGIN, []), (ORIGIN, [witness.state.verifier]), ("", KEYS), ("a\nb", KEYS)):
        with pytest.raises(ValueError, match=r"key|origin"):
            witness.state.take_up(origin, keys, [cosigned(5)])


def test_a_head_with_its_own_signature_that_it_does_not_remember_stops_a_witness(witness):
    """An older good file was put back, or a second copy of the state signs."""
    old = log_file(witness).read_bytes()
    witness.add_checkpoint(A.request(5, 8))
    log_file(witness).write_bytes(old)
    for request in (
        replace(A.request(5, 8), checkpoint=cosigned(8)),
        replace(A.request(5, 5), checkpoint=cosigned(5, B)),
    ):
        assert code_of(witness.add_checkpoint, request) == "WITNESS_STATE"
    assert log_file(witness).read_bytes() == old
    log = witness.state.log(ORIGIN)
    assert code_of(witness.check_remembered, log, [cosigned(4), cosigned(8)]) == "WITNESS_STATE"
    witness.check_remembered(log, [cosigned(4), cosigned(5), A.note(8), b"junk"])
    witness.add_checkpoint(replace(A.request(5, 5), checkpoint=cosigned(5)))


LEFT = {"logs": "logs/{0}.json", "marks": "cosigned/{0}", "evidence": "forks/{0}"}


@pytest.mark.parametrize("name", LEFT)
def test_no_new_witness_is_made_over_what_is_left_of_one(witness, name):
    assert code_of(witness.add_checkpoint, B.request(5, 5)) == "WITNESS_FORK"
    root = witness.state.root
    kept = LEFT[name].format(origin_hash(ORIGIN))
    (root / "witness.json").unlink()
    for other in LEFT.values():
        path = root / other.format(origin_hash(ORIGIN))
        if other != LEFT[name]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    error = refusal(WitnessState.create, root, NAME, SIGNER.public_key)
    assert (error.code.name, error.finding.position.source) == ("WITNESS_EXISTS", str(root / kept))
    assert "--restore" in error.finding.advice
    assert not (root / "witness.json").exists()


def test_a_lost_witness_file_is_written_again_beside_what_is_left(witness):
    path = witness.state.root / "witness.json"
    before = path.read_bytes()
    assert code_of(WitnessState.create, path.parent, NAME, SIGNER.public_key, restore=True) == "WITNESS_EXISTS"
    path.unlink()
    assert "--restore" in refusal(WitnessState.open, path.parent).finding.advice
    for name, key in ((NAME, STRANGER.public), ("other.example", SIGNER.public_key)):
        assert code_of(WitnessState.create, path.parent, name, key, restore=True) == "WITNESS_STATE"
        assert not path.exists()
    WitnessState.create(path.parent, NAME, SIGNER.public_key, restore=True)
    assert path.read_bytes() == before
    assert code_of(witness.add_checkpoint, B.request(0, 8)) == "WITNESS_OLD_SIZE"
    witness.add_checkpoint(A.request(5, 8))


def test_where_nothing_is_left_nothing_is_restored(tmp_path):
    with pytest.raises(ValueError, match="nothing of a witness"):
        WitnessState.create(tmp_path / "w", NAME, SIGNER.public_key, restore=True)
    assert not (tmp_path / "w" / "witness.json").exists()


WITNESS_DAMAGE = {
    "empty": b"",
    "no key": edited(b"{}", schema="k3-ledger/witness-state/1", verifier_key="x"),
    "a log's key": edited(b"{}", schema="k3-ledger/witness-state/1", verifier_key=LOG.verifier_key),
    "other schema": edited(b"{}", schema="k3-ledger/witness-state/2", verifier_key=WITNESS.verifier_key),
}


@pytest.mark.parametrize("name", WITNESS_DAMAGE)
def test_a_damaged_witness_file_opens_nothing(witness, name):
    (witness.state.root / "witness.json").write_bytes(WITNESS_DAMAGE[name])
    assert code_of(WitnessState.open, witness.state.root) == "WITNESS_STATE"


def test_a_directory_without_a_witness_says_how_to_make_one(tmp_path):
    error = refusal(WitnessState.open, tmp_path)
    assert (error.code.name, "witness init" in error.finding.advice) == ("WITNESS_STATE", True)
    (tmp_path / "witness.json").mkdir()
    error = refusal(WitnessState.open, tmp_path)
    assert (error.code.name, "witness init" in error.finding.advice) == ("WITNESS_STATE", False)


def test_logs_that_cannot_be_listed_are_said(witness):
    (witness.state.root / "logs" / "stray.json").write_bytes(b"")
    assert code_of(witness.state.origins) == "WITNESS_STATE"
    assert witness.state.note_of(origin_hash(ORIGIN)) == witness.state.log(ORIGIN).note


ASK = """
import sys
from pathlib import Path
from k3_ledger.ledger.witness.cosign import CosigningWitness
from k3_ledger.ledger.witness.state import WitnessState
from tests.ledger.core.samples import code_of
from tests.ledger.witness.support import SIGNER, A
witness = CosigningWitness(WitnessState.open(Path(sys.argv[1]), lock_timeout_s=0), SIGNER)
print(code_of(witness.add_checkpoint, A.request(5, 8)) or "signed")
"""


def test_whoever_holds_the_lock_is_waited_for_and_no_longer(witness):
    """Threads of one process queue on a lock that its holder may take again, so another process has to ask."""

    def ask() -> str:
        command = [sys.executable, "-c", ASK, witness.state.root]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    with witness.state.locked():
        assert ask() == "LOCK_BUSY\n"
    assert ask() == "signed\n"


def test_the_clock_is_in_whole_seconds_since_1970():
    assert seconds_now() > 1_767_225_600
