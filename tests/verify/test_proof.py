"""A proof file stands on its own; what is wrong with one is said, and what it cannot show is never called ok."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.checkpoint import kept_path
from k3_ledger.ledger.core.proof import MAX_ENTRIES, format_proof
from k3_ledger.schemas.errors import LedgerError, ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.proof import check_proof, verify_proof
from k3_ledger.verify.prove import prove_entry, superseding
from k3_ledger.verify.report import Tally, VerificationError
from k3_ledger.verify.settle import required
from k3_ledger.verify.source import MemorySource
from tests import static_host
from tests.commands import runner
from tests.ledgers import (
    JUDGE,
    LOG,
    ORIGIN,
    ROOT,
    RUNNER,
    Builder,
    Key,
    bundle_digest,
    key_body,
    run_body,
    sign_head,
    small_ledger,
    threshold_body,
)
from tests.support import ROOT as TREE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)


def prove(ledger: Builder, index: int, **head: Any) -> bytes:
    return format_proof(prove_entry(MemorySource(ledger.data, checkpoint=ledger.head(**head)), index))


def edit(proof: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(proof)
    change(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check(proof: bytes, policy: TrustPolicy | None = POLICY) -> Report:
    return check_proof(proof, "entry.proof", policy)


@pytest.mark.parametrize("index", range(10))
def test_every_entry_of_a_ledger_can_be_proved_and_stands_alone(index: int) -> None:
    ledger = small_ledger()
    proof = prove(ledger, index)
    report = check(proof)
    assert (report.exit_code, report.findings, report.authenticated) == (0, (), True)
    assert report.head.size == 10
    assert verify_proof(proof, "entry.proof", POLICY).index == index


def test_what_a_proof_cannot_show_is_not_checked() -> None:
    ledger = small_ledger(1)
    artifact = {"name": "raw", "sha256": "ab" * 32, "size": 3, "media_type": "text/plain"}
    ledger.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    report = check(prove(ledger, 5))
    outcomes = {step.name: (step.outcome, step.not_checked) for step in report.steps}
    assert outcomes["chain"] == (Outcome.NOT_CHECKED, 1)
    assert outcomes["artifacts"] == (Outcome.NOT_CHECKED, 1)
    demanding = check(prove(ledger, 5), TrustPolicy(require=frozenset({"chain"})))
    assert demanding.exit_code == ExitCode.NOT_CHECKED
    (finding,) = [finding for finding in demanding.findings if finding.code is Code.REQUIRED_NOT_CHECKED]
    assert finding.message == "the trust policy requires the step 'chain', which this proof file cannot show in full"
    assert finding.advice.startswith("verify the ledger, a mirror or a bundle of it, or take 'chain' out of what")


def test_that_a_supersession_would_not_show_is_said_and_who_makes_a_proof_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = small_ledger(3)
    target = sha256(ledger.lines[4][9:-99]).hexdigest()
    ledger.add("note", {"text": f'"kind":"supersede" {target}', "refs": []}, JUDGE)
    for other in ("ab" * 32, target, target):
        ledger.add("supersede", {"target": other, "reason": "again", "replacement": None}, JUDGE)
    ledger.add("supersede", {"target": "cd" * 32, "reason": target, "replacement": None}, JUDGE)
    count = len(ledger.lines)
    damaged = ledger.lines[-1].replace(b'"reason":"', b'"reason":')
    source = MemorySource(b"".join([*ledger.lines, damaged]), checkpoint=ledger.head())
    assert superseding(source, ledger.lines[4].removesuffix(b"\n")) == [count - 3, count - 2]
    assert superseding(source, ledger.lines[5].removesuffix(b"\n")) == []
    step = next(step for step in check(prove(ledger, 4)).steps if step.name == "receipts")
    assert (step.outcome, step.detail) == (Outcome.PASS, "a later supersession would not show in a proof file")
    ledger.write(tmp_path)
    run = runner(monkeypatch, capsys)
    for index, said in ((4, (count - 3, count - 2)), (5, ())):
        done = run("prove", index, "-l", tmp_path, "-o", tmp_path / f"{index}.proof")
        notes = [
            f"note: entry {by} says that entry {index} is superseded, and the proof does not show it" for by in said
        ]
        assert (done.code, done.err.splitlines()) == (0, notes)


STRANGER = Key("stranger")


def revoke(ledger: Builder, key: Key, role: str, start: int) -> None:
    ledger.add("key", key_body(key, role, "revoke", revoked_from=start), ROOT)


def by_a_thief(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, JUDGE)
    revoke(ledger, JUDGE, "judge", len(ledger.lines) - 1)
    return False


def in_front_of_the_theft(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, JUDGE)
    ledger.add("supersede", body | {"target": "ab" * 32}, JUDGE)
    revoke(ledger, JUDGE, "judge", len(ledger.lines) - 1)
    return True


def by_a_key_that_a_thief_enrolled(ledger: Builder, body: dict[str, Any]) -> bool:
    spare = Key("spare root")
    ledger.add("key", key_body(spare, "root"), ROOT)
    start = len(ledger.lines)
    ledger.add("key", key_body(STRANGER, "judge"), spare)
    ledger.add("supersede", body, STRANGER)
    revoke(ledger, spare, "root", start)
    return False


def by_a_stranger(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, STRANGER)
    return False


def by_a_stranger_who_enrolled_himself(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("key", key_body(STRANGER, "judge"), STRANGER)
    ledger.add("supersede", body, STRANGER)
    return False


def by_a_runner_of_another_role(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, LOG)
    return False


def by_a_key_before_it_was_enrolled(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, STRANGER)
    ledger.add("key", key_body(STRANGER, "judge"), ROOT)
    return False


def by_a_key_that_was_retired(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("key", key_body(JUDGE, "judge", "revoke"), ROOT)
    ledger.add("supersede", body, JUDGE)
    return False


def in_another_ones_name(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("supersede", body, JUDGE)
    ledger.lines[-1] = ledger.lines[-1].replace(b'"reason":"a', b'"reason":"b')
    return False


def by_a_key_that_was_enrolled_later(ledger: Builder, body: dict[str, Any]) -> bool:
    ledger.add("key", key_body(STRANGER, "judge"), ROOT)
    ledger.add("supersede", body, STRANGER)
    return True


@pytest.mark.parametrize(
    "say",
    [
        by_a_thief, in_front_of_the_theft, by_a_key_that_a_thief_enrolled, by_a_stranger,
        by_a_stranger_who_enrolled_himself, by_a_runner_of_another_role, by_a_key_before_it_was_enrolled,
        by_a_key_that_was_retired, in_another_ones_name, by_a_key_that_was_enrolled_later,
    ],
)  # fmt: skip
def test_what_counts_for_nothing_supersedes_nothing(say: Callable[[Builder, dict[str, Any]], bool]) -> None:
    ledger = small_ledger(3)
    subject = ledger.lines[4]
    body = {"target": sha256(subject[9:-99]).hexdigest(), "reason": "a", "replacement": None}
    counts = say(ledger, body)
    said = next(at for at, line in enumerate(ledger.lines) if b'"kind":"supersede"' in line)
    source = MemorySource(ledger.data, checkpoint=ledger.head())
    assert superseding(source, subject.removesuffix(b"\n")) == ([said] if counts else [])


def test_where_genesis_is_damaged_nobody_supersedes() -> None:
    ledger = small_ledger(3)
    subject = ledger.lines[4]
    ledger.add("supersede", {"target": sha256(subject[9:-99]).hexdigest(), "reason": "a", "replacement": None}, JUDGE)
    for first in (ledger.lines[1], b"{}\n"):
        source = MemorySource(b"".join([first, *ledger.lines[1:]]), checkpoint=ledger.head())
        assert superseding(source, subject.removesuffix(b"\n")) == []


def test_who_proves_from_a_mirror_hears_of_supersessions_or_that_nobody_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tiles are a few; where all is read, for an older head or since it is a log, the answer is the log's."""
    ledger = small_ledger(3)
    older, size = ledger.head(), len(ledger.lines)
    target = sha256(ledger.lines[4][9:-99]).hexdigest()
    ledger.add("supersede", {"target": target, "reason": "again", "replacement": None}, JUDGE)
    files = static_host.mirror_files(ledger) | {kept_path(size): older}
    static_host.lay_out(tmp_path / "log", static_host.ledger_files(ledger) | {kept_path(size): older})
    static_host.lay_out(tmp_path / "mirror", files)
    static_host.lay_out(tmp_path / "both", files | static_host.ledger_files(ledger))
    run = runner(monkeypatch, capsys)
    named = f"note: entry {size} says that entry 4 is superseded, and the proof does not show it"
    unseen = (
        "note: whether a later entry says that entry {} is superseded was not looked at: of a mirror only the tiles "
    )
    for index, more in ((4, [named]), (5, [])):
        for place, words, said in (
            ("log", (), more),
            ("both", (), more),
            ("mirror", (), [unseen.format(index) + "of the proof are read; prove it from the ledger to be told"]),
            ("mirror", ("--head", size), more),
        ):
            done = run("prove", index, "-l", tmp_path / place, "-o", tmp_path / "p", "--replace", *words)
            assert (done.code, done.err.splitlines()) == (0, said), (place, words)


