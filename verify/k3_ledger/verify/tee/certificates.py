"""X.509 as far as quotes need it: what the auditor trusts, chains, revocation lists, signatures over P-256.

Web PKI rules (names, extended key usage) do not fit Intel's certificates, so the chain is checked here, step by step:
names link, signatures verify, authorities may sign that deep, no critical extension is unknown, all keys are P-256.
Dates are looked at apart, because whether something has expired depends on a chosen time and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from k3_ledger.schemas.errors import AttestationError, PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

INTEL_ROOT_SHA256: Final = "44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3"
"""SHA-256 of the DER form of Intel's SGX root certificate of 2018: only for saying whose root was given."""
KNOWN_EXTENSIONS: Final = frozenset({x509.BasicConstraints.oid, x509.KeyUsage.oid})
"""Extensions that may be critical, because they are looked at."""
_FAULTS: Final = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
)


@dataclass(frozen=True, slots=True)
class Anchors:
    """Certificates that the auditor holds.

    Attributes:
        roots: self-signed authorities.
        signers: certificates that may sign TCB info and QE identity, if one of the roots signed them.
    """

    roots: tuple[x509.Certificate, ...] = ()
    signers: tuple[x509.Certificate, ...] = ()

    @property
    def sentence(self) -> str:
        """Whose word counts, for a report."""
        if not self.roots:
            return "no root certificate"
        named = []
        for root in self.roots:
            digest = fingerprint(root)
            named.append(f"root {digest[:16]}… ({'Intel' if digest == INTEL_ROOT_SHA256 else 'not Intel'})")
        return ", ".join(named)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's DER form, hexadecimal."""
    return sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def load_anchors(files: Iterable[tuple[str, bytes]]) -> Anchors:
    """Sort the certificates of a trust directory: self-signed ones are roots, the others may sign TCB info.

    Args:
        files: name and contents of every ``.pem`` file.

    Raises:
        PolicyError: a file holds no certificate, or a self-signed one that does not verify.
    """
    roots, signers = [], []
    for name, data in files:
        try:
            for certificate in x509.load_pem_x509_certificates(data):
                if certificate.issuer == certificate.subject:
                    certificate.verify_directly_issued_by(certificate)
                    roots.append(certificate)
                else:
                    signers.append(certificate)
        except _FAULTS as error:
            raise PolicyError(
                Code.POLICY_MALFORMED,
                f"no certificate that can be used: {error}"[:200],
                position=Position(source=name),
                expected="PEM certificates",
            ) from None
    return Anchors(tuple(roots), tuple(signers))


