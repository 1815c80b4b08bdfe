"""``k3-ledger import``: a foreign log becomes entries of a ledger, with the original bytes as artifacts."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.keys import JsonOption, KeyOption, PassphraseOption, WaitOption, load_key, print_json

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.append import Writer
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.verify.polaris import ImportItem

HELP = """Import a run log of the polaris family into a ledger.

Each run becomes one entry of kind `import`: its figures as exact text, the codes of what the audit found, and its
original bytes as artifacts; so does each round that published nothing and each recorded advance of the frontier.
Nothing is corrected or left out because of what the audit finds. What the ledger already holds is not added again.

The key must be enrolled with the role `log`.
"""


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(no_args_is_help=True, help="Import a log that somebody else wrote.")
    group.command("polaris", help=HELP)(polaris)
    group.callback()(lambda: None)  # keeps the group a group while it holds one command
    app.add_typer(group, name="import")


def polaris(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The log's directory.", show_default=False)],
    into: Annotated[Path, typer.Option(help="Ledger directory to import into.", show_default=False)],
    key: KeyOption,
    passphrase_file: PassphraseOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Audit, then append what is new."""
    from k3_ledger.cli.foreign import ForeignDirectory
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.verify.polaris import audit, parse_log, to_import

    files = ForeignDirectory(directory)
    report = audit(files)
    items = list(to_import(parse_log(files), files, report))
    ledger = Ledger.open(into)
    with ledger.writer(load_key(key, passphrase_file), lock_timeout_s=wait) as writer:
        done = add_items(ledger, writer, items)
    if as_json:
        print_json({"added": done.added, "known": done.known, "artifacts_added": done.artifacts})
    elif not done.added:
        typer.echo(f"nothing to add: all {done.known} entries of this log are in the ledger already")
    else:
        typer.echo(f"{done.added} entries added, {done.known} were there already; {done.artifacts} new artifacts")
    errors = sum(row.count for row in report.kinds if row.code.info.severity.value == "error")
    if errors:
        typer.echo(f"note: findings of severity error in this log: {errors}; see `k3-ledger audit polaris`", err=True)


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of an import: entries added, entries that were there, artifacts that were not stored before."""

    added: int
    known: int
    artifacts: int


def add_items(ledger: Ledger, writer: Writer, items: list[ImportItem]) -> Imported:
    """Append the items that the ledger does not hold, artifacts first.

    A crash in between leaves artifacts that nothing names, or the first few entries; importing again adds the rest.

    Raises:
        LedgerError: the key may not sign this, or an entry does not fit; nothing was stored.
        StoreError: the storage refused; no entry was acknowledged.
    """
    from k3_ledger.ledger.writer.append import Draft
    from k3_ledger.ledger.writer.blobs import put_blob

    def drafts() -> list[Draft]:
        known = known_keys(writer)
        return [Draft("import", item.body) for item in items if item.key not in known]

    with writer.exclusive():
        new = drafts()
        writer.rehearse(new)
    artifacts = 0
    if new:
        blobs = {digest: data for item in items for digest, data in item.blobs.items()}
        artifacts = sum(put_blob(ledger, io.BytesIO(data)).added for data in blobs.values())
    with writer.exclusive():
        new = drafts()
        writer.append_many(new)
    return Imported(len(new), len(items) - len(new), artifacts)


def known_keys(writer: Writer) -> set[tuple[str, str, str]]:
    """Keys of every import entry that the ledger holds; see :func:`k3_ledger.verify.polaris.import_key`."""
    return {
        (entry.body.format, entry.body.foreign_id, entry.body.original_sha256)
        for _, entry in writer.find(b'"kind":"import"')
        if entry.kind == "import"
    }
