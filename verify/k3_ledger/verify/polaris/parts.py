"""What fields of records state besides the fact of their own name: facts within something longer."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.verify.polaris.foreign_json import Leaf, Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.foreign_json import Document


@dataclass(frozen=True, slots=True)
class Part:
    """Where text of ``field`` matches ``pattern``, its group is a statement of ``fact``."""

    field: str
    pattern: re.Pattern[str]
    fact: str


PARTS: Final = (
    Part("url", re.compile(r"https?://.{1,200}/pull/([^/?#]{1,40}).*"), "pr"),
    Part("url", re.compile(r"(https?://.{1,200})/pull/[^/?#]{1,40}.*"), "repo"),
    Part("best_context_label", re.compile(r"([0-9]{1,4}k?)(?:-context)?"), "scored_context"),
    Part("gpu", re.compile(r"[^()]{1,80} \((sm_[^()]{1,20})\).*"), "gpu_arch"),
    Part("gpu", re.compile(r"([^()]{1,80}) \(sm_[^()]{1,20}\).*"), "gpu_name"),
)
"""Fields that hold facts within something longer."""


JUDGED: Final = frozenset({"label", "tps"})
"""Fields of an object in a record that make it a result of its own, such as that of one of two models."""
OWN: Final = frozenset({"model", "regression_labels"})
"""Fields that are of one of the models in such a result, and of all of them in the record around it."""
LEAST_SHARED: Final = 8
"""Fewest figures that tell whether such a result is the one that the record publishes."""


def value_of(fact: str, text: str) -> Number | str:
    """A part of a text as the fact's own field has it; numbers have zeros in front in names that are to be sorted."""
    if fact == "scored_context":
        return Number(str(int(text[:-1]) * 1024) if text.endswith("k") else text)
    return Number(text.lstrip("0") or "0") if fact == "pr" and text.isascii() and text.isdigit() else text


def parts_of(document: Document) -> Iterator[tuple[str, str, Leaf]]:
    """Facts that fields of a record hold within something longer: fact, field, the part."""
    for part in PARTS:
        leaf = document.leaves.get(part.field)
        match = part.pattern.fullmatch(leaf.value) if leaf is not None and isinstance(leaf.value, str) else None
        if leaf is not None and match is not None:
            yield part.fact, f"{part.field} ({part.fact})", Leaf(value_of(part.fact, match[1]), leaf.position)


def judged(document: Document) -> Iterator[str]:
    """Objects of a record that are results of their own, each as the beginning of its fields' paths."""
    yield from (f"{path}." for path, tree in document.objects() if tree.keys() >= JUDGED)


def published_again(document: Document) -> Iterator[tuple[str, str, Leaf]]:
    """Fields of a result inside a record that is the one published by it: name there, path, value.

    It is that one where it has the same figures but for one at most: with one edited it is the same still.
    """
    paths = sorted(document.leaves)
    for block in judged(document):
        begin, end = bisect_left(paths, block), bisect_left(paths, f"{block[:-1]}/")  # "/" comes behind "."
        inner = {path.removeprefix(block): document.leaves[path] for path in paths[begin:end]}
        shared = [name for name, leaf in inner.items() if isinstance(leaf.value, Number) and name in document.leaves]
        other = [name for name in shared if document.leaves[name].value != inner[name].value]
        if len(shared) >= LEAST_SHARED and len(other) <= 1:
            again = (name for name in inner if name in document.leaves and name not in OWN)
            yield from ((name, f"{block}{name}", inner[name]) for name in again)
