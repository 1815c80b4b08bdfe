"""Read a rule back from its parameters as text: what a ``rule`` entry publishes, or a file that a person edits.

:func:`parse_parameters` and :meth:`Rule.parameters` are a pair: parsing what a rule publishes gives an equal rule,
digest and all. Every parameter must be there and no other may be: a rule with a defaulted bar would be a guess.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

from k3_ledger.rescore.exact import parse_decimal
from k3_ledger.rescore.rules.parameters import Rule
from k3_ledger.rescore.slots import parse_slot
from k3_ledger.rescore.toml import did_you_mean, key_lines, looks_misspelt, read_document
from k3_ledger.schemas.errors import LedgerError, RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_BYTES: Final = 65_536
"""Length of a rule file, in bytes."""
METRICS: Final = ("decode", "prefill")
"""Metrics that rules score; another one is taken where it is not like one of these."""
TIERS: Final = ("XL", "L", "M", "S", "XS")
"""Tiers that rules give, best first."""
_NONE: Final = "none"
_QUOTIENT: Final = re.compile(r"(-?[1-9][0-9]{0,40})/([1-9][0-9]{0,40})")


def parse_parameters(
    name: str,
    parameters: Iterable[tuple[str, str]],
    *,
    position: Position = NOWHERE,
    lines: Mapping[str, int] | None = None,
) -> Rule:
    """The rule with this name and these parameters.

    Args:
        name: what to call it; not part of its digest.
        parameters: (dotted name, exact text), as :meth:`Rule.parameters` writes them.
        position: where they stand.
        lines: line of each parameter, for a file.

    Raises:
        RescoreError: ``K3L-RULE-PARAMETERS``, naming the parameter that is missing, unknown, given twice or of the
            wrong kind.
    """
    reader = _Reader(position, lines or {})
    for key, text in parameters:
        if key in reader.texts:
            raise reader.refuse(key, "is given twice")
        reader.texts[key] = text
    for key in reader.texts:  # first of all: a misspelt one is the fault, and not the one that it leaves missing
        if not _is_known(key):
            raise reader.unknown(key)
    values = {
        field.name: reader.read(field.name, hint) for field, hint in _fields(Rule) if field.name not in {"name", "pins"}
    }
    values["pins"] = reader.pins()
    unknown = sorted(set(reader.texts) - reader.seen)
    if unknown:
        raise reader.unknown(unknown[0])
    return Rule(name=name, **values)


_TAKEN: Final = {"in-force": "the rule of each run's own moment", "published": "what a run was published with"}
"""Words that stand where the name of a rule can stand."""


def read_rule_file(data: bytes, *, source: str) -> Rule:
    """Read a rule file: TOML with ``name`` and the parameters as dotted keys, as ``rules show --toml`` prints it.

    Raises:
        RescoreError: not TOML (``K3L-TOML-SYNTAX``) or not a rule (``K3L-RULE-PARAMETERS``).
    """
    where = Position(source=source)
    text, document = read_document(data, source=source, most=MAX_BYTES)
    lines = key_lines(text)
    name = document.pop("name", None)
    rows = _flatten("", document, lambda key: _place(where, lines, key))
    _check_keys(rows, where, lines)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+@/-]{0,99}", name):
        raise RescoreError(
            Code.RULE_PARAMETERS, "name must be a short name in quotes", position=_place(where, lines, "name")
        )
    if name in _TAKEN:
        message = f"{name} is no name for a rule: options take it for {_TAKEN[name]}"
        raise RescoreError(Code.RULE_PARAMETERS, message, position=_place(where, lines, "name"), found=name)
    rule = parse_parameters(name, rows, position=where, lines=lines)
    _check_words(rule, where, lines)
    return rule


def _check_keys(rows: list[tuple[str, str]], where: Position, lines: Mapping[str, int]) -> None:
    """Refuse a misspelt key before anything is said about what it leaves missing, the rule's name included."""
    reader = _Reader(where, lines)
    for key, _ in rows:
        if not _is_known(key):
            raise reader.unknown(key)


def _check_words(rule: Rule, where: Position, lines: Mapping[str, int]) -> None:
    """Refuse what is free in a rule but in a file is a slip: a metric like a known one, a tier beside known ones."""
    reader = _Reader(where, lines)
    metrics = [("scope.metric", rule.scope.metric)]
    metrics += [] if rule.guard is None else [("guard.metric", rule.guard.metric)]
    metrics += [] if rule.clock is None else [("clock.metrics", metric) for metric in rule.clock.metrics]
    metrics += [] if rule.ceiling is None else [("ceiling.metrics", metric) for metric in rule.ceiling.metrics]
    metrics += [("credit.anchor_off", metric) for metric in rule.credit.anchor_off]
    for key, metric in metrics:
        if near := looks_misspelt(metric, METRICS):
            raise reader.refuse(key, f"is no metric; {near}", metric)
    tiers = [(f"tiers.steps.{name}", name) for name, _ in rule.tiers.steps]
    tiers.append(("tiers.floor", rule.tiers.floor))
    if any(name in TIERS for _, name in tiers):  # a scale of its own is free, half of the known one is a slip
        for key, name in tiers:
            if name not in TIERS:
                raise reader.refuse(key, f"is no tier: the known ones are {', '.join(TIERS)}", name)


def _place(where: Position, lines: Mapping[str, int], key: str) -> Position:
    """Where a key stands; for one that is missing, where the rest of its part does, or the file begins."""
    parts = key.split(".")
    for count in range(len(parts), 0, -1):
        prefix = ".".join(parts[:count])
        found = [line for name, line in lines.items() if name == prefix or name.startswith(f"{prefix}.")]
        if found:
            return dataclasses.replace(where, line=min(found), field=key)
    return dataclasses.replace(where, line=1, field=key)


