"""What a history holds that a claim could rest on: receipts first, then figures that no receipt holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.doubt import doubt, doubt_work
from k3_ledger.rescore.exact import format_rounded
from k3_ledger.rescore.history.pins import MODEL, PINS
from k3_ledger.rescore.material import CONTESTED, DIFFERING
from k3_ledger.rescore.rules.verdict import REJECT
from k3_ledger.rescore.standing import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from fractions import Fraction

    from k3_ledger.rescore.material import Candidate, Fact, Material
    from k3_ledger.rescore.native import Observer
    from k3_ledger.rescore.slots import Track


@dataclass(frozen=True, slots=True)
class Evidence:
    """One value that somebody recorded.

    Attributes:
        actor: ``subject``, ``reference`` for the other engine's value in a receipt of its own, ``floor`` or the name of
            a peer.
        receipt: identity of the receipt it stands in; None for a figure of a log, a pin or the shipped history.
        index: position of that receipt in a ledger, for a proof.
        accepted: False when the run was refused, not proved or superseded: its number supports nothing.
        claimed: what the program claims, where more than counts; None elsewhere.
        contested: whether that is because its records or its imports disagree, which is nothing against it either.
        says: where it stands, in words.
        moment: when it was recorded, by position where it has one.
        observer: whose clock it was, where a receipt says so.
        primary: False for a second clock beside the one that the actor is known by.
        run: the log's own id of an imported run.
        beside: (actor of the same receipt, multiple of its speed), repetition by repetition.
        weights: digest of the weights that were measured; None where nothing says.
        also: other names of an imported run.
    """

    track: Track
    actor: str
    value: Fraction
    time: datetime | None
    receipt: str | None
    index: int | None
    accepted: bool
    says: str
    pull_request: int | None = None
    observer: Observer | None = None
    primary: bool = True
    run: str | None = None
    beside: tuple[tuple[str, Fraction], ...] = ()
    moment: Moment = field(default_factory=Moment)
    weights: str | None = None
    contested: bool = False
    claimed: Fraction | None = None
    also: tuple[str, ...] = ()

    @property
    def sealed(self) -> bool:
        """Whether a receipt holds it."""
        return self.receipt is not None

    def is_of(self, receipt: str) -> bool:
        """Whether this is the receipt meant: by its identity, or by the imported run's own id, whole."""
        return receipt in {self.receipt, self.run, *self.also}


def list_evidence(material: Material) -> list[Evidence]:
    """Everything that a history holds: receipts in the history's order, then figures that no receipt holds."""
    receipts = [*_receipts(material), *_imports(material)]
    receipts.sort(key=lambda item: item.moment.position or 0)
    return [*receipts, *_figures(material)]


def _receipts(material: Material) -> Iterator[Evidence]:
    rejected = {candidate.identity for candidate in material.candidates if candidate.refused}
    own = {(one.identity, one.run.track): one for one in material.candidates if one.native}
    for fact in material.facts:
        one = fact.speed
        candidate = own.get((fact.identity, one.track)) if fact.role == "candidate" else None
        state = "" if fact.stands else "superseded"
        if fact.stands and fact.identity in rejected:
            state = REJECT
        elif fact.stands:
            state = _doubted(fact, candidate)
        value, beside = one.speed, one.beside
        if candidate is not None and not state and (counted := candidate.count(one.speed)) != one.speed:
            # of what does not count no multiple does, in either direction
            beside = () if one.actor == "subject" else tuple(item for item in beside if item[0] != "subject")
            if one.actor == one.observer == "subject":
                value = counted
        shown = f" ({state})" if state else ""
        if value != one.speed:
            shown = f" (claims {format_rounded(one.speed, 2)}, and its clock bears out no more)"
        yield Evidence(
            one.track, _actor(fact), value, fact.time, fact.identity, fact.index, not state,
            f"receipt {fact.identity[:8]}{_whose(fact)}{shown}, entry {fact.index}",
            observer=one.observer, primary=one.primary, beside=beside, moment=Moment(fact.index, fact.time),
            weights=fact.weights, claimed=None if value == one.speed else one.speed,
        )  # fmt: skip


