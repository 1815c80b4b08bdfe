"""``k3-ledger keygen`` and ``k3-ledger key``: key files, and which keys a ledger knows."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.told import done
from k3_ledger.cli.words import finite, free_text, short_name, utc_time
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.append import Receipt
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.ledger.writer.roster import EnrolledKey
    from k3_ledger.ledger.writer.store import Ledger

MAX_PASSPHRASE = 1023
"""Longest passphrase, in bytes, that the library of key files takes."""
MAX_INTEGER = 2**53 - 1
"""Greatest integer that an entry or a trust policy can hold."""
ROLES = ("root", "log", "runner", "judge", "witness")

LedgerOption = Annotated[Path, typer.Option("--ledger", "-l", help="Ledger directory.")]
KeyOption = Annotated[
    Path, typer.Option("--key", "-k", help="Private key file (PKCS#8 PEM, mode 0600).", show_default=False)
]
NewKeyArgument = Annotated[
    str, typer.Argument(help="New public key: a .pub.pem file or 64 hex digits.", show_default=False)
]
OldKeyArgument = Annotated[
    str,
    typer.Argument(metavar="KEY", help="A key of the ledger: its name, key id or .pub.pem file.", show_default=False),
]
SignOption = Annotated[
    Path | None, typer.Option("--key", "-k", help="Root key file that signs and appends the entry.", show_default=False)
]
ProposeOption = Annotated[
    Path | None,
    typer.Option("--propose", help="Append nothing; write a proposal for the holders of root keys to endorse."),
]
LastRootOption = Annotated[
    bool,
    typer.Option("--last-root", help="Even if too few root keys are left for any later key or threshold entry."),
]
NewKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--new-key", help="Private half of a new root key, to show that it can sign. It signs nothing in the log."
    ),
]
UnprovenOption = Annotated[
    bool, typer.Option("--unproven", help="Even if nobody has shown that the root keys that are left can sign.")
]
NameOption = Annotated[
    str | None, typer.Option(help="What to call the key; the file's name when omitted.", callback=short_name)
]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why, for the record.", callback=free_text)]
PassphraseOption = Annotated[
    Path | None, typer.Option("--passphrase-file", help="File whose first line opens the key file.")
]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", help="Claimed UTC time, YYYY-MM-DDTHH:MM:SSZ; the clock's when omitted.", callback=utc_time),
]
WaitOption = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait for another writer.", callback=finite)
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Write in the place of a file that is there.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

KEYGEN_HELP = """Make Ed25519 key pairs.

