"""Targets of the attestation checks: quotes, what they are checked with, tokens. The platform is made up."""

from __future__ import annotations

import functools
import json
import shutil
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from docs.examples.made_up_intel import AT, FLAGS, World, sgx_extension

from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.tee.certificates import load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.collateral import parse_collateral
from k3_ledger.verify.tee.outcome import Step
from k3_ledger.verify.tee.pck import parse_platform
from k3_ledger.verify.tee.quote import parse_quote, parse_signature
from k3_ledger.verify.tee.tokens import check_tokens, load_keys
from tests.fuzz.target import Target, stored
from tests.verify.tee import tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGEST = bytes(range(32))


@functools.cache
def world() -> World:
    return World()


@functools.cache
def material() -> tuple[bytes, bytes, tuple[tuple[str, bytes], ...]]:
    """A genuine quote, its collateral and the auditor's certificates."""
    return world().quote(), world().collateral(), tuple(world().anchors())


def read_quote(data: bytes) -> None:
    quote = parse_quote(data)
    signature = parse_signature(quote)
    assert all(0 <= span.offset <= span.offset + span.size <= len(data) for span in signature.spans.values())


def quote_seeds() -> Iterator[bytes]:
    yield material()[0]
    yield material()[0][:700]


def read_quote_report(data: bytes) -> None:
    quote, collateral, anchors = material()
    report = check_quote(data, collateral, load_anchors(anchors), AttestationPolicy(), AT)
    assert {result.step for result in report.results} <= set(Step)
    del quote


def read_collateral(data: bytes) -> None:
    parse_collateral(data)


def collateral_seeds() -> Iterator[bytes]:
    yield material()[1]
    yield json.dumps(world().collateral_of_library()).encode()


def read_collateral_report(data: bytes) -> None:
    quote, _, anchors = material()
    check_quote(quote, data, load_anchors(anchors), AttestationPolicy(), AT)


def read_anchors(data: bytes) -> None:
    load_anchors([("a.pem", data), ("b.der", data)])


def anchor_seeds() -> Iterator[bytes]:
    yield from (data for _, data in material()[2])


def read_platform(data: bytes) -> None:
    parse_platform(data)


def platform_seeds() -> Iterator[bytes]:
    yield sgx_extension((9,) * 16, 11, FLAGS)


def read_tokens(data: bytes) -> None:
    check_tokens(data, load_keys(tokens.key_set()), AT, DIGEST)


def token_seeds() -> Iterator[bytes]:
    yield json.dumps(tokens.answer(DIGEST)).encode()


def read_keys(data: bytes) -> None:
    load_keys(data)


def key_seeds() -> Iterator[bytes]:
    yield tokens.key_set()
    yield tokens.key_set(certificate=True)


def read_timestamp(data: bytes) -> None:
    """A root certificate behind its length, then a token that is to lead to it."""
    from k3_ledger.cli.tokens import read_token

    length = int.from_bytes(data[:2], "big")
    read_token(data[2 + length :], [data[2 : 2 + length]])


def timestamp_seeds() -> Iterator[bytes]:
    """A token by an authority that openssl plays; what the corpus holds, where openssl is missing."""
    if shutil.which("openssl") is None:
        yield from stored("corpus", "timestamp")
        return
    from tests.cli.test_timestamps import Authority

    with tempfile.TemporaryDirectory(prefix="k3-ledger-fuzz-") as name:
        authority = Authority(Path(name) / "authority").make("authority")
        root = ssl.PEM_cert_to_DER_cert(authority.root.read_text())
        token = authority.answer(authority.query(b"a head", "-sha256", "-cert"), Path(name) / "token").read_bytes()
        yield len(root).to_bytes(2, "big") + root + token


TARGETS = (
    Target("timestamp", read_timestamp, timestamp_seeds, needs=("rfc3161_client",), share=0.3),
    Target("quote", read_quote, quote_seeds, longest=8192),
    Target("quote-report", read_quote_report, quote_seeds, longest=8192, share=0.1),
    Target("collateral", read_collateral, collateral_seeds, longest=16_384),
    Target("collateral-report", read_collateral_report, collateral_seeds, longest=16_384, share=0.05),
    Target("anchors", read_anchors, anchor_seeds, longest=4096, share=0.3),
    Target("platform", read_platform, platform_seeds, longest=2048),
    Target("tokens", read_tokens, token_seeds, longest=4096, share=0.3),
    Target("token-keys", read_keys, key_seeds, longest=2048),
)
