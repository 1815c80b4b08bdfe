"""The one rule by which Ed25519 signatures are accepted, and why one was not.

Verifiers of Ed25519 disagree on edge cases: of the 914 vectors of the Community Cryptography Test Vectors, this rule
accepts 43, OpenSSL 208 and ZIP 215 nearly all. A ledger whose verdict depends on the verifier is worth nothing, so the
rule is fixed here and in ``docs/format.md``. A signature ``R || S`` by key ``A`` over message ``M`` is accepted if and
only if

1. the key is 32 bytes and the signature 64;
2. ``S < L``, the order of the prime-order group;
3. ``A`` is canonically encoded, on the curve, and not one of the eight points of low order;
4. ``R`` is not one of the eight points of low order;
5. ``encode(S·B - k·A) == R`` byte for byte, with ``k = SHA-512(R || A || M) mod L``: no multiplication by the cofactor,
   and therefore no room for a non-canonical ``R``.

libsodium checks all five (its ``ED25519_COMPAT`` build does not, nor would a cofactored one:
:func:`check_implementation` tells them apart). There is no batch verification: its verdict is random on inputs with a
torsion component.

A key with a torsion component passes 3, so a holder of such a key could still make signatures on which other verifiers
differ. :func:`check_public_key` refuses it, once, when the key is enrolled.
"""

from __future__ import annotations

from typing import Final

import nacl.bindings
import nacl.exceptions

from k3_ledger.schemas.errors import SignatureError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

PUBLIC_KEY_LEN: Final = 32
"""Bytes of a raw public key."""
SIGNATURE_LEN: Final = 64
"""Bytes of a raw signature."""

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_Y8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
"""The y coordinate of four of the points of order 8; the other four have its negative."""
_LOW_ORDER_Y: Final = frozenset((0, 1, _P - 1, _Y8, _P - _Y8))


def check_signature(public_key: bytes, message: bytes, signature: bytes, *, position: Position = NOWHERE) -> None:
    """Accept one signature by the rule of this module, or say why not.

    Args:
        public_key: raw Ed25519 public key. It should have passed :func:`check_public_key` when it was enrolled.
        message: what was signed.
        signature: raw signature.
        position: what the signature belongs to; used in errors only.

    Raises:
        SignatureError: with ``SIGNATURE_LENGTH``, ``SIGNATURE_S_RANGE``, ``SIGNATURE_R_ENCODING``,
            ``SIGNATURE_R_LOW_ORDER``, ``SIGNATURE_MISMATCH`` or, where the key is at fault, the code that
            :func:`check_public_key` gives it.
    """
    # pynacl hands the key's address to C without looking at its length.
    if len(public_key) != PUBLIC_KEY_LEN or len(signature) != SIGNATURE_LEN:
        raise _explain(public_key, signature, position)
    try:
        nacl.bindings.crypto_sign_open(signature + message, public_key)
    except nacl.exceptions.BadSignatureError:
        raise _explain(public_key, signature, position) from None


def check_public_key(raw: bytes, *, position: Position = NOWHERE) -> None:
    """Accept a public key for enrolment: a canonical point of the prime-order subgroup, not the identity.

    Raises:
        SignatureError: with ``PUBLIC_KEY_LENGTH``, ``PUBLIC_KEY_ENCODING``, ``PUBLIC_KEY_LOW_ORDER`` or
            ``PUBLIC_KEY_MIXED_ORDER``.
    """
    fault = _key_fault(raw)
    if fault is None and not nacl.bindings.crypto_core_ed25519_is_valid_point(raw):
        fault = Code.PUBLIC_KEY_MIXED_ORDER, "the public key has a torsion component"
    if fault is not None:
        raise SignatureError(*fault, position=position, found=raw.hex())


def check_implementation() -> None:
    """Hold the installed libsodium against the points of the rule in which implementations differ.

    Costs a few hundred microseconds. A verifier calls it once before its first verdict, for a library that was built
    with other rules would silently give another verdict on the same bytes.

    Raises:
        RuntimeError: the installed library follows another rule.
    """
    for name, public_key, signature, accepted in _KNOWN_ANSWERS:
        try:
            nacl.bindings.crypto_sign_open(signature + _KNOWN_MESSAGE, public_key)
        except nacl.exceptions.BadSignatureError:
            verdict = False
        else:
            verdict = True
        if verdict != accepted:
            raise RuntimeError(f"the installed libsodium follows another Ed25519 rule: it differs on {name}")


# -------------------------------------------------------------------------------------------- why it was refused


def _key_fault(raw: bytes) -> tuple[Code, str] | None:
    if len(raw) != PUBLIC_KEY_LEN:
        return Code.PUBLIC_KEY_LENGTH, f"the public key is {len(raw)} bytes, not {PUBLIC_KEY_LEN}"
    if _is_low_order(raw):
        return Code.PUBLIC_KEY_LOW_ORDER, "the public key is a point of low order"
    if not _is_canonical_point(raw):
        return Code.PUBLIC_KEY_ENCODING, "the public key is not the canonical encoding of a point"
    return None


