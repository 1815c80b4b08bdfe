"""A file in the place of another: one clear error that names it, says what it is and what was wanted, and what to do.

Every option that takes a file stands in ``SLOTS``, and a test holds that list against the commands themselves.
"""

from __future__ import annotations

import base64
import gzip
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import typer.main

from k3_ledger.cli import app, given
from k3_ledger.cli.kinds import Kind, looks_like
from tests.commands import runner
from tests.ledger.writer.support import TIME

SLOTS = {
    ("keygen", "--passphrase-file"): (given.PASSPHRASE, "keygen", "new.pem", "--passphrase-file", "@"),
    ("key enrol", "PUBLIC_KEY"): (given.PUBLIC_KEY, "key", "enrol", "log", "@", "-k", "root.pem", "-l", "ledger"),
    ("key enrol", "--key"): (given.PRIVATE_KEY, "key", "enrol", "log", "spare.pub.pem", "-k", "@", "-l", "ledger"),
    ("key rotate", "OLD"): (
        given.PUBLIC_KEY, "key", "rotate", "@.pem", "spare.pub.pem", "-k", "root.pem", "-l", "ledger",
    ),
    ("key rotate", "PUBLIC_KEY"): (
        given.PUBLIC_KEY, "key", "rotate", "log.pub.pem", "@", "-k", "root.pem", "-l", "ledger",
    ),
    ("key rotate", "--key"): (
        given.PRIVATE_KEY, "key", "rotate", "log.pub.pem", "spare.pub.pem", "-k", "@", "-l", "ledger",
    ),
    ("key rotate", "--new-key"): (
        given.PRIVATE_KEY, "key", "rotate", "root.pub.pem", "spare.pub.pem", "-k", "root.pem", "--new-key", "@",
        "-l", "ledger",
    ),
    ("key revoke", "OLD"): (given.PUBLIC_KEY, "key", "revoke", "@.pem", "-k", "root.pem", "-l", "ledger"),
    ("key revoke", "--key"): (given.PRIVATE_KEY, "key", "revoke", "log.pub.pem", "-k", "@", "-l", "ledger"),
    ("key threshold", "--key"): (given.PRIVATE_KEY, "key", "threshold", "1", "-k", "@", "-l", "ledger"),
    ("key endorse", "PROPOSAL"): (given.PROPOSAL, "key", "endorse", "@", "-k", "root.pem"),
    ("key endorse", "--key"): (given.PRIVATE_KEY, "key", "endorse", "proposal", "-k", "@"),
    ("key append", "PROPOSAL"): (given.PROPOSAL, "key", "append", "@", "-k", "root.pem", "-l", "ledger"),
    ("key append", "--key"): (given.PRIVATE_KEY, "key", "append", "proposal", "-k", "@", "-l", "ledger"),
    ("key append", "--new-key"): (
        given.PRIVATE_KEY, "key", "append", "proposal", "-k", "root.pem", "--new-key", "@", "-l", "ledger",
    ),
    ("init", "--key"): (given.PRIVATE_KEY, "init", "other", "--origin", "example.org/o", "-k", "@"),
    ("init", "--enrol"): (
        given.PUBLIC_KEY, "init", "other", "--origin", "example.org/o", "-k", "root.pem", "--enrol", "log=@",
    ),
    ("append", "--body"): (given.BODY, "append", "note", "-b", "@", "-l", "ledger", "-k", "judge.pem"),
    ("append", "--key"): (given.PRIVATE_KEY, "append", "note", "-b", "body.json", "-l", "ledger", "-k", "@"),
    ("append", "--artifact"): (
        given.ARTIFACT, "append", "note", "-b", "body.json", "-l", "ledger", "-k", "log.pem", "--artifact", "@",
    ),
    ("seal", "BUNDLES"): (given.BUNDLE, "seal", "@", "-l", "ledger", "-k", "runner.pem"),
    ("seal", "--key"): (given.PRIVATE_KEY, "seal", "nothing", "-l", "ledger", "-k", "@"),
    ("checkpoint", "--key"): (given.PRIVATE_KEY, "checkpoint", "-l", "ledger", "-k", "@"),
    ("verify", "PATH"): (given.LEDGER_FILE, "verify", "@"),
    ("verify", "--trust"): (given.POLICY, "verify", "ledger", "--trust", "@"),
    ("verify", "--root-key"): (given.PUBLIC_KEY, "verify", "ledger", "--root-key", "@"),
    ("verify", "--memory"): (given.MEMORY, "verify", "ledger", "--memory", "@"),
    ("verify", "--expect-head"): (given.HEAD, "verify", "ledger", "--expect-head", "@"),
    ("prove", "--ledger"): (given.LEDGER_FILE, "prove", "0", "-l", "@"),
    ("witness init", "--key"): (given.PRIVATE_KEY, "witness", "init", "new", "--name", "w.example/1", "-k", "@"),
    ("witness add-log", "KEYS"): (given.PUBLIC_KEY, "witness", "add-log", "example.org/o", "@", "-s", "witness"),
    ("witness add-log", "--from"): (
        given.LEDGER_FILE, "witness", "add-log", "example.org/o", "log.pub.pem", "-s", "witness", "--from", "@",
    ),
    ("witness cosign", "SOURCE"): (given.LEDGER_FILE, "witness", "cosign", "@", "-s", "witness", "-k", "spare.pem"),
    ("witness cosign", "--key"): (given.PRIVATE_KEY, "witness", "cosign", "ledger", "-s", "witness", "-k", "@"),
    ("witness serve", "--key"): (given.PRIVATE_KEY, "witness", "serve", "-s", "witness", "-k", "@"),
    ("trust init", "LEDGER"): (given.LEDGER_FILE, "trust", "init", "@"),
    ("trust init", "--root-key"): (given.PUBLIC_KEY, "trust", "init", "ledger", "--root-key", "@"),
    ("trust show", "--trust"): (given.POLICY, "trust", "show", "-t", "@"),
    ("trust add witness", "--trust"): (given.POLICY, "trust", "add", "witness", "VERIFIER", "-t", "@"),
    ("trust add key", "ROOT_KEY"): (given.PUBLIC_KEY, "trust", "add", "key", "@", "-t", "trust.toml"),
    ("trust add key", "--trust"): (given.POLICY, "trust", "add", "key", "root.pub.pem", "-t", "@"),
    ("trust add origin", "--trust"): (given.POLICY, "trust", "add", "origin", "example.org/bench", "-t", "@"),
    ("trust add size", "--trust"): (given.POLICY, "trust", "add", "size", "1", "-t", "@"),
    ("trust add age", "--trust"): (given.POLICY, "trust", "add", "age", "1", "-t", "@"),
    ("trust add require", "--trust"): (given.POLICY, "trust", "add", "require", "witnesses", "-t", "@"),
    ("trust add timestamps", "CERTIFICATE"): (given.CERTIFICATE, "trust", "add", "timestamps", "@", "-t", "trust.toml"),
    ("trust add timestamps", "--trust"): (given.POLICY, "trust", "add", "timestamps", "root.crt", "-t", "@"),
    ("trust add attestation", "--trust"): (given.POLICY, "trust", "add", "attestation", "--kind", "tdx", "-t", "@"),
    ("export", "--key"): (given.PRIVATE_KEY, "export", "ledger", "--dsse", "-k", "@", "-o", "new"),
    ("export", "--trust"): (
        given.POLICY, "export", "ledger", "--dsse", "-k", "runner.pem", "--trust", "@", "-o", "new",
    ),
    ("timestamp add", "ANSWER"): (given.TIMESTAMP, "timestamp", "add", "ledger", "@"),
    ("audit polaris", "--public-key"): (given.PUBLIC_KEY, "audit", "polaris", "runs", "--public-key", "@"),
    ("import polaris", "--key"): (given.PRIVATE_KEY, "import", "polaris", "runs", "--into", "ledger", "-k", "@"),
    ("rules show", "NAME"): (given.RULE, "rules", "show", "@.toml"),
    ("rules diff", "FIRST"): (given.RULE, "rules", "diff", "@.toml", "v0.2.1"),
    ("rules diff", "SECOND"): (given.RULE, "rules", "diff", "v0.2.1", "@.toml"),
    ("rules lint", "NAMES"): (given.RULE, "rules", "lint", "@.toml"),
    ("rescore", "--root-key"): (given.PUBLIC_KEY, "rescore", "ledger", "--rule", "v0.2.1", "--root-key", "@"),
    ("rescore", "--rule"): (given.RULE, "rescore", "ledger", "--rule", "@.toml"),
    ("rescore", "--pins"): (given.PINS, "rescore", "ledger", "--rule", "v0.2.1", "--pins", "@"),
    ("rescore", "--seal"): (given.PRIVATE_KEY, "rescore", "ledger", "--rule", "v0.2.1", "--seal", "@"),
    ("reconcile", "--root-key"): (given.PUBLIC_KEY, "reconcile", "ledger", "--root-key", "@"),
    ("frontier", "--root-key"): (given.PUBLIC_KEY, "frontier", "ledger", "--root-key", "@"),
    ("reconcile", "--pins"): (given.PINS, "reconcile", "ledger", "--pins", "@"),
    ("reconcile", "--merges"): (given.MERGES, "reconcile", "ledger", "--merges", "@"),
    ("claims check", "FILE"): (given.CLAIMS, "claims", "check", "@", "-a", "ledger"),
    ("bundle attest", "BUNDLE"): (given.BUNDLE, "bundle", "attest", "@"),
    ("bundle pack", "--trust"): (given.POLICY, "bundle", "pack", "ledger", "-o", "new", "--trust", "@"),
    ("bundle pack", "--root-key"): (given.PUBLIC_KEY, "bundle", "pack", "ledger", "-o", "new", "--root-key", "@"),
}  # fmt: skip

