"""What most records of a log have and one lacks is named, and what the whole log lacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, receipt

if TYPE_CHECKING:
    from k3_ledger.schemas.findings import Finding

Files = dict[str, bytes]
GONE = Ellipsis


def put(body: Any, path: str, value: object) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        body = body[parent]
    if value is GONE:
        del body[name]
    else:
        body[name] = value


def of(files: Files, code: str) -> list[Finding]:
    return [finding for finding in audit(files).findings if finding.code.name == f"FOREIGN_{code}"]


def whole() -> Files:
    return make_log.build(make_log.draft())


@pytest.mark.parametrize("value", [GONE, None, [], {}, "", 5], ids=str)
def test_a_receipt_without_its_attestation_is_of_the_wrong_shape(value: object) -> None:
    files = whole()
    receipt(files, 2, lambda body: put(body, "attestation", value))
    (finding,) = of(files, "SHAPE")
    assert finding.message.endswith("the receipt has no attestation")
    assert finding.position.source in files
    assert b"2026-08-02" not in files[finding.position.source]  # the attestation had the time
    assert not of(files, "FIELD_ABSENT")


@pytest.mark.parametrize("value", [GONE, None, [], {}], ids=str)
@pytest.mark.parametrize("block", ["code", "environment", "measurements", "references", "verdict"])
def test_a_block_that_most_receipts_have_is_missed_once(block: str, value: object) -> None:
    files = whole()
    receipt(files, 2, lambda body: put(body, f"attestation.{block}", value))
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"the receipt has no attestation.{block}, which 2 of 3 have" in finding.message


@pytest.mark.parametrize("name", ["code.commit", "timestamp_utc", "verdict.label", "verdict.tps"])
def test_a_field_that_most_receipts_have_is_missed(name: str) -> None:
    files = whole()
    receipt(files, 3, lambda body: put(body, f"attestation.{name}", GONE))
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"the receipt has no attestation.{name}, which 2 of 3 have" in finding.message


@pytest.mark.parametrize("name", ["commit", "kl", "label", "pass", "top1", "tps"])
def test_a_field_that_most_results_have_is_missed(name: str) -> None:
    files = whole()
    edit(files, path_of(files, 3, "result.json"), lambda body: put(body, name, GONE))
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"the result has no {name}, which 2 of 3 have" in finding.message


def many(path: str) -> Files:
    """Twelve receipts, the last without the field."""
    (body,) = [json.loads(data) for name, data in whole().items() if name == path_of(whole(), 1, "receipt.json")]
    files = {}
    for number in range(12):
        if number == 11:
            put(body, path, GONE)
        files[f"runs/{number:02}/receipt.json"] = json.dumps(body).encode()
    return files


@pytest.mark.parametrize("path", ["chain", "chain.chain_index", "attestation.environment.gpu_name", "tdx.cost_usd"])
def test_any_part_that_nearly_all_receipts_have_is_missed(path: str) -> None:
    (finding,) = of(many(path), "FIELD_ABSENT")
    assert f"11: the receipt has no {path}, which 11 of 12 have" in finding.message


def test_what_only_some_have_or_stands_there_in_another_form_is_not_missed() -> None:
    files = whole()
    edit(files, path_of(files, 1, "result.json"), lambda body: body.pop("node"))  # not of every scorer
    receipt(files, 1, lambda body: put(body, "tdx.cost_usd", GONE))  # two of three are not nearly all
    receipt(files, 2, lambda body: put(body, "attestation.verdict.tps", {"value": 1}))  # a contradiction
    assert not of(files, "FIELD_ABSENT")


@pytest.mark.parametrize("name", ["receipt.json", "result.json"])
def test_a_record_that_most_runs_lack_is_missed_once(name: str) -> None:
    files = whole()
    for number in (1, 2, 3):
        del files[path_of(whole(), number, name)]
        found = [(f.message, f.position.source) for f in of(files, "FILE_MISSING")]
        if number == 1:
            assert found[0][0].endswith(f"no {name}, which 2 of 3 runs have")
        else:
            assert found == [(f"no {name} in {number} of 3 runs", "runs")]


@pytest.mark.parametrize("name", ["attestation.json", "log.txt"])
def test_a_file_that_no_run_need_have_is_not_missed(name: str) -> None:
    files = whole()
    assert not any(path.endswith(name) for path in files)
    assert not of(files, "FILE_MISSING")


def test_a_log_of_listings_alone_lacks_no_file_of_runs() -> None:
    assert not of({"ledger.jsonl": whole()["ledger.jsonl"]}, "FILE_MISSING")


def two() -> Files:
    log = make_log.draft()
    del log.runs[2:]
    return make_log.build(log)


def test_two_whole_runs_lack_nothing() -> None:
    assert [finding.message for finding in audit(two()).findings] == []


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "path",
    [
        *(f"attestation.{block}" for block in ("code", "environment", "measurements", "references", "verdict")),
        *(f"attestation.{name}" for name in ("code.commit", "timestamp_utc", "verdict.label", "verdict.tps")),
        *("attestation.environment.gpu_name", "tdx.cost_usd", "chain", "chain.chain_index", "polaris_version"),
    ],
)
def test_of_two_receipts_one_lacks_what_the_other_has(number: int, path: str) -> None:
    files = two()
    receipt(files, number, lambda body: put(body, path, GONE))
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"the receipt has no {path}, which 1 of 2 have" in finding.message


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", ["commit", "kl", "label", "pass", "top1", "tps"])
def test_of_two_results_one_lacks_what_the_other_has(number: int, name: str) -> None:
    files = two()
    edit(files, path_of(files, number, "result.json"), lambda body: put(body, name, GONE))
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"the result has no {name}, which 1 of 2 have" in finding.message


@pytest.mark.parametrize("name", ["pr", "kl", "timestamp_utc"])
@pytest.mark.parametrize("listing", ["ledger.jsonl", "index.json"])
@pytest.mark.parametrize("number", [0, 1])
def test_of_two_rows_one_lacks_what_the_other_has(name: str, listing: str, number: int) -> None:
    files = two()
    lines = listing == "ledger.jsonl"
    rows = [json.loads(line) for line in files[listing].splitlines()] if lines else json.loads(files[listing])
    del rows[number][name]
    files[listing] = b"".join(make_log.spell(row) + b"\n" for row in rows) if lines else make_log.spell(rows)
    (finding,) = of(files, "FIELD_ABSENT")
    assert f"{listing} has no {name}, which 1 of 2 rows have" in finding.message


def test_of_two_runs_what_depends_on_the_outcome_the_form_or_an_edit_is_not_missed() -> None:
    """The control."""
    log = make_log.draft()
    del log.runs[2:]
    log.runs[0].form = "ed25519"
    assert not of(make_log.build(log), "FIELD_ABSENT")
    files = two()
    edit(files, path_of(files, 1, "result.json"), lambda body: body.pop("node"))
    first, second = (json.loads(line) for line in files["ledger.jsonl"].splitlines())
    first |= {"superseded_by": second["run_id"], "superseded_reason": "rerun"}
    files["ledger.jsonl"] = make_log.spell(first) + b"\n" + make_log.spell(second) + b"\n"
    assert not of(files, "FIELD_ABSENT")


@pytest.mark.parametrize(("lacking", "said"), [(1, 1), (2, 2), (3, 0)])
def test_a_field_that_half_of_the_receipts_have_is_missed(lacking: int, said: int) -> None:
    (body,) = [json.loads(data) for name, data in whole().items() if name == path_of(whole(), 1, "receipt.json")]
    files = {f"runs/{number}/receipt.json": json.dumps(body).encode() for number in range(4)}
    del body["attestation"]["code"]["commit"]
    files |= {f"runs/{number}/receipt.json": json.dumps(body).encode() for number in range(lacking)}
    assert len(of(files, "FIELD_ABSENT")) == said
