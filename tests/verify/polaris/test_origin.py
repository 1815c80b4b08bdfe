"""Where foreign quotes come from: a made-up log whose quotes are genuine under a made-up root."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from docs.examples.made_up_intel import FLAGS, World, tcb

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Severity
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.polaris import AuditOptions, AuditReport, audit, render
from k3_ledger.verify.polaris.hashes import Check
from tests.verify.polaris import make_log

if TYPE_CHECKING:
    from collections.abc import Callable

WORLD = World()
POLICY = AttestationPolicy(
    measurements=(("mrtd", frozenset({"c1" * 48})),), anchors=(*WORLD.anchors(), ("keys.json", b"{}"))
)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, bytes]]:
    """Files of a log whose quotes ``world`` made; ``change`` is applied to each run before it is sealed."""

    def build(world: World = WORLD, change: Callable[[Any], None] = lambda _: None) -> dict[str, bytes]:
        monkeypatch.setattr(make_log, "quote", lambda _, data: world.quote(data, padding=bytes(5)))
        draft = make_log.draft()
        for run in draft.runs:
            run.attestation["timestamp_utc"] = "2026-06-01T00:00:00Z"
            run.tdx["collateral_b64"] = make_log.b64(world.collateral())
            change(run)
        return make_log.build(draft)

    return build


def rows(report: AuditReport) -> dict[Check, tuple[int, int, int]]:
    wanted = (Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS)
    return {row.check: (row.passed, row.failed, row.not_checked) for row in report.hashes if row.check in wanted}


def codes(report: AuditReport) -> set[Code]:
    return {finding.code for finding in report.findings if finding.code.name.startswith("QUOTE_")}


def test_genuine_quotes_are_called_so_and_their_registers_are_shown(log: Callable[..., dict[str, bytes]]) -> None:
    report = audit(log(), AuditOptions(attestation=POLICY))
    count = sum(row.passed for row in report.hashes if row.check is Check.DCAP)
    assert count > 1
    assert rows(report) == dict.fromkeys((Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS), (count, 0, 0))
    assert codes(report) == {Code.QUOTE_MALLEABLE, Code.QUOTE_TIME_UNBOUND}
    assert report.quotes == (("pass: UpToDate", count),)
    assert ("mrtd", "c1" * 48, count) in report.measured
    text = "\n".join(render(report))
    assert "where the quotes come from" in text
    assert "not Intel" in text
    assert f"mrtd {'c1' * 48}" in text
    shown = report.as_dict()["attestation"]
    assert isinstance(shown, dict)
    assert shown["quotes"] == {"pass: UpToDate": count}


def test_without_a_trust_directory_nothing_is_said_about_origin(log: Callable[..., dict[str, bytes]]) -> None:
    report = audit(log())
    assert rows(report)[Check.DCAP][:2] == (0, 0)
    assert (report.attestation, report.quotes, codes(report)) == ("", (), set())
    assert "where the quotes come from" not in "\n".join(render(report))


def test_at_a_time_of_the_callers_choice_nothing_depends_on_the_receipt(log: Callable[..., dict[str, bytes]]) -> None:
    files = log(change=lambda run: run.attestation.update(timestamp_utc="2030-01-01T00:00:00Z"))
    late = audit(files, AuditOptions(attestation=POLICY))
    assert rows(late)[Check.DCAP][1] > 1
    assert all(text.startswith("fail: dates: ") for text, _ in late.quotes)
    assert late.measured == ()
    assert "registers of the genuine ones" not in "\n".join(render(late))
    chosen = audit(files, AuditOptions(attestation=replace(POLICY, at=1_780_272_000)))
    assert rows(chosen)[Check.DCAP][0] > 1
    assert Code.QUOTE_TIME_UNBOUND not in codes(chosen)


def test_a_receipt_without_a_time_is_not_judged_at_receipt_time(log: Callable[..., dict[str, bytes]]) -> None:
    files = log(change=lambda run: run.attestation.pop("timestamp_utc"))
    report = audit(files, AuditOptions(attestation=POLICY))
    ((text, count),) = report.quotes
    assert text == "not-checked: the receipt states no time at which to check it"
    assert rows(report) == dict.fromkeys((Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS), (0, 0, count))


@pytest.mark.parametrize("quote", [None, "", "AAAA"])
def test_a_receipt_without_a_quote_is_not_checked(log: Callable[..., dict[str, bytes]], quote: str | None) -> None:
    files = log(change=lambda run: run.tdx.update(quote_b64=quote or ""))
    report = audit(files, AuditOptions(attestation=POLICY))
    assert rows(report)[Check.DCAP][:2] == (0, 0)


@pytest.mark.parametrize("collateral", ["%%%", "", 7])
def test_collateral_that_cannot_be_read_is_no_pass(log: Callable[..., dict[str, bytes]], collateral: object) -> None:
    files = log(change=lambda run: run.tdx.update(collateral_b64=collateral))
    report = audit(files, AuditOptions(attestation=POLICY))
    passed, failed, unchecked = rows(report)[Check.DCAP]
    assert passed == 0
    assert (failed, unchecked)[collateral == 7] > 1


def test_a_quote_from_a_platform_that_the_caller_does_not_allow_is_genuine_and_refused(
    log: Callable[..., dict[str, bytes]],
) -> None:
    report = audit(log(World(flags={"a": b"\xff", "b": b"\0", "c": b"\xff"})), AuditOptions(attestation=POLICY))
    found = rows(report)
    assert found[Check.DCAP][0] == found[Check.PLATFORM][1] > 1
    assert Code.QUOTE_PLATFORM in codes(report)
    ((text, _),) = report.quotes
    assert text.startswith("fail: genuine, UpToDate; policy: the platform has dynamic-platform")


# -- the table and the findings say the same --------------------------------------------------------------------------

ALL = frozenset({"dynamic-platform", "cached-keys", "smt"})
OUT_OF_DATE = {"tcb": tcb(), "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": "OutOfDate", "advisoryIDs": ["MADE-UP-1"]}
WORLDS: dict[str, World] = {
    "good": World(),
    "dynamic": World(flags=FLAGS | {"dynamic": b"\xff"}),
    "silent": World(flags=None),
    "debuggable": World(body={168: b"\x01"}),
    "out of date": World(levels=[OUT_OF_DATE]),
    "revoked": World(revoked_pck=(WORLD.pck.serial_number,)),
    "another root": World(root_key=99),
    "an authority that is none": World(authority={"ca": False, "depth": None}),
}
DEMANDS: dict[str, dict[str, Any]] = {
    "right pin": {},
    "wrong pin": {"measurements": (("mrtd", frozenset({"c2" * 48})),)},
    "one wrong pin of two": {"measurements": (("mrtd", frozenset({"c1" * 48})), ("rtmr0", frozenset({"00" * 48})))},
    "no pin": {"measurements": ()},
    "all allowed": {"allow": ALL, "tcb_status": frozenset({"UpToDate", "OutOfDate"})},
    "much later": {"at": 1_900_000_000},
}
ROW_OF = dict.fromkeys((Code.QUOTE_TCB, Code.QUOTE_DEBUG, Code.QUOTE_PLATFORM), Check.PLATFORM)
ROW_OF[Code.QUOTE_MEASUREMENT] = Check.MEASUREMENTS


@pytest.mark.parametrize("demands", DEMANDS.values(), ids=DEMANDS)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_no_row_of_the_table_says_pass_of_what_a_finding_says_is_wrong(
    log: Callable[..., dict[str, bytes]], world: World, demands: dict[str, Any]
) -> None:
    report = audit(log(world), AuditOptions(attestation=replace(POLICY, **demands)))
    found = rows(report)
    ((text, count),) = report.quotes
    wrong = {
        ROW_OF.get(finding.code, Check.DCAP)
        for finding in report.findings
        if finding.severity is Severity.ERROR and finding.code.name.startswith("QUOTE_")
    }
    for check in (Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS):
        assert sum(found[check]) == count > 1
        assert found[check][1] == (count if check in wrong else 0)
    whole = (count, 0, 0)
    word, _, reason = text.partition(": ")
    passed = all(found[check] == whole for check in found)
    assert word == ("fail" if wrong else "pass" if passed else "not-checked")
    assert reason.startswith("genuine, ") == (not passed and found[Check.DCAP] == whole)
    lines = [line for line in render(report) if "pass: " in line]
    assert bool(lines) is passed
    assert report.exit_code == (1 if wrong else report.exit_code)
