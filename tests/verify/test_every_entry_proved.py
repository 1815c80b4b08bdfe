"""Whatever stands in a ledger that verifies can be proved, and its proof says what the ledger says.

Keys come and go at random in these ledgers: roots, rotations, revocations that reach back, thresholds, endorsements.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry, prove_heads
from k3_ledger.verify.source import MemorySource
from tests.attacks.world import build
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, sign_head, threshold_body
from tests.reference.key_histories import Draft, Teller

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
HISTORIES = 60
"""How many are told; each has about a dozen entries, and every one of them is proved."""
SECOND = Key("root-two")


@cache
def told(seed: int, length: int, *, alone: bool) -> Builder:
    """A ledger with a random history of its keys that verifies, and whose log key stands to its end.

    Args:
        seed: of the history.
        length: drafts that are drawn for it.
        alone: no thresholds and no endorsements: then a proof carries a choice of the key entries and not all.
    """
    ledger = Builder().open()
    teller = Teller(seed, ORIGIN)
    teller.model.entries[0] = json.loads(ledger.lines[0][9:-99])
    for line in ledger.lines[1:]:
        teller.model.take(json.loads(line[9:-99]))
    for draft in teller.drafts(length, wild=0):
        if not (alone and draft.kind == "threshold"):
            _take(
                ledger,
                teller,
                replace(draft, body={**draft.body, "endorsements": []}) if _bare(draft, alone) else draft,
            )
    return ledger


def _bare(draft: Draft, alone: bool) -> bool:
    return alone and draft.kind == "key"


def _take(ledger: Builder, teller: Teller, draft: Draft) -> None:
    """Append it, unless it would not count or would take the log key's enrolment back."""
    at, model = len(ledger.lines), teller.model
    ledger.add(draft.kind, draft.body, draft.signer)
    entry = json.loads(ledger.lines[-1][9:-99])
    state = model.now if draft.kind == "note" else model.outcome(entry)
    if state is None or not model.now.counts(draft.signer.id, at) or not state.counts(LOG.id, at + 1):
        ledger.lines.pop()
        return
    model.take(entry)


def whole(ledger: Builder) -> Report:
    return check_log(source(ledger), POLICY)


def source(ledger: Builder, *kept: int) -> MemorySource:
    heads = tuple((f"checkpoints/{size:012d}.note", sign_head(ledger.lines[:size])) for size in kept)
    return MemorySource(ledger.data, checkpoint=ledger.head(), kept=heads)


def taken_back(report: Report) -> set[int]:
    return {at for taken in report.disowned for at in range(taken.first, taken.last + 1)}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_entry_of_a_ledger_with_a_history_of_keys_is_proved(seed: int) -> None:
    ledger = told(seed, 6 + seed % 12, alone=seed % 2 == 0)
    report = whole(ledger)
    assert report.exit_code == 0, report.findings
    for index in range(len(ledger.lines)):
        proved = check_proof(format_proof(prove_entry(source(ledger), index)), "entry.proof", POLICY)
        bad = {code for code in proved.counts if code.info.exit}
        assert bad == ({Code.PROOF_DISOWNED} if index in taken_back(report) else set()), (seed, index, proved.findings)


@pytest.mark.parametrize("seed", range(0, HISTORIES, 4))
def test_any_two_heads_of_such_a_ledger_are_proved_to_be_one_log_s(seed: int) -> None:
    ledger = told(seed, 6 + seed % 12, alone=seed % 8 == 0)
    end = len(ledger.lines)
    for size in range(2, end):
        data = format_consistency(prove_heads(source(ledger, size), size, end))
        found = check_consistency_file(data, "heads.proof", POLICY)
        assert not {code for code in found.counts if code.info.exit}, (seed, size, found.findings)


def test_the_histories_hold_what_has_to_be_proved() -> None:
    """Revocations and rotations of keys that nothing else in a proof rests on, and entries that were taken back."""
    seen: set[tuple[str, int]] = set()
    for seed in range(HISTORIES):
        ledger = told(seed, 6 + seed % 12, alone=seed % 2 == 0)
        bodies = [json.loads(line[9:-99])["body"] for line in ledger.lines]
        seen |= {
            (body.get("action", "threshold"), seed % 2) for body in bodies if "action" in body or "threshold" in body
        }
        seen |= {("taken back", seed % 2)} if taken_back(whole(ledger)) else set()
    both = {(action, half) for action in ("enrol", "rotate", "revoke", "taken back") for half in (0, 1)}
    assert seen == both | {("threshold", 1)}


def test_every_entry_of_the_ledger_that_is_attacked_is_proved() -> None:
    ledger = build().ledger
    for index in range(len(ledger.lines)):
        report = check_proof(format_proof(prove_entry(source(ledger), index)), "entry.proof", POLICY)
        assert (report.exit_code, report.counts) == (0, {}), (index, report.findings)


@pytest.mark.parametrize("role", ["runner", "judge", "log", "witness", "root"])
@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_what_ends_a_key_is_proved_with_the_entry_that_enrolled_it(action: str, role: str) -> None:
    """The key has signed nothing that the proof carries, so nothing else asks for its enrolment."""
    ledger = Builder().open()
    old = Key("old")
    ledger.add("key", key_body(old, role), ROOT)
    if action == "revoke":
        ledger.add("key", key_body(old, role, "revoke", revoked_from=5), ROOT)
    else:
        ledger.add("key", key_body(Key("new"), role, "rotate", replaces=old.id), ROOT)
    proof = format_proof(prove_entry(source(ledger), 5))
    assert [entry["index"] for entry in json.loads(proof)["entries"]] == [0, 1, 4, 5]
    assert check_proof(proof, "entry.proof", POLICY).exit_code == 0
    less = json.loads(proof)
    less["entries"].pop(2)
    data = json.dumps(less, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert set(check_proof(data, "entry.proof", POLICY).counts) == {Code.PROOF_INCOMPLETE}


def test_a_key_whose_own_enrolment_was_a_rotation_is_taken_back_with_the_whole_way_to_it() -> None:
    ledger = Builder().open()
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    ledger.add("key", key_body(Key("two"), "runner", "rotate", replaces=RUNNER.id), SECOND)
    ledger.add("key", key_body(Key("two"), "runner", "revoke"), ROOT)
    proof = format_proof(prove_entry(source(ledger), 6))
    assert [entry["index"] for entry in json.loads(proof)["entries"]] == [0, 1, 2, 4, 5, 6]
    assert check_proof(proof, "entry.proof", POLICY).exit_code == 0


def test_thresholds_and_words_of_the_judge_are_proved_alike() -> None:
    ledger = Builder().open()
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    ledger.act("key", key_body(JUDGE, "judge", "revoke"), ROOT, SECOND)
    for index in range(len(ledger.lines)):
        report = check_proof(format_proof(prove_entry(source(ledger), index)), "entry.proof", POLICY)
        assert (report.exit_code, report.counts) == (0, {}), index
