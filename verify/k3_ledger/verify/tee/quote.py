"""Parses a quote by the table of :mod:`k3_ledger.verify.tee.layout`. Says nothing about where the quote comes from.

:func:`parse_quote` reads header and body and how long the signature data are; :func:`parse_signature` takes those
apart. Every byte of a quote that passes both belongs to exactly one field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position
from k3_ledger.verify.tee.layout import BODY_END, LAYOUT, QE_REPORT, SIGNATURE_START

if TYPE_CHECKING:
    from collections.abc import Mapping

_TDX: Final = 0x81
_QE_REPORT_CERTIFICATION: Final = 6
_PCK_CHAIN: Final = 5
_FIXED: Final = {
    row.name: slice(row.offset, row.offset + row.size)
    for row in LAYOUT
    if row.offset is not None and isinstance(row.size, int)
}


class Span(NamedTuple):
    """Where a field stands in one quote."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Quote:
    """Header and body of a quote. Fields are named as in :data:`~k3_ledger.verify.tee.layout.LAYOUT`.

    Attributes:
        raw: the whole quote.
        signature_size: bytes of signature data.
    """

    raw: bytes
    signature_size: int

    def field(self, name: str) -> bytes:
        """Bytes of a field of header or body, or of signature data in front of the first field of variable length."""
        return self.raw[_FIXED[name]]

    def integer(self, name: str) -> int:
        """Such a field as a number."""
        return int.from_bytes(self.field(name), "little")

    @property
    def signed(self) -> bytes:
        """What the attestation key signs."""
        return self.raw[:BODY_END]

    @property
    def mrtd(self) -> str:
        """Measurement of the initial contents of the trust domain, hexadecimal."""
        return self.field("body.mrtd").hex()

    @property
    def mrseam(self) -> str:
        """Measurement of the TDX module, hexadecimal."""
        return self.field("body.mrseam").hex()

    @property
    def rtmr(self) -> tuple[str, ...]:
        """The four run-time measurement registers, hexadecimal."""
        return tuple(self.field(f"body.rtmr{number}").hex() for number in range(4))

    @property
    def report_data(self) -> bytes:
        """64 bytes that the workload chose."""
        return self.field("body.report_data")

    @property
    def trailing(self) -> bytes:
        """Bytes behind the signature data; nothing signs them."""
        return self.raw[SIGNATURE_START + self.signature_size :]


@dataclass(frozen=True, slots=True)
class SignatureData:
    """Signature data of a quote.

    Attributes:
        quote_signature: r and s, 32 bytes each, of the attestation key over header and body.
        attestation_key: x and y of that key.
        qe_report: report of the quoting enclave.
        qe_signature: r and s of the PCK certificate's key over that report.
        authentication: what the quoting enclave hashed together with the attestation key.
        chain: PEM text of the PCK certificate and its issuers.
        spans: where each field of the whole quote stands, in order, by name.
    """

    quote_signature: bytes
    attestation_key: bytes
    qe_report: bytes
    qe_signature: bytes
    authentication: bytes
    chain: bytes
    spans: Mapping[str, Span]


def parse_quote(data: bytes, position: Position = NOWHERE, code: Code = Code.QUOTE_MALFORMED) -> Quote:
    """Read header, body and the length of the signature data.

    Args:
        data: the quote.
        position: where it stands, for errors.
        code: finding code of a refusal.

    Raises:
        MalformedError: with ``code``.
    """

    def refuse(message: str, expected: str, found: str) -> MalformedError:
        return MalformedError(code, message, position=position, expected=expected, found=found)

    if len(data) < SIGNATURE_START:
        raise refuse("quote is too short", f"at least {SIGNATURE_START} bytes", f"{len(data)} bytes")
    quote = Quote(data, int.from_bytes(data[_FIXED["signature_size"]], "little"))
    if quote.integer("header.version") != 4:
        raise refuse("quote of another version", "4", str(quote.integer("header.version")))
    if quote.integer("header.tee_type") != _TDX:
        raise refuse("quote of another kind of enclave", hex(_TDX), hex(quote.integer("header.tee_type")))
    room = len(data) - SIGNATURE_START
    if quote.signature_size > room:
        raise refuse("signature data passes the end", f"at most {room} bytes", f"{quote.signature_size} bytes")
    return quote


def parse_signature(quote: Quote, position: Position = NOWHERE) -> SignatureData:
    """Take the signature data apart.

    Raises:
        MalformedError: with ``K3L-QUOTE-MALFORMED``.
    """
    spans: dict[str, Span] = {}
    end = SIGNATURE_START + quote.signature_size
    at = 0

    def number(name: str) -> int:
        span = spans[name]
        return int.from_bytes(quote.raw[span.offset : span.offset + span.size], "little")

    for row in LAYOUT[:-1]:
        size = number(row.size) if isinstance(row.size, str) else row.size
        assert size is not None
        assert row.offset in (at, None), f"the table has a hole at {row.name}"
        if at + size > end:
            raise _refuse(f"signature data ends inside {row.name}", f"{at + size} bytes", f"{end} bytes", position)
        spans[row.name] = Span(at, size)
        at += size
    if at != end:
        raise _refuse("signature data does not end with the certificates", f"{at} bytes", f"{end} bytes", position)
    spans["padding"] = Span(at, len(quote.raw) - at)
    for name, expected, what in (
        ("header.attestation_key_type", 2, "ECDSA over P-256"),
        ("signature.certification_type", _QE_REPORT_CERTIFICATION, "the quoting enclave's report"),
        ("chain_type", _PCK_CHAIN, "a PCK certificate chain"),
    ):
        if number(name) != expected:
            raise _refuse(f"{name} is not that of {what}", str(expected), str(number(name)), position)
    if spans["signature.certification_size"].offset + 4 + number("signature.certification_size") != end:
        raise _refuse(
            "certification data do not fill the signature data",
            str(end - spans["qe.cpusvn"].offset),
            str(number("signature.certification_size")),
            position,
        )

    def field(name: str) -> bytes:
        span = spans[name]
        return quote.raw[span.offset : span.offset + span.size]

    return SignatureData(
        quote_signature=field("signature.quote_signature"),
        attestation_key=field("signature.attestation_key"),
        qe_report=quote.raw[QE_REPORT],
        qe_signature=field("qe_signature"),
        authentication=field("qe_authentication"),
        chain=field("chain"),
        spans=spans,
    )


def _refuse(message: str, expected: str, found: str, position: Position) -> MalformedError:
    return MalformedError(Code.QUOTE_MALFORMED, message, position=position, expected=expected, found=found)
