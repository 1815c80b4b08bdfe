"""``k3-ledger ls`` and ``k3-ledger show``: look entries up, and say which of them count for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.options import MAX_INTEGER, JsonOption, LedgerOption, print_json

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.store import Ledger

LS_HELP = """List entries, as the index has them.

An entry that a later revocation took back is marked DISOWNED: it stands in the log and counts for nothing.
"""
SHOW_HELP = """Print one entry, read from the log itself. An entry that was taken back is marked, as in ls."""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("ls", help=LS_HELP)(ls)
    app.command("show", help=SHOW_HELP)(show)


def ls(
    ledger: LedgerOption = Path(),
    kind: Annotated[str | None, typer.Option(help="Only entries of this kind.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, max=MAX_INTEGER, help="The newest so many; 0 is all.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """List entries."""
    from k3_ledger.ledger.writer.index import list_entries, open_index
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.envelope import SIGNING_ROLES

    if kind is not None and kind not in SIGNING_ROLES:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(SIGNING_ROLES)}", param_hint="--kind")
    opened = Ledger.open(ledger)
    with open_index(opened) as db:
        rows = list_entries(db, kind=kind, limit=limit)
    unknown = _mark_disowned(opened, rows)
    if as_json:
        print_json({"entries": rows, "disowned_unknown": unknown})
        return
    for row in rows:
        by = row["disowned_by"]
        summary = row["summary"] if by is None else f"DISOWNED by entry {by}: {row['summary']}"
        typer.echo(
            f"{row['entry']:>8}  {row['claimed_time']}  {row['kind']:<10}{row['identity'][:16]}…  {summary}".rstrip()
        )
    _say_unknown(unknown)
    if rows:
        typer.echo("note: times are claimed by the entries' signers; order comes from the chain", err=True)


def show(
    entry: Annotated[str, typer.Argument(help="Index (digits alone), identity, or its beginning.", show_default=False)],
    ledger: LedgerOption = Path(),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the entry as JSON with its identity and place.")
    ] = False,
) -> None:
    """Print one entry."""
    from k3_ledger.ledger.core.framing import parse_line
    from k3_ledger.ledger.writer.index import find_entry, open_index
    from k3_ledger.ledger.writer.store import Ledger

    opened = Ledger.open(ledger)
    with open_index(opened) as db:
        row = find_entry(opened, db, entry)
    value = json.loads(parse_line(row["line"]).entry)
    row["key"] = value["key"]  # the log's word, and not the index's
    unknown = _mark_disowned(opened, [row])
    by = row["disowned_by"]
    if as_json:
        place = {"identity": row["identity"], "byte_offset": row["byte_offset"]}
        print_json({**place, "disowned_by": by, "disowned_unknown": unknown, "entry": value})
        return
    typer.echo(f"entry {row['entry']} {row['identity']}")
    if by is not None:
        typer.echo(f"DISOWNED: entry {by} takes back what its key signed here; it counts for nothing")
    print_json(value)
    _say_unknown(unknown)
    typer.echo("note: shown, not verified; `k3-ledger verify` checks signatures and chain", err=True)


def _mark_disowned(ledger: Ledger, rows: list[dict[str, Any]]) -> str | None:
    """Put ``disowned_by`` into each row: the entry that takes it back, or None.

    Returns:
        Why that cannot be told, where the key entries of the log are damaged; then None stands for unknown.
    """
    from k3_ledger.ledger.writer.roster import read_state
    from k3_ledger.schemas.errors import LedgerError

    keyring, unknown = None, None
    try:
        keyring = read_state(ledger).keyring
    except LedgerError as error:
        unknown = f"{error} [{error.code.id}]"
    for row in rows:
        row["disowned_by"] = None if keyring is None else keyring.disowned_by(row["key"], row["entry"])
    return unknown


def _say_unknown(unknown: str | None) -> None:
    from k3_ledger.schemas.printable import printable

    if unknown is not None:
        typer.echo(printable(f"note: which entries were disowned cannot be told: {unknown}"), err=True)
