"""Moments as entries and reports spell them: UTC, whole seconds, ``2026-08-02T03:55:27Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from time import gmtime, strftime
from typing import Final

LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999, in seconds since the Epoch: later ones have no such spelling."""
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
_TIME: Final = re.compile(r"2[0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z")


def format_time(seconds: int) -> str:
    """Seconds since the Epoch as UTC; what no calendar reaches, as a count of seconds."""
    if seconds > LAST_SECOND:
        return f"{seconds} seconds after 1970"
    return strftime(_FORM, gmtime(seconds))


def parse_time(text: str) -> int:
    """Seconds since the Epoch of a time as entries spell it: from the year 2000 on.

    Raises:
        ValueError: the text is no such time.
    """
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no time of the form YYYY-MM-DDTHH:MM:SSZ")
    return int(datetime.strptime(text, _FORM).replace(tzinfo=UTC).timestamp())
