"""Appending: what was acknowledged is on the disk, what failed was never there.

One append, under one lock from the reading of the head to the sync:

1. look at the head (only bytes that another writer added are read);
2. check that the signer's key is enrolled, alive and allowed to sign the kind;
3. put the entry together, check it against its model, sign it;
4. write all lines with one write, then fdatasync;
5. only then hand out receipts.

Whatever fails before 4 leaves the file untouched. Where 4 fails the file is cut back to its old length; where even that
fails the writer says what may stand behind the last acknowledged byte, and appends nothing more. After a failed sync
the kernel may have dropped the data and called the pages clean, so that writer is finished in any case.
"""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from k3_ledger.ledger.core.chain import entry_identity, signed_message
from k3_ledger.ledger.core.framing import format_line, parse_line
from k3_ledger.ledger.writer.disk import Disk, storage_error, write_all
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.ledger.writer.state import Head, LogState, find_lines, known_identities, scan
from k3_ledger.schemas import canonical
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import MAX_ENTRY, REFERENCES, SIGNING_ROLES, format_entry_around
from k3_ledger.schemas.errors import LedgerError, SchemaError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from k3_ledger.ledger.core.keyring import Keyring
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.schemas.findings import Finding

    EntryCheck = Callable[[Any], Iterable[Finding]]
    """Semantics that another room knows: findings about a typed entry that is about to be appended."""

BODY_LIMITS = canonical.Limits(max_bytes=1 << 24)
"""A body that is too long for a line is still formatted, in order to say which of its fields is the largest."""


