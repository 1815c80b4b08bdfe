"""``k3-ledger witness``: be a witness of somebody's log; ``k3-ledger cosign``: ask witnesses to cosign one's own."""

from __future__ import annotations

import re
from pathlib import Path
from time import time as clock
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from k3_ledger.cli.options import JsonOption, KeyOption, LedgerOption, PassphraseOption, WaitOption, print_json
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.words import finite
from k3_ledger.schemas.errors import LedgerError

if TYPE_CHECKING:
    from k3_ledger.ledger.core.note import NoteSignature, Verifier
    from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
    from k3_ledger.ledger.witness.cosign import CosigningWitness
    from k3_ledger.ledger.witness.state import WitnessedLog
    from k3_ledger.verify.source import LogSource

StateOption = Annotated[Path, typer.Option("--state", "-s", help="Directory of the witness.", show_default=False)]

COSIGN_HELP = """Ask witnesses to cosign the newest checkpoint, and keep their cosignatures with it.

Needs no key. Each witness is named by its verifier key, which its operator publishes, and its address. A witness that
has cosigned the checkpoint already is not asked again, unless --again wants a newer word for a head that has not moved.
When one refuses, the others are asked all the same, and the exit code says so.
"""
INIT_HELP = """Make the state of a new witness. Prints its verifier key, which readers put into their trust policy.

The state is what keeps a witness honest: never copy it back from a backup, and never run two copies of it. Where what
a witness remembers stands already, nothing is made. --restore writes a lost witness.json anew beside it: give the name
and the key that it had.
"""
ADD_HELP = """Make a log known to the witness, or give a known log further keys.

KEY is the log's public key: a .pub.pem file, 64 hex digits, or a verifier key. Where it comes from is what the witness
vouches for: ask the log's operator, not the ledger.

A witness that cosigned heads of the log and lost its memory of it never starts over. With --from it goes on from the
largest head in SOURCE that carries its own cosignature: a ledger or a mirror, here or at an address, or a file with the
signed note. You vouch that it cosigned no larger one: ask everybody who keeps cosigned heads, and give each that
answers. If you cannot, retire the key. Where a key that was stolen or retired since signed that head, name it with
--dropped: it proves that head, and counts for nothing behind it.
"""
DROP_HELP = """Let go of keys of a log: of one that was stolen, at once, and of one that was rotated out.

No head under a dropped key is cosigned any more, by a server that is running neither, and the key never comes back. The
log goes on under its other keys from the head that was cosigned last; add the new one with add-log, before or after.
What was cosigned stays cosigned: where a thief had a head of his own cosigned before, this witness cosigns nothing that
contradicts it, and the log needs a new witness. Compare the head that is printed with the log's own.
"""
SIGN_HELP = """Cosign a head without a server, if it extends the last one that was cosigned.

SOURCE is a ledger or a mirror of one, here or at an address, or a file with a request as `add-checkpoint` takes it.
What is not cosigned is refused with the reason. The cosignature is printed; --keep adds it to the checkpoint in the
ledger as well.
"""
SERVE_HELP = """Answer `add-checkpoint` and `checkpoint` requests over HTTP, on 127.0.0.1 alone.

The protocol is that of c2sp.org/tlog-witness. Put a reverse proxy in front of it to face others. Refusals are reported
on stderr. Needs the extra `witness`.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("cosign", help=COSIGN_HELP)(cosign)
    group = typer.Typer(
        no_args_is_help=True, help="Be a witness: remember the heads of logs, cosign what extends them."
    )
    group.command("init", help=INIT_HELP)(init)
    group.command("add-log", help=ADD_HELP)(add_log)
    group.command("drop-key", help=DROP_HELP)(drop_key)
    group.command("ls", help="List the logs of a witness, with what it cosigned last.")(list_logs)
    group.command("cosign", help=SIGN_HELP)(sign)
    group.command("serve", help=SERVE_HELP)(serve)
    app.add_typer(group, name="witness")


# ------------------------------------------------------------------------------------------------- the log's side


class _Asked(NamedTuple):
    verifier: Verifier
    address: str


def cosign(
    witness: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=URL", help="Verifier key and address of a witness; may be repeated.", show_default=False
        ),
    ],
    ledger: LedgerOption = Path(),
    again: Annotated[bool, typer.Option("--again", help="Ask those too who have cosigned the checkpoint.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a witness.", callback=finite)] = 10.0,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Ask witnesses."""
    from k3_ledger.cli import fail
    from k3_ledger.cli.sources import DirectorySource
    from k3_ledger.ledger.core.cosignature import Witness, read_cosignatures
    from k3_ledger.ledger.core.note import parse_note
    from k3_ledger.ledger.witness.client import ask_witness
    from k3_ledger.ledger.writer.checkpoint import keep_cosignatures
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.moments import format_time
    from k3_ledger.verify.prove import consistency_between

    asked = [_witness(spec) for spec in witness]
    _check_told_apart([one.verifier for one in asked])
    opened = Ledger.open(ledger)
    source = DirectorySource(ledger)
    note = _checkpoint(source)
    rows, codes = [], []
    for verifier, address in asked:
        given = read_cosignatures(parse_note(note), [Witness(verifier, verifier.name)]).good
        time, problem, asking = (given[0].latest if given else 0), None, again or not given
        if asking:
            try:
                answer = ask_witness(
                    address,
                    verifier,
                    note,
                    lambda old, new: consistency_between(source, old, new),
                    old_size=_last_cosigned(source, verifier),
                    timeout_s=timeout,
                    now=int(clock()),
                )
                note = keep_cosignatures(opened, note, [answer.signature], verifier, lock_timeout_s=wait)
                time = answer.timestamp
            except LedgerError as error:
                codes.append(fail(error))
                time, problem = 0, error.code.id
        rows.append(
            {
                "witness": verifier.name,
                "time": format_time(time) if time else None,
                "added": asking and not problem,
                "problem": problem,
            }
        )
        if not as_json and not problem:
            typer.echo(f"{verifier.name}: cosigned {'' if asking else 'already, '}at {format_time(time)}")
    if as_json:
        print_json({"cosignatures": rows})
    raise typer.Exit(1 if 1 in codes else max(codes, default=0))  # a refusal says more than a silence


