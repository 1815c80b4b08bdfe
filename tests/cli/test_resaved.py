"""Files that an editor, git or a shell saved again: named as what they are, with the cause, never taken for good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.ledger.writer.support import write_bundle
from tests.ledgers import small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "CR LF": lambda data: (data if data.endswith(b"\n") else data + b"\n").replace(b"\n", b"\r\n"),
    "line feed behind": lambda data: data + b"\n",
    "UTF-16": lambda data: data.decode().encode("utf-16"),
}
CAUSES = {
    "note": {
        "byte order mark": "is UTF-8 with a byte order mark",
        "CR LF": "line endings were rewritten to CR LF",
        "line feed behind": "a blank line stands behind the signatures",
        "UTF-16": "the note is UTF-16 text",
    },
    "json": {
        "byte order mark": "starts with a byte order mark",
        "CR LF": "a line ending or white space stands behind the document",
        "line feed behind": "a line ending or white space stands behind the document",
        "UTF-16": "looks like UTF-16",
    },
}


@pytest.fixture
def speed(run, tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    return small_ledger().write(folder)


@pytest.mark.parametrize("form", FORMS)
def test_a_proof_file(run, speed, tmp_path, form):
    assert run("prove", "4", "-l", "speed", "-o", "it.proof").code == 0
    path = tmp_path / "it.proof"
    path.write_bytes(FORMS[form](path.read_bytes()))
    done = run("verify", "it.proof")
    assert done.code == 1
    assert "error: it.proof, byte " in done.out
    assert CAUSES["json"][form] in done.out
    assert "not a ledger" not in done.out


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_beside_a_ledger(run, speed, form):
    (speed / "checkpoint").write_bytes(FORMS[form]((speed / "checkpoint").read_bytes()))
    done = run("verify", "speed")
    assert done.code == 1
    assert "error: checkpoint: " in done.out
    assert CAUSES["note"][form] in done.out
    assert "saved" in done.out or "an editor, git or a transfer" in done.out


@pytest.mark.parametrize("form", FORMS)
def test_a_head_that_was_kept(run, speed, tmp_path, form):
    (tmp_path / "kept").write_bytes(FORMS[form]((speed / "checkpoint").read_bytes()))
    done = run("verify", "speed", "--expect-head", "kept")
    assert (done.code, "[K3L-MEMORY-UNREADABLE]" in done.out) == (3, True)
    assert f"error: kept: {'the note' if form != 'line feed behind' else 'a blank'}" in done.out
    assert CAUSES["note"][form] in done.out


@pytest.mark.parametrize("form", [*FORMS, "as it was"])
def test_a_checkpoint_in_place_of_a_ledger(run, speed, tmp_path, form):
    data = (speed / "checkpoint").read_bytes()
    (tmp_path / "kept").write_bytes(FORMS.get(form, bytes)(data))
    done = run("verify", "kept")
    assert (done.code, done.out) == (3, "")
    assert "error: kept: this is a signed tree head (a checkpoint), not a ledger" in done.err


@pytest.mark.parametrize("form", FORMS)
def test_the_description_of_a_bundle(run, ledger, tmp_path, form):
    bundle = write_bundle(tmp_path / "bundle", {"raw.json": b"{}"})
    path = bundle / "bundle.json"
    path.write_bytes(FORMS[form](path.read_bytes()))
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run("seal", "bundle", "-l", "ledger", "-k", "runner.pem")
    assert (done.code, done.out) == (3, "")
    assert "bundle.json" in done.err
    assert CAUSES["json"][form] in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("form", ["CR LF", "line feed behind"])
def test_a_proposal_may_be_saved_again(run, ledger, tmp_path, form):
    """It is read in any spacing, for people look at it on their way; what is endorsed is the canonical statement."""
    assert run("key", "threshold", "1", "-l", "ledger", "--propose", "p.json").code == 0
    path = tmp_path / "p.json"
    path.write_bytes(FORMS[form](json.dumps(json.loads(path.read_bytes()), indent=2).encode()))
    assert run("key", "append", "p.json", "-l", "ledger", "-k", "root.pem").code == 0
    path.write_bytes(FORMS["byte order mark"](path.read_bytes()))
    done = run("key", "endorse", "p.json", "-k", "root.pem")
    assert (done.code, "p.json, byte 0: document starts with a byte order mark" in done.err) == (3, True)
