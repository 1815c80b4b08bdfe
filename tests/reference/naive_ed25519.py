"""Ed25519 from RFC 8032 section 5.1, in integers and affine coordinates: slow, readable, nothing shared with libsodium.

``accepts`` is the project's rule (docs/format.md, "Signatures") written a second time.
"""

from __future__ import annotations

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)

Point = tuple[int, int]
IDENTITY: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P


def negate(a: Point) -> Point:
    return -a[0] % P, a[1]


def multiply(scalar: int, a: Point) -> Point:
    total = IDENTITY
    while scalar:
        if scalar & 1:
            total = add(total, a)
        a = add(a, a)
        scalar >>= 1
    return total


def decode(encoded: bytes) -> Point | None:
    """Section 5.1.3, which admits no non-canonical encoding."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * SQRT_MINUS_1 % P
    if x * x % P != square or (x == 0 and sign):
        return None
    return (x if x & 1 == sign else -x % P), y


def encode(a: Point) -> bytes:
    return (a[1] | (a[0] & 1) << 255).to_bytes(32, "little")


def base_point() -> Point:
    found = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert found is not None
    return found


B = base_point()


def torsion_point() -> Point:
    """A point of order 8: any point times L whose order is not smaller."""
    y = 2
    while True:
        y += 1
        candidate = decode(y.to_bytes(32, "little"))
        if candidate is not None:
            small = multiply(L, candidate)
            if multiply(4, small) != IDENTITY:
                return small


def challenge(r: bytes, public_key: bytes, message: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + public_key + message).digest(), "little") % L


def accepts(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """The strict, cofactorless rule."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    key, nonce = decode(public_key), decode(r)
    if s >= L or key is None or nonce is None:
        return False
    if IDENTITY in (multiply(8, key), multiply(8, nonce)):
        return False
    return encode(add(multiply(s, B), negate(multiply(challenge(r, public_key, message), key)))) == r
