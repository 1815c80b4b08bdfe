"""The life of a ledger, held against a model: keys come and go, power fails, tails tear, and the verifier agrees.

The model is a list of acknowledged entries, a table of keys, the size of the newest head, and the bytes behind the last
line feed. It says what every call answers, what the ledger holds afterwards, and with which exit code it verifies.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.ledger.writer.keys import Signer
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.seal import seal
from k3_ledger.ledger.writer.store import Ledger, NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import VerifiedLog, check_log, verify_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledger.writer.support import (
    OPENING,
    ORIGIN,
    ROLES,
    SIGNERS,
    TIME,
    RecordingDisk,
    new_ledger,
    note,
    public,
    read_entries,
    write_bundle,
)

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.append import Writer

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
PICK = st.integers(0, 1000)


@dataclass
class ModelKey:
    """A key as the model knows it: its entries count from ``enrolled`` on, and until it is ``retired``."""

    role: str
    signer: Signer
    enrolled: int
    retired: int = FOREVER
    disowned_from: int = FOREVER
    signed: list[int] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.retired == FOREVER

    @property
    def disowned(self) -> set[int]:
        return {index for index in self.signed if self.disowned_from <= index < self.retired}


class Life(RuleBasedStateMachine):
    """``log`` is every acknowledged entry as (kind, key id, text or None)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="k3-ledger-"))
        self.writers: dict[str, Writer] = {}
        self.made = 0

    @initialize()
    def begin(self) -> None:
        self.ledger = new_ledger(self.folder / "ledger", RecordingDisk())
        self.keys = [ModelKey(role, SIGNERS[role], index) for index, role in enumerate(ROLES)]
        self.log: list[tuple[str, str, str | None]] = [
            ("genesis" if not index else "key", SIGNERS["root"].key_id, None) for index in range(OPENING)
        ]
        self.head = 0
        self.head_key: ModelKey | None = None
        self.tail = b""
        self.sealed: dict[int, list[tuple[ModelKey, int]]] = {}

    def key(self, pick: int, *roles: str, alive: bool = False) -> ModelKey:
        """One of the keys with such a role; the newest enrolments are picked as often as the oldest."""
        found = [key for key in self.keys if key.role in roles and (key.alive or not alive)]
        return found[pick % len(found)]

    def writer(self, key: ModelKey) -> Writer:
        name = key.signer.key_id
        if name not in self.writers:
            self.writers[name] = self.ledger.writer(key.signer, lock_timeout_s=0, clock=lambda: TIME)
        return self.writers[name]

    def refusal(self, key: ModelKey) -> Code | None:
        """Why an append with this key is refused now."""
        if self.tail:
            return Code.NUL_TAIL if self.tail.endswith(b"\0") else Code.TORN_TAIL
        return None if key.alive else Code.KEY_RETIRED

    def attempt(self, key: ModelKey, *drafts: Draft) -> None:
        """Append, and hold the answer to what the model says."""
        expected = self.refusal(key)
        if expected is not None:
            with pytest.raises(LedgerError) as caught:
                self.writer(key).append_many(drafts)
            assert caught.value.code is expected
            return
        receipts = self.writer(key).append_many(drafts)
        assert [receipt.index for receipt in receipts] == list(range(len(self.log), len(self.log) + len(drafts)))
        for draft in drafts:
            text = draft.body["text"] if draft.kind == "note" else None
            self.take(draft.kind, key, None if text is None else str(text))

    def take(self, kind: str, key: ModelKey, text: str | None = None) -> None:
        key.signed.append(len(self.log))
        self.log.append((kind, key.signer.key_id, text))

    # ------------------------------------------------------------------------------------------------ everyday

    @rule(pick=PICK, text=TEXTS)
    def append(self, pick: int, text: str) -> None:
        self.attempt(self.key(pick, "judge", "runner", "log", "witness"), Draft("note", note(text)))

    @rule(pick=PICK, texts=st.lists(TEXTS, max_size=6))
    def append_many(self, pick: int, texts: list[str]) -> None:
        key = self.key(pick, "judge", "runner", "log", "witness")
        if texts or not self.refusal(key):
            self.attempt(key, *(Draft("note", note(text)) for text in texts))

    @rule(pick=PICK)
    def append_what_the_role_may_not(self, pick: int) -> None:
        key = self.key(pick, "runner", "witness")
        body = {"slot": "decode", "commit": "0" * 40}
        with pytest.raises(LedgerError) as caught:
            self.writer(key).append("merge", body)
        assert caught.value.code in (self.refusal(key) or Code.KEY_WRONG_ROLE, Code.SCHEMA_MISSING_FIELD)

    @rule(pick=PICK, number=st.integers(0, 2))
    def seal(self, pick: int, number: int) -> None:
        key = self.key(pick, "runner")
        bundle = self.folder / str(number)
        if not bundle.exists():
            write_bundle(bundle, {"a": b"alpha", "b": b"number %d" % number})
        expected = self.refusal(key)
        if expected is None:
            done = seal(self.ledger, bundle, self.writer(key))
            counts = any(index not in signer.disowned for signer, index in self.sealed.get(number, ()))
            assert done.added is not counts
            if done.added:
                self.sealed.setdefault(number, []).append((key, len(self.log)))
                self.take("run", key)
            return
        with pytest.raises(LedgerError) as caught:
            seal(self.ledger, bundle, self.writer(key))
        assert caught.value.code is expected

    @rule(pick=PICK)
    def checkpoint(self, pick: int) -> None:
        key = self.key(pick, "log")
        expected = self.refusal(key)
        if expected is not None:
            with pytest.raises(LedgerError) as caught:
                make_checkpoint(self.ledger, key.signer)
            assert caught.value.code is expected
            return
        made = make_checkpoint(self.ledger, key.signer)
        assert made.checkpoint.size == len(self.log)
        assert made.added == (self.head != len(self.log))
        if made.added:
            self.head, self.head_key = len(self.log), key

    # ---------------------------------------------------------------------------------------------------- keys

    def new_key(self, role: str) -> NewKey:
        self.made += 1
        signer = Signer(hashlib.sha256(b"model key %d" % self.made).digest())
        self.coming = ModelKey(role, signer, len(self.log))
        return NewKey(role, f"{role}-{self.made}x", public(signer))  # type: ignore[arg-type]

    def act(self, body: dict[str, object]) -> bool:
        """A root action; whether it was taken."""
        root = self.keys[0]
        taken = self.refusal(root) is None
        self.attempt(root, Draft("key", body))
        return taken

    @precondition(lambda self: len(self.keys) < 12)
    @rule(role=st.sampled_from(ROLES[1:]))
    def enrol(self, role: str) -> None:
        if self.act(enrolment(self.new_key(role))):
            self.keys.append(self.coming)

    @rule(pick=PICK)
    def rotate(self, pick: int) -> None:
        old = self.key(pick, *ROLES[1:])
        body = {**enrolment(self.new_key(old.role)), "action": "rotate", "replaces": old.signer.key_id}
        if not old.alive:
            self.refused(body)
        elif self.act(body):
            old.retired = self.coming.enrolled
            self.keys.append(self.coming)

    @rule(pick=PICK, back=st.integers(0, 6))
    def revoke(self, pick: int, back: int) -> None:
        """Leaves one key of each role, so that life goes on. A log key's heads are not taken back here."""
        key = self.key(pick, *ROLES[1:])
        since = None if key.role == "log" or not back else max(len(self.log) - back, key.enrolled + 1)
        body = {
            "action": "revoke", "role": key.role, "key_id": key.signer.key_id,
            "public_key": key.signer.public_key.hex(), "name": "gone", "replaces": None, "revoked_from": since,
            "reason": None, "endorsements": [],
        }  # fmt: skip
        spare = sum(other.role == key.role and other.alive for other in self.keys) > 1
        if (spare or not key.alive) and self.act(body):
            # A key may be revoked again, when it turns out that it was stolen earlier than was thought.
            key.retired = min(key.retired, len(self.log) - 1)
            key.disowned_from = min(key.disowned_from, FOREVER if since is None else since)

    def refused(self, body: dict[str, object]) -> None:
        """A key that was retired before is not rotated."""
        with pytest.raises(LedgerError) as caught:
            self.writer(self.keys[0]).append("key", body)
        assert self.tail or caught.value.code in (Code.KEY_UNKNOWN_TARGET, Code.KEY_RETIRED), caught.value

    # ------------------------------------------------------------------------------------------------ accidents

    @precondition(lambda self: not self.tail)
    @rule(pick=PICK, cut=st.integers(1, 700), nuls=st.sampled_from([0, 0, 1, 7, 5000]))
    def lose_power(self, pick: int, cut: int, nuls: int) -> None:
        """A write that was under way reached the disk in part, perhaps as NUL bytes; nobody was told of it."""
        size = self.ledger.log_path.stat().st_size
        key = self.key(pick, "judge", "runner", "log", "witness", alive=True)
        self.writer(key).append("note", note("never acknowledged"))
        line = self.ledger.log_path.read_bytes()[size:-1]
        os.truncate(self.ledger.log_path, size)
        # A complete line and exactly one NUL is what a changed last byte leaves: damage, and not this machine's topic.
        self.tail = line[:cut] + bytes(nuls if cut < len(line) else 0)
        with self.ledger.log_path.open("ab") as file:
            file.write(self.tail)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        """Every process ends, and others begin."""
        for writer in self.writers.values():
            writer.close()
        self.writers = {}
        self.ledger = Ledger.open(self.folder / "ledger", disk=self.ledger.disk)

    @rule()
    def recover(self) -> None:
        done = recover(self.ledger)
        assert (done.entries, done.cut) == (len(self.log), len(self.tail))
        assert (done.kept is None) == (not self.tail)
        if done.kept is not None:
            assert done.kept.read_bytes() == self.tail
        self.tail = b""

    # ---------------------------------------------------------------------------------------------- what must hold

    @invariant()
    def holds_what_was_acknowledged(self) -> None:
        if not hasattr(self, "sealed"):
            return
        data = self.ledger.log_path.read_bytes()
        assert data.endswith(self.tail)
        whole = self.folder / "whole"
        whole.write_bytes(data[: len(data) - len(self.tail)])
        entries = read_entries(whole)
        assert [self.told(entry) for entry in entries] == self.log

    @staticmethod
    def told(entry: dict[str, Any]) -> tuple[str, str, str | None]:
        return entry["kind"], entry["key"], entry["body"]["text"] if entry["kind"] == "note" else None

    @invariant()
    def verifies_as_the_model_says(self) -> None:
        if not hasattr(self, "sealed"):
            return
        for policy in (None, TrustPolicy(origin=ORIGIN, root_public_key=SIGNERS["root"].public_key)):
            assert check_log(self.source(), policy).exit_code == (ExitCode.TORN_TAIL if self.tail else 0)
        strict = TrustPolicy(origin=ORIGIN, require=frozenset({"checkpoint"}))
        wanted = ExitCode.VERIFIED if self.head == len(self.log) else ExitCode.NOT_CHECKED
        report = check_log(self.source(), strict)
        assert report.exit_code == (ExitCode.TORN_TAIL if self.tail else wanted), report.findings
        if not self.tail:
            log = verify_log(self.source())
            assert isinstance(log, VerifiedLog)
            assert log.disowned == set().union(*(key.disowned for key in self.keys))

    def source(self) -> MemorySource:
        head = self.ledger.checkpoint_path
        kept = [(path.name, path.read_bytes()) for path in sorted(self.ledger.checkpoints_path.glob("*.note"))]
        log = self.ledger.log_path.read_bytes()
        return MemorySource(log, checkpoint=head.read_bytes() if head.exists() else None, kept=kept)

    def teardown(self) -> None:
        for writer in self.writers.values():
            writer.close()
        shutil.rmtree(self.folder)


TestAgainstAModel = Life.TestCase
TestAgainstAModel.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_the_model_is_that_of_a_ledger_which_forgets_nothing(tmp_path):
    """A writer that loses an entry it acknowledged does not pass for the model."""
    ledger = new_ledger(tmp_path / "ledger")
    with ledger.writer(SIGNERS["judge"]) as writer:
        writer.append("note", note("kept"))
    lines = ledger.log_path.read_bytes().split(b"\n")
    machine = Life()
    machine.begin()
    machine.append(0, "kept")
    shutil.copy(ledger.log_path, machine.ledger.log_path)
    machine.ledger.log_path.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    with pytest.raises(AssertionError):
        machine.holds_what_was_acknowledged()
    with pytest.raises(StoreError):
        machine.append(0, "more")
    machine.teardown()
