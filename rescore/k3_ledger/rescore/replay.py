"""Gather from a verified log, or from an audited foreign one, everything that judging needs, in order.

Order is the chain's: a pin, a frontier run or a merge counts for what stands behind it. A foreign log has no chain;
its runs are ordered by the time they state.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.imported import list_unreadable, read_frontier, read_import
from k3_ledger.rescore.inputs import Figure, RunInputs
from k3_ledger.rescore.native import read_actors, read_parity, read_run
from k3_ledger.rescore.pins import Merge, PinRecord, check_pin, check_unit
from k3_ledger.rescore.reconcile import Measurement
from k3_ledger.rescore.rules.reading import parse_parameters
from k3_ledger.rescore.slots import parse_slot
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.log import VerifiedLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.native import ActorSpeed
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.slots import Role, Track
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedEntry
    from k3_ledger.verify.polaris import ImportItem


PIN_FIELDS: Final = ("slot", "value", "source", "entry", "inferred")
"""Fields of a pin that a verdict states."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A ``verdict`` entry about a run.

    Attributes:
        said: everything that it derives and what it was derived from; two verdicts on a run that agree in it are one.
    """

    rule: str
    rule_sha256: str
    metric: str
    tier: str
    said: tuple[object, ...] = ()


@dataclass(slots=True)
class Candidate:
    """One metric of one run, ready to be held against a rule.

    Attributes:
        identity: of its entry; the foreign id for a log that was never imported.
        run: what the rule reads; its frontier and reference are those of its own time.
        others: measured value of every other metric of the same build.
        native: True when the run is a receipt of this ledger, False for an import.
        superseded: whether a later entry, or the foreign log itself, says that it no longer stands.
        verdicts: what was judged of it, oldest first.
        pins: pin entries in force when it was appended, by slot.
        attestation: what attests the foreign receipt, as it says itself; None for a receipt of this ledger.
        rules: rules that the ledger itself had published by then, oldest first.
        index: position of its entry; None for a log that was never imported.
    """

    identity: str
    run: RunInputs
    others: Mapping[Track, Fraction] = field(default_factory=dict)
    native: bool = False
    superseded: bool = False
    verdicts: list[Judged] = field(default_factory=list)
    pins: Mapping[str, Figure] = field(default_factory=dict)
    attestation: str | None = None
    rules: tuple[Rule, ...] = ()
    index: int | None = None

    @property
    def label(self) -> str:
        """What to call its run: the start of the entry's identity, and of the run's own id where it has another."""
        if self.native or self.identity == self.run.run:
            return self.identity[:8]
        return f"{self.identity[:8]} (run {self.run.run[:8]})"

    @property
    def published(self) -> str | None:
        """The tier it was published with: what an import states, or the first verdict on a run of this ledger.

        Nothing that is judged of it later changes that.
        """
        if not self.native:
            return self.run.published
        return self.verdicts[0].tier if self.verdicts else None


@dataclass(frozen=True, slots=True)
class Fact:
    """How fast one actor was by one clock, as one receipt has it; ``index`` is the receipt's position."""

    identity: str
    index: int
    time: datetime
    role: str
    speed: ActorSpeed


@dataclass(slots=True)
class Material:
    """Everything that judging needs.

    Attributes:
        source: what it was gathered from, in words.
        candidates: runs to judge, in order.
        pins: newest ``pin`` entry of each slot.
        measurements: what the frontier builds, the other engine and the accepted runs measured, in order.
        merges: ``merge`` entries, in order.
        facts: what every actor of every receipt of this ledger was timed at, in order.
        pin_entries: every ``pin`` entry, in order.
        verdicts: every ``verdict`` entry as (index, body), in order.
        rules: every ``rule`` entry as (index, rule), in order.
        unread: what could not be read of imported runs: a record that is none, or a copy of a figure that is none.
    """

    source: str
    candidates: list[Candidate] = field(default_factory=list)
    pins: dict[str, PinRecord] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    pin_entries: list[PinRecord] = field(default_factory=list)
    verdicts: list[tuple[int, Any]] = field(default_factory=list)
    rules: list[tuple[int, Rule]] = field(default_factory=list)
    unread: list[Finding] = field(default_factory=list)


