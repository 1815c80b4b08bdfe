"""``k3-ledger ls`` and ``k3-ledger show``: look entries up, and say which of them count for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.options import MAX_INTEGER, JsonOption, LedgerOption, print_json

if TYPE_CHECKING:
    from k3_ledger.ledger.core.keyring import Keyring
    from k3_ledger.ledger.writer.store import Ledger

LS_HELP = """List entries, as the index has them.

An entry that a later revocation took back is marked DISOWNED: it stands in the log and counts for nothing. One whose
key was never enrolled, or may not sign it there, is marked NOT ENROLLED. `k3-ledger verify` checks the signatures.
"""
SHOW_HELP = """Print one entry, read from the log itself. An entry that counts for nothing is marked, as in ls."""
_CLAIMED = "note: times are claimed by the entries' signers; order comes from the chain"


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
    unknown = _mark(opened, rows)
    if as_json:
        print_json({"entries": rows, "disowned_unknown": unknown})
        return
    for row in rows:
        by, mark = row["disowned_by"], ""
        if by is not None:
            mark = f"DISOWNED by entry {by}: "
        elif row["enrolled"] is False:
            mark = "NOT ENROLLED: "
        said = f"{row['identity'][:16]}…  {mark}{row['summary']}"
        typer.echo(f"{row['entry']:>8}  {row['claimed_time']}  {row['kind']:<10}{said}".rstrip())
    _say_unknown(unknown)
    if rows:
        typer.echo(_CLAIMED, err=True)


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
    row |= {"key": value["key"], "kind": value["kind"]}  # the log's word, and not the index's
    unknown = _mark(opened, [row])
    by = row["disowned_by"]
    if as_json:
        told = {name: row[name] for name in ("identity", "byte_offset", "disowned_by", "enrolled")}
        print_json({**told, "disowned_unknown": unknown, "entry": value})
        return
    typer.echo(f"entry {row['entry']} {row['identity']}")
    if by is not None:
        typer.echo(f"DISOWNED: entry {by} takes back what its key signed here; it counts for nothing")
    elif row["enrolled"] is False:
        typer.echo("NOT ENROLLED: its key was never enrolled, or may not sign it here; it counts for nothing")
    print_json(value)
    _say_unknown(unknown)
    typer.echo(_CLAIMED, err=True)
    typer.echo("note: shown, not verified; `k3-ledger verify` checks signatures and chain", err=True)


def _mark(ledger: Ledger, rows: list[dict[str, Any]]) -> str | None:
    """Put into each row ``disowned_by``, the entry that takes it back, or None; and ``enrolled``, whether its key may
    sign it there, or could when it was signed. Signatures are not looked at.

    Returns:
        Why that cannot be told, where the key entries of the log are damaged; then None stands for unknown in both.
    """
    from k3_ledger.ledger.writer.roster import read_state
    from k3_ledger.schemas.errors import LedgerError

    keyring: Keyring | None = None
    unknown = None
    try:
        keyring = read_state(ledger).keyring
    except LedgerError as error:
        unknown = f"{error} [{error.code.id}]"
    for row in rows:
        by = None if keyring is None else keyring.disowned_by(row["key"], row["entry"])
        row["disowned_by"] = by
        row["enrolled"] = keyring and (by is not None or keyring.counts(row["key"], row["kind"], row["entry"]))
    return unknown


def _say_unknown(unknown: str | None) -> None:
    from k3_ledger.schemas.printable import printable

    if unknown is not None:
        typer.echo(printable(f"note: which entries were disowned cannot be told: {unknown}"), err=True)
