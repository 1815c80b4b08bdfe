"""What a witness remembers: for each log the last head that it cosigned. It forgets nothing and never starts over.

A directory::

    witness.json             name and public key of the witness, as a verifier key
    logs/<hash>.json         one log: origin, keys, dropped keys, and the last cosigned note; the hash is the origin's
    cosigned/<hash>          the origin of a log of which something was cosigned; it stays for ever
    forks/<hash>/            notes that the log signed and that contradict one another, kept as evidence

Files of JSON are canonical, and every file is replaced whole and durable before anything depends on it. A log's file is
there from the moment it was added, and its mark under ``cosigned/`` before the first cosignature is given out: a file
that is missing is an unknown log without the mark, and a lost memory with it. What was cosigned carries the witness's
own signature, so a damaged file cannot pass for an earlier state, and with the mark an empty one cannot either. An
older *good* file can: whoever can put one back can make this witness sign a fork, and a backup is such a file.

A key of a log that was stolen is dropped: no head under it is cosigned any more, and it never comes back. What was
cosigned stays, whoever signed it: a witness that a thief had cosign his history can never cosign another one.

Nothing here starts over. A lost memory of a log is taken up again on the operator's word alone, from the largest head
that carries this witness's own signature (:mod:`k3_ledger.ledger.witness.own_word`).

Whoever changes a log's file holds the lock on ``witness.json``: one at a time over all threads and processes.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.core.checkpoint import Checkpoint, open_checkpoint
from k3_ledger.ledger.core.merkle import EMPTY_ROOT
from k3_ledger.ledger.core.note import (
    KeyType,
    Verifier,
    format_note,
    format_verifier_key,
    parse_note,
    parse_verifier_key,
)
from k3_ledger.ledger.regular import stands_there
from k3_ledger.ledger.witness import documents
from k3_ledger.ledger.witness.documents import LIMITS
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
_HASH: Final = re.compile(r"[0-9a-f]{64}")
LOG_SCHEMA: Final = "k3-ledger/witness-log/1"
MAX_KEYS: Final = 64
"""Most keys of one log."""
MAX_EVIDENCE: Final = 64
"""Most notes that are kept of one log's forks: the first say it all, and a log must not fill the disk."""


