"""``k3-ledger keygen`` and ``k3-ledger key``: key files, and which keys a ledger knows."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.actions import act
from k3_ledger.cli.options import (
    MAX_INTEGER,
    JsonOption,
    LastRootOption,
    LedgerOption,
    NameOption,
    NewKeyArgument,
    NewKeyOption,
    OldKeyArgument,
    PassphraseOption,
    ProposeOption,
    ReasonOption,
    SignOption,
    TimeOption,
    UnprovenOption,
    WaitOption,
    print_json,
)
from k3_ledger.cli.signing import read_passphrase, shown_by
from k3_ledger.cli.told import done, told
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.roster import EnrolledKey
    from k3_ledger.ledger.writer.store import Ledger

ROLES = ("root", "log", "runner", "judge", "witness")

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


def keygen(
    paths: Annotated[list[Path], typer.Argument(help="Private key files to make.", show_default=False)],
    passphrase_file: Annotated[
        Path | None, typer.Option("--passphrase-file", help="File whose first line encrypts the keys.")
    ] = None,
    ask: Annotated[bool, typer.Option("--passphrase", help="Ask for a passphrase that encrypts the keys.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make key pairs."""
    from k3_ledger.cli.places import check_secret
    from k3_ledger.ledger.writer.keys import keygen as make
    from k3_ledger.ledger.writer.keys import public_path

    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    if ask:
        passphrase = typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True).encode()
    if passphrase == b"":
        raise typer.BadParameter("an empty passphrase protects nothing", param_hint="--passphrase-file")
    for path in paths:
        check_secret(path, option="PATHS")
        if path.name.lower().removesuffix(".pem").endswith(".pub"):
            said = f"{path} would be a private key under the name of a public half; leave the .pub out"
            raise typer.BadParameter(said, param_hint="PATHS")
    made: list[dict[str, str]] = []

    def tell() -> None:
        if as_json and made:
            with done("the keys stand: " + ", ".join(key["path"] for key in made)):
                print_json({"keys": made})

    with told(tell):
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
    public_key: NewKeyArgument,
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

    with given(spec, PUBLIC_KEY) if Path(spec).suffix.lower() == ".pem" else contextlib.nullcontext():
        return find_key(ledger, spec, ended=ended)


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
