"""What a witness remembers: for each log the last head that it cosigned. It forgets nothing and never starts over.

A directory::

    witness.json             name and public key of the witness, as a verifier key
    logs/<hash>.json         one log: origin, keys, and the last cosigned note; the hash is that of the origin
    cosigned/<hash>          the origin of a log of which something was cosigned; it stays for ever
    forks/<hash>/            notes that the log signed and that contradict one another, kept as evidence

Files of JSON are canonical, and every file is replaced whole and durable before anything depends on it. A log's file is
there from the moment it was added, and its mark under ``cosigned/`` before the first cosignature is given out: a file
that is missing is an unknown log without the mark, and a lost memory with it. What was cosigned carries the witness's
own signature, so a damaged file cannot pass for an earlier state, and with the mark an empty one cannot either. An
older *good* file can: whoever can put one back can make this witness sign a fork, and a backup is such a file.

Nothing here starts over. A lost memory of a log is taken up again on the operator's word alone, from the largest head
that carries this witness's own signature (:mod:`k3_ledger.ledger.witness.own_word`).

Whoever changes a log's file holds the lock on ``witness.json``: one at a time over all threads and processes.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.core.checkpoint import Checkpoint, open_checkpoint
from k3_ledger.ledger.core.merkle import EMPTY_ROOT
from k3_ledger.ledger.core.note import KeyType, Verifier, format_note, format_verifier_key, parse_verifier_key
from k3_ledger.ledger.regular import open_regular, read_up_to, stands_there
from k3_ledger.ledger.witness.own_word import last_word, own_words
from k3_ledger.ledger.writer.disk import Disk, Staging, make_directory, storage_errors
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError, StoreError, WitnessError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterable
    from pathlib import Path

WITNESS_SCHEMA: Final = "k3-ledger/witness-state/1"
LOG_SCHEMA: Final = "k3-ledger/witness-log/1"
MAX_FILE: Final = 2_000_000
"""Most bytes in a file of the state."""
MAX_KEYS: Final = 64
"""Most keys of one log."""
MAX_EVIDENCE: Final = 64
"""Most notes that are kept of one log's forks: the first say it all, and a log must not fill the disk."""

_LIMITS: Final = canonical.Limits(max_bytes=MAX_FILE, max_depth=3, max_string=MAX_FILE, max_items=256)


@dataclass(frozen=True, slots=True)
class WitnessedLog:
    """One log as a witness knows it.

    Attributes:
        origin: its name for itself.
        verifiers: the keys that it signs heads with.
        note: the head that was cosigned last, with the log's and the witness's signatures; empty before the first.
        head: what that note says; the empty tree before the first.
        timestamp: when it was cosigned, in seconds since the Epoch; 0 before the first.
    """

    origin: str
    verifiers: tuple[Verifier, ...]
    note: bytes
    head: Checkpoint
    timestamp: int


def origin_hash(origin: str) -> str:
    """How files and addresses name a log: SHA-256 of the origin, in lower-case hexadecimal."""
    return hashlib.sha256(origin.encode()).hexdigest()