def test_every_entry_of_the_published_ledger_can_be_proved_under_the_policy_that_is_published_with_it() -> None:
    policy = parse_policy((TREE / "published.toml").read_bytes())
    lines = (TREE / "published" / "ledger.jsonl").read_bytes()
    source = MemorySource(lines, checkpoint=(TREE / "published" / "checkpoint").read_bytes())
    assert check_log(source, policy).exit_code == 0
    for index in range(len(lines.splitlines())):
        report = check(format_proof(prove_entry(source, index)), policy)
        assert (report.exit_code, report.authenticated) == (0, True), index


def test_a_demand_that_a_whole_ledger_does_not_meet_speaks_of_no_proof() -> None:
    finding = required("artifacts", Tally(not_checked=2))
    assert (finding.message.endswith("which was not fully checked"), finding.hint) == (True, None)


def test_a_proof_carries_the_whole_way_from_the_root_through_rotated_keys() -> None:
    ledger = small_ledger(1)
    root, log, runner = Key("root-two"), Key("log-two"), Key("runner-two")
    ledger.add("key", key_body(root, "root", "rotate", replaces=ROOT.id), ROOT)
    ledger.add("key", key_body(log, "log", "rotate", replaces=LOG.id), root)
    ledger.add("key", key_body(runner, "runner", "rotate", replaces=RUNNER.id), root)
    ledger.add("run", run_body(1), runner)
    proof = prove(ledger, 8, key=log)
    assert [entry["index"] for entry in json.loads(proof)["entries"]] == [0, 1, 2, 5, 6, 7, 8]
    assert check(proof).exit_code == 0


