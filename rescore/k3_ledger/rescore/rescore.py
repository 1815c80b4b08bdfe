"""Judge a whole history again under a rule, and say what changes against what was published, and why.

A rule scores its own metric and context only. Runs it cannot score are counted with the reason; nothing is left out
in silence. Under ``in-force`` each run meets the rule that was in force when it was scored.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from k3_ledger.rescore.exact import format_percent
from k3_ledger.rescore.inputs import Figure, Mixed
from k3_ledger.rescore.rules.guards import DRIFT
from k3_ledger.rescore.rules.judging import count_claims
from k3_ledger.rescore.rules.registry import in_force
from k3_ledger.rescore.rules.score import score
from k3_ledger.rescore.rules.verdict import NONE, REJECT, NotScorable, Verdict
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from k3_ledger.rescore.inputs import Parity, RunInputs
    from k3_ledger.rescore.material import Candidate
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.verdict import Scored
    from k3_ledger.rescore.slots import Role, Track

IN_FORCE: Final = "in-force"
Pins: TypeAlias = "Literal['own', 'tag'] | Sequence[PinRecord]"
"""``own``: each run's own pins; ``tag``: references as the rule was released with them; or the pins of a file."""
Change: TypeAlias = Literal["unchanged", "lower", "higher", "other", "first", "not-comparable", "not-scorable"]
"""``first`` is a run that had no tier to compare with; ``other`` a change between tiers that have no order;
``not-comparable`` a run that was judged under rules alone that nobody had published by then, or whose records disagree
about its tier, so that none says anything."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs to judge; None takes all."""

    since: datetime | None = None
    until: datetime | None = None
    pull_request: int | None = None
    metric: str | None = None

    def takes(self, run: RunInputs) -> bool:
        """Whether a run is selected. A run that states no moment is outside every span of time."""
        return self.spans(run.at, run.track.metric) and self.pull_request in {None, run.pull_request}

    def spans(self, at: datetime | None, metric: str) -> bool:
        """Whether a moment and a metric are selected."""
        in_time = (self.since is None or (at is not None and at >= self.since)) and (
            self.until is None or (at is not None and at <= self.until)
        )
        return in_time and self.metric in {None, metric}


@dataclass(frozen=True, slots=True)
class Rescored:
    """One run under one rule.

    Attributes:
        rule: the rule it met; None when none was in force.
        before: the tier it is compared with; None when there is none.
        change: what became of it.
        why: what decided the tier before and now, where both are known.
        lacks: fields that are missing, gates that are not checked, figures that are inferred.
    """

    candidate: Candidate
    rule: Rule | None
    result: Scored
    before: str | None
    change: Change
    why: str
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RescoreReport:
    """All runs that were selected, in order."""

    rows: tuple[Rescored, ...]

    def count(self, change: Change) -> int:
        """How many runs changed like this."""
        return sum(row.change == change for row in self.rows)

    @property
    def not_admitted(self) -> tuple[tuple[str, str, str], ...]:
        """(run, tier, what a gate says) of runs that have a tier although the rule would not have admitted them."""
        return tuple(
            (row.candidate.identity, row.result.tier, f"{gate.name}: {gate.detail}")
            for row in self.rows
            if isinstance(row.result, Verdict) and row.result.not_admitted
            for gate in row.result.gates
            if gate.outcome is Outcome.FAIL
        )

    @property
    def reasons(self) -> Counter[str]:
        """Why runs could not be scored, with counts."""
        return Counter(row.result.message for row in self.rows if isinstance(row.result, NotScorable))


def rescore(
    candidates: Iterable[Candidate],
    rule: Rule | Literal["in-force"],
    *,
    pins: Pins = "own",
    against: Rule | Literal["published", "in-force"] = "published",
    selection: Selection | None = None,
) -> RescoreReport:
    """Judge runs under a rule and compare with what was published, or with another rule.

    For a receipt of a ledger the rule in force is the newest one the ledger itself had published before it; for an
    imported run it is that of the shipped history.

    Args:
        candidates: from :mod:`k3_ledger.rescore.replay`, in order.
        rule: a rule, or ``in-force`` for the one of each run's own moment.
        pins: whose pins the runs are held against, under both rules.
        against: what to compare with: what was published, or the same runs under a rule or the one of their moment.
        selection: which runs to judge. Runs that are not selected still carry the frontier forward.
    """
    judge = Judge(rule, pins)
    # What was published is explained by the rule of its own moment, where that gives the published tier.
    other = Judge(IN_FORCE, "own") if against == "published" else Judge(against, pins)
    rows = []
    for candidate in candidates:
        used, result = judge(candidate)
        compared = other(candidate)[1]
        if selection is None or selection.takes(candidate.run):
            rows.append(_row(candidate, used, result, compared, published=against == "published"))
    return RescoreReport(tuple(rows))


