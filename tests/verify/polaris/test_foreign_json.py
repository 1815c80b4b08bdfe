"""The tolerant reader: as much as possible is read, and what is odd is a finding at its own byte."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.verify.polaris import foreign_json
from k3_ledger.verify.polaris.foreign_json import Compound, Number, compact, elements, number_of, read, show


def codes(data: bytes) -> list[str]:
    return [problem.code.name for problem in read(data, "file").problems]


@pytest.mark.parametrize(
    ("data", "code", "at"),
    [
        (b"", "JSON_SYNTAX", 0),
        (b"   ", "JSON_SYNTAX", 3),
        (b'{"a":1', "JSON_SYNTAX", 6),
        (b'{"a" 1}', "JSON_SYNTAX", 5),
        (b"{1:2}", "JSON_SYNTAX", 1),
        (b"[1 2]", "JSON_SYNTAX", 3),
        (b"[1,]", "JSON_SYNTAX", 3),
        (b'"abc', "JSON_SYNTAX", 4),
        (b"nul", "JSON_SYNTAX", 0),
        (b'"a\nb"', "JSON_CONTROL_CHARACTER", 2),
        (b'"a\\xb"', "JSON_ESCAPE", 2),
        (b'{"k":"\\ud800"}', "JSON_LONE_SURROGATE", 5),
        (b"\xff{}", "JSON_NOT_UTF8", 0),
        (b"{} {}", "JSON_TRAILING_BYTES", 3),
        (b"[" * 20_000, "JSON_TOO_DEEP", foreign_json.MAX_DEPTH),
        (b'{"a":' * 20_000, "JSON_TOO_DEEP", 5 * foreign_json.MAX_DEPTH),
        (b'{"' + b"k" * 1025 + b'":1}', "JSON_STRING_TOO_LONG", 1),
    ],
)
def test_what_cannot_be_read_says_where_it_broke(data: bytes, code: str, at: int) -> None:
    document = read(data, "file")
    assert not document.readable
    assert document.leaves == {}
    (problem,) = document.problems
    assert (problem.code.name, problem.position.byte_offset) == (code, at)


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_json, "MAX_ITEMS", 10)
    assert codes(b"[1,1,1,1,1,1,1,1,1]") == []
    assert codes(b"[1,1,1,1,1,1,1,1,1,1]") == ["JSON_TOO_MANY_ITEMS"]


def test_a_long_document_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_json, "MAX_BYTES", 8)
    assert codes(b'"12345"') == []
    assert codes(b'"1234567"') == ["JSON_TOO_LONG"]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_kept_as_text_and_not_compared(text: str) -> None:
    document = read(b'{"kl": ' + text.encode() + b"}", "file")
    assert [problem.code.name for problem in document.problems] == ["JSON_NOT_A_NUMBER"]
    assert document.leaves["kl"].value == Number(text)
    assert document.number("kl") is None
    assert Number(text).decimals == Number(text).printed_decimals == 0


@pytest.mark.parametrize("text", ["1e999999999", "-1E-401", "9" * 65, "0." + "1" * 63, "1e" + "9" * 40])
def test_numbers_beyond_any_measurement_are_kept_as_text(text: str) -> None:
    document = read(text.encode(), "file")
    assert [problem.code.name for problem in document.problems] == ["FOREIGN_NUMBER"]
    assert document.root == Number(text)
    assert Number(text).value is None


@pytest.mark.parametrize(
    ("text", "value", "decimals", "printed"),
    [
        ("1.50", "1.5", 1, 2),
        ("1e-05", "0.00001", 5, 5),
        ("120", "120", 0, 0),
        ("1.2E+3", "1200", 0, 0),
        ("-0", "0", 0, 0),
    ],
)
def test_a_number_keeps_its_spelling_and_its_exact_value(text: str, value: str, decimals: int, printed: int) -> None:
    number = Number(text)
    assert number.value == Decimal(value)
    assert (number.decimals, number.printed_decimals) == (decimals, printed)


def test_of_two_equal_keys_the_last_counts_and_the_first_leaves_nothing() -> None:
    document = read(b'{"a": {"x": 1}, "b": 2,\n "\\u0061": 3}', "file")
    assert [(p.code.name, p.position.line, p.position.field) for p in document.problems] == [
        ("JSON_DUPLICATE_KEY", 2, "a")
    ]
    assert {path: show(leaf.value) for path, leaf in document.leaves.items()} == {"b": "2", "a": "3"}


def test_oddities_are_listed_up_to_a_number_and_the_last_one_says_so() -> None:
    document = read(b"[" + b"NaN," * 500 + b"1]", "file")
    assert document.readable
    assert len(document.problems) == foreign_json.MAX_PROBLEMS
    assert "not listed" in document.problems[-1].message


def test_a_byte_order_mark_is_a_finding_and_the_rest_is_read() -> None:
    document = read(b'\xef\xbb\xbf{"a": 1}', "file")
    assert document.readable
    assert codes(b"\xef\xbb\xbf{}") == ["JSON_BYTE_ORDER_MARK"]
    assert document.leaves["a"].position.byte_offset == 9


def test_every_value_knows_its_place() -> None:
    document = read(b'{\n "a": [1, {"b": 2}],\n "c d": {"e": null, "f": {}}}', "file", line=7, byte_offset=100)
    places = {path: (leaf.position.line, leaf.position.byte_offset) for path, leaf in document.leaves.items()}
    assert places == {"a": (8, 108), '["c d"].e': (9, 137), '["c d"].f': (9, 148)}
    assert document.leaves["a"].value == Compound('[1,{"b":2}]')
    assert document.leaves['["c d"].f'].value == Compound("{}")
    assert document.at("a").byte_offset == 108
    assert document.at("nowhere") == document.position


def test_elements_of_a_list_are_documents_at_their_own_place() -> None:
    whole = read(b'[\n {"a": 1},\n\n {"a": 2}\n]', "rows.json")
    rows = list(elements(whole))
    assert [(row.raw, row.position.line, row.position.byte_offset) for row in rows] == [
        (b'{"a": 1}', 2, 3),
        (b'{"a": 2}', 4, 15),
    ]
    assert rows[1].leaves["a"].position.byte_offset == 21
    assert list(elements(read(b'{"a": [1]}', "rows.json"))) == []


def test_values_are_shown_exactly() -> None:
    assert [show(value) for value in (None, True, "x", Number("1.50"), Compound("[1]"))] == [
        "null", "true", "x", "1.50", "[1]",
    ]  # fmt: skip
    assert number_of("0.50") == Number("0.50")
    assert number_of("05") is None
    assert number_of(None) is None
    assert compact({"a": [Number("1.0"), None], 'q"': {}}) == '{"a":[1.0,null],"q\\"":{}}'
    document = read(b'{"t": "x", "n": 1}', "file")
    assert (document.text("t"), document.text("n"), document.number("t")) == ("x", None, None)
    assert read(b"[]", "file").object == {}


@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_a_document(data: bytes) -> None:
    document = read(data, "file")
    assert document.readable or document.problems


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_what_python_writes_is_read_back_with_its_own_spelling(value: object) -> None:
    text = json.dumps(value)
    document = read(text.encode(), "file")
    assert document.readable
    assert json.loads(compact(document.root)) == value


def test_a_reader_survives_cuts_at_every_byte() -> None:
    data = json.dumps({"a": [1.5e-3, "x\u20ac\n", {"b": None}], "c": {"d": True}}).encode()
    for end in range(len(data)):
        assert not read(data[:end], "file").readable


def test_a_reader_survives_random_damage() -> None:
    seed = 20260807
    source = random.Random(seed)
    data = bytearray(json.dumps({"a": [1.5, {"b": "text"}], "c": 1e-9}).encode())
    for _ in range(2000):
        copy = bytearray(data)
        copy[source.randrange(len(copy))] = source.randrange(256)
        read(bytes(copy), "file")
