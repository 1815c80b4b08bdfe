"""Plain lines and tables, the same on a terminal, in a file and in a document.

Columns are padded to their widest cell. What is written may come from anywhere (a claims file, a foreign log): whatever
could move a cursor or turn the reading order is escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


def say(text: str = "", *, err: bool = False) -> None:
    """Write one line to stdout or stderr."""
    typer.echo(printable(text), err=err)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Write a table to stdout.

    Args:
        head: names of the columns.
        rows: cells, as many in each row as there are columns.
        right: columns whose cells stand to the right, as numbers do.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())
