"""What comes out of a rule: a verdict with every intermediate value, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from k3_ledger.rescore.exact import format_exact
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Figure, Origin

Term: TypeAlias = Literal["anchor", "cap", "gain"]
"""A term of the credit: ``d/L``, a multiple of the gain, or the gain itself."""

BASELINE: Final = "BASELINE"
NONE: Final = "none"
REJECT: Final = "REJECT"

Bound: TypeAlias = Literal[
    "baseline", "significance", "anchor", "cap", "gain", "correctness", "suite", "ratchet", "clock",
    "ceiling", "guard", "guard-clock", "sampling", "repeats",
]  # fmt: skip
"""What decided a tier: a term of the credit, the significance bar, a gate, or that there was no frontier yet."""


@dataclass(frozen=True, slots=True)
class Step:
    """One intermediate value."""

    name: str
    value: Fraction | str

    @property
    def text(self) -> str:
        """Exact text of the value."""
        return format_exact(self.value) if isinstance(self.value, Fraction) else self.value


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate beside the credit: what it found and why.

    Attributes:
        outcome: NOT_CHECKED when its evidence is absent; that is never a pass.
        reason: a stable word for what happened, such as ``work-not-done``; empty on a plain pass.
        detail: one lower-case clause with the numbers in it.
        steps: the numbers compared.
        warning: True when it passed but asks for attention.
    """

    name: Bound
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    steps: tuple[Step, ...] = ()
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin as a verdict used it."""

    slot: str
    figure: Figure

    @property
    def origin(self) -> Origin:
        """Where the value came from."""
        return self.figure.origin


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule applied to a run.

    Attributes:
        tier: what the run gets.
        speed_tier: what it would get for its speed alone; equal to ``tier`` unless a gate refused it.
        bound_by: what decided ``tier``.
        credit_bound: which term the credit came from; None where no credit was computed.
        gain: ``d/F``, exact; None where there is no frontier.
        credit: exact; None where no credit was computed.
        steps: every intermediate value in order of use.
        pins: the pins used, with their origins.
        gates: every gate of the rule, decided or not.
    """

    run: str
    rule: str
    rule_sha256: str
    metric: str
    tier: str
    speed_tier: str
    bound_by: Bound
    credit_bound: Term | None
    gain: Fraction | None
    credit: Fraction | None
    steps: tuple[Step, ...]
    pins: tuple[Pin, ...]
    gates: tuple[Gate, ...]

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Names of gates whose evidence is absent."""
        return tuple(gate.name for gate in self.gates if gate.outcome is Outcome.NOT_CHECKED)

    @property
    def refused_by(self) -> tuple[str, ...]:
        """Names of gates that failed, in the rule's order."""
        return tuple(gate.name for gate in self.gates if gate.outcome is Outcome.FAIL)

    @property
    def not_admitted(self) -> bool:
        """Whether a gate that only admits refused the run: the tier is that of its speed alone."""
        return self.tier != REJECT and bool(self.refused_by)

    @property
    def inferred(self) -> bool:
        """Whether any pin used was taken from the shipped history rather than from a record of the run."""
        return any(pin.figure.inferred for pin in self.pins)


@dataclass(frozen=True, slots=True)
class NotScorable:
    """Why a run cannot be scored under a rule. It is a result, not an error, and never a tier.

    Attributes:
        reason: ``scope`` when the rule scores another metric or context; ``missing`` when a field is absent;
            ``alarm`` when the frontier run of its round fell too far below the frontier; ``weights`` when it would be
            held against what was measured on other weights, or on nobody knows which.
        field: the field that is missing, sounded the alarm, or differs; None for ``scope``.
        message: one lower-case sentence.
    """

    run: str
    rule: str
    reason: Literal["scope", "missing", "alarm", "weights"]
    message: str
    field: str | None = field(default=None)


Scored: TypeAlias = "Verdict | NotScorable"
