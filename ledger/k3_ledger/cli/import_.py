"""``k3-ledger import``: a foreign log becomes entries of a ledger, with the original bytes as artifacts."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from k3_ledger.cli.options import JsonOption, KeyOption, PassphraseOption, WaitOption, print_json
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.told import done
from k3_ledger.schemas.outcomes import ExitCode, Position, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.writer.append import Writer
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.polaris import ImportItem, RunLog
    from k3_ledger.verify.polaris.to_import import Marks

Known: TypeAlias = "dict[tuple[str, str], list[tuple[int, dict[str, Any]]]]"

HELP = """Import a run log of the polaris family into a ledger.

Each run becomes one entry of kind `import`: its figures as exact text, the codes of what the audit found, and its
original bytes as artifacts; so does each round that published nothing and each recorded advance of the frontier.
Nothing is corrected or left out because of what the audit finds. What the ledger already holds is not added again; if
the log holds other evidence for it now, another receipt of a known run included, that is said, nothing at all is added,
and the exit code is 1. Originals that are gone from blobs/ are stored again. A folder that only repeats what another
holds is imported once, and a run whose folder has another name now is known by its receipt or by its files. What stands
in the log's directory and is no part of it, such as a link, is left out: that is said, and the exit code is 4.

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
    ledger: Annotated[
        Path, typer.Option("--ledger", "--into", help="Ledger directory to import into.", show_default=False)
    ],
    key: KeyOption,
    passphrase_file: PassphraseOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Audit, then append what is new."""
    from k3_ledger.cli.foreign import MAX_FILE, ForeignDirectory
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.errors import StoreError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris import AuditOptions, audit, list_copies, parse_log, to_import

    files = ForeignDirectory(directory)
    book = Ledger.open(ledger)
    with book.writer(load_key(key, passphrase_file), lock_timeout_s=wait) as writer:
        writer.check_may_sign("import")
        report = audit(files, AuditOptions(closed=files.closed))
        log = parse_log(files)
        items, copies = list(to_import(log, files, report)), list_copies(log, files)
        for name in sorted(files.cut):
            raise StoreError(
                Code.ARTIFACT_TOO_LONG,
                f"{name} is longer than a file of a log may be, and an original is imported whole",
                position=Position(source=name),
                expected=f"at most {MAX_FILE:,} bytes",
            )
        made = add_items(book, writer, items)
    if made.differing:
        _say_differing([*_unreadable_listings(log)], made.differing)
    unread = [finding for finding in report.findings if finding.code is Code.FOREIGN_NOT_READ]
    for finding in unread:
        typer.echo(f"note: {finding.message}: it is left out [{finding.code.id}]", err=True)
    _say_names(copies, made.renamed)
    errors = sum(row.count for row in report.kinds if row.code.info.severity.value == "error")
    with done(f"{made.added} entries were added, and {made.known} were there already"):
        if as_json:
            print_json(
                {
                    "added": made.added,
                    "known": made.known,
                    "artifacts_added": made.artifacts,
                    "artifacts_restored": made.restored,
                    "differing": [finding.as_dict() for finding in made.differing],
                    "copies": copies,
                    "renamed": made.renamed,
                    "not_read": [finding.as_dict() for finding in unread],
                    "errors": errors,
                }
            )
        elif made.differing:
            typer.echo(
                f"nothing added: {len(made.differing)} of {made.known} known entries differ from what was imported"
            )
        elif not made.added:
            typer.echo(f"nothing to add: all {made.known} entries of this log are in the ledger already")
        else:
            typer.echo(f"{made.added} entries added, {made.known} were there already; {made.artifacts} new artifacts")
        if made.restored:
            said = "1 artifact was" if made.restored == 1 else f"{made.restored} artifacts were"
            typer.echo(f"note: {said} missing from the ledger's blobs/, and stored again", err=True)
        if errors:
            typer.echo(
                f"note: findings of severity error in this log: {errors}; see `k3-ledger audit polaris`", err=True
            )
    if made.differing:
        raise typer.Exit(int(ExitCode.FALSE))
    if unread:
        raise typer.Exit(int(ExitCode.NOT_CHECKED))


def _say_names(copies: dict[str, str], renamed: dict[str, str]) -> None:
    """Folders that are no runs of their own, and those that have another name than what was imported of them."""
    for name, original in copies.items():
        typer.echo(f"note: runs/{name} only repeats what runs/{original} holds: imported once", err=True)
    for name, known_as in renamed.items():
        typer.echo(f"note: runs/{name} is known: it was imported as {known_as}", err=True)


def _unreadable_listings(log: RunLog) -> Iterator[Finding]:
    """Why a listing cannot be read: then every row of it is missing, and that is one fault."""
    from k3_ledger.verify.polaris.parse import INDEX, LEDGER

    for finding in log.problems:
        if finding.position.source in (INDEX, LEDGER) and finding.severity is Severity.ERROR:
            yield finding


def _say_differing(causes: list[Finding], differing: tuple[Finding, ...]) -> None:
    """Causes, then the first item of each kind of difference, and how many others differ in the same way."""
    from k3_ledger.cli import fail
    from k3_ledger.ledger.writer.batch import refusal

    for finding in causes:
        fail(refusal(finding))
    alike: dict[str, list[Finding]] = {}
    for finding in differing:
        item, _, what = finding.message.partition(": ")
        alike.setdefault(what.replace(item, "…"), []).append(finding)
    for first, *more in alike.values():
        fail(refusal(first))
        if more:
            typer.echo(f"  and {len(more)} more that differ in the same way; --json lists them", err=True)


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of an import.

    Attributes:
        added: entries that were appended.
        known: items that the ledger held before.
        artifacts: artifacts that were not stored before.
        restored: artifacts of known items that were gone, and are stored again.
        differing: what the log says otherwise now than when it was imported; then nothing was added.
        renamed: names of runs that were imported under other names, with these.
    """

    added: int
    known: int
    artifacts: int
    restored: int = 0
    differing: tuple[Finding, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)


