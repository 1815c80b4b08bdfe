"""Endorsements: how further root keys stand behind a root action, byte by byte as in docs/format.md.

An endorser signs what is to be done and the state of the keys in which it is to be done, and nothing of the chain, so
that an entry of another kind may be appended meanwhile. That state is named by the identity of the newest root action
(or genesis) in front: it commits to the origin and to everything before it, and it never comes again. So an
endorsement counts for one action, once; it cannot be repeated later, nor in another log of the same name, nor in a fork
that parts in front of that root action. In one that parts behind it, keys and action are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas import canonical, structs

if TYPE_CHECKING:
    from collections.abc import Mapping

STATEMENT_PREFIX: Final = b"k3-ledger/endorsement/v1\n"
"""What tells the signature of an endorsement from that of an entry or of a note."""
_FIELDS: Final = {
    "key": structs.KeyBody.__struct_fields__,
    "threshold": structs.ThresholdBody.__struct_fields__,
}


def plain_body(kind: str, body: Any) -> dict[str, object]:
    """Fields of a decoded body of a root action, without its endorsements."""
    return {name: getattr(body, name) for name in _FIELDS[kind] if name != "endorsements"}


def format_statement(origin: str, after: str, kind: str, body: Mapping[str, object]) -> bytes:
    """The message that an endorser signs.

    Args:
        origin: the log's name for itself.
        after: identity of the newest entry of kind genesis, key or threshold in front of the action, hexadecimal.
        kind: ``key`` or ``threshold``.
        body: plain fields of the action; endorsements among them are left out.
    """
    action = {name: value for name, value in body.items() if name != "endorsements"}
    return STATEMENT_PREFIX + canonical.format({"after": after, "body": action, "kind": kind, "origin": origin})
