"""What a rule is made of: frozen parameters, an arithmetic that reads them, and a digest over both.

A rule promises that equal digests mean equal verdicts on equal runs. The digest covers the arithmetic's identifier,
every parameter and the pins the rule was released with; it does not cover the rule's name, so a renamed copy is
recognised. Numbers are fractions and are written as exact text.

Nothing here judges whether parameters make sense together: that is what ``rules lint`` is for.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from k3_ledger.rescore.exact import format_exact
from k3_ledger.schemas import canonical

Arithmetic: TypeAlias = Literal[
    "anchored-gain/1", "measured-gain/1", "measured-gain/2", "measured-gain/3", "measured-gain/4", "measured-gain/5",
    "measured-gain/6", "measured-gain/7",
]  # fmt: skip
"""Identifiers of the arithmetics. A changed formula is a new identifier, never a new meaning of an old one."""
REPEATING: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/7"})
"""Those that hold a gain against what the frontier runs of its round differ by; to the others one such run is the
frontier, however much another one differs from it."""
ON_WEIGHTS: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/6", *REPEATING})
"""Those that hold a run against nothing that was measured on other weights, and count no more of a claim than any pair
of lengths bears out; to the others one name is one model, and the shortest and longest runs are all the clock."""
BEARING_OUT: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/5", *ON_WEIGHTS})
"""Those that count a claim for no more than its clock bears out, hold the guarded metric against its clock too, and
hold a run against no frontier that is below one known before; the others take the subject's and the round's word."""
PROVING: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/4", *BEARING_OUT})
"""Those that tell a clock that proves nothing from one that contradicts a claim; the others refuse a run for either."""
RECONCILING: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/3", *PROVING})
"""Those that hold a reconciled pin against the newest measurement of its slot; the others take its word for it."""
BY_MIDDLE: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/2", *RECONCILING})
"""Those whose jitter is that of the middle half of the repetitions."""
GRADING: Final[frozenset[Arithmetic]] = frozenset({"measured-gain/1", *BY_MIDDLE})
"""Those whose every gate grades: what one refuses is REJECT, what one has no evidence for earns nothing."""

_MOST_DECIMALS: Final = 40


@dataclass(frozen=True, slots=True)
class Scope:
    """The one metric and context that a rule scores.

    Attributes:
        metric: ``decode``, ``prefill`` …
        context: tokens in front of the timed region, or those that prefill does; None for a metric that has none.
    """

    metric: str
    context: int | None


@dataclass(frozen=True, slots=True)
class Tiers:
    """From gain and credit to a name.

    Attributes:
        significance: a gain must be greater than this share (equality is ``none``).
        steps: names with the least credit of each, best first; credit equal to a bar reaches it.
        floor: tier of a significant gain that reaches no step.
    """

    significance: Fraction
    steps: tuple[tuple[str, Fraction], ...]
    floor: str


@dataclass(frozen=True, slots=True)
class Credit:
    """How much of a gain counts. With ``d`` the difference, ``F`` the frontier and ``L`` the reference:
    credit is the least of ``d/L`` (the anchor) and ``cap * d/F``; where the anchor is off it is the gain ``d/F``.

    Attributes:
        cap: multiple of the gain that credit may reach.
        anchor: False when no metric is anchored.
        anchor_off: metrics for which the anchor is off although ``anchor`` is True.
    """

    cap: Fraction
    anchor: bool = True
    anchor_off: tuple[str, ...] = ()

    def anchored(self, metric: str) -> bool:
        """Whether the anchor takes part for ``metric``."""
        return self.anchor and metric not in self.anchor_off


@dataclass(frozen=True, slots=True)
class Correctness:
    """The gate on agreement with the reference engine; equality passes on both bars.

    Attributes:
        top1: least share of graded rows whose most likely token agrees.
        kl: largest Kullback-Leibler divergence, in nats, worst depth.
        kl_soft: a divergence above this is a warning.
        depths: prompt lengths that must be graded, in tokens, ascending.
        rows: rows graded at each depth.
    """

    top1: Fraction
    kl: Fraction
    kl_soft: Fraction
    depths: tuple[int, ...]
    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("at least one row must be graded at each depth")


@dataclass(frozen=True, slots=True)
class Ratchet:
    """The gate on divergence against the frontier build of the same round, depth by depth.

    Attributes:
        warn: a divergence above this multiple of the frontier's is a warning.
        block: above this multiple the run is refused.
        floor: depths whose divergence is below this, in nats, are immaterial.
        block_from: the run is refused only where its own divergence is at least this, in nats.
    """

    warn: Fraction
    block: Fraction
    floor: Fraction
    block_from: Fraction


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock around a run, read from outside as the difference of two runs of unequal length.

    With ``m`` the tokens the longer run does more, ``D`` the seconds it takes longer and ``x = m/D``: a claim above
    ``claim_over_clock * x`` is faster than the clock allows; ``x`` above ``clock_over_claim`` times the claim means
    that the additional work was not done; ``D <= 0`` says nothing at all.

    Attributes:
        metrics: metrics the clock is read for.
        reading: ``claim`` when the program's own number is scored and the clock bounds it; ``clock`` when the
            clock's number is scored.
        margin: ``m``, fixed by the rule; None when it must be sized from the measured jitter.
        claim_over_clock: upper side, as a multiple.
        clock_over_claim: lower side, as a multiple; None when only one side is checked.
        jitter: seconds that two equal runs may differ by, as the rule assumes; None when the rule says nothing.
        jitter_multiple: the signal ``m/claim`` must exceed this multiple of the *measured* jitter; None when the
            rule does not ask.
    """

    metrics: tuple[str, ...]
    reading: Literal["claim", "clock"]
    margin: int | None
    claim_over_clock: Fraction
    clock_over_claim: Fraction | None
    jitter: Fraction | None
    jitter_multiple: Fraction | None = None

    def __post_init__(self) -> None:
        if self.jitter is not None and self.jitter < 0:
            raise ValueError("jitter is a span of time, not below zero")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A claim above this is not plausible.

    Attributes:
        multiple: how many times the basis a claim may reach (equality passes).
        metrics: metrics whose claims are checked.
        basis: ``scored-reference`` takes the reference of the slot the rule scores, whatever metric is checked;
            ``own-reference`` that of the metric checked; ``own-best`` the greater of that metric's reference and
            frontier, which therefore never falls behind.
    """

    multiple: Fraction
    metrics: tuple[str, ...]
    basis: Literal["scored-reference", "own-reference", "own-best"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A second metric that must not fall while the first one rises.

    Attributes:
        metric: the guarded metric.
        context: its context in tokens.
        least: the measured value must be at least this share of the pin (equality passes).
        pin: ``fixed`` when the pin is a number written into the rule's pins; ``reconciled`` when the pin must be
            the newest reconciled frontier of that metric. What that takes is the arithmetic's to say: from
            ``measured-gain/3`` on, that it agrees with the newest measurement; before, that it is a ``pin`` entry.
    """

    metric: str
    context: int | None
    least: Fraction
    pin: Literal["fixed", "reconciled"]


