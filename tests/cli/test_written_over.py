"""What stands where proofs or a mirror go is not written over unasked."""

from __future__ import annotations

import pytest


@pytest.fixture
def mirrored(run, ledger):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0


def test_a_mirror_of_the_ledger_is_brought_up_to_date(run, ledger, mirrored, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "a note"}')
    assert run("append", "note", "-b", "body.json", "-l", ledger, "-k", "judge.pem").code == 0
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0
    assert (tmp_path / "mirror" / "checkpoint").read_bytes() == (ledger / "checkpoint").read_bytes()


@pytest.mark.parametrize("there", [b"another\n1\nAAAA\n", b"", b"my own words"])
def test_the_head_of_something_else_is_kept(run, ledger, mirrored, tmp_path, there):
    kept = tmp_path / "mirror" / "checkpoint"
    kept.write_bytes(there)
    done = run("tiles", ledger, "--out", "mirror")
    assert (done.code, "--replace" in done.err, kept.read_bytes()) == (2, True, there)
    assert run("tiles", ledger, "--out", "mirror", "--replace").code == 0
    assert kept.read_bytes() == (ledger / "checkpoint").read_bytes()
