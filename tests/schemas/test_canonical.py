"""Canonical JSON: one value, one spelling; every cause of refusal under its own code and at its place."""

from __future__ import annotations

import enum
import json
import math
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from k3_ledger.schemas import canonical
from k3_ledger.schemas.canonical import Limits
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.findings.row import Area
from k3_ledger.schemas.outcomes import Position
from tests.reference import json_profile

KEYS = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
INTEGERS = st.integers(min_value=-canonical.MAX_INTEGER, max_value=canonical.MAX_INTEGER)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(KEYS, children, max_size=4),
    max_leaves=20,
)
ALMOST_JSON = st.lists(
    st.sampled_from(
        rb'{ } [ ] , : " "a" "b": \u00 \ud83d \ude00 \n \ 0 - 1 .5 e9 true null NaN'.split()
        + b"\xed\xa0\x80 \xc3\xa9 \xff".split()
        + [b" ", b"\n"]
    ),
    max_size=12,
).map(b"".join)


def refusal(data: bytes, read=canonical.parse) -> MalformedError | None:
    """What ``data`` is refused with, or ``None``; an exception outside the error tree is a bug and escapes."""
    try:
        read(data)
    except MalformedError as error:
        return error
    return None


def refused(
    data: bytes, code: Code, at: int | None = None, field: str | None = None, read=canonical.parse_value
) -> None:
    """``data`` is refused with ``code``, at byte ``at``, naming ``field``."""
    error = refusal(data, read)
    assert error is not None, f"{data!r} was accepted"
    found = (error.code, error.finding.position.byte_offset, error.finding.position.field)
    assert found == (code, found[1] if at is None else at, field)


# ------------------------------------------------------------------------------------------------- round trips


@given(VALUES)
def test_parse_undoes_format(value):
    assert canonical.parse(canonical.format(value)) == value


@given(VALUES, st.integers(0, 3), st.booleans(), st.randoms(use_true_random=False))
def test_any_spelling_of_a_value_is_read_and_only_the_canonical_one_is_canonical(value, indent, ascii_only, random):
    def shuffled(part):
        if isinstance(part, dict):
            keys = random.sample(list(part), len(part))
            return {key: shuffled(part[key]) for key in keys}
        return [shuffled(element) for element in part] if isinstance(part, list) else part

    data = json.dumps(shuffled(value), indent=indent or None, ensure_ascii=ascii_only).encode()
    assert canonical.parse_value(data) == value
    error = refusal(data)
    if data == canonical.format(value):
        assert error is None
    else:
        assert error.code is Code.JSON_NOT_CANONICAL


@settings(max_examples=300)
@given(st.binary(max_size=40) | ALMOST_JSON)
@example(b'"\xed')
@example(b'"\xed\xa0')
@example(b"[" * 100_000)
@example(b'{"a":' * 20_000)
@example(b"9" * 5_000)
@example(b'"\\ud800')
def test_arbitrary_bytes_give_a_value_or_a_malformed_error(data):
    error = refusal(data)
    if error is None:
        assert canonical.format(canonical.parse(data)) == data
    else:
        assert error.code.info.area is Area.CANONICAL
        assert 0 <= error.finding.position.byte_offset <= len(data)


@settings(max_examples=300)
@given(ALMOST_JSON)
def test_the_standard_library_with_hooks_gives_the_same_verdict(data):
    assert (refusal(data, canonical.parse_value) is None) == json_profile.accepts(data)
    if json_profile.accepts(data):
        assert canonical.format(canonical.parse_value(data)) == json_profile.canonical(data)


# ------------------------------------------------------------------------------------------------- where it is


def test_an_error_says_where_in_its_source_it_stands():
    start = Position(source="ledger.jsonl", line=3, byte_offset=1000, index=2)
    with pytest.raises(MalformedError) as caught:
        canonical.parse(b'{"body":{"a":[1,{"b":1.5}]}}', position=start)
    assert caught.value.finding.position == Position("ledger.jsonl", 3, 1000 + 21, 2, "body.a[1].b")
    assert (
        str(caught.value)
        == "ledger.jsonl, entry 2, line 3, byte 1021, body.a[1].b: number with a fraction or an exponent"
    )


