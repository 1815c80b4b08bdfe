"""Being a witness and asking one, from the command line, over a real socket."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.ledger.core.note import MAX_SIGNATURES, KeyType, NoteSignature, format_note, key_hash, parse_note
from k3_ledger.ledger.core.tlog_witness import AddCheckpoint, format_request
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import OPENING, ORIGIN, SIGNERS, append_notes, new_ledger
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.verify.source import LogSource

NAME = "witness.example/w1"


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    """The finding that a command ended with."""
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def checkpoint(ledger: Ledger) -> bytes:
    from k3_ledger.ledger.writer.checkpoint import make_checkpoint

    return make_checkpoint(ledger, SIGNERS["log"]).note


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with a head."""
    made = new_ledger(tmp_path / "ledger")
    checkpoint(made)
    return made


@pytest.fixture
def key(tmp_path: Path) -> str:
    """Verifier key of a witness in ``w`` that knows the log."""
    assert k3("keygen", tmp_path / "w1.pem").exit_code == 0
    made = k3("witness", "init", tmp_path / "w", "--name", NAME, "-k", tmp_path / "w1.pem", "--json")
    assert made.exit_code == 0
    added = k3("witness", "add-log", ORIGIN, SIGNERS["log"].public_key.hex(), "-s", tmp_path / "w")
    assert (added.exit_code, added.stdout) == (0, f"{ORIGIN}: 1 keys, last cosigned 0 entries\n")
    verifier_key: str = json.loads(made.stdout)["verifier_key"]
    return verifier_key


@pytest.fixture
def url(tmp_path: Path, key: str) -> Iterator[str]:
    """Address of that witness, served by the command."""
    command = [sys.executable, "-m", "k3_ledger.cli", "witness", "serve", "-s", "w", "-k", "w1.pem", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.fullmatch(rf"witness {NAME} at (http://127\.0\.0\.1:\d+/)\n", line)
        assert found, line
        yield found[1]
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate()
    (tmp_path / "errors").write_text(errors, encoding="utf-8")


def trust(tmp_path: Path, key: str) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(f'quorum = 1\n[[witness]]\nkey = "{key}"\n', encoding="utf-8")
    return path


def test_a_ledger_is_cosigned_over_http_and_then_verifies_with_a_quorum(
    tmp_path: Path, ledger: Ledger, key: str, url: str
) -> None:
    before = k3("verify", ledger.root, "--trust", trust(tmp_path, key))
    assert (before.exit_code, "K3L-WITNESS-QUORUM" in before.stdout) == (1, True)
    asked = k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}")
    assert (asked.exit_code, asked.stdout.startswith(f"{NAME}: cosigned at ")) == (0, True)
    after = k3("verify", ledger.root, "--trust", trust(tmp_path, key))
    assert (after.exit_code, f"existed    entries below {OPENING} by " in after.stdout) == (0, True)
    kept = ledger.checkpoints_path / f"{OPENING:012d}.note"
    assert kept.read_bytes() == ledger.checkpoint_path.read_bytes()
    again = k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}", "--json")
    row = json.loads(again.stdout)["cosignatures"][0]
    assert (again.exit_code, row["witness"], row["added"], row["problem"]) == (0, NAME, False, None)
    assert row["time"] in asked.stdout
    newer = k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}", "--again")
    assert (newer.exit_code, newer.stdout.startswith(f"{NAME}: cosigned at ")) == (0, True)
    assert 2 <= len(parse_note(ledger.checkpoint_path.read_bytes()).sigs) <= 3  # the log's, the first word, a newer one
    assert k3("verify", ledger.root, "--trust", trust(tmp_path, key)).exit_code == 0


def test_a_head_without_room_keeps_no_other_witness_from_being_asked(
    tmp_path: Path, ledger: Ledger, key: str, url: str
) -> None:
    for path in (ledger.checkpoint_path, ledger.checkpoints_path / f"{OPENING:012d}.note"):
        note = parse_note(path.read_bytes())
        strangers = [NoteSignature(f"s{number}", number, bytes(72)) for number in range(MAX_SIGNATURES - 1)]
        path.write_bytes(format_note(note.text, [*note.sigs, *strangers]))
    asked = k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}", "--witness", f"{key}={url}", "--json")
    assert asked.exit_code == 3
    assert [row["problem"] for row in json.loads(asked.stdout)["cosignatures"]] == ["K3L-COSIGNATURE-NO-ROOM"] * 2
    assert asked.stderr.count("the cosignature by witness.example/w1 was not kept") == 2
    kept = k3("witness", "cosign", ledger.root, "-s", tmp_path / "w", "-k", tmp_path / "w1.pem", "--keep")
    assert isinstance(kept.exception, LedgerError)
    assert (kept.exception.code, int(kept.exception.exit_code)) == (Code.COSIGNATURE_NO_ROOM, 3)


