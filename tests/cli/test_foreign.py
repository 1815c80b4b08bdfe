"""Auditing and importing a foreign log from the command line."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import nacl.signing
import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.cli import import_ as import_module
from k3_ledger.cli.foreign import ForeignDirectory
from k3_ledger.cli.sources import DirectorySource
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import verify_log
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, receipt, signed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from k3_ledger.verify.polaris import ImportItem

KEY = bytes(nacl.signing.SigningKey(make_log.SEED).verify_key)


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def lay_out(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return lay_out(tmp_path / "log", make_log.build(make_log.draft()))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    for name in ("root", "log", "runner"):
        assert k3("keygen", tmp_path / f"{name}.pem").exit_code == 0
    made = k3(
        "init", tmp_path / "led", "--origin", "example.org/x", "--key", tmp_path / "root.pem",
        "--enrol", f"log={tmp_path / 'log.pub.pem'}", "--enrol", f"runner={tmp_path / 'runner.pub.pem'}",
    )  # fmt: skip
    assert made.exit_code == 0
    return tmp_path / "led"


def import_(log: Path, ledger: Path, *more: object, key: str = "log") -> Result:
    return k3("import", "polaris", log, "--into", ledger, "--key", ledger.parent / f"{key}.pem", *more)


def test_a_whole_log_is_exit_0(log: Path) -> None:
    result = k3("audit", "polaris", log)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("findings: 0 errors, 0 warnings, 0 notes\n")


def test_a_contradiction_is_exit_1_in_text_and_in_json(log: Path) -> None:
    line = (log / "ledger.jsonl").read_bytes()
    (log / "ledger.jsonl").write_bytes(line.replace(b'"tps": 12.6', b'"tps": 21.6'))
    text = k3("audit", "polaris", log)
    assert text.exit_code == 1
    assert "K3L-FOREIGN-CONTRADICTION" in text.stdout
    value = json.loads(k3("audit", "polaris", log, "--json").stdout)
    assert value["exit_code"] == 1
    assert [finding["code"] for finding in value["findings"]] == ["K3L-FOREIGN-CONTRADICTION"]
    verbose = k3("audit", "polaris", log, "--verbose")
    assert "hint:" in verbose.stdout
    assert len(verbose.stdout) > len(text.stdout)


@pytest.mark.parametrize("what", ["empty", "missing", "file"])
def test_what_is_no_run_log_is_exit_3(tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = k3("audit", "polaris", tmp_path / what)
    expected = Code.NOT_A_RUN_LOG if what == "empty" else Code.UNREADABLE
    assert code(result) is expected
    assert expected.info.exit == 3


def test_a_signer_is_named_by_hex_base64_or_file(tmp_path: Path) -> None:
    log = lay_out(tmp_path / "log", make_log.build(signed()))
    (tmp_path / "hex.pub").write_text(KEY.hex() + "\n", encoding="utf-8")
    (tmp_path / "base64.pub").write_text(make_log.b64(KEY) + "\n", encoding="utf-8")
    assert "FOREIGN-SIGNER-UNKNOWN" in k3("audit", "polaris", log).stdout
    for spec in (KEY.hex(), make_log.b64(KEY), tmp_path / "hex.pub", tmp_path / "base64.pub"):
        result = k3("audit", "polaris", log, "--public-key", spec)
        assert result.exit_code == 0
        assert "SIGNER" not in result.stdout
    other = k3("audit", "polaris", log, "--public-key", bytes(nacl.signing.SigningKey(bytes(32)).verify_key).hex())
    assert other.exit_code == 1
    assert "FOREIGN-SIGNER-OTHER" in other.stdout
    for spec in ("11" * 32, make_log.b64(b"\x01" + bytes(31))):
        assert k3("audit", "polaris", log, "--public-key", spec).exit_code == 2
    for spec in ("nonsense", log):
        assert isinstance(k3("audit", "polaris", log, "--public-key", spec).exception, LedgerError)


def _in_place_of(log: Path, name: str, what: str) -> None:
    """Put something else in the place of a part of the log; ``RUN`` in a name is the first run's folder."""
    place, kept = log / name, log.parent / "kept"
    if place.exists():
        place.rename(kept)
    if what == "link":
        place.symlink_to(kept)
    elif what == "dangling link":
        place.symlink_to(log.parent / "nowhere")
    elif what == "folder":
        place.mkdir()
    elif what == "full folder":
        lay_out(place, {"x.json": b"{}"})
    else:
        os.mkfifo(place)


