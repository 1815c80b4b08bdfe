"""Knowing bytes again that were read before, for as long as one process and its helpers live.

A tag is a one-time key that nobody else ever sees, and the Poly1305 of the bytes under it (RFC 8439, section 2.5). Who
changes a file between two readings knows neither: other bytes of 64 KB pass with a probability below 2^-90, whichever
they are. That takes a sixth of the time of SHA-256 where the bytes are hashed for nothing else. A tag proves nothing
to anybody else, so none is ever written down: what is signed or kept is a SHA-256.
"""

from __future__ import annotations

import os
from hmac import compare_digest
from typing import Final

from cryptography.hazmat.primitives.poly1305 import Poly1305

_KEY_BYTES: Final = 32


def tag(data: bytes) -> bytes:
    """A new key and what is to be known again under it, 48 bytes."""
    key = os.urandom(_KEY_BYTES)
    return key + Poly1305.generate_tag(key, data)


def is_tagged(data: bytes, tagged: bytes) -> bool:
    """Whether these are the bytes that were tagged."""
    return compare_digest(Poly1305.generate_tag(tagged[:_KEY_BYTES], data), tagged[_KEY_BYTES:])
