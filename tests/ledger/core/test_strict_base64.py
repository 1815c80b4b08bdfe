"""Base64 with one spelling for each value."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import strict_base64


@given(st.binary(max_size=80))
def test_every_value_has_its_one_spelling(data):
    spelling = strict_base64.encode(data)
    assert spelling == base64.b64encode(data)
    assert strict_base64.decode(spelling) == data


@pytest.mark.parametrize(
    "spelling", [b"QQ", b"QQ=", b"QR==", b"QQ==\n", b" QQ==", b"Q-==", b"QQ==QQ==", b"QQ===", b"=", b"\xff\xff\xff\xff"]
)
def test_other_spellings_are_refused(spelling):
    with pytest.raises(ValueError, match=r"base64|padding|number of data characters|Excess|Invalid"):
        strict_base64.decode(spelling)


@given(st.binary(max_size=12))
def test_what_is_accepted_is_the_spelling_of_what_is_returned(spelling):
    try:
        data = strict_base64.decode(spelling)
    except ValueError:
        return
    assert strict_base64.encode(data) == spelling
