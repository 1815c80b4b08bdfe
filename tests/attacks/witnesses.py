"""Attacks on cosignatures: what is counted as the word of an independent witness."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.note import parse_verifier_key
from k3_ledger.verify.policy import TrustPolicy
from tests.attacks.heads import _forked, _kept, _text
from tests.attacks.registry import attack
from tests.attacks.world import PolicyTrial
from tests.ledgers import LOG, ORIGIN, ROOT, Key, key_body, sign_head
from tests.reference.naive_note import COSIGNER_TYPE, LOG_TYPE, NoteKey, cosign

if TYPE_CHECKING:
    from tests.attacks.world import LogTrial, World

W1, W2, W3 = (NoteKey(f"witness.example/w{number}", f"w{number}", COSIGNER_TYPE) for number in (1, 2, 3))
NOON = 1_767_268_800


def trusting(quorum: int, *keys: NoteKey, operators: tuple[str, ...] = (), **more: object) -> TrustPolicy:
    """A policy that believes these witnesses, each run by somebody else unless operators are given."""
    names = operators or tuple(key.name for key in keys)
    witnesses = tuple(
        Witness(parse_verifier_key(key.verifier_key), name) for key, name in zip(keys, names, strict=True)
    )
    return TrustPolicy(ROOT.public, ORIGIN, witnesses=witnesses, quorum=quorum, **more)  # type: ignore[arg-type]


def _seen(world: World, *keys: NoteKey, time: int = NOON) -> bytes:
    """The honest head with cosignatures."""
    note = world.ledger.head()
    for key in keys:
        note = cosign(note, key, time)
    return note


@attack
def show_a_head_that_no_witness_saw(world: World) -> LogTrial:
    return world.trial(checkpoint=world.ledger.head(), policy=trusting(1, W1))


@attack
def cosign_as_an_unknown_witness(world: World) -> LogTrial:
    stranger = NoteKey("stranger.example", "stranger", COSIGNER_TYPE)
    return world.trial(checkpoint=_seen(world, stranger), policy=trusting(1, W1))


@attack
def cosign_in_a_witnesss_name_with_another_key(world: World) -> LogTrial:
    return world.trial(checkpoint=_seen(world, NoteKey(W1.name, "thief", COSIGNER_TYPE)), policy=trusting(1, W1))


@attack
def write_down_one_cosignature_twice(world: World) -> LogTrial:
    return world.trial(checkpoint=_seen(world, W1, W1), policy=trusting(2, W1, W2))


@attack
def have_one_operator_cosign_with_two_keys(world: World) -> LogTrial:
    trust = trusting(2, W1, W2, W3, operators=("one", "one", "other"))
    return world.trial(checkpoint=_seen(world, W1, W2), policy=trust)


@attack
def have_the_log_key_witness_itself(world: World) -> LogTrial:
    own = NoteKey("witness.example/own", LOG.seed, COSIGNER_TYPE)
    return world.trial(checkpoint=_seen(world, own), policy=trusting(1, own))


@attack
def have_a_witness_of_ones_own_cosign(world: World) -> LogTrial:
    """The reader requires witnesses and names none; the log brings one, and keeps its word for an older head."""
    own, head, note = _own_witness(world)
    world.ledger.add("witness", _kept_line(own, note), LOG)
    trust = TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"witnesses"}))
    return world.sealed(kept=_kept(head), policy=trust)


@attack
def keep_a_false_cosignature_in_the_log(world: World) -> LogTrial:
    """The line is the witness's, over another head than the one that the entry names."""
    own, head, note = _own_witness(world)
    line = own.line(_text(_forked(world).ledger.head()), NOON).removesuffix("\n")
    world.ledger.add("witness", {**_kept_line(own, note), "cosignature": line}, LOG)
    return world.sealed(kept=_kept(head))


@attack
def write_words_in_front_of_a_kept_cosignature(world: World) -> LogTrial:
    """The line is good; what stands in front of it nobody signed."""
    own, head, note = _own_witness(world)
    body = _kept_line(own, note)
    world.ledger.add("witness", {**body, "cosignature": f"Checked by all, no fault.\n\n{body['cosignature']}"}, LOG)
    return world.sealed(kept=_kept(head))


def _own_witness(world: World) -> tuple[NoteKey, bytes, str]:
    """A witness that the log's root enrolled, a head of the log, and its text."""
    own = NoteKey("witness.example/own", "own", COSIGNER_TYPE)
    world.ledger.add("key", key_body(Key(own.word), "witness"), ROOT)
    head = sign_head(world.lines)
    return own, head, _text(head)


def _kept_line(key: NoteKey, text: str) -> dict[str, str]:
    """Body of an entry that keeps the witness's word for the head of this text."""
    line = key.line(text, NOON).removesuffix("\n")
    return {"checkpoint_sha256": hashlib.sha256(text.encode()).hexdigest(), "cosignature": line, "witness": key.name}


@attack
def move_a_cosignature_to_another_head(world: World) -> LogTrial:
    """The witness saw the honest head; its line is put on another one of the same size."""
    line = _seen(world, W1)[len(world.ledger.head()) :]
    other = _forked(world)
    return other.trial(checkpoint=other.ledger.head() + line, policy=trusting(1, W1))


@attack
def change_the_time_of_a_cosignature(world: World) -> LogTrial:
    note = _seen(world, W1)
    head, _, spelled = note.rstrip(b"\n").rpartition(b" ")
    blob = bytearray(base64.b64decode(spelled))
    blob[11] ^= 1
    return world.trial(checkpoint=head + b" " + base64.b64encode(blob) + b"\n", policy=trusting(1, W1))


@attack
def cosign_without_a_time(world: World) -> LogTrial:
    return world.trial(checkpoint=_seen(world, W1, time=0), policy=trusting(1, W1))


@attack
def sign_as_a_log_with_a_witnesss_key(world: World) -> LogTrial:
    """A plain signature by the witness's key is of another type, and of another key hash: it says nothing of time."""
    plain = NoteKey(W1.name, W1.word, LOG_TYPE)
    note = world.ledger.head()
    return world.trial(checkpoint=note + plain.line(_text(note)).encode(), policy=trusting(1, W1))


@attack
def hide_entries_behind_an_older_head_that_was_witnessed(world: World) -> LogTrial:
    """The file `checkpoint` holds an older head with its quorum, and a newer one that nobody saw stands beside it."""
    old = cosign(sign_head(world.lines[: world.at["run"]]), W1, NOON)
    trust = trusting(1, W1, require=frozenset({"checkpoint", "witnesses"}))
    return world.trial(checkpoint=old, kept=_kept(world.ledger.head()), policy=trust)


@attack
def name_the_same_witness_twice_in_the_policy(world: World) -> PolicyTrial:
    """Two names, one key: a policy that counts it as two is refused before it is used."""
    del world
    other = NoteKey("witness.example/again", W1.word, COSIGNER_TYPE)
    text = "quorum = 2\n" + "".join(f'[[witness]]\nkey = "{key.verifier_key}"\n' for key in (W1, other))
    return PolicyTrial(text)


@attack
def have_the_quorum_cosign_another_history(world: World) -> LogTrial:
    """Log and every witness of the policy together: the reader has nobody left."""
    other = _forked(world)
    return other.trial(checkpoint=_seen(other, W1, W2), policy=trusting(2, W1, W2))