def read_chain(text: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates of a quote, leaf first. Only one spelling of the text is taken: nothing signs it.

    Raises:
        AttestationError: with ``K3L-QUOTE-CHAIN``.
    """
    try:
        chain = tuple(x509.load_pem_x509_certificates(text))
        again = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain)
    except _FAULTS as error:
        raise _chain(f"the quote's certificates cannot be read: {error}"[:200]) from None
    if again != text.removesuffix(b"\0"):
        raise _chain("the quote's certificates are not spelled as PEM is written")
    if len(chain) != 3:
        raise _chain("a quote carries a PCK certificate, its issuer and the root", "3", str(len(chain)))
    return chain


def check_chain(chain: tuple[x509.Certificate, ...], anchors: Anchors) -> x509.Certificate:
    """Check a leaf and its issuers up to a root that the auditor holds, without looking at dates.

    Returns:
        The auditor's root.

    Raises:
        AttestationError: with ``K3L-QUOTE-CHAIN``.
    """
    root = next((root for root in anchors.roots if root == chain[-1]), None)
    if root is None:
        raise _chain(
            "the chain does not end in a root that the auditor holds", anchors.sentence, fingerprint(chain[-1])
        )
    depth = 0
    try:
        for depth, certificate in enumerate(chain):
            issuer = chain[min(depth + 1, len(chain) - 1)]
            certificate.verify_directly_issued_by(issuer)
            _check_extensions(certificate, depth)
            public_key(certificate)
    except _FAULTS as error:
        raise _chain(f"certificate {depth} of the chain: {str(error) or type(error).__name__}"[:200]) from None
    return root


def _check_extensions(certificate: x509.Certificate, depth: int) -> None:
    """What a certificate may do. ``depth`` is 0 for the leaf.

    Raises:
        ValueError: it may not stand there.
        x509.ExtensionNotFound: it does not say.
    """
    for extension in certificate.extensions:
        if extension.critical and extension.oid not in KNOWN_EXTENSIONS:
            raise ValueError(f"critical extension {extension.oid.dotted_string} is unknown")
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    if constraints.ca != (depth > 0) or not (usage.key_cert_sign if depth else usage.digital_signature):
        raise ValueError("it may not sign what it signs")
    if constraints.path_length is not None and constraints.path_length < depth - 1:
        raise ValueError("it may not sign that deep")


def public_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """The certificate's key.

    Raises:
        ValueError: it is not on P-256.
    """
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("its key is not on P-256")  # noqa: TRY004 - about the data, not about the caller
    return key


def find_signers(anchors: Anchors, root: x509.Certificate) -> list[x509.Certificate]:
    """The auditor's TCB signing certificates under ``root``.

    Raises:
        AttestationError: with ``K3L-QUOTE-CHAIN``: there is one that must not be used.
    """
    signers = [signer for signer in anchors.signers if signer.issuer == root.subject]
    for signer in signers:
        check_chain((signer, root), anchors)
    return signers


@dataclass(frozen=True, slots=True)
class Lists:
    """Revocation lists, their signatures verified."""

    pck: x509.CertificateRevocationList
    root: x509.CertificateRevocationList


def read_lists(pck: bytes, root: bytes, chain: tuple[x509.Certificate, ...]) -> Lists:
    """Read the revocation lists of the two authorities of a chain.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``.
    """
    return Lists(_read_list("pck_crl", pck, chain[1]), _read_list("root_crl", root, chain[2]))


def _read_list(name: str, data: bytes, issuer: x509.Certificate) -> x509.CertificateRevocationList:
    try:
        found = x509.load_der_x509_crl(data)
        if found.issuer != issuer.subject:
            raise ValueError(f"issued by {found.issuer.rfc4514_string()}")
        if not found.is_signature_valid(public_key(issuer)):
            raise ValueError("its signature does not verify")
        if any(extension.critical for extension in found.extensions):
            raise ValueError("a critical extension is unknown")
    except _FAULTS as error:
        raise AttestationError(Code.QUOTE_COLLATERAL, f"{name}: {str(error) or type(error).__name__}"[:200]) from None
    return found


def check_revocation(chain: tuple[x509.Certificate, ...], signer: x509.Certificate | None, lists: Lists) -> None:
    """No certificate that is used stands in its issuer's list.

    Raises:
        AttestationError: with ``K3L-QUOTE-REVOKED``.
    """
    leaf, issuer, _ = chain
    used = [(leaf, lists.pck), (issuer, lists.root)] + ([] if signer is None else [(signer, lists.root)])
    for certificate, revoked in used:
        if revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            name = certificate.subject.rfc4514_string()
            found = f"serial {certificate.serial_number:x}"
            raise AttestationError(Code.QUOTE_REVOKED, f"revoked: {name}", found=found)


def periods(certificates: Iterable[x509.Certificate], lists: Lists) -> Iterator[tuple[str, datetime, datetime]]:
    """Name, first and last moment of everything that expires. At its next update a list is stale."""
    for certificate in certificates:
        name = certificate.subject.rfc4514_string()
        yield name, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    for name, found in (("PCK revocation list", lists.pck), ("root revocation list", lists.root)):
        last = found.next_update_utc or found.last_update_utc
        yield name, found.last_update_utc, last - timedelta(seconds=1)


def check_p256(
    key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes, what: str, code: Code = Code.QUOTE_SIGNATURE
) -> None:
    """Check that r and s, 32 bytes each, are a signature of SHA-256 of ``message``.

    Raises:
        AttestationError: with ``code``: they are not; ``what`` is not signed.
    """
    numbers = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    try:
        key.verify(encode_dss_signature(*numbers), message, ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise AttestationError(code, f"the signature over {what} does not verify") from None


def point(data: bytes) -> ec.EllipticCurvePublicKey:
    """A key from x and y, 32 bytes each.

    Raises:
        AttestationError: with ``K3L-QUOTE-SIGNATURE``: it is not on the curve.
    """
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + data)
    except ValueError:
        raise AttestationError(Code.QUOTE_SIGNATURE, "the attestation key is not on the curve") from None


def platform_extension(leaf: x509.Certificate, identifier: str) -> bytes:
    """Contents of an extension that cryptography does not know.

    Raises:
        AttestationError: with ``K3L-QUOTE-CHAIN``: it is not there.
    """
    for extension in leaf.extensions:
        if extension.oid.dotted_string == identifier and isinstance(extension.value, x509.UnrecognizedExtension):
            return extension.value.value
    raise _chain("the PCK certificate has no SGX extension")


def _chain(message: str, expected: str | None = None, found: str | None = None) -> AttestationError:
    return AttestationError(Code.QUOTE_CHAIN, message, expected=expected, found=found)
