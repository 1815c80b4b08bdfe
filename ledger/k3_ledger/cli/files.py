"""Writes small files of the user's own: whole or not at all, and never one in place of another by accident."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from k3_ledger.ledger.regular import unreadable
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_THE_DISK = frozenset({Code.DISK_FULL, Code.DISK_ERROR})
"""Refusals that another path on the same disk would meet as well."""
_OF_THE_PLACE = frozenset({Code.READ_ONLY, Code.ACCESS_DENIED})


def unwritable(path: Path, error: OSError, hint: str | None = None) -> StoreError:
    """The error for a file that the operating system would not let us write.

    Args:
        path: the file.
        error: what the operating system said.
        hint: what to do where the place is at fault, and not the disk.
    """
    from k3_ledger.ledger.writer.disk import storage_error

    refused = storage_error(error, path, "write the file", output=True)
    if refused.code in _OF_THE_DISK or (refused.code in _OF_THE_PLACE and hint is None):
        return refused
    if refused.code in _OF_THE_PLACE:
        refused.finding = replace(refused.finding, hint=hint)
        return refused
    return unreadable(path, error, hint or refused.finding.hint)


@contextlib.contextmanager
def writing(path: Path, hint: str | None = None) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into the error for a file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, hint) from None


def replace_file(path: Path, data: bytes, *, hint: str | None = None) -> None:
    """Put a file in the place of the one at ``path``, in one step; through a link where it is one.

    The file keeps the old one's mode. It is on stable storage when this returns.

    Raises:
        StoreError: it cannot be written, or what stands there is no regular file; nothing is left behind.
    """
    aside = None
    try:
        target = _follow(path)
        if target.exists() and not target.is_file():
            raise StoreError(
                Code.UNREADABLE,
                f"not a regular file: {path}",
                position=Position(source=path.name),
                hint="nothing is written in the place of a device, a named pipe or a folder: give another name",
            )
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        aside = Path(name)
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(target)
    except (OSError, RuntimeError) as error:  # the latter for links that lead in a circle
        if aside is not None:
            aside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise unreadable(path, OSError(str(error)), hint) from None
        raise unwritable(path, error, hint) from None


def check_free(path: Path, *, replace: bool, option: str = "--out") -> None:
    """Refuse to write where something stands already, whatever it is, unless the user asked for that.

    What is no regular file, or a link to none, is refused whatever the user asked for: to rename a file over a device
    or a named pipe destroys it for everybody who uses it.

    Every command that writes a file that the user names calls this before it does anything else.

    Raises:
        BadParameter: exit code 2.
    """
    import typer

    if path.exists() and not path.is_file():
        raise typer.BadParameter(
            f"{path} is no regular file: nothing is written in its place, whatever it is for", param_hint=option
        )
    if not replace and (path.exists() or path.is_symlink()):
        raise typer.BadParameter(f"{path} exists already; --replace writes in its place", param_hint=option)


def create_file(path: Path, data: bytes) -> bool:
    """Make a file where there is none; False where there is something.

    Raises:
        StoreError: it cannot be written; a part of it may be left behind only where it cannot be removed.
    """
    try:
        with path.open("xb") as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                path.unlink()
                raise
    except FileExistsError:
        return False
    except OSError as error:
        raise unwritable(path, error) from None
    return True


def _follow(path: Path) -> Path:
    """Where a path leads, whether or not something is there; links in a circle raise on every version of Python."""
    try:
        return path.resolve(strict=True)
    except FileNotFoundError:
        return path.resolve()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
