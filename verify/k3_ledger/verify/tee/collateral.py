"""Collateral: what a quote is checked with besides its own certificates, as somebody wrote it down.

Two spellings are read: a JSON object of the answers of Intel's provisioning service by their addresses
(``{"items": {url: base64}, "urls": [...], "v": 1}``), and the JSON that ``dcap_qvl`` writes. TCB info and QE identity
are kept as the very bytes that were signed: writing them again would break their signatures. Certificates that
collateral brings along are not used: whose word counts is the auditor's to say.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.errors import AttestationError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES: Final = 1 << 20
"""Longest collateral that is read; Intel's is about 15,000 bytes."""
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")
_PLACES: Final = {
    "pck_crl": re.compile(r"/sgx/certification/v4/pckcrl(?:\?|$)"),
    "root_crl": re.compile(r"/IntelSGXRootCA\.(?:der|crl)$"),
    "tcb_info": re.compile(r"/tdx/certification/v4/tcb(?:\?|$)"),
    "qe_identity": re.compile(r"/tdx/certification/v4/qe/identity(?:\?|$)"),
}
"""What an answer is, by the end of its address."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A JSON text and the signature over its bytes: r and s, 32 bytes each."""

    text: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Collateral:
    """What a quote is checked with. The lists are DER."""

    tcb_info: Signed
    qe_identity: Signed
    pck_crl: bytes
    root_crl: bytes


def parse_collateral(data: bytes) -> Collateral:
    """Read collateral in either spelling.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``.
    """
    if len(data) > MAX_BYTES:
        raise wrong("collateral is too long", f"at most {MAX_BYTES} bytes", f"{len(data)} bytes")
    value = read_json(data)
    if "items" in value:
        return _from_answers(value["items"])
    text = {name: _text(value, name) for name in ("tcb_info", "qe_identity")}
    return Collateral(
        tcb_info=Signed(text["tcb_info"].encode(errors="surrogatepass"), _hex(value, "tcb_info_signature", 64)),
        qe_identity=Signed(
            text["qe_identity"].encode(errors="surrogatepass"), _hex(value, "qe_identity_signature", 64)
        ),
        pck_crl=_hex(value, "pck_crl"),
        root_crl=_hex(value, "root_ca_crl"),
    )


def wrong(message: str, expected: str | None = None, found: str | None = None) -> AttestationError:
    """Collateral that is not what it should be."""
    return AttestationError(Code.QUOTE_COLLATERAL, message, expected=expected, found=found)


def read_json(data: bytes) -> dict[str, Any]:
    """A JSON object in which no key stands twice and no number has a fraction.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``.
    """
    try:
        value = json.loads(data, object_pairs_hook=_members, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise wrong(f"not JSON as it should be: {error}"[:200]) from None
    if not isinstance(value, dict):
        raise wrong("not a JSON object", "an object", type(value).__name__)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice")
    return out


def _refuse(text: str) -> Any:
    raise ValueError(f"number {text[:40]} is no integer")


def _from_answers(items: Any) -> Collateral:
    found: dict[str, bytes] = {}
    for address, text in items.items() if isinstance(items, dict) else ():
        for name, place in _PLACES.items():
            if place.search(address):
                if name in found or not isinstance(text, str):
                    raise wrong(f"{name} stands twice, or is no text", "one base64 text", address[:120])
                found[name] = _base64(name, text)
    missing = sorted(set(_PLACES) - set(found))
    if missing:
        raise wrong("the collateral is not complete", ", ".join(sorted(_PLACES)), f"no {', '.join(missing)}")
    return Collateral(
        tcb_info=_slice("tcbInfo", found["tcb_info"]),
        qe_identity=_slice("enclaveIdentity", found["qe_identity"]),
        pck_crl=found["pck_crl"],
        root_crl=found["root_crl"],
    )


def _slice(member: str, data: bytes) -> Signed:
    """The signed bytes of an answer: what stands between the member's name and the signature."""
    shape = rb'\s*\{\s*"' + member.encode() + rb'"\s*:\s*(\{.*\})\s*,\s*"signature"\s*:\s*"([0-9a-fA-F]{128})"\s*\}\s*'
    match = re.fullmatch(shape, data, re.DOTALL)
    if match is None:
        raise wrong(f"the answer is not {member} and its signature", None, data[:60].decode(errors="replace"))
    return Signed(match[1], bytes.fromhex(match[2].decode()))


def _base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise wrong(f"{name} is not base64", "base64", text[:40]) from None


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise wrong(f"the collateral has no text {name}", "a text", type(text).__name__)
    return text


def _hex(value: Mapping[str, Any], name: str, size: int | None = None) -> bytes:
    text = _text(value, name)
    if _HEX.fullmatch(text) is None or (size is not None and len(text) != 2 * size):
        raise wrong(f"{name} is not hexadecimal of the right length", None, text[:40])
    return bytes.fromhex(text)
