"""A ledger directory on a local disk: where things stand in it, how it is made, how it is opened.

Layout (docs/format.md): ``ledger.jsonl`` is the record; ``checkpoint`` and ``checkpoints/`` hold signed tree heads;
``blobs/sha256/`` the artifacts; ``recovered/`` what was cut off a torn tail; ``index.sqlite`` is derived. While
something is written it stands in ``.incoming/`` and nowhere else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from k3_ledger.ledger.core.chain import entry_identity, genesis_prev, signed_message
from k3_ledger.ledger.core.framing import HEAD, MAX_LINE, format_line
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.ledger.core.lines import MAX_JUNK, TailKind, check_is_ledger
from k3_ledger.ledger.regular import open_regular, read_up_to, stands_there
from k3_ledger.ledger.writer.append import Writer
from k3_ledger.ledger.writer.batch import refusal, utc_now
from k3_ledger.ledger.writer.beside import LOST, remains_of
from k3_ledger.ledger.writer.disk import Disk, Staging, make_directory, storage_error, storage_errors
from k3_ledger.ledger.writer.state import BLOCK, LOG_NAME, read_origin, tail_of
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.errors import MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import BinaryIO

    from k3_ledger.ledger.writer.batch import EntryCheck
    from k3_ledger.ledger.writer.keys import PublicKey, Signer
    from k3_ledger.schemas.envelope import Role

GITATTRIBUTES = b"# Ledger bytes are signed: git must never rewrite a line ending in them.\n* -text\n"


_NOTHING_WHOLE = (
    "restore ledger.jsonl from a copy; where it never held a whole entry, `k3-ledger recover` clears the place for "
    "`k3-ledger init`"
)


class NewKey(NamedTuple):
    """A key to enrol."""

    role: Role
    name: str
    public_key: PublicKey


def enrolment(key: NewKey) -> dict[str, object]:
    """Body of the ``key`` entry that enrols a key."""
    return {
        "action": "enrol",
        "role": key.role,
        "key_id": key.public_key.key_id,
        "public_key": key.public_key.hex,
        "name": key.name,
        "replaces": None,
        "revoked_from": None,
        "reason": None,
        "endorsements": [],
    }


class Ledger:
    """One ledger directory. Make it with :meth:`create` or :meth:`open`; opening reads nothing and locks nothing.

    Attributes:
        root: the directory.
        disk: the operating system's calls, for everything that is written through this object.
    """

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = root
        self.disk = disk

    @property
    def log_path(self) -> Path:
        """The record."""
        return self.root / LOG_NAME

    @property
    def checkpoint_path(self) -> Path:
        """Newest signed tree head."""
        return self.root / "checkpoint"

    @property
    def checkpoints_path(self) -> Path:
        """Every signed tree head, one file a size."""
        return self.root / "checkpoints"

    @property
    def blobs_path(self) -> Path:
        """Artifacts by digest."""
        return self.root / "blobs"

    @property
    def recovered_path(self) -> Path:
        """Bytes that were cut off torn tails."""
        return self.root / "recovered"

    @property
    def index_path(self) -> Path:
        """The derived SQLite index."""
        return self.root / "index.sqlite"

    @property
    def staging_path(self) -> Path:
        """Files being written."""
        return self.root / ".incoming"

    @classmethod
    def open(cls, path: Path, *, disk: Disk | None = None, torn: bool = False) -> Ledger:
        """Open an existing ledger directory.

        Args:
            path: the directory.
            disk: the operating system's calls.
            torn: whether to open what a cut leaves of a first entry too, down to nothing.

        Raises:
            StoreError: there is no such directory, or no ledger in it.
            MalformedError: what is in it is none (``NOT_A_LEDGER``, ``EMPTY_LEDGER``, ``UTF16``).
        """
        ledger = cls(path, disk or Disk())
        try:
            with storage_errors(ledger.log_path, "open the ledger"):
                mode = ledger.disk.stat(ledger.log_path).st_mode
        except StoreError as error:
            if error.code is Code.STORE_MISSING and path.is_dir() and remains_of(path):
                error.finding = replace(error.finding, hint=LOST)
            raise
        if not stat.S_ISREG(mode):
            raise StoreError(
                Code.STORE_MISSING,
                "cannot open the ledger",
                position=Position(source=str(ledger.log_path)),
                expected="a regular file",
                found="something else",
            )
        with storage_errors(ledger.log_path, "open the ledger"), ledger.log_path.open("rb") as file:
            if file.read(len(HEAD)) != HEAD:
                file.seek(0)
                ledger._check_shape(file, torn=torn)
        return ledger

    def _check_shape(self, file: BinaryIO, *, torn: bool) -> None:
        """Refuse what verify would call no ledger, whatever a command wants of it."""
        try:
            check_is_ledger(iter(lambda: file.read(BLOCK), b""), position=Position(source=LOG_NAME))
        except MalformedError as refused:
            if self._is_cut(file):
                if torn:
                    return
                refused.finding = replace(refused.finding, hint=LOST if remains_of(self.root) else _NOTHING_WHOLE)
            raise

    @staticmethod
    def _is_cut(file: BinaryIO) -> bool:
        """Whether a file without an entry is what a cut leaves of the first one, down to nothing."""
        size = file.seek(0, os.SEEK_END)
        if size > MAX_JUNK:
            return False  # no entry is so long, and nobody need read all of it
        try:
            tail = tail_of(lambda count, offset: os.pread(file.fileno(), count, offset), 0, 0, size)
        except MalformedError:
            return False
        return tail.kind is not TailKind.DAMAGED

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        origin: str,
        root: Signer,
        keys: Iterable[NewKey] = (),
        time: str | None = None,
        disk: Disk | None = None,
    ) -> Ledger:
        """Make a ledger: its genesis entry and the enrolment of its first keys.

        The directory may exist; a ledger in it may not. It holds the whole beginning or none of it.

        Args:
            path: the directory; its parent must exist.
            origin: the log's name for itself, such as ``example.org/bench``; part of its identity for ever.
            root: signs genesis and the enrolments.
            keys: keys to enrol.
            time: claimed time of these entries; None takes the clock's.
            disk: the operating system's calls.

        Raises:
            StoreError: a ledger stands there already, or the file system refused.
            LedgerError: the origin or a key is not acceptable.
        """
        ledger = cls(path, disk or Disk())
        data = _beginning(origin, root, keys, time or utc_now())
        with storage_errors(path, "make the ledger directory", output=True):
            make_directory(ledger.disk, path)
            lock = ledger.disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with storage_errors(path, "lock the ledger directory"):
                ledger.disk.flock(lock, fcntl.LOCK_EX)
            if stands_there(ledger.log_path):
                raise _taken(ledger)
            remains = remains_of(path)
            if remains is not None:
                raise StoreError(
                    Code.STORE_EXISTS,
                    "cannot make a ledger where one was: its log is gone and what belonged to it is here",
                    position=Position(source=str(remains)),
                    hint="restore ledger.jsonl from a copy that verifies; if there is none, move the directory away",
                )
            with storage_errors(path, "write the new ledger", output=True):
                if not (path / ".gitattributes").exists():
                    ledger.publish(path / ".gitattributes", GITATTRIBUTES)
                ledger.publish(ledger.log_path, data)
        finally:
            ledger.disk.close(lock)
        return ledger

    def publish(self, target: Path, data: bytes) -> None:
        """Write a small file whole or not at all, replacing what stands there; it and its name are then durable.

        Raises:
            OSError: the file system refused; the old file is untouched and no partial file stays.
        """
        with Staging(self.disk, self.staging_path) as staged:
            staged.write(data)
            staged.publish(target)

    def origin(self) -> str:
        """The log's name for itself, from its first line.

        Raises:
            LedgerError: the first line is not a genesis entry.
        """
        with storage_errors(self.log_path, "read the ledger"), self.log_path.open("rb") as file:
            return read_origin(lambda count, offset: os.pread(file.fileno(), count, offset))

    def writer(
        self,
        signer: Signer,
        *,
        lock_timeout_s: float = 30.0,
        clock: Callable[[], str] = utc_now,
        check: EntryCheck | None = None,
    ) -> Writer:
        """A :class:`~k3_ledger.ledger.writer.append.Writer` on this ledger.

        Raises:
            StoreError: the log cannot be opened for writing.
        """
        return Writer(self.log_path, signer, disk=self.disk, lock_timeout_s=lock_timeout_s, clock=clock, check=check)


def _taken(ledger: Ledger) -> StoreError:
    """Why no ledger can be made where a log stands, and what to do when that holds no entry."""
    with storage_errors(ledger.log_path, "read what stands there"), open_regular(ledger.log_path) as file:
        started = b"\n" in read_up_to(file, MAX_LINE + 1)
    if started:
        return storage_error(FileExistsError(errno.EEXIST, ""), ledger.log_path, "make a ledger")
    return StoreError(
        Code.STORE_EXISTS,
        "cannot make a ledger where the remains of one stand",
        position=Position(source=str(ledger.log_path)),
        hint=LOST
        if remains_of(ledger.root)
        else "run `k3-ledger recover` first: it keeps them aside and clears the place, or says why it must not",
    )


def _beginning(origin: str, root: Signer, keys: Iterable[NewKey], time: str) -> bytes:
    """Lines of the genesis entry and the first enrolments, each checked like any other entry."""
    bodies: list[tuple[str, dict[str, object]]] = [
        ("genesis", {"format": "k3-ledger/1", "origin": origin, "root_public_key": root.public_key.hex()})
    ]
    bodies += [("key", enrolment(key)) for key in keys]
    keyring, prev, lines = Keyring(), genesis_prev(origin).hex(), []
    for index, (kind, body) in enumerate(bodies):
        entry, typed = encode(kind, body, index=index, key=root.key_id, prev=prev, time=time)
        prev = entry_identity(entry).hex()
        if index == 0:
            found = keyring.apply_genesis(0, prev, typed.body)
        else:
            found = keyring.apply_action(index, prev, kind, root.key_id, typed.body)
        for finding in found:
            raise refusal(finding)
        lines.append(format_line(entry, root.sign(signed_message(entry))) + b"\n")
    return b"".join(lines)
