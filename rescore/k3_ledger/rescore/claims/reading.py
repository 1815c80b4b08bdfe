"""Claims as people write them: ``[[claim]]`` tables in a TOML file, or in a fenced block of a document.

A block is fenced with three backticks and ``toml claims``. Every kind of claim has its own fields; a field that
belongs to another kind is refused like any unknown one, with file and line.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from k3_ledger.rescore.claims.document import complain, read_document_of_claims
from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.native import Observer
from k3_ledger.rescore.pins import UNITS
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.slots import Track, parse_slot
from k3_ledger.rescore.toml import Table, looks_misspelt, read_tables
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from datetime import datetime

    from k3_ledger.rescore.claims.document import Document

Kind: TypeAlias = Literal["speed", "ratio", "gain", "credit", "accepted", "pin", "every", "rescored"]
Property: TypeAlias = Literal["top1", "kl", "top1-bar", "kl-bar", "attestation"]
_COMMON: Final = frozenset({"id", "says", "kind", "quote"})
_FIELDS: Final[dict[Kind, frozenset[str]]] = {
    "speed": frozenset({
        "track", "value", "tolerance", "actor", "observer", "receipt", "pull_request", "start", "ratio", "against",
        "inverse", "current",
    }),
    "ratio": frozenset({"track", "against", "ratio", "tolerance", "actor", "observer", "receipt", "inverse"}),
    "gain": frozenset({"percent", "tolerance", "receipt", "pull_request", "metric"}),
    "credit": frozenset({"gain_percent", "credited_percent", "tolerance", "receipt", "pull_request", "metric"}),
    "accepted": frozenset({"receipt", "pull_request"}),
    "pin": frozenset({"track", "value", "measured", "tolerance"}),
    "every": frozenset({"what", "least", "most", "is", "until"}),
    "rescored": frozenset({"rule", "pins", "change", "count"}),
}  # fmt: skip
"""Fields of each kind, besides those that every claim has."""
TOLERANCE_LIMIT: Final = Fraction(1, 10)
"""Most that a tolerance may be unless the caller allows more: what is further off is stale, not near."""
_EVERY_BOUND: Final = {"attestation": "is", "top1": "least", "top1-bar": "least", "kl": "most", "kl-bar": "most"}
_RECEIPT: Final = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as it was published.

    Attributes:
        places: decimals it was written with; ``rounding`` allows half a unit in the last of them.
    """

    value: Fraction
    places: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One published statement. Which fields are set depends on ``kind``; see docs/claims.md.

    Attributes:
        id: name of the claim in its file.
        says: what was published, in the reader's words.
        tolerance: share that evidence may differ by; None allows half a unit in the last published place.
        metric: which metric of the run is meant, with or without its context; None where it measured one.
        start: value a climb began at.
        ratio: published multiple of ``against``.
        against: ``reference``, ``start``, or the name of another actor of the same receipt.
        observer: whose clock is meant; None is the clock that the actor is known by.
        quote: words of the document around the claim that carry its number; None when nothing ties the two.
        inverse: True when less is better, so that the ratio is ``against / value``.
        current: True when the value is said to be the newest of its track.
    """

    id: str
    says: str
    kind: Kind
    position: Position = NOWHERE
    quote: str | None = None
    track: Track | None = None
    actor: str = "subject"
    observer: Observer | None = None
    value: Amount | None = None
    tolerance: Fraction | None = None
    pull_request: int | None = None
    receipt: str | None = None
    metric: str | None = None
    start: Amount | None = None
    ratio: Amount | None = None
    against: str | None = None
    inverse: bool = False
    current: bool = False
    measured: Amount | None = None
    gain: Amount | None = None
    credited: Amount | None = None
    what: Property | None = None
    least: Fraction | None = None
    most: Fraction | None = None
    word: str | None = None
    until: datetime | None = None
    rule: str | None = None
    pins: Literal["own", "tag"] = "own"
    change: Literal["lower", "higher", "unchanged"] | None = None
    count: int | None = None

    @property
    def allowed(self) -> str | None:
        """How far evidence may be off, in words; None for a kind that has no tolerance."""
        if "tolerance" not in _FIELDS[self.kind]:
            return None
        return "to the last place" if self.tolerance is None else f"within {format_exact(self.tolerance * 100)} %"


def read_claims(data: bytes, *, source: str, tolerance_limit: Fraction = TOLERANCE_LIMIT) -> list[Claim]:
    """Read a claims file, or the claims blocks of a document (whose name ends in ``.md`` or ``.markdown``).

    Args:
        data: the file's bytes.
        source: its name.
        tolerance_limit: greatest share of a number that its tolerance may be, as written or as half of a last place.

    Raises:
        RescoreError: with file, line and field; also when there is no claim at all.
    """
    tables: list[Table] = []
    around = None
    if source.lower().endswith((".md", ".markdown")):
        around = read_document_of_claims(data.decode("utf-8-sig", "replace"), source)
        for first_line, block in around.blocks:
            tables += read_tables(block.encode(), "claim", source=source, first_line=first_line)
    else:
        tables = read_tables(data, "claim", source=source)
    if not tables:
        raise RescoreError(
            Code.TOML_FIELD,
            "no claim in it",
            position=Position(source=source),
            expected="[[claim]] tables, or ```toml claims",
        )
    claims: list[Claim] = []
    for table in tables:
        claim = _read(table, around)
        _check_tolerance(table, claim, tolerance_limit)
        if any(claim.id == other.id for other in claims):
            table.refuse("id", "this id stands twice")
        claims.append(claim)
    return claims


def _check_tolerance(table: Table, claim: Claim, limit: Fraction) -> None:
    """Refuse a tolerance that would let a claim be supported by another number."""
    if claim.allowed is None:
        return
    most = f"at most {format_percent(limit)} %"
    if claim.tolerance is not None and claim.tolerance > limit:
        table.refuse("tolerance", f"tolerance is more than {format_percent(limit)} %", most)
    if claim.tolerance is not None or claim.kind in {"gain", "credit"}:  # a percentage has a scale of its own
        return
    for key, amount in (
        ("value", claim.value), ("ratio", claim.ratio), ("start", claim.start), ("measured", claim.measured),
    ):  # fmt: skip
        share = amount and Fraction(1, 2 * 10**amount.places) / amount.value
        if amount and share and share > limit:
            written = format_rounded(amount.value, amount.places)
            message = f"half a unit in the last place of {written} is {format_percent(share)} % of it"
            table.refuse(key, message, f"{most}: more decimals, or a share as tolerance")


def _read(table: Table, around: Document | None) -> Claim:
    table.only(_COMMON.union(*_FIELDS.values()))
    kind = cast("Kind", table.choice("kind", get_args(Kind)))
    table.only(_COMMON | _FIELDS[kind])
    base = Claim(
        id=table.text("id"),
        says=table.text("says"),
        kind=kind,
        position=table.position(),
        quote=table.text("quote") if table.has("quote") else None,
    )
    claim = _READERS[kind](table, base)
    if claim.quote is not None:
        _check_quote(table, claim, claim.quote, around)
    return claim


def _check_quote(table: Table, claim: Claim, quote: str, around: Document | None) -> None:
    """Refuse a claim whose document says something else than it does."""
    if around is None:
        table.refuse("quote", "only a claim in a document can quote it", "claims blocks in a .md file")
    amounts = [claim.value, claim.ratio, claim.gain, claim.credited, claim.measured, claim.start]
    numbers = [format_rounded(amount.value, amount.places) for amount in amounts if amount]
    complaint = complain(quote, numbers, around)
    if complaint is not None:
        table.refuse("quote", *complaint)


def _speed(table: Table, base: Claim) -> Claim:
    ratio = _amount(table, "ratio") if table.has("ratio") else None
    start = _amount(table, "start") if table.has("start") else None
    against = _actor(table, "against") if table.has("against") else None
    if (ratio is None) != (against is None):
        table.refuse("ratio" if against is None else "against", "ratio and against belong together")
    actor = _actor(table, "actor") if table.has("actor") else "subject"
    _check_sides(table, actor, against)
    if against == "start" and start is None:
        table.refuse("against", "against start needs a start")
    return _with(
        base,
        track=_track(table),
        actor=actor,
        observer=_observer(table),
        value=_amount(table, "value"),
        tolerance=_tolerance(table),
        pull_request=_pull_request(table),
        receipt=_receipt(table),
        start=start,
        ratio=ratio,
        against=against,
        inverse=_switch(table, "inverse"),
        current=_switch(table, "current"),
    )


def _check_sides(table: Table, actor: str, against: str | None) -> None:
    if against == actor:
        table.refuse("against", f"{actor} is compared with itself", "another actor than the claim is about")


def _ratio(table: Table, base: Claim) -> Claim:
    actor = _actor(table, "actor") if table.has("actor") else "subject"
    against = _actor(table, "against")
    _check_sides(table, actor, against)
    return _with(
        base,
        track=_track(table),
        actor=actor,
        observer=_observer(table),
        ratio=_amount(table, "ratio"),
        tolerance=_tolerance(table),
        against=against,
        inverse=_switch(table, "inverse"),
        receipt=_receipt(table),
    )


def _actor(table: Table, key: str) -> str:
    """Whom a value is of, or is compared with: a role, or any name of a peer that is not like one of the roles."""
    roles = ("reference", "subject", "floor", *(("start",) if key == "against" else ()))
    name = table.text(key)
    if near := looks_misspelt(name, roles):
        expected = f"{', '.join(roles)}, or the name of another actor of the same receipt"
        raise RescoreError(
            Code.TOML_FIELD,
            f"{key} is no actor that is known",
            position=table.position(key),
            expected=expected,
            found=name[:60],
            hint=near,
        )
    return name


def _receipt(table: Table) -> str | None:
    """The first digits of a receipt's identity, or all of them; None when no receipt is named."""
    if not table.has("receipt"):
        return None
    text = table.text("receipt")
    if not _RECEIPT.fullmatch(text):
        table.refuse("receipt", "receipt is not the identity of one", "4 to 64 lower-case hexadecimal digits")
    return text


