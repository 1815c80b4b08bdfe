"""Makes the table of :func:`k3_ledger.ledger.core.ed25519.check_implementation`.

Each row is a signature that some rule in use accepts; the secret scalar is a hash of a public sentence.
"""

from __future__ import annotations

import hashlib

from tests.reference.naive_ed25519 import IDENTITY, B, L, Point, add, challenge, encode, multiply, torsion_point

MESSAGE = b"k3-ledger ed25519 rule"
SECRET = int.from_bytes(hashlib.sha512(b"not a secret").digest(), "little") % L
NONCE = int.from_bytes(hashlib.sha512(b"not a nonce").digest(), "little") % L


def _sign(
    key: Point, nonce_point: Point, *, secret: int = SECRET, nonce: int = NONCE, encoded_key: bytes = b""
) -> bytes:
    public_key, r = encoded_key or encode(key), encode(nonce_point)
    s = (nonce + challenge(r, public_key, MESSAGE) * secret) % L
    return public_key + r + s.to_bytes(32, "little")


def rows() -> list[tuple[str, bytes, bytes, bool]]:
    """Name, public key, signature, and whether the rule accepts it."""
    key, nonce_point, torsion = multiply(SECRET, B), multiply(NONCE, B), torsion_point()
    good = _sign(key, nonce_point)
    stretched = int.from_bytes(good[64:], "little") + L
    made = [
        ("an honest signature", good, True),
        ("S + L", good[:64] + stretched.to_bytes(32, "little"), False),
        ("a torsion component in R", _sign(key, add(nonce_point, torsion)), False),
        ("R of low order", _sign(key, IDENTITY, nonce=0), False),
        ("a public key of low order", _sign(IDENTITY, nonce_point, secret=0), False),
        (
            "a non-canonical public key",
            _sign(IDENTITY, nonce_point, secret=0, encoded_key=(2**255 - 18).to_bytes(32, "little")),
            False,
        ),
    ]
    return [(name, data[:32], data[32:], accepted) for name, data, accepted in made]


if __name__ == "__main__":
    for name, public_key, signature, accepted in rows():
        print(name, public_key.hex(), signature.hex(), accepted)  # noqa: T201 (that is its purpose)
