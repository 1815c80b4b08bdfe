"""Ed25519 from RFC 8032 section 5.1, in integers: slow, readable, nothing shared with libsodium.

``accepts`` is the project's rule (docs/format.md, "Signatures") written a second time.
"""

from __future__ import annotations

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)

Point = tuple[int, int, int, int]
"""Extended homogeneous coordinates of section 5.1.4: x = X/Z, y = Y/Z, x*y = T/Z."""
IDENTITY: Point = (0, 1, 1, 0)


def add(a: Point, b: Point) -> Point:
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    c = 2 * a[3] * b[3] * D % P
    d = 2 * a[2] * b[2] % P
    return (f - e) * (d - c) % P, (d + c) * (f + e) % P, (d - c) * (d + c) % P, (f - e) * (f + e) % P


def negate(a: Point) -> Point:
    return -a[0] % P, a[1], a[2], -a[3] % P


def multiply(scalar: int, a: Point) -> Point:
    total = IDENTITY
    while scalar:
        if scalar & 1:
            total = add(total, a)
        a = add(a, a)
        scalar >>= 1
    return total


def is_identity(a: Point) -> bool:
    return a[0] == 0 and a[1] == a[2]


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
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P


def encode(a: Point) -> bytes:
    inverse = pow(a[2], -1, P)
    x, y = a[0] * inverse % P, a[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def base_point() -> Point:
    found = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert found is not None
    return found


B = base_point()


def torsion_point() -> Point:
    """A point of order 8: some point times L."""
    y = 2
    while True:
        y += 1
        candidate = decode(y.to_bytes(32, "little"))
        if candidate is not None and not is_identity(multiply(4 * L, candidate)):
            return multiply(L, candidate)


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
    if is_identity(multiply(8, key)) or is_identity(multiply(8, nonce)):
        return False
    return encode(add(multiply(s, B), negate(multiply(challenge(r, public_key, message), key)))) == r
