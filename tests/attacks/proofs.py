"""Attacks on proof files, and on the tree that they lead to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core import chain, merkle
from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.prove import prove_heads
from k3_ledger.verify.source import MemorySource
from tests.attacks.heads import _forked
from tests.attacks.registry import attack
from tests.attacks.world import POLICY, Outcome, ProofTrial, entry, outcome
from tests.ledgers import ROOT, RUNNER, Key, canonical, key_body, run_body, sign_head, sign_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.world import World


def _edited(world: World, name: str, change: Callable[[dict[str, Any]], object]) -> ProofTrial:
    """The proof of a named entry with its document changed."""
    trial = world.proof(world.at[name])
    document = json.loads(trial.proof)
    change(document)
    return ProofTrial(canonical(document))


def _subject(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["entries"] if each["index"] == document["subject"])
    return found


@attack
def change_a_hash_in_a_proof(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        path = _subject(document)["inclusion"]
        path[1] = path[1][:-1] + ("0" if path[1][-1] != "0" else "1")

    return _edited(world, "run", change)


@attack
def leave_a_hash_out_of_a_proof(world: World) -> ProofTrial:
    return _edited(world, "run", lambda document: _subject(document)["inclusion"].pop())


@attack
def add_a_hash_to_a_proof(world: World) -> ProofTrial:
    return _edited(world, "run", lambda document: _subject(document)["inclusion"].append("0" * 64))


@attack
def shift_a_proof_by_one(world: World) -> ProofTrial:
    """The line of the run, said to be the entry behind it."""

    def change(document: dict[str, Any]) -> None:
        subject = _subject(document)
        subject["index"] += 1
        document["subject"] += 1

    return _edited(world, "run", change)


@attack
def use_a_proof_made_for_another_size(world: World) -> ProofTrial:
    """Inclusion in the tree of one entry less, under the head over all."""
    short = world.copy()
    short.lines.pop()
    short.ledger.head()
    document = json.loads(short.proof(world.at["run"]).proof)
    document["checkpoint"] = world.ledger.head().decode()
    return ProofTrial(canonical(document))


@attack
def prove_an_entry_of_another_history(world: World) -> ProofTrial:
    """The entry stands in a fork; the head is the honest one."""
    document = json.loads(_forked(world).proof(world.at["run"]).proof)
    document["checkpoint"] = world.ledger.head().decode()
    return ProofTrial(canonical(document))


@attack
def prove_another_history_to_a_reader_who_remembers(world: World) -> ProofTrial:
    trial = _forked(world).proof(world.at["run"])
    return ProofTrial(trial.proof, memory=(("head", world.ledger.head()),))


@attack
def put_another_line_into_a_proof(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        _subject(document)["line"] = world.lines[world.at["evidence"]][:-1].decode()

    return _edited(world, "run", change)


@attack
def edit_the_proved_entry(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        subject = _subject(document)
        subject["line"] = subject["line"].replace('"count":2048', '"count":4096')

    return _edited(world, "candidate", change)


@attack
def leave_the_enrolment_out_of_a_proof(world: World) -> ProofTrial:
    """Without the key entry nobody knows whose signature that is."""

    def change(document: dict[str, Any]) -> None:
        document["entries"] = [each for each in document["entries"] if RUNNER.public.hex() not in each["line"]]

    return _edited(world, "run", change)


@attack
def leave_the_revocation_out_of_a_proof(world: World) -> ProofTrial:
    """Absence is what a proof file cannot show; it says so, and the ledger itself would."""
    world = world.copy()
    position = len(world.lines)
    world.ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=world.at["run"]), ROOT)

    def change(document: dict[str, Any]) -> None:
        document["entries"] = [each for each in document["entries"] if each["index"] != position]

    return _edited(world, "run", change)


@attack
def prove_an_entry_that_was_taken_back(world: World) -> ProofTrial:
    world = world.copy()
    world.ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=world.at["run"]), ROOT)
    return world.proof(world.at["run"])


@attack
def sign_the_head_of_a_proof_oneself(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        document["checkpoint"] = sign_head(world.lines, Key("thief")).decode()

    return _edited(world, "run", change)


@attack
def prove_against_a_head_of_another_log(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        document["checkpoint"] = world.ledger.head(origin="example.org/staging").decode()

    return _edited(world, "run", change)


@attack
def prove_an_entry_that_does_not_follow_its_neighbour(world: World) -> ProofTrial:
    """Neighbours in the file, in the tree and well signed, and the later one names another entry in front."""
    world = world.copy()
    value = entry(world.lines[2]) | {"prev": "f" * 64}
    world.lines[2] = sign_line(canonical(value), ROOT)
    return world.proof(world.at["run"])


@attack
def list_the_entries_of_a_proof_twice(world: World) -> ProofTrial:
    return _edited(world, "run", lambda document: document["entries"].insert(0, document["entries"][0]))


@attack
def name_a_giant_subject(world: World) -> ProofTrial:
    def change(document: dict[str, Any]) -> None:
        _subject(document)["index"] = document["subject"] = 2**53 - 1

    return _edited(world, "run", change)


# ----------------------------------------------------------------------------------------------- consistency of heads


@dataclass
class ConsistencyTrial:
    """A file that says that one head extends another."""

    data: bytes

    def run(self) -> Outcome:
        """Check it as the command does."""
        return outcome(check_consistency_file(self.data, "heads.proof", POLICY))


def _extends(world: World, change: Callable[[dict[str, Any]], object]) -> ConsistencyTrial:
    """The file of an older head and the newest, with its document changed."""
    old = world.at["run"]
    kept = ((f"checkpoints/{old:012d}.note", sign_head(world.lines[:old])),)
    source = MemorySource(world.ledger.data, checkpoint=world.ledger.head(), kept=kept)
    document = json.loads(format_consistency(prove_heads(source, old, len(world.lines))))
    change(document)
    return ConsistencyTrial(canonical(document))


@attack
def leave_a_hash_out_of_a_consistency_file(world: World) -> ConsistencyTrial:
    return _extends(world, lambda document: document["consistency"].pop())


@attack
def put_a_head_of_another_history_into_a_consistency_file(world: World) -> ConsistencyTrial:
    fork = world.copy()
    fork.lines[world.at["evidence"] :] = []
    fork.ledger.add("run", run_body(321), RUNNER)
    return _extends(world, lambda document: document.update(old=fork.ledger.head().decode()))


@attack
def sign_the_older_head_of_a_consistency_file_oneself(world: World) -> ConsistencyTrial:
    old = sign_head(world.lines[: world.at["run"]], Key("thief"))
    return _extends(world, lambda document: document.update(old=old.decode()))


# ---------------------------------------------------------------------------------------------- below the proof file


@dataclass
class TreeTrial:
    """A proof about bare hashes: ``make`` gives the arguments of the checker."""

    checker: str
    make: Callable[[], tuple[Any, ...]]

    def run(self) -> Outcome:
        """Check it as every reader of proofs does."""
        try:
            getattr(merkle, self.checker)(*self.make())
        except LedgerError as error:
            return Outcome(frozenset({error.code.id}), int(error.code.info.exit))
        return Outcome(frozenset(), 0)


def _leaves(world: World, count: int = 8) -> list[bytes]:
    return [chain.leaf_hash(line[:-1]) for line in world.lines[:count]]


def _root(leaves: list[bytes]) -> bytes:
    tree = merkle.CompactRange()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()


def _nodes(leaves: list[bytes]) -> Callable[[int, int], bytes]:
    return lambda level, index: _root(leaves[index << level : (index + 1) << level])


@attack
def pass_an_inner_node_off_as_a_leaf(world: World) -> TreeTrial:
    """Second preimage: the two hashes under a node, written down as the bytes of an entry."""

    def make() -> tuple[Any, ...]:
        leaves = _leaves(world, 2)
        forged = merkle.NODE_PREFIX + leaves[0] + leaves[1]
        return 0, 1, chain.leaf_hash(forged), (), _root(leaves)

    return TreeTrial("check_inclusion", make)


@attack
def pass_a_leaf_off_as_an_inner_node(world: World) -> TreeTrial:
    """An entry that was made to look like two hashes: what stands in it would be proved as two entries."""
    del world

    def make() -> tuple[Any, ...]:
        left, right = bytes(range(32)), bytes(range(32, 64))
        return 0, 2, left, (right,), chain.leaf_hash(left + right)

    return TreeTrial("check_inclusion", make)


@attack
def prove_consistency_with_another_tree(world: World) -> TreeTrial:
    def make() -> tuple[Any, ...]:
        leaves = _leaves(world)
        other = [*leaves[:4], bytes(32)]
        return 5, 8, _root(other), _root(leaves), merkle.prove_consistency(5, 8, _nodes(leaves))

    return TreeTrial("check_consistency", make)


@attack
def prove_consistency_between_other_sizes(world: World) -> TreeTrial:
    def make() -> tuple[Any, ...]:
        leaves = _leaves(world)
        return 6, 8, _root(leaves[:5]), _root(leaves), merkle.prove_consistency(5, 8, _nodes(leaves))

    return TreeTrial("check_consistency", make)


@attack
def prove_that_a_tree_shrank(world: World) -> TreeTrial:
    """Consistency the wrong way round, with no hashes at all."""

    def make() -> tuple[Any, ...]:
        leaves = _leaves(world)
        return 8, 8, _root(leaves), _root(leaves[:5]), ()

    return TreeTrial("check_consistency", make)
