"""Says where and with what something ran: the machine and software versions. Reads, and guesses nothing.

What cannot be read is null or "unknown", never a plausible value. Torch is not needed: accelerators are asked of the
driver's own tool.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from k3_ledger.schemas.measurement import Accelerator, Machine, Node, Software
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOOL_SECONDS: Final = 30.0
"""How long a tool that describes the machine may take."""
_TOOL_BYTES: Final = 1 << 26
"""Most that is read of what one prints."""
_ENDED_SECONDS: Final = 2.0
"""How long one that was killed is waited for: one that hangs in the kernel never ends."""
_MOST_ACCELERATORS: Final = 64
_NONE: Final = "No devices were found"
"""What NVIDIA's tool says on a machine with its driver and no accelerator, whatever its exit status."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool came to.

    Attributes:
        data: what it printed.
        fault: why that is no answer; None where it is one.
    """

    data: bytes
    fault: str | None = None


def probe_machine(node: str, command: list[str], software: list[str]) -> Machine:
    """Describe this machine now, at the start of a run.

    Args:
        node: what the operator calls the machine.
        command: program and arguments of the run.
        software: names of installed distributions whose versions bear on the result; what is not installed is left out.
    """
    return Machine(
        node=probe_node(node),
        software=tuple(probe_software(software)),
        command=tuple(command),
        started=format_time(int(time.time())),
    )


def probe_node(name: str) -> Node:
    """Describe the hardware and the operating system."""
    return Node(
        name=name,
        cpu=_processor(),
        logical_cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        os=_operating_system(),
        kernel=platform.release(),
        accelerators=tuple(probe_accelerators()),
    )


def probe_software(names: list[str]) -> list[Software]:
    """The interpreter's version, then those of the named distributions that are installed."""
    found = [Software(name="python", version=platform.python_version())]
    for name in names:
        try:
            found.append(Software(name=name, version=metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found


def probe_accelerators() -> list[Accelerator]:
    """NVIDIA GPUs as their driver's tool lists them; none where there is no such tool, or it says so.

    Where the tool gives no answer there is one of name "unknown": whether the machine has any is not known.
    """
    said = ask_nvidia("name,memory.total,driver_version,clocks.sm", "csv,noheader,nounits")
    if said is None or said.data.strip() == _NONE.encode():
        return []
    unknown = [Accelerator(name="unknown", memory_bytes=0, driver=None, clock_mhz=None, clocks_locked=False)]
    if said.fault is not None:
        return unknown
    try:
        found = [_accelerator(line) for line in said.data.decode(errors="replace").splitlines()]
    except (ValueError, ValidationError):
        return unknown
    return found if len(found) <= _MOST_ACCELERATORS else unknown


def free_on_accelerators() -> int | None:
    """Bytes that nobody has taken of the GPU that has most; None where NVIDIA's tool does not say it of every one."""
    said = ask_nvidia("memory.free", "csv,noheader,nounits")
    lines = [] if said is None or said.fault is not None else said.data.decode(errors="replace").splitlines()
    if not all(line.strip().isdecimal() for line in lines):
        return None
    return max((int(line) << 20 for line in lines), default=None)


def _accelerator(line: str) -> Accelerator:
    name, memory, driver, clock = (printable(part.strip()) for part in line.split(","))
    return Accelerator(
        name=name or "unknown",
        memory_bytes=int(memory) << 20 if memory.isdecimal() else 0,
        driver=driver or None,
        clock_mhz=int(clock) if clock.isdecimal() else None,
        clocks_locked=False,
    )


def ask_nvidia(query: str, layout: str) -> Said | None:
    """What the driver's tool says of every GPU; None where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    return None if tool is None else ask([tool, f"--query-gpu={query}", f"--format={layout}"])


def ask(
    command: list[str],
    *,
    seconds: float = _TOOL_SECONDS,
    most: int = _TOOL_BYTES,
    environment: Mapping[str, str] | None = None,
) -> Said:
    """What a tool prints. One that is not there, fails, hangs or prints without end costs nothing but the answer."""
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed tools with fixed arguments and a path
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return Said(b"", f"it cannot be executed: {error.strerror}")
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    try:
        data, fault = _read(process.stdout.fileno(), deadline, most)
        if fault is None:
            status = process.wait(max(0.0, deadline - time.monotonic()))
            fault = None if status == 0 else f"it ended with status {status}"
    except subprocess.TimeoutExpired:
        data, fault = b"", _HANGS
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDED_SECONDS)
        process.stdout.close()
    return Said(data, fault)


_HANGS: Final = "it gave no answer in time"


def _read(descriptor: int, deadline: float, most: int) -> tuple[bytes, str | None]:
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                return b"", _HANGS
            block = os.read(descriptor, 1 << 16)
            if not block:
                return b"".join(parts), None
            parts.append(block)
            most -= len(block)
            if most < 0:
                return b"", "it prints without end"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine() or "unknown")


def _operating_system() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.platform()
    return release.get("PRETTY_NAME", platform.platform())