def test_a_port_that_is_taken_is_said(tmp_path: Path, url: str) -> None:
    port = url.rstrip("/").rpartition(":")[2]
    again = k3("witness", "serve", "-s", tmp_path / "w", "-k", tmp_path / "w1.pem", "--port", port)
    assert (again.exit_code, f"port {port} cannot be had" in again.stderr) == (2, True)


def test_growth_is_proved_to_the_witness_and_history_bounds_time(
    tmp_path: Path, ledger: Ledger, key: str, url: str
) -> None:
    for text in ("one", "two"):
        append_notes(ledger, text, "more")
        checkpoint(ledger)
        assert k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}").exit_code == 0
    listed = json.loads(k3("witness", "ls", "-s", tmp_path / "w", "--json").stdout)
    assert listed["verifier_key"] == key
    assert [(log["origin"], log["size"]) for log in listed["logs"]] == [(ORIGIN, OPENING + 4)]
    out = tmp_path / "heads.proof"
    made = k3("prove", "--consistency", OPENING + 2, OPENING + 4, "-l", ledger.root, "-o", out)
    assert (made.exit_code, "heads of 7 and 9 entries" in made.stdout) == (0, True)
    checked = k3("verify", out, "--trust", trust(tmp_path, key), "--json")
    assert checked.exit_code == 0
    assert {tuple(bound["according_to"]) for bound in json.loads(checked.stdout)["existed"]} == {(NAME,)}


def test_a_fork_is_refused_and_the_others_are_asked_all_the_same(
    tmp_path: Path, ledger: Ledger, key: str, url: str
) -> None:
    fork = new_ledger(tmp_path / "fork")
    append_notes(ledger, "ours")
    append_notes(fork, "theirs")
    for one in (ledger, fork):
        checkpoint(one)
    assert k3("cosign", "-l", ledger.root, "--witness", f"{key}={url}").exit_code == 0
    before = fork.checkpoint_path.read_bytes()
    refused = k3("cosign", "-l", fork.root, "--witness", f"{key}=http://127.0.0.1:9/", "--witness", f"{key}={url}")
    assert refused.exit_code == 1
    assert "K3L-WITNESS-UNREACHABLE" in refused.stderr
    assert "the log signed another head of 6 entries before [K3L-WITNESS-FORK]" in refused.stderr
    assert fork.checkpoint_path.read_bytes() == before
    silent = k3("cosign", "-l", fork.root, "--witness", f"{key}=http://127.0.0.1:9/")
    assert (silent.exit_code, silent.stdout) == (3, "")
    assert len(list((tmp_path / "w" / "forks").glob("*/*.note"))) == 2
    as_json = k3("cosign", "-l", fork.root, "--witness", f"{key}={url}", "--json")
    row = json.loads(as_json.stdout)["cosignatures"][0]
    assert (as_json.exit_code, row["problem"], row["time"]) == (1, "K3L-WITNESS-REFUSED", None)


