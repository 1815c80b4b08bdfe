"""Attacks on signed tree heads, and on what a reader remembers of them."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from k3_ledger.cli.memory import Memory, keep_head, read_memory
from k3_ledger.verify.freshness import Clock
from k3_ledger.verify.policy import TrustPolicy
from tests.attacks.registry import attack
from tests.attacks.world import THIEF, World
from tests.ledgers import LOG, ORIGIN, ROOT, RUNNER, Key, key_body, run_body, sign_head, tree_root

if TYPE_CHECKING:
    from tests.attacks.world import LogTrial, Outcome, World

NOON = 1_767_268_800
DASH = "\u2014"


def _text(note: bytes) -> str:
    return note.decode().rpartition("\n\n")[0] + "\n"


def _signed(text: str, key: Key = LOG, name: str = ORIGIN) -> bytes:
    """Any text as a note signed by a key."""
    key_hash = hashlib.sha256(name.encode() + b"\n\x01" + key.public).digest()[:4]
    blob = base64.b64encode(key_hash + key.signing.sign(text.encode()).signature).decode()
    return f"{text}\n{DASH} {name} {blob}\n".encode()


def _edited(world: World, old: str, new: str) -> LogTrial:
    """The checkpoint with one part of its text changed and the signature it had."""
    note = world.ledger.head().decode()
    assert old in note
    return world.trial(checkpoint=note.replace(old, new, 1).encode())


def _forked(world: World) -> World:
    """Another history from the run on, as who holds the runner's and the log's key can make it."""
    world = world.copy()
    del world.lines[world.at["run"] :]
    for number in (500, 501):
        world.ledger.add("run", run_body(number), RUNNER)
    return world


def _kept(*notes: bytes) -> tuple[tuple[str, bytes], ...]:
    return tuple((f"checkpoints/{int(_text(note).split(chr(10))[1]):012d}.note", note) for note in notes)


# ------------------------------------------------------------------------------------------- by who holds the file


@attack
def edit_the_size_in_the_checkpoint(world: World) -> LogTrial:
    size = len(world.lines)
    return _edited(world, f"\n{size}\n", f"\n{size - 1}\n")


@attack
def edit_the_root_in_the_checkpoint(world: World) -> LogTrial:
    root = base64.b64encode(tree_root(world.lines)).decode()
    return _edited(world, root, base64.b64encode(tree_root(world.lines[:-1])).decode())


@attack
def edit_the_origin_in_the_checkpoint(world: World) -> LogTrial:
    return _edited(world, ORIGIN, "example.org/other")


@attack
def spell_the_size_in_the_checkpoint_another_way(world: World) -> LogTrial:
    size = len(world.lines)
    return _edited(world, f"\n{size}\n", f"\n0{size}\n")


@attack
def add_an_extension_line_to_the_checkpoint(world: World) -> LogTrial:
    root = base64.b64encode(tree_root(world.lines)).decode()
    return _edited(world, root, f"{root}\nsize 9999")


@attack
def write_an_extension_line_that_looks_like_a_cosignature(world: World) -> LogTrial:
    """The log signs it, so the note is good; the line is text and no signature, and counts as nothing."""
    line = f"{DASH} witness.example/w1 {base64.b64encode(bytes(76)).decode()}"
    text = _text(world.ledger.head()) + line + "\n"
    trial = world.trial(checkpoint=_signed(text))
    trial.policy = TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"witnesses"}))
    return trial


@attack
def cut_the_checkpoint_in_half(world: World) -> LogTrial:
    note = world.ledger.head()
    return world.trial(checkpoint=note[: len(note) // 2])


@attack
def take_the_checkpoint_away_from_a_reader_who_requires_one(world: World) -> LogTrial:
    return world.trial(policy=TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"checkpoint"})))


@attack
def put_an_older_head_in_the_place_of_the_newest(world: World) -> LogTrial:
    """Rollback of the head alone: its own reader asks for a smallest size."""
    at = world.at["run"]
    return world.trial(
        checkpoint=sign_head(world.lines[:at]),
        policy=TrustPolicy(ROOT.public, ORIGIN, minimum_size=len(world.lines)),
    )


@attack
def put_an_older_head_there_for_a_reader_who_remembers(world: World) -> LogTrial:
    """Freeze: nothing is gone, and the log says less than it said before."""
    memory = (("head", world.ledger.head()),)
    return world.trial(checkpoint=sign_head(world.lines[: world.at["run"]]), memory=memory)


@attack
def show_the_same_head_for_ever(world: World) -> LogTrial:
    """Freeze at the remembered head: a log at rest looks the same."""
    return world.sealed(memory=(("head", world.ledger.head()),))


@attack
def roll_the_whole_ledger_back(world: World) -> LogTrial:
    """An older copy of the directory, with its own good head, for a reader who remembers a newer one."""
    memory = (("head", world.ledger.head()),)
    old = world.copy()
    del old.lines[world.at["run"] :]
    return old.sealed(memory=memory)


@attack
def roll_the_whole_ledger_back_for_a_newcomer(world: World) -> LogTrial:
    old = world.copy()
    del old.lines[world.at["run"] :]
    return old.sealed()


@attack
def show_the_same_head_for_ever_to_a_reader_who_limits_its_age(world: World) -> LogTrial:
    """The reader's own clock: for two weeks he was shown nothing larger, and his policy accepts one."""
    size, week = len(world.lines), 604_800
    return world.sealed(
        policy=TrustPolicy(ROOT.public, ORIGIN, maximum_head_age_seconds=week),
        clock=Clock(NOON + 2 * week, size, NOON),
    )