ELSEWHERE = {
    "passphrase_file": "one reader for every command: keygen's stands for all",
    "ledger": "a directory, but where SLOTS has it",
    "directory": "a directory",
    "into": "a directory",
    "state": "a directory",
    "source": "a directory, but where SLOTS has it",
    "against": "a directory",
    "trust_dir": "a directory",
    "cache": "a directory that is made",
    "evidence": "a directory that is made",
    "proofs": "a directory that is made",
    "out": "written, not read",
    "propose": "written, not read",
    "picture": "written, not read",
    "paths": "written, not read",
    "model": "needs the engine: tests/engine",
    "collateral": "needs the engine: tests/engine",
    "token": "tests/cli/test_attest.py",
}
SHARED = {("claims check", "--root-key")}
"""What is one option with those of `rescore`, `reconcile` and `frontier`, behind a file that has to be read first."""
ENGINE = {"bundle from", "model synth", "model inspect", "model check", "model parity", "generate", "run"}
"""Commands that the engine's tests hold against wrong files: it is not installed everywhere."""
SAID_NOWHERE = ("Traceback", "Incorrect padding", "Expecting value", "InvalidByte", "ParseError", "ASN.1", "codec can")
TOLD_APART_ONLY = {
    *(Kind.OTHER_PEM, Kind.OTHER_PRIVATE_KEY, Kind.BUNDLE_TAR, Kind.OFFLINE_BUNDLE, Kind.NOTE, Kind.WITNESS_REQUEST),
    *(Kind.MEMORY, Kind.DER, Kind.SQLITE, Kind.XZ, Kind.ZSTD, Kind.BZIP2, Kind.ZIP, Kind.HTML, Kind.BLANK, Kind.TOML),
    *(Kind.PROPOSAL, Kind.BUNDLE_JSON, Kind.TIMESTAMP),
}
"""Kinds that no command is run on: their like is, and the table would take minutes."""
ABSENT, FOLDER, PIPE = given.NOTHING, given.DIRECTORY, "a named pipe or a device"


