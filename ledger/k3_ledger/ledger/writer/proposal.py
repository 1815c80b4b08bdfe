"""Proposals: a root action on its way past the holders of root keys, before one of them appends it.

A proposal is a small JSON file: the action, the log it is for, and the state of that log's keys. Each holder reads it
on a machine of his own and adds an endorsement; the file needs no protection, for a change of it makes the
endorsements void. Holders may also work on copies: :func:`merge` puts them together.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.endorsement import format_statement
from k3_ledger.ledger.writer.batch import check_key, refusal
from k3_ledger.ledger.writer.roster import read_state
from k3_ledger.schemas import canonical
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.envelope import MAX_ENTRY, MOST_ENDORSEMENTS, ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError, MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position
from k3_ledger.schemas.structs import Endorsement
from k3_ledger.schemas.validate import read_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.ledger.writer.store import Ledger

SCHEMA: Final = "k3-ledger/proposal/1"
LIMITS: Final = canonical.Limits(max_bytes=2 * MAX_ENTRY)
"""A proposal is an entry's body and some words around it."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_ANY_TIME: Final = "2000-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A root action that is not appended yet.

    Attributes:
        origin: name of the log that it is for.
        after: identity of that log's newest genesis, key or threshold entry.
        kind: ``key`` or ``threshold``.
        body: plain fields of the entry's body, the endorsements so far among them.
    """

    origin: str
    after: str
    kind: str
    body: dict[str, Any]

    @property
    def statement(self) -> bytes:
        """What endorsers sign."""
        return format_statement(self.origin, self.after, self.kind, self.body)

    @property
    def endorsers(self) -> tuple[str, ...]:
        """Key ids of who endorsed it, as the file says: only :func:`check_proposal` looks at the signatures."""
        return tuple(endorsement["key"] for endorsement in self.body["endorsements"])


def propose(ledger: Ledger, kind: str, body: dict[str, Any], *, last_root: bool = False) -> Proposal:
    """A proposal for the ledger as it is now; with ``last_root`` it may be the last root action ever.

    Raises:
        LedgerError: the action could not count, however many root keys stood behind it.
    """
    state = read_state(ledger)
    proposal = Proposal(state.origin, state.keyring.newest_action, kind, body)
    check_proposal(ledger, proposal, last_root=last_root)
    return proposal


def check_proposal(ledger: Ledger, proposal: Proposal, *, endorser: str | None = None, last_root: bool = False) -> None:
    """Hold a proposal, who endorsed it and who is about to, against a copy of the ledger that it is for.

    An endorsement by ``endorser`` that stands in the file is left alone: the new one takes its place.

    Raises:
        LedgerError: it is for another log or another state of the keys, or could not count; or an endorsement in it is
            not one of this action by a root key.
    """
    state = read_state(ledger)
    keyring, index = state.keyring, state.entries
    place = Position(source=str(ledger.log_path))
    if (proposal.origin, proposal.after) != (state.origin, keyring.newest_action):
        raise LedgerError(
            Code.ENDORSEMENT_STALE,
            "the proposal was made for another state of the keys, or for another log",
            position=place,
            expected=f"{state.origin}, after {keyring.newest_action}",
            found=f"{proposal.origin}, after {proposal.after}",
            hint="propose the action again on the ledger as it is now",
        )
    if endorser is not None:
        check_key(keyring.lives.get(endorser), endorser, proposal.kind, index)
    signer = next((key for key, life in keyring.lives.items() if life.role == "root" and life.valid_at(index)), None)
    if signer is None:  # any will do: the form of an entry does not depend on who signs it
        raise LedgerError(Code.KEY_RETIRED, "the ledger has no valid root key left", position=place)
    bare = {**proposal.body, "endorsements": []}
    _, typed = encode(proposal.kind, bare, index=index, key=signer, prev=proposal.after, time=_ANY_TIME)
    for finding in keyring.check_possible(index, proposal.kind, typed.body):
        if not (last_root and finding.code is Code.ROOTS_TOO_FEW):
            raise refusal(finding)
    given = [Endorsement(**known) for known in proposal.body["endorsements"] if known["key"] != endorser]
    for finding in keyring.check_endorsements(index, proposal.kind, replace(typed.body, endorsements=given)):
        raise refusal(finding)


def endorse(proposal: Proposal, signer: Signer) -> Proposal:
    """The proposal with an endorsement by ``signer``, which is not repeated where it stands already.

    Raises:
        LedgerError: it carries as many endorsements as an entry may.
    """
    others = [known for known in proposal.body["endorsements"] if known["key"] != signer.key_id]
    if len(others) == MOST_ENDORSEMENTS:
        raise LedgerError(
            Code.ENDORSEMENT_REPEATED,
            f"the proposal carries {MOST_ENDORSEMENTS} endorsements, as many as an entry may",
            hint="append it",
        )
    sig = strict_base64.encode(signer.sign(proposal.statement)).decode()
    body = {**proposal.body, "endorsements": [*others, {"key": signer.key_id, "sig": sig}]}
    return dataclasses.replace(proposal, body=body)


def merge(proposals: Sequence[Proposal], *, signer: str | None = None) -> Proposal:
    """One proposal with the endorsements of all its copies, each key once, and without that of the coming signer.

    Raises:
        LedgerError: the copies are not of one proposal.
    """
    first = proposals[0]
    endorsements: dict[str, dict[str, str]] = {}
    for copy in proposals:
        if copy.statement != first.statement:
            raise LedgerError(
                Code.PROPOSALS_DIFFER,
                "the files are not copies of one proposal",
                expected=first.statement.partition(b"\n")[2].decode(),
                found=copy.statement.partition(b"\n")[2].decode(),
            )
        for endorsement in copy.body["endorsements"]:
            endorsements.setdefault(endorsement["key"], endorsement)
    kept = [endorsement for key, endorsement in endorsements.items() if key != signer]
    return dataclasses.replace(first, body={**first.body, "endorsements": kept})


def format_proposal(proposal: Proposal) -> bytes:
    """The file of a proposal: one line of canonical JSON."""
    document = {
        "after": proposal.after,
        "body": proposal.body,
        "kind": proposal.kind,
        "origin": proposal.origin,
        "schema": SCHEMA,
    }
    return canonical.format(document, limits=LIMITS) + b"\n"


def parse_proposal(data: bytes, *, position: Position = NOWHERE) -> Proposal:
    """Read the file of a proposal, in any spacing. Only its form is checked.

    Raises:
        MalformedError: it is not one; the position names the field.
        SchemaError: the body does not fit its kind.
    """
    value = canonical.parse_value(data, limits=LIMITS, position=position)
    names = ["after", "body", "kind", "origin", "schema"]
    if not isinstance(value, dict) or sorted(value) != names:
        raise _malformed(position, None, f"an object with {', '.join(names)}")
    if value["schema"] != SCHEMA:
        raise _malformed(position, "schema", SCHEMA)
    kind, after, origin = value["kind"], value["after"], value["origin"]
    if not isinstance(kind, str) or kind not in ROOT_ACTIONS:
        raise _malformed(position, "kind", " or ".join(sorted(ROOT_ACTIONS)))
    if not isinstance(after, str) or not _HEX64.fullmatch(after):
        raise _malformed(position, "after", "64 lower-case hexadecimal digits")
    if not isinstance(origin, str):
        raise _malformed(position, "origin", "the name of a log")
    body = read_body(kind, canonical.format(value["body"], limits=LIMITS), position=Position(source=position.source))
    return Proposal(origin, after, kind, body.model_dump(mode="json"))


def _malformed(position: Position, field: str | None, expected: str) -> MalformedError:
    return MalformedError(
        Code.PROPOSAL_MALFORMED,
        "this is not a proposal",
        position=dataclasses.replace(position, field=field),
        expected=expected,
    )