def test_another_root_is_not_trusted() -> None:
    report = check(prove(small_ledger(), 5), TrustPolicy(root_public_key=Key("other").public))
    assert set(report.counts) == {Code.ROOT_NOT_TRUSTED}


def _drop(role: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        document["entries"] = [e for e in document["entries"] if f'"role":"{role}"' not in e["line"]]

    return change


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], Code]] = {
    "signer's enrolment left out": (_drop("runner"), Code.PROOF_INCOMPLETE),
    "log's enrolment left out": (_drop("log"), Code.PROOF_INCOMPLETE),
    "figure changed": (
        lambda d: d["entries"][-1].update(line=d["entries"][-1]["line"].replace('"count":10', '"count":11')),
        Code.SIGNATURE_MISMATCH,
    ),
    "figure changed under a good signature elsewhere": (
        lambda d: d["entries"][-1].update(line=small_ledger(9).lines[9][:-1].decode()),
        Code.CHAIN_INDEX,
    ),
    "inclusion hash changed": (
        lambda d: d["entries"][-1]["inclusion"].__setitem__(0, "00" * 32),
        Code.INCLUSION_MISMATCH,
    ),
    "inclusion hash left out": (lambda d: d["entries"][-1]["inclusion"].pop(), Code.PROOF_SHAPE),
    "checkpoint of a smaller tree": (
        lambda d: d.update(checkpoint=sign_head(small_ledger().lines[:9]).decode()),
        Code.INCLUSION_MISMATCH,
    ),
    "checkpoint by a stranger": (
        lambda d: d.update(checkpoint=small_ledger().head(key=Key("stranger")).decode()),
        Code.CHECKPOINT_SIGNATURE,
    ),
    "checkpoint that is none": (lambda d: d.update(checkpoint="hello"), Code.NOTE_MALFORMED),
    "line that is none": (lambda d: d["entries"][-1].update(line="hello"), Code.LINE_HEAD),
    "entry of an unknown kind": (
        lambda d: d["entries"][-1].update(line=d["entries"][-1]["line"].replace('"kind":"run"', '"kind":"ran"')),
        Code.SCHEMA_UNKNOWN_KIND,
    ),
    "genesis of another origin": (
        lambda d: d["entries"][0].update(line=Builder(origin="else").open().lines[0][:-1].decode()),
        Code.INCLUSION_MISMATCH,
    ),
    "genesis replaced by a key entry": (
        lambda d: d["entries"][0].update(line=small_ledger().lines[1][:-1].decode()),
        Code.CHAIN_INDEX,
    ),
    "schema of another version": (lambda d: d.update(schema="k3-ledger/proof/2"), Code.PROOF_FILE),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_proof_is_refused_under_the_code_of_what_was_done(name: str) -> None:
    change, code = TAMPERED[name]
    proof = prove(small_ledger(), 7)
    assert check(proof).exit_code == 0
    report = check(edit(proof, change))
    assert report.exit_code == ExitCode.FALSE
    assert code in report.counts
    with pytest.raises(VerificationError):
        verify_proof(edit(proof, change), "entry.proof", POLICY)


def test_one_changed_byte_anywhere_in_a_proof_is_exit_1() -> None:
    proof = prove(Builder().open().runs(1), 4)
    for at in range(len(proof)):
        changed = proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :]
        assert check(changed).exit_code == ExitCode.FALSE, at


