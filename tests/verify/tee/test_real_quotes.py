"""Quotes that real platforms made: the public log's 51, under Intel's own certificates."""

from __future__ import annotations

import base64
import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.attestation import AttestationPolicy, read_time
from k3_ledger.verify.polaris import AuditOptions, AuditReport, audit, render
from k3_ledger.verify.polaris.hashes import Check
from k3_ledger.verify.tee.certificates import load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.layout import LAYOUT, Cover
from k3_ledger.verify.tee.outcome import ORIGIN, Step
from k3_ledger.verify.tee.quote import parse_quote, parse_signature

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALLOWED = frozenset({"dynamic-platform", "smt"})
LATER = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())


class Sample(NamedTuple):
    quote: bytes
    collateral: bytes
    at: int


@pytest.fixture
def folder(test_data: Callable[..., Path]) -> Path:
    pytest.importorskip("dcap_qvl")
    return test_data("data", "sparkinfer-k3-log")


@pytest.fixture
def policy(test_data: Callable[..., Path]) -> AttestationPolicy:
    certificates = test_data("data", "intel")
    return AttestationPolicy(
        allow=ALLOWED, anchors=tuple((p.name, p.read_bytes()) for p in sorted(certificates.iterdir()))
    )


@pytest.fixture
def samples(folder: Path) -> list[Sample]:
    found = []
    for path in sorted(folder.glob("runs/*/receipt.json")):
        receipt = json.loads(path.read_text())
        quote, collateral = (base64.b64decode(receipt["tdx"][name]) for name in ("quote_b64", "collateral_b64"))
        found.append(Sample(quote, collateral, read_time(receipt["attestation"]["timestamp_utc"])))
    return found


def audited(folder: Path, policy: AttestationPolicy) -> AuditReport:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return audit(files, AuditOptions(attestation=policy))


def rows(report: AuditReport) -> dict[Check, tuple[int, int, int]]:
    wanted = (Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS)
    return {row.check: (row.passed, row.failed, row.not_checked) for row in report.hashes if row.check in wanted}


def test_all_51_are_up_to_date_at_receipt_time(folder: Path, policy: AttestationPolicy) -> None:
    report = audited(folder, policy)
    assert report.quotes == (("not-checked: genuine, UpToDate; measurements: no measurement is pinned", 51),)
    assert rows(report) == {Check.DCAP: (51, 0, 0), Check.PLATFORM: (51, 0, 0), Check.MEASUREMENTS: (0, 0, 51)}
    assert "(Intel)" in report.attestation
    counts = Counter(finding.code for finding in report.findings if finding.code.name.startswith("QUOTE_"))
    assert counts == {Code.QUOTE_MALLEABLE: 51, Code.QUOTE_TIME_UNBOUND: 51, Code.QUOTE_UNPINNED: 51}
    registers = Counter(register for register, _, _ in report.measured)
    assert set(registers.values()) == {1}  # every register has one value in all 51
    measured = {register: value for register, value, _ in report.measured}
    assert measured["rtmr3"] == "00" * 48
    assert measured["mrtd"].startswith("c1ee9c16")


def test_what_contradicts_what_does_not_depend_on_where_quotes_come_from(
    folder: Path, policy: AttestationPolicy
) -> None:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    bare = {row.code: row.count for row in audit(files).kinds}
    assert bare[Code.FOREIGN_SEALED_VERDICT] == 100
    full = {row.code: row.count for row in audited(folder, policy).kinds}
    assert {code: count for code, count in full.items() if not code.name.startswith("QUOTE_")} == bare


def test_all_51_have_expired_months_later(folder: Path, policy: AttestationPolicy) -> None:
    report = audited(folder, AttestationPolicy(at=LATER, allow=ALLOWED, anchors=policy.anchors))
    assert rows(report)[Check.DCAP] == (0, 51, 0)
    ((text, count),) = report.quotes
    assert count == 51
    assert "TCB info is expired" in text
    assert Code.QUOTE_CHECKERS_DISAGREE not in {finding.code for finding in report.findings}


