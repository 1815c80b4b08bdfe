"""Damage to line 1 of an honest log: one cause, said first, and no accusation of who signed the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.cli.render import SHOWN_PER_CODE, print_report
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ROOT, Key, sign_head, small_ledger

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

LEDGER = small_ledger(60)
FIRST = LEDGER.lines[0]
REST = LEDGER.data[len(FIRST) :]
POLICY = TrustPolicy(root_public_key=ROOT.public)
ACCUSING = {Code.ROOT_NOT_TRUSTED, Code.CHECKPOINT_SIGNATURE}


def flipped(at: int) -> bytes:
    return FIRST[:at] + bytes([FIRST[at] ^ 1]) + FIRST[at + 1 :]


DAMAGE = {
    "a byte of the frame": flipped(3) + REST,
    "a byte of the schema": flipped(FIRST.index(b'"kind"') + 1) + REST,
    "a byte of the name": flipped(FIRST.index(b'"origin":"') + 12) + REST,
    "a byte of the root key": flipped(FIRST.index(b'"root_public_key":"') + 25) + REST,
    "a byte of the signature": flipped(len(FIRST) - 40) + REST,
    "a byte order mark": b"\xef\xbb\xbf" + LEDGER.data,
    "windows line ends": LEDGER.data.replace(b"\n", b"\r\n"),
    "windows line end on line 1": FIRST[:-1] + b"\r\n" + REST,
    "no genesis": REST,
}


def verified(data: bytes, policy: TrustPolicy | None = POLICY) -> Report:
    kept = tuple((f"checkpoints/{size:012}.note", sign_head(LEDGER.lines[:size])) for size in (10, 20, 30, 40, 50))
    return check_log(MemorySource(data, checkpoint=LEDGER.head(), kept=kept), policy)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_line_1_is_one_cause_and_accuses_nobody(name: str) -> None:
    report = verified(DAMAGE[name])
    assert report.exit_code == ExitCode.FALSE
    assert not ACCUSING & set(report.counts)
    assert {finding.position.line for finding in report.findings if finding.code is Code.KEY_UNKNOWN} <= {1}
    assert report.counts.get(Code.KEY_UNKNOWN, 0) == (name == "a byte of the root key")
    assert report.counts[Code.ROOT_NOT_CHECKED] == 1
    assert not report.authenticated
    assert (report.findings[0].position.line, report.findings[0].position.source) == (1, "ledger.jsonl")
    assert report.findings[0].code.info.exit is ExitCode.FALSE
    keys = next(step for step in report.steps if step.name == "keys")
    assert keys.outcome is (Outcome.FAIL if Code.KEY_UNKNOWN in report.counts else Outcome.NOT_CHECKED)
    assert keys.not_checked


@pytest.mark.parametrize("name", DAMAGE)
def test_a_reader_is_shown_few_findings(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(verified(DAMAGE[name]), as_json=False)
    out = capsys.readouterr().out
    assert out.count("\nerror: ") <= 2 * SHOWN_PER_CODE + 1
    assert out.count("K3L-ROOT-NOT-CHECKED") == 1


def test_of_many_findings_of_one_cause_the_first_are_shown_and_all_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = verified(DAMAGE["windows line ends"])
    print_report(report, as_json=False)
    out = capsys.readouterr().out
    assert out.count("[K3L-CRLF]\n") == SHOWN_PER_CODE
    assert f"and {len(LEDGER.lines) - SHOWN_PER_CODE} more of the same cause [K3L-CRLF]" in out


def test_without_a_policy_it_is_said_as_well() -> None:
    report = verified(DAMAGE["a byte of the name"], None)
    assert report.counts[Code.ROOT_NOT_CHECKED] == 1
    assert not ACCUSING & set(report.counts)


def test_a_good_genesis_of_another_root_is_still_another_root() -> None:
    report = verified(LEDGER.data, TrustPolicy(root_public_key=Key("other").public))
    assert set(report.counts) == {Code.ROOT_NOT_TRUSTED}


def test_verdicts_of_a_log_without_a_genesis_are_still_counted() -> None:
    whole, damaged = (verified(data) for data in (LEDGER.data, DAMAGE["a byte of the signature"]))
    details = [next(step.detail for step in report.steps if step.name == "verdicts") for report in (whole, damaged)]
    assert details[0] == details[1]


def test_a_head_over_lines_without_a_genesis_is_no_good_head() -> None:
    report = check_log(MemorySource(REST, checkpoint=sign_head(LEDGER.lines[1:])), POLICY)
    step = next(step for step in report.steps if step.name == "checkpoint")
    assert (step.outcome, step.failed) == (Outcome.NOT_CHECKED, 0)
    assert step.detail.startswith("no good checkpoint")
    assert set(report.counts) == {Code.CHAIN_NO_GENESIS, Code.ROOT_NOT_CHECKED}


def test_what_is_wrong_with_an_entry_stands_before_what_heads_say_of_it() -> None:
    lines = list(LEDGER.lines)
    lines[20] = lines[20].replace(b'"count":10', b'"count":11')
    report = verified(b"".join(lines))
    assert (report.findings[0].position.source, report.findings[0].position.line) == ("ledger.jsonl", 21)
    assert Code.CHECKPOINT_ROOT in report.counts


def test_entries_whose_signers_cannot_be_known_are_counted_once() -> None:
    report = verified(DAMAGE["a byte of the signature"])
    keys = next(step for step in report.steps if step.name == "keys")
    assert keys.not_checked == len(LEDGER.lines) - 1 + 1  # every entry but the genesis, and who opened the log
    assert keys.checked == 0
