"""What a history holds that a claim could rest on: receipts first, then figures that no receipt holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from k3_ledger.rescore.history.pins import MODEL, PINS
from k3_ledger.rescore.rules.verdict import REJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from fractions import Fraction

    from k3_ledger.rescore.native import Observer
    from k3_ledger.rescore.replay import Candidate, Material
    from k3_ledger.rescore.slots import Track


@dataclass(frozen=True, slots=True)
class Evidence:
    """One value that somebody recorded.

    Attributes:
        actor: ``subject``, ``reference`` for the other engine's value, ``floor`` or the name of a peer.
        receipt: identity of the receipt it stands in; None for a figure of a log, a pin or the shipped history.
        index: position of that receipt in a ledger, for a proof.
        accepted: False when the run was refused or superseded: its number supports nothing.
        says: where it stands, in words.
        observer: whose clock it was, where a receipt says so.
        primary: False for a second clock beside the one that the actor is known by.
        run: the log's own id of an imported run.
        beside: (actor of the same receipt, multiple of its speed), repetition by repetition.
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

    @property
    def sealed(self) -> bool:
        """Whether a receipt holds it."""
        return self.receipt is not None

    def is_of(self, receipt: str) -> bool:
        """Whether this is the receipt meant: by the start of its identity, or of the imported run's own id."""
        return any(name is not None and name.startswith(receipt) for name in (self.receipt, self.run))


def list_evidence(material: Material) -> list[Evidence]:
    """Everything that a history holds, receipts first, each kind in the history's order."""
    return [*_receipts(material), *_imports(material), *_figures(material)]


def _receipts(material: Material) -> Iterator[Evidence]:
    refused = {
        candidate.identity
        for candidate in material.candidates
        if candidate.superseded or any(judged.tier == REJECT for judged in candidate.verdicts[-1:])
    }
    for fact in material.facts:
        one = fact.speed
        actor = "reference" if fact.role == "reference" and one.actor == "subject" else one.actor
        yield Evidence(
            one.track, actor, one.speed, fact.time, fact.identity, fact.index, fact.identity not in refused,
            f"receipt {fact.identity[:8]}, entry {fact.index}",
            observer=one.observer, primary=one.primary, beside=one.beside,
        )  # fmt: skip


def _imports(material: Material) -> Iterator[Evidence]:
    for candidate in material.candidates:
        run = candidate.run
        if candidate.native or run.speed is None:
            continue
        held = of_run(candidate, run.speed)
        yield held
        for track, value in candidate.others.items():
            yield replace(held, track=track, value=value, says=f"the guarded value in {held.says}")


def of_run(candidate: Candidate, speed: Fraction) -> Evidence:
    """What an imported run measured, with its entry where it is one."""
    run = candidate.run
    pull_request = "" if run.pull_request is None else f" of #{run.pull_request}"
    accepted = not candidate.superseded and run.published != REJECT
    state = "" if accepted else " (superseded)" if candidate.superseded else " (REJECT)"
    entry = "" if candidate.index is None else f", entry {candidate.index}"
    return Evidence(
        run.track, "subject", speed, run.at, candidate.identity, candidate.index, accepted,
        f"receipt {candidate.label}{pull_request}{state}{entry}", run.pull_request, run=run.run,
    )  # fmt: skip


def _figures(material: Material) -> Iterator[Evidence]:
    for item in material.measurements:
        if item.receipt is None:
            yield Evidence(item.track, "subject", item.value, item.time, None, None, True, item.said_by)
    if any(candidate.run.track.model == MODEL and not candidate.native for candidate in material.candidates):
        for pin in PINS:
            actor = "reference" if pin.role == "reference" else "subject"
            says = f"the pin written{' by hand' if pin.by_hand else ''} in commit {pin.commit}"
            yield Evidence(pin.track, actor, pin.value, pin.since, None, None, True, says)
