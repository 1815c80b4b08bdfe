"""The auditor's commands: what they print, where, and with which exit code."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app, fail, terminal
from k3_ledger.cli.sources import DirectorySource
from k3_ledger.ledger.regular import read_small
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.policy import NO_POLICY_SENTENCE, TrustPolicy
from tests.ledgers import ROOT, RUNNER, Builder, Key, run_body, sign_head, small_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def write(folder: Path, ledger: Builder, *, head: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "ledger.jsonl").write_bytes(ledger.data)
    if head:
        (folder / "checkpoint").write_bytes(ledger.head())
    return folder


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    """The finding that a command ended with."""
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def test_a_good_ledger_verifies_and_says_that_nobody_was_authenticated(tmp_path: Path) -> None:
    result = k3("verify", write(tmp_path / "led", small_ledger()))
    assert result.exit_code == 0
    assert "signer not authenticated (no trust policy)" in result.stdout
    assert result.stdout.endswith("verified (exit code 0)\n")
    assert result.stderr == ""


def test_the_json_report_is_the_same_report(tmp_path: Path) -> None:
    ledger = small_ledger()
    report = json.loads(k3("verify", write(tmp_path / "led", ledger), "--json", "--root-key", ROOT.public.hex()).stdout)
    assert (report["schema"], report["exit_code"], report["authenticated"]) == ("k3-ledger/report/1", 0, True)
    assert report["head"]["size"] == 10
    assert [step["name"] for step in report["steps"]][:2] == ["framing", "schema"]


@pytest.mark.parametrize("subject", ["good", "bad", "proof", "nothing"])
def test_every_report_says_under_which_policy_it_was_made(tmp_path: Path, subject: str) -> None:
    ledger = small_ledger()
    folder = write(tmp_path / "led", ledger)
    path = tmp_path / "led"
    if subject == "bad":
        (folder / "ledger.jsonl").write_bytes(ledger.data.replace(b'"count":10', b'"count":11', 1))
    elif subject == "proof":
        path = tmp_path / "p"
        assert k3("prove", "4", "--ledger", folder, "--out", path).exit_code == 0
    elif subject == "nothing":
        (folder / "ledger.jsonl").write_bytes(b"x\n")
    policy = TrustPolicy(root_public_key=ROOT.public, require=frozenset({"pins"}))
    words = ("--root-key", ROOT.public.hex(), "--require", "pins")
    report = json.loads(k3("verify", path, "--json", *words).stdout)
    assert (report["policy"], report["policy_sha256"]) == (policy.sentence, policy.digest)
    assert f"\npolicy     {policy.sentence}\npolicy id  {policy.digest}\n" in k3("verify", path, *words).stdout
    without = json.loads(k3("verify", path, "--json").stdout)
    assert (without["policy"], without["policy_sha256"]) == (NO_POLICY_SENTENCE, None)


def test_a_tampered_ledger_is_exit_1_with_place_expectation_and_hint(tmp_path: Path) -> None:
    ledger = small_ledger()
    ledger.lines[5] = ledger.lines[5].replace(b'"count":10', b'"count":11')
    result = k3("verify", write(tmp_path / "led", ledger, head=False))
    assert result.exit_code == 1
    assert "error: ledger.jsonl, entry 5, line 6" in result.stdout
    assert "[K3L-SIGNATURE-MISMATCH]" in result.stdout
    assert "hint:" in result.stdout
    assert "NOT VERIFIED (exit code 1)" in result.stdout


def test_findings_that_are_only_counted_are_said_to_be(tmp_path: Path) -> None:
    ledger = small_ledger(70)
    ledger.lines[4:] = [line.replace(b'"count":10', b'"count":11') for line in ledger.lines[4:]]
    result = k3("verify", write(tmp_path / "led", ledger, head=False))
    assert "and 67 more of the same cause [K3L-SIGNATURE-MISMATCH]" in result.stdout


def test_a_bare_log_file_has_no_checkpoint_beside_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "led", small_ledger())
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((folder / "ledger.jsonl").read_bytes())
    assert "no good checkpoint" in k3("verify", copy).stdout
    assert "signed head at 10" in k3("verify", folder / "ledger.jsonl").stdout


def test_kept_checkpoints_and_artifacts_are_read_from_the_directory(tmp_path: Path) -> None:
    import hashlib

    data = b"raw samples"
    digest = hashlib.sha256(data).hexdigest()
    artifact = {"name": "raw", "sha256": digest, "size": len(data), "media_type": "text/plain"}
    ledger = small_ledger(2)
    early = ledger.head()
    ledger.add("run", run_body(1, artifacts=[artifact]), RUNNER)
    folder = write(tmp_path / "led", ledger)
    (folder / "checkpoints" / "deeper").mkdir(parents=True)
    (folder / "checkpoints" / "000000000006.note").write_bytes(early)
    (folder / "checkpoints" / ".DS_Store").write_bytes(b"not ours")
    place = folder / "blobs" / "sha256" / digest[:2]
    place.mkdir(parents=True)
    assert "artifact raw is not there" in k3("verify", folder).stdout
    (place / digest).write_bytes(data)
    result = k3("verify", folder, "--require", "artifacts", "--require", "checkpoint")
    assert result.exit_code == 0
    (place / digest).unlink()
    (place / digest).symlink_to(folder / "ledger.jsonl")
    assert "[K3L-ARTIFACT-UNREADABLE]" in k3("verify", folder).stdout
    assert k3("verify", folder, "--require", "artifacts").exit_code == 4
    (place / digest).unlink()
    os.mkfifo(place / digest)
    assert "[K3L-ARTIFACT-UNREADABLE]" in k3("verify", folder).stdout
    assert k3("verify", folder, "--no-artifacts").exit_code == 0


@pytest.mark.parametrize("name", ["ledger.jsonl", "checkpoint"])
def test_what_is_no_regular_file_hangs_nothing(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "led", small_ledger())
    (folder / name).unlink()
    os.mkfifo(folder / name)
    result = k3("verify", folder)
    if name == "checkpoint":
        assert (result.exit_code, "CHECKPOINT-UNREADABLE" in result.stdout) == (3, True)
    else:
        assert code(result) is Code.UNREADABLE
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert k3("verify", folder).exit_code in (1, 3)


def test_a_proof_is_held_to_the_whole_policy(tmp_path: Path) -> None:
    ledger = small_ledger()
    folder, proof, kept = write(tmp_path / "led", ledger), tmp_path / "p", tmp_path / "kept"
    assert k3("prove", 5, "-l", folder, "-o", proof).exit_code == 0
    trust = tmp_path / "trust.toml"
    trust.write_text("minimum_size = 1000\n")
    assert "[K3L-HEAD-TOO-SMALL]" in k3("verify", proof, "--trust", trust).stdout
    kept.write_bytes(ledger.head())
    assert k3("verify", proof, "--expect-head", kept).exit_code == 0
    fork = Builder(ledger.lines[:9])
    fork.add("run", run_body(99), RUNNER)
    kept.write_bytes(fork.head())
    assert "[K3L-FORK]" in k3("verify", proof, "--expect-head", kept).stdout
    kept.write_bytes(sign_head(ledger.lines[:8]))
    assert k3("verify", proof, "--expect-head", kept).exit_code == 4
    assert code(k3("verify", proof, "--memory", kept)) is Code.MEMORY_UNREADABLE
    kept.write_bytes(b"")
    assert k3("verify", proof, "--memory", kept).exit_code == 3
    assert code(k3("verify", proof, "--expect-head", tmp_path / "none")) is Code.UNREADABLE


def test_nothing_in_a_ledger_writes_on_the_terminal(tmp_path: Path) -> None:
    ledger = small_ledger()
    folder = write(tmp_path / "led", ledger)
    evil = "example.org/\x9b2J\u202e"
    (folder / "checkpoint").write_bytes(sign_head(ledger.lines, origin=evil))
    shown = k3("verify", folder).stdout
    assert all(character.isprintable() for line in shown.splitlines() for character in line)
    assert "\\x9b2J\\u202e" in shown


def test_what_is_not_there_or_no_ledger_is_exit_3(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none", tmp_path / "empty"):
        assert code(k3("verify", path)) is Code.UNREADABLE
    (tmp_path / "text").write_text("hello\n")
    assert k3("verify", tmp_path / "text").exit_code == 3


def test_a_trust_policy_comes_from_a_file_from_flags_or_from_both(tmp_path: Path) -> None:
    folder = write(tmp_path / "led", small_ledger())
    trust = tmp_path / "trust.toml"
    trust.write_text(f'root_public_key = "{ROOT.public.hex()}"\n')
    assert f"root key {ROOT.public.hex()}" in k3("verify", folder, "--trust", trust).stdout
    both = k3("verify", folder, "--trust", trust, "--require", "chain")
    assert "required steps: chain" in both.stdout
    other = k3("verify", folder, "--trust", trust, "--root-key", Key("other").public.hex())
    assert code(other) is Code.POLICY_MALFORMED
    assert k3("verify", folder, "--require", "nothing").exit_code == 2
    assert k3("verify", folder, "--root-key", Key("other").public.hex()).exit_code == 1


def test_a_root_key_may_be_a_pem_file(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    folder = write(tmp_path / "led", small_ledger())
    pem = tmp_path / "root.pub.pem"
    key = Ed25519PublicKey.from_public_bytes(ROOT.public)
    pem.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert k3("verify", folder, "--root-key", pem).exit_code == 0
    pem.write_bytes(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    assert code(k3("verify", folder, "--root-key", pem)) is Code.POLICY_MALFORMED
    assert code(k3("verify", folder, "--root-key", tmp_path / "none.pem")) is Code.UNREADABLE


def test_an_expected_head_is_a_checkpoint_kept_by_hand(tmp_path: Path) -> None:
    ledger = small_ledger()
    folder, kept = write(tmp_path / "led", ledger), tmp_path / "kept"
    kept.write_bytes(sign_head(ledger.lines[:7]))
    assert k3("verify", folder, "--expect-head", kept).exit_code == 0
    other = Builder(ledger.lines[:6])
    other.add("run", run_body(99), RUNNER)
    kept.write_bytes(sign_head(other.lines))
    assert "[K3L-FORK]" in k3("verify", folder, "--expect-head", kept).stdout


def test_a_proof_is_written_whole_and_verifies_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "led", small_ledger())
    monkeypatch.chdir(tmp_path)
    result = k3("prove", 5, "-l", folder)
    assert (result.exit_code, result.stdout.startswith("entry-5.proof: entry 5")) == (0, True)
    assert k3("verify", tmp_path / "entry-5.proof", "--root-key", ROOT.public.hex()).exit_code == 0
    assert k3("prove", 6, "-l", folder, "-o", tmp_path / "six").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entry-5.proof", "led", "six"]
    (tmp_path / "six").write_bytes((tmp_path / "six").read_bytes()[:-5])
    assert k3("verify", tmp_path / "six").exit_code == 1
    assert code(k3("prove", 6, "-l", folder, "-o", tmp_path / "none" / "six")) is Code.UNREADABLE
    assert code(k3("prove", 60, "-l", folder)) is Code.NO_SUCH_ENTRY


def test_no_proof_is_written_of_a_ledger_that_does_not_verify(tmp_path: Path) -> None:
    ledger = small_ledger()
    ledger.lines[5] = ledger.lines[5].replace(b'"count":10', b'"count":11')
    folder = write(tmp_path / "led", ledger)
    result = k3("prove", 5, "-l", folder, "-o", tmp_path / "out.proof")
    assert code(result) is Code.SIGNATURE_MISMATCH
    assert not (tmp_path / "out.proof").exists()


def test_an_error_is_two_lines_on_stderr_and_an_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        DirectorySource(tmp_path)
    assert fail(caught.value) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ledger.jsonl: ")
    assert "hint: restore ledger.jsonl where it was lost; `k3-ledger init` begins a ledger where none was" in err


def test_a_small_file_that_is_not_small_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"x" * 100)
    with pytest.raises(LedgerError, match="longer than 99 bytes"):
        read_small(tmp_path / "note", 99)


@pytest.mark.parametrize(
    ("terminal_there", "size", "drawn"), [(False, 1 << 30, False), (True, 1 << 30, True), (True, 10, False)]
)
def test_a_bar_is_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, terminal_there: bool, size: int, drawn: bool
) -> None:
    monkeypatch.setattr(terminal.sys.stderr, "isatty", lambda: terminal_there, raising=False)
    with terminal.progress_bar(size, "verifying") as progress:
        assert (progress is not None) == drawn
        if progress is not None:
            progress(5)


def test_colour_is_for_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from k3_ledger.cli import render

    folder = write(tmp_path / "led", small_ledger())
    plain = k3("verify", folder).stdout
    monkeypatch.setattr(render, "_is_terminal", lambda: True)
    coloured = CliRunner().invoke(app, ["verify", str(folder)], color=True).stdout
    assert "\x1b[" not in plain
    assert "\x1b[32m" in coloured
