"""Attacks on those who sign what they are shown: holders of root keys, and witnesses.

Made on ledgers and states of their own, which their commands read; the ledger that other attacks are made on plays no
part.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.note import parse_verifier_key
from k3_ledger.ledger.writer.keys import Signer
from k3_ledger.ledger.writer.proposal import check_proposal, endorse, format_proposal, parse_proposal, propose
from k3_ledger.ledger.writer.store import NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError
from tests.attacks.registry import attack
from tests.attacks.world import Outcome
from tests.ledger.witness.support import A, B, Branch, new_witness
from tests.ledger.writer.support import SIGNERS, STRANGER, new_ledger, public
from tests.reference.naive_note import NoteKey

if TYPE_CHECKING:
    from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
    from tests.attacks.world import World

ANN, BOB, EVE = (Signer(hashlib.sha256(name).digest()) for name in (b"ann", b"bob", b"eve"))
WANTED = enrolment(NewKey("runner", "new", public(STRANGER)))
HONEST = Branch("own", 5)
NEXT_LOG = NoteKey(HONEST.origin, "the log's next key")


def refused(error: LedgerError) -> Outcome:
    """What a command that stops with an error says."""
    return Outcome(frozenset({error.code.id}), int(error.code.info.exit))


@dataclass
class ProposalTrial:
    """A proposal that Ann endorsed, on its way to Bob, who has a copy of the ledger."""

    swapped: tuple[tuple[str, str], ...]

    def run(self) -> Outcome:
        """Have Bob hold the file against his copy before he endorses it."""
        with tempfile.TemporaryDirectory() as folder:
            ledger = new_ledger(Path(folder) / "ledger")
            with ledger.writer(SIGNERS["root"]) as writer:
                for name, signer in (("ann", ANN), ("bob", BOB)):
                    writer.append("key", enrolment(NewKey("root", name, public(signer))))
            data = format_proposal(endorse(propose(ledger, "key", WANTED), ANN))
            for was, becomes in self.swapped:
                assert was.encode() in data
                data = data.replace(was.encode(), becomes.encode())
            try:
                check_proposal(ledger, parse_proposal(data), endorser=BOB.key_id)
            except LedgerError as error:
                return refused(error)
            return Outcome(frozenset(), 0)


@attack
def swap_the_key_in_a_proposal_that_was_endorsed(world: World) -> ProposalTrial:
    """Whoever carries the file puts his own key into it; Bob is to endorse what Ann seems to stand behind."""
    del world
    mine = enrolment(NewKey("runner", "new", public(EVE)))
    return ProposalTrial(tuple((str(WANTED[name]), str(mine[name])) for name in ("key_id", "public_key")))


@attack
def write_an_endorsement_by_somebody_else_into_a_proposal(world: World) -> ProposalTrial:
    """Ann's signature under the name of another root key: two seem to stand behind the action."""
    del world
    return ProposalTrial(((ANN.key_id, SIGNERS["root"].key_id),))


@dataclass
class WitnessTrial:
    """A thief of the log's key in front of a witness that cosigned five entries of the log."""

    thief: Branch
    told: bool

    def run(self) -> Outcome:
        """Ask for a cosignature; where the witness was ``told``, the owner has had it drop the key."""
        with tempfile.TemporaryDirectory() as folder:
            witness = new_witness(Path(folder) / "w")
            witness.add_checkpoint(HONEST.request(0, 5))
            witness.state.add_log(HONEST.origin, [parse_verifier_key(NEXT_LOG.verifier_key)])
            if self.told:
                witness.state.drop_keys(HONEST.origin, [parse_verifier_key(HONEST.key.verifier_key)])
            try:
                witness.add_checkpoint(self.thief.request(5, 8))
            except LedgerError as error:
                witness.add_checkpoint(replace(HONEST, key=NEXT_LOG).request(5, 8))
                return refused(error)
            return Outcome(frozenset(), 0)


@attack
def have_a_witness_cosign_under_a_log_key_that_was_stolen(world: World) -> WitnessTrial:
    """The owner revoked the key, enrolled another, and told the witness; the log goes on there."""
    del world
    return WitnessTrial(Branch("thief", 5), told=True)


@attack
def have_a_witness_cosign_before_it_is_told_of_the_theft(world: World) -> WitnessTrial:
    del world
    return WitnessTrial(Branch("thief", 5), told=False)


@dataclass
class ForgetfulTrial:
    """A witness that has cosigned a head of a log, and is asked to cosign another one.

    Attributes:
        lost: whether what it remembered of the log is gone, so that its operator adds the log again.
        asked: the head and its proof.
    """

    lost: bool
    asked: AddCheckpoint

    def run(self) -> Outcome:
        """Ask as the log does."""
        with tempfile.TemporaryDirectory() as folder:
            witness = new_witness(Path(folder) / "witness")
            witness.add_checkpoint(A.request(0, 5))
            try:
                if self.lost:
                    for memory in (Path(folder) / "witness" / "logs").glob("*.json"):
                        memory.unlink()
                    witness.state.add_log(A.origin, [parse_verifier_key(A.key.verifier_key)])
                witness.add_checkpoint(self.asked)
            except LedgerError as error:
                return refused(error)
            return Outcome(frozenset(), 0)


@attack
def ask_a_witness_that_lost_its_memory(world: World) -> ForgetfulTrial:
    """What it saw was one history; it is shown another, from the beginning."""
    del world
    return ForgetfulTrial(lost=True, asked=B.request(0, 8))


@attack
def ask_a_witness_that_remembers_for_what_extends_that(world: World) -> ForgetfulTrial:
    """No attack: what is checked above would otherwise be refused whatever it is."""
    del world
    return ForgetfulTrial(lost=False, asked=A.request(5, 8))