def test_a_policy_that_allows_nothing_refuses_all_51(folder: Path, policy: AttestationPolicy) -> None:
    report = audited(folder, AttestationPolicy(anchors=policy.anchors))
    assert rows(report)[Check.DCAP] == (51, 0, 0)
    assert rows(report)[Check.PLATFORM] == (0, 51, 0)


def test_without_the_tcb_signing_certificate_none_is_called_genuine(folder: Path, policy: AttestationPolicy) -> None:
    root = tuple(item for item in policy.anchors if item[0] == "root.pem")
    report = audited(folder, AttestationPolicy(allow=ALLOWED, anchors=root))
    assert rows(report)[Check.DCAP] == (0, 0, 51)
    assert Code.QUOTE_NO_ANCHOR in {finding.code for finding in report.findings}
    said = " ".join(line.strip() for line in render(report))
    assert (
        said.count("hint: put Intel's root and TCB signing certificates as .pem files into a folder of your own") == 1
    )


def test_pinned_registers_pass_and_others_fail(samples: list[Sample], policy: AttestationPolicy) -> None:
    quote, collateral, at = samples[0]
    mrtd = parse_quote(quote).mrtd
    anchors = load_anchors(policy.anchors)
    for value, outcome in ((mrtd, Outcome.PASS), ("00" * 48, Outcome.FAIL)):
        pinned = AttestationPolicy(allow=ALLOWED, measurements=(("mrtd", frozenset({value})),))
        assert check_quote(quote, collateral, anchors, pinned, at).outcome() is outcome


def test_a_flipped_bit_anywhere_is_rejected_and_in_the_padding_reported(
    samples: list[Sample], policy: AttestationPolicy
) -> None:
    quote, collateral, at = samples[0]
    anchors = load_anchors(policy.anchors)
    spans = parse_signature(parse_quote(quote)).spans
    assert sum(span.size for span in spans.values()) == len(quote) == 8000
    tried: Counter[Cover] = Counter()
    for row in LAYOUT:
        span = spans[row.name]
        places = {span.offset, span.offset + span.size - 1, *range(span.offset, span.offset + span.size, 61)}
        for number, place in enumerate(sorted(places)):
            data = bytearray(quote)
            data[place] ^= 1 << number % 8
            report = check_quote(bytes(data), collateral, anchors, policy, at)
            genuine = report.outcome(ORIGIN)
            if row.cover is Cover.NOTHING:
                assert genuine is Outcome.PASS
                assert Code.QUOTE_MALLEABLE in {finding.code for finding in report.findings}
            else:
                assert genuine is Outcome.FAIL, f"{row.name}, byte {place}"
            tried[row.cover] += 1
    assert set(tried) == set(Cover)
    assert sum(tried.values()) - tried[Cover.NOTHING] >= 135


def test_a_flipped_bit_of_the_collateral_is_rejected(samples: list[Sample], policy: AttestationPolicy) -> None:
    quote, collateral, at = samples[0]
    anchors = load_anchors(policy.anchors)
    value = json.loads(collateral)
    for address, text in value["items"].items():
        original = base64.b64decode(text)
        for place in range(0, len(original), len(original) // 12):
            data = bytearray(original)
            data[place] ^= 1
            items = value["items"] | {address: base64.b64encode(data).decode()}
            changed = json.dumps({**value, "items": items}).encode()
            report = check_quote(quote, changed, anchors, policy, at)
            assert report.outcome(ORIGIN) is Outcome.FAIL, f"{address}, byte {place}"


def test_a_genuine_quote_with_other_report_data_fails_only_its_binding(
    samples: list[Sample], policy: AttestationPolicy
) -> None:
    first = samples[0]
    report = check_quote(
        first.quote, first.collateral, load_anchors(policy.anchors), policy, first.at, report_data=bytes(64)
    )
    assert {result.step for result in report.results if result.outcome is Outcome.FAIL} == {Step.BINDING}
