"""What a witness cosigns, and the attacks that it refuses: forks, rollbacks, strangers, races."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace

import pytest

from k3_ledger.ledger.core.note import parse_note, parse_verifier_key
from k3_ledger.ledger.core.tlog_witness import AddCheckpoint, format_answer
from k3_ledger.ledger.witness.cosign import CosigningWitness, OldSizeError
from k3_ledger.ledger.witness.state import WitnessState, origin_hash
from k3_ledger.ledger.writer.keys import Signer
from k3_ledger.schemas.errors import LedgerError, StoreError
from tests.ledger.core.samples import code_of, refusal
from tests.ledger.witness.support import (
    LOG,
    NOW,
    ORIGIN,
    SIGNER,
    STRANGER,
    WITNESS,
    A,
    B,
    Branch,
    Clock,
    new_witness,
)
from tests.ledger.writer.support import RecordingDisk
from tests.reference.naive_note import NoteKey, cosign, open_note


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def witness(tmp_path, clock):
    return new_witness(tmp_path / "w", clock)


def size_of(witness: CosigningWitness) -> int:
    return witness.state.log(ORIGIN).head.size


def test_a_head_is_cosigned_as_the_specification_says(witness, clock):
    line = format_answer([witness.add_checkpoint(A.request(0, 5))])
    assert line.decode() == WITNESS.line(A.text(5), NOW)
    assert open_note(A.note(5) + line, LOG.verifier_key, WITNESS.verifier_key) == (
        A.text(5),
        [(LOG.name, None), (WITNESS.name, NOW)],
    )
    clock.now += 60
    line = format_answer([witness.add_checkpoint(A.request(5, 8))])
    assert line.decode() == WITNESS.line(A.text(8), NOW + 60)


def test_what_was_cosigned_is_kept_with_both_signatures_and_no_others(witness):
    witness.add_checkpoint(replace(A.request(0, 5), checkpoint=cosign(A.note(5), STRANGER, 0)))
    log = witness.state.log(ORIGIN)
    assert (log.head.size, log.head.root, log.timestamp) == (5, A.root(5), NOW)
    assert log.note.decode() == A.note(5).decode() + WITNESS.line(A.text(5), NOW)


def test_every_step_of_growth_is_followed(witness):
    sizes = [1, 2, 3, 4, 7, 8, 9, 31, 32, 33]
    for old, new in zip([0, *sizes], sizes, strict=False):
        witness.add_checkpoint(A.request(old, new))
    assert size_of(witness) == 33


def test_the_same_head_is_cosigned_again_with_a_later_time(witness, clock):
    witness.add_checkpoint(A.request(0, 5))
    clock.now += 9
    assert format_answer([witness.add_checkpoint(A.request(5, 5))]).decode() == WITNESS.line(A.text(5), NOW + 9)
    assert (size_of(witness), witness.state.log(ORIGIN).timestamp) == (5, NOW + 9)


def test_the_empty_tree_is_cosigned(witness):
    witness.add_checkpoint(A.request(0, 0))
    witness.add_checkpoint(A.request(0, 0))
    assert witness.state.log(ORIGIN).note
    witness.add_checkpoint(A.request(0, 4))
    assert size_of(witness) == 4


def test_extension_lines_are_part_of_what_is_signed(witness):
    request = AddCheckpoint(0, (), A.note(5, "more to say"))
    assert format_answer([witness.add_checkpoint(request)]).decode() == WITNESS.line(A.text(5, "more to say"), NOW)


# ---------------------------------------------------------------------------------------------------------- attacks


def bad(request: AddCheckpoint, **changes: object) -> AddCheckpoint:
    return replace(request, **changes)  # type: ignore[arg-type]


WRONG_EMPTY = Branch("x")
FORGED = A.note(8).replace(b"\n8\n", b"\n9\n")

REFUSED = {
    "fork at the same size": (B.request(5, 5), "WITNESS_FORK"),
    "fork at the same size, with a proof": (bad(B.request(5, 5), proof=(bytes(32),)), "WITNESS_FORK"),
    "fork at a larger size": (B.request(5, 8), "CONSISTENCY_MISMATCH"),
    "fork with the other branch's proof": (bad(B.request(5, 8), proof=A.proof(5, 8)), "CONSISTENCY_MISMATCH"),
    "fork that starts over": (B.request(0, 8), "WITNESS_OLD_SIZE"),
    "smaller head": (A.request(0, 4), "WITNESS_OLD_SIZE"),
    "smaller head under the right old size": (bad(A.request(0, 4), old_size=5), "WITNESS_SMALLER"),
    "proof from a smaller size": (A.request(4, 8), "WITNESS_OLD_SIZE"),
    "proof from a larger size": (A.request(6, 8), "WITNESS_OLD_SIZE"),
    "empty head": (A.request(0, 0), "WITNESS_OLD_SIZE"),
    "no proof": (bad(A.request(5, 8), proof=()), "PROOF_SHAPE"),
    "proof with a hash too many": (bad(A.request(5, 8), proof=(*A.proof(5, 8), bytes(32))), "PROOF_SHAPE"),
    "proof where none is needed": (bad(A.request(5, 5), proof=(bytes(32),)), "PROOF_SHAPE"),
    "proof with a changed hash": (bad(A.request(5, 8), proof=(bytes(32), *A.proof(5, 8)[1:])), "CONSISTENCY_MISMATCH"),
    "signed by a stranger": (replace(A, key=STRANGER).request(5, 8), "NOTE_UNSIGNED"),
    "not signed": (bad(A.request(5, 8), checkpoint=A.text(8).encode()), "NOTE_MALFORMED"),
    "signed, then changed": (bad(A.request(5, 8), checkpoint=FORGED), "NOTE_SIGNATURE"),
    "good and bad signature by one key": (
        bad(A.request(5, 8), checkpoint=A.note(8) + LOG.line(A.text(7)).encode()),
        "NOTE_SIGNATURE",
    ),
    "another log": (replace(A, origin="example.org/other").request(5, 8), "WITNESS_ORIGIN"),
    "no checkpoint": (
        bad(A.request(5, 8), checkpoint=b"text\n\n" + LOG.line("text\n").encode()),
        "CHECKPOINT_MALFORMED",
    ),
    "size with a leading zero": (
        bad(A.request(5, 8), checkpoint=f"{(t := A.text(8).replace('8', '08', 1))}\n{LOG.line(t)}".encode()),
        "CHECKPOINT_MALFORMED",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_is_refused_and_changes_nothing(witness, clock, name):
    witness.add_checkpoint(A.request(0, 5))
    before, asked = witness.state.log(ORIGIN), clock.asked
    request, code = REFUSED[name]
    assert code_of(witness.add_checkpoint, request) == code
    assert (witness.state.log(ORIGIN), clock.asked) == (before, asked)
    witness.add_checkpoint(A.request(5, 8))
    assert size_of(witness) == 8


def test_before_the_first_head_there_is_nothing_to_prove(witness):
    assert code_of(witness.add_checkpoint, replace(A.request(0, 5), proof=(bytes(32),))) == "PROOF_SHAPE"
    assert code_of(witness.add_checkpoint, A.request(3, 5)) == "WITNESS_OLD_SIZE"
    text = A.text(5).replace("\n5\n", "\n0\n")
    nothing = AddCheckpoint(0, (), f"{text}\n{LOG.line(text)}".encode())
    assert code_of(witness.add_checkpoint, nothing) == "CONSISTENCY_MISMATCH"
    assert not witness.state.log(ORIGIN).note


def test_the_size_that_was_cosigned_last_is_told(witness):
    witness.add_checkpoint(A.request(0, 5))
    with pytest.raises(OldSizeError) as caught:
        witness.add_checkpoint(A.request(4, 8))
    assert (caught.value.size, caught.value.finding.found) == (5, "4")
    assert pickle.loads(pickle.dumps(caught.value)).size == 5


def test_both_notes_of_a_fork_are_kept_as_evidence(witness):
    witness.add_checkpoint(A.request(0, 5))
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            witness.add_checkpoint(replace(B.request(5, 5), checkpoint=cosign(B.note(5), STRANGER, 0)))
    assert (caught.value.finding.expected, caught.value.finding.found) == (A.root(5).hex(), B.root(5).hex())
    kept = [path.read_bytes() for path in (witness.state.root / "forks" / origin_hash(ORIGIN)).iterdir()]
    assert sorted(kept) == sorted([A.note(5) + WITNESS.line(A.text(5), NOW).encode(), B.note(5)])


@pytest.mark.parametrize(
    "request_",
    [B.request(5, 8), replace(A.request(5, 8), proof=(bytes(32), *A.proof(5, 8)[1:]))],
    ids=["fork", "honest"],
)
def test_a_head_whose_proof_does_not_hold_is_no_evidence_and_none_is_promised(witness, request_):
    """Anybody can send an honest head with a wrong proof: from here the two look alike, and neither takes room."""
    witness.add_checkpoint(A.request(0, 5))
    error = refusal(witness.add_checkpoint, request_)
    assert error.code.name == "CONSISTENCY_MISMATCH"
    assert "the proof is wrong, or the log forked" in (error.finding.hint or "")
    assert "not kept here" in (error.finding.hint or "")
    assert not (witness.state.root / "forks").exists()


def test_evidence_does_not_fill_the_disk(witness, monkeypatch):
    monkeypatch.setattr("k3_ledger.ledger.witness.state.MAX_EVIDENCE", 3)
    witness.add_checkpoint(A.request(0, 5))
    for name in "bcdef":
        assert code_of(witness.add_checkpoint, Branch(name).request(5, 5)) == "WITNESS_FORK"
    assert len(list((witness.state.root / "forks" / origin_hash(ORIGIN)).iterdir())) == 3


def test_a_clock_that_went_back_signs_nothing(witness, clock):
    witness.add_checkpoint(A.request(0, 5))
    for clock.now in (NOW - 1, 0, -1, 2**63):
        assert code_of(witness.add_checkpoint, A.request(5, 8)) == "WITNESS_CLOCK"
    assert size_of(witness) == 5
    clock.now = NOW
    witness.add_checkpoint(A.request(5, 8))


def test_a_clock_before_1970_signs_nothing_at_all(tmp_path):
    assert code_of(new_witness(tmp_path / "w", Clock(0)).add_checkpoint, A.request(0, 5)) == "WITNESS_CLOCK"


def test_another_key_is_another_witness(witness):
    other = Signer(bytes(32))
    assert code_of(CosigningWitness, witness.state, other) == "WITNESS_KEY"


def test_a_rotated_log_key_is_taken_once_the_operator_adds_it(witness):
    second = NoteKey(ORIGIN, "log two")
    witness.add_checkpoint(A.request(0, 5))
    grown = replace(A, key=second).request(5, 8)
    assert code_of(witness.add_checkpoint, grown) == "NOTE_UNSIGNED"
    log = witness.state.add_log(ORIGIN, [parse_verifier_key(second.verifier_key)])
    assert (len(log.verifiers), log.head.size) == (2, 5)
    witness.add_checkpoint(grown)


# ------------------------------------------------------------------------------------------------ crashes and races


class SyncingDisk(RecordingDisk):
    """Fails one call of a name, from the start of each request on."""

    def __init__(self, name: str = "", at: int = 0) -> None:
        super().__init__()
        self.name, self.at = name, at

    def meet(self, name: str) -> None:
        super().meet(name)
        if name == self.name and self.calls.count(name) == self.at:
            raise OSError(5, "injected")

    def rename(self, source, target):
        self.meet("rename")
        source.replace(target)

    def fsync(self, fd):
        self.meet("fsync")


@pytest.mark.parametrize(
    ("name", "at"), [("fsync", 1), ("fsync", 2), ("rename", 1), ("write", 1), ("open", 1), ("open", 2), ("flock", 1)]
)
def test_a_disk_that_fails_releases_no_signature_and_contradicts_none(tmp_path, name, at):
    new_witness(tmp_path / "w").add_checkpoint(A.request(0, 5))
    disk = SyncingDisk(name, at)
    failing = CosigningWitness(WitnessState.open(tmp_path / "w", disk=disk), SIGNER, clock=Clock())
    with pytest.raises(StoreError):
        failing.add_checkpoint(A.request(5, 8))
    state = WitnessState.open(tmp_path / "w")
    after = state.log(ORIGIN).head.size
    assert after in (5, 8)
    again = CosigningWitness(state, SIGNER, clock=Clock())
    assert code_of(again.add_checkpoint, B.request(after, 8)) in ("CONSISTENCY_MISMATCH", "WITNESS_FORK")
    again.add_checkpoint(A.request(after, 8))


def test_the_state_is_durable_before_the_signature_is_given_out(tmp_path):
    disk = SyncingDisk()
    witness = new_witness(tmp_path / "w", disk=disk)
    witness.add_checkpoint(A.request(0, 5))
    done = [call for call in disk.calls if call in ("write", "fsync", "rename")]
    assert done[-4:] == ["write", "fsync", "rename", "fsync"]  # data, name, and the name's directory
    before = len(disk.calls)
    witness.add_checkpoint(A.request(5, 5))
    assert "rename" in disk.calls[before:]  # a head that is cosigned again may not have been durable the first time


def test_of_two_heads_that_race_one_is_cosigned(tmp_path):
    witnesses = [new_witness(tmp_path / "w")]
    witnesses += [CosigningWitness(WitnessState.open(tmp_path / "w"), SIGNER, clock=Clock()) for _ in range(7)]
    signed: list[tuple[str, int]] = []
    gate = threading.Barrier(len(witnesses))

    def work(witness: CosigningWitness, branch: Branch) -> None:
        for size in range(4, 24):
            gate.wait()
            old = witness.state.log(ORIGIN).head.size
            gate.wait()
            try:
                note = witness.add_checkpoint(branch.request(old, size))
            except LedgerError:
                continue
            signed.append((branch.name, size, parse_note(branch.note(size)).text, note))

    threads = [
        threading.Thread(target=work, args=(witness, (A, B)[number % 2])) for number, witness in enumerate(witnesses)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({name for name, *_ in signed}) == 1
    assert sorted(size for _, size, *_ in signed) == list(range(4, 24))
