"""An attestation that a log text prints more than once is held against the others each time."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.logtext import MAX_AGAIN, read_log
from tests.verify.polaris import longctx
from tests.verify.polaris.test_closed_list import RUN, changed

if TYPE_CHECKING:
    from collections.abc import Callable

Files = dict[str, bytes]
MARK = "POLARIS_ATTESTATION "


def log_of(files: Files) -> str:
    """Path of the log text of one run."""
    folder = longctx.draft("printed").runs[RUN].folder
    return f"runs/{folder}/log.txt"


def printed(rewrite: Callable[[Any], str]) -> Files:
    """A log without receipts, of which one text prints its attestation behind what ``rewrite`` makes of it."""
    files = longctx.build(longctx.draft("printed"))
    path = log_of(files)
    head, _, body = files[path].decode().partition(MARK)
    line, _, rest = body.partition("\n")
    return files | {path: f"{head}{rewrite(json.loads(line))}\n{MARK}{line}\n{rest}".encode()}


def line(body: Any) -> str:
    return MARK + json.dumps(body)


def errors(files: Files) -> list[str]:
    return [finding.message for finding in audit(files).findings if finding.severity.value == "error"]


def unread(files: Files) -> int:
    report = audit(files)
    assert report.unread == sum(finding.code is Code.FOREIGN_NOT_READ for finding in report.findings)
    return report.unread


def attested() -> Any:
    kept: list[Any] = []
    printed(lambda body: kept.append(body) or "")
    return kept[0]


def test_the_same_twice_is_held_against_nobody() -> None:
    assert errors(printed(line)) == []
    assert audit(printed(line)).failed == 0
    assert audit(printed(line)).checked > audit(printed(lambda _: "")).checked


@pytest.mark.parametrize("path", [path for path, _, _ in changed(attested())], ids=".".join)
def test_any_field_of_the_first_that_is_not_that_of_the_second_is_found(path: tuple[str, ...]) -> None:
    body = next(body for at, _, body in changed(attested()) if at == path)
    found = errors(printed(lambda _: line(body)))
    name = ".".join(path)
    if name == "code.commit":  # that of another commit is no copy
        assert (found, unread(printed(lambda _: line(body)))) == ([], 1)
        return
    assert any(f"attestation.{name} is " in message and "attestation in the log" in message for message in found)


def test_a_first_one_that_lacks_a_field_is_found_where_it_has_others() -> None:
    body = copy.deepcopy(attested())
    body["verdict"] = {}
    assert errors(printed(lambda _: line(body)))


def test_a_first_one_that_cannot_be_read_is_a_problem_of_its_own() -> None:
    codes = {finding.code for finding in audit(printed(lambda _: MARK + '{"code": ')).findings}
    assert Code.JSON_SYNTAX in codes


def test_what_was_printed_before_the_next_evaluation_began_is_another_ones() -> None:
    begun = "#7: evaluating 0123456 on node against frontier 10.0"
    log = read_log("\n".join([MARK + '{"a": 1}', begun, MARK + '{"a": 2}', MARK + '{"a": 3}', begun]).encode(), "log")
    assert log.attestation is not None
    assert [json.loads(one.raw) for one in (log.attestation, *log.repeated)] == [{"a": 3}, {"a": 2}]


def test_no_more_are_kept_than_are_held_against_one_another() -> None:
    lines = [MARK + json.dumps({"a": number}) for number in range(MAX_AGAIN + 5)]
    log = read_log("\n".join(lines).encode(), "log")
    assert [json.loads(one.raw)["a"] for one in log.repeated] == list(range(MAX_AGAIN + 3, 3, -1))
    (problem,) = log.problems
    assert (problem.code, problem.found) == (Code.FOREIGN_NOT_READ, "4 attestations")


def test_what_an_earlier_try_printed_is_no_copy_and_is_counted() -> None:
    def again(change: Any) -> Files:
        first = attested() | change
        return printed(lambda body: f"{line(first)}\nRESULT_JSON {{}}\n{line(body)}")

    assert errors(again({"timestamp_utc": "2026-07-31T10:00:00Z"})) == []
    assert unread(again({"timestamp_utc": "2026-07-31T10:00:00Z"})) == 1
    assert unread(printed(line)) == 0


def test_of_two_changes_neither_is_the_others_copy() -> None:
    for name in ("commit", "pr"):
        lines = [MARK + json.dumps({"code": {name: number}}) for number in (7, 8, 8)]
        log = read_log("\n".join(lines).encode(), "log")
        assert len(log.repeated) == 1
        assert [problem.code for problem in log.problems] == [Code.FOREIGN_NOT_READ]
