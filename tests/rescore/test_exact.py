"""Numbers: what is read, what is refused and why, and that text comes back as it was."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import (
    format_exact,
    format_percent,
    format_rounded,
    parse_decimal,
    parse_number,
    quantize,
)
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0.5", Fraction(-1, 2)),
        ("56.82", Fraction(5682, 100)),
        ("0.006694998054076399", Fraction(6694998054076399, 10**18)),
    ],
)
def test_decimal_text_is_read_exactly(text: str, value: Fraction) -> None:
    assert parse_decimal(text, field="speed") == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the number is missing"),
        ("  ", "the number is missing"),
        ("NaN", "NaN is not a number to compute with"),
        ("-inf", "-inf is not a number to compute with"),
        ("Infinity", "Infinity is not a number to compute with"),
        ("56.8 tok/s", "'56.8 tok/s' carries a unit or an exponent"),
        ("10%", "'10%' carries a unit or an exponent"),
        ("1e3", "'1e3' carries a unit or an exponent"),
        ("+1", "'+1' is not a decimal number"),
        ("007", "'007' is not a decimal number"),
        (".5", "'.5' is not a decimal number"),
        ("1.", "'1.' is not a decimal number"),
        ("1,5", "'1,5' is not a decimal number"),
        ("1_000", "'1_000' is not a decimal number"),
        ("٣", "'٣' is not a decimal number"),
        ("1" * 40, "the number has 40 characters, more than the 31 digits before the point or 40 behind it"),
    ],
)
def test_what_is_not_a_decimal_number_is_named(text: str, complaint: str) -> None:
    with pytest.raises(RescoreError) as caught:
        parse_decimal(text, field="pin")
    assert caught.value.code is Code.NUMBER
    assert str(caught.value) == f"pin: {complaint}"


def test_a_foreign_log_may_use_an_exponent() -> None:
    assert parse_number("2.823644754057077e-06", field="kl") == Fraction(2823644754057077, 10**21)
    assert parse_number("1E+2", field="kl") == 100


@pytest.mark.parametrize("text", ["1e61", "1e-61", "1e9999", "1e", "e5", "nan"])
def test_an_exponent_is_bounded(text: str) -> None:
    with pytest.raises(RescoreError):
        parse_number(text, field="kl")


@given(st.integers(min_value=-(10**12), max_value=10**12), st.integers(min_value=0, max_value=20))
def test_exact_text_reads_back_as_the_same_value(numerator: int, places: int) -> None:
    value = Fraction(numerator, 10**places)
    assert parse_decimal(format_exact(value), field="x") == value


def test_a_value_that_does_not_terminate_is_written_as_a_fraction() -> None:
    assert format_exact(Fraction(81, 553)) == "81/553"
    assert format_exact(Fraction(-7)) == "-7"
    assert format_exact(Fraction("0.0005")) == "0.0005"


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        ("0.125", 2, "0.12"),
        ("0.135", 2, "0.14"),
        ("-0.125", 2, "-0.12"),
        ("2.5", 0, "2"),
        ("-0.001", 2, "0.00"),
        ("12", 1, "12.0"),
    ],
)
def test_rounding_takes_an_exact_tie_to_the_even_digit(value: str, places: int, text: str) -> None:
    assert format_rounded(Fraction(value), places) == text
    assert quantize(Fraction(value), places) == Fraction(text)


def test_percent() -> None:
    assert format_percent(Fraction(81, 553)) == "14.6"
    assert format_percent(Fraction("0.10000001"), 2) == "10.00"
