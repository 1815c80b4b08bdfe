"""Output that nobody takes: what was done or found stands; and of what else is refused no cause is invented."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import k3_ledger.cli
from k3_ledger.cli import opening, told
from tests.ledgers import small_ledger
from tests.support import plain_environment

FULL = Path("/dev/full")
MEMORY = Path("/proc/self/mem")
"""A file whose first byte cannot be read: what a bad sector looks like."""


def without_reader(folder: Path, *words: str, how: str) -> subprocess.CompletedProcess[bytes]:
    """A command whose output goes into a pipe that is closed, or to a full disk."""
    if how == "full":
        if not FULL.exists():
            pytest.skip("needs /dev/full, a device that is always full")
        writing = os.open(FULL, os.O_WRONLY)
    else:
        reading, writing = os.pipe()
        os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "k3_ledger.cli", *words],
        cwd=folder, env=plain_environment(), stdout=writing, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    os.close(writing)
    return done


APPEND = ("append", "note", "-b", "note.json", "-l", "ledger", "-k", "judge.pem")
HOW = pytest.mark.parametrize("how", ["pipe", "full"])


@HOW
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])
def test_an_entry_that_was_appended_stands_whoever_takes_the_answer(run, ledger, tmp_path, how, as_json):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    before = (ledger / "ledger.jsonl").read_bytes().count(b"\n")
    done = without_reader(tmp_path, *APPEND, *as_json, how=how)
    assert done.returncode == 0, done
    assert f"note: entry {before} ".encode() in done.stderr
    assert b"stands: do not append it again" in done.stderr
    assert b"only the answer could not be written" in done.stderr
    assert (ledger / "ledger.jsonl").read_bytes().count(b"\n") == before + 1


@HOW
def test_what_a_writer_did_stands_whoever_takes_the_answer(run, ledger, tmp_path, how):
    with (ledger / "ledger.jsonl").open("ab") as log:
        log.write(b'{"entry":{"bod')
    for words, said in (
        ("recover -l ledger", b"entries are whole, and what was cut is kept in"),
        ("checkpoint -l ledger -k log.pem", b"is signed and stands"),
        ("keygen new.pem", b"the keys stand: new.pem"),
        ("keygen newer.pem --json", b"the keys stand: newer.pem"),
        ("init other --origin example.org/o -k root.pem", b"the ledger stands: other"),
        ("key enrol judge spare.pub.pem -l ledger -k root.pem", b"do not append it again"),
        ("index -l ledger", b"the index of 5 entries stands"),
        ("index -l ledger --json --rebuild", b"the index of 5 entries stands"),
        ("checkpoint -l ledger -k log.pem", b"is signed and stands"),
        ("prove 4 -l ledger -o out.proof", b"the proof stands: out.proof"),
        ("bundle pack ledger --out out.tar", b"the bundle stands: out.tar"),
        ("bundle pack ledger --out other.tar --json", b"the bundle stands: other.tar"),
        ("export ledger -k new.pem -o out.jsonl", b"the envelopes stand: out.jsonl"),
        ("timestamp request ledger -o out.tsq", b"the request stands: out.tsq"),
        ("tiles ledger --out mirror", b"the tiles stand: mirror"),
    ):
        done = without_reader(tmp_path, *words.split(), how=how)
        assert done.returncode == 0, (words, done)
        assert said in done.stderr, (words, done)
    assert run("verify", "ledger").code == 0


@HOW
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])
def test_what_is_false_stays_false_whoever_takes_the_report(tmp_path, how, as_json):
    small_ledger().write(tmp_path)
    log = tmp_path / "ledger.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"count":10', b'"count":11', 1))
    done = without_reader(tmp_path, "verify", "ledger.jsonl", *as_json, how=how)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done


@HOW
@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_what_holds_is_no_verdict_where_nobody_takes_the_report(tmp_path, monkeypatch, how, buffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    small_ledger().write(tmp_path)
    done = without_reader(tmp_path, "verify", "ledger.jsonl", how=how)
    assert (done.returncode, b"output is incomplete" in done.stderr) == (3, how == "full"), done
    assert (b"error: the output could not be written: No space left on device" in done.stderr) == (how == "full")
    assert b"Errno" not in done.stderr


# ----------------------------------------------------------------------------------------- what else is refused


def test_a_refusal_that_names_nothing_is_not_laid_on_the_output(monkeypatch, capsys):
    def broken() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(k3_ledger.cli, "app", broken)
    with pytest.raises(SystemExit) as caught:
        k3_ledger.cli.main()
    err = capsys.readouterr().err
    assert caught.value.code == 3
    assert "Input/output error (EIO)" in err
    assert "output is incomplete" not in err


@pytest.mark.parametrize("fault", [OSError("out of words"), ValueError("closed")])
def test_a_stream_with_a_buffer_is_at_fault_where_it_refuses_again(monkeypatch, fault):
    class Stream:
        def flush(self) -> None:
            raise fault

    monkeypatch.setattr(sys, "stderr", None)
    assert not told.is_refused(OSError(5, ""))
    monkeypatch.setattr(sys, "stdout", Stream())
    assert told.is_refused(OSError(5, "")) == isinstance(fault, OSError)


@pytest.mark.skipif(not MEMORY.exists(), reason="needs /proc/self/mem, a file whose first byte cannot be read")
@pytest.mark.parametrize(
    "words",
    [
        "append note -b note.json -l ledger -k /proc/self/mem",
        "append note -b note.json -l ledger -k judge.pem --artifact /proc/self/mem",
        "seal /proc/self/mem -l ledger -k judge.pem",
    ],
)
def test_a_file_whose_medium_fails_is_named(run, ledger, tmp_path, words):
    (tmp_path / "note.json").write_text('{"text": "x"}')
    done = run(*words.split())
    assert done.code in (2, 3), done
    assert "/proc/self/mem" in done.err
    assert "output is incomplete" not in done.err


def test_an_address_that_nobody_reads_is_named(run):
    pytest.importorskip("fsspec")
    done = run("verify", "ftp://127.0.0.1:9/y")
    assert (done.code, "ftp://127.0.0.1:9/y" in done.err, "output" in done.err) == (3, True, False), done


def test_an_empty_passphrase_file_damages_no_key(run, ledger, tmp_path):
    for written in (b"", b"\n", b"\r\nsecond line"):
        (tmp_path / "empty").write_bytes(written)
        (tmp_path / "note.json").write_text('{"text": "x"}')
        done = run(
            *["append", "note", "-b", "note.json", "-l", "ledger", "-k", "judge.pem", "--passphrase-file", "empty"]
        )
        assert done.code == 2, done
        assert "the first line of empty is empty, so it is no passphrase" in " ".join(done.err.replace("│", "").split())
        assert "damaged" not in done.err


# ------------------------------------------------------------------------------------ a stream that is no ledger


@pytest.mark.parametrize("data", [bytes(9 << 20), b"x" * (9 << 20), b"\n" * 9_000_000], ids=["NUL", "x", "lines"])
def test_a_stream_that_cannot_be_a_ledger_is_refused_before_it_is_kept(run, monkeypatch, data):
    kept = []
    monkeypatch.setattr("k3_ledger.cli.sources.BLOCK", 1 << 16)
    original = opening._likely

    def watched(blocks, name):
        for block in original(blocks, name):
            kept.append(len(block))
            yield block

    monkeypatch.setattr(opening, "_likely", watched)
    done = run("verify", "-", stdin=data)
    assert done.code == 3, done
    assert sum(kept) == 0


def test_a_proof_on_standard_input_has_an_end(run, monkeypatch):
    monkeypatch.setattr("k3_ledger.cli.opening.MAX_PROOF", 1 << 16)
    done = run("verify", "-", stdin=b'{"checkpoint":' + b"x" * (1 << 17))
    assert (done.code, "no longer than 65536 bytes" in done.err) == (3, True), done


# ------------------------------------------------------------------------------------------------- names of files


def test_what_is_printed_of_a_name_moves_no_cursor(run, ledger, tmp_path):
    name = "a\x1b[31mred\nline"
    done = run("keygen", f"{name}.pem")
    assert (done.code, "\\x1b[31mred\\nline.pem: public key" in done.out, "\x1b" in done.out) == (0, True, False)
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    done = run("prove", "0", "-l", "ledger", "--out", f"{name}.proof")
    assert (done.code, "\\x1b[31mred" in done.out, "\x1b" in done.out) == (0, True, False)


def test_a_head_that_is_none_is_named(run, ledger):
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    (ledger / "checkpoint").write_bytes(b"")
    for words in (("tiles", "ledger"), ("prove", "0", "-l", "ledger", "--out", "it.proof")):
        done = run(*words)
        assert (done.code, "checkpoint: there is" in done.err.splitlines()[0]) == (1, True), done


def test_a_number_of_entries_that_no_ledger_has_is_a_wrong_use(run, ledger):
    assert run("ls", "-l", "ledger", "-n", 10**22).code == 2
    assert run("ls", "-l", "ledger", "-n", 2**53 - 1).code == 0
