"""The table of fields, and the parsers of quotes, collateral and trust directories."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from docs.examples.made_up_intel import AT, World
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas.errors import AttestationError, LedgerError, MalformedError, PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.attestation import REGISTERS, AttestationPolicy
from k3_ledger.verify.tee.certificates import INTEL_ROOT_SHA256, Anchors, load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.collateral import MAX_BYTES, parse_collateral, read_json
from k3_ledger.verify.tee.layout import LAYOUT, Cover
from k3_ledger.verify.tee.quote import parse_quote, parse_signature

QUOTE = World().quote(bytes(range(64)), padding=bytes(7))
COLLATERAL, ANCHORS = World().collateral(), load_anchors(World().anchors())


# -- quotes -----------------------------------------------------------------------------------------------------------


def test_every_byte_of_a_quote_belongs_to_exactly_one_field() -> None:
    spans = parse_signature(parse_quote(QUOTE)).spans
    assert list(spans) == [row.name for row in LAYOUT]
    at = 0
    for row in LAYOUT:
        assert spans[row.name].offset == at
        assert row.offset in (None, at)
        assert not isinstance(row.size, int) or spans[row.name].size == row.size
        at += spans[row.name].size
    assert at == len(QUOTE)
    assert [row.name for row in LAYOUT if row.cover is Cover.NOTHING] == ["padding"]


def test_fields_are_read_where_intel_documents_them() -> None:
    quote = parse_quote(QUOTE)
    assert quote.integer("header.version") == 4
    assert quote.field("header.qe_vendor_id").hex() == "939a7233f79c4ca9940a0db3957f0607"
    assert (quote.mrtd, quote.mrseam) == ("c1" * 48, "ab" * 48)
    assert quote.rtmr == ("0a" * 48, *("00" * 48,) * 3)
    assert quote.report_data == bytes(range(64))
    assert quote.trailing == bytes(7)
    assert quote.integer("qe.isvprodid") == 2
    assert quote.integer("qe.isvsvn") == 6
    assert parse_signature(quote).authentication == bytes(range(32))
    assert all(f"body.{register}" in {row.name for row in LAYOUT} for register in REGISTERS)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"\x05", "another version"),
        (4, b"\x00", "another kind of enclave"),
        (632, b"\xff\xff\xff", "passes the end"),
        (632, b"\x10\x00", "ends inside"),
        (2, b"\x03", "attestation_key_type"),
        (764, b"\x05", "certification_type"),
        (766, b"\x00", "do not fill"),
        (1218, b"\x21", "ends inside chain|does not end|chain_type"),
        (1252, b"\x04", "chain_type"),
        (1254, b"\x00\x00", "does not end with the certificates"),
    ],
)
def test_a_quote_of_another_structure_is_refused(at: int, value: bytes, words: str) -> None:
    data = QUOTE[:at] + value + QUOTE[at + len(value) :]
    with pytest.raises(MalformedError, match=words) as caught:
        parse_signature(parse_quote(data, Position(source="q")), Position(source="q"))
    assert caught.value.code is Code.QUOTE_MALFORMED
    assert caught.value.finding.position.source == "q"


def test_a_quote_cut_anywhere_is_refused() -> None:
    whole = World().quote()
    for end in (*range(0, 1300, 7), len(whole) - 1):
        with pytest.raises(MalformedError):
            parse_quote(whole[:end])


@given(st.integers(0, len(QUOTE) - 1), st.binary(min_size=1, max_size=8), st.sampled_from(["cut", "write", "insert"]))
def test_arbitrary_bytes_give_an_error_of_ours_or_a_report(at: int, data: bytes, how: str) -> None:
    changed = {
        "cut": QUOTE[:at],
        "write": QUOTE[:at] + data + QUOTE[at + len(data) :],
        "insert": QUOTE[:at] + data + QUOTE[at:],
    }
    check_quote(changed[how], COLLATERAL, ANCHORS, AttestationPolicy(), AT)


# -- collateral -------------------------------------------------------------------------------------------------------

ANSWERS = json.loads(World().collateral())


def answers(**changes: Any) -> bytes:
    items = dict(ANSWERS["items"])
    for name, value in changes.items():
        address = next(address for address in items if name in address)
        del items[address]
        if value is not None:
            items[address if not isinstance(value, tuple) else value[0]] = value if isinstance(value, str) else value[1]
    return json.dumps({"items": items, "urls": [], "v": 1}).encode()


def test_both_spellings_give_the_same() -> None:
    one = parse_collateral(World().collateral())
    assert one == parse_collateral(json.dumps(World().collateral_of_library()).encode())
    assert one.tcb_info.text == World().tcb_info()


def library(**changes: Any) -> bytes:
    return json.dumps({**World().collateral_of_library(), **changes}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"7", "not a JSON object"),
        (b'{"items":{},"items":{}}', "stands twice"),
        (b'{"items":{},"v":1.5}', "no integer"),
        (b'{"items":{},"v":NaN}', "no integer"),
        (b" " * (MAX_BYTES + 1), "too long"),
        (b'{"items":[]}', "not complete"),
        (answers(pckcrl=None), "not complete"),
        (answers(pckcrl="%%%"), "not base64"),
        (answers(pckcrl=("https://example.org/sgx/certification/v4/pckcrl", 7)), "no text"),
        (answers(pckcrl=("https://example.org/x/IntelSGXRootCA.der", "")), "twice"),
        (answers(identity="e30="), "not enclaveIdentity and its signature"),
        (library(tcb_info=7), "no text tcb_info"),
        (library(tcb_info_signature="zz"), "not hexadecimal"),
        (library(tcb_info_signature="00" * 63), "not hexadecimal"),
        (library(pck_crl="0"), "not hexadecimal"),
        (library(root_ca_crl=None), "no text root_ca_crl"),
    ],
)
def test_collateral_of_another_form_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(AttestationError, match=words) as caught:
        parse_collateral(data)
    assert caught.value.code is Code.QUOTE_COLLATERAL


def test_text_that_is_no_text_is_still_only_bytes_that_nobody_signed() -> None:
    assert parse_collateral(library(tcb_info="\ud800")).tcb_info.text == b"\xed\xa0\x80"


@given(st.binary(max_size=60))
def test_collateral_never_raises_anything_else(data: bytes) -> None:
    for parse in (parse_collateral, read_json):
        with contextlib.suppress(AttestationError):
            parse(data)


# -- the trust directory ----------------------------------------------------------------------------------------------


def test_certificates_are_sorted_by_what_they_are() -> None:
    world = World()
    both = world.root.public_bytes(Encoding.PEM) + world.tcb_signer.public_bytes(Encoding.PEM)
    for files in (world.anchors(), [("both.pem", both)]):
        anchors = load_anchors(files)
        assert (anchors.roots, anchors.signers) == ((world.root,), (world.tcb_signer,))
    assert Anchors().sentence == "no root certificate"
    assert len(INTEL_ROOT_SHA256) == 64


def test_what_is_no_certificate_is_refused_and_named() -> None:
    world = World()
    liar = world.certificate(
        "Liar",
        ec.derive_private_key(5, ec.SECP256R1()).public_key(),
        "Liar",
        ec.derive_private_key(6, ec.SECP256R1()),
        ca=True,
    )
    for data in (b"", b"words", liar.public_bytes(Encoding.PEM)):
        with pytest.raises(PolicyError) as caught:
            load_anchors([("odd.pem", data)])
        assert caught.value.finding.position.source == "odd.pem"
        assert isinstance(caught.value, LedgerError)
