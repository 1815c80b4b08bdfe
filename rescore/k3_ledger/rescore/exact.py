"""Exact numbers: decimal text in, fractions inside, decimal text out. No binary float takes part anywhere.

Two grammars are read. :func:`parse_decimal` takes what this project writes: an optional minus, digits without a
leading zero, an optional fraction. :func:`parse_number` also takes an exponent, because foreign logs print small
numbers as ``2.8e-06``. Both are bounded in length, so no text can cost more than its own size.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

_DECIMAL: Final = re.compile(r"(-?(?:0|[1-9][0-9]{0,30}))(\.[0-9]{1,40})?")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,40})?)[eE]([+-]?[0-9]{1,3})")
_UNIT: Final = re.compile(r"-?[0-9][0-9.]*\s*[A-Za-z%/]")
_LARGEST_EXPONENT: Final = 60
_LONG: Final = 31
"""Characters from which on a number can be too long."""


def parse_decimal(text: str, *, field: str, position: Position = NOWHERE) -> Fraction:
    """Read decimal text exactly.

    Args:
        text: such as ``"56.82"``; no exponent, plus sign, leading zero, white space or unit.
        field: what the number is, for the message.
        position: where it stands.

    Raises:
        RescoreError: ``K3L-NUMBER``, saying which of these it is.
    """
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    raise RescoreError(
        Code.NUMBER,
        f"{field}: {_complaint(text)}",
        position=position,
        expected="a decimal number such as 56.82",
        found=text[:60],
    )


def parse_number(text: str, *, field: str, position: Position = NOWHERE) -> Fraction:
    """Read a number of a foreign log exactly: like :func:`parse_decimal`, or with a decimal exponent within ±60.

    Raises:
        RescoreError: ``K3L-NUMBER``.
    """
    match = _NUMBER.fullmatch(text)
    if match and abs(int(match[2])) <= _LARGEST_EXPONENT:
        return Fraction(match[1]) * Fraction(10) ** int(match[2])
    return parse_decimal(text, field=field, position=position)


def _complaint(text: str) -> str:
    if not text.strip():
        return "the number is missing"
    if text.strip().lstrip("+-").lower() in {"nan", "inf", "infinity"}:
        return f"{text.strip()} is not a number to compute with"
    if _UNIT.match(text.strip()):
        return f"{text[:40]!r} carries a unit or an exponent"
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) and len(text) > _LONG:
        return f"the number has {len(text)} characters, more than the 31 digits before the point or 40 behind it"
    return f"{text[:40]!r} is not a decimal number"


def quantize(value: Fraction, places: int) -> Fraction:
    """Nearest multiple of ``10**-places``; an exact tie goes to the even one."""
    scale = 10**places
    return Fraction(round(value * scale), scale)


def format_exact(value: Fraction) -> str:
    """Text that stands for exactly this value: decimal when it terminates, otherwise ``numerator/denominator``."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return format_rounded(value, max(twos, fives)) if rest == 1 else f"{value.numerator}/{value.denominator}"


def format_rounded(value: Fraction, places: int) -> str:
    """Decimal text with exactly ``places`` decimals, ties to even."""
    scaled = round(value * 10**places)
    sign = "-" if scaled < 0 else ""
    digits = str(abs(scaled)).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def format_percent(value: Fraction, places: int = 1) -> str:
    """A share as percent: ``Fraction(9, 50)`` is ``"18.0"`` (the sign is the caller's to print)."""
    return format_rounded(value * 100, places)
