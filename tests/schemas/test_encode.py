"""Writing an entry from plain values: the fast way writes what the formatter writes, or leaves it to the slow way."""

from __future__ import annotations

import datetime as dt
import enum

import pytest
from hypothesis import HealthCheck, given, settings

from k3_ledger.schemas import canonical, models, structs
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.envelope import MAX_ENTRY
from k3_ledger.schemas.errors import LedgerError, MalformedError, SchemaError
from k3_ledger.schemas.findings import Code
from tests.schemas import examples
from tests.schemas.test_two_paths import broken_fields

FIELDS = ("kind", "body", "index", "key", "prev", "time")


def written(value):
    rest = {name: value[name] for name in FIELDS[2:]}
    return encode(value["kind"], value["body"], **rest)


@pytest.mark.parametrize("kind", models.ENTRIES)
def test_fast_way_writes_what_the_formatter_writes(kind):
    @settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=40)
    @given(examples.of(kind))
    def check(value):
        fast = structs.encode_entry(value)
        assert fast is not None
        assert fast[0] == canonical.format(value)
        assert fast == written(value)
        assert fast[1] == decode(fast[0])

    check()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=200)
@given(broken_fields())
def test_fast_way_takes_only_what_decoding_takes(data):
    value = canonical.parse(data)
    if "schema" in value:
        fast = structs.encode_entry(value)
        assert (fast is None) == (structs.decode_entry(data) is None)
        assert fast is None or fast[0] == data


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "text", [b"bytes", dt.datetime.now(dt.UTC), 1, None, True, "\ud800", type("Text", (str,), {})("text")]
)
def test_value_that_is_no_text_is_refused_in_words(text):
    value = examples.entry("note", {"text": text, "artifacts": []})
    assert structs.encode_entry(value) is None
    with pytest.raises(LedgerError) as caught:
        written(value)
    assert caught.value.finding.position.field == "body.text"


def test_slow_way_says_where_a_value_has_no_spelling():
    with pytest.raises(MalformedError) as caught:
        written(examples.entry("note", {"text": "x", "artifacts": [{"size": 1.0}]}))
    assert (caught.value.code, caught.value.finding.position.field) == (Code.JSON_FLOAT, "body.artifacts[0].size")


def test_slow_way_says_what_does_not_fit():
    with pytest.raises(SchemaError) as caught:
        written(examples.entry("note", {"text": ""}) | {"index": 12})
    assert caught.value.finding.position.index == 12


def test_member_of_a_text_enumeration_is_written_as_its_text():
    entry, typed = written(examples.entry("note", {"text": Colour.RED, "artifacts": ()}))
    assert typed.body.text == "red"
    assert b'"text":"red"' in entry


def test_entry_too_long_for_a_line_names_its_largest_field():
    body = {"text": "€" * 21_800, "artifacts": []}
    with pytest.raises(SchemaError) as caught:
        written(examples.entry("note", body))
    assert caught.value.code is Code.ENTRY_TOO_LONG
    assert caught.value.finding.position.field == "body.text"
    frame = len(canonical.format(examples.entry("note", {"text": "", "artifacts": []})))
    fitting = "€" * 21_500 + "x" * (MAX_ENTRY - frame - 64_500)
    assert len(written(examples.entry("note", {"text": fitting, "artifacts": []}))[0]) == MAX_ENTRY
    with pytest.raises(SchemaError):
        written(examples.entry("note", {"text": fitting + "x", "artifacts": []}))


def test_schema_that_nobody_knows_is_left_to_the_slow_way():
    assert structs.encode_entry({"schema": "k3-ledger/note/2"}) is None
