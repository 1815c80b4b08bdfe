"""Runs a command in a forked child under strace, with one fault in one of its system calls.

The child is forked from a process that has everything imported, and is traced from the moment it begins the command:
a case costs some tens of milliseconds, and every call that is counted is one the command itself makes.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import k3_ledger.cli

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = {
    "openat": ("openat",),
    "read": ("read", "pread64"),
    "write": ("write", "pwrite64"),
    "fdatasync": ("fdatasync",),
    "fsync": ("fsync",),
    "ftruncate": ("ftruncate",),
    "rename": ("rename", "renameat", "renameat2"),
    "mkdir": ("mkdir", "mkdirat"),
    "unlink": ("unlink", "unlinkat"),
}
"""What is counted and injected into: system calls of one meaning, whatever they are called on a machine."""
PATIENCE_S = 60.0
"""Seconds after which a command is taken to hang."""
_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the ``nth`` call of its name, counted from 1.

    Attributes:
        call: a system call's name.
        nth: which of its calls.
        kind: ``EIO`` or ``ENOSPC``, with ``+`` where it stays so from then on, or ``SIGKILL``: killed in front of it.
    """

    call: str
    nth: int
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.call} {self.nth}"

    @property
    def words(self) -> list[str]:
        """What tells strace."""
        error = self.kind.removesuffix("+")
        what = "signal=SIGKILL" if error == "SIGKILL" else f"error={error}"
        return [f"--inject={self.call}:{what}:when={self.nth}{'+' if self.kind.endswith('+') else ''}"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a traced command ended.

    Attributes:
        code: its exit status, or None when it was killed.
        out: its standard output.
        err: its standard error.
        log: strace's record of its calls.
    """

    code: int | None
    out: str
    err: str
    log: list[str]

    @property
    def struck(self) -> str | None:
        """The record of the (first) call that the fault struck, or None when it never came to it."""
        if self.code is None:
            return self.log[-1] if self.log else "killed"
        return next((line for line in self.log if "(INJECTED)" in line), None)

    def calls(self) -> dict[str, int]:
        """How often each system call was made."""
        counts: dict[str, int] = {}
        for line in self.log:
            match = re.match(r"(?:\d+ +)?([a-z0-9_]+)\(", line)
            if match:
                counts[match[1]] = counts.get(match[1], 0) + 1
        return counts


def missing() -> str | None:
    """What is not there that injecting needs, in words; None when all is there."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed (Debian: apt-get install strace)"
    probe = subprocess.run(
        [strace, "-f", "--trace=fsync", "--inject=fsync:error=EIO", sys.executable, "-Ic", "import os; os.fsync(1)"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "(INJECTED)" not in probe.stderr:
        said = probe.stderr.strip().splitlines()
        return f"strace may not trace here (a container without ptrace?): {said[-1] if said else 'it says nothing'}"
    return None


def command(*words: object) -> Callable[[], None]:
    """The command line itself, to be run in a child."""

    def run() -> None:
        sys.argv = ["k3-ledger", *map(str, words)]
        k3_ledger.cli.main()

    return run


def run(action: Callable[[], None], folder: Path, fault: Fault | None = None) -> Ended:
    """Run an action in a traced child.

    Args:
        action: what the child does; the exit status is that of a program whose main function it is.
        folder: its working directory.
        fault: what happens to it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = _Output(), _Output()
    with mmap.mmap(-1, mmap.PAGESIZE) as gate:
        child = os.fork()
        if child == 0:
            _be_child(action, folder, gate, out, err)
        out.begin()
        err.begin()
        deadline = time.monotonic() + PATIENCE_S
        while not gate[1]:  # what makes a child of this process a program is not the program's
            if time.monotonic() > deadline:
                raise TimeoutError("a child of this process does not begin")
            time.sleep(0.0005)
        tracer, record = _attach(child, fault)
        gate[0] = 1
        status = _wait(child)
        tracer.communicate()
    os.lseek(record, 0, os.SEEK_SET)
    with os.fdopen(record, "rb") as file:
        log = file.read().decode(errors="replace").splitlines()
    code = os.waitstatus_to_exitcode(status)
    return Ended(None if code == -signal.SIGKILL else code, out.end(), err.end(), log)


def run_here(action: Callable[[], None], folder: Path) -> Ended:
    """Run an action in this very process, untraced: cheap, and it imports what children of this process then have."""
    streams, here = (sys.stdout, sys.stderr), Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    sys.stdout, sys.stderr = out, err
    os.chdir(folder)
    try:
        code = _act(action)
    finally:
        os.chdir(here)
        sys.stdout, sys.stderr = streams
    return Ended(code, out.getvalue(), err.getvalue(), [])


class _Output:
    """A pipe from a child's stream; what a command of the tests prints fits into it."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def begin(self) -> None:
        os.close(self.writing)

    def end(self) -> str:
        with os.fdopen(self.reading, "rb") as file:
            return file.read().decode(errors="replace")


def _be_child(action: Callable[[], None], folder: Path, gate: mmap.mmap, out: _Output, err: _Output) -> None:
    """Become a program: own streams, own working directory; wait for the tracer, act, exit. Never returns."""
    code = 99
    try:
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.writing, 1)
        os.dup2(err.writing, 2)
        for fd in (out.reading, out.writing, err.reading, err.writing):
            os.close(fd)
        os.chdir(folder)
        sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 - the stream of the process
        sys.stderr = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115 - likewise
        gate[1] = 1
        while not gate[0]:
            time.sleep(0.001)  # no call that is traced
        code = _act(action)
    finally:
        os._exit(code)


def _act(action: Callable[[], None]) -> int:
    """What the interpreter does with a main function: exit status, traceback, last flush."""
    code: object = 0
    try:
        action()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        code = 1
        with contextlib.suppress(OSError):
            traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    return code if isinstance(code, int) else int(code is not None)


def _attach(child: int, fault: Fault | None) -> tuple[subprocess.Popen[str], int]:
    """Attach strace to a child that waits."""
    record = os.memfd_create("record", 0)
    traced = ",".join(f"?{name}" for names in CALLS.values() for name in names)
    tracer = subprocess.Popen(
        ["strace", "-f", "-y", "-s", "60", f"--trace={traced}", *(fault.words if fault else ()),
         "-o", f"/proc/self/fd/{record}", "-p", str(child)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=[record],
    )  # fmt: skip
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "attached" not in said:
        os.kill(child, signal.SIGKILL)
        raise RuntimeError(f"strace did not attach: {said}")
    return tracer, record


def _wait(child: int) -> int:
    """Wait for a child; one that hangs is killed and named."""
    deadline = time.monotonic() + PATIENCE_S
    pause = 0.000_5
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"the command hangs: no end after {PATIENCE_S:g} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