def add_items(ledger: Ledger, writer: Writer, items: list[ImportItem]) -> Imported:
    """Append the items that the ledger does not hold, artifacts first, and store again what it lost of the others.

    A crash in between leaves artifacts that nothing names, or the first few entries; importing again adds the rest.

    Raises:
        LedgerError: the key may not sign this, or an entry does not fit; nothing was stored.
        StoreError: the storage refused, or what stands in the place of a known item's artifact is something else; no
            entry was acknowledged.
    """
    from k3_ledger.ledger.writer.append import Draft

    with writer.exclusive():
        first = _admitted(ledger, writer, items)
        if first.differing:
            return Imported(0, first.known, 0, differing=first.differing)
        writer.rehearse([Draft("import", item.body) for item in first.new])
    fresh = {id(item) for item in first.new}
    restored = _store(ledger, [item for item in items if id(item) not in fresh])
    artifacts = _store(ledger, first.new)
    with writer.exclusive():
        second = _admitted(ledger, writer, items)  # another writer may have been here since
        if not second.differing:
            writer.append_many([Draft("import", item.body) for item in second.new])
    added = 0 if second.differing else len(second.new)
    return Imported(added, second.known, artifacts, restored, second.differing, second.renamed)


def _admitted(ledger: Ledger, writer: Writer, items: list[ImportItem]) -> _Held:
    """What is new, as the log is now: to be asked, and appended, under one lock.

    Raises:
        LedgerError: an entry that counts gives an artifact of a new item another size.
    """
    from k3_ledger.cli.admission import size_faults
    from k3_ledger.ledger.writer.batch import refusal

    held = held_against(known_imports(writer), items)
    for finding in size_faults(ledger, _named(held.new)) if not held.differing else ():
        raise refusal(finding)
    return held


def _named(items: list[ImportItem]) -> Iterator[tuple[Position, str, int]]:
    """Place, digest and size of every artifact of items."""
    for item in items:
        for artifact in item.body["artifacts"]:
            place = Position(field=f"{item.body['foreign_id']}, {artifact['name']}")
            yield place, artifact["sha256"], artifact["size"]