def test_a_receipt_that_contradicts_itself_does_so_in_a_proof_too() -> None:
    ledger = Builder().open()
    body = run_body()
    body["timing"][0]["context_filled"] = 500
    body["bundle"] = bundle_digest(body)
    ledger.add("run", body, RUNNER)
    report = check(prove(ledger, 4))
    assert (set(report.counts), report.exit_code) == ({Code.RECEIPT_COUNTS}, ExitCode.FALSE)


def test_a_proof_carries_the_revocation_of_what_it_proves() -> None:
    ledger = small_ledger(3)
    ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=6), ROOT)
    assert check(prove(ledger, 5)).exit_code == 0
    report = check(prove(ledger, 6))
    assert (Code.PROOF_DISOWNED in report.counts, report.exit_code) == (True, ExitCode.FALSE)


def test_a_proof_carries_once_what_two_of_its_keys_rest_on() -> None:
    ledger, second = small_ledger(1), Key("root-two")
    ledger.add("key", key_body(second, "root"), ROOT)
    ledger.add("key", key_body(ROOT, "root", "revoke"), second)
    proof = prove_entry(MemorySource(ledger.data, checkpoint=ledger.head()), 4)
    assert check(format_proof(proof)).exit_code == 0
    assert [entry.index for entry in proof.entries] == [0, 1, 2, 4, 5, 6]


