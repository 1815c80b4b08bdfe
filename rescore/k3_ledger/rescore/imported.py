"""What a rule reads of an imported foreign run, from the exact text that the import copied out of its originals.

Of several records that state a figure the most strongly bound one counts: what the enclave sealed, then the result
file, then the run's log, then the receipt's body, then the public line. What no record states is taken from the
shipped history and marked inferred, and only for the project whose history it is; everything else stays absent.

No record binds the tier that was published, and one word decides what it supports. So all copies of it are compared:
where they disagree nothing was published, as far as anybody knows, and that is a finding. In whatever letters a copy
is written, it is the tier that rules spell, as the audit takes it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_percent, parse_number, quantize
from k3_ledger.rescore.history.pins import DECODE_64, DECODE_128K, MODEL, NODE, PREFILL_32K, QUANT, pin_at
from k3_ledger.rescore.inputs import Depth, Figure, Parity, RunInputs
from k3_ledger.rescore.rules.registry import RULES, in_force
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT
from k3_ledger.rescore.slots import ABSENT, Track
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from k3_ledger.rescore.slots import Role

REPOSITORY: Final = "gittensor-ai-lab/sparkinfer-k3"
"""The project whose history is shipped. The history says nothing about any other."""

_PLACES: Final[dict[str, tuple[str, ...]]] = {
    "speed": ("sealed.tps", "result.tps", "log.figures.tps", "receipt.attestation.verdict.tps", "ledger.tps"),
    "frontier": ("sealed.frontier_tps", "result.frontier_tps", "log.evaluating.frontier"),
    "reference": ("sealed.tier_anchor_ref", "result.tier_anchor_ref"),
    "kl": ("sealed.kl", "result.kl", "receipt.attestation.measurements.primary.kl", "ledger.kl"),
    "top1": ("sealed.top1", "result.top1", "receipt.attestation.measurements.primary.top1", "ledger.top1"),
    "guarded": ("sealed.decode_tps", "result.decode_tps"),
    "metric": ("sealed.scored_metric", "result.scored_metric"),
    "context": ("sealed.scored_context", "sealed.scored_ctx", "result.scored_context", "result.scored_ctx"),
    "quant": ("sealed.quant", "result.quant"),
    "node": ("sealed.node", "result.node", "log.evaluating.node"),
    "at": ("receipt.attestation.timestamp_utc", "ledger.timestamp_utc", "index.timestamp_utc"),
    "pull_request": ("ledger.pr", "index.pr", "log.evaluating.pr"),
    "main": ("log.main.measuring.commit",),
    "published": (
        "ledger.label",
        "index.label",
        "result.label",
        "logged.label",
        "receipt.attestation.verdict.label",
    ),
    "share": ("sealed.pct_of_llama", "result.pct_of_llama"),
    "repository": ("receipt.attestation.code.repo",),
}
"""Fields that state each figure, strongest first; of a tier none is the stronger, and what is sealed is not the one
that was published."""

_TIERS: Final = {
    name.casefold(): name
    for rule in RULES.values()
    for name in (REJECT, NONE, BASELINE, rule.tiers.floor, *(step for step, _ in rule.tiers.steps))
}
"""Tiers as rules spell them."""
_NUMBERS: Final = ("speed", "frontier", "reference", "kl", "top1", "guarded")
_WHOLE: Final = ("context",)
FIGURES: Final = frozenset(name for fact in (*_NUMBERS, *_WHOLE) for name in _PLACES[fact])
"""Fields that hold a figure, where they are there at all."""

_SLOTS: Final = {"_128": DECODE_64, "_128K": DECODE_128K, "_32K_PP": PREFILL_32K}
"""Endings of the slot names that round logs print, and what was measured in them. The slot called 128 held 64."""


@dataclass(frozen=True, slots=True)
class FrontierReading:
    """What a round's log says its frontier build measured: a figure that no receipt holds.

    Attributes:
        pin: value pinned when it was measured, when the log says.
    """

    track: Track
    value: Fraction
    commit: str | None
    pin: Fraction | None


class _Fields:
    """Fields of one import by name."""

    def __init__(self, foreign_id: str, fields: Mapping[str, str]) -> None:
        self.foreign_id = foreign_id
        self.fields = fields

    def text(self, fact: str) -> tuple[str, str] | None:
        """(text, field) of the strongest record that states a fact; blank copies count as absent."""
        for name in _PLACES[fact]:
            if value := self.fields.get(name, ""):
                return value, name
        return None

    def copies(self, fact: str) -> dict[str, str]:
        """What every record that states a fact says, by field; blank copies count as absent."""
        return {name: value for name in _PLACES[fact] if (value := self.fields.get(name, ""))}

    def number(self, fact: str) -> tuple[Fraction, str] | None:
        """(number, field) of the strongest record that states a fact.

        Raises:
            RescoreError: the strongest record holds no number.
        """
        found = self.text(fact)
        return None if found is None else (self.parse(found[1]), found[1])

    def parse(self, name: str) -> Fraction:
        """The number in one field."""
        return parse_number(self.fields[name], field=name, position=Position(source=self.foreign_id, field=name))


def _contested(given: _Fields) -> str:
    """What the records of a run say of its tier, where they disagree; empty where they do not."""
    copies = given.copies("published")
    if len({tier.casefold() for tier in copies.values()}) < 2:
        return ""
    said: dict[str, list[str]] = {}
    for name, tier in copies.items():
        said.setdefault(tier[:20], []).append(name)
    return ", ".join(f"{tier} in {' and '.join(names)}" for tier, names in said.items())


def list_unreadable(foreign_id: str, fields: Mapping[str, str]) -> list[Finding]:
    """Every copy of a figure that is none, also where a stronger record states it, and tiers that disagree.

    One of the copies is wrong, and nothing tells which.
    """
    given = _Fields(foreign_id, fields)
    found: list[Finding] = []
    if contested := _contested(given):
        place = Position(source=foreign_id, field=next(iter(given.copies("published"))))
        message = f"the tier that was published is {contested}: no copy of it counts"
        found.append(Finding(Code.FOREIGN_CONTRADICTION, message, place))
    for fact in (*_NUMBERS, *_WHOLE):
        for name in _PLACES[fact]:
            text = fields.get(name, "")
            try:
                number = given.parse(name) if text else None
            except RescoreError as error:
                found.append(error.finding)
                continue
            if number is not None and number < 0:  # no speed, divergence or share is
                message = f"{name}: {text[:40]!r} is below zero"
                place = Position(source=foreign_id, field=name)
                found.append(Finding(Code.NUMBER, message, place, expected="a number from 0", found=text[:60]))
            elif number is not None and fact in _WHOLE and not text.isdecimal():
                place = Position(source=foreign_id, field=name)
                message = f"{name}: {text[:40]!r} is not a whole number"
                found.append(Finding(Code.NUMBER, message, place, expected="a whole number", found=text[:60]))
    return found


def read_import(foreign_id: str, fields: Mapping[str, str]) -> RunInputs | None:
    """The run that an import holds; None for what is no run (a round without one, an advance of the frontier).

    Raises:
        RescoreError: a figure that is needed is no number (``K3L-NUMBER``), or a moment is none.
    """
    given = _Fields(foreign_id, fields)
    if not any(name.startswith(("receipt.", "result.", "sealed.", "ledger.")) for name in fields):
        return None
    at = _moment(given)
    repository = given.text("repository")
    known = at is not None and repository is not None and repository[0] == REPOSITORY
    track, inferred = _track(given, at if known else None)
    speed, frontier = given.number("speed"), given.number("frontier")
    guarded, pull_request, published = given.number("guarded"), given.text("pull_request"), given.text("published")
    main, contested = given.text("main"), _contested(given)
    number = pull_request[0].removeprefix("#") if pull_request else ""
    return RunInputs(
        run=foreign_id,
        track=track,
        speed=speed[0] if speed else None,
        frontier=Figure(frontier[0], "receipt", source=frontier[1]) if frontier else None,
        reference=_reference(given, track, at if known else None),
        parity=_parity(given),
        frontier_parity=_frontier_parity(given),
        guarded=guarded[0] if guarded else None,
        guard_pin=_from_history("guard", DECODE_128K, at) if known and guarded else None,
        at=at,
        commit=main[0] if main else None,
        pull_request=int(number) if number.isdecimal() else None,
        published=_TIERS.get(published[0].casefold(), published[0]) if published and not contested else None,
        contested=contested,
        received=any(name.startswith(("receipt.", "sealed.")) for name in fields),
        inferred=inferred,
    )


def read_frontier(fields: Mapping[str, str]) -> FrontierReading | None:
    """What the round's log says about the frontier build, where it names the slot and a value."""
    value = fields.get("log.main.frontier.frontier")
    for kind in ("pin-kept", "pin-moved", "pin-alarm"):
        slot = fields.get(f"log.main.{kind}.slot", "")
        track = next((track for ending, track in _SLOTS.items() if slot.endswith(f"SPARKINFER{ending}")), None)
        if value and track is not None:
            pin = fields.get(f"log.main.{kind}.pin")
            return FrontierReading(
                track,
                parse_number(value, field="log.main.frontier.frontier"),
                fields.get("log.main.frontier.commit"),
                parse_number(pin, field=f"log.main.{kind}.pin") if pin else None,
            )
    return None


