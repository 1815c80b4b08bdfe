"""Constrained values mean the same to pydantic, to msgspec and to a JSON Schema validator."""

from __future__ import annotations

import calendar
import re

import jsonschema
import msgspec
import pytest
from pydantic import TypeAdapter, ValidationError

from k3_ledger.schemas import canonical, models, structs
from tests.schemas import examples
from tests.schemas.examples import TEXTS, pattern_of

PLACES = {
    "Hex64": ("note", ["prev"]),
    "Commit": ("merge", ["body", "commit"]),
    "Decimal": ("pin", ["body", "value"]),
    "Timestamp": ("note", ["time"]),
    "Name": ("rule", ["body", "rule"]),
    "FileName": ("note", ["body", "artifacts", 0, "name"]),
    "MediaType": ("note", ["body", "artifacts", 0, "media_type"]),
    "Origin": ("genesis", ["body", "origin"]),
    "Signature": ("key", ["body", "endorsements", 0, "sig"]),
}
"""A field for every value with a pattern: kind of the entry, and path."""

REFUSED = {
    "Hex64": ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 63 + "\u0660", "0x" + "0" * 62],
    "Commit": ["", "0" * 39, "0" * 41, "0" * 63, "0" * 65, "A" * 40, "06ea526"],
    "Decimal": [
        "", "-", "+1", "01", "00", ".5", "1.", "1e3", "1E3", "NaN", "Infinity", "-Infinity", "0x1", "1,5", "1_0",
        "1" * 32, "0." + "1" * 41, " 1", "1 ", "--1", "\u0661",
    ],
    "Timestamp": [
        "2026-02-29T00:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z",
        "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z", "2026-12-31T23:59:60Z", "2026-12-31T24:00:00Z",
        "2026-12-31T23:60:00Z", "2026-12-31T23:59:59", "2026-12-31T23:59:59z", "2026-12-31t23:59:59Z",
        "2026-12-31 23:59:59Z", "2026-12-31T23:59:59.0Z", "2026-12-31T23:59:59+00:00", "26-12-31T23:59:59Z",
        "2100-02-29T00:00:00Z", "1999-12-31T23:59:59Z", "3000-01-01T00:00:00Z", "2026-1-01T00:00:00Z",
    ],
    "Name": ["", " a", "a b", "-a", "/a", "n" * 201, "r\u00e9sultats", "re\u0301sultats", "a\u0000"],
    "FileName": [
        "", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", ".a", "a/.b", "a b", "a\\b", "a:b", "n" * 201,
        "r\u00e9sultats.json", "re\u0301sultats.json",
    ],
    "MediaType": [
        "", "text", "Text/plain", "text/", "/plain", "a/b;", "a/b;" + "x" * 81, "a/b;\u00e9", "a/" + "b" * 199,
    ],
    "Origin": ["", "/a", "-a", "a b", "o" * 200, "a+b", "\u00e9.org", "https://\u00e9"],
    "Signature": [
        "", "A" * 88, "A" * 85 + "B==", "A" * 86 + "=", "A" * 84 + "==", "A" * 85 + "A=", "-_" * 43 + "==",
        "A" * 85 + "=A=", "A" * 87 + "=", "A" * 43 + "\n" + "A" * 42 + "==",
    ],
}  # fmt: skip


def fast_takes(name: str, text: str) -> bool:
    """Whether the structs take ``text`` in a field of the type ``name`` of an otherwise valid entry."""
    kind, path = PLACES[name]
    entry = examples.largest(kind)
    place = entry
    for part in path[:-1]:
        place = place[part]
    assert structs.decode_entry(canonical.format(entry)) is not None
    place[path[-1]] = text
    return structs.decode_entry(canonical.format(entry)) is not None


def verdicts(name: str, value: object) -> set[bool]:
    """What the three validators say of ``value``."""
    scalar = getattr(models, name)
    said = {fast_takes(name, value)} if name in PLACES else set()
    for check in (
        lambda: TypeAdapter(scalar).validate_python(value, strict=True),
        lambda: msgspec.convert(value, getattr(structs, name), strict=True),
        lambda: examples.ecma_validator(TypeAdapter(scalar).json_schema()).validate(value),
    )[:: 2 if name in PLACES else 1]:
        try:
            check()
        except (ValidationError, msgspec.ValidationError, jsonschema.ValidationError):
            said.add(False)
        else:
            said.add(True)
    return said


@pytest.mark.parametrize("name", PLACES)
def test_texts_at_the_edge_of_a_pattern_are_taken_by_all(name):
    for text in TEXTS[pattern_of(getattr(models, name))]:
        assert verdicts(name, text) == {True}, text


@pytest.mark.parametrize("name", PLACES)
def test_texts_outside_a_pattern_are_refused_by_all(name):
    taken = TEXTS[pattern_of(getattr(models, name))]
    tails = [text + tail for text in taken for tail in ("\n", "\r\n", "\u2028", " ", "\u0000")]
    for text in [*REFUSED[name], *tails, "\n" + taken[0], f"{taken[0]}\n{taken[0]}", f"{taken[0]}\n\n{taken[0]}"]:
        assert verdicts(name, text) == {False}, text


@pytest.mark.parametrize(("name", "low", "high"), [
    ("Integer", -(2**53) + 1, 2**53 - 1), ("Count", 0, 2**53 - 1), ("Positive", 1, 2**53 - 1),
])  # fmt: skip
def test_integers_end_where_the_format_says(name, low, high):
    assert verdicts(name, low) == verdicts(name, high) == {True}
    assert verdicts(name, low - 1) == verdicts(name, high + 1) == {False}
    assert verdicts(name, True) == verdicts(name, "1") == verdicts(name, None) == {False}


def test_text_is_counted_in_code_points_by_all():
    assert verdicts("Text", "\U0001f600" * 4096) == {True}
    assert verdicts("Text", "\U0001f600" * 4097) == {False}


def test_a_timestamp_names_a_day_of_the_calendar():
    pattern = re.compile(pattern_of(models.Timestamp).removesuffix("$"))
    for year in range(2000, 3000):
        for month in range(14):
            last = calendar.monthrange(year, month)[1] if 1 <= month <= 12 else 0
            days = [day for day in range(33) if pattern.fullmatch(f"{year}-{month:02}-{day:02}T00:00:00Z")]
            assert days == list(range(1, last + 1))


def test_a_timestamp_names_a_second_of_the_day():
    pattern = re.compile(pattern_of(models.Timestamp).removesuffix("$"))
    for position, limit in ((11, 24), (14, 60), (17, 60)):
        given = "2026-03-01T00:00:00Z"
        texts = [given[:position] + f"{number:02}" + given[position + 2 :] for number in range(100)]
        assert [pattern.fullmatch(text) is not None for text in texts] == [number < limit for number in range(100)]
