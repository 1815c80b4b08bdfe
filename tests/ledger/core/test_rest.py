"""Revocations that take each other back: the newest counts only if it stands where everything has come to rest."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core import rootactions
from k3_ledger.ledger.core.keylife import KeyLife
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.findings import Code
from tests.ledgers import ROOT, Key, genesis_body, key_body

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C, D, E = (Key(name) for name in "ABCDE")


class Log:
    """A keyring that is told a log of key entries."""

    def __init__(self) -> None:
        self.ring, self.prev, self.index = Keyring(), "0" * 64, 0
        identity, body = self._entry("genesis", genesis_body(), ROOT)
        self.ring.apply_genesis(0, identity, body)

    def _entry(self, kind: str, body: dict[str, Any], signer: Key) -> tuple[str, object]:
        data, typed = encode(kind, body, index=self.index, key=signer.id, prev=self.prev, time="2026-01-01T00:00:00Z")
        self.prev, self.index = hashlib.sha256(data).hexdigest(), self.index + 1
        return self.prev, typed.body

    def act(self, signer: Key, body: dict[str, Any]) -> list[Code]:
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


def steps_of(monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]) -> Counter[str]:
    """How often the keys were gone through action by action, and how many lives were looked at, while it ran."""
    counted: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            counted[name] += 1
            return plain(*args, **named)

        monkeypatch.setattr(owner, name, call)

    counting(rootactions, "_apply")
    counting(KeyLife, "succeed")
    run()
    return counted


def test_keys_come_and_go_at_the_same_cost_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enrolments, rotations, plain revocations, and those of runners from an earlier position."""
    log, many = Log(), 400

    def run() -> None:
        for at in range(many):
            runner = Key(f"runner-{at}")
            assert log.act(ROOT, key_body(runner, "runner")) == []
            assert log.act(ROOT, key_body(Key(f"new-{at}"), "runner", "rotate", replaces=runner.id)) == []
            assert log.act(ROOT, key_body(Key(f"new-{at}"), "runner", "revoke", revoked_from=1)) == []
            assert log.enrol(ROOT, Key(f"root-{at}")) == []
            assert log.act(ROOT, key_body(Key(f"root-{at}"), "root", "revoke")) == []

    counted = steps_of(monkeypatch, run)
    assert counted["_apply"] == 0
    assert counted["succeed"] == 6 * many  # one life an action, two where one key replaces another
    assert log.ring.lives[Key("new-7").id].last < log.ring.lives[Key("new-7").id].enrolled
    assert log.ring.lives[Key("runner-7").id].ended == "rotated"


def test_a_cascade_of_revocations_is_gone_into_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each root key revokes the next one from in front of them all, the last one first: each undoes the one before."""
    log, keys = Log(), [Key(f"root-{at}") for at in range(200)]
    for key in keys:
        log.enrol(ROOT, key)
    for at in range(300):  # what none of it rests on
        log.enrol(ROOT, Key(f"idle-{at}"))
    base, found = log.index - 1, []

    def run() -> None:
        for signer, key in zip(keys[-2::-1], keys[::-1], strict=False):
            found.append(log.revoke(signer, key, base))

    counted = steps_of(monkeypatch, run)
    most = 32  # of docs/format.md
    assert found == [[]] * most + [[Code.REVOCATIONS_TOO_MANY]] * (199 - most)
    # Of the n-th, n + 2 rounds over twice n actions, and one over all.
    assert counted["_apply"] <= sum((n + 2) * 2 * (n + 1) + 500 + n for n in range(1, most + 1))
    standing = [at for at in range(199) if log.ring.lives[keys[at].id].last >= base]
    assert standing == [*range(200 - most), *range(201 - most, 199, 2)]


def test_a_revocation_that_was_refused_is_one_of_those_gone_into() -> None:
    log = Log()
    assert log.enrol(ROOT, A) == []
    assert log.enrol(A, B) == []
    for _ in range(rootactions.MAX_REACHING_BACK):
        assert log.revoke(B, A, 1) == [Code.REVOCATION_CIRCULAR]
    assert log.revoke(ROOT, A, 2) == [Code.REVOCATIONS_TOO_MANY]
    assert log.act(ROOT, key_body(A, "root", "revoke")) == []
