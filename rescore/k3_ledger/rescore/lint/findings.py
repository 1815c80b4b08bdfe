"""What the lint reports: a fault, the region of inputs it holds in, whether that is reached, and a smallest witness."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact
from k3_ledger.schemas.outcomes import ExitCode, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.rescore.rules.parameters import Rule

SIGNAL_MULTIPLE: Final = Fraction(10)
"""How many times the jitter a clock's signal should be: the metrologist's ten to one. Two loads that differ by the
jitter then move the reading by at most a fifth."""


class Fault(enum.StrEnum):
    """What can be wrong with a rule."""

    ANCHOR_OVER_GAIN = "anchor-over-gain"
    CAP_OVER_GAIN = "cap-over-gain"
    ANCHOR_DISCOUNT = "anchor-discount"
    ANCHOR_INERT = "anchor-inert"
    CREDIT_NOT_MONOTONE = "credit-not-monotone"
    LOSS_IS_CREDITED = "loss-is-credited"
    TIER_UNREACHABLE = "tier-unreachable"
    TIER_NAME_TAKEN = "tier-name-taken"
    TIER_ORDER = "tier-order"
    NO_CLOCK = "no-clock"
    ONE_SIDED_CLOCK = "one-sided-clock"
    CLOCK_REFUSES_HONEST = "clock-refuses-honest"
    CLOCK_REFUSES_UNPROVED = "clock-refuses-unproved"
    CLOCK_WIDER_THAN_TIERS = "clock-wider-than-tiers"
    CLOCK_AGAINST_CLAIMS = "clock-against-claims"
    MARGIN_WITHOUT_JITTER = "margin-without-jitter"
    MARGIN_DROWNS = "margin-drowns"
    JITTER_BY_LUCK = "jitter-by-luck"
    CLOCK_OVERASKS = "clock-overasks"
    CEILING_ABOVE_CROSSOVER = "ceiling-above-crossover"
    CEILING_OF_OTHER_METRIC = "ceiling-of-other-metric"
    CEILING_EXPIRES = "ceiling-expires"
    CEILING_BELOW_GUARDED = "ceiling-below-guarded"
    TOP1_BAR_INERT = "top1-bar-inert"
    BAR_REFUSES_ALL = "bar-refuses-all"
    KL_BAR_INERT = "kl-bar-inert"
    SOFT_BAR_INERT = "soft-bar-inert"
    SOFT_BAR_ALWAYS = "soft-bar-always"
    SUITE_OF_ONE_DEPTH = "suite-of-one-depth"
    NO_RATCHET = "no-ratchet"
    RATCHET_INERT = "ratchet-inert"
    RATCHET_LAX = "ratchet-lax"
    RATCHET_ON_NOISE = "ratchet-on-noise"
    RATCHET_REFUSES_EQUAL = "ratchet-refuses-equal"
    GUARD_PIN_FIXED = "guard-pin-fixed"
    GUARD_PIN_UNRECONCILED = "guard-pin-unreconciled"
    GUARD_REFUSES_PIN = "guard-refuses-pin"
    GUARD_ADMITS_NO_NOISE = "guard-admits-no-noise"
    GUARD_ADMITS_COLLAPSE = "guard-admits-collapse"
    GUARD_INERT = "guard-inert"
    GUARD_WITHOUT_CLOCK = "guard-without-clock"
    FRONTIER_FALLS = "frontier-falls"
    WEIGHTS_BY_NAME = "weights-by-name"
    FRONTIER_MEASURED_ONCE = "frontier-measured-once"
    ROUNDING_IS_CREDITED = "rounding-is-credited"
    KL_BAR_LAX = "kl-bar-lax"
    TOP1_BAR_LAX = "top1-bar-lax"
    SUITE_SHALLOW = "suite-shallow"
    CLOCK_LAX = "clock-lax"
    NO_CEILING = "no-ceiling"
    CEILING_LAX = "ceiling-lax"
    CEILING_BELOW_TIER = "ceiling-below-tier"
    NOTHING_EARNS = "nothing-earns"
    NO_GUARD = "no-guard"
    GUARD_ON_SCORED = "guard-on-scored"
    GUARD_ADMITS_TRADE = "guard-admits-trade"
    CONTEXT_NOT_FILLED = "context-not-filled"
    SELF_GRADED = "self-graded"
    RECORD_COARSE = "record-coarse"
    COUNTEREXAMPLE = "counterexample"


MEANINGS: Final[Mapping[Fault, str]] = {
    Fault.ANCHOR_OVER_GAIN: "once the frontier passes the reference, the anchor credits more than was gained",
    Fault.CAP_OVER_GAIN: "once the frontier passes cap times the reference, credit is cap times the gain",
    Fault.ANCHOR_DISCOUNT: "while the frontier is below the reference, the anchor credits less than was gained",
    Fault.ANCHOR_INERT: "the anchor can no longer bind, until the metric or the reference moves",
    Fault.CREDIT_NOT_MONOTONE: "more speed does not earn more credit",
    Fault.LOSS_IS_CREDITED: "a run slower than the frontier earns a tier",
    Fault.TIER_UNREACHABLE: "no significant gain can end in this tier",
    Fault.TIER_NAME_TAKEN: "a tier is called like another one, or like what is no tier",
    Fault.TIER_ORDER: "of two tiers that readers know, the lesser one asks for more",
    Fault.NO_CLOCK: "nothing outside the program bounds the number it prints",
    Fault.ONE_SIDED_CLOCK: "a program that does the same work whatever it is asked passes",
    Fault.CLOCK_REFUSES_HONEST: "a claim that equals the clock is refused, or jitter within the rule refuses it",
    Fault.CLOCK_REFUSES_UNPROVED: "a run too short to prove its speed is refused like one that its clock contradicts",
    Fault.CLOCK_AGAINST_CLAIMS: "the clock is scored and claims are what it is held against: to claim less gains",
    Fault.CLOCK_WIDER_THAN_TIERS: "a claim beyond its clock by less than the bound earns a tier by that alone",
    Fault.MARGIN_WITHOUT_JITTER: "a margin whose jitter nobody states or measures: nobody knows when it drowns",
    Fault.MARGIN_DROWNS: "at such a speed the margin may be worth too few times the jitter",
    Fault.JITTER_BY_LUCK: "so few repetitions that the jitter they show is often small by luck alone",
    Fault.CLOCK_OVERASKS: "the clock has to be finer than any bound needs: what honest runs cannot prove earns nothing",
    Fault.CEILING_ABOVE_CROSSOVER: "from the crossover to the ceiling jitter alone passes for work",
    Fault.CEILING_OF_OTHER_METRIC: "the ceiling of one metric is taken from the reference of another",
    Fault.CEILING_EXPIRES: "from this frontier on no run can both gain enough and be admitted",
    Fault.CEILING_BELOW_GUARDED: "where the guarded metric is above its own ceiling, every run is refused",
    Fault.TOP1_BAR_INERT: "over so few rows no input tells this bar from another",
    Fault.BAR_REFUSES_ALL: "no input passes the bar",
    Fault.KL_BAR_INERT: "the bar on divergence refuses nothing that could be a model of the same text",
    Fault.SOFT_BAR_ALWAYS: "every run is warned of, one that agrees exactly too",
    Fault.SOFT_BAR_INERT: "the warning can never be seen: what it would warn of is refused",
    Fault.SUITE_OF_ONE_DEPTH: "one prompt length decides, so the cache is never graded",
    Fault.NO_RATCHET: "divergence may creep up to the bar, merge by merge, in silence",
    Fault.RATCHET_INERT: "the ratchet can refuse nothing that the bar does not refuse",
    Fault.RATCHET_LAX: "one step reaches the bar from the middle of what the ratchet looks at, or from all of it",
    Fault.RATCHET_ON_NOISE: "the ratchet refuses ratios of numbers far beneath the bar",
    Fault.RATCHET_REFUSES_EQUAL: "a build that agrees exactly as well as the frontier is refused or warned of",
    Fault.GUARD_PIN_FIXED: "the guarded metric may fall by all that it rose since the pin was written",
    Fault.GUARD_PIN_UNRECONCILED: "any pin entry passes for a reconciled one, however stale it is",
    Fault.GUARD_REFUSES_PIN: "the pinned value itself is refused",
    Fault.GUARD_ADMITS_NO_NOISE: "a build that changed nothing is refused whenever it reads lower, every second time",
    Fault.GUARD_ADMITS_COLLAPSE: "the guarded metric may lose half or more",
    Fault.GUARD_INERT: "the guard passes whatever is measured",
    Fault.GUARD_WITHOUT_CLOCK: "the guarded metric is what the program says of itself: no clock bears it out",
    Fault.FRONTIER_FALLS: "a slow frontier run of the round lowers the frontier, and a run as slow earns a tier",
    Fault.WEIGHTS_BY_NAME: "a lighter file under the model's name is held against the frontier of the heavier one",
    Fault.FRONTIER_MEASURED_ONCE: "one frontier run is the frontier: what two runs of one build differ by is a gain",
    Fault.ROUNDING_IS_CREDITED: "a run as fast as the frontier earns a tier by being rounded",
    Fault.KL_BAR_LAX: "the bar on divergence is less than ten times stricter than a guess between two tokens",
    Fault.TOP1_BAR_LAX: "the bar on tokens is less than ten times stricter than a guess between two of them",
    Fault.SUITE_SHALLOW: "the deepest graded prompt is less than half of the way to the scored context, in doublings",
    Fault.CLOCK_LAX: "a program that does less than half of the work it claims passes",
    Fault.NO_CEILING: "no claim is implausible, and the clock alone stands against all",
    Fault.CEILING_LAX: "the ceiling lies more than an order of magnitude above what it is taken from",
    Fault.CEILING_BELOW_TIER: "the ceiling refuses every gain that reaches the best tier",
    Fault.NOTHING_EARNS: "a gate asks for what no run can have: nobody can earn a tier",
    Fault.NO_GUARD: "what is not scored may be given up for what is",
    Fault.GUARD_ON_SCORED: "the guarded metric is the scored one",
    Fault.GUARD_ADMITS_TRADE: "the guarded metric may lose more than the gain that earns a tier",
    Fault.CONTEXT_NOT_FILLED: "a run that seeks over its context is scored like one that computed it",
    Fault.SELF_GRADED: "an engine may be graded against itself",
    Fault.RECORD_COARSE: "a figure is recorded in fewer decimals than the bar it is compared with, unrounded, has",
    Fault.COUNTEREXAMPLE: "a search found an input that no other finding accounts for",
}
"""One line of explanation for each fault."""


class Reach(enum.StrEnum):
    """How near a fault is, judged by the rule's own pins and by what the rule admits."""

    LIVE = "live"
    REACHABLE = "reachable"
    BEYOND = "beyond"