def format_rule_file(rule: Rule) -> str:
    """The text :func:`read_rule_file` reads."""
    lines = [f'name = "{rule.name}"']
    for key, text in rule.parameters():
        path = key.split(".", 1) if key.startswith("pins.") else key.split(".")
        spelled = ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"' for part in path)
        lines.append(f'{spelled} = "{text}"')
    return "\n".join(lines) + "\n"


def _flatten(prefix: str, table: Mapping[str, Any], place: Callable[[str], Position]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in table.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            rows += _flatten(path, value, place)
        elif not _is_known(path):
            rows.append((path, ""))
        elif isinstance(value, str | int) and not isinstance(value, bool):
            rows.append((path, str(value)))
        else:
            raise RescoreError(Code.RULE_PARAMETERS, f"{path} must be text in quotes or a number", position=place(path))
    return rows


def _fields(cls: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _known(cls: type[Any], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """(dotted name, whether it is a part rather than a value) of everything that a rule has."""
    for field, hint in _fields(cls):
        path = f"{prefix}{field.name}"
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        (kind,) = [kind for kind in kinds if kind is not type(None)]
        part = dataclasses.is_dataclass(kind)
        if path != "name":
            yield path, part
        if part:
            yield from _known(kind, f"{path}.")


_LEAVES: Final = tuple(name for name, part in _known(Rule) if not part)
_PARTS: Final = tuple(name for name, part in _known(Rule) if part)
_OPEN: Final = ("tiers.steps.", "pins.")


def _is_known(key: str) -> bool:
    return key in _LEAVES or key in _PARTS or key.startswith(_OPEN)


class _Reader:
    """Turns texts into values by the types of the rule's fields, noting which texts were used."""

    def __init__(self, position: Position, lines: Mapping[str, int]) -> None:
        self.position = position
        self.lines = lines
        self.texts: dict[str, str] = {}
        self.seen: set[str] = set()

    def refuse(self, key: str, what: str, found: str | None = None) -> RescoreError:
        where = _place(self.position, self.lines, key) if self.lines else dataclasses.replace(self.position, field=key)
        return RescoreError(Code.RULE_PARAMETERS, f"{key} {what}", position=where, found=found)

    def unknown(self, key: str) -> RescoreError:
        near = did_you_mean(key, [*_LEAVES, *_PARTS])
        return self.refuse(key, "is no parameter" + (f"; {near}" if near else ""))

    def read(self, key: str, hint: Any) -> Any:
        """The value of a field, which is a part of a rule, an optional one, a list of steps, or a leaf."""
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        if type(None) in options and self.texts.get(key) == _NONE:
            self.seen.add(key)
            return None
        (kind,) = [option for option in options if option is not type(None)]
        if dataclasses.is_dataclass(kind):
            part: Any = kind
            values = {field.name: self.read(f"{key}.{field.name}", its) for field, its in _fields(part)}
            try:
                return part(**values)
            except ValueError as error:
                raise self.refuse(key, f"is not possible: {error}") from error
        if kind == tuple[tuple[str, Fraction], ...]:
            return self.steps(key)
        return self.leaf(key, kind)

    def steps(self, key: str) -> tuple[tuple[str, Fraction], ...]:
        """(name, bar) pairs in the order given."""
        names = [name for name in self.texts if name.startswith(f"{key}.")]
        if not names and self.texts.get(key) == _NONE:
            self.seen.add(key)
        elif not names:
            raise self.refuse(key, "is missing")
        return tuple((name.removeprefix(f"{key}."), self.leaf(name, Fraction)) for name in names)

    def pins(self) -> tuple[tuple[str, Fraction], ...]:
        """Pins by slot, sorted."""
        pairs = self.steps("pins")
        for slot, value in pairs:
            try:
                parse_slot(slot)
            except LedgerError as error:
                raise self.refuse(f"pins.{slot}", "does not name a slot") from error
            if value <= 0:
                raise self.refuse(f"pins.{slot}", "must be above zero", str(value))
        return tuple(sorted(pairs))

    def leaf(self, key: str, kind: Any) -> Any:
        """A value that is written as one text."""
        self.seen.add(key)
        if key not in self.texts:
            raise self.refuse(key, "is missing")
        text = self.texts[key]
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            return tuple(self.scalar(key, part, item) for part in text.split(", ")) if text != _NONE else ()
        return self.scalar(key, text, kind)

    def scalar(self, key: str, text: str, kind: Any) -> Any:
        """A number, a word or a switch."""
        if kind is Fraction:
            quotient = _QUOTIENT.fullmatch(text)
            if quotient:
                return Fraction(int(quotient[1]), int(quotient[2]))
            try:
                return parse_decimal(text, field=key)
            except RescoreError:
                raise self.refuse(key, "must be an exact number", text[:60]) from None
        if kind is bool:
            if text in {"on", "off"}:
                return text == "on"
            raise self.refuse(key, "must be on or off", text[:60])
        if kind is int:
            if re.fullmatch(r"0|[1-9][0-9]{0,15}", text):
                return int(text)
            raise self.refuse(key, "must be a whole number", text[:60])
        if typing.get_origin(kind) is Literal and text not in typing.get_args(kind):
            raise self.refuse(key, f"must be one of {', '.join(typing.get_args(kind))}", text[:60])
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}", text):
            raise self.refuse(key, "must be a short name", text[:60])
        return text
