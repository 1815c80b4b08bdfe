"""How far repetitions of one thing spread: one statistic for who measures and for who judges.

Whatever is done to fewer than a quarter of the repetitions, the median stays between the quartiles that are seen: the
honest repetitions are the seen ones with fewer than a quarter changed, so their median is one of the order statistics
in between. A reading that stands on medians is therefore off by no more than :func:`middle_spread` of each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def left_out(count: int) -> int:
    """How many of ``count`` repetitions the quartiles leave out at either end: the most that is under a quarter."""
    return (count - 1) // 4


def middle_spread(ordered: Sequence[int]) -> int:
    """Interquartile range of sorted durations, of which there is at least one; of fewer than five, the whole range."""
    cut = left_out(len(ordered))
    return ordered[-1 - cut] - ordered[cut]
