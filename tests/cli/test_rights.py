"""A key that could not have signed is refused by every command that signs, also where there is nothing to sign."""

from __future__ import annotations

import pytest

from tests.ledger.writer.support import bundle_body, write_bundle
from tests.verify.polaris import make_log

SIGNING = {
    "append": ("append", "note", "-b", "-", "-l", "ledger", "-k"),
    "seal": ("seal", "bundle", "-l", "ledger", "-k"),
    "import": ("import", "polaris", "log", "--into", "ledger", "-k"),
    "checkpoint": ("checkpoint", "-l", "ledger", "-k"),
    "rescore": ("rescore", "ledger", "--rule", "house-1.decode", "--processes", "1", "--seal"),
}
RIGHT = {"append": "judge", "seal": "runner", "import": "log", "checkpoint": "log", "rescore": "judge"}


@pytest.fixture
def done(run, ledger, tmp_path):
    """A ledger in which everything was sealed, imported, judged and signed once: a second time has nothing to add."""
    write_bundle(tmp_path / "bundle", {}, body=bundle_body([]))
    for name, data in make_log.build(make_log.draft()).items():
        path = tmp_path / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for command in ("seal", "import", "rescore", "checkpoint"):
        assert run(*SIGNING[command], f"{RIGHT[command]}.pem").code == 0, command
    return ledger


@pytest.mark.parametrize("command", [command for command in SIGNING if command != "append"])
def test_a_second_time_adds_nothing_and_takes_the_right_key_alone(run, done, command):
    log = (done / "ledger.jsonl").read_bytes()
    for key in ("spare", *sorted({"log", "runner", "judge", "root"} - {RIGHT[command]})):
        refused = run(*SIGNING[command], f"{key}.pem")
        assert refused.code == 1, (key, refused)
        assert ("[K3L-KEY-UNKNOWN]" if key == "spare" else "[K3L-KEY-WRONG-ROLE]") in refused.err
    assert run(*SIGNING[command], f"{RIGHT[command]}.pem").code == 0
    assert (done / "ledger.jsonl").read_bytes() == log


@pytest.mark.parametrize("command", SIGNING)
def test_a_key_that_was_revoked_is_refused_whatever_there_is_to_do(run, done, command):
    right = RIGHT[command]
    assert run("key", "revoke", right, "-k", "root.pem", "-l", "ledger").code == 0
    refused = run(*SIGNING[command], f"{right}.pem", stdin=b'{"text":"x"}')
    assert (refused.code, "[K3L-KEY-RETIRED]" in refused.err) == (1, True)


@pytest.mark.parametrize("command", ["seal", "import"])
def test_what_was_taken_back_can_be_added_again_by_a_key_that_counts(run, done, command):
    before = len((done / "ledger.jsonl").read_bytes().splitlines())
    right = RIGHT[command]
    assert run("key", "revoke", right, "--from", "4", "-k", "root.pem", "-l", "ledger").code == 0
    assert run("key", "enrol", right, "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    for added in (True, False):
        again = run(*SIGNING[command], "spare.pem")
        size = len((done / "ledger.jsonl").read_bytes().splitlines())
        assert (again.code, size > before + 2) == (0, added), again
        before = size - 2
    assert run("checkpoint", "-k", {"seal": "log.pem", "import": "spare.pem"}[command], "-l", "ledger").code == 0
    assert run("verify", "ledger", "--root-key", "root.pub.pem").code == 0
