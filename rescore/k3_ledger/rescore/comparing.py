"""Whether a verdict is what its rule gives, and whether each pin that it states is what stands where it says.

A run is held against its own pins, against the references that its rule was released with (``--pins tag``), or against
those of a file and otherwise against its own. Whoever judges asks one of the three, so a verdict states the pins of one
of them, each with its value, where it was taken from and the entry that it is of. A frontier is never taken from a
rule, and nothing of a receipt of this ledger from the shipped history: what no judge was given follows from nothing.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.rules.verdict import NotScorable
from k3_ledger.rescore.sealing import name_entry
from k3_ledger.rescore.slots import parse_slot
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from k3_ledger.rescore.material import Candidate
    from k3_ledger.rescore.rescore import Judge
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.verdict import Verdict


def compare_verdict(
    _rule: Rule, judge: Judge, candidate: Candidate, index: int, body: Any, *, names: Mapping[str, frozenset[str]]
) -> Finding | None:
    """What is wrong with a verdict at position ``index`` about a run whose turn it is; None when it follows."""
    stated = {pin.slot: Figure(Fraction(pin.value), pin.source, pin.inferred, pin.entry or "") for pin in body.pins}
    derived = judge.peek(candidate, stated)
    if isinstance(derived, NotScorable):
        return _not_judged(derived, index)
    called = body.rule if body.rule in names[body.rule_sha256] else derived.rule
    for field, found, expected in _fields(body, dataclasses.replace(derived, rule=called)):
        if found != expected:
            return Finding(
                Code.VERDICT_MISMATCH, f"{field} does not follow from the rule", place_in(index, field), expected, found
            )
    held = _asked_as(judge, candidate, stated).peek(candidate)
    return _not_judged(held, index) if isinstance(held, NotScorable) else _trace(stated, held, index)


def _not_judged(result: NotScorable, index: int) -> Finding:
    return Finding(
        Code.VERDICT_MISMATCH, f"the rule does not judge this run: {result.message}", place_in(index, "rule")
    )


def _fields(body: Any, derived: Verdict) -> Iterator[tuple[str, str, str]]:
    """(field, what the verdict says, what the rule gives)."""
    yield "rule", body.rule, derived.rule
    yield "tier", body.tier, derived.tier
    yield "bound_by", body.bound_by, derived.bound_by
    yield "not_checked", ", ".join(body.not_checked), ", ".join(derived.not_checked)
    yield (
        "steps",
        _listed((step.name, step.value) for step in body.steps),
        _listed((step.name, step.text) for step in derived.steps),
    )
    yield "pins", ", ".join(sorted(pin.slot for pin in body.pins)), ", ".join(sorted(pin.slot for pin in derived.pins))


def _listed(steps: Iterator[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in steps)


def _asked_as(judge: Judge, candidate: Candidate, stated: Mapping[str, Figure]) -> Judge:
    """The judge at this point of the order, asked for the pins of the kind that a verdict states.

    What a file pins counts as measured on the run's own weights, as the file's own receipts were found to be.
    """
    supposed = [(slot, figure) for slot, figure in stated.items() if figure.origin == "file"]
    if supposed:
        weights = candidate.run.weights
        return judge.asked_for([
            PinRecord(*parse_slot(slot), figure.value, "", weights=weights) for slot, figure in supposed
        ])  # fmt: skip
    return judge.asked_for("tag") if any(figure.origin == "rule" for figure in stated.values()) else judge


def _trace(stated: Mapping[str, Figure], held: Verdict, index: int) -> Finding | None:
    """Whether each pin that a verdict states is what stands where it says."""
    there = {pin.slot: pin.figure for pin in held.pins}
    untraced = None
    for slot, figure in stated.items():
        found = there.get(slot)
        if found is None or found.origin != figure.origin:
            expected = "nothing"
        elif (found.value, found.inferred, name_entry(found)) == (figure.value, figure.inferred, name_entry(figure)):
            if figure.origin == "file":
                message = f"the pin of {slot} was taken from a file"
                value = format_exact(figure.value)
                untraced = Finding(Code.VERDICT_UNTRACED_PIN, message, place_in(index, "pins"), found=value)
            continue
        else:
            expected = _told(found, figure)
        message = f"the pin of {slot} is not what the {figure.origin} has"
        return Finding(Code.VERDICT_PIN, message, place_in(index, "pins"), expected, _told(figure, found))
    return untraced


def _told(figure: Figure, other: Figure | None) -> str:
    """A figure, with its entry where the value is not what two of them differ in."""
    value = format_exact(figure.value)
    if other is None or other.value != figure.value:
        return value
    return f"{value}, {'inferred' if figure.inferred else name_entry(figure) or 'of no entry'}"


def place_in(index: int, field: str) -> Position:
    """Where a field of an entry's body stands."""
    return Position(source="ledger.jsonl", line=index + 1, index=index, field=f"body.{field}")
