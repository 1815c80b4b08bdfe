"""What root actions come to, when revocations among them take others back.

A compromise revocation takes back what a key signed or endorsed from a position on, root actions included. Which
actions stand depends on what was taken back, and what was taken back on which actions stand: :func:`rest` goes through
them in order again and again, until both agree.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from k3_ledger.ledger.core.keylife import FOREVER, KeyLife

if TYPE_CHECKING:
    _Taken = dict[str, tuple[tuple[int, int], ...]]
    """By key id, every revocation that takes something back: (from, its own position)."""


class Action(NamedTuple):
    """A root action that counted when it was appended.

    ``endorsers`` are the root keys beside ``signer`` whose endorsement was good.
    """

    position: int
    signer: str
    kind: str
    body: Any
    endorsers: tuple[str, ...]


class State(NamedTuple):
    """What the root actions come to: keys that count or counted, keys never enrolled after all, and the threshold."""

    lives: dict[str, KeyLife]
    taken_back: dict[str, KeyLife]
    threshold: int


def rest(raw: bytes, genesis: int, actions: list[Action]) -> State | None:
    """Go through the actions in order, leaving out those that a revocation takes back, until nothing changes.

    Args:
        raw: public key that genesis pins.
        genesis: position of genesis.
        actions: the actions, each of which counted when it was appended, or would count now: the newest.

    Returns:
        None when that never comes to rest, or rests without the newest: then that one undoes what it rests on.
    """
    taken: _Taken = {}
    for _ in range(len(actions) + 2):
        state = State({sha256(raw).hexdigest(): KeyLife(raw, "root", enrolled=genesis - 1)}, {}, 1)
        found: _Taken = {}
        stands = False
        for action in actions:
            state, stands = _apply(state, action, taken, found)
        for key, revocations in found.items():
            state.lives[key].disowned_from = _start(revocations)
        if found == taken:
            return state if stands else None
        taken = found
    return None


def _start(revocations: tuple[tuple[int, int], ...]) -> int:
    """The earliest position that any of a key's revocations takes back."""
    return min((start for start, _ in revocations), default=FOREVER)


def _apply(state: State, action: Action, taken: _Taken, found: _Taken) -> tuple[State, bool]:
    """The state behind one action, and whether the action stands or was taken back."""
    position, signer, kind, body, endorsers = action
    lives = state.lives
    standing = [key for key in (signer, *endorsers) if _stands(lives.get(key), position, taken.get(key, ()))]
    if signer not in standing or len(standing) < state.threshold:
        if kind == "key" and body.action != "revoke":
            raw = bytes.fromhex(body.public_key)
            state.taken_back[body.key_id] = KeyLife(raw, body.role, position, taken_back=position)
        return state, False
    if kind == "threshold":
        return state._replace(threshold=body.threshold), True
    if body.action == "revoke":
        life = lives.get(body.key_id)
        if life is not None:
            life.retired = min(life.retired, position)
            if body.revoked_from not in (None, position):
                found[body.key_id] = (*found.get(body.key_id, ()), (body.revoked_from, position))
        return state, True
    old = lives.get(body.replaces) if body.action == "rotate" else None
    if old is not None and old.retired > position:
        old.retired, old.replaced_by = position, body.key_id
    lives[body.key_id] = KeyLife(bytes.fromhex(body.public_key), body.role, enrolled=position)
    return state, True


def _stands(life: KeyLife | None, position: int, revocations: tuple[tuple[int, int], ...]) -> bool:
    """Whether a root key counts behind an action at ``position``, now that what was taken back is known."""
    return life is not None and life.valid_at(position) and position < _start(revocations)
