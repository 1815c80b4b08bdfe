"""Canonical JSON: one value, one spelling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import MalformedError

KEYS = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
INTEGERS = st.integers(min_value=-canonical.MAX_INTEGER, max_value=canonical.MAX_INTEGER)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda children: st.lists(children, max_size=5) | st.dictionaries(KEYS, children, max_size=5),
    max_leaves=40,
)


@given(VALUES)
def test_parse_undoes_format(value):
    assert canonical.parse(canonical.format(value)) == value


def refusal(data):
    """The code that ``data`` is refused with, or ``None``; any other exception is a bug and escapes."""
    try:
        canonical.parse(data)
    except MalformedError as error:
        return error.code
    return None


@given(st.binary(max_size=80))
def test_arbitrary_bytes_give_a_value_or_a_malformed_error(data):
    code = refusal(data)
    assert code is None or code.info.area == "canonical JSON"
