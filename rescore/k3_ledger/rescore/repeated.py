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
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.rescore.material import Candidate, Material

RECEIPT_ID: Final = "receipt.receipt_id"
"""The field in which an import copies the id that a receipt gives itself."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a run.

    Attributes:
        place: of the entry, or of the run in a log that was never imported.
        originals: digests of its originals.
        fields: what was copied out of them.
    """

    candidate: Candidate
    place: int
    originals: frozenset[str]
    fields: Mapping[str, str]

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
        found.append(Import(candidate, place, frozenset(originals), fields))

    def settle(self, material: Material) -> None:
        """Count each run of a material once, or not at all."""
        for found in self._found.values():
            if len(found) > 1:
                best = max(found, key=lambda one: len(one.originals))  # of several the first
                others = [one for one in found if one is not best]
                if all(_says_nothing_else(one, best) for one in others):
                    _count_once(material, best, others)
                else:
                    _contest(material, found)


def _says_nothing_else(one: Import, best: Import) -> bool:
    return one.originals < best.originals or (one.originals == best.originals and one.fields == best.fields)


def _count_once(material: Material, best: Import, others: list[Import]) -> None:
    gone = {one.place for one in others}
    names = tuple(name for one in others for name in (one.candidate.identity, one.candidate.run.run))
    best.candidate.also = names
    dropped = {id(one.candidate) for one in others}
    material.candidates = [one for one in material.candidates if id(one) not in dropped]
    material.measurements = [
        replace(item, also=names) if item.entry is not None and item.position == best.place else item
        for item in material.measurements
        if item.position not in gone
    ]
    material.repeats += [f"{one.where} is another import of {best.where}: counted once" for one in others]


def _contest(material: Material, found: list[Import]) -> None:
    said = f"imported {len(found)} times, as {' and '.join(one.where for one in found)}, and not as the same"
    for one in found:
        one.candidate.differing = said
    places = {one.place for one in found}
    material.measurements = [
        replace(item, counts=False) if item.position in places else item
        for item in material.measurements
        if item.position not in places or item.receipt is not None
    ]
    last = found[-1].candidate
    material.unread.append(
        Finding(
            Code.FOREIGN_CONTRADICTION,
            f"{last.run.run[:40]} was {said}: none of them counts",
            Position(source=last.run.run, index=last.index),
        )
    )
