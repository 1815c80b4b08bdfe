"""Commands of the operator: make a ledger, append, seal, sign its head, recover it, index it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.actions import print_receipt
from k3_ledger.cli.keys import new_key
from k3_ledger.cli.options import (
    JsonOption,
    KeyOption,
    LedgerOption,
    PassphraseOption,
    TimeOption,
    WaitOption,
    print_json,
)
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.told import done, told
from k3_ledger.cli.words import new_origin
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.recover import Recovered
    from k3_ledger.ledger.writer.store import Ledger

MAX_BODY = 1 << 20
"""Longest hand-written body that is read, in bytes."""

INIT_HELP = """Make a ledger: its genesis entry and the enrolment of its first keys.

DIRECTORY may exist, a ledger in it may not. ORIGIN is the log's name for itself, for ever, such as example.org/bench.
"""
APPEND_KINDS = (
    "Kind of entry: failed, import, key, merge, note, pin, round, rule, run (better sealed from its bundle, see seal), "
    "supersede, threshold, verdict or witness."
)
APPEND_HELP = """Append one entry of a given kind.

The body is JSON in any spacing and key order; fields that may be null or empty may be left out. When the command says
so, the entry is on stable storage. What verify would refuse for ever is refused here: a pin that its source did not
measure, a rule under the name of another, a verdict that does not follow (which costs a verification of the ledger), an
import without its original, an artifact with another size than an entry that counts gives it.
Of what else stands in the ledger, only the last entry and the keys are looked at: verify and checkpoint read the rest.
"""
SEAL_HELP = """Seal measurement bundles: store their artifacts, append their receipts.

A bundle is a directory (or an uncompressed tar of it) with bundle.json and blobs/SHA256. Everything in it is read and
re-hashed first, and an attestation that holds under nobody's certificates is refused. Sealing a bundle twice adds
nothing and names the entry that holds it.

A bundle carries no signature. Whoever may have touched it since it was measured could have edited its figures: --expect
takes the id that was printed then, and refuses every other bundle before anything of it is stored.

Of several bundles one is sealed after the other: where one is refused, those in front of it stand, and are named.
"""
CHECKPOINT_HELP = """Sign the head of the ledger as it is now, and keep it.

The root is computed over the whole log. Where entries are new, the log is verified first, but for artifacts and for
signatures below an earlier head: nothing is signed over an entry that no earlier head covers and that
`k3-ledger verify` would call false. A smaller head or a fork is never signed. When nothing is new, nothing is signed.
"""
RECOVER_HELP = """Cut a torn tail off, keeping its bytes in recovered/.

Where the tail is a complete entry that a signed head commits to, its line feed is put back instead.

Only what a write that was cut short leaves behind is cut. Tampering is refused (in the last entry, and in whatever a
signed head covers; verify reads the rest), and so is a ledger that is shorter than a checkpoint says. Where no entry
is whole and none is known of, ledger.jsonl is taken away, so that init can begin again.
"""
INDEX_HELP = """Bring index.sqlite up to date: for ls, show, SQL and datasette. It is derived and never trusted."""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("init", help=INIT_HELP)(init)
    app.command("append", help=APPEND_HELP)(append)
    app.command("seal", help=SEAL_HELP)(seal)
    app.command("checkpoint", help=CHECKPOINT_HELP)(checkpoint)
    app.command("recover", help=RECOVER_HELP)(recover)
    app.command("index", help=INDEX_HELP)(index)


def init(
    directory: Annotated[Path, typer.Argument(help="Where the ledger goes.", show_default=False)],
    origin: Annotated[str, typer.Option(help="Name of the log.", show_default=False, callback=new_origin)],
    key: KeyOption,
    enrol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=FILE", help="Enrol a public key (root, log, runner, judge, witness); may be repeated."
        ),
    ] = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a ledger."""
    from k3_ledger.cli.places import check_begun
    from k3_ledger.ledger.writer.store import Ledger

    check_begun(directory, "ledger", option="DIRECTORY")
    keys = []
    for spec in enrol or ():
        role, mark, public = spec.partition("=")
        if not mark:
            raise typer.BadParameter(f"{spec!r} is not ROLE=FILE", param_hint="--enrol")
        keys.append(new_key(role, public, None))
    signer = load_key(key, passphrase_file)
    given = [signer.key_id, *(new.public_key.key_id for new in keys)]
    for spec, named in zip(enrol or (), given[1:], strict=True):
        if given.count(named) > 1:
            raise typer.BadParameter(
                f"{spec!r}: this key is given twice, or signs as the root: every role has a key of its own",
                param_hint="--enrol",
            )
    Ledger.create(directory, origin=origin, root=signer, keys=keys, time=time)
    with done(f"the ledger stands: {directory}"):
        if as_json:
            print_json(
                {
                    "ledger": str(directory),
                    "origin": origin,
                    "root_public_key": signer.public_key.hex(),
                    "entries": 1 + len(keys),
                }
            )
            return
        typer.echo(printable(f"{directory}: ledger {origin}, {1 + len(keys)} entries"))
        typer.echo(f"root public key {signer.public_key.hex()}")


