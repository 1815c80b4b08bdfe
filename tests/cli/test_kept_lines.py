"""`append witness` takes no line that is false to who has the key, and says where nothing was checked."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from k3_ledger.ledger.core.note import parse_note
from tests.ledgers import ROOT, Key, key_body
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey

from .test_refused_for_ever import Desk

KEY, OTHER = (NoteKey("witness.example/w1", seed, COSIGNER_TYPE) for seed in ("w1", "w2"))


@pytest.fixture
def append(run: Any, ledger: Any) -> Any:
    """Append a line over a text, in the name of the first witness, and say which keys are known."""
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    text = parse_note((ledger / "checkpoint").read_bytes()).text

    def append(signer: NoteKey, over: str, *keys: str) -> Any:
        line = signer.line(over or text, 1_767_268_800).removesuffix("\n")
        body = {
            "checkpoint_sha256": hashlib.sha256(text.encode()).hexdigest(), "cosignature": line, "witness": KEY.name,
        }  # fmt: skip
        (ledger.parent / "body.json").write_text(json.dumps(body))
        words = [word for key in keys for word in ("--witness", key)]
        return run("append", "witness", "--body", "body.json", "-l", "ledger", "-k", "log.pem", *words)

    return append


def test_a_good_line_is_checked_and_kept(append: Any) -> None:
    done = append(KEY, "", OTHER.verifier_key, KEY.verifier_key)
    assert (done.code, done.err) == (0, "")


def test_a_false_line_is_refused_where_its_key_is_known(append: Any, ledger: Any) -> None:
    before = (ledger / "ledger.jsonl").read_bytes()
    done = append(KEY, "another/log\n1\nAAAA\n", KEY.verifier_key)
    assert (done.code, "[K3L-WITNESS-ENTRY-FALSE]" in done.err) == (1, True)
    assert (ledger / "ledger.jsonl").read_bytes() == before


def test_a_line_that_cannot_be_checked_is_kept_with_a_warning_or_refused_where_that_was_asked(append: Any) -> None:
    done = append(KEY, "another/log\n1\nAAAA\n")
    assert (done.code, "warning: whether the cosignature is the witness's was not checked" in done.err) == (0, True)
    done = append(KEY, "", OTHER.verifier_key)
    assert (done.code, "nothing could be checked" in done.err) == (2, True)


@pytest.mark.parametrize(("kind", "key"), [("witness", "no key"), ("note", KEY.verifier_key)])
def test_a_key_that_is_none_or_belongs_to_nothing_is_misuse(run: Any, ledger: Any, kind: str, key: str) -> None:
    (ledger.parent / "body.json").write_text(json.dumps({"text": "x"}))
    body = {"checkpoint_sha256": "0" * 64, "cosignature": KEY.line("x", 1).removesuffix("\n"), "witness": KEY.name}
    (ledger.parent / "body.json").write_text(json.dumps({"text": "x"} if kind == "note" else body))
    words = ("append", kind, "--body", "body.json", "-l", "ledger", "-k", "log.pem", "--witness", key)
    assert run(*words).code == 2


@pytest.mark.parametrize("over", ["", "another/log\n1\nAAAA\n"], ids=["good", "false"])
def test_a_key_that_the_log_enrolled_needs_not_be_given(run: Any, tmp_path: Any, over: str) -> None:
    desk = Desk(tmp_path)
    desk.builder.add("key", key_body(Key("w1"), "witness"), ROOT)
    desk.builder.write(desk.ledger)
    text = parse_note(desk.builder.head()).text
    line = KEY.line(over or text, 1_767_268_800).removesuffix("\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    desk.body.write_text(json.dumps({"checkpoint_sha256": digest, "cosignature": line, "witness": KEY.name}))
    done = run("append", "witness", "--body", "body.json", "-l", "ledger", "-k", "log.pem")
    assert (done.code, "[K3L-WITNESS-ENTRY-FALSE]" in done.err) == ((1, True) if over else (0, False))
    assert "not checked" not in done.err
