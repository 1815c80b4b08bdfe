"""Hold every pin against the newest measurement of its slot, and say which drift somebody can explain.

1. No measurement: nothing was checked, and that is said.
2. Drift is ``(measured - pin) / pin``. Below nine tenths of the pin: alarm. A pin is never lowered.
3. More than the threshold above the pin (10 % unless the caller says otherwise; exactly 10 % is not): stale. What the
   last merged winner accounts for is explained: one that landed between the pin's build and the measurement, and whose
   own number is within the threshold of what was measured, above or below. A winner explains what it could have done.
4. Within the agreement band (2 % of the pin, at least 0.01) the pin stands. The band comes after the threshold, so
   that its absolute part cannot hide the drift of a small pin.
5. Otherwise the pin stands when the measurement is below it, and should rise to it when it is above.
6. A pin without a source, with a value its source did not measure, with a commit or a time that is not its source's,
   older than work accepted or merged since, or lower than one before it is a finding whatever its drift.
7. A ``reference`` pin is held against receipts of role reference alone, and every other pin against all others: the
   other engine's value and this project's own never explain, raise or source one another.
8. An alarm needs evidence newer than the pin: what was read before the pin's source was measured says nothing of it.
9. A pin is held against what was measured on the weights of its source. What its slot measured since on others, under
   the same name, is said and neither raises the pin nor alarms; of a pin without a source nobody knows the weights.
10. What is newest, and what landed in between, is decided by position (:mod:`k3_ledger.rescore.standing`); a claimed
    time decides only for what has none, such as a line of merges.toml.

:func:`reconcile_lock` is pure: it decides and proposes, and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.inputs import short_weights
from k3_ledger.rescore.pins import (
    Merge,
    PinRecord,
    check_pin,
    distinct_merges,
    list_lowered,
    lowered_finding,
    stamp_finding,
)
from k3_ledger.rescore.standing import Moment
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import NOWHERE, ExitCode, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from k3_ledger.rescore.slots import Role, Track
    from k3_ledger.schemas.outcomes import Position

THRESHOLD: Final = Fraction(1, 10)
AGREE_SHARE: Final = Fraction(1, 50)
AGREE_LEAST: Final = Fraction(1, 100)
ALARM_SHARE: Final = Fraction(9, 10)

Decision: TypeAlias = Literal["no-measurement", "no-pin", "agree", "keep", "alarm", "raise", "stale"]
"""What the numbers alone say. ``raise`` and ``stale`` both mean that the pin should rise."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value measured on a slot.

    Attributes:
        value: with decimals that end, so that it can be written down as a pin.
        receipt: identity of the receipt it stands in; None for a figure that only a log or a document holds.
        commit: what was measured, if known.
        said_by: where a figure without a receipt stands, in words.
        reference: True for what the other engine measured, in a receipt of role reference.
        position: of its receipt, in the chain or in the source; None for what is in neither.
        current: False for what says nothing of the build that others are scored against: a candidate of this ledger.
        counts: False when it was refused, left unproved or superseded: it is neither newest nor anybody's source.
        entry: identity of the entry that its receipt was imported in, where that is another.
        weights: digest of the weights that were measured; None when no receipt says.
        also: other names of its receipt: of imports of it that are counted nowhere else.
        counted: what counts of it, where that is less.
        accepted: whether its run was published with a tier for it and counts.
    """

    track: Track
    value: Fraction
    time: datetime
    receipt: str | None = None
    commit: str | None = None
    said_by: str = ""
    reference: bool = False
    position: int | None = None
    current: bool = True
    counts: bool = True
    entry: str | None = None
    weights: str | None = None
    also: tuple[str, ...] = ()
    counted: Fraction | None = None
    accepted: bool = False

    def is_of(self, source: str) -> bool:
        """Whether it stands in the receipt, or the entry, that a pin names as its source."""
        return source in {self.receipt, self.entry, *self.also}

    @property
    def moment(self) -> Moment:
        """When it was recorded."""
        return Moment(self.position, self.time)

    @property
    def role(self) -> Role:
        """Role of the pin that it is evidence for; a guard is a value of this project's own, like the frontier."""
        return "reference" if self.reference else "frontier"

    def measures(self, pin: PinRecord) -> bool:
        """Whether it measured what a pin pins: the same track, and the same engine."""
        return self.track == pin.track and self.reference == (pin.role == "reference")


