"""Signed notes, checkpoints and cosignatures, written from the C2SP pages alone and importing no room of the product.

Signatures are those of the ``cryptography`` package: another implementation than the product's too. Slow, short, and
only as strict as the pages say.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LOG_TYPE, COSIGNER_TYPE = 1, 4


@dataclass(frozen=True)
class NoteKey:
    """A key pair made from a word; whoever reads the word has it."""

    name: str
    word: str
    kind: int = LOG_TYPE

    @property
    def private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(self.word.encode()).digest())

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def hash(self) -> bytes:
        return key_hash(self.name, self.kind, self.public)

    @property
    def verifier_key(self) -> str:
        return f"{self.name}+{self.hash.hex()}+{base64.b64encode(bytes([self.kind]) + self.public).decode()}"

    @property
    def signer_key(self) -> str:
        """The private key as golang.org/x/mod/sumdb/note writes it."""
        seed = self.private.private_bytes_raw()
        return f"PRIVATE+KEY+{self.name}+{self.hash.hex()}+{base64.b64encode(bytes([self.kind]) + seed).decode()}"

    def line(self, text: str, time: int = 0) -> str:
        """A signature line; ``time`` is that of a cosigner."""
        if self.kind == LOG_TYPE:
            blob = self.private.sign(text.encode())
        else:
            blob = time.to_bytes(8, "big") + self.private.sign(f"cosignature/v1\ntime {time}\n{text}".encode())
        return f"\u2014 {self.name} {base64.b64encode(self.hash + blob).decode()}\n"


def key_hash(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def cosign(note: bytes, key: NoteKey, time: int) -> bytes:
    """The note with one more line."""
    text = note.decode().rpartition("\n\n")[0] + "\n"
    return note + key.line(text, time).encode()


def open_note(note: bytes, *verifier_keys: str) -> tuple[str, list[tuple[str, int | None]]]:
    """The text, and (name, time) of every line by a known key; a bad one raises ``InvalidSignature``."""
    known = {}
    for written in verifier_keys:
        name, hexhash, material = written.split("+", 2)
        raw = base64.b64decode(material, validate=True)
        assert key_hash(name, raw[0], raw[1:]).hex() == hexhash
        known[name, hexhash] = raw
    text, _, lines = note.decode().rpartition("\n\n")
    text += "\n"
    found: list[tuple[str, int | None]] = []
    for line in lines.splitlines():
        dash, name, spelled = line.split(" ")
        assert dash == "\u2014"
        blob = base64.b64decode(spelled, validate=True)
        raw = known.get((name, blob[:4].hex()), b"")
        if not raw:
            continue
        time, message, signature = None, text, blob[4:]
        if raw[0] == COSIGNER_TYPE:
            time = int.from_bytes(blob[4:12], "big")
            message, signature = f"cosignature/v1\ntime {time}\n{text}", blob[12:]
        Ed25519PublicKey.from_public_bytes(raw[1:]).verify(signature, message.encode())
        found.append((name, time))
    return text, found


def read_checkpoint(text: str) -> tuple[str, int, bytes]:
    """Origin, size and root."""
    origin, size, root = text.split("\n")[:3]
    return origin, int(size), base64.b64decode(root, validate=True)