class Judge:
    """Applies one rule to runs in order, carrying the frontier of each track where no record states it."""

    def __init__(self, rule: Rule | Literal["in-force"], pins: Pins) -> None:
        self.rule = rule
        self.pins = pins
        self.best: dict[Track, Figure] = {}
        self.best_alike: dict[tuple[Track, str | None], Figure] = {}
        self._weighs = isinstance(rule, str) or rule.weighs

    def asked_for(self, pins: Pins) -> Judge:
        """A judge who was given other pins, at this point of the order."""
        judge = Judge(self.rule, pins)
        judge.best, judge.best_alike = self.best, self.best_alike
        return judge

    def __call__(self, candidate: Candidate) -> tuple[Rule | None, Scored]:
        """Judge the next run in order, and let it move the frontier of its track."""
        rule, result = self._judge(candidate, None)
        self.move(candidate, result)
        return rule, result

    def may_move(self, candidate: Candidate) -> bool:
        """Whether a run could move the frontier of its track if its verdict lets it."""
        speed = candidate.run.speed
        if not candidate.native or candidate.superseded or speed is None:
            return False
        return bool(self._lower(candidate.run, speed))

    def _lower(self, run: RunInputs, speed: Fraction) -> list[tuple[Any, Any]]:
        """What a speed is above of the frontier of its track, and of the same on its weights where the rule asks."""
        books: list[tuple[Any, Any]] = [(self.best, run.track)]
        if self._weighs:
            books.append((self.best_alike, (run.track, run.weights)))
        known = [(book, key, book.get(key)) for book, key in books]
        return [(book, key) for book, key, held in known if held is None or speed > held.value]

    def move(self, candidate: Candidate, result: Scored) -> None:
        """Let a run that no gate refused or left open move the frontier of its track."""
        run = candidate.run
        if isinstance(result, NotScorable) or result.refused_by or result.not_checked or not self.may_move(candidate):
            return
        rule = self._rule(candidate)
        assert not isinstance(rule, NotScorable), "it gave a verdict"
        speed = count_claims(rule, run).speed
        assert speed is not None, "may_move() asks"
        for book, key in self._lower(run, speed):
            book[key] = Figure(speed, "receipt", source=run.run, weights=run.weights)

    def peek(self, candidate: Candidate, stated: Mapping[str, Figure] | None = None) -> Scored:
        """Judge a run at this point of the order and leave everything as it is.

        Args:
            candidate: the run.
            stated: pins by slot to hold it against instead of those that would be found for it.
        """
        return self._judge(candidate, stated)[1]

    def _judge(self, candidate: Candidate, stated: Mapping[str, Figure] | None) -> tuple[Rule | None, Scored]:
        rule = self._rule(candidate)
        if isinstance(rule, NotScorable):
            return None, rule
        run = self._held(rule, candidate)
        if stated is not None:
            run = run.with_pins(
                frontier=stated.get(run.track.slot("frontier")),
                reference=stated.get(run.track.slot("reference")),
                guard_pin=stated.get(self._guard_slot(rule, run)),
                guard_measured=stated.get(self._guard_slot(rule, run, "frontier")),
            )
        return rule, score(rule, run)

    def _rule(self, candidate: Candidate) -> Rule | NotScorable:
        run = candidate.run
        if self.rule != IN_FORCE:
            return self.rule
        if candidate.native:
            return self._published(candidate)
        if run.at is None:
            return NotScorable(run.run, IN_FORCE, "missing", "cannot re-score: field at is missing", "at")
        try:
            return in_force(run.at, run.commit)
        except RescoreError as error:
            return NotScorable(run.run, IN_FORCE, "missing", f"cannot re-score: {error}", "rule")

    def _published(self, candidate: Candidate) -> Rule | NotScorable:
        """The newest rule for this metric and context that the ledger itself had published by then."""
        track = candidate.run.track
        for rule in reversed(candidate.rules):
            if (rule.scope.metric, rule.scope.context) == (track.metric, track.context):
                return rule
        message = f"cannot re-score: the ledger had published no rule for {track.short}"
        return NotScorable(candidate.identity, IN_FORCE, "missing", message, "rule")

    def _held(self, rule: Rule, candidate: Candidate) -> RunInputs:
        """The run with the pins it is to be held against, and the guarded metric the rule names."""
        run = candidate.run
        if candidate.native and rule.bears_out:
            built = candidate.built_alike if rule.weighs else candidate.built
            run = _raised(candidate, built, repeats=rule.repeats)
        if candidate.native and run.frontier is None:
            best = self.best_alike.get((run.track, run.weights)) if rule.weighs else self.best.get(run.track)
            run = dataclasses.replace(run, frontier=best or _FIRST)
        if rule.weighs:
            run = self._weighed(rule, candidate, run)
        if rule.guard:
            track = run.track.at(rule.guard.metric, rule.guard.context)
            pin = _guard_pin(candidate, track)
            run = dataclasses.replace(
                run,
                guarded=candidate.others.get(track),
                guard_pin=pin or run.guard_pin,
                guard_measured=candidate.measured.get(track),
                guarded_clock=candidate.clocks.get(track),
            )
        others = {
            "frontier": self._pin(rule, run.track.slot("frontier"), tag=False),
            "reference": self._pin(rule, run.track.slot("reference"), tag=True),
            "guard_pin": self._pin(rule, self._guard_slot(rule, run), tag=True),
        }
        if rule.weighs and run.mixed is None:
            asked = [(f"the {figure.origin}'s pin", figure) for figure in others.values() if figure is not None]
            run = dataclasses.replace(run, mixed=_find_mixed(run.weights, asked))
        return run.with_pins(**others)

    def _weighed(self, rule: Rule, candidate: Candidate, run: RunInputs) -> RunInputs:
        """The run, with what it would be held against and is not of its weights.

        The other engine's value is no frontier of anybody's: one of other weights is as good as none.
        """
        track, own = run.track, candidate.run
        held: list[tuple[str, Figure | Parity | None]] = [
            ("the frontier run of its round", own.frontier if own.frontier and own.frontier.origin != "pin" else None),
            (f"the pin of {track.short}", candidate.pins.get(track.slot("frontier"))),
        ]
        if run.frontier is _FIRST:
            held.append(("the newest frontier run", candidate.newest))
            held.append(("the best run before it", self.best.get(track)))
        if rule.ratchet:
            held.append(("the divergence of its round's frontier run", own.frontier_parity))
        if rule.guard:
            guarded = track.at(rule.guard.metric, rule.guard.context)
            held.append((f"the pin of {guarded.short}", _guard_pin(candidate, guarded)))
            if rule.reconciles:
                held.append((f"the newest frontier run of {guarded.short}", candidate.measured.get(guarded)))
        reference = run.reference if run.reference and run.reference.weights == run.weights else None
        return dataclasses.replace(run, reference=reference, mixed=_find_mixed(run.weights, held))

    def _guard_slot(self, rule: Rule, run: RunInputs, role: Role = "guard") -> str:
        guard = rule.guard
        return run.track.at(guard.metric, guard.context).slot(role) if guard else ""

    def _pin(self, rule: Rule, slot: str, *, tag: bool) -> Figure | None:
        """Another pin than the run's own, where the caller asked for one."""
        if self.pins == "own":
            return None
        if self.pins == "tag":
            value = rule.pin(slot) if tag else None
            return None if value is None else Figure(value, "rule", source=rule.name)
        record = next((pin for pin in self.pins if pin.slot == slot), None)
        if record is None:
            return None
        return Figure(record.value, "file", source=str(record.position), weights=record.weights)