LOG_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
ZEROS = "x+{hash:08x}+BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""A key of small order under its right hash."""


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("", "is not KEY=URL"),
        ("http://127.0.0.1:1/", "is not KEY=URL"),
        ("{key}", "is not KEY=URL"),
        ("{key}=", "is not KEY=URL"),
        ("{key}=ftp://127.0.0.1/", "is no http or https address"),
        ("x+00000000+" + "A" * 44 + "=http://127.0.0.1:1/", "is no verifier key of a witness"),
        ("{key}AA=http://127.0.0.1:1/", "not a verifier key"),
        ("{short}=http://127.0.0.1:1/", "not a verifier key"),
        ("{key}==http://127.0.0.1:1/", "not a verifier key"),
        ("{upper}=http://127.0.0.1:1/", "no verifier key"),
        ("other.{key}=http://127.0.0.1:1/", "the key hash belongs to another name or key, which is "),
        (LOG_KEY + "=http://127.0.0.1:1/", "is the key of a log and not of a witness"),
        (ZEROS.format(hash=key_hash("x", bytes(32), KeyType.COSIGNATURE)) + "=http://127.0.0.1:1/", "no verifier key"),
    ],
)
def test_a_witness_that_is_not_named_as_it_should_be_is_a_usage_error_and_nobody_is_asked(
    ledger: Ledger, key: str, spec: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3_ledger.ledger.witness.client.ask_witness", lambda *_, **__: pytest.fail("asked"))
    for old, new in (("{key}", key), ("{short}", key[:-4]), ("{upper}", key.upper())):
        spec = spec.replace(old, new)
    result = k3("cosign", "-l", ledger.root, "--witness", f"{key}=http://127.0.0.1:9/", "--witness", spec)
    assert (result.exit_code, result.stdout) == (2, "")
    shown = " ".join(result.stderr.replace("\u2502", " ").split())
    assert "--witness" in shown
    assert says in shown
    assert spec[:20] in shown


def test_without_a_checkpoint_there_is_nothing_to_cosign(tmp_path: Path, key: str) -> None:
    new_ledger(tmp_path / "bare")
    assert (
        code(k3("cosign", "-l", tmp_path / "bare", "--witness", f"{key}=http://127.0.0.1:1/")) is Code.NOT_CHECKPOINTED
    )


# ------------------------------------------------------------------------------------------------------------ offline


def sign(tmp_path: Path, *words: object) -> Result:
    return k3("witness", "cosign", *words, "-s", tmp_path / "w", "-k", tmp_path / "w1.pem")


def test_a_copy_of_a_ledger_is_cosigned_offline(tmp_path: Path, ledger: Ledger, key: str) -> None:
    printed = sign(tmp_path, ledger.root)
    assert (printed.exit_code, printed.stdout.startswith(f"\u2014 {NAME} ")) == (0, True)
    assert len(parse_note(ledger.checkpoint_path.read_bytes()).sigs) == 1
    append_notes(ledger, "more")
    checkpoint(ledger)
    kept = sign(tmp_path, ledger.root, "--keep", "--json")
    assert kept.exit_code == 0
    given = json.loads(kept.stdout)
    assert ledger.checkpoint_path.read_text(encoding="utf-8").endswith(f"{given['cosignature']}\n")
    assert given["witness"] == NAME
    assert k3("verify", ledger.root, "--trust", trust(tmp_path, key)).exit_code == 0


def test_a_request_in_a_file_is_cosigned_offline(tmp_path: Path, ledger: Ledger, key: str) -> None:
    request = tmp_path / "request"
    request.write_bytes(format_request(AddCheckpoint(0, (), ledger.checkpoint_path.read_bytes())))
    assert sign(tmp_path, request).exit_code == 0
    assert code(sign(tmp_path, request)) is Code.WITNESS_OLD_SIZE
    assert sign(tmp_path, request, "--keep").exit_code == 2
    request.write_bytes(b"old x")
    assert code(sign(tmp_path, request)) is Code.WITNESS_REQUEST
    request.write_bytes(b"")
    assert code(sign(tmp_path, request)) is Code.EMPTY_LEDGER


def test_a_mirror_and_a_tar_are_cosigned_by_who_fetches_them(tmp_path: Path, ledger: Ledger, key: str) -> None:
    assert k3("tiles", ledger.root).exit_code == 0
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name in ("checkpoint", "tile"):
        (ledger.root / name).rename(mirror / name)
    assert sign(tmp_path, mirror).exit_code == 0
    (mirror / "checkpoint").rename(ledger.root / "checkpoint")
    append_notes(ledger, "more")
    checkpoint(ledger)
    with tarfile.open(tmp_path / "ledger.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("ledger.jsonl", "checkpoint"):
            tar.add(ledger.root / name, name)
    assert sign(tmp_path, tmp_path / "ledger.tar").exit_code == 0
    listed = json.loads(k3("witness", "ls", "-s", tmp_path / "w", "--json").stdout)
    assert [log["size"] for log in listed["logs"]] == [OPENING + 1]


def test_logs_are_listed_with_what_was_cosigned(tmp_path: Path, ledger: Ledger, key: str) -> None:
    before = k3("witness", "ls", "-s", tmp_path / "w")
    assert before.stdout.endswith(f"never cosigned  {ORIGIN}\n")
    assert json.loads(k3("witness", "ls", "-s", tmp_path / "w", "--json").stdout)["logs"][0]["time"] is None
    sign(tmp_path, ledger.root)
    after = k3("witness", "ls", "-s", tmp_path / "w")
    assert re.search(rf"^ +{OPENING}  [0-9a-f]{{16}}…  cosigned at \d{{4}}-.*Z  {ORIGIN}$", after.stdout, re.MULTILINE)


def test_a_log_is_added_with_any_spelling_of_its_key(tmp_path: Path, ledger: Ledger, key: str) -> None:
    from k3_ledger.ledger.core.note import Verifier, format_verifier_key

    spelled = format_verifier_key(Verifier(ORIGIN, SIGNERS["log"].public_key))
    added = k3("witness", "add-log", ORIGIN, spelled, SIGNERS["judge"].public_key.hex(), "-s", tmp_path / "w", "--json")
    assert (added.exit_code, json.loads(added.stdout)["keys"][0]) == (0, spelled)
    assert len(json.loads(added.stdout)["keys"]) == 2
    refused = k3("witness", "add-log", ORIGIN, key, "-s", tmp_path / "w")
    assert (refused.exit_code, "0x01" in refused.stderr) == (2, True)


def test_a_witness_is_made_once(tmp_path: Path, key: str) -> None:
    words = ("witness", "init", tmp_path / "w", "-k", tmp_path / "w1.pem", "--name")
    assert code(k3(*words, NAME)) is Code.WITNESS_EXISTS
    made = k3("witness", "init", tmp_path / "w2", "-k", tmp_path / "w1.pem", "--name", NAME)
    assert made.stdout == f"{tmp_path / 'w2'}: witness {NAME}\nverifier key {key}\n"
    assert k3("witness", "init", tmp_path / "w3", "-k", tmp_path / "w1.pem", "--name", "a b").exit_code == 2
    assert code(k3("witness", "ls", "-s", tmp_path)) is Code.WITNESS_STATE


# ------------------------------------------------------------------------------------------------------ keys, stolen


def stolen(tmp_path: Path, ledger: Ledger) -> tuple[Path, str]:
    """A copy in which a thief of the log key goes on, and a new log key; the owner revoked the old one."""
    from k3_ledger.ledger.writer.keys import load_public_key
    from k3_ledger.ledger.writer.store import Ledger as Opened
    from k3_ledger.ledger.writer.store import NewKey, enrolment

    copy = shutil.copytree(ledger.root, tmp_path / "thief")
    append_notes(thief := Opened.open(copy), "by the thief")
    checkpoint(thief)
    assert k3("keygen", tmp_path / "new.pem").exit_code == 0
    with ledger.writer(SIGNERS["root"]) as writer:
        old, new = load_public_key(SIGNERS["log"].public_key.hex()), load_public_key(str(tmp_path / "new.pub.pem"))
        writer.append("key", {**enrolment(NewKey("log", "log-1", old)), "action": "revoke", "reason": "stolen"})
        writer.append("key", enrolment(NewKey("log", "log-2", new)))
    assert k3("checkpoint", "-l", ledger.root, "-k", tmp_path / "new.pem").exit_code == 0
    return copy, new.raw.hex()


def test_a_witness_lets_go_of_a_stolen_log_key(tmp_path: Path, ledger: Ledger, key: str) -> None:
    assert sign(tmp_path, ledger.root, "--keep").exit_code == 0
    thief, new = stolen(tmp_path, ledger)
    old = SIGNERS["log"].public_key.hex()
    dropped = k3("witness", "drop-key", ORIGIN, old, "-s", tmp_path / "w")
    assert (dropped.exit_code, dropped.stdout) == (0, f"{ORIGIN}: 0 keys, 1 dropped, last cosigned {OPENING} entries\n")
    assert "ask the log whether it is its own" in dropped.stderr
    assert k3("witness", "add-log", ORIGIN, new, "-s", tmp_path / "w").exit_code == 0
    assert code(sign(tmp_path, thief)) is Code.NOTE_UNSIGNED
    assert sign(tmp_path, ledger.root).exit_code == 0
    (listed,) = json.loads(k3("witness", "ls", "-s", tmp_path / "w", "--json").stdout)["logs"]
    assert (listed["size"], len(listed["keys"]), len(listed["dropped_keys"])) == (OPENING + 2, 1, 1)
    again = k3("witness", "add-log", ORIGIN, old, "-s", tmp_path / "w")
    assert (again.exit_code, "was dropped" in again.stderr) == (2, True)
    once_more = k3("witness", "drop-key", ORIGIN, old, "-s", tmp_path / "w", "--json")
    assert (once_more.exit_code, once_more.stderr) == (0, "")
    assert json.loads(once_more.stdout)["dropped_keys"] == listed["dropped_keys"]
    unknown = k3("witness", "drop-key", ORIGIN, SIGNERS["judge"].public_key.hex(), "-s", tmp_path / "w")
    assert (unknown.exit_code, "no key of" in unknown.stderr) == (2, True)
    assert code(k3("witness", "drop-key", "example.org/a", old, "-s", tmp_path / "w")) is Code.WITNESS_ORIGIN


def test_a_lost_memory_goes_on_though_the_key_of_its_last_head_was_stolen(
    tmp_path: Path, ledger: Ledger, key: str
) -> None:
    assert sign(tmp_path, ledger.root, "--keep").exit_code == 0
    thief, new = stolen(tmp_path, ledger)
    log_file(tmp_path).unlink()
    old = SIGNERS["log"].public_key.hex()
    words = ("witness", "add-log", ORIGIN, new, "-s", tmp_path / "w", "--from", ledger.root)
    assert code(k3(*words)) is Code.NOTE_UNSIGNED
    alone = k3("witness", "add-log", ORIGIN, new, "-s", tmp_path / "w", "--dropped", old)
    assert (alone.exit_code, "--from" in alone.stderr) == (2, True)
    taken = k3(*words, "--dropped", old)
    assert (taken.exit_code, taken.stdout) == (0, f"{ORIGIN}: 1 keys, 1 dropped, last cosigned {OPENING} entries\n")
    assert code(sign(tmp_path, thief)) is Code.NOTE_UNSIGNED
    assert sign(tmp_path, ledger.root).exit_code == 0


# ------------------------------------------------------------------------------------------------------ memory, lost


@pytest.fixture
def cosigned(tmp_path: Path, ledger: Ledger, key: str) -> Ledger:
    """The ledger, cosigned at two sizes, the heads kept in it."""
    for text in ("one", "two"):
        append_notes(ledger, text)
        checkpoint(ledger)
        assert sign(tmp_path, ledger.root, "--keep").exit_code == 0
    return ledger


def log_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "w" / "logs").glob("*.json")
    return path


def add_log(tmp_path: Path, *words: object) -> Result:
    return k3("witness", "add-log", ORIGIN, SIGNERS["log"].public_key.hex(), "-s", tmp_path / "w", *words)


def fork_of(tmp_path: Path, count: int) -> Ledger:
    fork = new_ledger(tmp_path / "fork")
    append_notes(fork, *(f"other {number}" for number in range(count)))
    checkpoint(fork)
    return fork


def test_a_witness_that_lost_its_memory_of_a_log_never_starts_over(tmp_path: Path, cosigned: Ledger) -> None:
    log_file(tmp_path).unlink()
    fork = fork_of(tmp_path, 3)
    for attempt in (
        sign(tmp_path, cosigned.root),
        sign(tmp_path, fork.root),
        add_log(tmp_path),
        k3("witness", "ls", "-s", tmp_path / "w"),
        add_log(tmp_path, "--from", fork.root),
        add_log(tmp_path, "--from", fork.root / "checkpoint"),
    ):
        assert code(attempt) is Code.WITNESS_STATE
        assert not list((tmp_path / "w" / "logs").glob("*.json"))
    kept = sorted((cosigned.root / "checkpoints").glob("*.note"))
    taken = add_log(tmp_path, "--from", kept[-2], "--from", cosigned.root)
    assert (taken.exit_code, taken.stdout) == (0, f"{ORIGIN}: 1 keys, last cosigned {OPENING + 2} entries\n")
    assert sign(tmp_path, fork.root).exit_code == 1
    assert sign(tmp_path, cosigned.root).exit_code == 0
    again = add_log(tmp_path, "--from", cosigned.root)
    assert (again.exit_code, "has a memory of" in again.stderr) == (2, True)


def test_who_cosigns_meanwhile_is_no_loss_of_memory(
    tmp_path: Path, cosigned: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A served witness cosigns the same head while another command of it reads the ledger."""
    import k3_ledger.cli.witness as commands

    append_notes(cosigned, "three")
    checkpoint(cosigned)
    read = commands._notes

    def late(log: LogSource) -> list[bytes]:
        monkeypatch.setattr(commands, "_notes", read)
        assert sign(tmp_path, cosigned.root, "--keep").exit_code == 0
        return read(log)

    monkeypatch.setattr(commands, "_notes", late)
    assert sign(tmp_path, cosigned.root).exit_code == 0


def test_a_witness_made_anew_learns_from_a_ledger_what_it_has_signed(tmp_path: Path, cosigned: Ledger) -> None:
    (tmp_path / "w").rename(tmp_path / "lost")
    words = ("witness", "init", tmp_path / "w", "-k", tmp_path / "w1.pem", "--name", NAME)
    assert k3(*words).exit_code == 0
    assert add_log(tmp_path).exit_code == 0
    append_notes(cosigned, "three")
    checkpoint(cosigned)  # the newest head carries no cosignature; the kept ones do
    assert code(sign(tmp_path, cosigned.root)) is Code.WITNESS_STATE
    log_file(tmp_path).unlink()
    for note in sorted((cosigned.root / "checkpoints").glob("*.note"))[-2:-1]:
        assert add_log(tmp_path, "--from", note).exit_code == 0
    assert sign(tmp_path, cosigned.root).exit_code == 0


def test_a_witness_is_not_made_over_what_another_left(tmp_path: Path, cosigned: Ledger) -> None:
    (tmp_path / "w" / "witness.json").unlink()
    words = ("witness", "init", tmp_path / "w", "-k", tmp_path / "w1.pem", "--name", NAME)
    assert code(k3(*words)) is Code.WITNESS_EXISTS
    assert k3(*words, "--restore").exit_code == 0
    assert code(k3(*words, "--restore")) is Code.WITNESS_EXISTS
    assert sign(tmp_path, fork_of(tmp_path, 3).root).exit_code == 1
    fresh = k3("witness", "init", tmp_path / "x", "-k", tmp_path / "w1.pem", "--name", NAME, "--restore")
    assert (fresh.exit_code, "nothing of a witness" in fresh.stderr) == (2, True)


# ------------------------------------------------------------------------------------------------- prove --consistency


@pytest.mark.parametrize(
    "words",
    [
        (),
        (1, "--consistency", 2, 3),
        ("--consistency", 2, 5, "--head", 5),
        ("--consistency", 0, 5),
        ("--consistency", 5, 5),
    ],
)
def test_prove_wants_an_entry_or_two_heads(ledger: Ledger, words: tuple[object, ...]) -> None:
    assert k3("prove", *words, "-l", ledger.root).exit_code == 2


def test_heads_are_proved_into_a_file_named_after_them(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    append_notes(ledger, "more")
    checkpoint(ledger)
    assert k3("prove", "--consistency", 5, 6, "-l", ledger.root).exit_code == 0
    assert k3("verify", "consistency-5-6.proof", "--root-key", SIGNERS["root"].public_key.hex()).exit_code == 0
    assert code(k3("prove", "--consistency", 5, 7, "-l", ledger.root)) is Code.NO_SUCH_HEAD


def test_an_entry_is_proved_under_an_older_head(tmp_path: Path, ledger: Ledger) -> None:
    append_notes(ledger, "more")
    checkpoint(ledger)
    out = tmp_path / "entry.proof"
    for words, size in (((), OPENING + 1), (("--head", OPENING), OPENING)):
        assert k3("prove", 2, *words, "-l", ledger.root, "-o", out, "--replace").exit_code == 0
        assert json.loads(k3("verify", out, "--json").stdout)["head"]["size"] == size
    assert code(k3("prove", OPENING, "--head", OPENING, "-l", ledger.root)) is Code.NO_SUCH_HEAD


def test_two_witnesses_whose_lines_cannot_be_told_apart_are_not_asked(ledger: Ledger) -> None:
    twins = [NoteKey("witness.example/w", word, COSIGNER_TYPE).verifier_key for word in ("t40547", "t100344")]
    asked = [word for key in twins for word in ("--witness", f"{key}=http://127.0.0.1:9/")]
    result = k3("cosign", "--ledger", ledger.root, *asked)
    assert (result.exit_code, "one name and one key hash" in " ".join(result.output.split())) == (2, True)
    same = k3("cosign", "--ledger", ledger.root, *asked[:2], *asked[:2])
    assert same.exit_code != 2, "one witness at two addresses is one"
