"""What root actions come to, when revocations among them take others back.

A compromise revocation takes back what a key signed or endorsed from a position on, root actions included. Which
actions stand depends on what was taken back, and what was taken back on which actions stand: :func:`rest` goes through
them in order again and again, until both agree. Only a revocation of a root key that names an earlier position asks
for that, and a log has at most :data:`MAX_REACHING_BACK`; behind any other action the state is a :func:`step` away.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from k3_ledger.ledger.core.keylife import FOREVER, KeyLife

if TYPE_CHECKING:
    _Taken = dict[str, tuple[tuple[int, int], ...]]
    """By key id, every revocation that takes something back: (from, its own position)."""


MAX_REACHING_BACK = 32
"""Of the revocations that name a root key and a position before their own, so many are gone into, in log order."""


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


def reaches_back(action: Action) -> bool:
    """Whether an action takes root actions back, or could: it says from when on a root key counts for nothing."""
    position, _, kind, body, _ = action
    if kind != "key" or body.action != "revoke" or body.role != "root":
        return False
    return body.revoked_from not in (None, position)


def step(lives: dict[str, KeyLife], action: Action) -> dict[str, KeyLife]:
    """The lives that one more action changes, as it leaves them; nothing that was given is changed.

    Equal to what :func:`rest` makes of it for an action that counts and does not :func:`reaches_back`: it stands
    behind all others, so it takes none of them back. A key that is no root key stands behind none, wherever it is
    revoked from.
    """
    body = action.body
    named = () if action.kind == "threshold" else (body.key_id, body.replaces)
    state = State({key: replace(lives[key]) for key in named if key in lives}, {}, 1)
    found: _Taken = {}
    _change(state, action, found)
    for key, revocations in found.items():
        state.lives[key].disowned_from = min(state.lives[key].disowned_from, _start(revocations))
    return state.lives


def rest(raw: bytes, genesis: int, actions: list[Action]) -> State | None:
    """Go through the actions in order, leaving out those that a revocation takes back, until nothing changes.

    Takes as many rounds as revocations depend on one another. Each goes through those actions on which it depends who
    stands behind a revocation that reaches back; the others are gone through once, at the end.

    Args:
        raw: public key that genesis pins.
        genesis: position of genesis.
        actions: the actions, each of which counted when it was appended, or would count now: the newest.

    Returns:
        None when that never comes to rest, or rests without the newest: then that one undoes what it rests on.
    """
    first = KeyLife(raw, "root", enrolled=genesis - 1)
    decisive = _decisive(actions)
    taken: _Taken = {}
    seen: list[_Taken] = []
    while True:
        if taken in seen:
            return None
        seen.append(taken)
        found = _go_through(first, decisive, taken)[1]
        if found == taken:
            break
        taken = found
    state, found, stands = _go_through(first, actions, taken)
    for key, revocations in found.items():
        state.lives[key].disowned_from = _start(revocations)
    return state if stands else None


def _go_through(first: KeyLife, actions: list[Action], taken: _Taken) -> tuple[State, _Taken, bool]:
    """The state where ``taken`` is taken back, what the actions take back then, and whether the newest stands."""
    state = State({sha256(first.public_key).hexdigest(): replace(first)}, {}, 1)
    found: _Taken = {}
    stands = False
    for action in actions:
        state, stands = _apply(state, action, taken, found)
    return state, found, stands


def _decisive(actions: list[Action]) -> list[Action]:
    """Those actions that say whether a revocation of a root key that reaches back stands, these among them.

    What becomes of a key matters as far as the key stands behind one of them, later on, or is what such a revocation
    names.
    """
    behind = {action.body.key_id for action in actions if reaches_back(action)}
    found: list[Action] = []
    for action in reversed(actions):
        body = action.body
        if action.kind == "threshold" or reaches_back(action) or body.key_id in behind or body.replaces in behind:
            behind.update((action.signer, *action.endorsers))
            found.append(action)
    return found[::-1]


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
    return _change(state, action, found), True


def _change(state: State, action: Action, found: _Taken) -> State:
    """The state behind an action that stands; what it takes back goes into ``found``."""
    position, _, kind, body, _ = action
    lives = state.lives
    if kind == "threshold":
        return state._replace(threshold=body.threshold)
    if body.action == "revoke":
        life = lives.get(body.key_id)
        if life is not None:
            life.retired = min(life.retired, position)
            if body.revoked_from not in (None, position):
                found[body.key_id] = (*found.get(body.key_id, ()), (body.revoked_from, position))
        return state
    old = lives.get(body.replaces) if body.action == "rotate" else None
    if old is not None and old.retired > position:
        old.retired, old.replaced_by = position, body.key_id
    lives[body.key_id] = KeyLife(bytes.fromhex(body.public_key), body.role, enrolled=position)
    return state


def _stands(life: KeyLife | None, position: int, revocations: tuple[tuple[int, int], ...]) -> bool:
    """Whether a root key counts behind an action at ``position``, now that what was taken back is known."""
    return life is not None and life.valid_at(position) and position < _start(revocations)
