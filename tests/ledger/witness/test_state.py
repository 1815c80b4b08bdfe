"""The memory of a witness: whole, damaged, missing; it never starts over by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key, parse_verifier_key
from k3_ledger.ledger.witness.state import MAX_FILE, MAX_KEYS, WitnessState, origin_hash, seconds_now
from k3_ledger.schemas.errors import StoreError
from tests.ledger.core.samples import code_of, refusal
from tests.ledger.witness.support import LOG, NAME, ORIGIN, SIGNER, WITNESS, A, B, Branch, new_witness
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
    assert witness.state.note_of("../witness") is None


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


def test_a_lost_log_file_is_an_unknown_log(witness):
    log_file(witness).unlink()
    assert code_of(witness.add_checkpoint, B.request(0, 8)) == "WITNESS_ORIGIN"


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
    assert code_of(witness.state.note_of, origin_hash(ORIGIN)) == "WITNESS_STATE"


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
