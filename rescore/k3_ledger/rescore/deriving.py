"""Deriving the verdicts of a log again in one pass over it, whatever was superseded between them.

A verdict is derived from what stood at its own position, and verdicts stand behind the runs that they are about. So
the log is read from front to back, each run is judged when its turn comes, and once for every span of positions that
gives the same answer (:mod:`k3_ledger.rescore.spans`): mostly once. Runs that no verdict is about are judged only where
they could move the frontier that later runs are held against.

Memory does not grow with the log. Verdicts are read ahead, a bounded number at a time; what was measured in a round is
kept for a bounded number of rounds. Where verdicts stand in another order than the runs that they are about, the log is
read once more for every so many of them; where something is said of a round that ended long ago, once more with all
rounds kept.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from k3_ledger.rescore.material import Material
from k3_ledger.rescore.reach import reach_of
from k3_ledger.rescore.replay import Gathering
from k3_ledger.rescore.rescore import Judge
from k3_ledger.rescore.rules.score import in_scope
from k3_ledger.rescore.spans import HEAD, Asked, ForgottenError, Gone, Pins, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from k3_ledger.rescore.material import Candidate
    from k3_ledger.rescore.reach import Reach
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.standing import Standing
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedEntry, VerifiedLog

AHEAD: Final = 10_000
"""Verdicts that are read ahead, at some 5 KB each."""
KEPT_ROUNDS: Final = 10_000
"""Rounds whose measurements are kept, at some 3 KB each."""
Verdict: TypeAlias = "tuple[int, Any]"
"""(position, body) of a ``verdict`` entry."""
Compare: TypeAlias = "Callable[[Rule, Judge, Candidate, int, Any], Finding | None]"
"""(rule, judge, candidate, position, body) to what is wrong with a verdict, or None."""
_READ: Final = frozenset({"run", "import", "pin"})


class Survey:
    """What has to be known of a log before its verdicts are derived.

    Attributes:
        standing: what was superseded, and when.
        rules: rules that verdicts may be by, by digest.
        turns: positions that verdicts under each of them have to be derived at, ascending: those of the next
            supersessions, or :data:`HEAD`.
        sources: identities of entries whose measurements are kept.
        reach: where entries count for nothing.
        older: whether runs are read as they were before contested figures were nobody's yardstick.
    """

    def __init__(
        self,
        standing: Standing,
        rules: Mapping[str, Rule],
        turns: Mapping[str, Collection[int]],
        sources: Collection[str],
        reach: Reach | None = None,
        *,
        older: bool = False,
    ) -> None:
        self.standing = standing
        self.reach = reach_of(standing) if reach is None else reach
        self.older = older
        self._turns = self.reach.turns()
        self.rules = rules
        self.turns = {digest: sorted(found) for digest, found in turns.items()}
        self.sources = sources

    def again(self, verdicts: Iterable[Verdict], reach: Reach | None, *, older: bool) -> Survey:
        """The same for some of its verdicts, as they may have been derived where or when they were sealed."""
        apart = Survey(self.standing, self.rules, {}, (), reach or self.reach, older=older)
        turns: dict[str, set[int]] = {}
        for index, body in verdicts:
            turns.setdefault(body.rule_sha256, set()).add(apart.turn(index))
        sources = {*self.sources, *apart.reach.sources}
        return Survey(self.standing, self.rules, turns, sources, apart.reach, older=older)

    def turn(self, index: int) -> int:
        """Up to which position all that counts at another still does."""
        found = self._turns.after(index)
        return HEAD if found is None else found


def derive(
    log: VerifiedLog,
    survey: Survey,
    verdicts: Callable[[], Iterable[Verdict]],
    compare: Compare,
    missing: Callable[[int, Any], Finding],
    *,
    material: Material,
) -> Iterator[Finding | None]:
    """For each verdict by a rule that is known: None when it follows, else what is wrong with it.

    Args:
        log: the log.
        survey: what is known of it.
        verdicts: reads the verdicts by such rules, in the log's order.
        compare: holds a verdict against the run it is about.
        missing: what to say of a verdict about a run that is not there.
        material: is given the measurements of the sources.
    """
    feed = _Feed(iter(verdicts()))
    kept: int | None = KEPT_ROUNDS
    while True:
        try:
            one = _Pass(survey, compare, feed, kept)
            yield from one.read(log)
        except ForgottenError:
            feed.again()
            kept = None
            continue
        material.facts, material.candidates = one.facts, one.candidates
        for index, body in feed.end_of_log():
            yield missing(index, body)
        if not feed.waiting:
            return


class _Feed:
    """Verdicts that wait for the run that they are about."""

    def __init__(self, verdicts: Iterator[Verdict]) -> None:
        self._verdicts = verdicts
        self.waiting: dict[str, list[Verdict]] = {}
        self._count = 0
        self._from_start: set[int] = set()
        self.again()

    def fill(self) -> None:
        """Read ahead as far as there is room."""
        while self._count < AHEAD and (verdict := next(self._verdicts, None)) is not None:
            self.waiting.setdefault(verdict[1].target, []).append(verdict)
            self._count += 1

    def about(self, identity: str) -> list[Verdict]:
        """Take those about an entry, at which the log is being read."""
        found = self.waiting.pop(identity, [])
        self._count -= len(found)
        return found

    def give_back(self, identity: str, verdicts: list[Verdict]) -> None:
        """Let verdicts wait until the end: the entry holds no such run."""
        if verdicts:
            self.waiting[identity] = verdicts
            self._count += len(verdicts)

    def again(self) -> None:
        """The log is read from its start once more: all that wait now wait from there."""
        self.fill()
        self._from_start = {index for found in self.waiting.values() for index, _ in found}

    def end_of_log(self) -> list[Verdict]:
        """Take those that waited from the start of the log to its end."""
        lost = [one for found in self.waiting.values() for one in found if one[0] in self._from_start]
        left = [one for found in self.waiting.values() for one in found if one[0] not in self._from_start]
        self.waiting = {}
        self._count = len(left)
        for one in left:
            self.waiting.setdefault(one[1].target, []).append(one)
        self.again()
        return lost


class _Pass:
    """One reading of the log."""

    def __init__(self, survey: Survey, compare: Compare, feed: _Feed, kept: int | None) -> None:
        self.survey, self.compare, self.feed = survey, compare, feed
        self.asked = asked = Asked()
        self.gathering = gathering = Gathering(Material("verified ledger", standing=survey.standing))
        gathering.gone = Gone(asked, survey.reach.gaps)
        gathering.void = survey.reach.gaps
        gathering.older = survey.older
        gathering.references = Spans(asked)  # type: ignore[assignment]
        gathering.frontiers = Spans(asked)  # type: ignore[assignment]
        gathering.greatest = Spans(asked)  # type: ignore[assignment]
        gathering.greatest_alike = Spans(asked)  # type: ignore[assignment]
        gathering.keeps = frozenset()
        gathering.round_frontier = Spans(asked, kept)  # type: ignore[assignment]
        gathering.round_parity = Spans(asked, kept)  # type: ignore[assignment]
        gathering.round_repeats = Spans(asked, kept)  # type: ignore[assignment]
        gathering.figures = Pins(asked)  # type: ignore[assignment]
        self.judges: dict[str, Judge] = {}
        for digest, rule in survey.rules.items():
            if digest in survey.turns:
                self.judges[digest] = judge = Judge(rule, "own")
                judge.best = Spans(asked)  # type: ignore[assignment]
                judge.best_alike = Spans(asked)  # type: ignore[assignment]
        self._repeats = any(rule.repeats for digest, rule in survey.rules.items() if digest in survey.turns)
        self.facts = gathering.material.facts[:]
        self.candidates: list[Candidate] = []

    def read(self, log: VerifiedLog) -> Iterator[Finding | None]:
        """Derive all that waits, and what is read ahead on the way."""
        self.gathering.vouched = log.vouched
        for entry in log:
            left_out = entry.disowned and entry.index not in self.survey.reach.read
            if entry.entry.kind in _READ and entry.identity in self.survey.sources:
                self._keep(entry, weigh=not left_out)
            if left_out or entry.entry.kind not in _READ:
                continue
            if entry.entry.kind == "import" or getattr(entry.entry.body, "role", None) == "candidate":
                yield from self._judge(entry)
                self.feed.fill()
            else:
                until = self.survey.reach.until(entry.identity)
                while until > entry.index:  # once for every span in which it raises the same, or nothing
                    self.asked.up_to(until)
                    self.gathering.repeats = self._repeats
                    self.gathering.take(entry)
                    self._forget()
                    until = self.asked.after

    def _keep(self, entry: VerifiedEntry, *, weigh: bool) -> None:
        """Keep what the source of a pin measured, and on which weights; what it was held against does not matter.

        What was taken back weighs nothing. What it measured is kept all the same: it says whether a pin was ever true.
        """
        apart = Gathering(Material("the source of a pin"))
        apart.take(entry)
        if weigh:
            self.gathering.material.weights |= apart.material.weights
        self.facts += apart.material.facts
        self.candidates += [one for one in apart.material.candidates if not one.native]

    def _judge(self, entry: VerifiedEntry) -> Iterator[Finding | None]:
        wanted: dict[str, list[Verdict]] = {}
        for verdict in self.feed.about(entry.identity):
            wanted.setdefault(verdict[1].rule_sha256, []).append(verdict)
        try:
            for digest, judge in self.judges.items():
                turns = self.survey.turns[digest]
                number = len(turns) - 1
                while number >= 0 and turns[number] > entry.index:
                    self.asked.about(turns[number])
                    yield from self._judge_once(entry, judge, wanted.get(digest, []))
                    number = bisect_left(turns, self.asked.after + 1) - 1
        finally:
            self.feed.give_back(entry.identity, [verdict for left in wanted.values() for verdict in left])

    def _judge_once(self, entry: VerifiedEntry, judge: Judge, about: list[Verdict]) -> Iterator[Finding | None]:
        """Judge an entry for one span of positions; what is derived is taken from ``about``."""
        rule = judge.rule
        assert not isinstance(rule, str), "verdicts name the rule"
        self.gathering.repeats = rule.repeats  # what nobody asks for must not narrow the span
        self.gathering.take(entry)
        candidates = self.gathering.material.candidates[:]
        self._forget()
        scored = {one.run.track.metric for one in candidates if in_scope(rule, one.run.track)}
        moved = []
        derived: list[tuple[Candidate, str]] = []
        for candidate in candidates:
            metric = candidate.run.track.metric
            mine = in_scope(rule, candidate.run.track) or metric not in scored
            if mine and metric not in {known for _, known in derived} and any(one[1].metric == metric for one in about):
                derived.append((candidate, metric))
                judge.peek(candidate)  # asks for all that it is held against, and so narrows the span
            if in_scope(rule, candidate.run.track) and judge.may_move(candidate):
                moved.append((candidate, judge.peek(candidate)))
        after, until = self.asked.after, self.asked.until
        turn = self.survey.turn
        for candidate, metric in derived:
            for one in [one for one in about if one[1].metric == metric]:
                if after < turn(one[0]) <= until:
                    about.remove(one)
                    yield self.compare(rule, judge, candidate, *one)
        self.asked.after, self.asked.until = after, until
        for candidate, result in moved:
            judge.move(candidate, result)
        self.asked.after, self.asked.until = after, until

    def _forget(self) -> None:
        """Drop what is gathered for others."""
        material = self.gathering.material
        for kept in (
            material.candidates, material.facts, material.measurements, material.pin_entries, material.left_out,
            material.unread,
        ):  # fmt: skip
            kept.clear()
        self.gathering.by_identity.clear()
