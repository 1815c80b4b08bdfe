"""What the checks ask of a rule: its pins, its grid, what it admits, and how near a region is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_rounded
from k3_ledger.rescore.lint.findings import Reach, Region
from k3_ledger.rescore.slots import parse_slot

if TYPE_CHECKING:
    from k3_ledger.rescore.lint.findings import Settings
    from k3_ledger.rescore.rules.parameters import Rule


@dataclass(frozen=True, slots=True)
class Context:
    """A rule and what the reader knows beyond it."""

    rule: Rule
    settings: Settings

    @property
    def step(self) -> Fraction:
        """Distance between two speeds the rule can tell apart."""
        return Fraction(1, 10**self.rule.precision.speed)

    @property
    def metric(self) -> str:
        """The scored metric."""
        return self.rule.scope.metric

    def pinned(self, role: str, metric: str, context: int | None) -> Fraction | None:
        """Value pinned for a role on a metric and context, on whatever node: the least where there are several."""
        values = []
        for slot, value in self.rule.pins:
            its_role, track = parse_slot(slot)
            if (its_role, track.metric, track.context) == (role, metric, context):
                values.append(value)
        return min(values, default=None)

    @property
    def reference(self) -> Fraction | None:
        """Reference of the scored slot."""
        return self.pinned("reference", self.rule.scope.metric, self.rule.scope.context)

    @property
    def frontier(self) -> Fraction | None:
        """Where the frontier of the scored slot is: measured, else pinned, else unknown."""
        return self.value_of(self.rule.scope.metric, self.rule.scope.context)

    def value_of(self, metric: str, context: int | None) -> Fraction | None:
        """Newest value of a metric: measured, else pinned as frontier, else unknown."""
        name = metric if context is None else f"{metric}@{context}"
        measured = self.settings.measured.get(name)
        return measured if measured is not None else self.pinned("frontier", metric, context)

    @property
    def frontier_by_reference(self) -> Fraction | None:
        """The same, where it can be held against bounds that are taken from the reference: where one is pinned."""
        return None if self.reference is None else self.frontier

    def jitter(self) -> Fraction | None:
        """Seconds that two equal runs differ by: measured, else the rule's own word."""
        own = self.rule.clock.jitter if self.rule.clock else None
        return self.settings.jitter if self.settings.jitter is not None else own

    def ceiling(self, metric: str) -> Fraction | None:
        """Greatest claim of a metric that the rule admits; None where nothing bounds it or the bound keeps rising."""
        rule = self.rule.ceiling
        if rule is None or metric not in rule.metrics or rule.basis == "own-best":
            return None
        if rule.basis == "own-reference" and metric != self.metric:
            context = self.rule.guard.context if self.rule.guard and self.rule.guard.metric == metric else None
            base = self.pinned("reference", metric, context)
        else:
            base = self.reference
        return None if base is None else rule.multiple * base

    def describe_ceiling(self, metric: str) -> str | None:
        """The ceiling on a metric in words, wherever it is; None where the rule has none."""
        rule, known = self.rule.ceiling, self.ceiling(metric)
        if rule is None or metric not in rule.metrics:
            return None
        if known is not None:
            return f"the ceiling {format_rounded(known, 2)}"
        what = "the best" if rule.basis == "own-best" else "a reference that is not pinned"
        return f"the ceiling of {format_exact(rule.multiple)}x {what}"

    def region(
        self,
        variable: str,
        least: Fraction | None = None,
        *,
        above: bool = False,
        most: Fraction | None = None,
        below: bool = False,
        relative: bool = False,
    ) -> Region:
        """A region on the rule's grid.

        Where it is ``relative``, its bounds are multiples of a reference that is not pinned: what is known in tok/s is
        on neither side of them.
        """
        region = Region(variable, least, above, most, below, self.step, "x the reference" if relative else "tok/s")
        if least is not None and most is not None and region.is_blank:
            region = region.telling((least + most) / 2)
        for value in () if relative else self._known(variable):
            region = region.telling(value)
        return region

    def _known(self, variable: str) -> list[Fraction]:
        """Where a variable is known to be: what a region says of these has to be what it covers."""
        guard = self.rule.guard
        guarded = (
            []
            if guard is None
            else [self.value_of(guard.metric, guard.context), self.pinned("guard", guard.metric, guard.context)]
        )
        known = {"frontier": [self.frontier], "claim": [self.frontier, *guarded], "guarded": guarded}
        return [value for value in known.get(variable, ()) if value is not None]

    def reach(self, region: Region, value: Fraction | None, limit: Fraction | None) -> Reach:
        """How near a region is.

        Args:
            region: with a lower bound.
            value: where the variable is now; None when unknown.
            limit: greatest value the rule admits; None for none.
        """
        if value is not None and region.covers(value):
            return Reach.LIVE
        first = region.first
        if region.most is not None and value is not None and value > region.most:
            return Reach.BEYOND
        return Reach.BEYOND if limit is not None and first is not None and first > limit else Reach.REACHABLE
