"""A program that appends until it is killed, for tests that kill it.

``python -m tests.ledger.writer.appender kill`` reads lines ``LEDGER MODE DELAY SEED`` from stdin. For each it forks a
child that appends to the ledger and writes ``INDEX IDENTITY`` to a pipe for every entry that was acknowledged; after
DELAY microseconds it kills the child with SIGKILL and prints what the child had acknowledged, then ``dead``.

``… count LEDGER ROLE NAME N`` appends N notes, one by one, and ends.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.store import Ledger
from tests.ledger.writer.support import SIGNERS, note


def append_for_ever(ledger: Ledger, out: int, mode: str, seed: int) -> None:
    """Append notes of many lengths, alone or in groups, and acknowledge each."""
    chance = random.Random(seed)
    count = 0
    with ledger.writer(SIGNERS["judge"]) as writer:
        while True:
            group = 1 if mode == "single" else chance.randrange(2, 30)
            size = chance.choice((10, 300, 5_000, 30_000))
            drafts = [Draft("note", note(f"{seed} {count + i} " + "x" * size)) for i in range(group)]
            receipts = writer.append_many(drafts)
            os.write(out, b"".join(f"{receipt.index} {receipt.identity}\n".encode() for receipt in receipts))
            count += group


def kill_on_demand() -> None:
    """Serve lines from stdin until it ends."""
    for line in sys.stdin:
        path, mode, delay, seed = line.split()
        ledger = Ledger.open(Path(path))
        with ledger.writer(SIGNERS["judge"]) as writer:
            writer.rehearse([Draft("note", note("what is imported now need not be imported by every child"))])
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                append_for_ever(ledger, writing, mode, int(seed))
            finally:
                os._exit(1)
        os.close(writing)
        time.sleep(int(delay) / 1e6)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            acknowledged = pipe.read().decode()
        last = "dead" if os.WIFSIGNALED(status) else f"ended by itself with status {status}"
        sys.stdout.write(f"{acknowledged}{last}\n")
        sys.stdout.flush()


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "kill":
        kill_on_demand()
        return
    path, role, name, number = rest
    ledger = Ledger.open(Path(path))
    with ledger.writer(SIGNERS[role], lock_timeout_s=120) as writer:
        for turn in range(int(number)):
            writer.append("note", note(f"{name} {turn}"))


if __name__ == "__main__":
    main()
