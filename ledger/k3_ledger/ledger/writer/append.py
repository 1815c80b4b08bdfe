"""Appending: what was acknowledged is on the disk, what failed was never there.

One append, under one lock from the reading of the head to the sync:

1. look at the head (only bytes that another writer added are read);
2. check that the signer's key is enrolled, alive and allowed to sign the kind;
3. put the entry together, check it against its model, sign it;
4. write all lines with one write, then fdatasync;
5. only then hand out receipts.

What stands in the log already is made durable before this writer vouches for it, be it that a caller finds an entry or
that there was nothing to append: whoever wrote it may not have lived to sync it.

Whatever fails before 4 leaves the file untouched. Where 4 fails the file is cut back to its old length; where even that
fails the writer says what may stand behind the last acknowledged byte, and appends nothing more. After a failed sync
the kernel may have dropped the data and called the pages clean, so that writer is finished in any case.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from k3_ledger.ledger.core.chain import entry_identity
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.writer.batch import Batch, Draft, Receipt, check_key, check_named, utc_now
from k3_ledger.ledger.writer.beside import check_not_shorter
from k3_ledger.ledger.writer.disk import storage_error, write_all
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.ledger.writer.state import check_cut_entry, find_lines, known_kinds, scan, scan_to_tail
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from k3_ledger.ledger.writer.batch import EntryCheck
    from k3_ledger.ledger.writer.disk import Disk
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.ledger.writer.state import LogState

__all__ = ["Draft", "Receipt", "Writer"]


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
            yield self._look()

    def _look(self) -> LogState:
        """The log as it is, now that the lock is held."""
        if self._stopped is not None:
            raise StoreError(
                Code.WRITER_STOPPED,
                f"this writer appends nothing more: {self._stopped}",
                position=Position(source=str(self._log.path)),
            )
        return self._refresh()

    def _refresh(self) -> LogState:
        known, self._state = self._state, None
        try:
            self._state = scan(self._log.read, self._log.size(), known)
        except LedgerError as error:
            found = error.finding
            if found.code is Code.LOG_REPLACED:
                self._stopped = found.message
            elif found.code in (Code.TORN_TAIL, Code.NUL_TAIL):
                self._check_nothing_lost(known)
                raise StoreError(
                    found.code,
                    f"{found.message}; nothing is appended behind it",
                    position=found.position,
                    found=found.found,
                    hint="run `k3-ledger recover`: it keeps the cut bytes aside and makes the ledger whole, unless "
                    "more is lost than they",
                ) from None
            raise
        if known is None:
            try:
                check_not_shorter(self._log.path.parent, self._state.entries)
            except StoreError:
                self._state = None
                raise
        return self._state

    def _check_nothing_lost(self, known: LogState | None) -> None:
        """Say first that a signed head commits to more than a torn tail can be: then `recover` would cut nothing."""
        state, tail = scan_to_tail(self._log.read, self._log.size(), known)
        whole = check_cut_entry(tail, state) is not None
        check_not_shorter(self._log.path.parent, state.entries + whole)

    def append(
        self, kind: str, body: Mapping[str, object], *, time: str | None = None, last_root: bool = False
    ) -> Receipt:
        """Append one entry; when this returns, it is on stable storage.

        Raises:
            LedgerError: nothing was appended; the finding says why and what to do. See :meth:`append_many`.
        """
        return self.append_many([Draft(kind, body, time, last_root)])[0]

    def append_many(self, drafts: Iterable[Draft]) -> list[Receipt]:
        """Append several entries with one write and one sync (group commit).

        All of them are checked before any is written. A crash in the middle can leave the first few of them, never
        a gap. Where there are none, what stands in the log is on stable storage when this returns.

        Raises:
            MalformedError, SchemaError: a body is not as its kind demands, or an entry is too long for a line.
            LedgerError: the key may not sign this here.
            StoreError: the storage refused. Nothing was acknowledged; the message says what state is left.
        """
        drafts = list(drafts)  # an iterator could call this writer
        self._log.acquire()
        try:
            state = self._look()
            batch = self._prepare(drafts, state)
            if batch.receipts:
                data, after = batch.sign()
                self._commit(data, state, after)
                self._state = after
            else:
                self._settle(state)
            return batch.receipts
        finally:
            self._log.release()

    def rehearse(self, drafts: Iterable[Draft]) -> None:
        """Do all of :meth:`append_many` but signing and writing, to learn of a refusal before anything else is done."""
        drafts = list(drafts)
        with self.exclusive() as state:
            self._prepare(drafts, state)

    def check_may_sign(self, kind: str) -> None:
        """Refuse a key that may not sign entries of a kind here, before any work is done for it.

        Callers that may find that there is nothing to append ask this first: a key that could not have signed is
        refused all the same.

        Raises:
            LedgerError: with ``KEY_UNKNOWN``, ``KEY_RETIRED`` or ``KEY_WRONG_ROLE``.
            StoreError: see :meth:`exclusive`.
        """
        with self.exclusive() as state:
            check_key(state.keyring.lives.get(self._signer.key_id), self._signer.key_id, kind, state.entries)

    def find(self, mark: bytes) -> Iterator[tuple[Receipt, Any]]:
        """Entries that count and whose line holds ``mark``, typed, in log order; for use inside :meth:`exclusive`.

        What a revocation took back does not count: the same thing can be sealed again, by a key that was not stolen.
        Searching costs one read of the log at memory speed; only lines with the mark are parsed. Whatever is found is
        on stable storage.

        Raises:
            StoreError: see :meth:`exclusive`; or the disk does not sync what was found.
        """
        with self.exclusive() as state:
            for place, raw in find_lines(self._log.read, state.size, mark):
                entry = parse_line(raw, place).entry
                assert place.index is not None
                assert place.byte_offset is not None
                typed = decode(entry, place)
                if state.keyring.disowned_by(typed.key, place.index) is None:
                    self._settle(state)
                    yield Receipt(place.index, entry_identity(entry).hex(), place.byte_offset), typed

    def _settle(self, state: LogState) -> None:
        """Make durable what stands in the log; as after an append, a sync that fails is the end of this writer."""
        try:
            self._log.settle(state.size)
        except StoreError as error:
            self._stopped, self._state = error.finding.message, None
            raise

    def _prepare(self, drafts: Iterable[Draft], state: LogState) -> Batch:
        batch = Batch(state, self._signer, self._clock, self._check)
        for draft in drafts:
            batch.add(draft)
        self._check_references(batch, state)
        return batch

    def _check_references(self, batch: Batch, state: LogState) -> None:
        """Refuse entries that name an entry which does not stand before them: verify would, for ever."""
        if not batch.wanted:
            return
        known = known_kinds(self._log.read, state, batch.wanted.keys())
        for target, uses in batch.wanted.items():
            if target not in known:
                raise LedgerError(
                    Code.REFERENCE_UNKNOWN,
                    "the entry names an entry that does not stand before it",
                    position=uses[0][2],
                    expected="the identity of an earlier entry",
                    found=target,
                )
            for kind, field, place in uses:
                check_named(kind, field, known[target], place)

    def _commit(self, data: bytes, state: LogState, after: LogState) -> None:
        """Write and sync, or put everything back as it was and raise."""
        self._log.settle_name()
        doing, writing = "append to the ledger", True
        try:
            write_all(self._disk, self._log.fd, data)
            doing, writing = "sync the ledger to the disk", False
            self._log.sync(after.size)
        except BaseException as error:
            # Until the file is known to be cut back, nothing may be appended to it.
            self._stopped = f"it could not {doing}"
            self._state = None
            consequence, hint = self._cut_back(state, writing=writing)
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

    def _cut_back(self, state: LogState, *, writing: bool) -> tuple[str, str | None]:
        """Cut unacknowledged bytes off. Returns what became of the ledger, and the cure when that failed."""
        try:
            self._disk.ftruncate(self._log.fd, state.size)
            self._disk.fsync(self._log.fd)
        except OSError:
            failed = "what was not acknowledged could not be cut off either"
            then = "run `k3-ledger verify` and, if it reports a torn tail, `k3-ledger recover`"
            if writing:
                return f"{failed}: a torn tail may stand at byte {state.size}", f"put the disk right, then {then}"
            restart = "put the disk right and restart the machine, so that what is read is what the disk holds"
            return (
                f"{failed}: from byte {state.size} on, whole entries may stand that are not on the disk",
                f"{restart}; then {then}, and append again what is missing",
            )
        return "nothing was appended, the ledger is as it was", None