def _observer(table: Table) -> Observer | None:
    return cast("Observer", table.choice("observer", get_args(Observer))) if table.has("observer") else None


def _gain(table: Table, base: Claim) -> Claim:
    return _with(
        base, value=_signed(table, "percent"), tolerance=_tolerance(table), metric=_metric(table), **_which(table)
    )


def _credit(table: Table, base: Claim) -> Claim:
    return _with(
        base,
        gain=_signed(table, "gain_percent"),
        credited=_signed(table, "credited_percent"),
        tolerance=_tolerance(table),
        metric=_metric(table),
        **_which(table),
    )


def _accepted(table: Table, base: Claim) -> Claim:
    return _with(base, **_which(table))


def _pin(table: Table, base: Claim) -> Claim:
    return _with(
        base,
        track=_track(table),
        value=_amount(table, "value"),
        measured=_amount(table, "measured"),
        tolerance=_tolerance(table),
    )


def _every(table: Table, base: Claim) -> Claim:
    what = cast("Property", table.choice("what", get_args(Property)))
    table.only(_COMMON | {"what", "until", _EVERY_BOUND[what]})
    fields: dict[str, object] = {"what": what, "until": table.moment("until") if table.has("until") else None}
    if what == "attestation":
        fields["word"] = table.text("is")
    elif what in {"top1", "top1-bar"}:
        fields["least"] = table.number("least")
    else:
        fields["most"] = table.number("most")
    return _with(base, **fields)


