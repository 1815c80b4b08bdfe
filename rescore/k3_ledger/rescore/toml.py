"""Typed reading of small TOML files that people write: every error names the file, the line and the field.

Numbers are kept as the text they were written in, so ``value = 56.8`` is exactly 56.8. Unknown and misspelt fields
are refused, with the nearest known name: a typo must never become a default.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from k3_ledger.rescore.exact import parse_decimal
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.schemas.toml import TomlError, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

MAX_BYTES: Final = 1_000_000
"""Length of a file, in bytes."""

_HEADER: Final = re.compile(r"\s*\[\[\s*([A-Za-z0-9_-]+)\s*\]\]")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_PART: Final = r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'"
_DOTTED: Final = re.compile(rf"\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*=")
_TABLE: Final = re.compile(rf"\s*\[\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*\]\s*(?:#.*)?$")


class _Number(str):
    """Text of a TOML float, told apart from a TOML string."""

    __slots__ = ()


def _as_written(value: object) -> str:
    """A value as TOML writes it, texts without their quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_as_written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_as_written(item)}' for name, item in value.items())}}}"
    return str(value)


@dataclass(frozen=True, slots=True)
class Table:
    """One ``[[name]]`` table. Whoever reads one says first, with :meth:`only`, which keys there are."""

    source: str
    name: str
    line: int | None
    values: dict[str, object]
    lines: dict[str, int]

    def position(self, key: str | None = None) -> Position:
        """Where the table, or one of its keys, stands."""
        path = self.name if key is None else f"{self.name}.{key}"
        return Position(source=self.source, line=self.lines.get(key or "", self.line), field=path)

    def refuse(self, key: str | None, message: str, expected: str | None = None) -> NoReturn:
        """Raise the error for one key of this table."""
        found = None if key is None or key not in self.values else _as_written(self.values[key])[:60]
        raise RescoreError(Code.TOML_FIELD, message, position=self.position(key), expected=expected, found=found)

    def has(self, key: str) -> bool:
        """Whether an optional key is there."""
        return key in self.values

    def text(self, key: str) -> str:
        """A non-empty string."""
        value = self._take(key)
        if not isinstance(value, str) or isinstance(value, _Number) or not value.strip():
            self.refuse(key, f"{key} must be text in quotes", "text")
        return value

    def choice(self, key: str, options: Sequence[str]) -> str:
        """One of a fixed set of words."""
        value = self.text(key)
        if value not in options:
            self.refuse(key, f"{key} must be one of {', '.join(options)}", "|".join(options))
        return value

    def number(self, key: str) -> Fraction:
        """An exact number, written bare or in quotes; a unit is refused."""
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.refuse(key, f"{key} must be a number", "a decimal number such as 56.82")
        return parse_decimal(str(value), field=key, position=self.position(key))

    def literal(self, key: str) -> tuple[Fraction, int]:
        """An exact number and the decimals it was written with."""
        value = self.number(key)
        return value, len(str(self.values[key]).partition(".")[2])

    def integer(self, key: str, *, least: int = 0) -> int:
        """A whole number of at least ``least``."""
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.refuse(key, f"{key} must be a whole number of at least {least}", f"a whole number >= {least}")
        return value

    def moment(self, key: str) -> datetime:
        """A point in time with its zone, as a TOML date-time."""
        value = self._take(key)
        if not isinstance(value, datetime) or value.tzinfo is None:
            self.refuse(key, f"{key} must be a date and time with its zone", "2026-08-05T05:32:32Z")
        try:
            return value.astimezone(UTC)
        except OverflowError:  # its zone leads out of the years that there are
            self.refuse(key, f"{key} must be within the years 1 to 9999 in UTC", "2026-08-05T05:32:32Z")

    def only(self, known: Iterable[str]) -> None:
        """Refuse any other key. Asked first, so that a misspelt key is named and not the one that it leaves missing."""
        names = sorted(known)
        for key in self.values:
            if key not in names:
                raise RescoreError(
                    Code.TOML_FIELD,
                    f"unknown field {key!r}",
                    position=self.position(key),
                    found=key,
                    hint=did_you_mean(key, names) or f"known fields: {', '.join(names)}",
                )

    def _take(self, key: str) -> object:
        if key not in self.values:
            self.refuse(key, f"{key} is missing")
        return self.values[key]


