"""Which keys of a log a signature line of a head may be by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.ledger.core.note import key_hash

if TYPE_CHECKING:
    from k3_ledger.ledger.core.keyring import Keyring


class Signers:
    """Every key that a log ever enrolled, by its key hash under one origin; two keys can have one key hash.

    Attributes:
        keys: key ids, by key hash.
    """

    def __init__(self, origin: str, keyring: Keyring) -> None:
        """Hash each key once."""
        self._of = _state(origin, keyring)
        self.keys: dict[int, list[str]] = {}
        for key, life in (keyring.taken_back | keyring.lives).items():
            self.keys.setdefault(key_hash(origin, life.public_key), []).append(key)

    def is_of(self, origin: str, keyring: Keyring) -> bool:
        """Whether these are the keys that a keyring knows now."""
        return self._of == _state(origin, keyring)


def _state(origin: str, keyring: Keyring) -> tuple[str, int, int, int]:
    return origin, id(keyring), len(keyring.lives), len(keyring.taken_back)
