"""Attacks on attested receipts: a quote that is genuine, and of something else.

Made under a made-up root, by the generator of the tests of quotes; the ledger that other attacks are made on plays no
part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from docs.examples.made_up_intel import World as Intel

from k3_ledger.schemas.attested import report_data
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from tests.attacks.registry import attack
from tests.attacks.world import Outcome, outcome
from tests.verify.tee.receipts import Attested, source

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


@attack
def bring_a_quote_that_holds(world: World) -> QuoteTrial:
    """No attack: the others differ from it in one thing each."""
    del world
    return QuoteTrial((Attested().quoted(),))
