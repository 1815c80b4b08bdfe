"""Recognizes private keys in what is about to be published, wherever they stand in a stream of any length.

Recognized are the armour of PEM with a key behind it (as it is, with the line breaks that JSON writes, in UTF-16 and
UTF-32), in a short file its first line alone, and an Ed25519 key in plain DER. A key that is encoded in another way,
compressed, or in DER under a passphrase or of another kind looks like any other bytes, and is not recognized.
"""

from __future__ import annotations

import re
from typing import Final

SHORT: Final = 16_384
"""Bytes of the longest file in which the first line of the armour is enough; what is longer may only quote it."""
_OVERLAP: Final = 16_384
"""Bytes that are looked at again with what follows: more than a match can have, in four bytes a character."""

_FIRST_LINE: Final = re.compile(rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*$", re.MULTILINE)
_BREAK: Final = rb"(?:\s|\\{1,4}[rnt])"
_ARMOUR: Final = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----" + _BREAK + rb"{1,64}"
    rb"(?:(?:[A-Za-z0-9+]|\\{0,4}/)" + _BREAK + rb"{0,8}){40}"
)  # fmt: skip
_IN_WORDS: Final = b"PRIVATE KEY-----"
_DER: Final = re.compile(rb"\x02\x01[\x00\x01]\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20.{32}", re.DOTALL)
"""PKCS#8 (RFC 8410): version, the algorithm Ed25519, and 32 bytes in two octet strings."""


class KeyWatch:
    """Is shown a stream block by block."""

    def __init__(self) -> None:
        self._start = b""
        self._tail = b""
        self._found = False

    def see(self, block: bytes) -> None:
        """Look at the next block."""
        self._start += block[: max(SHORT + 1 - len(self._start), 0)]
        window = self._tail + block
        self._found = self._found or _has_key(window)
        self._tail = window[-_OVERLAP:]

    @property
    def found(self) -> bool:
        """Whether there was a private key in all that was seen."""
        return self._found or (len(self._start) <= SHORT and _FIRST_LINE.search(self._start) is not None)


def _has_key(window: bytes) -> bool:
    if _DER.search(window):
        return True
    narrow = window.replace(b"\0", b"")  # what UTF-16 and UTF-32 put between the characters of a key
    return _IN_WORDS in narrow and _ARMOUR.search(narrow) is not None
