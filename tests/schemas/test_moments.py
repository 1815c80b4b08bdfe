"""Moments are spelled in one way, and only that way is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas.moments import LAST_SECOND, format_time, parse_time

YEAR_2000 = 946_684_800
YEAR_3000 = 32_503_680_000


@given(st.integers(YEAR_2000, YEAR_3000 - 1))
def test_what_is_written_is_read_back(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


def test_known_moments() -> None:
    assert format_time(0) == "1970-01-01T00:00:00Z"
    assert format_time(1_767_268_800) == "2026-01-01T12:00:00Z"
    assert format_time(LAST_SECOND) == "9999-12-31T23:59:59Z"
    assert format_time(LAST_SECOND + 1) == f"{LAST_SECOND + 1} seconds after 1970"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-01",
        "2026-1-1T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01t00:00:00z",
        "2026-01-01T00:00:00.5Z",
        " 2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "1999-12-31T23:59:59Z",
        "\u0662026-01-01T00:00:00Z",
    ],
)
def test_every_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|range"):
        parse_time(text)
