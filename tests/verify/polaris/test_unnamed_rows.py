"""Listings that list nothing, and rows that name nothing: a file that is there is asked, whatever it holds."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log


def counts(files: dict[str, bytes]) -> Counter[str]:
    return Counter(finding.code.name.removeprefix("FOREIGN_") for finding in audit(files).findings)


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


WHOLE = make_log.build(make_log.draft())
LEDGER = [json.loads(line) for line in WHOLE["ledger.jsonl"].splitlines()]
INDEX = json.loads(WHOLE["index.json"])
ADVANCES = make_log.build(make_log.sibling_draft())
GHOST = {"tps": 99999, "commit": "deadbeef", "label": "XL"}


@pytest.mark.parametrize(
    ("data", "shapes"),
    [
        (b"[]", 0),
        (b"[1, 2]", 2),
        (b"[{}]", 1),
        (json.dumps([[row] for row in INDEX]).encode(), 3),
        (WHOLE["index.json"].replace(b"run_id", b"RUN_ID"), 3),
    ],
)
def test_an_index_that_lists_nothing_leaves_every_run_out(data: bytes, shapes: int) -> None:
    report = audit(WHOLE | {"index.json": data})
    assert counts(WHOLE | {"index.json": data}) == Counter(UNLISTED=3) + Counter(SHAPE=shapes)
    assert report.exit_code == 1
    assert all("index.json" in finding.message for finding in report.findings)


def test_an_index_that_lists_nothing_is_held_against_runs_of_a_log_of_advances_too() -> None:
    assert counts(ADVANCES | {"index.json": b"[]"})["UNLISTED"] == 3


NAMELESS = lines(*({"runid": row["run_id"]} | GHOST for row in LEDGER))
EMPTIED = [
    # what is left of the ledger, what is said besides, lines that are counted as not checked, exit code
    (b"", Counter(), 1, 4),
    (b"\n\n \n", Counter(), 1, 4),
    (b"\r\n", Counter(), 1, 4),
    (b'1\n"x"\n', Counter(SHAPE=2), 2, 1),
    (NAMELESS, Counter(SHAPE=3), 3, 1),
    (b'{"date": "2026-08-01", "pr": 1', Counter(JSON_SYNTAX=1), 1, 1),
    (b"\xff\n", Counter(JSON_NOT_UTF8=1), 1, 1),
]


@pytest.mark.parametrize("name", ["runs", "advances"])
@pytest.mark.parametrize(("data", "more", "counted", "exit_code"), EMPTIED)
def test_a_ledger_that_lists_nothing_is_said_once_and_held_against_no_run(
    name: str, data: bytes, more: Counter[str], counted: int, exit_code: int
) -> None:
    log = WHOLE if name == "runs" else ADVANCES
    without = {path: content for path, content in log.items() if path != "ledger.jsonl"}
    files = log | {"ledger.jsonl": data}
    assert counts(files) == counts(without) + more + Counter(LEDGER_EMPTY=1)
    report = audit(files)
    assert (report.unusable, report.exit_code) == (counted, exit_code)
    (finding,) = (f for f in report.findings if f.code.name == "FOREIGN_LEDGER_EMPTY")
    assert finding.position.source == "ledger.jsonl"
    assert not any("ledger.jsonl" in f.message for f in report.findings if f.position.source != "ledger.jsonl")


@pytest.mark.parametrize("name", ["runs", "advances"])
def test_a_ledger_cut_anywhere_accuses_the_runs_of_lines_that_are_gone_and_no_others(name: str) -> None:
    log = WHOLE if name == "runs" else ADVANCES
    data = log["ledger.jsonl"]
    for cut in range(len(data)):
        found = counts(log | {"ledger.jsonl": data[:cut]})
        read = sum(1 for line in data[:cut].splitlines() if line in data.splitlines())
        assert found["UNLISTED"] == (3 - read if read and name == "runs" else 0)
        assert found["LEDGER_EMPTY"] == (not read)


@pytest.mark.parametrize("name", ["ledger.jsonl", "index.json"])
def test_a_listing_that_is_not_there_leaves_nobody_out(name: str) -> None:
    assert counts({path: data for path, data in WHOLE.items() if path != name}) == Counter()


def test_an_index_that_cannot_be_read_is_one_problem_and_leaves_nobody_out() -> None:
    assert counts(WHOLE | {"index.json": b"[{"}) == Counter(JSON_SYNTAX=1)
    assert counts(WHOLE | {"index.json": b'{"runs": []}'}) == Counter(SHAPE=1)


def test_a_ledger_of_advances_alone_lists_no_runs() -> None:
    files = make_log.build(make_log.sibling_draft())
    assert counts(files)["UNLISTED"] == 0
    named = files["ledger.jsonl"] + lines({"run_id": "another"})
    assert counts(files | {"ledger.jsonl": named})["UNLISTED"] == 3 + 1  # three in the ledger, the other in the index


@pytest.mark.parametrize(
    "row", [GHOST, *(GHOST | {"run_id": name} for name in (None, 5, "", ["a"], {"a": 1}, True)), {}, {"id": ""}]
)
def test_a_row_that_names_no_run_is_a_finding_at_its_place(row: dict[str, object]) -> None:
    for name, data in (("ledger.jsonl", WHOLE["ledger.jsonl"] + lines(row)), ("index.json", lines([*INDEX, row]))):
        (finding,) = audit(WHOLE | {name: data}).findings
        assert (finding.code.name, finding.position.source) == ("FOREIGN_SHAPE", name)
        assert finding.position.byte_offset is not None
        assert data[finding.position.byte_offset :].startswith(json.dumps(row).encode())


@pytest.mark.parametrize("element", [7, None, "x", [], [GHOST]])
def test_an_element_of_the_index_that_is_no_object_is_a_finding(element: object) -> None:
    assert counts(WHOLE | {"index.json": lines([*INDEX, element])}) == Counter(SHAPE=1)


def test_an_oddity_of_a_row_is_counted_once() -> None:
    data = WHOLE["index.json"].replace(b'"kl": 0.004', b'"kl": 0.004, "kl": 0.004', 1)
    assert counts(WHOLE | {"index.json": data}) == Counter(JSON_DUPLICATE_KEY=1)