@dataclass(frozen=True, slots=True)
class Drift:
    """One pin against one measurement, numbers only.

    Attributes:
        drift: ``(measured - pin) / pin``; None without a pin.
        unexplained: the same against the greater of pin and the last merged winner; equal to ``drift`` without one.
        winner: the merged winner, when its number is greater than the pin.
    """

    decision: Decision
    drift: Fraction | None
    unexplained: Fraction | None
    winner: Merge | None

    def explained(self, threshold: Fraction) -> bool:
        """Whether the drift is more than the threshold and the winner's number is within it of what was measured."""
        return self.decision == "stale" and self.unexplained is not None and abs(self.unexplained) <= threshold


def compare(
    pin: Fraction | None,
    measured: Fraction,
    *,
    winner: Merge | None = None,
    threshold: Fraction = THRESHOLD,
    slot: str = "the slot",
    position: Position = NOWHERE,
) -> Drift:
    """Hold one measurement against one pin; None is a slot that was never pinned.

    Raises:
        RescoreError: ``K3L-PIN-INVALID`` when the pin is zero or negative.
    """
    if pin is None:
        return Drift("no-pin", None, None, None)
    check_pin(pin, slot=slot, position=position)
    drift = (measured - pin) / pin
    baseline = max(pin, winner.value) if winner and winner.value is not None else pin
    unexplained = (measured - baseline) / baseline
    decision: Decision = "raise"
    if measured < ALARM_SHARE * pin:
        decision = "alarm"
    elif drift > threshold:
        decision = "stale"
    elif abs(measured - pin) <= max(AGREE_LEAST, AGREE_SHARE * pin):
        decision = "agree"
    elif measured < pin:
        decision = "keep"
    return Drift(decision, drift, unexplained, winner if baseline != pin else None)


@dataclass(frozen=True, slots=True)
class Row:
    """What reconciling found for one pin.

    Attributes:
        measured: the newest measurement; None when there is none.
        merged: how many different merges on the same model and node are younger than the pin.
        accepted: how many receipts were accepted on its track, on the weights of its source, since that was measured.
        proposal: the pin as it should become; None when it stands.
    """

    pin: PinRecord
    measured: Measurement | None
    drift: Drift
    explained: bool
    merged: int
    accepted: int
    findings: tuple[Finding, ...]
    proposal: PinRecord | None


@dataclass(frozen=True, slots=True)
class LockReport:
    """All rows, in the order of the pins given."""

    threshold: Fraction
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> ExitCode:
        """1 when a pin is stale, alarming, unsourced or edited; 0 otherwise."""
        return max((finding.code.info.exit for finding in self.findings), default=ExitCode.VERIFIED)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that decide the exit code."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


def reconcile_lock(
    pins: Sequence[PinRecord],
    measurements: Iterable[Measurement],
    *,
    merges: Sequence[Merge] = (),
    sealed_only: bool = False,
    threshold: Fraction = THRESHOLD,
) -> LockReport:
    """Reconcile pins with measurements.

    Args:
        pins: from ``pin`` entries and a pins file; where both pin a slot the entry counts and the file is a proposal.
        measurements: of any slots, in the order of the log: the last is the newest, whatever time it claims.
        merges: winners in the order they landed; empty for the bare rule. What is said twice landed once.
        sealed_only: True when a winner whose number no receipt holds explains nothing.
        threshold: share above which drift is stale; must be above zero.

    Raises:
        RescoreError: a pin is zero or negative.
        ValueError: the threshold is not above zero.
    """
    if threshold <= 0:
        raise ValueError("a threshold must be above zero")
    measured, merges = list(measurements), distinct_merges(merges)
    counting, proposals = _counting(pins, measured)
    explaining = [merge for merge in merges if merge.value is not None and (merge.sealed or not sealed_only)]
    rows = tuple(_row(pin, measured, merges, explaining, threshold) for pin in counting)
    return LockReport(threshold, rows, (*proposals, *(finding for row in rows for finding in row.findings)))


def _counting(pins: Sequence[PinRecord], measured: list[Measurement]) -> tuple[list[PinRecord], list[Finding]]:
    """The pins that count, and what is to be said of files that have others: an entry is made of what they propose."""
    entries = {pin.slot: pin for pin in pins if pin.entry}
    findings = [lowered_finding(pin, higher) for pin, higher in list_lowered(pins)]
    for pin in pins:
        entry = entries.get(pin.slot)
        if entry is None or pin.entry:
            continue
        findings += trace_pin(pin, measured)
        if pin.value == entry.value:
            continue
        code = Code.PIN_LOWERED if pin.value < entry.value else Code.PIN_PROPOSAL
        message = f"{pin.slot}: the file says {format_exact(pin.value)}, the pin entry {format_exact(entry.value)}"
        findings.append(Finding(code, message, pin.position, format_exact(entry.value), format_exact(pin.value)))
    counting = [*entries.values(), *(pin for pin in pins if not pin.entry and pin.slot not in entries)]
    return counting, findings


