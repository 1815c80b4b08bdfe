"""Entries put together, checked and signed, but not written. Nothing here touches a disk.

Each entry is held to what the verifier will ask of it: its key is enrolled, alive and allowed to sign the kind, a
``key`` entry can count, the bytes are canonical and fit the model. A ledger keeps what it is given for ever, so what
the verifier would refuse is refused here.
"""

from __future__ import annotations

import copy
import hashlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from k3_ledger.ledger.core.chain import SIGN_PREFIX
from k3_ledger.ledger.core.framing import HEAD, TAIL_LEN, format_line
from k3_ledger.ledger.writer.state import Head, LogState
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.envelope import REFERENCES, ROOT_ACTIONS, SIGNING_ROLES, may_name
from k3_ledger.schemas.errors import LedgerError, SchemaError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from k3_ledger.ledger.core.keylife import KeyLife
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.schemas.findings import Finding

    EntryCheck = Callable[[Any], Iterable[Finding]]
    """Semantics that another room knows: findings about a typed entry that is about to be appended."""


MOST_THREADS = 4
"""Threads that sign one batch, at most."""
ENTRIES_PER_THREAD = 128
"""Fewer entries than this are signed sooner than a thread is started."""


class Draft(NamedTuple):
    """An entry-to-be.

    Attributes:
        kind: kind of entry.
        body: its body as plain values (see :mod:`k3_ledger.schemas.bodies`), every field written out.
        time: claimed UTC time ``YYYY-MM-DDTHH:MM:SSZ``; None takes the clock's.
        last_root: whether it may be the last root action ever, because too few root keys are left behind it.
    """

    kind: str
    body: Mapping[str, object]
    time: str | None = None
    last_root: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a caller gets for an entry that is on stable storage.

    Attributes:
        index: position in the log, counted from 0.
        identity: lower-case hexadecimal SHA-256 of the entry bytes.
        byte_offset: where the line begins in ``ledger.jsonl``.
    """

    index: int
    identity: str
    byte_offset: int


def utc_now() -> str:
    """The system's clock as entries claim it."""
    return format_time(int(time.time()))


