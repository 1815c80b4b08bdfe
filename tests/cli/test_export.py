"""Envelopes for other tools: opened by one of them, by hand, and traced back to the ledger."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head, small_ledger
from tests.reference import naive_merkle
from tests.reference.naive_dsse import open_envelope
from tests.static_host import lay_out, ledger_files

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

EXPORTER = Key("exporter")
ARTIFACT = {"name": "raw", "sha256": "ab" * 32, "size": 3, "media_type": "text/plain"}


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    return result.exception.code if isinstance(result.exception, LedgerError) else None


def key_file(folder: Path, key: Key) -> Path:
    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(key.seed.encode()).digest())
    path = folder / f"{key.seed}.pem"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    return path


@pytest.fixture
def ledger() -> Builder:
    made = small_ledger(2)
    made.add("run", run_body(9, artifacts=[ARTIFACT]), RUNNER)
    return made


@pytest.fixture
def folder(ledger: Builder, tmp_path: Path) -> Path:
    return lay_out(tmp_path / "ledger", ledger_files(ledger))


def exported(folder: Path, *more: object) -> list[bytes]:
    out = folder.parent / "out.jsonl"
    words = ("--dsse", "--key", key_file(folder.parent, EXPORTER), "--out", out, "--replace")
    result = k3("export", folder, *words, *more)
    assert result.exit_code == 0, result.exception
    return out.read_bytes().splitlines()


def test_every_statement_is_traced_back_to_the_signed_head(folder: Path, ledger: Builder) -> None:
    envelopes = exported(folder)
    assert len(envelopes) == len(ledger.lines)
    leaves = [naive_merkle.leaf(line[:-1]) for line in ledger.lines]
    for index, envelope in enumerate(envelopes):
        statement = open_envelope(envelope, EXPORTER.public)
        assert (statement["_type"], statement["predicateType"]) == (
            "https://in-toto.io/Statement/v1",
            "urn:k3-ledger:predicate:entry:1",
        )
        predicate = statement["predicate"]
        line = predicate["line"].encode()
        assert line + b"\n" == ledger.lines[index]
        assert json.loads(line)["entry"] == predicate["entry"]
        assert predicate["inclusion"] == [digest.hex() for digest in naive_merkle.inclusion(index, leaves)]
        assert predicate["checkpoint"].encode() == ledger.head()
        assert statement["subject"][0] == {
            "name": f"entry-{index}",
            "digest": {"sha256": hashlib.sha256(line[9:-98]).hexdigest()},
        }


def test_the_subjects_are_the_bundle_and_the_artifacts(folder: Path, ledger: Builder) -> None:
    (envelope,) = exported(folder, "--entries", "6")
    subjects = {item["name"]: item["digest"] for item in open_envelope(envelope, EXPORTER.public)["subject"]}
    body = json.loads(ledger.lines[6])["entry"]["body"]
    assert subjects["bundle.json"] == {"sha256": body["bundle"]}
    assert subjects["raw"] == {"sha256": ARTIFACT["sha256"]}


def test_another_verifier_opens_the_envelopes(folder: Path) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    from securesystemslib.signer._key import SSlibKey

    def key(of: Key) -> Any:
        return SSlibKey(of.id, "ed25519", "ed25519", {"public": of.public.hex()})

    for line in exported(folder):
        envelope = dsse.Envelope.from_dict(json.loads(line))
        assert set(envelope.verify([key(EXPORTER)], 1)) == {EXPORTER.id}
        with pytest.raises(dsse.exceptions.VerificationError):
            envelope.verify([key(RUNNER)], 1)


def test_no_byte_of_a_payload_or_its_type_can_be_changed(folder: Path) -> None:
    envelope = json.loads(exported(folder, "--entries", "6")[0])
    open_envelope(json.dumps(envelope).encode(), EXPORTER.public)
    payload = base64.b64decode(envelope["payload"])
    for change in (
        {"payload": base64.b64encode(payload.replace(b'"index":6', b'"index":5')).decode()},
        {"payloadType": "application/json"},
    ):
        with pytest.raises(InvalidSignature):
            open_envelope(json.dumps(envelope | change).encode(), EXPORTER.public)


def test_exporting_again_gives_the_same_bytes(folder: Path) -> None:
    assert exported(folder) == exported(folder)


@pytest.mark.parametrize("key", [ROOT, LOG, RUNNER, JUDGE], ids=lambda key: key.seed)
def test_a_key_of_the_ledger_signs_nothing_but_entries_and_heads(folder: Path, key: Key, tmp_path: Path) -> None:
    result = k3("export", folder, "--dsse", "--key", key_file(tmp_path, key), "--out", tmp_path / "out")
    assert code(result) is Code.KEY_WRONG_ROLE
    assert not (tmp_path / "out").exists()


def test_only_what_verifies_and_is_checkpointed_is_exported(folder: Path, ledger: Builder, tmp_path: Path) -> None:
    key, out = key_file(tmp_path, EXPORTER), tmp_path / "out"
    assert code(k3("export", folder, "--dsse", "--key", key, "--out", out, "--entries", "7")) is Code.NO_SUCH_ENTRY
    (folder / "checkpoint").write_bytes(sign_head(ledger.lines[:5]))
    assert len(exported(folder)) == 5
    (folder / "checkpoint").unlink()
    assert code(k3("export", folder, "--dsse", "--key", key, "--out", out)) is Code.NOT_CHECKPOINTED
    (folder / "ledger.jsonl").write_bytes(ledger.data.replace(b'"count":10', b'"count":11', 1))
    assert code(k3("export", folder, "--dsse", "--key", key, "--out", out)) is Code.SIGNATURE_MISMATCH
    assert not out.exists()


def test_what_was_disowned_is_not_vouched_for(tmp_path: Path) -> None:
    ledger = small_ledger(3)
    body = key_body(RUNNER, "runner", "revoke", revoked_from=5, reason="stolen")
    ledger.add("key", body, ROOT)
    folder = lay_out(tmp_path / "ledger", ledger_files(ledger))
    indexes = [open_envelope(line, EXPORTER.public)["predicate"]["index"] for line in exported(folder)]
    assert indexes == [0, 1, 2, 3, 4, 7]
    out = tmp_path / "chosen"
    result = k3("export", folder, "--dsse", "--key", key_file(tmp_path, EXPORTER), "--out", out, "--entries", "4,6")
    assert (result.exit_code, out.exists()) == (2, False)
    assert "entry 6 was taken back by a revocation" in result.output


def test_what_was_superseded_says_so(tmp_path: Path) -> None:
    ledger = small_ledger(3)
    target = hashlib.sha256(ledger.lines[5][9:-99]).hexdigest()
    for reason in ("wrong", "wrong again"):
        ledger.add("supersede", {"target": target, "replacement": None, "reason": reason}, JUDGE)
    folder = lay_out(tmp_path / "ledger", ledger_files(ledger))
    marks = [open_envelope(line, EXPORTER.public)["predicate"]["superseded_by"] for line in exported(folder)]
    first = len(ledger.lines) - 2
    assert marks == [first if index == 5 else None for index in range(len(ledger.lines))]
    (alone,) = exported(folder, "--entries", "5")
    assert open_envelope(alone, EXPORTER.public)["predicate"]["superseded_by"] == first


def test_a_supersession_that_was_taken_back_marks_nothing(tmp_path: Path) -> None:
    ledger = small_ledger(3)
    target = hashlib.sha256(ledger.lines[5][9:-99]).hexdigest()
    ledger.add("supersede", {"target": target, "replacement": None, "reason": "by a thief"}, JUDGE)
    at = len(ledger.lines) - 1
    ledger.add("key", key_body(JUDGE, "judge", "revoke", revoked_from=at, reason="stolen"), ROOT)
    folder = lay_out(tmp_path / "ledger", ledger_files(ledger))
    marks = {open_envelope(line, EXPORTER.public)["predicate"]["superseded_by"] for line in exported(folder)}
    assert marks == {None}


def test_the_output_is_written_whole_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    key = key_file(tmp_path, EXPORTER)
    result = k3("export", folder, "--dsse", "--key", key, "--out", tmp_path / "none" / "out")
    assert code(result) is Code.UNREADABLE
    result = k3("export", folder, "--dsse", "--key", key, "--out", tmp_path / "out", "--json")
    assert json.loads(result.stdout)["envelopes"] == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exporter.pem", "ledger", "out"]
