"""Checks on the bars of agreement, the ratchet and the guard."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.lint.bounds import COLLAPSE, KL_OF_A_GUESS
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach, Region
from k3_ledger.rescore.rules.parameters import GRADING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.lint.context import Context
    from k3_ledger.rescore.rules.parameters import Guard

NOISE_SHARE: Final = Fraction(1, 100)
"""A divergence beneath this share of the bar is noise: a ratio of two such numbers says nothing."""
TWICE: Final = 2
"""Two runs of one build differ by this multiple of what is significant, or by a twentieth, in the witness below."""
GUARD_GROWTH: Final = 2
"""A fixed guard has gone stale once it admits this many times the loss it states."""


def check_agreement(context: Context) -> Iterator[LintFinding]:
    """Every fault of the bars on agreement and of the suite."""
    rule = context.rule.correctness
    if rule.top1 > 1:
        region = Region("top1", unit="")
        yield LintFinding(Fault.BAR_REFUSES_ALL, Reach.LIVE, region, f"top1 must be {format_exact(rule.top1)} of 1")
    elif rule.top1 <= 0:
        message = f"top1 must be {format_exact(rule.top1)}, which everything is"
        yield LintFinding(Fault.TOP1_BAR_INERT, Reach.LIVE, Region("top1", unit=""), message)
    elif rule.top1 < 1:
        best_miss = Fraction(rule.rows - 1, rule.rows)
        if best_miss < rule.top1:
            region = Region("bar", best_miss, above=True, most=Fraction(1), unit="")
            rows = f"{rule.rows} row{'s' if rule.rows > 1 else ''}"
            message = (
                f"over {rows} a depth, top1 {format_exact(rule.top1)} acts like 1: "
                f"the nearest miss is {format_exact(best_miss)}"
            )
            witness = (("top1", format_exact(best_miss)), ("other_bar", "1"))
            shows = "the same outcome under either bar, as has every input"
            yield LintFinding(Fault.TOP1_BAR_INERT, Reach.LIVE, region, message, witness, shows)
    if rule.kl < 0:
        message = f"kl must not pass {format_exact(rule.kl)}, and is never below 0"
        yield LintFinding(Fault.BAR_REFUSES_ALL, Reach.LIVE, Region("kl", unit="nats"), message)
    elif rule.kl >= KL_OF_A_GUESS:
        message = (
            f"kl may reach {format_exact(rule.kl)}, and {format_exact(KL_OF_A_GUESS)} is a guess between two tokens"
        )
        yield LintFinding(Fault.KL_BAR_INERT, Reach.LIVE, Region("kl", unit="nats"), message)
    if rule.kl_soft < 0 <= rule.kl:
        message = f"a warning above {format_exact(rule.kl_soft)}, and no divergence is below 0"
        yield LintFinding(Fault.SOFT_BAR_ALWAYS, Reach.LIVE, Region("kl", unit="nats"), message)
    elif rule.kl_soft >= rule.kl:
        message = (
            f"a warning above {format_exact(rule.kl_soft)} is never seen: above {format_exact(rule.kl)} is refused"
        )
        yield LintFinding(Fault.SOFT_BAR_INERT, Reach.LIVE, Region("kl", unit="nats"), message)
    if len(set(rule.depths)) <= 1:
        depths = ", ".join(str(depth) for depth in rule.depths) or "no"
        message = f"agreement is graded at {depths} token{'s' if rule.depths != (1,) else ''} alone"
        yield LintFinding(Fault.SUITE_OF_ONE_DEPTH, Reach.LIVE, Region("depth", unit="tokens"), message)


def check_ratchet(context: Context) -> Iterator[LintFinding]:
    """Every fault of the ratchet."""
    bar, rule = context.rule.correctness.kl, context.rule.ratchet
    region = Region("kl", unit="nats")
    if rule is None:
        message = f"any divergence up to {format_exact(bar)} passes, whatever the frontier's is"
        yield LintFinding(Fault.NO_RATCHET, Reach.LIVE, region, message)
        return
    from_kl = max(rule.floor, rule.block_from)
    if from_kl >= bar:
        message = f"blocks from kl {format_exact(from_kl)} on, where the bar {format_exact(bar)} already refuses"
        witness = (("kl", format_exact(bar)),)
        shows = "the only divergence the ratchet can refuse by itself" if from_kl == bar else "never blocked"
        yield LintFinding(Fault.RATCHET_INERT, Reach.LIVE, region, message, witness, shows)
    elif from_kl < NOISE_SHARE * bar:
        message = (
            f"blocks from kl {format_exact(from_kl)} on: a ratio of numbers "
            f"under {format_percent(NOISE_SHARE, 0)} % of the bar {format_exact(bar)}"
        )
        yield LintFinding(Fault.RATCHET_ON_NOISE, Reach.LIVE, region, message)
    if 0 < from_kl < bar < rule.block**2 * from_kl:
        yield _lax(rule.block, from_kl, bar)
    if min(rule.block, rule.warn) < 1:
        message = f"a build equal to the frontier is {'blocked' if rule.block < 1 else 'warned of'}"
        yield LintFinding(Fault.RATCHET_REFUSES_EQUAL, Reach.LIVE, region, message)
    elif rule.warn >= rule.block:
        message = (
            f"a warning above {format_exact(rule.warn)}x is never seen: above {format_exact(rule.block)}x is refused"
        )
        yield LintFinding(Fault.SOFT_BAR_INERT, Reach.LIVE, region, message)


def _lax(block: Fraction, from_kl: Fraction, bar: Fraction) -> LintFinding:
    """A ratchet that is idle for more than half of its range, in ratios: from ``bar / block`` on the bar is nearer."""
    idle = max(from_kl, bar / block)
    region = Region("frontier_kl", idle, most=bar, below=True, step=Fraction(1, 10**9), unit="nats")
    message = (
        f"{format_exact(block)}x a frontier's kl reaches the bar {format_exact(bar)} from "
        f"{format_rounded(idle, 9)} on, and blocked is from {format_exact(from_kl)} on"
    )
    at = region.first
    assert at is not None
    witness = (("frontier_kl", format_exact(at)), ("kl", format_exact(bar)))
    return LintFinding(Fault.RATCHET_LAX, Reach.LIVE, region, message, witness, "passes, in one step up to the bar")


def check_guard(context: Context) -> Iterator[LintFinding]:
    """Every fault of the guard on the second metric."""
    rule = context.rule.guard
    if rule is None:
        return
    if rule.least > 1:
        message = f"{rule.metric} must be {format_exact(rule.least)} of its own pin"
        yield LintFinding(Fault.GUARD_REFUSES_PIN, Reach.LIVE, context.region("guarded"), message)
    if rule.least == 1:
        yield _no_noise(context, rule)
    if rule.least <= 0:
        message = f"{rule.metric} must be {format_exact(rule.least)} of its pin, which everything is"
        yield LintFinding(Fault.GUARD_INERT, Reach.LIVE, context.region("guarded"), message)
    if 0 < rule.least <= 1 - COLLAPSE:
        share = format_exact(rule.least)
        message = f"{rule.metric} must keep {share} of its pin: the rule itself admits a loss of "
        message += f"{format_percent(1 - rule.least)} %"
        yield LintFinding(Fault.GUARD_ADMITS_COLLAPSE, Reach.LIVE, context.region("guarded"), message)
    yield from _without_clock(context, rule)
    pin = context.pinned("guard", rule.metric, rule.context)
    if rule.pin == "reconciled":
        if not context.rule.reconciles:
            yield _unreconciled(context, rule)
        return
    if not 0 < rule.least <= 1:
        return
    if pin is None:
        message = f"{rule.metric} is held against a pin that the rule does not carry"
        yield LintFinding(Fault.GUARD_INERT, Reach.LIVE, context.region("guarded"), message)
        return
    now = context.value_of(rule.metric, rule.context)
    allowed = GUARD_GROWTH * (1 - rule.least)
    least = rule.least * pin / (1 - allowed) if allowed < 1 else None
    if least is None:
        return
    region = context.region("guarded", least, above=not allowed)
    at = now if now is not None and region.covers(now) else region.first
    assert at is not None
    admits = format_percent(1 - rule.least * pin / at)
    message = (
        f"pinned at {format_exact(pin)} for good: the floor {format_exact(rule.least * pin)} "
        f"admits a loss of {admits} % against a measured {format_exact(at)}"
    )
    witness = (("guarded", format_exact(rule.least * pin)), ("measured", format_exact(at)))
    shows = f"passes, {admits} % below what was measured"
    yield LintFinding(Fault.GUARD_PIN_FIXED, context.reach(region, now, None), region, message, witness, shows)


def _no_noise(context: Context, rule: Guard) -> LintFinding:
    """A guard that admits no loss at all: shown with a reading that is lower by as little as the rule tells apart."""
    pin = context.pinned("guard", rule.metric, rule.context) or Fraction(100)
    message = (
        f"{rule.metric} must be all of its pin: the rule admits no loss, and no two readings of one build are equal"
    )
    witness = (("guarded", format_exact(pin - context.step)), ("pin", format_exact(pin)))
    region = context.region("guarded")
    return LintFinding(Fault.GUARD_ADMITS_NO_NOISE, Reach.LIVE, region, message, witness, "is refused")


def check_frontier(context: Context) -> Iterator[LintFinding]:
    """Whether the round's own frontier run may lower the frontier; asked of rules whose gates grade alone."""
    rule = context.rule
    if rule.arithmetic not in GRADING or rule.bears_out:
        return
    known = context.frontier or Fraction(100)
    slow = known / 2
    claim = slow * 2 * (1 + rule.tiers.significance) - context.step
    message = f"{rule.arithmetic} holds a run against its round's frontier run alone, however far below the pin it is"
    witness = (("pin", format_exact(known)), ("measured", format_exact(slow)), ("claim", format_exact(claim)))
    shows = f"gains {format_percent((claim - slow) / slow)} %, over the pin {format_percent((claim - known) / known)} %"
    yield LintFinding(Fault.FRONTIER_FALLS, Reach.LIVE, context.region("frontier"), message, witness, shows)


