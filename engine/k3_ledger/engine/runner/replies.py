"""Reads the fields of an engine's answer. Nothing in it is trusted to be there, of its type, or printable."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from k3_ledger.schemas.canonical import MAX_INTEGER
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Mapping


def printable(value: object, limit: int = 400) -> str:
    """Text that an engine sent, with every control character and lone surrogate escaped, cut to ``limit``."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit])[:limit]


def object_of(line: bytes) -> dict[str, Any] | None:
    """The one JSON object on a line: UTF-8 (no other encoding is guessed), and no name twice in any object of it."""
    try:
        data = json.loads(line.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a name stands twice")
    return data


def is_integer(value: object, wanted: int) -> bool:
    """Whether a field is this integer: true and 1.0 are not 1."""
    return type(value) is int and value == wanted


def count_of(data: Mapping[str, Any], name: str) -> int:
    """A field that is an integer from 0 up to what a receipt can hold.

    Raises:
        RunError: RUN_PROTOCOL.
    """
    value = data.get(name)
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise RunError(
            Code.RUN_PROTOCOL,
            f"the engine's answer has no {name!r} that could be one",
            expected=f"an integer from 0 to {MAX_INTEGER}",
            found=printable(value, 80),
        )
    return value


def tokens_of(value: Any, count: int, op: str, vocabulary: int) -> tuple[int, ...]:
    """Exactly ``count`` ids of a vocabulary of so many tokens.

    Raises:
        RunError: RUN_OUTPUT.
    """
    if not isinstance(value, list) or len(value) != count or not all(type(one) is int for one in value):
        raise _wrong(value, f"{count} token ids", op)
    if (foreign := next((one for one in value if not 0 <= one < vocabulary), None)) is not None:
        raise RunError(
            Code.RUN_OUTPUT,
            f"the engine's answer to {op!r} holds a token that the model does not have",
            expected=f"ids from 0 to {vocabulary - 1}",
            found=printable(foreign, 80),
        )
    return tuple(value)


def numbers_of(value: Any, count: int, op: str) -> tuple[float, ...]:
    """Exactly ``count`` finite log-probabilities.

    Raises:
        RunError: RUN_OUTPUT.
    """
    if not isinstance(value, list) or len(value) != count or not all(map(_is_number, value)):
        raise _wrong(value, f"{count} finite log-probabilities", op)
    return tuple(float(one) for one in value)


def _is_number(one: Any) -> bool:
    """Finite, and not so large an integer that no float is near it."""
    return type(one) is int and abs(one) <= MAX_INTEGER if type(one) is not float else math.isfinite(one)


def _wrong(value: Any, expected: str, op: str) -> RunError:
    return RunError(
        Code.RUN_OUTPUT,
        f"the engine's answer to {op!r} does not hold what it was asked for",
        expected=expected,
        found=f"{len(value)} values: {printable(value, 80)}" if isinstance(value, list) else printable(value, 80),
    )
