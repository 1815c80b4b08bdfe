"""The list of an offline bundle: one spelling, and nothing that climbs, repeats or is not announced."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.pack import PackFile, PackList, format_pack, parse_pack, proof_name
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code

D = "ab" * 32
BLOB = f"blobs/sha256/ab/{D}"
WHOLE = PackList(
    "example.org/speed",
    7,
    D,
    None,
    None,
    (
        PackFile(BLOB, D, 3),
        PackFile("checkpoint", D, 1),
        PackFile("checkpoints/000000000003.note", D, 1),
        PackFile("ledger.jsonl", D, 9),
        PackFile("timestamps/000000000007-tsa.tsr", D, 5),
    ),
)
SOME = PackList(
    "example.org/speed",
    7,
    D,
    (3, 5),
    D,
    (PackFile("checkpoint", D, 1), *(PackFile(proof_name(i), D, 2) for i in (3, 5))),
)


@pytest.mark.parametrize("pack", [WHOLE, SOME], ids=["whole", "some"])
def test_a_list_comes_back(pack: PackList) -> None:
    assert parse_pack(format_pack(pack)) == pack


def test_the_spelling_is_that_of_the_page() -> None:
    pack = PackList("o", 1, D, (0,), None, (PackFile("checkpoint", D, 1), PackFile("proofs/000000000000.proof", D, 2)))
    assert format_pack(pack).decode() == (
        f'{{"entries":[0],"files":[{{"name":"checkpoint","sha256":"{D}","size":1}},'
        f'{{"name":"proofs/000000000000.proof","sha256":"{D}","size":2}}],"origin":"o","policy_sha256":null,'
        f'"root":"{D}","schema":"k3-ledger/pack/1","size":1}}'
    )


FILE = {"name": "checkpoint", "sha256": D, "size": 1}
LOG = {"name": "ledger.jsonl", "sha256": D, "size": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "k3-ledger/pack/2"},
        {"schema": None},
        {"size": -1},
        {"size": "7"},
        {"size": True},
        {"root": "AB" * 32},
        {"root": None},
        {"origin": 3},
        {"origin": None},
        {"policy_sha256": ""},
        {"policy_sha256": 3},
        {"more": 1},
        {"entries": []},
        {"entries": [0]},
        {"entries": 3},
        {"entries": "all"},
        {"files": []},
        {"files": None},
        {"files": [FILE]},
        {"files": [LOG]},
        {"files": [LOG, FILE]},
        {"files": [FILE, FILE, LOG]},
        {"files": ["checkpoint"]},
        {"files": [FILE, {**LOG, "size": -1}]},
        {"files": [FILE, {**LOG, "sha256": "x"}]},
        {"files": [FILE, {**LOG, "sha256": 1}]},
        {"files": [FILE, {**LOG, "mode": 1}]},
        {"files": [FILE, {"name": "ledger.jsonl"}]},
        *(
            {"files": sorted([FILE, LOG, {**LOG, "name": name}], key=lambda file: str(file["name"]))}
            for name in (
                "../ledger.jsonl",
                "/etc/passwd",
                "checkpoints/../x",
                "checkpoints/1.note",
                "blobs/sha256/cd/" + D,
                "blobs/sha256/ab/" + "AB" * 32,
                "trust.toml",
                "pack.json",
                "proofs/000000000003.proof",
                "ledger.jsonl\n",
                "timestamps/7.tsr",
                "",
            )
        ),
        {"files": [FILE, {**LOG, "name": 3}]},
    ],
    ids=lambda change: json.dumps(change).replace(D, "D"),
)
def test_what_is_no_list_is_refused(change: dict[str, Any]) -> None:
    value = {
        "entries": None,
        "files": [FILE, LOG],
        "origin": "o",
        "policy_sha256": None,
        "root": D,
        "schema": "k3-ledger/pack/1",
        "size": 7,
    }
    good = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    parse_pack(good)
    bad = json.dumps(value | change, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(LedgerError) as caught:
        parse_pack(bad)
    assert caught.value.code is Code.ARCHIVE_REFUSED


def test_a_bundle_of_entries_proves_one_at_least() -> None:
    for files in (SOME.files[:1], SOME.files):
        with pytest.raises(ValueError, match="it proves no entry"):
            format_pack(replace(SOME, entries=(), files=files))


def test_the_entries_are_what_the_proofs_are_of() -> None:
    for entries in ((3,), (3, 5, 6), (5, 3), (3, 3), (3, 7)):
        with pytest.raises(ValueError, match="not the list of an offline bundle"):
            format_pack(replace(SOME, entries=entries))
    for data in (b"", b"[]", b"3", b"{}", b'{ "size":1}'):
        with pytest.raises(LedgerError):
            parse_pack(data)


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", D, "checkpoint", "ledger.jsonl", "o"])
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["name", "size"]), v))


@given(
    st.dictionaries(st.sampled_from(["entries", "files", "origin", "policy_sha256", "root", "schema", "size"]), VALUES)
)
def test_any_document_is_a_list_or_an_error(change: dict[str, Any]) -> None:
    value: dict[str, Any] = {
        "entries": None,
        "files": [FILE, LOG],
        "origin": "o",
        "policy_sha256": None,
        "root": D,
        "schema": "k3-ledger/pack/1",
        "size": 7,
    }
    data = json.dumps(value | change, sort_keys=True, separators=(",", ":")).encode()
    with contextlib.suppress(LedgerError):
        assert format_pack(parse_pack(data)) == data
