"""What is gathered of a log for judging: runs with all that they are held against, judgements, pins, measurements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.doubt import UNFILLED, doubt_clock, doubt_work, newest_rule
from k3_ledger.rescore.rules.judging import count_claims
from k3_ledger.rescore.rules.parameters import GRADING
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.rescore.rules.verdict import NONE, REJECT
from k3_ledger.rescore.standing import SHIPPED as PUBLISHED
from k3_ledger.rescore.standing import Known, Standing, first_published, said_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from k3_ledger.rescore.inputs import ClockReading, Figure, RunInputs
    from k3_ledger.rescore.native import ActorSpeed
    from k3_ledger.rescore.pins import Merge, PinRecord
    from k3_ledger.rescore.reconcile import Measurement
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.slots import Track
    from k3_ledger.schemas.findings import Finding

CONTESTED: Final = "its records disagree about its tier"
"""Why an imported run supports nothing and is not refused either."""
DIFFERING: Final = "its imports differ"
"""Why a run that was imported more than once supports nothing and is not refused either."""
UNRECEIVED: Final = "no receipt of it can be read"
"""Why an imported run supports nothing: other records of it are figures that no receipt holds."""
REGISTERED: Final = MappingProxyType({rule.sha256: Known(rule.scope, PUBLISHED) for rule in RULES.values()})
"""The rules that are shipped, as verdicts may be by them, by digest."""
SHIPPED: Final = MappingProxyType({rule.sha256: rule for rule in RULES.values()})
"""These rules themselves."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A ``verdict`` entry about a run.

    Attributes:
        said: everything that it derives and what it was derived from; two verdicts on a run that agree in it are one.
        unproved: whether it gave no tier for want of what would bear the number out.
        bound_by: what decided it.
        steps: (name, exact text) of its intermediate values.
        supposed: whether a pin that it states was taken from a file, so that it publishes nothing.
        index: its position.
        pins: (slot, identity of the entry that it was taken from) of the pins that it states from an entry.
    """

    rule: str
    rule_sha256: str
    metric: str
    tier: str
    said: tuple[object, ...] = ()
    unproved: bool = False
    supposed: bool = False
    bound_by: str | None = None
    steps: tuple[tuple[str, str], ...] = ()
    index: int = 0
    pins: tuple[tuple[str, str], ...] = ()

    def step(self, name: str) -> Fraction | None:
        """One of its intermediate values; None where it states none of that name."""
        return next((Fraction(text) for key, text in self.steps if key == name), None)


@dataclass(slots=True)
class Candidate:
    """One metric of one run, ready to be held against a rule.

    Attributes:
        identity: of its entry; the foreign id for a log that was never imported.
        run: what the rule reads; its frontier and reference are those of its own time.
        others: measured value of every other metric of the same build.
        native: True when the run is a receipt of this ledger, False for an import.
        superseded: whether a later entry, or the foreign log itself, says that it no longer stands.
        verdicts: what was judged of its run and stands, oldest first; :attr:`said` of it on its track.
        pins: pin entries in force when it was appended, by slot.
        attestation: what attests the foreign receipt, as it says itself; None for a receipt of this ledger.
        measured: newest measurement of the frontier build by track: that of the run's own round, else the last one.
        rules: rules that the ledger itself had published by then, oldest first.
        built: greatest measurement of the frontier build on its track by then, in whatever round.
        built_alike: the same of those on the run's own weights.
        newest: newest measurement of the frontier build on its track by then, in whatever round, on whatever weights.
        clocks: readings of the wall clock for every other metric of the same build.
        index: position of its entry; None for a log that was never imported.
        known: rules that verdicts may be by, by digest: those that are registered, and those of the ledger itself, with
            where it published them.
        by_digest: these rules themselves.
        also: other names of it: identities and foreign ids of other imports of it, which are counted nowhere else.
        differing: how often and where it was imported, where that was not as the same.
        refused: whether its run was published as refused, on this metric or another.
        broken: whether the audit of its log found a digest over its records that does not hold.
    """

    identity: str
    run: RunInputs
    others: Mapping[Track, Fraction] = field(default_factory=dict)
    native: bool = False
    superseded: bool = False
    verdicts: list[Judged] = field(default_factory=list)
    pins: Mapping[str, Figure] = field(default_factory=dict)
    attestation: str | None = None
    measured: Mapping[Track, Figure] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    built: Figure | None = None
    built_alike: Figure | None = None
    newest: Figure | None = None
    clocks: Mapping[Track, ClockReading] = field(default_factory=dict)
    index: int | None = None
    known: Mapping[str, Known] = field(default_factory=lambda: REGISTERED)
    by_digest: Mapping[str, Rule] = field(default_factory=lambda: SHIPPED)
    also: tuple[str, ...] = ()
    differing: str = ""
    refused: bool = False
    broken: bool = False

    @property
    def label(self) -> str:
        """What to call its run: the start of the entry's identity, and of the run's own id where it has another."""
        if self.native or self.identity == self.run.run:
            return self.identity[:8]
        return f"{self.identity[:8]} (run {self.run.run[:8]})"

    @property
    def contested(self) -> str:
        """What is said otherwise of it elsewhere, so that no copy of it counts: its tier, or all of it."""
        return self.differing or self.run.contested

    @property
    def names(self) -> tuple[str, ...]:
        """Its identity, its foreign id, and other names of it."""
        return (self.identity, self.run.run, *self.also)

    @property
    def said(self) -> list[Judged]:
        """The verdicts on its run that may be about its track."""
        return said_of(self.run.track, self.verdicts, self.known)

    @property
    def decided(self) -> Judged | None:
        """The verdict that is published of a receipt of this ledger; None where none is, and for an import."""
        return first_published(self.said, self.known) if self.native else None

    @property
    def published(self) -> str | None:
        """The tier it was published with: what an import states, or the first verdict that counts on a run of ours.

        Nothing that is judged of it later changes that.
        """
        if not self.native:
            return None if self.differing else self.run.published
        found = self.decided
        return None if found is None else found.tier

    @property
    def accepted(self) -> bool:
        """Whether it was published with a tier, and its number counts; ``none`` is no tier."""
        return self.published not in {None, NONE, REJECT} and not self.voided

    @property
    def refused_by(self) -> str | None:
        """The gate that its published verdict names as what decided it; None for an import."""
        found = self.decided
        return None if found is None else found.bound_by

    @property
    def counted(self) -> Fraction | None:
        """What its run claims, as far as it counts."""
        return None if self.run.speed is None else self.count(self.run.speed)

    def count(self, speed: Fraction) -> Fraction:
        """How much of a speed of this track counts: no more than its clock bears out, where the rule asks.

        The rule is that of the published verdict where its gates grade the clock, else the newest house rule. An import
        has no clock of its own.
        """
        if not self.native:
            return speed
        rule = self.grading if self.clocked else newest_rule(self.run.track)
        counted = None if rule is None else count_claims(rule, replace(self.run, speed=speed)).speed
        return speed if counted is None else counted

    @property
    def ruled(self) -> Rule | None:
        """The rule of its published verdict; None where nothing is published of it."""
        found = self.decided
        return None if found is None else self.by_digest.get(found.rule_sha256)

    @property
    def grading(self) -> Rule | None:
        """The same where its gates grade: what one refuses is REJECT, and what one leaves open earns nothing."""
        rule = self.ruled
        return rule if rule is not None and rule.arithmetic in GRADING else None

    @property
    def clocked(self) -> bool:
        """Whether its published verdict answers for its clock: by a gate that grades the clock of this metric."""
        rule = self.grading
        return rule is not None and rule.clock is not None and self.run.track.metric in rule.clock.metrics

    @property
    def voided(self) -> str:
        """Why its number supports nothing: it was published as refused or as not proved, or no longer stands.

        So it is where its records or imports disagree about what was published, which is nothing against it. Empty
        where it does: a run that gained too little for a tier was measured all the same. What no gate of a published
        verdict graded, its own receipt is asked (:mod:`k3_ledger.rescore.doubt`): neither not judging nor judging
        leniently nor leaving evidence out must pay.
        """
        return self.void(self.run.speed)

    def void(self, speed: Fraction | None, *, own: bool = True) -> str:
        """The same of one speed of its track.

        Args:
            speed: the speed.
            own: whether it is the program's own word, for which its clock is asked.
        """
        if self.superseded:
            return "superseded"
        if not self.run.received:
            return UNRECEIVED
        if self.contested:
            return DIFFERING if self.differing else CONTESTED
        if self.refused or self.published == REJECT:
            return REJECT
        found = self.decided
        if found is not None and found.unproved:
            return "unproved"
        why = self._doubted(speed, own=own) if self.native else ""
        return why if found is None else why.replace("unjudged", f"judged by {found.rule} alone", 1)

    def _doubted(self, speed: Fraction | None, *, own: bool) -> str:
        """What its receipt says against a speed, or leaves out, of all that no gate of a published verdict graded."""
        run, rule = self.run, self.grading
        if own and not self.clocked and (why := doubt_clock(run.track, speed, run.clock)):
            return why
        why = doubt_work(run.track, run.parity, filled=run.filled)
        if rule is None:
            return why
        return why if why == UNFILLED and not (rule.sampling and rule.sampling.filled) else ""


@dataclass(frozen=True, slots=True)
class Fact:
    """How fast one actor was by one clock, as one receipt has it.

    Attributes:
        index: position of the receipt.
        stands: whether the receipt counts.
        commit: what was measured; None when the receipt names no commit.
        refuted: whether verdicts are derived as if it were not there: it is the program's own number, of a run that
            nobody judges, and its clock contradicts it (:func:`~k3_ledger.rescore.doubt.is_refuted`).
        reading: what the clock of the program's own number reads.
        doubted: why it supports nothing, of a run that nobody judges or of an actor beside the program; empty where it
            does.
        weights: digest of the weights; None where the receipt names none.
    """

    identity: str
    index: int
    time: datetime
    role: str
    speed: ActorSpeed
    stands: bool = True
    refuted: bool = False
    weights: str | None = None
    commit: str | None = None
    doubted: str = ""
    reading: ClockReading | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metric that a candidate timed and that is no measurement, so that no rule could score it.

    Attributes:
        metric: ``-`` where nothing was timed that could be one.
        reason: why, in words.
    """

    identity: str
    index: int
    metric: str
    reason: str
    at: datetime


