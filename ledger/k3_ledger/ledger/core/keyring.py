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
    """

    public_key: bytes
    role: str
    enrolled: int
    retired: int = FOREVER
    disowned_from: int = FOREVER

    def valid_at(self, position: int) -> bool:
        """Whether a signature at this position counts."""
        return self.enrolled < position <= self.retired


@dataclass(slots=True)
class Keyring:
    """Keys met in a log and the positions at which they were used.

    ``apply_genesis`` and ``apply_key`` are called for entries whose signature verified, in log order; ``used`` for
    every entry whose signature verified; ``check_use`` once, at the end.
    """

    lives: dict[str, KeyLife] = field(default_factory=dict)
    uses: dict[tuple[str, str], array[int]] = field(default_factory=dict)

    def apply_genesis(self, position: int, body: Any) -> Iterator[Finding]:
        """Pin the root key that genesis names. Genesis itself is signed by it."""
        raw = bytes.fromhex(body.root_public_key)
        yield from _weakness(raw, position, "body.root_public_key")
        self.lives[sha256(raw).hexdigest()] = KeyLife(raw, "root", enrolled=position - 1)

    def apply_key(self, position: int, signer: str, body: Any) -> Iterator[Finding]:
        """Take one ``key`` entry into account, unless it cannot count; then say why."""
        life = self.lives.get(signer)
        if life is None or life.role != "root" or not life.valid_at(position):
            return  # reported by check_use: this key could not sign a `key` entry here
        raw = bytes.fromhex(body.public_key)
        if sha256(raw).hexdigest() != body.key_id:
            yield _finding(
                Code.KEY_ID_MISMATCH, position, "body.key_id", "key_id is not the SHA-256 of public_key",
                expected=sha256(raw).hexdigest(), found=body.key_id,
            )  # fmt: skip
            return
        if body.action == "revoke":
            yield from self._revoke(position, body)
            return
        weakness = list(_weakness(raw, position, "body.public_key"))
        if weakness:
            yield from weakness
            return
        if body.key_id in self.lives:
            yield _finding(
                Code.KEY_ENROLLED_TWICE, position, "body.key_id", f"key {body.key_id[:16]}… was enrolled before"
            )
            return
        if body.action == "rotate":
            old = self.lives.get(body.replaces or "")
            if old is None or not old.valid_at(position) or old.role != body.role:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.replaces",
                    "a rotation names a valid key of the same role", found=str(body.replaces),
                )  # fmt: skip
                return
            old.retired = position
        self.lives[body.key_id] = KeyLife(raw, body.role, enrolled=position)

    def _revoke(self, position: int, body: Any) -> Iterator[Finding]:
        life = self.lives.get(body.key_id)
        if life is None:
            yield _finding(
                Code.KEY_UNKNOWN_TARGET, position, "body.key_id", "a revocation names an enrolled key",
                found=body.key_id,
            )  # fmt: skip
            return
        life.retired = min(life.retired, position)
        if body.revoked_from is not None:
            if body.revoked_from > position:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.revoked_from",
                    "a revocation takes effect at its own position or before", expected=f"at most {position}",
                    found=str(body.revoked_from),
                )  # fmt: skip
                return
            life.disowned_from = min(life.disowned_from, body.revoked_from)

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
            life = self.lives.get(key)
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
            late = [p for p in positions if p > life.retired] if positions[-1] > life.retired else []
            if late:
                yield _first(
                    Code.KEY_RETIRED, late, f"key {key[:16]}… signed after it was retired",
                    f"before entry {life.retired}", None,
                )  # fmt: skip
            disowned = [p for p in positions if life.disowned_from <= p < life.retired]
            if disowned:
                yield _first(
                    Code.KEY_DISOWNED, disowned,
                    f"entry {life.retired} revokes key {key[:16]}… from entry {life.disowned_from} on", None, None,
                )  # fmt: skip

    def disowned(self) -> frozenset[int]:
        """Positions that a compromise revocation took back."""
        return frozenset(
            p
            for (key, _), positions in self.uses.items()
            if (life := self.lives.get(key)) is not None and life.disowned_from < FOREVER
            for p in positions
            if life.disowned_from <= p < life.retired
        )


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
