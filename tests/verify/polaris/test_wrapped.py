"""A figure inside an object or a list is held against the others as it stands, in whichever record it is."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.polaris import audit, parse_log
from k3_ledger.verify.polaris.folders import view
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, receipt, rows

if TYPE_CHECKING:
    from collections.abc import Callable

Files = dict[str, bytes]
WRAPS: list[Any] = [{"value": 99.5}, {"a": {"b": 99.5}}, [99.5], [[99.5]], {}, [], {"": None}]
FIGURES = ("tps", "label", "commit", "pass")


def in_ledger(files: Files, name: str, value: object) -> None:
    rows(files, lambda lines: lines[0].update({name: value}))


def in_index(files: Files, name: str, value: object) -> None:
    edit(files, "index.json", lambda lines: lines[-1].update({name: value}))


def in_result(files: Files, name: str, value: object) -> None:
    edit(files, path_of(files, 1, "result.json"), lambda body: body.update({name: value}))


def in_receipt(files: Files, name: str, value: object) -> None:
    part = "code" if name == "commit" else "verdict"
    receipt(files, 1, lambda body: body["attestation"][part].update({name: value}))


def in_attestation(files: Files, name: str, value: object) -> None:
    body = json.loads(files[path_of(files, 1, "receipt.json")])["attestation"]
    body["code" if name == "commit" else "verdict"][name] = value
    files[path_of(files, 1, "attestation.json")] = json.dumps(body).encode()


RECORDS: dict[str, Callable[[Files, str, object], None]] = {
    "ledger line": in_ledger,
    "index row": in_index,
    "result": in_result,
    "receipt": in_receipt,
    "attestation.json": in_attestation,
}


def messages(files: Files) -> str:
    return "\n".join(finding.message for finding in audit(files).findings)


@pytest.mark.parametrize("wrap", WRAPS, ids=json.dumps)
@pytest.mark.parametrize(
    ("record", "name"),
    [(r, n) for r in RECORDS for n in FIGURES if n != "pass" or r not in ("ledger line", "index row")],
)
def test_a_figure_that_is_wrapped_contradicts_the_plain_ones(record: str, name: str, wrap: object) -> None:
    files = make_log.build(make_log.draft())
    before = audit(files)
    RECORDS[record](files, name, wrap)
    report = audit(files)
    codes = {"FOREIGN_CONTRADICTION", "FOREIGN_COMMIT", "FOREIGN_SEALED_VERDICT"}
    found = [f for f in report.findings if f.code.name in codes and f"{name} is " in f.message]
    text = json.dumps(wrap, separators=(",", ":"))
    assert any(text in finding.message and record in finding.message for finding in found)
    assert report.failed > before.failed
    assert report.exit_code == 1


@pytest.mark.parametrize("wrap", WRAPS, ids=json.dumps)
@pytest.mark.parametrize("name", ["tps", "label", "commit"])
def test_a_figure_that_is_wrapped_in_every_record_is_of_the_wrong_shape(name: str, wrap: object) -> None:
    files = {"ledger.jsonl": json.dumps({"run_id": "a", name: wrap}).encode()}
    (finding,) = [f for f in audit(files).findings if f.code.name == "FOREIGN_SHAPE"]
    assert (finding.position.field or "").startswith(name)
    assert finding.found == json.dumps(wrap, separators=(",", ":"))


def test_a_blank_beside_a_figure_that_is_wrapped_is_no_plain_value() -> None:
    files = {"ledger.jsonl": b'{"run_id": "a", "tps": {"v": 1}}', "index.json": b'[{"run_id": "a", "tps": null}]'}
    (finding,) = [f for f in audit(files).findings if f.code.name == "FOREIGN_SHAPE"]
    assert finding.position.source == "ledger.jsonl"


def test_all_rows_of_a_listing_wrapped_are_all_named() -> None:
    files = make_log.build(make_log.draft())
    files["ledger.jsonl"] = re.sub(rb'"tps": [0-9.]+', b'"tps": {"value": 99999}', files["ledger.jsonl"])
    assert messages(files).count("99999") == 3


@pytest.mark.parametrize(
    ("place", "code"),
    [("prev_frontier", "PIN_GAP"), ("new_frontier", "CONTRADICTION"), ("pr", "CONTRADICTION"), ("date", "SHAPE")],
)
@pytest.mark.parametrize("wrap", [{"v": 1}, [1], {}], ids=json.dumps)
def test_a_field_of_an_advance_that_is_wrapped(place: str, code: str, wrap: object) -> None:
    log = make_log.sibling_draft()
    before = {f.code.name for f in audit(make_log.build(log)).findings}
    log.advances[1][place] = wrap
    assert f"FOREIGN_{code}" in {f.code.name for f in audit(make_log.build(log)).findings} - before


@pytest.mark.parametrize("wrap", [{"v": "0" * 32}, ["0" * 32]], ids=json.dumps)
def test_a_link_of_the_chain_that_is_wrapped_leads_nowhere(wrap: object) -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 2, lambda body: body["chain"].update(prev_receipt_hash=wrap))
    assert {f.code.name for f in audit(files).findings} == {"FOREIGN_CHAIN_BROKEN"}


def test_blocks_and_lists_are_no_wrapped_figures() -> None:
    """What is an object in every record, blank in another, or a block beside the figure it is about."""
    log = make_log.draft()
    for run in log.runs:
        assert run.result is not None
        assert run.row is not None
        run.result |= {"guard": {"ok": True}, "frontier": {"tps": run.result["frontier_tps"], "by": "somebody"}}
        run.result |= {"contexts": [4, 128], "notes": {"a": 1}}
        run.row |= {"guard": None, "contexts": [4, 128], "notes": {}}
    assert audit(make_log.build(log)).findings == ()


def test_a_block_that_holds_facts_of_other_names_is_no_value() -> None:
    """``provenance`` of a result is entered; a row may name its origin by the same word."""
    log = make_log.draft()
    for run in log.runs:
        assert run.result is not None
        assert run.row is not None
        run.result["provenance"] = {"node": run.result.pop("node")}
        run.row["provenance"] = "https://example.org"
    assert audit(make_log.build(log)).findings == ()


def test_what_is_wrapped_in_one_record_is_looked_up_in_the_next() -> None:
    files = make_log.build(make_log.draft())
    in_result(files, "tps", {"value": 99.5})
    (run, *_) = view(parse_log(files))
    stated = run.first("tps")
    assert stated is not None
    assert (stated.record.value, run.text("tps")) == ("sealed output", "10.5")
