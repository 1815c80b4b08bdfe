"""Where in a log an entry counts for nothing: what stood at a position, for whoever judged there.

Mostly that is from its supersession on. A revocation takes back what a key has signed, from a position that lies behind
it in the log, so that what stood there for those who judged in between is not what is left: runs that they held others
against are gone, and what a thief had superseded stands again. Whoever derives what they sealed asks what stood *then*.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.rule_entries import read_rule_entry
from k3_ledger.rescore.spans import HEAD
from k3_ledger.rescore.standing import Turns
from k3_ledger.schemas.errors import RescoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.standing import Standing
    from k3_ledger.verify.log import VerifiedLog

Gaps = tuple[tuple[int, int], ...]
"""Spans ``(after, until]`` of positions, ascending and apart."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where entries count for nothing.

    Attributes:
        gaps: by identity, where what is sealed may rest on nothing of that entry.
        read: positions of entries that were taken back and are read all the same.
        sources: identities of the entries that pins among these name: a pin is of the weights of its source.
        rules: what was published among these, so that verdicts may have their names.
    """

    gaps: Mapping[str, Gaps]
    read: frozenset[int] = frozenset()
    sources: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()

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

    Which one that was is the report's to say: what a revocation of a root key takes back is also what was signed by
    keys that it had enrolled.

    Raises:
        VerificationError: the bytes changed since they were verified.
    """
    taken_back_by = {at: part.by for part in log.report.disowned for at in range(part.first, part.last + 1)}
    found: dict[str, list[tuple[int, int]]] = {identity: [(since, HEAD)] for identity, since in standing.since.items()}
    read: list[int] = []
    sources: list[str] = []
    rules: list[Rule] = []
    for entry in log:
        if not entry.disowned:
            continue
        until = taken_back_by[entry.index]
        read.append(entry.index)
        found.setdefault(entry.identity, []).append((until, HEAD))
        if entry.entry.kind == "supersede":
            found.setdefault(entry.entry.body.target, []).append((entry.index, until))
        elif entry.entry.kind == "pin":
            sources.append(entry.entry.body.source)
        elif entry.entry.kind == "rule":
            with suppress(RescoreError):  # whether it can be read is nobody's to answer for
                rules.append(read_rule_entry(entry.entry.body, entry.index))
    gaps = {identity: _apart(spans) for identity, spans in found.items()}
    return Reach(gaps, frozenset(read), frozenset(sources), tuple(rules))


def _apart(gaps: Iterable[tuple[int, int]]) -> Gaps:
    joined: list[tuple[int, int]] = []
    for after, until in sorted(gaps):
        if joined and after <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], until)
        else:
            joined.append((after, until))
    return tuple(joined)