def gather(log: VerifiedLog) -> Material:
    """Gather from a verified log.

    Raises:
        TypeError: ``log`` is not a verified log.
        LedgerError: a pin or a rule entry is none; its index is named.
        VerificationError: the bytes changed since they were verified.
    """
    if not isinstance(log, VerifiedLog):
        raise TypeError("only a verified log can be judged: pass what verify_log() returns")
    gathering = Gathering(Material("verified ledger"))
    for entry in log:
        if not entry.disowned:
            gathering.take(entry)
    return gathering.material


def gather_foreign(items: Iterable[ImportItem]) -> Material:
    """Gather from the items that an import of an audited foreign log would add."""
    material = Material("foreign log, audited and not sealed")
    for item in items:
        fields = {step["name"]: step["value"] for step in item.body["fields"]}
        foreign_id = item.body["foreign_id"]
        _take_import(material, foreign_id, foreign_id, fields, item.body["attestation"])
    material.candidates.sort(key=lambda candidate: candidate.run.at.timestamp() if candidate.run.at else 0.0)
    return material


def _take_import(
    material: Material,
    identity: str,
    foreign_id: str,
    fields: Mapping[str, str],
    attestation: str,
    *,
    index: int | None = None,
) -> None:
    unread = list_unreadable(foreign_id, fields)
    run, reading = None, None
    try:
        run, reading = read_import(foreign_id, fields), read_frontier(fields)
    except RescoreError as error:  # one run with a figure that is none must not hide all others
        if error.finding not in unread:
            unread.append(error.finding)
    material.unread += [replace(finding, position=replace(finding.position, index=index)) for finding in unread]
    if run is not None:
        others = {}
        if run.guarded is not None and run.guard_pin is not None:
            others = {run.track.at("decode", 131_072): run.guarded}
        superseded = any(fields.get(f"{record}.superseded_by") for record in ("ledger", "index"))
        material.candidates.append(
            Candidate(identity, run, others, superseded=superseded, attestation=attestation, index=index)
        )
        if run.speed and run.at:
            material.measurements.append(Measurement(run.track, run.speed, run.at, foreign_id, run.commit))
    at = run.at if run is not None else None
    if reading is not None and at is not None:
        said_by = f"the round's log of {foreign_id[:8]}"
        material.measurements.append(Measurement(reading.track, reading.value, at, None, reading.commit, said_by))


