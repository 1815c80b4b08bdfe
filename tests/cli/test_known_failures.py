"""Failures seen in other tools, tried on whole commands: see docs/known-failures.md."""

from __future__ import annotations

import hashlib
import json
import time
import unicodedata
from typing import TYPE_CHECKING

import pytest

from tests.ledger.writer.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path

NAME = "r\u00e9sultats.json"


def snapshot(folder: Path) -> dict[str, str]:
    """What every file under a folder holds."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
def test_a_name_in_either_unicode_form_is_refused_and_never_skipped(run, ledger, tmp_path, written, stored):
    before = snapshot(ledger)
    bundle = write_bundle(tmp_path / "bundle", {"results.json": b"{}"})
    text = (bundle / "bundle.json").read_text()
    named = json.dumps(unicodedata.normalize(written, NAME), ensure_ascii=False)
    (bundle / "bundle.json").write_text(text.replace('"results.json"', named))
    (bundle / "blobs" / unicodedata.normalize(stored, NAME)).write_bytes(b"{}")
    done = run("seal", "bundle", "--ledger", "ledger", "-k", "runner.pem")
    assert done.code == 3
    assert "body.artifacts[0].name" in done.err
    assert snapshot(ledger) == before


@pytest.mark.parametrize("kind", ["[", '{"a":', '[{"a":'])
def test_brackets_without_end_are_refused_wherever_json_is_read(run, ledger, tmp_path, kind):
    deep = (kind * 20_000).encode()
    (tmp_path / "body.json").write_bytes(deep)
    done = run("append", "note", "--body", "body.json", "--ledger", "ledger", "-k", "runner.pem")
    assert done.code == 3, done
    assert "Traceback" not in done.err
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "bundle.json").write_bytes(deep)
    done = run("seal", "bundle", "--ledger", "ledger", "-k", "runner.pem")
    assert done.code == 3, done
    (tmp_path / "deep.jsonl").write_bytes(b'{"entry":' + deep + b',"sig":"' + b"A" * 86 + b'=="}\n')
    assert run("verify", "deep.jsonl").code == 1
    (tmp_path / "deep.proof").write_bytes(deep)
    assert run("verify", "deep.proof").code == 3
    assert run("verify", ledger).code == 0


def test_verifying_writes_nothing_beside_the_ledger(run, ledger, tmp_path):
    before = snapshot(tmp_path)
    assert run("verify", ledger).code == 0
    assert run("verify", ledger, "--json").code == 0
    assert run("verify", ledger / "ledger.jsonl").code == 0
    assert snapshot(tmp_path) == before


def test_the_verifiers_own_clock_changes_no_verdict(run, ledger, monkeypatch):
    reports = set()
    for now in (0.0, time.time(), 4_102_444_800.0):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda now=now: now)
            patch.setattr(time, "time_ns", lambda now=now: int(now * 1e9))
            done = run("verify", ledger, "--json")
        reports.add((done.code, done.out))
    assert len(reports) == 1