def check_weights(context: Context) -> Iterator[LintFinding]:
    """Whether what other weights measured under one name is a frontier; asked of rules whose gates grade alone."""
    rule = context.rule
    if rule.arithmetic not in GRADING or rule.weighs:
        return
    known = context.frontier or Fraction(100)
    claim = 2 * known
    message = f"{rule.arithmetic} takes a model's name for its weights: half the layers are twice the speed"
    witness = (("frontier", format_exact(known)), ("claim", format_exact(claim)))
    shows = f"gains {format_percent((claim - known) / known)} %, whatever file it is of"
    yield LintFinding(Fault.WEIGHTS_BY_NAME, Reach.LIVE, context.region("frontier"), message, witness, shows)


def check_repeats(context: Context) -> Iterator[LintFinding]:
    """Whether one run of the frontier is the frontier, however two differ; asked of rules whose gates grade alone."""
    rule = context.rule
    if rule.arithmetic not in GRADING or rule.repeats:
        return
    known = context.frontier or Fraction(100)
    again = known * (1 + max(TWICE * rule.tiers.significance, Fraction(1, 20)))
    message = f"{rule.arithmetic} holds a run against one frontier run, whatever another run of that build measured"
    witness = (("frontier", format_exact(known)), ("again", format_exact(again)), ("claim", format_exact(again)))
    shows = f"gains {format_percent((again - known) / known)} %, and is what the frontier build measured again"
    yield LintFinding(Fault.FRONTIER_MEASURED_ONCE, Reach.LIVE, context.region("frontier"), message, witness, shows)