@dataclass(frozen=True, slots=True)
class WitnessedLog:
    """One log as a witness knows it.

    Attributes:
        origin: its name for itself.
        verifiers: the keys that it signs heads with; none where all were dropped.
        note: the head that was cosigned last, with the log's and the witness's signatures; empty before the first.
        head: what that note says; the empty tree before the first.
        timestamp: when it was cosigned, in seconds since the Epoch; 0 before the first.
        dropped: keys that it signed with before, and that count for nothing since.
    """

    origin: str
    verifiers: tuple[Verifier, ...]
    note: bytes
    head: Checkpoint
    timestamp: int
    dropped: tuple[Verifier, ...] = ()

    @property
    def is_orphaned(self) -> bool:
        """Whether the head that was cosigned last is signed by keys alone that were dropped since."""
        lines = {(sig.name, sig.key_hash) for sig in parse_note(self.note).sigs} if self.note else set()
        return bool(lines & _names(self.dropped)) and not lines & _names(self.verifiers)


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
            there, left = stands_there(state._witness_path), documents.left(root)
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
        state._publish(state._witness_path, canonical.format(document, limits=LIMITS))
        return state

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None, lock_timeout_s: float = 30.0) -> WitnessState:
        """Open the state of a witness.

        Raises:
            StoreError: it cannot be read.
            WitnessError: it is damaged.
        """
        path = root / "witness.json"
        document = documents.read(path, WITNESS_SCHEMA, {"schema", "verifier_key"})
        try:
            verifier = parse_verifier_key(documents.text(document, "verifier_key"))
        except LedgerError as error:
            raise documents.damaged(path, error.finding.message) from None
        if verifier.key_type is not KeyType.COSIGNATURE:
            raise documents.damaged(path, "the key is not a cosigner's")
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
                raise documents.lost(path, mark.name)

    def log(self, origin: str) -> WitnessedLog:
        """What is remembered of a log. To change it, hold the lock around this and :meth:`keep`.

        Raises:
            WitnessError: the log is unknown (``WITNESS_ORIGIN``), or what is remembered of it is damaged or lost
                (``WITNESS_STATE``).
            StoreError: its file cannot be read.
        """
        log = self._known(origin_hash(origin), repr(origin[:200]))
        if log is None:
            raise WitnessError(Code.WITNESS_ORIGIN, f"this witness does not know the log {origin[:200]!r}")
        return log

    def note_of(self, name: str) -> bytes | None:
        """The last cosigned note of the log whose origin hashes to ``name``; None where there is none.

        Raises:
            WitnessError: what is remembered of that log is damaged or lost; what is remembered of others is not read.
            StoreError: its file cannot be read.
        """
        log = self._known(name, name) if _HASH.fullmatch(name) else None
        return None if log is None else log.note or None

    def _known(self, name: str, what: str) -> WitnessedLog | None:
        """The log whose origin hashes to ``name``, 64 digits; None where the witness never knew it."""
        path = self.root / "logs" / f"{name}.json"
        marked = stands_there(self.root / "cosigned" / name)
        try:
            log = self._read_log(path)
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            if marked:
                raise documents.lost(path, what) from None
            return None
        if origin_hash(log.origin) != name:
            raise documents.damaged(path, "the file is that of another log")
        if marked and not log.note:
            raise documents.damaged(path, "it holds no head, and this witness cosigned one")
        return log

    def add_log(self, origin: str, verifiers: Iterable[Verifier]) -> WitnessedLog:
        """Make a log known, or give a known one further keys. What was cosigned stays.

        Raises:
            WitnessError: the state is damaged, or lost (``WITNESS_STATE``): see :meth:`take_up`.
            StoreError: the storage refused.
            ValueError: no key is given, too many are, one is a cosigner's or was dropped, or the origin is no line of
                text.
        """
        added = _log_keys(origin, verifiers)
        with self.locked():
            try:
                log = self.log(origin)
            except WitnessError as error:
                if error.code is not Code.WITNESS_ORIGIN:
                    raise
                log = WitnessedLog(origin, (), b"", Checkpoint(origin, 0, EMPTY_ROOT), 0)
            if again := _among(added, log.dropped):
                raise ValueError(f"{_spelled(again)} was dropped, and no key that was dropped comes back")
            known = tuple(dict.fromkeys((*log.verifiers, *added)))
            self.keep(log := replace(log, verifiers=_log_keys(origin, known)))
        return log

    def drop_keys(self, origin: str, verifiers: Iterable[Verifier]) -> WitnessedLog:
        """Take keys of a log for nobody's, for ever. What was cosigned stays, whichever key signed it.

        Args:
            origin: name of the log.
            verifiers: keys that the witness knows, or has dropped already; all of them may be given.

        Raises:
            WitnessError: the log is unknown, or what is remembered of it is damaged or lost.
            StoreError: the storage refused.
            ValueError: no key is given, one is not a key of the log, or too many were dropped.
        """
        gone = _log_keys(origin, verifiers)
        with self.locked():
            log = self.log(origin)
            known = (*log.verifiers, *log.dropped)
            if strange := [key for key in gone if not _among([key], known)]:
                raise ValueError(f"{_spelled(strange)} is no key of {origin[:200]!r} that this witness knows")
            dropped = _log_keys(origin, (*log.dropped, *_among(log.verifiers, gone)))
            left = tuple(key for key in log.verifiers if key not in dropped)
            self.keep(log := replace(log, verifiers=left, dropped=dropped))
        return log

    def take_up(
        self,
        origin: str,
        verifiers: Iterable[Verifier],
        notes: Iterable[bytes],
        dropped: Iterable[Verifier] = (),
    ) -> WitnessedLog:
        """Go on after the memory of a log was lost: from the largest head among some notes that one cosigned.

        Whether a larger one has it somewhere else is what the caller vouches for.

        Args:
            origin: name of the log.
            verifiers: its keys.
            notes: where to look for it; the kept evidence of forks is looked at as well.
            dropped: keys that it signed with before: they may have signed that head, and count for nothing behind it.

        Raises:
            WitnessError: the witness cosigned none of them (``WITNESS_STATE``), or two of one size (``WITNESS_FORK``).
            SignatureError: no key of the log signed that head.
            StoreError: the storage refused.
            ValueError: the log is remembered; or as :meth:`add_log`.
        """
        keys = _log_keys(origin, verifiers)
        gone = _log_keys(origin, given) if (given := tuple(dropped)) else ()
        if both := _among(keys, gone):
            raise ValueError(f"{_spelled(both)} is given as a key of the log and as one that was dropped")
        path = self._log_path(origin)
        place = Position(source=str(path))
        with self.locked():
            if stands_there(path):
                raise ValueError(f"the witness has a memory of {origin[:200]!r}; move it away if it is damaged")
            with storage_errors(self.root / "forks", "read the evidence of forks"):
                evidence = [note.read_bytes() for note in sorted((self.root / "forks").glob(f"{path.stem}/*.note"))]
            word = last_word(own_words(self.verifier, origin, (*notes, *evidence)), place)
            signed = open_checkpoint(word.note, (*keys, *gone), origin=origin, position=place)
            lines = [*(sig.signature for sig in signed.note.sigs), word.signature]
            log = WitnessedLog(origin, keys, format_note(signed.note.text, lines), word.head, word.timestamp, gone)
            self.keep(log)
        return log

    def keep(self, log: WitnessedLog) -> None:
        """Remember a log; it is on stable storage when this returns. The caller holds the lock.

        Raises:
            StoreError: the storage refused. What the disk holds is then the old state or the new one.
        """
        document: dict[str, Any] = {
            "checkpoint": log.note.decode(),
            "keys": [format_verifier_key(verifier) for verifier in log.verifiers],
            "origin": log.origin,
            "schema": LOG_SCHEMA,
        }
        if log.dropped:  # a version that knows of no dropped key takes the file for damaged, and signs nothing
            document["dropped"] = [format_verifier_key(verifier) for verifier in log.dropped]
        self._publish(self._log_path(log.origin), canonical.format(document, limits=LIMITS))
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
        members = {"checkpoint", "keys", "origin", "schema"}
        document = documents.read(path, LOG_SCHEMA, members, frozenset({"dropped"}))
        origin, note = documents.text(document, "origin"), documents.text(document, "checkpoint").encode()
        lists = (document["keys"], document.get("dropped", []))
        if not all(isinstance(keys, list) for keys in lists):
            raise documents.damaged(path, "the keys are no list")
        try:
            verifiers, dropped = (tuple(parse_verifier_key(str(key)) for key in keys) for keys in lists)
            if not note:
                return WitnessedLog(origin, verifiers, b"", Checkpoint(origin, 0, EMPTY_ROOT), 0, dropped)
            opened = open_checkpoint(note, [self.verifier], origin=origin)
        except LedgerError as error:
            raise documents.damaged(path, error.finding.message) from None
        return WitnessedLog(origin, verifiers, note, opened.checkpoint, opened.note.sigs[0].timestamp or 0, dropped)


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


def _names(verifiers: Iterable[Verifier]) -> set[tuple[str, int]]:
    """What a line says of its key."""
    return {(verifier.name, verifier.key_hash) for verifier in verifiers}


def _among(keys: Iterable[Verifier], others: Iterable[Verifier]) -> list[Verifier]:
    """Those that are among others, whatever name they are known by."""
    raw = {key.public_key for key in others}
    return [key for key in keys if key.public_key in raw]


def _spelled(keys: Iterable[Verifier]) -> str:
    return ", ".join(format_verifier_key(key) for key in keys)


def seconds_now() -> int:
    """The clock's time in whole seconds since the Epoch."""
    return int(time.time())
