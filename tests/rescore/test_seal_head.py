"""What is sealed was judged of the ledger that it is sealed into: what another process appends meanwhile counts."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli import material as opening
from k3_ledger.cli import rescore as cli
from tests.rescore.test_cli_judging import invented

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.cli.trusting import Trusted
    from tests.commands import Done

SEAL = ("rescore", "own", "--rule", "house-1.decode", "--seal", "judge.pem", "--processes", "1", "--json")
NOTE = (
    "note: signer not authenticated; no signed head: the log may have been cut "
    "(--trust or --root-key says whom to believe)\n"
)
GREW = "note: the ledger grew meanwhile, and was verified and judged again\n"


def another(*words: object) -> None:
    """The command in another process, to its end."""
    subprocess.run([sys.executable, "-m", "k3_ledger.cli", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def own(command: Callable[..., Done], tmp_path: Path) -> Path:
    """A ledger of a reference, a frontier build and a candidate of 60 tokens a second."""
    command("keygen", "root.pem", "log.pem", "runner.pem", "judge.pem")
    roles = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
    assert command("init", "own", "--origin", "example.org/x", "--key", "root.pem", *roles).code == 0
    for role, decode in (("reference", 40), ("frontier", 50), ("candidate", 60)):
        invented(tmp_path, role, decode)
        assert command("seal", role, "--ledger", "own", "--key", "runner.pem").code == 0
    return tmp_path / "own"


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """``meanwhile(words…)``: another process runs that once, between verifying the ledger and sealing into it."""

    def set_up(*words: object) -> list[int]:
        verified: list[int] = []

        def load(path: Path, processes: int, trusted: Trusted) -> Any:
            loaded = opening.load_with_log(path, processes, trusted)
            verified.append(len((path / "ledger.jsonl").read_bytes().splitlines()))
            if words and len(verified) == 1:
                another(*words)
            return loaded

        monkeypatch.setattr(cli, "load_with_log", load)
        return verified

    return set_up


def entry(command: Callable[..., Done], index: int) -> str:
    return str(command("show", index, "--ledger", "own", "--json").json["identity"])


def kinds(own: Path) -> list[bytes]:
    lines = (own / "ledger.jsonl").read_bytes().splitlines()
    return [line.partition(b'"kind":"')[2].partition(b'"')[0] for line in lines]


def test_a_ledger_that_stayed_as_it_was_is_verified_once(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]]
) -> None:
    verified = meanwhile()
    assert command(*SEAL).err == f"1 verdicts sealed, 0 were there already\n{NOTE}"
    assert verified == [7]
    assert kinds(own)[-1] == b"verdict"


def test_what_has_nothing_to_do_with_it_changes_nothing(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]], tmp_path: Path
) -> None:
    (tmp_path / "note.json").write_text('{"text": "x"}')
    verified = meanwhile("append", "note", "--body", "note.json", "--ledger", "own", "--key", "log.pem")
    done = command(*SEAL)
    assert (done.code, done.err) == (0, f"{GREW}1 verdicts sealed, 0 were there already\n{NOTE}")
    assert verified == [7, 8]
    assert kinds(own)[-2:] == [b"note", b"verdict"]


def test_a_frontier_that_was_superseded_meanwhile_is_not_sealed_against(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]], tmp_path: Path
) -> None:
    gone = entry(command, 5)
    (tmp_path / "gone.json").write_text(f'{{"target": "{gone}", "reason": "wrong build"}}')
    meanwhile("append", "supersede", "--body", "gone.json", "--ledger", "own", "--key", "judge.pem")
    done = command(*SEAL)
    (run,) = [run for run in done.json["runs"] if run["verdict"]]
    assert done.err == f"{GREW}1 verdicts sealed, 0 were there already\n{NOTE}"
    assert run["verdict"]["tier"] == "BASELINE", "with the frontier it was XL"
    assert gone not in (own / "ledger.jsonl").read_bytes().splitlines()[-1].decode()
    assert command("verify", "own", "--processes", "1").code == 0


def test_a_run_that_was_taken_back_meanwhile_gets_no_verdict(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]]
) -> None:
    meanwhile("key", "revoke", "runner", "--from", 6, "--ledger", "own", "--key", "root.pem")
    done = command(*SEAL)
    assert (done.code, done.json["runs"]) == (0, [])
    assert done.err.startswith(f"{GREW}0 verdicts sealed, 0 were there already\n")
    assert kinds(own)[-1] == b"key"
    assert command("verify", "own", "--processes", "1").code == 0


def test_a_judge_whose_key_was_revoked_meanwhile_seals_nothing(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]]
) -> None:
    meanwhile("key", "revoke", "judge", "--ledger", "own", "--key", "root.pem")
    done = command(*SEAL)
    assert (done.code, done.out) == (1, "")
    assert "[K3L-KEY-RETIRED]" in done.err
    assert kinds(own)[-1] == b"key"


def test_the_same_verdict_that_somebody_sealed_meanwhile_is_not_sealed_twice(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]]
) -> None:
    meanwhile(*SEAL)
    assert command(*SEAL).err == f"{GREW}0 verdicts sealed, 1 were there already\n{NOTE}"
    assert kinds(own).count(b"verdict") == 1


def test_a_rule_that_took_the_name_meanwhile_keeps_it(
    command: Callable[..., Done], own: Path, meanwhile: Callable[..., list[int]], tmp_path: Path
) -> None:
    text = command("rules", "show", "house-1.decode", "--toml").out.replace("house-1.decode", "mine")
    for name, bar in (("mine", "0.03"), ("other", "0")):
        mine = text.replace('tiers.significance = "0.02"', f'tiers.significance = "{bar}"')
        (tmp_path / f"{name}.toml").write_text(mine)
    (tmp_path / "rule.json").write_text(command("rules", "show", "other.toml", "--body").out)
    meanwhile("append", "rule", "--body", "rule.json", "--ledger", "own", "--key", "judge.pem")
    done = command(*SEAL[:3], "mine.toml", *SEAL[4:])
    assert done.code == 2
    assert "mine is the name of another rule" in done.err
    assert kinds(own)[-1] == b"rule"


def test_a_ledger_that_was_damaged_meanwhile_is_not_sealed_into(
    command: Callable[..., Done], own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = own / "ledger.jsonl"

    def load(path: Path, processes: int, trusted: Trusted) -> Any:
        loaded = opening.load_with_log(path, processes, trusted)
        log.write_bytes(log.read_bytes().replace(b'"decode"', b'"dec0de"', 1))
        another("append", "note", "--body", path.parent / "note.json", "--ledger", "own", "--key", "log.pem")
        return loaded

    (own.parent / "note.json").write_text('{"text": "x"}')
    monkeypatch.setattr(cli, "load_with_log", load)
    done = command(*SEAL)
    assert (done.code, done.out) == (1, "")
    assert kinds(own)[-1] == b"note"
