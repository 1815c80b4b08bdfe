"""Consistency files: form, building, and the proof between two heads."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint
from k3_ledger.ledger.core.consistency import (
    ConsistencyFile,
    check_heads,
    consistency_hashes,
    format_consistency,
    parse_consistency,
)
from k3_ledger.ledger.core.note import sign_note
from k3_ledger.ledger.core.proof import build_proof, format_proof
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError, MalformedError, ProofError
from k3_ledger.schemas.findings import Code
from tests.ledger.core.samples import TestKey, code_of, line
from tests.reference import naive_merkle

ORIGIN = "example.com/log"
LINES = [line(index) for index in range(11)]
LEAVES = [leaf_hash(raw) for raw in LINES]


def head(size: int) -> Checkpoint:
    return Checkpoint(ORIGIN, size, naive_merkle.root(LEAVES[:size]))


def note(size: int) -> bytes:
    return sign_note(format_checkpoint(head(size)), [TestKey("log")])


def build(old: int, new: int) -> ConsistencyFile:
    proof = build_proof(0, {0: LINES[0]}, LEAVES, note(new))
    return ConsistencyFile(note(old), consistency_hashes(old, new, LEAVES), proof)


@pytest.mark.parametrize(("old", "new"), [(a, b) for a in range(1, 12) for b in range(a, 12)])
def test_between_any_two_sizes_there_is_the_proof_of_the_specification(old: int, new: int) -> None:
    hashes = consistency_hashes(old, new, LEAVES, root1=head(old).root, root2=head(new).root)
    assert list(hashes) == naive_merkle.consistency(old, LEAVES[:new])
    file = build(old, new)
    assert parse_consistency(format_consistency(file)) == file
    if old < new:
        check_heads(file, head(old), head(new))
        assert code_of(check_heads, file, Checkpoint(ORIGIN, old, bytes(32)), head(new)) == "CONSISTENCY_MISMATCH"
        assert code_of(check_heads, file, head(new), head(old)) == "PROOF_SHAPE"


def test_leaves_that_are_not_those_of_the_heads_prove_nothing() -> None:
    assert code_of(consistency_hashes, 3, 12, LEAVES) == "CHECKPOINT_AHEAD"
    assert code_of(consistency_hashes, 3, 9, LEAVES, root1=bytes(32)) == "CHECKPOINT_ROOT"
    assert code_of(consistency_hashes, 3, 9, LEAVES, root2=bytes(32)) == "CHECKPOINT_ROOT"
    for old, new in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="subtree"):
            consistency_hashes(old, new, LEAVES)


def tampered(**changes: object) -> bytes:
    document = json.loads(format_consistency(build(3, 9)))
    document.update(changes)
    return canonical.format({name: value for name, value in document.items() if value is not ...})


@pytest.mark.parametrize(
    "data",
    [
        canonical.format([]),
        tampered(old=...),
        tampered(more=1),
        tampered(schema="k3-ledger/consistency/2"),
        tampered(schema="k3-ledger/proof/1"),
        tampered(old=1),
        tampered(consistency="00"),
        tampered(consistency=["ab" * 32] * 65),
        tampered(consistency=[1]),
        tampered(consistency=["AB" * 32]),
        tampered(consistency=["ab" * 31]),
        tampered(proof={}),
        tampered(proof=[]),
    ],
)
def test_any_other_document_is_refused(data: bytes) -> None:
    assert code_of(parse_consistency, data) == "PROOF_FILE"


def test_a_proof_of_another_entry_than_the_genesis_is_refused() -> None:
    both = {0: LINES[0], 1: LINES[1]}
    proofs = [json.loads(format_proof(build_proof(subject, both, LEAVES, note(9)))) for subject in (0, 1)]
    assert parse_consistency(tampered(proof=proofs[0])).proof.subject == 0
    assert code_of(parse_consistency, tampered(proof=proofs[1])) == "PROOF_FILE"


def test_a_document_in_another_spelling_is_refused() -> None:
    assert code_of(parse_consistency, format_consistency(build(3, 9)) + b"\n") == "JSON_NOT_CANONICAL"


def test_what_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="not a consistency file"):
        format_consistency(ConsistencyFile(note(3), (b"short",), build(3, 9).proof))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_consistency(data)


@given(st.data())
def test_no_byte_of_a_file_can_be_changed_unnoticed(data: st.DataObject) -> None:
    good = format_consistency(build(3, 9))
    at = data.draw(st.integers(0, good.index(b',"old"') - 1))
    changed = bytearray(good)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        file = parse_consistency(bytes(changed))
        check_heads(file, head(3), head(9))
    except LedgerError:
        return
    raise AssertionError("a changed proof was accepted")


def test_heads_that_follow_one_another_can_be_joined() -> None:
    for old, new in pairwise((1, 3, 4, 9, 11)):
        check_heads(build(old, new), head(old), head(new))


@pytest.mark.parametrize("old", [0, 4, 5])
def test_the_older_head_is_the_smaller_one(old: int) -> None:
    file = build(4, 4)
    with pytest.raises(ProofError) as caught:
        check_heads(file, Checkpoint("o", old, bytes(32)), Checkpoint("o", 4, bytes(32)))
    assert caught.value.code is Code.PROOF_SHAPE
    assert caught.value.finding.found == f"{old} entries"
