"""What a command writes takes nothing's place unless it is told to, and what is named and not there is exit code 2."""

from __future__ import annotations

import pytest

WRITING: dict[str, tuple[str, ...]] = {
    "prove": ("prove", "1", "-l", "ledger", "-o", "made"),
    "prove --consistency": ("prove", "--consistency", "4", "5", "-l", "ledger", "-o", "made"),
    "export": ("export", "ledger", "--dsse", "-k", "spare.pem", "-o", "made"),
    "bundle pack": ("bundle", "pack", "ledger", "-o", "made"),
    "timestamp request": ("timestamp", "request", "ledger", "-o", "made"),
    "frontier": ("frontier", "ledger", "--picture", "made.svg"),
}


@pytest.fixture
def signed(run, ledger):
    head = ("checkpoint", "-k", "log.pem", "-l", "ledger")
    assert run(*head).code == 0
    assert run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=b'{"text":"x"}').code == 0
    assert run(*head).code == 0
    return ledger


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("kind", ["file", "folder", "link to nowhere"])
def test_nothing_is_overwritten_by_accident(run, signed, tmp_path, name, kind) -> None:
    target = tmp_path / WRITING[name][-1]
    if kind == "file":
        target.write_bytes(b"mine")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    done = run(*WRITING[name])
    assert (done.code, done.out) == (2, "")
    assert f"{target.name} exists already; --replace writes in its place" in " ".join(done.err.split())
    assert kind != "file" or target.read_bytes() == b"mine"
    assert kind != "link to nowhere" or (target.is_symlink() and not (tmp_path / "nowhere").exists())


@pytest.mark.parametrize("name", [name for name in WRITING if name != "frontier"])
def test_what_is_there_is_replaced_when_that_is_asked_for(run, signed, tmp_path, name) -> None:
    (tmp_path / "made").write_bytes(b"mine")
    assert run(*WRITING[name], "--replace").code == 0
    assert (tmp_path / "made").read_bytes() != b"mine"


def test_a_proof_without_a_name_is_not_overwritten_either(run, signed) -> None:
    assert run("prove", "1", "-l", "ledger").code == 0
    assert run("prove", "1", "-l", "ledger").code == 2


MISSING: dict[str, tuple[tuple[str, ...], str]] = {
    "entry to show": (("show", "99", "-l", "ledger"), "K3L-NO-SUCH-ENTRY"),
    "entry to prove": (("prove", "99", "-l", "ledger"), "K3L-NO-SUCH-ENTRY"),
    "entry to pack": (("bundle", "pack", "ledger", "--entries", "99", "-o", "made"), "K3L-NO-SUCH-ENTRY"),
    "entry to export": (
        ("export", "ledger", "--dsse", "-k", "spare.pem", "--entries", "99", "-o", "made"), "K3L-NO-SUCH-ENTRY",
    ),
    "key to revoke": (("key", "revoke", "bogus", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "key to rotate": (("key", "rotate", "bogus", "spare.pub.pem", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "key of another ledger": (("key", "revoke", "spare.pub.pem", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "head to lead to": (("prove", "1", "--head", "3", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "older head": (("prove", "--consistency", "1", "5", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "newer head": (("prove", "--consistency", "4", "9", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "rule": (("rules", "show", "bogus"), "K3L-RULE-UNKNOWN"),
    "kind": (("ls", "--kind", "bogus", "-l", "ledger"), "'bogus' is not one of"),
    "step": (("verify", "ledger", "--require", "bogus"), "unknown step 'bogus'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_what_is_named_and_not_there_is_a_usage_error(run, signed, tmp_path, name) -> None:
    words, says = MISSING[name]
    size = (signed / "ledger.jsonl").stat().st_size
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert (signed / "ledger.jsonl").stat().st_size == size
    assert not (tmp_path / "made").exists()
