"""Step 13 of a verification: receipts that are bound to their enclave, and receipts that only say so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from docs.examples.made_up_intel import World

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.attested import bare_bundle, bare_digest, report_data
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ROOT, RUNNER, canonical, key_body
from tests.verify.tee.receipts import Attested, artifact, ledger, source
from tests.verify.tee.tokens import key_set

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report, StepResult

ANCHORS = (*World().anchors(), ("nvidia-jwks.json", key_set()), ("notes.json", b"{}"))
DEMANDS = AttestationPolicy(measurements=(("mrtd", frozenset({"c1" * 48})),), anchors=ANCHORS)
POLICY = TrustPolicy(attestation=DEMANDS)
REQUIRED = replace(POLICY, require=frozenset({"attestations"}))


def step(report: Report) -> StepResult:
    return next(step for step in report.steps if step.name == "attestations")


def counts(report: Report) -> tuple[int, int, int]:
    found = step(report)
    return found.checked, found.failed, found.not_checked


def codes(report: Report) -> set[str]:
    return {code.name for code in report.counts}


def verified(*receipts: Attested, policy: TrustPolicy | None = POLICY, plain: int = 0) -> Report:
    return check_log(source(*receipts, plain=plain), policy)


def test_a_receipt_bound_to_its_enclave_passes() -> None:
    report = verified(Attested().quoted(), Attested(1).quoted())
    assert codes(report) == set()
    assert counts(report) == (2, 0, 0)
    assert step(report).outcome is Outcome.PASS
    assert report.exit_code is ExitCode.VERIFIED
    assert step(report).detail.startswith("2 receipts say that they are attested; held against root ")
    assert "attestations at receipt time" in report.policy


def test_what_is_bound_is_the_bundle_as_it_was_before_there_was_a_quote() -> None:
    receipt = Attested()
    bare = canonical({"body": receipt.body, "kind": "run", "schema": "k3-ledger/bundle/1"})
    receipt.quoted().tokened()
    body = {**receipt.body, "bundle": "00" * 32}
    assert bare_bundle("run", body) == bare
    assert bare_digest("run", body) == receipt.digest
    assert "notes.txt" in bare.decode()
    with pytest.raises(ValueError, match="32 bytes"):
        report_data(b"short")
    failed = {"artifacts": [], "stage": "x"}
    assert bare_bundle("failed", failed) == canonical(
        {"body": failed, "kind": "failed", "schema": "k3-ledger/bundle/1"}
    )


@pytest.mark.parametrize("field", ["duration", "started", "artifact", "role"])
def test_a_figure_changed_after_the_quote_is_found_though_the_runner_signs_it(field: str) -> None:
    receipt = Attested().quoted()
    body = receipt.body
    if field == "duration":
        body["timing"][0]["samples"][0]["duration_ns"] -= 1
    elif field == "started":
        body["machine"]["started"] = "2026-06-01T00:00:01Z"
    elif field == "artifact":
        receipt.body["artifacts"].insert(1, {**body["artifacts"][0], "name": "more.txt"})
    else:
        body["role"] = "frontier"
    report = verified(receipt)
    assert codes(report) == {"QUOTE_BINDING"}
    assert counts(report) == (1, 1, 0)
    assert report.exit_code is ExitCode.FALSE
    fields = {finding.position.field for finding in report.findings}
    assert fields == {"body.tee", "body.artifacts tdx-quote.bin"}


def test_a_quote_of_another_receipt_is_found() -> None:
    other = Attested(1)
    report = verified(Attested().quoted(other.digest + report_data(other.digest)[32:]))
    assert codes(report) == {"QUOTE_BINDING"}
    assert len(report.findings) == 1


def test_a_quote_for_another_purpose_is_found() -> None:
    receipt = Attested()
    assert codes(verified(receipt.quoted(receipt.digest + bytes(32)))) == {"QUOTE_BINDING"}


def test_a_receipt_that_states_no_quote_and_carries_one_is_found() -> None:
    receipt = Attested(tee="none")
    receipt.quoted()
    receipt.body["tee"]["report_data_sha256"] = None
    assert codes(verified(receipt)) == {"QUOTE_BINDING"}


def test_a_receipt_that_says_tdx_and_carries_no_quote_is_found() -> None:
    report = verified(Attested())
    assert codes(report) == {"ATTESTATION_MISSING"}
    assert counts(report) == (1, 1, 0)


def test_without_collateral_or_pins_it_is_not_checked() -> None:
    report = verified(Attested().quoted(collateral=None), policy=REQUIRED)
    assert codes(report) == {"QUOTE_NO_COLLATERAL", "REQUIRED_NOT_CHECKED"}
    assert counts(report) == (0, 0, 1)
    unpinned = replace(REQUIRED, attestation=replace(DEMANDS, measurements=()))
    report = verified(Attested().quoted(), policy=unpinned)
    assert codes(report) == {"QUOTE_UNPINNED", "REQUIRED_NOT_CHECKED"}
    assert report.exit_code is ExitCode.NOT_CHECKED


@pytest.mark.parametrize(
    "policy", [None, TrustPolicy(), TrustPolicy(attestation=AttestationPolicy())], ids=["none", "plain", "no-directory"]
)
def test_without_a_trust_directory_it_is_counted_and_not_passed(policy: TrustPolicy | None) -> None:
    report = verified(Attested().quoted(), policy=policy)
    assert counts(report) == (0, 0, 1)
    assert step(report).outcome is Outcome.NOT_CHECKED
    assert "no trust directory" in step(report).detail


def test_the_chosen_time_decides() -> None:
    later = replace(POLICY, attestation=replace(DEMANDS, at=1_800_000_000))
    assert codes(verified(Attested().quoted(), policy=later)) == {"QUOTE_EXPIRED"}


def test_a_second_quote_beside_the_first_is_found_though_both_hold() -> None:
    receipt = Attested().quoted()
    assert receipt.files.keys() == {"notes.txt", "tdx-quote.bin", "tdx-collateral.json"}
    receipt.attach("tdx-quote.bin", receipt.world.quote(receipt.digest + report_data(receipt.digest)[32:], bytes(3)))
    report = verified(receipt)
    assert codes(report) - {"ARTIFACT_MISSING"} == {"ARTIFACT_NAME_TAKEN", "ATTESTATION_REPEATED", "QUOTE_MALLEABLE"}
    assert counts(report) == (1, 1, 0)


# -- evidence that cannot be read -------------------------------------------------------------------------------------


class Broken(MemorySource):
    """A source whose evidence is damaged on the medium, in one of several ways."""

    how = ""

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        if self.how == "error":
            raise StoreError(Code.UNREADABLE, "the disk is bad")
        if self.how == "worn":
            raise OSError(5, "Input/output error")
        return super().open_artifact(sha256)


@pytest.mark.parametrize("how", ["gone", "error", "worn", "changed"])
@pytest.mark.parametrize("kind", ["tdx", "nvidia"])
def test_evidence_that_cannot_be_read_is_not_checked(kind: str, how: str) -> None:
    receipt = Attested().quoted() if kind == "tdx" else Attested(tee="none").tokened()
    built, blobs = ledger(receipt)
    if how == "gone":
        blobs = {}
    if how == "changed":
        blobs = dict.fromkeys(blobs, b"something else")
    broken = Broken(built.data, artifacts=blobs)
    broken.how = how
    report = check_log(broken, REQUIRED, Options(artifacts=False))
    assert codes(report) == {"ATTESTATION_UNREADABLE", "REQUIRED_NOT_CHECKED"}
    assert report.counts[Code.ATTESTATION_UNREADABLE] == (2 if kind == "tdx" else 1)
    assert report.exit_code is ExitCode.NOT_CHECKED
    assert counts(report) == (0, 0, 1)


def test_a_receipt_that_contradicts_its_missing_quote_is_false_all_the_same() -> None:
    receipt = Attested().quoted()
    receipt.body["role"] = "frontier"
    built, _ = ledger(receipt)
    report = check_log(MemorySource(built.data), POLICY, Options(artifacts=False))
    assert counts(report) == (1, 1, 0)


# -- NVIDIA tokens ----------------------------------------------------------------------------------------------------


def test_tokens_alone_or_beside_a_quote_pass() -> None:
    report = verified(Attested(tee="none").tokened(), Attested(1).quoted().tokened())
    assert codes(report) == set()
    assert counts(report) == (2, 0, 0)


def test_a_token_of_another_receipt_fails_though_the_quote_holds() -> None:
    report = verified(Attested().quoted().tokened(bytes(32)))
    assert codes(report) == {"TOKEN_BINDING"}
    assert counts(report) == (1, 1, 0)


def test_without_keys_tokens_are_not_checked() -> None:
    policy = replace(REQUIRED, attestation=replace(DEMANDS, anchors=World().anchors()))
    report = verified(Attested(tee="none").tokened(), policy=policy)
    assert codes(report) == {"TOKEN_NO_KEY", "REQUIRED_NOT_CHECKED"}


@pytest.mark.parametrize("name", ["a.pem", "a.PEM", "A.Pem"])
def test_a_trust_directory_with_what_is_no_certificate_is_refused(name: str) -> None:
    policy = replace(POLICY, attestation=replace(DEMANDS, anchors=((name, b"words"),)))
    report = verified(Attested().quoted(), policy=policy)
    assert "POLICY_MALFORMED" in codes(report)
    assert report.exit_code is ExitCode.USAGE


def proof_of(receipt: Attested) -> tuple[bytes, MemorySource]:
    built, blobs = ledger(receipt)
    whole = MemorySource(built.data, checkpoint=built.head(), artifacts=blobs)
    return format_proof(prove_entry(whole, 4)), whole


def test_a_proof_file_shows_as_much_as_the_evidence_that_is_at_hand() -> None:
    proof, whole = proof_of(Attested().quoted())
    assert counts(check_proof(proof, "p", POLICY, artifacts=whole)) == (1, 0, 0)
    alone = check_proof(proof, "p", POLICY)
    assert counts(alone) == (0, 0, 1)
    assert alone.counts[Code.ATTESTATION_UNREADABLE] == 2
    assert counts(check_proof(proof, "p", TrustPolicy())) == (0, 0, 1)


def test_a_proof_of_a_receipt_of_another_kind_is_refused() -> None:
    proof, _ = proof_of(Attested(tee="none"))
    assert counts(check_proof(proof, "p", POLICY)) == (0, 0, 0)
    assert codes(check_proof(proof, "p", demanding("tdx"))) == {"ATTESTATION_KIND"}


def test_a_proof_under_a_policy_whose_certificates_are_none_is_not_verified() -> None:
    proof, whole = proof_of(Attested().quoted())
    policy = replace(POLICY, attestation=replace(DEMANDS, anchors=(("a.pem", b"words"),)))
    assert check_proof(proof, "p", policy, artifacts=whole).exit_code is ExitCode.USAGE


# -- kinds that are accepted ------------------------------------------------------------------------------------------


def demanding(*kinds: str) -> TrustPolicy:
    return TrustPolicy(attestation=replace(DEMANDS, kinds=frozenset(kinds)))


@pytest.mark.parametrize(
    ("kinds", "wrong"),
    [
        (("none", "tdx", "nvidia"), 0),
        (("tdx", "nvidia"), 3),
        (("none", "tdx"), 1),
        (("nvidia",), 4),
        (("none",), 2),
    ],
)
def test_receipts_of_a_kind_that_is_not_accepted_are_found(kinds: tuple[str, ...], wrong: int) -> None:
    report = verified(Attested().quoted(), Attested(1, tee="none").tokened(), policy=demanding(*kinds), plain=3)
    assert report.counts.get(Code.ATTESTATION_KIND, 0) == wrong
    assert report.exit_code is (ExitCode.FALSE if wrong else ExitCode.VERIFIED)
    assert (step(report).outcome is Outcome.FAIL) == bool(wrong)


def test_evidence_that_attests_nothing_is_no_attestation() -> None:
    lone = Attested(tee="none").attach("tdx-collateral.json", b"{}")
    assert codes(verified(lone, policy=demanding("tdx"))) == {"ATTESTATION_KIND"}


def test_receipts_that_a_revocation_took_back_are_not_looked_at() -> None:
    built, blobs = ledger(Attested())
    more: dict[str, Any] = {"revoked_from": 4, "reason": "stolen"}
    built.add("key", key_body(RUNNER, "runner", "revoke", **more), ROOT)
    report = check_log(MemorySource(built.data, checkpoint=built.head(), artifacts=blobs), demanding("tdx"))
    assert codes(report) == {"KEY_DISOWNED"}
    assert counts(report) == (0, 0, 0)


def test_imported_receipts_are_counted() -> None:
    built, _ = ledger()
    original = artifact("receipt.json", b"{}")
    body = {
        "format": "polaris/1", "foreign_id": "x", "original_sha256": original["sha256"], "attestation": "tdx-quote",
        "fields": [], "findings": [], "artifacts": [original],
    }  # fmt: skip
    built.add("import", body, LOG)
    report = check_log(MemorySource(built.data), REQUIRED, Options(artifacts=False))
    assert codes(report) == {"REQUIRED_NOT_CHECKED", "IMPORT_QUOTE_OPEN"}
    assert counts(report) == (0, 0, 1)
    assert "1 imported receipts with foreign attestations, 0 of which hold" in step(report).detail
    nobody = TrustPolicy(REQUIRED.root_public_key, require=frozenset({"attestations"}))
    report = check_log(MemorySource(built.data), nobody, Options(artifacts=False))
    assert (codes(report), counts(report)) == ({"REQUIRED_NOT_CHECKED"}, (0, 0, 1))
    assert "; `k3-ledger audit polaris` checks the log that they come from" in step(report).detail
