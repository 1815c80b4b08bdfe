"""What an import copied out of its originals is held against them, field by field."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.bodies import ImportBody
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.polaris import audit, originals, parse_log, to_import
from k3_ledger.verify.polaris.originals import Originals
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ROOT, Builder, Key, key_body, sign_head, small_ledger
from tests.verify.polaris import make_log, modes
from tests.verify.polaris.cases import CASES, receipt
from tests.verify.polaris.test_real_log import directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.verify.polaris import ImportItem
    from k3_ledger.verify.report import Report

Body = dict[str, Any]


def imported(files: dict[str, bytes]) -> list[ImportItem]:
    return list(to_import(parse_log(files), files, audit(files)))


def check(item: ImportItem, body: Body | None = None) -> Outcome:
    """What becomes of an item's body, or of another one over its originals."""
    source = MemorySource(b"", artifacts=item.blobs)
    outcome, finding = Originals(source).check(ImportBody.model_validate_json(json.dumps(body or item.body)))
    assert (finding is not None) == (outcome is Outcome.FAIL)
    assert finding is None or finding.code is Code.IMPORT_FIELDS
    return outcome


LOGS: dict[str, Callable[[], dict[str, bytes]]] = {
    "whole": lambda: make_log.build(make_log.draft()),
    **{case.name: case.files for case in CASES},
    **{f"results of {name}": partial(lambda mode: make_log.build(modes.draft(mode)), name) for name in modes.MODES},
}


@pytest.mark.parametrize("log", LOGS)
def test_whatever_is_imported_follows_from_its_originals(log: str) -> None:
    found = [check(item) for item in imported(LOGS[log]())]
    assert found
    assert Outcome.FAIL not in found
    assert Outcome.PASS in found


def test_a_real_log_follows_from_its_originals(test_data: Callable[..., Path]) -> None:
    files = directory(test_data("data", "sparkinfer-k3-log"))
    assert {check(item) for item in imported(files)} == {Outcome.PASS}


def with_field(body: Body, number: int, **change: str) -> Body:
    fields = [dict(field) for field in body["fields"]]
    fields[number] |= change
    return body | {"fields": fields}


def test_every_field_is_held_against_the_originals() -> None:
    for item in imported(make_log.build(make_log.draft())):
        body = item.body
        assert check(item) is Outcome.PASS
        for number, field in enumerate(body["fields"]):
            assert check(item, with_field(body, number, value=field["value"] + "0")) is Outcome.FAIL, field
            assert check(item, with_field(body, number, name=field["name"] + "x")) is Outcome.FAIL, field
            left = [other for other in body["fields"] if other is not field]
            assert check(item, body | {"fields": left}) is Outcome.FAIL, field
        more = [*body["fields"], {"name": "result.made_up", "value": "1"}]
        assert check(item, body | {"fields": more}) is Outcome.FAIL
        assert check(item, body | {"attestation": "other"}) is Outcome.FAIL
        others = [one["sha256"] for one in body["artifacts"] if one["sha256"] != body["original_sha256"]]
        for digest in others:
            assert check(item, body | {"original_sha256": digest}) is Outcome.FAIL
        assert check(item, body | {"foreign_id": "rounds/" + "0" * 40 if item.is_round else "another"}) is Outcome.FAIL


def test_a_digest_that_does_not_come_out_is_not_kept_silent_on() -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda value: value["tdx"].update(nonce="0" * 64))
    item = imported(files)[0]
    codes = item.body["findings"]
    assert Code.FOREIGN_HASH.id in codes
    assert (
        check(item, item.body | {"findings": [code for code in codes if code != Code.FOREIGN_HASH.id]}) is Outcome.FAIL
    )
    assert check(item) is Outcome.PASS


@pytest.mark.parametrize(
    "change",
    [
        {"format": "polaris/2"},
        {"foreign_id": "xfolder@0123456789abcdef"},
        {"fields": [{"name": "import.artifacts_omitted", "value": "3"}]},
    ],
)
def test_what_is_not_all_here_by_its_own_name_is_not_checked(change: Body) -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    assert check(item, item.body | change) is Outcome.NOT_CHECKED


def test_an_original_that_is_missing_or_too_long_leaves_its_import_open(monkeypatch: pytest.MonkeyPatch) -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    for digest in item.blobs:
        left = {other: data for other, data in item.blobs.items() if other != digest}
        assert check(replace(item, blobs=left)) is Outcome.NOT_CHECKED
    monkeypatch.setattr(originals, "MAX_ORIGINAL", sum(map(len, item.blobs.values())) - 1)
    assert check(item) is Outcome.NOT_CHECKED


def test_originals_are_read_again_and_again_no_more_than_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    size = sum(len(data) for data in item.blobs.values())
    monkeypatch.setattr(originals, "MAX_AGAIN", 3 * size)
    body = ImportBody.model_validate_json(json.dumps(item.body))
    reading = Originals(MemorySource(b"", artifacts=item.blobs))
    assert [reading.check(body)[0] for _ in range(6)] == [Outcome.PASS] * 4 + [Outcome.NOT_CHECKED] * 2


def test_an_advance_is_known_by_its_line_and_read_without_the_lines_above_it() -> None:
    line = b'{"date":"2026-07-01","new_frontier":12.5,"prev_frontier":10.0,"proof":"runs/1"}'
    item = imported({"ledger.jsonl": b"\n\n" + line + b"\n"})[0]
    assert item.body["foreign_id"] == "ledger.jsonl@3"
    assert check(item) is Outcome.PASS
    assert check(item, with_field(item.body, 0, value="13")) is Outcome.FAIL


