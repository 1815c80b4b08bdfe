"""A receipt's place in its chain, its version, and what it says of itself: looked at, whatever form it has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, receipt

if TYPE_CHECKING:
    from k3_ledger.schemas.findings import Finding
    from tests.verify.polaris.cases import Files

FORMS = ("tdx", "ed25519")


def made(form: str, *, linked: bool = True, runs: int = 3) -> Files:
    log = make_log.draft()
    log.linked = linked
    log.runs = log.runs[:runs]
    for run in log.runs:
        run.form = form
    return make_log.build(log)


def chain(files: Files, number: int, **values: Any) -> None:
    receipt(files, number, lambda body: body["chain"].update(values))


def identity(files: Files, number: int) -> str:
    value = json.loads(files[path_of(files, number, "receipt.json")])["receipt_id"]
    assert isinstance(value, str)
    return value


def found(files: Files, *names: str) -> list[Finding]:
    wanted = names or ("CHAIN_INDEX", "CHAIN_BROKEN", "SHAPE", "VERSION")
    return [f for f in audit(files).findings if f.code.name.removeprefix("FOREIGN_") in wanted]


def told(files: Files, *names: str) -> list[tuple[str, str | None, str | None]]:
    return [(f.code.name.removeprefix("FOREIGN_"), f.expected, f.found) for f in found(files, *names)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelled", ["as it is", "2.0", "2e0", '"2"'])
def test_a_chain_that_is_whole_has_no_finding(form: str, spelled: str) -> None:
    files = made(form)
    path = path_of(files, 3, "receipt.json")
    if spelled != "as it is":
        assert b'"chain_index": 2' in files[path]
        files[path] = files[path].replace(b'"chain_index": 2', b'"chain_index": ' + spelled.encode())
    assert found(files) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("index", [0, 1, 3, 5, 1000000, 1e300])
def test_a_place_that_the_links_do_not_have_is_found(form: str, index: float) -> None:
    files = made(form)
    chain(files, 3, chain_index=index)
    assert told(files) == [("CHAIN_INDEX", "2", str(index))]
    assert audit(files).exit_code.value == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("index", [-1, -7, 2.5, "x", True, [2], {"a": 2}, "-3", "NaN"])
def test_what_is_no_place_is_found_with_or_without_a_link(form: str, index: object, linked: bool) -> None:
    files = made(form, linked=linked)
    chain(files, 3, chain_index=index)
    assert [kind for kind, _, _ in told(files)] == ["SHAPE"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("index", [1, 2, 40])
def test_a_first_receipt_has_the_place_0(form: str, index: int) -> None:
    files = made(form, linked=False)
    chain(files, 3, chain_index=index)
    assert told(files) == [("CHAIN_INDEX", "0", str(index))]


def unplace(files: Files, number: int, *, gone: bool = False) -> None:
    """Leave a receipt's place out."""
    chain(files, number, chain_index=None)
    if gone:
        receipt(files, number, lambda body: body["chain"].pop("chain_index"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_place_that_others_state_is_missed_and_is_no_other_place(
    form: str, gone: bool, number: int, linked: bool
) -> None:
    files = made(form, linked=linked)
    unplace(files, number, gone=gone)
    assert found(files) == []
    (finding,) = found(files, "FIELD_ABSENT")
    said = f"{identity(files, number)}: the receipt has no chain.chain_index, which 2 of 3 have"
    assert (finding.message, finding.severity.value) == (said, "warning")


@pytest.mark.parametrize(
    ("linked", "stated", "missed"),
    [(True, (1,), [2]), (True, (2,), [1, 3]), (False, (1,), []), (True, (), []), (False, (1, 2), [3])],
)
def test_where_few_state_a_place_only_those_beside_them_in_the_chain_lack_it(
    linked: bool, stated: tuple[int, ...], missed: list[int]
) -> None:
    files = made("tdx", linked=linked)
    for number in {1, 2, 3} - {*stated}:
        unplace(files, number)
    names = [finding.message.partition(":")[0] for finding in found(files, "FIELD_ABSENT")]
    assert sorted(names) == sorted(identity(files, number) for number in missed)


def test_of_two_receipts_the_one_without_a_place_is_named() -> None:
    files = made("tdx", runs=2, linked=False)
    unplace(files, 2)
    assert len(found(files, "FIELD_ABSENT")) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelled", ["its id", "the digest of its bytes"])
@pytest.mark.parametrize("index", [1, 2, None])
def test_of_two_receipts_that_name_one_and_the_same_before_them_both_are_said(
    form: str, spelled: str, index: int | None
) -> None:
    files = made(form)
    first = files[path_of(files, 1, "receipt.json")]
    chain(
        files,
        3,
        chain_index=index,
        prev_receipt_hash=identity(files, 1) if spelled == "its id" else make_log.sha(first),
    )
    broken = found(files, "CHAIN_BROKEN")
    before, second, third = (identity(files, number) for number in (1, 2, 3))
    assert {finding.message for finding in broken} == {
        f"{one}: its previous receipt, {before}, is that of {other} too"
        for one, other in ((second, third), (third, second))
    }
    assert [kind for kind, *_ in told(files, "CHAIN_INDEX")] == (["CHAIN_INDEX"] if index == 2 else [])
    assert audit(files).exit_code.value == 1


def test_of_many_that_name_one_before_them_each_is_said_once() -> None:
    files: Files = {"runs/0/receipt.json": make_log.dump({"receipt_id": "a0", "chain": {"prev_receipt_hash": None}})}
    for number in range(1, 5):
        files[f"runs/{number}/receipt.json"] = make_log.dump(
            {"receipt_id": f"a{number}", "chain": {"prev_receipt_hash": "a0"}}
        )
    assert {finding.message for finding in found(files, "CHAIN_BROKEN")} == {
        f"{number}: its previous receipt, 0, is that of 3 others too" for number in range(1, 5)
    }


@pytest.mark.parametrize("named", [True, False])
def test_a_receipt_that_was_copied_is_one_and_forks_no_chain(named: bool) -> None:
    """The control: it is said that it is there twice, and nobody put anything into the chain."""
    files = made("tdx")
    folder = path_of(files, 3, "receipt.json").rpartition("/")[0]
    files |= {path.replace(folder, "runs/copy"): data for path, data in files.items() if path.startswith(folder)}
    if not named:
        for path in (f"{folder}/receipt.json", "runs/copy/receipt.json"):
            body = json.loads(files[path])
            del body["receipt_id"]
            files[path] = make_log.dump(body)
    assert bool(found(files, "CHAIN_BROKEN")) is not named
    assert bool(found(files, "SAME_RECEIPT"))


@pytest.mark.parametrize("form", FORMS)
def test_behind_a_link_that_leads_out_of_the_log_places_still_follow_one_another(form: str) -> None:
    files = made(form)
    chain(files, 1, chain_index=7, prev_receipt_hash="0" * 64)
    for number, index in ((2, 8), (3, 9)):
        chain(files, number, chain_index=index)
    assert [kind for kind, _, _ in told(files)] == ["CHAIN_BROKEN"]
    chain(files, 3, chain_index=10)
    assert told(files)[1:] == [("CHAIN_INDEX", "9", "10")]
    chain(files, 2, chain_index=None)
    assert [kind for kind, _, _ in told(files)] == ["CHAIN_BROKEN"]
    chain(files, 3, chain_index=0)
    assert told(files)[1:] == [("CHAIN_INDEX", "a number from 1", "0")]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("links", "circle"), [({1: 3}, 3), ({1: 1}, 1), ({1: 2, 2: 1}, 2), ({2: 2}, 1)])
def test_links_that_lead_back_are_found(form: str, links: dict[int, int], circle: int) -> None:
    files = made(form)
    for number, previous in links.items():
        chain(files, number, prev_receipt_hash=identity(files, previous))
    broken = found(files, "CHAIN_BROKEN")
    assert len(broken) == circle
    assert all("lead back to this one" in finding.message for finding in broken)


@pytest.mark.parametrize("form", FORMS)
def test_a_blank_link_leads_to_no_receipt_that_has_no_id(form: str) -> None:
    files = made(form)
    for number in (1, 2, 3):
        chain(files, number, prev_receipt_hash="", chain_index=0)
        receipt(files, number, lambda body: body.pop("receipt_id", None))
    assert [kind for kind, _, _ in told(files, "CHAIN_BROKEN", "CHAIN_INDEX")] == ["CHAIN_BROKEN"] * 3
    assert all("lead back" not in finding.message for finding in found(files, "CHAIN_BROKEN"))


def test_a_long_chain_is_walked_once() -> None:
    files: Files = {"ledger.jsonl": b'{"run_id": "0"}'}
    for number in range(3000):
        previous = {"chain_index": number, "prev_receipt_hash": f"id-{number - 1}" if number else None}
        files[f"runs/{3000 - number}/receipt.json"] = make_log.dump({"receipt_id": f"id-{number}", "chain": previous})
    assert found(files, "CHAIN_INDEX", "CHAIN_BROKEN") == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", [0, 4, 99, -1, 1.5, "evil", "2", True, [1], {"a": 1}, "v1"])
def test_a_version_that_is_not_known_is_said_and_is_no_pass(form: str, version: object) -> None:
    files = made(form)
    receipt(files, 2, lambda body: body.update(polaris_version=version))
    assert [kind for kind, _, _ in told(files)] == ["VERSION"]
    assert audit(files).exit_code.value == 4


@pytest.mark.parametrize("version", [1, 1.0, pytest.param("1", id="text"), None])
def test_the_known_version_in_any_spelling_and_none_at_all_are_taken(version: object) -> None:
    files = made("tdx")
    receipt(files, 2, lambda body: body.update(polaris_version=version))
    receipt(files, 3, lambda body: body.pop("polaris_version"))
    assert found(files) == []


@pytest.mark.parametrize(
    ("claims", "asserted", "denied"),
    [
        ({"intel_verified": True, "report_data_match": True}, "intel_verified, report_data_match", None),
        ({"intel_verified": True, "report_data_match": False}, "intel_verified", "report_data_match is false"),
        ({"intel_verified": False}, None, "intel_verified is false"),
        ({"a": False, "b": False}, None, "a is false, b is false"),
        ({"deep": {"ok": False}, "status": "OutOfDate"}, "status is OutOfDate", "ok is false"),
        ({"level": 0, "text": ""}, "level is 0", None),
        ({"intel_verified": None}, None, None),
        ({}, None, None),
    ],
)
def test_what_a_receipt_says_of_itself_is_told_as_it_says_it(
    claims: dict[str, Any], asserted: str | None, denied: str | None
) -> None:
    log = make_log.draft()
    log.runs[0].tdx["verification"] = claims
    report = audit(make_log.build(log))
    said = {f.code.name.removeprefix("FOREIGN_VERIFICATION_"): f.message for f in report.findings}
    before = {"ASSERTED": "the receipt says of itself: "}
    before["DENIED"] = "the receipt says of itself that it was not verified: "
    wanted = {"ASSERTED": asserted, "DENIED": denied}
    assert said == {name: before[name] + text for name, text in wanted.items() if text is not None}
    assert report.exit_code.value == (0 if denied is None else 1)
