"""What tests of the witness share: logs made of leaf hashes alone, written from the C2SP pages, and a clock to set."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.note import parse_verifier_key
from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
from k3_ledger.ledger.witness.cosign import CosigningWitness
from k3_ledger.ledger.witness.state import WitnessState
from k3_ledger.ledger.writer.keys import Signer
from tests.reference import naive_merkle
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.ledger.writer.disk import Disk

ORIGIN = "example.org/log"
NAME = "witness.example/w1"
LOG = NoteKey(ORIGIN, "log")
STRANGER = NoteKey(ORIGIN, "stranger")
WITNESS = NoteKey(NAME, "witness", COSIGNER_TYPE)
SIGNER = Signer(hashlib.sha256(b"witness").digest())
NOW = 1_767_225_600
"""2026-01-01T00:00:00Z."""


@dataclass(frozen=True)
class Branch:
    """One history of the log: branches of different names have the first ``shared`` leaves in common."""

    name: str = "a"
    shared: int = 3
    key: NoteKey = LOG
    origin: str = ORIGIN

    def leaves(self, size: int) -> list[bytes]:
        return [
            naive_merkle.leaf(f"{'' if index < self.shared else self.name}{index}".encode()) for index in range(size)
        ]

    def root(self, size: int) -> bytes:
        return naive_merkle.root(self.leaves(size))

    def text(self, size: int, *extensions: str) -> str:
        root = base64.b64encode(self.root(size)).decode()
        return "\n".join((self.origin, str(size), root, *extensions, ""))

    def note(self, size: int, *extensions: str) -> bytes:
        text = self.text(size, *extensions)
        return f"{text}\n{self.key.line(text)}".encode()

    def proof(self, old: int, new: int) -> tuple[bytes, ...]:
        return tuple(naive_merkle.consistency(old, self.leaves(new))) if 0 < old <= new else ()

    def request(self, old: int, new: int) -> AddCheckpoint:
        return AddCheckpoint(old, self.proof(old, new), self.note(new))


A, B = Branch("a"), Branch("b")


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now: int = NOW
    asked: int = field(default=0)

    def __call__(self) -> int:
        self.asked += 1
        return self.now


def new_witness(root: Path, clock: Clock | None = None, *, disk: Disk | None = None) -> CosigningWitness:
    """A witness that knows the log and has cosigned nothing."""
    state = WitnessState.create(root, NAME, SIGNER.public_key)
    state.add_log(ORIGIN, [parse_verifier_key(LOG.verifier_key)])
    return CosigningWitness(WitnessState.open(root, disk=disk), SIGNER, clock=clock or Clock())
