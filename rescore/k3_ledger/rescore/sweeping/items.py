"""What is handed from whoever prepares a chunk to whoever settles it, in the ledger's order.

Items may come from another process. They travel as one block of bytes: of a million receipts, pickling each by itself
costs more than grading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

Place: TypeAlias = tuple[str, str, str, str]
"""Model, quantisation and node of a run, and the digest of its weights: ``-`` where it names none, and empty under a
rule that does not ask."""
Depths: TypeAlias = tuple[int, ...]


class Scored(msgspec.Struct, gc=False, frozen=True, array_like=True, tag="scored"):
    """A candidate that the rule scores.

    Attributes:
        metrics: its metrics in order, the scored one among them.
        at: which of them is scored.
        place: which of the chunk's places it ran at.
        speed: claim as far as it counts, in ``10**-6`` units per second.
        correct: False when the bars on agreement refuse it.
        gates: all gates that need neither a pin nor a round: False when one refuses, None when one has no evidence.
        ratchet: the ratchet, where ``kls`` is empty: None when there is no evidence.
        depths: what agreement was graded at, where the ratchet is still to be asked.
        kls: divergence at each of them, with spaces between; empty when the ratchet has nothing more to be asked.
        ground: what they were graded on, likewise.
        guarded: claim of the guarded metric, as ``speed``; None when there is none.
        counted: how much of that counts.
        guard_clock: what its clock says of it, where the rule asks: None when there is no evidence.
    """

    offset: int
    metrics: tuple[str, ...]
    at: int
    place: int
    round: str | None
    speed: int
    correct: bool | None
    gates: bool | None
    ratchet: bool | None
    depths: Depths
    kls: str
    ground: str
    guarded: int | None
    counted: int | None
    guard_clock: bool | None


class Unscored(msgspec.Struct, gc=False, frozen=True, array_like=True, tag="unscored"):
    """A candidate of which the rule scores nothing."""

    offset: int
    metrics: tuple[str, ...]


class Agreement(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """Agreement of a round's frontier build: divergence, agreeing rows and rows at each depth, all as recorded."""

    path: str
    independent: bool
    depths: Depths
    kls: str
    ground: str
    agree: tuple[int, ...]
    rows: tuple[int, ...]


class Standing(msgspec.Struct, gc=False, frozen=True, array_like=True, tag="standing"):
    """A run of a round's frontier build or of the other engine, which later runs are held against.

    Attributes:
        speeds: (metric, context, claim in ``10**-6`` units per second) of each metric, in order.
        agreement: None without parity whose rows are raw.
        bundle: digest of its bundle, under a rule that asks how often the frontier was measured; empty under others.
    """

    offset: int
    role: str
    place: int
    round: str | None
    speeds: tuple[tuple[str, int | None, int], ...]
    agreement: Agreement | None
    bundle: str = ""


Item: TypeAlias = Scored | Unscored | Standing | int


class Prepared(msgspec.Struct):
    """A chunk's lines, sorted by what is still to be done about them.

    Attributes:
        items: in order: what the rule scores; a candidate that it does not score; what later runs are held against;
            the offset of what has to be read whole, negative (``~offset``) where that is a candidate out of the
            ordinary.
        places: where its runs ran, each once.
        judged: whether a verdict or a supersession is among the lines.
        imports: offsets of the imports among them.
    """

    items: list[Scored | Unscored | Standing | int]
    places: list[Place]
    judged: bool = False
    imports: list[int] = msgspec.field(default_factory=list)

    def __reduce__(self) -> tuple[Callable[[bytes], Prepared], tuple[bytes]]:
        return unpack, (_pack(self),)


_pack: Final[Callable[[Prepared], bytes]] = msgspec.msgpack.Encoder().encode
_unpack: Final[Callable[[bytes], Prepared]] = msgspec.msgpack.Decoder(Prepared).decode


def unpack(data: bytes) -> Prepared:
    """A chunk's items as they were packed."""
    return _unpack(data)
