"""What stands beside a log and shows that it was longer once: signed heads, artifacts, an index.

A cut that falls on the end of a line leaves a good, shorter log. Whoever appends to that forks it: the heads that were
signed commit to other entries at the same places. So a writer looks at the heads before it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.note import MAX_NOTE, parse_note
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REMAINS: Final = ("checkpoint", "checkpoints", "blobs")


def check_not_shorter(root: Path, entries: int) -> None:
    """Refuse to go on where a head beside the log says that it held more entries.

    The newest head and the last kept one are looked at; one that cannot be read says nothing here. Signatures are not
    checked: a head that somebody made up stops the writer, and `verify` says why.

    Args:
        root: the ledger's directory.
        entries: how many the log holds.

    Raises:
        StoreError: ``CHECKPOINT_AHEAD``.
    """
    for path in _newest_heads(root):
        try:
            size = parse_checkpoint(parse_note(_read(path)).text).size
        except (LedgerError, OSError):
            continue
        if size > entries:
            raise StoreError(
                Code.CHECKPOINT_AHEAD,
                "a signed head commits to more entries than the log holds, so nothing is appended behind its cut end",
                position=Position(source=str(path)),
                expected=f"at least {size} entries",
                found=f"{entries} entries",
                hint="acknowledged entries are missing: restore ledger.jsonl from a copy that verifies",
            )


def remains_of(root: Path) -> Path | None:
    """Something in a directory without a log that shows that a log was there, or None."""
    return next((root / name for name in _REMAINS if (root / name).exists()), None)


def _read(path: Path) -> bytes:
    """The beginning of a regular file; of anything else nothing, for a pipe would hold the writer for ever."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(MAX_NOTE)


def _newest_heads(root: Path) -> Iterator[Path]:
    yield root / "checkpoint"
    try:
        kept = [path for path in (root / "checkpoints").iterdir() if path.name.endswith(".note")]
    except OSError:
        return
    if kept:
        yield max(kept)
