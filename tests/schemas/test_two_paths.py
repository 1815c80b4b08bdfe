"""The fast and the slow half of validation say "valid" of the same bytes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3_ledger.schemas import canonical, models, structs, validate
from k3_ledger.schemas.errors import LedgerError
from tests.schemas import examples

ENTRIES = {kind: examples.of(kind) for kind in models.ENTRIES}
ANY_ENTRY = st.one_of(*ENTRIES.values())


def slow_says_valid(entry: bytes) -> bool:
    """Whether the slow path takes ``entry``; an exception outside the error tree escapes."""
    try:
        validate.parse_entry(entry)
    except LedgerError:
        return False
    return True


def fast_says_valid(entry: bytes) -> bool:
    return structs.decode_entry(entry) is not None


@pytest.mark.parametrize("kind", models.ENTRIES)
def test_valid_entries_are_valid_both_ways_and_come_back_as_the_same_bytes(kind):
    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=40)
    @given(ENTRIES[kind])
    def check(value):
        entry = canonical.format(value)
        fast = structs.decode_entry(entry)
        assert fast is not None
        assert canonical.format(msgspec.to_builtins(fast)) == entry
        assert canonical.format(validate.parse_entry(entry).model_dump(mode="json", by_alias=True)) == entry

    check()


STRANGE = st.sampled_from([
    None, True, False, 0, 1, -1, canonical.MAX_INTEGER, -canonical.MAX_INTEGER,
    "", "a", "a\n", "é", "/a", "a/../b", "0" * 64, "F" * 64, "f" * 64 + "\n", "-0", "1e3", "01", "+1", ".5", "NaN",
    "run", "2026-02-30T00:00:00Z", "2024-02-29T23:59:59Z", "2026-12-31T23:59:60Z", "2026-13-01T00:00:00Z",
    "x" * 4096, "x" * 4097, "\U0001f600" * 4096, [], {}, [[]], [1],
])  # fmt: skip


@pytest.mark.parametrize("kind", models.ENTRIES)
@pytest.mark.parametrize("make", [examples.smallest, examples.sparse, examples.largest])
def test_entries_with_nothing_and_with_everything_are_valid_both_ways(kind, make):
    entry = canonical.format(make(kind))
    assert fast_says_valid(entry)
    assert slow_says_valid(entry)


@pytest.mark.parametrize("kind", models.ENTRIES)
def test_a_wrong_text_is_refused_both_ways_in_every_field_that_has_a_pattern(kind):
    met = 0
    for path in texts_with_patterns(examples.largest(kind)):
        for wrong in ("", "a\nb", "\u00e9"):
            value = examples.largest(kind)
            place = value
            for part in path[:-1]:
                place = place[part]
            met += 1
            place[path[-1]] = wrong
            entry = canonical.format(value)
            assert not fast_says_valid(entry), path
            assert not slow_says_valid(entry), path
    assert met >= 9


def texts_with_patterns(value, path=()):
    """Paths of the texts that have a pattern: those that are an example of one."""
    if isinstance(value, str):
        known = {texts[0] for texts in examples.TEXTS.values()}
        return [path] if value in known else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in inner for found in texts_with_patterns(child, (*path, key))]


@st.composite
def broken_bytes(draw):
    """A valid entry with a few bytes cut, doubled, changed or put in."""
    entry = bytearray(canonical.format(draw(ANY_ENTRY)))
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(entry)))
        length = draw(st.integers(0, 4))
        piece = draw(
            st.binary(max_size=3) | st.sampled_from([b" ", b"-", b"0", b".0", b"e0", b"\\u0061", b"null", b"\n"])
        )
        entry[at : at + length] = piece
    return bytes(entry)


@st.composite
def broken_fields(draw):
    """A valid entry in which one field, at any depth, was removed, added, renamed or given another value."""
    value = draw(ANY_ENTRY)
    place, path = value, draw(st.integers(0, 6))
    while path and (inner := [child for child in children(place) if children(child)]):
        place, path = draw(st.sampled_from(inner)), path - 1
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    key = draw(st.sampled_from(keys))
    match draw(st.sampled_from(["remove", "set", "add"])):
        case "remove":
            del place[key]
        case "set":
            place[key] = draw(STRANGE)
        case "add" if isinstance(place, dict):
            place[draw(st.sampled_from(["schema_", "a", "kind", "zz"]))] = draw(STRANGE)
        case _:
            place.append(draw(STRANGE))
    return canonical.format(value)


def children(value):
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=300)
@given(broken_bytes() | broken_fields())
def test_both_ways_agree_on_entries_that_were_changed(entry):
    assert fast_says_valid(entry) == slow_says_valid(entry)
