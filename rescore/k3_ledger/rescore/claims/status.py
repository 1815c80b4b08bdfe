"""The words of a decision."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.evidence import Evidence
    from k3_ledger.rescore.claims.reading import Amount


class Status(enum.StrEnum):
    """What became of a claim or a part of it, from best to worst."""

    SUPPORTED = "supported"
    UNSEALED = "unsealed"
    STALE = "stale"
    NO_RECEIPT = "no-receipt"
    AMBIGUOUS = "ambiguous"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Part:
    """One thing a claim says, and what the evidence says to it.

    Attributes:
        name: ``value``, ``ratio`` …
        why: one lower-case clause with its numbers.
        evidence: what it rests on, or is contradicted by.
    """

    name: str
    status: Status
    why: str
    evidence: tuple[Evidence, ...] = ()


def near(found: Fraction, amount: Amount, tolerance: Fraction | None) -> bool:
    """Whether a value is the published one: within a share of it, or within half a unit of its last place.

    Equality is near in both.
    """
    allowed = Fraction(1, 2 * 10**amount.places) if tolerance is None else tolerance * abs(amount.value)
    return abs(found - amount.value) <= allowed