def read_tables(data: bytes, name: str, *, source: str, first_line: int = 1) -> list[Table]:
    """Read a file that consists of ``[[name]]`` tables and nothing else.

    Args:
        data: the whole file.
        name: name of the tables, such as ``pin``.
        source: name of the file, for messages.
        first_line: line of ``source`` that ``data`` begins on.

    Raises:
        RescoreError: ``K3L-TOML-SYNTAX`` when it is not TOML, ``K3L-TOML-FIELD`` when it holds something else.
    """
    text, document = read_document(data, source=source, first_line=first_line)
    tables = document.get(name, [])
    if set(document) - {name} or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        strange = next((key for key in document if key != name), name)
        where = Position(source=source, line=_line_of(text, strange, first_line), field=strange)
        hint = did_you_mean(strange, [name]) if strange != name else None
        raise RescoreError(
            Code.TOML_FIELD, f"only [[{name}]] tables belong here", position=where, found=strange, hint=hint
        )
    places = _places(text, name, first_line)
    if len(places) != len(tables):  # written inline, or a header inside a long string: lines are then unknown
        places = [(None, {}) for _ in tables]
    return [
        Table(source, f"{name}[{i}]", line, table, lines)
        for i, (table, (line, lines)) in enumerate(zip(tables, places, strict=True))
    ]


def read_document(
    data: bytes, *, source: str, first_line: int = 1, most: int = MAX_BYTES
) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it holds, numbers as they are spelled.

    Raises:
        RescoreError: ``K3L-TOML-SYNTAX``, with the line where there is one.
    """
    if len(data) > most:
        raise RescoreError(Code.TOML_SYNTAX, f"longer than {most} bytes", position=Position(source=source))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = Position(source=source, byte_offset=error.start)
        raise RescoreError(Code.TOML_SYNTAX, "not UTF-8", position=where) from error
    try:
        return text, read_toml(text, parse_float=_Number)
    except TomlError as error:
        line = None if error.line is None else error.line + first_line - 1
        where = Position(source=source, line=line)
        raise RescoreError(Code.TOML_SYNTAX, f"not TOML: {error}", position=where) from error


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The question to ask about a word that is not known; None where nothing known is like it."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else None


def looks_misspelt(word: str, known: Sequence[str]) -> str | None:
    """The same for a place that takes other words as well: asked only where a known word was clearly meant.

    A known word with something behind it (``reference-2``) is a word of its own.
    """
    if word in known or word.startswith(tuple(known)):
        return None
    return did_you_mean(word, known, cutoff=0.75)


def key_lines(text: str) -> dict[str, int]:
    """Line of each dotted key, as far as plain lines show them; keys under a ``[header]`` carry its name in front."""
    lines: dict[str, int] = {}
    above: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        header = _TABLE.match(line)
        if header:
            above = _parts(header[1])
            lines.setdefault(".".join(above), number)
        elif key := _DOTTED.match(line):
            lines.setdefault(".".join([*above, *_parts(key[1])]), number)
    return lines


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, dotted)]


def _line_of(text: str, key: str, first_line: int) -> int | None:
    for number, line in enumerate(text.split("\n"), start=first_line):
        if re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}\b", line):
            return number
    return None


def _places(text: str, name: str, first_line: int) -> list[tuple[int | None, dict[str, int]]]:
    """Line of each ``[[name]]`` header and of the keys under it, as far as plain lines show them."""
    places: list[tuple[int | None, dict[str, int]]] = []
    for number, line in enumerate(text.split("\n"), start=first_line):
        header = _HEADER.match(line)
        if header and header[1] == name:
            places.append((number, {}))
        elif places and (key := _KEY.match(line)):
            places[-1][1].setdefault(key[1], number)
    return places
