"""Whatever a command says stands is still there when the power goes, whoever wrote it and however far that one came."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.seal import seal
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.power import Platter, PowerDisk
from tests.ledger.writer.support import (
    SIGNERS,
    TIME,
    Killed,
    MortalDisk,
    append_notes,
    new_ledger,
    note,
    read_entries,
    write_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TORN = b'{"entry":{"body":{"te'
CONTENTS = {"a": b"alpha", "b": b"beta"}


@dataclass
class Place:
    """A folder that holds the ledger, and what the commands of one case acknowledged."""

    folder: Path
    disk: MortalDisk
    bundle: Path

    @property
    def root(self) -> Path:
        return self.folder / "ledger"

    def open(self, *, torn: bool = False) -> Ledger:
        return Ledger.open(self.root, disk=self.disk, torn=torn)


Held = "Callable[[Place], None]"
"""What must hold of what a command acknowledged."""


def has_entry(index: int, identity: str) -> Callable[[Place], None]:
    def held(place: Place) -> None:
        assert read_entries(place.root / "ledger.jsonl")[index]["identity"] == identity

    return held


def init(place: Place) -> Callable[[Place], None]:
    """Made, or there already: then it is appended to, which vouches for it."""
    if (place.root / "ledger.jsonl").exists():
        return append(place)
    new_ledger(place.root, place.disk)
    return lambda place: has_entry(0, read_entries(place.root / "ledger.jsonl")[0]["identity"])(place)


def append(place: Place) -> Callable[[Place], None]:
    with place.open().writer(SIGNERS["judge"], clock=lambda: TIME) as writer:
        receipt = writer.append("note", note("appended"))
    return has_entry(receipt.index, receipt.identity)


def append_once(place: Place) -> Callable[[Place], None]:
    """What is there already is not appended again, as by a program that seals verdicts."""
    ledger = place.open()
    with ledger.writer(SIGNERS["judge"], clock=lambda: TIME) as writer, writer.exclusive():
        there = b"just once" in ledger.log_path.read_bytes()
        writer.append_many([] if there else [Draft("note", note("just once"))])
    last = read_entries(ledger.log_path)[-1]
    return has_entry(last["index"], last["identity"])


def seal_bundle(place: Place) -> Callable[[Place], None]:
    ledger = place.open()
    with ledger.writer(SIGNERS["runner"], clock=lambda: TIME) as writer:
        sealed = seal(ledger, place.bundle, writer)

    def held(place: Place) -> None:
        has_entry(sealed.index, sealed.identity)(place)
        for content in CONTENTS.values():
            digest = hashlib.sha256(content).hexdigest()
            assert (place.root / "blobs" / "sha256" / digest[:2] / digest).read_bytes() == content

    return held


def checkpoint(place: Place) -> Callable[[Place], None]:
    made = make_checkpoint(place.open(), SIGNERS["log"])

    def held(place: Place) -> None:
        assert (place.root / "checkpoint").read_bytes() == made.note
        assert (place.root / "checkpoints" / f"{made.checkpoint.size:012d}.note").read_bytes() == made.note
        assert len(read_entries(place.root / "ledger.jsonl")) == made.checkpoint.size

    return held


def mend(place: Place) -> Callable[[Place], None]:
    done = recover(place.open(torn=True))

    def held(place: Place) -> None:
        assert len(read_entries(place.root / "ledger.jsonl")) == done.entries
        kept = [path.read_bytes() for path in (place.root / "recovered").iterdir()]
        assert len(kept) == 1

    return held


def nothing(place: Place) -> None:
    """No ledger yet."""


def a_ledger(place: Place) -> None:
    append_notes(new_ledger(place.root), "before")


def a_torn_one(place: Place) -> None:
    a_ledger(place)
    with (place.root / "ledger.jsonl").open("ab") as file:
        file.write(TORN)


def a_cut_head(place: Place) -> None:
    """The last line feed is lost, and a signed head vouches for it."""
    a_ledger(place)
    make_checkpoint(Ledger.open(place.root), SIGNERS["log"])
    log = place.root / "ledger.jsonl"
    log.write_bytes(log.read_bytes()[:-1])


COMMANDS = {
    "init": (nothing, init),
    "append": (a_ledger, append),
    "append what is not there": (a_ledger, append_once),
    "seal": (a_ledger, seal_bundle),
    "checkpoint": (a_ledger, checkpoint),
    "recover": (a_torn_one, mend),
    "recover a line feed": (a_cut_head, mend),
}


def run_again(command: Callable[[Place], Callable[[Place], None]], place: Place) -> Callable[[Place], None]:
    """As a script does that does not know how far it came; what the writer asks for first is done."""
    try:
        return command(place)
    except StoreError as error:
        if error.code not in (Code.TORN_TAIL, Code.NUL_TAIL, Code.STORE_MISSING):
            raise
    with contextlib.suppress(StoreError):
        recover(place.open(torn=True))
    return command(place)


@pytest.mark.parametrize("between", ["killed", "killed, and the power goes"])
@pytest.mark.parametrize("when", ["half", "after"])
@pytest.mark.parametrize(("prepare", "command"), COMMANDS.values(), ids=COMMANDS)
def test_what_is_acknowledged_outlives_the_power(tmp_path, prepare, command, when, between):
    bundle = write_bundle(tmp_path / "bundle", CONTENTS)
    for step in range(300):
        folder = tmp_path / str(step)
        folder.mkdir()
        prepare(Place(folder, MortalDisk(), bundle))
        with Platter(folder) as platter:
            disk = PowerDisk(platter)
            disk.arm(step, when)
            died = False
            try:
                held = command(Place(folder, disk, bundle))
            except Killed:
                died = True
                if between != "killed":
                    platter.cut_power()
                held = run_again(command, Place(folder, PowerDisk(platter), bundle))
            platter.cut_power()
            held(Place(folder, PowerDisk(platter), bundle))
            if not died:
                break
    assert 10 < step < 300


@pytest.mark.parametrize(("prepare", "command"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_finds_everything_done_syncs_the_log_all_the_same(tmp_path, prepare, command):
    place = Place(tmp_path, MortalDisk(), write_bundle(tmp_path / "bundle", CONTENTS))
    prepare(place)
    command(place)
    again = Place(tmp_path, MortalDisk(), place.bundle)
    command(again)
    assert "fdatasync" in again.disk.calls
    assert "fsync" in again.disk.calls, "the name of the log"


def test_a_log_put_in_place_of_another_is_recovered_under_its_name(tmp_path):
    """The second recovery finds every directory settled by the first."""
    place = Place(tmp_path, MortalDisk(), tmp_path)
    a_ledger(place)
    log = place.root / "ledger.jsonl"
    shorter = log.read_bytes()
    append_notes(Ledger.open(place.root), "more")
    longer = log.read_bytes()
    log.write_bytes(shorter + TORN)
    with Platter(tmp_path) as platter:
        place.disk = PowerDisk(platter)
        recover(place.open(torn=True))
        other = place.root / "other"
        other.write_bytes(longer + TORN)
        platter.hold(other)
        other.replace(log)
        recover(place.open(torn=True))
        platter.cut_power()
    assert log.read_bytes() == longer


def test_a_head_that_another_put_there_meanwhile_is_durable_when_it_is_reported(tmp_path):
    """That one was killed behind the renaming, before it synced the name."""
    place = Place(tmp_path, MortalDisk(), tmp_path)
    a_ledger(place)
    with Platter(tmp_path) as platter:
        place.disk = PowerDisk(platter)

        def meanwhile(_: object) -> None:
            make_checkpoint(Ledger.open(place.root), SIGNERS["log"])
            for path in (place.root / "checkpoint", *(place.root / "checkpoints").iterdir()):
                platter.sync(platter.hold(path))
            platter.hold(place.root / "checkpoints")

        made = make_checkpoint(place.open(), SIGNERS["log"], check=meanwhile)
        platter.cut_power()
    assert not made.added
    assert (place.root / "checkpoint").read_bytes() == made.note
    assert [path.read_bytes() for path in (place.root / "checkpoints").iterdir()] == [made.note]