class Draft(NamedTuple):
    """An entry-to-be.

    Attributes:
        kind: kind of entry.
        body: its body as plain values (see :mod:`k3_ledger.schemas.models`), every field written out.
        time: claimed UTC time ``YYYY-MM-DDTHH:MM:SSZ``; None takes the clock's.
    """

    kind: str
    body: Mapping[str, object]
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof to the caller that an entry is on stable storage.

    Attributes:
        index: position in the log, counted from 0.
        identity: lower-case hexadecimal SHA-256 of the entry bytes.
        byte_offset: where the line begins in ``ledger.jsonl``.
    """

    index: int
    identity: str
    byte_offset: int


def utc_now() -> str:
    """The system's clock as entries claim it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Writer:
    """Appends entries to one ledger with one key. Use it as a context manager.

    It may be shared by threads. It holds the ledger's lock during each call only, unless :meth:`exclusive` spans
    several; other writers, in this process or another, take their turns in between.

    Args:
        path: ``ledger.jsonl``.
        signer: key that signs.
        disk: the operating system's calls.
        lock_timeout_s: how long to wait for another writer, in seconds.
        clock: gives the claimed time of entries that bring none.
        check: further semantics to hold an entry to before it is written.
    """

    def __init__(
        self,
        path: Path,
        signer: Signer,
        *,
        disk: Disk,
        lock_timeout_s: float = 30.0,
        clock: Callable[[], str] = utc_now,
        check: EntryCheck | None = None,
    ) -> None:
        self._disk = disk
        self._signer = signer
        self._clock = clock
        self._check = check
        self._stopped: str | None = None
        self._state: LogState | None = None
        self._log = LogFile(disk, path, lock_timeout_s=lock_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back. Every entry that was acknowledged is on the disk already."""
        self._log.close()

    @contextmanager
    def exclusive(self) -> Iterator[LogState]:
        """Hold the ledger's lock over several calls; gives the state of the log at this moment.

        Raises:
            StoreError: lock not available in time, torn tail in the way, log replaced, or this writer has stopped.
            LedgerError: the head of the log is damaged.
        """
        with self._log.locked():
            if self._stopped is not None:
                raise StoreError(
                    Code.WRITER_STOPPED,
                    f"this writer appends nothing more: {self._stopped}",
                    position=Position(source=str(self._log.path)),
                )
            yield self._refresh()

    def _refresh(self) -> LogState:
        known, self._state = self._state, None
        try:
            self._state = scan(self._log.read, self._log.size(), known)
        except LedgerError as error:
            found = error.finding
            if found.code is Code.LOG_REPLACED:
                self._stopped = found.message
            elif found.code in (Code.TORN_TAIL, Code.NUL_TAIL):
                raise StoreError(
                    found.code,
                    f"{found.message}; nothing is appended behind it",
                    position=found.position,
                    found=found.found,
                    hint="run `k3-ledger recover`: it keeps the cut bytes aside and makes the ledger whole",
                ) from None
            raise
        return self._state

    def append(self, kind: str, body: Mapping[str, object], *, time: str | None = None) -> Receipt:
        """Append one entry; when this returns, it is on stable storage.

        Raises:
            LedgerError: nothing was appended; the finding says why and what to do. See :meth:`append_many`.
        """
        return self.append_many([Draft(kind, body, time)])[0]

    def append_many(self, drafts: Iterable[Draft]) -> list[Receipt]:
        """Append several entries with one write and one sync (group commit).

        All of them are checked before any is written. A crash in the middle can leave the first few of them, never
        a gap.

        Raises:
            MalformedError, SchemaError: a body is not as its kind demands, or an entry is too long for a line.
            LedgerError: the key may not sign this here.
            StoreError: the storage refused. Nothing was acknowledged; the message says what state is left.
        """
        with self.exclusive() as state:
            batch = self._prepare(drafts, state)
            if batch.receipts:
                self._commit(b"".join(batch.lines), state)
                self._state = batch.state
            return batch.receipts

    def rehearse(self, drafts: Iterable[Draft]) -> None:
        """Do all of :meth:`append_many` but the writing, to learn of a refusal before anything else is done."""
        with self.exclusive() as state:
            self._prepare(drafts, state)

    def find(self, mark: bytes) -> Iterator[tuple[Receipt, Any]]:
        """Entries whose line holds ``mark``, typed, in log order; for use inside :meth:`exclusive`.

        Searching costs one read of the log at memory speed; only lines with the mark are parsed.
        """
        with self.exclusive() as state:
            for place, raw in find_lines(self._log.read, state.size, mark):
                entry = parse_line(raw, place).entry
                assert place.index is not None
                assert place.byte_offset is not None
                yield Receipt(place.index, entry_identity(entry).hex(), place.byte_offset), decode(entry, place)

    def _prepare(self, drafts: Iterable[Draft], state: LogState) -> _Batch:
        batch = _Batch(state)
        for draft in drafts:
            entry = self._entry(draft, batch.state)
            typed = decode(entry, Position(index=batch.state.entries))
            for finding in () if self._check is None else self._check(typed):
                raise refusal(finding)
            keyring = self._keyring_after(typed, batch.state)
            batch.take_references(typed)
            batch.add(entry, format_line(entry, self._signer.sign(signed_message(entry))), keyring)
        self._check_references(batch, state)
        return batch

    def _check_references(self, batch: _Batch, state: LogState) -> None:
        """Refuse entries that name an entry which does not stand before them: verify would, for ever."""
        if not batch.wanted:
            return
        missing = batch.wanted.keys() - known_identities(self._log.read, state, batch.wanted.keys())
        for target in missing:
            raise LedgerError(
                Code.REFERENCE_UNKNOWN,
                "the entry names an entry that does not stand before it",
                position=batch.wanted[target],
                expected="the identity of an earlier entry",
                found=target,
            )

    def _entry(self, draft: Draft, state: LogState) -> bytes:
        self._check_allowed(draft.kind, state)
        body = _format_body(draft.body)
        entry = format_entry_around(
            body,
            index=state.entries,
            key=self._signer.key_id,
            kind=draft.kind,
            prev=state.head.identity,
            time=self._clock() if draft.time is None else draft.time,
        )
        if len(entry) > MAX_ENTRY:
            raise _too_long(draft, len(entry))
        return entry

    def _check_allowed(self, kind: str, state: LogState) -> None:
        """Refuse what verify would report about the signing key, before it is signed."""
        roles = SIGNING_ROLES.get(kind)
        if roles is None or kind == "genesis":
            raise SchemaError(
                Code.SCHEMA_UNKNOWN_KIND if roles is None else Code.CHAIN_SECOND_GENESIS,
                f"no entry of kind {kind!r} can be appended",
                expected="one of " + ", ".join(k for k in SIGNING_ROLES if k != "genesis"),
                found=kind,
            )
        key_id, index = self._signer.key_id, state.entries
        life = state.keyring.lives.get(key_id)
        if life is None:
            raise LedgerError(
                Code.KEY_UNKNOWN,
                f"the signing key {key_id[:16]}… is not enrolled in this ledger",
                position=Position(index=index, field="key"),
                hint="enrol it with the root key: `k3-ledger key enrol`",
            )
        if not life.valid_at(index):
            raise LedgerError(
                Code.KEY_RETIRED,
                f"the signing key {key_id[:16]}… was retired by entry {life.retired}",
                position=Position(index=index, field="key"),
                hint="sign with the key that took its place",
            )
        if life.role not in roles:
            raise LedgerError(
                Code.KEY_WRONG_ROLE,
                f"a {life.role} key does not sign entries of kind {kind}",
                position=Position(index=index, field="key"),
                expected=" or ".join(sorted(roles)),
                found=life.role,
                hint=f"sign with a {' or '.join(sorted(roles))} key",
            )

    def _keyring_after(self, entry: Any, state: LogState) -> Keyring:
        if entry.kind != "key":
            return state.keyring
        keyring = copy.deepcopy(state.keyring)
        for finding in keyring.apply_key(entry.index, entry.key, entry.body):
            raise refusal(finding)
        return keyring

    def _commit(self, data: bytes, state: LogState) -> None:
        """Write and sync, or put everything back as it was and raise."""
        doing, writing = "append to the ledger", True
        try:
            write_all(self._disk, self._log.fd, data)
            doing, writing = "sync the ledger to the disk", False
            self._disk.fdatasync(self._log.fd)
        except BaseException as error:
            # Until the file is known to be cut back, nothing may be appended to it.
            self._stopped = f"it could not {doing}"
            self._state = None
            consequence, hint = self._cut_back(state)
            if hint is None and writing:
                self._stopped = None
            if not isinstance(error, OSError):
                raise
            refused = storage_error(error, self._log.path, doing, consequence=consequence)
            raise (
                refused
                if hint is None
                else StoreError(
                    refused.code,
                    refused.finding.message,
                    position=refused.finding.position,
                    expected=refused.finding.expected,
                    found=refused.finding.found,
                    hint=hint,
                )
            ) from error

    def _cut_back(self, state: LogState) -> tuple[str, str | None]:
        """Cut unacknowledged bytes off. Returns what became of the ledger, and the cure when that failed."""
        try:
            self._disk.ftruncate(self._log.fd, state.size)
            self._disk.fsync(self._log.fd)
        except OSError:
            return (
                f"what was not acknowledged could not be cut off either: a torn tail may stand at byte {state.size}",
                "put the disk right, then run `k3-ledger verify` and, if it reports a torn tail, `k3-ledger recover`",
            )
        return "nothing was appended, the ledger is as it was", None


class _Batch:
    """Lines put together but not yet written, and the state of the log behind them."""

    def __init__(self, state: LogState) -> None:
        self.state = state
        self.lines: list[bytes] = []
        self.receipts: list[Receipt] = []
        self.wanted: dict[str, Position] = {}
        self._identities: set[str] = set()

    def take_references(self, entry: Any) -> None:
        """Note which earlier entries an entry names, unless they are in this very batch."""
        for field in REFERENCES.get(entry.kind, ()):
            value = getattr(entry.body, field)
            for target in (value,) if isinstance(value, str) else value or ():
                if target not in self._identities:
                    self.wanted.setdefault(target, Position(index=entry.index, field=f"body.{field}"))

    def add(self, entry: bytes, line: bytes, keyring: Keyring) -> None:
        index, offset = self.state.entries, self.state.size
        identity = entry_identity(entry).hex()
        self.lines += (line, b"\n")
        self.receipts.append(Receipt(index, identity, offset))
        self._identities.add(identity)
        head = Head(index, identity, offset, hashlib.sha256(line).digest())
        self.state = LogState(self.state.origin, offset + len(line) + 1, head, keyring)


def refusal(finding: Finding) -> LedgerError:
    """The finding as an error, for callers that stop at the first."""
    return LedgerError(
        finding.code,
        finding.message,
        position=finding.position,
        expected=finding.expected,
        found=finding.found,
        hint=finding.hint,
    )


def _format_body(body: Mapping[str, object]) -> bytes:
    # Formatted as a member, so that the path in an error starts with "body".
    return canonical.format({"body": dict(body)}, limits=BODY_LIMITS)[len(b'{"body":') : -1]


def _too_long(draft: Draft, length: int) -> SchemaError:
    sizes = {name: len(canonical.format(value, limits=BODY_LIMITS)) for name, value in draft.body.items()}
    name = max(sizes, key=sizes.__getitem__)
    return SchemaError(
        Code.ENTRY_TOO_LONG,
        f"the entry would take {length:,} bytes; its largest field is body.{name} with {sizes[name]:,}",
        position=Position(field=f"body.{name}"),
        expected=f"at most {MAX_ENTRY:,} bytes",
        found=f"{length:,} bytes",
        hint=f"store {name} as an artifact (a file in the bundle) and keep its digest and a summary in the entry",
    )
