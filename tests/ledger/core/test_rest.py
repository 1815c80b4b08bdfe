"""Revocations that take each other back: the newest counts only if it stands where everything has come to rest."""

from __future__ import annotations

import hashlib

import pytest

from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.findings import Code
from tests.ledgers import ROOT, Key, genesis_body, key_body

A, B, C, D, E = (Key(name) for name in "ABCDE")


class Log:
    """A keyring that is told a log of key entries."""

    def __init__(self) -> None:
        self.ring, self.prev, self.index = Keyring(), "0" * 64, 0
        identity, body = self._entry("genesis", genesis_body(), ROOT)
        self.ring.apply_genesis(0, identity, body)

    def _entry(self, kind: str, body: dict, signer: Key) -> tuple[str, object]:
        data, typed = encode(kind, body, index=self.index, key=signer.id, prev=self.prev, time="2026-01-01T00:00:00Z")
        self.prev, self.index = hashlib.sha256(data).hexdigest(), self.index + 1
        return self.prev, typed.body

    def act(self, signer: Key, body: dict) -> list[Code]:
        at = self.index
        identity, typed = self._entry("key", body, signer)
        return [finding.code for finding in self.ring.apply_action(at, identity, "key", signer.id, typed)]

    def enrol(self, signer: Key, key: Key) -> list[Code]:
        return self.act(signer, key_body(key, "root"))

    def revoke(self, signer: Key, key: Key, start: int) -> list[Code]:
        return self.act(signer, key_body(key, "root", "revoke", revoked_from=start))


def test_a_revocation_that_falls_where_all_comes_to_rest_without_it_does_not_count() -> None:
    """Without the tenth entry two revocations oppose each other, and the first one stands. The tenth takes that one's
    signer back; then the other one stands, and takes back the entry that enrolled who signed the tenth.
    """
    log = Log()
    for key in (A, B, C, D):  # 1 to 4
        assert log.enrol(ROOT, key) == []
    assert log.enrol(B, E) == []  # 5
    assert log.revoke(B, A, 5) == []  # 6
    assert log.revoke(C, B, 6) == []  # 7: takes back 6, so A counts again
    assert log.revoke(A, B, 5) == []  # 8: takes back 5 and 6
    assert E.id not in log.ring.lives
    assert log.revoke(D, C, 7) == []  # 9: takes back 7, so 6 stands, and 8 does not
    before = {key: (life.enrolled, life.last) for key, life in log.ring.lives.items()}
    assert before[E.id][1] > 10
    assert before[A.id][1] == 4
    assert log.revoke(E, B, 6) == [Code.REVOCATION_CIRCULAR]  # 10
    assert {key: (life.enrolled, life.last) for key, life in log.ring.lives.items()} == before


@pytest.mark.parametrize("signer", [D, ROOT])
def test_the_same_revocation_by_a_key_that_stands_all_along_counts(signer: Key) -> None:
    log = Log()
    for key in (A, B, C, D):
        log.enrol(ROOT, key)
    log.enrol(B, E)
    log.revoke(B, A, 5)
    log.revoke(C, B, 6)
    log.revoke(A, B, 5)
    log.revoke(D, C, 7)
    assert log.revoke(signer, B, 6) == []
    assert A.id in {key for key, life in log.ring.lives.items() if life.valid_at(11)}
    assert E.id in log.ring.taken_back