def append(
    kind: Annotated[str, typer.Argument(help=APPEND_KINDS, show_default=False)],
    body: Annotated[
        str, typer.Option("--body", "-b", help="File with the body as JSON; - is stdin.", show_default=False)
    ],
    key: KeyOption,
    ledger: LedgerOption = Path(),
    artifact: Annotated[
        list[Path] | None,
        typer.Option(help="Store this file, which the body names, by its digest first; may be repeated."),
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Verifier key of the witness whose line is kept; may be repeated."),
    ] = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append one entry."""
    from k3_ledger.cli.admission import admission, check_copied, check_evidence, check_kept_line
    from k3_ledger.cli.given import BODY, given
    from k3_ledger.ledger.writer.append import Draft
    from k3_ledger.ledger.writer.blobs import put_blob
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.envelope import SIGNING_ROLES
    from k3_ledger.schemas.errors import handed_in
    from k3_ledger.schemas.validate import read_body

    kinds = [name for name in SIGNING_ROLES if name != "genesis"]
    if kind not in kinds:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(kinds)}", param_hint="KIND")
    if witness and kind != "witness":
        raise typer.BadParameter(f"a {kind} keeps no cosignature", param_hint="--witness")
    opened = Ledger.open(ledger)
    signer = load_key(key, passphrase_file)
    check = admission(opened)
    with given(body, BODY) as seen, handed_in("stdin" if body == "-" else body):
        seen.data = _read_body(body)
        value = read_body(kind, seen.data).model_dump(mode="json", by_alias=True)
    with opened.writer(signer, lock_timeout_s=wait, check=check) as writer:
        writer.rehearse([Draft(kind, value, time)])
        files = _check_artifacts(opened, value, artifact or [])
        if kind == "witness":
            check_kept_line(opened, value, witness or ())
        if kind == "run":
            check_evidence(opened, value, files, "stdin" if body == "-" else body)
        if kind == "import":
            check_copied(opened, value, files, "stdin" if body == "-" else body)
        stored = []
        for path in artifact or ():
            with _open_file(path) as file:
                blob = put_blob(opened, file)
            stored.append({"path": str(path), "sha256": blob.sha256, "size": blob.size})
            typer.echo(printable(f"{path}: {blob.sha256}, {blob.size} bytes"), err=True)
        receipt = writer.append(kind, value, time=time)
    print_receipt(receipt, kind, as_json=as_json, more={"artifacts": stored})
    if kind == "verdict" and any(pin["source"] == "file" for pin in value["pins"]):
        said = "it states a pin from a file, which nobody can derive from the ledger"
        typer.echo(f"warning: {said}: it says what would be, and publishes nothing", err=True)


def _check_artifacts(ledger: Ledger, body: dict[str, Any], files: list[Path]) -> dict[str, Path]:
    """Refuse a file that the body does not name, which no entry would ever lead to, and a body that gives an artifact
    another size than the file has: no later entry could mend that.

    Returns:
        The files by their digests.

    Raises:
        BadParameter: the body does not name a file.
        LedgerError: the position names the artifact.
    """
    from k3_ledger.ledger.regular import unreadable
    from k3_ledger.ledger.writer.blobs import blob_path, check_blob, check_length, check_publishable
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position

    sizes: dict[str, int] = {}
    paths: dict[str, Path] = {}
    unnamed: list[str] = []
    named = {artifact["sha256"] for artifact in body.get("artifacts", ())}
    for path in files:
        with _open_file(path) as file:
            check_length(os.fstat(file.fileno()).st_size, str(path))
            try:
                digest, size = check_publishable(file, str(path))
            except OSError as error:
                raise unreadable(path, error) from None
        if digest not in named:
            unnamed.append(f"{path} ({digest})")
        sizes[digest], paths[digest] = size, path
    if unnamed:
        raise typer.BadParameter(
            f"the body names no artifact of the digest of {', '.join(unnamed)}, which would belong to nothing: put it "
            "into the body's artifacts, or leave the option out; nothing was stored",
            param_hint="--artifact",
        )
    for number, artifact in enumerate(body.get("artifacts", ())):
        stored = blob_path(ledger, artifact["sha256"])
        if artifact["sha256"] not in sizes and stored.is_file():
            size = stored.stat().st_size  # one that was damaged says nothing about the body
            sizes[artifact["sha256"]] = size if size == artifact["size"] else check_blob(ledger, artifact["sha256"])
        size = sizes.get(artifact["sha256"], artifact["size"])
        if size != artifact["size"]:
            raise LedgerError(
                Code.ARTIFACT_MISMATCH,
                f"artifact {artifact['name']} does not have the size that the body gives it",
                position=Position(field=f"body.artifacts[{number}].size"),
                expected=str(size),
                found=str(artifact["size"]),
                hint="correct the body; nothing was appended",
            )
    return paths


def _read_body(name: str) -> bytes:
    from k3_ledger.cli.sources import is_stream, open_stream
    from k3_ledger.ledger.regular import read_small, read_stream

    if not is_stream(name):
        return read_small(Path(name), MAX_BODY)
    if name == "-":
        return open_stream(name).read(MAX_BODY + 1)
    with open_stream(name) as stream:
        return read_stream(stream, name, MAX_BODY)


def _open_file(path: Path) -> Any:
    from k3_ledger.cli.given import ARTIFACT, given
    from k3_ledger.ledger.regular import open_regular

    with given(path, ARTIFACT):
        return open_regular(path)


def seal(
    bundles: Annotated[list[Path], typer.Argument(help="Bundle directories or tars.", show_default=False)],
    key: KeyOption,
    ledger: LedgerOption = Path(),
    passphrase_file: PassphraseOption = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="The id that `run` printed; one for each bundle, in their order."),
    ] = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Seal bundles, one after the other."""
    from k3_ledger.cli.admission import bundle_faults, sealing
    from k3_ledger.cli.given import BUNDLE, given
    from k3_ledger.ledger.regular import unreadable
    from k3_ledger.ledger.writer.seal import seal as seal_bundle
    from k3_ledger.ledger.writer.store import Ledger

    expected = _expected(expect, len(bundles))
    opened = Ledger.open(ledger)
    every: list[dict[str, Any]] = []

    def tell() -> None:
        if as_json and every:
            with done(*(f"entry {one['index']} {one['identity']} stands" for one in every)):
                print_json({"sealed": every})

    signer = load_key(key, passphrase_file)
    with told(tell), opened.writer(signer, lock_timeout_s=wait, check=sealing(opened)) as writer:
        for path, wanted in zip(bundles, expected, strict=True):
            with given(path, BUNDLE):
                try:
                    sealed = seal_bundle(opened, path, writer, time=time, expect=wanted, check=bundle_faults)
                except OSError as error:  # what is not the ledger's: the medium under the bundle
                    raise unreadable(path, error) from None
            every.append(
                {
                    "bundle": str(path),
                    "index": sealed.index,
                    "identity": sealed.identity,
                    "added": sealed.added,
                    "artifacts_added": sealed.artifacts_added,
                }
            )
            if not as_json:
                what = f"sealed {path}" if sealed.added else f"{path} was sealed already; nothing was appended"
                said = f"entry {sealed.index} {sealed.identity}: {what}, {sealed.artifacts_added} artifacts stored"
                with done(f"entry {sealed.index} {sealed.identity} stands"):
                    typer.echo(printable(said))


def _expected(expect: list[str] | None, bundles: int) -> list[str | None]:
    """What each bundle must be called; None where nothing was said.

    Raises:
        BadParameter: there are more or fewer of them than bundles, or one is no digest.
    """
    if not expect:
        return [None] * bundles
    if len(expect) != bundles:
        raise typer.BadParameter(f"{len(expect)} ids for {bundles} bundles: give one for each", param_hint="--expect")
    for one in expect:
        if re.fullmatch("[0-9a-f]{64}", one) is None:
            raise typer.BadParameter(f"{one!r} is not 64 lower-case hex digits", param_hint="--expect")
    return list(expect)


def checkpoint(
    key: KeyOption,
    ledger: LedgerOption = Path(),
    passphrase_file: PassphraseOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Sign the head of the ledger."""
    from functools import partial

    from k3_ledger.cli.signable import check_signable
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.ledger.writer.checkpoint import make_checkpoint
    from k3_ledger.ledger.writer.store import Ledger

    opened = Ledger.open(ledger)
    signer = load_key(key, passphrase_file)
    with progress_bar(opened.log_path.stat().st_size, "checking") as progress:
        check = partial(check_signable, opened.log_path)
        made = make_checkpoint(opened, signer, lock_timeout_s=wait, progress=progress, check=check)
    head = made.checkpoint
    with done(f"the head of {head.size} entries, root {head.root.hex()}, is signed and stands"):
        if as_json:
            print_json({"origin": head.origin, "size": head.size, "root": head.root.hex(), "added": made.added})
            return
        said = "signed" if made.added else "nothing is new; signed already"
        typer.echo(f"head of {head.size} entries, root {head.root.hex()}: {said}")


def recover(
    ledger: LedgerOption = Path(),
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Cut a torn tail off."""
    from k3_ledger.ledger.writer.recover import recover as recover_ledger
    from k3_ledger.ledger.writer.store import Ledger

    made = recover_ledger(Ledger.open(ledger, torn=True), lock_timeout_s=wait)
    with done(
        f"{made.entries} entries are whole" + (f", and what was cut is kept in {made.kept}" if made.kept else "")
    ):
        _say_recovered(made, as_json=as_json)


def _say_recovered(made: Recovered, *, as_json: bool) -> None:
    """What :func:`recover` found and did."""
    if as_json:
        print_json(
            {
                "entries": made.entries,
                "offset": made.offset,
                "cut": made.cut,
                "kept": None if made.kept is None else str(made.kept),
                "complete": made.complete,
                "restored": made.restored,
                "removed": made.removed,
            }
        )
        return
    if made.restored:
        typer.echo(
            f"put the line feed back behind entry {made.entries - 1}: a signed head commits to it, and it was "
            f"all that was missing; the line as it was is kept in {made.kept}"
        )
        return
    if made.removed:
        kept = f"{made.cut} bytes are kept in {made.kept}" if made.cut else "it was empty"
        typer.echo(f"no entry was whole, so ledger.jsonl was taken away; {kept}")
        typer.echo(
            "note: `k3-ledger init` can make a ledger there now; if this one ever held entries, restore a copy instead"
        )
        return
    if not made.cut:
        typer.echo(f"nothing is torn: {made.entries} entries, {made.offset} bytes")
        return
    typer.echo(f"cut {made.cut} bytes off at byte {made.offset}, kept in {made.kept}; {made.entries} entries are whole")
    if made.complete:
        typer.echo(
            "note: they are one complete entry whose line feed was never written; whether its append was acknowledged "
            "cannot be told from the file; append it again if you want it"
        )


def index(
    ledger: LedgerOption = Path(),
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build it anew.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Refresh the index."""
    from k3_ledger.ledger.writer.index import refresh_index
    from k3_ledger.ledger.writer.store import Ledger

    opened = Ledger.open(ledger)
    made = refresh_index(opened, rebuild=rebuild, compare=True)
    with done(f"the index of {made.entries} entries stands"):
        if as_json:
            print_json({"entries": made.entries, "added": made.added, "rebuilt": made.rebuilt})
            return
        how = "built anew" if made.rebuilt else f"{made.added} added"
        typer.echo(printable(f"{opened.index_path}: {made.entries} entries, {how}"))
