"""Checks on credit and tiers.

Everything follows from the ratio of credit to gain, which depends on the frontier alone: with the anchor on it is
``min(F/L, cap)``, with the anchor off it is 1.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_percent
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach
from k3_ledger.rescore.rules.reading import TIERS
from k3_ledger.rescore.rules.tiers import grade, tier_of
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.lint.context import Context
    from k3_ledger.rescore.lint.findings import Region


def check_credit(context: Context) -> Iterator[LintFinding]:
    """Every fault of credit and tiers."""
    rule = context.rule
    if rule.tiers.significance < 0:
        yield _loss(context)
    anchored = rule.credit.anchored(context.metric)
    if anchored and rule.credit.cap <= 0:
        message = f"credit is capped at {format_exact(rule.credit.cap)} times the gain"
        yield LintFinding(Fault.CREDIT_NOT_MONOTONE, Reach.LIVE, context.region("frontier"), message)
    elif anchored:
        yield from _over(context)
        yield from _under(context)
    yield from _unreachable(context, anchored=anchored)
    yield from _names(context)


def _over(context: Context) -> Iterator[LintFinding]:
    """Where credit is more than the gain: the anchor from the reference on, the cap from cap times it on."""
    cap = context.rule.credit.cap
    if cap <= 1:
        return
    reference = context.reference or Fraction(1)
    limit = context.ceiling(context.metric)
    relative = context.reference is None
    region = context.region("frontier", reference, above=True, most=cap * reference, relative=relative)
    yield _credited(
        context,
        Fault.ANCHOR_OVER_GAIN,
        region,
        limit,
        f"the anchor credits up to {format_exact(cap)}x the gain once the frontier passes the reference "
        f"{_reference(context)}",
    )
    region = context.region("frontier", cap * reference, above=True, relative=relative)
    yield _credited(
        context,
        Fault.CAP_OVER_GAIN,
        region,
        limit,
        f"credit is {format_exact(cap)}x the gain once the frontier passes {format_exact(cap)}x the reference "
        f"{_reference(context)}",
    )


def _credited(context: Context, fault: Fault, region: Region, limit: Fraction | None, message: str) -> LintFinding:
    reach = context.reach(region, context.frontier_by_reference, limit)
    assert region.first is not None
    witness, shows = _witness(context, region.first)
    return LintFinding(fault, reach, region, message, witness, shows)


def _under(context: Context) -> Iterator[LintFinding]:
    """Where credit is less than the gain, and where the anchor has stopped to matter."""
    cap = context.rule.credit.cap
    reference, relative = context.reference or Fraction(1), context.reference is None
    frontier = context.frontier_by_reference
    if cap < 1:
        message = f"credit is at most {format_exact(cap)} of the gain"
        yield LintFinding(Fault.ANCHOR_DISCOUNT, Reach.LIVE, context.region("frontier"), message)
    elif frontier is None or frontier < reference:
        region = context.region("frontier", most=reference, below=True, relative=relative)
        shown = (
            "" if frontier is None else f": {format_percent(frontier / reference)} % of it at {format_exact(frontier)}"
        )
        message = f"below the reference {_reference(context)} the anchor credits less than was gained{shown}"
        at = frontier if frontier is not None and frontier > 0 else reference / 2
        witness, shows = _witness(context, at)
        # The frontier starts somewhere: only where it is known to be below is the discount in force.
        reach = Reach.REACHABLE if frontier is None else Reach.LIVE
        yield LintFinding(Fault.ANCHOR_DISCOUNT, reach, region, message, witness, shows)
    elif cap == 1:
        region = context.region("frontier", reference)
        message = f"from the reference {_reference(context)} on the anchor cannot bind"
        yield LintFinding(Fault.ANCHOR_INERT, Reach.LIVE, region, message, note=True)


def _unreachable(context: Context, *, anchored: bool) -> Iterator[LintFinding]:
    """Tiers that no significant gain can end in: the next better bar is reached at the significance bar already."""
    tiers, cap = context.rule.tiers, context.rule.credit.cap
    names = [name for name, _ in tiers.steps] + [tiers.floor]
    for better in range(len(tiers.steps)):
        bar = min(bar for _, bar in tiers.steps[: better + 1])
        name = names[better + 1]
        own = tiers.steps[better + 1][1] if better + 1 < len(tiers.steps) else None
        if own is not None and own >= bar:
            message = (
                f"no credit ends in {name}: its bar {_share(own)} is not below that of a better tier, {_share(bar)}"
            )
            yield LintFinding(Fault.TIER_UNREACHABLE, Reach.LIVE, context.region("frontier"), message)
            continue
        if bar <= 0 or (not anchored and bar <= tiers.significance):
            message = f"no significant gain ends in {name}: every one reaches the bar above it, {_share(bar)}"
            yield LintFinding(Fault.TIER_UNREACHABLE, Reach.LIVE, context.region("frontier"), message)
        elif anchored and bar <= tiers.significance * cap:
            yield _skipped(context, name, bar / tiers.significance)


def _names(context: Context) -> Iterator[LintFinding]:
    """Tiers whose names say something else than their bars: taken ones, and known ones out of their order."""
    tiers, region = context.rule.tiers, context.region("frontier")
    names = [name for name, _ in tiers.steps] + [tiers.floor]
    for name in dict.fromkeys(names):
        if name in {BASELINE, NONE, REJECT}:
            message = f"{name} is no tier, and a run of this one reads as if it had none"
            yield LintFinding(Fault.TIER_NAME_TAKEN, Reach.LIVE, region, message)
        elif names.count(name) > 1:
            message = f"{name} is the name of {names.count(name)} tiers"
            yield LintFinding(Fault.TIER_NAME_TAKEN, Reach.LIVE, region, message)
    known = [name for name in dict.fromkeys(names) if name in TIERS]
    for better, worse in itertools.pairwise(known):
        if TIERS.index(better) > TIERS.index(worse):
            message = f"{better} asks for more than {worse}, and everybody knows {worse} as the better one"
            yield LintFinding(Fault.TIER_ORDER, Reach.LIVE, region, message)
            return


def _skipped(context: Context, name: str, ratio: Fraction) -> LintFinding:
    reference = context.reference or Fraction(1)
    region = context.region("frontier", ratio * reference, relative=context.reference is None)
    message = (
        f"no significant gain ends in {name} once credit is {format_exact(ratio)}x the gain: "
        f"the significance bar {_share(context.rule.tiers.significance)} is past it"
    )
    assert region.first is not None
    witness, shows = _witness(context, region.first)
    reach = context.reach(region, context.frontier_by_reference, context.ceiling(context.metric))
    return LintFinding(Fault.TIER_UNREACHABLE, reach, region, message, witness, shows)


def _loss(context: Context) -> LintFinding:
    bar = context.rule.tiers.significance
    frontier = context.frontier or Fraction(1)
    speed = _first_significant(context, frontier)
    witness = (("speed", format_exact(speed)), ("frontier", format_exact(frontier)))
    message = f"a gain above {_share(bar)} is significant, so a loss is"
    region = context.region("frontier")
    return LintFinding(Fault.LOSS_IS_CREDITED, Reach.LIVE, region, message, witness, f"a tier for {_share(bar)}")


def _first_significant(context: Context, frontier: Fraction) -> Fraction:
    """Smallest speed on the grid whose gain is significant."""
    first = context.region("speed", frontier * (1 + context.rule.tiers.significance), above=True).first
    assert first is not None
    return first


def _witness(context: Context, frontier: Fraction) -> tuple[tuple[tuple[str, str], ...], str]:
    """Smallest speed whose tier by credit is not the tier its gain alone would have, else the first significant."""
    rule = context.rule
    reference = context.reference or Fraction(1)
    ratio = min(frontier / reference, rule.credit.cap)
    first = _first_significant(context, frontier)
    reaching = [
        context.region("speed", frontier * (1 + bar / share)).first
        for _, bar in rule.tiers.steps
        for share in (ratio, Fraction(1))
    ]
    speeds = sorted({first, *(speed for speed in reaching if speed is not None and speed > first)})
    speed = next(
        (
            speed
            for speed in speeds
            if _tier(context, (speed - frontier) / frontier * ratio) != _tier(context, (speed - frontier) / frontier)
        ),
        first,
    )
    graded = grade(rule.tiers, rule.credit, context.metric, speed=speed, frontier=frontier, reference=reference)
    assert graded is not None
    assert graded.gain is not None
    assert graded.credit is not None
    inputs = (("speed", speed), ("frontier", frontier), ("reference", reference))
    by_gain = tier_of(rule.tiers, graded.gain)
    shows = f"{graded.tier} by credit {_share(graded.credit)}, {by_gain} by gain {_share(graded.gain)}"
    return tuple((name, format_exact(value)) for name, value in inputs), shows


def _tier(context: Context, credit: Fraction) -> str:
    return tier_of(context.rule.tiers, credit)


def _reference(context: Context) -> str:
    return "(taken as 1: none is pinned)" if context.reference is None else format_exact(context.reference)


def _share(value: Fraction) -> str:
    return f"{format_percent(value, 2)} %"
