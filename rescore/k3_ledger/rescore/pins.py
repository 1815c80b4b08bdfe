"""Pins and merges as people write them: ``pins.toml`` and ``merges.toml``, typed.

A pin is a value written down for others to score against; it names the receipt it was measured in. A merge says that
a winner landed, which the measurements alone cannot tell. Both files are proposals: ``pin`` and ``merge`` entries of
the ledger win over them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.slots import TOKEN, Role, Track, parse_slot
from k3_ledger.rescore.standing import Moment
from k3_ledger.rescore.toml import Table, looks_misspelt, read_tables
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from fractions import Fraction

UNITS: Final[Mapping[str, str]] = {"decode": "tok/s", "prefill": "tok/s"}
"""Unit of the pins of each metric that a rule can score."""

_IDENTITY: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}")
_SHORTEST_COMMIT: Final = 7
_COMMIT: Final = re.compile(rf"[0-9a-f]{{{_SHORTEST_COMMIT},64}}")


@dataclass(frozen=True, slots=True)
class PinRecord:
    """One pin.

    Attributes:
        value: above zero, in ``unit``.
        source: identity of the entry, or the foreign receipt, that it was measured in; None when none is named.
        commit: what was measured, if named.
        time: when it was measured, if named.
        entry: True when it is a ``pin`` entry of the ledger rather than a line of a file.
        identity: identity of that entry.
        weights: digest of the weights that its source measured; None when nobody says.
    """

    role: Role
    track: Track
    value: Fraction
    unit: str
    source: str | None = None
    commit: str | None = None
    time: datetime | None = None
    position: Position = NOWHERE
    entry: bool = False
    identity: str | None = None
    weights: str | None = None

    @property
    def slot(self) -> str:
        """Name of the slot."""
        return self.track.slot(self.role)


@dataclass(frozen=True, slots=True)
class Merge:
    """A winner that landed.

    Attributes:
        track: what its number was measured on.
        time: when it landed.
        run: receipt of the winning run; None when it was never sealed.
        value: the winner's number: that of its receipt, or the claimed one.
        sealed: True when ``value`` stands in a receipt.
        position: where it is a file's line.
        index: position in the chain, where it is an entry.
    """

    track: Track
    time: datetime
    pull_request: int | None
    commit: str | None
    run: str | None
    value: Fraction | None
    sealed: bool
    position: Position = NOWHERE
    index: int | None = None

    @property
    def moment(self) -> Moment:
        """When it landed: by position where it is an entry, else by the time that is claimed."""
        return Moment(self.index, self.time)

    def is_same(self, other: Merge) -> bool:
        """Whether two records are of one merge: they share something that names it, and differ in nothing that does."""
        if self.track != other.track:
            return False
        commits = (self.commit, other.commit)
        known = [
            (self.pull_request, other.pull_request),
            (self.run, other.run),
            commits
            if None in commits
            else tuple(commit and commit[: min(map(len, filter(None, commits)))] for commit in commits),
        ]
        both = [one == two for one, two in known if one is not None and two is not None]
        return bool(both) and all(both)

    @property
    def label(self) -> str:
        """What to call it: the pull request, or the commit."""
        return f"#{self.pull_request}" if self.pull_request is not None else (self.commit or "a merge")[:8]


def read_pins(data: bytes, *, source: str) -> list[PinRecord]:
    """Read ``pins.toml``.

    Raises:
        RescoreError: with file, line and field: not TOML, a misspelt field, a slot that is none or stands twice, a
            value that is zero, negative, missing or carries a unit, a unit that is not its metric's.
    """
    pins: list[PinRecord] = []
    for table in read_tables(data, "pin", source=source):
        table.only({"slot", "value", "unit", "source", "commit", "time"})
        role, track = parse_slot(table.text("slot"), position=table.position("slot"))
        if near := looks_misspelt(track.metric, list(UNITS)):
            table.refuse("slot", f"{track.metric} is no metric; {near}")
        if any(pin.role == role and pin.track == track for pin in pins):
            table.refuse("slot", "this slot is pinned twice")
        value = check_pin(table.number("value"), slot=table.text("slot"), position=table.position("value"))
        unit = check_unit(table.text("unit"), track, position=table.position("unit"))
        pins.append(
            PinRecord(
                role,
                track,
                value,
                unit,
                _matching(table, "source", _IDENTITY, "identity of a receipt, in hex"),
                _matching(table, "commit", _COMMIT, "a commit, in hex"),
                table.moment("time") if table.has("time") else None,
                table.position(),
            )
        )
    return pins


def weigh_pins(pins: Iterable[PinRecord], weights: Mapping[str, str | None]) -> list[PinRecord]:
    """Pins with the weights of the receipts that they name as sources, by identity; unknown where those are unknown."""
    return [replace(pin, weights=weights.get(pin.source or "")) for pin in pins]


def read_merges(data: bytes, *, source: str, receipts: Mapping[str, Fraction]) -> list[Merge]:
    """Read ``merges.toml``, in the order the merges landed; ``receipts`` holds the value of each receipt by identity.

    A merge that names no receipt, or one that is not among ``receipts``, is unsealed: its number is what it claims.

    Raises:
        RescoreError: with file, line and field.
    """
    merges: list[Merge] = []
    unsealed: dict[tuple[str, object, Track], list[Merge]] = {}
    for table in read_tables(data, "merge", source=source):
        table.only({"track", "pull_request", "commit", "time", "run", "claimed"})
        _, track = parse_slot(f"frontier:{table.text('track')}", position=table.position("track"))
        run = _matching(table, "run", _IDENTITY, "identity of a receipt, in hex")
        claimed = table.number("claimed") if table.has("claimed") else None
        if run is None and claimed is None:
            table.refuse(None, "a merge needs the receipt of its run, or the number it claimed", "run or claimed")
        if claimed is not None and claimed <= 0:
            table.refuse("claimed", "a claimed number must be above zero", "a number above 0")
        sealed = run is not None and run in receipts
        merge = Merge(
            track,
            table.moment("time"),
            table.integer("pull_request", least=1) if table.has("pull_request") else None,
            _matching(table, "commit", _COMMIT, "a commit, in hex"),
            run,
            receipts[run] if run is not None and sealed else claimed,
            sealed,
            table.position(),
        )
        if claimed is not None and not sealed:
            _refuse_contradiction(table, merge, unsealed)
        merges.append(merge)
    return sorted(merges, key=lambda merge: merge.time)


def _refuse_contradiction(table: Table, merge: Merge, before: dict[tuple[str, object, Track], list[Merge]]) -> None:
    """Refuse a merge that an earlier table claims another number of; note it among those by what names it."""
    assert merge.value is not None
    for key in _keys(merge):
        for other in before.setdefault(key, []):
            if merge.is_same(other) and merge.value != other.value:
                assert other.value is not None
                message = f"{merge.label} was claimed at {format_exact(other.value)} before ({other.position})"
                table.refuse("claimed", message, "one number for one merge")
        before[key].append(merge)


def _keys(merge: Merge) -> list[tuple[str, object, Track]]:
    """What names a merge, so that records of one are found."""
    commit = merge.commit and merge.commit[:_SHORTEST_COMMIT]
    named = (("pull_request", merge.pull_request), ("run", merge.run), ("commit", commit))
    return [(name, value, merge.track) for name, value in named if value is not None]


def distinct_merges(merges: Iterable[Merge]) -> list[Merge]:
    """Each merge once, in the order given; of two records of one, the entry counts, else the first."""
    found: list[Merge] = []
    places: dict[tuple[str, object, Track], list[int]] = {}
    for merge in merges:
        keys = _keys(merge)
        like = sorted({place for key in keys for place in places.get(key, ())})
        same = next((place for place in like if merge.is_same(found[place])), None)
        if same is None:
            found.append(merge)
        elif found[same].index is None and merge.index is not None:
            found[same] = merge
        for key in keys:
            places.setdefault(key, []).append(len(found) - 1 if same is None else same)
    return found


def list_lowered(pins: Iterable[PinRecord]) -> Iterator[tuple[PinRecord, PinRecord]]:
    """(pin, a higher one in front of it) for every pin entry that is lower than one before it on its slot."""
    highest: dict[str, PinRecord] = {}
    for pin in pins:
        if pin.entry:
            before = highest.setdefault(pin.slot, pin)
            if pin.value < before.value:
                yield pin, before
            else:
                highest[pin.slot] = pin


def lowered_finding(pin: PinRecord, higher: PinRecord) -> Finding:
    """What is to be said of a pin entry that is lower than one before it."""
    before, now = format_exact(higher.value), format_exact(pin.value)
    message = f"{pin.slot}: pinned {now}, after {before}"
    return Finding(Code.PIN_LOWERED, message, pin.position, f"at least {before}", now)


def stamp_finding(pin: PinRecord, *, commit: str | None, time: datetime | None) -> Finding | None:
    """What is to be said of a pin whose commit or time is not that of the receipt it names; None where they agree.

    A receipt that names no commit contradicts none, and an entry's own time says when it was pinned. Times are compared
    in whole seconds, as :func:`~k3_ledger.rescore.rewriting.rewrite_pins` writes them.

    Args:
        pin: the pin.
        commit: what its source measured; None when that does not say.
        time: when its source measured it.
    """
    if pin.commit and commit and not commit.startswith(pin.commit):
        message = f"{pin.slot}: pinned as commit {pin.commit[:12]}, its receipt measured {commit[:12]}"
        return Finding(Code.PIN_STAMP, message, pin.position, commit, pin.commit)
    if not pin.entry and pin.time and time:
        there, here = (format_time(int(moment.timestamp())) for moment in (time, pin.time))
        if there != here:
            message = f"{pin.slot}: pinned as of {here}, its receipt is of {there}"
            return Finding(Code.PIN_STAMP, message, pin.position, there, here)
    return None


def check_pin(value: Fraction, *, slot: str, position: Position = NOWHERE) -> Fraction:
    """The value, if it can be pinned.

    Raises:
        RescoreError: ``K3L-PIN-INVALID`` when it is zero or negative.
    """
    if value > 0:
        return value
    what = "zero" if value == 0 else "negative"
    raise RescoreError(
        Code.PIN_INVALID,
        f"the pin of {slot} is {what}",
        position=position,
        expected="a value above 0",
        found=format_exact(value),
    )


def check_winner(claimed: Fraction, *, slot: str, position: Position = NOWHERE) -> Fraction:
    """The number that a merged winner claims, if it can be one.

    Raises:
        RescoreError: ``K3L-PIN-INVALID`` when it is zero or negative.
    """
    if claimed > 0:
        return claimed
    message = f"a winner on {slot} claims {format_exact(claimed)}"
    raise RescoreError(
        Code.PIN_INVALID, message, position=position, expected="a value above 0", found=format_exact(claimed)
    )


def check_unit(unit: str, track: Track, *, position: Position = NOWHERE) -> str:
    """The unit, if it is that of the track's metric. Metrics that no rule scores have whatever unit they are given.

    Raises:
        RescoreError: ``K3L-PIN-INVALID`` when it is another.
    """
    metric = re.split("[^a-z]", track.metric, maxsplit=1)[0]
    expected = f"{track.unit}/s" if track.unit != TOKEN else UNITS.get(metric, unit)
    if unit == expected:
        return unit
    message = f"{track.metric} is pinned in {expected}, not in {unit[:40]!r}"
    raise RescoreError(Code.PIN_INVALID, message, position=position, expected=expected, found=unit[:80])


def _matching(table: Table, key: str, pattern: re.Pattern[str], expected: str) -> str | None:
    if not table.has(key):
        return None
    value = table.text(key)
    if not pattern.fullmatch(value):
        table.refuse(key, f"{key} is not {expected}", expected)
    return value
