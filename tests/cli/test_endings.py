"""A file is what its name ends in, in whatever case: some file systems and people write capitals."""

from __future__ import annotations

import shutil

import pytest


@pytest.mark.parametrize("ending", ["pem", "PEM", "Pem"])
def test_a_key_file_names_its_key(run, ledger, tmp_path, ending) -> None:
    shutil.copy(tmp_path / "judge.pub.pem", tmp_path / f"judges.{ending}")
    done = run("key", "revoke", f"judges.{ending}", "--ledger", "ledger", "-k", "root.pem")
    assert done.code == 0, done.err


@pytest.mark.parametrize("ending", ["toml", "TOML", "Toml"])
def test_a_rule_file_is_read(run, tmp_path, ending) -> None:
    shown = run("rules", "show", "v0.2.1", "--toml")
    assert shown.code == 0
    (tmp_path / f"rule.{ending}").write_text(shown.out)
    assert run("rules", "show", f"rule.{ending}").code == 0


@pytest.mark.parametrize("ending", ["pem", "PEM"])
def test_what_is_no_certificate_is_said_of_every_file_that_ends_like_one(run, ledger, tmp_path, ending) -> None:
    (tmp_path / "certificates").mkdir()
    (tmp_path / "certificates" / f"a.{ending}").write_text("words")
    (tmp_path / "policy.toml").write_text('[attestation]\ntrust_dir = "certificates"\n')
    done = run("verify", "ledger", "--trust", "policy.toml")
    assert (done.code, f"a.{ending}" in done.err + done.out) == (2, True)
