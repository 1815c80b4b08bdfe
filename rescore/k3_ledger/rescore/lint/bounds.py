"""Checks for gates that are missing, that no run can pass, and for bounds so wide that they bound nothing.

Where a bound becomes too wide is never a matter of taste here; there are two principles, written down as ADR 0049:

1. **A rule's own numbers.** What one gate gives away must not be more than what another asks for: a loss that a guard
   admits, a speed that rounding adds or a gain that a ceiling leaves is held against the significance and the bars of
   the rule itself.
2. **Ten to one**, as the clock's signal to its jitter. A bar is ten times stricter than what it is to keep out: for
   agreement that is a guess between two tokens, for a ceiling a claim that is plainly none.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact, format_percent, quantize
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach, Region
from k3_ledger.rescore.native import DECIMALS
from k3_ledger.rescore.rules.judging import ALLOWANCE
from k3_ledger.rescore.rules.parameters import GRADING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.lint.context import Context

TEN_TO_ONE: Final = Fraction(10)
KL_OF_A_GUESS: Final = Fraction(693_147, 1_000_000)
"""Divergence in nats of a model that is sure from one that cannot tell two tokens apart: the logarithm of 2."""
MISSES_OF_A_GUESS: Final = Fraction(1, 2)
"""Share of rows whose most likely token such a model misses."""
HALF_OF_THE_WORK: Final = Fraction(2)
"""A bound of the clock beyond which half of the work that is claimed need not be done."""
COLLAPSE: Final = Fraction(1, 2)
"""A guard that admits a loss of this share, by its own word, guards nothing."""


def _live(fault: Fault, region: Region, message: str, shows: str, **witness: Fraction | int | str) -> LintFinding:
    """A fault that holds wherever the frontier is."""
    inputs = tuple(
        (name, format_exact(value) if isinstance(value, Fraction) else str(value)) for name, value in witness.items()
    )
    return LintFinding(fault, Reach.LIVE, region, message, inputs, shows)


def check_bounds(context: Context) -> Iterator[LintFinding]:
    """Every missing gate, every gate that nothing passes, every bound that is too wide."""
    yield from _rounding(context)
    yield from _agreement(context)
    yield from _clock(context)
    yield from _ceiling(context)
    yield from _guard(context)
    yield from _sampling(context)
    yield from _recorded(context)


def _rounding(context: Context) -> Iterator[LintFinding]:
    """Frontiers so low that rounding a speed is a gain: half a step is more than the significance asks for.

    Where any gain is significant that is every frontier.

    Claims are recorded in six decimals, so a rule with as many rounds nothing. A frontier only rises: where it is
    known to be above, the region is behind it.
    """
    rule, step, least = context.rule, context.step, context.rule.tiers.significance
    if rule.precision.speed >= DECIMALS or not 0 <= least < 1:
        return
    most = step / (2 * least) if least else None
    # Frontiers are recorded in the decimals of claims, whatever the rule rounds to.
    region = replace(context.region("frontier", most=most, below=True), step=Fraction(1, 10**DECIMALS))
    frontier = context.frontier
    if frontier is not None and not region.covers(frontier):
        return
    # A speed that rounds up to the first step: between half of it and where a whole step is no gain.
    speed = quantize((step / 2 + step / (1 + least)) / 2, DECIMALS)
    gain = format_percent(step / speed - 1)
    beside = "any gain is significant"
    if most is not None:
        beside = f"half of that is more than {format_percent(least)} % of a frontier below {format_exact(most)}"
    message = f"speeds are rounded to {format_exact(step)} tok/s, and {beside}"
    witness = (("speed", format_exact(speed)), ("frontier", format_exact(speed)))
    reach = Reach.REACHABLE if frontier is None and most is not None else Reach.LIVE
    shows = f"gains {gain} % by rounding alone"
    yield LintFinding(Fault.ROUNDING_IS_CREDITED, reach, region, message, witness, shows)


def _agreement(context: Context) -> Iterator[LintFinding]:
    rule = context.rule.correctness
    widest = KL_OF_A_GUESS / TEN_TO_ONE
    if widest < rule.kl < KL_OF_A_GUESS:
        message = (
            f"kl may reach {format_exact(rule.kl)}: more than a tenth of a guess between two tokens, "
            f"{format_exact(widest)}"
        )
        region = Region("kl", widest, above=True, most=rule.kl, step=Fraction(1, 10**9), unit="nats")
        yield _live(Fault.KL_BAR_LAX, region, message, "passes the bar", kl=rule.kl)
    misses = int((1 - rule.top1) * rule.rows) if 0 < rule.top1 < 1 else 0
    most = MISSES_OF_A_GUESS / TEN_TO_ONE
    if misses > most * rule.rows:
        share = Fraction(misses, rule.rows)
        message = (
            f"{format_percent(share)} % of the rows may have another most likely token: more than a tenth of what a "
            "guess between two tokens misses"
        )
        region = Region("top1", rule.top1, most=1 - most, below=True, step=Fraction(1, 10**9), unit="")
        yield _live(Fault.TOP1_BAR_LAX, region, message, "passes the bar", top1=1 - share)
    depths, scored = sorted(set(rule.depths)), context.rule.scope.context
    if len(depths) > 1 and scored is not None and depths[-1] ** 2 < scored:
        message = f"agreement is graded up to {depths[-1]} tokens, and scored is what stands behind {scored}"
        region = Region("depth", Fraction(depths[-1]), above=True, step=Fraction(1), unit="tokens")
        yield _live(Fault.SUITE_SHALLOW, region, message, "is never graded", depth=depths[-1] + 1)


def _clock(context: Context) -> Iterator[LintFinding]:
    clock, region = context.rule.clock, context.region("claim")
    if clock is None:
        return
    said = "less than half of the work that is claimed passes for it"
    if (upper := clock.claim_over_clock) > HALF_OF_THE_WORK:
        message = f"claim/clock may be {format_exact(upper)}: {said}"
        yield _live(Fault.CLOCK_LAX, region, message, "passes", claim=upper, clock=1)
    if (lower := clock.clock_over_claim) is not None and lower > HALF_OF_THE_WORK:
        message = f"clock/claim may be {format_exact(lower)}: {said}"
        yield _live(Fault.CLOCK_LAX, region, message, "passes", claim=1, clock=lower)


def _ceiling(context: Context) -> Iterator[LintFinding]:
    rule, region = context.rule, context.region("claim")
    ceiling = rule.ceiling
    if ceiling is None or context.metric not in ceiling.metrics:
        message = f"no ceiling on {context.metric}: a clock that is stopped or slowed bounds no claim"
        shows = "no gate asks how it can be"
        yield _live(Fault.NO_CEILING, region, message, shows, claim=1_000_000, clock=1_000_000, frontier=1)
    if ceiling is None:
        return
    if ceiling.multiple > TEN_TO_ONE:
        base = "best" if ceiling.basis == "own-best" else "reference"
        message = f"a claim may reach {format_exact(ceiling.multiple)}x the {base}"
        yield _live(Fault.CEILING_LAX, region, message, "is plausible", claim=ceiling.multiple, best=1)
    guarded = rule.guard.metric if rule.guard else None
    for metric in ceiling.metrics:
        known = metric == context.metric or (ceiling.basis == "scored-reference" and metric == guarded)
        if rule.arithmetic in GRADING and not known:
            message = f"the ceiling on {metric} is taken from a value that no run has"
            shows = "not checked, and so no tier, whatever is claimed"
            yield _live(Fault.NOTHING_EARNS, region, message, shows, claim=120, clock=120, frontier=100)
    if ceiling.basis == "own-best" and context.metric in ceiling.metrics and rule.tiers.steps:
        yield from _below_tier(context, ceiling.multiple)


def _below_tier(context: Context, multiple: Fraction) -> Iterator[LintFinding]:
    """A best tier whose bar is past the ceiling, which rises with the frontier: the two contradict each other."""
    rule = context.rule
    name, bar = rule.tiers.steps[0]
    ratio = rule.credit.cap if rule.credit.anchored(context.metric) else Fraction(1)
    most = (multiple - 1) * ratio
    if ratio <= 0 or multiple <= 1 + rule.tiers.significance or most >= bar:
        return  # what no credit reaches, and what no gain passes, has findings of its own
    message = (
        f"{name} asks for a credit of {format_percent(bar)} %, and a claim may reach {format_exact(multiple)}x the "
        f"frontier: {format_percent(most)} % at most"
    )
    region, shows = context.region("frontier"), f"refused, though it would be {name}"
    yield _live(Fault.CEILING_BELOW_TIER, region, message, shows, claim=100 * (1 + bar / ratio), frontier=100)


def _guard(context: Context) -> Iterator[LintFinding]:
    rule, region = context.rule, context.region("guarded")
    guard, least = rule.guard, max(rule.tiers.significance, Fraction(0))
    if guard is None:
        message = f"nothing but {context.metric} is looked at, whatever else a change costs"
        claim = 100 * (1 + least) + 1
        yield _live(Fault.NO_GUARD, region, message, "earns a tier", claim=claim, frontier=100, guarded=1)
        return
    if (guard.metric, guard.context) == (context.metric, rule.scope.context):
        message = f"{guard.metric} is scored, and no run has it as a second metric"
        yield _live(Fault.GUARD_ON_SCORED, region, message, "no tier, whatever is claimed", claim=120, frontier=100)
    if rule.bears_out and rule.clock is not None and guard.metric in rule.clock.metrics:
        beyond = 1 + ALLOWANCE  # what a claim counts for past its clock is lost as well
    else:
        beyond = Fraction(1)
    loss = 1 - guard.least / beyond
    if guard.least > 1 - COLLAPSE and loss > least:
        message = (
            f"{guard.metric} may lose {format_percent(loss, 2)} %, and a gain of more than "
            f"{format_percent(least, 2)} % earns a tier"
        )
        shows = f"earns a tier, and gains no more than {guard.metric} lost"
        claim, guarded, region = 100 * (1 + loss), 100 * guard.least, context.region("guarded")
        yield _live(
            Fault.GUARD_ADMITS_TRADE, region, message, shows,
            claim=claim, frontier=100, guarded=guarded, guarded_clock=guarded / beyond, pin=100,
        )  # fmt: skip


def _sampling(context: Context) -> Iterator[LintFinding]:
    """What a receipt has to say of itself; asked of rules whose gates grade alone, for others score foreign logs."""
    rule, region = context.rule, context.region("claim")
    if rule.arithmetic not in GRADING:
        return
    if rule.sampling is None or not rule.sampling.filled:
        message = "the context may be sought instead of filled: nothing was computed of what stands in front"
        yield _live(Fault.CONTEXT_NOT_FILLED, region, message, "is scored", filled="no")
    if rule.sampling is None or not rule.sampling.independent:
        message = "an engine may be its own reference, and agrees with itself in whatever it does wrong"
        yield _live(Fault.SELF_GRADED, Region("kl", unit="nats"), message, "passes the bar", kl=0, independent="no")


def _recorded(context: Context) -> Iterator[LintFinding]:
    """Bars that the decimals of a record cannot tell apart; a note, for nothing is rounded before it is compared."""
    rule = context.rule
    gains = [rule.tiers.significance, *(bar for _, bar in rule.tiers.steps)]
    nats = [rule.correctness.kl, rule.correctness.kl_soft]
    nats += [] if rule.ratchet is None else [rule.ratchet.floor, rule.ratchet.block_from]
    for name, places, unit, bars in (
        ("percent", rule.precision.percent, "", [100 * bar for bar in gains]),
        ("kl", rule.precision.kl, "nats", nats),
    ):
        finer = [bar for bar in bars if quantize(bar, places) != bar]
        if finer:
            message = (
                f"precision.{name} is {places}, and a bar of {format_exact(finer[0])} has more decimals: it says how a "
                "figure is recorded and changes no verdict"
            )
            region = Region("gain" if name == "percent" else "kl", unit=unit)
            yield LintFinding(Fault.RECORD_COARSE, Reach.LIVE, region, message, note=True)
