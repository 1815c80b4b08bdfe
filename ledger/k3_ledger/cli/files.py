"""Writes small files of the user's own: whole or not at all, and never one in place of another by accident."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.regular import unreadable
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_OF_THE_DISK = frozenset({Code.DISK_FULL, Code.DISK_ERROR})
"""Refusals that another path on the same disk would meet as well."""
_OF_THE_PLACE = frozenset({Code.READ_ONLY, Code.ACCESS_DENIED})
WAIT_S: Final = 30.0
"""How long a change of a file of the user's own waits for another one, in seconds, unless it is said."""
_MOST_LINKS = 40
"""Links that the system follows one after the other."""


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


@contextlib.contextmanager
def alone(path: Path, what: str, *, wait: float = WAIT_S, hint: str | None = None) -> Iterator[None]:
    """Nobody else who asks for this changes the file at ``path`` while the block runs, where the file system has locks:
    what is read inside, changed and put back has lost nothing that came between.

    The lock is on the file that stands there now, as a writer's on its log: its folder need not be readable. Only where
    there is no file yet is it on the folder.

    Args:
        path: the file.
        what: what it is, in words for errors.
        wait: how long to wait for others, in seconds; 0 tries once.
        hint: what to do where the place is at fault.

    Raises:
        StoreError: others held it for the whole wait (``LOCK_BUSY``), or it, or its folder, cannot be opened.
    """
    deadline = time.monotonic() + wait
    handle = None
    while handle is None:
        handle = _locked(path, what, wait, deadline, hint)
    try:
        yield
    finally:
        os.close(handle)


def _locked(path: Path, what: str, wait: float, deadline: float, hint: str | None) -> int | None:
    """The open file at a path, or its folder where there is none, with the lock; None where that changed meanwhile."""
    from k3_ledger.ledger.writer.disk import Disk
    from k3_ledger.ledger.writer.locks import take_lock

    try:
        target = _follow(path)
        there = target.exists()
    except RuntimeError as error:  # links that lead in a circle
        raise unreadable(path, OSError(str(error)), hint) from None
    except OSError as error:
        raise unwritable(path, error, hint) from None
    try:
        if there:
            handle = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        else:
            handle = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError as error:
        if there and not target.exists():
            return None
        raise unwritable(path, error, hint) from None
    try:
        try:
            take_lock(Disk(), handle, path, what, timeout_s=wait, deadline=deadline)
        except StoreError as error:
            if error.code is Code.LOCK_BUSY:
                raise
        if _is_at(handle, target) if there else not target.exists():
            kept, handle = handle, -1
            return kept
        return None
    finally:
        if handle >= 0:
            os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """Whether it is an open file that stands at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def replace_file(path: Path, data: bytes, *, hint: str | None = None) -> None:
    """Put a file in the place of the one at ``path``, in one step; through a link where it is one.

    The file keeps the old one's mode. It is on stable storage when this returns. One that nobody may write stays as it
    is, although its folder would let it be replaced, and whoever asks: its owner took the right away, and an editor
    asks before it goes past that.

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
        if not mode & 0o222 or (target.exists() and not os.access(target, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
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


def check_free(path: Path, *, replace: bool, reads: tuple[Path | str | None, ...] = (), option: str = "--out") -> None:
    """Refuse to write where something stands already, whatever it is, unless the user asked for that.

    What the command reads, a place of a ledger and a private key are refused whatever the user asked for
    (:func:`k3_ledger.cli.places.check_spared`). Every command that writes a file that the user names calls this before
    it does anything else, and writes it with :func:`new_file` or :func:`publish`.

    Args:
        path: the file.
        replace: whether the user asked to write over what is there.
        reads: what the command reads, as its user named it.
        option: which option names the file.

    Raises:
        BadParameter: exit code 2.
    """
    from k3_ledger.cli.places import check_spared

    check_spared(path, reads=reads, option=option)
    check_vacant(path, replace=replace, option=option)


def check_vacant(path: Path, *, replace: bool, option: str = "--out") -> None:
    """Refuse what is no regular file, or a link to none, and without ``replace`` whatever stands there.

    To rename a file over a device or a named pipe destroys it for everybody who uses it. So it would ``/dev/stdout``,
    also while a regular file stands behind that.

    Raises:
        BadParameter: exit code 2.
    """
    import typer

    if (path.exists() and not path.is_file()) or _is_descriptor(path):
        raise typer.BadParameter(
            f"{path} is no regular file: nothing is written in its place, whatever it is for", param_hint=option
        )
    if not replace and os.path.lexists(path):
        raise _taken(path, option)


def _is_descriptor(path: Path) -> bool:
    """Whether links lead from a path to what a process has open, and the path is no file's own name."""
    with contextlib.suppress(OSError, RuntimeError):  # links in a circle
        for _ in range(_MOST_LINKS):
            folder = path.parent.resolve()
            if folder.parts[1:2] == ("proc",):
                return True
            path = folder / path.readlink()  # refused of what is no link
    return False


def _taken(path: Path, option: str) -> Exception:
    import typer

    cure = "give another name" if option == "--propose" else "--replace writes in its place"
    return typer.BadParameter(f"{path} exists already; {cure}", param_hint=option)


class _Sink(io.BufferedWriter):
    """A file that is being written: what the system refuses of it is an error about the file.

    What stays in the buffer is refused again when it is closed.
    """

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        super().__init__(raw)
        self._path = path

    def write(self, data: Any) -> int:
        with writing(self._path):
            return super().write(data)


_OF_A_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What only a write is answered."""


def _unread(path: Path, error: OSError) -> StoreError:
    """The error for something that was to be written to a file and cannot be read."""
    if error.filename is not None:
        return unreadable(Path(os.fsdecode(error.filename)), error)
    return StoreError(
        Code.UNREADABLE,
        f"what was to be written to {path} cannot be read: {error.strerror or error}",
        position=Position(source=path.name),
        hint="look after the disk that the command reads from; nothing was written",
    )


@contextlib.contextmanager
def new_file(path: Path, *, replace: bool, option: str = "--out") -> Iterator[BinaryIO]:
    """A stream whose content stands at ``path`` when the block ends: whole, and on stable storage.

    Unless ``replace`` says so it takes the place of nothing, not even of what came there meanwhile.

    Raises:
        BadParameter: something came there meanwhile; it is left as it is.
        StoreError: the file cannot be written, or what is written to it cannot be read; nothing is left behind.
    """
    aside = None
    try:
        mode = path.stat().st_mode & 0o777 if replace and path.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=".k3-ledger-", dir=path.parent)
        aside = Path(name)
        with _Sink(io.FileIO(handle, "wb"), path) as stream:
            os.fchmod(stream.fileno(), mode)
            try:
                yield stream
            except OSError as error:  # not the stream's: that one says what it is
                if error.errno in _OF_A_WRITE:
                    raise
                raise _unread(path, error) from None
            stream.flush()
            os.fsync(stream.fileno())
        publish(aside, path, replace=replace, option=option)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        if aside is not None:
            aside.unlink(missing_ok=True)


_WITHOUT_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})
"""What file systems answer that know no second name for a file."""


def publish(aside: Path, path: Path, *, replace: bool, option: str = "--out") -> None:
    """Give a whole file its name: of several who want the same free name at once, exactly one gets it.

    Raises:
        BadParameter: the name is taken.
        OSError: the system refuses.
    """
    if replace:
        aside.replace(path)
        return
    try:
        path.hardlink_to(aside)
    except FileExistsError:
        raise _taken(path, option) from None
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            raise _taken(path, option) from None
        aside.replace(path)
    else:
        aside.unlink()


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
