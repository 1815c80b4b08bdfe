"""A run that is in the ledger is known by its receipt, whatever its folder is called now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli.import_ import held_against
from k3_ledger.verify.polaris import ImportItem, audit, import_marks, parse_log, to_import
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, signed
from tests.verify.polaris.test_same_receipt import refused

if TYPE_CHECKING:
    from tests.verify.polaris.make_log import Draft

Files = dict[str, bytes]


def items(files: Files) -> list[ImportItem]:
    return list(to_import(parse_log(files), files, audit(files)))


def ledger_of(files: Files) -> Any:
    return {item.name: [(number, json.loads(json.dumps(item.body)))] for number, item in enumerate(items(files), 2)}


def renamed(files: Files, names: dict[str, str]) -> Files:
    out = {}
    for path, data in files.items():
        first, _, rest = path.partition("/")
        folder, _, name = rest.partition("/")
        out[f"{first}/{names.get(folder, folder)}/{name}" if first == "runs" else path] = data
    return out


def folders(files: Files) -> list[str]:
    return sorted({path.split("/")[1] for path in files if path.startswith("runs/")})


def unlisted() -> Draft:
    """Receipts of one id, in folders with names of their own, and no listing that would go on naming these."""
    log = refused()
    log.ledger = log.listed = False
    return log


STARTS = [make_log.draft, signed, unlisted]


@pytest.mark.parametrize("name", ["r{}", "a b {}"])
@pytest.mark.parametrize("start", STARTS)
def test_a_log_whose_folders_were_renamed_is_known(start: Any, name: str) -> None:
    files = make_log.build(start())
    again = renamed(files, {folder: name.format(number) for number, folder in enumerate(folders(files))})
    found = held_against(ledger_of(files), items(again))
    assert (len(found.new), found.differing) == (0, ())
    assert found.known == len(items(files))


@pytest.mark.parametrize("file", ["result.json", "receipt.json", "eval.log"])
@pytest.mark.parametrize("start", STARTS)
def test_one_that_was_renamed_and_edited_differs(start: Any, file: str) -> None:
    files = make_log.build(start())
    known = ledger_of(files)
    path = path_of(files, 2, file)
    old = path.split("/")[1]
    files[path] = files[path].replace(b"12.6", b"99.0")
    found = held_against(known, items(renamed(files, {old: "other"})))
    assert found.new == []
    assert [finding.message for finding in found.differing] == [
        f"other: known, but {file} differs from what was imported"
    ]


@pytest.mark.parametrize("by", [-64, -60, -4, -1, 1, 4, 44])
@pytest.mark.parametrize("start", [make_log.draft, unlisted])
def test_one_that_was_renamed_and_whose_nonce_ends_elsewhere_differs(start: Any, by: int) -> None:
    """The digest of nonce and key comes out, wherever one ends and the other begins."""
    files = make_log.build(start())
    known = ledger_of(files)
    old = path_of(files, 2, "receipt.json").split("/")[1]

    def move(body: dict[str, Any]) -> None:
        tdx = body["tdx"]
        text, end = tdx["nonce"] + tdx["e2e_pubkey_b64"], len(tdx["nonce"]) + by
        tdx["nonce"], tdx["e2e_pubkey_b64"] = text[:end], text[end:]

    edit(files, path_of(files, 2, "receipt.json"), move)
    found = held_against(known, items(renamed(files, {old: "other"})))
    assert found.new == []
    assert [finding.message for finding in found.differing] == [
        "other: known, but receipt.json differs from what was imported"
    ]


@pytest.mark.parametrize("start", STARTS)
def test_another_receipt_of_the_same_id_is_another_run(start: Any) -> None:
    """The control: refusals that print the same have one id, each its own nonce and result."""
    files = make_log.build(start())
    known = ledger_of(files)
    kept = {name: entries for name, entries in known.items() if entries[0][0] != 3}
    assert len(kept) == len(known) - 1
    again = renamed(files, {folder: f"r{number}" for number, folder in enumerate(folders(files))})
    found = held_against(kept, items(again))
    assert (len(found.new), found.differing) == (1, ())


def test_what_stands_beside_a_known_run_under_a_name_of_its_own_is_added() -> None:
    files = make_log.build(make_log.draft())
    known = ledger_of(files)
    old = path_of(files, 2, "receipt.json").split("/")[1]
    files |= {path.replace(old, "copy"): data for path, data in files.items() if path.startswith(f"runs/{old}/")}
    edit(files, "runs/copy/result.json", lambda body: body.update(tps=99.0))
    found = held_against(known, items(files))
    assert ([item.body["foreign_id"] for item in found.new], found.differing) == (["copy"], ())


# -- without receipts -------------------------------------------------------------------------------------------------


def bare(*lost: str) -> Files:
    """Runs without a receipt, log texts of their own, and no listing; files that are called as said are not there."""
    log = make_log.sibling_draft()
    log.ledger = log.listed = False
    for run in log.runs:
        run.form = "none"
    return {path: data for path, data in make_log.build(log).items() if path.rpartition("/")[2] not in lost}


def in_a_round(*lost: str) -> Files:
    """The same with the log texts of rounds, each one's own."""
    log = make_log.draft()
    log.ledger = log.listed = log.linked = False
    for run in log.runs:
        run.form = "none"
    return {path: data for path, data in make_log.build(log).items() if path.rpartition("/")[2] not in lost}


