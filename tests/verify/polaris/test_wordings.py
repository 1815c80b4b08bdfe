"""One repository, one architecture and one day in other words; each with others that are something else."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.compare import Agreement, compare, written_day
from k3_ledger.verify.polaris.hashes import Record
from k3_ledger.verify.polaris.render import render
from k3_ledger.verify.polaris.wordings import architectures_of, day_of, repository_of
from tests.verify.polaris import make_log
from tests.verify.polaris.test_second_records import edited, errors, log_of

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.audit import AuditReport

# -- repositories -----------------------------------------------------------------------------------------------------

REPOSITORY: Final = [
    "https://git.example/some-one/thing",
    "https://git.example/some-one/thing/",
    "https://git.example/some-one/thing.git",
    "https://git.example/some-one/thing.git/",
    "http://www.git.example/some-one/thing",
    "https://someone@git.example:443/some-one/thing",
    "HTTPS://Git.Example/Some-One/Thing",
    "git@git.example:some-one/thing.git",
    "ssh://git@git.example:22/some-one/thing.git",
    "git://git.example/some-one/thing",
    "git.example/some-one/thing",
    "some-one/thing",
    " some-one/thing.git ",
    "Some-One/Thing/",
    "git+https://git.example/some-one/thing.git",
    "git@git.example:/some-one/thing.git",
    "https://git.example/some-one/thing#readme",
    "https://git.example/some-one/thing?tab=readme#top",
    *(f"https://git.example/some-one/thing/{page}" for page in ("tree/main", "commit/abc", "pull/5", "-/issues")),
]
OTHERS: Final = [
    "https://git.example/other/thing",
    "https://git.example/some-one/other",
    "https://git.example/some-one/thing/more",
    "git@git.example:other/thing.git",
    "git.example/other/thing",
    "other/thing",
    "some-one/other",
]
NONE: Final = [
    "thing",
    "somewhere",
    "some-one/thing (fork)",
    "some-one/thing@main",
    "file:///some-one/thing",
    "@some-one/thing",
]


@pytest.mark.parametrize(("one", "two"), [*combinations(REPOSITORY, 2)])
def test_a_repository_is_the_same_by_name_and_by_any_address(one: str, two: str) -> None:
    assert compare("repo", one, two) is compare("repo", two, one) is Agreement.EQUAL


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("one", REPOSITORY)
def test_another_owner_or_another_name_is_another_repository(one: str, other: str) -> None:
    assert compare("repo", one, other) is compare("repo", other, one) is Agreement.DIFFER


def test_another_host_is_another_repository_where_both_name_one() -> None:
    elsewhere = "git@other.example:some-one/thing"
    hosts = {one: repository_of(one) for one in REPOSITORY}
    for one, repository in hosts.items():
        assert repository is not None
        expected = Agreement.DIFFER if repository.host else Agreement.EQUAL
        assert compare("repo", one, elsewhere) is compare("repo", elsewhere, one) is expected
    assert {repository.host for repository in hosts.values() if repository} == {"git.example", ""}


def test_what_is_no_repository_is_the_same_where_it_is_spelled_alike() -> None:
    assert compare("repo", "thing", "thing") is Agreement.EQUAL
    for none in NONE:
        assert repository_of(none) is None
        for one in REPOSITORY:
            assert compare("repo", one, none) is compare("repo", none, one) is Agreement.NOT_COMPARED
    assert compare("repo", "thing", True) is Agreement.NOT_COMPARED  # type: ignore[arg-type]


def test_words_for_a_site_stand_for_its_host() -> None:
    for one in ("github:o/n", "https://api.github.com/repos/o/n", "git+ssh://git@github.com/o/n.git"):
        assert compare("repo", one, "https://github.com/o/n") is Agreement.EQUAL
        assert compare("repo", one, "https://github.com/o/m") is Agreement.DIFFER
    assert compare("repo", "https://raw.githubusercontent.com/o/n", "o/n") is Agreement.NOT_COMPARED


@pytest.mark.parametrize("name", ["made-up", "made-up/", "made-up.git", "Made-Up"])
def test_a_log_that_gives_the_name_beside_the_address_is_held_against_nobody(name: str) -> None:
    def given(owner: str) -> set[str]:
        log = log_of()
        for run in log.runs:
            assert run.result is not None
            run.attestation["code"]["repo"] = f"https://git.example/owner/{name}"
            run.result["url"] = f"https://git.example/owner/made-up/pull/{run.result['pr']}"
        log.runs[0].attestation["code"]["repo"] = f"{owner}/{name}"
        return errors(log)

    assert not given("owner")
    assert any("repo is " in message or "/pull/" in message for message in given("somebody"))


# -- architectures ----------------------------------------------------------------------------------------------------

ARCHITECTURE: Final = [
    *("sm_90", "SM_90", "sm90", "sm_90a", "compute_90", "90", "9.0", "Hopper", "hopper"),
    *("H200", "NVIDIA H200", "nvidia  h100"),
]


@pytest.mark.parametrize(("one", "two"), [*combinations(ARCHITECTURE, 2)])
def test_an_architecture_is_the_same_in_any_known_word(one: str, two: str) -> None:
    assert compare("gpu_arch", one, two) is compare("gpu_arch", two, one) is Agreement.EQUAL


@pytest.mark.parametrize("one", ARCHITECTURE)
def test_another_architecture_is_another_and_a_word_of_no_known_kind_is_not_compared(one: str) -> None:
    for other in ("sm_120", "sm_9", "12.0", "Blackwell", "RTX 5090", "NVIDIA GeForce RTX 5090", "A100"):
        known = architectures_of(other) is not None
        expected = Agreement.DIFFER if known else Agreement.NOT_COMPARED
        assert compare("gpu_arch", one, other) is compare("gpu_arch", other, one) is expected
    for other in ("gfx942", "datacenter", True):
        assert compare("gpu_arch", one, other) is Agreement.NOT_COMPARED  # type: ignore[arg-type]
    assert compare("gpu_arch", "gfx942", "gfx942") is Agreement.EQUAL
    assert compare("gpu_arch", one, "") is Agreement.BLANK


def built(arch: str) -> AuditReport:
    """An audit of a run whose result and attestation name the accelerator."""
    result = {"run_id": "r", "tps": 1, "gpu": "made-up (sm_120)"}
    attestation = {"environment": {"gpu_arch": arch, "gpu_name": "made-up"}}
    records = {"result": result, "attestation": attestation}
    return audit({f"runs/r/{name}.json": json.dumps(record).encode() for name, record in records.items()})


def test_an_architecture_in_words_that_nobody_knows_is_said_and_counted_and_no_error() -> None:
    whole = built("sm_120")
    for same in ("Blackwell", "RTX 5090", "12.0"):
        assert [f.message for f in built(same).findings] == [f.message for f in whole.findings]
    assert Code.FOREIGN_CONTRADICTION in {finding.code for finding in built("Hopper").findings}
    report = built("somewhere else")
    assert {f.code for f in report.findings if "somewhere else" in f.message} == {Code.FOREIGN_NOT_COMPARED}
    assert (report.failed, report.not_checked) == (whole.failed, whole.not_checked + 1)
    assert report.exit_code is whole.exit_code
    assert "       1  pairs of fields in words that cannot be compared" in render(report)


# -- days -------------------------------------------------------------------------------------------------------------

DAY: Final = [
    "2026-01-05",
    "2026/01/05",
    "2026.01.05",
    "20260105",
    "20260105T100000Z",
    "2026-01-05 10:00",
    "Jan 5, 2026",
    "Jan. 5, 2026",
    "jan 05 2026",
    "January 5th, 2026",
    "Monday, January 5, 2026",
    "5 Jan 2026",
    "5. January 2026",
    "05-Jan-2026",
    "Mon, 05 Jan 2026 10:00:00 GMT",
    "Mon Jan  5 10:00:00 2026",
    "2026-01-05T10:00:00Z",
]


@pytest.mark.parametrize(("one", "two"), [*combinations(DAY, 2)])
def test_a_day_is_the_same_in_any_form(one: str, two: str) -> None:
    assert compare("timestamp_utc", one, two) is compare("timestamp_utc", two, one) is Agreement.EQUAL
    assert written_day(one) == "2026-01-05"


@pytest.mark.parametrize("one", DAY)
@pytest.mark.parametrize("other", ["Jan 9, 2026", "5 Feb 2026", "2025-01-05", "20260205", "2026-03-05T10:00:00Z"])
def test_another_day_is_another_in_any_form(one: str, other: str) -> None:
    assert compare("timestamp_utc", one, other) is compare("timestamp_utc", other, one) is Agreement.DIFFER


NO_DAY: Final = [
    *("someday", "2026-02-30", "Feb 30, 2026", "5 Foo 2026", "01/05/2026", "5 Jan", "2026", "2026-01/05", "Ma 5 2026"),
    *("1767607200", "Jan 5 2026x", "20261305"),
]


@pytest.mark.parametrize("text", NO_DAY)
def test_what_cannot_be_read_as_a_day_is_held_against_none(text: str) -> None:
    assert day_of(text) is None
    assert written_day(text) == ""
    for day in DAY:
        assert compare("timestamp_utc", text, day) is compare("timestamp_utc", day, text) is Agreement.NOT_COMPARED
    assert compare("timestamp_utc", text, text) is Agreement.EQUAL


@pytest.mark.parametrize("record", ["result", "index"])
def test_a_date_in_words_is_held_against_the_others_and_one_that_is_none_is_not_checked(record: str) -> None:
    def days(text: str) -> set[str]:
        return errors(edited(record, "date", text))

    own = next(run.result["date"] for run in log_of().runs if run.result is not None)
    assert own == "2026-08-01"
    assert not days("Aug 1, 2026")
    assert not days("someday")
    assert any("timestamp_utc is " in message for message in days("Jul 1, 2026"))
    report = audit(make_log.build(edited(record, "date", "someday")))
    assert {f.code for f in report.findings if "someday" in f.message} == {Code.FOREIGN_NOT_COMPARED}
    assert report.not_checked > audit(make_log.build(log_of())).not_checked


def test_an_advance_may_be_dated_in_words() -> None:
    log = make_log.sibling_draft()
    whole = audit(make_log.build(log))
    day = log.advances[1]["date"]
    log.advances[1]["date"] = "Aug 2, 2026"
    assert day == "2026-08-02"
    report = audit(make_log.build(log))
    assert [f.message for f in report.findings] == [f.message for f in whole.findings]
    assert [row for row in report.fields if row.record is Record.ADVANCE] == [
        row for row in whole.fields if row.record is Record.ADVANCE
    ]
    log.advances[1]["date"] = "Jul 2, 2026"
    assert any("the advance is dated Jul 2, 2026" in f.message for f in audit(make_log.build(log)).findings)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%b %d, %Y", "%Y%m%d", "%Y-%m-%d 10:00", "%Y-%m-%dT10:00:00Z"])
def test_advances_out_of_order_are_found_in_any_form_of_their_dates(form: str) -> None:
    def order(*days: int) -> int:
        log = make_log.sibling_draft()
        for row, day in zip(log.advances, days, strict=True):
            row["date"] = datetime(2026, 8, day, tzinfo=UTC).strftime(form)
        found = audit(make_log.build(log)).findings
        return sum(finding.code is Code.FOREIGN_TIME_ORDER for finding in found)

    assert (order(3, 4), order(4, 4), order(6, 4)) == (0, 0, 1)


def test_a_date_that_is_none_is_in_any_order() -> None:
    log = make_log.sibling_draft()
    log.advances[0]["date"] = "someday"
    assert Code.FOREIGN_TIME_ORDER not in {finding.code for finding in audit(make_log.build(log)).findings}


def test_an_advance_whose_proof_has_no_date_that_can_be_read_is_said_to_be_held_against_none() -> None:
    log = make_log.sibling_draft()
    files = make_log.build(log)
    for path, data in files.items():
        if b"new_frontier" not in data:
            files[path] = re.sub(rb"2026-08-0[0-9](T[0-9:]{8}Z)?", b"someday", data)
    found = [f.message for f in audit(files).findings if f.code is Code.FOREIGN_NOT_COMPARED]
    assert any("its proof someday, which is no date that can be read" in message for message in found)
