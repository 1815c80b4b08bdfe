"""Attacks on readers of published numbers: claims that no receipt stands behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.claims import check as claims
from k3_ledger.rescore.claims.reading import read_claims
from k3_ledger.rescore.replay import gather
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.log import verify_log
from k3_ledger.verify.source import MemorySource
from tests.attacks.registry import attack
from tests.attacks.world import Outcome
from tests.ledgers import JUDGE, RUNNER
from tests.rescore.receipts import DECODE, receipt

if TYPE_CHECKING:
    from tests.attacks.world import World


@dataclass
class ClaimTrial:
    """A published number, and the ledger that it is held against."""

    world: World
    value: str
    more: str = ""

    def run(self) -> Outcome:
        """Check it as the command does."""
        text = (
            f'[[claim]]\nid = "a"\nsays = "it decodes fast"\nkind = "speed"\ntrack = "{DECODE}"\n'
            f'value = "{self.value}"\ntolerance = "0.005"\n{self.more}'
        )
        material = gather(verify_log(MemorySource(self.world.ledger.data)))
        report = claims.check_claims(read_claims(text.encode(), source="claims.toml"), material)
        return Outcome(frozenset(finding.code.id for finding in report.findings), int(report.exit_code))


@attack
def claim_what_no_receipt_says(world: World) -> ClaimTrial:
    return ClaimTrial(world, "76")


@attack
def claim_what_was_superseded(world: World) -> ClaimTrial:
    world = world.copy()
    body = {"target": world.identity("candidate"), "reason": "contaminated", "replacement": None}
    world.ledger.add("supersede", body, JUDGE)
    return ClaimTrial(world, "60")


@attack
def claim_as_current_what_is_not(world: World) -> ClaimTrial:
    world = world.copy()
    world.ledger.add("run", receipt(30.0, 500.0, round_=None), RUNNER)
    return ClaimTrial(world, "60", "current = true\n")


@attack
def claim_what_a_receipt_says(world: World) -> ClaimTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    return ClaimTrial(world, "60")


@dataclass
class DocumentTrial:
    """A page with a claim that quotes it."""

    world: World
    page: str

    def run(self) -> Outcome:
        """Check it as the command does."""
        claim = (
            f'[[claim]]\nid = "a"\nsays = "it decodes fast"\nquote = "decodes 60 tokens"\nkind = "speed"\n'
            f'track = "{DECODE}"\nvalue = "60"\ntolerance = "0.005"\n'
        )
        text = f"{self.page}\n\n```toml claims\n{claim}```\n"
        material = gather(verify_log(MemorySource(self.world.ledger.data)))
        try:
            report = claims.check_claims(read_claims(text.encode(), source="page.md"), material)
        except LedgerError as error:
            return Outcome(frozenset({error.code.id}), int(error.code.info.exit))
        return Outcome(frozenset(finding.code.id for finding in report.findings), int(report.exit_code))


@attack
def quote_a_comment(world: World) -> DocumentTrial:
    """The page says 90, and the number that is checked stands where no reader sees it."""
    return DocumentTrial(world, "It decodes 90 tokens a second. <!-- It decodes 60 tokens a second. -->")


@attack
def quote_what_an_element_hides(world: World) -> DocumentTrial:
    page = "It decodes 90 tokens a second.\n\n<div hidden>\n\nIt decodes 60 tokens a second.\n\n</div>"
    return DocumentTrial(world, page)


@attack
def quote_what_the_page_says(world: World) -> DocumentTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    return DocumentTrial(world, "It decodes 60 tokens a second. <!-- As of today. -->")