# ------------------------------------------------------------------------------------------------- in a verification


def ledger_of(items: list[ImportItem], **change: Any) -> tuple[Builder, dict[str, bytes]]:
    made, blobs = small_ledger(1), {}
    for item in items:
        made.add("import", item.body | change, LOG)
        blobs |= item.blobs
    return made, blobs


def verify(made: Builder, blobs: dict[str, bytes], **options: Any) -> Report:
    source = MemorySource(made.data, checkpoint=sign_head(made.lines), artifacts=blobs)
    return check_log(source, TrustPolicy(ROOT.public), Options(**options))


def step(report: Report) -> tuple[int, int, int, str]:
    (found,) = [result for result in report.steps if result.name == "receipts"]
    return found.checked, found.failed, found.not_checked, found.detail


def test_verification_holds_imports_against_their_originals() -> None:
    items = imported(make_log.build(make_log.draft()))
    count = len(items)
    made, blobs = ledger_of(items)
    assert step(verify(made, blobs)) == (1 + count, 0, 0, f"{count} imports held against their originals")
    said = f"{count} imports not held against their originals"
    for report in (verify(made, {}), verify(made, blobs, artifacts=False)):  # nothing is accused unread
        assert step(report) == (1, 0, count, said)
        assert report.exit_code is ExitCode.VERIFIED
    first = json.loads(json.dumps(items[0].body))
    (number,) = [at for at, field in enumerate(first["fields"]) if field["name"] == "result.tps"]
    first["fields"][number]["value"] = "999"
    made.add("import", first, LOG)
    report = verify(made, blobs)
    assert step(report)[:3] == (2 + count, 1, 0)
    (finding,) = [one for one in report.findings if one.code is Code.IMPORT_FIELDS]
    assert (finding.position.index, finding.position.field) == (len(made.lines) - 1, "body.fields")
    assert (finding.expected, finding.found) == (items[0].body["fields"][number]["value"], "999")
    assert report.exit_code is ExitCode.FALSE


def test_an_import_that_was_taken_back_is_held_against_nothing() -> None:
    items = imported(make_log.build(make_log.draft()))
    made, blobs = ledger_of(items, fields=[])
    since = len(made.lines) - len(items)
    assert step(verify(made, blobs))[1] == len(items)
    made.add("key", key_body(LOG, "log", "revoke", revoked_from=since), ROOT)
    report = verify(made, blobs)
    assert Code.IMPORT_FIELDS not in report.counts
    assert step(report)[:3] == (1, 0, 0)


def test_an_import_whose_original_is_none_of_its_artifacts_is_one_fault() -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    made, blobs = ledger_of([item], original_sha256="e" * 64)
    report = verify(made, blobs)
    assert step(report) == (2, 1, 0, "")
    assert report.counts[Code.IMPORT_ORIGINAL] == 1
    assert Code.IMPORT_FIELDS not in report.counts


def test_originals_that_are_no_part_of_a_log_hold_nothing() -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    artifacts = [{**artifact, "name": f"part/{number}"} for number, artifact in enumerate(item.body["artifacts"])]
    assert check(item, item.body | {"artifacts": artifacts}) is Outcome.FAIL


def test_a_proof_of_an_import_is_held_against_originals_that_somebody_brought() -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    for fields, outcome in ((item.body["fields"], (1, 0, 0)), (item.body["fields"][1:], (1, 1, 0))):
        made, blobs = ledger_of([item], fields=fields)
        source = MemorySource(made.data, checkpoint=sign_head(made.lines))
        proof = format_proof(prove_entry(source, len(made.lines) - 1))
        open_, held = (
            check_proof(proof, "one.proof", TrustPolicy(ROOT.public), artifacts=given)
            for given in (None, MemorySource(b"", artifacts=blobs))
        )
        assert step(open_)[:3] == (0, 0, 1)
        assert step(open_)[3].startswith("1 imports not held against their originals")
        assert step(held)[:3] == outcome
        assert (Code.IMPORT_FIELDS in held.counts) == bool(outcome[1])


def test_what_is_copied_under_this_name_is_frozen() -> None:
    """An import that was honest when it was made stays so: a reading that copies anything else has another name."""
    copied = [
        (item.body["format"], item.body["foreign_id"], item.body["attestation"], item.body["fields"])
        for log in ("whole", *(name for name in LOGS if name.startswith("results of ")))
        for item in imported(LOGS[log]())
    ]
    digest = hashlib.sha256(json.dumps(copied, sort_keys=True).encode()).hexdigest()
    assert digest == "71f10f120b71fd1233a8613d0def8197237ebcc7f8e31b45031d3ede766daa7a"


@pytest.mark.parametrize(
    "files",
    [
        {"ledger.jsonl": b'{"run_id":"rounds/x","tps":1}\n'},
        {"index.json": b'[{"id":"a","tps":1},\n{"id":"index.json@2","tps":1}]'},
        {"ledger.jsonl": b'{"run_id":"ledger.jsonl@1","tps":1}\n'},
    ],
)
def test_a_run_may_be_called_as_other_things_are(files: dict[str, bytes]) -> None:
    assert {check(item) for item in imported(files)} == {Outcome.PASS}


def test_an_import_by_nobody_is_held_against_nothing() -> None:
    item = imported(make_log.build(make_log.draft()))[0]
    made, blobs = small_ledger(1), dict(item.blobs)
    made.add("import", item.body | {"fields": []}, Key("nobody"))
    report = verify(made, blobs)
    assert step(report)[:3] == (1, 0, 0)
    assert Code.IMPORT_FIELDS not in report.counts
    assert step(verify(made, {}))[:3] == (1, 0, 0)