class WitnessState:
    """The directory of one witness. Make it with :meth:`create` or :meth:`open`.

    Attributes:
        root: the directory.
        verifier: name and public key of the witness.
    """

    def __init__(self, root: Path, verifier: Verifier, *, disk: Disk, lock_timeout_s: float) -> None:
        self.root = root
        self.verifier = verifier
        self._disk = disk
        self._lock_timeout_s = lock_timeout_s

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        public_key: bytes,
        *,
        restore: bool = False,
        disk: Disk | None = None,
        lock_timeout_s: float = 30.0,
    ) -> WitnessState:
        """Make the state of a new witness that knows no log, or the lost file ``witness.json`` of one that knows some.

        Args:
            root: a directory; its parent exists.
            name: what the witness is called, such as ``witness.example/w1``.
            public_key: raw Ed25519 key, 32 bytes.
            restore: write ``witness.json`` anew beside what else is left of a witness of this name and key.
            disk: the operating system's calls.
            lock_timeout_s: how long to wait for others, in seconds.

        Raises:
            WitnessError: a witness stands there already, or something of one does (``WITNESS_EXISTS``); what is to be
                restored is another witness's, or damaged (``WITNESS_STATE``).
            StoreError: the file system refused.
            ValueError: the name is no key name, or nothing is there to be restored.
        """
        state = cls(
            root,
            Verifier(name, public_key, KeyType.COSIGNATURE),
            disk=disk or Disk(),
            lock_timeout_s=lock_timeout_s,
        )
        document = {"schema": WITNESS_SCHEMA, "verifier_key": format_verifier_key(state.verifier)}
        with storage_errors(root, "make the directory of the witness", output=True):
            make_directory(state._disk, root)
            make_directory(state._disk, root / "logs")
            there, left = stands_there(state._witness_path), _left(root)
        if there or (left and not restore):
            raise WitnessError(
                Code.WITNESS_EXISTS,
                "cannot make a witness here" if there else "what a witness remembers stands here, without witness.json",
                position=Position(source=str(state._witness_path if there else left[0])),
                hint=None if there else "where that file alone is lost, its name and key write it again: `--restore`",
            )
        if restore and not left:
            raise ValueError("nothing of a witness is here to be restored")
        state.origins()  # what is left reads under this name and key, or it is another witness's
        state._publish(state._witness_path, canonical.format(document, limits=_LIMITS))
        return state

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None, lock_timeout_s: float = 30.0) -> WitnessState:
        """Open the state of a witness.

        Raises:
            StoreError: it cannot be read.
            WitnessError: it is damaged.
        """
        path = root / "witness.json"
        document = _read(path, WITNESS_SCHEMA, {"schema", "verifier_key"})
        try:
            verifier = parse_verifier_key(_text(document, "verifier_key"))
        except LedgerError as error:
            raise _damaged(path, error.finding.message) from None
        if verifier.key_type is not KeyType.COSIGNATURE:
            raise _damaged(path, "the key is not a cosigner's")
        return cls(root, verifier, disk=disk or Disk(), lock_timeout_s=lock_timeout_s)

    @property
    def _witness_path(self) -> Path:
        return self.root / "witness.json"

    def _log_path(self, origin: str) -> Path:
        return self.root / "logs" / f"{origin_hash(origin)}.json"

    def _mark_path(self, origin: str) -> Path:
        return self.root / "cosigned" / origin_hash(origin)

    def locked(self) -> contextlib.AbstractContextManager[LogFile]:
        """The exclusive right to change what is remembered.

        Raises:
            StoreError: others held it for the whole wait, or the file system grants no locks.
        """
        return _Lock(LogFile(self._disk, self._witness_path, lock_timeout_s=self._lock_timeout_s, what="the witness"))

    def origins(self) -> tuple[str, ...]:
        """Origins of the logs that the witness knows, sorted.

        Raises:
            StoreError: the directory cannot be read.
            WitnessError: a file in it is damaged.
        """
        with storage_errors(self.root / "logs", "list the logs of the witness"):
            paths = sorted((self.root / "logs").glob("*.json"))
        return tuple(sorted(self._read_log(path).origin for path in paths))

    def check_nothing_lost(self) -> None:
        """Every log of which something was cosigned has its file.

        Raises:
            WitnessError: the memory of one is lost.
            StoreError: a directory or a mark cannot be read.
        """
        with storage_errors(self.root / "cosigned", "list the logs of the witness"):
            marks = sorted((self.root / "cosigned").glob("*"))
        for mark in marks:
            path = self.root / "logs" / f"{mark.name}.json"
            if not stands_there(path):
                raise _lost(path, mark.name)

    def log(self, origin: str) -> WitnessedLog:
        """What is remembered of a log. To change it, hold the lock around this and :meth:`keep`.

        Raises:
            WitnessError: the log is unknown (``WITNESS_ORIGIN``), or what is remembered of it is damaged or lost
                (``WITNESS_STATE``).
            StoreError: its file cannot be read.
        """
        path = self._log_path(origin)
        marked = stands_there(self._mark_path(origin))
        try:
            log = self._read_log(path)
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            if marked:
                raise _lost(path, repr(origin[:200])) from None
            raise WitnessError(Code.WITNESS_ORIGIN, f"this witness does not know the log {origin[:200]!r}") from None
        if log.origin != origin:
            raise _damaged(path, "the file is that of another log")
        if marked and not log.note:
            raise _damaged(path, "it holds no head, and this witness cosigned one")
        return log

    def note_of(self, name: str) -> bytes | None:
        """The last cosigned note of the log whose origin hashes to ``name``; None where there is none.

        Raises:
            WitnessError: its file is damaged.
            StoreError: its file cannot be read.
        """
        return next(
            (log.note or None for log in map(self.log, self.origins()) if origin_hash(log.origin) == name), None
        )

    def add_log(self, origin: str, verifiers: Iterable[Verifier]) -> WitnessedLog:
        """Make a log known, or give a known one further keys. What was cosigned stays.

        Raises:
            WitnessError: the state is damaged, or lost (``WITNESS_STATE``): see :meth:`take_up`.
            StoreError: the storage refused.
            ValueError: no key is given, too many are, one is a cosigner's, or the origin is no line of text.
        """
        added = _log_keys(origin, verifiers)
        with self.locked():
            try:
                log = self.log(origin)
            except WitnessError as error:
                if error.code is not Code.WITNESS_ORIGIN:
                    raise
                log = WitnessedLog(origin, (), b"", Checkpoint(origin, 0, EMPTY_ROOT), 0)
            known = tuple(dict.fromkeys((*log.verifiers, *added)))
            self.keep(log := replace(log, verifiers=_log_keys(origin, known)))
        return log

    def take_up(self, origin: str, verifiers: Iterable[Verifier], notes: Iterable[bytes]) -> WitnessedLog:
        """Go on after the memory of a log was lost: from the largest head among some notes that one cosigned.

        Whether a larger one has it somewhere else is what the caller vouches for.

        Args:
            origin: name of the log.
            verifiers: its keys.
            notes: where to look for it; the kept evidence of forks is looked at as well.

        Raises:
            WitnessError: the witness cosigned none of them (``WITNESS_STATE``), or two of one size (``WITNESS_FORK``).
            SignatureError: no key of the log signed that head.
            StoreError: the storage refused.
            ValueError: the log is remembered; or as :meth:`add_log`.
        """
        keys = _log_keys(origin, verifiers)
        path = self._log_path(origin)
        place = Position(source=str(path))
        with self.locked():
            if stands_there(path):
                raise ValueError(f"the witness has a memory of {origin[:200]!r}; move it away if it is damaged")
            with storage_errors(self.root / "forks", "read the evidence of forks"):
                evidence = [note.read_bytes() for note in sorted((self.root / "forks").glob(f"{path.stem}/*.note"))]
            word = last_word(own_words(self.verifier, origin, (*notes, *evidence)), place)
            signed = open_checkpoint(word.note, keys, origin=origin, position=place)
            lines = [*(sig.signature for sig in signed.note.sigs), word.signature]
            log = WitnessedLog(origin, keys, format_note(signed.note.text, lines), word.head, word.timestamp)
            self.keep(log)
        return log

    def keep(self, log: WitnessedLog) -> None:
        """Remember a log; it is on stable storage when this returns. The caller holds the lock.

        Raises:
            StoreError: the storage refused. What the disk holds is then the old state or the new one.
        """
        document = {
            "checkpoint": log.note.decode(),
            "keys": [format_verifier_key(verifier) for verifier in log.verifiers],
            "origin": log.origin,
            "schema": LOG_SCHEMA,
        }
        self._publish(self._log_path(log.origin), canonical.format(document, limits=_LIMITS))
        mark = self._mark_path(log.origin)
        if log.note and not stands_there(mark):  # behind the note: an empty file with the mark is never a crash's
            with storage_errors(mark.parent, "write the state of the witness"):
                make_directory(self._disk, mark.parent)
            self._publish(mark, f"{log.origin}\n".encode())

    def keep_fork(self, origin: str, *notes: bytes) -> None:
        """Keep signed notes that contradict one another, as far as there is room for more.

        Raises:
            StoreError: the storage refused.
        """
        folder = self.root / "forks" / origin_hash(origin)
        with storage_errors(folder, "keep the evidence of a fork"):
            make_directory(self._disk, folder.parent)
            make_directory(self._disk, folder)
            kept = {path.name for path in folder.iterdir()}
        for note in notes:
            name = f"{hashlib.sha256(note).hexdigest()}.note"
            if name not in kept and len(kept) < MAX_EVIDENCE:
                self._publish(folder / name, note)
                kept.add(name)

    def _publish(self, target: Path, data: bytes) -> None:
        with (
            storage_errors(target, "write the state of the witness"),
            Staging(self._disk, self.root / ".incoming") as file,
        ):
            file.write(data)
            file.publish(target)

    def _read_log(self, path: Path) -> WitnessedLog:
        document = _read(path, LOG_SCHEMA, {"checkpoint", "keys", "origin", "schema"})
        origin, note, keys = _text(document, "origin"), _text(document, "checkpoint").encode(), document["keys"]
        if not isinstance(keys, list):
            raise _damaged(path, "the keys are no list")
        try:
            verifiers = tuple(parse_verifier_key(str(key)) for key in keys)
            if not note:
                return WitnessedLog(origin, verifiers, b"", Checkpoint(origin, 0, EMPTY_ROOT), 0)
            opened = open_checkpoint(note, [self.verifier], origin=origin)
        except LedgerError as error:
            raise _damaged(path, error.finding.message) from None
        return WitnessedLog(origin, verifiers, note, opened.checkpoint, opened.note.sigs[0].timestamp or 0)