# ------------------------------------------------------------------------------------------------ by who holds a key


@attack
def sign_the_newest_head_with_a_log_key_that_was_taken_back(world: World) -> LogTrial:
    """A reader would remember a head of the thief's making: the newest one has to be by a key that stands."""
    world, fork = world.copy(), _forked(world)
    body = key_body(LOG, "log", "revoke", revoked_from=world.at["run"])
    world.ledger.add("key", body, ROOT)
    return world.trial(checkpoint=fork.ledger.head())


@attack
def leave_a_thiefs_head_among_those_that_are_kept(world: World) -> LogTrial:
    """Nobody is accused of it, and it vouches for nothing; the newest head is by the key that took its place."""
    world, fork, new = world.copy(), _forked(world), Key("log-2")
    world.ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=world.at["run"]), ROOT)
    world.ledger.add("key", key_body(new, "log"), ROOT)
    return world.trial(checkpoint=world.ledger.head(key=new), kept=_kept(fork.ledger.head()))


@attack
def sign_a_head_with_a_key_of_ones_own(world: World) -> LogTrial:
    return world.trial(checkpoint=world.ledger.head(key=THIEF))


@attack
def add_a_bad_line_by_the_other_log_key(world: World) -> LogTrial:
    """Two log keys are enrolled and both signed; one byte of one of the lines is changed on the way."""
    second = Key("log-two")
    world.ledger.add("key", key_body(second, "log"), ROOT)
    note = world.ledger.head()
    line = bytearray(_signed(_text(note), second).decode().rpartition("\n\n")[2].encode())
    line[-20] = ord("A") if line[-20] != ord("A") else ord("B")
    return world.trial(checkpoint=note + bytes(line))


