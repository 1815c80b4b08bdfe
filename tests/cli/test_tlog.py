"""``prove --tlog``: the inclusion of an entry as others read it, checked here by the C2SP page and RFC 6962 alone."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core import tlog_proof
from tests.ledgers import small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

    Run = Callable[..., Done]


def walk(data: bytes) -> tuple[int, bytes, bytes, bytes]:
    """(index, record, root that the hashes lead to, root that the checkpoint states)."""
    head, _, note = data.partition(b"\n\n")
    header, extra, index, *hashes = head.decode().split("\n")
    assert header == "c2sp.org/tlog-proof@v1"
    record = base64.b64decode(extra.removeprefix("extra "))
    _, size, root = note.decode().split("\n")[:3]
    node, last = int(index.removeprefix("index ")), int(size) - 1
    at, value = node, hashlib.sha256(b"\0" + record).digest()
    for sibling in map(base64.b64decode, hashes):  # RFC 9162, 2.1.3.2
        if at & 1 or at == last:
            value = hashlib.sha256(b"\1" + sibling + value).digest()
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            value = hashlib.sha256(b"\1" + value + sibling).digest()
        at, last = at >> 1, last >> 1
    assert last == 0
    return node, record, value, base64.b64decode(root)


@pytest.fixture
def speed(run: Run, tmp_path: Path) -> Path:
    folder = tmp_path / "speed"
    folder.mkdir()
    return small_ledger().write(folder)


@pytest.mark.parametrize("index", range(10))
@pytest.mark.parametrize("kind", ["ledger", "mirror"])
def test_it_leads_from_the_line_to_the_root_that_was_signed(run: Run, speed: Path, index: int, kind: str) -> None:
    if kind == "mirror":
        assert run("tiles", "speed", "--out", "mirror").code == 0
    source = {"ledger": "speed", "mirror": "mirror"}[kind]
    done = run("prove", index, "-l", source, "--tlog", "alone")
    assert done.code == 0
    data = (speed.parent / "alone").read_bytes()
    assert f"alone: inclusion of entry {index} as a C2SP tlog-proof, {len(data)} bytes" in done.out
    found, record, root, stated = walk(data)
    assert (found, record + b"\n", root) == (index, small_ledger().lines[index], stated)
    assert run("verify", f"entry-{index}.proof").code == 0, "the proof file is written as before"
    assert run("verify", "alone").code != 0, "it says nothing of who signed the entry"


@pytest.mark.parametrize(
    "words",
    [
        ("--consistency", 5, 10, "--tlog", "alone"),
        (3, "--tlog", "same", "--out", "same"),
        (3, "--tlog", "taken"),
        (3, "--tlog", "speed/ledger.jsonl", "--replace"),
    ],
    ids=["of two heads", "in the proof's own place", "where something stands", "over the log"],
)
def test_it_is_refused_before_anything_is_written(run: Run, speed: Path, words: tuple[object, ...]) -> None:
    (speed.parent / "taken").write_bytes(b"something")
    before = {path: path.read_bytes() for path in speed.parent.rglob("*") if path.is_file()}
    done = run("prove", *words, "-l", "speed")
    assert (done.code, "--tlog" in done.err) == (2, True), done.err
    assert {path: path.read_bytes() for path in speed.parent.rglob("*") if path.is_file()} == before


def test_what_is_too_long_for_it_leaves_nothing_behind(run: Run, speed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tlog_proof, "MAX_BYTES", 100)
    done = run("prove", 3, "-l", "speed", "--tlog", "alone")
    assert (done.code, "[K3L-TLOG-PROOF]" in done.err) == (1, True)
    assert "leave --tlog out" in done.err
    assert [path.name for path in speed.parent.iterdir()] == ["speed"]