def _tar(*files: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("ledger.jsonl", b"{}")
    return made.getvalue()


def _pem(label: str, body: bytes = bytes(range(48))) -> bytes:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(body).decode()}-----END {label}-----\n".encode()


FILES = {
    Kind.OTHER_PRIVATE_KEY: _pem("OPENSSH PRIVATE KEY"),
    Kind.CERTIFICATE: _pem("CERTIFICATE"),
    Kind.OTHER_PEM: _pem("PGP MESSAGE"),
    Kind.BUNDLE_JSON: b'{"body":{},"kind":"run","schema":"k3-ledger/bundle/1"}',
    Kind.BUNDLE_TAR: _tar(("bundle.json", b"{}")),
    Kind.OFFLINE_BUNDLE: _tar(("pack.json", b"{}")),
    Kind.TAR: _tar(("a/b", b"x"), ("c/d", b"x")),
    Kind.NOTE: "a b\nc\n\n\u2014 name AAAA\n".encode(),
    Kind.WITNESS_REQUEST: b"old 0\n\nexample.org/o\n",
    Kind.MEMORY: b'{"note": "x", "schema": "k3-ledger/memory/1"}',
    Kind.PROPOSAL: b'{"after":"","body":{},"kind":"key","origin":"o","schema":"k3-ledger/proposal/1"}',
    Kind.TIMESTAMP: bytes.fromhex("3082010030030201003081f0060b2a864886f70d0109100104") + bytes(200),
    Kind.DER: bytes.fromhex("308201003081f0") + bytes(range(200)),
    Kind.GGUF: b"GGUF\x03\0\0\0" + bytes(24),
    Kind.SQLITE: b"SQLite format 3\0" + bytes(100),
    Kind.GZIP: gzip.compress(b"{}"),
    Kind.XZ: b"\xfd7zXZ\0" + bytes(20),
    Kind.ZSTD: b"\x28\xb5\x2f\xfd" + bytes(20),
    Kind.BZIP2: b"BZh91AY" + bytes(20),
    Kind.ZIP: _zip(),
    Kind.TOML: b"# a comment\nother = 1\n",
    Kind.JSON: b'{"other": 1}',
    Kind.HTML: b"<!doctype html><title>404</title>",
    Kind.UTF16: "origin = 'example.org'\n".encode("utf-16"),
    Kind.EMPTY: b"",
    Kind.BLANK: bytes(512),
    Kind.TEXT: b"hello there\n",
    Kind.BINARY: bytes(range(128, 256)),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A ledger with keys, a witness, a policy and a proposal, and one file of every kind; tests work in copies."""
    place = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        run = _silent(patch)
        run("keygen", *(f"{name}.pem" for name in ("root", "log", "runner", "judge", "spare")))
        Path("words").write_text("a passphrase\n")
        run("keygen", "locked.pem", "--passphrase-file", "words")
        enrol = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
        run("init", "ledger", "--origin", "example.org/bench", "-k", "root.pem", *enrol, "--time", TIME)
        run("checkpoint", "-l", "ledger", "-k", "log.pem")
        run("prove", "0", "-l", "ledger", "-o", "entry.proof")
        run("trust", "init", "ledger")
        run("key", "enrol", "log", "spare.pub.pem", "--propose", "proposal", "-l", "ledger")
        run("witness", "init", "witness", "--name", "w.example/1", "-k", "spare.pem")
        Path("body.json").write_text('{"text": "a note"}')
        Path("root.crt").write_bytes(FILES[Kind.CERTIFICATE])
        Path("runs").mkdir()
    return place


def _silent(patch):
    import contextlib

    import k3_ledger.cli

    def run(*words: str) -> None:
        patch.setattr("sys.argv", ["k3-ledger", *words])
        with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as done:
            k3_ledger.cli.main()
        assert not done.value.code, words

    return run


def wrong_files(place: Path) -> dict[str, bytes]:
    """One file of every kind, those of the desk included."""
    there = {
        Kind.PRIVATE_KEY: "judge.pem",
        Kind.ENCRYPTED_KEY: "locked.pem",
        Kind.PUBLIC_KEY: "log.pub.pem",
        Kind.LOG: "ledger/ledger.jsonl",
        Kind.CHECKPOINT: "ledger/checkpoint",
        Kind.PROOF: "entry.proof",
    }
    return {**{kind: (place / name).read_bytes() for kind, name in there.items()}, **FILES}


def test_every_kind_is_told_from_every_other(desk):
    files = wrong_files(desk)
    assert set(files) == set(Kind)
    assert {kind: looks_like(data) for kind, data in files.items()} == {kind: kind for kind in files}


def test_every_option_that_takes_a_file_is_here():
    def walk(command, words):
        for name in list(getattr(command, "commands", ())):
            yield from walk(command.commands[name], (*words, name))
        if not hasattr(command, "commands"):
            yield " ".join(words), command

    missing = []
    for words, command in walk(typer.main.get_command(app), ()):
        for param in command.params:
            takes_file = type(param.type).__name__ == "TyperPath" or ".pub.pem" in (param.help or "")
            takes_file |= "PEM file" in (param.help or "") or "rule file" in (param.help or "")
            takes_file &= type(param.type).__name__ != "BoolParamType"
            option = next((name for name in param.opts if name.startswith("--")), param.name.upper())
            if (
                takes_file
                and words not in ENGINE
                and (words, option) not in SLOTS.keys() | SHARED
                and param.name not in ELSEWHERE
            ):
                missing.append((words, option))
    assert missing == []


@pytest.mark.parametrize("slot", SLOTS, ids=" ".join)
def test_the_error_names_the_file_what_it_is_and_what_was_wanted(desk, tmp_path, monkeypatch, capsys, slot):
    wanted, *words = SLOTS[slot]
    place = tmp_path / "here"
    shutil.copytree(desk, place)
    monkeypatch.chdir(place)
    run = runner(monkeypatch, capsys)
    if slot == ("trust add witness", "--trust"):
        verifier = run("witness", "ls", "-s", "witness", "--json").json["verifier_key"]
        words = [verifier if word == "VERIFIER" else word for word in words]
    name = next((word.replace("@", "it") for word in words if word.startswith("@")), "it")
    words = [word.replace("@", "it") for word in words]
    private = b"".join(line for line in (place / "judge.pem").read_bytes().split(b"\n") if b"-----" not in line)
    wrong = {**wrong_files(place), FOLDER: None, ABSENT: None, PIPE: None}
    wrong = {kind: data for kind, data in wrong.items() if kind not in TOLD_APART_ONLY}
    failures = []
    for kind, data in wrong.items():
        if kind in wanted.fits:
            continue
        _put(place / name, kind, data)
        done = run(*words)
        said = done.out + done.err
        problems = [word for word in SAID_NOWHERE if word in said]
        problems += ["key material"] if private.decode()[:24] in said else []
        problems += [f"exit {done.code}"] if done.code not in (2, 3) else []
        problems += [part for part in (name, str(kind), wanted.what) if part not in done.err]
        problems += ["no hint"] if "hint: " not in done.err and done.code == 3 else []
        if problems:
            failures.append(f"{kind}: {problems}\n{said}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("folder", [".", "..", "/"], ids=["here", "above", "root"])
@pytest.mark.parametrize(
    "slot", [slot for slot in SLOTS if "@" in SLOTS[slot] and FOLDER not in SLOTS[slot][0].fits], ids=" ".join
)
def test_a_folder_without_a_name_of_its_own_is_refused_as_any_other(desk, monkeypatch, capsys, slot, folder):
    _, *words = SLOTS[slot]
    monkeypatch.chdir(desk)
    run = runner(monkeypatch, capsys)
    if slot == ("trust add witness", "--trust"):
        verifier = run("witness", "ls", "-s", "witness", "--json").json["verifier_key"]
        words = [verifier if word == "VERIFIER" else word for word in words]
    done = run(*(folder if word == "@" else word for word in words))
    assert (done.code, str(FOLDER) in done.err) == (3, True), done.err
    assert not any(word in done.out + done.err for word in SAID_NOWHERE)


def _put(path: Path, kind: str, data: bytes | None) -> None:
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)
        path.chmod(0o600)
    elif kind == FOLDER:
        path.mkdir()
    elif kind == PIPE:
        os.mkfifo(path)


def test_a_line_that_no_key_file_takes_for_a_passphrase_is_refused(run, tmp_path):
    (tmp_path / "words").write_bytes(b"x" * 1023 + b"\n")
    assert run("keygen", "new.pem", "--passphrase-file", "words").code == 0
    (tmp_path / "words").write_bytes(b"x" * 1024)
    done = run("keygen", "other.pem", "--passphrase-file", "words")
    assert (done.code, "words is longer than 1023 bytes" in " ".join(done.err.split())) == (2, True)
    assert not (tmp_path / "other.pem").exists()


def test_a_body_on_standard_input_is_named_too(run, ledger):
    done = run("append", "note", "-b", "-", "-l", ledger, "-k", "judge.pem", stdin=b"hello")
    assert (done.code, "error: stdin: this is text of no known kind, not the body of an entry" in done.err) == (3, True)


def test_a_kept_cause_is_not_covered_by_words_about_the_kind(run, ledger, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "a note", "other": 1}')
    done = run("append", "note", "-b", "body.json", "-l", ledger, "-k", "judge.pem")
    assert "this is JSON" not in done.err
    assert "other" in done.err


def test_junk_on_standard_input_is_named_beside_the_report(run, ledger):
    done = run("verify", "-", stdin=b"hello")
    assert (done.code, "error: stdin: this is text of no known kind, not a ledger" in done.err) == (3, True)


TABLES = (
    b"[[claim\n",
    b"[pin",
    b"[[ pin ]\nvalue = 5\n",
    b"[[",
    b"[[\n",
    b" [[ \n\n",
    b"[[ # a pin\n",
)


def test_a_table_that_is_not_closed_is_toml_and_a_list_is_json():
    """What is wrong with it is named with its line by who reads TOML."""
    assert {looks_like(data) for data in TABLES} == {Kind.TOML}
    assert {
        looks_like(data)
        for data in (b"[1, 2", b"[[1, 2]]", b"[true, false]", b"[null, 1]", b'[["a", 1]', b"[", b"[[[", b"[[ [")
    } == {Kind.JSON}


def test_a_log_whose_beginning_is_damaged_looks_like_one_still(ledger):
    log = (ledger / "ledger.jsonl").read_bytes()
    assert [looks_like(b"X" + log[1:]), looks_like(log[:40])] == [Kind.LOG, Kind.LOG]


def test_no_report_is_made_of_a_private_key(run, ledger):
    done = run("verify", "root.pem")
    assert (done.code, done.out) == (3, "")