def _moment(given: _Fields) -> datetime | None:
    found = given.text("at")
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found[0].upper())
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _track(given: _Fields, at: datetime | None) -> tuple[Track, tuple[str, ...]]:
    """What was measured on what, and which parts of that no record states."""
    metric, context = given.text("metric"), given.text("context")
    node, quant = given.text("node"), given.text("quant")
    inferred = tuple(name for name, found in (("metric", metric), ("context", context)) if found is None)
    scope = None
    if at is not None and inferred:
        try:
            scope = in_force(at).scope
        except RescoreError:
            scope = None
    return (
        Track(
            metric[0] if metric else scope.metric if scope else "unknown",
            int(context[0]) if context and context[0].isdecimal() else scope.context if scope else None,
            MODEL if at is not None else ABSENT,
            quant[0] if quant else QUANT if at is not None else ABSENT,
            node[0] if node else NODE if at is not None else ABSENT,
        ),
        inferred,
    )


def _reference(given: _Fields, track: Track, at: datetime | None) -> Figure | None:
    recorded = given.number("reference")
    if recorded is not None:
        return Figure(recorded[0], "receipt", source=recorded[1])
    figure = _from_history("reference", track, at)
    if figure is None or not _agrees(given, figure.value):
        return figure
    return Figure(figure.value, figure.origin, figure.inferred, f"{figure.source}; the recorded pct_of_llama agrees")


