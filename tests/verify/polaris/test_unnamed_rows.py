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
GHOST = {"tps": 99999, "commit": "deadbeef", "label": "XL"}


@pytest.mark.parametrize(
    ("name", "data", "shapes"),
    [
        ("ledger.jsonl", b"", 0),
        ("ledger.jsonl", b"\n\n", 0),
        ("ledger.jsonl", b'1\n"x"\n', 2),
        ("ledger.jsonl", lines(*({"runid": row["run_id"]} | GHOST for row in LEDGER)), 3),
        ("index.json", b"[]", 0),
        ("index.json", b"[1, 2]", 2),
        ("index.json", b"[{}]", 1),
        ("index.json", json.dumps([[row] for row in INDEX]).encode(), 3),
        ("index.json", WHOLE["index.json"].replace(b"run_id", b"RUN_ID"), 3),
    ],
)
def test_a_listing_that_is_there_and_lists_nothing_leaves_every_run_out(name: str, data: bytes, shapes: int) -> None:
    report = audit(WHOLE | {name: data})
    assert counts(WHOLE | {name: data}) == Counter(UNLISTED=3) + Counter(SHAPE=shapes)
    assert report.exit_code == 1
    assert all(name in finding.message for finding in report.findings)


@pytest.mark.parametrize("name", ["ledger.jsonl", "index.json"])
def test_a_listing_that_is_not_there_leaves_nobody_out(name: str) -> None:
    assert counts({path: data for path, data in WHOLE.items() if path != name}) == Counter()


def test_an_index_that_cannot_be_read_is_one_problem_and_leaves_nobody_out() -> None:
    assert counts(WHOLE | {"index.json": b"[{"}) == Counter(JSON_SYNTAX=1)
    assert counts(WHOLE | {"index.json": b'{"runs": []}'}) == Counter(SHAPE=1)


def test_a_ledger_of_advances_alone_lists_no_runs() -> None:
    files = make_log.build(make_log.sibling_draft())
    assert counts(files)["UNLISTED"] == 0
    assert counts(files | {"ledger.jsonl": b""})["UNLISTED"] == 3
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