NO_RUN: Final = "no earlier run of this track"
"""Source of the figure of a first run."""
_FIRST: Final = Figure(Fraction(0), "receipt", source=NO_RUN)
"""What a run is held against where nothing was measured before."""


def _guard_pin(candidate: Candidate, track: Track) -> Figure | None:
    """The pin in force that a guarded metric is held against."""
    return candidate.pins.get(track.slot("guard")) or candidate.pins.get(track.slot("frontier"))


def _find_mixed(own: str | None, held: Iterable[tuple[str, Figure | Parity | None]]) -> Mixed | None:
    """The first of what a run is held against that is not known to be of its weights; None where all is."""
    if own is None:
        return Mixed("the run", None)
    return next((Mixed(what, one.weights) for what, one in held if one is not None and one.weights != own), None)


def _raised(candidate: Candidate, built: Figure | None, *, repeats: bool) -> RunInputs:
    """The run with a frontier that never falls: the greatest of its round's, its pin and any frontier build's before.

    Where the round's own is more than :data:`DRIFT` below the others, that is an alarm: equality is none. Of several it
    is the fastest that has to be there, where the rule asks for several (``repeats``): the others say what they differ
    by.
    """
    run, own = candidate.run, candidate.run.frontier
    figures = [candidate.pins.get(run.track.slot("frontier")), built]
    held = max([figure for figure in figures if figure], key=lambda figure: figure.value, default=None)
    if held is None:
        return run
    if own is None or own.origin == "pin" or own.value < held.value:
        fell = own is not None and own.origin != "pin" and own.value < (1 - DRIFT) * held.value
        if repeats and run.repeats is not None:
            fell = fell and run.repeats.greatest < (1 - DRIFT) * held.value
        return dataclasses.replace(run, frontier=held, alarm=own if fell else None)
    return run


