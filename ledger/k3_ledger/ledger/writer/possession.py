"""Whether somebody holds the root keys that are left: asked before one is retired, for afterwards it is too late.

A public key may be anything: a typing error, the half of a key that was lost, a file of somebody else. Enrolling such a
key costs nothing, for those who enrolled it can go on. Retiring the root key that did so leaves the log to a key that
nobody holds, for ever. So the new key's private half has to be shown first, as TUF asks a new root to sign itself in.

A root key is shown when it stands behind a root action of the log, the one that is about to be appended among them, or
when its private half was at hand. What is shown here is not written down: the log has no field for it, and a verifier
could not tell either whether the owner or a thief held the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from k3_ledger.ledger.writer.state import LogState


def check_shown(state: LogState, kind: str, body: Mapping[str, Any], shown: Collection[str]) -> None:
    """Refuse to retire a root key when too few of those that are left have shown that they can sign.

    Actions that retire no root key pass. Whether the action can count at all is for the writer to say.

    Args:
        state: the log that it would be appended to.
        kind: kind of the root action.
        body: its body.
        shown: key ids of who signs it, and of those whose private half was at hand.

    Raises:
        LedgerError: ``KEY_NOT_SHOWN``.
    """
    if kind != "key" or body["role"] != "root" or body["action"] == "enrol":
        return
    keyring, index = state.keyring, state.entries
    retired = body["replaces"] if body["action"] == "rotate" else body["key_id"]
    left = {key for key, life in keyring.lives.items() if life.role == "root" and life.valid_at(index)} - {retired}
    left |= {body["key_id"]} if body["action"] == "rotate" else set()
    known = keyring.acted | set(shown) | {endorsement["key"] for endorsement in body["endorsements"]}
    if len(left) < keyring.threshold or len(left & known) >= keyring.threshold:
        return  # too few at all is another refusal
    missing = sorted(left - known)
    raise LedgerError(
        Code.KEY_NOT_SHOWN,
        f"nobody has shown that the root key {missing[0][:16]}… can sign, and without it no root action can follow",
        position=Position(index=index, field="body"),
        expected=f"{keyring.threshold} of the root keys that are left, shown to be held by somebody",
        found=str(len(left & known)),
    )
