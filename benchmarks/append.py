"""Appending against its floors: bare writes with a signature and a sync, and a bare signing loop.

    python benchmarks/append.py [--appends 200] [--group 2000] [--bytes 1500] [--rounds 9] [--bundle FOLDER]

``append`` alternates ``writer.append`` of run receipts, each durable before it returns, with the floor: for lines of
the same length one libsodium signature, one write and one fdatasync. ``group`` alternates ``writer.append_many`` of
``--group`` receipts (one write, one fdatasync) with the floor: one libsodium signature for each message, no file at
all. Bodies go in as Python values: checking, formatting, hashing and chaining them is part of what is measured.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import nacl.bindings
from common import Recorder, finish, parser
from verify import run_body

from k3_ledger.ledger.writer.append import Draft, Writer
from k3_ledger.ledger.writer.keys import PublicKey, Signer
from k3_ledger.ledger.writer.store import Ledger, NewKey

ROOT, RUNNER = (Signer(hashlib.sha256(name).digest()) for name in (b"root", b"runner"))
SECRET = nacl.bindings.crypto_sign_seed_keypair(hashlib.sha256(b"floor").digest())[1]


def new_ledger(path: Path) -> Ledger:
    """A ledger that takes receipts."""
    key = NewKey("runner", "runner", PublicKey(RUNNER.public_key))
    return Ledger.create(path, origin="example.org/benchmark", root=ROOT, keys=[key])


class Bodies:
    """Run bodies that differ from one another."""

    def __init__(self, size: int) -> None:
        self._template = run_body(size)
        self._count = 0

    def next(self, number: int) -> list[dict[str, object]]:
        """``number`` new ones."""
        first, self._count = self._count, self._count + number
        return [{**self._template, "bundle": f"{i:064x}"} for i in range(first, first + number)]


def append_each(writer: Writer, bodies: list[dict[str, object]]) -> None:
    """One durable append a body."""
    for body in bodies:
        writer.append("run", body)


def bare_append(fd: int, messages: list[bytes], secret: bytes) -> None:
    """What no appender can do without: a signature, a write, a sync; a line each."""
    for message in messages:
        nacl.bindings.crypto_sign(message, secret)
        os.write(fd, message)
        os.fdatasync(fd)


def bare_signing(messages: list[bytes], secret: bytes) -> None:
    """A signature for each message."""
    for message in messages:
        nacl.bindings.crypto_sign(message, secret)


def main() -> None:
    """Measure, print, and leave a bundle when asked to."""
    arguments = parser(__doc__)
    arguments.set_defaults(rounds=9)
    arguments.add_argument("--appends", type=int, default=200, help="durable appends in one repetition")
    arguments.add_argument("--group", type=int, default=2000, help="entries in one group commit")
    arguments.add_argument("--bytes", type=int, default=1500, help="aimed-at bytes of a line")
    options = arguments.parse_args()
    single, group = Recorder("append", "entry"), Recorder("group", "entry")
    bodies = Bodies(options.bytes)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        ledger = new_ledger(Path(folder) / "ledger")
        fd = os.open(Path(folder) / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with ledger.writer(RUNNER) as writer:
            first = writer.append("run", bodies.next(1)[0])
            length = ledger.log_path.stat().st_size - first.byte_offset
            print(f"{length} bytes a line")
            for _ in range(options.rounds + single.warmup):
                messages = [os.urandom(length) for _ in range(options.appends)]
                single.record("floor", options.appends, lambda m=messages: bare_append(fd, m, SECRET))
                fresh = bodies.next(options.appends)
                single.record("subject", options.appends, lambda b=fresh: append_each(writer, b))
            for _ in range(options.rounds + group.warmup):
                messages = [os.urandom(length) for _ in range(options.group)]
                group.record("floor", options.group, lambda m=messages: bare_signing(m, SECRET))
                drafts = [Draft("run", body) for body in bodies.next(options.group)]
                group.record("subject", options.group, lambda d=drafts: writer.append_many(d))
        os.close(fd)
    finish([single, group], "k3-ledger-append", options)


if __name__ == "__main__":
    main()
