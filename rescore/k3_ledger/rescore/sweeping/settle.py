"""Prepared receipts, graded in the ledger's order: what needs a pin, a round, or the frontier as it has climbed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from sys import intern
from typing import TYPE_CHECKING, TypeAlias

from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.native import read_weights
from k3_ledger.rescore.replay import Gathering
from k3_ledger.rescore.rescore import Judge, order_change
from k3_ledger.rescore.rules.guards import DRIFT
from k3_ledger.rescore.rules.verdict import REJECT, Verdict
from k3_ledger.rescore.slots import ABSENT
from k3_ledger.rescore.standing import is_supposed, publishes
from k3_ledger.rescore.sweeping.agreement import Ratchet
from k3_ledger.rescore.sweeping.grading import NOT_SCORABLE, Grading
from k3_ledger.rescore.sweeping.items import Scored, Standing, Unscored
from k3_ledger.rescore.sweeping.lanes import Found, Lane
from k3_ledger.rescore.sweeping.numbers import SCALE
from k3_ledger.rescore.sweeping.rounds import NO_ROUND, Rounds, digest_of
from k3_ledger.rescore.sweeping.sources import UnweighedError, find_weights, named_sources
from k3_ledger.verify.again import Lines
from k3_ledger.verify.log import entries_of, read_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.repeats import Repeats
    from k3_ledger.rescore.standing import Known as KnownRule
    from k3_ledger.rescore.sweeping.agreement import Beside
    from k3_ledger.rescore.sweeping.grading import Known
    from k3_ledger.rescore.sweeping.items import Agreement, Item, Place, Prepared
    from k3_ledger.rescore.sweeping.lanes import Asked
    from k3_ledger.rescore.sweeping.rounds import Measured, Round
    from k3_ledger.verify.again import Piece
    from k3_ledger.verify.log import VerifiedEntry


_Figures: TypeAlias = "tuple[Known, Known, Known, Known]"


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
        not_admitted: how many have a tier although the rule would not have admitted them.
    """

    tiers: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    changed: list[tuple[int, str, str]] = field(default_factory=list)
    imports: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    not_admitted: int = 0


