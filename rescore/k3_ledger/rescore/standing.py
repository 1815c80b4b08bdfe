"""What counts: one definition of it for rescore, frontier, reconcile, claims, and verdicts that are derived again.

1. *Standing.* An entry counts from its position on, until it is superseded; one that a revocation took back never did.
   Superseding is final and holds for entries of any kind: runs, pins, merges, rules, verdicts, imports. Whoever derives
   again what was sealed at a position asks what stood *there*, so that an honest supersession never makes an earlier
   honest verdict false; everybody else asks what stands at the head.
2. *Newest.* Position decides: that of the chain, or of the source in a log that has no chain. A claimed time decides
   only against something that has no position at all, such as a line of a file.
3. *Published.* What is published of a run on a track is its first verdict that stands under a rule that was known
   where it was sealed, one that is registered or that the ledger itself had published in front of it, and that scores
   this metric at this context: a tier at 64 tokens says nothing of what the same build does behind 131,072. Judging it
   again changes nothing, and neither does publishing a rule behind it: or whoever holds back a rule could decide later
   what had been published. A verdict that states a pin from a file says what would be if that were so: nobody can
   derive it from the ledger alone, so it publishes nothing.

What may be compared with what is :class:`k3_ledger.rescore.slots.Track`'s to say.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from k3_ledger.rescore.rules.parameters import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from k3_ledger.rescore.slots import Track
    from k3_ledger.verify.log import VerifiedLog


@dataclass(frozen=True, slots=True)
class Standing:
    """Which entries were superseded, and from which position on.

    Attributes:
        since: position of the first entry that supersedes an identity, by that identity.
    """

    since: Mapping[str, int] = field(default_factory=dict)

    def stands(self, identity: str, *, at: int | None = None) -> bool:
        """Whether an entry counts for what is sealed at position ``at``; None asks for the head.

        That it stands in the log, and was not taken back, is the caller's to know.
        """
        since = self.since.get(identity)
        return since is None or (at is not None and since >= at)

    def gone(self, *, at: int | None = None) -> frozenset[str]:
        """Identities that no longer count at ``at``."""
        return frozenset(identity for identity in self.since if not self.stands(identity, at=at))

    def turns(self) -> Turns:
        """The positions at which something ceased to count."""
        return Turns(tuple(sorted(set(self.since.values()))))


@dataclass(frozen=True, slots=True)
class Turns:
    """Positions at which something ceased to count, ascending."""

    positions: tuple[int, ...]

    def after(self, at: int) -> int | None:
        """The position up to which all that counts at ``at`` still does; None when that is the head.

        ``gather(log, at=turns.after(position))`` is what a verdict at ``position`` could rest on, and the same for
        every verdict in front of the next supersession: gather once for each of those, not once a verdict.
        """
        found = bisect_left(self.positions, at)
        return self.positions[found] if found < len(self.positions) else None


def read_standing(log: VerifiedLog) -> Standing:
    """What the supersessions of a log say; those that were taken back say nothing.

    Raises:
        VerificationError: the bytes changed since they were verified.
    """
    since: dict[str, int] = {}
    for entry in log.select(b'"kind":"supersede"'):
        if entry.entry.kind == "supersede":
            since.setdefault(entry.entry.body.target, entry.index)
    return Standing(since)


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was recorded.

    Attributes:
        position: in the chain, or in the source; None for a line of a file.
        time: as claimed, by whoever recorded it.
    """

    position: int | None = None
    time: datetime | None = None

    def is_after(self, other: Moment, *, or_same: bool = False) -> bool:
        """Whether it was recorded after another moment; False where nothing tells.

        Args:
            other: the other moment.
            or_same: what to say of two moments that are one.
        """
        if self.position is not None and other.position is not None:
            return self.position > other.position or (or_same and self.position == other.position)
        if self.time is None or other.time is None:
            return False
        return self.time > other.time or (or_same and self.time == other.time)


@dataclass(frozen=True, slots=True)
class Known:
    """A rule that verdicts may be by.

    Attributes:
        scope: what it scores.
        published: (position, that of the first supersession of it or None) of each entry that published it, in order.
    """

    scope: Scope
    published: tuple[tuple[int, int | None], ...]

    def counts(self, *, at: int | None = None) -> bool:
        """Whether a verdict under it that is sealed at a position publishes anything; None asks for the head."""
        return any(
            gone is None if at is None else since < at and (gone is None or gone >= at)
            for since, gone in self.published
        )


SHIPPED: Final = ((-1, None),)
"""Where a registered rule was published: in front of every entry."""


def note_rule(known: dict[str, Known], sha256: str, scope: Scope, since: int, gone: int | None) -> None:
    """Add one ``rule`` entry to the rules that are known."""
    before = known[sha256].published if sha256 in known else ()
    known[sha256] = Known(scope, (*before, (since, gone)))


class Said(Protocol):
    """A verdict, as far as this module reads it."""

    @property
    def index(self) -> int:
        """Its position."""

    @property
    def rule_sha256(self) -> str:
        """Digest of its rule."""

    @property
    def supposed(self) -> bool:
        """Whether a pin that it states was taken from a file."""

    @property
    def metric(self) -> str:
        """The metric that it judges."""


AnySaid = TypeVar("AnySaid", bound=Said)


def said_of(track: Track, verdicts: Iterable[AnySaid], known: Mapping[str, Known]) -> list[AnySaid]:
    """Verdicts on a run that may be about this track of it: their rule scores it, or is not known even by now.

    Args:
        track: what the run was measured on.
        verdicts: those on the run that stand, oldest first.
        known: rules that are known, by digest.
    """
    scope = Scope(track.metric, track.context)
    mine = [one for one in verdicts if one.metric == track.metric]
    return [one for one in mine if one.rule_sha256 not in known or known[one.rule_sha256].scope == scope]


def publishes(rule_sha256: str, known: Mapping[str, Known], *, supposed: bool, at: int | None = None) -> bool:
    """Whether a verdict at a position publishes a tier: under a rule that was known there, by the ledger's own pins.

    Args:
        rule_sha256: digest of its rule.
        known: rules that are known, by digest.
        supposed: whether a pin that it states was taken from a file.
        at: its position; None asks for one that would be sealed at the head.
    """
    rule = known.get(rule_sha256)
    return rule is not None and not supposed and rule.counts(at=at)


def first_published(verdicts: Iterable[AnySaid], known: Mapping[str, Known]) -> AnySaid | None:
    """The verdict that is published of a run on one track: the first that publishes anything.

    Args:
        verdicts: those about the track that stand, oldest first.
        known: rules that are known, by digest.
    """
    return next(
        (one for one in verdicts if publishes(one.rule_sha256, known, supposed=one.supposed, at=one.index)), None
    )


def is_supposed(body: Any) -> bool:
    """Whether a ``verdict`` body (struct or model) states a pin that was taken from a file."""
    return any(pin.source == "file" for pin in body.pins)
