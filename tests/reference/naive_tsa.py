"""A timestamp authority of the tests' own, from RFC 3161, 5652, 5035 and 2634: it makes what openssl refuses to.

Certificates come from cryptography's builder, the token is put together here in DER, byte for byte. Keys are made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha1, sha256
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW: Final = datetime(2026, 8, 1, 12, tzinfo=UTC)
DAY: Final = timedelta(days=1)


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 128:
        return bytes([tag, size]) + body
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + size.to_bytes(width, "big") + body


def integer(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    body = bytearray([first * 40 + second])
    for arc in rest:
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(0x80 | arc & 0x7F)
        body += bytes(reversed(digits))
    return der(6, bytes(body))


SHA256_ID: Final = der(0x30, oid("2.16.840.1.101.3.4.2.1"), b"\x05\x00")
SIGNED_DATA, TST_INFO = "1.2.840.113549.1.7.2", "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE, MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
SIGNING_CERTIFICATE, SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.12", "1.2.840.113549.1.9.16.2.47"


@dataclass
class Holder:
    """A key and a certificate for it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def bytes(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)


@dataclass
class Wanted:
    """What a certificate says; as it is, it says what one that signs tokens should."""

    name: str = "Authority"
    ca: bool | None = False
    path_length: int | None = None
    purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.TIME_STAMPING,)
    purposes_critical: bool = True
    digital_signature: bool = True
    key_cert_sign: bool = False
    key_encipherment: bool = False
    key_usage: bool = True
    begins: datetime = NOW - DAY
    ends: datetime = NOW + DAY
    serial: int | None = None
    unknown_critical: bool = False


def authority(name: str, **more: object) -> Wanted:
    """What the certificate of an authority over certificates says."""
    usual = {"ca": True, "purposes": (), "digital_signature": False, "key_cert_sign": True}
    return Wanted(name, **{**usual, **more})  # type: ignore[arg-type]


def issue(wanted: Wanted, issuer: Holder | None = None, key: ec.EllipticCurvePrivateKey | None = None) -> Holder:
    """Make a certificate, self-signed without an issuer."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, wanted.name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(wanted.serial or x509.random_serial_number())
        .not_valid_before(wanted.begins)
        .not_valid_after(wanted.ends)
    )
    if wanted.ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(wanted.ca, wanted.path_length), critical=True)
    if wanted.key_usage:
        usage = x509.KeyUsage(
            digital_signature=wanted.digital_signature,
            content_commitment=False,
            key_encipherment=wanted.key_encipherment,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=wanted.key_cert_sign,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    if wanted.purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(wanted.purposes), critical=wanted.purposes_critical)
    if wanted.unknown_critical:
        extension = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")
        builder = builder.add_extension(extension, critical=True)
    return Holder(builder.sign(key if issuer is None else issuer.key, SHA256()), key)


@dataclass
class Reply:
    """A timestamp response: its parts, so that a test can have one of them wrong."""

    signer: Holder
    carried: tuple[Holder, ...] = ()
    message: bytes = b"text"
    moment: datetime = NOW
    named: Holder | None = None
    named_again: Holder | None = None
    naming: str = "v2"
    signers: int = 1
    kinds: tuple[tuple[str, ...], ...] = ((TST_INFO,),)
    """Values of each attribute that says what is signed."""

    def _names_of_certificate(self) -> list[bytes]:
        old = der(4, sha1((self.named or self.signer).bytes).digest())
        new = der(4, sha256((self.named_again or self.named or self.signer).bytes).digest())
        found = {
            "none": {},
            "v1": {SIGNING_CERTIFICATE: old},
            "v2": {SIGNING_CERTIFICATE_V2: new},
            "spelled": {SIGNING_CERTIFICATE_V2: SHA256_ID + new},
            "md5": {SIGNING_CERTIFICATE_V2: der(0x30, oid("1.2.840.113549.2.5")) + new},
            "both": {SIGNING_CERTIFICATE: old, SIGNING_CERTIFICATE_V2: new},
            "empty": {SIGNING_CERTIFICATE_V2: b""},
        }[self.naming]
        return [der(0x30, oid(name), der(0x31, der(0x30, der(0x30, der(0x30, one))))) for name, one in found.items()]

    def bytes(self) -> bytes:
        content = der(
            0x30,
            integer(1),
            oid("1.2.3.4.1"),
            der(0x30, SHA256_ID, der(4, sha256(self.message).digest())),
            integer(7),
            der(0x18, self.moment.strftime("%Y%m%d%H%M%SZ").encode()),
        )
        attributes = b"".join(
            sorted(
                [
                    *(der(0x30, oid(CONTENT_TYPE), der(0x31, *map(oid, values))) for values in self.kinds),
                    der(0x30, oid(MESSAGE_DIGEST), der(0x31, der(4, sha256(content).digest()))),
                    *self._names_of_certificate(),
                ]
            )
        )
        signature = self.signer.key.sign(der(0x31, attributes), ec.ECDSA(SHA256()))
        certificate = self.signer.certificate
        info = der(
            0x30,
            integer(1),
            der(0x30, certificate.issuer.public_bytes(), integer(certificate.serial_number)),
            SHA256_ID,
            der(0xA0, attributes),
            der(0x30, oid("1.2.840.10045.4.3.2")),
            der(4, signature),
        )
        signed = der(
            0x30,
            integer(3),
            der(0x31, SHA256_ID),
            der(0x30, oid(TST_INFO), der(0xA0, der(4, content))),
            der(0xA0, *sorted(holder.bytes for holder in (self.signer, *self.carried))),
            der(0x31, info * self.signers),
        )
        return der(0x30, der(0x30, integer(0)), der(0x30, oid(SIGNED_DATA), der(0xA0, signed)))
