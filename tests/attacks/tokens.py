"""Attacks on timestamps: tokens over the very head, by certificates that an authority believed by the reader issued."""

from __future__ import annotations

from dataclasses import dataclass, replace

from k3_ledger.cli.tokens import read_token
from k3_ledger.cli.verify import check_ledger
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.verify.log import Options
from k3_ledger.verify.source import MemorySource
from tests.attacks.registry import attack
from tests.attacks.world import POLICY, Outcome, World, outcome
from tests.reference.naive_tsa import DAY, NOW, Holder, Reply, Wanted, authority, issue

SERVER_AUTH = "1.3.6.1.5.5.7.3.1"


@dataclass
class StampTrial:
    """A sealed ledger with one timestamp beside it, before a reader who believes the token's root."""

    world: World
    root: Holder
    signer: Holder
    between: tuple[Holder, ...] = ()
    named: Holder | None = None

    def run(self) -> Outcome:
        """Verify it as the command does."""
        head = self.world.ledger.head()
        text = parse_note(head).text.encode()
        token = Reply(self.signer, self.between, message=text, named=self.named).bytes()
        name = f"timestamps/{len(self.world.lines):012d}.tsr"
        source = MemorySource(
            self.world.ledger.data, checkpoint=head, artifacts=self.world.artifacts, tokens=[(name, token)]
        )
        policy = replace(POLICY, timestamp_roots=(self.root.bytes,), require=frozenset({"timestamps"}))
        return outcome(check_ledger(source, policy, Options(read_token=read_token)))


@attack
def stamp_with_a_certificate_that_has_expired(world: World) -> StampTrial:
    root = issue(authority("Root"))
    return StampTrial(world, root, issue(Wanted(ends=NOW - DAY / 24), root))


@attack
def stamp_with_an_authoritys_own_certificate(world: World) -> StampTrial:
    """Who may vouch for others vouches for himself: of what he was asked to certify nobody keeps count."""
    root = issue(authority("Root"))
    return StampTrial(world, root, issue(Wanted(ca=True), root))


@attack
def stamp_under_an_authority_for_web_servers(world: World) -> StampTrial:
    from cryptography.x509.oid import ObjectIdentifier

    root = issue(authority("Root"))
    between = issue(authority("Between", purposes=(ObjectIdentifier(SERVER_AUTH),)), root)
    return StampTrial(world, root, issue(Wanted(), between), (between,))


@attack
def put_another_certificate_of_the_key_into_a_token(world: World) -> StampTrial:
    """The one that was signed for had another period; this one is carried in its place."""
    root = issue(authority("Root"))
    signed = issue(Wanted(), root)
    carried = issue(Wanted(ends=NOW + 99 * DAY), root, signed.key)
    return StampTrial(world, root, carried, named=signed)


@attack
def stamp_as_an_authority_for_timestamps_does(world: World) -> StampTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    root = issue(authority("Root"))
    between = issue(authority("Between"), root)
    return StampTrial(world, root, issue(Wanted(), between), (between,))
