"""The frontier of every track, derived from receipts: its climb step by step, and the other engine beside it.

A receipt moves the frontier of its track when it is faster than all before it and was neither refused, left unproved
nor superseded. A run that gained too little for a tier was measured all the same, and moves it too.
Figures that no receipt holds never do, and what is noted beside a run (``load``, ``ping``) has no frontier. Order is
that of the history: the chain's, or the source's of foreign runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.claims.evidence import Evidence, list_evidence
from k3_ledger.rescore.native import BESIDE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from k3_ledger.rescore.replay import Material
    from k3_ledger.rescore.slots import Track


@dataclass(frozen=True, slots=True)
class Climb:
    """The frontier of one track.

    Attributes:
        steps: receipts that moved it, in order; never empty.
        attempts: how many receipts measured the track and could have.
        reference: newest value of the other engine, sealed if there is one; None when nobody recorded any.
    """

    track: Track
    steps: tuple[Evidence, ...]
    attempts: int
    reference: Evidence | None

    @property
    def value(self) -> Fraction:
        """The frontier as it is now."""
        return self.steps[-1].value

    @property
    def multiple(self) -> Fraction | None:
        """The frontier as a multiple of the reference."""
        return self.value / self.reference.value if self.reference else None


def derive_climbs(material: Material, *, metric: str | None = None) -> list[Climb]:
    """The climb of each track that a receipt measured, in the order the tracks first appear."""
    evidence = [item for item in list_evidence(material) if metric in {None, item.track.metric}]
    attempts: dict[Track, int] = {}
    steps: dict[Track, list[Evidence]] = {}
    for item in _counting(evidence):
        attempts[item.track] = attempts.get(item.track, 0) + 1
        climbed = steps.setdefault(item.track, [])
        if not climbed or item.value > climbed[-1].value:
            climbed.append(item)
    return [
        Climb(track, tuple(climbed), attempts[track], _reference(track, evidence)) for track, climbed in steps.items()
    ]


def list_metrics(material: Material) -> list[str]:
    """Every metric that a history holds a figure of, sorted."""
    return sorted({item.track.metric for item in list_evidence(material)})


def _counting(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    return (
        item
        for item in evidence
        if item.sealed
        and item.accepted
        and item.actor == "subject"
        and item.primary
        and item.track.metric not in BESIDE
    )


def _reference(track: Track, evidence: list[Evidence]) -> Evidence | None:
    found = [
        item
        for item in evidence
        if item.track == track and item.actor == "reference" and item.primary and item.accepted
    ]
    sealed = [item for item in found if item.sealed]
    return (sealed or found)[-1] if found else None
