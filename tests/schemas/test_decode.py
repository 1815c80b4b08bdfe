"""One way to decode: the fast half first, the explaining half for whatever it refuses."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from k3_ledger.schemas import decode, models, structs
from k3_ledger.schemas.errors import SchemaError
from k3_ledger.schemas.outcomes import Position
from k3_ledger.schemas.version import __version__
from tests.schemas import examples

ENTRY = examples.run_entry()


def test_a_valid_entry_is_a_struct():
    assert isinstance(decode.decode(ENTRY), structs.RunEntry)


def test_an_invalid_entry_is_explained_at_its_place():
    with pytest.raises(SchemaError) as caught:
        decode.decode(ENTRY.replace(b'"role":"candidate"', b'"role":"best"'), Position("ledger.jsonl", 3, 9, 2))
    assert caught.value.finding.position == Position("ledger.jsonl", 3, 9, 2, "body.role")


def test_the_explaining_half_decides_where_the_fast_one_refuses(monkeypatch):
    monkeypatch.setattr(decode, "decode_entry", lambda _: None)
    entry = decode.decode(ENTRY)
    assert isinstance(entry, models.RunEntry)
    assert entry.body.machine.node.name == structs.decode_entry(ENTRY).body.machine.node.name


def test_the_version_is_that_of_the_distribution():
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    try:
        assert metadata.version("k3-ledger") == __version__
    except metadata.PackageNotFoundError:
        pytest.skip("not installed, so there is no distribution to compare with")
