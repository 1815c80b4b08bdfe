"""Digests, signatures and quotes: what comes out, what does not, and what is then still bound."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nacl.signing
import pytest

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.polaris import AuditOptions, audit, parse_log
from k3_ledger.verify.polaris.audit import check_receipt
from k3_ledger.verify.polaris.foreign_json import Number, read
from k3_ledger.verify.polaris.hashes import Bound, Check, Record
from k3_ledger.verify.polaris.spelling import (
    MAX_INTEGER_DIGITS,
    decode_base64,
    python_json,
    rounded_json,
    rounded_text,
    sha256_hex,
)
from k3_ledger.verify.tee.quote import parse_quote
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, receipt, signed

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.hashes import RunHashes

KEY = bytes(nacl.signing.SigningKey(make_log.SEED).verify_key)


def hashes(files: dict[str, bytes], number: int = 1, keys: tuple[bytes, ...] = ()) -> RunHashes:
    folder = path_of(files, number, "").split("/")[1]
    run = next(run for run in parse_log(files).runs if run.run_id == folder)
    return check_receipt(run, keys)


def outcome(found: RunHashes, check: Check) -> Outcome:
    return next(result.outcome for result in found.results if result.check is check)


# -- spelling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        (b'{"b": 1.50, "a": 1E5, "c": [true, null]}', b'{"a": 100000.0, "b": 1.5, "c": [true, null]}'),
        (b'{"a": 1e-05, "b": -0, "c": -0.0, "d": 1e400}', b'{"a": 1e-05, "b": 0, "c": -0.0, "d": Infinity}'),
        ('{"é": "\\u20ac\\n", "a": 0.1000000000000000055}'.encode(), b'{"a": 0.1, "\\u00e9": "\\u20ac\\n"}'),
        (b'{"a": NaN}', b'{"a": NaN}'),
    ],
)
def test_a_result_is_spelled_as_python_spells_it(text: bytes, spelled: bytes) -> None:
    assert python_json(read(text, "file").root) == spelled
    assert json.dumps(json.loads(text), sort_keys=True).encode() == spelled


def test_the_signed_form_rounds_every_float_to_six_places() -> None:
    text = '{"é": 0.00404649, "a": [1.00000049, 7, "x"]}'.encode()
    assert rounded_json(read(text, "file").root) == '{"a":[1.0,7,"x"],"é":0.004046}'.encode()
    assert [rounded_text(Number(text)) for text in ("0.00404649", "12", "1.50")] == ["0.004046", "12", "1.5"]


def test_an_integer_that_python_refuses_cannot_be_spelled() -> None:
    tree = read(b'{"a": 1' + b"0" * MAX_INTEGER_DIGITS + b"}", "file").root
    assert python_json(tree) is None
    assert rounded_json(tree) is None


def test_base64_is_strict() -> None:
    assert decode_base64("aGk=") == b"hi"
    for text in ("aGk", "aGk=\n", "aGl=", "%%%%", "aGk=aGk=", "\u20ac"):
        assert decode_base64(text) is None


def test_digests_are_of_text_or_bytes() -> None:
    assert sha256_hex("é") == sha256_hex("é".encode())
    assert len(sha256_hex("\udc80")) == 64


# -- quotes -----------------------------------------------------------------------------------------------------------


def test_a_quote_is_taken_apart_at_the_right_places() -> None:
    quote = parse_quote(make_log.quote(1, bytes(range(64))))
    assert quote.report_data == bytes(range(64))
    assert (quote.mrtd, quote.mrseam, quote.rtmr) == ("11" * 48, "00" * 48, ("00" * 48,) * 4)
    assert (quote.integer("header.attestation_key_type"), quote.signature_size, quote.trailing) == (2, 64, bytes(16))


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"\x03", "another version"),
        (4, b"\x00", "another kind of enclave"),
        (632, b"\xff\xff", "passes the end"),
    ],
)
def test_a_quote_of_another_structure_is_refused(at: int, value: bytes, words: str) -> None:
    data = make_log.quote(1, bytes(64))
    with pytest.raises(MalformedError, match=words) as caught:
        parse_quote(data[:at] + value + data[at + len(value) :], code=Code.FOREIGN_QUOTE)
    assert caught.value.code.name == "FOREIGN_QUOTE"


def test_a_quote_cut_short_is_refused() -> None:
    data = make_log.quote(1, bytes(64))
    for end in (0, 1, 47, 48, 631, 635):
        with pytest.raises(MalformedError, match="too short"):
            parse_quote(data[:end])
    with pytest.raises(MalformedError, match="passes the end"):
        parse_quote(data[:640])


# -- the tree of digests ----------------------------------------------------------------------------------------------


def test_everything_under_a_verified_digest_is_bound() -> None:
    found = hashes(make_log.build(make_log.draft()))
    bound = {(part.record, part.prefix) for part in found.bound}
    assert (Record.SEALED, "") in bound
    assert (Record.RESULT, "") in bound
    assert (Record.RECEIPT, "attestation.code.commit") in bound
    assert not any(part.covers(Record.RECEIPT, "attestation.verdict.tps") for part in found.bound)
    assert not any(part.covers(Record.RESULT, "receipt_id") for part in found.bound)


def test_a_bound_part_ends_at_the_end_of_a_name() -> None:
    part = Bound(Record.RECEIPT, "tdx.nonce", "quote")
    assert part.covers(Record.RECEIPT, "tdx.nonce")
    assert part.covers(Record.RECEIPT, "tdx.nonce[0]")
    assert not part.covers(Record.RECEIPT, "tdx.nonce_other")
    assert not part.covers(Record.SEALED, "tdx.nonce")


def breaks(field: str, value: object) -> dict[str, bytes]:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body["tdx"].update({field: value}))
    return files


@pytest.mark.parametrize(
    ("field", "lost"),
    [
        ("result_sha256", (Record.SEALED, "")),
        ("files_sha256", (Record.RESULT, "")),
        ("nonce", (Record.RECEIPT, "attestation.code.commit")),
        ("quote_b64", (Record.SEALED, "")),
        ("stdout_b64", (Record.SEALED, "")),
    ],
)
@pytest.mark.parametrize("how", ["changed", "removed", "no text"])
def test_what_hangs_on_a_broken_digest_is_no_longer_bound(field: str, lost: tuple[Record, str], how: str) -> None:
    value = {"changed": make_log.sha("other"), "removed": None, "no text": 7}[how]
    found = hashes(breaks(field, value))
    assert lost not in {(part.record, part.prefix) for part in found.bound}
    assert found.findings


@pytest.mark.parametrize("field", ["nonce", "e2e_pubkey_b64", "bound_digest", "result_sha256", "stdout_b64"])
def test_a_field_that_was_taken_out_is_an_error_not_a_pass(field: str) -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body["tdx"].pop(field) and None)
    report = audit(files)
    assert "FOREIGN_SHAPE" in {finding.code.name for finding in report.findings}
    assert report.exit_code == 1
    assert report.not_checked > audit(make_log.build(make_log.draft())).not_checked


def test_a_receipt_that_only_says_it_has_a_quote_is_held_to_it() -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body.pop("tdx") and None)
    found = hashes(files)
    assert outcome(found, Check.QUOTE) is Outcome.NOT_CHECKED
    assert {finding.code.name for finding in found.findings} >= {"FOREIGN_SHAPE", "FOREIGN_ATTESTATION_UNBOUND"}
    assert found.bound == []


def test_the_expected_digests_can_be_missing() -> None:
    files = make_log.build(make_log.draft())
    receipt(files, 1, lambda body: body.pop("_expected") and None)
    found = hashes(files)
    assert outcome(found, Check.EXPECTED) is outcome(found, Check.FILES) is Outcome.NOT_CHECKED


# -- the sealed result ------------------------------------------------------------------------------------------------


def without_result(change: Any = None) -> RunHashes:
    log = make_log.draft()
    assert log.runs[0].result is not None
    log.runs[0].sealed = json.dumps(
        log.runs[0].result | {"label": "REJECT", "pass": False, "guard": {}, "reason": "no"}
    )
    files = make_log.build(log)
    del files[path_of(files, 1, "result.json")]
    if change is not None:
        receipt(files, 1, change)
    return hashes(files)


def test_a_missing_result_is_rebuilt_from_the_sealed_output() -> None:
    found = without_result()
    assert outcome(found, Check.EXPECTED) is Outcome.NOT_CHECKED
    assert outcome(found, Check.REBUILT) is Outcome.PASS


def test_a_missing_result_that_cannot_be_rebuilt_is_not_checked_and_not_wrong() -> None:
    found = without_result(lambda body: body["attestation"]["verdict"].pop("label"))
    assert outcome(found, Check.REBUILT) is Outcome.NOT_CHECKED
    log = make_log.draft()
    log.runs[0].sealed = "nothing"
    files = make_log.build(log)
    del files[path_of(files, 1, "result.json")]
    assert Check.REBUILT not in {result.check for result in hashes(files).results}


def test_a_result_printed_in_the_log_can_be_the_sealed_one() -> None:
    log = make_log.draft()
    run = log.runs[0]
    assert run.log is not None
    run.log.append("RESULT_JSON " + json.dumps(run.result))
    files = make_log.build(log)
    edit(files, path_of(files, 1, "result.json"), lambda body: body.update(note="edited"))
    found = hashes(files)
    assert outcome(found, Check.EXPECTED) is Outcome.PASS
    assert (Record.LOGGED, "") in {(part.record, part.prefix) for part in found.bound}
    assert "FOREIGN_RESULT_REWRITTEN" in {finding.code.name for finding in found.findings}


def test_another_spelling_of_the_sealed_result_is_the_sealed_result() -> None:
    files = make_log.build(make_log.draft())
    path = path_of(files, 1, "result.json")
    files[path] = files[path].replace(b'"tps": 10.5', b'"tps": 1.0500E+1').replace(b"\n", b"\n\t ")
    assert outcome(hashes(files), Check.EXPECTED) is Outcome.PASS


# -- Ed25519 ----------------------------------------------------------------------------------------------------------


def test_a_signature_is_verified_and_its_key_authenticated_only_when_it_was_given() -> None:
    files = make_log.build(signed())
    alone = hashes(files)
    assert [outcome(alone, check) for check in (Check.SIGNED_ID, Check.SIGNATURE, Check.SIGNER)] == [
        Outcome.PASS,
        Outcome.PASS,
        Outcome.NOT_CHECKED,
    ]
    assert (Record.RECEIPT, "attestation") in {(part.record, part.prefix) for part in alone.bound}
    assert outcome(hashes(files, keys=(bytes(32), KEY)), Check.SIGNER) is Outcome.PASS
    other = hashes(files, keys=(bytes(32),))
    assert outcome(other, Check.SIGNER) is Outcome.FAIL
    assert "FOREIGN_SIGNER_OTHER" in {finding.code.name for finding in other.findings}
    report = audit(files, AuditOptions(public_keys=(KEY,)))
    assert {finding.code.name for finding in report.findings} == {"FOREIGN_CHAIN_UNSIGNED"}
    assert report.exit_code == 0


def test_a_small_change_behind_the_sixth_place_keeps_the_signature_and_is_shown() -> None:
    files = make_log.build(signed())
    receipt(files, 1, lambda body: body["attestation"]["measurements"]["primary"].update(kl=0.004001))
    found = hashes(files)
    assert outcome(found, Check.SIGNATURE) is Outcome.FAIL
    files = make_log.build(signed())
    receipt(files, 1, lambda body: body["attestation"]["measurements"]["primary"].update(kl=0.00400049))
    found = hashes(files)
    assert outcome(found, Check.SIGNATURE) is Outcome.PASS
    (shown,) = [finding for finding in found.findings if finding.code.name == "FOREIGN_SIGNED_ROUNDED"]
    assert (shown.expected, shown.found) == ("0.004", "0.00400049")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(signature="AAAA"),
        lambda body: body.update(signature=None),
        lambda body: body.update(public_key=make_log.b64(bytes(32))),
        lambda body: body.pop("public_key"),
        lambda body: body["attestation"]["code"].update(repo="other/repo"),
    ],
    ids=["short", "no text", "other key", "no key", "other body"],
)
def test_a_signature_that_does_not_fit_is_an_error(change: Any) -> None:
    files = make_log.build(signed())
    receipt(files, 1, change)
    found = hashes(files)
    assert outcome(found, Check.SIGNATURE) is Outcome.FAIL
    assert not found.bound


def test_a_signed_receipt_without_its_parts_is_not_checked() -> None:
    files = make_log.build(signed())
    path = path_of(files, 1, "receipt.json")
    edit(files, path, lambda body: (body.pop("receipt_id"), body.pop("chain")))
    assert outcome(hashes(files), Check.SIGNED_ID) is Outcome.NOT_CHECKED
    huge = json.loads(files[path])
    run = next(run for run in parse_log(files).runs if run.receipt and run.receipt.source == path)
    for attestation in ("[]", '{"timestamp_utc": "2026-08-01T12:00:00Z", "n": 1' + "0" * MAX_INTEGER_DIGITS + "}"):
        text = json.dumps(huge | {"attestation": "HERE"}).replace('"HERE"', attestation)
        changed = parse_log({path: text.encode()}).runs[0]
        assert outcome(check_receipt(changed, ()), Check.SIGNATURE) is Outcome.NOT_CHECKED
    assert run.receipt is not None


def test_a_receipt_with_both_forms_is_held_to_both() -> None:
    log = make_log.draft()
    part = make_log.seal_ed25519(log.runs[0])
    log.runs[0].receipt = {name: part[name] for name in ("signature", "public_key")}
    checks = {result.check for result in hashes(make_log.build(log)).results}
    assert checks >= {Check.DCAP, Check.SIGNATURE}
