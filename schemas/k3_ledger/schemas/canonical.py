r"""Restricted canonical JSON: one value has one spelling, and every language's parser agrees on it.

The profile is RFC 8785 (JCS) with less in it, so that nothing is left to interpretation:

1. UTF-8 without a byte order mark; nothing before or after the one value.
2. Numbers are integers within ±(2**53 - 1): no fraction, no exponent, no ``-0``, no leading zero, no NaN, no Infinity.
3. Object keys are ASCII ``[a-z0-9_]+``, sorted, and unique after unescaping.
4. Strings hold Unicode scalar values: no lone surrogate, however it is spelled. ``\b \t \n \f \r \" \\`` are
   written so, other characters below U+0020 as ``\u00xx`` in lower case, all others raw. Text is never normalised.
5. No white space outside strings.
6. Length, nesting, string length and number of values stay inside :class:`Limits`, checked before they cost anything.

:func:`parse` accepts canonical bytes only: it parses, formats again and compares. :func:`parse_value` has the same
rules for values but takes any white space, key order and escapes: it reads what people write by hand.
:func:`format` is the one writer. Arbitrary bytes give a value or a :class:`MalformedError`, nothing else.

The standard library's ``json`` writes, but does not read: its parser recurses, keeps the last of two equal keys,
and cannot say where a refused number stood. Reading is one loop over an explicit stack.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

JsonValue: TypeAlias = "bool | int | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_INTEGER = 2**53 - 1
"""Largest magnitude of a number: what an IEEE 754 double still counts exactly."""

_MAX_INTEGER_DIGITS = 16
_DEEPEST = 128

_SPACE = re.compile(r"[ \t\n\r]*")
_KEY = re.compile(r"[a-z0-9_]+")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(r"-?[0-9]+")
_NOT_A_NUMBER = re.compile(r"NaN|[+-]?Infinity|[+-]NaN")
_LITERAL = re.compile(r"true|false|null")
_LITERALS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}
_UNICODE_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may cost.

    Attributes:
        max_bytes: length of the whole document, in bytes; checked before anything is looked at.
        max_depth: brackets open at the same time, 0 <= max_depth <= 128; ``[[1]]`` has depth 2.
        max_string: length of one string or key, in code points after unescaping.
        max_items: values in the whole document; the outermost value, every element and every member count one each.
    """

    max_bytes: int = 65_535
    max_depth: int = 32
    max_string: int = 32_768
    max_items: int = 16_384

    def __post_init__(self) -> None:
        if not 0 <= self.max_depth <= _DEEPEST:
            raise ValueError(f"max_depth must be within 0 and {_DEEPEST}")


DEFAULT_LIMITS = Limits()


def parse(data: bytes, *, limits: Limits = DEFAULT_LIMITS, position: Position = NOWHERE) -> JsonValue:
    """Read a canonical document; any other spelling of the same value is refused.

    Args:
        data: the whole document.
        limits: what it may cost.
        position: where ``data`` starts in its source; its ``byte_offset`` is added to the offsets of errors.

    Raises:
        MalformedError: with the code of the cause, a byte offset, and a field path where one is known.
    """
    value = parse_value(data, limits=limits, position=position)
    canonical = _encode(value)
    if canonical == data:
        return value
    if data.startswith(canonical) and not data[len(canonical) :].strip(b" \t\r\n"):
        raise MalformedError(
            Code.JSON_NOT_CANONICAL,
            "not canonical: a line ending or white space stands behind the document",
            position=_locate(position, len(canonical), None),
            expected="end of input",
            found=_excerpt(data, len(canonical)),
            hint="an editor or a transfer in text mode added it: get the file again as it was written",
        )
    at = next((i for i, (a, b) in enumerate(zip(data, canonical, strict=False)) if a != b), len(canonical))
    expected = _excerpt(canonical, at) or "end of input"
    raise MalformedError(
        Code.JSON_NOT_CANONICAL,
        f"not canonical: expected {expected} here",
        position=_locate(position, at, _path_at(data[:at], limits)),
        expected=expected,
        found=_excerpt(data, at),
    )