_REQUEST_START = b"old "
_PAIR = re.compile(r"(\S*?\+\S*?\+[^:]*?)=([a-z][a-z0-9+.-]*://.*)", re.ASCII | re.IGNORECASE)
"""A key may hold and end in ``=`` by mistake: the address begins at its scheme."""


def _witness(spec: str) -> _Asked:
    from k3_ledger.ledger.witness.client import check_address
    from k3_ledger.schemas.addresses import said

    match = _PAIR.fullmatch(spec)
    if match is None:
        raise typer.BadParameter(f"{said(spec)!r} is not KEY=URL", param_hint="--witness")
    verifier = witness_key(match[1], "--witness")
    try:
        check_address(match[2])
    except ValueError as error:
        raise typer.BadParameter(f"{said(spec)!r}: {error}", param_hint="--witness") from None
    return _Asked(verifier, match[2])


def _check_told_apart(verifiers: list[Verifier]) -> None:
    """Refuse two keys of one name and key hash: readers who believe one of them would call the other's line bad."""
    keys = set(verifiers)
    if len({(one.name, one.key_hash) for one in keys}) < len(keys):
        said = "two witnesses have one name and one key hash, so that their lines cannot be told apart: ask one of them"
        raise typer.BadParameter(said, param_hint="--witness")


