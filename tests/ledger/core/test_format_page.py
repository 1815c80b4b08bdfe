"""The parts of docs/format.md that the core answers for: its figures and its example."""

from __future__ import annotations

import base64
import re

import pytest

from k3_ledger.ledger.core import chain, checkpoint, consistency, endorsement, framing, merkle, note, proof
from k3_ledger.ledger.core.ed25519 import check_public_key, check_signature
from tests.ledgers import LOG, ORIGIN, ROOT
from tests.support import ROOT as TREE

PAGE = (TREE / "docs" / "format.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("\n## 11. Example\n")[2]
FACTS = dict(re.findall(r"^(\S[^\n]*?) {2,}(\S+)$", EXAMPLE, re.MULTILINE))
BLOCKS = re.findall(r"```\w+\n(.*?)```", EXAMPLE, re.DOTALL)
LINES = [framing.parse_line(line.encode()) for line in BLOCKS[1].splitlines()]
HEAD = BLOCKS[3].encode()


def test_keys_of_the_example_are_those_of_the_words():
    assert FACTS["origin"] == ORIGIN
    assert FACTS["root public key"] == ROOT.public.hex()
    assert FACTS["log public key"] == LOG.public.hex()
    check_public_key(ROOT.public)
    check_public_key(LOG.public)


@pytest.mark.parametrize("index", [0, 1])
def test_lines_of_the_example_are_signed_chained_and_hashed_as_it_says(index):
    line = LINES[index]
    check_signature(ROOT.public, chain.signed_message(line.entry), line.sig)
    assert chain.entry_identity(line.entry).hex() == FACTS[f"identity of entry {index}"]
    assert chain.leaf_hash(line.raw).hex() == FACTS[f"leaf {index}"]
    prev = FACTS["prev of the first"] if index == 0 else FACTS["identity of entry 0"]
    assert f'"prev":"{prev}"'.encode() in line.entry
    assert chain.genesis_prev(ORIGIN).hex() == FACTS["prev of the first"]


def test_the_checkpoint_of_the_example_opens_and_its_proofs_hold():
    opened = checkpoint.open_checkpoint(HEAD, [note.Verifier(ORIGIN, LOG.public)], origin=ORIGIN).checkpoint
    leaves = [chain.leaf_hash(line.raw) for line in LINES]
    assert (opened.size, opened.root.hex()) == (2, FACTS["root of both"])
    merkle.check_inclusion(1, 2, leaves[1], [leaves[0]], opened.root)
    merkle.check_consistency(1, 2, leaves[0], opened.root, [leaves[1]])
    made = proof.build_proof(1, {index: line.raw for index, line in enumerate(LINES)}, leaves, HEAD)
    assert [entry.inclusion for entry in made.entries] == [(leaves[1],), (leaves[0],)]


def test_the_endorsement_of_the_page_is_the_statement_of_the_code_and_is_signed():
    part = PAGE.partition("\n### Thresholds and endorsements\n")[2].partition("\n## ")[0]
    template, shown, sig = re.findall(r"```\w+\n(.*?)\n```", part, re.DOTALL)
    after = FACTS["identity of entry 1"]
    body = {"endorsements": [], "reason": None, "threshold": 2}
    statement = endorsement.format_statement(ORIGIN, after, "threshold", body)
    assert statement == b"k3-ledger/endorsement/v1\n" + shown.encode()
    assert b"`k3-ledger/endorsement/v1`" in part.encode()
    check_signature(ROOT.public, statement, base64.b64decode(sig))
    spelled = endorsement.format_statement("O", "A", "k", {})
    assert spelled.partition(b"\n")[2] == template.replace('"body":B', '"body":{}').encode()


def test_offsets_of_the_line_table_add_up():
    table = PAGE.partition("| offset | length | bytes |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ")[:2] for row in table.splitlines()]
    raw = framing.format_line(b"x" * 50, bytes(64))
    assert len(rows) == 5
    at = 0
    for offset, length in rows:
        assert sum(50 if part == "n" else int(part) for part in offset.split(" + ")) == at
        at += 50 if length == "n" else int(length)
    assert at == len(raw) == 107 + 50
    assert raw[17 + 50 : 105 + 50] == base64.b64encode(bytes(64))


@pytest.mark.parametrize(
    ("phrase", "value"),
    [
        ("at most {:,}. Head and tail", framing.MAX_LINE),
        ("A note has at most {:,} bytes", note.MAX_NOTE),
        ("{} signature lines", note.MAX_SIGNATURES),
        ("are {:,} entries of 64 hashes", proof.MAX_ENTRIES),
        ("of 64 hashes, {:,}\nbytes", proof.LIMITS.max_bytes),
        ("a depth of {}, strings", proof.LIMITS.max_depth),
        ("strings of {:,} code points", proof.LIMITS.max_string),
        ("and {:,} values", proof.LIMITS.max_items),
    ],
)
def test_limits_of_the_page_are_those_of_the_code(phrase, value):
    assert phrase.format(value) in PAGE


def test_largest_numbers_of_the_page_are_those_of_the_code():
    assert "at most 2^53-1, without sign" in PAGE
    assert checkpoint.MAX_SIZE == 2**53 - 1
    assert "at most 2^63-1, and an Ed25519 signature" in PAGE
    assert note.MAX_TIMESTAMP == 2**63 - 1


def test_limits_of_a_consistency_file_are_those_of_the_page():
    limits = consistency.LIMITS
    said = re.search(r"A consistency file has at most ([\d,]+) bytes, a depth of (\d+) and ([\d,]+) values", PAGE)
    assert [int(figure.replace(",", "")) for figure in said.groups()] == [
        limits.max_bytes, limits.max_depth, limits.max_items,
    ]  # fmt: skip
    assert f'"schema":"{consistency.SCHEMA}"' in PAGE
