"""RFC 3161: makes requests for timestamp authorities, and verifies what they answer, offline.

Parsing, chain and signature are rfc3161-client's (which hands them to OpenSSL); it is optional and imported here only.
What it leaves open of the chain is :mod:`k3_ledger.cli.token_chain`'s.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from k3_ledger.cli.token_sets import with_sorted_sets
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.moments import LAST_SECOND
from k3_ledger.schemas.panics import panics_as_errors
from k3_ledger.verify.timestamps import MAX_ACCURACY_S, MAX_TOKEN, Token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cryptography.x509 import Certificate

    from k3_ledger.cli.token_chain import Way

_LENGTH = rb"(?:[\x00-\x7f]|\x81.|\x82..|\x83...)"
_GRANTED_WITH_MODS = re.compile(rb"\x30" + _LENGTH + rb"\x30" + _LENGTH + rb"\x02\x01\x01", re.DOTALL)
"""How a response begins whose status is 1, in DER."""
_SHA256 = "2.16.840.1.101.3.4.2.1"


def read_token(data: bytes, roots: Sequence[bytes]) -> Token:
    """Verify a timestamp response against root certificates (DER): a TokenReader.

    The chain is judged at the token's own time: a certificate that has expired since does not undo what it signed.

    Raises:
        LedgerError: see :class:`k3_ledger.verify.timestamps.TokenReader`.
    """
    from cryptography import x509

    from k3_ledger.cli.token_chain import ways

    response = parse_token(data)
    authority = ""
    found: list[Way] = []
    try:
        with panics_as_errors():
            anchors = [x509.load_der_x509_certificate(root) for root in roots]
            carried = [x509.load_der_x509_certificate(der) for der in response.signed_data.certificates]
            signer = next(iter(response.signed_data.signer_infos), None)
            for leaf in carried:
                if signer is not None and (leaf.issuer, leaf.serial_number) == (signer.issuer, signer.serial_number):
                    authority = leaf.subject.rfc4514_string()
                    found += ways(leaf, carried, anchors)
    except Exception as error:  # noqa: BLE001 - cryptography raises several kinds, not all of them ValueErrors
        raise _unreadable(error) from None
    if not found:
        raise LedgerError(
            Code.TIMESTAMP_UNTRUSTED,
            "the timestamp is by an authority that the trust policy does not name",
            found=authority[:200] or "no certificate of its signer",
        )
    refused: Exception | None = None
    for way in found:
        try:
            with panics_as_errors():
                _check(data, way, anchors)
        except Exception as error:  # noqa: BLE001 - a refusal, or what cryptography raises about a certificate
            refused = refused or error
        else:
            info = response.tst_info
            return Token(info.message_imprint.message, _latest(info, data), way[0].subject.rfc4514_string())
    raise LedgerError(
        Code.TIMESTAMP_BAD,
        "the timestamp does not hold",
        expected="a signature by the authority, with a certificate that is for timestamps",
        found=str(refused)[:200],
    )


def _check(data: bytes, way: Way, anchors: Sequence[Certificate]) -> None:
    """Verify a token with the certificates of one way to an anchor.

    Raises:
        ValueError: it does not hold; the library raises what it likes besides.
    """
    from cryptography.hazmat.primitives.serialization import Encoding
    from rfc3161_client import VerifierBuilder

    from k3_ledger.cli.token_chain import check_way
    from k3_ledger.cli.token_sets import with_certificates

    check_way(way, data)
    response = parse_token(with_certificates(data, {one.public_bytes(Encoding.DER) for one in way}))
    VerifierBuilder(roots=list(anchors)).build().verify(response, response.tst_info.message_imprint.message)


def _latest(info: Any, data: bytes) -> int:
    """The clock reading in a token, and the accuracy that it states, in whole seconds since the Epoch, rounded up.

    The library reads whole seconds: the fraction is looked for in the token's own bytes. Where several spell that
    second, the latest counts.

    Raises:
        LedgerError: with ``TIMESTAMP_VAGUE``.
    """
    second: datetime = info.gen_time
    spelled = re.escape(second.strftime("%Y%m%d%H%M%S").encode())
    fractions = re.findall(rb"\x18[\x11-\x7f]" + spelled + rb"[.,]([0-9]{1,90})Z", data)
    latest = int(second.timestamp()) + max((Fraction(int(text), 10 ** len(text)) for text in fractions), default=0)
    accuracy, off = info.accuracy, Fraction(0)
    if accuracy is not None:
        off += (
            (accuracy.seconds or 0) + Fraction(accuracy.millis or 0, 1000) + Fraction(accuracy.micros or 0, 1_000_000)
        )
    if not 0 <= off <= MAX_ACCURACY_S or latest + off > LAST_SECOND:
        raise LedgerError(
            Code.TIMESTAMP_VAGUE,
            "the authority's clock says no usable time",
            expected=f"an accuracy of at most {MAX_ACCURACY_S} s, before the year 10000",
            found=f"an accuracy of {ceil(off)} s"[:100],
        )
    return ceil(latest + off)


def parse_token(data: bytes) -> Any:
    """A timestamp response that was granted, over a SHA-256 digest. Nothing in it is verified.

    Raises:
        LedgerError: with ``TIMESTAMP_UNREADABLE``.
    """
    from rfc3161_client import decode_timestamp_response

    if len(data) > MAX_TOKEN:
        raise _unreadable(ValueError(f"longer than {MAX_TOKEN} bytes"))
    try:
        with panics_as_errors():
            response = decode_timestamp_response(_as_granted(with_sorted_sets(data)))
            algorithm = response.tst_info.message_imprint.hash_algorithm.dotted_string
    except ValueError as error:
        raise _unreadable(error) from None
    if algorithm != _SHA256:
        raise _unreadable(ValueError(f"over a digest of the kind {algorithm}, not SHA-256"))
    return response


def _as_granted(data: bytes) -> bytes:
    """The response with the status `granted` where it is `grantedWithMods`: with either there is a token, and it counts
    (RFC 3161 section 2.4.2). The library knows the first alone. Nobody signs the status.
    """
    match = _GRANTED_WITH_MODS.match(data)
    return data if match is None else data[: match.end() - 1] + b"\x00" + data[match.end() :]


def make_request(text: bytes) -> bytes:
    """A request for a token over the SHA-256 of ``text`` that carries its signer's certificate, with a nonce."""
    from rfc3161_client import TimestampRequestBuilder
    from rfc3161_client.base import HashAlgorithm

    builder = TimestampRequestBuilder().data(text).hash_algorithm(HashAlgorithm.SHA256)
    request: bytes = builder.cert_request(cert_request=True).build().as_bytes()
    return request


def _unreadable(error: Exception) -> LedgerError:
    return LedgerError(Code.TIMESTAMP_UNREADABLE, f"not a timestamp that can be read: {error}"[:300])
