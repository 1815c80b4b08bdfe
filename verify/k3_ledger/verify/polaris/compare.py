"""Comparing two statements of one fact: equal, a rounded copy, left blank, not comparable, or different.

Numbers are compared exactly, as decimals. A number counts as a rounded copy of another when rounding the other to one
of :data:`ROUNDED_TO` decimals gives it; so 0.0039 is a copy of 0.003867 (four places) but 1.0 is none of 0.97.
"""

from __future__ import annotations

import enum
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from k3_ledger.verify.polaris.facts import KINDS, Kind, is_blank
from k3_ledger.verify.polaris.foreign_json import Compound, number_of, show
from k3_ledger.verify.polaris.spelling import plain
from k3_ledger.verify.polaris.wordings import architectures_of, day_of, repository_of

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.foreign_json import Number, Scalar

ROUNDED_TO: Final = (2, 3, 4, 5, 6, 7, 8, 9)
"""Places to which this family's writers and printers round figures."""
PERCENT_ROUNDED_TO: Final = (1, *ROUNDED_TO)
"""The same for percentages, which are written with one decimal."""
SHORTEST_PREFIX: Final = 7
"""Fewest characters of an identifier that may stand for it."""
SHORTENED: Final = frozenset(range(SHORTEST_PREFIX, 64)) - {32, 40}
"""How many characters of an identifier may stand for it: not those of a whole id, commit or digest."""

EARLIEST: Final = timedelta(hours=-12)
LATEST: Final = timedelta(hours=14)
"""Least and most that a place of this world is ahead of UTC."""

IN_WORDS: Final = frozenset({Kind.TIME, Kind.ARCHITECTURE, Kind.REPOSITORY})
"""Kinds of which a value may be in words that cannot be read: that contradicts nothing."""

_HEX = re.compile(r"[0-9a-f]{8,64}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)


class Agreement(enum.Enum):
    """How two statements relate."""

    EQUAL = "equal"
    ROUNDED = "rounded copy"
    BLANK = "blank in one"
    NOT_COMPARED = "not comparable"
    DIFFER = "different"


OPEN: Final = frozenset({Agreement.BLANK, Agreement.NOT_COMPARED})
"""Pairs of which neither can be held against the other."""


def compare(fact: str, a: Scalar, b: Scalar) -> Agreement:
    """Relate two values of a fact."""
    if is_blank(a) or is_blank(b):
        return Agreement.EQUAL if is_blank(a) and is_blank(b) else Agreement.BLANK
    kind = KINDS.get(fact, Kind.VALUE)
    if kind is Kind.REFERENCE:
        a, b = (value.removeprefix("#") if isinstance(value, str) else value for value in (a, b))
    if kind in (Kind.VALUE, Kind.REFERENCE):
        left, right = number_of(a), number_of(b)
        if left is not None and right is not None:
            return compare_numbers(left, right, percent="pct" in fact)
        same = a == b if not isinstance(a, str) or not isinstance(b, str) else plain(a) == plain(b)
        return Agreement.EQUAL if type(a) is type(b) and same else Agreement.DIFFER
    if kind in IN_WORDS and not isinstance(a, Compound) and not isinstance(b, Compound):
        return _compare_words(kind, show(a), show(b))
    same = isinstance(a, str) and isinstance(b, str) and _same_text(kind, a, b)
    return Agreement.EQUAL if same else Agreement.DIFFER


def compare_numbers(a: Number, b: Number, *, percent: bool = False) -> Agreement:
    """Relate two numbers by value. Numbers that are no figures are equal only when spelled alike."""
    left, right = a.value, b.value
    if left is None or right is None:
        return Agreement.EQUAL if a.text == b.text else Agreement.DIFFER
    if left == right:
        return Agreement.EQUAL
    coarse, fine = (a, b) if a.decimals < b.decimals else (b, a)
    places = PERCENT_ROUNDED_TO if percent else ROUNDED_TO
    rounded = any(coarse.decimals <= d < fine.decimals and is_rounding(coarse, fine, d) for d in places)
    return Agreement.ROUNDED if rounded else Agreement.DIFFER


def is_rounding(coarse: Number, fine: Number, places: int) -> bool:
    """Whether ``coarse`` is ``fine`` rounded to ``places`` decimals, ties either way."""
    assert coarse.value is not None
    assert fine.value is not None
    return 2 * abs(coarse.value - fine.value) <= Decimal(1).scaleb(-places)


def _compare_words(kind: Kind, a: str, b: str) -> Agreement:
    """Relate two texts that say something in words of which some cannot be read."""
    same = True if a == b else _SAME[kind](a, b)
    if same is None:
        return Agreement.NOT_COMPARED
    return Agreement.EQUAL if same else Agreement.DIFFER


def _same_architecture(a: str, b: str) -> bool | None:
    """Whether two names may be of one architecture; None where one of them is of no vocabulary that is known."""
    one, two = architectures_of(a), architectures_of(b)
    return None if one is None or two is None else not one.isdisjoint(two)


def _same_repository(a: str, b: str) -> bool | None:
    """Whether two texts may be of one repository; None where one of them is no name and no address of one."""
    one, two = repository_of(a), repository_of(b)
    return None if one is None or two is None else one.may_be(two)


def _same_text(kind: Kind, a: str, b: str) -> bool:
    if kind is Kind.TIER:
        return a.casefold() == b.casefold()
    if kind is Kind.WORDS:
        one, two = set(a.casefold().split()), set(b.casefold().split())
        return bool(one and two) and (one <= two or two <= one)
    short, long = sorted((plain(a), plain(b)), key=len)
    return short == long or (long.startswith(short) and _HEX.fullmatch(long) is not None and len(short) in SHORTENED)


def _same_time(a: str, b: str) -> bool | None:
    """Whether two texts may be one moment; None where one is no date. A day is one where it was that day somewhere."""
    one, two = instant(a), instant(b)
    if one is not None and two is not None:
        return one == two
    left, right = days_of(a), days_of(b)
    return None if left is None or right is None else left[0] <= right[1] and right[0] <= left[1]


_SAME = {Kind.TIME: _same_time, Kind.ARCHITECTURE: _same_architecture, Kind.REPOSITORY: _same_repository}


def days_of(text: str) -> tuple[str, str] | None:
    """First and last day, as text, that a day or a moment in UTC was anywhere; None for what is neither."""
    time = instant(text)
    if time is None:
        day = day_of(text)
        return None if day is None else (day, day)
    days = []
    for ahead in (EARLIEST, LATEST):
        try:
            days.append(f"{(time + ahead).date()}")
        except OverflowError:  # the first and the last day that there is
            days.append(f"{time.date()}")
    return days[0], days[1]


def written_day(text: str) -> str:
    """The day that a date, or a date and time, is written with, as YYYY-MM-DD; empty for what is neither."""
    return text[:10] if instant(text) is not None else day_of(text) or ""


def instant(text: str) -> datetime | None:
    """Time to the second in UTC; None for text that is no date and time. Without an offset, UTC is meant."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    day, time, offset = match.groups()
    try:
        return datetime.fromisoformat(f"{day}T{time}{(offset or 'Z').upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