@dataclass(frozen=True, slots=True)
class Precision:
    """Decimals that figures are taken to. Speed is rounded before it is scored (ties to even); the others are how
    they are recorded and never touch a comparison (:data:`RECORDED`), as in the history, whose scorer compared the
    divergence it was given and rounded the one it wrote down.
    """

    speed: int
    percent: int
    kl: int

    def __post_init__(self) -> None:
        if not all(0 <= places <= _MOST_DECIMALS for places in (self.speed, self.percent, self.kl)):
            raise ValueError(f"decimals must be within 0 and {_MOST_DECIMALS}")


RECORDED: Final = ("precision.percent", "precision.kl")
"""Parameters that say how figures are recorded. They are part of a rule's digest, for that is what history fixed with
its rules, and no verdict rests on them: two rules that differ in these alone judge every run alike."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a native receipt must hold before its timing can be scored.

    Attributes:
        repetitions: least number of samples of each length.
        filled: True when every token of context must have been a real one rather than a seek over an empty cache.
        independent: True when the parity reference must be another engine than the one under test.
    """

    repetitions: int
    filled: bool
    independent: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One frozen version of the scoring policy.

    Attributes:
        name: tag or interim id; not part of the digest.
        pins: (slot, value) pairs that were pinned when the rule was released, sorted by slot.
    """

    name: str
    arithmetic: Arithmetic
    scope: Scope
    tiers: Tiers
    credit: Credit
    correctness: Correctness
    ratchet: Ratchet | None
    clock: Clock | None
    ceiling: Ceiling | None
    guard: Guard | None
    precision: Precision
    sampling: Sampling | None
    pins: tuple[tuple[str, Fraction], ...]

    @property
    def sha256(self) -> str:
        """Lower-case hex digest of arithmetic, parameters and pins."""
        return _digest(self, with_pins=True)

    @property
    def reconciles(self) -> bool:
        """Whether the guard's pin is held against the newest measurement of its slot."""
        return self.guard is not None and self.guard.pin == "reconciled" and self.arithmetic in RECONCILING

    @property
    def excuses(self) -> bool:
        """Whether a run whose clock proves nothing is told from one that its clock contradicts."""
        return self.arithmetic in PROVING

    @property
    def bears_out(self) -> bool:
        """Whether nothing counts beyond what a clock bears out, and no frontier falls."""
        return self.arithmetic in BEARING_OUT

    @property
    def weighs(self) -> bool:
        """Whether a run is held against what was measured on its own weights alone, and by every pair of lengths."""
        return self.arithmetic in ON_WEIGHTS

    @property
    def repeats(self) -> bool:
        """Whether a gain must be more than what the frontier runs of its round differ by."""
        return self.arithmetic in REPEATING

    @property
    def policy_sha256(self) -> str:
        """Digest without the pins: equal for two rules that differ in what was pinned alone."""
        return _digest(self, with_pins=False)

    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Every parameter as (dotted name, exact text), in the order of the fields; what a rule entry publishes."""
        return tuple(_flatten("", self._content(with_pins=True)))

    def pin(self, slot: str) -> Fraction | None:
        """Value this rule was released with for ``slot``, or None."""
        return dict(self.pins).get(slot)

    def _content(self, *, with_pins: bool) -> dict[str, object]:
        content: dict[str, object] = {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name not in {"name", "pins"}
        }
        if with_pins:
            content["pins"] = _plain(self.pins)
        return content


@functools.lru_cache(maxsize=1024)
def _digest(rule: Rule, *, with_pins: bool) -> str:
    return hashlib.sha256(canonical.format(rule._content(with_pins=with_pins))).hexdigest()  # noqa: SLF001 - same module


def _plain(value: object) -> object:
    """Canonical JSON form: exact text for fractions, lists for tuples, objects for the parts of a rule."""
    if isinstance(value, Fraction):
        return format_exact(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _flatten(prefix: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, item in value.items() for row in _flatten(f"{prefix}.{key}" if prefix else key, item)]
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return [(f"{prefix}.{name}", _text(item)) for name, item in value]
    return [(prefix, _text(value))]


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value) or "none"
    return str(value)
