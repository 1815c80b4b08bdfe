"""A witness of another maker cosigns our log, and its client asks our witness: the protocol is read alike.

The other one is PyPI's ``aics-witness``, which speaks C2SP's tlog-witness. It needs a newer Python than this project,
so it runs in an environment of its own; nothing of it is imported here.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.cli.sources import DirectorySource
from k3_ledger.ledger.core.cosignature import Witness, read_cosignatures
from k3_ledger.ledger.core.note import Verifier, format_verifier_key, parse_note, parse_verifier_key
from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.verify.prove import consistency_between
from tests.ledger.writer.support import OPENING, ORIGIN, SIGNERS, append_notes, new_ledger
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from k3_ledger.ledger.writer.store import Ledger

BIN = ROOT / ".cache" / "witness" / "bin"
pytestmark = pytest.mark.skipif(
    not (BIN / "aics-witness").is_file(), reason="no witness of another maker on this machine: `make peers` brings one"
)
LOG_KEY = format_verifier_key(Verifier(ORIGIN, SIGNERS["log"].public_key))
THEIRS = "witness.example/theirs"
OURS = "witness.example/ours"
FEED = """
import base64, json, sys
from aics_witness.feeder import WitnessClient
asked = json.load(sys.stdin)
client = WitnessClient(asked["url"], asked["key"], max_attempts=1)
proof = lambda old, new: [base64.b64decode(text) for text in asked["proofs"][f"{old}-{new}"]]
try:
    print(client.submit(asked["note"], proof))
except Exception as error:
    sys.exit(type(error).__name__)
"""


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def theirs(folder: Path, *arguments: str) -> str:
    command = [str(BIN / "aics-witness"), arguments[0], "--config", "witness.json", *arguments[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def signed(folder: Path, *texts: str) -> Ledger:
    """A ledger whose notes are those texts, with a head."""
    ledger = new_ledger(folder)
    append_notes(ledger, *texts)
    make_checkpoint(ledger, SIGNERS["log"])
    return ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return signed(tmp_path / "ledger", "one", "two")


# ----------------------------------------------------------------------------------------- our client, their witness


@pytest.fixture
def their_witness(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Verifier key and address of their witness, which knows the log."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    printed = theirs(folder, "init", "--name", THEIRS, "--listen", f"127.0.0.1:{port}")
    key = next(word for word in printed.split() if word.startswith(f"{THEIRS}+"))
    theirs(folder, "add-log", "--origin", ORIGIN, "--vkey", LOG_KEY)
    command = [str(BIN / "aics-witness"), "serve", "--config", "witness.json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        address = f"http://127.0.0.1:{port}"
        _wait_for(server, f"{address}/healthz")
        yield key, address
        server.terminate()
        server.communicate(timeout=30)


def _wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(200):
        assert server.poll() is None, server.communicate()
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)  # another program's start: there is nothing else to wait for
    raise AssertionError("their witness did not start")


def trust(tmp_path: Path, key: str) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(f'quorum = 1\n[[witness]]\nkey = "{key}"\n', encoding="utf-8")
    return path


def test_their_witness_cosigns_our_log_as_it_grows(
    tmp_path: Path, ledger: Ledger, their_witness: tuple[str, str]
) -> None:
    key, address = their_witness
    policy = trust(tmp_path, key)
    for text in ("", "three", "four"):
        if text:
            append_notes(ledger, text, f"more {text}")
            make_checkpoint(ledger, SIGNERS["log"])
        assert k3("verify", ledger.root, "--trust", policy).exit_code == 1
        asked = k3("cosign", "--ledger", ledger.root, "--witness", f"{key}={address}")
        assert (asked.exit_code, asked.stdout.startswith(f"{THEIRS}: cosigned at ")) == (0, True), asked.stderr
        assert k3("verify", ledger.root, "--trust", policy).exit_code == 0
    known = json.loads(theirs(tmp_path / "theirs", "status", "--json"))
    assert f'"size": {OPENING + 6}' in json.dumps(known)


def test_their_witness_refuses_our_fork_and_a_smaller_head(
    tmp_path: Path, ledger: Ledger, their_witness: tuple[str, str]
) -> None:
    key, address = their_witness
    assert k3("cosign", "--ledger", ledger.root, "--witness", f"{key}={address}").exit_code == 0
    for name, texts in (("fork", ("one", "other")), ("long fork", ("other", "two", "three")), ("older", ("one",))):
        other = signed(tmp_path / name, *texts)
        before = other.checkpoint_path.read_bytes()
        asked = k3("cosign", "--ledger", other.root, "--witness", f"{key}={address}")
        assert asked.exit_code != 0, name
        assert other.checkpoint_path.read_bytes() == before


# ----------------------------------------------------------------------------------------- their client, our witness


@pytest.fixture
def our_witness(tmp_path: Path) -> Iterator[tuple[str, str]]:
    pytest.importorskip("starlette", reason="our witness needs the extra k3-ledger[witness]")
    assert k3("keygen", tmp_path / "w.pem").exit_code == 0
    made = k3("witness", "init", tmp_path / "w", "--name", OURS, "-k", tmp_path / "w.pem", "--json")
    assert k3("witness", "add-log", ORIGIN, SIGNERS["log"].public_key.hex(), "-s", tmp_path / "w").exit_code == 0
    command = [sys.executable, "-m", "k3_ledger.cli", "witness", "serve", "-s", "w", "-k", "w.pem", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(made.stdout)["verifier_key"], server.stdout.readline().split()[-1]
        server.terminate()
        server.communicate(timeout=30)


def feed(ledger: Ledger, key: str, url: str, old: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Their client hands in our newest head, with our proofs from the sizes that it may ask for."""
    source = DirectorySource(ledger.root)
    new = ledger.log_path.read_bytes().count(b"\n")
    proofs = {
        f"{size}-{new}": [base64.b64encode(node).decode() for node in consistency_between(source, size, new)]
        for size in old
    }
    asked = {"url": url, "key": key, "note": ledger.checkpoint_path.read_text(encoding="utf-8"), "proofs": proofs}
    command = [str(BIN / "python"), "-c", FEED]
    return subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=60)


def test_their_client_has_our_witness_cosign(ledger: Ledger, our_witness: tuple[str, str]) -> None:
    key, url = our_witness
    for old in ((), (OPENING + 2,), (OPENING + 4,)):
        if old:
            append_notes(ledger, "three", "four")
            make_checkpoint(ledger, SIGNERS["log"])
        done = feed(ledger, key, url, old)
        assert done.returncode == 0, done.stderr
        note = ledger.checkpoint_path.read_bytes() + done.stdout.rstrip("\n").encode() + b"\n"
        found = read_cosignatures(parse_note(note), [Witness(parse_verifier_key(key), OURS)])
        assert (len(found.good), found.bad) == (1, ())


def test_our_witness_refuses_a_fork_that_their_client_hands_in(
    tmp_path: Path, ledger: Ledger, our_witness: tuple[str, str]
) -> None:
    key, url = our_witness
    assert feed(ledger, key, url).returncode == 0
    fork = signed(tmp_path / "fork", "one", "other")
    done = feed(fork, key, url)
    assert (done.returncode, done.stderr.strip()) == (1, "WitnessRejected")
