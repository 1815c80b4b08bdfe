"""The canonical profile once more, by the standard library's JSON parser and its hooks. Imports no room.

It recurses and says nothing about places, so it is no parser for hostile input; it only has to give the same verdict.
"""

from __future__ import annotations

import json
import re

LARGEST = 2**53 - 1


def accepts(data: bytes, *, depth: int = 32) -> bool:
    """Whether ``data`` is one JSON value that obeys the profile, in any spacing, key order and escaping."""
    try:
        value = json.loads(
            data.decode("utf-8", "strict"),
            parse_float=refuse,
            parse_constant=refuse,
            parse_int=integer,
            object_pairs_hook=members,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8", "strict")
        return nesting(value) <= depth
    except (ValueError, RecursionError):
        return False


def canonical(data: bytes) -> bytes:
    """The canonical spelling of a document that :func:`accepts` takes."""
    return json.dumps(json.loads(data), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def refuse(text: str) -> None:
    raise ValueError(text)


def integer(text: str) -> int:
    if len(text) > 17 or text == "-0" or abs(int(text)) > LARGEST:
        raise ValueError(text)
    return int(text)


def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs) or not all(re.fullmatch("[a-z0-9_]+", key, re.ASCII) for key in found):
        raise ValueError(str(pairs))
    return found


def nesting(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((nesting(member) for member in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((nesting(element) for element in value), default=0)
    return 0
