"""Step 8: what witnesses vouch for, and by when the entries of a log existed.

Only the reader's policy makes a witness of a key; the ledger names none. The newest head has to carry cosignatures by
as many operators as the policy's quorum asks for. Cosignatures on older kept heads are checked as well: a head with a
quorum bounds when every entry below its size existed, *at or before* the quorum's last time, according to those
witnesses. What an entry says of its own ``time`` is never part of that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.cosignature import Cosigned, quorum_of, read_cosignatures
from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.ledger.core.note import key_hash, parse_note
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from k3_ledger.ledger.core.cosignature import Witness
    from k3_ledger.ledger.core.keylife import KeyLife
    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.scan import Scan


@dataclass(frozen=True, slots=True)
class TimeBound:
    """By when entries existed, according to witnesses.

    Attributes:
        size: every entry with an index below this one is meant.
        timestamp: latest time at which they can have come into being, in seconds since the Epoch.
        witnesses: names of those who vouch for it, as many as the policy's quorum.
    """

    size: int
    timestamp: int
    witnesses: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One line for a reader."""
        return f"entries below {self.size} by {format_time(self.timestamp)}, according to {', '.join(self.witnesses)}"

    def as_dict(self) -> dict[str, object]:
        """JSON form."""
        return {
            "entries_below": self.size,
            "at_or_before": format_time(self.timestamp),
            "according_to": list(self.witnesses),
        }


def check_witnesses(
    scan: Scan, heads: Sequence[SignedHead], good: Iterable[SignedHead], policy: TrustPolicy | None
) -> None:
    """Check the cosignatures on every good head, and the policy's quorum on the newest one.

    Args:
        scan: takes counts, findings and time bounds.
        heads: the log's own heads; one that was refused vouches for nothing, whoever cosigned it.
        good: those of them that held: signed by the log, and with the root of these entries.
        policy: names the witnesses; without it nobody is believed and lines are only counted.
    """
    if policy is None or not policy.quorum:
        _count(scan, heads)
        return
    witnesses = _independent(scan, policy.witnesses)
    newest = next((head.checkpoint.size for head in heads if head.newest), None)
    by_size: dict[int, dict[Witness, Cosigned]] = {}
    for head in {head.raw: head for head in reversed(list(good))}.values():  # a kept copy says nothing new
        held = by_size.setdefault(head.checkpoint.size, {})
        cosigned = _check_head(scan, head, witnesses)
        if head.checkpoint.size == newest:
            scan.newest_cosigned += cosigned
        for given in cosigned:
            best = held.get(given.witness)
            held[given.witness] = given if best is None or given.timestamp < best.timestamp else best
    reached = {
        size: first
        for size, held in by_size.items()
        if len(first := quorum_of(held.values(), policy.quorum)) == policy.quorum
    }
    scan.bounds = _bounds(reached)
    _check_quorum(scan, heads, by_size, reached, policy)


def _count(scan: Scan, heads: Iterable[SignedHead]) -> None:
    """Without witnesses to believe: how many signatures on the newest head nobody looked at."""
    tally = scan.tallies["witnesses"]
    newest = next((head for head in heads if head.newest), None)
    others = 0 if newest is None else max(0, len(parse_note(newest.raw).sigs) - 1)
    tally.not_checked += others
    tally.detail = (
        f"{others} further signatures on the newest head; the trust policy names no witnesses to check them with"
        if others
        else "no witnesses: a split view would not be noticed"
    )


