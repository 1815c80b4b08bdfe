"""Step 14: by when the log's entries existed, according to timestamp authorities (RFC 3161) that the reader trusts.

A token says that an authority saw a digest at a time. It counts when the digest is that of the text of one of the log's
own signed heads (its signatures not included, so that cosignatures may be added later) and the authority's certificate
leads to a root in the trust policy. Then every entry below the head's size existed **at or before** that time. Nothing
bounds when an entry came into being from below; what an entry says of its own ``time`` is claimed and never part of it.

A receipt, or any entry with artifacts, may carry a token as an artifact of the type :data:`REPLY_TYPE`. It counts when
the digest is that of another artifact of the same entry, and bounds when that artifact existed.

No token, no root to check it with, an authority that nobody named: not checked. A token by a named authority that does
not hold is an error. One of a head that a revocation took back, or in such an entry, bounds nothing and is counted as
disowned. This room parses no certificates: :data:`TokenReader` is handed in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.artifacts import read_artifact
from k3_ledger.verify.chunks import Chunker
from k3_ledger.verify.source import NOT_LOOKED_FOR, each
from k3_ledger.verify.witnesses import TimeBound

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

NOT_HELD_AGAINST_THE_LOG = frozenset({Code.TIMESTAMP_UNREADABLE, Code.TIMESTAMP_UNTRUSTED, Code.TIMESTAMP_VAGUE})
"""What a token may be without saying anything false."""


MAX_ACCURACY_S = 86_400
"""Largest accuracy of a token, in seconds, that is taken for a bound: an authority that is a day off says no time."""
REPLY_TYPE = "application/timestamp-reply"
"""Media type of an artifact that is a timestamp response."""
MAX_TOKEN = 1 << 20
"""Longest token that is read, in bytes."""
BOUNDS_KEPT = 50
"""Bounds of artifacts that a report spells out; the rest are counted, so that memory stays flat."""
_MARK = f'"media_type":"{REPLY_TYPE}"'.encode()


@dataclass(frozen=True, slots=True)
class ArtifactBound:
    """By when an artifact existed, according to a timestamp authority.

    Attributes:
        index: index of the entry that names it.
        name: its name there.
        timestamp: latest time at which it can have come into being, in seconds since the Epoch.
        authority: who says so.
    """

    index: int
    name: str
    timestamp: int
    authority: str

    def as_dict(self) -> dict[str, object]:
        """JSON form."""
        return {
            "entry": self.index,
            "artifact": self.name,
            "at_or_before": format_time(self.timestamp),
            "according_to": [self.authority],
        }


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
                certificate leads to none of the roots), ``TIMESTAMP_BAD`` (it does, and the token does not hold) or
                ``TIMESTAMP_VAGUE`` (it holds, and its accuracy is more than :data:`MAX_ACCURACY_S`).
        """
        ...


