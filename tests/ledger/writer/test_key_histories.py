"""Keys come and go at random: the writer appends what the format lets count, by whatever way, and that verifies."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.writer.keys import PublicKey, Signer
from k3_ledger.ledger.writer.proposal import check_proposal, endorse, format_proposal, merge, parse_proposal, propose
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import check_log, verify_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ROOT, Key
from tests.reference.key_histories import Draft, Teller

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "example.org/life"
HISTORIES = 30
POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)


def signer_of(key: Key) -> Signer:
    return Signer(hashlib.sha256(key.seed.encode()).digest())


class Life:
    """A ledger on disk beside the model of its keys."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.teller = Teller(seed, ORIGIN)
        self.ledger = Ledger.create(folder / "ledger", origin=ORIGIN, root=signer_of(ROOT), keys=[])
        self.model = self.teller.model
        self.model.entries[0] = self.newest()
        self.story: list[str] = []

    def newest(self) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(parse_line(self.ledger.log_path.read_bytes().splitlines()[-1]).entry)
        return entry

    def append(self, signer: Key, kind: str, body: dict[str, Any]) -> bool:
        """Whether the writer takes it; the model is told."""
        try:
            with self.ledger.writer(signer_of(signer)) as writer:
                writer.append(kind, body, last_root=True)
        except LedgerError as error:
            self.story.append(f"refused: {error}")
            return False
        self.model.take(self.newest())
        return True

    def could_count(self, kind: str, body: dict[str, Any]) -> bool:
        """Whether some root key can sign the action, if every other one endorses it."""
        roots = [key for key in self.teller.roots if key.id in self.model.now.roots(len(self.model.entries))]
        return any(
            self.teller.counts(Draft(kind, self.teller.endorsed(kind, body, *(k for k in roots if k != key)), key))
            for key in roots
        )

    def by_proposal(self, draft: Draft) -> bool:
        """The way of ``--propose``, ``key endorse --ledger`` and ``key append``, copies endorsed apart."""
        bare = {**draft.body, "endorsements": []}
        try:
            proposal = propose(self.ledger, draft.kind, bare, last_root=True)
        except LedgerError as error:
            self.story.append(f"not proposed: {error}")
            return False
        named = [endorsement["key"] for endorsement in draft.body["endorsements"]]
        copies = [proposal]
        for key in (key for key in self.teller.roots if key.id in named):
            handed = parse_proposal(format_proposal(proposal))
            try:
                check_proposal(self.ledger, handed, endorser=key.id, last_root=True)
            except LedgerError as error:
                self.story.append(f"not endorsed: {error}")
                return False
            copies.append(endorse(handed, signer_of(key)))
        merged = merge(copies, signer=draft.signer.id)
        return self.append(draft.signer, draft.kind, merged.body)

    def check(self) -> None:
        """What verify says of the log, and of every entry."""
        source = MemorySource(self.ledger.log_path.read_bytes())
        report = check_log(source, POLICY)
        assert report.exit_code is ExitCode.VERIFIED, (self.story, report.findings)
        verdicts = [self.model.verdict(at) for at in range(len(self.model.entries))]
        taken_back = [at for at, verdict in enumerate(verdicts) if verdict == "taken back"]
        assert [entry.index for entry in verify_log(source, POLICY) if entry.disowned] == taken_back, self.story
        assert "error" not in verdicts, self.story


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_counts_is_appended_and_what_is_appended_verifies(seed: int, tmp_path: Path) -> None:
    life = Life(seed, tmp_path)
    for draft in life.teller.drafts(12, wild=0.3):
        at = len(life.model.entries)
        life.story.append(f"{at}: {draft.signer.seed}: {draft.kind} {draft.body}")
        if draft.kind == "note":
            counts = life.model.now.counts(draft.signer.id, at)
            assert life.append(draft.signer, draft.kind, draft.body) == counts, life.story
            continue
        counts = life.teller.counts(draft)
        if life.teller.random.random() < 0.5:
            assert life.append(draft.signer, draft.kind, draft.body) == counts, life.story
            continue
        possible = life.could_count(draft.kind, {**draft.body, "endorsements": []})
        done = life.by_proposal(draft)
        assert done == counts, life.story
        assert any(line.startswith("not proposed") for line in life.story[-1:]) == (not possible), life.story
        assert possible or not counts
    life.check()


def test_the_key_of_a_model_signs_as_the_writers_does() -> None:
    assert signer_of(ROOT).key_id == ROOT.id == PublicKey(ROOT.public).key_id
