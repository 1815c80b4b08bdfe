"""Writes small files of the user's own: whole or not at all, and never one in place of another by accident."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from k3_ledger.cli.sources import unreadable


def replace_file(path: Path, data: bytes, *, hint: str | None = None) -> None:
    """Put a file in the place of the one at ``path``, in one step; through a link where it is one.

    The file keeps the old one's mode. It is on stable storage when this returns.

    Raises:
        StoreError: it cannot be written; nothing is left behind.
    """
    aside = None
    try:
        target = _follow(path)
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
        raise unreadable(path, error if isinstance(error, OSError) else OSError(str(error)), hint) from None


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
        raise unreadable(path, error) from None
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
