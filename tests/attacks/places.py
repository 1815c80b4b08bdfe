"""Attacks on where a ledger lies: artifacts, mirrors, caches, archives, the index, the reader's policy."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.cli.cache import Cache
from k3_ledger.cli.stores import DirectoryStore, StoreMirror
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.ledger.core.tiles import tile_path
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.mirror import TileSource
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.prove import prove_from_tiles
from k3_ledger.verify.source import MemorySource
from tests.attacks.registry import attack
from tests.attacks.witnesses import W1
from tests.attacks.world import SAMPLES, THIEF, LogTrial, Outcome, PolicyTrial, ProofTrial, World, artifact, identity
from tests.ledgers import JUDGE, ORIGIN, ROOT, RUNNER, key_body, run_body, sign_line
from tests.static_host import lay_out, ledger_files, mirror_files

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from k3_ledger.ledger.core.tiles import Tile

DIGEST = hashlib.sha256(SAMPLES).hexdigest()
BLOB = f"blobs/sha256/{DIGEST[:2]}/{DIGEST}"
OPTIONS = ("--json", "--root-key", ROOT.public.hex(), "--processes", "1")
REQUIRE = TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"artifacts"}))


@dataclass
class CommandTrial:
    """Files on a disk, and the command that a reader runs on them.

    Attributes:
        files: by name.
        change: done to the folder before the reader comes.
        words: his command; ``verify`` of the folder when empty.
    """

    files: dict[str, bytes]
    change: Callable[[Path], object] = lambda _: None
    words: tuple[str, ...] = ("verify", "ledger")

    def run(self) -> Outcome:
        """Run the command as a person does."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            lay_out(folder / "ledger", self.files)
            self.change(folder)
            return command(folder, *self.words)


def command(folder: Path, *words: str) -> Outcome:
    """What a command comes to: of ``verify``, the findings of its report."""
    paths = [str(folder / word) if (folder / word).exists() else word for word in words]
    verifying = words[0] == "verify"
    result = CliRunner().invoke(app, [*paths, *(OPTIONS if verifying else ())])
    if isinstance(result.exception, LedgerError):
        return Outcome(frozenset({result.exception.code.id}), int(result.exception.code.info.exit))
    found = json.loads(result.stdout)["counts"] if verifying else ()
    return Outcome(frozenset(found), result.exit_code)


# --------------------------------------------------------------------------------------------------------- artifacts


@attack
def replace_an_artifact(world: World) -> LogTrial:
    return world.sealed(artifacts={DIGEST: SAMPLES.replace(b"900", b"100")})


@attack
def cut_an_artifact_short(world: World) -> LogTrial:
    return world.sealed(artifacts={DIGEST: SAMPLES[:-1]})


@attack
def write_on_behind_an_artifact(world: World) -> LogTrial:
    return world.sealed(artifacts={DIGEST: SAMPLES + b" "})


@attack
def take_an_artifact_away(world: World) -> LogTrial:
    return world.sealed(artifacts={}, policy=REQUIRE)


@attack
def take_an_artifact_away_from_a_reader_who_requires_none(world: World) -> LogTrial:
    return world.sealed(artifacts={})


@attack
def put_another_entrys_artifact_there(world: World) -> LogTrial:
    """Two artifacts of one size: the other one's bytes stand under this one's digest."""
    world = world.copy()
    other = SAMPLES.replace(b"900", b"800")
    world.ledger.add("run", run_body(20, artifacts=[artifact(other)]), RUNNER)
    return world.sealed(artifacts={DIGEST: other, hashlib.sha256(other).hexdigest(): other})


@attack
def give_one_artifact_two_sizes(world: World) -> LogTrial:
    """A runner names another receipt's artifact as his own, one byte shorter."""
    world = world.copy()
    world.ledger.add("run", run_body(20, artifacts=[artifact(SAMPLES, size=len(SAMPLES) - 1)]), RUNNER)
    return world.sealed()