@pytest.mark.parametrize(
    "files",
    [
        bare(),
        bare("log.txt", "attestation.json"),
        bare("result.json"),
        bare("result.json", "attestation.json"),
        in_a_round(),
    ],
)
def test_a_run_without_a_receipt_is_known_by_its_files(files: Files) -> None:
    known = ledger_of(files)
    assert {import_marks(item.body).seal for item in items(files)} == {None}
    names = {folder: f"r{number}" for number, folder in enumerate(folders(files))}
    found = held_against(known, items(renamed(files, names)))
    assert (found.new, found.differing) == ([], ())
    assert found.renamed == {new: old for old, new in names.items()}


@pytest.mark.parametrize("file", ["result.json", "attestation.json", "log.txt"])
def test_a_run_without_a_receipt_that_was_renamed_and_edited_differs(file: str) -> None:
    files = bare()
    known = ledger_of(files)
    old = folders(files)[1]
    files[f"runs/{old}/{file}"] += b" "
    found = held_against(known, items(renamed(files, {old: "other"})))
    assert found.new == []
    assert [one.message for one in found.differing] == [f"other: known, but {file} differs from what was imported"]


@pytest.mark.parametrize("side", ["log", "ledger"])
def test_a_run_whose_receipt_only_one_side_has_is_known_by_its_files(side: str) -> None:
    whole = make_log.build(make_log.draft())
    files = {path: data for path, data in whole.items() if not path.endswith("receipt.json")}
    names = {folder: f"r{number}" for number, folder in enumerate(folders(files))}
    before, now = (whole, files) if side == "log" else (files, whole)
    found = held_against(ledger_of(before), items(renamed(now, names)))
    assert found.new == []
    assert all("receipt.json differs" in one.message for one in found.differing)
    assert len(found.differing) == 3


def test_another_receipt_beside_the_same_result_is_another_run() -> None:
    """The control: what is refused can have one result twice."""
    log = make_log.draft()
    log.ledger = log.listed = False
    files = make_log.build(log)
    known = ledger_of(files)
    old = path_of(files, 2, "receipt.json").split("/")[1]
    edit(files, f"runs/{old}/receipt.json", lambda body: body["tdx"].update(nonce="ab" * 16))
    found = held_against(known, items(renamed(files, {old: "other"})))
    assert ([item.body["foreign_id"] for item in found.new], found.differing) == (["other"], ())


def test_a_text_of_a_round_is_no_runs_own() -> None:
    files = in_a_round("result.json")
    names = {folder: f"r{number}" for number, folder in enumerate(folders(files))}
    published = {path: data for path, data in files.items() if path.startswith("runs/")}
    found = held_against(ledger_of(published), items(renamed(published, names)))
    assert [len(import_marks(item.body).files) for item in items(published)] == [0, 0, 0]
    assert (len(found.new), found.renamed) == (3, {})


@pytest.mark.parametrize("twice", ["log", "ledger"])
def test_a_file_that_two_runs_have_tells_neither_apart(twice: str) -> None:
    one = {"runs/a/result.json": b'{"tps": 1.5}'}
    two = {"runs/b/result.json": b'{"tps": 1.5}', "runs/c/result.json": b'{"tps": 1.5}'}
    before, now = (one, two) if twice == "log" else (two, one)
    found = held_against(ledger_of(before), items(now))
    assert (len(found.new), found.differing, found.renamed) == (len(now), (), {})


def test_a_name_that_the_log_still_has_is_of_the_run_of_that_name() -> None:
    before = {"runs/a/result.json": b'{"tps": 1.5}'}
    now = {"runs/a/result.json": b'{"tps": 2.5}', "runs/b/result.json": b'{"tps": 1.5}'}
    found = held_against(ledger_of(before), items(now))
    assert [item.body["foreign_id"] for item in found.new] == ["b"]
    assert [one.message.partition(":")[0] for one in found.differing] == ["a"]


def test_two_folders_of_one_receipt_are_both_known_under_other_names() -> None:
    files = make_log.build(make_log.draft())
    old = path_of(files, 2, "receipt.json").split("/")[1]
    files |= {path.replace(old, "copy"): data for path, data in files.items() if path.startswith(f"runs/{old}/")}
    edit(files, "runs/copy/result.json", lambda body: body.update(tps=99.0))
    known = ledger_of(files)
    found = held_against(known, items(renamed(files, {"copy": "x2", old: "x1"})))
    assert (found.new, found.differing) == ([], ())


def test_a_round_of_a_log_whose_runs_are_known_by_their_receipts_is_held_against_the_one_that_is_known() -> None:
    files = make_log.build(make_log.draft())
    known = ledger_of(files)
    (path,) = [path for path in files if path.startswith("rounds/")]
    again = renamed(files, {folder: f"r{number}" for number, folder in enumerate(folders(files))})
    again[path] += b"more\n"
    found = held_against(known, items(again))
    assert found.new == []
    assert [finding.message.partition(":")[0] for finding in found.differing] == [path.rpartition("/")[0]]


@pytest.mark.parametrize("nothing", [b"", b"{}", b"[]\n"])
@pytest.mark.parametrize("file", ["eval.log", "attestation.json"])
def test_a_file_that_says_nothing_makes_no_run_another(file: str, nothing: bytes) -> None:
    def log(name: str, tps: int) -> Files:
        result = json.dumps({"run_id": name, "tps": tps}).encode()
        return {f"runs/{name}/result.json": result, f"runs/{name}/{file}": nothing}

    found = held_against(ledger_of(log("a", 1)), items(log("b", 2)))
    assert ([item.body["foreign_id"] for item in found.new], found.known, found.differing) == (["b"], 0, ())
