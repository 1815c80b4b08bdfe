"""Killed at random moments, a witness never signs anything that contradicts what it signed before."""

from __future__ import annotations

import random
import subprocess
import sys

from k3_ledger.ledger.witness.state import WitnessState
from tests.ledger.witness.support import ORIGIN, A, B, new_witness
from tests.support import ROOT

KILLS = 240
KILLS_PER_STATE = 12


def test_a_killed_witness_never_signs_a_fork_nor_a_smaller_head_nor_forgets_what_it_said(tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    given = unsaid = 0
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.witness.signer"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as signer:  # fmt: skip
        assert signer.stdin is not None
        assert signer.stdout is not None
        said: list[tuple[str, int, int]] = []
        for kill in range(KILLS):
            root = tmp_path / str(kill // KILLS_PER_STATE)
            if kill % KILLS_PER_STATE == 0:
                new_witness(root)
                said = []
            before = max((size for _, size, _ in said), default=0)
            signer.stdin.write(f"{root} {chance.randrange(60_000)} {chance.randrange(2**32)}\n")
            signer.stdin.flush()
            while (line := signer.stdout.readline()) != "dead\n":
                assert line, "the witness ended by itself"
                branch, size, time = line.split()
                assert int(size) >= before  # never smaller
                said.append((branch, before := int(size), int(time)))
                given += 1
            # Both histories agree up to 3 entries and on nothing from 4 on: one of them was chosen, for good.
            assert len({branch for branch, *_ in said}) <= 1
            times = [time for *_, time in said]
            assert times == sorted(times)
            head = WitnessState.open(root).log(ORIGIN).head  # whole: it opens, under its own signature
            assert head.size >= before  # nothing that was said is forgotten
            unsaid += head.size > before
            if said:
                chosen = A if said[0][0] == A.name else B
                assert head.root == chosen.root(head.size)
        signer.stdin.close()
        assert signer.wait() == 0
    sys.stdout.write(f"{KILLS} kills, {given} cosignatures given out, {unsaid} kills between state and signature\n")
    assert given