def _agrees(given: _Fields, reference: Fraction) -> bool:
    """Whether the recorded gain in percent of the reference is the one this reference gives."""
    share, speed, frontier = given.text("share"), given.number("speed"), given.number("frontier")
    if share is None or speed is None or frontier is None:
        return False
    return format_percent((speed[0] - frontier[0]) / reference) == share[0]


def _from_history(role: Role, track: Track, at: datetime | None) -> Figure | None:
    pin = pin_at(track.slot(role), at) if at is not None else None
    return None if pin is None else Figure(pin.value, "history", inferred=True, source=f"commit {pin.commit}")


def _parity(given: _Fields) -> Parity | None:
    kl, top1 = given.number("kl"), given.number("top1")
    kl = kl and (_with_all_digits(given, *kl), kl[1])
    depths = _depths(given, "result.kl_depths.")
    if kl is None and top1 is None and not depths:
        return None
    return Parity(kl[0] if kl else None, top1[0] if top1 else None, depths)


def _with_all_digits(given: _Fields, kl: Fraction, name: str) -> Fraction:
    """A divergence as the round's log spells it, where that is the recorded one before it was rounded.

    Records keep four decimals of a run's divergence and the log all of the frontier's: compared as they stand, the
    one that was rounded up would look worse than it was.
    """
    if not given.fields.get("log.parity.kl"):
        return kl
    full = given.parse("log.parity.kl")
    places = len(given.fields[name].partition(".")[2])
    return full if quantize(full, places) == kl else kl


def _frontier_parity(given: _Fields) -> Parity | None:
    """What the frontier build of the same round was graded at: the round's log alone says so, and nothing seals it."""
    depths = _depths(given, "log.main.")
    kl, top1 = (
        given.parse(name) if given.fields.get(name) else None
        for name in ("log.main.main-parity.kl", "log.main.main-parity.top1")
    )
    return Parity(kl, top1, depths, source="the round's log") if depths or kl is not None else None


def _depths(given: _Fields, prefix: str) -> tuple[Depth, ...]:
    """Depths that fields named ``prefix``ctxN.kl and ``prefix``ctxN.top1 state, ascending."""
    depths = []
    for name in given.fields:
        tokens = name.removeprefix(prefix + "ctx").removesuffix(".kl")
        other = f"{prefix}ctx{tokens}.top1"
        if name == f"{prefix}ctx{tokens}.kl" and tokens.isdecimal() and other in given.fields:
            depths.append(Depth(int(tokens), given.parse(name), given.parse(other)))
    return tuple(sorted(depths, key=lambda depth: depth.tokens))
