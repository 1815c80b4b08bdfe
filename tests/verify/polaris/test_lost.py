"""Evidence that was removed or broken is not checked, and counted so: destroying it betters no count of an audit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.verify.polaris import AuditReport

Files = dict[str, bytes]
QUOTED = 12
"""Checks of a receipt with a quote, whether or not they can be made here."""
OPEN = 3
"""Those of the made-up log that cannot be made of a receipt that is there."""


def whole(form: str = "tdx") -> Files:
    log = make_log.draft()
    for run in log.runs:
        run.form = form
    return make_log.build(log)


def digests(report: AuditReport) -> int:
    return sum(row.passed + row.failed + row.not_checked for row in report.hashes)


def told(report: AuditReport) -> set[str]:
    return {finding.code.name.removeprefix("FOREIGN_") for finding in report.findings}


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "half of it": lambda data: data[: len(data) // 2],
    "nothing": lambda _: b"",
    "a bracket": lambda _: b"[",
    "a list": lambda _: b"[]",
    "no text": lambda _: b"\xff\xfe",
    "too long": lambda data: data + b" " * 70_000_000,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_receipt_that_cannot_be_read_is_not_checked(how: str) -> None:
    files = whole()
    before = audit(files)
    files[path_of(files, 2, "receipt.json")] = BROKEN[how](files[path_of(files, 2, "receipt.json")])
    after = audit(files)
    assert digests(after) == digests(before)
    assert after.not_checked == before.not_checked + QUOTED - OPEN
    assert all(("the receipt cannot be read", 1) in row.reasons for row in after.hashes)
    assert after.exit_code == 1
    assert dict(after.inventory)["receipts with a TDX quote"] == 2


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", ["result.json", "ledger.jsonl", "index.json"])
def test_another_record_that_cannot_be_read_is_counted(name: str, how: str) -> None:
    files = whole()
    path = path_of(files, 2, name) if name == "result.json" else name
    data = BROKEN[how](files[path])
    if name == "ledger.jsonl":  # a line of it
        data = files[path].splitlines(keepends=True)[0] + data.replace(b"\n", b" ") + b"\n"
    if how == "a list" and name == "index.json":
        data = b"{}"
    files[path] = data
    report = audit(files)
    empty = name == "ledger.jsonl" and not data.splitlines()[-1].strip()
    assert report.unusable == (0 if empty else 1) == report.not_checked - audit_of_the_rest(files, path).not_checked


def audit_of_the_rest(files: Files, path: str) -> AuditReport:
    """The same without the record, or without its last line."""
    rest = dict(files)
    lines = rest.pop(path).splitlines(keepends=True)
    return audit(rest | ({path: b"".join(lines[:1])} if path == "ledger.jsonl" else {}))


def test_a_log_text_that_is_cut_and_a_row_that_names_nothing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    files = whole()
    files["ledger.jsonl"] += b'{"tps": 1}\n'
    assert audit(files).unusable == 1
    monkeypatch.setattr("k3_ledger.verify.polaris.logtext.MAX_BYTES", len(files[path_of(files, 2, "eval.log")]) - 1)
    cut = [path for path, data in files.items() if path.endswith("eval.log") and len(data) > 1700]
    assert audit(files).unusable == 1 + sum(p.code.name == "JSON_TOO_LONG" for p in audit(files).findings) > 1
    assert cut is not None


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
def test_a_receipt_that_is_named_and_gone_is_not_checked(form: str) -> None:
    files = whole(form)
    before = audit(files)
    del files[path_of(files, 3, "receipt.json")]  # the newest: nothing links to it
    after = audit(files)
    assert digests(after) == digests(before)
    assert after.not_checked > before.not_checked
    assert after.exit_code == 4
    assert "RECEIPT_GONE" in told(after)
    assert "receipts with" in str(after.inventory)


STRIPPED = {"tdx": ("tdx", "attestation_type"), "ed25519": ("signature", "public_key")}


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
def test_a_receipt_without_what_makes_its_form_is_not_checked(form: str) -> None:
    files = whole(form)
    before = audit(files)
    path = path_of(files, 2, "receipt.json")
    receipt = json.loads(files[path])
    files[path] = make_log.spell({name: value for name, value in receipt.items() if name not in STRIPPED[form]})
    after = audit(files)
    assert digests(after) == digests(before)
    assert all(("the receipt has neither form", 1) in row.reasons for row in after.hashes)
    assert (after.exit_code, "SHAPE" in told(after)) == (1, True)
    assert dict(after.inventory)["receipts with neither"] == 1


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
@pytest.mark.parametrize("change", ["none", "stripped", "broken", "gone"])
def test_the_inventory_adds_up(form: str, change: str) -> None:
    files = whole(form)
    path = path_of(files, 2, "receipt.json")
    if change == "stripped":
        files[path] = b'{"polaris_version": 1}'
    elif change == "broken":
        files[path] = b"["
    elif change == "gone":
        del files[path]
    told = dict(audit(files).inventory)
    names = (
        "receipts with a TDX quote",
        "receipts with an Ed25519 signature",
        "receipts with neither",
        "runs without a receipt",
    )
    assert sum(told[name] for name in names) == told["runs with a folder"] == 3


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
def test_all_receipts_gone_are_all_their_checks(form: str) -> None:
    files = {path: data for path, data in whole(form).items() if not path.endswith("receipt.json")}
    report = audit(files)
    assert [row.not_checked for row in report.hashes] == [3] * QUOTED  # of what form they were nobody can tell
    assert report.exit_code == 4


@pytest.mark.parametrize(
    ("record", "field", "value", "gone"),
    [
        ("result", "receipt_id", "ab" * 16, True),
        ("ledger", "receipt_id", "ab" * 16, True),
        ("ledger", "attestation_type", "tdx-quote", True),
        ("ledger", "attestation_type", "NONE", False),
        ("ledger", "attestation_type", None, False),
        ("index", "polaris_receipt_id", "8dd8d6f26031092a", True),
        ("index", "polaris", "", False),
        ("index", "polaris_receipt_id", "", False),
    ],
)
def test_a_receipt_is_missed_where_a_record_names_it(record: str, field: str, value: object, gone: bool) -> None:
    row = {"run_id": "abc"} | ({field: value} if record != "result" else {})
    files = {"runs/abc/result.json": make_log.spell({"tps": 1.5} | ({field: value} if record == "result" else {}))}
    files |= {"ledger.jsonl": make_log.spell(row) + b"\n"} if record == "ledger" else {}
    files |= {"index.json": json.dumps([row]).encode()} if record == "index" else {}
    report = audit(files)
    assert ("RECEIPT_GONE" in told(report)) is gone
    assert digests(report) == (QUOTED if gone else 0)
    assert report.exit_code == (4 if gone else 0)


def test_the_finding_stands_where_the_receipt_is_named() -> None:
    files = whole()
    path = path_of(files, 2, "result.json")
    del files[path_of(files, 2, "receipt.json")]
    (finding,) = (f for f in audit(files).findings if f.code.name == "FOREIGN_RECEIPT_GONE")
    assert (finding.position.source, finding.position.field) == (path, "receipt_id")


def test_a_run_that_is_only_listed_has_its_checks_counted() -> None:
    files = whole()
    before = audit(files)
    folder = path_of(files, 2, "").rstrip("/")
    after = audit({path: data for path, data in files.items() if not path.startswith(folder)})
    assert digests(after) == digests(before)
    assert after.not_checked == before.not_checked + QUOTED - OPEN
    assert "RECEIPT_GONE" not in told(after)  # the whole run is


@pytest.mark.parametrize("name", ["receipt.json", "result.json"])
@pytest.mark.parametrize("how", ["gone", "broken"])
def test_no_count_of_what_was_not_checked_falls_on_the_real_log(
    name: str, how: str, test_data: Callable[..., Path]
) -> None:
    root = test_data("data", "sparkinfer-k3-log")
    files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.json*")) if path.is_file()}
    before = audit(files)
    path = next(path for path in files if path.endswith(name) and path.replace(name, "result.json") in files)
    if how == "gone":
        del files[path]
    else:
        files[path] = b"["
    after = audit(files)
    assert digests(after) >= digests(before)
    assert name == "result.json" or after.not_checked > before.not_checked
    assert sum(row.not_checked for row in after.hashes) > sum(row.not_checked for row in before.hashes)


def test_no_size_is_stated_of_what_was_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    files = whole()
    sizes = {len(files[path_of(files, 2, name)]) for name in ("receipt.json", "eval.log")}
    monkeypatch.setattr("k3_ledger.verify.polaris.logtext.MAX_BYTES", 1000)
    monkeypatch.setattr("k3_ledger.verify.polaris.foreign_json.MAX_BYTES", 1000)
    found = {f.message for f in audit(files).findings if f.code.name == "JSON_TOO_LONG"}
    assert found == {
        "log of more than 1000 bytes, the first of which are read",
        "document of more than 1000 bytes, and no such is read",
    }
    assert min(sizes) > 1000
