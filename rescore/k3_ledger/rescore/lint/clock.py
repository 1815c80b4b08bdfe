"""Checks on the wall clock and the ceiling.

With a margin of ``m`` tokens and a jitter of ``J`` seconds: at speed ``v`` the clock's signal is ``m/v`` seconds, so
it is worth ``k`` jitters up to ``m/(kJ)``. A program that does none of the additional work still shows a difference
of up to ``J``, which passes the lower side ``w`` for every claim from ``m/(Jw)`` on: the crossover.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded, quantize
from k3_ledger.rescore.lint.bounds import TEN_TO_ONE
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach
from k3_ledger.rescore.native import DECIMALS
from k3_ledger.rescore.rules.judging import ALLOWANCE
from k3_ledger.rescore.rules.parameters import BY_MIDDLE, GRADING
from k3_ledger.schemas.repetitions import left_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.lint.context import Context
    from k3_ledger.rescore.rules.parameters import Clock

LEAST_MARGIN: Final = 1000
"""Tokens of the witness against a rule that fixes no margin."""


def check_clock_and_ceiling(context: Context) -> Iterator[LintFinding]:
    """Every fault of clock and ceiling."""
    clock = context.rule.clock
    if clock is None or context.metric not in clock.metrics:
        top = context.describe_ceiling(context.metric)
        beside = "and no ceiling either" if top is None else f"up to {top}"
        message = f"no clock is read for {context.metric}, {beside}"
        region = context.region("claim", most=context.ceiling(context.metric))
        yield LintFinding(Fault.NO_CLOCK, Reach.LIVE, region, message)
    if clock is not None:
        yield from _sides(context, clock)
        yield from _margin(context, clock)
        yield from _crossover(context, clock)
        if context.metric in clock.metrics:
            yield from _unproved(context, clock)
            yield from _wider(context, clock)
    yield from _ceiling(context)


def _sides(context: Context, clock: Clock) -> Iterator[LintFinding]:
    region = context.region("claim")
    if clock.clock_over_claim is None:
        message = "only claim/clock is bounded: a program that ignores the token count passes with any claim below it"
        yield LintFinding(Fault.ONE_SIDED_CLOCK, Reach.LIVE, region, message)
    for name, bound in (("claim/clock", clock.claim_over_clock), ("clock/claim", clock.clock_over_claim)):
        if bound is not None and bound < 1:
            message = f"{name} may be at most {format_exact(bound)}: a claim equal to the clock is refused"
            yield LintFinding(Fault.CLOCK_REFUSES_HONEST, Reach.LIVE, region, message)


def _margin(context: Context, clock: Clock) -> Iterator[LintFinding]:
    """Whether the margin stays worth its multiple of the jitter, and whether the bounds leave room for that jitter."""
    if clock.jitter_multiple is not None:
        yield from _room_for_jitter(context, clock, clock.jitter_multiple)
        yield from _measured_jitter(context, clock.jitter_multiple)
    elif clock.margin is not None:
        yield _fixed_margin(context, clock, clock.margin)
    else:
        message = "nothing sizes the margin: neither tokens nor a multiple of the jitter"
        yield LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, context.region("claim"), message)
    yield from _overasked(context, clock)


def _measured_jitter(context: Context, multiple: Fraction) -> Iterator[LintFinding]:
    """A margin that is held to the jitter of each run: by how much, and whether that jitter is measured.

    Where that is enough, tokens that the rule asks for besides are a floor and no more.
    """
    sampling, region = context.rule.sampling, context.region("claim")
    if sampling and sampling.repetitions < 2:
        message = f"jitter must be measured, yet {sampling.repetitions} repetition of a length is enough"
        yield LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, region, message)
    elif sampling:
        yield from _luck(context, sampling.repetitions)
    if multiple >= context.settings.signal_multiple:
        return
    # Both loads off by the jitter, and the clock reads just what is claimed. A signal of one jitter passes any less.
    signal = max(multiple, Fraction(1))
    moved = 2 / signal
    message = (
        f"a signal of {format_exact(multiple)}x the jitter is enough, and should be "
        f"{format_exact(context.settings.signal_multiple)}x: jitter that passes moves the clock by "
        f"{format_percent(moved)} %"
    )
    claim = format_exact(Fraction((1 + moved) * 10**DECIMALS // 1, 10**DECIMALS))
    witness = (
        ("claim", claim),
        ("clock", claim),
        ("frontier", "1"),
        ("signal_seconds", format_exact(signal)),
        ("jitter_seconds", "1"),
    )
    shows = "gains what two loads that are off by the jitter add, and no more"
    yield LintFinding(Fault.MARGIN_DROWNS, Reach.LIVE, region, message, witness, shows)


def _fixed_margin(context: Context, clock: Clock, margin: int) -> LintFinding:
    """Tokens that no run's own jitter is held against: from some speed on they are worth too little of it.

    A jitter of 0 is no word on it: no two loads take the same time.
    """
    jitter = context.jitter()
    frontier = context.frontier if context.metric in clock.metrics else _other(context, clock)
    if not jitter:
        now = "" if not frontier else f" ({format_rounded(margin / frontier, 1)} s at {format_exact(frontier)} tok/s)"
        word = "no word on jitter" if jitter is None else "a jitter of 0, which no clock has"
        message = f"a margin of {margin} tokens{now}, and {word}"
        return LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, context.region("claim"), message)
    multiple = context.settings.signal_multiple
    region = context.region("claim", margin / (multiple * jitter), above=True)
    reach = context.reach(region, frontier, _greatest(context, clock))
    assert region.first is not None
    signal = margin / region.first
    message = (
        f"{margin} tokens are worth less than {format_exact(multiple)}x a jitter of {format_exact(jitter)} s "
        f"above {format_rounded(margin / (multiple * jitter), 2)} tok/s"
    )
    witness = (("claim", format_exact(region.first)), ("jitter_seconds", format_exact(jitter)))
    shows = f"{format_rounded(signal, 3)} s of signal"
    return LintFinding(Fault.MARGIN_DROWNS, reach, region, message, witness, shows)


def _luck(context: Context, repetitions: int) -> Iterator[LintFinding]:
    """So few repetitions that their spread is often small by luck: a tenth of what it is, more than once in ten times.

    Of durations that are spread evenly, the distance of two that stand ``j`` apart when sorted is below a share of the
    whole with the chance that at least ``j`` of all fall into that share.
    """
    if repetitions >= TEN_TO_ONE:
        return  # half of them or more would have to fall into a tenth
    share, cut = 1 / TEN_TO_ONE, left_out(repetitions) if context.rule.arithmetic in BY_MIDDLE else 0
    apart, whole = repetitions - 1 - 2 * cut, Fraction(1, 2) if cut else Fraction(1)
    within = share * whole
    chance = Fraction(0)
    for count in range(apart, repetitions + 1):
        chance += math.comb(repetitions, count) * within**count * (1 - within) ** (repetitions - count)
    if chance > share:
        message = (
            f"of {repetitions} repetitions the jitter is less than a tenth of what it is in {format_percent(chance)} % "
            "of all cases"
        )
        witness = (("repetitions", str(repetitions)),)
        shows = "a margin that is sized by it passes, and is worth less than the jitter"
        yield LintFinding(Fault.JITTER_BY_LUCK, Reach.LIVE, context.region("claim"), message, witness, shows)


def _overasked(context: Context, clock: Clock) -> Iterator[LintFinding]:
    """A clock that must be ten times finer than the finest bound there is to hold against it, and more.

    Two loads that differ by the jitter move a reading by at most two parts in the multiple.
    """
    rule, multiple = context.rule, clock.jitter_multiple
    bounds = [clock.claim_over_clock - 1, rule.tiers.significance]
    bounds += [] if clock.clock_over_claim is None else [clock.clock_over_claim - 1]
    bounds += [ALLOWANCE] if rule.bears_out and clock.reading == "claim" else []
    finest = min([bound for bound in bounds if bound > 0], default=None)
    if multiple is None or finest is None or multiple <= 2 * TEN_TO_ONE / finest:
        return
    enough = format_exact(2 * TEN_TO_ONE / finest)
    message = (
        f"a signal of {format_rounded(multiple, 0)}x the jitter is asked for, and {enough}x is ten times finer than "
        f"the finest bound, {format_percent(finest)} %"
    )
    witness = (("claim", "1"), ("jitter_seconds", "0.001"), ("signal_seconds", format_rounded(multiple / 1000, 3)))
    shows = "what a run must last beyond the shorter one to prove its speed"
    yield LintFinding(Fault.CLOCK_OVERASKS, Reach.LIVE, context.region("claim"), message, witness, shows)


def _unproved(context: Context, clock: Clock) -> Iterator[LintFinding]:
    """A clock that equals the claim, over too little to prove it: refused where every gate grades and none excuses."""
    rule = context.rule
    if rule.arithmetic not in GRADING or rule.excuses:
        return
    multiple, margin = clock.jitter_multiple or Fraction(0), clock.margin or 0
    if multiple <= 0 and margin < 2:
        return
    tokens = margin or LEAST_MARGIN
    jitter = Fraction(0)
    if multiple > 0:
        jitter = tokens / multiple + context.step
    else:
        tokens -= 1
    message = f"{rule.arithmetic} refuses a run that is too short for its jitter, as if its clock contradicted it"
    witness = (
        ("claim", "1"),
        ("clock_tokens", str(tokens)),
        ("clock_seconds", str(tokens)),
        ("jitter_seconds", format_exact(jitter)),
    )
    shows = "refused, though the clock is what was claimed"
    yield LintFinding(Fault.CLOCK_REFUSES_UNPROVED, Reach.LIVE, context.region("claim"), message, witness, shows)


def _wider(context: Context, clock: Clock) -> Iterator[LintFinding]:
    """A claim that the clock refutes and the bound lets through, held against a frontier that is what the clock read.

    Asked of every arithmetic: a gate that admits and never grades lets the claim through as well, and the tier is that
    of the claim.
    """
    rule, bound = context.rule, clock.claim_over_clock
    if clock.reading == "clock":
        yield from _against_claims(context, clock.clock_over_claim)
        return
    counts = min(bound, 1 + ALLOWANCE) if rule.bears_out else bound
    if counts - 1 <= rule.tiers.significance:
        return
    message = (
        f"a claim counts up to {format_exact(counts)}x its clock, and {format_percent(rule.tiers.significance)} % of "
        "gain is a tier"
    )
    witness = (("claim", format_exact(counts)), ("clock", "1"), ("frontier", "1"))
    shows = f"gains {format_percent(counts - 1)} %, of which the clock saw none"
    yield LintFinding(Fault.CLOCK_WIDER_THAN_TIERS, Reach.LIVE, context.region("claim"), message, witness, shows)


def _against_claims(context: Context, bound: Fraction | None) -> Iterator[LintFinding]:
    """A clock above its claim that the bound lets through, scored against a frontier that is what was claimed."""
    significance = context.rule.tiers.significance
    if bound is not None and bound - 1 <= significance:
        return
    gains = max(significance, Fraction(0)) + context.step if bound is None else bound - 1
    most = "as far as anybody likes" if bound is None else f"up to {format_exact(bound)}x"
    message = (
        f"the clock is scored, and may be above the claim {most}; the frontier is a claim, and "
        f"{format_percent(significance)} % of gain is a tier"
    )
    witness = (("claim", "1"), ("clock", format_exact(1 + gains)), ("frontier", "1"))
    shows = f"gains {format_percent(gains)} %, though it claims what the frontier does"
    yield LintFinding(Fault.CLOCK_AGAINST_CLAIMS, Reach.LIVE, context.region("claim"), message, witness, shows)


def _room_for_jitter(context: Context, clock: Clock, multiple: Fraction) -> Iterator[LintFinding]:
    """Two loads that differ by the jitter move the difference of an honest run by up to twice that."""
    region = context.region("claim")
    if multiple <= 2:
        message = f"a signal of {format_exact(multiple)}x the jitter can vanish in the jitter of two loads"
        yield LintFinding(Fault.CLOCK_REFUSES_HONEST, Reach.LIVE, region, message)
        return
    upper, lower = 1 + 2 / multiple, multiple / (multiple - 2)
    for name, bound, needed in (
        ("claim/clock", clock.claim_over_clock, upper),
        ("clock/claim", clock.clock_over_claim, lower),
    ):
        if bound is not None and 1 <= bound < needed:
            message = (
                f"{name} may be at most {format_exact(bound)}, yet a jitter that {format_exact(multiple)}x admits "
                f"moves an honest run to {format_rounded(needed, 3)}"
            )
            yield LintFinding(Fault.CLOCK_REFUSES_HONEST, Reach.LIVE, region, message)


def _crossover(context: Context, clock: Clock) -> Iterator[LintFinding]:
    """Claims that neither the clock nor the ceiling bounds: jitter alone passes for the additional work."""
    if clock.clock_over_claim is None:
        return
    if clock.jitter_multiple is not None:
        if clock.jitter_multiple < clock.clock_over_claim:
            message = (
                f"a signal of {format_exact(clock.jitter_multiple)}x the jitter lets the jitter pass for work: "
                f"clock/claim may be {format_exact(clock.clock_over_claim)}"
            )
            yield LintFinding(Fault.CEILING_ABOVE_CROSSOVER, Reach.LIVE, context.region("claim"), message)
        return
    jitter = context.jitter()
    if clock.margin is None or not jitter:
        return
    crossover = clock.margin / (jitter * clock.clock_over_claim)
    for metric in clock.metrics:
        ceiling = context.ceiling(metric)
        if ceiling is not None and ceiling < crossover:
            continue
        region = context.region("claim", crossover, most=ceiling)
        top = context.describe_ceiling(metric) or "no ceiling"
        message = (
            f"{metric} claims from {format_rounded(crossover, 2)} tok/s to {top} are bounded by nothing: "
            f"{format_exact(jitter)} s of jitter pass for {clock.margin} tokens"
        )
        assert region.first is not None
        witness = (("claim", format_exact(region.first)), ("clock_seconds", format_exact(jitter)))
        yield LintFinding(Fault.CEILING_ABOVE_CROSSOVER, Reach.LIVE, region, message, witness, "an idle program passes")


def _ceiling(context: Context) -> Iterator[LintFinding]:
    ceiling = context.rule.ceiling
    if ceiling is None:
        return
    for metric in ceiling.metrics:
        if metric != context.metric and ceiling.basis == "scored-reference":
            bound = context.ceiling(metric)
            shown = "" if bound is None else f", {format_rounded(bound, 2)} tok/s"
            message = (
                f"the ceiling on {metric} is {format_exact(ceiling.multiple)}x the reference of {context.metric}{shown}"
            )
            yield LintFinding(Fault.CEILING_OF_OTHER_METRIC, Reach.LIVE, context.region("claim", most=bound), message)
        if metric != context.metric and ceiling.basis != "own-best":
            yield from _below_guarded(context, metric, ceiling.multiple)
    if context.metric not in ceiling.metrics:
        return
    needed = 1 + context.rule.tiers.significance
    if ceiling.basis == "own-best":
        if ceiling.multiple <= needed:
            most = format_exact(ceiling.multiple)
            message = f"a claim may reach {most}x the frontier and must pass {format_exact(needed)}x"
            yield LintFinding(Fault.CEILING_EXPIRES, Reach.LIVE, context.region("frontier"), message)
        return
    if needed > 0:
        yield _stands_still(context, ceiling.multiple, needed)


def _stands_still(context: Context, multiple: Fraction, needed: Fraction) -> LintFinding:
    """A ceiling that no frontier moves; where its reference is not pinned, in multiples of that."""
    bound = context.ceiling(context.metric)
    # The ceiling holds the claim as it is, the tier the claim as it is rounded: that much may still be significant.
    highest = multiple if bound is None else quantize(bound, context.rule.precision.speed)
    region = context.region("frontier", highest / needed, relative=bound is None)
    best = context.rule.tiers.steps[0] if context.rule.tiers.steps else None
    unit, first = "" if bound is not None else "x", ""
    if best is not None and best[1] > -1:
        out = (multiple if bound is None else bound) / (1 + best[1])
        first = f"; {best[0]} is out of reach from {format_rounded(out, 2)}{unit}"
    assert region.first is not None
    said = f"{format_rounded(bound, 2)} tok/s" if bound is not None else f"{format_exact(multiple)}x the reference"
    message = (
        f"the ceiling is {said} whatever the frontier: "
        f"from {format_exact(region.first)}{unit} on nothing that gains enough is admitted{first}"
    )
    unpinned = (("reference", "1"),) if bound is None else ()
    witness = (*unpinned, ("frontier", format_exact(region.first)), ("ceiling", format_exact(bound or multiple)))
    reach = context.reach(region, context.frontier_by_reference, bound)
    shows = "no speed is both significant and admitted"
    return LintFinding(Fault.CEILING_EXPIRES, reach, region, message, witness, shows)


def _below_guarded(context: Context, metric: str, multiple: Fraction) -> Iterator[LintFinding]:
    """A guarded metric that is above its ceiling where it stands, as measured or pinned; or nobody knows where that is.

    Such a ceiling stands still while the metric is another rule's to raise.
    """
    guard, bound = context.rule.guard, context.ceiling(metric)
    if guard is None or guard.metric != metric:
        return
    now = context.value_of(metric, guard.context) or context.pinned("guard", metric, guard.context)
    if bound is not None and now is not None and now <= bound:
        return
    region = context.region("guarded", multiple if bound is None else bound, above=True, relative=bound is None)
    assert region.first is not None
    top, at = context.describe_ceiling(metric), "" if now is None else f" at {format_exact(now)}"
    if bound is not None and now is not None:
        message = f"{metric} is{at}, above {top}"
        witness = (("guarded", format_exact(now)), ("ceiling", format_exact(bound)))
        yield LintFinding(Fault.CEILING_BELOW_GUARDED, Reach.LIVE, region, message, witness, "refused")
        return
    where = f"{metric} is{at}" if now is not None else f"the rule does not say where {metric} is"
    message = f"{where}, and past {top} every run is refused"
    unpinned = (("reference", "1"),) if bound is None else ()
    witness = (*unpinned, ("guarded", format_exact(region.first)), ("ceiling", format_exact(bound or multiple)))
    yield LintFinding(Fault.CEILING_BELOW_GUARDED, Reach.REACHABLE, region, message, witness, "refused")


def _greatest(context: Context, clock: Clock) -> Fraction | None:
    """Greatest claim that is admitted of any metric the clock is read for; None for no bound."""
    bounds = [context.ceiling(metric) for metric in clock.metrics]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) and known else None


def _other(context: Context, clock: Clock) -> Fraction | None:
    """Newest value of a guarded metric that the clock is read for, when the scored one is not."""
    guard = context.rule.guard
    return context.value_of(guard.metric, guard.context) if guard and guard.metric in clock.metrics else None
