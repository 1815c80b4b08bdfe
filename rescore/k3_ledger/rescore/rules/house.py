"""The rules this project scores its own runs by, written so that nothing in them expires.

Credit is the measured gain and is anchored to nothing; the clock bounds both metrics from both sides and its margin
is sized from the jitter measured beside it; the ceiling rises with the frontier; the guard's pin must agree with what
was measured last; the agreement bar is over enough rows to tell one bar from another. ``rules lint`` finds nothing in
the newest of them; up to the second, any pin entry passed for a reconciled one, up to the third a run that was too
short to prove its speed was refused like one that lies, up to the fourth a claim counted for up to a quarter more
than its clock showed, the guarded metric was taken at its word, a slow frontier run of the round lowered the bar,
up to the fifth a lighter file under the model's name was held against what the heavier one had measured, and up to the
sixth one run of the frontier was the frontier, however much another run of the same build differed from it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from k3_ledger.rescore.rules.parameters import (
    Ceiling,
    Clock,
    Correctness,
    Credit,
    Guard,
    Precision,
    Ratchet,
    Rule,
    Sampling,
    Scope,
    Tiers,
)

_F = Fraction


def house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The house policy for one metric, guarding the other, as it was first released."""
    return Rule(
        name=name,
        arithmetic="measured-gain/1",
        scope=Scope(metric, context),
        tiers=Tiers(
            significance=_F("0.02"),
            steps=(("XL", _F("0.18")), ("L", _F("0.10")), ("M", _F("0.06")), ("S", _F("0.035"))),
            floor="XS",
        ),
        credit=Credit(cap=_F(1), anchor=False),
        correctness=Correctness(
            top1=_F("0.95"), kl=_F("0.05"), kl_soft=_F("0.02"), depths=(4, 128, 256, 512, 1024, 2048, 4096), rows=32
        ),
        ratchet=Ratchet(warn=_F("1.25"), block=_F(2), floor=_F("0.0005"), block_from=_F("0.0005")),
        # Ten times the jitter is what keeps two loads that differ by it inside bounds of 1.25 on either side.
        clock=Clock(
            metrics=("decode", "prefill"),
            reading="claim",
            margin=None,
            claim_over_clock=_F("1.25"),
            clock_over_claim=_F("1.25"),
            jitter=None,
            jitter_multiple=_F(10),
        ),
        ceiling=Ceiling(multiple=_F(4), metrics=(metric,), basis="own-best"),
        guard=Guard(guarded, guarded_context, least=_F("0.99"), pin="reconciled"),
        precision=Precision(speed=6, percent=1, kl=9),
        sampling=Sampling(repetitions=3, filled=True, independent=True),
        pins=(),
    )


def second_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same with the jitter of the middle half of the repetitions, over so many that it is never small by luck."""
    first = house_rule(name, metric, context, guarded, guarded_context)
    return replace(first, arithmetic="measured-gain/2", sampling=Sampling(repetitions=7, filled=True, independent=True))


def third_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same with a guard that takes no pin's word for it: the newest measurement of the slot must agree with it."""
    return replace(second_house_rule(name, metric, context, guarded, guarded_context), arithmetic="measured-gain/3")


def fourth_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same with a clock that refuses only what it contradicts: what it cannot prove earns nothing."""
    return replace(third_house_rule(name, metric, context, guarded, guarded_context), arithmetic="measured-gain/4")


def fifth_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same where nothing counts beyond what a clock bears out, of either metric, and no frontier falls."""
    return replace(fourth_house_rule(name, metric, context, guarded, guarded_context), arithmetic="measured-gain/5")


def sixth_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same on one and the same weights: what another file under the model's name measured is no frontier of it."""
    return replace(fifth_house_rule(name, metric, context, guarded, guarded_context), arithmetic="measured-gain/6")


def seventh_house_rule(name: str, metric: str, context: int, guarded: str, guarded_context: int) -> Rule:
    """The same where a gain must be more than what four frontier runs of its round or more differ by."""
    return replace(sixth_house_rule(name, metric, context, guarded, guarded_context), arithmetic="measured-gain/7")


HOUSE_RULES: Final = (
    house_rule("house-1.decode", "decode", 131_072, "prefill", 32_768),
    house_rule("house-1.prefill", "prefill", 32_768, "decode", 131_072),
    second_house_rule("house-2.decode", "decode", 131_072, "prefill", 32_768),
    second_house_rule("house-2.prefill", "prefill", 32_768, "decode", 131_072),
    third_house_rule("house-3.decode", "decode", 131_072, "prefill", 32_768),
    third_house_rule("house-3.prefill", "prefill", 32_768, "decode", 131_072),
    fourth_house_rule("house-4.decode", "decode", 131_072, "prefill", 32_768),
    fourth_house_rule("house-4.prefill", "prefill", 32_768, "decode", 131_072),
    fifth_house_rule("house-5.decode", "decode", 131_072, "prefill", 32_768),
    fifth_house_rule("house-5.prefill", "prefill", 32_768, "decode", 131_072),
    sixth_house_rule("house-6.decode", "decode", 131_072, "prefill", 32_768),
    sixth_house_rule("house-6.prefill", "prefill", 32_768, "decode", 131_072),
    seventh_house_rule("house-7.decode", "decode", 131_072, "prefill", 32_768),
    seventh_house_rule("house-7.prefill", "prefill", 32_768, "decode", 131_072),
)
