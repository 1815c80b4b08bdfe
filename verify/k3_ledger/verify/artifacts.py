"""Step 9: every artifact that an entry names is hashed again. A missing one is not checked, and said to be."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

BLOCK = 1 << 20
"""Bytes read at a time, so that an artifact of any size costs flat memory."""


def read_artifact(source: LogSource, digest: str, limit: int) -> bytes | None:
    """A whole small artifact, or None where it is not here, cannot be read, is longer than ``limit`` bytes or is not
    itself.
    """
    parts, left = [], limit + 1
    try:
        stream = source.open_artifact(digest)
        if stream is None:
            return None
        with stream:
            while left > 0 and (block := stream.read(left)):
                parts.append(block)
                left -= len(block)
    except (LedgerError, OSError):  # it cannot be opened, or the medium fails while it is read
        return None
    data = b"".join(parts)
    return data if left > 0 and sha256(data).hexdigest() == digest else None


def check_artifacts(scan: Scan, source: LogSource | None) -> None:
    """Hash each artifact once, however many entries name it.

    Args:
        scan: what the pass found; tallies and findings are added to it.
        source: where artifacts come from; None when the caller asked not to check them.
    """
    tally = scan.tallies["artifacts"]
    if source is None:
        tally.not_checked += len(scan.artifacts)
        tally.detail = f"{len(scan.artifacts)} artifacts, not re-hashed on request"
        return
    missing = 0
    for digest, (position, name, size) in scan.artifacts.items():
        place = Position(_path(digest), index=position, field=f"body.artifacts {name}")
        try:
            found = _hash(source, digest, size)
        except (LedgerError, OSError) as error:  # it cannot be opened, or the medium fails while it is read
            missing += 1
            tally.not_checked += 1
            why = error.finding.message if isinstance(error, LedgerError) else error.strerror or str(error)
            scan.findings.add(Finding(Code.ARTIFACT_UNREADABLE, f"artifact {name} cannot be read: {why}", place))
            continue
        if found is None:
            missing += 1
            tally.not_checked += 1
            scan.findings.add(
                Finding(Code.ARTIFACT_MISSING, f"artifact {name} is not there: not checked", place, f"{size} bytes")
            )
            continue
        tally.checked += 1
        if found != (digest, size):
            tally.failed += 1
            scan.findings.add(
                Finding(
                    Code.ARTIFACT_MISMATCH,
                    f"artifact {name} is not the one that was sealed",
                    place,
                    f"{digest}, {size} bytes",
                    f"{found[0]}, {found[1]} bytes",
                )
            )
    if not scan.artifacts:
        tally.detail = "no entry that verified names an artifact"
    elif missing:
        tally.detail = f"{missing} of {len(scan.artifacts)} artifacts are missing or cannot be read"


def _path(digest: str) -> str:
    return f"blobs/sha256/{digest[:2]}/{digest}"


def _hash(source: LogSource, digest: str, size: int) -> tuple[str, int] | None:
    """(digest, size) of what is stored; reading stops one block after ``size``, where it can no longer match."""
    stream = source.open_artifact(digest)
    if stream is None:
        return None
    state, length = sha256(), 0
    with stream:
        while length <= size and (block := stream.read(BLOCK)):
            state.update(block)
            length += len(block)
    return state.hexdigest(), length
