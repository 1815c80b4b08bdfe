"""What a receipt comes to under a rule before anything else of the ledger is known: its numbers, and the gates that
need no pin.

Pure functions of a chunk's bytes and a rule, so any process can do them, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from k3_ledger.rescore.doubt import HOUSE, HOUSE_CLOCK
from k3_ledger.rescore.native import is_independent, read_ground
from k3_ledger.rescore.rules.parameters import BY_MIDDLE, GRADING
from k3_ledger.rescore.slots import ABSENT, Track
from k3_ledger.rescore.sweeping.agreement import Bars, Ratchet, ratchet_from
from k3_ledger.rescore.sweeping.fields import decode_lines
from k3_ledger.rescore.sweeping.items import Agreement, Prepared, Scored, Standing, Unscored
from k3_ledger.rescore.sweeping.timing import ClockNumbers, group_series, read_speed, read_timing

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.agreement import Beside
    from k3_ledger.rescore.sweeping.fields import Body, Entry, Graded, Series
    from k3_ledger.rescore.sweeping.items import Place
    from k3_ledger.rescore.sweeping.timing import Metric, Timing
    from k3_ledger.verify.again import Piece

_OWN_CLOCK: Final = {metric: ClockNumbers(HOUSE, metric) for metric in HOUSE_CLOCK.metrics}
"""What :func:`~k3_ledger.rescore.doubt.is_refuted` asks, by metric."""
Build: TypeAlias = tuple[str, str, str]
"""Model, quantisation and node: whose rounds a candidate's are."""
BATCH: Final = 16
"""Entries that are prepared one after another. Beside a verification each comes behind a signature that was checked,
which leaves little of this code in the caches of a processor: entry by entry, preparing costs half as much again."""
JUDGEMENTS: Final = frozenset({"verdict", "supersede"})
"""Kinds that settle nothing for the runs behind them, and say something of those in front."""


class Preparer:
    """A rule, ready to prepare chunks under. It can be pickled.

    Args:
        rule: the rule.
        by_round: whether a run may be held against the frontier build of its round where one chunk holds both: not
            where some entries count for nothing.
    """

    def __init__(self, rule: Rule, *, by_round: bool = True) -> None:
        self.rule = rule
        self.by_round = by_round
        self.scope = (rule.scope.metric, rule.scope.context)
        self.guard = (rule.guard.metric, rule.guard.context) if rule.guard else None
        self.middle = rule.arithmetic in BY_MIDDLE
        self.sampling = rule.sampling if rule.arithmetic in GRADING else None
        self.bars = Bars(rule)
        self.ratchet = None if rule.ratchet is None else Ratchet(rule)
        self.clock = ClockNumbers(rule, rule.scope.metric) if rule.clock else None
        guarded = rule.clock and rule.guard and rule.bears_out
        self.guard_clock = ClockNumbers(rule, rule.guard.metric) if rule.guard and guarded else None
        # Rules that score the clock's number, hold a second metric under a ceiling, or have a bar on divergence that
        # is no ordinary one, are left to the explaining path.
        self.usable = (
            not (rule.clock and rule.clock.reading == "clock")
            and (rule.ceiling is None or rule.ceiling.metrics == (rule.scope.metric,))
            and bool(self.bars.kl)
            and (rule.ratchet is None or ratchet_from(rule) is not None)
        )

    def prepare(self, chunk: bytes) -> Prepared:
        """Read every line of a verified chunk."""
        reading = self.start()
        for offset, line in enumerate(decode_lines(chunk)):
            reading.take(offset, line.entry)
        return reading.finish()

    def start(self) -> Preparing:
        """Begin with a chunk."""
        return Preparing(self)

    def gates(self, timing: Timing, parity: Graded | None, *, agrees: bool, subject: str) -> bool | None:
        """All gates that need neither a pin nor a round, in one word.

        Args:
            timing: of the scored metric.
            parity: None when no rows count.
            agrees: False when the bars on agreement refuse it.
            subject: name of the measured program.
        """
        if not agrees:
            return False
        open_ = parity is None
        sampling = self.sampling
        if sampling is not None:
            if timing.samples < sampling.repetitions or (sampling.filled and not timing.filled):
                return False
            if sampling.independent and parity is not None and not is_independent(parity.reference, subject):
                return False
        if self.clock is not None:
            clock = self.clock.check(timing)
            if clock is False:
                return False
            open_ = open_ or clock is None
        return None if open_ else True


