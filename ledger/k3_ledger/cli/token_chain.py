"""The chain of certificates under a timestamp token: from its signer to an authority that the reader names.

OpenSSL, which rfc3161-client asks, judges a chain: dates at the token's time, signatures, basic constraints, path
lengths, key usages, no unknown critical extension, and of the signer that timestamping, critical, is its only purpose.
It leaves open, and this module looks at:

1. which certificates the chain is made of: it takes what it likes from the token, where nobody signs what is carried.
   Here each way from the signer to a root is a candidate, and a token is judged with the certificates of that way;
2. the purposes of the authorities between: one that is restricted to others, such as web servers, vouches for no clock;
3. that the signer is no authority over certificates itself;
4. that the signed attributes name the signer's certificate (RFC 3161, section 2.4.2), so that another one for the same
   key, of another period or purpose, cannot take its place;
5. that they say what is signed, a timestamp (RFC 5652, section 5.3).

Revocation is not looked at. ``cryptography.x509.verification`` is not asked: it judges by the rules of the web (no
curve but NIST's, no certificate of version 1), which authorities for timestamps do not follow.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from k3_ledger.cli.token_sets import check_content, names_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_CARRIED: Final = 64
"""Certificates of a token that are looked at; none in use carries ten."""
MAX_STEPS: Final = 256
"""How often a way is gone on with: authorities that vouch for one another make any number of them."""
_PURPOSES: Final = frozenset({ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})

Way = tuple[x509.Certificate, ...]


def ways(
    leaf: x509.Certificate, carried: Sequence[x509.Certificate], anchors: Sequence[x509.Certificate]
) -> Iterator[Way]:
    """Ways by names and signatures from a certificate to one that an anchor issued, or is, the shortest first."""
    issued = cache(_issued)
    queue: deque[Way] = deque([(leaf,)])
    for _ in range(MAX_STEPS):
        if not queue:
            return
        way = queue.popleft()
        at = way[-1]
        if at in anchors or any(issued(anchor, at) for anchor in anchors):
            yield way
        else:
            queue += ((*way, above) for above in carried[:MAX_CARRIED] if above not in way and issued(above, at))


def _issued(above: x509.Certificate, below: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def check_way(way: Way, data: bytes) -> None:
    """Check of a way what OpenSSL does not.

    Args:
        way: certificates from the signer's to the last below a root.
        data: the token.

    Raises:
        ValueError: it does not hold, and why.
    """
    signer, *between = way
    if _is_authority(signer):
        raise ValueError("its signer's certificate is an authority's over certificates")
    for one in between:
        purposes = _purposes(one)
        if purposes is not None and not purposes & _PURPOSES:
            name = one.subject.rfc4514_string()[:100]
            raise ValueError(f"the authority {name} vouches for other purposes than timestamps")
    check_content(data)
    if not names_certificate(data, signer.public_bytes(Encoding.DER)):
        raise ValueError("its signed part names another certificate than the one that it carries")


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _purposes(certificate: x509.Certificate) -> frozenset[x509.ObjectIdentifier] | None:
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return None
