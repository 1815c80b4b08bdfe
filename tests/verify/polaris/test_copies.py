"""Folders that only repeat what another folder of the log holds: no run of their own, whichever was there first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.replay import gather_foreign
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit, list_copies, parse_log, to_import
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, signed

if TYPE_CHECKING:
    from k3_ledger.verify.polaris import ImportItem

Files = dict[str, bytes]


def copied(files: Files, name: str, number: int = 2) -> str:
    """Copy a run's folder; the folder's own name."""
    folder = path_of(files, number, "receipt.json").rpartition("/")[0]
    files |= {path.replace(folder, f"runs/{name}"): data for path, data in files.items() if path.startswith(folder)}
    return folder.partition("/")[2]


def items(files: Files) -> dict[str, ImportItem]:
    return {item.body["foreign_id"]: item for item in to_import(parse_log(files), files, audit(files))}


@pytest.mark.parametrize("name", ["copy", "0" * 32, "z"])
@pytest.mark.parametrize("lost", [(), ("result.json",), ("result.json", "eval.log")])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("form", ["tdx", "ed25519"])
def test_a_copied_folder_is_imported_once_and_judged_once(
    name: str, lost: tuple[str, ...], listed: bool, form: str
) -> None:
    files = make_log.build(make_log.draft() if form == "tdx" else signed())
    if not listed:
        del files["ledger.jsonl"], files["index.json"]
    before = items(files)
    original = copied(files, name, 1)
    for file in lost:
        del files[f"runs/{name}/{file}"]
    found = items(files)
    assert list_copies(parse_log(files), files) == {name: original}
    assert list(found) == list(before)
    assert Code.FOREIGN_SAME_RECEIPT in {finding.code for finding in audit(files).findings}
    assert Code.FOREIGN_SAME_RECEIPT.id in found[original].body["findings"]
    assert found[original].body["artifacts"] == before[original].body["artifacts"]
    assert len(gather_foreign(found.values()).candidates) == len(gather_foreign(before.values()).candidates)


def test_of_many_copies_one_is_imported() -> None:
    files = make_log.build(make_log.draft())
    (original,) = {copied(files, name) for name in ("a", "b")}
    del files["runs/a/eval.log"]
    assert list_copies(parse_log(files), files) == {"a": original, "b": original}


def test_without_a_name_and_a_listing_the_fullest_is_the_original() -> None:
    files = make_log.build(make_log.draft())
    del files["ledger.jsonl"], files["index.json"]
    original = copied(files, "a")
    copied(files, "b")
    del files["runs/a/eval.log"]
    for path in [path for path in files if original in path]:
        del files[path]
    assert list_copies(parse_log(files), files) == {"a": "b"}


def test_of_two_that_are_alike_the_one_that_a_listing_names_is_the_original() -> None:
    files = make_log.build(make_log.draft())
    original = copied(files, "copy")
    for listing in ("ledger.jsonl", "index.json"):
        files[listing] = files[listing].replace(original.encode(), b"copy")
    assert list_copies(parse_log(files), files) == {original: "copy"}


def edit(files: Files, what: str) -> None:
    original = copied(files, "copy")
    path = f"runs/copy/{'receipt' if 'receipt' in what else 'result'}.json"
    if what == "another result":
        files[path] = files[path].replace(b'"tps": 12.6', b'"tps": 12.7')
    elif what == "another receipt":
        files[path] = files[path].replace(b'"polaris_version": 1', b'"polaris_version": 2')
    elif what == "a record that the other lacks":
        files["runs/copy/attestation.json"] = b"{}"
    elif what == "a record each":
        del files["runs/copy/eval.log"], files[f"runs/{original}/result.json"]
    elif what == "a row of its own":
        files["ledger.jsonl"] += json.dumps({"run_id": "copy", "tps": 12.6}).encode() + b"\n"
    else:
        files["index.json"] = files["index.json"].replace(b"[", b'[{"run_id": "copy"},', 1)


@pytest.mark.parametrize(
    "what",
    [
        "another result",
        "another receipt",
        "a record that the other lacks",
        "a record each",
        "a row of its own",
        "an index row",
    ],
)
def test_what_says_anything_of_its_own_is_imported(what: str) -> None:
    """The control: of these the ledger holds both, and whoever judges says which of them count."""
    files = make_log.build(make_log.draft())
    edit(files, what)
    assert list_copies(parse_log(files), files) == {}
    assert "copy" in items(files)


def test_receipts_without_an_id_and_records_without_a_receipt_are_nobodys_copies() -> None:
    for data in (b"{}", b"{", b'{"receipt_id": ""}', b'{"receipt_id": 7}'):
        files = {"runs/a/receipt.json": data, "runs/b/receipt.json": data}
        assert list_copies(parse_log(files), files) == {}
    files = {"runs/a/eval.log": b"of a round\n", "runs/b/eval.log": b"of a round\n"}
    assert list_copies(parse_log(files), files) == {}
    assert len(items(files)) == 2


def test_no_file_is_read_for_a_run_that_stands_alone() -> None:
    files = make_log.build(make_log.draft())
    log = parse_log(files)
    assert list_copies(log, {}) == {}
    copied(files, "a")
    with pytest.raises(KeyError):
        list_copies(parse_log(files), {})