def test_offsets_count_bytes_where_characters_take_several():
    refused('["é😀",1.0]'.encode(), Code.JSON_FLOAT, at=10, field="[1]")


@pytest.mark.parametrize(
    ("data", "at", "field", "expected"),
    [
        (b' {"a":1}', 0, None, "'{\"a\":1}'"),
        (b'{"a":1} ', 7, None, "end of input"),
        (b'{"a":1}\n', 7, None, "end of input"),
        (b'{"a": 1}', 5, "a", "'1}'"),
        (b'{"b":1,"a":2}', 2, None, "'a\":2,\"b\":1}'"),
        (b'{"x":{"a":"\\u0041"}}', 11, "x.a", "'A\"}}'"),
        (b'["\\/"]', 2, "[0]", "'/\"]'"),
        (b'["\\u001F"]', 7, "[0]", "'f\"]'"),
        (b'["\\u000a"]', 3, "[0]", "'n\"]'"),
        (b'["\\u007f"]', 2, "[0]", "'\\x7f\"]'"),
        (b'["\\ud83d\\ude00"]', 2, "[0]", "'\\U0001f600\"]'"),
    ],
)  # fmt: skip
def test_the_first_byte_that_is_not_canonical_is_named(data, at, field, expected):
    refused(data, Code.JSON_NOT_CANONICAL, at, field, read=canonical.parse)
    error = refusal(data)
    assert error.finding.expected == expected
    assert refusal(data, canonical.parse_value) is None


# ----------------------------------------------------------------------------------------- families of trouble


@pytest.mark.parametrize(
    "spelling", ["1.0", "1e0", "1E0", "10e-1", "1e+2", "0.0", "-0.0", "1e-6", "1e20", "1.", "1e", "0e-0"]
)
@pytest.mark.parametrize("where", ['{"ms":%s}', "[[%s]]", "%s", '{"a":{"b":[0,%s]}}'])
def test_a_fraction_or_exponent_is_refused_however_it_is_spelled(spelling, where):
    assert refusal((where % spelling).encode()).code is Code.JSON_FLOAT


@pytest.mark.parametrize("spelling", ["NaN", "Infinity", "-Infinity", "-NaN", "+Infinity"])
def test_numbers_that_are_not_numbers_are_refused_and_the_field_named(spelling):
    refused(f'{{"p":{{"kl":{spelling}}}}}'.encode(), Code.JSON_NOT_A_NUMBER, at=11, field="p.kl")


@pytest.mark.parametrize("spelling", ["1e999", "-1e999", "1e-999"])
def test_a_number_that_overflows_a_double_is_refused_as_a_float(spelling):
    refused(f'{{"kl":{spelling}}}'.encode(), Code.JSON_FLOAT, at=6, field="kl")


@pytest.mark.parametrize(("spelling", "code"), [
    ("-0", Code.JSON_NEGATIVE_ZERO), ("01", Code.JSON_LEADING_ZERO), ("-01", Code.JSON_LEADING_ZERO),
    ("00", Code.JSON_LEADING_ZERO), ("-00", Code.JSON_LEADING_ZERO), ("+1", Code.JSON_SYNTAX), ("-", Code.JSON_SYNTAX),
    (".5", Code.JSON_SYNTAX), ("0x1", Code.JSON_SYNTAX), ("1_0", Code.JSON_SYNTAX), ("\u0661", Code.JSON_SYNTAX),
    ("nan", Code.JSON_SYNTAX), ("True", Code.JSON_SYNTAX), ("nul", Code.JSON_SYNTAX), ("'a'", Code.JSON_SYNTAX),
])  # fmt: skip
def test_other_spellings_of_numbers_and_words_are_refused(spelling, code):
    assert refusal(f"[{spelling}]".encode(), canonical.parse_value).code is code