class Gathering:
    """State while a log is read from front to back."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.by_identity: dict[str, list[Candidate]] = {}
        self.references: dict[Track, Figure] = {}
        self.round_frontier: dict[tuple[str, Track], Figure] = {}
        self.round_parity: dict[str, Parity] = {}
        self.figures: dict[str, Figure] = {}
        self.published: tuple[Rule, ...] = ()

    def take(self, entry: VerifiedEntry) -> None:
        """Note what one entry adds."""
        taken = entry.entry
        if taken.kind == "run":
            self._run(entry.identity, entry.index, taken.body, _time(taken.time))
        elif taken.kind == "import":
            self._import(entry.identity, entry.index, taken.body)
        elif taken.kind == "pin":
            self._pin(entry.identity, taken.body, entry.index, _time(taken.time))
        elif taken.kind == "merge":
            self._merge(taken.body, _time(taken.time))
        elif taken.kind == "rule":
            rule = read_rule_entry(taken.body, entry.index)
            self.material.rules.append((entry.index, rule))
            self.published = (*self.published, rule)
        elif taken.kind == "verdict":
            self.material.verdicts.append((entry.index, taken.body))
            body = taken.body
            judged = Judged(body.rule, body.rule_sha256, body.metric, body.tier, _said(body))
            for candidate in self.by_identity.get(taken.body.target, []):
                if candidate.run.track.metric == taken.body.metric:
                    candidate.verdicts.append(judged)
        elif taken.kind == "supersede":
            for candidate in self.by_identity.get(taken.body.target, []):
                candidate.superseded = True

    def _import(self, identity: str, index: int, body: Any) -> None:
        before = len(self.material.candidates)
        fields = {step.name: step.value for step in body.fields}
        _take_import(self.material, identity, body.foreign_id, fields, body.attestation, index=index)
        self.by_identity[identity] = self.material.candidates[before:]

    def _run(self, identity: str, index: int, body: Any, at: datetime) -> None:
        self.material.facts += [Fact(identity, index, at, body.role, one) for one in read_actors(body)]
        parity = read_parity(body)
        measured = read_run(body)
        values = {item.track: item.speed for item in measured if item.speed is not None}
        for item in measured:
            if item.speed is None:
                continue
            figure = Figure(item.speed, "receipt", source=identity)
            if body.role == "reference":
                self.references[item.track] = figure
            elif body.role == "frontier" and body.round is not None:
                self.round_frontier[body.round, item.track] = figure
                if parity is not None:
                    self.round_parity[body.round] = parity
            if body.role in {"frontier", "reference"}:
                other = body.role == "reference"
                self.material.measurements.append(Measurement(item.track, item.speed, at, identity, reference=other))
        if body.role != "candidate":
            return
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
                frontier_parity=self.round_parity.get(body.round) if body.round else None,
                clock=item.clock,
                samples=item.samples,
                filled=item.filled,
                at=at,
            )
            others = {track: value for track, value in values.items() if track != item.track}
            found.append(
                Candidate(identity, run, others, native=True, pins=self.figures, rules=self.published, index=index)
            )
        self.by_identity[identity] = found
        self.material.candidates += found

    def pinned(self, role: Role, track: Track) -> Figure | None:
        """The newest pin entry of a slot so far."""
        return self.figures.get(track.slot(role)) if self.figures else None

    def _pin(self, identity: str, body: Any, index: int, at: datetime) -> None:
        where = Position(index=index, field="body.slot")
        role, track = parse_slot(body.slot, position=where)
        value = check_pin(Fraction(body.value), slot=body.slot, position=where)
        check_unit(body.unit, track, position=Position(index=index, field="body.unit"))
        pin = PinRecord(role, track, value, body.unit, body.source, body.commit, at, where, True, identity)
        self.material.pins[body.slot] = pin
        self.figures = {**self.figures, body.slot: Figure(value, "pin", source=identity)}  # candidates keep their own
        self.material.pin_entries.append(pin)

    def _merge(self, body: Any, at: datetime) -> None:
        _, track = parse_slot(body.slot)
        won = [
            candidate.run.speed
            for candidate in self.by_identity.get(body.run or "", [])
            if candidate.run.track == track and candidate.run.speed is not None
        ]
        claimed = None if body.claimed is None else Fraction(body.claimed)
        value = won[0] if won else claimed
        self.material.merges.append(Merge(track, at, body.pull_request, body.commit, body.run, value, sealed=bool(won)))


def read_rule_entry(body: Any, index: int) -> Rule:
    """The rule that a ``rule`` entry publishes.

    Raises:
        RescoreError: ``K3L-RULE-PARAMETERS``, or ``K3L-RULE-DIGEST`` when it states another digest or arithmetic than
            its parameters have.
    """
    parameters = [(step.name, step.value) for step in body.parameters]
    rule = parse_parameters(body.rule, parameters, position=Position(index=index, field="body.parameters"))
    for field_name, stated, found in (
        ("rule_sha256", body.rule_sha256, rule.sha256),
        ("arithmetic", body.arithmetic, rule.arithmetic),
    ):
        if stated != found:
            raise RescoreError(
                Code.RULE_DIGEST,
                f"the {field_name} of rule {rule.name} is not that of its parameters",
                position=Position(index=index, field=f"body.{field_name}"),
                expected=found,
                found=stated,
            )
    return rule


def _said(body: Any) -> tuple[object, ...]:
    """What makes a verdict on a run the one it is: rule, pins, every derived figure."""
    return identify_verdict(
        {
            "rule_sha256": body.rule_sha256,
            "metric": body.metric,
            "tier": body.tier,
            "bound_by": body.bound_by,
            "pins": [{name: getattr(pin, name) for name in PIN_FIELDS} for pin in body.pins],
            "steps": [{"name": step.name, "value": step.value} for step in body.steps],
            "not_checked": body.not_checked,
        }
    )


def identify_verdict(body: Mapping[str, Any]) -> tuple[object, ...]:
    """Identity of a verdict's body beside its run: rule digest, pins in the order of their slots, derived figures."""
    return (
        body["rule_sha256"],
        body["metric"],
        body["tier"],
        body["bound_by"],
        tuple(sorted((tuple(pin[name] for name in PIN_FIELDS) for pin in body["pins"]), key=lambda pin: str(pin[0]))),
        tuple((step["name"], step["value"]) for step in body["steps"]),
        tuple(body["not_checked"]),
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
