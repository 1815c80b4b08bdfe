"""What is wrong with what entries say, and which artifacts they name, until it is known which entries count.

A revocation takes entries back by their position and stands behind them. What such an entry says counts for nothing,
so nothing of it is held against the log, which has to carry its line for ever, and no artifact that it alone names is
asked for. How its line is framed, linked and signed is for other steps, and counts all the same.

Where entries are not here, one of them may be such a revocation: of what stands in front of it nothing is held against
the log either, and it is counted as not checked (:attr:`~k3_ledger.verify.scan.Scan.open_below`).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from k3_ledger.schemas.findings import Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.report import FindingLog
from k3_ledger.verify.work import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.schemas.findings import Code
    from k3_ledger.verify.receipts import Fault
    from k3_ledger.verify.scan import Scan

SELF_CHECKED = frozenset({"run", "failed", "import"})
"""Kinds whose bodies are looked at by themselves."""


class Naming(NamedTuple):
    """The first entry by one key that gives a digest this size."""

    position: int
    name: str
    size: int
    key: str


class Named:
    """The artifacts that entries name, by digest, in the order of the log.

    What a key signed is taken back from one position on, so of each key and size the first entry is enough: where
    that one does not count, none behind it does.
    """

    def __init__(self) -> None:
        self._first: dict[str, Naming] = {}
        self._others: dict[str, dict[tuple[str, int], Naming]] = {}

    def __len__(self) -> int:
        return len(self._first)

    def note(self, digest: str, naming: Naming) -> None:
        """Take an entry's word for what an artifact is."""
        first = self._first.setdefault(digest, naming)
        if (first.key, first.size) != (naming.key, naming.size):
            self._others.setdefault(digest, {}).setdefault((naming.key, naming.size), naming)

    def standing(self, disowned: frozenset[int]) -> Iterable[tuple[str, list[Naming]]]:
        """(digest, by whom it is named) of every artifact that an entry names which counts: the first of each size."""
        for digest, first in self._first.items():
            by_size: dict[int, Naming] = {}
            for naming in (first, *self._others.get(digest, {}).values()):
                if naming.position not in disowned:
                    by_size.setdefault(naming.size, naming)
            if by_size:
                yield digest, list(by_size.values())


@dataclass(slots=True)
class _Signed:
    """What is wrong with what one key signed.

    Attributes:
        entries: positions of those entries.
        positions: position of each fault, by its code.
        findings: as many of them as are spelled out.
    """

    findings: FindingLog
    entries: array[int] = field(default_factory=lambda: array("Q"))
    positions: dict[Code, array[int]] = field(default_factory=dict)


class Bodies:
    """Entries whose bodies are wrong by themselves, in the order of the log.

    Args:
        vouched: entries in front of this position are vouched for.
    """

    def __init__(self, *, vouched: int = 0) -> None:
        self._vouched = vouched
        self._signed: dict[str, _Signed] = {}

    def note(self, key: str, position: int, faults: Iterable[Fault]) -> None:
        """What is wrong with the body of one entry, at least one thing."""
        signed = self._signed.get(key)
        if signed is None:
            signed = self._signed[intern(key)] = _Signed(FindingLog(vouched=self._vouched))
        signed.entries.append(position)
        for code, where, message, expected, found in faults:
            place = Position(LOG_NAME, position + 1, index=position, field=where)
            signed.findings.add(Finding(code, message, place, expected, found))
            signed.positions.setdefault(code, array("Q")).append(position)

    def entries(self) -> set[int]:
        """Entries of which something was noted."""
        return {position for signed in self._signed.values() for position in signed.entries}

    def leave_open(self) -> None:
        """What was noted until now may have been taken back by an entry that is not here: it is counted alone."""
        for signed in self._signed.values():
            signed.findings.clear()

    def settle(self, scan: Scan) -> None:
        """Hold against the log what counts of it, now that the life of every key is known."""
        disowned, certain = scan.keyring.disowned(), scan.open_below
        tally = scan.tallies["receipts"]
        notes: list[str] = []
        if disowned:
            uses = scan.keyring.uses.items()
            kinds = (positions for (_, kind), positions in uses if kind in SELF_CHECKED)
            listed = [position for positions in kinds for position in positions]
            tally.checked -= len(listed) - len(scan.standing("receipts", listed))
        found: list[Finding] = []
        waiting = 0
        more: dict[tuple[Code, bool], int] = {}
        for signed in self._signed.values():
            standing = [position for position in signed.entries if position not in disowned]
            held = sum(position >= certain for position in standing)
            tally.failed += held
            waiting += len(standing) - held
            found += [each for each in signed.findings.kept() if each.position.index not in disowned]
            for code, positions in signed.positions.items():
                for position in positions:
                    if position >= certain and position not in disowned:
                        sort = code, position < self._vouched
                        more[sort] = more.get(sort, 0) + 1
        if waiting:
            tally.checked -= waiting
            tally.not_checked += waiting
            notes.append(f"{waiting} wrong, unless a root action that is not here took them back")
        tally.detail = "; ".join(notes) or tally.detail
        found.sort(key=lambda each: each.position.index or 0)
        last = {(each.code, (each.position.index or 0) < self._vouched): each for each in found}
        for each in found:
            more[each.code, (each.position.index or 0) < self._vouched] -= 1
        for each in found:
            sort = each.code, (each.position.index or 0) < self._vouched
            scan.findings.add_counted(each, more[sort] if each is last[sort] else 0)
