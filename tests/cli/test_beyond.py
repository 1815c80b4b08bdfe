"""What a bundle or a mirror leaves out because no head commits to it yet is said: a revocation may be among it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k3_ledger.cli.beyond import Beyond, read_beyond
from tests.ledgers import small_ledger

MAKERS = {"bundle": ("bundle", "pack", "ledger", "--out", "out"), "tiles": ("tiles", "ledger", "--out", "out")}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_what_stands_behind_a_head_is_counted_however_the_log_is_cut_into_blocks(size: int) -> None:
    made = small_ledger(3)
    made.lines.append(b'{"entry":{"kind":"key"}}\n')  # no entry
    data = made.data + b'{"entry":{"bo'
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    found = [read_beyond(blocks, head) for head in range(len(made.lines) + 1)]
    assert found == [Beyond(8 - head, max(0, 4 - max(1, head))) for head in range(9)]


@pytest.mark.parametrize("what", MAKERS)
def test_a_revocation_behind_the_head_is_said_to_be_left_out(run: Any, ledger: Any, what: str) -> None:
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    done = run(*MAKERS[what], "--json")
    assert (done.code, done.err, done.json["beyond"]) == (0, "", {"entries": 0, "root_actions": 0})
    (ledger.parent / "body.json").write_text(json.dumps({"text": "x"}))
    assert run("append", "note", "--body", "body.json", "-l", "ledger", "-k", "runner.pem").code == 0
    assert run("key", "revoke", "runner", "--from", "4", "-l", "ledger", "-k", "root.pem").code == 0
    done = run(*MAKERS[what], "--replace")
    assert done.code == 0
    assert "note: 2 entries behind the newest head are not in" in done.err
    assert "1 root actions among them, which say whose entries count" in done.err
    assert "the whole record" not in done.out
    found = run(*MAKERS[what], "--replace", "--json")
    assert found.json["beyond"] == {"entries": 2, "root_actions": 1}
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    assert "behind the newest head" not in run(*MAKERS[what], "--replace").err
