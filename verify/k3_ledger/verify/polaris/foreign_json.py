r"""JSON as other people write it: floats, any spacing, any key, and every value's exact text and place.

This is the opposite of :mod:`k3_ledger.schemas.canonical`: a foreign log is evidence, so as much of it as possible
is read, and what is odd about it is reported beside the value instead of replacing it.

1. A number keeps its literal text (:class:`Number`); no figure ever passes through binary floating point.
2. A key that stands twice is a finding; the last value counts, as in the readers that this family uses.
3. ``NaN``, ``Infinity`` and numbers beyond any measurement are findings; the value stays as text and is not compared.
4. What cannot be read at all (truncated, not UTF-8, nested beyond :data:`MAX_DEPTH`, a lone surrogate) leaves a
   document without fields and a finding that says where it broke.

Arbitrary bytes give a :class:`Document`, never an exception.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 1 << 25
"""Longest document that is read, in bytes. A receipt is about 40 kB."""
MAX_DEPTH: Final = 64
"""Most brackets open at one time."""
MAX_ITEMS: Final = 1 << 18
"""Most values in one document."""
MAX_DIGITS: Final = 64
"""Longest number that is taken for a figure, in characters."""
MAX_EXPONENT: Final = 400
"""Largest decimal exponent of a figure; doubles end at 308."""
MAX_KEY: Final = 1024
"""Longest object key, in characters: keys add up to paths."""
MAX_PROBLEMS: Final = 64
"""Most oddities listed for one document; the last one listed says that there are more."""

_SPACE = re.compile(rb"[ \t\n\r]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(rb"NaN|-?Infinity")
_WORD = re.compile(rb"true|false|null")
_WORDS: Final[dict[bytes, bool | None]] = {b"true": True, b"false": False, b"null": None}
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})')
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NUMERIC_TEXT = re.compile(r"-?(?:0|[1-9][0-9]{0,23})(?:\.[0-9]{1,24})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written. ``text`` is the literal, ``NaN`` and ``-Infinity`` included."""

    text: str

    @property
    def value(self) -> Decimal | None:
        """Its exact value; None for what is no figure (not finite, or beyond :data:`MAX_DIGITS` and exponent)."""
        return _decimal(self.text)

    @property
    def decimals(self) -> int:
        """Digits after the point that carry value; trailing zeros do not, an exponent is taken in. ``1e-5`` has 5."""
        value = self.value
        if not value:
            return 0
        return max(0, -int(value.normalize().as_tuple().exponent))

    @property
    def printed_decimals(self) -> int:
        """Digits after the point as printed, trailing zeros included."""
        value = self.value
        return 0 if value is None else max(0, -int(value.as_tuple().exponent))


def _decimal(text: str) -> Decimal | None:
    mantissa, _, exponent = text.lower().partition("e")
    if len(text) > MAX_DIGITS or "n" in mantissa or abs(int(exponent or 0)) > MAX_EXPONENT:
        return None
    return Decimal(text)


@dataclass(frozen=True, slots=True)
class Compound:
    """A list, or an empty object, as one value: compared as a whole, by its compact spelling."""

    text: str


@dataclass(frozen=True, slots=True)
class Nested(Compound):
    """An object with fields of its own, as one value: what stands where other records have a plain value."""


JsonTree: TypeAlias = "bool | str | Number | list[JsonTree] | dict[str, JsonTree] | None"
Scalar: TypeAlias = "bool | str | Number | Compound | None"


def show(value: Scalar) -> str:
    """A value as a reader should see it: exact text, strings unquoted."""
    if isinstance(value, Number | Compound):
        return value.text
    return value if isinstance(value, str) else json.dumps(value)


