"""The four definitions that tie entries together, against values computed by hand from their prose."""

from __future__ import annotations

import hashlib

from k3_ledger.ledger.core import chain


def test_identity_is_the_hash_of_the_entry_bytes_alone():
    assert chain.entry_identity(b'{"a":1}') == hashlib.sha256(b'{"a":1}').digest()


def test_genesis_follows_the_origin_line():
    assert chain.genesis_prev("example.com/log") == hashlib.sha256(b"example.com/log\n").digest()


def test_the_leaf_is_the_whole_line_behind_a_zero_byte():
    assert chain.leaf_hash(b"line") == hashlib.sha256(b"\x00line").digest()


def test_the_signed_message_is_domain_separated():
    assert chain.signed_message(b"{}") == b"k3-ledger/entry/v1\n{}"
