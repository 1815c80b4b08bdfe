"""However a verification ends, its report is printed, and what the reader gave wrong is never the log's fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from docs.examples.made_up_intel import World

from k3_ledger.cli.render import print_report
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.report import EXIT_PRECEDENCE, Report

if TYPE_CHECKING:
    from pathlib import Path

JUNK = {
    "notes.pem": b"junk\n",
    "empty.pem": b"",
    "half.pem": b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "nvidia-jwks.json": b"junk",
    "NVIDIA-JWKS.JSON": b"junk",
    "nvidia-jwks.json ": b'{"keys":5}',
    "nvidia-jwks.json  ": b'{"keys":[{"kty":"EC","crv":"P-384","kid":"1","x":"AQ","y":"AQ"}]}',
}
COMMANDS = (
    ("verify", "ledger", "--trust", "trust.toml"),
    ("verify", "ledger", "--trust", "trust.toml", "--json"),
    ("bundle", "pack", "ledger", "--trust", "trust.toml", "--out", "pack.tar"),
    ("audit", "polaris", "ledger", "--trust-dir", "certificates"),
)


def ended(*codes: Code) -> Report:
    findings = tuple(Finding(code, "something") for code in codes)
    return Report("a log", "none", None, False, None, None, (), findings, dict.fromkeys(codes, 1))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("exit_code", ExitCode)
def test_a_report_is_printed_whatever_its_exit_code(exit_code: ExitCode, capsys, *, as_json: bool) -> None:
    codes = [code for code in Code if code.info.exit == exit_code]
    assert codes or exit_code is ExitCode.VERIFIED
    for report in [ended(*codes), *map(ended, codes)]:
        print_report(report, as_json=as_json)
        out = capsys.readouterr().out
        assert (json.loads(out)["exit_code"] == exit_code) if as_json else f"(exit code {int(exit_code)})" in out


def test_every_exit_code_but_the_good_one_has_its_place_among_several() -> None:
    assert {*EXIT_PRECEDENCE, ExitCode.VERIFIED} == set(ExitCode)
    assert len(EXIT_PRECEDENCE) == len(set(EXIT_PRECEDENCE))


@pytest.fixture
def trusting(ledger: Path) -> Path:
    """A trust policy with a trust directory, though no receipt of the ledger needs one."""
    folder = ledger.parent / "certificates"
    folder.mkdir()
    for name, data in World().anchors():
        (folder / name).write_bytes(data)
    (ledger.parent / "trust.toml").write_text('[attestation]\ntrust_dir = "certificates"\nkinds = ["tdx"]\n')
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", JUNK)
def test_junk_in_the_trust_directory_is_the_readers_fault(run, trusting, name: str, command: tuple[str, ...]) -> None:
    assert "[K3L-POLICY-MALFORMED]" not in run(*command).err
    (trusting / name.strip()).write_bytes(JUNK[name])
    done = run(*command)
    assert (done.code, "[K3L-POLICY-MALFORMED]" in done.err) == (2, True)
    assert name.strip().lower() in done.err.lower()
