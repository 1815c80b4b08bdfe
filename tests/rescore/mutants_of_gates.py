"""Changes to credit, agreement, ceiling, guard and scope, with the faults that each has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.rules.parameters import Ceiling, Credit
from tests.rescore.mutants import CLEAN, FRONTIER, GUARD, REFERENCE, UNHELD, UNSCORED, UNTIMED, F, at, changed

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

OF_GATES: list[tuple[str, Rule, set[Fault]]] = [
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
    ("bars swapped", changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.18")))}), {Fault.TIER_UNREACHABLE}),
    ("bars equal", changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.1")))}), {Fault.TIER_UNREACHABLE}),
    ("a bar at the significance", changed(tiers={"steps": (("XL", F("0.02")),)}), {Fault.TIER_UNREACHABLE}),
    (
        "less than that",
        changed(tiers={"significance": F("0.0101")}),
        {Fault.GUARD_ADMITS_TRADE},
    ),
    ("no bars", changed(tiers={"steps": ()}), set()),
    # Beside enough jitters of each run a number of tokens is a floor, whatever is said of it.
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
    # What no receipt holds, by the schema's own bounds.
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
    # Rounding: half a step against the significance.
    ("whole tokens a second", changed(precision={"speed": 0}), {Fault.ROUNDING_IS_CREDITED}),
    ("whole tokens, at twenty-four", changed(precision={"speed": 0}, pins=(at(24),)), {Fault.ROUNDING_IS_CREDITED}),
    ("whole tokens, at twenty-five", changed(precision={"speed": 0}, pins=(at(25),)), set()),
    ("hundredths, at a quarter", changed(precision={"speed": 2}, pins=(at("0.25"),)), set()),
    ("hundredths below", changed(precision={"speed": 2}, pins=(at("0.249"),)), {Fault.ROUNDING_IS_CREDITED}),
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
    ("a guard that gives more", changed(guard={"least": F("0.9897")}), {Fault.GUARD_ADMITS_TRADE}),
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
    # What is recorded in fewer decimals than it is compared in is worth a note, and no fault.
    ("divergences recorded in whole nats", changed(precision={"kl": 0}), set()),
    ("gains recorded in whole per cent", changed(precision={"percent": 0}), set()),
    # What a receipt has to say.
    ("a context that is sought", changed(sampling={"filled": False}), {Fault.CONTEXT_NOT_FILLED}),
    ("an engine of its own opinion", changed(sampling={"independent": False}), {Fault.SELF_GRADED}),
]
