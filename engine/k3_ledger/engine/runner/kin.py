"""The processes of an engine: the one that was started, and whatever came of it, wherever it went.

A process may leave its session, and its parent may end before it; then the nearest ancestor that takes in orphans gets
it. The controller is that ancestor while an engine runs, so that a child that it did not start itself is the engine's.
What began and ended between two looks is not seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37
_TURNS: Final = 16
"""Rounds of ending what others have started meanwhile."""
Born = tuple[int, int]
"""Process id and starting time: the system gives an id to another process some day, but not both."""


@dataclass(frozen=True, slots=True)
class _Process:
    born: Born
    parent: int
    session: int


class Kin:
    """Of one engine. Made before the engine is started; one at a time in a process.

    Attributes:
        peaks: peak resident memory in bytes of every process that was seen, as the kernel counted it. Pages that two
            of them share are in both.
    """

    def __init__(self) -> None:
        self.peaks: dict[Born, int] = {}
        self._engine = -1
        self._known: set[Born] = set()
        self._took_orphans = _takes_orphans()
        _take_orphans(on=True)
        self._others = {one.born for one in _processes() if one.parent == os.getpid()}

    def started(self, engine: int) -> None:
        """The engine's first process is this one."""
        self._engine = engine

    def look(self) -> int:
        """Find its processes and note their peaks; returns the sum of all peaks noted so far, in bytes.

        A child of the controller that was not there when this was made is taken for the engine's: to be called only
        while the controller itself has started nothing else.
        """
        for one in self._alive(orphans=True):
            self.peaks[one.born] = max(self.peaks.get(one.born, 0), _peak(one.born[0]))
        return sum(self.peaks.values())

    def end(self) -> None:
        """Kill what is left of it, and take in no more orphans.

        An orphan that was never seen while its ancestors lived is spared: it may be somebody else's.
        """
        for _ in range(_TURNS):
            alive = self._alive(orphans=False)
            for one in alive:
                _kill(one)
            if not alive:
                break
        for process, _ in self.peaks:
            if process != self._engine:
                with contextlib.suppress(OSError):
                    os.waitpid(process, os.WNOHANG)
        _take_orphans(on=self._took_orphans)

    def _alive(self, *, orphans: bool) -> list[_Process]:
        """Its processes that have not ended."""
        found = _processes()
        kin = [one for one in found if one.born in self._known or self._engine in {one.born[0], one.session}]
        kin = _with_children(kin, found)
        self._known |= {one.born for one in kin}
        if orphans:
            kin += [one for one in found if one.parent == os.getpid() and one.born not in self._others | self._known]
            kin = _with_children(kin, found)
        return kin


def _with_children(kin: list[_Process], found: list[_Process]) -> list[_Process]:
    """These processes and all that came of them."""
    known = {one.born[0] for one in kin}
    while more := [one for one in found if one.parent in known and one.born[0] not in known]:
        kin = kin + more
        known |= {one.born[0] for one in more}
    return kin


def _processes() -> list[_Process]:
    """Every process of the machine that has not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            # One whose first thread has ended looks like one that has, and goes on in its other threads.
            if fields[0] not in {"Z", "X"} or int(fields[17]) > 1:
                born = (int(folder.name), int(fields[19]))
                found.append(_Process(born, int(fields[1]), int(fields[3])))
    return found


def _peak(process: int) -> int:
    """Of one process, in bytes, as any of its threads that has not ended says; 0 where all have."""
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            for line in status.read_text(errors="replace").splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) << 10
    return 0


def _kill(process: _Process) -> None:
    """End exactly this process, not one that got its id meanwhile; where it is a child of ours, wait for it."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.born[0])
        try:
            if process.born in {one.born for one in _processes()}:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                if process.parent == os.getpid():
                    os.waitid(os.P_PIDFD, handle, os.WEXITED)
        finally:
            os.close(handle)


def _take_orphans(*, on: bool) -> None:
    """Whether processes whose parent has ended become children of this one. Where that cannot be had, they do not."""
    _libc().prctl(_SET_SUBREAPER, ctypes.c_ulong(on), 0, 0, 0)


def _takes_orphans() -> bool:
    said = ctypes.c_int()
    _libc().prctl(_GET_SUBREAPER, ctypes.byref(said), 0, 0, 0)
    return bool(said.value)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