class Preparing:
    """One chunk under a rule, entry by entry; the entries are those of :mod:`fields` or any that have more fields."""

    def __init__(self, preparer: Preparer) -> None:
        self._preparer = preparer
        self._weighs, self._repeats = preparer.rule.weighs, preparer.rule.repeats
        self._candidate = self._read_candidate if preparer.usable else _out_of_the_ordinary
        self._prepared = Prepared([], [])
        self._add = self._prepared.items.append
        self._waiting: list[tuple[int, Entry]] = []
        self._measured: tuple[Metric, ...] = ()
        self._shaped: tuple[tuple[str, ...], int] = ((), 0)
        self._places: dict[Place, int] = {}
        self._spellable: list[bool] = []
        self._builds: list[Build] = []
        self._rounds: dict[str, dict[Build, Beside]] = {}

    def take(self, offset: int, entry: Entry) -> None:
        """Read the entry on line ``offset`` of the chunk."""
        self._waiting.append((offset, entry))
        if len(self._waiting) == BATCH:
            self._read()

    def finish(self) -> Prepared:
        """All of the chunk."""
        self._read()
        self._prepared.places = list(self._places)
        return self._prepared

    def _read(self) -> None:
        """Read the entries that wait."""
        for offset, entry in self._waiting:
            kind = entry.kind
            if kind == "run":
                body = entry.body
                read = self._candidate if body.role == "candidate" else self._read_standing
                self._add(read(offset, body))
            elif kind == "import":
                self._prepared.imports.append(offset)
            elif kind in JUDGEMENTS:
                self._prepared.judged = True
            else:
                self._add(offset)
        self._waiting.clear()

    def _read_candidate(self, offset: int, body: Body) -> Scored | Unscored | int:
        """What the body of a candidate on line ``offset`` comes to: an item of :class:`Prepared`."""
        preparer = self._preparer
        groups = group_series(body.timing or [])
        if not groups:
            return ~offset
        own = groups.get(preparer.scope)
        if own is None:
            return Unscored(offset, tuple([metric for metric, _ in groups]))
        place = self._place(body)
        if not self._spellable[place]:
            return ~offset
        timing = read_timing(own, preparer.scope[1], middle=preparer.middle)
        if timing is None:
            return ~offset
        guarded = counted = None
        guard_clock: bool | None = True
        guard = preparer.guard
        if guard is not None and guard in groups:
            clock = preparer.guard_clock
            if clock is None:
                guarded = counted = read_speed(groups[guard], guard[1])
            elif (beside := read_timing(groups[guard], guard[1], middle=preparer.middle)) is not None:
                guarded, counted, guard_clock = beside.speed, clock.count(beside), clock.check(beside)
            if guarded is None:
                return ~offset
        correct: bool | None = None
        ratchet: bool | None = None
        agrees, known, ground = True, True, ""
        depths: list[int] = []
        kls: list[str] = []
        parity = body.parity
        if parity is not None and parity.processing != "raw":
            parity = None
        if parity is not None:
            correct, suite = preparer.bars.check(parity, depths, kls)
            agrees = correct and suite
            ground = read_ground(parity.reference.name, parity.vocabulary)
            known, ratchet = self._hold(body.round, self._builds[place], depths, kls, ground)
        return Scored(
            offset,
            *self._shape(groups),
            place,
            body.round,
            timing.speed if preparer.clock is None else preparer.clock.count(timing),
            correct,
            preparer.gates(timing, parity, agrees=agrees, subject=body.subject.name if body.subject else ""),
            ratchet,
            () if known else tuple(depths),
            "" if known else " ".join(kls),
            "" if known else ground,
            guarded,
            counted,
            guard_clock,
        )

    def _hold(
        self, name: str | None, build: Build, depths: list[int], kls: list[str], ground: str
    ) -> tuple[bool, bool | None]:
        """(whether the ratchet has no more to be asked, what it says then)."""
        if name is None or self._preparer.ratchet is None:
            return True, None
        beside = self._rounds.get(name, {}).get(build)
        return (False, None) if beside is None else (True, beside.check(depths, kls, ground))

    def _read_standing(self, offset: int, body: Body) -> Standing | int:
        """What later runs are held against of a run that is no candidate: an item of :class:`Prepared`."""
        speeds = []
        groups = group_series(body.timing or [])
        for (metric, context), series in ({} if groups is None else groups).items():
            timing = read_timing(series, context, middle=False)
            if timing is None:
                groups = None
                break
            if (clock := _OWN_CLOCK.get(metric)) is None or clock.check(timing) is not False:
                speeds.append((metric, context, timing.speed))
        if groups is None:
            self._rounds.pop(body.round or "", None)  # read whole, it may say more of the round
            return offset
        parity = body.parity
        agreement: Agreement | None = None
        place = self._place(body)
        if parity is not None and parity.processing == "raw":
            rows = parity.depths
            depths, kls = tuple([row.depth for row in rows]), [row.kl_max for row in rows]
            ground = read_ground(parity.reference.name, parity.vocabulary)
            agreement = Agreement(
                parity.path,
                parity.reference.independent,
                depths,
                " ".join(kls),
                ground,
                tuple([row.top1_agree for row in rows]),
                tuple([row.rows for row in rows]),
            )
            ratchet = self._preparer.ratchet
            if body.role == "frontier" and body.round is not None and self._preparer.by_round and ratchet:
                scored = self._preparer.scope
                if any((metric, context) == scored for metric, context, _ in speeds):
                    beside = ratchet.beside_text(list(depths), kls, ground)
                    self._rounds.setdefault(body.round, {})[self._builds[place]] = beside
        bundle = body.bundle or "" if self._repeats else ""
        return Standing(offset, body.role or "", place, body.round, tuple(speeds), agreement, bundle)

    def _shape(self, groups: dict[Metric, list[Series]]) -> tuple[tuple[str, ...], int]:
        """(metrics in order, which of them is scored): mostly one shape all along."""
        measured = tuple(groups)
        if measured != self._measured:
            self._measured = measured
            self._shaped = tuple([metric for metric, _ in measured]), measured.index(self._preparer.scope)
        return self._shaped

    def _place(self, body: Body) -> int:
        model = body.model
        assert body.machine is not None, "a run that verified says where it ran"
        node = body.machine.node.name
        if model is None:
            place = (ABSENT, ABSENT, node, ABSENT if self._weighs else "")
        else:
            place = (model.name, model.quant, node, model.sha256 if self._weighs else "")
        number = self._places.get(place)
        if number is None:
            number = self._places[place] = len(self._places)
            self._builds.append(place[:3])
            self._spellable.append(Track(*self._preparer.scope, *place[:3]).spellable)
        return number


def _out_of_the_ordinary(offset: int, _: Body) -> int:
    return ~offset


def prepare(preparer: Preparer, piece: Piece) -> Prepared:
    """:meth:`Preparer.prepare` for another process to call, which reads the piece itself."""
    return preparer.prepare(piece.read())
