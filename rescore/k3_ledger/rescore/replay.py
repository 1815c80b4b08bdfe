"""Gather from a verified log, or from an audited foreign one, everything that judging needs, in order.

Order is the chain's: a pin, a frontier run or a merge counts for what stands behind it. A foreign log has no chain;
its runs stand in the order of the source. What was superseded counts for nothing (see
:mod:`k3_ledger.rescore.standing`); a run that was is kept, and marked. What was imported more than once counts once
(:mod:`k3_ledger.rescore.repeated`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.doubt import REFUTED, contradicts, doubt_clock, is_refuted
from k3_ledger.rescore.imported import list_unreadable, read_frontier, read_import
from k3_ledger.rescore.inputs import Figure, RunInputs
from k3_ledger.rescore.material import SHIPPED, Candidate, Fact, Judged, LeftOut, Material
from k3_ledger.rescore.native import list_left_out, read_actors, read_commit, read_parity, read_run, read_weights
from k3_ledger.rescore.older import ANY, read_older
from k3_ledger.rescore.pins import Merge, PinRecord, check_pin, check_unit, check_winner
from k3_ledger.rescore.reconcile import Measurement
from k3_ledger.rescore.repeated import Imports
from k3_ledger.rescore.rule_entries import read_rule_entry
from k3_ledger.rescore.rules.repeats import Repeats
from k3_ledger.rescore.rules.verdict import REJECT
from k3_ledger.rescore.said import identify_entry, is_unproved
from k3_ledger.rescore.slots import parse_slot
from k3_ledger.rescore.standing import is_supposed, note_rule, read_standing
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.log import VerifiedLog

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from k3_ledger.rescore.inputs import ClockReading, Parity
    from k3_ledger.rescore.native import ActorSpeed
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.slots import Role, Track
    from k3_ledger.verify.log import VerifiedEntry
    from k3_ledger.verify.polaris import ImportItem


OWN: Final = "subject"
"""The measured program as an actor, and its own clock as an observer."""


def gather(log: VerifiedLog, *, at: int | None = None) -> Material:
    """Gather from a verified log.

    Args:
        log: the log.
        at: take what stood at this position, and nothing behind it: what a verdict that is sealed there could rest on.
            None takes the whole log, and what stands at its head.

    Raises:
        TypeError: ``log`` is not a verified log.
        LedgerError: a pin or a rule entry is none; its index is named.
        VerificationError: the bytes changed since they were verified.
    """
    if not isinstance(log, VerifiedLog):
        raise TypeError("only a verified log can be judged: pass what verify_log() returns")
    standing = read_standing(log)
    gathering = Gathering(Material("verified ledger", standing=standing), standing.gone(at=at))
    gathering.void, gathering.vouched = standing.gone(), log.vouched
    imports = Imports()
    for entry in log:
        if at is not None and entry.index >= at:
            break
        if not entry.disowned:
            gathering.take(entry)
            if entry.entry.kind == "import" and entry.identity not in gathering.gone:
                for candidate in gathering.by_identity[entry.identity]:
                    body = entry.entry.body
                    fields = {step.name: step.value for step in body.fields}
                    imports.note(candidate, entry.index, body.format, fields, [one.sha256 for one in body.artifacts])
    imports.settle(gathering.material)
    _leave_out_refused(gathering.material)
    _mark_accepted(gathering.material)
    return gathering.material


def _leave_out_refused(material: Material) -> None:
    """Let no run that was published as refused, or as not proved, source a pin or explain a drift.

    Of an import that was refused, or of which nothing tells what was published, no merge is sealed either; what it
    measured was marked where it was read.
    """
    rejected = {one.identity for one in material.candidates if one.native and one.published == REJECT}
    for one in material.candidates:
        one.refused = one.identity in rejected
    own = [one for one in material.candidates if one.native and one.run.speed is not None]
    unproved = {(one.identity, one.run.track) for one in own if one.voided not in {"", "superseded", REJECT}}
    unproved |= {(one.identity, one.speed.track) for one in material.facts if one.doubted and one.speed.actor == OWN}
    unproved |= {
        (one.identity, one.run.track)
        for one in material.candidates
        if not one.native and one.voided not in {"", "superseded"}
    }
    counted = {(one.identity, one.run.track): one.counted for one in own if one.counted != one.run.speed}
    if rejected or unproved or counted:
        material.measurements = [
            replace(
                item,
                counts=item.counts and item.receipt not in rejected and (item.receipt, item.track) not in unproved,
                counted=counted.get((item.receipt or "", item.track)),
            )
            for item in material.measurements
        ]
        material.merges = [
            replace(merge, value=None, sealed=False)
            if merge.sealed and (merge.run in rejected or (merge.run, merge.track) in unproved)
            else replace(merge, value=counted.get((merge.run or "", merge.track), merge.value))
            for merge in material.merges
        ]


def _mark_accepted(material: Material) -> None:
    """Mark what was measured of runs that were accepted for it; of a run that names several metrics, of that one."""
    accepted = {(one.identity, one.run.track) for one in material.candidates if one.accepted}
    if accepted:
        material.measurements = [
            replace(item, accepted=True) if (item.entry or item.receipt, item.track) in accepted else item
            for item in material.measurements
        ]


def gather_foreign(items: Iterable[ImportItem]) -> Material:
    """Gather from the items that an import of an audited foreign log would add."""
    material, imports = Material("foreign log, audited and not sealed"), Imports()
    for item in items:
        place = len(material.candidates)
        fields = {step["name"]: step["value"] for step in item.body["fields"]}
        foreign_id = item.body["foreign_id"]
        _take_import(material, foreign_id, foreign_id, fields, item.body["attestation"])
        for candidate in material.candidates[place:]:
            candidate.broken = _is_broken(item.body["findings"])
            originals = [artifact["sha256"] for artifact in item.body["artifacts"]]
            imports.note(candidate, place, item.body["format"], fields, originals)
    imports.settle(material)
    _mark_accepted(material)
    return material


def _is_broken(findings: Iterable[str]) -> bool:
    """Whether the audit of an imported run found a digest that does not hold."""
    return Code.FOREIGN_HASH.id in findings


def _take_import(
    material: Material,
    identity: str,
    foreign_id: str,
    fields: Mapping[str, str],
    attestation: str,
    *,
    index: int | None = None,
    stands: bool = True,
) -> None:
    unread = list_unreadable(foreign_id, fields)
    run, reading = None, None
    try:
        run, reading = read_import(foreign_id, fields), read_frontier(fields)
    except RescoreError as error:  # one run with a figure that is none must not hide all others
        if error.finding not in unread:
            unread.append(error.finding)
    material.unread += [replace(finding, position=replace(finding.position, index=index)) for finding in unread]
    if unread:
        material.partly_read.add(foreign_id)
    if run is None:
        if unread:
            material.unjudged.append(foreign_id)
        return
    position = index if index is not None else len(material.candidates)
    others = {}
    if run.guarded is not None and run.guard_pin is not None:
        others = {run.track.at("decode", 131_072): run.guarded}
    superseded = not stands or any(fields.get(f"{record}.superseded_by") for record in ("ledger", "index"))
    candidate = Candidate(identity, run, others, superseded=superseded, attestation=attestation, index=index)
    material.candidates.append(candidate)
    if run.at is None:
        return
    if reading is not None and stands:
        # What the round's log says of the build before was read before the round's own runs.
        said_by = f"the round's log of {foreign_id[:8]}"
        material.measurements.append(
            Measurement(reading.track, reading.value, run.at, None, reading.commit, said_by, position=position)
        )
    counts = not candidate.voided
    speeds = {} if not run.speed else {run.track: run.speed}
    material.measurements += [
        Measurement(track, value, run.at, foreign_id, run.commit, position=position, counts=counts, entry=identity)
        for track, value in {**others, **speeds}.items()
    ]


class Gathering:
    """State while a log is read from front to back.

    Attributes:
        gone: identities of entries that do not count.
        void: identities of entries that never need to be readable: those that are superseded by now.
        vouched: entries in front of this position need not be readable either: a head stands over them already.
        by_digest: rules that are known, by digest: those that are registered, and those of the ledger by now.
        keeps: identities of runs whose weights are kept for pins to be looked up by; None keeps those of all.
        repeats: whether it is asked what the frontier runs of a round differ by.
        older: whether runs are read as they were when the first verdicts were sealed (:mod:`k3_ledger.rescore.older`).
    """

    def __init__(self, material: Material, gone: Container[str] = frozenset()) -> None:
        self.material = material
        self.gone = gone
        self.void = gone
        self.vouched = 0
        self.by_digest: dict[str, Rule] = dict(SHIPPED)
        self.by_identity: dict[str, list[Candidate]] = {}
        self.references: dict[Track, Figure] = {}
        self.frontiers: dict[Track, Figure] = {}
        self.greatest: dict[Track, Figure] = {}
        self.greatest_alike: dict[tuple[Track, str | None], Figure] = {}
        self.round_frontier: dict[tuple[str, Track], Figure] = {}
        self.round_parity: dict[tuple[str, Track], Parity] = {}
        self.round_repeats: dict[tuple[str, Track, str | None], Repeats] = {}
        self.repeats = True
        self.figures: dict[str, Figure] = {}
        self.published: tuple[Rule, ...] = ()
        self.keeps: Container[str] | None = None
        self.older = False

    def take(self, entry: VerifiedEntry) -> None:
        """Note what one entry adds."""
        taken, stands = entry.entry, entry.identity not in self.gone
        if taken.kind == "pin":
            self.material.sources.add(taken.body.source)
        if taken.kind == "run":
            self._run(entry.identity, entry.index, taken.body, _time(taken.time), stands=stands)
        elif taken.kind == "import":
            self._import(entry.identity, entry.index, taken.body, stands=stands)
        elif taken.kind == "rule":
            self._rule(entry, stands=stands)
        elif stands:
            self._judgement(entry)

    def _judgement(self, entry: VerifiedEntry) -> None:
        taken = entry.entry
        try:
            if taken.kind == "pin":
                self._pin(entry.identity, taken.body, entry.index, _time(taken.time))
            elif taken.kind == "merge":
                self._merge(taken.body, entry.index, _time(taken.time))
        except RescoreError:
            if not self._need_not_be_readable(entry):
                raise
        if taken.kind == "supersede":
            self.material.supersessions.append((entry.index, taken.body))
        elif taken.kind == "verdict":
            body = taken.body
            self.material.verdicts.append((entry.index, body))
            judged = Judged(
                body.rule,
                body.rule_sha256,
                body.metric,
                body.tier,
                identify_entry(body),
                is_unproved(body),
                is_supposed(body),
                body.bound_by,
                tuple((step.name, step.value) for step in body.steps),
                entry.index,
                tuple((pin.slot, pin.entry) for pin in body.pins if pin.entry is not None),
            )
            for candidate in self.by_identity.get(body.target, []):
                if candidate.run.track.metric == body.metric and candidate.run.track.scorable:
                    candidate.verdicts.append(judged)

    def _need_not_be_readable(self, entry: VerifiedEntry) -> bool:
        return entry.identity in self.void or entry.index < self.vouched

    def _rule(self, entry: VerifiedEntry, *, stands: bool) -> None:
        try:
            rule = read_rule_entry(entry.entry.body, entry.index)
        except RescoreError:
            if not self._need_not_be_readable(entry):
                raise
            return
        gone = self.material.standing.since.get(entry.identity)
        note_rule(self.material.known, rule.sha256, rule.scope, entry.index, gone)
        self.by_digest[rule.sha256] = rule
        if stands:
            self.material.rules.append((entry.index, rule))
            self.published = (*self.published, rule)
        else:
            self.material.withdrawn.append((entry.index, rule))

    def _import(self, identity: str, index: int, body: Any, *, stands: bool) -> None:
        before = len(self.material.candidates)
        fields = {step.name: step.value for step in body.fields}
        _take_import(self.material, identity, body.foreign_id, fields, body.attestation, index=index, stands=stands)
        self.by_identity[identity] = self.material.candidates[before:]
        for candidate in self.by_identity[identity]:
            candidate.broken = _is_broken(body.findings)

    def _run(self, identity: str, index: int, body: Any, at: datetime, *, stands: bool) -> None:
        parity, weights = read_parity(body), read_weights(body)
        if self.keeps is None or identity in self.keeps:
            self.material.weights[identity] = weights
        measured, commit = read_run(body), read_commit(body)
        if self.older:
            parity, measured = read_older(body, parity, measured)
        read = {item.track: item.clock for item in measured}
        actors = read_actors(body)
        refuted: set[Track] = set()
        if body.role != "candidate" and not self.older:
            own = [one for one in actors if one.actor == one.observer == "subject"]
            refuted = {one.track for one in own if is_refuted(one.track, one.speed, read.get(one.track))}
        self.material.facts += [
            Fact(
                identity, index, at, body.role, one, stands,
                one.actor == one.observer == "subject" and one.track in refuted, weights, commit,
                _doubted(one, body.role, read.get(one.track)),
                read.get(one.track) if one.actor == one.observer == OWN else None,
            )
            for one in actors
        ]  # fmt: skip
        self.material.measurements += [
            Measurement(
                item.track, item.speed, at, identity, commit, reference=body.role == "reference", position=index,
                current=body.role != "candidate", counts=stands and item.track not in refuted, weights=weights,
            )
            for item in measured
            if item.speed is not None
        ]  # fmt: skip
        if body.role != "candidate" and not stands:
            return
        values = {item.track: item.speed for item in measured if item.speed is not None}
        for track, speed in values.items():
            if track in refuted:
                continue  # a number that its own clock contradicts is nobody's to be held against
            figure = Figure(speed, "receipt", source=identity, weights=weights)
            if body.role == "reference":
                self.references[track] = figure
            elif body.role == "frontier":
                self._built(track, figure, body.round, parity, body.bundle)
        if body.role != "candidate":
            return
        self.material.left_out += [
            LeftOut(identity, index, metric, reason, at) for metric, reason in list_left_out(body)
        ]
        found = []
        for item in measured:
            round_frontier = self.round_frontier.get((body.round, item.track)) if body.round else None
            run = RunInputs(
                run=identity,
                track=item.track,
                speed=item.speed,
                frontier=round_frontier or self.pinned("frontier", item.track),
                reference=self.references.get(item.track) or self.pinned("reference", item.track),
                parity=parity,
                frontier_parity=self.round_parity.get(self._graded_as(body.round, item.track)) if body.round else None,
                clock=item.clock,
                exact=item.exact,
                samples=item.samples,
                filled=item.filled,
                at=at,
                weights=weights,
                repeats=self._repeats(body.round, item.track, weights),
            )
            others = {track: value for track, value in values.items() if track != item.track}
            clocks = {one.track: one.clock for one in measured if one.clock is not None and one.track in others}
            found.append(
                Candidate(
                    identity,
                    run,
                    others,
                    native=True,
                    superseded=not stands,
                    pins=self.figures,
                    measured=self._measured(body.round, others),
                    rules=self.published,
                    built=self.greatest.get(item.track),
                    built_alike=self.greatest_alike.get((item.track, weights)),
                    newest=self.frontiers.get(item.track),
                    clocks=clocks,
                    index=index,
                    known=self.material.known,
                    by_digest=self.by_digest,
                )
            )
        self.by_identity[identity] = found
        self.material.candidates += found

    def _built(self, track: Track, figure: Figure, round_: str | None, parity: Parity | None, bundle: str) -> None:
        """Note what a frontier build measured."""
        self.frontiers[track] = figure
        known = self.greatest.get(track)
        if known is None or figure.value > known.value:
            self.greatest[track] = figure
        alike = self.greatest_alike.get((track, figure.weights))
        if alike is None or figure.value > alike.value:
            self.greatest_alike[track, figure.weights] = figure
        if round_ is not None:
            self.round_frontier[round_, track] = figure
            if parity is not None:
                self.round_parity[self._graded_as(round_, track)] = parity
            if self.repeats:
                one = Repeats((bundle,), figure.value, figure.value)
                several = self.round_repeats.get((round_, track, figure.weights))
                self.round_repeats[round_, track, figure.weights] = several.joined(one) if several else one

    def _graded_as(self, round_: str, track: Track) -> tuple[str, Track]:
        """By what the divergence of a round's frontier build is kept."""
        return (round_, ANY) if self.older else (round_, track)

    def _repeats(self, round_: str | None, track: Track, weights: str | None) -> Repeats | None:
        """What the frontier runs of a round measured by now of what a run measured, on its weights."""
        return self.round_repeats.get((round_, track, weights)) if round_ and self.repeats else None

    def newest(self, round_: str | None, track: Track) -> Figure | None:
        """What the frontier build measured last: in a run's own round, else in any."""
        return (self.round_frontier.get((round_, track)) if round_ else None) or self.frontiers.get(track)

    def _measured(self, round_: str | None, others: Mapping[Track, Fraction]) -> dict[Track, Figure]:
        found = {track: self.newest(round_, track) for track in others}
        return {track: figure for track, figure in found.items() if figure is not None}

    def pinned(self, role: Role, track: Track) -> Figure | None:
        """The newest pin entry of a slot so far."""
        return self.figures.get(track.slot(role)) if self.figures else None

    def _pin(self, identity: str, body: Any, index: int, at: datetime) -> None:
        where = Position(index=index, field="body.slot")
        role, track = parse_slot(body.slot, position=where)
        value = check_pin(Fraction(body.value), slot=body.slot, position=Position(index=index, field="body.value"))
        check_unit(body.unit, track, position=Position(index=index, field="body.unit"))
        weights = self.material.weights.get(body.source)
        pin = PinRecord(role, track, value, body.unit, body.source, body.commit, at, where, True, identity, weights)
        self.material.pins[body.slot] = pin
        figure = Figure(value, "pin", source=identity, weights=weights)
        self.figures = self.figures | {body.slot: figure}  # candidates keep their own
        self.material.pin_entries.append(pin)

    def _merge(self, body: Any, index: int, at: datetime) -> None:
        _, track = parse_slot(body.slot, position=Position(index=index, field="body.slot"))
        claimed = None if body.claimed is None else Fraction(body.claimed)
        if claimed is not None:
            check_winner(claimed, slot=body.slot, position=Position(index=index, field="body.claimed"))
        won = [
            candidate.run.speed
            for candidate in self.by_identity.get(body.run or "", [])
            if candidate.run.track == track and candidate.run.speed is not None and not candidate.superseded
        ]
        value = won[0] if won else claimed
        self.material.merges.append(
            Merge(track, at, body.pull_request, body.commit, body.run, value, sealed=bool(won), index=index)
        )


def _doubted(one: ActorSpeed, role: str, reading: ClockReading | None) -> str:
    """Why a speed supports nothing that no verdict is about; empty of a candidate's own, whose verdict may say."""
    if one.observer != OWN:
        return ""
    if one.actor != OWN:
        return doubt_clock(one.track, one.speed, one.clock)
    return REFUTED if role != "candidate" and contradicts(one.track, one.speed, reading) else ""


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