@attack
def name_two_artifacts_alike(world: World) -> LogTrial:
    """Raw samples and better ones, both sealed, both called samples.json."""
    world, better = world.copy(), SAMPLES.replace(b"900", b"100")
    world.ledger.add("run", run_body(20, artifacts=[artifact(SAMPLES), artifact(better)]), RUNNER)
    return world.sealed(artifacts={DIGEST: SAMPLES, hashlib.sha256(better).hexdigest(): better})


@attack
def put_a_link_in_the_place_of_an_artifact(world: World) -> CommandTrial:
    """A link out of the ledger: right bytes today, and another file's tomorrow."""

    def change(folder: Path) -> None:
        blob = folder / "ledger" / BLOB
        (folder / "elsewhere").write_bytes(SAMPLES)
        blob.unlink()
        blob.symlink_to(folder / "elsewhere")

    words = ("verify", "ledger", "--require", "artifacts")
    return CommandTrial(ledger_files(world.ledger, {DIGEST: SAMPLES}), change, words)


# ------------------------------------------------------------------------------------------------- index and archives


@attack
def edit_the_index(world: World) -> CommandTrial:
    """The index is rebuilt at will and read by no verdict."""

    def change(folder: Path) -> None:
        assert command(folder, "index", "--ledger", "ledger").exit == 0
        with sqlite3.connect(folder / "ledger" / "index.sqlite") as db:
            db.execute("update entries set kind = 'note', claimed_time = '2030-01-01T00:00:00Z'")
        db.close()

    return CommandTrial(ledger_files(world.ledger, {DIGEST: SAMPLES}), change)


@attack
def put_a_proof_in_the_place_of_the_log(world: World) -> CommandTrial:
    """Whoever verifies the log by its name is shown a proof of one entry, which holds."""
    proof = world.proof(world.at["run"]).proof
    return CommandTrial({"ledger.jsonl": proof}, words=("verify", "ledger/ledger.jsonl"))


@attack
def put_a_proof_in_the_place_of_the_log_beside_its_checkpoint(world: World) -> CommandTrial:
    proof = world.proof(world.at["run"]).proof
    return CommandTrial({"ledger.jsonl": proof, "checkpoint": world.ledger.head()})


def _packed(world: World, *more: str) -> CommandTrial:
    """An offline bundle of one proved entry under the name of an archive of the whole ledger."""

    def change(folder: Path) -> None:
        words = ("bundle", "pack", "ledger", "--entries", str(world.at["run"]), "--out", str(folder / "ledger.tar"))
        assert command(folder, *words).exit == 0

    return CommandTrial(ledger_files(world.ledger, {DIGEST: SAMPLES}), change, ("verify", "ledger.tar", *more))


@attack
def hand_over_one_entry_where_the_record_was_asked_for(world: World) -> CommandTrial:
    return _packed(world)


@attack
def hand_over_one_entry_to_a_reader_who_requires_the_chain(world: World) -> CommandTrial:
    return _packed(world, "--require", "chain")


@attack
def change_a_file_in_an_offline_bundle(world: World) -> CommandTrial:
    def change(folder: Path) -> None:
        assert command(folder, "bundle", "pack", "ledger", "--out", str(folder / "a.tar")).exit == 0
        data = (folder / "a.tar").read_bytes()
        assert SAMPLES in data
        (folder / "a.tar").write_bytes(data.replace(SAMPLES, SAMPLES.replace(b"900", b"100")))

    return CommandTrial(ledger_files(world.ledger, {DIGEST: SAMPLES}), change, ("verify", "a.tar"))


@attack
def change_a_file_in_an_offline_bundle_and_its_list(world: World) -> CommandTrial:
    """The list is signed by nobody; what it lists is judged all the same."""

    def change(folder: Path) -> None:
        assert command(folder, "bundle", "pack", "ledger", "--out", str(folder / "a.tar")).exit == 0
        other = SAMPLES.replace(b"900", b"100")
        data = (folder / "a.tar").read_bytes()
        changed = data.replace(SAMPLES, other)
        listed = data.index(b'"sha256":"' + DIGEST.encode())
        digest = hashlib.sha256(other).hexdigest().encode()
        (folder / "a.tar").write_bytes(changed[: listed + 10] + digest + changed[listed + 74 :])

    return CommandTrial(ledger_files(world.ledger, {DIGEST: SAMPLES}), change, ("verify", "a.tar"))


