"""Decide claims: each part of a claim by itself, with the evidence it rests on; the worst part decides the whole.

1. ``supported``: a receipt that was neither refused nor superseded holds the value. What was published of it decides
   whether it was refused (:mod:`k3_ledger.rescore.standing`), not what it was judged since.
2. ``unsealed``: only a figure that no receipt holds does: a log line, a pin, the shipped history.
3. ``stale``: it was so, and newer evidence on the same track says otherwise.
4. ``no-receipt``: nothing holds it.
5. ``ambiguous``: several receipts could be meant, for they begin alike or hold it alike, or they disagree; or the
   records of one disagree about its tier.
6. ``contradicted``: the evidence says something else.

Ratios are never taken on trust: they are computed again from the evidence of both sides. What is newest, and what a
climb began at, is decided by position in the log. A name is no evidence that two files are one: sides that were
measured on different weights are not compared but ambiguous, and a value of a track under whose name there are several
says which it was measured on.
"""

from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.claims.evidence import Evidence, list_evidence, list_pins
from k3_ledger.rescore.claims.gains import Gains
from k3_ledger.rescore.claims.runs import decide_about_runs
from k3_ledger.rescore.claims.status import Part, Status, near
from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.inputs import short_weights
from k3_ledger.rescore.reconcile import compare
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from k3_ledger.rescore.claims.reading import Amount, Claim
    from k3_ledger.rescore.material import Material


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one claim.

    Attributes:
        parts: in the order they were looked at; never empty.
    """

    claim: Claim
    parts: tuple[Part, ...]

    @property
    def status(self) -> Status:
        """That of the worst part."""
        return max((part.status for part in self.parts), key=list(Status).index)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Everything its parts rest on, each once."""
        return tuple(dict.fromkeys(item for part in self.parts for item in part.evidence))


_SHOWN: Final = 5
"""Most receipts that are named one by one where several could be meant."""
_CODES: Final = {
    Status.UNSEALED: Code.CLAIM_UNSEALED,
    Status.STALE: Code.CLAIM_STALE,
    Status.NO_RECEIPT: Code.CLAIM_NO_RECEIPT,
    Status.AMBIGUOUS: Code.CLAIM_AMBIGUOUS,
    Status.CONTRADICTED: Code.CLAIM_CONTRADICTED,
}