def witness_key(text: str, option: str) -> Verifier:
    """The verifier key of a witness, from words on a command line.

    Raises:
        typer.BadParameter: it is none; the words name it.
    """
    from k3_ledger.ledger.core.note import KeyType, parse_verifier_key

    try:
        verifier = parse_verifier_key(text)
    except LedgerError as error:
        problem = error.finding
        more = "" if problem.expected is None else f", which is {problem.expected}"
        said = f"{text[:200]!r} is no verifier key of a witness: {problem.message}{more}"
        raise typer.BadParameter(said, param_hint=option) from None
    if verifier.key_type is not KeyType.COSIGNATURE:
        raise typer.BadParameter(f"{text!r} is the key of a log and not of a witness", param_hint=option)
    return verifier


def _checkpoint(source: LogSource) -> bytes:
    from k3_ledger.schemas.errors import ProofError
    from k3_ledger.schemas.findings import Code

    note = source.checkpoint()
    if note is None:
        raise ProofError(
            Code.NOT_CHECKPOINTED,
            "the ledger has no checkpoint, so there is nothing to cosign",
            hint="sign one: `k3-ledger checkpoint`",
        )
    return note


def _last_cosigned(source: LogSource, verifier: Verifier) -> int:
    """Size of the largest kept head that a witness cosigned: what it most likely remembers."""
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.note import parse_note

    notes = (parse_note(raw) for _, raw in source.kept_checkpoints())
    return max(
        (
            parse_checkpoint(note.text).size
            for note in notes
            if any((sig.name, sig.key_hash) == (verifier.name, verifier.key_hash) for sig in note.sigs)
        ),
        default=0,
    )


# --------------------------------------------------------------------------------------------- the witness's side


