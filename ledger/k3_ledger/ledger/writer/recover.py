"""Recovery from a torn tail: the one damage that a crash leaves, and the one damage that is ever repaired.

A write that was cut short leaves the beginning of an entry, or NUL bytes, behind the last line feed. Nothing of it was
acknowledged. :func:`recover` keeps those bytes in ``recovered/`` and cuts them off. Everything else is refused: a last
line that is complete and wrong, and entries that are not those of a signed head over them, were tampered with, and
bytes that no append writes were put there. Above the heads only the last line is looked at: `verify` reads the rest.

One thing is restored: where the bytes are a complete entry, and a signed head commits to it, its line feed is provably
all that is missing.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.chain import entry_identity, leaf_hash
from k3_ledger.ledger.core.checkpoint import open_checkpoint, parse_checkpoint
from k3_ledger.ledger.core.lines import TailKind, check_tail
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.ledger.core.note import Verifier, parse_note
from k3_ledger.ledger.writer.beside import LOST, check_not_shorter, read_heads, remains_of, set_aside
from k3_ledger.ledger.writer.disk import Staging, make_directory, storage_errors, sync_directory, write_all
from k3_ledger.ledger.writer.heads import open_heads
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.ledger.writer.state import BLOCK, LOG_NAME, check_cut_entry, scan_to_tail, tail_of, whole_lines
from k3_ledger.schemas.envelope import ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.ledger.core.checkpoint import Checkpoint
    from k3_ledger.ledger.core.keyring import Keyring
    from k3_ledger.ledger.core.lines import Tail
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.ledger.writer.store import Ledger


@dataclass(frozen=True, slots=True)
class Recovered:
    """What :func:`recover` did.

    Attributes:
        entries: entries in the ledger now.
        offset: where the tail began, in bytes.
        cut: bytes cut off; 0 when nothing was torn, or nothing had to be cut.
        kept: the file that holds the tail as it was, or None.
        complete: whether it was one complete, well-signed entry that lacked only its line feed.
        restored: whether that line feed was put back, for a signed head commits to the entry.
        removed: whether no entry was whole, so that the log itself was taken away and a new ledger can be made there.
    """

    entries: int
    offset: int
    cut: int
    kept: Path | None
    complete: bool
    restored: bool = False
    removed: bool = False


def recover(ledger: Ledger, *, lock_timeout_s: float = 30.0) -> Recovered:
    """Cut a torn tail off, or give it the line feed that it provably lacks, keeping its bytes aside first.

    A ledger without one is left as it is. Where no entry is whole, the log is taken away altogether, for no entry can
    be appended to it, unless something beside it shows that it held entries.

    Raises:
        MalformedError, SchemaError, SignatureError: the last complete line, or the tail, was tampered with.
        StoreError: a signed checkpoint commits to more entries than are left, or to others, or the storage
            refused; in all cases the log is as it was.
    """
    log = LogFile(ledger.disk, ledger.log_path, lock_timeout_s=lock_timeout_s)
    try:
        with log.locked():
            if next(whole_lines(log.read, 0, log.size()), None) is None:
                return _clear(ledger, log)
            state, tail = scan_to_tail(log.read, log.size())
            if tail.kind is TailKind.NONE:
                check_not_shorter(ledger.root, state.entries)
                _check_entries(ledger, log, state)
                log.settle(state.size)  # who cut the tail off, or wrote these, may not have lived to sync it
                return Recovered(state.entries, state.size, 0, None, complete=False)
            if tail.kind is TailKind.DAMAGED:
                check_tail(tail, source=LOG_NAME)
            keyring = _keys_behind(tail, state)
            promised = _check_checkpoints(ledger, state, keyring)
            _check_entries(ledger, log, state)
            if promised:
                _check_roots(log, state, tail, promised)
            log.settle_name()
            kept = _keep_aside(ledger, log, tail)
            if promised:
                with storage_errors(ledger.log_path, "put the line feed back"):
                    write_all(ledger.disk, log.fd, b"\n")
                    ledger.disk.fsync(log.fd)
                return Recovered(state.entries + 1, tail.offset, 0, kept, complete=True, restored=True)
            with storage_errors(ledger.log_path, "cut the torn tail off"):
                ledger.disk.ftruncate(log.fd, tail.offset)
                ledger.disk.fsync(log.fd)
    finally:
        log.close()
    return Recovered(state.entries, tail.offset, tail.length, kept, complete=keyring is not None)


def _clear(ledger: Ledger, log: LogFile) -> Recovered:
    """Keep a log without a whole entry aside and take it away, so that a ledger can be made in its place."""
    tail = tail_of(log.read, 0, 0, log.size())
    if tail.kind is TailKind.DAMAGED:
        check_tail(tail, source=LOG_NAME)
    path = remains_of(ledger.root)
    if path is not None:
        raise StoreError(
            Code.RECOVER_REFUSED,
            "no entry of the ledger is whole, and what stands beside it shows that it held some: they are lost",
            position=Position(source=str(path)),
            expected="at least 1 entry",
            found="0 entries",
            hint=LOST,
        )
    kept = _keep_aside(ledger, log, tail) if tail.length else None
    with storage_errors(ledger.log_path, "take the torn log away"):
        ledger.disk.unlink(ledger.log_path)
        sync_directory(ledger.disk, ledger.root)
    return Recovered(0, 0, tail.length, kept, complete=False, removed=True)


def _keys_behind(tail: Tail, state: LogState) -> Keyring | None:
    """The keys behind the tail where it is a whole entry, which may enrol the log key of the head over it; else None.

    A whole entry that is wrong was not written by an append and is refused.
    """
    cut = check_cut_entry(tail, state)
    if cut is None:
        return None
    line, entry = cut
    keyring = copy.deepcopy(state.keyring)
    if entry.kind in ROOT_ACTIONS:
        keyring.apply_action(entry.index, entry_identity(line.entry).hex(), entry.kind, entry.key, entry.body)
    return keyring


def _check_checkpoints(ledger: Ledger, state: LogState, keyring: Keyring | None) -> dict[Path, bytes]:
    """Refuse to shorten a ledger that a signed head says was longer: its end is lost, not torn.

    Returns:
        Roots of the signed heads that commit to one entry more, by file. One may stand there where there are keys
        behind one entry more.
    """
    promised = {}
    for path, data in read_heads(ledger.root).items():
        try:
            head = parse_checkpoint(parse_note(data).text)
            if keyring is not None and head.size == state.entries + 1:
                promised[path] = _open(data, state.origin, keyring, path).root
                continue
        except LedgerError as error:
            raise StoreError(
                Code.RECOVER_REFUSED,
                f"a checkpoint cannot be read, so nothing is cut off: {error.finding.message}",
                position=Position(source=str(path)),
                hint="restore the checkpoint file from a copy, then run recover again",
            ) from error
        if head.size > state.entries:
            raise StoreError(
                Code.RECOVER_REFUSED,
                "a signed checkpoint commits to more entries than are whole: acknowledged entries are lost",
                position=Position(source=str(path)),
                expected=f"at least {head.size} entries",
                found=f"{state.entries} entries",
                hint="restore ledger.jsonl from a copy that verifies; do not recover",
            )
    return promised


def _open(data: bytes, origin: str, keyring: Keyring, path: Path) -> Checkpoint:
    """A head that a log key of this ledger signed."""
    keys = [life.public_key for life in keyring.lives.values() if life.role == "log"]
    verifiers = [Verifier(origin, key) for key in keys]
    return open_checkpoint(data, verifiers, origin=origin, position=Position(source=str(path))).checkpoint


def _check_entries(ledger: Ledger, log: LogFile, state: LogState) -> None:
    """Hold the entries against the signed heads over them: what was changed below one is tampering and stays as it is.

    A head that is none of this log, and what no head covers, are left to `verify`.
    """
    wanted: dict[int, list[tuple[Path, bytes]]] = {}
    for path, data in read_heads(ledger.root).items():
        with contextlib.suppress(LedgerError):
            for _, signed in open_heads({path: data}, state).values():
                wanted.setdefault(signed.checkpoint.size, []).append((path, signed.checkpoint.root))
    tree = CompactRange()
    for line in _lines(log, state) if wanted else ():
        tree.append(leaf_hash(line))
        for path, root in wanted.get(tree.end, ()):
            if root != tree.root():
                raise StoreError(
                    Code.RECOVER_REFUSED,
                    f"a signed head commits to {tree.end} other entries than these: what it covers was changed",
                    position=Position(source=str(path)),
                    expected=root.hex(),
                    found=tree.root().hex(),
                    hint="do not recover: run `k3-ledger verify`, and restore ledger.jsonl from a copy that verifies; "
                    "only where no copy has those entries was the head put there by somebody else: then "
                    f"{set_aside(path)} keeps it as evidence",
                )


def _lines(log: LogFile, state: LogState) -> Iterator[bytes]:
    """Every whole line without its line feed."""
    for _, block in whole_lines(log.read, 0, state.size):
        yield from block.split(b"\n")[:-1]


def _check_roots(log: LogFile, state: LogState, tail: Tail, promised: dict[Path, bytes]) -> None:
    """Hold the tail, as one more entry, against the heads that commit to one more."""
    tree = CompactRange()
    for line in _lines(log, state):
        tree.append(leaf_hash(line))
    tree.append(leaf_hash(tail.data))
    for path, root in promised.items():
        if root != tree.root():
            raise StoreError(
                Code.RECOVER_REFUSED,
                "a signed checkpoint commits to another entry than the one that lacks its line feed",
                position=Position(source=str(path)),
                expected=root.hex(),
                found=tree.root().hex(),
                hint="restore ledger.jsonl from a copy that verifies; do not recover",
            )


def _keep_aside(ledger: Ledger, log: LogFile, tail: Tail) -> Path:
    """Store the tail's bytes durably in a file of their own; a file that holds them already is reused."""
    directory = ledger.recovered_path
    if directory.is_symlink():
        raise StoreError(
            Code.STORE_MISSING,
            "a symbolic link stands where the cut bytes are kept: nothing is written outside the ledger",
            position=Position(source=str(directory)),
            expected="a directory, or nothing",
            found="a link",
            hint="move it away, then run recover again",
        )
    with storage_errors(directory, "keep the cut bytes aside"):
        make_directory(ledger.disk, directory)
        with Staging(ledger.disk, ledger.staging_path) as staged:
            for block in _blocks(log, tail):
                staged.write(block)
            number = 1
            while True:
                suffix = "" if number == 1 else f"-{number}"
                target = directory / f"{tail.offset}-{tail.length}{suffix}.torn"
                if not target.exists():
                    staged.publish(target)
                    return target
                if _holds(target, log, tail):
                    sync_directory(ledger.disk, directory)  # whoever put it there may not have lived to
                    return target
                number += 1


def _blocks(log: LogFile, tail: Tail) -> Iterator[bytes]:
    end = tail.offset + tail.length
    for offset in range(tail.offset, end, BLOCK):
        yield log.read(min(BLOCK, end - offset), offset)


def _holds(path: Path, log: LogFile, tail: Tail) -> bool:
    if path.stat().st_size != tail.length:
        return False
    with path.open("rb") as file:
        return all(file.read(len(block)) == block for block in _blocks(log, tail))
