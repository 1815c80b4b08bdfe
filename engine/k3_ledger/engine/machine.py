"""Says where and with what something ran: the machine, software versions, the source tree. Reads, and guesses nothing.

What cannot be read is null or "unknown", never a plausible value. Torch is not needed: accelerators are asked of the
driver's own tool.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from time import time

from k3_ledger.schemas.measurement import Accelerator, Machine, Node, Software, Source
from k3_ledger.schemas.moments import format_time

_TOOL_SECONDS = 30
"""How long a tool that describes the machine may take."""


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
        started=format_time(int(time())),
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
    """NVIDIA GPUs as their driver's tool lists them; none where there is no such tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = "name,memory.total,driver_version,clocks.sm"
    listed = _run([tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"])
    found = []
    for line in (listed or "").splitlines():
        name, memory, driver, clock = (part.strip() for part in line.split(","))
        found.append(
            Accelerator(
                name=name,
                memory_bytes=int(memory) << 20 if memory.isdigit() else 0,
                driver=driver or None,
                clock_mhz=int(clock) if clock.isdigit() else None,
                clocks_locked=False,
            )
        )
    return found


def probe_source(tree: Path) -> tuple[Source | None, bytes]:
    """The commit of a source tree and its difference from that commit.

    Returns:
        The source, and the patch that makes its commit into what is there: empty for a clean tree. Files that git does
        not track are not in the patch, but make the tree dirty. None where there is no repository.
    """
    commit = _run(["git", "-C", str(tree), "rev-parse", "HEAD"])
    if commit is None:
        return None, b""
    patch = (_run(["git", "-C", str(tree), "diff", "--binary", "HEAD"]) or "").encode()
    status = _run(["git", "-C", str(tree), "status", "--porcelain"])
    return (
        Source(
            commit=commit.strip(),
            dirty=status is None or bool(status.strip()),
            patch_sha256=hashlib.sha256(patch).hexdigest() if patch else None,
            clean_builds=0,
        ),
        patch,
    )


def _run(command: list[str]) -> str | None:
    """What a tool prints, or None when it is not there, fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed tools with fixed arguments and a path
            command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


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
