"""Step 9: every artifact that an entry names is hashed again. A missing one is not checked, and said to be."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.verify.bodies import Naming
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import ArtifactSource, LogSource

_ONLY_DISOWNED = "artifacts are named by entries alone that count for nothing"
BLOCK = 1 << 20
"""Bytes read at a time, so that an artifact of any size costs flat memory."""


def read_artifact(source: ArtifactSource, digest: str, limit: int) -> bytes | None:
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
    count = missing = 0
    for digest, namings in scan.named.standing(scan.keyring.disowned()):
        count += 1
        position, name, size, _ = namings[0]
        if source is None:
            tally.not_checked += 1
            _check_sizes(scan, namings, None)
            continue
        place = Position(_path(digest), index=position, field=f"body.artifacts {name}")
        try:
            found = _hash(source, digest, max(naming.size for naming in namings))
        except (LedgerError, OSError) as error:  # it cannot be opened, or the medium fails while it is read
            missing += 1
            tally.not_checked += 1
            why = error.finding.message if isinstance(error, LedgerError) else error.strerror or str(error)
            scan.findings.add(Finding(Code.ARTIFACT_UNREADABLE, f"artifact {name} cannot be read: {why}", place))
            _check_sizes(scan, namings, None)
            continue
        if found is None:
            missing += 1
            tally.not_checked += 1
            scan.findings.add(
                Finding(Code.ARTIFACT_MISSING, f"artifact {name} is not there: not checked", place, f"{size} bytes")
            )
            _check_sizes(scan, namings, None)
            continue
        tally.checked += 1
        right = [naming for naming in namings if found == (digest, naming.size)]
        _check_sizes(scan, namings, found[1] if right else None)
        if not right:
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
    tally.disowned += len(scan.named) - count
    if not count:
        tally.detail = "no entry that verified names an artifact" if not len(scan.named) else _ONLY_DISOWNED
    elif source is None:
        tally.detail = f"{count} artifacts, not re-hashed on request"
    elif missing:
        tally.detail = f"{missing} of {count} artifacts are missing or cannot be read"


def _check_sizes(scan: Scan, namings: list[Naming], size: int | None) -> None:
    """One digest has one size: whose word is wrong is said by the bytes, and by the order where these are not at hand.

    Args:
        scan: what the pass found.
        namings: the first entry that gives each size.
        size: that of the bytes that have the digest; None where nobody has them.
    """
    first = next((naming for naming in namings if naming.size == size), namings[0])
    for naming in namings:
        if naming is first:
            continue
        if min(first.position, naming.position) < scan.open_below:
            scan.tallies["receipts"].not_checked += 1
            continue
        scan.tallies["receipts"].failed += 1
        scan.findings.add(
            Finding(
                Code.ARTIFACT_SIZE,
                f"entries {first.position} and {naming.position} give one digest two sizes"
                + ("" if size is None else f", and the bytes that have it are {size}"),
                scan.place(naming.position, f"body.artifacts {naming.name}"),
                str(first.size),
                str(naming.size),
            )
        )


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
