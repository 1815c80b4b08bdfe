"""What is wrong with an attested receipt whoever's certificates count is found with certificates and without them.

Each fault is looked at by a reader who has the certificates, by one who trusts nobody's, and by one whose directory has
no root; what is no such fault is passed by the first, counted as not checked by the others, and false to none.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

import pytest
from docs.examples.made_up_intel import World

from k3_ledger.schemas.attested import report_data
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.attested import attested_of
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.tee.receipts import faults_within
from tests.verify.tee.receipts import Attested, artifact, bare_digest, ledger
from tests.verify.tee.test_receipts import DEMANDS, POLICY, codes, counts, proof_of, step, verified
from tests.verify.tee.tokens import key_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.policy import TrustPolicy

ROOTLESS = replace(POLICY, attestation=replace(DEMANDS, anchors=(("nvidia-jwks.json", key_set()),)))
KEYLESS = replace(POLICY, attestation=replace(DEMANDS, anchors=World().anchors()))
READERS: dict[str, TrustPolicy | None] = {"with": POLICY, "nobody's": None, "rootless": ROOTLESS, "keyless": KEYLESS}
NAMED = {"ATTESTATION_UNREADABLE", "ARTIFACT_MISSING", "QUOTE_NO_ANCHOR", "QUOTE_NO_COLLATERAL", "TOKEN_NO_KEY"}
"""Findings that say what is not here, which the readers differ about."""


def replaced(name: str, data: bytes) -> Attested:
    """A receipt whose evidence of that name is something else."""
    receipt = Attested().quoted().tokened()
    receipt.files[name] = data
    receipt.body["artifacts"] = [
        artifact(name, data) if one["name"] == name else one for one in receipt.body["artifacts"]
    ]
    return receipt


def quote() -> bytes:
    return Attested().quoted().files["tdx-quote.bin"]


def changed(receipt: Attested, **tee: str | None) -> Attested:
    receipt.body["tee"] |= tee
    return receipt


def flipped(offset: int) -> Attested:
    data = bytearray(quote())
    data[offset] ^= 1
    return replaced("tdx-quote.bin", bytes(data))


def edited() -> Attested:
    receipt = Attested().quoted()
    receipt.body["timing"][0]["samples"][0]["count"] += 1
    return receipt


def forged() -> Attested:
    """Edited, and the quote's report data edited to match: only the quote's signature shows it."""
    honest, receipt = Attested().quoted(), Attested()
    receipt.body["timing"][0]["samples"][0]["count"] += 1
    wanted = report_data(bare_digest(receipt.body))
    quote = honest.files["tdx-quote.bin"].replace(report_data(honest.digest), wanted)
    receipt.attach("tdx-quote.bin", quote)
    return changed(receipt, report_data_sha256=sha256(wanted).hexdigest())


def twice() -> Attested:
    receipt = Attested().quoted()
    return receipt.attach("tdx-quote.bin", receipt.files["tdx-quote.bin"])


FAULTS: dict[str, tuple[Callable[[], Attested], str]] = {
    "no quote": (Attested, "ATTESTATION_MISSING"),
    "no quote beside a token": (lambda: Attested().tokened(), "ATTESTATION_MISSING"),
    "empty quote": (lambda: replaced("tdx-quote.bin", b""), "QUOTE_MALFORMED"),
    "no quote at all": (lambda: replaced("tdx-quote.bin", b"hello"), "QUOTE_MALFORMED"),
    "a quote cut short": (lambda: replaced("tdx-quote.bin", quote()[:-9]), "QUOTE_MALFORMED"),
    "another vendor": (lambda: flipped(12), "QUOTE_MALFORMED"),
    "report data stated of none": (lambda: changed(Attested().quoted(), report_data_sha256=None), "QUOTE_BINDING"),
    "other report data stated": (lambda: changed(Attested().quoted(), report_data_sha256="0" * 64), "QUOTE_BINDING"),
    "a quote beside no enclave": (lambda: changed(Attested().quoted(), kind="none"), "QUOTE_BINDING"),
    "a figure edited": (edited, "QUOTE_BINDING"),
    "a quote of another receipt": (lambda: Attested().quoted(report_data(Attested(1).digest)), "QUOTE_BINDING"),
    "a figure and the quote edited": (forged, "QUOTE_SIGNATURE"),
    "a bit of the quote flipped": (lambda: flipped(200), "QUOTE_SIGNATURE"),
    "collateral that is none": (lambda: replaced("tdx-collateral.json", b"{}"), "QUOTE_COLLATERAL"),
    "two quotes": (twice, "ATTESTATION_REPEATED"),
    "a token that is none": (lambda: replaced("nvidia-token.json", b"[]"), "TOKEN_MALFORMED"),
    "a token of another receipt": (lambda: Attested(tee="none").tokened(bytes(32)), "TOKEN_BINDING"),
}  # fmt: skip
SOUND: dict[str, Callable[[], Attested]] = {
    "quoted": lambda: Attested().quoted(),
    "without collateral": lambda: Attested().quoted(collateral=None),
    "with tokens": lambda: Attested().quoted().tokened(),
    "tokens alone": lambda: Attested(tee="none").tokened(),
    "collateral alone": lambda: Attested(tee="none").attach("tdx-collateral.json", b"{}"),
    "not attested": lambda: Attested(tee="none"),
    "padded": lambda: replaced("tdx-quote.bin", quote() + b"\0"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", FAULTS)
def test_what_no_certificate_mends_is_false_to_every_reader(what: str, reader: str) -> None:
    make, code = FAULTS[what]
    report = verified(make(), policy=READERS[reader])
    assert code in codes(report)
    assert report.exit_code is ExitCode.FALSE
    assert (counts(report), step(report).outcome) == ((1, 1, 0), Outcome.FAIL)


@pytest.mark.parametrize("what", FAULTS)
def test_a_reader_without_certificates_finds_nothing_that_one_with_them_does_not(what: str) -> None:
    receipt = FAULTS[what][0]()
    assert codes(verified(receipt, policy=None)) - NAMED <= codes(verified(receipt))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", SOUND)
def test_what_may_hold_is_false_to_no_reader(what: str, reader: str) -> None:
    report = verified(SOUND[what](), policy=READERS[reader])
    assert report.exit_code is ExitCode.VERIFIED
    assert counts(report)[1] == 0
    if reader == "nobody's":
        assert (codes(report), counts(report)[0]) == (set(), 0)


def test_another_makers_root_is_no_fault_of_the_quote() -> None:
    """Under a root that the reader does not hold a quote fails for the reader, and is no forgery for that."""
    receipt = Attested(world=World(root_key=12)).quoted()
    assert "QUOTE_CHAIN" in codes(verified(receipt))
    assert verified(receipt, policy=None).exit_code is ExitCode.VERIFIED
    assert faults_within(attested_of(0, receipt.body), MemorySource(b"", artifacts=ledger(receipt)[1])) == []


@pytest.mark.parametrize("what", FAULTS)
def test_evidence_that_is_not_here_accuses_nobody_unless_the_receipt_itself_does(what: str) -> None:
    built, _ = ledger(FAULTS[what][0]())
    report = check_log(MemorySource(built.data), None, Options(artifacts=False))
    told = FAULTS[what][1] in ("ATTESTATION_MISSING", "ATTESTATION_REPEATED") or "stated" in what
    told |= what in ("a quote beside no enclave", "a figure edited")  # the receipt contradicts itself
    assert (report.exit_code is ExitCode.FALSE) == told
    assert Code.ATTESTATION_UNREADABLE not in report.counts


def test_a_proof_file_says_the_same() -> None:
    proof, whole = proof_of(edited())
    assert codes(check_proof(proof, "p", None, artifacts=whole)) >= {"QUOTE_BINDING"}
    proof, whole = proof_of(Attested().quoted())
    assert check_proof(proof, "p", None, artifacts=whole).exit_code is ExitCode.VERIFIED
    assert counts(check_proof(proof, "p", None, artifacts=whole)) == (0, 0, 1)


class Counted(MemorySource):
    """Says what was asked for."""

    asked: tuple[str, ...] = ()

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        self.asked += (sha256,)
        return super().open_artifact(sha256)


@pytest.mark.parametrize("artifacts", [True, False])
@pytest.mark.parametrize("reader", READERS)
def test_who_asks_for_no_artifacts_and_has_no_certificates_reads_no_evidence(reader: str, artifacts: bool) -> None:
    receipt = Attested().quoted().tokened()
    built, blobs = ledger(receipt)
    held = Counted(built.data, checkpoint=built.head(), artifacts=blobs)
    policy = READERS[reader]
    report = check_log(held, policy, Options(artifacts=artifacts))
    trusts = policy is not None
    assert bool(held.asked) == (artifacts or trusts)
    found = step(report)
    assert ("none was read" in found.detail) == (not artifacts and not trusts)
    if not trusts:
        assert (found.outcome, found.not_checked) == (Outcome.NOT_CHECKED, 1)


def test_what_a_receipt_itself_lacks_is_false_whether_or_not_evidence_is_read() -> None:
    built, blobs = ledger(changed(Attested(), report_data_sha256="ab" * 32))
    source = MemorySource(built.data, checkpoint=built.head(), artifacts=blobs)
    for artifacts in (True, False):
        assert check_log(source, None, Options(artifacts=artifacts)).exit_code == ExitCode.FALSE
