"""What the frontier build and the other engine measured in each round: most of what a run is held against.

Every round of a long ledger has one such run or two, so they are read in integers too. What the explaining path needs
of them is spelled out when it is asked for. Where a figure was measured is not kept: a sweep gives tiers, and no tier
depends on it.

Rounds end: the newest are kept whole, and of those before them only that they were. Asking for one of these again
raises :class:`ForgottenError`, and the sweep begins anew, with all of them kept.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.inputs import Depth, Figure, Parity
from k3_ledger.rescore.rules.repeats import Repeats
from k3_ledger.rescore.slots import ABSENT, Track
from k3_ledger.rescore.sweeping.numbers import SCALE

if TYPE_CHECKING:
    from k3_ledger.rescore.replay import Gathering
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.items import Agreement, Place, Standing

KEPT_ROUNDS: Final = 20_000
"""Rounds that are kept whole, at 3 KB each where the rule asks for their repetitions and agreement."""


class ForgottenError(Exception):
    """Something is said of a round whose figures are no longer kept."""


class Measured:
    """What was measured of one metric at one place, beside what a :class:`Gathering` holds of it and newer than that.

    Attributes:
        newest: by the frontier build, in ``10**-6`` units per second.
        greatest: by any frontier build, likewise.
        reference: by the other engine, likewise.
        newest_on, reference_on: weights of these, as a place has them.
        alike: greatest by the weights, where the rule asks for them.
    """

    __slots__ = ("alike", "greatest", "newest", "newest_on", "reference", "reference_on", "track")

    def __init__(self, track: Track) -> None:
        self.track = track
        self.newest: int | None = None
        self.greatest: int | None = None
        self.reference: int | None = None
        self.newest_on = self.reference_on = ""
        self.alike: dict[str, int] = {}


class Round:
    """What a round's frontier build measured.

    Attributes:
        graded: agreement of the newest that timed what the rule scores, and the weights that were graded as a place
            has them; empty when none was graded, or the explaining path has read it.
        speeds: by what was measured, in ``10**-6`` units per second.
        speeds_on: weights by what was measured, where the rule asks for them.
        repeats: what all of its runs measured of what the rule scores, by weights too, where the rule asks; in the unit
            of ``speeds``.
    """

    __slots__ = ("graded", "repeats", "speeds", "speeds_on")

    def __init__(self) -> None:
        self.graded: dict[Measured, tuple[Agreement, str]] = {}
        self.speeds: dict[Measured, int] = {}
        self.speeds_on: dict[Measured, str] = {}
        self.repeats: dict[tuple[Measured, str], Repeats] = {}


NO_ROUND: Final = Round()
"""Of a run that is in none, or in one whose frontier build measured nothing yet."""


class Rounds:
    """Takes such runs in, in the ledger's order, and hands them to a :class:`Gathering`.

    Args:
        rule: the rule, which judges by two metrics at most.
        gathering: what the explaining path reads.
        kept: how many rounds are kept; None keeps all.
    """

    def __init__(self, rule: Rule, gathering: Gathering, kept: int | None) -> None:
        self._scope = (rule.scope.metric, rule.scope.context)
        self._read = {self._scope}
        if rule.guard is not None:
            self._read.add((rule.guard.metric, rule.guard.context))
        self._repeats = rule.repeats
        self._gathering = gathering
        self._kept = kept
        self._rounds: dict[str, Round] = {}
        self._over: set[int] = set()
        self._measured: dict[tuple[str, int | None, tuple[str, str, str]], Measured] = {}

    def measured(self, metric: str, context: int | None, place: Place) -> Measured:
        """What is measured of a metric at a place, on whatever weights, now and from now on."""
        key = metric, context, place[:3]
        found = self._measured.get(key)
        if found is None:
            found = self._measured[key] = Measured(Track(metric, context, *place[:3]))
        return found

    def round(self, name: str) -> Round:
        """What was measured in a round so far.

        Raises:
            ForgottenError: it was, and is no longer kept.
        """
        found = self._rounds.get(name)
        if found is not None:
            return found
        if self._over and hash(name) in self._over:
            raise ForgottenError(name)
        return NO_ROUND

    def take(self, item: Standing, place: Place) -> None:
        """A frontier build's run, or one of the other engine."""
        one, weights = None, place[3]
        for metric, context, speed in item.speeds:
            if item.role == "frontier" and item.round is not None:
                one = one or self._open(item.round)
            if (metric, context) not in self._read:
                continue  # the rule judges nothing by it
            measured = self.measured(metric, context, place)
            if item.role == "reference":
                measured.reference, measured.reference_on = speed, weights
                continue
            measured.newest, measured.newest_on = speed, weights
            if measured.greatest is None or speed > measured.greatest:
                measured.greatest = speed
            if weights and speed > measured.alike.get(weights, -1):
                measured.alike[weights] = speed
            if one is not None:
                one.speeds[measured] = speed
                if item.agreement is not None and (metric, context) == self._scope:
                    one.graded[measured] = item.agreement, weights
                if weights:
                    one.speeds_on[measured] = weights
                if self._repeats and (metric, context) == self._scope:
                    repeat, several = Repeats((item.bundle,), speed, speed), one.repeats.get((measured, weights))
                    one.repeats[measured, weights] = several.joined(repeat) if several else repeat

    def _open(self, name: str) -> Round:
        found = self.round(name)
        if found is not NO_ROUND:
            return found
        found = self._rounds[name] = Round()
        if self._kept is not None and len(self._rounds) > self._kept:
            first = next(iter(self._rounds))
            del self._rounds[first]
            self._over.add(hash(first))
        return found

    def spell_out(self, name: str | None) -> None:
        """Give the gathering what it would have read itself, of a round and of everything that counts in any."""
        gathering = self._gathering
        for measured in self._measured.values():
            if measured.reference is not None:
                gathering.references[measured.track] = _figure(measured.reference, measured.reference_on)
            if measured.newest is not None:
                gathering.frontiers[measured.track] = _figure(measured.newest, measured.newest_on)
            if measured.greatest is not None:
                known = gathering.greatest.get(measured.track)
                if known is None or measured.greatest > known.value * SCALE:
                    gathering.greatest[measured.track] = _figure(measured.greatest, "")
            for weights, speed in measured.alike.items():
                figure = _figure(speed, weights)
                known = gathering.greatest_alike.get((measured.track, figure.weights))
                if known is None or figure.value > known.value:
                    gathering.greatest_alike[measured.track, figure.weights] = figure
            measured.reference = measured.newest = measured.greatest = None
            measured.reference_on = measured.newest_on = ""
            measured.alike.clear()
        if name is None or (kept := self.round(name)) is NO_ROUND:
            return
        for measured, speed in kept.speeds.items():
            gathering.round_frontier[name, measured.track] = _figure(speed, kept.speeds_on.get(measured, ""))
        kept.speeds.clear()
        kept.speeds_on.clear()
        for measured, (agreement, weights) in kept.graded.items():
            gathering.round_parity[name, measured.track] = _parity(agreement, weights)
        kept.graded.clear()
        for (measured, weights), repeats in kept.repeats.items():
            place = name, measured.track, digest_of(weights)
            more, several = repeats.scaled(Fraction(1, SCALE)), gathering.round_repeats.get(place)
            gathering.round_repeats[place] = several.joined(more) if several else more
        kept.repeats.clear()


def _figure(speed: int, weights: str) -> Figure:
    return Figure(Fraction(speed, SCALE), "receipt", weights=digest_of(weights))


def digest_of(weights: str) -> str | None:
    """The digest that a place's word for weights stands for; None where there is none, or nobody asks."""
    return None if weights in {"", ABSENT} else weights


def _parity(kept: Agreement, weights: str) -> Parity:
    return Parity(
        None,
        None,
        tuple(
            Depth(tokens, Fraction(kl), Fraction(agree, rows), rows)
            for tokens, kl, agree, rows in zip(kept.depths, kept.kls.split(" "), kept.agree, kept.rows, strict=True)
        ),
        kept.path,  # type: ignore[arg-type]
        independent=kept.independent,
        weights=digest_of(weights),
        ground=kept.ground,
    )
