"""What a run gained and was credited: as its sealed verdict states it, else as the rule in force computes it.

One run has one gain. Its published verdict says which, where there is one. Else the rule that was in force computes it,
over the frontier that this rule holds the run against and from as much of the claim as the rule counts; what that rule
does not score gained nothing that anybody knows, and what it refuses supports nothing. Where a ledger had published no
rule for what a run measured, the newest house rule computes it and refuses it, but for how often the run was repeated,
and it was credited nothing. How often the frontier was is asked of credits alone: what a rule cannot tell from noise is
still the ratio of two speeds. An imported run of which no rule says anything gained what its own record says, over the
frontier that it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.rescore.doubt import newest_rule
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.rescore import IN_FORCE, NO_RUN, rescore
from k3_ledger.rescore.rules.measured_gain import FEW_SAMPLES
from k3_ledger.rescore.rules.verdict import NONE, REJECT, NotScorable
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.rescore.material import Candidate, Judged, Material
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.verdict import Scored, Verdict
    from k3_ledger.rescore.slots import Track

_NO_TIERS: Final = frozenset({NONE, REJECT})


@dataclass(frozen=True, slots=True)
class Gain:
    """What one run gained on one track.

    Attributes:
        gain: share of the frontier that it was held against; None where nothing is known, or there was no frontier.
        credit: what it was credited with; None where that is nothing, as it is without a tier.
        why: why no gain is known; empty where one is, or where there was no frontier.
        over: the frontier of other weights that it is over; None where it is of the run's own.
        ruled: whether a verdict or a rule in force says so.
        refused: which rule refuses a run that nobody judged, and by which gates, in words; empty where none does.
        mixed: whether it is not known because what the run was held against is of other weights.
    """

    candidate: Candidate
    gain: Fraction | None
    credit: Fraction | None = None
    why: str = ""
    over: Figure | None = None
    ruled: bool = True
    refused: str = ""
    mixed: bool = False


class Gains:
    """What runs of a history gained; each track is computed once for each rule, however many claims are about it."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._found: dict[tuple[Track, str], dict[int, Scored]] = {}

    def read(self, about: Sequence[Candidate]) -> list[Gain]:
        """The gain of each of some runs, in order."""
        return [
            self._computed(candidate) if candidate.decided is None else self._sealed(candidate, candidate.decided)
            for candidate in about
        ]

    def _says(self, rule: Rule | Literal["in-force"], candidate: Candidate) -> Scored:
        """What a rule says of a run; runs of other tracks move no frontier that it is held against."""
        track = candidate.run.track
        key = track, rule if isinstance(rule, str) else rule.sha256
        if key not in self._found:
            alike = [one for one in self._material.candidates if one.run.track == track]
            self._found[key] = {id(row.candidate): row.result for row in rescore(alike, rule).rows}
        return self._found[key][id(candidate)]

    def _computed(self, candidate: Candidate) -> Gain:
        """What a rule computes of a run that nobody judged."""
        ruled, result = True, self._says(IN_FORCE, candidate)
        if isinstance(result, NotScorable) and not candidate.native:
            return _recorded(candidate, result)
        if isinstance(result, NotScorable) and result.field == "rule":
            ruled, result = False, self._says(newest_rule(candidate.run.track), candidate)
        if isinstance(result, NotScorable):
            return Gain(candidate, None, why=result.message, ruled=ruled, mixed=result.reason == "weights")
        slot = candidate.run.track.slot("frontier")
        held = next((pin.figure for pin in result.pins if pin.slot == slot and pin.figure.source != NO_RUN), None)
        other = candidate.native and held is not None and held.weights != candidate.run.weights
        return Gain(
            candidate,
            result.gain,
            result.credit if ruled and result.tier not in _NO_TIERS else None,
            over=held if other else None,
            ruled=ruled,
            refused=_refused(result, ruled=ruled),
        )

    def _sealed(self, candidate: Candidate, verdict: Judged) -> Gain:
        """What the published verdict of a run states, over the frontier that it states."""
        over = self._held(candidate, verdict)
        return Gain(
            candidate,
            verdict.step("gain"),
            None if verdict.tier in _NO_TIERS else verdict.step("credit"),
            over=over if over is not None and over.weights != candidate.run.weights else None,
        )

    def _held(self, candidate: Candidate, verdict: Judged) -> Figure | None:
        """The frontier that a verdict was held against, with its weights: what it names, never what it might have."""
        slot, run = candidate.run.track.slot("frontier"), candidate.run
        entry = dict(verdict.pins).get(slot)
        known = [run.frontier, candidate.built, candidate.built_alike, candidate.pins.get(slot)]
        found = next((one for one in known if one is not None and one.source == entry), None)
        if found is None and entry is not None and entry in self._material.weights:
            return Figure(Fraction(0), "receipt", source=entry, weights=self._material.weights[entry])
        return found


def _refused(result: Verdict, *, ruled: bool) -> str:
    """Which rule refuses a run, and by which gates; how often it was repeated is a rule's to ask that was published."""
    gates = [gate for gate in result.gates if gate.outcome is Outcome.FAIL and (ruled or gate.reason != FEW_SAMPLES)]
    by = "the rule in force" if ruled else "the newest house rule"
    return f"{by}: {', '.join(gate.name for gate in gates)}" if gates else ""


def _recorded(candidate: Candidate, result: NotScorable) -> Gain:
    """What the record of an imported run says that it gained."""
    run = candidate.run
    if run.speed is None or run.frontier is None or run.frontier.value <= 0:
        return Gain(candidate, None, why=result.message, ruled=False)
    gain = (run.speed - run.frontier.value) / run.frontier.value
    return Gain(candidate, gain, why=result.message, ruled=False)
