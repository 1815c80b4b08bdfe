"""Prepared receipts, graded in the ledger's order: what needs a pin, a round, or the frontier as it has climbed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.native import DECIMALS
from k3_ledger.rescore.replay import Gathering, Material
from k3_ledger.rescore.rescore import Judge, order_change
from k3_ledger.rescore.rules.guards import DRIFT
from k3_ledger.rescore.rules.parameters import GRADING
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT, Verdict
from k3_ledger.rescore.slots import Track
from k3_ledger.rescore.sweeping.numbers import SCALE, pair, round_half_even
from k3_ledger.rescore.sweeping.prepare import Scored, Standing
from k3_ledger.rescore.sweeping.rounds import Bounds, Rounds
from k3_ledger.verify.log import entries_of, read_entry

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.prepare import Agreement, Place, Prepared, Unscored
    from k3_ledger.verify.log import VerifiedEntry

NOT_SCORABLE: Final = "not scorable"


@dataclass(slots=True)
class Sweep:
    """What a sweep found.

    Attributes:
        tiers: how many metrics of runs got each tier; :data:`NOT_SCORABLE` for those the rule does not score.
        changes: how many of those that had been judged changed, by kind of change; ``first`` for the others.
        slow: how many were out of the ordinary.
        changed: (index, tier before, tier now) of each run that changed.
        imports: how many imported runs stand in the log, which are not judged.
        left_out: how many metrics of candidates are no measurement, by why.
    """

    tiers: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    changed: list[tuple[int, str, str]] = field(default_factory=list)
    imports: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class _Lane:
    """One track, with everything about it that is looked up for each of its runs."""

    __slots__ = ("best", "frontier_slot", "guard", "guard_slots", "held", "reference_slot", "speed", "track")

    def __init__(self, track: Track, guard: Track | None) -> None:
        self.track, self.guard = track, guard
        self.frontier_slot, self.reference_slot = track.slot("frontier"), track.slot("reference")
        self.guard_slots = (guard.slot("guard"), guard.slot("frontier")) if guard else ("", "")
        self.best: Figure | None = None
        self.speed = 0
        self.held: _Held | None = None

    def take(self, best: Mapping[Track, Figure]) -> None:
        """The frontier as it has climbed, and in ``10**-6`` units per second: measured speeds have no more decimals."""
        self.best = best.get(self.track)
        self.speed = 0 if self.best is None else int(self.best.value * SCALE)


class Settling:
    """Everything that is carried from entry to entry."""

    def __init__(self, rule: Rule, disowned: frozenset[int] = frozenset()) -> None:
        self.rule = rule
        self.disowned = disowned
        self.result = Sweep()
        self.judged_before = False
        self._superseded: set[str] = set()
        self._gathering = Gathering(Material("verified ledger"), self._superseded)
        self._judge = Judge(rule, "own")
        self._before: dict[tuple[str, str], str] = {}
        self._unknown: set[tuple[str, str]] = set()
        self._lanes: dict[Place, _Lane] = {}
        self._rounds = Rounds(rule, self._gathering)
        self._grading = _Grading(rule)
        self._chunk = b""
        self._entries: list[bytes] = []

    def note(self, entry: VerifiedEntry, known: Container[str]) -> None:
        """Remember a verdict or a supersession, which stand behind the run they are about.

        Args:
            entry: one that stands.
            known: digests of the rules whose verdicts count.
        """
        noted = entry.entry
        if noted.kind == "verdict":
            about = noted.body.target, noted.body.metric
            if noted.body.rule_sha256 in known:
                self._before.setdefault(about, noted.body.tier)
            else:
                self._unknown.add(about)
        elif noted.kind == "supersede":
            self._superseded.add(noted.body.target)

    def settle(self, first: int, chunk: bytes, prepared: Prepared) -> None:
        """Take the next chunk in; ``first`` is the position of its first entry."""
        self._chunk, self._entries = chunk, []
        self.judged_before = self.judged_before or prepared.judged
        disowned = self.disowned
        self.result.imports += sum(first + offset not in disowned for offset in prepared.imports)
        tiers, plain = self.result.tiers, not (self._before or self._unknown)
        for item in prepared.items:
            if type(item) is Scored and plain and not disowned:
                tier = self._tier(item)
                if tier is not None:
                    tiers[tier] += 1
                    if len(item.metrics) > 1:
                        tiers[NOT_SCORABLE] += len(item.metrics) - 1
                    continue
            self._settle(first, item)
        if plain and (scored := sum(tiers.values()) - tiers[NOT_SCORABLE]):
            self.result.changes["first"] = scored

    def _settle(self, first: int, item: Scored | Unscored | Standing | int) -> None:
        """One item, whatever it is."""
        if isinstance(item, int):
            offset, candidate = (item, False) if item >= 0 else (~item, True)
        else:
            offset, candidate = item[0] if isinstance(item, tuple) else item.offset, True
        if first + offset in self.disowned:
            return
        if isinstance(item, Standing):
            if not self._superseded or sha256(self._data(offset)).hexdigest() not in self._superseded:
                self._rounds.take(item)
        elif not candidate:
            self._take(read_entry(first + offset, self._data(offset)))
            self._forget()
        else:
            found = self._found(first, offset, item)
            self.result.tiers.update(tier for _, tier in found)
            if self._before or self._unknown:
                self._compare(first + offset, offset, found)

    def _take(self, entry: VerifiedEntry) -> None:
        """Have an entry gathered, by the explaining path, beside what it would have gathered before."""
        if entry.entry.kind == "run":
            self._rounds.spell_out(entry.entry.body.round)
        self._gathering.take(entry)

    def _forget(self) -> None:
        """Drop what is gathered for others: no later run is held against it."""
        material = self._gathering.material
        for kept in (material.candidates, material.facts, material.measurements, material.merges, material.pin_entries):
            kept.clear()
        self._gathering.by_identity.clear()

    def _data(self, offset: int) -> bytes:
        if not self._entries:
            self._entries = entries_of(self._chunk)
        return self._entries[offset]

    def _found(self, first: int, offset: int, item: Scored | Unscored | int) -> list[tuple[str, str]]:
        """(metric, tier) of every metric of a candidate, in order."""
        if isinstance(item, Scored):
            tier = self._tier(item)
            if tier is not None:
                if len(item.metrics) == 1:
                    return [(item.metrics[0], tier)]
                found = [(metric, NOT_SCORABLE) for metric in item.metrics]
                found[item.at] = (item.metrics[item.at], tier)
                return found
        elif not isinstance(item, int):
            return [(metric, NOT_SCORABLE) for metric in item[1]]
        return self._explained(first + offset, self._data(offset))

    def _compare(self, index: int, offset: int, found: list[tuple[str, str]]) -> None:
        """Count what became of what was judged before."""
        identity = sha256(self._data(offset)).hexdigest()
        for metric, tier in found:
            if tier == NOT_SCORABLE:
                continue
            was = self._before.get((identity, metric))
            change = order_change(self.rule, was, tier)
            if was is None and (identity, metric) in self._unknown:
                change = "not-comparable"
            self.result.changes[change] += 1
            if was is not None and change != "unchanged":
                self.result.changed.append((index, was, tier))

    def _explained(self, index: int, data: bytes) -> list[tuple[str, str]]:
        """The same by the explaining path."""
        self.result.slow += 1
        self._take(read_entry(index, data))
        material = self._gathering.material
        found = []
        for candidate in material.candidates:
            candidate.superseded = candidate.identity in self._superseded
            result = self._judge(candidate)[1]
            tier = result.tier if isinstance(result, Verdict) else NOT_SCORABLE
            found.append((candidate.run.track.metric, tier))
        self.result.left_out.update(f"{one.metric}: {one.reason}" for one in material.left_out)
        material.left_out.clear()
        self._forget()
        for lane in self._lanes.values():
            lane.take(self._judge.best)
        return found

    def _lane(self, place: Place) -> _Lane:
        lane = self._lanes.get(place)
        if lane is None:
            scope, guard = self.rule.scope, self.rule.guard
            track = Track(scope.metric, scope.context, *place)
            lane = _Lane(track, track.at(guard.metric, guard.context) if guard else None)
            lane.take(self._judge.best)
            self._lanes[place] = lane
        return lane

    def _tier(self, item: Scored) -> str | None:
        """Tier of what the rule scores; None when it is out of the ordinary."""
        lane, gathering = self._lane(item.place), self._gathering
        frontier = reference = guard = newest = beside = None
        if item.round is not None:
            frontier = gathering.round_frontier.get((item.round, lane.track))
            beside = self._rounds.beside(item.round)
        if gathering.references:
            reference = gathering.references.get(lane.track)
        if pins := gathering.figures:
            frontier = frontier or pins.get(lane.frontier_slot)
            reference = reference or pins.get(lane.reference_slot)
            guard = pins.get(lane.guard_slots[0]) or pins.get(lane.guard_slots[1])
            if lane.guard is not None:
                newest = gathering.newest(item.round, lane.guard)
        frontier = frontier or lane.best
        held = lane.held
        if (
            held is None
            or held.frontier is not frontier
            or held.reference is not reference
            or held.guard is not guard
            or held.newest is not newest
        ):
            held = lane.held = self._grading.hold(frontier, reference, guard, newest)
        graded = self._grading.tier(item, held, beside)
        if graded is None:
            return None
        tier, clean = graded
        if clean and (lane.best is None or item.speed > lane.speed):
            self._advance(item, lane)
        return tier

    def _advance(self, item: Scored, lane: _Lane) -> None:
        """A run that no gate refused or left open moves the frontier of its track."""
        identity = sha256(self._data(item.offset)).hexdigest()
        if identity not in self._superseded:
            self._judge.best[lane.track] = Figure(Fraction(item.speed, SCALE), "receipt", source=identity)
            lane.take(self._judge.best)


@dataclass(slots=True)
class _Held:
    """What a run is held against, and what follows from it for every speed.

    Attributes:
        frontier, reference, guard, newest: the figures.
        base: numerator and denominator of the frontier; (0, 1) when there is none.
        still: the most, in the rule's own decimals, that is no significant gain.
        most: the most that the ceiling lets through, in ``10**-6`` units per second; None when it has no base.
        least: the least that the guard lets through, likewise; None when there is no pin, or none that counts.
    """

    frontier: Figure | None
    reference: Figure | None
    guard: Figure | None
    newest: Figure | None
    base: tuple[int, int]
    still: int
    most: int | None
    least: int | None


class _Grading:
    """A rule's numbers as integers, and what of it needs a pin."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.grades = rule.arithmetic in GRADING
        self.steps = [(name, *pair(bar)) for name, bar in rule.tiers.steps]
        self.significance = pair(rule.tiers.significance)
        self.cap = pair(rule.credit.cap)
        self.anchored = rule.credit.anchored(rule.scope.metric)
        self.unit = 10**rule.precision.speed
        self.coarser = 10 ** max(0, DECIMALS - rule.precision.speed)
        if rule.precision.speed > DECIMALS:
            self.unit = SCALE
        self.has_ceiling, self.has_ratchet = rule.ceiling is not None, rule.ratchet is not None
        self.has_guard = rule.guard is not None
        self.multiple = pair(rule.ceiling.multiple) if rule.ceiling else (0, 1)
        self.least = pair(rule.guard.least) if rule.guard else (0, 1)
        self.block = rule.ratchet.block if rule.ratchet else Fraction(0)
        self._bounds: Bounds | None = None

    def hold(
        self, frontier: Figure | None, reference: Figure | None, guard: Figure | None, newest: Figure | None
    ) -> _Held:
        """What follows from the figures that a run is held against."""
        base = numerator, denominator = pair(frontier.value) if frontier else (0, 1)
        share, whole = self.significance
        return _Held(
            frontier,
            reference,
            guard,
            newest,
            base,
            (share + whole) * numerator * self.unit // (denominator * whole),
            self._most(base, reference),
            self._floor(guard, newest),
        )

    def _floor(self, guard: Figure | None, newest: Figure | None) -> int | None:
        """The least that the guard lets through: of the pin, or where pins are reconciled of the greater of two."""
        if guard is None:
            return None
        held = guard.value
        if self.rule.reconciles:
            if newest is None or abs(newest.value - held) > DRIFT * held:
                return None
            held = max(held, newest.value)
        least, of = self.least
        return -(-least * held.numerator * SCALE // (of * held.denominator))

    def tier(self, item: Scored, held: _Held, beside: Agreement | Parity | None) -> tuple[str, bool] | None:
        """(tier, whether no gate refused or is open); ``not scorable`` where a reference is missing.

        None when the divergence beside it is no ordinary one, or the claim stands on a tie of the rule's decimals:
        what it was rounded from may not.
        """
        if self.coarser > 1 and item.speed % self.coarser * 2 == self.coarser:
            return None
        graded = self._grade(item.speed, held)
        if graded is None:
            return NOT_SCORABLE, False
        outcome = item.gates
        if outcome is not False:
            found = self._held_to(item, held, beside, first=graded == BASELINE and self.grades)
            if found is _NO_ORDINARY_ONE:
                return None
            outcome = _both(outcome, found)  # type: ignore[arg-type]
        clean = outcome is True
        if not self.grades:
            return (REJECT if item.correct is False else graded), clean
        if outcome is False:
            return REJECT, False
        return (graded if clean else NONE), clean

    def _held_to(
        self, item: Scored, held: _Held, beside: Agreement | Parity | None, *, first: bool
    ) -> bool | object | None:
        """All gates that need a figure, in one word; a first run is held to the ceiling alone, where it has a base."""
        outcome: bool | None = True
        if self.has_ceiling:
            if held.most is None:
                outcome = True if first else None
            elif item.speed > held.most:
                return False
        if first:
            return outcome
        if self.has_ratchet:
            ratchet = self._ratchet(item, beside)
            if ratchet is False or ratchet is _NO_ORDINARY_ONE:
                return ratchet
            outcome = _both(outcome, ratchet)  # type: ignore[arg-type]
        if self.has_guard:
            if item.guarded is None or held.least is None:
                return None
            if item.guarded < held.least:
                return False
        return outcome

    def _grade(self, speed: int, held: _Held) -> str | None:
        numerator, denominator = held.base
        if numerator <= 0:
            return BASELINE
        scaled = round_half_even(speed, self.coarser) if self.coarser > 1 else speed
        if scaled <= held.still:
            return NONE
        unit = self.unit
        base = numerator * unit
        difference = scaled * denominator - base
        if not self.anchored:
            return self._name(difference, base)
        if held.reference is None:
            return None
        anchor, over = pair(held.reference.value)
        # d/L and cap*g with one denominator each: the lesser is the credit.
        by_anchor = (difference * over, denominator * unit * anchor)
        by_cap = (difference * self.cap[0], base * self.cap[1])
        return self._name(*(by_anchor if by_anchor[0] * by_cap[1] <= by_cap[0] * by_anchor[1] else by_cap))

    def _name(self, numerator: int, denominator: int) -> str:
        for name, bar, whole in self.steps:
            if numerator * whole >= bar * denominator:
                return name
        return self.rule.tiers.floor

    def _most(self, mine: tuple[int, int], reference: Figure | None) -> int | None:
        if self.rule.ceiling is None:
            return None
        base = None if reference is None else pair(reference.value)
        if self.rule.ceiling.basis == "own-best":
            if mine[0] and (base is None or mine[0] * base[1] > base[0] * mine[1]):
                base = mine
            base = base if base and base[0] else None
        if base is None:
            return None
        multiple, whole = self.multiple
        return multiple * base[0] * SCALE // (base[1] * whole)

    def _ratchet(self, item: Scored, beside: Agreement | Parity | None) -> bool | object | None:
        if not item.depths or beside is None:
            return None
        bounds = self._bounds
        if bounds is None or beside is not bounds.beside:
            bounds = self._bounds = Bounds(beside, self.block)
        if not bounds.depths.issuperset(item.depths):
            return None
        for depth, kl in item.kls:
            bound = bounds.at(depth)
            if bound is None:
                return _NO_ORDINARY_ONE
            if kl > bound:
                return False
        return True


_NO_ORDINARY_ONE: Final = object()


def _both(one: bool | None, other: bool | None) -> bool | None:
    """Two gates as one: refused if either refuses, open if either is."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