def _row(
    pin: PinRecord,
    measured: list[Measurement],
    merges: Sequence[Merge],
    explaining: Sequence[Merge],
    threshold: Fraction,
) -> Row:
    own = [item for item in measured if item.measures(pin) and item.current and item.counts]
    own, findings = _alike(pin, own, measured)
    newest = own[-1] if own else None
    findings = [*trace_pin(pin, measured), *findings]
    merged, accepted = _merged(pin, measured, merges), _accepted(pin, measured)
    if merged or accepted:
        since = [f"{accepted} accepted receipt{'s' if accepted > 1 else ''}"] if accepted else []
        since += [f"{merged} merged"] if merged else []
        message = f"{pin.slot}: {', '.join(since)} since it was measured"
        findings.append(Finding(Code.PIN_PREDATES, message, pin.position))
    if newest is None:
        check_pin(pin.value, slot=pin.slot, position=pin.position)
        findings.append(Finding(Code.PIN_UNMEASURED, f"{pin.slot}: no measurement", pin.position))
        drift = Drift("no-measurement", None, None, None)
        return Row(pin, None, drift, False, merged, accepted, tuple(findings), None)
    drift = compare(
        pin.value,
        newest.value,
        winner=_last_winner(pin, newest, measured, explaining),
        threshold=threshold,
        slot=pin.slot,
        position=pin.position,
    )
    if drift.decision == "alarm" and not _is_newer(newest, pin, measured):
        drift = replace(drift, decision="keep")
    explained = drift.explained(threshold)
    verdict = _verdict(pin, newest, drift, explained=explained)
    findings += [verdict] if verdict else []
    rises = drift.decision in {"raise", "stale"}
    proposal = (
        PinRecord(pin.role, pin.track, newest.value, pin.unit, newest.receipt, newest.commit, newest.time, pin.position)
        if rises
        else None
    )
    return Row(pin, newest, drift, explained, merged, accepted, tuple(findings), proposal)


def _alike(
    pin: PinRecord, own: list[Measurement], measured: list[Measurement]
) -> tuple[list[Measurement], list[Finding]]:
    """What of a slot's measurements is of the pin's weights, and what is to be said of the others."""
    source = _source(pin, measured)
    if source is None:
        files = list(dict.fromkeys(item.weights for item in own))
        if len(files) < 2:
            return own, []
        said = f"{pin.slot}: {len(files)} weights under one name: {', '.join(short_weights(one) for one in files)}"
        return own, [Finding(Code.PIN_WEIGHTS, said, pin.position)]
    alike = [item for item in own if item.weights == source.weights]
    younger = measured[measured.index(source) + 1 :]
    others = [
        item.weights
        for item in younger
        if item.measures(pin) and item.current and item.counts and item.weights != source.weights
    ]
    if not others:
        return alike, []
    files = list(dict.fromkeys(others))
    mine, theirs = short_weights(source.weights), ", ".join(short_weights(one) for one in files)
    said = f"{pin.slot}: {len(files) + 1} weights under one name: pinned on {mine}, measured since on {theirs}"
    return alike, [Finding(Code.PIN_WEIGHTS, said, pin.position, source.weights, others[-1])]


def trace_pin(pin: PinRecord, measured: list[Measurement]) -> list[Finding]:
    """Whether the receipt a pin names is there and measured what the pin says."""
    if pin.source is None:
        return [Finding(Code.PIN_UNSOURCED, f"{pin.slot}: no source is named", pin.position)]
    named = [item for item in measured if item.is_of(pin.source)]
    if not named:
        message = f"{pin.slot}: no receipt {pin.source[:8]} measures anything"
        return [Finding(Code.PIN_UNSOURCED, message, pin.position, found=pin.source)]
    here = [item for item in named if item.measures(pin)]
    if not any(item.counts for item in here or named):
        message = f"{pin.slot}: receipt {pin.source[:8]} was refused, left unproved or superseded"
        return [Finding(Code.PIN_UNSOURCED, message, pin.position, found=pin.source)]
    if not here:
        measured_slot = named[0].track.slot(named[0].role)
        message = f"{pin.slot}: receipt {pin.source[:8]} measured {named[0].role}:{named[0].track.short}"
        return [Finding(Code.PIN_HAND_EDITED, message, pin.position, pin.slot, measured_slot)]
    if all(pin.value not in {item.value, item.counted} for item in here):
        message = f"{pin.slot}: pinned {format_exact(pin.value)}, its receipt measured {format_exact(here[0].value)}"
        return [
            Finding(Code.PIN_HAND_EDITED, message, pin.position, format_exact(here[0].value), format_exact(pin.value))
        ]
    # The commit of an imported run is that of the frontier by then, and no word about what ran.
    commit = next((item.commit for item in here if item.entry is None), None)
    stamp = stamp_finding(pin, commit=commit, time=here[0].time)
    return [] if stamp is None else [stamp]


