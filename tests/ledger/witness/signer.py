"""A witness that cosigns until it is killed, for tests that kill it.

Reads lines ``STATE DELAY SEED`` from stdin. For each it forks a child that submits, to a witness on that state, heads
of two histories that contradict one another, in random order, with the right old size and proof; for every cosignature
that was given out the child writes ``BRANCH SIZE TIME`` to a pipe. After DELAY microseconds the child is killed with
SIGKILL, and what it had given out is printed, then ``dead``.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from k3_ledger.ledger.witness.cosign import CosigningWitness
from k3_ledger.ledger.witness.state import WitnessState
from k3_ledger.schemas.errors import LedgerError
from tests.ledger.witness.support import ORIGIN, SIGNER, A, B


def cosign_for_ever(root: Path, out: int, seed: int) -> None:
    """Ask for heads of both histories, and tell every cosignature that was given out."""
    chance = random.Random(seed)
    witness = CosigningWitness(WitnessState.open(root), SIGNER)
    while True:
        old = witness.state.log(ORIGIN).head.size
        branch = chance.choice((A, B))
        size = max(4, old + chance.choice((0, 0, 1, 2)))
        try:
            given = witness.add_checkpoint(branch.request(old, size))
        except LedgerError:
            continue
        seconds = int.from_bytes(given.signature[:8], "big")
        os.write(out, f"{branch.name} {size} {seconds}\n".encode())


def main() -> None:
    """Serve lines from stdin until it ends."""
    for line in sys.stdin:
        root, delay, seed = line.split()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                cosign_for_ever(Path(root), writing, int(seed))
            finally:
                os._exit(1)
        os.close(writing)
        time.sleep(int(delay) / 1e6)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            given = pipe.read().decode()
        last = "dead" if os.WIFSIGNALED(status) else f"ended by itself with status {status}"
        sys.stdout.write(f"{given}{last}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
