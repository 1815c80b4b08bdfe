"""Base64 (RFC 4648 section 4) with one spelling for each value.

Lenient decoders skip stray characters and ignore the unused bits of the last one, so up to 16 spellings pass for the
same 64 bytes. Here a spelling is decoded, encoded again and compared.
"""

from __future__ import annotations

import binascii


def encode(data: bytes) -> bytes:
    """The one spelling of ``data``."""
    return binascii.b2a_base64(data, newline=False)


def decode(spelling: bytes) -> bytes:
    """The bytes that ``spelling`` is the one spelling of.

    Raises:
        ValueError: it is not the spelling of anything.
    """
    data = binascii.a2b_base64(spelling)
    if binascii.b2a_base64(data, newline=False) != spelling:
        raise ValueError("not strict base64")
    return data