Each PATH becomes a private key (PKCS#8 PEM, mode 0600); its public half stands beside it as NAME.pub.pem. Nothing is
ever overwritten.
"""
_PROPOSED = """
Where a threshold is set, give --propose FILE instead of --key, have the file endorsed, and append it: see key endorse.
"""
ENROL_HELP = f"""Enrol a key: from the next entry on, what it signs counts. Signed by a root key.
{_PROPOSED}"""
ROTATE_HELP = f"""Replace a key by a new one of the same role. Entries of the old key stay valid. Signed by a root key.

Where the old key is the only root key, the new one has to be shown to be held by somebody: with --new-key.
{_PROPOSED}"""
REVOKE_HELP = f"""Revoke a key. Signed by a root key.

Entries in front of the revocation stay valid, unless --from says since which entry the key was not its owner's: what
it signed from there on counts for nothing.
{_PROPOSED}"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    from k3_ledger.cli import thresholds

    app.command("keygen", help=KEYGEN_HELP)(keygen)
    group = typer.Typer(no_args_is_help=True, help="List, enrol, rotate and revoke the keys of a ledger.")
    group.command("ls", help="List the keys of a ledger.")(list_keys)
    group.command("enrol", help=ENROL_HELP)(enrol)
    group.command("rotate", help=ROTATE_HELP)(rotate)
    group.command("revoke", help=REVOKE_HELP)(revoke)
    thresholds.register(group)
    app.add_typer(group, name="key")


def load_key(path: Path, passphrase_file: Path | None) -> Signer:
    """A signer from a key file; asks for its passphrase on a terminal.

    Raises:
        KeyFileError: the file cannot be used as it is.
    """
    from k3_ledger.cli.given import PRIVATE_KEY, given
    from k3_ledger.ledger.writer.keys import load_signer
    from k3_ledger.schemas.errors import KeyFileError
    from k3_ledger.schemas.findings import Code

    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    with given(path, PRIVATE_KEY):
        try:
            return load_signer(path, passphrase)
        except KeyFileError as error:
            asked = passphrase is None and error.code is Code.KEY_FILE_PASSPHRASE
            if not asked or sys.stdin is None or not sys.stdin.isatty():
                raise
        return load_signer(path, typer.prompt(f"passphrase of {path}", hide_input=True, err=True).encode())


def read_passphrase(path: Path) -> bytes:
    """First line of a file, without its line ending.

    Raises:
        StoreError: it cannot be read.
        BadParameter: its first line is empty, or too long for one.
    """
    from k3_ledger.cli.given import PASSPHRASE, given
    from k3_ledger.ledger.regular import read_small

    with given(path, PASSPHRASE):
        line = read_small(path, 4096).split(b"\n")[0].removesuffix(b"\r")
    if not line:
        said = f"the first line of {path} is empty, so it is no passphrase"
        raise typer.BadParameter(said, param_hint="--passphrase-file")
    if len(line) > MAX_PASSPHRASE:
        said = f"the first line of {path} is longer than {MAX_PASSPHRASE} bytes, so it is no passphrase"
        raise typer.BadParameter(said, param_hint="--passphrase-file")
    return line


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, indent=2))  # ASCII: no text of an entry reaches the terminal as it is


