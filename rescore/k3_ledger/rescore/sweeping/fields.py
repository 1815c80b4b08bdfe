"""The few fields of an entry that a rule reads, decoded for a whole chunk of lines at once.

Every kind of entry decodes: a field that a kind lacks is None, and no kind gives one of these names another type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_BYTES: Final = 48 << 10
"""About as much is decoded at once as stays in the cache next to a processor, with all that it becomes: of a chunk of a
megabyte, what was decoded first is gone from there before it is read, and each line costs up to twice as much."""


class Sample(msgspec.Struct, gc=False):
    """A repetition."""

    count: int
    duration_ns: int


class Series(msgspec.Struct, gc=False):
    """Repetitions of one metric by one observer."""

    actor: str
    batch: int
    cache: str
    context: int | None
    context_filled: int | None
    inputs: str
    metric: str
    observer: str
    processes: int
    samples: list[Sample]
    unit: str


class GradedDepth(msgspec.Struct, gc=False):
    """Agreement at one depth."""

    depth: int
    kl_max: str
    rows: int
    top1_agree: int


class Reference(msgspec.Struct, gc=False):
    """Whose code the reference is."""

    independent: bool
    name: str


class Subject(msgspec.Struct, gc=False):
    """Which program was measured."""

    name: str


class Graded(msgspec.Struct, gc=False):
    """Agreement at all depths."""

    depths: list[GradedDepth]
    path: str
    processing: str
    reference: Reference
    vocabulary: int


class Model(msgspec.Struct, gc=False):
    """Which weights."""

    name: str
    quant: str
    sha256: str


class Node(msgspec.Struct, gc=False):
    """Which machine."""

    name: str


class Machine(msgspec.Struct, gc=False):
    """Which machine, and more that no rule reads."""

    node: Node


class Body(msgspec.Struct, gc=False):
    """Body of a run, or of any other kind."""

    bundle: str | None = None
    machine: Machine | None = None
    model: Model | None = None
    parity: Graded | None = None
    role: str | None = None
    round: str | None = None
    subject: Subject | None = None
    timing: list[Series] | None = None


class Entry(msgspec.Struct, gc=False):
    """An entry."""

    body: Body
    kind: str


class Line(msgspec.Struct, gc=False):
    """A line of a ledger."""

    entry: Entry


_decode_lines: Final[Callable[[memoryview], list[Line]]] = msgspec.json.Decoder(Line).decode_lines


def decode_lines(chunk: bytes) -> Iterator[Line]:
    """All lines of a verified chunk, in order."""
    view, start, size = memoryview(chunk), 0, len(chunk)
    while start < size:
        end = chunk.find(b"\n", start + PIECE_BYTES) + 1 or size
        yield from _decode_lines(view[start:end])
        start = end
