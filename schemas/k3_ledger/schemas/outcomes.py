"""Outcomes, severities, exit codes and positions: the small words every room uses to report."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.StrEnum):
    """What became of one check. A check that did not run is never a pass."""

    PASS = "pass"
    FAIL = "fail"
    NOT_CHECKED = "not-checked"


class Severity(enum.StrEnum):
    """How a finding bears on the verdict: an error decides it, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class ExitCode(enum.IntEnum):
    """Process exit codes, the same for every command. ``docs/exit-codes.md`` is the one page about them."""

    VERIFIED = 0
    FALSE = 1
    USAGE = 2
    UNREADABLE = 3
    NOT_CHECKED = 4
    TORN_TAIL = 5


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the input something stands. Every field is optional; what is unknown stays ``None``.

    Attributes:
        source: name of the file or artifact, relative to the ledger directory.
        line: line number, counted from 1.
        byte_offset: offset from the start of ``source``, counted from 0.
        index: entry index, counted from 0.
        field: path inside a JSON value, such as ``body.timing[0].samples``.
    """

    source: str | None = None
    line: int | None = None
    byte_offset: int | None = None
    index: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        parts = [
            self.source,
            None if self.index is None else f"entry {self.index}",
            None if self.line is None else f"line {self.line}",
            None if self.byte_offset is None else f"byte {self.byte_offset}",
            self.field,
        ]
        return ", ".join(p for p in parts if p is not None) or "input"


NOWHERE = Position()
