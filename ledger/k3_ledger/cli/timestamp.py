"""``k3-ledger timestamp``: have an authority say by when a signed head existed (RFC 3161)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.options import ReplaceOption  # noqa: TC001 - read when the command is built
from k3_ledger.cli.told import done
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.store import Ledger

REQUEST_HELP = """Write a request for a timestamp of the newest signed head.

It is over the SHA-256 of the head's text, without its signatures. Nothing is sent: post the file to an authority that
you choose, with the type application/timestamp-query, and give the answer to `k3-ledger timestamp add`.
"""
ADD_HELP = """Keep an authority's answer in timestamps/, beside the signed head that it is of.

The answer is read, not verified: whom to believe is for each reader's trust policy to say (`k3-ledger trust add
timestamps`).
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(no_args_is_help=True, help="Timestamps of signed heads by RFC 3161 authorities.")
    group.command("request", help=REQUEST_HELP)(request)
    group.command("add", help=ADD_HELP)(add)
    app.add_typer(group, name="timestamp")


def request(
    ledger: Annotated[Path, typer.Argument(help="Ledger directory.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)],
    replace: ReplaceOption = False,
) -> None:
    """Write the request."""
    from k3_ledger.cli.files import check_free, new_file
    from k3_ledger.cli.tokens import make_request
    from k3_ledger.ledger.writer.heads import read_newest
    from k3_ledger.ledger.writer.store import Ledger

    check_free(out, replace=replace, reads=(ledger,))
    signed = read_newest(Ledger.open(ledger), lacking="the ledger has no checkpoint, so there is nothing to timestamp")
    text = signed.note.text
    with new_file(out, replace=replace) as file:
        file.write(make_request(text.encode()))
    with done(f"the request stands: {out}"):
        said = f"{out}: request for a timestamp of the head of {signed.checkpoint.size} entries"
        typer.echo(printable(said))


def add(
    ledger: Annotated[Path, typer.Argument(help="Ledger directory.", show_default=False)],
    answer: Annotated[Path, typer.Argument(help="The authority's answer.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="Whose it is, where there are several: a-z, 0-9 and -.", show_default=False)
    ] = None,
) -> None:
    """Keep the answer."""
    from k3_ledger.cli.given import TIMESTAMP, given
    from k3_ledger.cli.sources import TOKEN_NAME
    from k3_ledger.cli.tokens import parse_token
    from k3_ledger.ledger.regular import read_if_there, read_small
    from k3_ledger.ledger.writer.disk import make_directory, storage_errors
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.errors import LedgerError, StoreError, handed_in
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.timestamps import MAX_TOKEN

    opened = Ledger.open(ledger)
    with given(answer, TIMESTAMP), handed_in(str(answer)):
        data = read_small(answer, MAX_TOKEN)
        digest = parse_token(data).tst_info.message_imprint.message
    size = _heads(opened).get(digest)
    if size is None:
        raise LedgerError(
            Code.TIMESTAMP_ELSEWHERE,
            "the timestamp is of none of the ledger's signed heads",
            position=Position(source=answer.name),
            found=digest.hex(),
        )
    kept = f"{size:012d}{f'-{name}' if name else ''}.tsr"
    if not TOKEN_NAME.fullmatch(kept):
        raise typer.BadParameter("1 to 40 of a-z, 0-9 and -", param_hint="--name")
    target = opened.root / "timestamps" / kept
    with storage_errors(target, "keep the timestamp"):
        make_directory(opened.disk, target.parent)
        if read_if_there(target, MAX_TOKEN) not in (None, data):
            raise StoreError(
                Code.STORE_EXISTS,
                "another timestamp of that head stands there",
                position=Position(source=str(target)),
                hint="give this one a name of its own: --name",
            )
        opened.publish(target, data)
    with done(f"the timestamp is kept: {target}"):
        typer.echo(printable(f"{target}: timestamp of the head of {size} entries, not verified"))


def _heads(ledger: Ledger) -> dict[bytes, int]:
    """Tree size by the digest that a timestamp of the head is over."""
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.note import parse_note
    from k3_ledger.ledger.writer.beside import read_heads

    texts = [parse_note(data).text for data in read_heads(ledger.root).values()]
    return {hashlib.sha256(text.encode()).digest(): parse_checkpoint(text).size for text in texts}
