"""A folder that behaves like the kernel's configfs-tsm on a guest with TDX, with faults on request.

Attributes are real files. The kernel makes them when a report's folder is made, counts writes in ``generation``, fills
``outblob`` from ``inblob``, and takes everything away with the folder; this class does the same.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from k3_ledger.engine.tsm import Module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ATTRIBUTES = ("provider", "generation", "inblob", "outblob", "auxblob", "privlevel_floor")


def structure(report_data: bytes) -> bytes:
    """The least that has a quote's report data where they belong; no signature."""
    return bytes.fromhex("0400020081000000") + bytes(560) + report_data + bytes(5)


@dataclass(frozen=True, slots=True)
class SimulatedModule(Module):
    """See the module.

    Attributes:
        make: makes a quote from report data.
        provider: who answers.
        busy: how many reads of ``outblob`` find the module busy.
        fault: what goes wrong: ``no-provider``, ``mkdir``, ``intruder``, ``short-write``, ``generation`` or ``read``.
        log: what happened.
    """

    make: Callable[[bytes], bytes] = structure
    provider: str = "tdx_guest"
    busy: int = 0
    fault: str = ""
    log: list[str] = field(default_factory=list)

    def open(self, name: str) -> Path:
        if self.fault == "no-provider":
            raise OSError(errno.ENXIO, "No such device or address")
        if self.fault == "mkdir":
            raise OSError(errno.ENOSPC, "No space left on device")
        report = super(SimulatedModule, self).open(name)
        for attribute in ATTRIBUTES:
            (report / attribute).touch()
        (report / "provider").write_text(f"{self.provider}\n")
        (report / "generation").write_text("none\n" if self.fault == "generation" else "0\n")
        return report

    def write(self, report: Path, attribute: str, data: bytes) -> None:
        if self.fault == "short-write":
            self._write_short(report / attribute, data)
        super(SimulatedModule, self).write(report, attribute, data)
        self._count(report)
        if self.fault == "intruder":
            self._count(report)
        (report / "outblob").write_bytes(self.make((report / "inblob").read_bytes()))

    def _write_short(self, path: Path, data: bytes) -> None:
        raise OSError(errno.EIO, f"{len(data) // 2} of {len(data)} bytes were taken", str(path))

    def _count(self, report: Path) -> None:
        path = report / "generation"
        path.write_text(f"{int(path.read_text()) + 1}\n")

    def read(self, report: Path, attribute: str) -> bytes:
        if attribute == "outblob":
            if self.fault == "read":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self.log.append("read")
            if len([entry for entry in self.log if entry == "read"]) <= self.busy:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return super(SimulatedModule, self).read(report, attribute)

    def close(self, report: Path) -> None:
        for attribute in ATTRIBUTES:
            (report / attribute).unlink()
        super(SimulatedModule, self).close(report)
        self.log.append("closed")
