"""Attacks on attested receipts: a quote that is genuine, and of something else.

Made under a made-up root, by the generator of the tests of quotes; the ledger that other attacks are made on plays no
part.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docs.examples.made_up_intel import World as Intel

from k3_ledger.schemas.attested import report_data
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.attacks.registry import attack
from tests.attacks.world import Outcome, outcome
from tests.ledgers import LOG
from tests.verify.tee.receipts import Attested, ledger, source
from tests.verify.tee.tokens import DEVICE, claims, key_set, token

if TYPE_CHECKING:
    from tests.attacks.world import World

DEMANDS = AttestationPolicy(measurements=(("mrtd", frozenset({"c1" * 48})),), anchors=Intel().anchors())


@dataclass
class QuoteTrial:
    """Attested receipts in front of a reader who has certificates and pins."""

    receipts: tuple[Attested, ...]
    demands: AttestationPolicy = DEMANDS

    def run(self) -> Outcome:
        """Verify a ledger of them."""
        policy = TrustPolicy(attestation=self.demands, require=frozenset({"attestations"}))
        return outcome(check_log(source(*self.receipts), policy))


@attack
def use_a_quote_of_another_receipt(world: World) -> QuoteTrial:
    del world
    other = Attested(1)
    return QuoteTrial((Attested().quoted(other.digest + report_data(other.digest)[32:]),))


@attack
def change_a_figure_after_the_quote(world: World) -> QuoteTrial:
    """The runner's signature is good: what the enclave never saw is signed by who sealed it."""
    del world
    receipt = Attested().quoted()
    receipt.body["timing"][0]["samples"][0]["duration_ns"] -= 1
    return QuoteTrial((receipt,))


@attack
def use_a_quote_of_another_receipt_before_who_has_no_certificates(world: World) -> QuoteTrial:
    trial = use_a_quote_of_another_receipt(world)
    return QuoteTrial(trial.receipts, AttestationPolicy())


@attack
def use_a_quote_made_for_another_purpose(world: World) -> QuoteTrial:
    del world
    receipt = Attested()
    return QuoteTrial((receipt.quoted(receipt.digest + bytes(32)),))


@attack
def run_another_image_in_the_enclave(world: World) -> QuoteTrial:
    """A genuine quote of a machine that runs something else than the reader pinned."""
    del world
    other = AttestationPolicy(measurements=(("mrtd", frozenset({"c2" * 48})),), anchors=Intel().anchors())
    return QuoteTrial((Attested().quoted(),), other)


@attack
def make_quotes_under_a_root_of_ones_own(world: World) -> QuoteTrial:
    """The reader's certificates are another maker's."""
    del world
    other = tuple((name, data) for name, data in DEMANDS.anchors if "root" not in name.lower())
    return QuoteTrial((Attested().quoted(),), AttestationPolicy(measurements=DEMANDS.measurements, anchors=other))


@dataclass
class ImportTrial:
    """An import whose original carries a quote, beside a receipt whose own quote holds."""

    original: bytes

    def run(self) -> Outcome:
        """Verify them, under a policy that requires attestations."""
        built, blobs = ledger(Attested().quoted())
        digest = hashlib.sha256(self.original).hexdigest()
        file = {
            "name": "runs/x/receipt.json",
            "sha256": digest,
            "size": len(self.original),
            "media_type": "application/json",
        }
        body = {
            "format": "polaris/1", "foreign_id": "x", "original_sha256": digest, "attestation": "none",
            "fields": [], "findings": [], "artifacts": [file],
        }  # fmt: skip
        built.add("import", body, LOG)
        policy = TrustPolicy(attestation=DEMANDS, require=frozenset({"attestations"}))
        held = MemorySource(built.data, checkpoint=built.head(), artifacts=blobs | {digest: self.original})
        return outcome(check_log(held, policy))


@attack
def call_an_import_with_a_quote_unattested(world: World) -> ImportTrial:
    """The entry says `none`; the original carries what is no quote at all."""
    del world
    return ImportTrial(b'{"attestation_type":"tdx-quote","tdx":{"quote_b64":"AAAA"}}')


@attack
def write_a_byte_behind_a_receipt_whose_quote_does_not_hold(world: World) -> ImportTrial:
    """No reader of JSON takes it, so none finds the quote in it."""
    del world
    return ImportTrial(b'{"attestation_type":"tdx-quote","tdx":{"quote_b64":"AAAA"}}x')


@attack
def import_a_compressed_receipt_whose_quote_does_not_hold(world: World) -> ImportTrial:
    del world
    return ImportTrial(gzip.compress(b'{"attestation_type":"tdx-quote","tdx":{"quote_b64":"AAAA"}}', mtime=0))


@dataclass
class TokenTrial:
    """A receipt with an NVIDIA answer in front of a reader who has the service's keys and accepts nothing else."""

    receipt: Attested

    def run(self) -> Outcome:
        """Verify a ledger of it."""
        demands = AttestationPolicy(
            kinds=frozenset({"nvidia"}), anchors=(*Intel().anchors(), ("nvidia-jwks.json", key_set()))
        )
        policy = TrustPolicy(attestation=demands, require=frozenset({"attestations"}))
        return outcome(check_log(source(self.receipt), policy))


@attack
def hide_a_refused_token_behind_one_that_nobody_can_check(world: World) -> TokenTrial:
    """The service refused the evidence; one device's token is replaced by one under a key that nobody has."""
    del world
    receipt = Attested(tee="none")
    said = claims(receipt.digest, **DEVICE)
    devices = {"GPU-0": token(said), "GPU-1": token(said, kid="nobody-has-it")}
    named = {name: ["DIGEST", ["SHA-256", hashlib.sha256(text.encode()).hexdigest()]] for name, text in devices.items()}
    overall = claims(receipt.digest, **{"x-nvidia-overall-att-result": False, "submods": named})
    return TokenTrial(receipt.attach("nvidia-token.json", json.dumps([["JWT", token(overall)], devices]).encode()))


@attack
def attest_a_device_in_debug_mode(world: World) -> TokenTrial:
    """Its measurements are the published ones, and the service says so."""
    del world
    return TokenTrial(Attested(tee="none").tokened(device={"dbgstat": "enabled", "secboot": False}))


@attack
def bring_a_quote_that_holds(world: World) -> QuoteTrial:
    """No attack: the others differ from it in one thing each."""
    del world
    return QuoteTrial((Attested().quoted(),))