@dataclass(frozen=True, slots=True)
class ClaimsReport:
    """All claims of a file, in its order."""

    decisions: tuple[Decision, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding for each claim that is not supported."""
        return tuple(
            Finding(
                _CODES[decision.status],
                f"claim {decision.claim.id}: {_worst(decision).why}",
                decision.claim.position,
            )
            for decision in self.decisions
            if decision.status is not Status.SUPPORTED
        )

    @property
    def exit_code(self) -> ExitCode:
        """1 when a claim is contradicted, stale, ambiguous or without a receipt; 0 otherwise."""
        return max((finding.code.info.exit for finding in self.findings), default=ExitCode.VERIFIED)


def check_claims(claims: Sequence[Claim], material: Material) -> ClaimsReport:
    """Decide each claim against what a history holds."""
    evidence, gains = list_evidence(material), Gains(material)
    return ClaimsReport(tuple(Decision(claim, _decide(claim, material, evidence, gains)) for claim in claims))


def _decide(claim: Claim, material: Material, evidence: list[Evidence], gains: Gains) -> tuple[Part, ...]:
    """Its parts, once it is known which receipt is meant."""
    if claim.receipt is not None:
        called = material.called(claim.receipt)
        if len(called) > 1:
            return (Part("receipt", Status.AMBIGUOUS, _several(claim.receipt, called)),)
        claim = replace(claim, receipt=called[0] if called else claim.receipt)
    return _decide_parts(claim, material, evidence, gains)


def _several(name: str, called: list[str]) -> str:
    """Which receipts a name could mean, each with as many digits as tell them apart."""
    least, most = min(called), max(called)
    same = next(at for at, signs in enumerate(zip_longest(least, most)) if signs[0] != signs[1])
    digits = max(8, same + 2)
    shown = ", ".join(one[:digits] for one in called[:_SHOWN]) + (", …" if len(called) > _SHOWN else "")
    return f"{len(called)} receipts begin with {name}: {shown}"


def _decide_parts(claim: Claim, material: Material, evidence: list[Evidence], gains: Gains) -> tuple[Part, ...]:
    if claim.kind == "speed":
        return _speed(claim, evidence)
    if claim.kind == "ratio":
        return (_multiple(claim, evidence),)
    if claim.kind == "pin":
        return _pin(claim, evidence, list_pins(material))
    return decide_about_runs(claim, material, gains)


def _worst(decision: Decision) -> Part:
    return next(part for part in decision.parts if part.status is decision.status)


# ------------------------------------------------------------------------------------------------------- speeds


class _Side(enum.Enum):
    VALUE = "value"
    START = "start"


def _speed(claim: Claim, evidence: list[Evidence]) -> tuple[Part, ...]:
    assert claim.value is not None
    value = _naming(claim, _held(claim, claim.value, evidence, _Side.VALUE), evidence)
    parts = [value]
    start = None
    if claim.start is not None:
        start = _start(claim, claim.start, evidence, value)
        parts.append(start)
    if claim.ratio is not None:
        parts.append(_ratio(claim, claim.ratio, value, start, evidence))
    if claim.current:
        parts.append(_naming(claim, _current(claim, claim.value, evidence), evidence))
    return tuple(parts)


def _naming(claim: Claim, part: Part, evidence: list[Evidence]) -> Part:
    """The part, with the weights it is about where receipts of several stand under the name of its track."""
    assert claim.track is not None
    files = {item.weights for item in evidence if item.track == claim.track and item.sealed and item.accepted}
    if len(files) < 2 or not part.evidence:
        return part
    of = ", ".join(dict.fromkeys(short_weights(item.weights) for item in part.evidence))
    return replace(part, why=f"{part.why}, on {of} ({len(files)} weights under one name)")


def _of_other_weights(sides: Sequence[Evidence]) -> str:
    """What is to be said of sides in receipts that measured different weights; empty where nothing is."""
    files = list(dict.fromkeys(item.weights for item in sides if item.sealed))
    if len(files) < 2:
        return ""
    return f"its sides are of different weights: {' and '.join(short_weights(one) for one in files)}"


def _start(claim: Claim, amount: Amount, evidence: list[Evidence], value: Part) -> Part:
    """Whether anything holds what a climb began at, recorded no later than the value that it came to."""
    if not value.evidence:
        return _held(claim, amount, evidence, _Side.START)
    end = value.evidence[0].moment
    by_then = [item for item in evidence if not item.moment.is_after(end)]
    alike = _held(claim, amount, [item for item in by_then if item.weights == value.evidence[0].weights], _Side.START)
    if alike.status is Status.SUPPORTED:
        return alike
    start = _held(claim, amount, by_then, _Side.START)
    if start.status is not Status.NO_RECEIPT:
        return start
    later = [item for item in _pool(claim, evidence) if item.accepted and near(item.value, amount, claim.tolerance)]
    if not later:
        return start
    why = f"{later[0].says} measured it, after {value.evidence[0].says}"
    return Part(_Side.START.value, Status.CONTRADICTED, why, (later[0],))


def _pool(claim: Claim, evidence: list[Evidence]) -> list[Evidence]:
    """Everything about the actor of a claim on its track, by the clock it names or by the one the actor is known by."""
    return [
        item
        for item in evidence
        if item.track == claim.track
        and item.actor == claim.actor
        and (item.primary if claim.observer is None else item.observer == claim.observer)
    ]


def _held(claim: Claim, amount: Amount, evidence: list[Evidence], side: _Side) -> Part:  # noqa: PLR0911 - one a status
    """Whether anything holds a value, and what."""
    pool = _pool(claim, evidence)
    mine = side is _Side.VALUE
    if mine and claim.receipt is not None:
        pool = [item for item in pool if item.is_of(claim.receipt)]
        if not pool:
            return Part(side.value, Status.NO_RECEIPT, f"no receipt {claim.receipt[:8]} measures {claim.track}")
    matching = [item for item in pool if near(item.value, amount, claim.tolerance)]
    receipts = [item for item in matching if item.sealed and item.accepted]
    own = [item for item in pool if mine and claim.pull_request and item.pull_request == claim.pull_request]
    if mine and claim.pull_request is not None:
        receipts = [item for item in receipts if item.pull_request == claim.pull_request]
    if len({item.receipt for item in receipts}) > 1 and mine and claim.receipt is None:
        said = ", ".join(item.says for item in receipts)
        return Part(side.value, Status.AMBIGUOUS, f"{len(receipts)} receipts hold it: {said}", tuple(receipts))
    if receipts:
        return Part(side.value, Status.SUPPORTED, f"{receipts[0].says} holds it", (receipts[0],))
    own.sort(key=lambda item: abs(item.value - amount.value))
    beside = f"; {own[0].says} measured {format_rounded(own[0].value, 2)}" if own else ""
    unsealed = [item for item in matching if not item.sealed]
    if unsealed:
        return Part(side.value, Status.UNSEALED, f"{unsealed[0].says} has it, no receipt does{beside}", (unsealed[0],))
    if contested := [
        item for item in matching if item.contested and (item in own or not (mine and claim.pull_request))
    ]:
        return Part(side.value, Status.AMBIGUOUS, f"only {contested[0].says} holds it", (contested[0],))
    if matching and not (mine and claim.pull_request is not None):
        return Part(side.value, Status.CONTRADICTED, f"only {matching[0].says} holds it", (matching[0],))
    if own or (mine and claim.receipt is not None):
        other = (own or pool)[0]
        measured = f"{other.says} measured {format_rounded(other.value, 2)}"
        return Part(side.value, Status.CONTRADICTED, measured, (other,))
    return Part(side.value, Status.NO_RECEIPT, _nothing(claim, amount, pool, evidence))


def _nothing(claim: Claim, amount: Amount, pool: list[Evidence], evidence: list[Evidence]) -> str:
    if not pool:
        tracks = {str(item.track).casefold(): str(item.track) for item in evidence}
        near_ = difflib.get_close_matches(str(claim.track).casefold(), tracks, n=1, cutoff=0.9)
        other = tracks[near_[0]] if near_ else str(claim.track)
        meant = f"; did you mean {other}?" if other != str(claim.track) else ""
        return f"nothing measured this at all{meant}"
    claims = [one for one in pool if one.claimed is not None and near(one.claimed, amount, claim.tolerance)]
    nearest = min(claims or pool, key=lambda item: abs(item.value - amount.value))
    return f"nothing holds it; nearest is {format_rounded(nearest.value, 2)}, {nearest.says}"


def _ratio(  # noqa: PLR0911 - one a status
    claim: Claim, ratio: Amount, value: Part, start: Part | None, evidence: list[Evidence]
) -> Part:
    """Compute a published multiple again from the evidence of both sides, or from the claim where there is none."""
    assert claim.value is not None
    upper, lower = (value.evidence[0] if value.evidence else None), None
    if claim.against == "start":
        assert claim.start is not None
        lower = start.evidence[0] if start and start.evidence else None
        base = lower.value if lower else claim.start.value
    else:
        lower = _other_side(claim, upper, evidence)
        if lower is None:
            return Part("ratio", Status.NO_RECEIPT, f"nothing measured {claim.against} on {claim.track}")
        base = lower.value
    top = upper.value if upper else claim.value.value
    found = base / top if claim.inverse else top / base
    sides = tuple(item for item in (upper, lower) if item is not None)
    shown = f"{format_rounded(top, 2)} / {format_exact(base)} is {format_rounded(found, ratio.places + 2)}"
    if claim.inverse:
        shown = f"{format_exact(base)} / {format_rounded(top, 2)} is {format_rounded(found, ratio.places + 2)}"
    if not near(found, ratio, claim.tolerance):
        return Part("ratio", Status.CONTRADICTED, f"{shown}, not {format_exact(ratio.value)}", sides)
    if len(sides) < 2:
        return Part("ratio", Status.NO_RECEIPT, f"{shown}, from figures that nothing holds", sides)
    if mixed := _of_other_weights(sides):
        return Part("ratio", Status.AMBIGUOUS, f"{shown}, but {mixed}", sides)
    if any(part is not None and part.status is Status.CONTRADICTED for part in (value, start)):
        return Part("ratio", Status.CONTRADICTED, f"{shown}, from a side that is contradicted", sides)
    if all(item.sealed for item in sides):
        return Part("ratio", Status.SUPPORTED, shown, sides)
    loose = next(item for item in sides if not item.sealed)
    return Part("ratio", Status.UNSEALED, f"{shown}; {format_exact(loose.value)} is {loose.says}, no receipt", sides)


def _multiple(claim: Claim, evidence: list[Evidence]) -> Part:
    """A multiple alone: computed from the newest receipt that has it, or from the one that is named."""
    assert claim.ratio is not None
    pool = [item for item in _pool(claim, evidence) if item.sealed and item.accepted]
    if claim.receipt is not None:
        pool = [item for item in pool if item.is_of(claim.receipt)]
    pairs = [(upper, lower) for upper in pool if (lower := _other_side(claim, upper, evidence))]
    if not pairs:
        beside = f" beside {claim.against}" if pool else ""
        return Part("ratio", Status.NO_RECEIPT, f"no receipt measures {claim.actor} on {claim.track}{beside}")
    multiples = [_repeated(upper, lower) for upper, lower in pairs]
    found = [1 / multiple if claim.inverse else multiple for multiple in multiples]
    newest = pairs[-1]
    shown = f"{newest[0].says} measured {format_rounded(found[-1], claim.ratio.places + 2)}"
    if mixed := _of_other_weights(newest):
        return Part("ratio", Status.AMBIGUOUS, f"{shown}, but {mixed}", newest)
    if near(found[-1], claim.ratio, claim.tolerance):
        if newest[1].sealed:
            return Part("ratio", Status.SUPPORTED, shown, newest)
        return Part("ratio", Status.UNSEALED, f"{shown} against {newest[1].says}, no receipt", newest)
    for pair, value in zip(pairs, found, strict=True):
        if near(value, claim.ratio, claim.tolerance):
            return Part("ratio", Status.STALE, f"{shown}; {pair[0].says} had {format_exact(claim.ratio.value)}", newest)
    return Part("ratio", Status.CONTRADICTED, f"{shown}, not {format_exact(claim.ratio.value)}", newest)


def _repeated(upper: Evidence, lower: Evidence) -> Fraction:
    """How many times as fast one side is: repetition by repetition where they took turns, else by their medians."""
    turns = dict(upper.beside) if upper.receipt == lower.receipt else {}
    return turns.get(lower.actor, upper.value / lower.value)


def _other_side(claim: Claim, upper: Evidence | None, evidence: list[Evidence]) -> Evidence | None:
    """What a value is compared with: the same receipt's other actor, else the newest by then, on its weights if any."""
    pool = [
        item
        for item in evidence
        if item.track == claim.track and item.actor == claim.against and item.primary and item.accepted
    ]
    if upper is not None and upper.receipt is not None:
        for item in pool:
            if item.receipt == upper.receipt:
                return item
    if claim.against != "reference":
        return None
    by_then = [item for item in pool if upper is None or not item.moment.is_after(upper.moment)]
    sealed = [item for item in by_then if item.sealed]
    alike = [item for item in sealed if upper is not None and item.weights == upper.weights]
    return (alike or sealed or by_then or [None])[-1]  # type: ignore[list-item]


def _current(claim: Claim, amount: Amount, evidence: list[Evidence]) -> Part:
    receipts = [item for item in _pool(claim, evidence) if item.sealed and item.accepted]
    if not receipts:
        return Part("current", Status.NO_RECEIPT, "nothing measured this at all")
    newest = receipts[-1]
    if near(newest.value, amount, claim.tolerance):
        return Part("current", Status.SUPPORTED, f"{newest.says} is the newest", (newest,))
    return Part("current", Status.STALE, f"{newest.says} measured {format_rounded(newest.value, 2)} since", (newest,))


def _pin(claim: Claim, evidence: list[Evidence], pins: list[Evidence]) -> tuple[Part, ...]:
    """A claim that something was pinned at one value while another was measured."""
    assert claim.value is not None
    assert claim.measured is not None
    measured = _held(claim, claim.measured, evidence, _Side.START)
    parts = [
        _pinned(claim, claim.value, pins),
        Part("measured", measured.status, measured.why, measured.evidence),
    ]
    sides = [*parts[0].evidence, *measured.evidence]
    if mixed := _of_other_weights(sides):
        parts.append(Part("weights", Status.AMBIGUOUS, mixed, tuple(sides)))
    drift = compare(claim.value.value, claim.measured.value)
    if drift.decision in {"stale", "alarm"} and drift.drift is not None:
        why = f"the pin was {format_percent(abs(drift.drift))} % off: stale"
        parts.append(Part("drift", Status.STALE, why))
    return tuple(parts)


def _pinned(claim: Claim, amount: Amount, pins: list[Evidence]) -> Part:
    """Whether that was ever pinned: a measurement of the same value is no pin."""
    here = [item for item in pins if item.track == claim.track]
    found = [item for item in here if near(item.value, amount, claim.tolerance)]
    if found:
        status = Status.SUPPORTED if found[-1].sealed else Status.UNSEALED
        return Part("pinned", status, f"{found[-1].says} has it", (found[-1],))
    if not here:
        return Part("pinned", Status.NO_RECEIPT, f"nothing pins {claim.track}")
    nearest = min(here, key=lambda item: abs(item.value - amount.value))
    return Part("pinned", Status.NO_RECEIPT, f"never pinned; nearest is {format_exact(nearest.value)}, {nearest.says}")