def _rescored(table: Table, base: Claim) -> Claim:
    rule = table.text("rule")
    try:
        find_rule(rule)
    except RescoreError as error:
        raise RescoreError(
            Code.TOML_FIELD,
            f"rule: no registered rule is named {rule[:60]!r}",
            position=table.position("rule"),
            expected="the name of a registered rule (`k3-ledger rules list`)",
            found=rule[:60],
            hint=f"{error.finding.advice}; of a rule in a file, or one that a ledger published itself, no claim is "
            "checked: `k3-ledger rescore SOURCE --rule NAME|FILE` says what it changes",
        ) from None
    return _with(
        base,
        rule=rule,
        pins=table.choice("pins", ("own", "tag")),
        change=table.choice("change", ("lower", "higher", "unchanged")),
        count=table.integer("count"),
    )


_READERS: Final = {
    "speed": _speed, "ratio": _ratio, "gain": _gain, "credit": _credit, "accepted": _accepted, "pin": _pin,
    "every": _every, "rescored": _rescored,
}  # fmt: skip


def _with(base: Claim, **fields: object) -> Claim:
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def _which(table: Table) -> dict[str, object]:
    """The run a claim is about: a receipt, or the runs of a pull request."""
    receipt = _receipt(table)
    pull_request = _pull_request(table)
    if receipt is None and pull_request is None:
        table.refuse(None, "a claim about a run names its receipt or its pull_request", "receipt or pull_request")
    return {"receipt": receipt, "pull_request": pull_request}


def _metric(table: Table) -> str | None:
    if not table.has("metric"):
        return None
    name = table.text("metric")
    if near := looks_misspelt(name.partition("@")[0], list(UNITS)):
        table.refuse("metric", f"{name[:60]} is no metric; {near}")
    return name


def _pull_request(table: Table) -> int | None:
    return table.integer("pull_request", least=1) if table.has("pull_request") else None


def _track(table: Table) -> Track:
    track = parse_slot(f"frontier:{table.text('track')}", position=table.position("track"))[1]
    if near := looks_misspelt(track.metric, list(UNITS)):
        table.refuse("track", f"{track.metric} is no metric; {near}")
    return track


def _amount(table: Table, key: str) -> Amount:
    """A measured value or a multiple: nothing that is measured is zero or below."""
    amount = _signed(table, key)
    if amount.value <= 0:
        table.refuse(key, f"{key} must be above zero", "a number above 0")
    return amount


def _signed(table: Table, key: str) -> Amount:
    return Amount(*table.literal(key))


def _switch(table: Table, key: str) -> bool:
    if not table.has(key):
        return False
    value = table.values[key]
    if not isinstance(value, bool):
        table.refuse(key, f"{key} must be true or false", "true or false")
    return value


def _tolerance(table: Table) -> Fraction | None:
    """A share, or None for ``rounding``: one of them must be said."""
    if table.values.get("tolerance") == "rounding":
        table.text("tolerance")
        return None
    share = table.number("tolerance")
    if not 0 <= share < 1:
        table.refuse("tolerance", "tolerance is a share from 0 to 1, or rounding", "rounding or a share such as 0.005")
    return share