def _doubted(fact: Fact, candidate: Candidate | None) -> str:
    """Why a speed supports nothing; empty where it does."""
    one = fact.speed
    if fact.role != "candidate" or one.actor != "subject":
        return fact.doubted
    own = one.observer == "subject"
    if candidate is not None:
        return candidate.void(one.speed, own=own)
    return doubt(one.track, one.speed, None, None, filled=None) if own else doubt_work(one.track, None, filled=None)


def _whose(fact: Fact) -> str:
    """Whose figure it is, where it is neither the program's own nor the other engine's in a receipt of its own."""
    return "" if fact.speed.actor == "subject" else f" (its {fact.speed.actor})"


def _actor(fact: Fact) -> str:
    """Whose figure it is. The role of a receipt decides who the other engine is, never a name inside it."""
    if fact.role == "reference" and fact.speed.actor == "subject":
        return REFERENCE
    return SO_CALLED if fact.speed.actor == REFERENCE else fact.speed.actor


REFERENCE: Final = "reference"
SO_CALLED: Final = "so-called reference"
"""What a receipt calls the other engine without being its receipt."""


def _imports(material: Material) -> Iterator[Evidence]:
    for number, candidate in enumerate(material.candidates):
        run = candidate.run
        if candidate.native or run.speed is None:
            continue
        held = of_run(candidate, run.speed, number)
        yield held
        for track, value in candidate.others.items():
            yield replace(held, track=track, value=value, says=f"the guarded value in {held.says}")


def of_run(candidate: Candidate, speed: Fraction, number: int = 0) -> Evidence:
    """What an imported run measured, with its entry where it is one.

    Args:
        candidate: the run.
        speed: its value.
        number: its place in the source's order, for a log that was never imported.
    """
    run = candidate.run
    if not run.received:
        says = f"a record of {candidate.label}, of which no receipt can be read,"
        moment = Moment(number if candidate.index is None else candidate.index, run.at)
        return Evidence(
            run.track, "subject", speed, run.at, None, None, not candidate.superseded, says, run.pull_request,
            run=run.run, moment=moment, weights=run.weights,
        )  # fmt: skip
    pull_request = "" if run.pull_request is None else f" of #{run.pull_request}"
    voided = candidate.voided
    state = f" ({voided})" if voided else ""
    entry = "" if candidate.index is None else f", entry {candidate.index}"
    return Evidence(
        run.track, "subject", speed, run.at, candidate.identity, candidate.index, not voided,
        f"receipt {candidate.label}{pull_request}{state}{entry}", run.pull_request, run=run.run,
        moment=Moment(number if candidate.index is None else candidate.index, run.at), weights=run.weights,
        contested=voided in {CONTESTED, DIFFERING}, also=candidate.also,
    )  # fmt: skip


def _figures(material: Material) -> Iterator[Evidence]:
    for item in material.measurements:
        if item.receipt is None:
            yield Evidence(
                item.track, "subject", item.value, item.time, None, None, True, item.said_by,
                moment=Moment(None, item.time),
            )  # fmt: skip
    yield from _shipped(material)


def _shipped(material: Material) -> Iterator[Evidence]:
    """Pins of the shipped history, where it is the history of these runs."""
    if any(candidate.run.track.model == MODEL and not candidate.native for candidate in material.candidates):
        for pin in PINS:
            actor = REFERENCE if pin.role == "reference" else "subject"
            says = f"the pin written{' by hand' if pin.by_hand else ''} in commit {pin.commit}"
            yield Evidence(
                pin.track, actor, pin.value, pin.since, None, None, True, says, moment=Moment(None, pin.since)
            )


def list_pins(material: Material) -> list[Evidence]:
    """Every value that was pinned as this project's own: by an entry that stands, else in the shipped history."""
    entries = [
        Evidence(
            pin.track, "subject", pin.value, pin.time, pin.identity, pin.position.index, True,
            f"the pin entry {pin.position.index}", moment=Moment(pin.position.index, pin.time), weights=pin.weights,
        )
        for pin in material.pin_entries
        if pin.role != "reference"
    ]  # fmt: skip
    return [*entries, *(item for item in _shipped(material) if item.actor == "subject")]
