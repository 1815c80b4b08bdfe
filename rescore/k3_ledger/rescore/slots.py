"""Names of what is pinned: a track is what can be compared with itself, a slot is a track and a role on it.

A slot is written ``role:metric@context/model/quant/node``, with ``-`` for what does not apply:
``frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8``. One spelling each: parsing formats again and compares.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

Role: TypeAlias = Literal["frontier", "reference", "guard"]
"""``frontier``: best verified value of this project's own; ``reference``: the other engine's; ``guard``: the value a
guarded metric must not fall below."""

ABSENT: Final = "-"
_SLOT: Final = re.compile(r"([a-z]+):([A-Za-z0-9._-]+)@(-|0|[1-9][0-9]{0,15})/([^/:@\s]+)/([^/:@\s]+)/([^/:@\s]+)")


@dataclass(frozen=True, slots=True)
class Track:
    """What a value may be compared with: the same metric, context, model, quantisation and node.

    Attributes:
        metric: ``decode``, ``prefill`` …
        context: tokens in front of the timed region, or those that prefill does; None where the metric has none.
        model: name of the weights; ``-`` where no model takes part.
        quant: quantisation of the weights, or ``-``.
        node: name of the machine.
    """

    metric: str
    context: int | None
    model: str
    quant: str
    node: str

    def __str__(self) -> str:
        context = ABSENT if self.context is None else self.context
        return f"{self.metric}@{context}/{self.model}/{self.quant}/{self.node}"

    @property
    def short(self) -> str:
        """Metric and context alone, for people: ``decode@131072``."""
        return self.metric if self.context is None else f"{self.metric}@{self.context}"

    def at(self, metric: str, context: int | None) -> Track:
        """The track of another metric on the same model and node."""
        return replace(self, metric=metric, context=context)

    def slot(self, role: Role) -> str:
        """Spelling of the slot with this role on this track."""
        return f"{role}:{self}"


def parse_slot(text: str, *, position: Position = NOWHERE) -> tuple[Role, Track]:
    """Read a slot's name.

    Raises:
        RescoreError: ``K3L-TOML-FIELD`` when it is no slot or its role is unknown.
    """
    match = _SLOT.fullmatch(text)
    if match:
        for role in get_args(Role):
            if match[1] == role:
                context = None if match[3] == ABSENT else int(match[3])
                return role, Track(match[2], context, match[4], match[5], match[6])
    raise RescoreError(
        Code.TOML_FIELD,
        f"{text[:80]!r} is not the name of a slot",
        position=position,
        expected="frontier|reference|guard:metric@context/model/quant/node",
        found=text[:80],
    )
