"""Step 14: by when the log's entries existed, according to timestamp authorities (RFC 3161) that the reader trusts.

A token says that an authority saw a digest at a time. It counts when the digest is that of the text of one of the log's
own signed heads (its signatures not included, so that cosignatures may be added later) and the authority's certificate
leads to a root in the trust policy. Then every entry below the head's size existed **at or before** that time. Nothing
bounds when an entry came into being from below; what an entry says of its own ``time`` is claimed and never part of it.

No token, no root to check it with, an authority that nobody named: not checked. A token by a named authority that does
not hold is an error. This room parses no certificates: :data:`TokenReader` is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from k3_ledger.ledger.core.note import parse_note
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.witnesses import TimeBound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

NOT_HELD_AGAINST_THE_LOG = frozenset({Code.TIMESTAMP_UNREADABLE, Code.TIMESTAMP_UNTRUSTED})
"""What a token may be without saying anything false."""


@dataclass(frozen=True, slots=True)
class Token:
    """A timestamp token that was verified.

    Attributes:
        digest: SHA-256 that the authority saw.
        latest: latest time at which it can have seen it, in seconds since the Epoch: its clock reading, and the
            accuracy that it states, rounded up.
        authority: subject of its certificate.
    """

    digest: bytes
    latest: int
    authority: str


class TokenReader(Protocol):
    """Verifies one token."""

    def __call__(self, data: bytes, roots: Sequence[bytes]) -> Token:
        """Verify a token against root certificates (DER).

        Raises:
            LedgerError: with ``TIMESTAMP_UNREADABLE`` (no token that can be read), ``TIMESTAMP_UNTRUSTED`` (its
                certificate leads to none of the roots) or ``TIMESTAMP_BAD`` (it does, and the token does not hold).
        """
        ...


def check_timestamps(scan: Scan, source: LogSource, policy: TrustPolicy | None, read: TokenReader | None) -> None:
    """Check every token that stands beside the log, and note what follows."""
    tally = scan.tallies["timestamps"]
    try:
        tokens = list(source.timestamps())
    except LedgerError as error:
        tally.not_checked += 1
        scan.findings.add(Finding(Code.TIMESTAMP_UNREADABLE, error.finding.message, error.finding.position))
        return
    if not tokens:
        tally.detail = "no timestamps"
        return
    if read is None or policy is None or not policy.timestamp_roots:
        tally.not_checked += len(tokens)
        tally.detail = f"{len(tokens)} timestamps; the trust policy names no timestamp authority to check them with"
        return
    heads = {sha256(parse_note(head.raw).text.encode()).digest(): head.checkpoint.size for head in scan.good_heads}
    bounds: dict[int, TimeBound] = {}
    for name, data in tokens:
        try:
            token = read(data, policy.timestamp_roots)
        except LedgerError as error:
            known = error.code not in NOT_HELD_AGAINST_THE_LOG
            tally.checked += known
            tally.failed += known
            tally.not_checked += not known
            found = error.finding
            scan.findings.add(Finding(error.code, found.message, Position(source=name), found.expected, found.found))
            continue
        size = heads.get(token.digest)
        if size is None:
            tally.not_checked += 1
            message = "the timestamp is of none of the log's signed heads that are here"
            scan.findings.add(
                Finding(Code.TIMESTAMP_ELSEWHERE, message, Position(source=name), found=token.digest.hex())
            )
            continue
        tally.checked += 1
        bound = TimeBound(size, token.latest, (token.authority,))
        if size not in bounds or token.latest < bounds[size].timestamp:
            bounds[size] = bound
    scan.stamps = tuple(bound for _, bound in sorted(bounds.items(), reverse=True))
    if scan.stamps:
        tally.detail = scan.stamps[0].sentence
