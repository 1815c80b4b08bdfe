"""What a revocation takes back counts for nothing: what such an entry says is held against nobody, its line is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.report import FINDINGS_KEPT_PER_CODE
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report, StepResult

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
THIEVES = {"runner": Key("stolen-runner"), "judge": Key("stolen-judge"), "log": Key("stolen-log")}
DATA = b"raw samples"
DIGEST = hashlib.sha256(DATA).hexdigest()
NOWHERE = "ab" * 32


def artifact(name: str, digest: str = DIGEST, size: int = len(DATA)) -> dict[str, Any]:
    return {"name": name, "sha256": digest, "size": size, "media_type": "application/octet-stream"}


def imported(original: str) -> dict[str, Any]:
    return {
        "artifacts": [artifact("original")], "attestation": "none", "fields": [], "findings": [], "foreign_id": "x",
        "format": "polaris/1", "original_sha256": original,
    }  # fmt: skip


def _backwards() -> dict[str, Any]:
    body = run_body(3)
    body["timing"][0]["samples"][1]["start_ns"] = 0
    return body


def _impossible() -> dict[str, Any]:
    body = run_body(4)
    body["timing"][0]["samples"][0]["count"] = 10**12
    return body


def merge(run: str) -> dict[str, Any]:
    return {"claimed": "60", "commit": "0" * 40, "pull_request": 1, "run": run, "slot": "frontier:decode@1/m/q/n"}


WRONG: dict[str, tuple[Code, str, str, Callable[[], dict[str, Any]]]] = {
    "clock": (Code.RECEIPT_CLOCK, "runner", "run", _backwards),
    "impossible": (Code.RECEIPT_IMPOSSIBLE, "runner", "run", _impossible),
    "bundle": (Code.RECEIPT_BUNDLE, "runner", "run", lambda: {**run_body(5), "bundle": "0" * 64}),
    "name": (Code.ARTIFACT_NAME_TAKEN, "runner", "run", lambda: run_body(6, artifacts=[artifact("x"), artifact("x")])),
    "import": (Code.IMPORT_ORIGINAL, "log", "import", lambda: imported(NOWHERE)),
    "reference": (
        Code.REFERENCE_UNKNOWN, "judge", "supersede", lambda: {"target": NOWHERE, "reason": "x", "replacement": None},
    ),
    "merge": (Code.REFERENCE_UNKNOWN, "judge", "merge", lambda: merge(NOWHERE)),
    "size": (Code.ARTIFACT_SIZE, "runner", "note", lambda: {"text": "x", "artifacts": [artifact("a", size=1)]}),
}  # fmt: skip


def begun() -> Builder:
    ledger = Builder().open()
    for role, key in THIEVES.items():
        ledger.add("key", key_body(key, role), ROOT)
    ledger.add("run", run_body(1, artifacts=[artifact("samples.json")]), RUNNER)
    return ledger


def check(ledger: Builder, **options: Any) -> Report:
    source = MemorySource(ledger.data, checkpoint=sign_head(ledger.lines, LOG), artifacts={DIGEST: DATA})
    return check_log(source, POLICY, Options(**options))


def step(report: Report, name: str) -> StepResult:
    return next(each for each in report.steps if each.name == name)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("vouched", [0, 1000])
def test_what_a_thief_said_is_held_against_nobody_once_it_is_taken_back(name: str, vouched: int) -> None:
    code, role, kind, body = WRONG[name]
    ledger = begun()
    at = len(ledger.lines)
    ledger.add(kind, body(), THIEVES[role], seal=name != "bundle")
    before = check(ledger, vouched=vouched)
    assert (before.exit_code, before.counts) == (1, {code: 1})
    assert [found.position.index for found in before.findings if found.code is code] == [at]
    assert before.covered == ({code: 1} if vouched else {})
    assert step(before, "receipts").failed == 1

    ledger.add("key", key_body(THIEVES[role], role, "revoke", revoked_from=at), ROOT)
    ledger.add("run", run_body(9, artifacts=[artifact("samples.json")]), RUNNER)
    after = check(ledger)
    assert code not in after.counts
    assert after.exit_code == 0
    assert (step(after, "receipts").failed, step(after, "receipts").checked) == (0, 2)
    assert step(after, "artifacts").checked == 1
    assert "taken back" not in step(after, "artifacts").detail


@pytest.mark.parametrize("name", WRONG)
def test_what_stands_in_front_of_the_revocation_is_still_held_against_the_log(name: str) -> None:
    code, role, kind, body = WRONG[name]
    ledger = begun()
    at = len(ledger.lines)
    ledger.add(kind, body(), THIEVES[role], seal=name != "bundle")
    ledger.add(kind, body(), THIEVES[role], seal=name != "bundle")
    ledger.add("key", key_body(THIEVES[role], role, "revoke", revoked_from=at + 1), ROOT)
    report = check(ledger)
    assert (report.exit_code, report.counts[code]) == (1, 1)
    assert [found.position.index for found in report.findings if found.code is code] == [at]


def test_a_line_that_was_taken_back_is_still_a_line() -> None:
    ledger = begun()
    at = len(ledger.lines)
    ledger.add("run", _backwards(), THIEVES["runner"])
    ledger.add("key", key_body(THIEVES["runner"], "runner", "revoke", revoked_from=at), ROOT)
    ledger.lines[at] = ledger.lines[at].replace(b'"batch":1', b'"batch":2')
    assert Code.SIGNATURE_MISMATCH in check(ledger).counts


def test_what_a_key_had_no_right_to_sign_is_cured_like_all_else_that_it_signed() -> None:
    ledger = begun()
    at = len(ledger.lines)
    for number in range(3):
        ledger.add("run", run_body(20 + number), THIEVES["judge"])
    assert check(ledger).counts == {Code.KEY_WRONG_ROLE: 3}
    part, all_of_it = at + 1, at
    for since, left in ((part, 1), (all_of_it, 0)):
        ledger.add("key", key_body(THIEVES["judge"], "judge", "revoke", revoked_from=since), ROOT)
        report = check(ledger)
        assert report.counts.get(Code.KEY_WRONG_ROLE, 0) == left
        assert [found.position.index for found in report.findings if found.code is Code.KEY_WRONG_ROLE] == [at] * left
        assert report.exit_code == bool(left)
        assert step(report, "receipts").checked == left + 1
        del ledger.lines[-1]


@pytest.mark.parametrize("processes", [1, 2])
def test_all_of_them_are_counted_and_the_first_spelled_out(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3_ledger.verify.scan.PARALLEL_BYTES", 0)
    ledger = begun()
    first = len(ledger.lines)
    for number in range(2 * FINDINGS_KEPT_PER_CODE):
        key = THIEVES["runner"] if number % 2 else RUNNER
        ledger.add("run", {**_backwards(), "bundle": "0" * 64}, key, seal=False)
    report = check(ledger, processes=processes, chunk_bytes=20_000)
    assert report.counts == {Code.RECEIPT_CLOCK: 100, Code.RECEIPT_BUNDLE: 100}
    for code in report.counts:
        at = [found.position.index for found in report.findings if found.code is code]
        assert at == list(range(first, first + FINDINGS_KEPT_PER_CODE))
    assert step(report, "receipts").failed == 100

    ledger.add("key", key_body(THIEVES["runner"], "runner", "revoke", revoked_from=first + 50), ROOT)
    report = check(ledger, processes=processes, chunk_bytes=20_000)
    assert report.counts == {Code.RECEIPT_CLOCK: 75, Code.RECEIPT_BUNDLE: 75, Code.KEY_DISOWNED: 25}
    assert (step(report, "receipts").failed, step(report, "receipts").checked) == (75, 76)
    at = [found.position.index for found in report.findings if found.code is Code.RECEIPT_CLOCK]
    assert at == list(range(first, first + 50))


def named(size: int) -> dict[str, Any]:
    return {"text": "x", "artifacts": [artifact("a", size=size)]}


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("liar_first", [True, False])
def test_the_bytes_say_whose_size_is_wrong(at_hand: bool, liar_first: bool) -> None:
    ledger = Builder().open()
    ledger.add("key", key_body(THIEVES["judge"], "judge"), ROOT)
    first = len(ledger.lines)
    notes = [(THIEVES["judge"], 12), (RUNNER, len(DATA))]
    for key, size in notes if liar_first else notes[::-1]:
        ledger.add("note", named(size), key)
    source = MemorySource(ledger.data, artifacts={DIGEST: DATA} if at_hand else {})
    report = check_log(source, POLICY)
    wrong = [found for found in report.findings if found.code is Code.ARTIFACT_SIZE]
    liar = first if liar_first and at_hand else first + 1
    assert [found.position.index for found in wrong] == [liar]
    assert (wrong[0].expected, wrong[0].found) == (("12", "11") if liar_first and not at_hand else ("11", "12"))
    assert Code.ARTIFACT_MISMATCH not in report.counts
    assert step(report, "artifacts").failed == 0

    revoked = first if liar_first else first + 1
    ledger.add("key", key_body(THIEVES["judge"], "judge", "revoke", revoked_from=revoked), ROOT)
    report = check_log(MemorySource(ledger.data, artifacts={DIGEST: DATA} if at_hand else {}), POLICY)
    assert Code.ARTIFACT_SIZE not in report.counts
    assert step(report, "artifacts").checked == at_hand
    ledger.add("note", named(len(DATA)), JUDGE)  # whoever names it behind the revocation is right as well
    assert Code.ARTIFACT_SIZE not in check_log(MemorySource(ledger.data), POLICY).counts


def test_sizes_are_compared_where_no_artifact_is_read() -> None:
    ledger = Builder().open()
    ledger.add("note", named(12), JUDGE)
    ledger.add("note", named(len(DATA)), RUNNER)
    ledger.add("note", named(len(DATA)), RUNNER)
    report = check_log(MemorySource(ledger.data, artifacts={DIGEST: DATA}), POLICY, Options(artifacts=False))
    assert report.counts[Code.ARTIFACT_SIZE] == 1
    assert step(report, "artifacts").detail == "1 artifacts, not re-hashed on request"


def test_no_size_is_right_where_the_bytes_are_others() -> None:
    ledger = Builder().open()
    ledger.add("note", named(12), JUDGE)
    ledger.add("note", named(13), RUNNER)
    report = check_log(MemorySource(ledger.data, artifacts={DIGEST: DATA}), POLICY)
    assert {code: report.counts.get(code) for code in (Code.ARTIFACT_SIZE, Code.ARTIFACT_MISMATCH)} == {
        Code.ARTIFACT_SIZE: 1,
        Code.ARTIFACT_MISMATCH: 1,
    }


def test_nobody_is_asked_for_what_a_thief_alone_names() -> None:
    ledger = begun()
    at = len(ledger.lines)
    ledger.add("note", {"text": "x", "artifacts": [artifact("gone", "cd" * 32)]}, THIEVES["runner"])
    assert check(ledger).counts == {Code.ARTIFACT_MISSING: 1}
    ledger.add("key", key_body(THIEVES["runner"], "runner", "revoke", revoked_from=at), ROOT)
    report = check(ledger)
    assert Code.ARTIFACT_MISSING not in report.counts
    assert (step(report, "artifacts").checked, step(report, "artifacts").not_checked) == (1, 0)
    alone = Builder().open()
    alone.add("note", {"text": "x", "artifacts": [artifact("gone", "cd" * 32)]}, RUNNER)
    alone.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=len(alone.lines) - 1), ROOT)
    assert step(check(alone), "artifacts").detail == "artifacts are named by entries alone that count for nothing"


def test_an_import_that_is_wrong_by_itself_is_counted_once_where_originals_are_not_read() -> None:
    ledger = begun()
    ledger.add("import", imported(NOWHERE), LOG)
    ledger.add("import", imported(DIGEST), LOG)
    receipts = step(check(ledger, artifacts=False), "receipts")
    assert (receipts.checked, receipts.failed, receipts.not_checked) == (2, 1, 1)
    assert receipts.detail == "1 imports not held against their originals"