def test_a_line_that_does_not_follow_its_neighbour_is_found_in_a_proof_too() -> None:
    ledger = small_ledger(1)
    ledger.add("run", run_body(1), RUNNER, prev="00" * 32)
    proof = format_proof(prove_entry(MemorySource(ledger.data, checkpoint=ledger.head()), 5))
    assert Code.CHAIN_PREV not in check(proof).counts  # entry 4 is not in the file
    ledger = Builder().open()
    ledger.add("key", key_body(Key("a"), "runner"), ROOT)
    ledger.add("run", run_body(1), Key("a"), prev="00" * 32)
    assert Code.CHAIN_PREV in check(prove(ledger, 5)).counts


def test_a_quote_is_counted_as_not_checked_in_a_proof_too() -> None:
    ledger = small_ledger(1)
    body = {
        "format": "polaris/1", "foreign_id": "a1", "original_sha256": "ab" * 32, "attestation": "tdx-quote",
        "fields": [], "findings": [],
        "artifacts": [{"name": "raw", "sha256": "ab" * 32, "size": 3, "media_type": "text/plain"}],
    }  # fmt: skip
    ledger.add("import", body, LOG)
    steps = {step.name: step.not_checked for step in check(prove(ledger, 5)).steps}
    assert steps["attestations"] == 1


def test_a_key_entry_that_cannot_count_enrols_nobody_in_a_proof_either() -> None:
    ledger = Builder().open()
    ledger.add("key", key_body(Key("a"), "runner", key_id="0" * 64), ROOT)
    report = check(prove(ledger, 4))
    assert set(report.counts) == {Code.KEY_ID_MISMATCH}


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_in_words(data: bytes) -> None:
    assert check(data).exit_code == ExitCode.FALSE


def test_an_entry_that_is_not_there_or_not_covered_cannot_be_proved() -> None:
    ledger = small_ledger()
    for index, code in ((10, Code.NO_SUCH_ENTRY), (9, Code.NOT_CHECKPOINTED)):
        with pytest.raises(LedgerError) as caught:
            prove_entry(MemorySource(ledger.data, checkpoint=sign_head(ledger.lines[:9])), index)
        assert caught.value.code is code
    with pytest.raises(LedgerError) as caught:
        prove_entry(MemorySource(ledger.data), 1)
    assert caught.value.code is Code.NOT_CHECKPOINTED
    with pytest.raises(LedgerError) as caught:
        prove_entry(MemorySource(b"", checkpoint=ledger.head()), 0)
    assert caught.value.code is Code.EMPTY_LEDGER
    with pytest.raises(ValueError, match="negative"):
        prove_entry(MemorySource(ledger.data, checkpoint=ledger.head()), -1)


def test_lines_that_only_mention_a_key_entry_do_not_get_in_the_way() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    data = ledger.data + b'{"entry":{"kind":"key"}}\n'
    source = MemorySource(data, checkpoint=ledger.head())
    assert check(format_proof(prove_entry(source, 4))).exit_code == 0


# --------------------------------------------------------------------------------------------------- thresholds

SECOND, THIRD = Key("second"), Key("third")


