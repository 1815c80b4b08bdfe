"""What the frontier build and the other engine measured in each round: most of what a run is held against.

Every round of a long ledger has one such run or two, so they are read in integers too. What the explaining path needs
of them is spelled out when it is asked for. Memory grows by a figure and the divergences of each round, about 2 KB.
Where a figure was measured is not kept: a sweep gives tiers, and no tier depends on it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from k3_ledger.rescore.inputs import Depth, Figure, Parity
from k3_ledger.rescore.slots import Track
from k3_ledger.rescore.sweeping.numbers import SCALE, upper_text, upper_text_of

if TYPE_CHECKING:
    from k3_ledger.rescore.replay import Gathering
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.prepare import Agreement, Standing


class Rounds:
    """Takes such runs in, in the ledger's order, and hands them to a :class:`Gathering`."""

    def __init__(self, rule: Rule, gathering: Gathering) -> None:
        self._read = {(rule.scope.metric, rule.scope.context)}
        if rule.guard is not None:
            self._read.add((rule.guard.metric, rule.guard.context))
        self._gathering = gathering
        self._agreements: dict[str, Agreement] = {}

    def take(self, item: Standing) -> None:
        """A frontier build's run, or one of the other engine."""
        for metric, context, speed in item.speeds:
            if item.role == "frontier" and item.round is not None and item.agreement is not None:
                self._agreements[item.round] = item.agreement
            if (metric, context) not in self._read:
                continue  # the rule judges nothing by it
            track = Track(metric, context, *item.place)
            figure = Figure(Fraction(speed, SCALE), "receipt")
            if item.role == "reference":
                self._gathering.references[track] = figure
                continue
            self._gathering.frontiers[track] = figure
            if item.round is not None:
                self._gathering.round_frontier[item.round, track] = figure

    def beside(self, name: str) -> Agreement | Parity | None:
        """Agreement of the newest frontier build of a round."""
        return self._agreements.get(name) or self._gathering.round_parity.get(name)

    def spell_out(self, name: str | None) -> None:
        """Give the gathering what it would have read of a round itself."""
        if name is None or (kept := self._agreements.pop(name, None)) is None:
            return
        self._gathering.round_parity[name] = Parity(
            None,
            None,
            tuple(
                Depth(tokens, Fraction(kl), Fraction(agree, rows), rows)
                for tokens, kl, agree, rows in zip(kept.depths, kept.kls, kept.agree, kept.rows, strict=True)
            ),
            kept.path,  # type: ignore[arg-type]
            independent=kept.independent,
        )


class Bounds:
    """The most that each depth may diverge beside a round's frontier build, worked out where it is asked for."""

    def __init__(self, beside: Agreement | Parity, block: Fraction) -> None:
        self.beside = beside
        self._block = block
        self._found: dict[int, str | None] = {}
        if isinstance(beside, Parity):
            self._at: dict[int, str] = {}
            self._found = {depth.tokens: upper_text(block * depth.kl) for depth in beside.depths}
            self.depths = frozenset(self._found)
        else:
            self._at = dict(zip(beside.depths, beside.kls, strict=True))
            self.depths = frozenset(self._at)

    def at(self, depth: int) -> str | None:
        """As :func:`upper_text`; ``depth`` is one of ``depths``."""
        if depth not in self._found:
            self._found[depth] = upper_text_of(self._at[depth], self._block)
        return self._found[depth]