RECORDS = ("ledger.jsonl", "index.json", "runs/RUN/receipt.json", "runs/RUN/result.json", "runs/RUN/eval.log")
PLACES = (
    *((name, "link") for name in RECORDS),
    *((name, what) for name in RECORDS[::2] for what in ("dangling link", "folder", "full folder", "pipe")),
    *((name, "link") for name in ("runs", "rounds", "runs/RUN", "runs/RUN/attestation.json", "runs/RUN/log.txt")),
    ("rounds/new", "link"),
    ("runs/.hidden", "full folder"),
)


@pytest.mark.parametrize(("name", "what"), PLACES, ids=lambda value: value.replace("/", "-"))
def test_what_stands_in_the_place_of_a_record_and_is_none_is_counted_said_and_decides(
    log: Path, ledger: Path, name: str, what: str
) -> None:
    run = next(path.name for path in sorted((log / "runs").iterdir()))
    for listing in () if name in RECORDS[:2] else RECORDS[:2]:
        (log / listing).unlink()  # so that nothing but the place itself tells of a run
    place = name.replace("RUN", run)
    _in_place_of(log, place, what)
    if name == "runs":
        lay_out(log, {"index.json": b'[{"id": "a"}]'})
    report = k3("audit", "polaris", log)
    value = json.loads(k3("audit", "polaris", log, "--json").stdout)
    wrong = any(finding["severity"] == "error" for finding in value["findings"])
    assert report.exit_code == value["exit_code"] == (1 if wrong else 4)
    found = [finding for finding in value["findings"] if finding["code"] == "K3L-FOREIGN-NOT-READ"]
    assert [finding["position"]["source"] for finding in found] == [place]
    assert value["inventory"]["files that were not read"] >= 1
    assert value["counts"]["not_checked"] >= 1
    assert f"{place} is a" in report.stdout.replace("\n           ", " ")
    assert "1  places of records at which nothing was read" in report.stdout
    made = import_(log, ledger, "--json")
    assert [finding["position"]["source"] for finding in json.loads(made.stdout)["not_read"]] == [place]
    assert (made.exit_code, f"note: {place} is a" in made.stderr) == (4, True)
    assert import_(log, ledger).exit_code == 4
    judged = k3("rescore", log, "--rule", "v0.2.1")
    assert (judged.exit_code in (1, 3), "K3L-FOREIGN-NOT-READ" in judged.stderr) == (True, True)


def test_links_hidden_folders_and_special_files_elsewhere_are_counted_and_nothing_more(
    log: Path, ledger: Path, tmp_path: Path
) -> None:
    secret = lay_out(tmp_path / "secret", {"result.json": b'{"tps": 1}'})
    run = next(path for path in sorted((log / "runs").iterdir()))
    for place in (log / "linked", log / "README.md", run / "notes.txt"):
        place.symlink_to(secret / "result.json")
    lay_out(log, {".git/config": b"x", "other/ledger.jsonl/x": b"x", f"runs/{run.name}/more/receipt.json": b"x"})
    os.mkfifo(log / "pipe")
    result = k3("audit", "polaris", log)
    assert result.exit_code == 0
    assert result.stderr == "note: 5 links, folders or special files were not looked into\n"
    value = json.loads(k3("audit", "polaris", log, "--json").stdout)
    assert (value["inventory"]["files that were not read"], value["findings"]) == (7, [])
    made = import_(log, ledger, "--json")
    assert (made.exit_code, made.stderr, json.loads(made.stdout)["not_read"]) == (0, "", [])


def test_a_file_that_becomes_a_link_is_not_followed(log: Path, tmp_path: Path) -> None:
    files = ForeignDirectory(log)
    name = next(iter(files))
    assert name in files
    assert len(files) == len(list(files))
    (log / name).unlink()
    (log / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError) as caught:
        files[name]
    assert caught.value.code is Code.UNREADABLE


