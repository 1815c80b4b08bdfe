"""The reader's own memory of a log: its last verified head, and since when it has not moved.

A memory file is JSON with the signed note, a time of the reader's clock, the entries that show who made the note's
signer a log key, and a digest of all that: the note alone is signed, so a bad disk could otherwise take the time or
the entries away unseen. Files of the first two versions, without digest, are read as well; a verification that holds
writes one of an older version anew. It belongs to the reader alone. A damaged memory is handed to the verifier as it
is, which then says so: it is no first visit, and no accusation either. What is no memory at all, a signed head, a key
or anything else, is refused: not believed, not written over, not moved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import typer

from k3_ledger.cli.files import alone, replace_file, unwritable
from k3_ledger.cli.given import MEMORY, given, refuse
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.note import MAX_NOTE
from k3_ledger.ledger.regular import read_small
from k3_ledger.schemas import canonical
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.moments import format_time, parse_time

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.verify.freshness import Clock

SCHEMA: Final = "k3-ledger/memory/3"
"""Its number is :data:`k3_ledger.verify.heads.MEMORY_VERSION`, which is not loaded for it."""
_MEMBERS: Final = {
    "k3-ledger/memory/1": {"schema", "note", "unmoved_since"},
    "k3-ledger/memory/2": {"schema", "note", "unmoved_since", "enrolments"},
    SCHEMA: {"schema", "note", "unmoved_since", "enrolments", "sha256"},
}
"""Members of a memory file, by its schema."""
_MAX: Final = 4 * MAX_NOTE
"""Longest memory file that is read, in bytes."""
_LIMITS: Final = replace(canonical.DEFAULT_LIMITS, max_bytes=_MAX, max_string=MAX_NOTE)
_HINT: Final = "choose a --memory file in a directory that you may write to"
_ALONE: Final = (
    "the head is remembered without the entries that enrol its signer, so another history under a stolen root key will "
    "be said to be of another log (exit 3), and no fork"
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What a memory file holds.

    Attributes:
        note: the signed head; where the file is damaged, its bytes as they are.
        unmoved_since: since when no larger head was shown, in seconds since the Epoch; None where that is not known.
        enrolments: lines that enrol the note's signer (:mod:`k3_ledger.verify.vouched`); none where that is not known.
        sealed: whether a digest says that all this is what was written.
    """

    note: bytes
    unmoved_since: int | None
    enrolments: tuple[bytes, ...] = ()
    sealed: bool = False


def read_memory(path: Path) -> Memory | None:
    """What was remembered, or None on the first visit.

    Raises:
        StoreError: the file cannot be read.
        MalformedError: it is no memory, and no damaged one either.
    """
    if not path.exists() and not path.is_symlink():
        return None
    return parse_memory(_read(path))


def _read(path: Path) -> bytes:
    """The bytes of a file that is a memory, whole or damaged: by what it says, or because it says nothing any more."""
    with given(path, MEMORY):
        data = read_small(path, _MAX)
    refuse(str(path), data, MEMORY, Code.MEMORY_UNREADABLE)
    return data


def parse_memory(data: bytes) -> Memory:
    """What a memory file holds, or a bare note that --expect-head gives; else a note, which the verifier refuses."""
    if not data.startswith(b"{"):
        return Memory(data, None)
    try:
        value: Any = canonical.parse_value(data, limits=_LIMITS)  # refuses a name that stands twice
        sealed, lines = value["schema"] == SCHEMA, value.get("enrolments", [])
        if set(value) != _MEMBERS[value["schema"]] or type(lines) is not list:
            return Memory(data, None)
        if sealed and value.pop("sha256") != _digest(value):
            return Memory(data, None)
        kept = tuple(line.encode() for line in lines)
        for line in kept:
            decode(parse_line(line).entry)
        return Memory(value["note"].encode(), parse_time(value["unmoved_since"]), kept, sealed)
    except (LedgerError, ValueError, KeyError, TypeError, AttributeError):
        return Memory(data, None)


def _digest(value: dict[str, Any]) -> str:
    """Digest of the members of a memory file, in their one spelling."""
    return sha256(canonical.format(value, limits=_LIMITS)).hexdigest()


def keep_head(
    path: Path,
    known: Memory | None,
    note: bytes | None,
    now: int,
    enrolments: tuple[bytes, ...] = (),
    *,
    whole: bool = True,
) -> bool:
    """Remember a verified head for the next visit, unless it is older than the one that is remembered.

    Args:
        path: the file; replaced in one step.
        known: what it held when the verification began.
        note: the newest head that was verified, or None where the log has none.
        now: the reader's clock, in seconds since the Epoch.
        enrolments: lines that enrol the head's signer.
        whole: False where some entries were verified: nothing shows that the log extends what is remembered.

    Returns:
        False where another verification was faster: this head was never held against what is remembered now, and the
        memory was left as it is.

    Raises:
        StoreError: the file cannot be written.
    """
    if note is None:
        why = "the ledger has no checkpoint" if whole else "this is an extract and not the log"
        typer.echo(f"note: {why}, so no head was remembered", err=True)
        return True
    with alone(path, "the memory", hint=_HINT):
        if _held_now(path) != known:
            return False
        _keep(path, known, Memory(note, now, enrolments))
    return True


def _held_now(path: Path) -> Memory | None:
    """What the file holds at the end of a verification."""
    return read_memory(path)


def _keep(path: Path, known: Memory | None, shown: Memory) -> None:
    assert shown.unmoved_since is not None, "the reader's clock says"
    since, note, enrolments = shown.unmoved_since, shown.note, shown.enrolments
    if known is not None and tree_size(note) <= tree_size(known.note):
        if known.unmoved_since is not None and (known.sealed or known.note != note):
            return
        since = since if known.unmoved_since is None else known.unmoved_since
        if known.note != note:
            note, enrolments = known.note, known.enrolments
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "note": note.decode(),
        "unmoved_since": format_time(since),
        "enrolments": [line.decode() for line in enrolments],
    }
    value["sha256"] = _digest(value)
    data = json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
    replace_file(path, data, hint=_HINT)
    if not enrolments:
        typer.echo(f"note: {_ALONE}", err=True)


def clock_of(now: int, *, kept: bool, known: Memory | None) -> Clock:
    """What the reader's clock says to a policy that limits the age of a head."""
    from k3_ledger.verify.freshness import Clock

    if not kept:
        return Clock(now)
    if known is None or known.unmoved_since is None:
        return Clock(now, 0, now)
    try:
        return Clock(now, tree_size(known.note), known.unmoved_since)
    except LedgerError:  # the verifier reports it
        return Clock(now)


def forget(path: Path) -> None:
    """Put a memory file aside, on purpose: what follows is a first visit.

    Raises:
        StoreError: it cannot be read or moved.
        MalformedError: it is no memory, and no damaged one either.
    """
    if not path.exists() and not path.is_symlink():
        typer.echo(f"note: there was nothing to forget: {path}", err=True)
        return
    digest = sha256(_read(path)).hexdigest()[:16]
    aside = path.with_name(f"{path.name}.forgotten-{digest}")
    try:
        path.replace(aside)
    except OSError as error:
        raise unwritable(path, error) from None
    typer.echo(
        f"note: a rollback before now goes unnoticed: what was remembered is forgotten, kept in {aside}", err=True
    )


def tree_size(note: bytes) -> int:
    """Size that a head commits to.

    Raises:
        LedgerError: it is no head.
    """
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.note import parse_note

    return parse_checkpoint(parse_note(note).text).size
