"""A consistency file stands on its own: between any two kept heads, and nothing else passes for one."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.note import parse_verifier_key
from k3_ledger.ledger.core.proof import MAX_ENTRIES
from k3_ledger.schemas.errors import LedgerError, ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.consistency import check_consistency_file, verify_consistency_file
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.prove import consistency_between, prove_heads
from k3_ledger.verify.report import VerificationError
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.witnesses import TimeBound
from tests.ledgers import LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, sign_head, small_ledger, threshold_body
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
WITNESS = NoteKey("witness.example/w1", "w1", COSIGNER_TYPE)


def source(ledger: Builder, *sizes: int, newest: bytes | None = None, **heads: bytes) -> MemorySource:
    """A ledger that keeps heads of some sizes; the last one is the newest unless another is given."""
    kept = [(f"checkpoints/{size:012d}.note", sign_head(ledger.lines[:size])) for size in sizes]
    kept += [(f"checkpoints/{name}.note", raw) for name, raw in heads.items()]
    return MemorySource(ledger.data, checkpoint=newest or kept[-1][1], kept=kept)


def prove(ledger: Builder, old: int, new: int) -> bytes:
    return format_consistency(prove_heads(source(ledger, old, new), old, new))


def check(data: bytes, policy: TrustPolicy | None = POLICY, seen: tuple[tuple[str, bytes], ...] = ()) -> Report:
    return check_consistency_file(data, "heads.proof", policy, seen)


def edit(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(data)
    change(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def step(report: Report, name: str):
    return next(result for result in report.steps if result.name == name)


LEDGER = small_ledger()
FILE = prove(LEDGER, 5, 9)


def test_any_two_kept_heads_are_proved_and_the_file_stands_alone() -> None:
    sizes = (2, 4, 5, 7, 10)
    kept = source(LEDGER, *sizes)
    for old, new in combinations(sizes, 2):
        data = format_consistency(prove_heads(kept, old, new))
        report = check(data)
        assert (report.exit_code, report.findings, report.authenticated) == (0, (), True)
        assert (report.subject, report.head.size) == ("heads.proof", new)
        assert step(report, "chain").not_checked == new - 2
        assert step(report, "checkpoint").detail == f"the head of {new} entries extends that of {old}"
        heads = verify_consistency_file(data, "heads.proof", POLICY)
        assert (heads.old.size, heads.new.size) == (old, new)


def test_the_way_from_the_root_to_rotated_log_keys_is_carried() -> None:
    ledger = small_ledger(1)
    log = Key("log-two")
    ledger.add("key", key_body(log, "log", "rotate", replaces=LOG.id), ROOT)
    ledger.runs(2)
    revoked = Builder(list(ledger.lines))
    revoked.add("key", key_body(log, "log", "revoke"), ROOT)  # behind both heads: nothing a proof of them can hold
    for built in (ledger, revoked):
        kept = source(built, 5, newest=sign_head(ledger.lines, log))
        data = format_consistency(prove_heads(kept, 5, 8))
        assert [entry["index"] for entry in json.loads(data)["proof"]["entries"]] == [0, 1, 5]
        assert check(data).exit_code == 0


def test_thresholds_travel_along() -> None:
    ledger = Builder().open()
    ledger.add("threshold", threshold_body(1), ROOT)
    ledger.runs(3)
    data = prove(ledger, 6, 8)
    assert [entry["index"] for entry in json.loads(data)["proof"]["entries"]] == [0, 1, 2, 3, 4]
    assert check(data).exit_code == 0


def test_too_many_root_actions_do_not_fit() -> None:
    ledger = Builder().open()
    ledger.add("threshold", threshold_body(1), ROOT)
    for number in range(MAX_ENTRIES):
        ledger.add("key", key_body(Key(f"runner {number}"), "runner"), ROOT)
    with pytest.raises(ProofError) as caught:
        prove(ledger, 6, len(ledger.lines))
    assert caught.value.code is Code.PROOF_TOO_LARGE


def swap(document: dict[str, Any]) -> None:
    document["old"], document["proof"]["checkpoint"] = document["proof"]["checkpoint"], document["old"]


FORK = Builder(list(LEDGER.lines[:4])).runs(0)
for _text in "abcdef":
    FORK.add("note", {"text": _text, "artifacts": []}, RUNNER)

TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], set[Code]]] = {
    "hash left out": (lambda d: d["consistency"].pop(), {Code.PROOF_SHAPE}),
    "hash changed": (lambda d: d["consistency"].__setitem__(0, "ab" * 32), {Code.CONSISTENCY_MISMATCH}),
    "heads swapped": (swap, {Code.PROOF_SHAPE}),
    "older head of another history": (
        lambda d: d.update(old=sign_head(FORK.lines[:5]).decode()),
        {Code.CONSISTENCY_MISMATCH},
    ),
    "older head of another log": (
        lambda d: d.update(old=sign_head(LEDGER.lines[:5], origin="example.org/other").decode()),
        {Code.CHECKPOINT_ORIGIN},
    ),
    "older head signed by another key": (
        lambda d: d.update(old=sign_head(LEDGER.lines[:5], RUNNER).decode()),
        {Code.CHECKPOINT_SIGNATURE},
    ),
    "older head is no note": (lambda d: d.update(old="5\n"), {Code.NOTE_MALFORMED}),
    "newer head signed by another key": (
        lambda d: d["proof"].update(checkpoint=sign_head(LEDGER.lines[:9], RUNNER).decode()),
        {Code.CHECKPOINT_SIGNATURE},
    ),
    "newer head is no note": (lambda d: d["proof"].update(checkpoint="9\n"), {Code.NOTE_MALFORMED}),
    "log key left out": (
        lambda d: d["proof"]["entries"].pop(),
        {Code.PROOF_INCOMPLETE},
    ),
    "schema changed": (lambda d: d.update(schema="k3-ledger/consistency/2"), {Code.PROOF_FILE}),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_file_is_refused(name: str) -> None:
    change, codes = TAMPERED[name]
    data = edit(FILE, change)
    report = check(data)
    assert report.exit_code == ExitCode.FALSE
    assert set(report.counts) == codes
    assert (step(report, "checkpoint").outcome, report.bounds) != (Outcome.PASS, ())
    with pytest.raises(VerificationError):
        verify_consistency_file(data, "heads.proof")


def test_another_root_is_not_trusted() -> None:
    assert set(check(FILE, TrustPolicy(Key("other").public)).counts) == {Code.ROOT_NOT_TRUSTED}
    assert set(check(FILE, TrustPolicy(minimum_size=10)).counts) == {Code.HEAD_TOO_SMALL}
    assert check(FILE, TrustPolicy(require=frozenset({"chain"}))).exit_code == ExitCode.NOT_CHECKED


def test_a_remembered_head_of_either_size_is_compared() -> None:
    for size in (5, 9):
        seen = (("seen", sign_head(LEDGER.lines[:size])),)
        assert (check(FILE, seen=seen).exit_code, step(check(FILE, seen=seen), "memory").outcome) == (0, Outcome.PASS)
        assert set(check(FILE, seen=(("seen", sign_head(FORK.lines[:size])),)).counts) == {Code.FORK}
        forged = sign_head(FORK.lines[:size], Key("stranger"))
        assert set(check(FILE, seen=(("seen", forged),)).counts) == {Code.MEMORY_FOREIGN}
    other = check(FILE, seen=(("seen", sign_head(LEDGER.lines[:7])),))
    assert other.exit_code == ExitCode.NOT_CHECKED
    assert other.findings[0].expected == "a head of 5 or 9 entries"
    assert set(check(FILE, seen=(("seen", bytes(10)),)).counts) == {Code.MEMORY_UNREADABLE}
    unread = check(edit(FILE, TAMPERED["newer head is no note"][0]), seen=(("seen", sign_head(LEDGER.lines[:7])),))
    assert Code.REQUIRED_NOT_CHECKED in unread.counts


def test_cosignatures_on_both_heads_bound_times() -> None:
    old = cosign(sign_head(LEDGER.lines[:5]), WITNESS, 1_767_225_600)
    new = cosign(sign_head(LEDGER.lines[:9]), WITNESS, 1_767_312_000)
    kept = source(LEDGER, newest=new, old=old)
    policy = TrustPolicy(ROOT.public, witnesses=(Witness(parse_verifier_key(WITNESS.verifier_key), "w1"),), quorum=1)
    report = check(format_consistency(prove_heads(kept, 5, 9)), policy)
    assert report.exit_code == 0
    assert report.bounds == tuple(
        TimeBound(size, time, (WITNESS.name,)) for size, time in ((9, 1_767_312_000), (5, 1_767_225_600))
    )
    unsigned = edit(format_consistency(prove_heads(kept, 5, 9)), lambda d: d["proof"]["entries"].pop())
    assert check(unsigned, policy).bounds == ()


# ---------------------------------------------------------------------------------------------- what cannot be proved


@pytest.mark.parametrize(("old", "new"), [(5, 8), (4, 9), (4, 8)])
def test_a_head_that_is_not_kept_is_not_proved(old: int, new: int) -> None:
    with pytest.raises(ProofError) as caught:
        prove_heads(source(LEDGER, 5, 9), old, new)
    assert (caught.value.code, caught.value.finding.expected) == (Code.NO_SUCH_HEAD, "one of 5, 9")


def test_a_ledger_without_heads_proves_nothing() -> None:
    with pytest.raises(ProofError) as caught:
        prove_heads(MemorySource(LEDGER.data), 5, 9)
    assert caught.value.finding.expected == "a signed head"


def test_a_log_that_is_not_the_one_that_was_signed_proves_nothing() -> None:
    for lines, code in (
        (LEDGER.lines[:8], Code.CHECKPOINT_AHEAD),
        (FORK.lines, Code.CHECKPOINT_ROOT),
        ([], Code.CHECKPOINT_AHEAD),
    ):
        heads = source(LEDGER, 5, 9)
        changed = MemorySource(b"".join(lines), checkpoint=heads.checkpoint(), kept=heads.kept_checkpoints())
        with pytest.raises(LedgerError) as caught:
            prove_heads(changed, 5, 9)
        assert caught.value.code is code


@pytest.mark.parametrize(("old", "new"), [(0, 5), (5, 5), (9, 5), (-1, 5)])
def test_sizes_that_make_no_sense_are_misuse(old: int, new: int) -> None:
    with pytest.raises(ValueError, match="older head"):
        prove_heads(source(LEDGER, 5, 9), old, new)


def test_bare_hashes_for_a_witness_need_no_kept_head() -> None:
    document = json.loads(FILE)
    between = consistency_between(MemorySource(LEDGER.data), 5, 9)
    assert [digest.hex() for digest in between] == document["consistency"]