def number_of(value: Scalar) -> Number | None:
    """A number, also one written as text; None for what is no number."""
    if isinstance(value, str) and _NUMERIC_TEXT.fullmatch(value):
        return Number(value)
    return value if isinstance(value, Number) else None


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value and where it starts in its document's source."""

    value: Scalar
    position: Position


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON value of a foreign log.

    Attributes:
        source: file it stands in, relative to the log's directory.
        raw: its bytes.
        position: where it starts.
        root: the value; None when it could not be read (see ``readable``).
        leaves: every scalar, list and empty object below the root, by path (``attestation.verdict.tps``), in order.
        problems: what is odd about it, or what stopped the reader.
        readable: whether ``root`` is the document's value.
        spans: byte range of each element in ``raw`` when the root is a list.
    """

    source: str
    raw: bytes
    position: Position
    root: JsonTree
    leaves: dict[str, Leaf]
    problems: tuple[Finding, ...]
    readable: bool
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def object(self) -> dict[str, JsonTree]:
        """The root when it is an object, else an empty one."""
        return self.root if isinstance(self.root, dict) else {}

    def text(self, path: str) -> str | None:
        """The string at ``path``, or None when there is none."""
        leaf = self.leaves.get(path)
        return leaf.value if leaf is not None and isinstance(leaf.value, str) else None

    def number(self, path: str) -> Decimal | None:
        """The figure at ``path``, or None when there is none."""
        leaf = self.leaves.get(path)
        return leaf.value.value if leaf is not None and isinstance(leaf.value, Number) else None

    def leaf(self, path: str) -> Leaf | None:
        """What stands at ``path``, an object as one value; None when nothing does."""
        inner = next((leaf for name, leaf in self.leaves.items() if name.startswith(f"{path}.")), None)
        return self.leaves.get(path) or (None if inner is None else Leaf(Compound("an object"), inner.position))

    def objects(self) -> Iterator[tuple[str, dict[str, JsonTree]]]:
        """Every object below the root that has fields of its own, by path; a list is one value with all in it."""
        yield from _objects(self.object, "")

    def nested(self, path: str, tree: dict[str, JsonTree]) -> Leaf:
        """An object of :meth:`objects` as one value, at the place of the first value in it."""
        inner: JsonTree = tree
        at = path
        while isinstance(inner, dict) and inner:
            key = next(iter(inner))
            at, inner = join(at, key), inner[key]
        return Leaf(Nested(compact(tree)), self.at(at))

    def at(self, path: str) -> Position:
        """Where the value at ``path`` stands; the document's own place when it is not there."""
        leaf = self.leaves.get(path)
        return self.position if leaf is None else leaf.position


