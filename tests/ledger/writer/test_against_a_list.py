"""A ledger on a bad disk, held against a list: hypothesis chooses what is appended, what fails and when it dies."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from k3_ledger.ledger.core.lines import LineSplitter
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.seal import seal
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import check_log
from k3_ledger.verify.source import MemorySource
from tests.ledger.writer.support import (
    SIGNERS,
    TIME,
    Killed,
    MortalDisk,
    new_ledger,
    note,
    read_entries,
    write_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.ledger.writer.append import Writer

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
ROLES = st.sampled_from(["judge", "runner", "log"])
STEPS = st.integers(0, 40)
WHENS = st.sampled_from(["before", "half", "after"])
CALLS = st.sampled_from(
    ["open", "read", "write", "fdatasync", "fsync", "ftruncate", "rename", "flock", "fstat", "mkdir"]
)
FAILURES = st.dictionaries(CALLS, st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS]), min_size=1, max_size=3)


class BadDisk(MortalDisk):
    """Dies when told to, and fails named calls."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, int] = {}

    def meet(self, name: str) -> None:
        super().meet(name)
        if name in self.failing:
            raise OSError(self.failing[name], os.strerror(self.failing[name]))


class Machine(RuleBasedStateMachine):
    """``acknowledged`` is the list; ``possible`` are notes that were being written when something failed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="k3-ledger-"))
        self.disk = BadDisk()
        self.writers: dict[str, Writer] = {}
        self.sealed: list[int] = []

    @initialize()
    def begin(self) -> None:
        self.ledger = new_ledger(self.folder / "ledger", self.disk)
        self.acknowledged = read_entries(self.ledger.log_path)

    def writer(self, role: str) -> Writer:
        if role not in self.writers:
            self.writers[role] = self.ledger.writer(SIGNERS[role], lock_timeout_s=0, clock=lambda: TIME)
        return self.writers[role]

    def reboot(self) -> None:
        """Every process is gone; the disk works again."""
        self.disk.disarm()
        self.disk.failing = {}
        for writer in self.writers.values():
            writer.close()
        self.writers = {}

    def settle(self, possible: int) -> None:
        """After a failure: what was acknowledged is there, then at most ``possible`` entries, then at most a tear."""
        splitter = LineSplitter()
        splitter.feed(self.ledger.log_path.read_bytes())
        torn = splitter.finish().length > 0
        if torn:
            self.refuses_to_append()
        done = recover(self.ledger)
        assert bool(done.cut) == torn
        now = read_entries(self.ledger.log_path)
        assert now[: len(self.acknowledged)] == self.acknowledged
        assert len(now) <= len(self.acknowledged) + possible
        self.acknowledged = now

    def refuses_to_append(self) -> None:
        with pytest.raises(StoreError) as caught:
            self.writer("judge").append("note", note("x"))
        assert caught.value.code in (Code.TORN_TAIL, Code.NUL_TAIL)

    def attempt(self, action: Callable[[], Any], possible: int) -> None:
        """Do something that may fail or die; whatever happens, the list still holds."""
        try:
            action()
        except (StoreError, Killed):
            self.reboot()
            self.settle(possible)
        else:
            self.reboot()
            now = read_entries(self.ledger.log_path)
            assert now[: len(self.acknowledged)] == self.acknowledged
            assert len(now) == len(self.acknowledged) + possible
            self.acknowledged = now

    @rule(role=ROLES, texts=st.lists(TEXTS, min_size=1, max_size=5))
    def append(self, role: str, texts: list[str]) -> None:
        receipts = self.writer(role).append_many(Draft("note", note(text)) for text in texts)
        now = read_entries(self.ledger.log_path)
        assert now[: len(self.acknowledged)] == self.acknowledged
        new = now[len(self.acknowledged) :]
        assert [entry["body"]["text"] for entry in new] == texts
        assert [(r.index, r.identity) for r in receipts] == [(entry["index"], entry["identity"]) for entry in new]
        self.acknowledged = now

    @rule(role=ROLES, texts=st.lists(TEXTS, min_size=1, max_size=5), step=STEPS, when=WHENS)
    def die_while_appending(self, role: str, texts: list[str], step: int, when: str) -> None:
        self.disk.arm(step, when)
        self.attempt(lambda: self.writer(role).append_many(Draft("note", note(text)) for text in texts), len(texts))

    @rule(role=ROLES, texts=st.lists(TEXTS, min_size=1, max_size=5), failing=FAILURES)
    def fail_while_appending(self, role: str, texts: list[str], failing: dict[str, int]) -> None:
        self.disk.failing = failing
        self.attempt(lambda: self.writer(role).append_many(Draft("note", note(text)) for text in texts), len(texts))

    @rule(cut=st.integers(1, 400), nuls=st.integers(0, 10))
    def lose_power_while_appending(self, cut: int, nuls: int) -> None:
        size = self.ledger.log_path.stat().st_size
        self.writer("judge").append("note", note("never acknowledged"))
        line = self.ledger.log_path.read_bytes()[size:-1]
        os.truncate(self.ledger.log_path, size)
        with self.ledger.log_path.open("ab") as file:
            file.write(line[:cut] + bytes(nuls if cut < len(line) else 0))
        self.reboot()
        self.settle(0)

    @rule(step=STEPS, when=WHENS)
    def die_while_signing_a_head(self, step: int, when: str) -> None:
        self.disk.arm(step, when)
        self.attempt(lambda: make_checkpoint(self.ledger, SIGNERS["log"], lock_timeout_s=0), 0)
        made = make_checkpoint(self.ledger, SIGNERS["log"])
        assert made.checkpoint.size == len(self.acknowledged)

    @rule(step=STEPS, when=WHENS, number=st.integers(0, 3))
    def die_while_sealing(self, step: int, when: str, number: int) -> None:
        bundle = self.folder / str(number)
        if not bundle.exists():
            write_bundle(bundle, {"a": b"alpha", "b": b"number %d" % number})
        self.disk.arm(step, when)
        known = number in self.sealed
        count = len(self.acknowledged)
        self.attempt(lambda: seal(self.ledger, bundle, self.writer("runner")), int(not known))
        done = seal(self.ledger, bundle, self.writer("runner"))
        assert done.added == (not known and len(self.acknowledged) == count)
        self.acknowledged = read_entries(self.ledger.log_path)
        self.sealed.append(number)

    @rule(step=STEPS, when=WHENS)
    def die_while_recovering(self, step: int, when: str) -> None:
        with self.ledger.log_path.open("ab") as file:
            file.write(b'{"entry":{"bod')
        self.disk.arm(step, when)
        with contextlib.suppress(Killed):
            recover(self.ledger, lock_timeout_s=0)
        self.reboot()
        self.settle(0)

    @invariant()
    def verifies(self) -> None:
        if not hasattr(self, "ledger"):
            return
        data = self.ledger.log_path.read_bytes()
        head = self.ledger.checkpoint_path
        source = MemorySource(data, checkpoint=head.read_bytes() if head.exists() else None)
        report = check_log(source)
        assert report.exit_code == 0, report.findings
        staging = self.ledger.staging_path
        assert not staging.exists() or len(list(staging.iterdir())) <= 1

    def teardown(self) -> None:
        self.reboot()
        shutil.rmtree(self.folder)


TestAgainstAList = Machine.TestCase
TestAgainstAList.settings = settings(
    max_examples=20, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
