"""``k3-ledger export``: entries in the form that other tools verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.files import check_free, new_file
from k3_ledger.cli.options import JsonOption, KeyOption, PassphraseOption, ReplaceOption, print_json
from k3_ledger.cli.pack import parse_indexes
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.told import done
from k3_ledger.cli.trusting import TrustOption  # noqa: TC001 - read when the command is built
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.verify.log import VerifiedLog
    from k3_ledger.verify.source import LogSource

EXPORT_HELP = """Export entries as in-toto statements in DSSE envelopes, one a line, for the ecosystem's verifiers.

A statement names the digests of the entry, of its bundle and of its artifacts, and holds the entry, its line, the proof
that the newest signed head commits to it, and which entry superseded it. Envelopes are signed with --key: a key of your
own that is not one of the ledger's, which sign entries and heads and nothing else. Only a ledger that verifies is
exported.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("export", help=EXPORT_HELP)(export)


def export(
    ledger: Annotated[Path, typer.Argument(help="A ledger, a tar of it, or a mirror.", show_default=False)],
    key: KeyOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, JSON Lines.", show_default=False)],
    dsse: Annotated[
        bool, typer.Option("--dsse", help="DSSE envelopes: the only form there is, with or without this word.")
    ] = False,
    entries: Annotated[str, typer.Option(help="`all`, or indexes: 3,5,8.")] = "all",
    trust: TrustOption = None,
    passphrase_file: PassphraseOption = None,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify the ledger, then write the envelopes."""
    from k3_ledger.cli.opening import held_ledger
    from k3_ledger.cli.settled import verify_settled
    from k3_ledger.cli.trust import load_policy

    del dsse  # there is no other form
    check_free(out, replace=replace, reads=(ledger, key, trust, passphrase_file))
    wanted = parse_indexes(entries)
    signer = load_key(key, passphrase_file)
    source = held_ledger(ledger)
    log, _ = verify_settled(source, load_policy(trust, None, [], subject=ledger))
    _refuse_key_of_the_ledger(signer, log)
    taken = [index for index in wanted or () if index in log.disowned]
    if taken:
        raise typer.BadParameter(
            f"entry {taken[0]} was taken back by a revocation, and is not exported", param_hint="--entries"
        )
    count = 0
    with new_file(out, replace=replace) as file:
        for envelope in _envelopes(source, log, wanted, signer):
            file.write(envelope + b"\n")
            count += 1
    with done(f"the envelopes stand: {out}"):
        if as_json:
            print_json({"file": str(out), "envelopes": count, "key": signer.key_id})
            return
        typer.echo(printable(f"{out}: {count} envelopes, signed with {signer.key_id}"))


def _refuse_key_of_the_ledger(signer: Signer, log: VerifiedLog) -> None:
    from k3_ledger.schemas.errors import KeyFileError
    from k3_ledger.schemas.findings import Code

    for item in log.select(b'"kind":"genesis"', b'"kind":"key"'):
        public_key = getattr(item.entry.body, "root_public_key", None) or getattr(item.entry.body, "public_key", None)
        if public_key == signer.public_key.hex():
            raise KeyFileError(
                Code.KEY_WRONG_ROLE,
                f"the key {signer.key_id[:16]}… is one of the ledger's (entry {item.index})",
                expected="a key that the ledger does not know",
                hint="make one with `k3-ledger keygen`, and publish its public key where readers look for it",
            )


def _envelopes(source: LogSource, log: VerifiedLog, wanted: tuple[int, ...] | None, signer: Signer) -> Iterator[bytes]:
    """Envelopes of the wanted entries, in log order. Keeps the tree's hashes in memory: 32 bytes an entry."""
    from k3_ledger.ledger.core.chain import entry_identity, leaf_hash
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.dsse import format_envelope, format_statement
    from k3_ledger.ledger.core.framing import parse_line
    from k3_ledger.ledger.core.note import parse_note
    from k3_ledger.ledger.core.tiles import ENTRIES, Tile, TileWalk
    from k3_ledger.ledger.core.tiletree import TileTree
    from k3_ledger.rescore.standing import read_standing
    from k3_ledger.schemas.errors import ProofError
    from k3_ledger.schemas.findings import Code

    note = source.checkpoint()
    size = 0 if note is None else parse_checkpoint(parse_note(note).text).size
    last = max(wanted or (0,))
    held = 0 if log.report.head is None else log.report.head.size
    if last >= held:
        raise ProofError(Code.NO_SUCH_ENTRY, f"there is no entry {last}", expected=f"0 to {held - 1}")
    if note is None or last >= size:
        raise ProofError(
            Code.NOT_CHECKPOINTED,
            f"entry {last} is not covered: the newest head commits to {size} entries",
            hint="write a checkpoint first: `k3-ledger checkpoint`",
        )
    tiles: dict[Tile, bytes] = {}
    walk = TileWalk()
    for index, line in log.lines():
        if index < size:
            tiles |= {tile: data for tile, data in walk.append(line, leaf_hash(line)) if tile.level != ENTRIES}
    tiles |= dict(walk.rest())
    tree = TileTree(size, walk.root(), lambda tile: [tiles[tile]] if tile in tiles else [])
    chosen = None if wanted is None else frozenset(wanted)
    since = read_standing(log).since
    for index, line in log.lines():
        if index < size and index not in log.disowned and (chosen is None or index in chosen):
            gone = since.get(entry_identity(parse_line(line).entry).hex())
            statement = format_statement(index, line, tree.inclusion(index), note, gone)
            yield format_envelope(statement, signer.key_id, signer.sign)