@pytest.mark.parametrize("digits", ["0", "1", "9007199254740991", "1000000000000000"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_are_taken_up_to_two_to_the_53_less_one(digits, sign):
    if (sign, digits) != ("-", "0"):
        assert canonical.parse(f'{{"t_ns":{sign}{digits}}}'.encode()) == {"t_ns": int(sign + digits)}


@pytest.mark.parametrize(
    "digits",
    ["9007199254740992", "9007199254740993", "1796000000123456789", "18446744073709551615", "9" * 16, "1" + "0" * 5000],
    ids=lambda digits: f"{digits[:20]}-{len(digits)}",
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_that_doubles_would_merge_are_refused_at_any_length(digits, sign):
    refused(f'{{"t_ns":{sign}{digits}}}'.encode(), Code.JSON_INTEGER_RANGE, at=8, field="t_ns")


@pytest.mark.parametrize("data", [
    b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'{"speedup":1,"spe\\u0065dup":9}', b'{"\\u0061":1,"\\u0061":1}',
    b'{"a":1,"b":{},"a":null}', b'{"a":{"a":1},"a":{"a":1}}', b'{"a":[],"a":[]}',
])  # fmt: skip
@pytest.mark.parametrize("depth", [0, 1, 20])
def test_a_second_copy_of_a_key_is_refused_at_every_depth_after_unescaping(data, depth):
    error = refusal(b"[" * depth + data + b"]" * depth)
    assert error.code is Code.JSON_DUPLICATE_KEY
    assert error.finding.found in {"a", "speedup"}


def test_the_same_key_in_two_objects_is_no_duplicate():
    assert canonical.parse(b'{"x":{"kl":1},"y":{"kl":2}}') == {"x": {"kl": 1}, "y": {"kl": 2}}


@pytest.mark.parametrize(
    "key", ["", "A", "a-b", "a b", "é", "a\u0000", "\u0661", "a.b", "$ref", "\u212a", "\uff41", "\U0001f600"]
)
def test_keys_outside_the_alphabet_are_refused_escaped_or_raw(key):
    refused(json.dumps({"ok": {key: 1}}).encode(), Code.JSON_KEY_ALPHABET, at=8, field="ok")
    refused(json.dumps({"ok": {key: 1}}, ensure_ascii=False).encode(), Code.JSON_KEY_ALPHABET, at=8, field="ok")
    with pytest.raises(MalformedError) as caught:
        canonical.format({"ok": {key: 1}})
    assert caught.value.code is Code.JSON_KEY_ALPHABET


@pytest.mark.parametrize("escaped", [
    "\\ud800", "\\udfff", "\\uDC00", "\\udc00\\ud800", "\\ud800\\ud800\\udc00", "\\ud83dx", "\\ud83d\\n",
    "\\ud83d\\u0041", "\\ud83d\\\\ude00", "\\ud83d\\ud", "\\ud83d",
])  # fmt: skip
def test_half_a_surrogate_pair_is_refused_in_values_and_in_keys(escaped):
    refused(f'{{"host":"gpu-{escaped}"}}'.encode(), Code.JSON_LONE_SURROGATE, field="host")
    refused(f'{{"{escaped}":1}}'.encode(), Code.JSON_LONE_SURROGATE)


@pytest.mark.parametrize("raw", [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80"])
def test_surrogates_as_raw_bytes_are_refused_by_their_own_name(raw):
    refused(b'{"host":"' + raw + b'"}', Code.JSON_LONE_SURROGATE, at=9, field="host")
    refused(b'{"' + raw + b'":1}', Code.JSON_LONE_SURROGATE, at=2)


def test_whole_pairs_are_characters():
    assert canonical.parse_value(b'{"host":"\\ud83d\\ude00"}') == {"host": "\U0001f600"}
    assert canonical.format({"host": "\U0001f600"}) == b'{"host":"\xf0\x9f\x98\x80"}'
    assert canonical.parse_value(b'["\\udbff\\udfff"]') == ["\U0010ffff"]


def test_two_unicode_forms_of_a_text_stay_two_texts():
    composed, decomposed = "r\u00e9sultats", "re\u0301sultats"
    assert canonical.parse(canonical.format([composed, decomposed])) == [composed, decomposed]


@pytest.mark.parametrize(
    "data", [b'["\xff"]', b'["\xc0\xaf"]', b'["\xf4\x90\x80\x80"]', b'["\xe2\x82"]', b'"\xed', b"\x80"]
)
def test_bytes_that_are_not_utf8_are_refused(data):
    assert refusal(data).code is Code.JSON_NOT_UTF8


@pytest.mark.parametrize(("mark", "code"), [("utf-8-sig", Code.JSON_BYTE_ORDER_MARK), ("utf-16", Code.JSON_NOT_UTF8)])
def test_a_byte_order_mark_is_named(mark, code):
    error = refusal('{"a":1}'.encode(mark))
    assert error.code is code
    assert "byte order mark" in error.finding.advice
    assert refusal('{"a":1}'.encode("utf-16-le")).code is Code.JSON_SYNTAX


@pytest.mark.parametrize("data", [b"{}{}", b"[] []", b"1 2", b'""x', b"{}\x00", b"null//", b"[]]"])
def test_a_second_value_is_refused(data):
    assert refusal(data).code is Code.JSON_TRAILING_BYTES


@pytest.mark.parametrize("character", [chr(c) for c in range(0x20)])
def test_control_characters_are_escaped_one_way_and_refused_raw(character):
    data = canonical.format([character])
    assert canonical.parse(data) == [character]
    assert data == json.dumps([character]).encode()
    assert refusal(b'["' + character.encode() + b'"]').code is Code.JSON_CONTROL_CHARACTER


def test_white_space_is_the_four_characters_of_json():
    assert canonical.parse_value(b" \t\n\r[ \t\n\r1 \t\n\r, 2 \t\n\r] \t\n\r") == [1, 2]
    for other in ["\x0b", "\x0c", "\xa0", "\u2028", "\ufeff", "\x1f", "\x00"]:
        assert refusal(f"[{other}1]".encode(), canonical.parse_value).code is Code.JSON_SYNTAX


@pytest.mark.parametrize(
    "escape", ["\\x00", "\\'", "\\u00", "\\u12g4", "\\U0041", "\\", "\\u", "\\0", "\\\n", "\\u+041"]
)
def test_escapes_that_json_does_not_have_are_refused(escape):
    assert refusal(f'["{escape}'.encode()).code is Code.JSON_ESCAPE


# ------------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("opening", [b"[", b'{"x":', b'[{"x":'])
@pytest.mark.parametrize("count", [33, 20_000, 100_000])
def test_deep_nesting_is_refused_where_the_limit_is_passed(opening, count):
    error = refusal(opening * count, lambda data: canonical.parse(data, limits=Limits(max_bytes=1_000_000)))
    assert error.code is Code.JSON_TOO_DEEP
    assert error.finding.position.byte_offset < 33 * len(opening)


def test_brackets_inside_strings_do_not_nest():
    text = '[{"' * 1000
    assert canonical.parse(canonical.format([text])) == [text]


def test_each_limit_admits_its_own_value_and_not_one_more():
    def cost(**limits):
        return lambda data: canonical.parse(data, limits=Limits(**limits))

    assert refusal(b"[1,2]", cost(max_bytes=5)) is None
    refused(b"[1,22]", Code.JSON_TOO_LONG, at=5, read=cost(max_bytes=5))
    assert refusal(b"[[1]]", cost(max_depth=2)) is None
    refused(b"[[[]]]", Code.JSON_TOO_DEEP, at=2, field="[0][0]", read=cost(max_depth=2))
    assert refusal(b"1", cost(max_depth=0)) is None
    refused(b"[]", Code.JSON_TOO_DEEP, at=0, read=cost(max_depth=0))
    assert refusal('{"abc":"éé\\n"}'.encode(), cost(max_string=3)) is None
    refused('{"abc":"éé\\n1"}'.encode(), Code.JSON_STRING_TOO_LONG, at=7, field="abc", read=cost(max_string=3))
    refused(b'{"abcd":1}', Code.JSON_STRING_TOO_LONG, at=1, read=cost(max_string=3))
    refused(b'["\\n\\n\\n\\n"]', Code.JSON_STRING_TOO_LONG, at=1, field="[0]", read=cost(max_string=3))
    assert refusal(b'[1,{"a":2}]', cost(max_items=4)) is None
    refused(b'[1,{"a":2},3]', Code.JSON_TOO_MANY_ITEMS, at=11, field="[2]", read=cost(max_items=4))


def test_a_long_document_is_refused_before_it_is_looked_at():
    error = refusal(b"\xff" * 65_536)
    assert (error.code, error.finding.found) == (Code.JSON_TOO_LONG, "65536 bytes")


@pytest.mark.parametrize("depth", [-1, 129])
def test_a_depth_that_could_exhaust_the_stack_cannot_be_asked_for(depth):
    with pytest.raises(ValueError, match="max_depth"):
        Limits(max_depth=depth)


# ----------------------------------------------------------------------------------------------------- writing


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    ONE = 1


CYCLE: list[object] = []
CYCLE.append(CYCLE)


UNWRITABLE = [
    (1.5, Code.JSON_FLOAT), (1.0, Code.JSON_FLOAT), (-0.0, Code.JSON_FLOAT), (1e300, Code.JSON_FLOAT),
    (math.nan, Code.JSON_NOT_A_NUMBER), (math.inf, Code.JSON_NOT_A_NUMBER), (-math.inf, Code.JSON_NOT_A_NUMBER),
    (2**53, Code.JSON_INTEGER_RANGE), (-(2**53), Code.JSON_INTEGER_RANGE), (10**5000, Code.JSON_INTEGER_RANGE),
    (b"a", Code.JSON_TYPE), ({1}, Code.JSON_TYPE), (Decimal(1), Code.JSON_TYPE), (Colour.RED, Code.JSON_TYPE),
    (Size.ONE, Code.JSON_TYPE), (object(), Code.JSON_TYPE), (1j, Code.JSON_TYPE),
    ({1: 2}, Code.JSON_TYPE), ({True: 2}, Code.JSON_TYPE), ({None: 2}, Code.JSON_TYPE),
    ({Colour.RED: 2}, Code.JSON_TYPE), ("\ud800", Code.JSON_LONE_SURROGATE), ("a\udfff", Code.JSON_LONE_SURROGATE),
    ("\ud83d\ude00", Code.JSON_LONE_SURROGATE),
    ("a" * 32_769, Code.JSON_STRING_TOO_LONG), ({"a" * 32_769: 1}, Code.JSON_STRING_TOO_LONG),
    (CYCLE, Code.JSON_TOO_DEEP), ([0] * 16_384, Code.JSON_TOO_MANY_ITEMS),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "code"), UNWRITABLE, ids=[f"{number}-{code.name}" for number, (_, code) in enumerate(UNWRITABLE)]
)
def test_what_has_no_spelling_is_not_written_and_its_field_is_named(value, code):
    with pytest.raises(MalformedError) as caught:
        canonical.format({"a": [0, {"b": value}]})
    assert caught.value.code is code
    assert caught.value.finding.position.field.startswith("a[1].b")


def test_a_float_at_the_top_is_refused_without_a_field():
    with pytest.raises(MalformedError) as caught:
        canonical.format(0.5)
    assert caught.value.finding.position == Position()


def test_a_value_that_is_too_long_is_not_written():
    with pytest.raises(MalformedError) as caught:
        canonical.format(["a" * 32_000] * 3)
    assert caught.value.code is Code.JSON_TOO_LONG


def test_booleans_are_never_numbers():
    assert canonical.format([True, False, 1, 0]) == b"[true,false,1,0]"
    assert [type(v) for v in canonical.parse(b"[true,false,1,0]")] == [bool, bool, int, int]


def test_tuples_are_written_as_lists():
    assert canonical.format((1, ("a",))) == b'[1,["a"]]'
