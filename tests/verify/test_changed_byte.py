"""What docs/exit-codes.md says one changed byte does, by the file it stands in: every byte of a head, every
third of a small ledger and of a proof, the lowest bit of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import check_log
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import Key, sign_head, small_ledger

if TYPE_CHECKING:
    from k3_ledger.schemas.outcomes import ExitCode

LEDGER = small_ledger(1)
HEAD = LEDGER.head()
STRANGER = sign_head(LEDGER.lines, Key("stranger")).rpartition(b"\n\xe2\x80\x94 ")
COSIGNED = HEAD + (STRANGER[1] + STRANGER[2])[1:]


def changed(data: bytes, at: int, mask: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def code(log: bytes, head: bytes, kept: bytes = HEAD) -> ExitCode:
    name = f"checkpoints/{len(LEDGER.lines):012}.note"
    return check_log(MemorySource(log, checkpoint=head, kept=[(name, kept)])).exit_code


def test_the_ledger_is_good() -> None:
    assert code(LEDGER.data, HEAD) == code(LEDGER.data, COSIGNED, COSIGNED) == 0


@pytest.mark.parametrize("start", range(0, len(LEDGER.data), 400))
def test_a_byte_of_an_entry_is_exit_1(start: int) -> None:
    for at in range(start, min(start + 400, len(LEDGER.data)), 3):
        assert code(changed(LEDGER.data, at), HEAD) == 1, at


@pytest.mark.parametrize("where", ["newest", "kept"])
def test_a_byte_of_a_head_and_its_signature_by_the_log_is_exit_1(where: str) -> None:
    for at in range(len(HEAD)):
        other = changed(HEAD, at)
        assert (code(LEDGER.data, other) if where == "newest" else code(LEDGER.data, HEAD, other)) == 1, at


def test_a_byte_of_a_signature_that_counts_for_nobody_is_nothing_while_the_note_can_be_read() -> None:
    seen = {code(LEDGER.data, changed(COSIGNED, at)) for at in range(len(HEAD), len(COSIGNED))}
    assert seen == {0, 1}
    digit = COSIGNED.rindex(b"\n") - 30
    other = COSIGNED[:digit] + (b"B" if COSIGNED[digit : digit + 1] != b"B" else b"C") + COSIGNED[digit + 1 :]
    assert code(LEDGER.data, other) == 0


# ------------------------------------------------------------------------------------------------------- proof files


def proof_of(index: int) -> bytes:
    return format_proof(prove_entry(MemorySource(LEDGER.data, checkpoint=HEAD), index))


PROOF = proof_of(4)


def test_the_proofs_are_good() -> None:
    assert {check_proof(proof_of(index), "p").exit_code for index in range(len(LEDGER.lines))} == {0}


@pytest.mark.parametrize("start", range(0, len(PROOF), 500))
def test_a_byte_of_a_proof_of_a_receipt_is_exit_1(start: int) -> None:
    for at in range(start, min(start + 500, len(PROOF)), 3):
        assert check_proof(changed(PROOF, at), "p").exit_code == 1, at


def with_subject(proof: bytes, index: int) -> bytes:
    front, _, _ = proof.rpartition(b":")
    return front + b":%d}" % index


def test_a_proof_of_a_receipt_is_no_proof_of_what_it_rests_on() -> None:
    assert with_subject(PROOF, 4) == PROOF
    for subject in (0, 1, 2, 3, 5, 9):
        report = check_proof(with_subject(PROOF, subject), "p")
        assert (report.exit_code, Code.PROOF_FILE in report.counts) == (1, True), subject


def test_a_proof_of_a_root_action_that_names_another_is_a_proof_of_that_one() -> None:
    proof = proof_of(3)
    found = {subject: check_proof(with_subject(proof, subject), "p") for subject in (0, 1, 2, 3)}
    assert {subject: report.exit_code for subject, report in found.items()} == {0: 0, 1: 0, 2: 1, 3: 0}
    assert "entry 1" in found[1].subject
