"""``k3-ledger tiles``: what a static host needs to serve a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.options import JsonOption, ReplaceOption, print_json
from k3_ledger.cli.told import done
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.store import Ledger

TILES_HELP = """Rebuild tile/ from the log: the tree and its entries as C2SP tlog-tiles, for any static host.

The tiles are those of the newest checkpoint. What is there already is compared and never rewritten; partial tiles that
have grown into full ones are removed. With --out, DIR becomes a mirror that needs no ledger.jsonl: tiles, entry bundles
and signed heads, the newest one last; blobs/ is copied by other means. Nothing is signed, no key is needed.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("tiles", help=TILES_HELP)(tiles)


def tiles(
    ledger: Annotated[Path, typer.Argument(help="Ledger directory.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Directory for the mirror; the ledger's own when omitted.", show_default=False)
    ] = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the tiles and say how many."""
    from k3_ledger.cli.beyond import read_beyond
    from k3_ledger.cli.places import check_mirror
    from k3_ledger.cli.sources import DirectorySource
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.ledger.regular import read_if_there
    from k3_ledger.ledger.writer.beside import kept_heads
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.ledger.writer.tiles import KEY_ENTRIES, is_begun_list, write_tiles

    opened = Ledger.open(ledger)
    if out is not None:
        check_mirror(out, opened.root)
    if out is not None and not _is_ours(opened, out / "checkpoint"):
        _check_free(out / "checkpoint", replace=replace)
        begun = out / KEY_ENTRIES
        if not (begun.is_file() and is_begun_list(opened, begun)):
            _check_free(begun, replace=replace)
        for path in kept_heads(opened.root):
            there = out / "checkpoints" / path.name
            if not (there.is_file() and read_if_there(there) == read_if_there(path)):
                _check_free(there, replace=replace)
    with progress_bar(opened.log_path.stat().st_size, "hashing") as progress:
        made = write_tiles(opened, out, progress=progress)
    beyond = read_beyond(DirectorySource(opened.log_path).blocks(), made.checkpoint.size)
    with done(f"the tiles stand: {out or ledger}"):
        beyond.tell("the tiles")
        if as_json:
            head = {"size": made.checkpoint.size, "root": made.checkpoint.root.hex()}
            counts_of = {"tiles": made.tiles, "added": made.added, "removed": made.removed}
            print_json({"head": head, **counts_of, "beyond": beyond.as_dict()})
            return
        counts = f"{made.tiles} tiles, {made.added} added, {made.removed} removed"
        typer.echo(printable(f"{out or ledger}: head of {made.checkpoint.size} entries, {counts}"))


def _check_free(path: Path, *, replace: bool) -> None:
    """Refuse to write over a file that is none of this mirror's, unless that was asked for; a private key always.

    Raises:
        BadParameter: exit code 2.
    """
    from k3_ledger.cli.files import check_vacant
    from k3_ledger.cli.places import check_no_key

    check_no_key(path, option="--out")
    check_vacant(path, replace=replace)


def _is_ours(ledger: Ledger, place: Path) -> bool:
    """Whether what stands there is a head of this very ledger, which a newer one of it replaces."""
    from k3_ledger.ledger.core.note import parse_note
    from k3_ledger.ledger.regular import read_if_there
    from k3_ledger.ledger.writer.beside import read_heads
    from k3_ledger.schemas.errors import LedgerError

    try:
        there = read_if_there(place)
        texts = {parse_note(note).text for note in read_heads(ledger.root).values()}
        return there is not None and parse_note(there).text in texts
    except LedgerError:  # whatever it is, it is not to be lost by accident
        return False
