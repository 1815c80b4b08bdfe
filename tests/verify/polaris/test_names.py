"""Names: a run may have a folder, an id of its own and its receipt's id, and any record may use any of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from k3_ledger.verify.polaris import audit, list_copies, parse_log, to_import
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

Files = dict[str, bytes]


def whole() -> Files:
    return make_log.build(make_log.draft())


def receipt_ids() -> list[str]:
    return [path_of(whole(), number, "").split("/")[1] for number in (1, 2, 3)]


def renamed(name_of: Callable[[int, str], str], files: Files | None = None) -> Files:
    """The log with its folders called otherwise, and nothing else changed."""
    new = {old: name_of(number, old) for number, old in enumerate(receipt_ids(), 1)}
    out = {}
    for path, data in (files or whole()).items():
        top, _, rest = path.partition("/")
        folder, _, file = rest.partition("/")
        out[f"runs/{new[folder]}/{file}" if top == "runs" else path] = data
    return out


def codes(files: Files) -> list[str]:
    return [finding.code.name.removeprefix("FOREIGN_") for finding in audit(files).findings]


def items(files: Files) -> list[dict[str, str]]:
    found = to_import(parse_log(files), files, audit(files))
    return [{field["name"]: field["value"] for field in item.body["fields"]} | item.body for item in found]


FOLDERS = {
    "a number": lambda number, _: f"run-{number}",
    "the id behind a word": lambda _, name: f"r-{name}",
    "half of the id": lambda _, name: name[:16],
    "the id in upper case": lambda _, name: name.upper(),
}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("field", ["run_id", "id", "receipt_id"])
def test_rows_are_of_the_folder_with_the_receipt_that_they_name(folder: str, field: str) -> None:
    files = renamed(FOLDERS[folder])
    for name in ("ledger.jsonl", "index.json"):
        files[name] = files[name].replace(b'"run_id"', f'"{field}"'.encode())
    report = audit(files)
    assert [finding.message for finding in report.findings] == []
    assert (report.checked, report.not_checked) >= (audit(whole()).checked - 20, audit(whole()).not_checked)
    assert all(len(run.ledger) == len(run.index) == 1 and run.evaluation for run in parse_log(files).runs)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_is_imported_once_with_what_its_row_says(folder: str) -> None:
    runs = [item for item in items(renamed(FOLDERS[folder])) if not item["foreign_id"].startswith("rounds/")]
    assert [item["ledger.pr"] for item in runs] == ["11", "12", "13"]
    assert [item["log.figures.tps"] for item in runs] == ["10.5", "12.6", "13.0"]
    assert {item["receipt.receipt_id"] for item in runs} == set(receipt_ids())


@pytest.mark.parametrize(("field", "wrong"), [("tps", 99.5), ("label", "XXL"), ("commit", "e" * 40), ("kl", 0.9)])
def test_a_row_is_held_against_the_run_that_it_names_by_its_receipt(field: str, wrong: object) -> None:
    files = renamed(FOLDERS["a number"])
    rows = [json.loads(line) for line in files["ledger.jsonl"].splitlines()]
    rows[1][field] = wrong
    files["ledger.jsonl"] = b"".join(make_log.spell(row) + b"\n" for row in rows)
    assert codes(files)
    assert set(codes(files)) <= {"CONTRADICTION", "COMMIT", "TIER", "SEALED_VERDICT"}


def test_rows_of_another_receipt_are_still_rows_without_a_run() -> None:
    files = renamed(FOLDERS["a number"])
    files["ledger.jsonl"] = files["ledger.jsonl"].replace(receipt_ids()[1].encode(), b"ab" * 16)
    assert [codes(files).count(code) for code in ("ROW_WITHOUT_RUN", "UNLISTED")] == [1, 2]


def test_a_row_that_names_another_receipt_than_the_folder_that_it_names_contradicts_it() -> None:
    files = renamed(FOLDERS["a number"])
    rows = [json.loads(line) for line in files["ledger.jsonl"].splitlines()]
    for number, row in enumerate(rows, 1):
        row |= {"run_id": f"run-{number}", "receipt_id": row["run_id"]}
    rows[1]["receipt_id"] = "ab" * 16
    files["ledger.jsonl"] = b"".join(make_log.spell(row) + b"\n" for row in rows)
    assert set(codes(files)) == {"CONTRADICTION"}


def test_a_row_with_an_unknown_name_is_found_by_the_receipt_beside_it() -> None:
    files = renamed(FOLDERS["a number"])
    rows = [json.loads(line) for line in files["ledger.jsonl"].splitlines()]
    for number, row in enumerate(rows, 1):
        row |= {"id": f"{number}", "receipt_id": row.pop("run_id")}
    files["ledger.jsonl"] = b"".join(make_log.spell(row) + b"\n" for row in rows)
    assert "ROW_WITHOUT_RUN" not in codes(files)
    assert "UNLISTED" not in codes(files)


def sibling(folder: Callable[[int], str]) -> Files:
    log = make_log.sibling_draft()
    for number, run in enumerate(log.runs, 1):
        run.folder = folder(number)
    files = make_log.build(log)
    rows = json.loads(files["index.json"])
    for row in rows:  # what the drafts say of themselves is left as it is, and the index follows it
        row["id"] = f"{row['pr'] - 10:04d}-{make_log.commit(row['pr'] - 10)[:7]}"
    return files | {"index.json": make_log.dump(rows)}


@pytest.mark.parametrize("named", ["index", "proof"])
def test_runs_are_found_by_the_id_that_their_results_state(named: str) -> None:
    expected = sorted(codes(sibling(lambda number: f"{number:04d}-{make_log.commit(number)[:7]}")))
    files = sibling(lambda number: f"folder-{number}")
    if named == "proof":
        del files["index.json"]
    assert sorted(codes(files)) == expected


def test_of_two_folders_with_one_receipt_the_fuller_one_has_the_row() -> None:
    files = renamed(FOLDERS["a number"])
    files["runs/a-copy/receipt.json"] = files["runs/run-2/receipt.json"]
    log = parse_log(files)
    assert [run.run_id for run in log.runs if not run.ledger] == ["a-copy"]
    assert list_copies(log, files) == {"a-copy": "run-2"}


def test_a_folder_comes_before_what_stands_in_another() -> None:
    first, second, _ = receipt_ids()
    files = whole()
    path = f"runs/{first}/result.json"
    files[path] = files[path].replace(first.encode(), second.encode())
    assert [run.ledger[0].text("run_id") for run in parse_log(files).runs] == receipt_ids()


def test_an_edit_in_a_row_is_of_the_run_by_any_name() -> None:
    files = renamed(FOLDERS["a number"])
    rows = [json.loads(line) for line in files["ledger.jsonl"].splitlines()]
    rows[0] |= {"superseded_by": receipt_ids()[1]}
    files["ledger.jsonl"] = b"".join(make_log.spell(row) + b"\n" for row in rows)
    assert codes(files) == ["EDITED_IN_PLACE"]


def test_rows_may_name_folders_that_results_do_not() -> None:
    expected = sorted(codes(sibling(lambda number: f"folder-{number}")))
    files = sibling(lambda number: f"folder-{number}")
    rows = json.loads(files["index.json"])
    for row in rows:
        row["id"] = f"folder-{row['pr'] - 10}"
    files["index.json"] = make_log.dump(rows)
    assert sorted(codes(files)) == expected
    result = json.loads(files["runs/folder-3/result.json"])
    del result["id"], files["runs/folder-3/log.txt"]
    files["runs/folder-3/result.json"] = make_log.dump(result)
    assert "CONTRADICTION" not in codes(files)
