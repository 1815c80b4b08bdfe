"""The folder that an engine works in: the engine's own, so nothing that stands there is what it was, or what it seems.

The engine may swap any name in it for a link, a pipe or a folder, fill it, nest it without end, or take the folder
itself away and put something else there. So the controller opens the folder once, before the engine starts, and goes
only through that descriptor; it opens no file that is not regular, follows no link, and waits for none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LEVELS: Final = 20_000
"""Levels of folders that are looked into and removed; an engine that nests more leaves the rest behind."""
_LEAST: Final = 4096
"""Bytes that an entry counts for at least: empty files and folders fill a disk too."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Folder:
    """A folder as it was opened before the engine started. Use it as a context manager.

    Attributes:
        path: what the engine is told; what stands there by now is the engine's doing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, _FOLDER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def fresh(self) -> str:
        """A name that nobody can have put anything at."""
        return f"{secrets.token_hex(8)}.f32"

    def take(self, name: str, limit: int) -> bytes:
        """At most ``limit`` bytes of a regular file, which is removed; nothing where there is none."""
        try:
            handle = os.open(name, _FILE, dir_fd=self._handle)
        except OSError:
            return b""
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return b""
        with os.fdopen(handle, "rb") as file:
            data = file.read(limit)
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._handle)
        return data

    def size(self, limit: int) -> int:
        """Bytes on the disk of all that it holds, no link followed; counting ends where it is over ``limit``."""
        total = 0
        waiting = ["."]
        for where in waiting:
            for name, state in self._entries(where):
                total += max(_LEAST, state.st_blocks * 512)
                if stat.S_ISDIR(state.st_mode):
                    waiting.append(f"{where}/{name}")
                if total > limit:
                    return total
        return total

    def empty(self) -> None:
        """Remove what it holds, as far as that can be done.

        Whatever is nested is first moved up, one level a turn, so that neither a path nor a stack grows with it.
        """
        with contextlib.suppress(OSError):
            self._unlock(".", stat.S_IRWXU)
        for _ in range(MOST_LEVELS):
            removed = [self._remove(name, state) for name, state in list(self._entries("."))]
            if not any(removed):
                return

    def _remove(self, name: str, state: os.stat_result) -> bool:
        """Remove one entry, its own folders moved up beside it; whether anything came of it."""
        try:
            if not stat.S_ISDIR(state.st_mode):
                os.unlink(name, dir_fd=self._handle)
                return True
            self._unlock(name, stat.S_IRWXU)
            for within, inner in list(self._entries(name)):
                if stat.S_ISDIR(inner.st_mode):
                    up = secrets.token_hex(8)
                    self._unlock(f"{name}/{within}", stat.S_IRWXU)  # to move a folder is to write to it
                    os.rename(f"{name}/{within}", up, src_dir_fd=self._handle, dst_dir_fd=self._handle)
                else:
                    os.unlink(f"{name}/{within}", dir_fd=self._handle)
            os.rmdir(name, dir_fd=self._handle)
        except OSError:
            return False
        return True

    def _unlock(self, where: str, needed: int) -> None:
        """Give its owner these rights to a folder, whatever the engine left him; no link is followed."""
        handle = os.dup(self._handle) if where == "." else os.open(where, _PLACE, dir_fd=self._handle)
        try:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            if mode & needed != needed:
                Path(f"/proc/self/fd/{handle}").chmod(mode | needed)  # its name may be another one's by now
        finally:
            os.close(handle)

    def _entries(self, where: str) -> Iterator[tuple[str, os.stat_result]]:
        """What stands in one of its folders, shut or not; nothing where it cannot be looked into."""
        with contextlib.suppress(OSError):
            self._unlock(where, stat.S_IRUSR | stat.S_IXUSR)
            handle = os.open(where, _FOLDER, dir_fd=self._handle)
            try:
                with os.scandir(handle) as found:
                    for entry in found:
                        with contextlib.suppress(FileNotFoundError):
                            yield entry.name, entry.stat(follow_symlinks=False)
            finally:
                os.close(handle)


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A new folder for an engine, removed afterwards with what the engine left in it."""
    path = Path(tempfile.mkdtemp(prefix="k3-ledger-"))
    with Folder(path) as folder:
        try:
            yield path
        finally:
            folder.empty()
            with contextlib.suppress(OSError):
                path.rmdir()