def under_a_threshold() -> Builder:
    """Entries 5 and 6 enrol further roots, 7 asks for two of three, 8 enrols a runner, who signs 9."""
    ledger = small_ledger(1)
    ledger.add("key", key_body(SECOND, "root"), ROOT)
    ledger.add("key", key_body(THIRD, "root"), ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    ledger.act("key", key_body(Key("new"), "runner"), SECOND, THIRD)
    ledger.add("run", run_body(1), Key("new"))
    return ledger


@pytest.mark.parametrize("index", range(10))
def test_an_entry_under_a_threshold_is_proved_with_every_root_action(index: int) -> None:
    proof = prove(under_a_threshold(), index)
    report = check(proof)
    assert (report.exit_code, report.counts) == (0, {})
    assert {entry["index"] for entry in json.loads(proof)["entries"]} == {0, 1, 2, 3, 5, 6, 7, 8, index}


def full_of_actions() -> Builder:
    """Every kind of root action, endorsed, and receipts by a key that the last of them enrolled."""
    ledger = under_a_threshold()
    other, runner = Key("fourth"), Key("fresh")
    ledger.act("key", key_body(other, "root"), SECOND, THIRD)
    ledger.act("key", key_body(THIRD, "root", "revoke"), ROOT, other)
    ledger.act("threshold", threshold_body(1), other, ROOT)
    ledger.runs(1)
    ledger.act("key", key_body(Key("log-two"), "log", "rotate", replaces=LOG.id), other)
    ledger.act("key", key_body(runner, "runner"), other, SECOND)
    ledger.add("run", run_body(3), runner)
    return ledger


@pytest.mark.parametrize("missing", [1, 2])
def test_a_proof_that_lacks_entries_says_so_and_accuses_nobody(missing: int) -> None:
    ledger = full_of_actions()
    subject = len(ledger.lines) - 1
    proof = prove(ledger, subject, key=Key("log-two"))
    assert check(proof).exit_code == 0
    others = [entry["index"] for entry in json.loads(proof)["entries"] if entry["index"] not in (0, subject)]
    incomplete = 0
    for left_out in combinations(others, missing):
        less = edit(proof, lambda d: d.update(entries=[e for e in d["entries"] if e["index"] not in left_out]))  # noqa: B023
        report = check(less)
        if report.exit_code:  # else what is left shows it all the same
            unsigned = [one for one in report.findings if one.code is Code.CHECKPOINT_SIGNATURE]
            assert all("that the proof enrols" in one.message for one in unsigned)
            assert missing > 1 or not unsigned, left_out
            assert report.counts[Code.PROOF_INCOMPLETE] <= missing, left_out
            assert set(report.counts) - {Code.CHECKPOINT_SIGNATURE} == {Code.PROOF_INCOMPLETE}, left_out
            incomplete += 1
    assert incomplete >= len(others) * missing // 2


@pytest.mark.parametrize("missing", [False, True])
def test_an_action_that_counts_for_nothing_is_told_where_nothing_in_front_of_it_is_missing(missing: bool) -> None:
    """A stranger's endorsement, a forged one, and none where one more is needed."""
    stranger, new = Key("stranger"), key_body(Key("new"), "runner")
    for code in (Code.ENDORSER_UNKNOWN, Code.ENDORSEMENT_SIGNATURE, Code.THRESHOLD_NOT_MET, Code.KEY_UNKNOWN_TARGET):
        ledger = Builder().open()
        if missing:
            ledger.runs(1)
        ledger.act("key", key_body(SECOND, "root"), ROOT)
        ledger.act("threshold", threshold_body(2), ROOT, SECOND)
        if code is Code.ENDORSER_UNKNOWN:
            ledger.act("key", new, ROOT, SECOND, stranger)
        elif code is Code.ENDORSEMENT_SIGNATURE:
            ledger.add("key", {**ledger.endorsed("key", new, SECOND), "reason": "another"}, ROOT)
        elif code is Code.THRESHOLD_NOT_MET:
            ledger.act("key", new, ROOT)
        else:
            ledger.act("key", key_body(stranger, "judge", "revoke"), ROOT, SECOND)
        ledger.add("note", {"text": "x", "artifacts": []}, JUDGE)
        report = check(prove(ledger, len(ledger.lines) - 1))
        assert report.exit_code == ExitCode.FALSE
        assert set(report.counts) >= ({Code.PROOF_INCOMPLETE} if missing else {code}), code
        assert (Code.PROOF_INCOMPLETE in report.counts) is missing
        assert missing is not (code in report.counts)


@pytest.mark.parametrize("missing", [False, True])
def test_what_is_wrong_by_itself_is_told_whatever_is_missing(missing: bool) -> None:
    ledger = Builder().open()
    if missing:
        ledger.runs(1)
    ledger.act("key", key_body(Key("new"), "runner"), ROOT, ROOT)
    ledger.runs(1)
    report = check(prove(ledger, len(ledger.lines) - 1))
    assert set(report.counts) == {Code.ENDORSEMENT_REPEATED}


def test_a_proof_of_what_one_root_did_alone_under_a_threshold_does_not_stand() -> None:
    ledger = under_a_threshold()
    thief = Key("evil")
    ledger.add("key", key_body(thief, "runner"), ROOT)
    ledger.add("run", run_body(2), thief)
    report = check(prove(ledger, 11))
    # The key's entry is there, and does not count; whether a threshold was lowered in between the file does not show.
    assert (set(report.counts), report.exit_code) == ({Code.PROOF_INCOMPLETE}, ExitCode.FALSE)


def test_root_actions_behind_the_checkpoint_are_left_out_of_a_proof() -> None:
    ledger = under_a_threshold()
    head = ledger.head()
    ledger.act("key", key_body(Key("newer"), "runner"), SECOND, ROOT)
    proof = format_proof(prove_entry(MemorySource(ledger.data, checkpoint=head), 9))
    assert check(proof).exit_code == 0


def test_an_entry_that_rests_on_more_than_a_proof_holds_is_refused_in_words() -> None:
    ledger = under_a_threshold()
    for number in range(MAX_ENTRIES - 8):
        ledger.act("key", key_body(Key(f"judge-{number}"), "judge"), ROOT, SECOND)
    assert check(prove(ledger, 0)).exit_code == 0  # as many lines as there may be, 0 among them
    with pytest.raises(ProofError) as caught:
        prove(ledger, 4)
    assert (caught.value.code, caught.value.finding.position.index) == (Code.PROOF_TOO_LARGE, 4)


def test_a_root_left_below_the_threshold_is_a_warning_in_a_proof_too() -> None:
    ledger = under_a_threshold()
    ledger.act("key", key_body(THIRD, "root", "revoke"), SECOND, ROOT)
    ledger.act("key", key_body(SECOND, "root", "revoke"), SECOND, ROOT)
    report = check(prove(ledger, 4))
    assert (report.exit_code, report.counts, report.steps[4].failed) == (0, {Code.ROOTS_TOO_FEW: 1}, 0)


@pytest.mark.parametrize(("original", "code"), [("a" * 64, None), ("b" * 64, Code.IMPORT_ORIGINAL)])
def test_a_proved_import_holds_its_original(original: str, code: Code | None) -> None:
    ledger = small_ledger(1)
    artifact = {"name": "receipt.json", "sha256": "a" * 64, "size": 1, "media_type": "application/json"}
    body = {
        "format": "polaris/1", "foreign_id": "70e6a00a", "original_sha256": original, "attestation": "none",
        "fields": [], "findings": [], "artifacts": [artifact],
    }  # fmt: skip
    ledger.add("import", body, LOG)
    report = check(prove(ledger, 5))
    assert (report.exit_code, set(report.counts)) == ((1, {code}) if code else (0, set()))
    (receipts,) = [step for step in report.steps if step.name == "receipts"]
    found = (receipts.checked, receipts.failed, receipts.not_checked)
    assert found == ((1, 1, 0) if code else (0, 0, 1)), "whether its fields are those of its original is not shown"


def test_a_remembered_head_of_another_log_of_the_same_size_and_keys_accuses_nobody() -> None:
    ledger = small_ledger()
    other = sign_head(Builder(origin="example.org/other").open().runs(6).lines, origin="example.org/other")
    report = check_proof(prove(ledger, 5), "entry.proof", POLICY, (("head", other),))
    assert (set(report.counts), report.exit_code) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)
