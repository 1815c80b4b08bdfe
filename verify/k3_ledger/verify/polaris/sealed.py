"""What stands as JSON in the output that a receipt seals: this family's result is the last line that is an object."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.polaris.foreign_json import elements, read
from k3_ledger.verify.polaris.spelling import decode_base64

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.foreign_json import Document

MAX_PRINTED: Final = 64
"""Most objects besides the last one that are read in a sealed output."""
_BEGINS = re.compile(rb'\s*\{\s*(?:"|\Z)')
_INSIDE = re.compile(rb'\{\s*"')


@dataclass(slots=True)
class Sealed:
    """JSON in the output that a receipt seals.

    Attributes:
        last: last line that is an object: this family's result.
        others: every other object, on a line of its own, behind a word or in a list; last lines first.
        problems: what begins as an object and cannot be read.
    """

    last: Document | None = None
    others: list[Document] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)


def sealed_output(receipt: Document) -> Sealed:
    """What stands as JSON in the output that a receipt seals.

    Positions count bytes and lines of the decoded output, which they name as ``<receipt>:tdx.stdout_b64``.
    """
    out = Sealed()
    output = decode_base64(receipt.text("tdx.stdout_b64") or "") or b""
    source = f"{receipt.source}:tdx.stdout_b64"
    offset = len(output)
    lines = output.split(b"\n")
    for number in range(len(lines), 0, -1):
        line = lines[number - 1]
        offset -= len(line) + (number < len(lines))
        document = _object_in(line, source, number, offset)
        if document is None or not document.readable:
            out.problems.extend(() if document is None or not _BEGINS.match(line) else document.problems)
        elif isinstance(document.root, list):
            inner = (element for element in elements(document) if isinstance(element.root, dict))
            out.others.extend(islice(inner, MAX_PRINTED + 1))
        elif out.last is None and line.lstrip().startswith(b"{"):
            out.last = document
        else:
            out.others.append(document)
        if len(out.others) > MAX_PRINTED:
            message = f"the sealed output holds more than {MAX_PRINTED} JSON objects; earlier ones were not read"
            out.problems.append(Finding(Code.FOREIGN_SHAPE, message, Position(source=source, line=number)))
            break
    return out


def _object_in(line: bytes, source: str, number: int, offset: int) -> Document | None:
    """A line that is an object or a list, else the object behind the words it begins with; None for any other line."""
    if line.lstrip()[:1] in (b"{", b"["):
        document = read(line, source, line=number, byte_offset=offset)
        if document.readable or line.lstrip().startswith(b"{"):
            return document
    inside = _INSIDE.search(line)
    return (
        None
        if inside is None
        else read(line[inside.start() :], source, line=number, byte_offset=offset + inside.start())
    )
