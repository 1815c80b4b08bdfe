"""A rule's numbers as integers and as text that sorts, and the exact arithmetic of speeds.

Speeds are counts of ``10**-6`` units per second, as receipts are read everywhere; fractions are pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.native import DECIMALS, NANOSECONDS

if TYPE_CHECKING:
    from fractions import Fraction

SCALE: Final = 10**DECIMALS
_RATE: Final = NANOSECONDS * SCALE
PLACES: Final = 40
"""Decimals that a divergence may have in a receipt."""
_WIDE: Final = 120
"""Decimals of a bound that divergences are compared with as text."""


def pair(value: Fraction) -> tuple[int, int]:
    """Numerator and denominator."""
    return value.numerator, value.denominator


def round_half_even(numerator: int, denominator: int) -> int:
    """Nearest integer of a positive quotient; an exact tie goes to the even one."""
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest
    up = twice > denominator or (twice == denominator and whole % 2 == 1)
    return whole + 1 if up else whole


def median_rate(count: int, durations: list[int]) -> int:
    """Median of ``count`` units in each duration, in ``10**-6`` units per second, ties to even; sorts its argument."""
    durations.sort()
    half = len(durations) // 2
    if len(durations) % 2:
        return round_half_even(count * _RATE, durations[half])
    one, two = durations[half - 1], durations[half]
    return round_half_even(count * _RATE * (one + two), 2 * one * two)


def twice_median(durations: list[int]) -> int:
    """Twice the median of sorted durations."""
    half = len(durations) // 2
    return 2 * durations[half] if len(durations) % 2 else durations[half - 1] + durations[half]


def upper_text(bound: Fraction) -> str | None:
    """Text that decimal text of a value from 0 is at most, as text, exactly when its value is at most ``bound``.

    Such text has one digit before the point or more, and at most :data:`PLACES` after it. With ``bound`` below 1 the
    digits decide from left to right, as letters do: whatever begins with another digit than 0 is greater, and what
    ends where the bound goes on is not. None for a bound that has no such text: 1 or more, or endless.
    """
    if not 0 <= bound < 1 or 10**_WIDE % bound.denominator:
        return None
    return "0." + str(bound.numerator * (10**_WIDE // bound.denominator)).rjust(_WIDE, "0")


def upper_text_of(text: str, times: Fraction) -> str | None:
    """:func:`upper_text` of ``times`` the value that decimal text stands for."""
    whole, _, part = text.partition(".")
    if whole == "0" and times.denominator == 1:  # mostly: then the digits are those of a whole number
        digits = str(int(part or "0") * times.numerator)
        width = len(part) or 1
        return None if len(digits) > width else f"0.{digits.rjust(width, '0').ljust(PLACES + 8, '0')}"
    numerator, denominator = int(whole + part) * times.numerator, 10 ** len(part) * times.denominator
    if not 0 <= numerator < denominator:
        return None
    for places in (
        PLACES + 8,
        _WIDE,
    ):  # it must only be longer than any text it is held against
        quotient, rest = divmod(numerator * 10**places, denominator)
        if not rest:
            return "0." + str(quotient).rjust(places, "0")
    return None


def lower_text(bound: Fraction) -> str | None:
    """Text that decimal text of a value from 0 is at least, as text, exactly when its value is at least ``bound``."""
    text = upper_text(bound)
    if text is None:
        return None
    return text.rstrip("0").rstrip(".")
