"""Rates of a measurement for a person to look at. A receipt holds none: rules derive their own, exactly."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from k3_ledger.schemas.measurement import FailedMeasurement, ParityDepth, RunMeasurement, Sample

_NS = 1e9


@dataclass(frozen=True, slots=True)
class Rate:
    """One metric in tokens per second.

    Attributes:
        metric: what was done.
        median, least, most: of the rates of its repetitions, by the program's own clock; by the controller's where
            that is all that is held.
        marginal: extra tokens over extra time between two lengths, by the controller's clock; None without it.
        samples: repetitions.
    """

    metric: str
    median: float
    least: float
    most: float
    marginal: float | None
    samples: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def rates_of(measurement: RunMeasurement | FailedMeasurement) -> list[Rate]:
    """Rates of every series that counts tokens, by the program's own clock if there is one; none of a failed run."""
    series = getattr(measurement, "timing", ())
    outside = {one.metric: one.samples for one in series if one.observer == "controller"}
    own = {one.metric for one in series if one.observer == "subject"}
    found = []
    for one in series:
        if one.unit != "token" or (one.observer != "subject" and one.metric in own):
            continue
        rates = [sample.count / sample.duration_ns * _NS for sample in one.samples]
        clock = _marginal(outside.get(one.metric, ()))
        found.append(Rate(one.metric, statistics.median(rates), min(rates), max(rates), clock, len(rates)))
    return found


def worst_depth(measurement: RunMeasurement | FailedMeasurement) -> ParityDepth | None:
    """The graded depth of greatest KL; None where nothing was graded."""
    parity = getattr(measurement, "parity", None)
    return None if parity is None else max(parity.depths, key=lambda depth: Decimal(depth.kl_max))


def _marginal(samples: tuple[Sample, ...]) -> float | None:
    lengths = sorted({sample.count for sample in samples})
    if len(lengths) != 2:
        return None
    short, long = (statistics.median(one.duration_ns for one in samples if one.count == length) for length in lengths)
    return (lengths[1] - lengths[0]) / (long - short) * _NS if long > short else None
