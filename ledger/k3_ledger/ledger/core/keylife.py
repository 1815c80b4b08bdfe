"""One key's life by log position: where its signatures count, and what a revocation took back of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

FOREVER = 2**63


class Disowned(NamedTuple):
    """Consecutive positions that one root action takes back: ``first`` to ``last``, both included, ``by`` its own."""

    first: int
    last: int
    by: int


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
        replaced_by: id of the key that a rotation put in its place.
        lost: positions at which its signatures once counted and no longer do, in order.
    """

    public_key: bytes
    role: str
    enrolled: int
    retired: int = FOREVER
    disowned_from: int = FOREVER
    taken_back: int = FOREVER
    replaced_by: str | None = None
    lost: tuple[Disowned, ...] = ()

    @property
    def ended(self) -> Literal["rotated", "revoked", "disowned", "taken back"] | None:
        """How the key ended; None while it is valid. A key whose signatures were taken back is ``disowned``."""
        if self.taken_back < FOREVER:
            return "taken back"
        if self.disowned_from < FOREVER:
            return "disowned"
        if self.replaced_by is not None:
            return "rotated"
        return "revoked" if self.retired < FOREVER else None

    @property
    def last(self) -> int:
        """The last position at which its signature counts, as the log says now; below ``enrolled`` where none does."""
        return -1 if self.taken_back < FOREVER else min(self.retired, self.disowned_from - 1)

    def valid_at(self, position: int) -> bool:
        """Whether a signature at this position could count when it was made."""
        return self.enrolled < position <= self.retired

    def lost_by(self, position: int) -> int | None:
        """Position of the root action that took back what counted here; None where nothing did, or it counts."""
        return next((lost.by for lost in self.lost if lost.first <= position <= lost.last), None)

    def vouches_at(self, size: int) -> bool:
        """Whether a signed head over ``size`` entries counts that this key, a log key, signed."""
        return self.taken_back == FOREVER and self.enrolled < size <= min(self.retired, self.disowned_from)

    def lost_at(self, size: int) -> bool:
        """Whether such a head counted until a revocation took it back."""
        return not self.vouches_at(size) and self.lost_by(size) is not None

    def succeed(self, before: KeyLife | None, position: int) -> None:
        """Say what this life has lost, from the life ``before`` the root action at ``position``."""
        if before is None:
            return
        if self.taken_back < FOREVER:
            self.taken_back = min(before.taken_back, position)
        counted = Disowned(before.enrolled + 1, min(before.last, position), position)
        rest = (lost._replace(first=max(lost.first, self.last + 1)) for lost in (*before.lost, counted))
        self.lost = tuple(sorted(lost for lost in rest if lost.first <= lost.last))
