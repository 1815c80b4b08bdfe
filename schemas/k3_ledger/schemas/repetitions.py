"""Which repetitions are of one thing, and how far they spread: one answer for who measures and for who judges.

Whatever is done to fewer than a quarter of the repetitions, the median stays between the quartiles that are seen: the
honest repetitions are the seen ones with fewer than a quarter changed, so their median is one of the order statistics
in between. A reading that stands on medians is therefore off by no more than :func:`middle_spread` of each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFILL: Final = "prefill"


def scored_at(series: Any) -> tuple[str, int | None]:
    """(metric, context) that rules know a series by.

    A receipt's ``context`` is what stands in front of the timed region: for prefill mostly nothing. What makes two
    prefills comparable is how many tokens each did, so that is their context here, counted from the samples.
    """
    if series.metric != PREFILL:
        return series.metric, series.context
    length = min([sample.count for sample in series.samples])
    return (f"{PREFILL}-behind-{series.context}" if series.context else PREFILL), length


def left_out(count: int) -> int:
    """How many of ``count`` repetitions the quartiles leave out at either end: the most that is under a quarter."""
    return (count - 1) // 4


def middle_spread(ordered: Sequence[int]) -> int:
    """Interquartile range of sorted durations, of which there is at least one; of fewer than five, the whole range."""
    cut = left_out(len(ordered))
    return ordered[-1 - cut] - ordered[cut]
