"""``k3-ledger trust``: begin, look at and add to the file that says whom an auditor trusts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.options import MAX_INTEGER, JsonOption, WaitOption, print_json
from k3_ledger.cli.witness import witness_key

if TYPE_CHECKING:
    from k3_ledger.verify.policy import TrustPolicy

INIT_HELP = """Begin a trust policy from a ledger, once the ledger verifies.

Pins its root key, its origin, and the size of its signed head as the smallest acceptable one. Unless --root-key gives
the key, all of this is what the ledger says of itself: trust on first use. Nothing is overwritten without --replace.
"""
SHOW_HELP = "Show what a trust policy says, and its id: the digest that reports carry."
ADD_HELP = """Add to a trust policy; comments and order in the file are kept.

What stands there is changed only with --replace, and then what it was is printed.
"""
ATTESTATION_HELP = """Set what is demanded of attestations (see docs/attestation.md).

Lists are added to; --at and --trust-dir change what stands there only with --replace.
"""
FileOption = Annotated[Path, typer.Option("--trust", "-t", help="Policy file.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace what stands there.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(no_args_is_help=True, help="Begin, show and extend the file that says whom you trust.")
    group.command("init", help=INIT_HELP)(init)
    group.command("show", help=SHOW_HELP)(show)
    add = typer.Typer(no_args_is_help=True, help=ADD_HELP)
    add.command("witness", help="Add a witness, by the verifier key that it publishes.")(add_witness)
    add.command("key", help="Set the root key that must have opened the log.")(add_key)
    add.command("origin", help="Set the name that the log must give itself.")(add_origin)
    add.command("size", help="Set the smallest signed head that is acceptable.")(add_size)
    add.command("age", help="Set for how many seconds the newest head may stand still.")(add_age)
    add.command("require", help="Add steps for which 'not checked' is not accepted.")(add_require)
    add.command("timestamps", help="Add a timestamp authority, by its root certificate.")(add_timestamps)
    add.command("attestation", help=ATTESTATION_HELP)(add_attestation)
    group.add_typer(add, name="add")
    app.add_typer(group, name="trust")


def init(
    ledger: Annotated[
        str, typer.Argument(help="Ledger directory, ledger.jsonl, mirror, tar, or address.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("trust.toml"),
    root_key: Annotated[
        str | None,
        typer.Option("--root-key", "--root", help="Root public key from another source: 64 hex digits, or a PEM file."),
    ] = None,
    replacing: ReplaceOption = False,
    processes: Annotated[
        int, typer.Option(min=1, help="Worker processes.", show_default="one per core")
    ] = os.cpu_count() or 1,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Verify a ledger and pin it."""
    from k3_ledger.cli.memory import tree_size
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.cli.places import check_apart, subject_of
    from k3_ledger.cli.policy_file import create, new_policy
    from k3_ledger.cli.settled import verify_settled
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.cli.trust import check_key_apart, parse_root_key
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.policy import TrustPolicy

    judged = subject_of(ledger)
    check_apart(out, judged, option="--out")
    check_key_apart(root_key, judged)
    given = None if root_key is None else TrustPolicy(root_public_key=parse_root_key(root_key))
    with opened_ledger(ledger) as source:
        with progress_bar(source.size, "verifying") as progress:
            log, _ = verify_settled(source, given, Options(processes=processes, progress=progress))
        first = next(iter(log)).entry
        assert first.kind == "genesis", "a log that verifies begins with one"
        genesis = first.body
        note = source.checkpoint()
    policy = TrustPolicy(
        root_public_key=bytes.fromhex(genesis.root_public_key),
        origin=genesis.origin,
        minimum_size=0 if note is None else tree_size(note),
    )
    first_use = given is None
    how = "as the ledger itself says (trust on first use)" if first_use else "under a root key that was given"
    old = create(
        out, new_policy(policy, f"What to trust about {genesis.origin}, {how}."), replacing=replacing, wait=wait
    )
    _print(out, policy, old, as_json=as_json, first_use=first_use)
    if first_use:
        typer.echo(
            "note: trust on first use: this root key is what the ledger itself says. Compare it with one that you had "
            "another way, or give that one: --root-key",
            err=True,
        )


def show(
    file: Annotated[Path | None, typer.Argument(help="Policy file, in place of --trust.", show_default=False)] = None,
    trust: FileOption = Path("trust.toml"),
    as_json: JsonOption = False,
) -> None:
    """Print a policy."""
    from k3_ledger.cli.trust import read_policy

    if file is not None and trust != Path("trust.toml"):
        raise typer.BadParameter("two policies are named: give one", param_hint="--trust")
    trust = trust if file is None else file
    _print(trust, read_policy(trust), None, as_json=as_json)


