"""Cosignatures on a note: which lines count, once each, with the earliest time."""

from __future__ import annotations

from k3_ledger.ledger.core.cosignature import COSIGNATURE_LEN, Cosigned, Witness, quorum_of, read_cosignatures
from k3_ledger.ledger.core.note import KeyType, NoteSignature, Verifier, format_note, parse_note
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import TestKey
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign, open_note

TEXT = "example.com/log\n7\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
LOG = NoteKey("example.com/log", "log")
KEYS = tuple(NoteKey(f"w{number}.example", f"w{number}", COSIGNER_TYPE) for number in range(4))
NOTE = f"{TEXT}\n{LOG.line(TEXT)}".encode()
PLACE = Position(source="checkpoint")


def witness(key: NoteKey, operator: str = "") -> Witness:
    return Witness(Verifier(key.name, key.public, KeyType.COSIGNATURE), operator or key.name)


def read(note: bytes, *witnesses: Witness):
    return read_cosignatures(parse_note(note), witnesses, position=PLACE)


def test_cosignatures_of_another_implementation_are_good() -> None:
    note = cosign(cosign(NOTE, KEYS[0], 1_700_000_000), KEYS[1], 5)
    found = read(note, witness(KEYS[0]), witness(KEYS[1]))
    assert [(given.witness.name, given.timestamp) for given in found.good] == [
        ("w0.example", 1_700_000_000),
        ("w1.example", 5),
    ]
    assert (found.bad, found.repeated, found.unknown) == ((), 0, 1)


def test_another_implementation_takes_ours() -> None:
    made = TestKey("w0", key_type=KeyType.COSIGNATURE, time=1_700_000_000)
    key = NoteKey(made.name, "w0", COSIGNER_TYPE)
    line = f"{made.sign(TEXT.encode()).hex()}"
    assert len(bytes.fromhex(line)) == COSIGNATURE_LEN
    note = format_note(TEXT, [NoteSignature(made.name, made.key_hash, bytes.fromhex(line))])
    assert open_note(note, key.verifier_key) == (TEXT, [(made.name, 1_700_000_000)])


def test_one_witness_counts_once_with_its_earliest_time() -> None:
    note = cosign(cosign(cosign(NOTE, KEYS[0], 9), KEYS[0], 7), KEYS[0], 8)
    found = read(note, witness(KEYS[0]))
    assert ([(given.timestamp, given.latest) for given in found.good], found.repeated) == ([(7, 9)], 2)
    once = read(cosign(NOTE, KEYS[0], 9), witness(KEYS[0])).good[0]
    assert (once.timestamp, once.again, once.latest) == (9, 0, 9)


def test_nobody_who_is_not_asked_for_counts() -> None:
    found = read(cosign(NOTE, KEYS[0], 9), witness(KEYS[1]))
    assert (found.good, found.bad, found.unknown) == ((), (), 2)
    assert read(cosign(NOTE, KEYS[0], 9), Witness(Verifier(KEYS[0].name, KEYS[0].public), "plain type")).good == ()


def test_a_time_of_zero_vouches_for_nothing() -> None:
    found = read(cosign(NOTE, KEYS[0], 0), witness(KEYS[0]))
    assert (found.good, [error.code.name for error in found.bad]) == ((), ["COSIGNATURE_TIMELESS"])
    assert found.bad[0].finding.position == PLACE


def test_a_time_that_cannot_be_signed_is_bad() -> None:
    key = KEYS[0]
    late = parse_note(cosign(NOTE, key, 9)).sigs[1]
    note = format_note(TEXT, [NoteSignature(late.name, late.key_hash, (2**63).to_bytes(8, "big") + late.signature[8:])])
    assert [error.code.name for error in read(note, witness(key)).bad] == ["NOTE_SIGNATURE"]


def test_a_quorum_is_of_operators_and_of_the_earliest() -> None:
    given = [
        Cosigned(witness(key, operator), time)
        for key, operator, time in zip(KEYS, ("a", "b", "a", "c"), (40, 30, 10, 20), strict=True)
    ]
    assert [(one.witness.operator, one.timestamp) for one in quorum_of(given, 3)] == [("a", 10), ("c", 20), ("b", 30)]
    assert [one.timestamp for one in quorum_of(given, 2)] == [10, 20]
    assert len(quorum_of(given, 4)) == 3
    assert quorum_of([], 1) == ()


def test_two_witnesses_with_one_name_and_hash_are_two() -> None:
    first, second = (NoteKey("wit/1", word, COSIGNER_TYPE) for word in ("c32425", "c63361"))
    assert first.hash == second.hash
    asked = witness(first, "Alpha"), witness(second, "Beta")
    note = cosign(cosign(NOTE, second, 9), first, 7)
    for known in (asked, asked[::-1]):
        found = read(note, *known)
        assert sorted((given.witness.operator, given.timestamp) for given in found.good) == [("Alpha", 7), ("Beta", 9)]
        assert (found.bad, found.repeated, found.unknown) == ((), 0, 1)
    assert len(read(cosign(NOTE, second, 9), asked[0]).bad) == 1
