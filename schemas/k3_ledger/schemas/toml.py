"""TOML that strangers may have written: held to bounds before it is parsed, so that a short text is cheap to refuse.

The standard parser copies a dotted key once for each of its parts, and calls itself for every bracket inside another: a
key of some thousand parts fills the memory, and no error of its own says so. Every TOML file is read here, and nowhere
else. How long a text may be is left to whoever reads it.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_NESTED: Final = 100
"""Lists and tables inside one another, however they are written."""
MOST_PARTS: Final = 16
"""Parts of a dotted name. The parser notes each beginning of each name: the memory grows with the square of them."""
MOST_DIGITS: Final = 1000
"""Digits of a number, in any base. The interpreter turns no more than 4300 decimal ones into a number, or back."""

_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}+(?!"))*+"{3,5}+'
    r"|'''(?:[^']++|'{1,2}+(?!'))*+'{3,5}+"
    r"|#[^\n]*+"
    r'|(?P<part>[A-Za-z0-9_-]++|"(?!"")(?:[^"\\\n]++|\\.)*+"|' + r"'(?!'')[^'\n]*+')"
    r"|(?P<dot>\.)"
    r"|(?P<open>[\[{])"
    r"|(?P<close>[\]}])"
    r"|(?P<torn>[\"'])",
    re.DOTALL,
)
"""What tells whether a dot parts a key and a bracket opens something: texts and comments are passed over whole."""
_NUMBER: Final = re.compile(r"-?[0-9][0-9A-Fa-f_xo]*+")


class TomlError(ValueError):
    """What is no TOML, or passes a bound; the text says why.

    Attributes:
        line: where, counted from 1; None where nothing says.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """What a TOML text holds. Time and memory grow with its length, whatever it says.

    Args:
        text: all of it; a byte order mark in front is none of it.
        parse_float: makes a value of the text of a number with a fraction or an exponent.

    Raises:
        TomlError: it is no TOML, is nested more than :data:`MOST_NESTED` deep, or has a name of more than
            :data:`MOST_PARTS` parts or a number of more than :data:`MOST_DIGITS` digits.
    """
    text = text.removeprefix("\ufeff")
    for place, why in _beyond(text):
        raise TomlError(why, text.count("\n", 0, place) + 1)
    try:
        document = tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError as error:
        said, _, where = str(error).rpartition(" (at ")
        line = re.match(r"line ([0-9]+),", where)
        raise TomlError(said[:1].lower() + said[1:], int(line[1]) if line else None) from None
    if _depth(document) > MOST_NESTED:  # no single name or bracket says so, only what stands inside one another
        raise TomlError(_TOO_DEEP)
    return document


_TOO_DEEP: Final = f"nested more than {MOST_NESTED} deep"


def _beyond(text: str) -> Iterator[tuple[int, str]]:
    """Where a text passes a bound, and which.

    Up to the first place that is no TOML this sees what the parser sees; behind that the parser never comes.
    """
    brackets = parts = 0
    joined = False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "part":
            parts = parts + 1 if joined else 1
            if _NUMBER.fullmatch(token[0]) and len(token[0]) > MOST_DIGITS:
                yield token.start(), f"a number of {len(token[0])} digits"
        elif kind == "open":
            brackets += 1
        elif kind == "close":
            brackets -= 1
        elif kind == "torn":
            return
        joined = kind == "dot"
        if parts > MOST_PARTS:
            yield token.start(), f"a name of more than {MOST_PARTS} parts"
        if brackets > MOST_NESTED:
            yield token.start(), _TOO_DEEP


def _depth(document: dict[str, Any]) -> int:
    """How many lists and tables stand inside one another, at the deepest place."""
    level: list[Any] = [document]
    depth = -1
    while level:
        depth += 1
        inside = (item for held in level for item in (held.values() if isinstance(held, dict) else held))
        level = [item for item in inside if isinstance(item, dict | list)]
    return depth
