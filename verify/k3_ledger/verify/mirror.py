"""A log that is read from a static mirror: signed heads, tiles and entry bundles, with no ``ledger.jsonl``.

:class:`TileSource` makes a :class:`~k3_ledger.verify.source.LogSource` of one, so a mirror is verified by the very
steps that verify a ledger. Each bundle is traced to the signed head while it is read, so that a wrong copy in a cache
is passed over for the mirror's own; what the steps see is judged by them all the same.

A mirror that lacks something is for :mod:`k3_ledger.verify.partial`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.ledger.core.tiles import ENTRIES, tiles_of
from k3_ledger.ledger.core.tiletree import TileTree
from k3_ledger.schemas.errors import ProofError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.ledger.core.tiles import Tile


class Mirror(Protocol):
    """Files of one mirror: a directory, an archive, an address; whatever the caller opened.

    Every method may raise :class:`~k3_ledger.schemas.errors.StoreError` when the medium fails.
    """

    @property
    def name(self) -> str:
        """What to call it in reports."""
        ...

    def checkpoint(self) -> bytes | None:
        """The newest signed tree head; the same bytes however often it is asked for."""
        ...

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        """(name, bytes) of further signed tree heads."""
        ...

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        """(name, bytes) of timestamp tokens of signed heads."""
        ...

    def lists(self, folder: str) -> bool:
        """Whether the place says what ``checkpoints`` or ``timestamps`` holds; where it does not, none is given."""
        ...

    def kept_checkpoint(self, size: int) -> bytes | None:
        """A kept head asked for by its name, for places that do not list it; None where none has it."""
        ...

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """A readable artifact by its hexadecimal digest, or None when it is not there."""
        ...

    def candidates(self, tile: Tile) -> Iterable[bytes]:
        """Every copy of a tile, the cheapest first; none when the mirror lacks it."""
        ...

    def accept(self, tile: Tile, data: bytes) -> None:
        """Told of a full tile and the copy that was right: a cache keeps that, and nothing else."""
        ...

    def key_entries(self) -> bytes | None:
        """The mirror's list of positions of key entries, or None; nothing is believed because of it."""
        ...


class TileSource:
    """A mirror as a :class:`~k3_ledger.verify.source.LogSource`."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.name = mirror.name
        self.size: int | None = None
        self._tree: TileTree | None = None

    @property
    def tree(self) -> TileTree:
        """The tree that the newest signed head commits to. The head's signature is for the steps to check.

        Raises:
            StoreError: there is no signed head (``UNREADABLE``).
            MalformedError: it cannot be read.
        """
        if self._tree is None:
            note = self.mirror.checkpoint()
            if note is None:
                raise StoreError(
                    Code.UNREADABLE,
                    "a mirror without a checkpoint says nothing",
                    position=Position(source="checkpoint"),
                    hint="ask another mirror, or the log itself",
                )
            place = Position(source="checkpoint")
            head = parse_checkpoint(parse_note(note, position=place).text, position=place)
            self._tree = TileTree(head.size, head.root, self.mirror.candidates, self.mirror.accept)
        return self._tree

    def blocks(self) -> Iterator[bytes]:
        """The lines of the log, a bundle at a time.

        Raises:
            TileMissingError: the mirror lacks a tile.
            ProofError: a tile is not what the head commits to.
            MalformedError: a tile, or the head, cannot be read.
        """
        for tile in tiles_of(self.tree.size, level=ENTRIES):
            yield b"\n".join(self.tree.entries(tile.index)) + b"\n"

    def checkpoint(self) -> bytes | None:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.checkpoint()

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.kept_checkpoints()

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.timestamps()

    def lists(self, folder: str) -> bool:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.lists(folder)

    def kept_checkpoint(self, size: int) -> bytes | None:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.kept_checkpoint(size)

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return self.mirror.open_artifact(sha256)

    def line(self, index: int) -> bytes:
        """One line, traced to the signed head.

        Raises:
            ProofError: there is no such entry (``NO_SUCH_ENTRY``), or its tiles are missing or wrong.
        """
        if index >= self.tree.size:
            raise ProofError(
                Code.NO_SUCH_ENTRY,
                f"there is no entry {index}",
                position=Position(source=self.name),
                expected=f"0 to {self.tree.size - 1}" if self.tree.size else "an entry",
            )
        bundle, within = divmod(index, 256)
        return self.tree.entries(bundle)[within]