# ------------------------------------------------------------------------------------------------- mirrors and caches


class Mirror:
    """A mirror in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.name = "mirror"
        self.files = files

    def checkpoint(self) -> bytes | None:
        """The newest head."""
        return self.files.get("checkpoint")

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        """None."""
        return ()

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        """None."""
        return ()

    def lists(self, folder: str) -> bool:
        """It says what it has."""
        return bool(folder)

    def kept_checkpoint(self, size: int) -> bytes | None:
        """Nobody has to ask."""
        return self.files.get(f"checkpoints/{size:012}.note")

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """From its files."""
        data = self.files.get(f"blobs/sha256/{sha256[:2]}/{sha256}")
        return None if data is None else io.BytesIO(data)

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        """Its only copy."""
        if tile_path(tile) in self.files:
            yield self.files[tile_path(tile)]

    def accept(self, tile: Tile, data: bytes) -> None:
        """Keep nothing."""

    def key_entries(self) -> bytes | None:
        """Its list."""
        return self.files.get("key-entries")


class TwoFaced(Mirror):
    """Lacks the first entry bundle when it is asked for it the first time, and has it the second time."""

    asked = False

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        """As it likes."""
        if tile_path(tile).startswith("tile/entries") and not self.asked:
            self.asked = True
            return
        yield from super().candidates(tile)


def _long(world: World) -> World:
    """The ledger with enough entries for a full tile."""
    world = world.copy()
    world.ledger.runs(256 + 4 - len(world.lines))
    return world


def _mirrored(world: World, change: Callable[[dict[str, bytes]], object]) -> LogTrial:
    files = mirror_files(_long(world).ledger, {DIGEST: SAMPLES})
    change(files)
    return LogTrial(source=lambda: TileSource(Mirror(files)))


def _flip(files: dict[str, bytes], path: str, at: int = 40) -> None:
    data = bytearray(files[path])
    data[at] ^= 1
    files[path] = bytes(data)


@attack
def change_a_hash_in_a_tile(world: World) -> LogTrial:
    return _mirrored(world, lambda files: _flip(files, "tile/0/000"))


@attack
def change_an_entry_in_a_bundle_of_a_mirror(world: World) -> LogTrial:
    return _mirrored(world, lambda files: _flip(files, "tile/entries/000", 200))


@attack
def exchange_two_tiles(world: World) -> LogTrial:
    return _mirrored(world, lambda files: files.update({"tile/0/000": files["tile/0/001.p/4"] * 64}))


@attack
def lose_a_bundle_of_a_mirror(world: World) -> LogTrial:
    return _mirrored(world, lambda files: files.pop("tile/entries/000"))


@attack
def answer_differently_the_second_time(world: World) -> LogTrial:
    """A tile is missing at first, so that the reader settles for less, and there at the second look: nothing is
    missing then, and a head that no log key signed was taken for one whose key is missing.
    """
    long = _long(world)
    files = mirror_files(long.ledger, {DIGEST: SAMPLES}) | {"checkpoint": long.ledger.head(key=THIEF)}
    return LogTrial(source=lambda: TileSource(TwoFaced(files)))


@dataclass
class CacheTrial:
    """A good mirror, and a reader's cache that somebody wrote into."""

    files: dict[str, bytes]
    poison: Callable[[Path], object]

    def run(self) -> Outcome:
        """Verify the mirror through the cache."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            lay_out(folder / "mirror", self.files)
            self.poison(folder / "cache")
            store = StoreMirror(DirectoryStore(folder / "mirror"), Cache(folder / "cache", "here"))
            return LogTrial(source=lambda: TileSource(store)).run()


@attack
def leave_a_revocation_out_of_the_list_of_key_entries(world: World) -> ProofTrial:
    """A reader proves an entry from a mirror whose list of key entries is short of the one that takes it back."""
    long = _long(world)
    long.ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=world.at["run"]), ROOT)
    files = mirror_files(long.ledger) | {"key-entries": b"1\n2\n3\n"}
    return ProofTrial(format_proof(prove_from_tiles(TileSource(Mirror(files)), world.at["run"])))


@attack
def poison_a_tile_in_the_readers_cache(world: World) -> CacheTrial:
    """The cached copy is passed over for the mirror's own."""
    files = mirror_files(_long(world).ledger, {DIGEST: SAMPLES})
    bad, path = dict(files), "tile/entries/000"
    _flip(bad, path, 200)
    return CacheTrial(files, lambda cache: Cache(cache, "here").keep_tile(path, bad[path]))


