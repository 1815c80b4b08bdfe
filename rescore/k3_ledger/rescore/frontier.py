"""The frontier of every track, derived from receipts: its climb step by step, and the other engine beside it.

A receipt moves the frontier of its track when it is faster than all before it and was neither refused, left unproved
nor superseded. A run that gained too little for a tier was measured all the same, and moves it too.
Figures that no receipt holds never do, and what is noted beside a run (``load``, ``ping``) has no frontier. Order is
that of the history: the chain's, or the source's of foreign runs.

A name is no evidence that two files are one: what was measured on other weights is another frontier, under the same
name, and is compared with the other engine on those weights alone. Weights that no receipt names are one file, as far
as anybody knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.claims.evidence import Evidence, list_evidence
from k3_ledger.rescore.inputs import short_weights
from k3_ledger.rescore.slots import BESIDE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from k3_ledger.rescore.material import Material
    from k3_ledger.rescore.slots import Track


@dataclass(frozen=True, slots=True)
class Climb:
    """The frontier of one track.

    Attributes:
        steps: receipts that moved it, in order; never empty.
        attempts: how many receipts measured the track and could have.
        reference: newest value of the other engine on these weights, sealed if there is one; None when nobody recorded
            any.
        weights: digest of the weights; None where the receipts name none.
        namesakes: how many files of weights were measured under the track's name.
    """

    track: Track
    steps: tuple[Evidence, ...]
    attempts: int
    reference: Evidence | None
    weights: str | None = None
    namesakes: int = 1

    @property
    def label(self) -> str:
        """The track, and which weights where there are several under its name."""
        if self.namesakes == 1:
            return str(self.track)
        return f"{self.track} of {short_weights(self.weights)} ({self.namesakes} weights under one name)"

    @property
    def value(self) -> Fraction:
        """The frontier as it is now."""
        return self.steps[-1].value

    @property
    def multiple(self) -> Fraction | None:
        """The frontier as a multiple of the reference."""
        return self.value / self.reference.value if self.reference else None


def derive_climbs(material: Material, *, metric: str | None = None) -> list[Climb]:
    """The climb of each track that a receipt measured, on each file of weights, in the order these first appear."""
    evidence = [item for item in list_evidence(material) if metric in {None, item.track.metric}]
    attempts: dict[tuple[Track, str | None], int] = {}
    steps: dict[tuple[Track, str | None], list[Evidence]] = {}
    for item in _counting(evidence):
        key = item.track, item.weights
        attempts[key] = attempts.get(key, 0) + 1
        climbed = steps.setdefault(key, [])
        if not climbed or item.value > climbed[-1].value:
            climbed.append(item)
    names, references = count_weights(evidence), _references(evidence)
    return [
        Climb(track, tuple(climbed), attempts[track, weights], references.get((track, weights)), weights, names[track])
        for (track, weights), climbed in steps.items()
    ]


def count_weights(evidence: Iterable[Evidence]) -> dict[Track, int]:
    """How many files of weights receipts that count measured under the name of each track, whoever measured."""
    found: dict[Track, set[str | None]] = {}
    for item in evidence:
        if item.sealed and item.accepted:
            found.setdefault(item.track, set()).add(item.weights)
    return {track: len(weights) for track, weights in found.items()}


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


def _references(evidence: Iterable[Evidence]) -> dict[tuple[Track, str | None], Evidence]:
    """The other engine's newest value of each track on each file of weights, sealed if there is one."""
    found: dict[tuple[Track, str | None], Evidence] = {}
    for item in evidence:
        if item.actor == "reference" and item.primary and item.accepted:
            known = found.get((item.track, item.weights))
            if known is None or item.sealed or not known.sealed:
                found[item.track, item.weights] = item
    return found