def _independent(scan: Scan, witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    """The witnesses that have, and had, no other part in the log.

    A part that ended, or was taken back, is one: whoever held the key then holds it still, and signed as the log.
    """
    kept = []
    for witness in witnesses:
        key = sha256(witness.verifier.public_key).hexdigest()
        lives = (scan.keyring.lives.get(key), scan.keyring.taken_back.get(key))
        life = next((one for one in lives if one is not None and one.role != "witness"), None)
        if life is None:
            kept.append(witness)
            continue
        by = f"entry {life.enrolled} enrolled" if life.enrolled >= 0 else "the genesis entry names"
        scan.findings.add(
            Finding(
                Code.WITNESS_NOT_INDEPENDENT,
                f"the key of {witness.name} is the {life.role} key that {by}{_ended(life)}",
                Position(index=max(life.enrolled, 0)),
            )
        )
    return tuple(kept)


def _ended(life: KeyLife) -> str:
    if life.taken_back < FOREVER:
        return f", which entry {life.taken_back} took back"
    how = "revoked" if life.replaced_by is None else "rotated out"
    return f" and entry {life.retired} {how}" if life.retired < FOREVER else ""


def _check_head(scan: Scan, head: SignedHead, witnesses: Iterable[Witness]) -> tuple[Cosigned, ...]:
    tally = scan.tallies["witnesses"]
    place = Position(source=head.name)
    found = read_cosignatures(parse_note(head.raw), witnesses, position=place)
    for error in found.bad:
        code = Code.COSIGNATURE_TIMELESS if error.code is Code.COSIGNATURE_TIMELESS else Code.COSIGNATURE_BAD
        tally.failed += code is Code.COSIGNATURE_BAD
        scan.findings.add(replace(error.finding, code=code))
    tally.checked += len(found.good) + len(found.bad) + found.repeated
    operators = {given.witness.operator for given in found.good}
    again = len(found.good) - len(operators)
    if again:
        scan.findings.add(
            Finding(
                Code.COSIGNATURE_REPEATED,
                f"{again} of the cosignatures are by an operator that has cosigned the head already",
                place,
            )
        )
    return found.good


def _bounds(reached: dict[int, tuple[Cosigned, ...]]) -> tuple[TimeBound, ...]:
    """The fewest bounds that say all there is to say, largest size first: a smaller head has to be an earlier one."""
    bounds: list[TimeBound] = []
    for size, first in sorted(reached.items(), reverse=True):
        if size and (not bounds or first[-1].timestamp < bounds[-1].timestamp):
            bounds.append(TimeBound(size, first[-1].timestamp, tuple(given.witness.name for given in first)))
    return tuple(bounds)


def _report_unwitnessed(scan: Scan, covered: int, witnessed: int) -> None:
    """Count entries that only heads without a quorum commit to, where there is a quorum for others.

    The log's operator chooses which head is called the newest: one that was witnessed must not speak for another.
    """
    if witnessed == covered:
        return
    scan.tallies["witnesses"].not_checked += covered - witnessed
    scan.findings.add(
        Finding(
            Code.UNWITNESSED,
            f"{covered - witnessed} unwitnessed: no head with a quorum commits to the entries from {witnessed} on",
            Position(index=witnessed),
            f"a quorum on a head of {covered} entries",
            f"a quorum on a head of {witnessed} entries",
        )
    )


def _check_quorum(
    scan: Scan,
    heads: Sequence[SignedHead],
    by_size: dict[int, dict[Witness, Cosigned]],
    reached: dict[int, tuple[Cosigned, ...]],
    policy: TrustPolicy,
) -> None:
    quorum = policy.quorum
    tally = scan.tallies["witnesses"]
    newest = next((head for head in heads if head.newest), None)
    size = None if newest is None else newest.checkpoint.size
    held = () if size is None else by_size.get(size, {}).values()
    operators = {given.witness.operator for given in held}
    tally.detail = f"{len(operators)} of {quorum} that the trust policy asks for cosigned the newest head"
    if newest is not None:
        log_keys = {
            key_hash(scan.genesis.origin, life.public_key)
            for life in scan.keyring.lives.values()
            if life.role == "log" and scan.genesis is not None
        }
        known = {witness.verifier.key_hash for witness in policy.witnesses}
        strangers = sum(sig.key_hash not in log_keys | known for sig in parse_note(newest.raw).sigs)
        tally.detail += f"; {strangers} signatures by unknown keys count for nothing" if strangers else ""
    if size in reached:
        _report_unwitnessed(scan, max(by_size), max(reached))
        return
    refused = size is not None and size not in by_size
    if refused or scan.obstructed:  # as was said, whoever cosigned it
        tally.not_checked += 1
        return
    tally.checked += 1
    tally.failed += 1
    largest = max(reached, default=0)
    scan.findings.add(
        Finding(
            Code.WITNESS_QUORUM,
            "no newest head that could be read, and it is the one that witnesses have to cosign"
            if newest is None
            else f"too few witnesses cosigned the head of {size} entries",
            Position(source="checkpoint" if newest is None else newest.name),
            f"cosignatures by {quorum} operators of trusted witnesses",
            ", ".join(sorted(given.witness.name for given in held)) or "none",
            hint=f"the largest head with a quorum has {largest} entries" if largest else None,
        )
    )
