"""What stands beside a log and shows that it was longer once: signed heads, artifacts, an index.

A cut that falls on the end of a line leaves a good, shorter log. Whoever appends to that forks it: the heads that were
signed commit to other entries at the same places. So a writer looks at the heads before it goes on.

Every writer reads heads here. What stands in a head's place and cannot be read as one stops it, whatever it is: it
might be what was put over the head that would have stopped it.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.checkpoint import KEPT_NAME, parse_checkpoint
from k3_ledger.ledger.core.note import MAX_NOTE, parse_note
from k3_ledger.ledger.regular import names_in, read_if_there, read_small, stands_there
from k3_ledger.schemas.errors import MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REMAINS: Final = ("checkpoint", "checkpoints", "blobs", "index.sqlite")
LOST: Final = (
    "restore ledger.jsonl from a copy that verifies; if there is none, move the directory away and make another ledger "
    "with `k3-ledger init`"
)
"""What is left to do where a log is gone that something beside it shows."""
_A_HEAD: Final = f"a regular file of at most {MAX_NOTE} bytes"
_PUT_BACK: Final = (
    "move what stands there away and put the head back from a copy; where there is none, `k3-ledger checkpoint` writes "
    "the newest head anew"
)


def read_head(path: Path) -> bytes | None:
    """The signed head at a path, or None where nothing stands.

    Raises:
        StoreError: something else stands there, or it cannot be read (``CHECKPOINT_UNREADABLE``).
    """
    with _in_a_heads_place(path, _A_HEAD):
        return read_if_there(path)


def read_heads(root: Path) -> dict[Path, bytes]:
    """The newest signed head and every kept one, by file, as far as there are any.

    Args:
        root: the ledger's directory.

    Raises:
        StoreError: see :func:`read_head`.
    """
    newest = root / "checkpoint"
    data = read_head(newest)
    heads = {} if data is None else {newest: data}
    for path in kept_heads(root):
        with _in_a_heads_place(path, _A_HEAD):
            heads[path] = read_small(path)
    return heads


def check_not_shorter(root: Path, entries: int) -> None:
    """Refuse to go on where a head beside the log says that it held more entries.

    The newest head and the largest kept one are looked at. Signatures are not checked: a head that somebody made up
    stops the writer, and `verify` says why.

    Args:
        root: the ledger's directory.
        entries: how many the log holds.

    Raises:
        StoreError: ``CHECKPOINT_AHEAD``, or a head cannot be read (``CHECKPOINT_UNREADABLE``).
        MalformedError: one of the two is no signed head.
    """
    for path in (root / "checkpoint", *kept_heads(root)[-1:]):
        data = read_head(path)
        if data is None:
            continue
        try:
            size = parse_checkpoint(parse_note(data).text).size
        except MalformedError as error:
            found = error.finding
            raise MalformedError(
                found.code,
                f"{found.message}: nothing is appended while a signed head cannot be read",
                position=Position(source=str(path), byte_offset=found.position.byte_offset),
                expected=found.expected,
                found=found.found,
                hint=_PUT_BACK,
            ) from error
        if size > entries:
            raise StoreError(
                Code.CHECKPOINT_AHEAD,
                "a signed head commits to more entries than the log holds, so nothing is appended behind its cut end",
                position=Position(source=str(path)),
                expected=f"at least {size} entries",
                found=f"{entries} entries",
                hint=ahead_hint(path),
            )


def set_aside(path: Path) -> str:
    """The command that takes a head out of every reader's and writer's way and keeps it."""
    return f"`mv {shlex.quote(str(path))} {shlex.quote(f'{path}.set-aside')}`"


def ahead_hint(path: Path) -> str:
    """What to do about a head that commits to more than its log holds: two ways back, and how to tell which."""
    return (
        "entries are missing: restore ledger.jsonl from a copy that verifies; only if no copy, witness or reader ever "
        f"saw that many was the head put there by somebody else: then {set_aside(path)} keeps it as evidence, and the "
        "log goes on (behind a cut end, that forks it)"
    )


def remains_of(root: Path) -> Path | None:
    """Something in a directory without a log that shows that a log was there, or None."""
    return next((root / name for name in _REMAINS if stands_there(root / name)), None)


def kept_heads(root: Path) -> list[Path]:
    """Where heads are kept, by the size in their names.

    Args:
        root: the ledger's directory.

    Raises:
        StoreError: see :func:`read_head`.
    """
    folder = root / "checkpoints"
    with _in_a_heads_place(folder, "a directory"):
        names = filter(KEPT_NAME.fullmatch, names_in(folder))
        return [folder / name for name in sorted(names, key=lambda name: int(name.removesuffix(".note")))]


@contextmanager
def _in_a_heads_place(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StoreError(
            Code.CHECKPOINT_UNREADABLE,
            "what stands in a signed head's place cannot be read",
            position=Position(source=str(path)),
            expected=expected,
            found=error.finding.message.removesuffix(f": {path}").removeprefix(f"{path} is "),
            hint=_PUT_BACK,
        ) from error