_SEVERITY: Final = {Reach.LIVE: Severity.ERROR, Reach.REACHABLE: Severity.WARNING, Reach.BEYOND: Severity.NOTE}


@dataclass(frozen=True, slots=True)
class Region:
    """The values of one input for which a fault holds.

    Attributes:
        variable: ``frontier``, ``claim``, ``guarded`` …; what the bounds are values of.
        least: lower bound; None for none.
        above: True when ``least`` itself is outside.
        most: upper bound; None for none.
        below: True when ``most`` itself is outside.
        step: distance between two values the rule can tell apart; bounds are shown on it.
        unit: of the bounds.
    """

    variable: str
    least: Fraction | None = None
    above: bool = False
    most: Fraction | None = None
    below: bool = False
    step: Fraction = Fraction(1, 100)
    unit: str = "tok/s"

    def covers(self, value: Fraction) -> bool:
        """Whether the fault holds at ``value``."""
        over = self.least is None or value > self.least or (value == self.least and not self.above)
        return over and (self.most is None or value < self.most or (value == self.most and not self.below))

    @property
    def first(self) -> Fraction | None:
        """Smallest value on the rule's own grid inside the region; None where there is no lower bound."""
        if self.least is None:
            return None
        whole = self.least // self.step
        return (whole if whole * self.step == self.least and not self.above else whole + 1) * self.step

    @property
    def last(self) -> Fraction | None:
        """Greatest value on the rule's own grid inside the region; None where there is no upper bound."""
        if self.most is None:
            return None
        whole = self.most // self.step
        return (whole - 1 if whole * self.step == self.most and self.below else whole) * self.step

    @property
    def is_blank(self) -> bool:
        """Whether nothing on the grid is in it."""
        return self.first is not None and self.last is not None and self.first > self.last

    def telling(self, value: Fraction) -> Region:
        """The same region, on a grid so fine that its bounds as shown say of ``value`` what they do exactly."""
        region = self
        while region.covers(value) != region._shows(value):
            finer = region.step / 10
            if finer < Fraction(1, 10**12):  # a bound without end, such as a third: shown as the fraction it is
                finer = Fraction(1, math.lcm(*(bound.denominator for bound in (self.least, self.most) if bound)))
                return replace(region, step=finer / value.denominator)
            region = replace(region, step=finer)
        return region

    def _shows(self, value: Fraction) -> bool:
        over = self.first is None or value >= self.first
        return over and (self.last is None or value <= self.last)

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        parts = []
        if self.first is not None:
            parts.append(f"{self.variable} >= {format_exact(self.first)}{unit}")
        if self.last is not None:
            name = "" if parts else f"{self.variable} "
            parts.append(f"{name}<= {format_exact(self.last)}{unit}")
        return " and ".join(parts) or f"any {self.variable}"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One fault of one rule.

    Attributes:
        message: this occurrence with its numbers, one lower-case sentence.
        witness: names and exact text of the smallest inputs that show it.
        shows: what the witness comes to.
        note: True for what is worth knowing and no fault by itself.
    """

    fault: Fault
    reach: Reach
    region: Region
    message: str
    witness: tuple[tuple[str, str], ...] = ()
    shows: str = ""
    note: bool = False

    @property
    def severity(self) -> Severity:
        """Error when live, warning when the rule lets it be reached, note otherwise."""
        return Severity.NOTE if self.note else _SEVERITY[self.reach]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the reader of a rule may know beyond it.

    Attributes:
        jitter: seconds that two equal runs differ by, as measured; None to take the rule's own word.
        signal_multiple: how many times the jitter a clock's signal should be.
        measured: newest values by ``metric@context``; without one the rule's own pins say where the frontier is.
    """

    jitter: Fraction | None = None
    signal_multiple: Fraction = SIGNAL_MULTIPLE
    measured: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LintReport:
    """All findings on one rule."""

    rule: Rule
    findings: tuple[LintFinding, ...]

    @property
    def faults(self) -> frozenset[Fault]:
        """Faults that are errors or warnings: notes do not count."""
        return frozenset(finding.fault for finding in self.findings if finding.severity is not Severity.NOTE)

    @property
    def exit_code(self) -> ExitCode:
        """1 when anything is live or reachable, 0 otherwise."""
        return ExitCode.FALSE if self.faults else ExitCode.VERIFIED