def _explain(public_key: bytes, signature: bytes, position: Position) -> SignatureError:
    """The error for a refused signature: the first rule that it breaks."""
    found: str | None = signature.hex()
    fault = _key_fault(public_key)
    if fault is not None:
        found = public_key.hex()
    elif len(signature) != SIGNATURE_LEN:
        fault = Code.SIGNATURE_LENGTH, f"the signature is {len(signature)} bytes, not {SIGNATURE_LEN}"
    elif int.from_bytes(signature[32:], "little") >= _L:
        fault = Code.SIGNATURE_S_RANGE, "S is not below the group order"
    elif _is_low_order(signature[:32]):
        fault = Code.SIGNATURE_R_LOW_ORDER, "R is a point of low order"
    elif not _is_canonical_point(signature[:32]):
        fault = Code.SIGNATURE_R_ENCODING, "R is not the canonical encoding of a point"
    else:
        fault, found = (Code.SIGNATURE_MISMATCH, "the signature does not belong to this message and key"), None
    return SignatureError(*fault, position=position, found=found)


def _is_low_order(encoded: bytes) -> bool:
    """Whether 32 bytes encode, canonically or not, a point whose order divides 8 (RFC 8032 section 5.1.3)."""
    return (int.from_bytes(encoded, "little") & (2**255 - 1)) % _P in _LOW_ORDER_Y


def _is_canonical_point(encoded: bytes) -> bool:
    """Whether 32 bytes are what RFC 8032 section 5.1.2 writes for some point that is not of low order."""
    y = int.from_bytes(encoded, "little") & (2**255 - 1)
    if y >= _P:
        return False
    # x² = (y² - 1) / (d·y² + 1); it has a root if and only if numerator times denominator has one.
    square = (y * y - 1) * (_D * y * y + 1) % _P
    return pow(square, (_P - 1) // 2, _P) == 1


_KNOWN_MESSAGE: Final = b"k3-ledger ed25519 rule"
_KNOWN_ANSWERS: Final = (
    (
        "an honest signature",
        bytes.fromhex("d0e307d2ee4c15d4304ceadddc2657e8bba085493b0e7f2b720217bf10606dbd"),
        bytes.fromhex(
            "b9d9017862d8ae710586b4df934bea70a7abd34b8dee41843e24cccce28d35b3"  # R
            "16107569d8dd0e03993fd2bfd51e8430168a37700b57d4d23575a86a217b9601"  # S
        ),
        True,
    ),
    (
        "S + L",
        bytes.fromhex("d0e307d2ee4c15d4304ceadddc2657e8bba085493b0e7f2b720217bf10606dbd"),
        bytes.fromhex(
            "b9d9017862d8ae710586b4df934bea70a7abd34b8dee41843e24cccce28d35b3"  # R
            "03e46ac6f240215b6fdcc962b4186345168a37700b57d4d23575a86a217b9611"  # S
        ),
        False,
    ),
    (
        "a torsion component in R",
        bytes.fromhex("d0e307d2ee4c15d4304ceadddc2657e8bba085493b0e7f2b720217bf10606dbd"),
        bytes.fromhex(
            "446e31d5dd9876a16532b82591243540b818e6620f0dbe97c243a098a20f4738"  # R
            "a3e607f335ecfb474bb45713aaa83260a72bf2e1ed6a63eaa2804005bbfca40f"  # S
        ),
        False,
    ),
    (
        "R of low order",
        bytes.fromhex("d0e307d2ee4c15d4304ceadddc2657e8bba085493b0e7f2b720217bf10606dbd"),
        bytes.fromhex(
            "0100000000000000000000000000000000000000000000000000000000000000"  # R
            "3188232f4657789cd02a4f69ee704a520ef16fa82428b03dfa67f26987303a00"  # S
        ),
        False,
    ),
    (
        "a public key of low order",
        bytes.fromhex("0100000000000000000000000000000000000000000000000000000000000000"),
        bytes.fromhex(
            "b9d9017862d8ae710586b4df934bea70a7abd34b8dee41843e24cccce28d35b3"  # R
            "07fa984aaf7263d3aedebc909caeb831ec8435f2e6dc5cf675a95a8d5c14b802"  # S
        ),
        False,
    ),
    (
        "a non-canonical public key",
        bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        bytes.fromhex(
            "b9d9017862d8ae710586b4df934bea70a7abd34b8dee41843e24cccce28d35b3"  # R
            "07fa984aaf7263d3aedebc909caeb831ec8435f2e6dc5cf675a95a8d5c14b802"  # S
        ),
        False,
    ),
)
"""Name, public key, signature of ``_KNOWN_MESSAGE``, and whether the rule accepts it. Every refused row is accepted by
some rule in use. tests/reference/ed25519_known_answers.py makes this table."""