def check_timestamps(
    scan: Scan,
    source: LogSource,
    policy: TrustPolicy | None,
    read: TokenReader | None,
    lines: Iterable[tuple[int, bytes]] | None = None,
) -> None:
    """Check every token that stands beside the log or among the artifacts of its entries, and note what follows.

    Costs a pass over the log where the policy names authorities, and nothing where it names none.

    Args:
        scan: knows the good heads and which entries were taken back; takes counts, findings and bounds.
        source: has the tokens and the artifacts.
        policy: names the authorities.
        read: reads one token.
        lines: (position, line) of the verified entries whose artifacts to go through; the log's by default.
    """
    tally = scan.tallies["timestamps"]
    tokens: list[tuple[str, bytes]] = []
    for file in each(source.timestamps):
        if isinstance(file, StoreError):
            tally.not_checked += 1
            scan.findings.add(Finding(Code.TIMESTAMP_UNREADABLE, file.finding.message, file.finding.position))
        else:
            tokens.append(file)
    listed = source.lists("timestamps")
    tally.not_checked += not listed
    if read is None or policy is None or not policy.timestamp_roots:
        tally.not_checked += len(tokens)
        tally.detail = (
            f"{len(tokens)} timestamps; the trust policy names no timestamp authority to check them with"
            if tokens
            else "no timestamps"
            if listed
            else f"timestamps {NOT_LOOKED_FOR}"
        )
        return
    checker = _Checker(scan, read, policy.timestamp_roots)
    heads = {_digest(head): head.checkpoint.size for head in scan.good_heads}
    lost = {_digest(head) for head in scan.disowned_heads} - heads.keys()
    bounds: dict[int, TimeBound] = {}
    for name, data in tokens:
        token = checker.check(data, Position(source=name), heads, "none of the log's signed heads that are here", lost)
        if token is None:
            continue
        bound = TimeBound(heads[token.digest], token.latest, (token.authority,))
        if bound.size not in bounds or bound.timestamp < bounds[bound.size].timestamp:
            bounds[bound.size] = bound
    scan.stamps = tuple(bound for _, bound in sorted(bounds.items(), reverse=True))
    if not scan.missing and not scan.tallies["signatures"].failed:
        found = _artifact_bounds(source, scan, checker, _log_lines(source) if lines is None else lines)
        scan.artifact_stamps = tuple(islice(found, BOUNDS_KEPT))
        deque(found, maxlen=0)  # the rest is checked and counted as well
    if not (tally.checked or tally.not_checked or tally.disowned):
        tally.detail = "no timestamps"
    elif scan.stamps:
        tally.detail = scan.stamps[0].sentence
    elif not listed:
        tally.detail = f"timestamps of heads {NOT_LOOKED_FOR}"


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks tokens, one by one, and counts them."""

    scan: Scan
    read: TokenReader
    roots: Sequence[bytes]

    def check(
        self, data: bytes, place: Position, wanted: Container[bytes], otherwise: str, disowned: Container[bytes] = ()
    ) -> Token | None:
        """A token that holds and is of one of the ``wanted`` digests, or None when it is counted as something else."""
        tally = self.scan.tallies["timestamps"]
        try:
            token = self.read(data, self.roots)
        except LedgerError as error:
            known = error.code not in NOT_HELD_AGAINST_THE_LOG
            tally.checked += known
            tally.failed += known
            tally.not_checked += not known
            found = error.finding
            self.scan.findings.add(Finding(error.code, found.message, place, found.expected, found.found))
            return None
        if token.digest in disowned:
            tally.disowned += 1
            return None
        if token.digest not in wanted:
            tally.not_checked += 1
            message = f"the timestamp is of {otherwise}"
            self.scan.findings.add(Finding(Code.TIMESTAMP_ELSEWHERE, message, place, found=token.digest.hex()))
            return None
        tally.checked += 1
        return token


def _digest(head: SignedHead) -> bytes:
    """What a token of a head is of."""
    return sha256(parse_note(head.raw).text.encode()).digest()


def _log_lines(source: LogSource) -> Iterator[tuple[int, bytes]]:
    """(position, line) of the entries of a log that name a token."""
    for chunk in Chunker(source.blocks()):
        if _MARK in chunk.data:
            yield from enumerate(chunk.data.split(b"\n")[:-1], start=chunk.first_line)


def _artifact_bounds(
    source: LogSource, scan: Scan, checker: _Checker, lines: Iterable[tuple[int, bytes]]
) -> Iterator[ArtifactBound]:
    """Bounds from tokens among the artifacts. Tokens that are missing or changed are step 9's to report."""
    disowned = scan.keyring.disowned()
    for position, line in lines:
        if _MARK not in line:
            continue
        artifacts = getattr(decode(parse_line(line).entry).body, "artifacts", ())
        if position in disowned:
            checker.scan.tallies["timestamps"].disowned += sum(one.media_type == REPLY_TYPE for one in artifacts)
            continue
        names = {bytes.fromhex(one.sha256): one.name for one in artifacts if one.media_type != REPLY_TYPE}
        for one in artifacts:
            data = read_artifact(source, one.sha256, MAX_TOKEN) if one.media_type == REPLY_TYPE else None
            if data is None:
                continue
            place = Position(index=position, field=f"body.artifacts {one.name}")
            token = checker.check(data, place, names, "no other artifact of its entry")
            if token is not None:
                yield ArtifactBound(position, names[token.digest], token.latest, token.authority)
