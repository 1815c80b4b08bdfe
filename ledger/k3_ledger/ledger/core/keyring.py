"""Key lifetimes by log position: which key could sign what, and where in the log.

A key enrolled at position p counts for positions p+1 and later, up to the position that retires it. A revocation may
name an earlier position (compromise): what the key signed from there on is disowned, what came before stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.ed25519 import check_public_key
from k3_ledger.schemas.envelope import SIGNING_ROLES
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

FOREVER = 2**63


@dataclass(slots=True)
class KeyLife:
    """One key and the span of positions in which its signatures count.

    Attributes:
        public_key: raw 32 bytes.
        role: what it may sign, see SIGNING_ROLES.
        enrolled: position of the entry that enrolled it; its entries count after that.
        retired: position of the entry that rotated or revoked it; its entries count up to there, for a root key
            signs the very entry that retires it.
        disowned_from: first position that a compromise revocation takes back, at most ``retired``.
        taken_back: position of the revocation that took back the very entry that enrolled it; its entries never count.
    """

    public_key: bytes
    role: str
    enrolled: int
    retired: int = FOREVER
    disowned_from: int = FOREVER
    taken_back: int = FOREVER

    def valid_at(self, position: int) -> bool:
        """Whether a signature at this position could count when it was made."""
        return self.enrolled < position <= self.retired


@dataclass(slots=True)
class Keyring:
    """Keys met in a log and the positions at which they were used.

    ``apply_genesis`` and ``apply_key`` are called for entries whose signature verified, in log order; ``used`` for
    every entry whose signature verified; ``check_use`` once, at the end.

    A compromise revocation takes back what the key signed from a position on, key entries included: keys that a thief
    enrolled were never enrolled, keys that he retired live on. So the key entries are gone through again after each.
    """

    lives: dict[str, KeyLife] = field(default_factory=dict)
    taken_back: dict[str, KeyLife] = field(default_factory=dict)
    uses: dict[tuple[str, str], array[int]] = field(default_factory=dict)
    endorsements: int = 0
    _genesis: tuple[bytes, int] | None = None
    _events: list[tuple[int, str, Any]] = field(default_factory=list)

    def apply_genesis(self, position: int, body: Any) -> Iterator[Finding]:
        """Pin the root key that genesis names. Genesis itself is signed by it."""
        raw = bytes.fromhex(body.root_public_key)
        yield from _weakness(raw, position, "body.root_public_key")
        self._genesis = raw, position
        self._replay()

    def apply_key(self, position: int, signer: str, body: Any) -> Iterator[Finding]:
        """Take one ``key`` entry into account, unless it cannot count; then say why."""
        life = self.lives.get(signer)
        if life is None or life.role != "root" or not life.valid_at(position):
            return  # reported by check_use: this key could not sign a `key` entry here
        found = list(self._faults(position, signer, life, body))
        if found:
            yield from found
            return
        self.endorsements += len(body.endorsements)
        self._events.append((position, signer, body))
        self._replay()

    def _faults(self, position: int, signer: str, signed_by: KeyLife, body: Any) -> Iterator[Finding]:
        """Why a key entry by a valid root cannot count."""
        raw = bytes.fromhex(body.public_key)
        target = self.lives.get(body.key_id)
        if sha256(raw).hexdigest() != body.key_id:
            yield _finding(
                Code.KEY_ID_MISMATCH, position, "body.key_id", "key_id is not the SHA-256 of public_key",
                expected=sha256(raw).hexdigest(), found=body.key_id,
            )  # fmt: skip
        elif body.action == "revoke":
            if target is None:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.key_id", "a revocation names an enrolled key",
                    found=body.key_id,
                )  # fmt: skip
                return
            if body.role != target.role or body.replaces is not None:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.role",
                    "a revocation names the key's own role, and no other key",
                    expected=target.role, found=body.role,
                )  # fmt: skip
            earliest = position if body.key_id == signer else signed_by.enrolled + 1
            if body.revoked_from is not None and not earliest <= body.revoked_from <= position:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.revoked_from",
                    "a revocation takes effect at its own position or before, and cannot take itself back",
                    expected=f"{earliest} to {position}", found=str(body.revoked_from),
                )  # fmt: skip
        elif weakness := list(_weakness(raw, position, "body.public_key")):
            yield from weakness
        elif target is not None or body.key_id in self.taken_back:
            yield _finding(
                Code.KEY_ENROLLED_TWICE, position, "body.key_id", f"key {body.key_id[:16]}… was enrolled before"
            )
        elif body.revoked_from is not None or (body.action == "enrol") != (body.replaces is None):
            yield _finding(
                Code.KEY_UNKNOWN_TARGET, position, "body.replaces",
                "an enrolment replaces nothing, a rotation one key, and neither revokes", found=str(body.replaces),
            )  # fmt: skip
        elif body.action == "rotate":
            old = self.lives.get(body.replaces)
            if old is None or not old.valid_at(position) or old.role != body.role:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.replaces",
                    "a rotation names a valid key of the same role", found=str(body.replaces),
                )  # fmt: skip

    def _replay(self) -> None:
        """Go through the key entries in order, leaving out those that a revocation takes back, until none is left.

        A revocation cannot take back the enrolment of whoever signed it, so a second round agrees with the first or
        drops more; the bound is for safety.
        """
        taken: dict[str, tuple[int, int]] = {}  # key id: (from, position of the revocation)
        assert self._genesis is not None, "no key is enrolled before genesis"
        raw, genesis = self._genesis
        for _ in range(len(self._events) + 2):  # pragma: no branch - left by the return below
            self.lives, self.taken_back = {sha256(raw).hexdigest(): KeyLife(raw, "root", enrolled=genesis - 1)}, {}
            found: dict[str, tuple[int, int]] = {}
            for position, signer, body in self._events:
                self._apply(position, signer, body, taken, found)
            for key, (start, at) in found.items():
                life = self.lives[key]
                life.retired, life.disowned_from = min(life.retired, at), min(life.disowned_from, start)
            if found == taken:
                return
            taken = found

    def _apply(
        self,
        position: int,
        signer: str,
        body: Any,
        taken: dict[str, tuple[int, int]],
        found: dict[str, tuple[int, int]],
    ) -> None:
        """The effect of one key entry, unless it was taken back."""
        by = self.lives.get(signer)
        start, at = taken.get(signer, (FOREVER, FOREVER))
        if by is None:
            at = self.taken_back[signer].taken_back if signer in self.taken_back else FOREVER
        if by is None or not by.valid_at(position) or position >= start:
            if body.action != "revoke":
                raw = bytes.fromhex(body.public_key)
                self.taken_back[body.key_id] = KeyLife(raw, body.role, position, taken_back=at)
            return
        if body.action == "revoke":
            life = self.lives.get(body.key_id)
            if life is not None:
                life.retired = min(life.retired, position)
                if body.revoked_from is not None:
                    found.setdefault(body.key_id, (body.revoked_from, position))
            return
        if body.action == "rotate" and body.replaces in self.lives:
            self.lives[body.replaces].retired = position
        self.lives[body.key_id] = KeyLife(bytes.fromhex(body.public_key), body.role, enrolled=position)

    def used(self, key: str, kind: str, positions: array[int]) -> None:
        """Remember that ``key`` signed entries of ``kind`` at these positions."""
        known = self.uses.get((key, kind))
        if known is None:
            self.uses[key, kind] = positions
        else:
            known.extend(positions)

    def check_use(self) -> Iterator[tuple[Finding, int]]:
        """(finding, further ones like it) for every use that a lifetime or role does not allow."""
        for (key, kind), positions in self.uses.items():
            life = self.lives.get(key) or self.taken_back.get(key)
            if life is None:
                yield _first(Code.KEY_UNKNOWN, positions, f"key {key[:16]}… was never enrolled", None, key)
                continue
            if life.role not in SIGNING_ROLES[kind]:
                yield _first(
                    Code.KEY_WRONG_ROLE, positions, f"a {life.role} key signed an entry of kind {kind}",
                    " or ".join(sorted(SIGNING_ROLES[kind])), life.role,
                )  # fmt: skip
            early = [p for p in positions if p <= life.enrolled] if positions[0] <= life.enrolled else []
            if early:
                yield _first(
                    Code.KEY_NOT_YET, early, f"key {key[:16]}… signed before it was enrolled",
                    f"after entry {life.enrolled}", None,
                )  # fmt: skip
            end = min(life.retired, life.taken_back)
            late = [p for p in positions if p > end] if positions[-1] > end else []
            if late:
                yield _first(
                    Code.KEY_RETIRED, late, f"key {key[:16]}… signed after it was retired or its enrolment taken back",
                    f"before entry {end}", None,
                )  # fmt: skip
            disowned = [p for p in positions if _is_disowned(life, p)]
            if disowned:
                yield _first(
                    Code.KEY_DISOWNED, disowned,
                    f"entry {end} takes back what key {key[:16]}… signed from entry {disowned[0]} on", None, None,
                )  # fmt: skip

    def disowned(self) -> frozenset[int]:
        """Positions whose entries a compromise revocation took back."""
        return frozenset(
            p
            for (key, _), positions in self.uses.items()
            if (life := self.lives.get(key) or self.taken_back.get(key)) is not None
            for p in positions
            if _is_disowned(life, p)
        )


def _is_disowned(life: KeyLife, position: int) -> bool:
    if life.taken_back < FOREVER:
        return life.enrolled < position < life.taken_back
    return life.disowned_from <= position < life.retired


def _weakness(public_key: bytes, position: int, where: str) -> Iterator[Finding]:
    """Says so when a key is not a canonical point of the prime-order subgroup."""
    try:
        check_public_key(public_key)
    except LedgerError as error:
        yield _finding(Code.KEY_WEAK, position, where, error.finding.message, found=error.finding.found)


def _finding(
    code: Code, position: int, where: str, message: str, *, expected: str | None = None, found: str | None = None
) -> Finding:
    return Finding(code, message, Position(index=position, field=where), expected, found)


def _first(
    code: Code, positions: array[int] | list[int], message: str, expected: str | None, found: str | None
) -> tuple[Finding, int]:
    return Finding(code, message, Position(index=positions[0], field="key"), expected, found), len(positions) - 1