def _without_clock(context: Context, rule: Guard) -> Iterator[LintFinding]:
    """A guarded metric whose claim no gate holds against a clock; asked of rules whose gates grade alone."""
    clock, arithmetic = context.rule.clock, context.rule.arithmetic
    if arithmetic not in GRADING or (context.rule.bears_out and clock and rule.metric in clock.metrics):
        return
    who = arithmetic if clock and rule.metric in clock.metrics else "the rule"
    message = f"{rule.metric} is held above its pin as claimed: {who} does not ask its clock"
    witness = (("guarded", "100"), ("guarded_clock", "1"), ("pin", "100"))
    yield LintFinding(
        Fault.GUARD_WITHOUT_CLOCK, Reach.LIVE, context.region("guarded"), message, witness, "passes, as it claims"
    )


def _unreconciled(context: Context, rule: Guard) -> LintFinding:
    """A pin that only has to stand in an entry: shown with one that is half of what was measured."""
    pin = context.pinned("guard", rule.metric, rule.context) or Fraction(100)
    measured = context.value_of(rule.metric, rule.context) or 2 * pin
    floor = rule.least * pin
    message = (
        f"{rule.metric} is held against a pin entry, and {context.rule.arithmetic} does not ask what was measured since"
    )
    witness = (
        ("guarded", format_exact(floor)),
        ("pin", format_exact(pin)),
        ("measured", format_exact(measured)),
    )
    shows = f"passes, {format_percent(1 - floor / measured)} % below what was measured"
    return LintFinding(Fault.GUARD_PIN_UNRECONCILED, Reach.LIVE, context.region("guarded"), message, witness, shows)
