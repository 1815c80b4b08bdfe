"""Runs at and around every threshold of the published rules, and what each rule makes of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.inputs import ClockReading, Mixed, Pair
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.verdict import NotScorable
from tests.rescore.runs import at_depth, clock, figure, native, parity, repeats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.inputs import RunInputs
    from k3_ledger.rescore.rules.verdict import Scored

RULES: Final = (
    "v0.1.0", "v0.2.0", "v0.2.1", "v0.2.2",
    *(f"house-{number}.decode" for number in range(1, 8)),
)  # fmt: skip
"""Every arithmetic in every version, by the releases and the house rules that name it."""

_GAINS: Final = ("0", "0.0199999", "0.02", "0.0349999", "0.035", "0.06", "0.0999999", "0.1", "0.18", "1", "2.1")
_STEP: Final = Fraction(1, 10**6)


def cases() -> Iterator[tuple[str, RunInputs]]:
    """Runs, each of which differs in one thing from one that every gate of the house rules passes."""
    for gain in _GAINS:
        speed = 50 * (1 + Fraction(gain))
        guarded = {"clock": ClockReading(2048, 2048 / speed, Fraction(1, 1000), Fraction(1, 1000))}
        yield f"gain {gain} below the reference", _run(speed, reference=figure("60"), **guarded)
        yield f"gain {gain} above the reference", _run(speed, **guarded)
    yield "no speed", replace(native(), speed=None, clock=None)
    yield "no frontier known", replace(native(), frontier=None)
    yield "first run", replace(native(), frontier=figure("0"), frontier_parity=None, guard_pin=None)
    yield "no reference", replace(native(), reference=None)
    yield "slower than the frontier", _run(Fraction(45))
    yield from _parities()
    yield from _clocks()
    yield from _guards()
    for fast in (199, 200, 201):
        yield f"{fast} where four times the frontier is the ceiling", _run(Fraction(fast), reference=figure("25"))
    for samples in (2, 3, 6, 7, None):
        yield f"{samples} repetitions", replace(native(), samples=samples)
    for filled in (False, None):
        yield f"context filled: {filled}", replace(native(), filled=filled)
    yield "graded by itself", replace(native(), parity=replace(parity(rows=32), independent=False))
    yield "graded by nobody knows whom", replace(native(), parity=replace(parity(rows=32), independent=None))
    yield "alarm", replace(native(), alarm=figure("44"))
    yield "on other weights", replace(native(), weights="a" * 64, mixed=Mixed("the frontier", "b" * 64))
    for least, greatest in (("50", "59.999999"), ("50", "60"), ("50", "60.000001")):
        spread = repeats(least, greatest, least, greatest)
        yield f"frontier runs from {least} to {greatest}", replace(native(), repeats=spread)
    yield "three frontier runs", replace(native(), repeats=repeats(50, 50, 50))
    yield "no frontier runs", replace(native(), repeats=None)


def _run(speed: Fraction, **changes: object) -> RunInputs:
    read = ClockReading(2048, 2048 / speed, Fraction(1, 2), Fraction(1, 2))
    return replace(native(), **{"speed": speed, "clock": read, **changes})  # type: ignore[arg-type]


def _parities() -> Iterator[tuple[str, RunInputs]]:
    good = parity(rows=32)
    yield "no parity", replace(native(), parity=None)
    for kl in ("0.02", "0.020001", "0.05", "0.050001"):
        for depth in (4, 4096):
            graded = at_depth(good, depth, kl=kl)
            yield f"divergence {kl} at {depth}", replace(native(), parity=replace(graded, kl=graded.worst_kl()))
    for top1 in ("0.95", "0.949999", "0.9"):
        graded = at_depth(good, 512, top1=top1)
        yield f"agreement {top1} at 512", replace(native(), parity=replace(graded, top1=graded.worst_top1()))
    yield "a depth not graded", replace(native(), parity=parity(rows=32, depths=(4, 128, 256, 512, 1024, 2048)))
    yield "another path graded", replace(native(), parity=parity(rows=32, path="prefill"))
    yield "31 rows", replace(native(), parity=parity(rows=31))
    yield "rows unknown", replace(native(), parity=parity(rows=None))
    yield "the frontier's parity unknown", replace(native(), frontier_parity=None)
    for kl in ("0.0049", "0.005", "0.005001", "0.008", "0.008001"):
        yield f"divergence {kl} beside 0.004", replace(native(), parity=parity(kl, rows=32))
    for kl in ("0.0005", "0.000501", "0.001001"):
        both = {"parity": parity(kl, rows=32), "frontier_parity": parity("0.0001", rows=32)}
        yield f"divergence {kl} beside 0.0001", replace(native(), **both)  # type: ignore[arg-type]


def _clocks() -> Iterator[tuple[str, RunInputs]]:
    seconds = Fraction(2048, 60)
    yield "no clock", replace(native(), clock=None)
    for share in ("0.79", "0.8", "1.02", "1.25", "1.26"):
        yield f"clock at {share} of the claim", replace(native(), clock=_reading(seconds / Fraction(share)))
    yield "clock backwards", replace(native(), clock=clock(2048, "-1", "0.5"))
    yield "clock without jitter", replace(native(), clock=clock(2048, str(round(float(seconds), 3))))
    for jitter in (seconds / 10, seconds / 10 + _STEP):
        yield f"jitter {float(jitter):.6f}", replace(native(), clock=_reading(seconds, jitter, jitter))
        yield f"jitter {float(jitter):.6f}, not of the middle", replace(native(), clock=_reading(seconds, jitter))
        short = _reading(seconds / 2, jitter, jitter)
        yield f"jitter {float(jitter):.6f}, clock at half", replace(native(), clock=short)
    pairs = (Pair((64, 1088), seconds / 2 * Fraction(6, 5)), Pair((1088, 2112), seconds / 2 * Fraction(4, 5)))
    yield "one pair of lengths slower", replace(native(), clock=replace(_reading(seconds), pairs=pairs))


def _reading(seconds: Fraction, jitter: Fraction = Fraction(1, 2), middle: Fraction = Fraction(1, 2)) -> ClockReading:
    return ClockReading(2048, seconds, jitter, middle)


def _guards() -> Iterator[tuple[str, RunInputs]]:
    for guarded in ("98.999999", "99", "100"):
        own = clock(2048, str(Fraction(2048) / Fraction(guarded)), "0.05")
        yield f"guarded {guarded} of 100", replace(native(), guarded=Fraction(guarded), guarded_clock=own)
    yield "guarded not measured", replace(native(), guarded=None, guarded_clock=None)
    yield "guarded without a clock", replace(native(), guarded_clock=None)
    for share in ("0.79", "0.97", "1.26"):
        read = clock(2048, str(Fraction(2048, 100) / Fraction(share)), "0.05")
        yield f"guarded clock at {share} of the claim", replace(native(), guarded_clock=read)
    yield "no guard pin", replace(native(), guard_pin=None)
    yield "a guard pin of a file", replace(native(), guard_pin=figure("100", "file"))
    for newest in ("90.8", "91", "110", "111.2", None):
        yield f"guard pin 100, newest {newest}", replace(native(), guard_measured=figure(newest))


def judged(rule: str) -> list[tuple[str, Scored]]:
    """What a rule makes of each."""
    return [(name, apply_arithmetic(find_rule(rule), run)) for name, run in cases()]


def cell(found: Scored) -> str:
    """A verdict as the table shows it: the tier and what bound it, or why there is none."""
    if isinstance(found, NotScorable):
        return f"-:{found.reason}" + (f":{found.field}" if found.reason == "missing" else "")
    return f"{found.tier}:{found.bound_by}"


def digest(found: list[tuple[str, Scored]]) -> str:
    """SHA-256 over all that is exact and stable in these verdicts: words of explanation may change, figures may not."""
    rows: list[Any] = [[name, cell(one), *_figures(one)] for name, one in found]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _figures(found: Scored) -> list[Any]:
    if isinstance(found, NotScorable):
        return []
    gates: list[Any] = [
        [gate.name, str(gate.outcome), gate.reason, gate.warning, [[step.name, step.text] for step in gate.steps]]
        for gate in found.gates
    ]
    steps: list[Any] = [[step.name, step.text] for step in found.steps]
    return [found.speed_tier, str(found.credit_bound), str(found.gain), str(found.credit), gates, steps]


def table() -> str:
    """Every case, and what each rule made of it."""
    columns = [[rule, *(cell(found) for _, found in judged(rule))] for rule in RULES]
    names = ["case", *(name for name, _ in cases())]
    return "".join("\t".join(row) + "\n" for row in zip(names, *columns, strict=True))