def _since(pin: PinRecord, measured: list[Measurement]) -> Moment:
    """When a pin was measured: its source's word counts before its own."""
    found = _source(pin, measured)
    return Moment(pin.position.index if pin.entry else None, pin.time) if found is None else found.moment


def _source(pin: PinRecord, measured: list[Measurement]) -> Measurement | None:
    """The measurement that a pin names, on its slot if there is one."""
    named = [item for item in measured if pin.source and item.is_of(pin.source)]
    return next((item for item in named if item.measures(pin)), named[0] if named else None)


def _is_newer(newest: Measurement, pin: PinRecord, measured: list[Measurement]) -> bool:
    """Whether a measurement was made after the pin: it stands behind the pin's source, or behind what the pin says."""
    source = _source(pin, measured)
    if source is not None:
        return measured.index(newest) > measured.index(source)
    since = _since(pin, measured)
    return since == Moment() or newest.moment.is_after(since)


def _accepted(pin: PinRecord, measured: list[Measurement]) -> int:
    """How many receipts were accepted on the pin's track, on the weights of its source, since that was measured.

    None of them changes the other engine.
    """
    if pin.role == "reference":
        return 0
    since, source = _since(pin, measured), _source(pin, measured)
    return len(
        {
            item.entry or item.receipt
            for item in measured
            if item.accepted
            and item.measures(pin)
            and item.moment.is_after(since)
            and (source is None or item.weights == source.weights)
        }
    )


def _merged(pin: PinRecord, measured: list[Measurement], merges: Sequence[Merge]) -> int:
    """How many winners landed on the same model and node, on whatever metric, after the pin was measured.

    None of them changes the other engine. One that moved two slots landed once.
    """
    if pin.role == "reference":
        return 0
    since = _since(pin, measured)
    place = replace(pin.track, metric="", context=None, conditions=())
    younger = [
        replace(merge, track=place)
        for merge in merges
        if merge.moment.is_after(since) and replace(merge.track, metric="", context=None, conditions=()) == place
    ]
    return len(distinct_merges(younger))


def _last_winner(
    pin: PinRecord, newest: Measurement, measured: list[Measurement], merges: Sequence[Merge]
) -> Merge | None:
    """The last winner on the pin's track that landed between the pin's build and the measurement.

    None moves the other engine.
    """
    if pin.role == "reference":
        return None
    since = _since(pin, measured)
    landed = [
        merge
        for merge in merges
        if merge.track == pin.track
        and (since == Moment() or merge.moment.is_after(since, or_same=True))
        and not merge.moment.is_after(newest.moment)
    ]
    return landed[-1] if landed else None


def _verdict(pin: PinRecord, newest: Measurement, drift: Drift, *, explained: bool) -> Finding | None:
    assert drift.drift is not None
    assert drift.unexplained is not None
    shown = f"{pin.slot}: {format_exact(pin.value)} -> {format_rounded(newest.value, 2)} ({_signed(drift.drift)} %)"
    expected, found = format_exact(pin.value), format_exact(newest.value)
    if drift.decision == "alarm":
        return Finding(Code.PIN_ALARM, shown, pin.position, expected, found)
    if drift.decision != "stale":
        return None
    winner = drift.winner
    if winner is None:
        return Finding(Code.PIN_STALE, f"{shown}, nothing explains it", pin.position, expected, found)
    assert winner.value is not None
    how = "" if winner.sealed else ", which no receipt holds"
    said = f"{winner.label} landed at {format_exact(winner.value)}{how}"
    if explained:
        message = f"{shown}, {said}; {_signed(drift.unexplained)} % unexplained"
        return Finding(Code.PIN_EXPLAINED, message, pin.position, expected, found)
    off = (
        f"{_signed(drift.unexplained)} % more"
        if drift.unexplained > 0
        else f"{format_percent(-drift.unexplained)} % less"
    )
    message = f"{shown}, {off} than {said}"
    return Finding(Code.PIN_STALE, message, pin.position, expected, found)


def _signed(value: Fraction) -> str:
    return ("+" if value >= 0 else "") + format_percent(value)
