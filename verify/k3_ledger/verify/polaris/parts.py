"""What fields of records state besides the fact of their own name: facts within something longer."""

from __future__ import annotations

import re
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
    Part("url", re.compile(r"https?://.{1,200}/pull/([0-9]{1,9})/?"), "pr"),
    Part("url", re.compile(r"(https?://.{1,200})/pull/[0-9]{1,9}/?"), "repo"),
)
"""Fields that hold facts within something longer."""


def value_of(fact: str, text: str) -> Number | str:
    """A part of a text as the fact's own field has it; numbers have zeros in front in names that are to be sorted."""
    return Number(text.lstrip("0") or "0") if fact == "pr" else text


def parts_of(document: Document) -> Iterator[tuple[str, str, Leaf]]:
    """Facts that fields of a record hold within something longer: fact, field, the part."""
    for part in PARTS:
        leaf = document.leaves.get(part.field)
        match = part.pattern.fullmatch(leaf.value) if leaf is not None and isinstance(leaf.value, str) else None
        if leaf is not None and match is not None:
            yield part.fact, part.field, Leaf(value_of(part.fact, match[1]), leaf.position)
