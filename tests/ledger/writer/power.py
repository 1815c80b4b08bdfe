"""A disk that can lose its power: what was not synced is then forgotten, bytes and names alike."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

from k3_ledger.ledger.writer.disk import Disk
from tests.ledger.writer.support import MortalDisk

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self


class Platter:
    """What is on the disk under a directory, apart from what the system remembers of it in memory.

    The worst disk that keeps its word: of a file it holds the bytes of its last sync, of a directory the names of its
    last sync, and nothing else. The directory itself is there from the beginning, and whatever is in it then.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: list[int] = []
        for path in (top, *top.rglob("*")):
            fd = self.hold(path)
            self.sync(fd)

    def hold(self, path: Path) -> int:
        """Keep what stands there, so that no other file is given its number."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        self._held.append(fd)
        return fd

    def sync(self, fd: int) -> None:
        """Take what a descriptor's file or directory holds now."""
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            with os.scandir(fd) as items:
                self._names[info.st_ino] = {item.name: (item.inode(), item.is_dir()) for item in items}
        else:
            own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
            self._bytes[info.st_ino] = os.pread(own, info.st_size, 0)
            os.close(own)

    def cut_power(self) -> None:
        """Leave nothing below the top but what is on the disk; it is there for the next process to find."""
        number = self.top.stat().st_ino
        for path in self.top.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._restore(self.top, number)
        self.close()
        self.__init__(self.top)  # type: ignore[misc] # the same disk, after a restart

    def _restore(self, folder: Path, number: int) -> None:
        for name, (child, is_folder) in self._names.get(number, {}).items():
            if is_folder:
                (folder / name).mkdir()
                self._restore(folder / name, child)
            else:
                (folder / name).write_bytes(self._bytes.get(child, b""))

    def close(self) -> None:
        """Give everything back."""
        for fd in self._held:
            os.close(fd)
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class PowerDisk(MortalDisk):
    """One process's calls on a platter."""

    def __init__(self, platter: Platter) -> None:
        super().__init__()
        self._platter = platter

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        self.meet("open")
        fd = Disk.open(self, path, flags, mode)
        if flags & os.O_CREAT:
            self._platter.hold(path)
        if self.dead:
            os.close(fd)
        self._end()
        return fd

    def mkdir(self, path: Path) -> None:
        self.meet("mkdir")
        Disk.mkdir(self, path)
        self._platter.hold(path)
        self._end()

    def fdatasync(self, fd: int) -> None:
        self.meet("fdatasync")
        self._platter.sync(fd)
        self._end()

    def fsync(self, fd: int) -> None:
        self.meet("fsync")
        self._platter.sync(fd)
        self._end()
