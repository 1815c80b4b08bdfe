"""Attestations from the command line: whose certificates count is said outside the ledger and outside the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from docs.examples.made_up_intel import World
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.verify.polaris import make_log
from tests.verify.tee.receipts import Attested, ledger

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

PIN = "mrtd=" + "c1" * 48


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def trust_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    folder.mkdir()
    for name, data in World().anchors():
        (folder / name).write_bytes(data)
    (folder / "README").write_text("not read")
    return folder


@pytest.fixture
def led(tmp_path: Path) -> Path:
    folder = tmp_path / "led"
    folder.mkdir()
    built, blobs = ledger(Attested().quoted())
    built.write(folder)
    for digest, data in blobs.items():
        path = folder / "blobs" / "sha256" / digest[:2] / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def trust(tmp_path: Path, **changes: str) -> Path:
    lines = {
        "trust_dir": '"certificates"', "kinds": '["tdx"]', "at": '"receipt"',
        "measurements": '{ mrtd = ["' + "c1" * 48 + '"] }',
    } | changes  # fmt: skip
    path = tmp_path / "trust.toml"
    path.write_text(
        'require = ["attestations"]\n[attestation]\n' + "".join(f"{key} = {value}\n" for key, value in lines.items())
    )
    return path


def attestations(result: Result) -> dict[str, Any]:
    report = json.loads(result.stdout)
    return next(step for step in report["steps"] if step["name"] == "attestations")


def test_a_ledger_is_verified_with_the_certificates_beside_the_policy(
    led: Path, trust_dir: Path, tmp_path: Path
) -> None:
    result = k3("verify", led, "--trust", trust(tmp_path), "--processes", 1, "--json")
    assert result.exit_code == 0, result.output
    assert attestations(result)["outcome"] == "pass"
    assert "pinned mrtd" in json.loads(result.stdout)["policy"]


def test_now_is_the_time_of_this_machine(led: Path, trust_dir: Path, tmp_path: Path) -> None:
    result = k3("verify", led, "--trust", trust(tmp_path, at='"now"'), "--processes", 1, "--json")
    assert result.exit_code == 1
    assert Code.QUOTE_EXPIRED.id in json.loads(result.stdout)["counts"]


def test_now_may_be_a_time_that_the_reader_gives(led: Path, trust_dir: Path, tmp_path: Path) -> None:
    words = ("verify", led, "--trust", trust(tmp_path, at='"now"'), "--processes", 1, "--json")
    result = k3(*words, "--now", "2026-06-01T12:00:00Z")
    assert result.exit_code == 0, result.output
    assert "attestations at 2026-06-01T12:00:00Z" in json.loads(result.stdout)["policy"]


def test_the_time_may_be_given_in_place_of_the_policys(led: Path, trust_dir: Path, tmp_path: Path) -> None:
    words = ("verify", led, "--trust", trust(tmp_path), "--processes", 1, "--json")
    for at, status in (("receipt", 0), ("now", 1), ("2026-06-02T00:00:00Z", 0), ("2027-06-02T00:00:00Z", 1)):
        result = k3(*words, "--at", at)
        assert result.exit_code == status, at
        assert (Code.QUOTE_EXPIRED.id in json.loads(result.stdout)["counts"]) == bool(status)
    assert k3(*words, "--at", "yesterday").exit_code == 2
    assert k3("verify", led, "--at", "now").exit_code == 2


def test_without_a_policy_attestations_are_counted_and_not_checked(led: Path) -> None:
    result = k3("verify", led, "--processes", 1, "--json")
    assert result.exit_code == 0
    assert (attestations(result)["outcome"], attestations(result)["not_checked"]) == ("not-checked", 1)


@pytest.mark.parametrize("what", ["missing", "empty", "crowded"])
def test_a_trust_directory_that_is_none_stops_the_command(led: Path, tmp_path: Path, what: str) -> None:
    if what != "missing":
        (tmp_path / "certificates").mkdir()
    if what == "crowded":
        for number in range(65):
            (tmp_path / "certificates" / f"{number}.pem").touch()
    result = k3("verify", led, "--trust", trust(tmp_path))
    assert isinstance(result.exception, LedgerError)
    assert result.exception.code is (Code.UNREADABLE if what == "missing" else Code.POLICY_MALFORMED)


# -- foreign logs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    world = World(flags={"a": b"\xff", "b": b"\0", "c": b"\xff"})
    monkeypatch.setattr(make_log, "quote", lambda _, data: world.quote(data))
    draft = make_log.draft()
    for run in draft.runs:
        run.attestation["timestamp_utc"] = "2026-06-01T00:00:00Z"
        run.tdx["collateral_b64"] = make_log.b64(world.collateral())
    for name, data in make_log.build(draft).items():
        path = tmp_path / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "log"


def quotes(result: Result) -> dict[str, tuple[int, int, int]]:
    rows = {row["field"]: row for row in json.loads(result.stdout)["hashes"]}
    return {
        name: tuple(rows[f"tdx.quote_b64 ({name})"][key] for key in ("verified", "failed", "not_checked"))
        for name in ("origin", "policy", "measurements")
        if f"tdx.quote_b64 ({name})" in rows
    }  # fmt: skip


def test_a_foreign_log_is_audited_with_certificates_of_the_auditors(log: Path, trust_dir: Path) -> None:
    allowed = ("--allow", "dynamic-platform", "--allow", "smt", "--pin", PIN, "--tcb-status", "OutOfDate")
    result = k3("audit", "polaris", log, "--trust-dir", trust_dir, *allowed, "--json")
    found = quotes(result)
    count = found["origin"][0]
    assert count > 1
    assert found == dict.fromkeys(("origin", "policy", "measurements"), (count, 0, 0))
    strict = quotes(k3("audit", "polaris", log, "--trust-dir", trust_dir, "--json"))
    assert strict == {"origin": (count, 0, 0), "policy": (0, count, 0), "measurements": (0, 0, count)}
    later = k3("audit", "polaris", log, "--trust-dir", trust_dir, "--at", "now", *allowed, "--json")
    assert quotes(later)["origin"] == (0, count, 0)
    assert later.exit_code == 1
    none = quotes(k3("audit", "polaris", log, "--json"))
    assert none["origin"][:2] == (0, 0)


@pytest.mark.parametrize(
    "flags",
    [
        ("--at", "now"),
        ("--allow", "smt"),
        ("--tcb-status", "OutOfDate"),
        ("--pin", PIN),
        ("--trust-dir", "{}", "--at", "yesterday"),
        ("--trust-dir", "{}", "--allow", "everything"),
        ("--trust-dir", "{}", "--tcb-status", "Revoked"),
        ("--trust-dir", "{}", "--pin", "mrtd"),
        ("--trust-dir", "{}", "--pin", "rtmr9=" + "00" * 48),
    ],
)
def test_flags_that_mean_nothing_are_a_wrong_use(log: Path, trust_dir: Path, flags: tuple[str, ...]) -> None:
    result = k3("audit", "polaris", log, *(flag.format(trust_dir) for flag in flags))
    assert result.exit_code == 2
    assert result.stdout == ""