def _store(ledger: Ledger, items: list[ImportItem]) -> int:
    """Store the artifacts of items that are not there; those that are have to hash to their names. How many were not.

    Raises:
        StoreError: the storage refused, or one that is there is damaged.
    """
    from k3_ledger.ledger.writer.blobs import put_blob

    blobs = {digest: data for item in items for digest, data in item.blobs.items()}
    return sum(put_blob(ledger, io.BytesIO(data)).added for data in blobs.values())


class _Held(NamedTuple):
    """Items that are new, how many are not, what the log says otherwise now of these, and the old names of the rest."""

    new: list[ImportItem]
    known: int
    differing: tuple[Finding, ...]
    renamed: dict[str, str]


def held_against(known: Known, items: list[ImportItem]) -> _Held:
    """Which items are new, how many are not, and which of these the log says otherwise now."""
    from k3_ledger.verify.polaris import compare_imported

    new, differing, renamed = [], [], {}
    moved = _moved(known, items)
    held = {(item.name, item.body["original_sha256"]) for item in items}
    entries_of = [known.get(item.name) or moved.get(item.name, []) for item in items]
    other_log = not any(entries for item, entries in zip(items, entries_of, strict=True) if not item.is_round)
    for item, entries in zip(items, entries_of, strict=True):
        alike = [entry for entry in entries if entry[1]["original_sha256"] == item.body["original_sha256"]]
        found = [compare_imported(item, index, body) for index, body in alike or entries]
        if not alike and item.is_round and other_log:
            new.append(item)  # of the same commit, measured by somebody else
        elif alike or not all((item.name, body["original_sha256"]) in held for _, body in entries):
            differing += found[-1:] if None not in found else []
            if item.name in moved:
                renamed[item.body["foreign_id"]] = entries[-1][1]["foreign_id"]
        else:  # nothing of that name is known, or all that is stands in the log beside it
            new.append(item)
    return _Held(new, len(items) - len(new), tuple(one for one in differing if one is not None), renamed)


def _moved(known: Known, items: list[ImportItem]) -> Known:
    """Entries of runs that have other names now, by the names that the log has for them.

    A receipt tells that, or, where the log or the entry has none, a file that is of one run in both. An entry whose
    name the log still has is of that run.
    """
    from k3_ledger.verify.polaris import import_marks

    names = {item.name for item in items}
    by_seal: dict[tuple[str, ...] | None, list[tuple[Marks, tuple[int, dict[str, Any]]]]] = {}
    by_file: dict[str, set[tuple[str, str]]] = {}
    for name, entries in known.items():
        for entry in entries if name not in names else ():
            marks = import_marks(entry[1])
            by_seal.setdefault(marks.seal, []).append((marks, entry))
            for digest in marks.files:
                by_file.setdefault(digest, set()).add(name)
    unsealed = {id(body) for _, (_, body) in by_seal.pop(None, [])}
    marks_of = {item.name: import_marks(item.body) for item in items if item.name not in known}
    shared = Counter(digest for marks in marks_of.values() for digest in marks.files)
    moved: Known = {}
    for item, marks in marks_of.items():
        moved[item] = [entry for known_by, entry in by_seal.get(marks.seal, []) if marks.is_sealed_as(known_by)]
        for digest in marks.files:
            names_of = by_file.get(digest, set())
            if not moved[item] and shared[digest] == len(names_of) == 1:
                moved[item] = [
                    one for one in known[next(iter(names_of))] if marks.seal is None or id(one[1]) in unsealed
                ]
    return {item: entries for item, entries in moved.items() if entries}


def known_imports(writer: Writer) -> Known:
    """Index and body of every import entry that the ledger holds, by :attr:`ImportItem.name`."""
    import msgspec

    from k3_ledger.verify.polaris import import_name

    known: Known = {}
    for receipt, entry in writer.find(b'"kind":"import"'):
        if entry.kind == "import":
            body = msgspec.to_builtins(entry.body)
            known.setdefault(import_name(body), []).append((receipt.index, body))
    return known
