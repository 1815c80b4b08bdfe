"""Has the machine attest a run: a quote over the bundle, through the kernel's configfs-tsm.

On a guest with a trusted security module the kernel offers ``/sys/kernel/config/tsm/report``: a folder made there gets
the attributes ``provider``, ``generation``, ``inblob`` and ``outblob``; 64 bytes written to ``inblob`` come back in
``outblob`` as the report data of a quote (Linux, Documentation/ABI/testing/configfs-tsm-report). ``generation`` counts
writes, so that a quote that answers somebody else's write is noticed.

What is bound is the digest of the bare bundle (:mod:`k3_ledger.schemas.attested`): everything that the bundle says
and every artifact that it names, evidence alone left out, since a quote cannot cover its own digest. Collateral is
fetched by others beforehand: this module opens no connection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.bundle import describe_artifact
from k3_ledger.schemas.attested import COLLATERAL, QUOTE, bare_digest, report_data
from k3_ledger.schemas.errors import AttestationError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import RunMeasurement, Tee

if TYPE_CHECKING:
    from collections.abc import Callable

REPORTS: Final = Path("/sys/kernel/config/tsm/report")
PROVIDER: Final = "tdx_guest"
"""The provider whose quotes this format knows."""
ATTEMPTS: Final = 5
"""How often a busy module is asked."""
PAUSE_S: Final = 0.2
_HEADER_AND_BODY: Final = 632
_REPORT_DATA: Final = slice(568, 632)
_BUSY: Final = frozenset({errno.EBUSY, errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT})


@dataclass(frozen=True, slots=True)
class Module:
    """Access to configfs-tsm.

    Attributes:
        reports: folder in which reports are made.
        wait: waits so many seconds.
    """

    reports: Path = REPORTS
    wait: Callable[[float], None] = time.sleep

    def open(self, name: str) -> Path:
        """Make a report; the kernel fills its folder with attributes."""
        path = self.reports / name
        path.mkdir()
        return path

    def read(self, report: Path, attribute: str) -> bytes:
        """Read an attribute in one piece."""
        return (report / attribute).read_bytes()

    def write(self, report: Path, attribute: str, data: bytes) -> None:
        """Write an attribute in one call, as the kernel wants it."""
        handle = os.open(report / attribute, os.O_WRONLY | os.O_CLOEXEC)
        try:
            written = os.write(handle, data)
        finally:
            os.close(handle)
        if written != len(data):
            raise OSError(errno.EIO, f"{written} of {len(data)} bytes were taken", str(report / attribute))

    def close(self, report: Path) -> None:
        """Take the report away again."""
        report.rmdir()


def attest(
    measurement: RunMeasurement, collateral: bytes | None, module: Module
) -> tuple[RunMeasurement, dict[str, bytes]]:
    """Have a quote made over a measurement, and add it.

    Args:
        measurement: what the bundle would hold without a quote.
        collateral: what the quote can be checked with, to be kept beside it; None for none.
        module: access to the security module.

    Returns:
        The measurement to put into the bundle, and the contents of the artifacts that were added, by digest. Where
        there is no trust domain, the measurement as it was.

    Raises:
        AttestationError: with ``K3L-RUN-NO-QUOTE``: there is one, and it gave no quote that could be used.
    """
    if not module.reports.is_dir():
        return measurement, {}
    bare = measurement.model_copy(update={"tee": Tee(kind="tdx", report_data_sha256=None)})
    wanted = report_data(bare_digest("run", bare.model_dump(mode="json")))
    quote = take_quote(wanted, module)
    if quote is None:
        return measurement, {}
    added = [describe_artifact(QUOTE, quote, "application/octet-stream")]
    blobs = {added[0].sha256: quote}
    if collateral is not None:
        added.append(describe_artifact(COLLATERAL, collateral, "application/json"))
        blobs[added[1].sha256] = collateral
    tee = Tee(kind="tdx", report_data_sha256=sha256(wanted).hexdigest())
    return bare.model_copy(update={"tee": tee, "artifacts": (*bare.artifacts, *added)}), blobs


def take_quote(wanted: bytes, module: Module) -> bytes | None:
    """A quote with these 64 bytes of report data; None where the module is not that of a trust domain.

    Raises:
        AttestationError: with ``K3L-RUN-NO-QUOTE``.
    """
    if len(wanted) != 64:
        raise ValueError(f"report data have 64 bytes, got {len(wanted)}")
    try:
        report = module.open(f"k3-ledger-{os.getpid()}-{wanted[:8].hex()}")
    except OSError as error:
        if error.errno == errno.ENXIO:  # configfs is there and no provider behind it
            return None
        raise _none(f"no report could be opened: {error}") from None
    try:
        provider = module.read(report, "provider").strip().decode(errors="replace")
        if provider != PROVIDER:
            return None
        return _ask(wanted, module, report)
    except OSError as error:
        raise _none(f"the security module failed: {error}") from None
    finally:
        with contextlib.suppress(OSError):  # a folder left behind is no reason to lose a run
            module.close(report)


def _ask(wanted: bytes, module: Module, report: Path) -> bytes:
    before = _generation(module, report)
    module.write(report, "inblob", wanted)
    quote = _patiently(module, report)
    after = _generation(module, report)
    if after != before + 1:
        raise _none("somebody else wrote to the report in between", f"generation {before + 1}", f"generation {after}")
    if len(quote) <= _HEADER_AND_BODY:
        raise _none("the quote is cut short", f"more than {_HEADER_AND_BODY} bytes", f"{len(quote)} bytes")
    if quote[_REPORT_DATA] != wanted:
        raise _none("the quote has other report data", wanted.hex(), quote[_REPORT_DATA].hex())
    return quote


def _patiently(module: Module, report: Path) -> bytes:
    """Read the quote; a module that is busy is asked again."""
    for _ in range(ATTEMPTS - 1):
        try:
            return module.read(report, "outblob")
        except OSError as error:
            if error.errno not in _BUSY:
                raise
        module.wait(PAUSE_S)
    return module.read(report, "outblob")


def _generation(module: Module, report: Path) -> int:
    text = module.read(report, "generation").strip()
    if not text.isdigit():
        raise _none("the generation is not a number", "a number", text[:40].decode(errors="replace"))
    return int(text)


def _none(message: str, expected: str | None = None, found: str | None = None) -> AttestationError:
    return AttestationError(Code.RUN_NO_QUOTE, message, expected=expected, found=found)