def parse_value(data: bytes, *, limits: Limits = DEFAULT_LIMITS, position: Position = NOWHERE) -> JsonValue:
    """Read a document whose values obey the profile, in any spacing, key order and escaping.

    Args and errors are those of :func:`parse`, except that ``K3L-JSON-NOT-CANONICAL`` is never raised.
    """
    if len(data) > limits.max_bytes:
        raise MalformedError(
            Code.JSON_TOO_LONG,
            f"document of {len(data)} bytes, at most {limits.max_bytes} are allowed",
            position=_locate(position, limits.max_bytes, None),
            expected=f"at most {limits.max_bytes} bytes",
            found=f"{len(data)} bytes",
        )
    if data.startswith(b"\xef\xbb\xbf"):
        raise MalformedError(
            Code.JSON_BYTE_ORDER_MARK, "document starts with a byte order mark", position=_locate(position, 0, None)
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _undecodable(data, error.start, limits, position) from None
    return _Reader(text, limits, position).document()


def format(value: object, *, limits: Limits = DEFAULT_LIMITS) -> bytes:  # noqa: A001 - the pair is parse/format
    """Write the one spelling of ``value``; whatever is written, :func:`parse` reads back under the same limits.

    Takes ``None``, ``bool``, ``int``, ``str``, lists, tuples (written as lists) and dicts with string keys. Types are
    exact: a float is refused even when it is integral, and so are subclasses of ``int`` and ``str``.

    Raises:
        MalformedError: with the code of the cause and the field path of the value that has no spelling.
    """
    _Checker(limits).check(value, "", 0)
    data = _encode(value)
    if len(data) > limits.max_bytes:
        raise MalformedError(
            Code.JSON_TOO_LONG,
            f"value takes {len(data)} bytes, at most {limits.max_bytes} are allowed",
            expected=f"at most {limits.max_bytes} bytes",
            found=f"{len(data)} bytes",
        )
    return data


def _encode(value: object) -> bytes:
    # Keys are ASCII, so sorting by code point is the UTF-16 order that RFC 8785 asks for.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()


def _locate(position: Position, at: int, field: str | None) -> Position:
    return dataclasses.replace(position, byte_offset=(position.byte_offset or 0) + at, field=field or position.field)


def _excerpt(data: bytes, at: int) -> str:
    """Up to 24 bytes from ``at`` on, printable; empty at the end."""
    piece = data[at : at + 24].decode(errors="backslashreplace")
    return ascii(piece) if piece else ""


def _path_at(prefix: bytes, limits: Limits) -> str | None:
    """Field path of the value that the end of ``prefix`` stands in: a cut document names where it was cut."""
    try:
        _Reader(prefix.decode(errors="ignore"), limits, NOWHERE).document()
    except MalformedError as error:
        return error.finding.position.field
    return None


def _undecodable(data: bytes, at: int, limits: Limits, position: Position) -> MalformedError:
    place = _locate(position, at, _path_at(data[:at], limits))
    if data[at] == 0xED and data[at + 1 : at + 2] >= b"\xa0":
        return MalformedError(
            Code.JSON_LONE_SURROGATE, "surrogate encoded as UTF-8 bytes", position=place, found=_excerpt(data, at)
        )
    hint = None
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        hint = "the file looks like UTF-16; save it as UTF-8 without a byte order mark"
    return MalformedError(
        Code.JSON_NOT_UTF8, "bytes that are not UTF-8", position=place, found=_excerpt(data, at), hint=hint
    )


@dataclass(slots=True)
class _Frame:
    """An open container and the key or index of the member being read; ``None`` between members."""

    container: list[JsonValue] | dict[str, JsonValue]
    key: str | int | None = None


class _Reader:
    """One pass over one document. Offsets are in characters until an error turns them into bytes."""

    def __init__(self, text: str, limits: Limits, position: Position) -> None:
        self._text = text
        self._limits = limits
        self._position = position
        self._at = 0
        self._items = 0
        self._frames: list[_Frame] = []

    def document(self) -> JsonValue:
        """Read the one value and require the end of input after it."""
        root = self._value()
        while self._frames:
            frame = self._frames[-1]
            if not self._advance(frame):
                self._frames.pop()
                continue
            # A container joins its parent when it opens and is filled by the following rounds.
            value = self._value()
            if isinstance(frame.container, list):
                frame.container.append(value)
            else:
                assert isinstance(frame.key, str)
                frame.container[frame.key] = value
        self._skip_space()
        if self._at != len(self._text):
            raise self._error(Code.JSON_TRAILING_BYTES, "bytes after the end of the value", expected="end of input")
        return root

    def _advance(self, frame: _Frame) -> bool:
        """Move to the next member of ``frame``, up to its value. False when its closing bracket was read."""
        first, frame.key = len(frame.container) == 0, None
        self._skip_space()
        closing = "]" if isinstance(frame.container, list) else "}"
        if self._text.startswith(closing, self._at):
            self._at += 1
            return False
        if not first:
            self._expect(",", f"',' or '{closing}'")
        if isinstance(frame.container, list):
            frame.key = len(frame.container)
            return True
        self._skip_space()
        start = self._at
        if not self._text.startswith('"', start):
            raise self._error(Code.JSON_SYNTAX, "no key where one must stand", expected="a key in double quotes")
        key = self._string()
        if _KEY.fullmatch(key) is None:
            raise self._error(
                Code.JSON_KEY_ALPHABET, f"key {_shown(key)} is not made of a-z, 0-9 and _", start, found=_shown(key)
            )
        frame.key = key
        if key in frame.container:
            raise self._error(Code.JSON_DUPLICATE_KEY, f"key {key!r} stands twice in one object", start, found=key)
        self._skip_space()
        self._expect(":", "':'")
        return True

    def _value(self) -> JsonValue:
        """Read a scalar, or open a container and leave it on the stack."""
        self._skip_space()
        self._items += 1
        if self._items > self._limits.max_items:
            raise self._error(Code.JSON_TOO_MANY_ITEMS, f"more than {self._limits.max_items} values")
        first = self._text[self._at : self._at + 1]
        if first == '"':
            return self._string()
        if first in {"[", "{"}:
            if len(self._frames) >= self._limits.max_depth:
                raise self._error(Code.JSON_TOO_DEEP, f"more than {self._limits.max_depth} brackets open at once")
            self._at += 1
            opened: list[JsonValue] | dict[str, JsonValue] = [] if first == "[" else {}
            self._frames.append(_Frame(opened))
            return opened
        literal = _LITERAL.match(self._text, self._at)
        if literal is not None:
            self._at = literal.end()
            return _LITERALS[literal[0]]
        return self._integer()

    def _integer(self) -> int:
        match = _DIGITS.match(self._text, self._at)
        if match is None:
            if _NOT_A_NUMBER.match(self._text, self._at):
                raise self._error(Code.JSON_NOT_A_NUMBER, "NaN and Infinity are not JSON")
            raise self._error(Code.JSON_SYNTAX, "no value where one must stand", expected="a value")
        digits = match[0]
        if self._text[match.end() : match.end() + 1] in {".", "e", "E"}:
            raise self._error(Code.JSON_FLOAT, "number with a fraction or an exponent", expected="an integer")
        if digits == "-0":
            raise self._error(Code.JSON_NEGATIVE_ZERO, "minus zero", expected="0", found="-0")
        magnitude = digits.lstrip("-")
        if magnitude[0] == "0" and magnitude != "0":
            raise self._error(Code.JSON_LEADING_ZERO, "number with a leading zero")
        # The digit count is checked first: turning thousands of digits into an int is slow and limited by Python.
        if len(magnitude) > _MAX_INTEGER_DIGITS or int(magnitude) > MAX_INTEGER:
            raise self._error(
                Code.JSON_INTEGER_RANGE, "integer outside ±(2^53-1)", expected="at most 2^53-1 either way"
            )
        self._at = match.end()
        return int(digits)

    def _string(self) -> str:
        start, at = self._at, self._at + 1
        pieces: list[str] = []
        length = 0
        while True:
            plain = _PLAIN.match(self._text, at)
            assert plain is not None, "the pattern matches the empty string"
            pieces.append(plain[0])
            length += len(plain[0])
            at = plain.end()
            stop = self._text[at : at + 1]
            if stop == "\\":
                character, at = self._escape(at)
                pieces.append(character)
                length += 1
            if length > self._limits.max_string:
                raise self._error(
                    Code.JSON_STRING_TOO_LONG, f"string of more than {self._limits.max_string} characters", start
                )
            if stop == '"':
                self._at = at + 1
                return "".join(pieces)
            if stop == "":
                raise self._error(Code.JSON_SYNTAX, "string without an end", start, expected='"')
            if stop != "\\":
                raise self._error(Code.JSON_CONTROL_CHARACTER, "control character inside a string", at)

    def _escape(self, at: int) -> tuple[str, int]:
        """The character that the escape at ``at`` stands for, and the offset after it."""
        short = _ESCAPES.get(self._text[at + 1 : at + 2])
        if short is not None:
            return short, at + 2
        match = _UNICODE_ESCAPE.match(self._text, at)
        if match is None:
            raise self._error(Code.JSON_ESCAPE, "escape that JSON does not have", at)
        unit = int(match[1], 16)
        if not 0xD800 <= unit <= 0xDFFF:
            return chr(unit), match.end()
        low = _UNICODE_ESCAPE.match(self._text, match.end())
        if unit >= 0xDC00 or low is None or not 0xDC00 <= int(low[1], 16) <= 0xDFFF:
            raise self._error(Code.JSON_LONE_SURROGATE, "surrogate without its other half", at, found=match[0])
        return chr(0x10000 + ((unit - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)), low.end()

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None, "the pattern matches the empty string"
        self._at = match.end()

    def _expect(self, character: str, expected: str) -> None:
        if not self._text.startswith(character, self._at):
            raise self._error(Code.JSON_SYNTAX, f"expected {expected} here", expected=expected)
        self._at += 1

    def _error(
        self, code: Code, message: str, at: int | None = None, *, expected: str | None = None, found: str | None = None
    ) -> MalformedError:
        at = self._at if at is None else at
        if found is None:
            found = _shown(self._text[at : at + 24]) if at < len(self._text) else "end of input"
        path = ""
        for frame in self._frames:
            if frame.key is not None:
                path = _join(path, frame.key)
        offset = len(self._text[:at].encode())
        place = _locate(self._position, offset, path or None)
        return MalformedError(code, message, position=place, expected=expected, found=found)


def _join(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 24 else text[:24] + "...")


class _Checker:
    """Walks a Python value before it is written and refuses what has no spelling."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items = 0

    def check(self, value: object, path: str, depth: int) -> None:
        """Refuse ``value`` or return; recursion ends at ``limits.max_depth``, so cycles end too."""
        self._items += 1
        if self._items > self._limits.max_items:
            raise self._error(Code.JSON_TOO_MANY_ITEMS, f"more than {self._limits.max_items} values", path)
        kind = type(value)
        if kind is str:
            assert isinstance(value, str)
            self._check_string(value, path)
        elif kind is int:
            assert isinstance(value, int)
            if abs(value) > MAX_INTEGER:
                raise self._error(Code.JSON_INTEGER_RANGE, "integer outside ±(2^53-1)", path)
        elif kind is list or kind is tuple or kind is dict:
            if depth >= self._limits.max_depth:
                raise self._error(Code.JSON_TOO_DEEP, f"more than {self._limits.max_depth} levels of nesting", path)
            if isinstance(value, dict):
                self._check_members(value, path, depth)
            else:
                assert isinstance(value, list | tuple)
                for index, element in enumerate(value):
                    self.check(element, _join(path, index), depth + 1)
        elif kind is float:
            assert isinstance(value, float)
            code = Code.JSON_FLOAT if math.isfinite(value) else Code.JSON_NOT_A_NUMBER
            raise self._error(code, "a float has no spelling", path, found=repr(value))
        elif value is not None and kind is not bool:
            raise self._error(
                Code.JSON_TYPE, f"{kind.__name__} has no spelling in canonical JSON", path, found=kind.__name__
            )

    def _check_members(self, members: dict[object, object], path: str, depth: int) -> None:
        for key, member in members.items():
            if type(key) is not str:
                raise self._error(
                    Code.JSON_TYPE, f"key of type {type(key).__name__}", path, expected="str", found=type(key).__name__
                )
            if _KEY.fullmatch(key) is None:
                raise self._error(
                    Code.JSON_KEY_ALPHABET, f"key {_shown(key)} is not made of a-z, 0-9 and _", path, found=_shown(key)
                )
            self._check_length(key, path)
            self.check(member, _join(path, key), depth + 1)

    def _check_string(self, value: str, path: str) -> None:
        self._check_length(value, path)
        if _SURROGATE.search(value):
            raise self._error(Code.JSON_LONE_SURROGATE, "lone surrogate in a string", path, found=_shown(value))

    def _check_length(self, value: str, path: str) -> None:
        if len(value) > self._limits.max_string:
            raise self._error(
                Code.JSON_STRING_TOO_LONG, f"string of more than {self._limits.max_string} characters", path
            )

    def _error(
        self, code: Code, message: str, path: str, *, expected: str | None = None, found: str | None = None
    ) -> MalformedError:
        return MalformedError(code, message, position=Position(field=path or None), expected=expected, found=found)
