"""What the second checker means by "genuine" where this one means something else, so that it is no disagreement.

``dcap-qvl`` refuses a quote for the attributes of its trust domain after it has found everything else in order, and
says so in the words below. Here the origin of a quote and the properties of its trust domain are two questions: the
quote of a debugged domain is genuine and not wanted. Such a refusal is therefore the second checker's word that the
quote is genuine, and is held against this one's own look at the attributes. Words that are not in the table (another
version's) make a refusal like any other.

Bits are those of TD attributes in Intel's TDX module specification, ABI: byte 0 is for debugging and profiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from k3_ledger.schemas.findings import Code


def _bits(*positions: int) -> int:
    return sum(1 << position for position in positions)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something about a trust domain's attributes that neither checker lets pass.

    Attributes:
        name: what it is called in docs/attestation.md.
        mask: the bits that it is about, bit 0 in the first byte.
        wanted: their value in a domain that is acceptable.
        code: the finding when they have another one.
        message: that finding's words.
        refusal: how the second checker says it.
    """

    name: str
    mask: int
    wanted: int
    code: Code
    message: str
    refusal: str


_DEBUGGED: Final = "the trust domain can be debugged: nothing it says is confidential or safe"

ATTRIBUTES: Final = (
    Attribute("debugging", _bits(0), 0, Code.QUOTE_DEBUG, _DEBUGGED, "Debug mode is enabled"),
    Attribute("profiling", _bits(4, 5, 6), 0, Code.QUOTE_DEBUG, _DEBUGGED, "TD profiling is enabled"),
    Attribute(
        "reserved bits",
        _bits(1, 2, 3, *range(7, 16), *range(23, 27), *range(32, 62)),
        0,
        Code.QUOTE_ATTRIBUTES,
        "the trust domain has attributes that Intel reserves",
        "Reserved bits in TD attributes are set",
    ),
    Attribute(
        "exceptions on missing pages",
        _bits(28),
        _bits(28),
        Code.QUOTE_ATTRIBUTES,
        "the host can interrupt the trust domain through pages that it takes away",
        "SEPT_VE_DISABLE is not enabled",
    ),
    Attribute(
        "migration",
        _bits(29),
        0,
        Code.QUOTE_ATTRIBUTES,
        "the trust domain can be moved to another machine, whose state the quote does not show",
        "TD migration is enabled",
    ),
    Attribute(
        "service domain",
        _bits(17),
        0,
        Code.QUOTE_ATTRIBUTES,
        "a service domain that the quote does not show can be bound to the trust domain",
        "SERVTD_EXT is enabled",
    ),
)
"""Refusals that say nothing against the origin of a quote."""

STRICTER: Final = ("PCE id", "issue of revocation lists")
"""What this checker looks at for the origin of a quote, and the second one does not: where it fails, they disagree."""


def faults_of(attributes: bytes) -> tuple[Attribute, ...]:
    """What is not acceptable about the attributes of a trust domain (8 bytes of a quote's body)."""
    value = int.from_bytes(attributes, "little")
    return tuple(fault for fault in ATTRIBUTES if value & fault.mask != fault.wanted)


def named_by(reason: str) -> Attribute | None:
    """The attribute that the second checker's refusal is about, or None where it is about anything else."""
    return next((fault for fault in ATTRIBUTES if reason.endswith(f": {fault.refusal}")), None)
