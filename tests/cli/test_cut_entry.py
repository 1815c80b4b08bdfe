"""A last entry that lacks only its line feed: where it is wrong it was tampered with, and every command says so."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from tests.ledger.writer.support import artifact
from tests.ledgers import JUDGE, ROOT, Builder, Key, small_ledger

STRANGER = Key("stranger")


def note(builder: Builder, **fields: object) -> Builder:
    builder.add("note", {"text": "out", "artifacts": []}, **{"signer": JUDGE, **fields})
    return builder


def changed(builder: Builder) -> bytes:
    return note(builder).data.replace(b'"text":"out"', b'"text":"OUT"')


def spaced(builder: Builder) -> bytes:
    return note(builder).data.replace(b'"text":"out"', b'"text": "out"')


def misshapen(builder: Builder) -> bytes:
    return note(builder).data.replace(b'"text":"out"', b'"text":[]')


FORGED = {
    "words that were not signed": (changed, "K3L-SIGNATURE-MISMATCH"),
    "an unknown key": (lambda it: note(it, signer=STRANGER).data, "K3L-KEY-UNKNOWN"),
    "another place": (lambda it: note(it, index=42).data, "K3L-CHAIN-INDEX"),
    "another chain": (lambda it: note(it, prev="0" * 64).data, "K3L-CHAIN-PREV"),
    "other bytes than canonical ones": (spaced, "K3L-TAIL-DAMAGED"),
    "no body of its kind": (misshapen, "K3L-SCHEMA"),
}


@pytest.fixture
def log(run, keys, tmp_path):
    folder = tmp_path / "led"
    folder.mkdir()
    small_ledger().write(folder)
    return folder / "ledger.jsonl"


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("headed", [False, True], ids=["no head", "older head"])
def test_verify_append_and_recover_call_it_what_it_is(run, log, tmp_path, how, headed):
    make, code = FORGED[how]
    data = make(small_ledger())[:-1]
    log.write_bytes(data)
    if not headed:
        (log.parent / "checkpoint").unlink(missing_ok=True)
    (tmp_path / "body.json").write_text('{"text":"more"}')
    for words in (
        ("verify", "led", "--root-key", ROOT.public.hex()),
        ("append", "note", "-l", "led", "-k", "judge.pem", "-b", "body.json"),
        ("recover", "-l", "led"),
    ):
        done = run(*words)
        assert done.code == 1, (words, done)
        assert code in done.out + done.err, (words, done)
        assert "run `k3-ledger recover" not in done.out + done.err
        assert "never written" not in done.out + done.err
        assert log.read_bytes() == data


def test_a_good_one_is_a_torn_tail_that_says_what_it_lacks(run, log, tmp_path):
    log.write_bytes(note(small_ledger()).data[:-1])
    report = json.loads(run("verify", "led", "--json").out)
    assert report["exit_code"] == 5
    assert "a whole entry that lacks its line feed" in json.dumps(report)
    (tmp_path / "body.json").write_text('{"text":"more"}')
    done = run("append", "note", "-l", "led", "-k", "judge.pem", "-b", "body.json")
    assert (done.code, "k3-ledger recover" in done.err) == (5, True)
    assert run("recover", "-l", "led").code == 0
    assert run("verify", "led").code == 0


# -------------------------------------------------------------------------------------- what stands for an artifact


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_what_is_no_file_in_the_place_of_an_artifact_hangs_no_writer(run, ledger, tmp_path, kind):
    (tmp_path / "raw").write_bytes(b"raw samples\n")
    named = [artifact(b"raw samples\n", "raw")]
    (tmp_path / "body.json").write_text(json.dumps({"text": "with a file", "artifacts": named}))
    words = ("append", "note", "-l", "ledger", "-k", "judge.pem", "-b", "body.json", "--artifact", "raw")
    assert run(*words).code == 0
    digest = hashlib.sha256(b"raw samples\n").hexdigest()
    blob = ledger / "blobs" / "sha256" / digest[:2] / digest
    blob.unlink()
    if kind == "pipe":
        os.mkfifo(blob)
    elif kind == "folder":
        blob.mkdir()
    else:
        blob.symlink_to("/dev/zero")
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run(*words)
    assert done.code == 3, done
    assert str(blob.name) in done.err
    assert "standard input" not in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == before