@dataclass(slots=True)
class Material:
    """Everything that judging needs.

    Attributes:
        source: what it was gathered from, in words.
        candidates: runs to judge, in order.
        pins: newest ``pin`` entry of each slot.
        measurements: what the frontier builds, the other engine and the accepted runs measured, in order.
        merges: ``merge`` entries, in order.
        facts: what every actor of every receipt of this ledger was timed at, in order, superseded ones too.
        pin_entries: every ``pin`` entry that stands, in order.
        verdicts: every ``verdict`` entry that stands, as (index, body), in order.
        rules: every ``rule`` entry that stands, as (index, rule), in order.
        supersessions: every ``supersede`` entry that was not itself superseded, as (index, body), in order.
        withdrawn: those that no longer stand: verdicts under them are derived again all the same.
        known: rules that verdicts may be by, by digest, with where the ledger published them.
        standing: what was superseded, and when.
        left_out: metrics of candidates that are no measurement, in order.
        unread: what could not be read of imported runs: a record that is none, or a copy of a figure that is none.
        unjudged: names of imported runs of which therefore nothing could be judged.
        partly_read: names of those of which a record could not be read.
        weights: digest of the weights that runs measured, by identity; None of one that names none.
        repeats: which imports are of a run that is counted elsewhere, in words.
        audit_errors: how many findings of severity error the audit of a foreign log has; None for a ledger.
        unshown: what nothing shows of who wrote it and whether it is all, in words.
        sources: identities that ``pin`` entries name as their source, also of those that no longer stand.
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
    supersessions: list[tuple[int, Any]] = field(default_factory=list)
    withdrawn: list[tuple[int, Rule]] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=lambda: dict(REGISTERED))
    standing: Standing = field(default_factory=Standing)
    left_out: list[LeftOut] = field(default_factory=list)
    unread: list[Finding] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    partly_read: set[str] = field(default_factory=set)
    weights: dict[str, str | None] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    repeats: list[str] = field(default_factory=list)
    audit_errors: int | None = None
    unshown: list[str] = field(default_factory=list)

    def called(self, name: str) -> list[str]:
        """What a name could mean: itself where it is the whole of one, else one whole name for each that begins so."""
        known: list[tuple[str, ...]] = [(identity,) for identity in self.weights]
        known += [one.names for one in self.candidates]
        if any(name in names for names in known):
            return [name]
        begun = (next((full for full in names if full.startswith(name)), None) for names in known)
        return sorted({full for full in begun if full is not None})