def add_witness(
    key: Annotated[str, typer.Argument(help="Verifier key: NAME+HASH+BASE64.", show_default=False)],
    operator: Annotated[
        str | None, typer.Option(help="Who runs it, where that is not the key's name; one operator counts once.")
    ] = None,
    quorum: Annotated[
        int | None,
        typer.Option(min=1, help="How many operators must have cosigned.", show_default="as before; 1 for the first"),
    ] = None,
    trust: FileOption = Path("trust.toml"),
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Add a witness."""
    from k3_ledger.cli.policy_file import edit, put, put_witness, with_witness
    from k3_ledger.ledger.core.cosignature import Witness

    verifier = witness_key(key, "KEY")
    witness = Witness(verifier, operator or verifier.name)

    first: list[TrustPolicy] = []

    def meant(old: TrustPolicy) -> TrustPolicy:
        if quorum is None and not old.quorum:
            first.append(old)
        return with_witness(old, witness, quorum)

    def change(document: Any) -> None:
        if quorum is not None or first:
            put(document, "quorum", quorum or 1)
        put_witness(document, key, operator)

    policy = edit(trust, change, meant, wait)
    if first:
        typer.echo("note: the quorum is 1 now: one operator must have cosigned; --quorum sets another", err=True)
    _print(trust, policy, None, as_json=as_json)


def add_key(
    root_key: Annotated[str, typer.Argument(help="64 hex digits, or a PEM file.", show_default=False)],
    trust: FileOption = Path("trust.toml"),
    replacing: ReplaceOption = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Set the root key."""
    from k3_ledger.cli.trust import parse_root_key

    raw = parse_root_key(root_key, "ROOT_KEY")
    _set(trust, "root_public_key", raw, raw.hex(), replacing=replacing, wait=wait, as_json=as_json)


def add_origin(
    origin: Annotated[str, typer.Argument(help="Such as example.org/bench.", show_default=False)],
    trust: FileOption = Path("trust.toml"),
    replacing: ReplaceOption = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Set the origin."""
    _set(trust, "origin", origin, origin, replacing=replacing, wait=wait, as_json=as_json)


def add_size(
    size: Annotated[int, typer.Argument(min=1, max=MAX_INTEGER, help="Number of entries.", show_default=False)],
    trust: FileOption = Path("trust.toml"),
    replacing: Annotated[bool, typer.Option("--replace", help="Accept a smaller head than before.")] = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Raise the smallest acceptable head."""
    from k3_ledger.cli.policy_file import edit, put

    def raised(old: TrustPolicy) -> TrustPolicy:
        if size < old.minimum_size and not replacing:
            raise _stands(trust, "minimum_size", str(old.minimum_size), str(size))
        return replace(old, minimum_size=size)

    _print(
        trust, edit(trust, lambda document: put(document, "minimum_size", size), raised, wait), None, as_json=as_json
    )


def add_age(
    seconds: Annotated[
        int, typer.Argument(min=1, max=MAX_INTEGER, help="Seconds, such as 604800 for a week.", show_default=False)
    ],
    trust: FileOption = Path("trust.toml"),
    replacing: ReplaceOption = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Limit the age of the newest head."""
    _set(trust, "maximum_head_age_seconds", seconds, seconds, replacing=replacing, wait=wait, as_json=as_json)


def add_require(
    steps: Annotated[list[str], typer.Argument(help="Names of steps.", show_default=False)],
    trust: FileOption = Path("trust.toml"),
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Require steps."""
    from k3_ledger.cli.policy_file import edit, put

    def change(document: Any) -> None:
        listed = list(document.get("require", []))
        put(document, "require", [*listed, *(step for step in dict.fromkeys(steps) if step not in listed)])

    policy = edit(trust, change, lambda old: replace(old, require=old.require | frozenset(steps)), wait)
    _print(trust, policy, None, as_json=as_json)


def add_timestamps(
    certificate: Annotated[Path, typer.Argument(help="Root certificate, a PEM file.", show_default=False)],
    trust: FileOption = Path("trust.toml"),
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Add a timestamp authority."""
    import tomlkit

    from k3_ledger.cli.given import CERTIFICATE, given, standing
    from k3_ledger.cli.policy_file import edit, put
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.verify.policy import parse_certificate

    with given(certificate, CERTIFICATE):
        text = read_small(certificate, 1 << 16).decode("ascii", errors="replace").strip() + "\n"
    der = parse_certificate(text)
    if der is None:
        found = standing(certificate)
        other = found is not None and found not in CERTIFICATE.fits
        said = f"is {found}, not {CERTIFICATE.what}" if other else "does not hold one PEM certificate"
        raise typer.BadParameter(f"{certificate} {said}", param_hint="CERTIFICATE")

    def change(document: Any) -> None:
        listed = [str(item) for item in document.get("timestamp_roots", [])]
        kept = listed if text in listed else [*listed, text]
        put(document, "timestamp_roots", [tomlkit.string(item, multiline=True) for item in kept])

    def meant(old: TrustPolicy) -> TrustPolicy:
        roots = old.timestamp_roots
        return replace(old, timestamp_roots=roots if der in roots else (*roots, der))

    _print(trust, edit(trust, change, meant, wait), None, as_json=as_json)


def add_attestation(
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Accepted kind; may be repeated.")] = None,
    trust_dir: Annotated[
        str | None, typer.Option(help="Folder with your certificates, relative to the policy file.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="When they must be valid: receipt, now or a time.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="Property that a platform may have.")] = None,
    tcb_status: Annotated[list[str] | None, typer.Option(help="Status that is accepted.")] = None,
    refuse_advisory: Annotated[list[str] | None, typer.Option(help="Advisory whose presence is refused.")] = None,
    pin: Annotated[list[str] | None, typer.Option(help="Accepted measurement, as REGISTER=HEX.")] = None,
    trust: FileOption = Path("trust.toml"),
    replacing: ReplaceOption = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Add to the table of attestations."""
    from k3_ledger.cli.policy_file import edit, put_table
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.schemas.toml import read_toml
    from k3_ledger.verify.attestation import AttestationPolicy, read_table

    changed: dict[str, Any] = {}

    def meant(old: TrustPolicy) -> TrustPolicy:
        before: dict[str, Any] = read_toml(read_small(trust).decode()).get("attestation", {})  # as it is spelled
        table = {**before}
        lists = {"kinds": kinds, "allow": allow, "tcb_status": tcb_status, "refuse_advisories": refuse_advisory}
        for name, more in lists.items():
            if more:
                known = table.get(name, sorted(AttestationPolicy().tcb_status) if name == "tcb_status" else [])
                table[name] = list(dict.fromkeys([*known, *more]))
        for name, value in (("at", at), ("trust_dir", trust_dir)):
            if value is None:
                continue
            if before.get(name, value) != value:
                if not replacing:
                    raise _stands(trust, f"attestation.{name}", before[name], value)
                typer.echo(f"note: attestation.{name} was {before[name]}", err=True)
            table[name] = value
        for spelled in pin or ():
            register, _, value = spelled.partition("=")
            pins = table["measurements"] = {**table.get("measurements", {})}
            pins[register] = list(dict.fromkeys([*pins.get(register, []), value]))
        changed.update({name: value for name, value in table.items() if before.get(name) != value})
        return replace(old, attestation=read_table(table))

    policy = edit(trust, lambda document: put_table(document, "attestation", changed), meant, wait)
    _print(trust, policy, None, as_json=as_json)


def _set(
    trust: Path, name: str, value: object, spelled: str | int, *, replacing: bool, wait: float, as_json: bool
) -> None:
    """Set one key of a policy, unless it says something else and is not to be replaced."""
    from k3_ledger.cli.policy_file import edit, put

    def meant(old: TrustPolicy) -> TrustPolicy:
        before = getattr(old, name)
        if before not in (None, value):
            shown = before.hex() if isinstance(before, bytes) else str(before)
            if not replacing:
                raise _stands(trust, name, shown, str(spelled))
            typer.echo(f"note: {name} was {shown}", err=True)
        return replace(old, **{name: value})  # type: ignore[arg-type] # the field's own value

    _print(trust, edit(trust, lambda document: put(document, name, spelled), meant, wait), None, as_json=as_json)


def _stands(trust: Path, name: str, old: str, new: str) -> Exception:
    from k3_ledger.schemas.errors import PolicyError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position

    return PolicyError(
        Code.POLICY_EXISTS,
        f"the trust policy says something else about {name}",
        position=Position(source=trust.name, field=name),
        expected=old,
        found=new,
        hint="say --replace if you mean it",
    )


def _with_trust_dir(path: Path, policy: TrustPolicy) -> TrustPolicy:
    """The policy with the certificates that it rests on, which are part of its id."""
    from k3_ledger.schemas.errors import LedgerError

    if policy.attestation is None or policy.attestation.trust_dir is None:
        return policy
    from k3_ledger.cli.trust_dir import complete

    try:
        return replace(policy, attestation=complete(policy.attestation, path.parent))
    except LedgerError as error:
        typer.echo(f"note: the policy cannot be used yet, and its id will be another: {error}", err=True)
        return policy


def _print(
    path: Path, policy: TrustPolicy, old: TrustPolicy | None, *, as_json: bool, first_use: bool | None = None
) -> None:
    """What a policy file says now."""
    from k3_ledger.schemas.printable import printable

    policy = _with_trust_dir(path, policy)
    if as_json:
        more: dict[str, Any] = {} if first_use is None else {"first_use": first_use}
        if old is not None:
            more["replaced_sha256"] = old.digest
        print_json({"path": str(path), "policy": policy.as_dict(), "policy_sha256": policy.digest, **more})
        return
    typer.echo(f"{path}: {printable(policy.sentence)}")
    for witness in policy.witnesses:
        typer.echo(f"witness    {printable(witness.verifier.name)}, operated by {printable(witness.operator)}")
    typer.echo(f"policy id  {policy.digest}")
    if old is not None:
        typer.echo(f"replaced   {old.digest}: {printable(old.sentence)}")
