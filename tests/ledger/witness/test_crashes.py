"""Killed at random moments, a witness never signs anything that contradicts what it signed before."""

from __future__ import annotations

import errno
import random
import subprocess
import sys

import pytest

from k3_ledger.ledger.witness.cosign import CosigningWitness
from k3_ledger.ledger.witness.state import WitnessState
from k3_ledger.schemas.errors import StoreError
from tests.ledger.core.samples import code_of
from tests.ledger.witness.support import ORIGIN, SIGNER, A, B, Clock, new_witness
from tests.ledger.writer.support import FailingDisk, Killed, MortalDisk
from tests.support import ROOT

CALLS = ("open", "flock", "fstat", "stat", "mkdir", "write", "fsync", "rename")
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


def check_after(root):
    """The state is whole, is the old or the new head, and only the first history goes on from it."""
    state = WitnessState.open(root)
    size = state.log(ORIGIN).head.size
    assert size in (5, 8)
    assert state.log(ORIGIN).head.root == A.root(size)
    witness = CosigningWitness(state, SIGNER, clock=Clock())
    assert code_of(witness.add_checkpoint, B.request(size, 8)) in ("CONSISTENCY_MISMATCH", "WITNESS_FORK")
    witness.add_checkpoint(A.request(size, 8))
    witness.add_checkpoint(A.request(8, 13))
    return size


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_at_any_step_it_goes_on_from_the_old_head_or_the_new_one(tmp_path, when):
    seen = set()
    for step in range(100):
        root = tmp_path / str(step)
        new_witness(root).add_checkpoint(A.request(0, 5))
        disk = MortalDisk()
        witness = CosigningWitness(WitnessState.open(root, disk=disk), SIGNER, clock=Clock())
        disk.arm(step, when)
        try:
            witness.add_checkpoint(A.request(5, 8))
        except Killed:
            seen.add(check_after(root))
        else:
            break
    assert 8 < step < 100
    assert seen == {5, 8}


def test_a_call_that_fails_gives_no_signature_out_and_the_next_request_is_answered(tmp_path):
    failed = 0
    for name in CALLS:
        for nth in range(20):
            root = tmp_path / f"{name}-{nth}"
            new_witness(root).add_checkpoint(A.request(0, 5))
            disk = FailingDisk()
            witness = CosigningWitness(WitnessState.open(root, disk=disk), SIGNER, clock=Clock())
            disk.fail(name, errno.EIO, nth=nth)
            try:
                witness.add_checkpoint(A.request(5, 8))
            except StoreError:
                failed += 1
                check_after(root)
            else:
                break
    assert failed > len(CALLS)
