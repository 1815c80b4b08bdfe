"""Structure of an Intel TDX quote, version 4 (Intel TDX DCAP Quoting Library API, appendix A.3).

A quote is a header of 48 bytes, a TD report body of 584 bytes, a four-byte little-endian length, signature data of
that length, and whatever follows. Header and body are what the signature covers; bytes behind the signature data are
covered by nothing.

Only the structure is read here. Whether an Intel CPU made the quote (signature, certificate chain, collateral,
revocation) is not checked by this module, and the audit counts it as not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

HEADER: Final = 48
BODY: Final = 584
_LENGTH_AT: Final = HEADER + BODY
_SIGNATURE_AT: Final = _LENGTH_AT + 4
_TDX: Final = 0x81


@dataclass(frozen=True, slots=True)
class Quote:
    """Fields of a quote that the audit uses. Measurements are lower-case hexadecimal.

    Attributes:
        mrtd: measurement of the initial contents of the trust domain.
        mrseam: measurement of the TDX module.
        rtmr: the four run-time measurement registers.
        report_data: 64 bytes that the workload chose.
        signature_size: bytes of signature data.
        trailing: bytes behind the signature data; nothing signs them.
    """

    key_type: int
    mrtd: str
    mrseam: str
    rtmr: tuple[str, str, str, str]
    report_data: bytes
    signature_size: int
    trailing: bytes


def parse_quote(data: bytes, position: Position = NOWHERE) -> Quote:
    """Read the structure.

    Raises:
        MalformedError: with ``K3L-FOREIGN-QUOTE``.
    """

    def refuse(message: str, expected: str, found: str) -> MalformedError:
        return MalformedError(Code.FOREIGN_QUOTE, message, position=position, expected=expected, found=found)

    if len(data) < _SIGNATURE_AT:
        raise refuse("quote is too short", f"at least {_SIGNATURE_AT} bytes", f"{len(data)} bytes")
    version = int.from_bytes(data[0:2], "little")
    key_type = int.from_bytes(data[2:4], "little")
    tee_type = int.from_bytes(data[4:8], "little")
    if version != 4:
        raise refuse("quote of another version", "4", str(version))
    if tee_type != _TDX:
        raise refuse("quote of another kind of enclave", hex(_TDX), hex(tee_type))
    size = int.from_bytes(data[_LENGTH_AT:_SIGNATURE_AT], "little")
    if size > len(data) - _SIGNATURE_AT:
        raise refuse("signature data passes the end", f"at most {len(data) - _SIGNATURE_AT} bytes", f"{size} bytes")

    def register(at: int) -> str:
        return data[HEADER + at : HEADER + at + 48].hex()

    return Quote(
        key_type=key_type,
        mrtd=register(136),
        mrseam=register(16),
        rtmr=(register(328), register(376), register(424), register(472)),
        report_data=data[HEADER + 520 : _LENGTH_AT],
        signature_size=size,
        trailing=data[_SIGNATURE_AT + size :],
    )
