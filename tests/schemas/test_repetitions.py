"""The middle half of repetitions: whatever is done to fewer than a quarter of them moves no reading far."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas.repetitions import left_out, middle_spread

durations = st.integers(min_value=0, max_value=10**12)


@pytest.mark.parametrize(
    ("seen", "spread"),
    [
        ([7], 0),
        ([1, 9], 8),
        ([1, 2, 9], 8),
        ([1, 2, 3, 9], 8),  # fewer than five: one of four is a quarter, and none is left out
        ([0, 2, 3, 5, 99], 3),
        ([0, 1, 2, 3, 4, 5, 6, 99], 5),
        ([-9, -8, 2, 3, 4, 5, 6, 98, 99], 4),
    ],
)
def test_the_spread_is_that_of_the_middle_half(seen: list[int], spread: int) -> None:
    assert middle_spread(seen) == spread


@given(st.integers(min_value=1, max_value=1000))
def test_fewer_than_a_quarter_are_left_out_at_either_end_and_never_more(count: int) -> None:
    assert 4 * left_out(count) < count <= 4 * (left_out(count) + 1)


@given(st.lists(durations, min_size=1, max_size=40), st.data())
def test_a_liar_on_fewer_than_a_quarter_moves_the_median_by_no_more_than_the_spread_that_is_seen(
    honest: list[int], data: st.DataObject
) -> None:
    lies = data.draw(st.lists(durations, max_size=left_out(len(honest))))
    seen = sorted([*lies, *honest[len(lies) :]])
    assert abs(statistics.median(seen) - statistics.median(honest)) <= middle_spread(seen)


def test_a_liar_on_a_quarter_can_move_it_further_which_is_why_the_bound_is_there() -> None:
    honest, seen = [10, 10, 20, 20], sorted([10, 20, 20, 20])
    assert statistics.median(honest) == 15
    assert statistics.median(seen) == 20
    assert middle_spread(seen) == 10, "and that is seen: of four none is left out"
