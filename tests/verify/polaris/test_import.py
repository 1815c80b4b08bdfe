"""Import bodies: everything once, exact, within the limits of an entry, and recognised when it comes again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.schemas.bodies import ImportBody
from k3_ledger.schemas.envelope import MAX_ENTRY
from k3_ledger.verify.polaris import audit, compare_imported, import_key, import_name, parse_log, to_import
from k3_ledger.verify.polaris.spelling import sha256_hex
from k3_ledger.verify.polaris.to_import import (
    ARTIFACTS_OMITTED,
    MAX_ARTIFACTS,
    MAX_FIELDS,
    MAX_TEXT,
    OMITTED,
    as_file_name,
    as_name,
)
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, signed

if TYPE_CHECKING:
    from k3_ledger.verify.polaris import ImportItem


def items(files: dict[str, bytes]) -> list[ImportItem]:
    """Import items, each held to the model of its body and to the length of a line."""
    found = list(to_import(parse_log(files), files, audit(files)))
    for item in found:
        text = json.dumps(item.body, ensure_ascii=False, separators=(",", ":"))
        assert len(text.encode()) < MAX_ENTRY - 500
        body = ImportBody.model_validate_json(text)
        assert {artifact.sha256 for artifact in body.artifacts} == set(item.blobs)
        assert all(sha256_hex(data) == digest for digest, data in item.blobs.items())
    return found


def fields(item: ImportItem) -> dict[str, str]:
    return {pair["name"]: pair["value"] for pair in item.body["fields"]}


def test_a_run_is_imported_with_exact_text_and_original_bytes() -> None:
    log = make_log.draft()
    log.runs[0].attestation["environment"]["clocks_pinned"] = False
    files = make_log.build(log)
    first = items(files)[0]
    path = path_of(files, 1, "receipt.json")
    assert first.body["format"] == "polaris/1"
    assert first.body["foreign_id"] == path.split("/")[1]
    assert first.body["attestation"] == "tdx-quote"
    assert first.body["original_sha256"] == sha256_hex(files[path])
    assert first.body["findings"] == ["K3L-FOREIGN-CLOCKS-UNPINNED"]
    names = [artifact["name"] for artifact in first.body["artifacts"]]
    assert names[0] == path
    listed = files["index.json"][: files["index.json"].index(first.body["foreign_id"].encode())].count(b"\n")
    kept = {"receipt.json", "result.json", "eval.log", "ledger.jsonl@1", f"index.json@{listed}"}
    assert {name.rpartition("/")[2] for name in names} == kept
    row = next(a for a in first.body["artifacts"] if a["name"] == "ledger.jsonl@1")
    assert first.blobs[row["sha256"]] == files["ledger.jsonl"].splitlines()[0]


def test_fields_are_the_literals_of_the_originals() -> None:
    files = make_log.build(make_log.draft())
    path = path_of(files, 1, "result.json")
    files[path] = files[path].replace(b'"tps": 10.5', b'"tps": 1.0500E+1')
    figures = fields(items(files)[0])
    assert figures["result.tps"] == "1.0500E+1"
    assert figures["sealed.tps"] == "10.5"
    assert figures["receipt.attestation.code.commit"] == make_log.commit(1)
    assert figures["result.kl_depths.ctx128.kl"] == "1e-05"
    assert figures["result.pass"] == "true"
    assert figures["ledger.pr"] == "11"
    assert figures["log.evaluating.frontier"] == "10.0"
    assert figures["log.ctx128.kl"] == "0.000010000"
    assert figures["log.main.pin-kept.slot"] == make_log.SLOT
    assert "sealed.kl" not in figures
    assert "index.tps" not in figures


def test_rounds_advances_and_listed_runs_are_imported_too() -> None:
    log = make_log.draft()
    log.rounds["0123456789ab"] = ["frontier measurement failed after retries — no nvcc on PATH"]
    files = make_log.build(log)
    files["ledger.jsonl"] += b'{"run_id": "gone", "label": "S"}\n'
    found = {item.body["foreign_id"]: item for item in items(files)}
    assert fields(found["rounds/0123456789ab"])["log.main.failed"] == "after retries — no nvcc on PATH"
    assert fields(found["gone"]) == {"ledger.run_id": "gone", "ledger.label": "S"}
    assert found["gone"].body["attestation"] == "none"
    sibling = {item.body["foreign_id"]: item for item in items(make_log.build(make_log.sibling_draft()))}
    assert fields(sibling["ledger.jsonl@2"])["advance.new_frontier"] == "131.25"
    assert [item.body["attestation"] for item in sibling.values()] == ["tdx-quote", "tdx-quote", "none", "none", "none"]


def test_signed_receipts_say_so() -> None:
    assert {item.body["attestation"] for item in items(make_log.build(signed()))} == {"ed25519", "none"}
    bare = {"runs/a/receipt.json": b'{"receipt_id": "x"}'}
    assert items(bare)[0].body["attestation"] == "none"


def test_settings_and_verdicts_of_the_round_come_along() -> None:
    log = make_log.draft()
    assert log.runs[0].log is not None
    log.runs[0].log.insert(9, "   harness overrides from the controller: CEILING=5.0")
    log.runs[0].log.insert(-1, "!! #11: accuracy regression — blocks the merge")
    log.runs[0].log = [line.replace(" against frontier 10.0", "") for line in log.runs[0].log]
    figures = fields(items(make_log.build(log))[0])
    assert "log.evaluating.frontier" not in figures
    assert figures["log.override"] == "CEILING=5.0"
    assert figures["log.regression"] == "true"


def test_the_same_log_gives_the_same_keys_and_another_receipt_another_key() -> None:
    files = make_log.build(make_log.draft())
    keys = [item.key for item in items(files)]
    assert len(set(keys)) == len(keys)
    assert [import_key(json.loads(json.dumps(item.body))) for item in items(files)] == keys
    edit(files, path_of(files, 2, "receipt.json"), lambda body: body.update(note="edited"))
    edited = items(files)
    assert len(set(keys) & {item.key for item in edited}) == len(keys) - 1
    assert {item.name for item in edited} == {key[:2] for key in keys}


def test_an_advance_is_named_by_its_proof_and_a_run_never_by_a_field() -> None:
    names = [item.name for item in items(make_log.build(make_log.sibling_draft()))]
    assert len(set(names)) == len(names)
    assert {name for _, name in names[3:]} == {
        f"advance.proof https://example.org/?run={number:04d}-{make_log.commit(number)[:7]}" for number in (1, 2)
    }
    assert import_name({"format": "f", "foreign_id": "ledger.jsonl@4", "fields": []}) == ("f", "ledger.jsonl@4")


def test_of_several_rows_the_newest_is_copied() -> None:
    files = make_log.build(make_log.draft())
    row = json.loads(files["ledger.jsonl"].splitlines()[0])
    files["ledger.jsonl"] += json.dumps(row | {"tps": 10.6}).encode() + b"\n"
    first = items(files)[0]
    assert fields(first)["ledger.tps"] == "10.6"
    assert fields(first)["index.tps"] == "10.5"
    assert [a["name"] for a in first.body["artifacts"] if "jsonl" in a["name"]] == ["ledger.jsonl@1", "ledger.jsonl@4"]


def hostile(change: Any) -> ImportItem:
    files = make_log.build(make_log.draft())
    edit(files, path_of(files, 1, "result.json"), change)
    return items(files)[0]


def test_more_fields_than_an_entry_takes_are_counted() -> None:
    found = fields(hostile(lambda body: body.update({f"x{n}": n for n in range(1000)})))
    assert len(found) == MAX_FIELDS
    assert int(found[OMITTED]) > 700


def test_longer_fields_than_an_entry_takes_are_counted() -> None:
    found = fields(hostile(lambda body: body.update({"long": "x" * (MAX_TEXT + 1), "short": "x" * MAX_TEXT})))
    assert "result.long" not in found
    assert "result.short" in found
    many = fields(hostile(lambda body: body.update({f"x{n}": "\x00" * 4000 for n in range(20)})))
    assert int(many[OMITTED]) > 10


def test_more_listing_rows_than_an_entry_takes_are_counted() -> None:
    files = make_log.build(make_log.draft())
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    files["ledger.jsonl"] = lines[0] * 200 + b"".join(lines[1:])
    first = items(files)[0]
    assert len(first.body["artifacts"]) == MAX_ARTIFACTS
    assert fields(first)[ARTIFACTS_OMITTED] == str(200 + 4 - MAX_ARTIFACTS)


@pytest.mark.parametrize("name", ["-x", "", "a b", "é" * 300, "a" * 201, "x#1", "..", "\udc80"])
def test_names_that_an_entry_cannot_hold_are_replaced_by_ones_that_end_in_their_digest(name: str) -> None:
    for made in (as_name(name), as_file_name(name)):
        assert made.endswith(sha256_hex(name)[:16])
        assert as_name(made) == as_file_name(made) == made
    assert as_name("a:b/c") == "a:b/c"
    assert as_file_name("a/b-1.json@7") == "a/b-1.json@7"


def test_folders_with_odd_names_are_imported() -> None:
    files = {"runs/a b\u00e9/result.json": b'{"tps": 1.5}', "runs/.hidden/log.txt": b"x"}
    found = items(files)
    assert len({item.key for item in found}) == 2
    assert all(item.body["foreign_id"].startswith("x") for item in found)


def test_fields_that_do_not_follow_from_the_same_bytes_are_a_difference() -> None:
    first = items(make_log.build(make_log.draft()))[0]
    body = json.loads(json.dumps(first.body))
    assert compare_imported(first, 3, body) is None
    for number in range(6):
        body["fields"][number]["value"] += "1"
    found = compare_imported(first, 3, body)
    assert found is not None
    assert (found.code.id, found.position.index) == ("K3L-IMPORT-DIFFERS", 3)
    assert " and 2 more differ from what was imported" in found.message
    assert found.expected == f"{found.found}1"
