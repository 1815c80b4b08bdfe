"""What was imported more than once counts once; where its imports differ, it counts for nothing.

``import`` adds no run that the ledger holds. But a ledger may be older than that, or have been filled by other means,
and a log may hold one receipt in two folders. Several imports that stand are of one run when they carry one receipt id,
or, where they carry none, the same foreign id.

- Where the originals of all of them are among the originals of one, nothing says anything else than that one does: it
  counts, the first such one where there are several, and the others are other names of it.
- Where they are not, or the same bytes were copied into other fields, one of them is not what was published, and
  nothing tells which. Then none counts, for the run or against it, as where the records of one import disagree
  (:mod:`k3_ledger.rescore.imported`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.rescore.material import Candidate, Material
    from k3_ledger.rescore.reconcile import Measurement

RECEIPT_ID: Final = "receipt.receipt_id"
"""The field in which an import copies the id that a receipt gives itself."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a run.

    Attributes:
        place: of the entry, or of the run in a log that was never imported.
        originals: digests of its originals.
        fields: digest of what was copied out of them, which is too much to be kept of every run.
    """

    candidate: Candidate
    place: int
    originals: frozenset[str]
    fields: bytes

    @property
    def where(self) -> str:
        """What to call it."""
        return self.candidate.run.run if self.candidate.index is None else f"entry {self.candidate.index}"


class Imports:
    """Imports of runs, as they are gathered."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Import]] = {}

    def note(
        self, candidate: Candidate, place: int, log_format: str, fields: Mapping[str, str], originals: Iterable[str]
    ) -> None:
        """Note one that stands.

        Args:
            candidate: what was gathered of it.
            place: see :class:`Import`.
            log_format: format of its log.
            fields: its fields by name.
            originals: SHA-256 digests of its artifacts.
        """
        name = fields.get(RECEIPT_ID, "").casefold() or f"{candidate.run.run} without a receipt id"
        found = self._found.setdefault((log_format, name), [])
        digest = sha256(repr(sorted(fields.items())).encode("utf-8", "surrogatepass")).digest()
        found.append(Import(candidate, place, frozenset(originals), digest))

    def settle(self, material: Material) -> None:
        """Count each run of a material once, or not at all: one pass over it, however many were imported again."""
        gone: list[Import] = []
        named: dict[int, tuple[str, ...]] = {}
        contested: set[int] = set()
        for found in self._found.values():
            if len(found) > 1:
                best = max(found, key=lambda one: len(one.originals))  # of several the first
                others = [one for one in found if one is not best]
                if all(_says_nothing_else(one, best) for one in others):
                    gone += others
                    named[best.place] = _count_once(material, best, others)
                else:
                    contested |= {one.place for one in found}
                    _contest(material, found)
        if not named and not contested:
            return
        dropped, places = {id(one.candidate) for one in gone}, {one.place for one in gone}
        material.candidates = [one for one in material.candidates if id(one) not in dropped]
        material.measurements = [
            _settled(item, named, contested)
            for item in material.measurements
            if item.position not in places and (item.position not in contested or item.receipt is not None)
        ]


def _settled(item: Measurement, named: Mapping[int, tuple[str, ...]], contested: set[int]) -> Measurement:
    """A measurement with the other names of its import, or as one of an import that does not count."""
    if item.position is None or item.entry is None:
        return item
    if item.position in contested:
        return replace(item, counts=False)
    names = named.get(item.position)
    return item if names is None else replace(item, also=names)


def _says_nothing_else(one: Import, best: Import) -> bool:
    return one.originals < best.originals or (one.originals == best.originals and one.fields == best.fields)


def _count_once(material: Material, best: Import, others: list[Import]) -> tuple[str, ...]:
    """Names of the others, by which the one that counts is known from now on."""
    names = tuple(name for one in others for name in (one.candidate.identity, one.candidate.run.run))
    best.candidate.also = names
    material.repeats += [f"{one.where} is another import of {best.where}: counted once" for one in others]
    return names


def _contest(material: Material, found: list[Import]) -> None:
    said = f"imported {len(found)} times, as {' and '.join(one.where for one in found)}, and not as the same"
    for one in found:
        one.candidate.differing = said
    last = found[-1].candidate
    material.unread.append(
        Finding(
            Code.FOREIGN_CONTRADICTION,
            f"{last.run.run[:40]} was {said}: none of them counts",
            Position(source=last.run.run, index=last.index),
        )
    )
