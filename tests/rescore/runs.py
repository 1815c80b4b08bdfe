"""Runs and rules made for tests: plain values that a test changes one at a time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.history.pins import DECODE_128K, PREFILL_32K
from k3_ledger.rescore.inputs import ClockReading, Depth, Figure, Parity, RunInputs
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.repeats import Repeats
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.verdict import Gate, Verdict

SUITE = find_rule("v0.2.1").correctness.depths


def figure(value: str | int | None, origin: str = "receipt") -> Figure | None:
    return None if value is None else Figure(Fraction(value), origin)  # type: ignore[arg-type]


def parity(
    kl: str = "0.004", top1: str = "1", *, depths: tuple[int, ...] = SUITE, path: Any = "both", rows: int | None = None
) -> Parity:
    """Parity with the same agreement at every depth."""
    graded = tuple(Depth(tokens, Fraction(kl), Fraction(top1), rows) for tokens in depths)
    return Parity(Fraction(kl), Fraction(top1), graded, path, independent=True)


def run(
    speed: str | None = "60",
    frontier: str | None = "50",
    reference: str | None = "25",
    *,
    metric: str = "decode",
    **fields: Any,
) -> RunInputs:
    """A decode run at 131,072 tokens (or a prefill run at 32,768) with good parity."""
    track = DECODE_128K if metric == "decode" else PREFILL_32K
    fields.setdefault("parity", parity())
    return RunInputs(
        run="run",
        track=track,
        speed=None if speed is None else Fraction(speed),
        frontier=figure(frontier),
        reference=figure(reference),
        **fields,
    )


def repeats(*speeds: str | int) -> Repeats:
    """Frontier runs of these speeds, each of a bundle of its own."""
    values = [Fraction(speed) for speed in speeds]
    return Repeats(tuple(f"{number:064x}" for number, _ in enumerate(values))[:4], min(values), max(values))


def clock(tokens: int, seconds: str, jitter: str | None = None) -> ClockReading:
    spread = None if jitter is None else Fraction(jitter)
    return ClockReading(tokens, Fraction(seconds), spread, spread)


def native(speed: str = "60", *, metric: str = "decode", **fields: Any) -> RunInputs:
    """A run that lacks nothing and that every gate of the house rules passes; 2,048 tokens of margin, little jitter."""
    fields.setdefault("parity", parity(rows=32))
    fields.setdefault("frontier_parity", parity(rows=32))
    fields.setdefault("clock", clock(2048, format_exact(2048 / Fraction(speed)), "0.5"))
    fields.setdefault("guarded", Fraction(100))
    fields.setdefault("guard_pin", figure("100", "pin"))
    fields.setdefault("guard_measured", fields["guard_pin"] and figure("100"))
    if fields["guarded"]:
        fields.setdefault("guarded_clock", clock(2048, format_exact(2048 / fields["guarded"]), "0.05"))
    fields.setdefault("samples", 7)
    fields.setdefault("filled", True)
    fields.setdefault("repeats", repeats(*[fields.get("frontier") or "50"] * 4))
    return run(speed, metric=metric, **fields)


def verdict(rule: str, inputs: RunInputs) -> Verdict:
    result = apply_arithmetic(find_rule(rule), inputs)
    assert isinstance(result, Verdict), result
    return result


def gate(rule: str, inputs: RunInputs, name: str) -> Gate:
    (found,) = [gate for gate in verdict(rule, inputs).gates if gate.name == name]
    return found


def at_depth(base: Parity, tokens: int, *, kl: str | None = None, top1: str | None = None) -> Parity:
    """The same parity with one depth changed."""
    depths = tuple(
        replace(
            depth,
            kl=depth.kl if kl is None else Fraction(kl),
            top1=depth.top1 if top1 is None else Fraction(top1),
        )
        if depth.tokens == tokens
        else depth
        for depth in base.depths
    )
    return replace(base, depths=depths)
