"""A run that is in the ledger is known by its receipt, whatever its folder is called now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli.import_ import held_against
from k3_ledger.verify.polaris import ImportItem, audit, import_seal, parse_log, to_import
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


def test_a_run_without_a_receipt_is_known_by_its_name_alone() -> None:
    files = make_log.build(make_log.draft())
    for path in [path for path in files if path.endswith("receipt.json")]:
        del files[path]
    assert {import_seal(item.body) for item in items(files)} == {None}
    again = renamed(files, {folders(files)[0]: "other"})
    assert [item.body["foreign_id"] for item in held_against(ledger_of(files), items(again)).new] == ["other"]


def test_a_round_of_a_log_whose_runs_are_known_by_their_receipts_is_held_against_the_one_that_is_known() -> None:
    files = make_log.build(make_log.draft())
    known = ledger_of(files)
    (path,) = [path for path in files if path.startswith("rounds/")]
    again = renamed(files, {folder: f"r{number}" for number, folder in enumerate(folders(files))})
    again[path] += b"more\n"
    found = held_against(known, items(again))
    assert found.new == []
    assert [finding.message.partition(":")[0] for finding in found.differing] == [path.rpartition("/")[0]]
