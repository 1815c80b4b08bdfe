"""Where every byte of an Intel TDX quote, version 4, stands (Intel TDX DCAP Quoting Library API, appendix A.3).

:data:`LAYOUT` is the whole quote: every row begins where the row before it ends, and the last one is what follows the
signature data, which nothing signs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Kind(enum.Enum):
    """How a field's bytes are read."""

    INTEGER = "unsigned integer, little-endian"
    BYTES = "bytes"


class Cover(enum.Enum):
    """What makes a change of a field's bytes show."""

    QUOTE = "the attestation key's signature"
    ENCLAVE = "the PCK certificate's signature over the quoting enclave's report"
    KEY = "the digest in the quoting enclave's report data"
    SELF = "it is a signature, a certificate or a length, and nothing else fits in its place"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Row:
    """One field.

    Attributes:
        name: section and field.
        offset: where it begins, counted from the start of the quote; None behind a field of variable length.
        size: its length in bytes, or the name of the field that gives it; None takes whatever is left.
        kind: how it is read.
        cover: what makes a change show.
    """

    name: str
    offset: int | None
    size: int | str | None
    kind: Kind = Kind.BYTES
    cover: Cover = Cover.QUOTE


_I, _B = Kind.INTEGER, Kind.BYTES
LAYOUT: Final = (
    Row("header.version", 0, 2, _I),
    Row("header.attestation_key_type", 2, 2, _I),
    Row("header.tee_type", 4, 4, _I),
    Row("header.reserved", 8, 4),
    Row("header.qe_vendor_id", 12, 16),
    Row("header.user_data", 28, 20),
    Row("body.tee_tcb_svn", 48, 16),
    Row("body.mrseam", 64, 48),
    Row("body.mrsignerseam", 112, 48),
    Row("body.seam_attributes", 160, 8),
    Row("body.td_attributes", 168, 8),
    Row("body.xfam", 176, 8),
    Row("body.mrtd", 184, 48),
    Row("body.mrconfigid", 232, 48),
    Row("body.mrowner", 280, 48),
    Row("body.mrownerconfig", 328, 48),
    Row("body.rtmr0", 376, 48),
    Row("body.rtmr1", 424, 48),
    Row("body.rtmr2", 472, 48),
    Row("body.rtmr3", 520, 48),
    Row("body.report_data", 568, 64),
    Row("signature_size", 632, 4, _I, Cover.SELF),
    Row("signature.quote_signature", 636, 64, _B, Cover.SELF),
    Row("signature.attestation_key", 700, 64, _B, Cover.KEY),
    Row("signature.certification_type", 764, 2, _I, Cover.SELF),
    Row("signature.certification_size", 766, 4, _I, Cover.SELF),
    Row("qe.cpusvn", 770, 16, _B, Cover.ENCLAVE),
    Row("qe.miscselect", 786, 4, _B, Cover.ENCLAVE),
    Row("qe.reserved1", 790, 28, _B, Cover.ENCLAVE),
    Row("qe.attributes", 818, 16, _B, Cover.ENCLAVE),
    Row("qe.mrenclave", 834, 32, _B, Cover.ENCLAVE),
    Row("qe.reserved2", 866, 32, _B, Cover.ENCLAVE),
    Row("qe.mrsigner", 898, 32, _B, Cover.ENCLAVE),
    Row("qe.reserved3", 930, 96, _B, Cover.ENCLAVE),
    Row("qe.isvprodid", 1026, 2, _I, Cover.ENCLAVE),
    Row("qe.isvsvn", 1028, 2, _I, Cover.ENCLAVE),
    Row("qe.reserved4", 1030, 60, _B, Cover.ENCLAVE),
    Row("qe.report_data", 1090, 64, _B, Cover.ENCLAVE),
    Row("qe_signature", 1154, 64, _B, Cover.SELF),
    Row("qe_authentication_size", 1218, 2, _I, Cover.SELF),
    Row("qe_authentication", 1220, "qe_authentication_size", _B, Cover.KEY),
    Row("chain_type", None, 2, _I, Cover.SELF),
    Row("chain_size", None, 4, _I, Cover.SELF),
    Row("chain", None, "chain_size", _B, Cover.SELF),
    Row("padding", None, None, _B, Cover.NOTHING),
)
BODY_END: Final = 632
"""Header and body: what the attestation key signs."""
QE_REPORT: Final = slice(770, 1154)
"""The quoting enclave's report: what the PCK certificate signs."""
SIGNATURE_START: Final = 636
