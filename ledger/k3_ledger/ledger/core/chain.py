"""The hashes and the message that tie entries together. Four one-line definitions, each written once.

An entry's identity is over its entry bytes and never depends on signature bytes, so a second valid signature (another
key's, or a malleated one) makes no second entry. The leaf hash is over the whole line, so a checkpoint commits to the
signatures as well.
"""

from __future__ import annotations

import hashlib
from typing import Final

SIGN_PREFIX: Final = b"k3-ledger/entry/v1\n"
"""First bytes of every signed message: no signature that was made for something else can pass for an entry's."""
LEAF_PREFIX: Final = b"\0"
"""RFC 6962 section 2.1: tells leaves from inner nodes, whose prefix is another."""


def entry_identity(entry: bytes) -> bytes:
    """Identity of an entry: SHA-256 of its entry bytes. The next entry's ``prev`` is this in lower-case hex."""
    return hashlib.sha256(entry).digest()


def genesis_prev(origin: str) -> bytes:
    """What stands in for the identity of the entry before the first: SHA-256 of the origin line, LF included."""
    return hashlib.sha256(origin.encode() + b"\n").digest()


def leaf_hash(line: bytes) -> bytes:
    """RFC 6962 leaf hash of a whole line, its LF not included."""
    return hashlib.sha256(LEAF_PREFIX + line).digest()


def signed_message(entry: bytes) -> bytes:
    """The message that the signature of a line is over."""
    return SIGN_PREFIX + entry
