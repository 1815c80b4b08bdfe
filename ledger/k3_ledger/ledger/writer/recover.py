"""Recovery from a torn tail: the one damage that a crash leaves, and the one damage that is ever repaired.

A write that was cut short leaves the beginning of an entry, or NUL bytes, behind the last line feed. Nothing of it was
acknowledged. :func:`recover` keeps those bytes in ``recovered/`` and cuts them off. Everything else is refused: a
complete line that is wrong was tampered with, and bytes that no append writes were put there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.lines import TailKind, check_tail
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.ledger.writer.checkpoint import head_files
from k3_ledger.ledger.writer.disk import Staging, make_directory, storage_errors
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.ledger.writer.state import BLOCK, LOG_NAME, check_entry, scan_to_tail
from k3_ledger.schemas.errors import LedgerError, MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.ledger.core.lines import Tail
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.ledger.writer.store import Ledger


@dataclass(frozen=True, slots=True)
class Recovered:
    """What :func:`recover` did.

    Attributes:
        entries: entries in the ledger now.
        offset: where the tail was cut: length of the log now, in bytes.
        cut: bytes cut off; 0 when nothing was torn.
        kept: the file that holds them, or None.
        complete: whether they were one complete, well-signed entry that lacked only its line feed.
    """

    entries: int
    offset: int
    cut: int
    kept: Path | None
    complete: bool


def recover(ledger: Ledger, *, lock_timeout_s: float = 30.0) -> Recovered:
    """Cut a torn tail off, keeping its bytes aside first. A ledger without one is left as it is.

    Raises:
        MalformedError, SchemaError, SignatureError: the last complete line, or the tail, was tampered with.
        StoreError: a signed checkpoint commits to more entries than are left, or the storage refused; in both cases
            the log is as it was.
    """
    log = LogFile(ledger.disk, ledger.log_path, lock_timeout_s=lock_timeout_s)
    try:
        with log.locked():
            state, tail = scan_to_tail(log.read, log.size())
            if tail.kind is TailKind.NONE:
                return Recovered(state.entries, state.size, 0, None, complete=False)
            if tail.kind is TailKind.DAMAGED:
                check_tail(tail, source=LOG_NAME)
            complete = _is_complete(tail, state)
            _check_checkpoints(ledger, state)
            kept = _keep_aside(ledger, log, tail)
            with storage_errors(ledger.log_path, "cut the torn tail off"):
                ledger.disk.ftruncate(log.fd, tail.offset)
                ledger.disk.fsync(log.fd)
    finally:
        log.close()
    return Recovered(state.entries, tail.offset, tail.length, kept, complete)


def _is_complete(tail: Tail, state: LogState) -> bool:
    """Whether the tail is a whole entry; one that is wrong was not written by an append and is refused."""
    place = Position(source=LOG_NAME, line=tail.line, byte_offset=tail.offset, index=tail.line - 1)
    try:
        line = parse_line(tail.data, place)
    except MalformedError:
        return False
    check_entry(line, place, state.head.identity, state.keyring)
    return True


def _check_checkpoints(ledger: Ledger, state: LogState) -> None:
    """Refuse to shorten a ledger that a signed head says was longer: its end is lost, not torn."""
    for path in head_files(ledger):
        with storage_errors(path, "read the checkpoint"):
            data = path.read_bytes()
        try:
            size = parse_checkpoint(parse_note(data).text).size
        except LedgerError as error:
            raise StoreError(
                Code.RECOVER_REFUSED,
                f"a checkpoint cannot be read, so nothing is cut off: {error.finding.message}",
                position=Position(source=str(path)),
                hint="restore the checkpoint file from a copy, then run recover again",
            ) from error
        if size > state.entries:
            raise StoreError(
                Code.RECOVER_REFUSED,
                "a signed checkpoint commits to more entries than are whole: acknowledged entries are lost",
                position=Position(source=str(path)),
                expected=f"at least {size} entries",
                found=f"{state.entries} entries",
                hint="restore ledger.jsonl from a copy that verifies; do not recover",
            )


def _keep_aside(ledger: Ledger, log: LogFile, tail: Tail) -> Path:
    """Store the tail's bytes durably in a file of their own; a file that holds them already is reused."""
    directory = ledger.recovered_path
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