@attack
def sign_a_head_with_a_revoked_log_key(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("key", key_body(Key("log-2"), "log", "rotate", replaces=LOG.id), ROOT)
    world.ledger.add("run", run_body(77), RUNNER)
    return world.sealed()


@attack
def sign_a_head_below_the_enrolment_of_its_key(world: World) -> LogTrial:
    """A log key enrolled today signs a head of yesterday's size, as if it had been there."""
    world = world.copy()
    size = len(world.lines)
    new = Key("log-2")
    world.ledger.add("key", key_body(new, "log"), ROOT)
    return world.trial(checkpoint=world.ledger.head(key=new), kept=_kept(sign_head(world.lines[:size], new)))


@attack
def sign_a_head_over_other_entries(world: World) -> LogTrial:
    return world.trial(checkpoint=_forked(world).ledger.head())


@attack
def keep_a_head_that_contradicts_the_newest(world: World) -> LogTrial:
    """Two signed heads of one log that no single history extends: both stand there as evidence."""
    return world.trial(checkpoint=world.ledger.head(), kept=_kept(_forked(world).ledger.head()))


@attack
def sign_a_head_of_entries_that_do_not_exist_yet(world: World) -> LogTrial:
    return world.trial(checkpoint=sign_head(world.lines, size=2**53 - 1))


@attack
def sign_a_head_of_no_entries(world: World) -> LogTrial:
    return world.trial(checkpoint=sign_head([]))


@attack
def sign_a_head_in_another_logs_name(world: World) -> LogTrial:
    return world.trial(checkpoint=world.ledger.head(origin="example.org/staging"))


@attack
def show_one_reader_another_history(world: World) -> LogTrial:
    """Split view: the reader remembers the history that everybody else is shown."""
    memory = (("head", world.ledger.head()),)
    return _forked(world).sealed(memory=memory)


@attack
def show_one_reader_another_history_that_is_longer(world: World) -> LogTrial:
    memory = (("head", world.ledger.head()),)
    other = _forked(world)
    for number in range(4):
        other.ledger.add("run", run_body(600 + number), RUNNER)
    return other.sealed(memory=memory)


@attack
def show_a_newcomer_another_history(world: World) -> LogTrial:
    return _forked(world).sealed()


@attack
def pass_an_entrys_signature_off_as_a_heads(world: World) -> LogTrial:
    """A head whose text is what the log key signed as an entry: no tree head begins like an entry's message."""
    world = world.copy()
    world.ledger.add("note", {"text": "x", "artifacts": []}, LOG)
    data = world.lines[-1][9:-99]
    text = "k3-ledger/entry/v1\n" + data.decode() + "\n"
    return world.trial(checkpoint=_signed(text, name="k3-ledger/entry/v1"))


# ------------------------------------------------------------------------------------------ on the reader's own side


@attack
def swap_the_remembered_head_for_another_logs(world: World) -> LogTrial:
    memory = (("head", sign_head(world.lines, origin="example.org/staging")),)
    return world.sealed(memory=memory)


@attack
def damage_the_remembered_head(world: World) -> LogTrial:
    """Never taken for a first visit, and no accusation of the log."""
    return world.sealed(memory=(("head", world.ledger.head()[:40]),))


@attack
def forge_the_remembered_head(world: World) -> LogTrial:
    """Who can write the reader's memory makes no honest log look forked, unless he has a log key as well."""
    return world.sealed(memory=(("head", _forked(world).ledger.head(key=THIEF)),))


@dataclass
class MemoryTrial:
    """Two verifications at once with one memory, and a third that comes after them.

    Both begin while the older head is remembered; the one that was shown the newest head ends first. Then the log is
    rolled back to what the other one saw.
    """

    remembered: bytes
    newest: bytes
    between: bytes
    then: LogTrial

    def run(self) -> Outcome:
        """The third one."""
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "memory")
            keep_head(path, None, self.remembered, NOON)
            known = read_memory(path)
            for note in (self.newest, self.between):
                keep_head(path, known, note, NOON)
            held = read_memory(path)
        assert isinstance(held, Memory)
        return replace(self.then, memory=(("memory", held.note),)).run()


@attack
def verify_twice_at_once_with_one_memory(world: World) -> MemoryTrial:
    """What is remembered only ever grows, whoever ends last."""
    sizes = (world.at["evidence"], len(world.lines), world.at["note"])
    heads = [sign_head(world.lines[:size]) for size in sizes]
    old = world.copy()
    del old.lines[world.at["note"] :]
    return MemoryTrial(*heads, old.sealed())


@attack
def erase_the_remembered_head(world: World) -> LogTrial:
    return roll_the_whole_ledger_back_for_a_newcomer(world)
