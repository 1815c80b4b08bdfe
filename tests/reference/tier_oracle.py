"""Second implementation of the tier arithmetic, in integers alone: no fraction, no decimal, no float, no room of ours.

Written from the formulas: t scored, F frontier, L reference, d = t - F, gain d/F; nothing above 2 % is ``none``;
credit is the least of d/L and cap x gain, or the gain where the anchor is off; bars 18, 10, 6 and 3.5 %.
Every number is decimal text and becomes a count of 10**-SCALE; ratios are compared by multiplying across.
"""

from __future__ import annotations

SCALE = 24
BARS = (("XL", 180), ("L", 100), ("M", 60), ("S", 35))  # thousandths


def units(text: str) -> int:
    """Decimal text as an integer count of 10**-SCALE."""
    negative = text.startswith("-")
    whole, _, part = text.lstrip("-").partition(".")
    assert len(part) <= SCALE
    value = int(whole) * 10**SCALE + int(part.ljust(SCALE, "0"))
    return -value if negative else value


def credit(speed: str, frontier: str, reference: str | None, cap: int, *, anchored: bool) -> tuple[int, int] | None:
    """Credit as (numerator, denominator), or None where the gain is not significant or there is no frontier."""
    t, f = units(speed), units(frontier)
    if f <= 0 or 50 * (t - f) <= f:
        return None
    difference = t - f
    if not anchored:
        return difference, f
    assert reference is not None
    anchor = units(reference)
    # d/L <= cap*d/F  <=>  F <= cap*L
    return (difference, anchor) if f <= cap * anchor else (cap * difference, f)


def label(
    speed: str,
    frontier: str,
    reference: str | None,
    *,
    cap: int,
    anchored: bool = True,
    top1: str = "1",
    kl: str = "0",
    top1_bar: str = "0.9",
    kl_bar: str = "0.05",
) -> str:
    """Tier of one run."""
    if units(top1) < units(top1_bar) or units(kl) > units(kl_bar):
        return "REJECT"
    if units(frontier) <= 0:
        return "BASELINE"
    share = credit(speed, frontier, reference, cap, anchored=anchored)
    if share is None:
        return "none"
    numerator, denominator = share
    return next((name for name, bar in BARS if 1000 * numerator >= bar * denominator), "XS")