class _Lock:
    """Holds a log file's lock and closes the file afterwards."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def __enter__(self) -> LogFile:
        try:
            self._file.acquire()
        except BaseException:
            self._file.close()
            raise
        return self._file

    def __exit__(self, *_: object) -> None:
        try:
            self._file.release()
        finally:
            self._file.close()


def _log_keys(origin: str, verifiers: Iterable[Verifier]) -> tuple[Verifier, ...]:
    keys = tuple(dict.fromkeys(verifiers))
    if not keys or any(verifier.key_type is not KeyType.ED25519 for verifier in keys):
        raise ValueError("a log signs its heads with keys of the type 0x01")
    if not origin or "\n" in origin:
        raise ValueError("an origin is one line that is not empty")
    if len(keys) > MAX_KEYS:
        raise ValueError(f"a log has at most {MAX_KEYS} keys")
    return keys


def seconds_now() -> int:
    """The clock's time in whole seconds since the Epoch."""
    return int(time.time())


def _read(path: Path, schema: str, members: set[str]) -> dict[str, Any]:
    missing = not stands_there(path)
    try:
        with open_regular(path) as file:
            data = read_up_to(file, MAX_FILE + 1)
    except (StoreError, OSError) as error:
        raise StoreError(
            Code.WITNESS_STATE,
            "cannot read the state of the witness",
            position=Position(source=str(path)),
            found=error.finding.message if isinstance(error, StoreError) else error.strerror,
            hint=_how_to_make(path.parent) if missing else None,
        ) from (FileNotFoundError(path) if missing else error)
    try:
        document = canonical.parse(data, limits=_LIMITS)
    except LedgerError as error:
        raise _damaged(path, error.finding.message) from None
    if not isinstance(document, dict) or document.keys() != members or document["schema"] != schema:
        raise _damaged(path, f"not a document of the schema {schema}")
    return document


def _left(root: Path) -> list[Path]:
    """What there is of logs: whatever tells that a witness was here."""
    return sorted(path for name in ("logs", "cosigned", "forks") for path in (root / name).glob("*"))


def _how_to_make(root: Path) -> str:
    if _left(root):
        return "`k3-ledger witness init --restore` writes the file again, with the name and the key that it had"
    return "`k3-ledger witness init` makes a new witness"


def _text(document: dict[str, Any], name: str) -> str:
    """A member that is text; anything else becomes a text that no check accepts."""
    return str(document[name])


def _lost(path: Path, what: str) -> WitnessError:
    return WitnessError(
        Code.WITNESS_STATE,
        f"what this witness remembered of the log {what} is lost, and it has cosigned heads of it",
        position=Position(source=str(path)),
    )


def _damaged(path: Path, why: str) -> WitnessError:
    return WitnessError(
        Code.WITNESS_STATE, f"the state of the witness is damaged: {why}", position=Position(source=str(path))
    )
