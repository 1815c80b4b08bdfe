"""Rules the lint has never seen: one change to a clean rule gives exactly its fault, and no change gives none."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.lint.findings import MEANINGS, Fault, Reach, Region, Settings
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.lint.search import search
from k3_ledger.rescore.rules.parameters import Ceiling, Clock, Credit, Guard, Ratchet
from k3_ledger.rescore.rules.registry import RULES, find_rule

if TYPE_CHECKING:
    from k3_ledger.rescore.lint.findings import LintFinding
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
CLEAN = find_rule("house-7.decode")
REFERENCE = ("reference:decode@131072/m/q/n", F(20))
FRONTIER = ("frontier:decode@131072/m/q/n", F(30))
GUARD = ("guard:prefill@32768/m/q/n", F(100))


def changed(**parts: Any) -> Rule:
    """The clean rule with parts replaced; a dict replaces fields of a part."""
    fields = {
        name: replace(getattr(CLEAN, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return replace(CLEAN, **fields)


def fixed_clock(**fields: Any) -> Clock:
    return replace(Clock(("decode", "prefill"), "claim", 10_000, F("1.5"), F("1.5"), F(1)), **fields)


EARLIER = {
    Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_WITHOUT_CLOCK, Fault.FRONTIER_FALLS, Fault.WEIGHTS_BY_NAME,
    Fault.FRONTIER_MEASURED_ONCE,
}  # fmt: skip
"""What every arithmetic before the newest has."""

UNTIMED = {Fault.NOTHING_EARNS, Fault.NO_CLOCK, Fault.NO_CEILING, Fault.NO_GUARD}
UNHELD = {Fault.NOTHING_EARNS, Fault.GUARD_WITHOUT_CLOCK}
UNSCORED = {Fault.NOTHING_EARNS, Fault.NO_CEILING}
"""A ceiling of its own on what is not scored: no run has what it is taken from, and the scored metric has none."""


def at(frontier: str | int) -> tuple[str, Fraction]:
    return FRONTIER[0], F(frontier)


MUTANTS: list[tuple[str, Rule, set[Fault]]] = [
    ("unchanged", CLEAN, set()),
    ("pins alone", changed(pins=(FRONTIER, GUARD, REFERENCE)), set()),
    (
        "cap 2 with an anchor",
        changed(credit=Credit(F(2)), pins=(REFERENCE, FRONTIER)),
        {Fault.CAP_OVER_GAIN, Fault.ANCHOR_OVER_GAIN, Fault.TIER_UNREACHABLE},
    ),
    (
        "cap 1.5, too little to skip a tier",
        changed(credit=Credit(F("1.5")), pins=(REFERENCE, FRONTIER)),
        {Fault.CAP_OVER_GAIN, Fault.ANCHOR_OVER_GAIN},
    ),
    (
        "cap 1.75, which just skips one",
        changed(credit=Credit(F("1.75")), pins=(REFERENCE, FRONTIER)),
        {Fault.CAP_OVER_GAIN, Fault.ANCHOR_OVER_GAIN, Fault.TIER_UNREACHABLE},
    ),
    ("cap 1 with an anchor left behind", changed(credit=Credit(F(1)), pins=(REFERENCE, FRONTIER)), set()),
    (
        "anchored below the reference",
        changed(credit=Credit(F(1)), pins=(REFERENCE, (FRONTIER[0], F(10)))),
        {Fault.ANCHOR_DISCOUNT},
    ),
    ("anchored and nothing pinned", changed(credit=Credit(F(1))), {Fault.ANCHOR_DISCOUNT}),
    ("half of the gain", changed(credit=Credit(F("0.5")), pins=(REFERENCE, FRONTIER)), {Fault.ANCHOR_DISCOUNT}),
    ("cap 2 for another metric only", changed(credit=Credit(F(2), anchor_off=("decode",))), set()),
    ("no credit", changed(credit=Credit(F(0))), {Fault.CREDIT_NOT_MONOTONE}),
    ("credit for less", changed(credit=Credit(F(-1))), {Fault.CREDIT_NOT_MONOTONE}),
    (
        "a loss is significant",
        changed(tiers={"significance": F("-0.01")}),
        {Fault.LOSS_IS_CREDITED, Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_ADMITS_TRADE},
    ),
    ("bars swapped", changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.18")))}), {Fault.TIER_UNREACHABLE}),
    ("bars equal", changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.1")))}), {Fault.TIER_UNREACHABLE}),
    ("a bar at the significance", changed(tiers={"steps": (("XL", F("0.02")),)}), {Fault.TIER_UNREACHABLE}),
    (
        "a bar at zero",
        changed(tiers={"steps": (("XL", F(0)),), "significance": F(0)}),
        {Fault.TIER_UNREACHABLE, Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_ADMITS_TRADE},
    ),
    (
        "what the clock allows, and no more",
        changed(tiers={"significance": F("0.01")}, guard={"least": F("0.9999")}),
        set(),
    ),
    (
        "less than the clock allows",
        changed(tiers={"significance": F("0.0099")}, guard={"least": F("1.0001")}),
        {Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_REFUSES_PIN},
    ),
    (
        "what a guard gives away beside its clock, and no more",
        changed(tiers={"significance": F("0.0199")}),
        set(),
    ),
    (
        "less than that",
        changed(tiers={"significance": F("0.0101")}),
        {Fault.GUARD_ADMITS_TRADE},
    ),
    (
        "less than the clock allows, and no claim above it",
        changed(tiers={"significance": F(0)}, clock=fixed_clock(claim_over_clock=F(1), jitter=F(0))),
        {Fault.GUARD_ADMITS_TRADE},
    ),
    (
        "the clock's number",
        changed(tiers={"significance": F(0)}, clock=fixed_clock(reading="clock", jitter=F(0))),
        {Fault.GUARD_ADMITS_TRADE, Fault.CLOCK_AGAINST_CLAIMS},
    ),
    ("a guarded metric without a clock", changed(clock={"metrics": ("decode",)}), {Fault.GUARD_WITHOUT_CLOCK}),
    (
        "the fourth, without a guard",
        replace(CLEAN, arithmetic="measured-gain/4", guard=None),
        EARLIER - {Fault.GUARD_WITHOUT_CLOCK} | {Fault.NO_GUARD},
    ),
    (
        "the fourth, with narrow bounds",
        replace(changed(clock=fixed_clock(claim_over_clock=F("1.02"), jitter=F(0))), arithmetic="measured-gain/4"),
        EARLIER - {Fault.CLOCK_WIDER_THAN_TIERS},
    ),
    ("the fourth", replace(CLEAN, arithmetic="measured-gain/4"), EARLIER),
    ("the sixth", replace(CLEAN, arithmetic="measured-gain/6"), {Fault.FRONTIER_MEASURED_ONCE}),
    (
        "the fifth",
        replace(CLEAN, arithmetic="measured-gain/5"),
        {Fault.WEIGHTS_BY_NAME, Fault.FRONTIER_MEASURED_ONCE},
    ),
    (
        "the fifth, with pins",
        replace(CLEAN, arithmetic="measured-gain/5", pins=(FRONTIER, GUARD, REFERENCE)),
        {Fault.WEIGHTS_BY_NAME, Fault.FRONTIER_MEASURED_ONCE},
    ),
    (
        "any gain is significant, anchored",
        changed(tiers={"significance": F(0)}, credit=Credit(F(1)), pins=(REFERENCE, FRONTIER)),
        {Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_ADMITS_TRADE},
    ),
    ("no bars", changed(tiers={"steps": ()}), set()),
    ("no clock", changed(clock=None), {Fault.NO_CLOCK, Fault.GUARD_WITHOUT_CLOCK}),
    ("a clock for the other metric", changed(clock={"metrics": ("prefill",)}), {Fault.NO_CLOCK}),
    ("one side", changed(clock={"clock_over_claim": None}), {Fault.ONE_SIDED_CLOCK}),
    ("a bound under one", changed(clock={"claim_over_clock": F("0.9")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds that exclude each other", changed(clock={"clock_over_claim": F("0.5")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds tighter than the jitter", changed(clock={"claim_over_clock": F("1.19")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds tighter below", changed(clock={"clock_over_claim": F("1.24")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("twice the jitter", changed(clock={"jitter_multiple": F(2)}), {Fault.CLOCK_REFUSES_HONEST}),
    (
        "less signal than the tolerance",
        changed(clock={"jitter_multiple": F(1)}),
        {Fault.CLOCK_REFUSES_HONEST, Fault.CEILING_ABOVE_CROSSOVER},
    ),
    ("nothing sizes the margin", changed(clock={"jitter_multiple": None}), {Fault.MARGIN_WITHOUT_JITTER}),
    ("jitter from one repetition", changed(sampling={"repetitions": 1}), {Fault.MARGIN_WITHOUT_JITTER}),
    (
        "jitter measured where nobody counts repetitions",
        changed(sampling=None),
        {Fault.CONTEXT_NOT_FILLED, Fault.SELF_GRADED},
    ),
    (
        "a fixed margin, jitter unknown",
        changed(clock=fixed_clock(jitter=None), pins=(FRONTIER,)),
        {Fault.MARGIN_WITHOUT_JITTER},
    ),
    (
        "a fixed margin and a ceiling that rises",
        changed(clock=fixed_clock()),
        {Fault.MARGIN_DROWNS, Fault.CEILING_ABOVE_CROSSOVER},
    ),
    ("a fixed margin without jitter at all", changed(clock=fixed_clock(jitter=F(0))), set()),
    (
        "a fixed margin that the rule checks against jitter",
        changed(clock=fixed_clock(jitter_multiple=F(10))),
        {Fault.MARGIN_DROWNS},
    ),
    (
        "a fixed margin, one side",
        changed(clock=fixed_clock(clock_over_claim=None)),
        {Fault.MARGIN_DROWNS, Fault.ONE_SIDED_CLOCK},
    ),
    (
        "a ceiling that stands still",
        changed(ceiling=Ceiling(F(3), ("decode",), "own-reference"), pins=(REFERENCE, FRONTIER)),
        {Fault.CEILING_EXPIRES},
    ),
    ("a ceiling nobody pinned", changed(ceiling=Ceiling(F(3), ("decode",), "own-reference")), {Fault.CEILING_EXPIRES}),
    ("a ceiling under the significance bar", changed(ceiling={"multiple": F("1.02")}), {Fault.CEILING_EXPIRES}),
    (
        "the other metric's ceiling from this one's reference",
        changed(ceiling=Ceiling(F(3), ("prefill",), "scored-reference"), pins=(REFERENCE,)),
        {Fault.CEILING_OF_OTHER_METRIC, Fault.CEILING_BELOW_GUARDED, Fault.NO_CEILING},
    ),
    (
        "the same, nothing pinned",
        changed(ceiling=Ceiling(F(3), ("prefill",), "scored-reference")),
        {Fault.CEILING_OF_OTHER_METRIC, Fault.CEILING_BELOW_GUARDED, Fault.NO_CEILING},
    ),
    ("no ceiling", changed(ceiling=None), {Fault.NO_CEILING}),
    ("one row", changed(correctness={"rows": 1}), {Fault.TOP1_BAR_INERT}),
    ("nineteen rows under a bar of 19 in 20", changed(correctness={"rows": 19}), {Fault.TOP1_BAR_INERT}),
    ("twenty rows: one may miss", changed(correctness={"rows": 20}), set()),
    ("a bar of one", changed(correctness={"top1": F(1), "rows": 1}), set()),
    ("a bar of nothing", changed(correctness={"top1": F(0)}), {Fault.TOP1_BAR_INERT}),
    ("a bar above one", changed(correctness={"top1": F("1.01")}), {Fault.BAR_REFUSES_ALL}),
    (
        "a negative divergence",
        changed(correctness={"kl": F(-1), "kl_soft": F(-2)}, ratchet=None),
        {Fault.BAR_REFUSES_ALL, Fault.NO_RATCHET},
    ),
    ("soft over hard", changed(correctness={"kl_soft": F("0.05")}), {Fault.SOFT_BAR_INERT}),
    ("one depth", changed(correctness={"depths": (4,)}), {Fault.SUITE_OF_ONE_DEPTH}),
    ("no depth", changed(correctness={"depths": ()}), {Fault.SUITE_OF_ONE_DEPTH}),
    ("no ratchet", changed(ratchet=None), {Fault.NO_RATCHET}),
    ("a ratchet from the bar on", changed(ratchet={"block_from": F("0.05")}), {Fault.RATCHET_INERT}),
    ("a ratchet above the bar", changed(ratchet={"floor": F("0.06")}), {Fault.RATCHET_INERT}),
    ("a ratchet on noise", changed(ratchet={"floor": F("0.0004"), "block_from": F(0)}), {Fault.RATCHET_ON_NOISE}),
    ("an equal build is blocked", changed(ratchet={"block": F("0.9")}), {Fault.RATCHET_REFUSES_EQUAL}),
    ("an equal build is warned of", changed(ratchet={"warn": F("0.9")}), {Fault.RATCHET_REFUSES_EQUAL}),
    ("a warning nobody sees", changed(ratchet={"warn": F(2)}), {Fault.SOFT_BAR_INERT}),
    ("a guard written down", changed(guard={"pin": "fixed"}, pins=(GUARD,)), {Fault.GUARD_PIN_FIXED}),
    ("a guard written nowhere", changed(guard={"pin": "fixed"}), {Fault.GUARD_INERT}),
    ("a guard that asks for more", changed(guard={"least": F("1.01")}), {Fault.GUARD_REFUSES_PIN}),
    ("a guard that asks for nothing", changed(guard={"least": F(0)}), {Fault.GUARD_INERT}),
    (
        "a guard of half",
        changed(guard={"pin": "fixed", "least": F("0.5")}, pins=(GUARD,)),
        {Fault.GUARD_ADMITS_COLLAPSE},
    ),
    (
        "a guard of a bit more",
        changed(guard={"pin": "fixed", "least": F("0.51")}, pins=(GUARD,)),
        {Fault.GUARD_PIN_FIXED, Fault.GUARD_ADMITS_TRADE},
    ),
    ("a reconciled guard of a hundredth", changed(guard={"least": F("0.01")}), {Fault.GUARD_ADMITS_COLLAPSE}),
    ("a guard that keeps a bit more than half", changed(guard={"least": F("0.500001")}), {Fault.GUARD_ADMITS_TRADE}),
    (
        "a guarded metric above its own ceiling",
        changed(
            ceiling=Ceiling(F(3), ("prefill",), "own-reference"),
            pins=(("frontier:prefill@32768/m/q/n", F("98.8")), ("reference:prefill@32768/m/q/n", F("18.4435"))),
        ),
        {Fault.CEILING_BELOW_GUARDED, *UNSCORED},
    ),
    (
        "a guard pinned above the ceiling of its metric",
        changed(
            ceiling=Ceiling(F(3), ("prefill",), "own-reference"),
            pins=(GUARD, ("reference:prefill@32768/m/q/n", F(33))),
        ),
        {Fault.CEILING_BELOW_GUARDED, *UNSCORED},
    ),
    (
        "a guarded metric at its own ceiling",
        changed(
            ceiling=Ceiling(F(3), ("prefill",), "own-reference"),
            pins=(("frontier:prefill@32768/m/q/n", F(99)), ("reference:prefill@32768/m/q/n", F(33))),
        ),
        UNSCORED,
    ),
    (
        "a ceiling for a metric that is not guarded",
        changed(ceiling=Ceiling(F(3), ("prefill",), "own-reference"), guard=None),
        {*UNSCORED, Fault.NO_GUARD},
    ),
    ("the floor is called like the best", changed(tiers={"floor": "XL"}), {Fault.TIER_NAME_TAKEN}),
    (
        "one name twice",
        changed(tiers={"steps": (("XL", F("0.18")), ("L", F("0.1")), ("XL", F("0.06")))}),
        {Fault.TIER_NAME_TAKEN},
    ),
    ("a step called REJECT", changed(tiers={"steps": (("REJECT", F("0.18")),)}), {Fault.TIER_NAME_TAKEN}),
    ("a floor called none", changed(tiers={"floor": "none"}), {Fault.TIER_NAME_TAKEN}),
    ("a floor called BASELINE", changed(tiers={"floor": "BASELINE"}), {Fault.TIER_NAME_TAKEN}),
    (
        "names the other way round",
        changed(tiers={"steps": (("S", F("0.18")), ("M", F("0.1")), ("L", F("0.06")), ("XL", F("0.035")))}),
        {Fault.TIER_ORDER},
    ),
    ("the worst name on top", changed(tiers={"steps": (("S", F("0.18")),), "floor": "M"}), {Fault.TIER_ORDER}),
    ("names of its own", changed(tiers={"steps": (("gold", F("0.18")), ("iron", F("0.1")))}), set()),
    ("a soft bar below zero", changed(correctness={"kl_soft": F(-1)}), {Fault.SOFT_BAR_ALWAYS}),
    ("a soft bar at zero", changed(correctness={"kl_soft": F(0)}), set()),
    ("a bar of a million", changed(correctness={"kl": F(10**6)}), {Fault.KL_BAR_INERT, Fault.RATCHET_ON_NOISE}),
    (
        "a bar below a guess",
        changed(correctness={"kl": F("0.693146")}, ratchet={"floor": F("0.007")}),
        {Fault.KL_BAR_LAX},
    ),
    (
        "a bar of a guess",
        changed(correctness={"kl": F("0.693147")}, ratchet={"floor": F("0.007")}),
        {Fault.KL_BAR_INERT},
    ),
    ("a ratchet that blocks nothing", changed(ratchet={"block": F(10**9)}), {Fault.RATCHET_LAX}),
    ("a ratchet that reaches the bar", changed(ratchet={"block": F(100)}), {Fault.RATCHET_LAX}),
    ("a ratchet that just does not", changed(ratchet={"block": F("99.9")}), {Fault.RATCHET_LAX}),
    ("a ratchet that is idle for half of its range", changed(ratchet={"block": F(10)}), set()),
    ("a ratchet that is idle for more", changed(ratchet={"block": F("10.001")}), {Fault.RATCHET_LAX}),
    ("no guard", changed(guard=None), {Fault.NO_GUARD}),
    (
        "a pin entry at its word",
        replace(CLEAN, arithmetic="measured-gain/2"),
        {Fault.GUARD_PIN_UNRECONCILED, Fault.CLOCK_REFUSES_UNPROVED, *EARLIER},
    ),
    ("short is a lie", replace(CLEAN, arithmetic="measured-gain/3"), {Fault.CLOCK_REFUSES_UNPROVED, *EARLIER}),
    (
        "short is a lie, in tokens",
        replace(changed(clock={"margin": 1000, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        {Fault.CLOCK_REFUSES_UNPROVED, *EARLIER},
    ),
    (
        "nothing can be too short",
        replace(changed(clock={"margin": 1, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        EARLIER,
    ),
    (
        "short in two tokens",
        replace(changed(clock={"margin": 2, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        {Fault.CLOCK_REFUSES_UNPROVED, *EARLIER},
    ),
    (
        "no clock for the scored metric",
        replace(changed(clock={"metrics": ("prefill",)}), arithmetic="measured-gain/3"),
        EARLIER - {Fault.CLOCK_WIDER_THAN_TIERS} | {Fault.NO_CLOCK},
    ),
    (
        "gates that do not grade",
        replace(CLEAN, arithmetic="anchored-gain/1", guard=None),
        {Fault.NO_GUARD, Fault.CLOCK_WIDER_THAN_TIERS},
    ),
    (
        "gates that do not grade, and a clock that is narrow",
        replace(changed(clock=fixed_clock(claim_over_clock=F("1.02"), jitter=F(0))), arithmetic="anchored-gain/1"),
        {Fault.GUARD_PIN_UNRECONCILED},
    ),
    # Values that stand exactly on an edge are on the good side of it.
    (
        "claims up to the clock itself",
        changed(clock=fixed_clock(claim_over_clock=F(1))),
        {Fault.MARGIN_DROWNS, Fault.CEILING_ABOVE_CROSSOVER},
    ),
    ("jitter from two repetitions", changed(sampling={"repetitions": 2}), {Fault.JITTER_BY_LUCK}),
    ("jitter from three repetitions", changed(sampling={"repetitions": 3}), set()),
    (
        "two repetitions whose jitter nobody asks for",
        changed(sampling={"repetitions": 2}, clock=fixed_clock(jitter=F(0))),
        set(),
    ),
    ("a clock ten times finer than what counts past it", changed(clock={"jitter_multiple": F(2000)}), set()),
    ("a clock that is finer", changed(clock={"jitter_multiple": F(2001)}), {Fault.CLOCK_OVERASKS}),
    ("a clock beyond all clocks", changed(clock={"jitter_multiple": F(10**10)}), {Fault.CLOCK_OVERASKS}),
    (
        "a finer clock, where half of that is significant",
        changed(
            clock={"jitter_multiple": F(2001)},
            tiers={"significance": F("0.005")},
            guard={"least": F(1)},
        ),
        {Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_ADMITS_TRADE, Fault.GUARD_ADMITS_NO_NOISE},
    ),
    # What no receipt holds, by the schema's own bounds.
    ("a million repetitions", changed(sampling={"repetitions": 10**6}), {Fault.NOTHING_EARNS}),
    ("more repetitions than an entry has room for", changed(sampling={"repetitions": 600}), {Fault.NOTHING_EARNS}),
    (
        "more repetitions of two lengths than one series has",
        changed(sampling={"repetitions": 257}),
        {Fault.NOTHING_EARNS},
    ),
    ("as many as it has", changed(sampling={"repetitions": 256}), set()),
    ("a depth of nothing", changed(correctness={"depths": (0, 4096)}), {Fault.NOTHING_EARNS}),
    ("sixty-five depths", changed(correctness={"depths": tuple(range(64, 66 * 64, 64))}), {Fault.NOTHING_EARNS}),
    ("sixty-four", changed(correctness={"depths": tuple(range(64, 65 * 64, 64))}), set()),
    ("more rows than a file of prompts holds", changed(correctness={"rows": 2**52}), {Fault.NOTHING_EARNS}),
    ("as many", changed(correctness={"rows": 2**52 - 1}), set()),
    (
        "a context that is no number of a receipt",
        changed(scope={"context": 2**53}),
        {Fault.NOTHING_EARNS, Fault.SUITE_SHALLOW},
    ),
    ("what is noted beside a run", changed(scope={"metric": "load"}, guard=None), UNTIMED),
    ("a guard on what is noted beside a run", changed(guard={"metric": "ping"}), UNHELD),
    ("a guard on no prefill at all", changed(guard={"context": 0}), {Fault.NOTHING_EARNS}),
    (
        "prefill of no length, by gates that do not grade",
        replace(
            changed(scope={"metric": "prefill", "context": None}, guard=None, ceiling={"metrics": ("prefill",)}),
            arithmetic="anchored-gain/1",
        ),
        {Fault.NOTHING_EARNS, Fault.NO_GUARD, Fault.CLOCK_WIDER_THAN_TIERS},
    ),
    (
        "prefill behind something",
        changed(
            scope={"metric": "prefill-behind-64", "context": 512},
            guard={"metric": "decode", "context": 131_072},
            ceiling={"metrics": ("prefill-behind-64",)},
            clock={"metrics": ("decode", "prefill-behind-64")},
        ),
        set(),
    ),
    ("a signal of just the tolerance", changed(clock={"jitter_multiple": F("1.25")}), {Fault.CLOCK_REFUSES_HONEST}),
    (
        "a fixed margin of just the tolerance",
        changed(clock=fixed_clock(jitter_multiple=F("1.5"))),
        {Fault.CLOCK_REFUSES_HONEST, Fault.MARGIN_DROWNS},
    ),
    (
        "a ceiling at the crossover",
        changed(
            clock=fixed_clock(metrics=("decode",), margin=300),
            ceiling=Ceiling(F(10), ("decode",), "own-reference"),
            pins=(REFERENCE,),
        ),
        {Fault.MARGIN_DROWNS, Fault.CEILING_ABOVE_CROSSOVER, Fault.CEILING_EXPIRES, Fault.GUARD_WITHOUT_CLOCK},
    ),
    (
        "a ceiling just below it",
        changed(
            clock=fixed_clock(metrics=("decode",), margin=301),
            ceiling=Ceiling(F(10), ("decode",), "own-reference"),
            pins=(REFERENCE,),
        ),
        {Fault.MARGIN_DROWNS, Fault.CEILING_EXPIRES, Fault.GUARD_WITHOUT_CLOCK},
    ),
    (
        "a ceiling from its own metric's reference, by another name",
        changed(ceiling=Ceiling(F(3), ("decode",), "scored-reference"), pins=(REFERENCE, FRONTIER)),
        {Fault.CEILING_EXPIRES},
    ),
    (
        "anchored, the frontier at the reference",
        changed(credit=Credit(F(1)), pins=(REFERENCE, (FRONTIER[0], REFERENCE[1]))),
        set(),
    ),
    (
        "anchored, a frontier of nothing",
        changed(credit=Credit(F(1)), pins=(REFERENCE, (FRONTIER[0], F(0)))),
        {Fault.ANCHOR_DISCOUNT},
    ),
    (
        "no divergence at all",
        changed(correctness={"kl": F(0), "kl_soft": F(-1)}, ratchet=None),
        {Fault.NO_RATCHET, Fault.SOFT_BAR_ALWAYS},
    ),
    ("one depth twice", changed(correctness={"depths": (4, 4)}), {Fault.SUITE_OF_ONE_DEPTH}),
    ("a warning of what is more than equal", changed(ratchet={"warn": F(1)}), set()),
    ("a guard at its pin", changed(guard={"least": F(1)}), {Fault.GUARD_ADMITS_NO_NOISE}),
    ("a guard a hair below its pin", changed(guard={"least": F("0.999999")}), set()),
    (
        "a guard written down, at its pin",
        changed(guard={"pin": "fixed", "least": F(1)}, pins=(GUARD,)),
        {Fault.GUARD_ADMITS_NO_NOISE, Fault.GUARD_PIN_FIXED},
    ),
    (
        "a ratchet at the edge of noise",
        changed(ratchet={"floor": F("0.0005"), "block_from": F(0)}),
        set(),
    ),
    (
        "no guard to reconcile",
        replace(CLEAN, arithmetic="measured-gain/2", guard=None),
        EARLIER - {Fault.GUARD_WITHOUT_CLOCK} | {Fault.CLOCK_REFUSES_UNPROVED, Fault.NO_GUARD},
    ),
    (
        "gates that do not grade, and ask for what no run has",
        replace(changed(ceiling={"metrics": ("decode", "prefill")}, sampling=None), arithmetic="anchored-gain/1"),
        {Fault.GUARD_PIN_UNRECONCILED, Fault.CLOCK_WIDER_THAN_TIERS},
    ),
    # Rounding: half a step against the significance.
    ("whole tokens a second", changed(precision={"speed": 0}), {Fault.ROUNDING_IS_CREDITED}),
    ("whole tokens, at twenty-four", changed(precision={"speed": 0}, pins=(at(24),)), {Fault.ROUNDING_IS_CREDITED}),
    ("whole tokens, at twenty-five", changed(precision={"speed": 0}, pins=(at(25),)), set()),
    ("hundredths, at a quarter", changed(precision={"speed": 2}, pins=(at("0.25"),)), set()),
    ("hundredths below", changed(precision={"speed": 2}, pins=(at("0.249"),)), {Fault.ROUNDING_IS_CREDITED}),
    (
        "hundredths, and any gain counts",
        changed(precision={"speed": 2}, tiers={"significance": F(0)}, guard={"least": F(1)}, pins=(at(50),)),
        {
            Fault.ROUNDING_IS_CREDITED,
            Fault.CLOCK_WIDER_THAN_TIERS,
            Fault.GUARD_ADMITS_TRADE,
            Fault.GUARD_ADMITS_NO_NOISE,
        },
    ),
    ("as many decimals as claims have", changed(pins=(at("0.00001"),)), set()),
    (
        "whole tokens, where only a doubling counts",
        changed(precision={"speed": 0}, tiers={"significance": F(1), "steps": ()}, ceiling={"multiple": F(10)}),
        set(),
    ),
    # A ceiling that rises with the frontier, against the best tier.
    ("a ceiling that lets the best tier be", changed(ceiling={"multiple": F("1.18")}), set()),
    ("a ceiling just under the best tier", changed(ceiling={"multiple": F("1.179")}), {Fault.CEILING_BELOW_TIER}),
    ("a ceiling for the least tier alone", changed(ceiling={"multiple": F("1.03")}), {Fault.CEILING_BELOW_TIER}),
    ("a low ceiling over no steps", changed(ceiling={"multiple": F("1.03")}, tiers={"steps": ()}), set()),
    (
        "a low ceiling and twice the gain as credit",
        changed(ceiling={"multiple": F("1.1")}, credit=Credit(F(2)), pins=(REFERENCE, at(50))),
        {Fault.CAP_OVER_GAIN, Fault.TIER_UNREACHABLE},
    ),
    ("a ceiling of ten times the best", changed(ceiling={"multiple": F(10)}), set()),
    ("a ceiling above that", changed(ceiling={"multiple": F("10.01")}), {Fault.CEILING_LAX}),
    ("a ceiling in the clouds", changed(ceiling={"multiple": F(10**9)}), {Fault.CEILING_LAX}),
    ("a ceiling on what is not scored", changed(ceiling={"metrics": ("prefill",)}), UNSCORED),
    (
        "a ceiling on both, each from its own",
        changed(ceiling={"metrics": ("decode", "prefill")}),
        {Fault.NOTHING_EARNS},
    ),
    (
        "a ceiling on what nobody measures",
        changed(ceiling=Ceiling(F(3), ("decode", "load"), "scored-reference"), pins=(REFERENCE, FRONTIER)),
        {Fault.NOTHING_EARNS, Fault.CEILING_EXPIRES, Fault.CEILING_OF_OTHER_METRIC},
    ),
    # The guard, against the least gain that earns a tier.
    ("a guard on what is scored", changed(guard={"metric": "decode", "context": 131_072}), {Fault.GUARD_ON_SCORED}),
    ("a guard on the same metric at another context", changed(guard={"metric": "decode", "context": 64}), set()),
    ("a guard that gives what a tier asks for, by its clock", changed(guard={"least": F("0.9898")}), set()),
    ("a guard that gives more", changed(guard={"least": F("0.9897")}), {Fault.GUARD_ADMITS_TRADE}),
    (
        "a guard that gives what a tier asks for, and nobody asks its clock",
        changed(guard={"least": F("0.98")}, clock={"metrics": ("decode",)}),
        {Fault.GUARD_WITHOUT_CLOCK},
    ),
    ("a guard of nine tenths", changed(guard={"least": F("0.9")}), {Fault.GUARD_ADMITS_TRADE}),
    (
        "nine tenths, where a tenth earns",
        changed(guard={"least": F("0.909")}, tiers={"significance": F("0.1")}),
        {Fault.TIER_UNREACHABLE},
    ),
    # Agreement, ten to one against a guess between two tokens.
    ("a tenth of a guess", changed(correctness={"kl": F("0.0693147")}, ratchet={"floor": F("0.0007")}), set()),
    (
        "more than a tenth of a guess",
        changed(correctness={"kl": F("0.0693148")}, ratchet={"floor": F("0.0007")}),
        {Fault.KL_BAR_LAX},
    ),
    ("one row in twenty", changed(correctness={"rows": 40}), set()),
    ("two rows in thirty-two", changed(correctness={"top1": F(30, 32)}), {Fault.TOP1_BAR_LAX}),
    ("a bar that as many rows cannot use", changed(correctness={"top1": F("0.94")}), set()),
    ("nearly any token", changed(correctness={"top1": F("0.01")}), {Fault.TOP1_BAR_LAX}),
    ("two shallow depths", changed(correctness={"depths": (1, 2)}), {Fault.SUITE_SHALLOW}),
    ("half of the way, in doublings", changed(correctness={"depths": (4, 363)}), set()),
    ("just less", changed(correctness={"depths": (4, 362)}), {Fault.SUITE_SHALLOW}),
    ("two depths for a short context", changed(correctness={"depths": (4, 8)}, scope={"context": 64}), set()),
    ("two depths for no context", changed(correctness={"depths": (1, 2)}, scope={"context": None}), set()),
    # The clock: half of the work.
    ("twice the clock", changed(clock={"claim_over_clock": F(2), "clock_over_claim": F(2)}), set()),
    ("more than twice", changed(clock={"claim_over_clock": F("2.01")}), {Fault.CLOCK_LAX}),
    ("more than twice, below", changed(clock={"clock_over_claim": F("2.01")}), {Fault.CLOCK_LAX}),
    ("ten times, both", changed(clock={"claim_over_clock": F(10), "clock_over_claim": F(10)}), {Fault.CLOCK_LAX}),
    # What is recorded in fewer decimals than it is compared in is worth a note, and no fault.
    ("divergences recorded in whole nats", changed(precision={"kl": 0}), set()),
    ("gains recorded in whole per cent", changed(precision={"percent": 0}), set()),
    # What a receipt has to say.
    ("a context that is sought", changed(sampling={"filled": False}), {Fault.CONTEXT_NOT_FILLED}),
    ("an engine of its own opinion", changed(sampling={"independent": False}), {Fault.SELF_GRADED}),
]


@pytest.mark.parametrize(("rule", "faults"), [mutant[1:] for mutant in MUTANTS], ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_has_its_own_faults_and_no_others(rule: Rule, faults: set[Fault]) -> None:
    assert lint(rule).faults == faults


def test_every_fault_has_a_meaning_and_is_found_in_some_mutant() -> None:
    assert set(MEANINGS) == set(Fault)
    found = {fault for _, rule, _ in MUTANTS for fault in (finding.fault for finding in lint(rule).findings)}
    assert set(Fault) - found == {Fault.COUNTEREXAMPLE}


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
def test_a_renamed_rule_has_the_same_findings(name: str) -> None:
    rule = find_rule(name)
    assert lint(replace(rule, name="something-else")).findings == lint(rule).findings


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
@pytest.mark.parametrize("factor", [F(10), F(1, 7)])
def test_a_rescaled_rule_has_the_same_faults_in_rescaled_regions(name: str, factor: Fraction) -> None:
    """Ten times the speed with a tenth of the jitter is the same situation."""
    rule = find_rule(name)
    before, after = lint(rule).findings, lint(scaled(rule, factor)).findings
    if Fault.ROUNDING_IS_CREDITED not in {found.fault for found in before}:  # a rule's decimals do not scale with it
        after = tuple(found for found in after if found.fault is not Fault.ROUNDING_IS_CREDITED)
    assert [found.fault for found in after] == [found.fault for found in before]
    assert [found.reach for found in after] == [found.reach for found in before]
    for old, new in zip(before, after, strict=True):
        grows = factor if old.region.unit == "tok/s" else F(1)
        if old.fault is Fault.CEILING_EXPIRES:  # from what is scored on, and a rule's decimals do not scale with it
            assert old.region.least is not None
            assert new.region.least is not None
            assert abs(new.region.least - old.region.least * grows) <= F(1, 100) * max(F(1), grows)
            continue
        assert new.region.least == (None if old.region.least is None else old.region.least * grows)
        assert new.region.most == (None if old.region.most is None else old.region.most * grows)


def scaled(rule: Rule, factor: Fraction) -> Rule:
    clock = rule.clock and replace(rule.clock, jitter=rule.clock.jitter and rule.clock.jitter / factor)
    return replace(rule, clock=clock, pins=tuple((slot, value * factor) for slot, value in rule.pins))


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
@pytest.mark.parametrize("factor", [F(1), F(1000), F(1, 1000), F(1, 7), F(1, 100_000)])
def test_what_a_region_says_of_the_frontier_is_what_its_reach_says(name: str, factor: Fraction) -> None:
    """Whoever reads the bounds as they are printed comes to the same: the frontier is in live regions and no others."""
    rule = scaled(find_rule(name), factor)
    frontier = rule.pin(f"frontier:decode@{rule.scope.context}/Kimi-K3/UD-IQ1_S/h200x8")
    if rule.scope.metric != "decode" or frontier is None:
        return
    for found in lint(rule).findings:
        if found.region.variable not in {"frontier", "claim"} or found.region == Region(found.region.variable):
            continue
        least, most = bounds(str(found.region))
        printed = (least is None or frontier >= least) and (most is None or frontier <= most)
        assert printed == found.region.covers(frontier), (str(found.region), frontier)
        if found.region.variable == "frontier" and not found.note:
            assert printed == (found.reach is Reach.LIVE), (str(found.region), frontier)


def bounds(region: str) -> tuple[Fraction | None, Fraction | None]:
    """Bounds as they are printed."""
    least, most = (re.search(rf"{sign} ([0-9./]+)", region) for sign in (">=", "<="))
    return least and F(least[1]), most and F(most[1])


@pytest.mark.parametrize("factor", [F(1, 1000), F(1, 100_000)])
def test_a_grid_that_is_coarse_beside_the_speeds_is_said_to_be(factor: Fraction) -> None:
    for name in ("v0.1.0", "v0.2.0", "v0.2.1", "v0.2.2"):
        before, after = (lint(scaled(find_rule(name), by)).faults for by in (F(1), factor))
        assert Fault.ROUNDING_IS_CREDITED in after - before


def only(rule: Rule, fault: Fault) -> LintFinding:
    (found,) = [found for found in lint(rule).findings if found.fault is fault]
    return found


def test_each_tier_out_of_reach_is_named_against_the_best_bar_above_it() -> None:
    rule = changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.18")), ("M", F("0.12")), ("S", F("0.05")))})
    said = [found.message for found in lint(rule).findings if found.fault is Fault.TIER_UNREACHABLE]
    assert [message.split(":")[0] for message in said] == ["no credit ends in L", "no credit ends in M"]


def test_a_discount_is_in_force_only_where_the_frontier_is_known_to_be_below() -> None:
    below = changed(credit=Credit(F(1)), pins=(REFERENCE, (FRONTIER[0], F(10))))
    assert only(changed(credit=Credit(F(1))), Fault.ANCHOR_DISCOUNT).reach is Reach.REACHABLE
    assert only(below, Fault.ANCHOR_DISCOUNT).reach is Reach.LIVE


def test_a_fixed_guard_is_stale_at_twice_the_loss_it_states() -> None:
    rule = changed(guard={"pin": "fixed", "least": F("0.9")}, pins=(GUARD,))
    assert only(rule, Fault.GUARD_PIN_FIXED).region.least == F(90) / F("0.8")


def test_a_pin_at_its_word_is_shown_with_one_of_half_of_what_was_measured() -> None:
    for rule, pinned in ((changed(pins=((GUARD[0], F(70)),)), "70"), (CLEAN, "100")):
        found = only(replace(rule, arithmetic="measured-gain/2"), Fault.GUARD_PIN_UNRECONCILED)
        assert (dict(found.witness)["pin"], F(dict(found.witness)["measured"])) == (pinned, 2 * F(pinned))


def test_a_margin_drowns_where_the_greatest_admitted_claim_of_any_metric_reaches() -> None:
    """10,000 tokens are worth ten seconds of jitter up to 1,000 tok/s; prefill may claim 3,000 and decode 60."""
    pins = (("reference:prefill@32768/m/q/n", F(1000)), REFERENCE)
    ceiling = Ceiling(F(3), ("decode", "prefill"), "own-reference")
    both = changed(ceiling=ceiling, clock=fixed_clock(), pins=pins)
    slow = changed(ceiling=ceiling, clock=fixed_clock(), pins=(("reference:prefill@32768/m/q/n", F(100)), REFERENCE))
    loose = changed(ceiling=replace(ceiling, metrics=("decode",)), clock=fixed_clock(), pins=pins)
    assert [only(rule, Fault.MARGIN_DROWNS).reach for rule in (both, slow, loose)] == [
        Reach.REACHABLE, Reach.BEYOND, Reach.REACHABLE,
    ]  # fmt: skip


def test_a_ceiling_is_told_where_it_leaves_no_room_for_a_significant_gain() -> None:
    rule = changed(ceiling=Ceiling(F(3), ("decode",), "own-reference"), pins=(REFERENCE, FRONTIER))
    assert only(rule, Fault.CEILING_EXPIRES).region.least == F(60) / F("1.02")


def test_the_search_finds_what_the_analysis_was_not_told_of() -> None:
    from k3_ledger.rescore.lint.context import Context

    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, FRONTIER))
    (over,) = search(Context(rule, Settings()), [])
    assert (over.fault, over.shows) == (Fault.COUNTEREXAMPLE, "credit exceeds gain")
    slope = changed(credit=Credit(F(-1)), pins=(REFERENCE, FRONTIER))
    (less,) = search(Context(slope, Settings()), [])
    assert less.shows == "less credit than for a slower run"


def test_a_region_is_shown_on_the_rules_grid() -> None:
    region = Region("frontier", F("36.887"), above=True, most=F("50"), below=True)
    assert str(region) == "frontier >= 36.89 tok/s and <= 49.99 tok/s"
    assert [region.covers(F(value)) for value in ("36.887", "36.8871", "49.9999", "50")] == [False, True, True, False]
    assert str(Region("kl", unit="")) == "any kl"
    assert str(Region("kl", F(1), unit="")) == "kl >= 1"
    assert (Region("kl").first, Region("kl").last) == (None, None)


def test_where_several_nodes_are_pinned_the_least_reference_counts() -> None:
    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, ("reference:decode@131072/m/q/other", F(10))))
    (found,) = [found for found in lint(rule).findings if found.fault is Fault.CAP_OVER_GAIN]
    assert str(found.region) == "frontier >= 20.000001 tok/s"


def test_without_pins_regions_are_multiples_of_the_reference() -> None:
    (found,) = [found for found in lint(changed(credit=Credit(F(2)))).findings if found.fault is Fault.CAP_OVER_GAIN]
    assert str(found.region) == "frontier >= 2.000001 x the reference"
    assert "(taken as 1: none is pinned)" in found.message


def test_a_ceiling_from_a_guarded_metrics_own_reference() -> None:
    pins = (("reference:prefill@32768/m/q/n", F(100)), REFERENCE)
    ceiling = Ceiling(F(3), ("decode", "prefill"), "own-reference")
    rule = changed(ceiling=ceiling, clock=fixed_clock(), pins=pins)
    regions = {str(found.region) for found in lint(rule).findings if found.fault is Fault.CEILING_ABOVE_CROSSOVER}
    assert regions == set()  # 60 and 300 tok/s are below the crossover of 6,667
    short = replace(rule, clock=fixed_clock(margin=300))
    regions = {str(found.region) for found in lint(short).findings if found.fault is Fault.CEILING_ABOVE_CROSSOVER}
    assert regions == {"claim >= 200 tok/s and <= 300 tok/s"}
    unguarded = replace(short, guard=None)
    assert "claim >= 200 tok/s" in {str(found.region) for found in lint(unguarded).findings}


def test_reach_of_a_region_the_frontier_has_left_behind() -> None:
    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, (FRONTIER[0], F(50))))
    found = {each.fault: each.reach for each in lint(rule).findings}
    assert (found[Fault.ANCHOR_OVER_GAIN], found[Fault.CAP_OVER_GAIN]) == (Reach.BEYOND, Reach.LIVE)


def test_guards_and_ratchets_are_built_as_the_mutants_need() -> None:
    assert isinstance(CLEAN.guard, Guard)
    assert isinstance(CLEAN.ratchet, Ratchet)


def test_a_guard_that_admits_no_noise_is_shown_with_the_least_reading_that_it_refuses() -> None:
    found = only(changed(guard={"least": F(1)}), Fault.GUARD_ADMITS_NO_NOISE)
    guarded, pin = (F(dict(found.witness)[name]) for name in ("guarded", "pin"))
    assert (guarded < pin, found.reach, found.shows) == (True, Reach.LIVE, "is refused")
    stale = only(changed(guard={"pin": "fixed", "least": F(1)}, pins=(GUARD,)), Fault.GUARD_PIN_FIXED)
    assert F(dict(stale.witness)["guarded"]) < F(dict(stale.witness)["measured"])


@pytest.mark.parametrize("cap", ["1.00001", "1.0001", "1.0003", "1.001", "1.01"])
def test_a_region_that_the_grid_is_too_coarse_for_is_shown_on_a_finer_one(cap: str) -> None:
    rule = find_rule("v0.2.1")
    found = lint(replace(rule, credit=replace(rule.credit, cap=F(cap)))).findings
    (over,) = [one for one in found if one.fault is Fault.ANCHOR_OVER_GAIN]
    assert not over.region.is_blank
    assert over.region.first is not None
    assert over.region.covers(over.region.first)
