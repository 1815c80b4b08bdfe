"""Notes, checkpoints, cosignatures and proofs made here are right to others, and theirs to us.

The peers are a small implementation beside these tests, which imports no room of the product, and Go's
``golang.org/x/mod/sumdb`` where it is on the machine.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint, open_checkpoint
from k3_ledger.ledger.core.consistency import consistency_hashes
from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key, open_note, parse_verifier_key, sign_note
from k3_ledger.ledger.core.proof import build_proof
from tests.ledger.core.samples import TestKey, code_of, line
from tests.reference import go_peer, naive_merkle
from tests.reference.naive_note import COSIGNER_TYPE, LOG_TYPE, NoteKey
from tests.reference.naive_note import open_note as open_naively

go = pytest.mark.skipif(not go_peer.there_is_one(), reason=go_peer.MISSING)

TIME = 1_767_225_600
LINES = [line(index) for index in range(13)]
LEAVES = [leaf_hash(raw) for raw in LINES]
OURS = TestKey("log")
OUR_WITNESS = TestKey("w1", key_type=KeyType.COSIGNATURE, time=TIME)
LOG = NoteKey(OURS.name, "log", LOG_TYPE)
WITNESS = NoteKey(OUR_WITNESS.name, "w1", COSIGNER_TYPE)
STRANGER = NoteKey("stranger.example", "stranger", LOG_TYPE)
TEXTS = [
    "one line\n",
    "two\nlines\n",
    "with an empty\n\nline\n",
    "unicode — ½ 日本 😀\n",
    "\n",
    "— looks like a signature AAAA\n",
    *(format_checkpoint(Checkpoint(OURS.name, size, naive_merkle.root(LEAVES[:size]))) for size in (0, 1, 7, 13)),
]


def root(size: int) -> bytes:
    return naive_merkle.root(LEAVES[:size])


def test_keys_are_written_alike() -> None:
    for ours, theirs in ((OURS, LOG), (OUR_WITNESS, WITNESS)):
        written = format_verifier_key(Verifier(ours.name, ours.public_key, ours.key_type))
        assert written == theirs.verifier_key
        assert parse_verifier_key(theirs.verifier_key).public_key == ours.public_key


@pytest.mark.parametrize("text", TEXTS)
def test_notes_signed_here_open_elsewhere_and_the_reverse(text: str) -> None:
    note = sign_note(text, [OURS, OUR_WITNESS])
    assert open_naively(note, LOG.verifier_key, WITNESS.verifier_key) == (
        text,
        [(LOG.name, None), (WITNESS.name, TIME)],
    )
    theirs = f"{text}\n{LOG.line(text)}{WITNESS.line(text, TIME)}".encode()
    assert theirs == note  # Ed25519 is deterministic, so interoperable bytes are the same bytes
    opened = open_note(theirs, [parse_verifier_key(key.verifier_key) for key in (LOG, WITNESS)])
    assert (opened.text, [sig.timestamp for sig in opened.sigs]) == (text, [None, TIME])
    with pytest.raises(InvalidSignature):
        open_naively(sign_note(f"{text}more\n", [OURS]).replace(b"more\n", b""), LOG.verifier_key)


# ------------------------------------------------------------------------------------------------------------ with Go


@cache
def answers() -> dict[str, list[dict[str, Any]]]:
    """Everything that Go is asked, in one run of it."""
    questions: dict[str, list[dict[str, Any]]] = {
        "open": [
            {"Do": "open", "Note": sign_note(text, [OURS, OUR_WITNESS]).decode(), "Keys": keys}
            for text in TEXTS
            for keys in ([LOG.verifier_key], [WITNESS.verifier_key], [LOG.verifier_key, WITNESS.verifier_key])
        ],
        "refuse": [
            {"Do": "open", "Note": note, "Keys": [LOG.verifier_key, WITNESS.verifier_key]} for note in hostile()
        ],
        "sign": [
            {"Do": "sign", "Text": text, "Key": key.signer_key, "Time": TIME}
            for text in TEXTS
            for key in (LOG, WITNESS)
        ],
        "twice": [{"Do": "open", "Note": twice(), "Keys": [LOG.verifier_key]}],
        "tree": [
            {"Do": "tree", "Size1": a, "Size2": b, "Root1": root(a), "Root2": root(b),
             "Proof": list(consistency_hashes(a, b, LEAVES))}
            for a in range(1, 14) for b in range(a, 14)
        ],
        "wrong tree": [
            {"Do": "tree", "Size1": a, "Size2": b, "Root1": root(a), "Root2": root(b),
             "Proof": [bytes(32), *consistency_hashes(a, b, LEAVES)[1:]]}
            for a in range(1, 13) for b in range(a + 1, 14)
        ],
        "record": [
            {"Do": "record", "Size2": 13, "Root2": root(13), "Index": entry.index, "Line": entry.line,
             "Proof": list(entry.inclusion)}
            for entry in build_proof(0, dict(enumerate(LINES)), LEAVES, sign_note(TEXTS[-1], [OURS])).entries
        ],
    }  # fmt: skip
    flat = iter(go_peer.ask(*(question for group in questions.values() for question in group)))
    return {name: [next(flat) for _ in group] for name, group in questions.items()}


def hostile() -> list[str]:
    """Notes that both have to refuse."""
    good = sign_note(TEXTS[0], [OURS]).decode()
    twisted = base64.b64encode(b"\0" * 68).decode()
    return [
        good.replace("one", "two"),
        good.replace("\n\n", "\n"),
        good[:-1],
        good.replace("—", "-"),
        good.replace("one line", "one\tline"),
        good.replace("one line", "one\rline"),
        good + "\n",
        f"{TEXTS[0]}\n— {LOG.name} {twisted}\n",
        f"{TEXTS[0]}\n{STRANGER.line(TEXTS[0])}",
        f"{TEXTS[0]}\n{WITNESS.line(TEXTS[1], TIME)}",
        TEXTS[0],
        "",
    ]


def twice() -> str:
    """A note with a good signature and, behind it, a bad one by the same key."""
    return sign_note(TEXTS[0], [OURS]).decode() + LOG.line(TEXTS[1])


@go
def test_notes_signed_here_open_in_go() -> None:
    expected = [
        (text, names, 2 - len(names))
        for text in TEXTS
        for names in ([LOG.name], [WITNESS.name], [LOG.name, WITNESS.name])
    ]
    assert [(got["Text"], got["Names"], got["Unverified"]) for got in answers()["open"]] == expected
    assert {got["Error"] for got in answers()["open"]} == {""}


@go
def test_notes_signed_in_go_open_here_and_are_the_same_bytes() -> None:
    signers = [(text, key) for text in TEXTS for key in (OURS, OUR_WITNESS)]
    for (text, key), got in zip(signers, answers()["sign"], strict=True):
        assert (got["Error"], got["Note"].encode()) == ("", sign_note(text, [key]))
        opened = open_note(got["Note"].encode(), [Verifier(key.name, key.public_key, key.key_type)])
        assert (opened.text, opened.sigs[0].timestamp) == (text, TIME if key is OUR_WITNESS else None)
    for size, text in zip((0, 1, 7, 13), TEXTS[-4:], strict=True):
        note = answers()["sign"][2 * TEXTS.index(text)]["Note"].encode()
        signed = open_checkpoint(note, [Verifier(OURS.name, OURS.public_key)], origin=OURS.name)
        assert (signed.checkpoint.size, signed.checkpoint.root) == (size, root(size))


@go
def test_what_is_refused_here_is_refused_in_go() -> None:
    verifiers = [parse_verifier_key(key.verifier_key) for key in (LOG, WITNESS)]
    assert all(got["Error"] for got in answers()["refuse"])
    assert all(code_of(open_note, note.encode(), verifiers) for note in hostile())


@go
def test_proofs_made_here_hold_in_go() -> None:
    assert {got["Error"] for got in answers()["tree"] + answers()["record"]} == {""}
    assert all(got["Error"] for got in answers()["wrong tree"])


@go
def test_go_looks_at_one_signature_of_a_key_and_we_at_all_of_them() -> None:
    """The one known difference: the specification refuses a note with a bad signature by a known key, wherever."""
    assert answers()["twice"][0]["Error"] == ""
    assert code_of(open_note, twice().encode(), [parse_verifier_key(LOG.verifier_key)]) == "NOTE_SIGNATURE"