def unused_pins(rows: Iterable[Rescored], pins: Pins) -> list[PinRecord]:
    """Pins of a file that no run was held against, in the file's order: another track, or one that no rule asks for."""
    if isinstance(pins, str):
        return []
    verdicts = [row.result for row in rows if isinstance(row.result, Verdict)]
    used = {pin.slot for verdict in verdicts for pin in verdict.pins if pin.origin == "file"}
    return [pin for pin in pins if pin.slot not in used]


def _row(candidate: Candidate, rule: Rule | None, result: Scored, compared: Scored, *, published: bool) -> Rescored:
    before = compared.tier if isinstance(compared, Verdict) else None
    explained = before is not None
    if published:
        said = candidate.published
        before, explained = said, said == before
    if isinstance(result, NotScorable):
        return Rescored(candidate, rule, result, before, "not-scorable", result.message, (result.field or "scope",))
    assert rule is not None
    change = order_change(rule, before, result.tier)
    judged = candidate.native and not all(one.supposed for one in candidate.said)
    if published and before is None and (judged or candidate.contested):
        change = "not-comparable"
    then = f"{_because(compared)} -> " if isinstance(compared, Verdict) and explained and change != "unchanged" else ""
    return Rescored(candidate, rule, result, before, change, then + _because(result), _lacks(candidate.run, result))


def order_change(rule: Rule, before: str | None, now: str) -> Change:
    """How a tier compares with the one before it, in the order of a rule's tiers."""
    order = [REJECT, NONE, rule.tiers.floor, *(name for name, _ in reversed(rule.tiers.steps))]
    if before is None:
        return "first"
    if before == now:
        return "unchanged"
    if before not in order or now not in order:
        return "other"
    return "lower" if order.index(now) < order.index(before) else "higher"


def _because(verdict: Verdict) -> str:
    """What decided a tier, in a few words with its numbers."""
    if verdict.credit is not None and verdict.bound_by == verdict.credit_bound:
        return f"{verdict.bound_by} {format_percent(verdict.credit)} %"
    detail = next((gate.detail for gate in verdict.gates if gate.name == verdict.bound_by and gate.detail), "")
    if detail:
        return f"{verdict.bound_by}: {detail}"
    return verdict.bound_by if verdict.gain is None else f"{verdict.bound_by}: gain {format_percent(verdict.gain)} %"


def _lacks(run: RunInputs, verdict: Verdict) -> tuple[str, ...]:
    pins = (f"{pin.slot.partition(':')[0]} (inferred)" for pin in verdict.pins if pin.figure.inferred)
    return (*verdict.not_checked, *pins, *(f"{name} (inferred)" for name in run.inferred))