def join(path: str, key: str) -> str:
    """Path of a member: bare keys with dots, others quoted in brackets."""
    if not _BARE_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def compact(tree: JsonTree) -> str:
    """Compact spelling of a value in which numbers keep their text."""
    if isinstance(tree, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{compact(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(compact, tree)) + "]"
    return tree.text if isinstance(tree, Number) else json.dumps(tree)


def _objects(tree: dict[str, JsonTree], path: str) -> Iterator[tuple[str, dict[str, JsonTree]]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            below = join(path, key)
            yield below, value
            yield from _objects(value, below)


def _leaf_paths(tree: JsonTree, path: str) -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _leaf_paths(value, join(path, key))
    else:
        yield path


class _StopError(Exception):
    """Reading broke; the argument is the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read(data: bytes, source: str, *, line: int = 1, byte_offset: int = 0) -> Document:
    """Read one document.

    Args:
        data: its bytes.
        source: file it stands in.
        line: line of the source on which ``data`` starts, counted from 1.
        byte_offset: offset of ``data`` in the source.
    """
    reader = _Reader(data, source, line, byte_offset)
    try:
        root = reader.document()
    except _StopError as stop:
        return Document(source, data, reader.position(0), None, {}, (*reader.problems, stop.finding), readable=False)
    return Document(
        source,
        data,
        reader.position(0),
        root,
        reader.leaves,
        tuple(reader.problems),
        readable=True,
        spans=tuple(reader.spans) if isinstance(root, list) else (),
    )


def elements(document: Document) -> Iterator[Document]:
    """Each element of a list as a document of its own, at its own place and with its own bytes."""
    line, counted = document.position.line or 1, 0
    for start, end in document.spans:
        line += document.raw.count(b"\n", counted, start)
        counted = start
        offset = (document.position.byte_offset or 0) + start
        yield read(document.raw[start:end], document.source, line=line, byte_offset=offset)


@dataclass(slots=True)
class _Reader:
    data: bytes
    source: str
    line: int
    offset: int
    leaves: dict[str, Leaf] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)
    newlines: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    repeated: bool = False
    items: int = 0
    at: int = 0

    def position(self, at: int, path: str | None = None) -> Position:
        return Position(
            source=self.source,
            line=self.line + bisect_right(self.newlines, at - 1),
            byte_offset=self.offset + at,
            field=path or None,
        )

    def stop(self, code: Code, message: str, path: str = "", at: int | None = None) -> _StopError:
        return _StopError(Finding(code, message, self.position(self.at if at is None else at, path)))

    def note(self, code: Code, message: str, path: str, at: int | None = None) -> None:
        if len(self.problems) == MAX_PROBLEMS - 1:
            message += "; further oddities of this document are not listed"
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Finding(code, message, self.position(self.at if at is None else at, path)))

    def document(self) -> JsonTree:
        if len(self.data) > MAX_BYTES:
            raise self.stop(Code.JSON_TOO_LONG, f"document of more than {MAX_BYTES} bytes, and no such is read")
        self.newlines = [match.start() for match in re.finditer(b"\n", self.data)]
        try:
            self.data.decode()
        except UnicodeDecodeError as error:
            raise self.stop(Code.JSON_NOT_UTF8, "bytes that are no UTF-8 text", at=error.start) from None
        if self.data.startswith(b"\xef\xbb\xbf"):
            self.note(Code.JSON_BYTE_ORDER_MARK, "document starts with a byte order mark", "")
            self.at = 3
        root = self.value("", 0)
        self.space()
        if self.at != len(self.data):
            raise self.stop(Code.JSON_TRAILING_BYTES, "bytes after the value")
        if self.repeated:  # an object that was replaced by a later one leaves no fields behind
            kept = set(_leaf_paths(root, ""))
            self.leaves = {path: leaf for path, leaf in self.leaves.items() if path in kept}
        return root

    def space(self) -> None:
        match = _SPACE.match(self.data, self.at)
        assert match is not None
        self.at = match.end()

    def peek(self) -> bytes:
        self.space()
        return self.data[self.at : self.at + 1]

    def take(self, byte: bytes, path: str) -> None:
        if self.peek() != byte:
            raise self.stop(Code.JSON_SYNTAX, f"expected {byte.decode()} here", path)
        self.at += 1

    def value(self, path: str, depth: int) -> JsonTree:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise self.stop(Code.JSON_TOO_MANY_ITEMS, f"more than {MAX_ITEMS} values", path)
        first = self.peek()
        start = self.at
        if first in (b"{", b"["):
            if depth == MAX_DEPTH:
                raise self.stop(Code.JSON_TOO_DEEP, f"more than {MAX_DEPTH} brackets open at once", path)
            if first == b"{":
                return self.members(path, depth + 1)
            outer, self.leaves = self.leaves, {}  # what stands in a list is compared as one value
            items = self.elements(path, depth + 1)
            self.leaves = outer
            self.leaf(path, Compound(compact(items)), start)
            return items
        scalar = self.string(path) if first == b'"' else self.plain(path)
        self.leaf(path, scalar, start)
        return scalar

    def leaf(self, path: str, value: Scalar, start: int) -> None:
        self.leaves[path] = Leaf(value, self.position(start, path))

    def members(self, path: str, depth: int) -> JsonTree:
        start = self.at
        self.at += 1
        out: dict[str, JsonTree] = {}
        more = self.peek() != b"}"
        while more:
            if self.peek() != b'"':
                raise self.stop(Code.JSON_SYNTAX, "expected a key here", path)
            at = self.at
            key = self.string(path)
            if len(key) > MAX_KEY:
                raise self.stop(Code.JSON_STRING_TOO_LONG, f"key of {len(key)} characters", path, at)
            below = join(path, key)
            if key in out:
                self.repeated = True
                self.note(Code.JSON_DUPLICATE_KEY, f"key {json.dumps(key)} again; the last value counts", below, at)
            self.take(b":", below)
            out[key] = self.value(below, depth)
            more = self.peek() == b","
            self.at += more
        self.take(b"}", path)
        if not out:
            self.leaf(path, Compound("{}"), start)
        return out

    def elements(self, path: str, depth: int) -> list[JsonTree]:
        self.at += 1
        out: list[JsonTree] = []
        more = self.peek() != b"]"
        while more:
            self.space()
            start = self.at
            out.append(self.value(f"{path}[{len(out)}]", depth))
            if depth == 1:
                self.spans.append((start, self.at))
            more = self.peek() == b","
            self.at += more
        self.take(b"]", path)
        return out

    def plain(self, path: str) -> bool | Number | None:
        word = _WORD.match(self.data, self.at)
        if word is not None:
            self.at = word.end()
            return _WORDS[word.group()]
        match = _NOT_A_NUMBER.match(self.data, self.at) or _NUMBER.match(self.data, self.at)
        if match is None:
            found = "end of input" if self.at == len(self.data) else "something else"
            raise self.stop(Code.JSON_SYNTAX, f"expected a value here, found {found}", path)
        number = Number(match.group().decode())
        if match.re is _NOT_A_NUMBER:
            self.note(Code.JSON_NOT_A_NUMBER, f"{number.text} is no number", path)
        elif number.value is None:
            message = f"number of {len(number.text)} characters is no figure: {number.text[:24]}"
            self.note(Code.FOREIGN_NUMBER, message, path)
        self.at = match.end()
        return number

    def string(self, path: str) -> str:
        start = self.at
        at = start + 1
        escaped = False
        while True:
            plain = _PLAIN.match(self.data, at)
            assert plain is not None
            at = plain.end()
            end = self.data[at : at + 1]
            if end == b'"':
                break
            escape = _ESCAPE.match(self.data, at)
            if escape is None:
                code = {b"\\": Code.JSON_ESCAPE, b"": Code.JSON_SYNTAX}.get(end, Code.JSON_CONTROL_CHARACTER)
                raise self.stop(code, "string breaks off here", path, at)
            escaped = True
            at = escape.end()
        self.at = at + 1
        raw = self.data[start : self.at].decode()
        text: str = json.loads(raw) if escaped else raw[1:-1]
        if escaped and _SURROGATE.search(text):
            raise self.stop(Code.JSON_LONE_SURROGATE, "half of a surrogate pair", path, start)
        return text
