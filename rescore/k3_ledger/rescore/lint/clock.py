"""Checks on the wall clock and the ceiling.

With a margin of ``m`` tokens and a jitter of ``J`` seconds: at speed ``v`` the clock's signal is ``m/v`` seconds, so
it is worth ``k`` jitters up to ``m/(kJ)``. A program that does none of the additional work still shows a difference
of up to ``J``, which passes the lower side ``w`` for every claim from ``m/(Jw)`` on: the crossover.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded, quantize
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach
from k3_ledger.rescore.rules.judging import ALLOWANCE
from k3_ledger.rescore.rules.parameters import GRADING

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
        ceiling = context.ceiling(context.metric)
        beside = "and no ceiling either" if ceiling is None else f"up to the ceiling {format_rounded(ceiling, 2)}"
        message = f"no clock is read for {context.metric}, {beside}"
        region = context.region("claim", most=ceiling)
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
        sampling = context.rule.sampling
        if sampling and sampling.repetitions < 2:
            message = f"jitter must be measured, yet {sampling.repetitions} repetition of a length is enough"
            yield LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, context.region("claim"), message)
    if clock.margin is None:
        if clock.jitter_multiple is None:
            message = "nothing sizes the margin: neither tokens nor a multiple of the jitter"
            yield LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, context.region("claim"), message)
        return
    jitter = context.jitter()
    frontier = context.frontier if context.metric in clock.metrics else _other(context, clock)
    if jitter is None:
        now = (
            ""
            if not frontier
            else f" ({format_rounded(clock.margin / frontier, 1)} s at {format_exact(frontier)} tok/s)"
        )
        message = f"a margin of {clock.margin} tokens{now}, and no word on jitter"
        yield LintFinding(Fault.MARGIN_WITHOUT_JITTER, Reach.LIVE, context.region("claim"), message)
        return
    if jitter == 0:
        return
    multiple = context.settings.signal_multiple
    region = context.region("claim", clock.margin / (multiple * jitter), above=True)
    reach = context.reach(region, frontier, _greatest(context, clock))
    assert region.first is not None
    signal = clock.margin / region.first
    message = (
        f"{clock.margin} tokens are worth less than {format_exact(multiple)}x a jitter of {format_exact(jitter)} s "
        f"above {format_rounded(clock.margin / (multiple * jitter), 2)} tok/s"
    )
    witness = (("claim", format_exact(region.first)), ("jitter_seconds", format_exact(jitter)))
    shows = f"{format_rounded(signal, 3)} s of signal"
    yield LintFinding(Fault.MARGIN_DROWNS, reach, region, message, witness, shows)


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

    Asked of rules whose gates grade alone: the gates of others change no tier.
    """
    rule, bound = context.rule, clock.claim_over_clock
    if rule.arithmetic not in GRADING or clock.reading == "clock":
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
    if clock.margin is None:
        if clock.jitter_multiple is not None and clock.jitter_multiple < clock.clock_over_claim:
            message = (
                f"a signal of {format_exact(clock.jitter_multiple)}x the jitter lets the jitter pass for work: "
                f"clock/claim may be {format_exact(clock.clock_over_claim)}"
            )
            yield LintFinding(Fault.CEILING_ABOVE_CROSSOVER, Reach.LIVE, context.region("claim"), message)
        return
    jitter = context.jitter()
    if not jitter:
        return
    crossover = clock.margin / (jitter * clock.clock_over_claim)
    for metric in clock.metrics:
        ceiling = context.ceiling(metric)
        if ceiling is not None and ceiling < crossover:
            continue
        if clock.jitter_multiple is not None and clock.jitter_multiple >= clock.clock_over_claim:
            continue
        region = context.region("claim", crossover, most=ceiling)
        top = "no ceiling" if ceiling is None else f"the ceiling {format_rounded(ceiling, 2)}"
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
        if metric != context.metric:
            yield from _below_guarded(context, metric)
    if context.metric not in ceiling.metrics:
        return
    needed = 1 + context.rule.tiers.significance
    if ceiling.basis == "own-best":
        if ceiling.multiple <= needed:
            most = format_exact(ceiling.multiple)
            message = f"a claim may reach {most}x the frontier and must pass {format_exact(needed)}x"
            yield LintFinding(Fault.CEILING_EXPIRES, Reach.LIVE, context.region("frontier"), message)
        return
    bound = context.ceiling(context.metric)
    if bound is None or needed <= 0:
        return
    # The ceiling holds the claim as it is, the tier the claim as it is rounded: that much may still be significant.
    highest = quantize(bound, context.rule.precision.speed)
    region = context.region("frontier", highest / needed)
    best = context.rule.tiers.steps[0] if context.rule.tiers.steps else None
    first = ""
    if best is not None and best[1] > -1:
        first = f"; {best[0]} is out of reach from {format_rounded(bound / (1 + best[1]), 2)}"
    assert region.first is not None
    message = (
        f"the ceiling is {format_rounded(bound, 2)} tok/s whatever the frontier: "
        f"from {format_exact(region.first)} on nothing that gains enough is admitted{first}"
    )
    witness = (("frontier", format_exact(region.first)), ("ceiling", format_exact(bound)))
    reach = context.reach(region, context.frontier, bound)
    yield LintFinding(
        Fault.CEILING_EXPIRES, reach, region, message, witness, "no speed is both significant and admitted"
    )


def _below_guarded(context: Context, metric: str) -> Iterator[LintFinding]:
    """A guarded metric that is above its ceiling where it stands, as measured or pinned."""
    guard, bound = context.rule.guard, context.ceiling(metric)
    if guard is None or guard.metric != metric or bound is None:
        return
    now = context.value_of(metric, guard.context) or context.pinned("guard", metric, guard.context)
    if now is None or now <= bound:
        return
    region = context.region("guarded", bound, above=True)
    message = f"the ceiling on {metric} is {format_rounded(bound, 2)}, and {metric} is at {format_exact(now)}"
    witness = (("guarded", format_exact(now)), ("ceiling", format_exact(bound)))
    yield LintFinding(Fault.CEILING_BELOW_GUARDED, Reach.LIVE, region, message, witness, "refused")


def _greatest(context: Context, clock: Clock) -> Fraction | None:
    """Greatest claim that is admitted of any metric the clock is read for; None for no bound."""
    bounds = [context.ceiling(metric) for metric in clock.metrics]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) and known else None


def _other(context: Context, clock: Clock) -> Fraction | None:
    """Newest value of a guarded metric that the clock is read for, when the scored one is not."""
    guard = context.rule.guard
    return context.value_of(guard.metric, guard.context) if guard and guard.metric in clock.metrics else None
