"""Makes attestation tokens of the form that NVIDIA's service gives, under keys of our own."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from docs.examples.made_up_intel import AT, NOW, key

SERVICE = key(31, ec.SECP384R1())


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(claims: dict[str, Any], signer: ec.EllipticCurvePrivateKey = SERVICE, **header: Any) -> str:
    head = b64url(json.dumps({"alg": "ES384", "kid": "made-up-1", "typ": "JWT", **header}).encode())
    body = b64url(json.dumps(claims).encode())
    numbers = decode_dss_signature(signer.sign(f"{head}.{body}".encode(), ec.ECDSA(SHA384())))
    return f"{head}.{body}.{b64url(b''.join(number.to_bytes(48, 'big') for number in numbers))}"


def claims(digest: bytes, **changes: Any) -> dict[str, Any]:
    return {"iat": AT - 60, "nbf": AT - 60, "exp": AT + 3540, "eat_nonce": digest.hex(), **changes}


DEVICE = {
    "measres": "success",
    "secboot": True,
    "dbgstat": "disabled",
    "x-nvidia-gpu-arch-check": True,
    "x-nvidia-gpu-attestation-report-cert-chain": {
        "x-nvidia-cert-status": "valid",
        "x-nvidia-cert-ocsp-status": "good",
        "x-nvidia-cert-revocation-reason": None,
    },
    "x-nvidia-gpu-attestation-report-nonce-match": True,
    "x-nvidia-gpu-driver-version": "1.2.3",
    "x-nvidia-mismatch-measurement-records": None,
}
"""What a device's token says where all is well; the names are the service's."""


def answer(
    digest: bytes,
    *,
    overall: dict[str, Any] | None = None,
    device: dict[str, Any] | None = None,
    names: tuple[str, ...] = ("GPU-0", "GPU-1"),
    **how: Any,
) -> list[Any]:
    given = {**DEVICE, **(device or {})}
    devices = {name: token(claims(digest, **given), **how) for name in names}
    submods = {
        name: ["DIGEST", ["SHA-256", hashlib.sha256(text.encode()).hexdigest()]] for name, text in devices.items()
    }
    top = {"x-nvidia-overall-att-result": True, "submods": submods, **(overall or {})}
    return [["JWT", token(claims(digest, **top))], devices]


def key_set(*, certificate: bool = False, **changes: Any) -> bytes:
    public = SERVICE.public_key()
    if certificate:
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Made-up attestation service")])
        made = x509.CertificateBuilder(named, named, public, 7, NOW, NOW.replace(year=2030)).sign(SERVICE, SHA384())
        entry = {"kty": "EC", "kid": "made-up-1", "x5c": [base64.b64encode(made.public_bytes(Encoding.DER)).decode()]}
    else:
        raw = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]
        entry = {"kty": "EC", "crv": "P-384", "kid": "made-up-1", "x": b64url(raw[:48]), "y": b64url(raw[48:])}
    return json.dumps({"keys": [{"kty": "RSA", "kid": "other"}, entry | changes]}).encode()