class Settling:
    """Everything that is carried from entry to entry.

    Args:
        rule: the rule.
        disowned: positions of entries that a revocation took back.
        kept: how many rounds are kept; None keeps all.
        weights: digest of the weights of each source of a pin, by identity, where the rule asks for them; None where
            nobody has looked, so that sources are looked for in the chunk of their pin and the one in front of it.
    """

    def __init__(
        self,
        rule: Rule,
        disowned: frozenset[int] = frozenset(),
        *,
        kept: int | None = None,
        weights: Mapping[str, str | None] | None = None,
    ) -> None:
        self.rule = rule
        self.disowned = disowned
        self._kept, self._known_weights = kept, weights
        self.result = Sweep()
        self.judged_before = False
        self._superseded: set[str] = set()
        self._gathering = Gathering(Material("verified ledger"), self._superseded)
        self._gathering.keeps = frozenset()
        self._gathering.repeats = self._asks_repeats = rule.repeats
        self._gathering.material.weights |= weights or {}
        self._searches = rule.weighs and weights is None
        self._searched = False
        self._judge = Judge(rule, "own")
        self._before: dict[bytes, str] = {}
        self._unknown: set[bytes] = set()
        self._lanes: dict[Place, Lane] = {}
        self._rounds = Rounds(rule, self._gathering, kept)
        self._grading = Grading(rule)
        self._ratchet = Ratchet(rule)
        self._beside: tuple[Agreement | Parity, Beside] | None = None
        self._asked: Asked | None = None
        self._found: Found | None = None
        self._piece: Piece = Lines(b"")
        self._previous: Piece = self._piece
        self._first = 0
        self._files: set[str] = set()
        self._entries: list[bytes] = []
        self._places: list[Place] = []

    def anew(self) -> Settling:
        """The same, before anything was settled."""
        return Settling(self.rule, self.disowned, kept=self._kept, weights=self._known_weights)

    @property
    def all_stand(self) -> bool:
        """Whether no run is known to count for nothing."""
        return not (self.disowned or self._superseded)

    def note(self, entry: VerifiedEntry, known: Mapping[str, KnownRule]) -> None:
        """Remember a verdict or a supersession, which stand behind the run they are about.

        Args:
            entry: one that stands.
            known: rules that verdicts may be by, by digest.
        """
        noted = entry.entry
        if noted.kind == "verdict":
            digest = noted.body.rule_sha256
            if is_supposed(noted.body) or (digest in known and known[digest].scope != self.rule.scope):
                return  # what it says of another context is not about what is scored here
            about = bytes.fromhex(noted.body.target) + noted.body.metric.encode()  # half of what two texts take
            if publishes(digest, known, supposed=False, at=entry.index):
                self._before.setdefault(about, intern(noted.body.tier))
            else:
                self._unknown.add(about)
        elif noted.kind == "supersede":
            self._superseded.add(noted.body.target)

    def settle(self, first: int, piece: Piece, prepared: Prepared) -> None:
        """Take the next chunk in, which is read where something in it is out of the ordinary.

        Args:
            first: position of its first entry.
            piece: where it is to be had.
            prepared: what was made of it.

        Raises:
            StoreError: it changed since it was verified.
            LedgerError: a pin or a rule entry is none.
            ForgottenError: it says something of a round that is no longer kept.
            UnweighedError: it pins what was measured long ago.
        """
        self._previous, self._searched = self._piece if self._searches else Lines(b""), False
        self._piece, self._first, self._entries, self._places = piece, first, [], prepared.places
        self._files.update([place[3] for place in prepared.places])
        self._found = None
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

    def _settle(self, first: int, item: Item) -> None:
        """One item, whatever it is."""
        if isinstance(item, int):
            offset, candidate = (item, False) if item >= 0 else (~item, True)
        else:
            offset, candidate = item.offset, True
        if first + offset in self.disowned:
            return
        if isinstance(item, Standing):
            if not self._superseded or sha256(self._data(offset)).hexdigest() not in self._superseded:
                self._found = None
                self._rounds.take(item, self._places[item.place])
        elif not candidate:
            entry = read_entry(first + offset, self._data(offset))
            if self.rule.weighs and entry.entry.kind == "pin":
                self._weigh(entry.entry.body.source)
            self._take(entry)
            self._forget()
        else:
            found = self._judged(first, offset, item)
            self.result.tiers.update(tier for _, tier in found)
            if self._before or self._unknown:
                self._compare(first + offset, offset, found)

    def _weigh(self, source: str) -> None:
        """Find out which weights the source of a pin measured."""
        weights = self._gathering.material.weights
        if self._searches and source not in weights:
            if not self._searched:  # one search for all pins of the chunk: each would cost as much
                self._searched = True
                previous, chunk = self._previous.read(), self._piece.read()
                both = (self._first - previous.count(b"\n"), previous), (self._first, chunk)
                weights |= find_weights(both, named_sources(chunk), self.disowned)
            if source not in weights:
                raise UnweighedError(source)
        self._files.add(weights.get(source) or ABSENT)  # what is pinned is taken next

    def _take(self, entry: VerifiedEntry) -> None:
        """Have an entry gathered, by the explaining path, beside what it would have gathered before."""
        self._found = None
        if entry.entry.kind == "run":
            self._rounds.spell_out(entry.entry.body.round)
            self._files.add(read_weights(entry.entry.body) or ABSENT)
        self._gathering.take(entry)

    def _forget(self) -> None:
        """Drop what is gathered for others: no later run is held against it."""
        material = self._gathering.material
        for kept in (material.candidates, material.facts, material.measurements, material.merges, material.pin_entries):
            kept.clear()
        self._gathering.by_identity.clear()

    def _data(self, offset: int) -> bytes:
        if not self._entries:
            self._entries = entries_of(self._piece.read())
        return self._entries[offset]

    def _judged(self, first: int, offset: int, item: Item) -> list[tuple[str, str]]:
        """(metric, tier) of every metric of a candidate, in order."""
        if isinstance(item, Scored):
            tier = self._tier(item)
            if tier is not None:
                found = [(metric, NOT_SCORABLE) for metric in item.metrics]
                found[item.at] = (item.metrics[item.at], tier)
                return found
        elif isinstance(item, Unscored):
            return [(metric, NOT_SCORABLE) for metric in item.metrics]
        return self._explained(first + offset, self._data(offset))

    def _compare(self, index: int, offset: int, found: list[tuple[str, str]]) -> None:
        """Count what became of what was judged before."""
        identity = sha256(self._data(offset)).digest()
        for metric, tier in found:
            if tier == NOT_SCORABLE:
                continue
            about = identity + metric.encode()
            was = self._before.get(about)
            change = order_change(self.rule, was, tier)
            if was is None and about in self._unknown:
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
            self.result.not_admitted += isinstance(result, Verdict) and result.not_admitted
            found.append((candidate.run.track.metric, tier))
        self.result.left_out.update(f"{one.metric}: {one.reason}" for one in material.left_out)
        material.left_out.clear()
        self._forget()
        for lane in self._lanes.values():
            lane.take(self._judge)
        return found

    def _lane(self, place: Place) -> Lane:
        scope, guard = self.rule.scope, self.rule.guard
        own = self._rounds.measured(scope.metric, scope.context, place)
        lane = Lane(own, self._rounds.measured(guard.metric, guard.context, place) if guard else None, place[3])
        lane.take(self._judge)
        self._lanes[place] = lane
        return lane

    def _tier(self, item: Scored) -> str | None:
        """Tier of what the rule scores; None when it is out of the ordinary."""
        asked = item.place, item.round, item.guarded is None
        found = self._found
        if found is None or asked != self._asked:
            self._asked, self._found = asked, None  # until it is had: looking may fail
            found = self._found = self._find(item)
        lane, held = found.lane, found.held
        if held is None:
            return NOT_SCORABLE
        ratchet = self._hold(item, lane, item.round or "", found.round) if item.kls else item.ratchet
        graded = self._grading.tier(item, held, ratchet=ratchet, repeats=found.repeats)
        if graded is None:
            return None
        tier, passed = graded
        if passed is False and tier != REJECT:
            self.result.not_admitted += 1
        if passed and (lane.best is None or item.speed > lane.speed):
            self._advance(item, lane)
        return tier

    def _find(self, item: Scored) -> Found:
        """Look up what a run is held against."""
        place, name = self._places[item.place], item.round
        lane = self._lanes.get(place) or self._lane(place)
        round_ = NO_ROUND if name is None else self._rounds.round(name)
        mixed = lane.weights and self._is_mixed(item, lane, name, round_)
        repeats = self._repeats(lane, name, round_) if self._asks_repeats else None
        figures = None if mixed else self._figures(lane, name, round_, repeats)
        if figures is None:
            return Found(lane, round_, repeats, None)
        if lane.held is None or lane.held.figures != figures:
            lane.held = self._grading.hold(figures)
        return Found(lane, round_, repeats, lane.held)

    def _hold(self, item: Scored, lane: Lane, name: str, round_: Round) -> bool | None:
        """What the ratchet says beside the round's frontier build; no evidence where that was not graded."""
        graded = round_.graded.get(lane.own)
        agreement: Agreement | Parity | None
        agreement = graded[0] if graded else self._gathering.round_parity.get((name, lane.track))
        if agreement is None or item.gates is False:
            return None
        if self._beside is None or self._beside[0] is not agreement:
            self._beside = agreement, self._ratchet.beside(agreement)
        return self._beside[1].check(item.depths, item.kls.split(" "), item.ground)

    def _repeats(self, lane: Lane, name: str | None, round_: Round) -> Repeats | None:
        """What the frontier runs of a run's round measured on its weights, in ``10**-6`` units per second."""
        found = round_.repeats.get((lane.own, lane.weights))
        gathered = self._gathering.round_repeats
        if gathered and name is not None:
            read = gathered.get((name, lane.track, digest_of(lane.weights)))
            if read is not None:
                found = read.scaled(SCALE) if found is None else found.joined(read.scaled(SCALE))
        return found

    def _figures(self, lane: Lane, name: str | None, round_: Round, repeats: Repeats | None) -> _Figures | None:
        """Frontier, reference, pin of the guard and newest measurement of the guarded metric, as they are known now.

        None where the round's frontier is an alarm: of several the fastest, where the rule asks for several.
        """
        gathering, own = self._gathering, lane.own
        frontier: Known = round_.speeds.get(own)
        reference: Known = own.reference if not lane.weights else self._reference(lane)
        if gathering.round_frontier and frontier is None and name is not None:
            frontier = gathering.round_frontier.get((name, lane.track))
        if self.rule.bears_out and (held := self._greatest(lane)) is not None:
            fell = frontier is not None and _is_alarm(_value(frontier), held)
            if fell and (repeats is None or _is_alarm(repeats.greatest, held)):
                return None
            frontier = held if frontier is None or _value(held) > _value(frontier) else frontier
        if gathering.references and reference is None and not lane.weights:
            reference = gathering.references.get(lane.track)
        guard: Figure | None = None
        newest: Known = None
        if pins := gathering.figures:
            frontier = pins.get(lane.frontier_slot) if frontier is None else frontier
            if reference is None and not lane.weights:
                reference = pins.get(lane.reference_slot)
            guard = pins.get(lane.guard_slots[0]) or pins.get(lane.guard_slots[1])
            if lane.guard is not None:
                newest = self._newest(lane.guard, name, round_)
        return lane.best if frontier is None else frontier, reference, guard, newest

    def _is_mixed(self, item: Scored, lane: Lane, name: str | None, round_: Round) -> bool:
        """Whether a run would be held against what is not known to be of its weights: as ``Judge`` has it."""
        own, guard, weights, gathering = lane.own, lane.guard, lane.weights, self._gathering
        if len(self._files) < 2 or weights == ABSENT:
            return weights == ABSENT  # all that was ever measured is of one file
        pins = gathering.figures
        held = [self._round_on(own, name, round_), _weights(pins.get(lane.frontier_slot))]
        if not any(held) and self._greatest(lane) is None and lane.best is None:
            held.append(own.newest_on or _weights(gathering.frontiers.get(lane.track)))
            held.append(_weights(self._judge.best.get(lane.track)))
        if self.rule.ratchet is not None and name is not None:
            graded = round_.graded.get(own)
            held.append(graded[1] if graded else _weights(gathering.round_parity.get((name, lane.track))))
        if guard is not None:
            held.append(_weights(pins.get(lane.guard_slots[0]) or pins.get(lane.guard_slots[1])))
            if item.guarded is not None and self.rule.reconciles:
                newest = self._round_on(guard, name, round_) or guard.newest_on
                held.append(newest or _weights(gathering.frontiers.get(guard.track)))
        return any(each and each != weights for each in held)

    def _round_on(self, measured: Measured, name: str | None, round_: Round) -> str:
        """Weights of what the frontier build of a run's own round measured; empty where it measured nothing."""
        found = round_.speeds_on.get(measured, "")
        if found or name is None:
            return found
        return _weights(self._gathering.round_frontier.get((name, measured.track)))

    def _reference(self, lane: Lane) -> Known:
        """What the other engine measured last, or is pinned at, where that is of a run's weights."""
        own, gathering = lane.own, self._gathering
        if own.reference is not None:
            return own.reference if own.reference_on == lane.weights else None
        figure = gathering.references.get(lane.track) if gathering.references else None
        figure = figure or gathering.figures.get(lane.reference_slot)
        return figure if _weights(figure) == lane.weights else None

    def _greatest(self, lane: Lane) -> Known:
        """The greatest that is pinned as frontier, or that any frontier build measured, on a run's weights if asked."""
        gathering = self._gathering
        if lane.weights:
            known: Known = lane.own.alike.get(lane.weights)
            alike = gathering.greatest_alike
            gathered = alike.get((lane.track, lane.weights)) if alike else None
        else:
            known = lane.own.greatest
            gathered = gathering.greatest.get(lane.track) if gathering.greatest else None
        pin = gathering.figures.get(lane.frontier_slot) if gathering.figures else None
        for figure in (gathered, pin):
            if figure is not None and (known is None or _value(figure) > _value(known)):
                known = figure
        return known

    def _newest(self, guard: Measured, name: str | None, round_: Round) -> Known:
        """What the frontier build measured last of the guarded metric: in a run's own round, else in any."""
        gathering = self._gathering
        found: Known = round_.speeds.get(guard)
        if found is None and name is not None:
            found = gathering.round_frontier.get((name, guard.track))
        if found is None:
            found = guard.newest
        return gathering.frontiers.get(guard.track) if found is None else found

    def _advance(self, item: Scored, lane: Lane) -> None:
        """A run that no gate refused or left open moves the frontier of its track."""
        identity = sha256(self._data(item.offset)).hexdigest()
        if identity not in self._superseded:
            judge, speed = self._judge, Fraction(item.speed, SCALE)
            figure = Figure(speed, "receipt", source=identity, weights=digest_of(lane.weights))
            if lane.weights:
                judge.best_alike[lane.track, figure.weights] = figure
            known = judge.best.get(lane.track)
            if known is None or speed > known.value:
                judge.best[lane.track] = figure
            lane.take(judge)
            self._found = None


def _weights(known: Figure | Parity | None) -> str:
    """Weights of what the explaining path has read, as a place has them; empty where there is nothing."""
    return "" if known is None else known.weights or ABSENT


def _value(known: int | Figure) -> int | Fraction:
    """A speed in ``10**-6`` units per second."""
    return known if isinstance(known, int) else known.value * SCALE


def _is_alarm(own: int | Fraction, held: int | Figure) -> bool:
    """Whether a round's frontier is too far below the one known before."""
    return own * DRIFT.denominator < _value(held) * (DRIFT.denominator - DRIFT.numerator)