def keygen(
    paths: Annotated[list[Path], typer.Argument(help="Private key files to make.", show_default=False)],
    passphrase_file: Annotated[
        Path | None, typer.Option("--passphrase-file", help="File whose first line encrypts the keys.")
    ] = None,
    ask: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase that encrypts the keys.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make key pairs."""
    from k3_ledger.ledger.writer.keys import keygen as make
    from k3_ledger.ledger.writer.keys import public_path

    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    if ask:
        passphrase = typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True).encode()
    if passphrase == b"":
        raise typer.BadParameter("an empty passphrase protects nothing", param_hint="--passphrase-file")
    made = []
    for path in paths:
        public = make(path, passphrase)
        made.append(
            {
                "path": str(path),
                "public_path": str(public_path(path)),
                "key_id": public.key_id,
                "public_key": public.hex,
            }
        )
        if not as_json:
            with done(f"the keys stand: {path}"):
                typer.echo(printable(f"{path}: public key {public.hex}"))
    if as_json:
        with done("the keys stand: " + ", ".join(map(str, paths))):
            print_json({"keys": made})


def list_keys(ledger: LedgerOption = Path(), as_json: JsonOption = False) -> None:
    """Print every key that was ever enrolled."""
    from dataclasses import asdict

    from k3_ledger.ledger.writer.roster import enrolled_keys, read_state
    from k3_ledger.ledger.writer.store import Ledger

    opened = Ledger.open(ledger)
    keys, threshold = enrolled_keys(opened), read_state(opened).keyring.threshold
    if as_json:
        print_json({"keys": [asdict(key) for key in keys], "threshold": threshold})
        return
    for key in keys:
        typer.echo(f"{key.role:<8}{key.name:<16}{key.key_id}  from entry {key.enrolled}{_end(key)}")
    if threshold > 1:
        roots = sum(key.role == "root" and key.retired is None for key in keys)
        typer.echo(f"root actions need {threshold} of {roots} root keys")


def _end(key: EnrolledKey) -> str:
    """How a key ended, in words."""
    if key.ended is None:
        return ""
    if key.ended == "taken back":
        return f", enrolment taken back by entry {key.retired}"
    if key.disowned_from is not None:
        return f", retired by entry {key.retired}, disowned from entry {key.disowned_from}"
    return f", {key.ended} by entry {key.retired}"


def enrol(
    role: Annotated[str, typer.Argument(help=f"One of {', '.join(ROLES)}.", show_default=False)],
    public_key: Annotated[
        str, typer.Argument(help="Public key: a .pub.pem file or 64 hex digits.", show_default=False)
    ],
    key: SignOption = None,
    ledger: LedgerOption = Path(),
    propose: ProposeOption = None,
    name: NameOption = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append the entry that enrols a key."""
    from k3_ledger.ledger.writer.store import Ledger, enrolment

    body = enrolment(new_key(role, public_key, name))
    act(Ledger.open(ledger), "key", body, key, propose, passphrase_file, time=time, wait=wait, as_json=as_json)


def rotate(
    old: Annotated[str, typer.Argument(help="Key to replace: its name, key id, or .pub.pem file.", show_default=False)],
    public_key: Annotated[
        str, typer.Argument(help="New public key: a .pub.pem file or 64 hex digits.", show_default=False)
    ],
    key: SignOption = None,
    ledger: LedgerOption = Path(),
    propose: ProposeOption = None,
    new_key_file: NewKeyOption = None,
    unproven: UnprovenOption = False,
    name: NameOption = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append the entry that replaces a key."""
    from k3_ledger.ledger.writer.store import Ledger, enrolment

    opened = Ledger.open(ledger)
    replaced = named_key(opened, old)
    body = {**enrolment(new_key(replaced.role, public_key, name)), "action": "rotate", "replaces": replaced.key_id}
    shown = None if unproven else shown_by(new_key_file)
    act(opened, "key", body, key, propose, passphrase_file, time=time, wait=wait, as_json=as_json, shown=shown)


def revoke(
    old: OldKeyArgument,
    key: SignOption = None,
    ledger: LedgerOption = Path(),
    propose: ProposeOption = None,
    reason: ReasonOption = None,
    since: Annotated[
        int | None,
        typer.Option("--from", min=0, max=MAX_INTEGER, help="First entry that counts for nothing (compromise)."),
    ] = None,
    last_root: LastRootOption = False,
    unproven: UnprovenOption = False,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append the entry that revokes a key."""
    from k3_ledger.ledger.writer.roster import enrolled_keys, read_state
    from k3_ledger.ledger.writer.store import Ledger

    opened = Ledger.open(ledger)
    revoked = named_key(opened, old, ended=since is not None)
    entries = read_state(opened).entries
    if since is not None and since > entries:
        raise typer.BadParameter(f"there is no entry {since}: the ledger has {entries}", param_hint="--from")
    if since is not None and revoked.retired is not None:
        _check_reaches_further(revoked, since)
    body: dict[str, object] = {
        "action": "revoke",
        "role": revoked.role,
        "key_id": revoked.key_id,
        "public_key": revoked.public_key,
        "name": revoked.name,
        "replaces": None,
        "revoked_from": since,
        "reason": reason,
        "endorsements": [],
    }
    shown = None if unproven else ()
    act(
        opened, "key", body, key, propose, passphrase_file,
        time=time, wait=wait, as_json=as_json, last_root=last_root, shown=shown,
    )  # fmt: skip
    if key is not None and not any(
        other.role == revoked.role and other.retired is None for other in enrolled_keys(opened)
    ):
        cure = "" if revoked.role == "root" else f": `k3-ledger key enrol {revoked.role} FILE` enrols one"
        typer.echo(f"note: no {revoked.role} key is left{cure}", err=True)


def named_key(ledger: Ledger, spec: str, *, ended: bool = False) -> EnrolledKey:
    """The key of a ledger that words on a command line name.

    Raises:
        LedgerError: see :func:`~k3_ledger.ledger.writer.roster.find_key`.
    """
    from k3_ledger.cli.given import PUBLIC_KEY, given
    from k3_ledger.ledger.writer.roster import find_key

    with given(spec, PUBLIC_KEY) if Path(spec).suffix == ".pem" else contextlib.nullcontext():
        return find_key(ledger, spec, ended=ended)


def shown_by(path: Path | None) -> tuple[str, ...]:
    """Key id of the private half that a user brings to show that he has it.

    Raises:
        KeyFileError: the file cannot be used as it is.
    """
    return () if path is None else (load_key(path, None).key_id,)


def _check_reaches_further(key: EnrolledKey, since: int) -> None:
    """Refuse to take back what a key that has ended did not sign, or what was taken back already.

    Raises:
        LedgerError: ``KEY_RETIRED``.
    """
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code

    ended = key.retired if key.disowned_from is None else key.disowned_from
    if ended is not None and since >= ended:
        how = f"{key.ended} by entry {key.retired}" if key.disowned_from is None else f"taken back from entry {ended}"
        raise LedgerError(
            Code.KEY_RETIRED,
            f"the key {key.key_id[:16]}… was {how}: from entry {since} on it signed nothing that counts",
            expected=f"an entry before {ended}",
            found=str(since),
            hint="name the first entry that is not its owner's with --from; `k3-ledger key ls` says how keys ended",
        )


def new_key(role: str, spec: str, name: str | None) -> Any:
    """A key to enrol, from words on a command line.

    Raises:
        KeyFileError: the public key cannot be read.
    """
    from k3_ledger.cli.given import PUBLIC_KEY, given
    from k3_ledger.ledger.writer.keys import load_public_key
    from k3_ledger.ledger.writer.store import NewKey

    if role not in ROLES:
        raise typer.BadParameter(f"{role!r} is not one of {', '.join(ROLES)}", param_hint="ROLE")
    with given(spec, PUBLIC_KEY):
        public = load_public_key(spec)
    called = name or (f"{role}-{public.key_id[:8]}" if spec == public.hex else Path(spec).name.split(".")[0])
    return NewKey(role, called, public)  # type: ignore[arg-type] # checked above


def act(
    ledger: Ledger,
    kind: str,
    body: dict[str, object],
    key: Path | None,
    propose: Path | None,
    passphrase_file: Path | None,
    *,
    time: str | None,
    wait: float,
    as_json: bool,
    last_root: bool = False,
    shown: tuple[str, ...] | None = (),
) -> None:
    """Append a root action, or write a proposal of it.

    ``shown`` names new keys whose private half was at hand; None asks nobody for it.
    """
    from k3_ledger.cli.thresholds import describe, write_proposal

    if (key is None) == (propose is None):
        raise typer.BadParameter("give either the root key that signs, or --propose FILE", param_hint="--key")
    if key is not None:
        receipt = append_action(
            ledger, load_key(key, passphrase_file), kind, body, time=time, wait=wait, last_root=last_root, shown=shown
        )
        print_receipt(receipt, describe(kind, body), as_json=as_json)
    elif propose is not None:
        write_proposal(ledger, kind, body, propose, as_json=as_json, last_root=last_root)


def append_action(
    ledger: Ledger,
    signer: Signer,
    kind: str,
    body: dict[str, Any],
    *,
    time: str | None,
    wait: float,
    last_root: bool,
    shown: tuple[str, ...] | None,
) -> Receipt:
    """Append a root action that leaves the log to root keys that somebody holds, unless that is not asked for.

    Raises:
        LedgerError: ``KEY_NOT_SHOWN``, or what the writer refuses.
    """
    from k3_ledger.ledger.writer.append import Draft
    from k3_ledger.ledger.writer.possession import check_shown

    with ledger.writer(signer, lock_timeout_s=wait) as writer, writer.exclusive() as state:
        if shown is not None and not last_root:
            writer.rehearse([Draft(kind, body, time, last_root)])
            check_shown(state, kind, body, (signer.key_id, *shown))
        return writer.append(kind, body, time=time, last_root=last_root)


def print_receipt(receipt: Receipt, what: str, *, as_json: bool) -> None:
    """Say which entry was appended."""
    with done(f"entry {receipt.index} {receipt.identity} stands: do not append it again"):
        if as_json:
            print_json({"index": receipt.index, "identity": receipt.identity, "byte_offset": receipt.byte_offset})
        else:
            typer.echo(printable(f"entry {receipt.index} {receipt.identity}: {what}"))
