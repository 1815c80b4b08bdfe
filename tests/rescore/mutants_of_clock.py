"""Changes to the clock and to the arithmetic that reads it, with the faults that each has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.rules.parameters import Ceiling, Credit
from tests.rescore.mutants import CLEAN, EARLIER, FRONTIER, GUARD, NARROW, REFERENCE, F, at, changed, fixed_clock, roomy

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

OF_CLOCKS: list[tuple[str, Rule, set[Fault]]] = [
    (
        "a loss is significant",
        changed(tiers={"significance": F("-0.01")}),
        {Fault.LOSS_IS_CREDITED, Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_ADMITS_TRADE},
    ),
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
        "less than the clock allows, and no claim above it",
        changed(tiers={"significance": F(0)}, clock=fixed_clock(claim_over_clock=F(1), jitter=F(0))),
        {Fault.GUARD_ADMITS_TRADE, Fault.MARGIN_WITHOUT_JITTER},
    ),
    (
        "the clock's number",
        changed(tiers={"significance": F(0)}, clock={"reading": "clock"}),
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
        replace(changed(clock=NARROW), arithmetic="measured-gain/4"),
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
    ("no clock", changed(clock=None), {Fault.NO_CLOCK, Fault.GUARD_WITHOUT_CLOCK}),
    ("a clock for the other metric", changed(clock={"metrics": ("prefill",)}), {Fault.NO_CLOCK}),
    ("one side", changed(clock={"clock_over_claim": None}), {Fault.ONE_SIDED_CLOCK}),
    ("a bound under one", changed(clock={"claim_over_clock": F("0.9")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds that exclude each other", changed(clock={"clock_over_claim": F("0.5")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds tighter than the jitter", changed(clock={"claim_over_clock": F("1.19")}), {Fault.CLOCK_REFUSES_HONEST}),
    ("bounds tighter below", changed(clock={"clock_over_claim": F("1.24")}), {Fault.CLOCK_REFUSES_HONEST}),
    (
        "twice the jitter",
        changed(clock={"jitter_multiple": F(2)}),
        {Fault.CLOCK_REFUSES_HONEST, Fault.MARGIN_DROWNS},
    ),
    (
        "less signal than the tolerance",
        changed(clock={"jitter_multiple": F(1)}),
        {Fault.CLOCK_REFUSES_HONEST, Fault.CEILING_ABOVE_CROSSOVER, Fault.MARGIN_DROWNS},
    ),
    *(
        (f"{multiple} times the jitter, and bounds with room for it", changed(clock=roomy(multiple)), faults)
        for multiple, faults in (
            ("3", {Fault.MARGIN_DROWNS, Fault.CLOCK_LAX}),
            ("4", {Fault.MARGIN_DROWNS}),
            ("9", {Fault.MARGIN_DROWNS}),
            ("9.999999", {Fault.MARGIN_DROWNS}),
            ("10", set()),
            ("12", set()),
        )
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
    ("a fixed margin without jitter at all", changed(clock=fixed_clock(jitter=F(0))), {Fault.MARGIN_WITHOUT_JITTER}),
    ("a margin of one token", changed(clock=fixed_clock(margin=1, jitter=F(0))), {Fault.MARGIN_WITHOUT_JITTER}),
    # Beside enough jitters of each run a number of tokens is a floor, whatever is said of it.
    ("a floor under the margin", changed(clock={"margin": 512}), set()),
    ("a floor, and a word on jitter", changed(clock={"margin": 512, "jitter": F(2)}), set()),
    ("a floor, and no jitter at all", changed(clock={"margin": 512, "jitter": F(0)}), set()),
    ("a floor under too few jitters", changed(clock={"margin": 512, **roomy("4")}), {Fault.MARGIN_DROWNS}),
    (
        "a floor under a jitter that nobody measures",
        changed(clock={"margin": 512}, sampling={"repetitions": 1}),
        {Fault.MARGIN_WITHOUT_JITTER},
    ),
    (
        "a floor under less signal than the tolerance",
        changed(clock=fixed_clock(jitter=None, jitter_multiple=F("1.4"))),
        {Fault.CLOCK_REFUSES_HONEST, Fault.CEILING_ABOVE_CROSSOVER, Fault.MARGIN_DROWNS},
    ),
    ("a fixed margin that the rule checks against jitter", changed(clock=fixed_clock(jitter_multiple=F(10))), set()),
    (
        "a fixed margin, one side",
        changed(clock=fixed_clock(clock_over_claim=None)),
        {Fault.MARGIN_DROWNS, Fault.ONE_SIDED_CLOCK},
    ),
    (
        "a pin entry at its word",
        replace(CLEAN, arithmetic="measured-gain/2"),
        {Fault.GUARD_PIN_UNRECONCILED, Fault.CLOCK_REFUSES_UNPROVED, *EARLIER},
    ),
    ("short is a lie", replace(CLEAN, arithmetic="measured-gain/3"), {Fault.CLOCK_REFUSES_UNPROVED, *EARLIER}),
    (
        "short is a lie, in tokens",
        replace(changed(clock={"margin": 1000, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        {Fault.CLOCK_REFUSES_UNPROVED, Fault.MARGIN_WITHOUT_JITTER, *EARLIER},
    ),
    (
        "nothing can be too short",
        replace(changed(clock={"margin": 1, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        EARLIER | {Fault.MARGIN_WITHOUT_JITTER},
    ),
    (
        "short in two tokens",
        replace(changed(clock={"margin": 2, "jitter_multiple": None, "jitter": F(0)}), arithmetic="measured-gain/3"),
        {Fault.CLOCK_REFUSES_UNPROVED, Fault.MARGIN_WITHOUT_JITTER, *EARLIER},
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
        replace(changed(clock=NARROW), arithmetic="anchored-gain/1"),
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
        {Fault.MARGIN_WITHOUT_JITTER},
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
    (
        "a signal of just the tolerance",
        changed(clock={"jitter_multiple": F("1.25")}),
        {Fault.CLOCK_REFUSES_HONEST, Fault.MARGIN_DROWNS},
    ),
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
    # The guard, against the least gain that earns a tier.
    ("a guard that gives what a tier asks for, by its clock", changed(guard={"least": F("0.9898")}), set()),
    (
        "a guard that gives what a tier asks for, and nobody asks its clock",
        changed(guard={"least": F("0.98")}, clock={"metrics": ("decode",)}),
        {Fault.GUARD_WITHOUT_CLOCK},
    ),
    # The clock: half of the work.
    ("twice the clock", changed(clock={"claim_over_clock": F(2), "clock_over_claim": F(2)}), set()),
    ("more than twice", changed(clock={"claim_over_clock": F("2.01")}), {Fault.CLOCK_LAX}),
    ("more than twice, below", changed(clock={"clock_over_claim": F("2.01")}), {Fault.CLOCK_LAX}),
    ("ten times, both", changed(clock={"claim_over_clock": F(10), "clock_over_claim": F(10)}), {Fault.CLOCK_LAX}),
]