def test_names_that_are_no_text_are_shown_escaped(log: Path) -> None:
    lay_out(log, {os.fsdecode(b"runs/odd\xff/result.json"): b'{"tps": 1.5}'})
    assert "runs/odd\\xff/result.json" in ForeignDirectory(log)
    assert k3("audit", "polaris", log, "--json").exit_code == 1


def test_more_files_than_a_log_has_are_refused(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3_ledger.cli.foreign.MAX_FILES", 3)
    assert code(k3("audit", "polaris", log)) is Code.UNREADABLE


def test_an_imported_log_verifies_and_a_second_import_adds_nothing(log: Path, ledger: Path) -> None:
    first = import_(log, ledger)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == "4 entries added, 0 were there already; 16 new artifacts\n"
    size = (ledger / "ledger.jsonl").stat().st_size
    again = import_(log, ledger)
    assert again.stdout == "nothing to add: all 4 entries of this log are in the ledger already\n"
    assert (ledger / "ledger.jsonl").stat().st_size == size
    verified = verify_log(DirectorySource(ledger))
    kinds = [entry.entry.kind for entry in verified]
    assert kinds == ["genesis", "key", "key", "import", "import", "import", "import"]


@pytest.mark.parametrize("off", [0, 1])
def test_an_artifact_to_which_an_entry_gives_another_size_is_not_imported(log: Path, ledger: Path, off: int) -> None:
    size = append_size(log, ledger, off)
    done = import_(log, ledger)
    assert code(done) == (Code.ARTIFACT_SIZE if off else None)
    assert ((ledger / "ledger.jsonl").stat().st_size == size, (ledger / "blobs").exists()) == (bool(off), not off)


def append_size(log: Path, ledger: Path, off: int) -> int:
    """Have another key give a receipt of the log another size; the size of the ledger's log then."""
    data = next(log.rglob("receipt.json")).read_bytes()
    named = {"media_type": "text/plain", "name": "a", "sha256": sha256(data).hexdigest(), "size": len(data) + off}
    body = ledger.parent / "body.json"
    body.write_text(json.dumps({"text": "x", "artifacts": [named]}))
    key = ledger.parent / "runner.pem"
    assert k3("append", "note", "--body", body, "--ledger", ledger, "--key", key).exit_code == 0
    return (ledger / "ledger.jsonl").stat().st_size


@pytest.mark.parametrize("off", [0, 1])
def test_a_size_that_an_entry_gives_while_originals_are_stored_counts_too(
    log: Path, ledger: Path, off: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Originals are stored in between two locks, and entries are appended under the second."""
    sizes, store = [], import_module._store

    def meanwhile(book: Any, items: list[ImportItem]) -> int:
        if not sizes:
            sizes.append(append_size(log, ledger, off))
        return store(book, items)

    monkeypatch.setattr(import_module, "_store", meanwhile)
    done = import_(log, ledger)
    assert code(done) == (Code.ARTIFACT_SIZE if off else None)
    assert ((ledger / "ledger.jsonl").stat().st_size == sizes[0]) is bool(off)


def with_fewer(log: Path, runs: int) -> Path:
    """The log as it was when it had fewer runs."""
    draft = make_log.draft()
    del draft.runs[runs:]
    return lay_out(log.parent / "earlier", make_log.build(draft))


def test_only_what_is_new_is_added(log: Path, ledger: Path) -> None:
    import_(with_fewer(log, 2), ledger)
    result = json.loads(import_(log, ledger, "--json").stdout)
    assert result == {
        "added": 1,
        "known": 3,
        "artifacts_added": 5,
        "artifacts_restored": 0,
        "differing": [],
        "copies": {},
        "renamed": {},
        "not_read": [],
        "errors": 0,
    }


RECEIPT_EDITS: dict[str, Callable[[Any], None]] = {
    "a field that nothing binds": lambda body: body["tdx"].update(cost_usd=9.0),
    "a field that was not there": lambda body: body.update(note="edited"),
    "a field that is compared": lambda body: body["attestation"]["verdict"].update(tps=999.0),
    "its own id": lambda body: body.update(receipt_id="0" * 32),
    "its quote": lambda body: body["tdx"].update(quote_b64="AAAA"),
}


@pytest.mark.parametrize("edit", RECEIPT_EDITS)
def test_an_edited_receipt_of_a_known_run_is_said_and_is_no_second_run(log: Path, ledger: Path, edit: str) -> None:
    import_(log, ledger)
    size = (ledger / "ledger.jsonl").stat().st_size
    files = make_log.build(make_log.draft())
    receipt(files, 2, RECEIPT_EDITS[edit])
    path = path_of(files, 2, "receipt.json")
    (log / path).write_bytes(files[path])
    again = import_(log, ledger)
    assert (again.exit_code, again.stdout) == (1, "nothing added: 1 of 4 known entries differ from what was imported\n")
    assert f"known, but {path} differs from what was imported [K3L-IMPORT-DIFFERS]" in again.stderr
    assert (ledger / "ledger.jsonl").stat().st_size == size


@pytest.mark.parametrize("name", ["receipt.json", "result.json", "eval.log", "all but the rows"])
def test_a_known_run_whose_original_went_away_is_no_second_run(log: Path, ledger: Path, name: str) -> None:
    import_(log, ledger)
    folder = next(path for path in sorted((log / "runs").iterdir()))
    for path in folder.iterdir():
        if path.name == name or " " in name:
            path.unlink()
    again = import_(log, ledger)
    assert (again.exit_code, again.stdout) == (1, "nothing added: 1 of 4 known entries differ from what was imported\n")


def test_an_edited_log_of_a_known_round_is_no_second_round(log: Path, ledger: Path) -> None:
    import_(log, ledger)
    path = next((log / "rounds").glob("*/eval.log"))
    path.write_bytes(path.read_bytes() + b"more\n")
    again = import_(log, ledger)
    assert again.exit_code == 1
    assert f"rounds/{path.parent.name}: known, but rounds/{path.parent.name}/eval.log differs" in again.stderr


def test_two_logs_may_have_measured_one_commit_in_a_round(log: Path, ledger: Path, tmp_path: Path) -> None:
    import_(log, ledger)
    path = next((log / "rounds").glob("*/eval.log")).relative_to(log)
    other = lay_out(tmp_path / "other", make_log.build(make_log.sibling_draft()))
    (other / path).parent.mkdir(parents=True)
    (other / path).write_bytes((log / path).read_bytes() + b"elsewhere\n")
    assert json.loads(import_(other, ledger, "--json").stdout)["added"] == 6
    for one in (log, other):
        assert "nothing to add" in import_(one, ledger).stdout
    (other / path).write_bytes((log / path).read_bytes() + b"edited\n")
    again = import_(other, ledger)
    assert (again.exit_code, f"known, but {path} differs" in again.stderr) == (1, True)


def test_an_advance_is_known_by_its_proof_wherever_its_line_is(tmp_path: Path, ledger: Path) -> None:
    log = lay_out(tmp_path / "sibling", make_log.build(make_log.sibling_draft()))
    import_(log, ledger)
    rows = (log / "ledger.jsonl").read_bytes()
    (log / "ledger.jsonl").write_bytes(b"\n" + rows)
    assert import_(log, ledger).stdout == "nothing to add: all 5 entries of this log are in the ledger already\n"
    (log / "ledger.jsonl").write_bytes(rows.replace(b'"new_frontier": 131.25', b'"new_frontier": 131.5'))
    again = import_(log, ledger)
    assert (again.exit_code, "ledger.jsonl row differs" in again.stderr) == (1, True)
    other = rows.splitlines(keepends=True)[1].replace(b'"pr": 12', b'"pr": 77')
    (log / "ledger.jsonl").write_bytes(rows + other)  # a second advance by one proof: the audit's to judge
    assert json.loads(import_(log, ledger, "--json").stdout)["added"] == 1
    (log / "ledger.jsonl").write_bytes(rows + other + b'{"new_frontier": 140.0}\n')
    assert json.loads(import_(log, ledger, "--json").stdout)["added"] == 1


def test_two_logs_may_have_advances_in_lines_of_one_number(tmp_path: Path, ledger: Path) -> None:
    import_(lay_out(tmp_path / "sibling", make_log.build(make_log.sibling_draft())), ledger)
    rows = [{"new_frontier": 5.0, "proof": f"https://example.org/?run=other-{number}"} for number in range(2)]
    other = lay_out(tmp_path / "other", {"ledger.jsonl": b"".join(json.dumps(row).encode() + b"\n" for row in rows)})
    assert json.loads(import_(other, ledger, "--json").stdout)["added"] == 2


def _changed(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("ledger.jsonl", "ledger.jsonl row"),
        ("index.json", "index.json row"),
        ("result.json", "runs/{run}/result.json"),
        ("eval.log", "runs/{run}/eval.log"),
    ],
)
def test_edited_bytes_of_a_known_run_are_not_called_the_same(log: Path, ledger: Path, name: str, named: str) -> None:
    import_(log, ledger)
    size = (ledger / "ledger.jsonl").stat().st_size
    run = next(path.name for path in sorted((log / "runs").iterdir()) if (path / "receipt.json").is_file())
    path = log / "runs" / run / name if "/" in named else log / name
    lines = path.read_bytes().splitlines(keepends=True)
    at = next((number for number, line in enumerate(lines) if run.encode() in line), 0)
    lines[at] = lines[at].replace(b"{", b'{"x": 1, ', 1) if b"{" in lines[at] else b" " + lines[at]
    path.write_bytes(b"".join(lines))
    again = import_(log, ledger)
    assert (again.exit_code, again.stdout) == (1, "nothing added: 1 of 4 known entries differ from what was imported\n")
    assert (
        f"{run}: known, but {named.format(run=run)} differs from what was imported [K3L-IMPORT-DIFFERS]" in again.stderr
    )
    assert (ledger / "ledger.jsonl").stat().st_size == size
    value = json.loads(import_(log, ledger, "--json").stdout)
    assert [finding["code"] for finding in value["differing"]] == ["K3L-IMPORT-DIFFERS"]
    assert (value["added"], value["known"]) == (0, 4)


@pytest.mark.parametrize(("name", "code"), [("index.json", "K3L-JSON-SYNTAX"), ("ledger.jsonl", "K3L-JSON-SYNTAX")])
def test_a_listing_that_was_cut_short_is_one_fault_and_not_one_of_each_run(
    log: Path, ledger: Path, name: str, code: str
) -> None:
    import_(log, ledger)
    whole = (log / name).read_bytes()
    (log / name).write_bytes(whole[:20])
    again = import_(log, ledger)
    errors = [line for line in again.stderr.splitlines() if line.startswith("error: ")]
    assert (again.exit_code, len(errors)) == (1, 2)
    assert code in errors[0]
    assert name in errors[0]
    assert f"known, but {name} row differs from what was imported [K3L-IMPORT-DIFFERS]" in errors[1]
    assert "  and 2 more that differ in the same way; --json lists them\n" in again.stderr
    assert len(json.loads(import_(log, ledger, "--json").stdout)["differing"]) == 3


def test_runs_that_lack_the_same_file_are_counted_together(log: Path, ledger: Path) -> None:
    import_(log, ledger)
    for path in (log / "runs").glob("*/result.json"):
        path.unlink()
    errors = [line for line in import_(log, ledger).stderr.splitlines() if line.startswith(("error: ", "  and "))]
    assert len(errors) == 2
    assert errors[1] == "  and 2 more that differ in the same way; --json lists them"


def test_a_file_that_went_away_or_came_is_a_difference_and_holds_back_what_is_new(log: Path, ledger: Path) -> None:
    import_(with_fewer(log, 2), ledger)
    stored = len(list((ledger / "blobs").rglob("*")))
    files = make_log.build(make_log.draft())
    (log / path_of(files, 1, "result.json")).unlink()
    (log / path_of(files, 2, "attestation.json")).write_bytes(b"{}")
    result = import_(log, ledger)
    assert (result.exit_code, result.stdout) == (
        1, "nothing added: 2 of 3 known entries differ from what was imported\n",
    )  # fmt: skip
    assert len(list((ledger / "blobs").rglob("*"))) == stored
    assert "found: nothing\n" in result.stderr
    assert "expected: nothing\n" in result.stderr


def test_a_log_that_only_grew_is_the_same(log: Path, ledger: Path) -> None:
    import_(log, ledger)
    rows = (log / "ledger.jsonl").read_bytes()
    (log / "ledger.jsonl").write_bytes(b"\n\n" + rows)
    assert import_(log, ledger).exit_code == 0


def test_a_folder_that_was_renamed_is_known_and_said(log: Path, ledger: Path) -> None:
    import_(log, ledger)
    old = next(log.rglob("receipt.json")).parent
    old.rename(old.with_name("other"))
    result = import_(log, ledger)
    assert (result.exit_code, result.stdout) == (
        0,
        "nothing to add: all 4 entries of this log are in the ledger already\n",
    )
    assert f"note: runs/other is known: it was imported as {old.name}\n" in result.stderr
    assert json.loads(import_(log, ledger, "--json").stdout)["renamed"] == {"other": old.name}


def test_what_changes_between_two_looks_is_not_appended(
    log: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_(with_fewer(log, 2), ledger)
    held, looks = import_module.held_against, []

    def once_new(known: import_module.Known, items: list[ImportItem]) -> object:
        looks.append(known)
        return held({} if len(looks) == 1 else known, items)

    monkeypatch.setattr(import_module, "held_against", once_new)
    files = make_log.build(make_log.draft())
    _changed(log / path_of(files, 1, "eval.log"), b"\n", b" \n")
    size = (ledger / "ledger.jsonl").stat().st_size
    result = import_(log, ledger)
    assert (result.exit_code, len(looks)) == (1, 2)
    assert (ledger / "ledger.jsonl").stat().st_size == size
    assert result.stdout == "nothing added: 1 of 3 known entries differ from what was imported\n"


def test_a_log_with_contradictions_is_imported_with_their_codes(log: Path, ledger: Path) -> None:
    line = (log / "ledger.jsonl").read_bytes()
    (log / "ledger.jsonl").write_bytes(line.replace(b'"tps": 12.6', b'"tps": 21.6'))
    result = import_(log, ledger)
    assert result.exit_code == 0
    assert "findings of severity error in this log: 1" in result.stderr
    entries = [verified.entry for verified in verify_log(DirectorySource(ledger))]
    bodies = [entry.body for entry in entries if entry.kind == "import"]
    assert [list(body.findings) for body in bodies] == [[], ["K3L-FOREIGN-CONTRADICTION"], [], []]


def test_nothing_is_stored_when_the_key_may_not_sign(log: Path, ledger: Path) -> None:
    result = import_(log, ledger, key="runner")
    assert code(result) is Code.KEY_WRONG_ROLE
    assert not (ledger / "blobs").exists()
    assert code(import_(log.parent / "nowhere", ledger)) is Code.UNREADABLE


def test_the_public_log_is_imported_once(test_data: Callable[..., Path], ledger: Path) -> None:
    log = test_data("data", "sparkinfer-k3-log")
    assert import_(log, ledger).stdout == "58 entries added, 0 were there already; 232 new artifacts\n"
    assert import_(log, ledger).stdout.startswith("nothing to add: all 58 entries")
    assert sum(entry.entry.kind == "import" for entry in verify_log(DirectorySource(ledger))) == 58


def test_a_ledger_is_named_by_the_option_that_every_command_has_and_by_the_older_one(log: Path, ledger: Path) -> None:
    key = ledger.parent / "log.pem"
    first = k3("import", "polaris", log, "--ledger", ledger, "--key", key)
    assert first.exit_code == 0, first.output
    again = k3("import", "polaris", log, "--into", ledger, "--key", key)
    assert (again.exit_code, "nothing to add" in again.output) == (0, True)


def test_a_copied_folder_is_imported_once_and_that_is_said(log: Path, ledger: Path) -> None:
    run = min((log / "runs").iterdir())
    copy = log / "runs" / "copy"
    copy.mkdir()
    for path in run.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    first = import_(log, ledger, "--json")
    assert (first.exit_code, json.loads(first.stdout)["added"], json.loads(first.stdout)["copies"]) == (
        0, 4, {"copy": run.name},
    )  # fmt: skip
    again = import_(log, ledger)
    said = f"note: runs/copy only repeats what runs/{run.name} holds: imported once\n"
    assert (again.exit_code, said in again.stderr) == (0, True)
    assert again.stdout == "nothing to add: all 4 entries of this log are in the ledger already\n"


LOST = ("one original", "a row of the ledger", "every original", "all of blobs/")


def stored(ledger: Path) -> set[tuple[str, bytes]]:
    return {(path.name, path.read_bytes()) for path in (ledger / "blobs").rglob("*") if path.is_file()}


def lose(ledger: Path, what: str) -> int:
    """Take artifacts out of a ledger; how many."""
    blobs = sorted(path for path in (ledger / "blobs").rglob("*") if path.is_file())
    if what == "one original":
        blobs = blobs[:1]
    elif what == "a row of the ledger":
        blobs = [path for path in blobs if path.read_bytes().startswith(b'{"run_id"')][:1]
    for path in blobs:
        path.unlink()
    if what == "all of blobs/":
        shutil.rmtree(ledger / "blobs")
    return len(blobs)


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("what", LOST)
def test_an_original_that_is_gone_is_stored_again(log: Path, ledger: Path, what: str, more: bool) -> None:
    import_(with_fewer(log, 2) if more else log, ledger)
    before = stored(ledger)
    gone = lose(ledger, what)
    assert len(before) - len(stored(ledger)) == gone > 0
    again = import_(log, ledger, "--json")
    found = json.loads(again.stdout)
    assert (again.exit_code, found["added"], found["artifacts_restored"]) == (0, int(more), gone)
    assert stored(ledger) >= before
    assert all(sha256(data).hexdigest() == name for name, data in stored(ledger))
    lose(ledger, what)
    all_gone = gone if gone == 1 else gone + found["artifacts_added"]
    said = "note: 1 artifact was" if all_gone == 1 else f"note: {all_gone} artifacts were"
    assert f"{said} missing from the ledger's blobs/, and stored again\n" in import_(log, ledger).stderr
    assert json.loads(import_(log, ledger, "--json").stdout)["artifacts_restored"] == 0


@pytest.mark.parametrize("what", ["other bytes", "a folder", "a link"])
def test_what_stands_in_the_place_of_an_original_is_said_and_not_written_over(
    log: Path, ledger: Path, tmp_path: Path, what: str
) -> None:
    import_(log, ledger)
    path = next(path for path in (ledger / "blobs").rglob("*") if path.is_file())
    data = path.read_bytes()
    path.unlink()
    if what == "other bytes":
        path.write_bytes(b"x")
    elif what == "a folder":
        path.mkdir()
    else:
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    size = (ledger / "ledger.jsonl").stat().st_size
    again = import_(log, ledger)
    assert isinstance(again.exception, LedgerError)
    assert again.exception.code.info.exit in (1, 3)
    assert again.exception.code is (Code.BLOB_DAMAGED if what == "other bytes" else Code.UNREADABLE) or what == "a link"
    assert (ledger / "ledger.jsonl").stat().st_size == size
    assert not path.is_file() or path.read_bytes() != data or path.is_symlink()


def test_a_log_that_says_otherwise_restores_nothing(log: Path, ledger: Path) -> None:
    """The control: then the bytes at hand are not all those that were lost."""
    import_(log, ledger)
    lose(ledger, "every original")
    line = (log / "ledger.jsonl").read_bytes()
    (log / "ledger.jsonl").write_bytes(line.replace(b'"tps": 12.6', b'"tps": 21.6'))
    again = import_(log, ledger, "--json")
    assert (again.exit_code, json.loads(again.stdout)["artifacts_restored"]) == (1, 0)
    assert not [path for path in (ledger / "blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["receipt.json", "result.json", "eval.log", "ledger.jsonl", "index.json"])
def test_a_file_that_is_read_in_part_is_no_original(log: Path, ledger: Path, name: str) -> None:
    path = next(log.rglob(name))
    os.truncate(path, (1 << 26) + 1)
    size = (ledger / "ledger.jsonl").stat().st_size
    made = import_(log, ledger)
    assert code(made) is Code.ARTIFACT_TOO_LONG
    assert isinstance(made.exception, LedgerError)
    assert made.exception.finding.position.source == path.relative_to(log).as_posix()
    assert (ledger / "ledger.jsonl").stat().st_size == size
    assert lose(ledger, "one original") == 0
    assert k3("audit", "polaris", log).exit_code == 1


def test_a_file_of_no_run_may_have_any_length(log: Path, ledger: Path) -> None:
    (log / "model.bin").touch()
    os.truncate(log / "model.bin", 60 << 30)
    assert import_(log, ledger).exit_code == 0
