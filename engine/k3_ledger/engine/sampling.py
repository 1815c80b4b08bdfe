"""From logits to a token id: greedy by default, or drawn with a recorded seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

Chosen: TypeAlias = "int | Tensor"
"""A token id: a number of the host, or one that is on the device still (0 dimensions, int64)."""
Sampler = Callable[["Tensor"], "Chosen"]
"""Takes float32 logits ``[V]`` and returns an id. Logits that are not finite are a ModelError, never token 0."""


def numbers(chosen: Sequence[Chosen]) -> list[int]:
    """Ids as numbers of the host, which waits once for those that are on a device."""
    kept = [one for one in chosen if not isinstance(one, int)]
    waited = iter(torch.stack(kept).tolist() if kept else ())
    return [one if isinstance(one, int) else next(waited) for one in chosen]


def _values(logits: Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.asarray(logits.detach().double().cpu().numpy())
    if not np.isfinite(values).all():
        place = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ModelError(
            Code.MODEL_LOGIT_VALUE,
            f"the model's logit of token {place} is {values[place]}",
            position=Position(field="logits"),
            expected="finite logits",
            found=f"{np.count_nonzero(~np.isfinite(values))} of {len(values)} that are not",
        )
    return values


class Greedy:
    """The largest logit; of equal ones the lowest id."""

    def __call__(self, logits: Tensor) -> int:
        """See :data:`Sampler`."""
        return int(_values(logits).argmax())


class Seeded:
    """Draws from softmax(logits / temperature), reproducibly for a seed.

    Args:
        seed: recorded with whatever the draw is used for.
        temperature: above 0.
    """

    def __init__(self, seed: int, temperature: float) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature {temperature} is no number above 0: for 0 use greedy")
        self.seed = seed
        self.temperature = temperature
        self._generator = np.random.Generator(np.random.Philox(seed))

    def __call__(self, logits: Tensor) -> int:
        """See :data:`Sampler`."""
        values = _values(logits)
        with np.errstate(over="ignore"):  # next to no temperature: all but the largest get nothing
            power = np.exp((values - values.max()) / self.temperature)
        cumulative = power.cumsum()
        return int(np.searchsorted(cumulative, self._generator.random() * cumulative[-1], side="right"))