def init(
    state: Annotated[Path, typer.Argument(help="Directory for the state; its parent exists.", show_default=False)],
    name: Annotated[
        str, typer.Option(help="Name of the witness, such as witness.example/w1; for ever.", show_default=False)
    ],
    key: KeyOption,
    restore: Annotated[bool, typer.Option("--restore", help="Only witness.json is lost: write it anew.")] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a witness."""
    from k3_ledger.cli.places import check_begun
    from k3_ledger.ledger.core.note import format_verifier_key
    from k3_ledger.ledger.witness.state import WitnessState

    if not restore:  # what is restored stands there already, wherever that is
        check_begun(state, "witness", option="STATE")
    public_key = load_key(key, passphrase_file).public_key
    try:
        made = WitnessState.create(state, name, public_key, restore=restore)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--restore" if restore else "--name") from None
    verifier_key = format_verifier_key(made.verifier)
    if as_json:
        print_json({"state": str(state), "name": name, "verifier_key": verifier_key})
        return
    typer.echo(f"{state}: witness {name}")
    typer.echo(f"verifier key {verifier_key}")


def add_log(
    origin: Annotated[str, typer.Argument(help="The log's name for itself.", show_default=False)],
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Public keys of the log.", show_default=False)],
    state: StateOption,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Go on from the last head here that this witness cosigned; may be repeated.",
            show_default=False,
        ),
    ] = None,
    dropped: Annotated[
        list[str] | None,
        typer.Option(
            "--dropped",
            metavar="KEY",
            help="With --from: a key that may have signed that head and was dropped; may be repeated.",
            show_default=False,
        ),
    ] = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Add a log."""
    from k3_ledger.ledger.witness.state import WitnessState

    if dropped and not start:
        raise typer.BadParameter(
            "goes with --from; a key of a known log is dropped by drop-key", param_hint="--dropped"
        )
    witness = WitnessState.open(state, lock_timeout_s=wait)
    try:
        verifiers = _log_keys(origin, keys)
        if start:
            notes = [note for source in start for note in _cosigned_notes(source, origin)]
            log = witness.take_up(origin, verifiers, notes, _log_keys(origin, dropped or []))
        else:
            log = witness.add_log(origin, verifiers)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    _print_log(log, as_json=as_json)


def drop_key(
    origin: Annotated[str, typer.Argument(help="The log's name for itself.", show_default=False)],
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Public keys to let go of.", show_default=False)],
    state: StateOption,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Drop keys."""
    from k3_ledger.ledger.witness.state import WitnessState

    witness = WitnessState.open(state, lock_timeout_s=wait)
    try:
        log = witness.drop_keys(origin, _log_keys(origin, keys))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    _print_log(log, as_json=as_json)
    if not as_json and log.is_orphaned:
        said = f"a dropped key alone signed the head of {log.head.size} entries, root {log.head.root.hex()}"
        typer.echo(f"note: {said}: ask the log whether it is its own; if not, the log needs a new witness", err=True)


def _log_keys(origin: str, keys: list[str]) -> list[Verifier]:
    from k3_ledger.ledger.core.note import Verifier, parse_verifier_key

    return [parse_verifier_key(key) if "+" in key else Verifier(origin, _public(key)) for key in keys]


def _print_log(log: WitnessedLog, *, as_json: bool) -> None:
    if as_json:
        print_json({"origin": log.origin, **_keys_of(log), "size": log.head.size})
        return
    gone = f"{len(log.dropped)} dropped, " if log.dropped else ""
    typer.echo(f"{log.origin}: {len(log.verifiers)} keys, {gone}last cosigned {log.head.size} entries")


def _keys_of(log: WitnessedLog) -> dict[str, list[str]]:
    from k3_ledger.ledger.core.note import format_verifier_key

    return {
        "keys": [format_verifier_key(verifier) for verifier in log.verifiers],
        "dropped_keys": [format_verifier_key(verifier) for verifier in log.dropped],
    }


def _cosigned_notes(source: str, origin: str) -> list[bytes]:
    """The signed notes in a file that is one, or those that a ledger or a mirror keeps."""
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.cli.sources import is_stream
    from k3_ledger.ledger.core.note import MAX_NOTE
    from k3_ledger.ledger.regular import open_regular, read_small

    path, start = Path(source), f"{origin}\n".encode()
    if not is_stream(source) and path.is_file():
        with open_regular(path) as stream:
            is_note = stream.read(len(start)) == start
        if is_note:
            return [read_small(path, MAX_NOTE)]
    with opened_ledger(source) as log:
        return _notes(log)


def _notes(log: LogSource) -> list[bytes]:
    from k3_ledger.verify.source import NOT_LOOKED_FOR

    if not log.lists("checkpoints"):
        typer.echo(f"note: {log.name}: kept heads {NOT_LOOKED_FOR}", err=True)
    newest = log.checkpoint()
    return [*([] if newest is None else [newest]), *(raw for _, raw in log.kept_checkpoints())]


def _public(spec: str) -> bytes:
    from k3_ledger.cli.given import PUBLIC_KEY, given
    from k3_ledger.ledger.writer.keys import load_public_key

    with given(spec, PUBLIC_KEY):
        return load_public_key(spec).raw


def list_logs(state: StateOption, as_json: JsonOption = False) -> None:
    """List what a witness knows."""
    from k3_ledger.ledger.core.note import format_verifier_key
    from k3_ledger.ledger.witness.state import WitnessState
    from k3_ledger.schemas.moments import format_time

    witness = WitnessState.open(state)
    witness.check_nothing_lost()
    logs = [witness.log(origin) for origin in witness.origins()]
    if as_json:
        rows = [
            {
                "origin": log.origin,
                **_keys_of(log),
                "size": log.head.size,
                "root": log.head.root.hex(),
                "time": format_time(log.timestamp) if log.timestamp else None,
            }
            for log in logs
        ]
        print_json({"verifier_key": format_verifier_key(witness.verifier), "logs": rows})
        return
    for log in logs:
        when = f"cosigned at {format_time(log.timestamp)}" if log.timestamp else "never cosigned"
        typer.echo(f"{log.head.size:>8}  {log.head.root.hex()[:16]}…  {when}  {log.origin}")


def sign(
    source: Annotated[
        str, typer.Argument(help="A ledger, mirror or tar of one, its address, or a request.", show_default=False)
    ],
    state: StateOption,
    key: KeyOption,
    keep: Annotated[bool, typer.Option("--keep", help="Add the cosignature to the ledger's checkpoint.")] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Directory that keeps what was fetched from an address.", show_default=False)
    ] = None,
    passphrase_file: PassphraseOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Cosign without a server."""
    from k3_ledger.cli.sources import is_stream
    from k3_ledger.ledger.core.tlog_witness import format_answer

    path = Path(source)
    if keep and (is_stream(source) or not path.is_dir()):
        raise typer.BadParameter("there is nothing to keep it in: SOURCE is no directory", param_hint="--keep")
    witness = _open(state, key, passphrase_file, wait)
    request = (None if is_stream(source) else _read_request(path)) or _request(source, cache, witness)
    signature = witness.add_checkpoint(request)
    if keep:
        from k3_ledger.ledger.writer.checkpoint import keep_cosignatures
        from k3_ledger.ledger.writer.store import Ledger

        keep_cosignatures(
            Ledger.open(path), request.checkpoint, [signature], witness.state.verifier, lock_timeout_s=wait
        )
    line = format_answer([signature]).decode()
    if as_json:
        print_json({"witness": signature.name, "time": _time(signature), "cosignature": line.removesuffix("\n")})
        return
    typer.echo(line, nl=False)


def _read_request(path: Path) -> AddCheckpoint | None:
    """The request in a file that begins like one."""
    from k3_ledger.ledger.core.tlog_witness import MAX_REQUEST, parse_request
    from k3_ledger.ledger.regular import open_regular, read_small

    if not path.is_file():
        return None
    with open_regular(path) as stream:
        if stream.read(len(_REQUEST_START)) != _REQUEST_START:
            return None
    return parse_request(read_small(path, MAX_REQUEST))


def _time(signature: NoteSignature) -> str:
    from k3_ledger.schemas.moments import format_time

    return format_time(int.from_bytes(signature.signature[:8], "big"))


def _request(source: str, cache: Path | None, witness: CosigningWitness) -> AddCheckpoint:
    """What a log would ask for: its newest head, with a proof from what the witness cosigned last."""
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.note import parse_note
    from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
    from k3_ledger.verify.prove import consistency_between

    with opened_ledger(source, cache) as log:
        note = _checkpoint(log)
        head = parse_checkpoint(parse_note(note).text)
        notes = _notes(log)  # first: whoever cosigns meanwhile remembers it before anybody gets to see it
        remembered = witness.state.log(head.origin)
        witness.check_remembered(remembered, notes)
        old = remembered.head.size
        proof = consistency_between(log, old, head.size) if 0 < old < head.size else ()
    return AddCheckpoint(old, proof, note)


def serve(
    state: StateOption,
    key: KeyOption,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 takes any that is free.")] = 8480,
    passphrase_file: PassphraseOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Serve."""
    from k3_ledger.cli import fail
    from k3_ledger.ledger.witness.server import LOOPBACK, WitnessServer

    witness = _open(state, key, passphrase_file, wait)
    try:
        server = WitnessServer(witness, port, fail)
    except OSError as error:
        raise typer.BadParameter(f"port {port} cannot be had: {error.strerror}", param_hint="--port") from None
    typer.echo(f"witness {witness.state.verifier.name} at http://{LOOPBACK}:{server.port}/")
    server.run()


def _open(state: Path, key: Path, passphrase_file: Path | None, wait: float) -> CosigningWitness:
    from k3_ledger.ledger.witness.cosign import CosigningWitness
    from k3_ledger.ledger.witness.state import WitnessState

    opened = WitnessState.open(state, lock_timeout_s=wait)
    return CosigningWitness(opened, load_key(key, passphrase_file))
