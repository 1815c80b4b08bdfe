"""Every command that reads a ledger reads a tar of it and a mirror, or says what else it was given."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

CLAIM = """[[claim]]
id = "accepted"
says = "60 tok/s"
kind = "speed"
track = "decode@131072/slice/bf16/node"
value = 60.0
tolerance = "rounding"
"""
COMMANDS = {
    "rescore": ("rescore", "--rule", "house-4.decode", "LEDGER"),
    "rescore --counts": ("rescore", "--rule", "house-4.decode", "--counts", "LEDGER"),
    "reconcile": ("reconcile", "LEDGER"),
    "frontier": ("frontier", "LEDGER"),
    "claims check": ("claims", "check", "claims.toml", "--against", "LEDGER"),
    "bundle pack": ("bundle", "pack", "LEDGER", "--out", "out.tar", "--replace"),
    "export": ("export", "LEDGER", "--dsse", "--key", "spare.pem", "--out", "out.jsonl", "--replace"),
    "verify": ("verify", "LEDGER"),
    "prove": ("prove", "1", "--ledger", "LEDGER", "--out", "one.proof", "--replace"),
}


@pytest.fixture
def forms(run, ledger, tmp_path):
    """The same log as a directory, a tar, a mirror and a tar of the mirror; and an offline bundle of it."""
    ledger = ledger.rename(tmp_path / "own")
    assert run("checkpoint", "-l", "own", "-k", "log.pem").code == 0
    assert run("tiles", "own").code == 0
    shutil.copytree(ledger, tmp_path / "mirror")
    (tmp_path / "mirror" / "ledger.jsonl").unlink()
    for name in ("own", "mirror"):
        with tarfile.open(tmp_path / f"{name}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            tar.add(tmp_path / name, arcname=".")
    assert run("bundle", "pack", "own", "--out", "bundle.tar").code == 0
    (tmp_path / "claims.toml").write_text(CLAIM)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_tar_and_a_mirror_are_read_as_the_ledger_is(name, run, forms):
    def asked(path):
        done = run(*(path if word == "LEDGER" else word for word in COMMANDS[name]))
        made = [data.read_bytes() for data in map(forms.joinpath, ("out.tar", "out.jsonl")) if data.exists()]
        return done.code, done.out.replace(path, "LEDGER") if name != "verify" else "", made

    plain = asked("own")
    assert plain[0] == (name == "claims check")  # no receipt is there
    for other in ("own.tar", "mirror", "mirror.tar"):
        assert asked(other) == plain, other


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "verify"])
def test_an_offline_bundle_is_called_one(name, run, forms):
    done = run(*("bundle.tar" if word == "LEDGER" else word for word in COMMANDS[name]))
    assert done.code == 3, done
    assert "bundle.tar: this is an offline bundle" in done.err
    assert "hint: give the ledger itself" in done.err


def test_what_lacks_a_part_is_not_judged(run, forms):
    shutil.rmtree(forms / "mirror" / "tile" / "entries")
    done = run("frontier", "mirror")
    assert done.code == 4
    assert "K3L-TILE-MISSING" in done.err


def test_nothing_stays_open_behind_a_command(run, forms):
    def held():
        return [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and link.name.isdigit()]

    before = len(held())
    assert run("frontier", "own.tar").code == 0
    assert len(held()) == before