class Batch:
    """Entries that continue a log, in order.

    Args:
        state: the log that they continue.
        signer: signs them all.
        clock: gives the claimed time of drafts that bring none; asked once a batch.
        check: further semantics to hold an entry to.
    """

    def __init__(
        self, state: LogState, signer: Signer, clock: Callable[[], str] = utc_now, check: EntryCheck | None = None
    ) -> None:
        self._origin = state.origin
        self._signer = signer
        self._clock = clock
        self._check = check
        self._now: str | None = None
        self._keyring = state.keyring
        self._allowed: set[str] = set()
        self._index = state.entries
        self._offset = state.size
        self._prev = state.head.identity
        self._entries: list[bytes] = []
        self._identities: dict[str, str] = {}
        self.receipts: list[Receipt] = []
        """What callers get once the entries are on stable storage."""
        self.wanted: dict[str, list[tuple[str, str, Position]]] = {}
        """Identities that entries name and that are not among them, each with the (kind, body field, place) of those
        that do."""

    def add(self, draft: Draft) -> None:
        """Put one more entry together.

        Raises:
            MalformedError, SchemaError: the body is not as its kind demands, or the entry is too long for a line.
            LedgerError: the key may not sign this here, or the entry could not count.
        """
        kind = draft.kind
        if kind not in self._allowed:
            self._check_allowed(kind)
            self._allowed.add(kind)
        claimed = self._time() if draft.time is None else draft.time
        entry, typed = encode(
            kind, draft.body, index=self._index, key=self._signer.key_id, prev=self._prev, time=claimed
        )
        if self._check is not None:
            for finding in self._check(typed):
                raise refusal(finding)
        identity = hashlib.sha256(entry).hexdigest()
        if kind in ROOT_ACTIONS:
            self._take_action(typed, identity, last_root=draft.last_root)
        elif kind in REFERENCES:
            self._take_references(typed)
        self._entries.append(entry)
        self.receipts.append(Receipt(self._index, identity, self._offset))
        self._identities[identity] = draft.kind
        self._prev = identity
        self._index += 1
        self._offset += len(HEAD) + len(entry) + TAIL_LEN + 1

    def sign(self) -> tuple[bytes, LogState]:
        """Sign every entry. Returns their lines, and the log with these lines behind it.

        libsodium works outside the interpreter's lock, so a large batch is signed by several threads.
        """
        threads = len(self._entries) // ENTRIES_PER_THREAD
        if threads > 1:
            threads = min(threads, MOST_THREADS, os.cpu_count() or 1)
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a single append needs none

            share = -(-len(self._entries) // threads)
            shares = [self._entries[start : start + share] for start in range(0, len(self._entries), share)]
            with ThreadPoolExecutor(threads) as pool:
                lines = [line for signed in pool.map(self._lines, shares) for line in signed]
        else:
            lines = self._lines(self._entries)
        receipt = self.receipts[-1]
        head = Head(receipt.index, receipt.identity, receipt.byte_offset, hashlib.sha256(lines[-1]).digest())
        lines.append(b"")
        return b"\n".join(lines), LogState(self._origin, self._offset, head, self._keyring)

    def _lines(self, entries: list[bytes]) -> list[bytes]:
        sign = self._signer.sign
        return [format_line(entry, sign(SIGN_PREFIX + entry)) for entry in entries]

    def _time(self) -> str:
        if self._now is None:
            self._now = self._clock()
        return self._now

    def _check_allowed(self, kind: str) -> None:
        """Refuse what verify would report about the signing key, before it is signed."""
        roles = SIGNING_ROLES.get(kind)
        if roles is None or kind == "genesis":
            raise SchemaError(
                Code.SCHEMA_UNKNOWN_KIND if roles is None else Code.CHAIN_SECOND_GENESIS,
                f"no entry of kind {kind!r} can be appended",
                expected="one of " + ", ".join(k for k in SIGNING_ROLES if k != "genesis"),
                found=kind,
            )
        check_key(self._keyring.lives.get(self._signer.key_id), self._signer.key_id, kind, self._index)

    def _take_action(self, entry: Any, identity: str, *, last_root: bool) -> None:
        keyring = copy.deepcopy(self._keyring)
        for finding in keyring.apply_action(entry.index, identity, entry.kind, entry.key, entry.body):
            if not (last_root and finding.code is Code.ROOTS_TOO_FEW):
                raise refusal(finding)
        self._keyring = keyring
        self._allowed.clear()

    def _take_references(self, entry: Any) -> None:
        """Note which earlier entries an entry names, unless they are in this very batch."""
        for field in REFERENCES[entry.kind]:
            value = getattr(entry.body, field)
            for target in (value,) if isinstance(value, str) else value or ():
                place = Position(index=entry.index, field=f"body.{field}")
                if target not in self._identities:
                    self.wanted.setdefault(target, []).append((entry.kind, field, place))
                else:
                    check_named(entry.kind, field, self._identities[target], place)


def check_named(kind: str, field: str, target: str, place: Position) -> None:
    """Refuse an entry that names one that it cannot be about: verify would, for ever.

    Raises:
        LedgerError: with ``REFERENCE_KIND``.
    """
    if not may_name(kind, field, target):
        raise LedgerError(
            Code.REFERENCE_KIND, f"a {kind} names an entry that it cannot be about", position=place, found=target
        )


def check_key(life: KeyLife | None, key_id: str, kind: str, index: int) -> None:
    """Refuse a key that may not sign an entry of ``kind`` at ``index``.

    Raises:
        LedgerError: with ``KEY_UNKNOWN``, ``KEY_RETIRED`` or ``KEY_WRONG_ROLE``.
    """
    if life is not None and life.valid_at(index) and life.role in SIGNING_ROLES[kind]:
        return
    place = Position(index=index, field="key")
    if life is None:
        raise LedgerError(
            Code.KEY_UNKNOWN,
            f"the signing key {key_id[:16]}… is not enrolled in this ledger",
            position=place,
            hint="enrol it with the root key: `k3-ledger key enrol ROLE FILE -k ROOT.pem`",
        )
    if not life.valid_at(index):
        raise LedgerError(
            Code.KEY_RETIRED,
            f"the signing key {key_id[:16]}… was {'revoked' if life.replaced_by is None else 'rotated'} by entry "
            f"{life.retired}",
            position=place,
            hint=f"sign with another {life.role} key: `k3-ledger key ls` lists them, "
            f"`k3-ledger key enrol {life.role} FILE` enrols one"
            if life.replaced_by is None
            else f"sign with the key that took its place: {life.replaced_by[:16]}…",
        )
    roles = " or ".join(sorted(SIGNING_ROLES[kind]))
    raise LedgerError(
        Code.KEY_WRONG_ROLE,
        f"a {life.role} key does not sign entries of kind {kind}",
        position=place,
        expected=roles,
        found=life.role,
        hint=f"sign with a {roles} key",
    )


def refusal(finding: Finding) -> LedgerError:
    """The finding as an error, for callers that stop at the first."""
    return LedgerError(
        finding.code,
        finding.message,
        position=finding.position,
        expected=finding.expected,
        found=finding.found,
        hint=finding.hint,
    )
