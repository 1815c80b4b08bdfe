"""What an enclave printed besides the one object that counts: nothing of it is passed over in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.hashes import Check
from k3_ledger.verify.polaris.sealed import MAX_PRINTED
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.schemas.findings import Finding

REJECT: dict[str, Any] = {"tps": 1.5, "label": "REJECT", "pass": False}


def found(sealed: Callable[[dict[str, Any]], str]) -> list[Finding]:
    log = make_log.draft()
    run = log.runs[0]
    assert run.result is not None
    run.sealed = sealed(run.result)
    return list(audit(make_log.build(log)).findings)


def names(sealed: Callable[[dict[str, Any]], str]) -> set[str]:
    return {finding.code.name.removeprefix("FOREIGN_") for finding in found(sealed)}


OTHER_VERDICTS: dict[str, Callable[[str, str], str]] = {
    "before": lambda whole, other: f"{other}\n{whole}",
    "before, with text around": lambda whole, other: f"start\n{other}\nmiddle\n{whole}\nend",
    "behind a word": lambda whole, other: f"RESULT: {other}\n{whole}",
    "behind a word, afterwards": lambda whole, other: f"{whole}\nRESULT: {other}",
    "behind a word in brackets": lambda whole, other: f"[info] {other}\n{whole}",
    "in a list": lambda whole, other: f"[1, {other}]\n{whole}",
    "in a list afterwards": lambda whole, other: f"{whole}\n[{other}]",
    "nested in another object": lambda whole, other: f'{{"result": {other}}}\n{whole}',
    "nested in the object": lambda whole, other: whole[:-1] + f', "result": {other}}}',
    "nested deeper": lambda whole, other: whole[:-1] + f', "a": {{"b": {other}}}}}',
}


@pytest.mark.parametrize("how", OTHER_VERDICTS)
def test_another_verdict_of_the_enclave_contradicts_the_published_one(how: str) -> None:
    findings = found(lambda result: OTHER_VERDICTS[how](json.dumps(result), json.dumps(result | REJECT)))
    assert {finding.code.name for finding in findings} == {"FOREIGN_SEALED_VERDICT"}
    assert {(finding.expected, finding.found) for finding in findings} == {
        ("10.5", "1.5"),
        ("S", "REJECT"),
        ("true", "false"),
    }
    assert all("stdout_b64" in (finding.position.source or "") for finding in findings)


@pytest.mark.parametrize("how", OTHER_VERDICTS)
def test_the_same_verdict_again_is_no_other(how: str) -> None:
    assert names(lambda result: OTHER_VERDICTS[how](json.dumps(result), json.dumps(result))) == set()


@pytest.mark.parametrize("how", ["before", "behind a word", "in a list"])
def test_a_figure_without_a_verdict_may_be_one_on_the_way(how: str) -> None:
    assert names(lambda result: OTHER_VERDICTS[how](json.dumps(result), '{"tps": 9.9, "depth": 4}')) == {"TWO_MEANINGS"}


@pytest.mark.parametrize("line", ["{'tps': 1.5}", "{", "done {ok}", "[info] all is well", '{"step": 3}', "RESULT: {}"])
def test_other_lines_are_no_finding(line: str) -> None:
    expected = {"JSON_SYNTAX"} if line == "{" else set()
    assert names(lambda result: f"{line}\n{json.dumps(result)}\n{line}") == expected


@pytest.mark.parametrize("cut", ['{"tps": 1.5, "label": "REJECT"', '{ "tps": 1.5,', '  {"tps'])
def test_an_object_that_is_cut_off_is_a_problem(cut: str) -> None:
    for text in (lambda result: f"{json.dumps(result)}\n{cut}", lambda result: f"{cut}\n{json.dumps(result)}"):
        (finding,) = found(text)
        assert finding.code.name == "JSON_SYNTAX"
        assert "stdout_b64" in (finding.position.source or "")


def test_two_objects_on_one_line_are_a_problem() -> None:
    assert "JSON_TRAILING_BYTES" in names(lambda result: f"{json.dumps(result | REJECT)} {json.dumps(result)}")


def test_an_oddity_of_another_object_is_a_problem() -> None:
    assert names(lambda result: f'{{"a": 1, "a": 2}}\n{json.dumps(result)}') == {"JSON_DUPLICATE_KEY"}


def test_more_objects_than_are_read_are_a_problem() -> None:
    line = '{"step": 1}\n'
    assert names(lambda result: line * MAX_PRINTED + json.dumps(result)) == set()
    assert names(lambda result: line * (MAX_PRINTED + 1) + json.dumps(result)) == {"SHAPE"}
    assert names(lambda result: f"{json.dumps([{}] * 99)}\n{json.dumps(result)}") == {"SHAPE"}


def test_an_output_that_is_empty_is_no_verdict_and_its_digest_is_computed() -> None:
    log = make_log.draft()
    log.runs[0].tdx = {"stdout_b64": "", "result_sha256": make_log.sha("")}
    report = audit(make_log.build(log))
    assert {finding.code.name for finding in report.findings} == {"FOREIGN_ENCLAVE_FAILED"}
    assert {row.check: (row.passed, row.failed, row.not_checked) for row in report.hashes}[Check.RESULT] == (3, 0, 0)
    log.runs[0].tdx["result_sha256"] = make_log.sha("x")
    assert "FOREIGN_HASH" in {finding.code.name for finding in audit(make_log.build(log)).findings}


def test_an_output_that_is_no_base64_is_of_the_wrong_shape() -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body["tdx"].update(stdout_b64="!!"))
    report = audit(files)
    assert {finding.code.name for finding in report.findings} == {"FOREIGN_SHAPE"}
    assert {row.check: row.not_checked for row in report.hashes}[Check.RESULT] == 1