@attack
def poison_an_artifact_in_the_readers_cache(world: World) -> CacheTrial:
    files = mirror_files(_long(world).ledger, {DIGEST: SAMPLES})
    bad = {BLOB.removeprefix("blobs/"): SAMPLES.replace(b"900", b"100")}
    return CacheTrial(files, lambda cache: lay_out(cache, bad))


# ------------------------------------------------------------------------------------------- between two readings


class Changing(MemorySource):
    """A log that is another one at some of the times that it is read."""

    def __init__(self, log: bytes, then: bytes, checkpoint: bytes, *, when: Container[int]) -> None:
        super().__init__(log, checkpoint=checkpoint, artifacts={DIGEST: SAMPLES})
        self._then, self._when = then, when
        self._read = 0

    def blocks(self) -> Iterator[bytes]:
        """One of the two."""
        self._read += 1
        yield self._then if self._read in self._when else self._log


@attack
def change_the_log_between_two_readings(world: World) -> LogTrial:
    """What is judged later has to be what was verified: the tier of a verdict becomes another one in between."""
    honest = world.ledger.data
    then = honest.replace(b'"tier":"XL"', b'"tier":"XX"')
    return LogTrial(source=lambda: Changing(honest, then, world.ledger.head(), when=range(3, 9)))


@attack
def show_an_entry_that_is_named_at_the_second_reading_only(world: World) -> LogTrial:
    """A supersession names an entry that is not in the log; its line is shown while names are looked up."""
    world = world.copy()
    ghost = sign_line(b'{"body":{},"kind":"run"}', THIEF)
    body = {"target": identity(ghost), "reason": "replaced", "replacement": None}
    world.ledger.add("supersede", body, JUDGE)
    honest, head = world.ledger.data, world.ledger.head()
    then = honest.replace(world.lines[world.at["run"]], ghost)
    return LogTrial(source=lambda: Changing(honest, then, head, when=(2,)))


@attack
def append_while_the_reader_reads(world: World) -> LogTrial:
    """The honest writer goes on between two readings: no accusation may come of it."""
    longer = world.copy()
    longer.ledger.runs(3)
    honest, then = world.ledger.data, longer.ledger.data
    return LogTrial(source=lambda: Changing(honest, then, world.ledger.head(), when=(2, 3, 4)))


# -------------------------------------------------------------------------------------------- the reader's own policy


@attack
def slip_a_key_into_the_policy_that_nobody_reads(world: World) -> PolicyTrial:
    """A demand that is misspelt would silently demand nothing."""
    del world
    return PolicyTrial(f'root_public_key = "{ROOT.public.hex()}"\nrequired = ["checkpoint"]\n')


@attack
def require_a_step_that_does_not_exist(world: World) -> PolicyTrial:
    del world
    return PolicyTrial('require = ["witness"]\n')


@attack
def ask_for_a_quorum_of_nobody(world: World) -> PolicyTrial:
    del world
    return PolicyTrial("quorum = 1\n")


@attack
def ask_for_a_quorum_of_zero(world: World) -> PolicyTrial:
    """Witnesses are named and none has to cosign: a policy that looks safer than it is."""
    del world
    return PolicyTrial(f'quorum = 0\n[[witness]]\nkey = "{W1.verifier_key}"\n')


@attack
def write_a_truth_for_a_number_in_the_policy(world: World) -> PolicyTrial:
    del world
    return PolicyTrial("minimum_size = true\n")
