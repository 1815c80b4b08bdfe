"""Small ledgers for tests of the core: framed and signed lines whose entries are canonical JSON and nothing more."""

from __future__ import annotations

import hashlib

import nacl.bindings

from k3_ledger.ledger.core.chain import signed_message
from k3_ledger.ledger.core.framing import format_line
from k3_ledger.ledger.core.note import KeyType, cosigned_message, key_hash
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError


class TestKey:
    """A key pair made from a word. Whoever reads the word has the key: for tests only."""

    __test__ = False

    def __init__(
        self, word: str, *, name: str | None = None, key_type: KeyType = KeyType.ED25519, time: int = 0
    ) -> None:
        seed = hashlib.sha256(word.encode()).digest()
        self.public_key, self._secret = nacl.bindings.crypto_sign_seed_keypair(seed)
        self.name = name or f"example.com/{word}"
        self.key_type = key_type
        self.time = time
        self.key_hash = key_hash(self.name, self.public_key, key_type)

    def sign(self, message: bytes) -> bytes:
        """Plain signature, or a timestamped one for a cosigner."""
        if self.key_type is KeyType.COSIGNATURE:
            return self.time.to_bytes(8, "big") + self.raw(cosigned_message(self.time, message.decode()))
        return self.raw(message)

    def raw(self, message: bytes) -> bytes:
        return nacl.bindings.crypto_sign(message, self._secret)[:64]


KEY = TestKey("runner")


def entry(index: int, *, size: int = 0) -> bytes:
    return canonical.format({"body": {"text": "é" * size, "why": 'a"b\\c'}, "index": index, "kind": "note"})


def line(index: int, *, size: int = 0) -> bytes:
    made = entry(index, size=size)
    return format_line(made, KEY.sign(signed_message(made)))


def ledger(lines: int, *, size: int = 0) -> bytes:
    return b"".join(line(index, size=size) + b"\n" for index in range(lines))


def refusal(call, *args, **kwargs):
    """The error that a call raises; ``None`` when it raises none. Anything but a LedgerError escapes."""
    try:
        call(*args, **kwargs)
    except LedgerError as error:
        return error
    return None


def code_of(call, *args, **kwargs):
    """Name of the code that a call is refused with, or ``None``."""
    error = refusal(call, *args, **kwargs)
    return None if error is None else error.code.name
