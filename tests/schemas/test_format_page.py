"""docs/format.md says what the code does."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.schemas import canonical, envelope, structs, validate
from k3_ledger.schemas.errors import MalformedError
from tests.schemas.test_canonical import ALMOST_JSON, VALUES
from tests.support import ROOT

PAGE = (ROOT / "docs/format.md").read_text(encoding="utf-8")

CHAR = r'(?:[ !#-\[\]-\ud7ff\ue000-\U0010ffff]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))'
STRING = re.compile(rf'"({CHAR}*)"(:?)')
SCALAR = r'(?:""|0|-?[1-9][0-9]{0,15}|true|false|null)'
MEMBER = rf'"[a-z0-9_]+":{SCALAR}'
INNERMOST = re.compile(rf"\[(?:{SCALAR}(?:,{SCALAR})*)?\]|\{{(?:{MEMBER}(?:,{MEMBER})*)?\}}")


def matches_the_grammar(data: bytes) -> bool:
    """The page's grammar and rules by rewriting: containers of scalars become scalars until one is left."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    text = STRING.sub(lambda found: found[0] if found[2] else '""', text)
    if any(abs(int(number)) >= 2**53 for number in re.findall(r"(?<![\w\"-])-?[0-9]{1,16}(?![\w\"])", text)):
        return False
    depth, reduced = 0, 1
    while reduced:
        for container in INNERMOST.findall(text):
            keys = re.findall(r'"([a-z0-9_]+)":', container)
            if keys != sorted(set(keys)):
                return False
        text, reduced = INNERMOST.subn("null", text)
        depth += reduced > 0
    return depth <= 32 and re.fullmatch(SCALAR, text) is not None


def accepted(data: bytes) -> bool:
    try:
        canonical.parse(data)
    except MalformedError:
        return False
    return True


@st.composite
def damaged(draw):
    data = bytearray(canonical.format(draw(VALUES)))
    at = draw(st.integers(0, len(data)))
    data[at : at + draw(st.integers(0, 2))] = draw(
        st.binary(max_size=2) | st.sampled_from([b" ", b"0", b'"', b"\\u001F"])
    )
    return bytes(data)


@settings(max_examples=400)
@given(VALUES.map(canonical.format) | damaged() | ALMOST_JSON)
def test_canonical_bytes_are_those_that_match_the_grammar(data):
    assert matches_the_grammar(data) == accepted(data)


@pytest.mark.parametrize(("row", "value"), [
    ("length", envelope.MAX_ENTRY),
    ("depth", canonical.DEFAULT_LIMITS.max_depth),
    ("string", canonical.DEFAULT_LIMITS.max_string),
    ("values", canonical.DEFAULT_LIMITS.max_items),
])  # fmt: skip
def test_the_limits_are_those_in_force(row, value):
    assert re.search(rf"^\| {row} \| {value:,}\b", PAGE, re.MULTILINE)
    assert validate.ENTRY_LIMITS.max_bytes == envelope.MAX_ENTRY


def test_the_example_entry_has_the_length_and_identity_that_the_page_gives():
    entry = re.search(r"^```json\n(.*)\n```$", PAGE, re.MULTILINE)[1].encode()
    identity = re.search(r"^```text\n([0-9a-f]{64})\n```$", PAGE, re.MULTILINE)[1]
    assert structs.decode_entry(entry) is not None
    assert f"This entry has {len(entry)} bytes" in PAGE
    assert hashlib.sha256(entry).hexdigest() == identity


def test_the_template_of_an_entry_is_the_one_in_use():
    template = re.search(r'^\{"body":B,.*$', PAGE, re.MULTILINE)[0]
    arguments = {"index": 5, "key": "K", "kind": "k", "prev": "P", "time": "T"}
    assert envelope.format_entry_around(b"B", **arguments).decode() == template.replace("N", "5")
