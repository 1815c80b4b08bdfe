"""``k3-ledger prove``: write a self-contained proof file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from k3_ledger.cli.sources import unreadable

HELP = """Write a proof file for one entry: verifiable with no ledger at hand.

The file carries the entry, the newest checkpoint, the entries that enrolled the keys involved, and an inclusion proof
for each. It is verified before it is written. Check it with `k3-ledger verify FILE`. From a mirror at an address it
reads a few tiles and not the log.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("prove", help=HELP)(prove)


def prove(
    index: Annotated[int, typer.Argument(min=0, help="Index of the entry, counted from 0.", show_default=False)],
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="Ledger directory, mirror, or tar of one, or its address.")
    ] = ".",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; entry-INDEX.proof when omitted.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Directory that keeps what was fetched from an address.", show_default=False)
    ] = None,
) -> None:
    """Make, verify and write one proof file."""
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.ledger.core.proof import format_proof
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.proof import verify_proof
    from k3_ledger.verify.prove import prove_entry, prove_from_tiles

    target = out or Path(f"entry-{index}.proof")
    with opened_ledger(ledger, cache, tiles=True) as source:
        made = prove_from_tiles(source, index) if isinstance(source, TileSource) else prove_entry(source, index)
    data = format_proof(made)
    verify_proof(data, target.name)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise unreadable(target, error) from None
    typer.echo(f"{target}: entry {index}, {len(data)} bytes")
