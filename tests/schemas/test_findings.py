"""Findings, errors and positions: what every room reports with."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import types

import pytest

from k3_ledger.schemas import errors
from k3_ledger.schemas.errors import LedgerError, MalformedError
from k3_ledger.schemas.findings import Code, Finding, rows
from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import NOWHERE, ExitCode, Outcome, Position, Severity


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_a_row_of_the_registry_reads_like_the_others(code):
    info = code.info
    assert re.fullmatch(r"K3L(-[A-Z0-9]+)+", code.id)
    assert info.title
    assert not info.title.endswith(".")
    assert info.title[0].islower() or info.title.split()[0] in {"NaN", "UTF-8", "GGUF"} or info.title[:2].isupper()
    assert info.meaning.endswith(".")
    assert info.hint
    assert not info.hint.endswith(".")


def test_exit_codes_follow_severity_unless_the_row_says_otherwise():
    def info(severity, exit_code=None):
        return CodeInfo(Area.INPUT, severity, "a", "A.", "a", exit_code)

    assert info(Severity.ERROR).exit is ExitCode.FALSE
    assert info(Severity.WARNING).exit is info(Severity.NOTE).exit is ExitCode.VERIFIED
    assert info(Severity.ERROR, ExitCode.UNREADABLE).exit is ExitCode.UNREADABLE


def test_two_codes_with_one_row_would_say_the_same():
    assert len({code.info for code in Code}) == len(Code)


MODULES = [module for module in vars(rows).values() if isinstance(module, types.ModuleType)]


def test_every_code_has_its_row_and_every_row_its_code():
    assert set(rows.ROWS) == {code.name for code in Code}


def test_no_module_hides_a_row_of_another():
    assert sum(len(module.ROWS) for module in MODULES) == len(rows.ROWS)


def test_an_area_stands_in_one_module():
    where = {(info.area, module.__name__) for module in MODULES for info in module.ROWS.values()}
    assert len(where) == len(Area)


def test_no_words_are_read_until_a_finding_has_to_be_made():
    program = "import sys; from k3_ledger.schemas import errors, findings; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert "k3_ledger.schemas.findings" in loaded
    assert "k3_ledger.schemas.findings.rows" not in loaded


def test_a_finding_in_json_leaves_out_what_is_unknown():
    bare = Finding(Code.UNREADABLE, "no such file")
    assert bare.as_dict() == {
        "code": "K3L-UNREADABLE",
        "severity": "error",
        "message": "no such file",
        "position": {},
        "hint": Code.UNREADABLE.info.hint,
    }
    full = Finding(Code.UNREADABLE, "no", Position("a", 1, 0, 0, "b"), expected="x", found="y", hint="look")
    assert full.as_dict() == {
        "code": "K3L-UNREADABLE",
        "severity": "error",
        "message": "no",
        "position": {"source": "a", "line": 1, "byte_offset": 0, "index": 0, "field": "b"},
        "hint": "look",
        "expected": "x",
        "found": "y",
    }


def test_a_position_reads_from_the_outside_in():
    assert str(Position("ledger.jsonl", 3, 1000, 2, "body.a")) == "ledger.jsonl, entry 2, line 3, byte 1000, body.a"
    assert str(Position(byte_offset=0)) == "byte 0"
    assert str(NOWHERE) == "input"


def test_an_error_reads_as_its_place_and_its_message():
    error = MalformedError(Code.UNREADABLE, "no such file", position=Position("a"), expected="a file", found="nothing")
    assert str(error) == "a: no such file"
    assert str(LedgerError(Code.UNREADABLE, "no such file")) == "no such file"
    assert error.code is Code.UNREADABLE
    assert error.finding.advice == Code.UNREADABLE.info.hint


@pytest.mark.parametrize("kind", [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, LedgerError)
])  # fmt: skip
def test_errors_travel_between_processes(kind):
    error = kind(Code.UNREADABLE, "no such file", position=Position("a", 1), expected="x", found="y", hint="z")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert other.finding == error.finding
        assert str(other) == str(error)


def test_findings_travel_between_processes():
    finding = Finding(Code.UNREADABLE, "no", Position("a", 1, 2, 3, "b"), "x", "y", "z")
    assert pickle.loads(pickle.dumps(finding)) == finding


def test_an_outcome_is_never_true_or_false():
    assert {str(outcome) for outcome in Outcome} == {"pass", "fail", "not-checked"}


def test_an_error_about_a_document_that_was_handed_in_names_it_and_ends_with_3():
    with pytest.raises(LedgerError) as caught, errors.handed_in("body.json"):
        raise MalformedError(Code.JSON_FLOAT, "a float", position=Position(byte_offset=7, field="text"))
    assert caught.value.exit_code is ExitCode.UNREADABLE
    assert caught.value.finding.position == Position(source="body.json", byte_offset=7, field="text")
    with pytest.raises(LedgerError) as caught, errors.handed_in("body.json"):
        raise MalformedError(Code.JSON_FLOAT, "a float", position=Position(source="other.json"))
    assert caught.value.finding.position == Position(source="other.json")
    assert MalformedError(Code.JSON_FLOAT, "a float").exit_code is ExitCode.FALSE
