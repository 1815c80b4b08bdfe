"""Real processes: killed at random moments, and appending against one another."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.chain import entry_identity
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.lines import LineSplitter, TailKind
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.verify.log import check_log
from k3_ledger.verify.source import MemorySource
from tests.ledger.writer.support import OPENING, SIGNERS, new_ledger, note, notes, read_entries
from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 320
KILLS_PER_LEDGER = 16


def program(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.writer.appender", *map(str, words)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


class Witness:
    """Watches one ledger from the outside: what was acknowledged stays, and nothing else changes."""

    def __init__(self, path: Path) -> None:
        self.ledger = new_ledger(path)
        self.before = self.ledger.log_path.read_bytes()
        self.acknowledged = self.unacknowledged = self.torn = 0

    def look(self, receipts: list[list[str]]) -> None:
        """After a kill: the log is what it was, the acknowledged entries, perhaps more of the same, perhaps a tear."""
        now = self.ledger.log_path.read_bytes()
        assert now.startswith(self.before)
        splitter = LineSplitter(number=self.before.count(b"\n") + 1, offset=len(self.before))
        found = {str(line.number - 1): line.data for line in splitter.feed(now[len(self.before) :])}
        for index, identity in receipts:
            assert entry_identity(parse_line(found[index]).entry).hex() == identity
        tail = splitter.finish()
        assert tail.kind in (TailKind.NONE, TailKind.TORN)
        if tail.kind is TailKind.TORN:
            self.torn += 1
            assert recover(self.ledger).cut == tail.length
            now = now[: tail.offset]
            assert self.ledger.log_path.read_bytes() == now
        self.acknowledged += len(receipts)
        self.unacknowledged += len(found) - len(receipts)
        self.before = now

    def end(self) -> None:
        """The whole ledger verifies and holds what was counted."""
        assert len(read_entries(self.ledger.log_path)) == OPENING + self.acknowledged + self.unacknowledged
        assert check_log(MemorySource(self.before)).exit_code == 0


@pytest.mark.parametrize("mode", ["single", "group"])
def test_killed_appender_loses_nothing_acknowledged_and_changes_nothing_else(tmp_path, mode):
    seed = random.SystemRandom().randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    witnesses = []
    with program("kill") as appender:
        assert appender.stdin is not None
        assert appender.stdout is not None
        for kill in range(KILLS // 2):
            if kill % KILLS_PER_LEDGER == 0:
                witnesses.append(Witness(tmp_path / str(kill)))
            appender.stdin.write(f"{witnesses[-1].ledger.root} {mode} {chance.randrange(60_000)} {kill}\n")
            appender.stdin.flush()
            receipts = []
            while (line := appender.stdout.readline()) != "dead\n":
                assert line, "the appender ended by itself"
                receipts.append(line.split())
            witnesses[-1].look(receipts)
        appender.stdin.close()
        assert appender.wait() == 0
    for witness in witnesses:
        witness.end()
    acknowledged, more, torn = (
        sum(getattr(witness, name) for witness in witnesses) for name in ("acknowledged", "unacknowledged", "torn")
    )
    sys.stdout.write(f"{acknowledged} acknowledged, {more} whole but not acknowledged, {torn} torn tails\n")
    assert acknowledged


def test_two_processes_and_two_threads_append_one_chain_in_order(tmp_path):
    ledger = new_ledger(tmp_path / "ledger")
    each = 500

    def work(role: str, name: str) -> None:
        with ledger.writer(SIGNERS[role], lock_timeout_s=120) as writer:
            for turn in range(each):
                writer.append("note", note(f"{name} {turn}"))

    others = [program("count", ledger.root, role, f"process-{role}", each) for role in ("judge", "runner")]
    threads = [threading.Thread(target=work, args=(role, f"thread-{role}")) for role in ("log", "witness")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        with other:
            assert other.wait() == 0
    texts = notes(ledger.log_path)
    assert len(texts) == 4 * each
    for name in ("process-judge", "process-runner", "thread-log", "thread-witness"):
        assert [text for text in texts if text.startswith(name)] == [f"{name} {turn}" for turn in range(each)]
    assert check_log(MemorySource(ledger.log_path.read_bytes())).exit_code == 0
