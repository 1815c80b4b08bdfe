"""Bytes that were read before are known again, and no others are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.verify.tags import is_tagged, tag


@given(st.binary(max_size=200), st.data())
def test_any_other_bytes_are_other_bytes(data: bytes, draw: st.DataObject) -> None:
    tagged = tag(data)
    assert is_tagged(data, tagged)
    other = draw.draw(st.binary(max_size=200))
    assert is_tagged(other, tagged) is (other == data)
    for changed in (data + b"\0", b"\0" + data, data[:-1], data[1:], data[::-1]):
        assert is_tagged(changed, tagged) is (changed == data)


def test_no_two_tags_have_one_key() -> None:
    tags = {tag(b"the same") for _ in range(100)}
    assert len({one[:32] for one in tags}) == 100
    assert {len(one) for one in tags} == {48}


def test_a_tag_of_other_bytes_fits_none() -> None:
    one, two = tag(b"one"), tag(b"two")
    assert not is_tagged(b"one", one[:32] + two[32:])
    assert not is_tagged(b"one", two)
    assert not is_tagged(b"one", one[:-1])
