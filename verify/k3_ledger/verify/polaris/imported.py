"""Holds what a foreign log says of an item against what was imported of it before.

:attr:`~k3_ledger.verify.polaris.to_import.ImportItem.name` says what an item is of. Everything that the log holds of
it, the receipt, results, log texts and the listing's rows, can have been changed since: that is what is found here.
Rows are compared by their bytes and not by their line, which moves when a log grows. The audit's findings are not
compared: they are about the log as a whole, and change with it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.verify.polaris.to_import import ImportItem

SHOWN: Final = 4
"""Most files or fields of one item that a finding names."""
_FOLDER = re.compile(r"\Aruns/[^/]+/")
_LINE = re.compile(r"@[0-9]+\Z")


def compare_imported(item: ImportItem, index: int, body: dict[str, Any]) -> Finding | None:
    """What differs between an item of a log and an entry of the same name; None where nothing does.

    Args:
        item: the item, as the log holds it now.
        index: index of the entry in the ledger.
        body: the entry's body, as plain values.
    """
    moved = item.body["foreign_id"] != body["foreign_id"]
    before, now = _artifacts(body["artifacts"], moved=moved), _artifacts(item.body["artifacts"], moved=moved)
    if moved and _bytes(before) == _bytes(now):
        return None  # and what was read of a log text went by the folder's name
    changed = _changed(before, now)
    if not changed:
        before, now = _fields(body["fields"]), _fields(item.body["fields"])
        changed = _changed(before, now)
    if not changed:
        return None
    named = ", ".join(changed[:SHOWN]) + (f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else "")
    first = changed[0]
    return Finding(
        Code.IMPORT_DIFFERS,
        f"{item.body['foreign_id']}: known, but {named} {'differ' if len(changed) > 1 else 'differs'} from what was "
        "imported",
        Position(index=index),
        _said(before, first),
        _said(now, first),
    )


def _artifacts(listed: Iterable[dict[str, Any]], *, moved: bool) -> Counter[tuple[str, str]]:
    """Artifacts by their names, those of a folder that has another name now by their files' names."""
    named = (
        (_LINE.sub(" row", _FOLDER.sub("", artifact["name"]) if moved else artifact["name"]), artifact["sha256"])
        for artifact in listed
    )
    return Counter((name, f"sha256 {digest}") for name, digest in named)


def _bytes(listed: Counter[tuple[str, str]]) -> list[str]:
    return sorted(digest for _, digest in listed.elements())


def _fields(listed: Iterable[dict[str, str]]) -> Counter[tuple[str, str]]:
    return Counter((f"field {field['name']}", field["value"]) for field in listed)


def _changed(before: Counter[tuple[str, str]], now: Counter[tuple[str, str]]) -> list[str]:
    """Names under which not the same stands."""
    return sorted({name for name, _ in (before - now) + (now - before)})


def _said(all_of_it: Counter[tuple[str, str]], name: str) -> str:
    """What stands under a name, shortened."""
    return ", ".join(sorted(value for key, value in all_of_it.elements() if key == name))[:200] or "nothing"
