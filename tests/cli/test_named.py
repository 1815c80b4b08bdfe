"""What a user names that is close to a ledger and is none: each is one error that says what to do; pipes are read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.ledgers import ROOT, Key, sign_head, small_ledger
from tests.static_host import lay_out, mirror_files
from tests.support import plain_environment

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (sys.executable, "-m", "k3_ledger.cli")
LEDGER = small_ledger()


def tar_of(*folders: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in folders:
            for name, data in (("ledger.jsonl", LEDGER.data), ("checkpoint", LEDGER.head())):
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("ledger.jsonl", LEDGER.data)
    return made.getvalue()


PACKED = {
    "gunzip": gzip.compress(tar_of("led")),
    "unxz": lzma.compress(tar_of("led")),
    "unzstd": b"\x28\xb5\x2f\xfd" + bytes(400),
    "bunzip2": bz2.compress(LEDGER.data),
    "unzip": zipped(),
}


@pytest.mark.parametrize("tool", PACKED)
def test_a_compressed_file_is_one_error_that_says_how_to_unpack_it(run, tmp_path, tool):
    (tmp_path / "b.tgz").write_bytes(PACKED[tool])
    done = run("verify", "b.tgz")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("error: ") == 1
    assert f"hint: decompress it first: {tool} b.tgz" in done.err


def test_a_tar_of_two_ledgers_names_both(run, tmp_path):
    (tmp_path / "two.tar").write_bytes(tar_of("one", "other"))
    done = run("verify", "two.tar")
    assert (done.code, done.out) == (3, "")
    assert "2 folders at its top" in done.err
    assert "found: one, other" in done.err


# ------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("data", [LEDGER.data, tar_of("led")], ids=["log", "tar"])
def test_standard_input_is_verified_like_a_file(run, data):
    done = run("verify", "-", "--root-key", ROOT.public.hex(), stdin=data)
    assert done.code == 0, done.err
    assert "verified (exit code 0)" in done.out
    assert run("verify", "-", "--root-key", Key("x").public.hex(), stdin=data).code == 1


@pytest.mark.parametrize("data", [b"", b"junk\n", PACKED["gunzip"]])
def test_standard_input_that_is_no_ledger_is_unreadable(run, data):
    assert run("verify", "-", stdin=data).code == 3


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0"])
def test_a_pipe_that_the_shell_opened_is_read(name):
    done = subprocess.run(
        [*COMMAND, "verify", name], input=LEDGER.data, capture_output=True, env=plain_environment(), check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_stream_has_a_limit(run, monkeypatch):
    monkeypatch.setattr("k3_ledger.cli.sources.MAX_STREAM", 1000)
    done = run("verify", "-", stdin=LEDGER.data)
    assert done.code == 3
    assert "more than 1000 bytes" in done.err


def test_a_named_pipe_is_refused_and_says_what_to_do(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run("verify", "pipe")
    assert done.code == 3
    assert "hand it over as standard input (-) instead" in done.err


def test_a_body_out_of_a_pipe_that_the_shell_opened_is_appended(run, ledger):
    reading, writing = os.pipe()
    os.write(writing, b'{"text":"said"}')
    os.close(writing)
    done = run("append", "note", "--body", f"/dev/fd/{reading}", "--key", "judge.pem", "-l", ledger)
    os.close(reading)
    assert done.code == 0, done.err


# -------------------------------------------------------------------------------------------- the list of key entries


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return lay_out(tmp_path / "mirror", mirror_files(LEDGER))


@pytest.mark.parametrize("listed", [b"", b"1\n", b"2\n", b"3\n", b"4\n5\n", b"1\n3\n", b"0\n"])
def test_a_wrong_list_of_key_entries_never_accuses_the_log(run, mirror, listed):
    (mirror / "key-entries").write_bytes(listed)
    done = run("prove", "5", "--ledger", mirror, "--out", "it.proof")
    if b"1" in listed and b"2" in listed:
        return
    assert done.code in (0, 3), done.err
    if done.code:
        assert "key-entries is incomplete or wrong; rebuild it with `k3-ledger tiles`" in done.err
        assert "key-entries: " in done.err
        assert "it.proof" not in done.err


def test_an_empty_list_is_said_to_be_wrong(run, mirror):
    (mirror / "key-entries").write_bytes(b"")
    done = run("prove", "5", "--ledger", mirror, "--out", "it.proof")
    assert done.code == 3
    assert "[K3L-KEY-ENTRIES-WRONG]" in done.err


def test_the_order_of_the_list_does_not_matter(run, mirror, tmp_path):
    assert run("prove", "5", "--ledger", mirror, "--out", "one.proof").code == 0
    listed = (mirror / "key-entries").read_bytes().splitlines(keepends=True)
    (mirror / "key-entries").write_bytes(b"".join([*reversed(listed), listed[0]]))
    assert run("prove", "5", "--ledger", mirror, "--out", "other.proof").code == 0
    assert (tmp_path / "one.proof").read_bytes() == (tmp_path / "other.proof").read_bytes()


@pytest.mark.parametrize("listed", [b"", b"1\n2\n3\n"])
def test_a_head_by_a_stranger_is_still_the_log_s_fault(run, mirror, listed):
    (mirror / "checkpoint").write_bytes(sign_head(LEDGER.lines, Key("stranger")))
    (mirror / "key-entries").write_bytes(listed)
    done = run("prove", "5", "--ledger", mirror)
    assert done.code == 1
    assert "KEY-ENTRIES" not in done.err
