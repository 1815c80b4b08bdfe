"""Where in a log an entry counts for nothing: what stood at a position, for whoever judged there.

Mostly that is from its supersession on. A revocation takes back what a key has signed, from a position that lies behind
it in the log, so that what stood there for those who judged in between is not what is left: runs that they held others
against are gone, and what a thief had superseded stands again. Whoever derives what they sealed asks what stood *then*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.spans import HEAD
from k3_ledger.rescore.standing import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.rescore.standing import Standing
    from k3_ledger.verify.log import VerifiedEntry, VerifiedLog

Gaps = tuple[tuple[int, int], ...]
"""Spans ``(after, until]`` of positions, ascending and apart."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where entries count for nothing.

    Attributes:
        gaps: by identity, where what is sealed may rest on nothing of that entry.
        read: positions of entries that were taken back and are read all the same.
    """

    gaps: Mapping[str, Gaps]
    read: frozenset[int] = frozenset()

    def turns(self) -> Turns:
        """The positions at which something ceased to count, or counts again."""
        found = {position for gaps in self.gaps.values() for gap in gaps for position in gap}
        return Turns(tuple(sorted(found - {HEAD})))

    def until(self, identity: str) -> int:
        """The last position that an entry counts for."""
        gaps = self.gaps.get(identity, ())
        return gaps[-1][0] if gaps and gaps[-1][1] == HEAD else HEAD

    def stood(self, identity: str, at: int) -> bool:
        """Whether an entry in front of a position counted there."""
        return not any(after < at <= until for after, until in self.gaps.get(identity, ()))


def reach_of(standing: Standing) -> Reach:
    """What counts where nothing was taken back, or as if what was had never been."""
    return Reach({identity: ((since, HEAD),) for identity, since in standing.since.items()})


def reach_as_sealed(log: VerifiedLog, standing: Standing) -> Reach:
    """What counted where it was sealed: what was taken back counted up to the revocation that took it back.

    Raises:
        VerificationError: the bytes changed since they were verified.
    """
    revoked: list[tuple[int, str, int]] = []
    for entry in log.select(b'"kind":"key"'):
        if entry.entry.kind == "key" and entry.entry.body.action == "revoke":
            body = entry.entry.body
            revoked.append((entry.index, body.key_id, entry.index if body.revoked_from is None else body.revoked_from))
    found: dict[str, list[tuple[int, int]]] = {identity: [(since, HEAD)] for identity, since in standing.since.items()}
    read = []
    for entry in log:
        until = _taken_back_by(entry, revoked) if entry.disowned else None
        if until is None:
            continue
        read.append(entry.index)
        found.setdefault(entry.identity, []).append((until, HEAD))
        if entry.entry.kind == "supersede":
            found.setdefault(entry.entry.body.target, []).append((entry.index, until))
    return Reach({identity: _apart(gaps) for identity, gaps in found.items()}, frozenset(read))


def _taken_back_by(entry: VerifiedEntry, revoked: Iterable[tuple[int, str, int]]) -> int | None:
    """Position of the first revocation that took an entry back."""
    return min((at for at, key, since in revoked if key == entry.entry.key and since <= entry.index < at), default=None)


def _apart(gaps: Iterable[tuple[int, int]]) -> Gaps:
    joined: list[tuple[int, int]] = []
    for after, until in sorted(gaps):
        if joined and after <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], until)
        else:
            joined.append((after, until))
    return tuple(joined)
