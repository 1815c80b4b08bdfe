"""``k3-ledger audit``: what a log that somebody else wrote shows, and what it only claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

HELP = """Audit a run log of the polaris family, offline, with no GPU.

DIR holds runs/<id>/ with receipts, results and log texts, and may hold ledger.jsonl, index.json and rounds/. Every
digest and signature is recomputed, every field that two records share is compared, and every field is listed with what
it rests on. Nothing in DIR is trusted. Where quotes come from is checked where you say whose certificates count:
--trust-dir names a folder of your own with Intel's root and TCB signing certificates (see docs/attestation.md).

Exit codes: 0 nothing is contradicted, 1 something is contradicted, fails or cannot be read, 2 usage, 3 not a run log.
"""


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(no_args_is_help=True, help="Audit a log that somebody else wrote.")
    group.command("polaris", help=HELP)(polaris)
    group.callback()(lambda: None)  # keeps the group a group while it holds one command
    app.add_typer(group, name="audit")


def polaris(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The log's directory.", show_default=False)],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every finding and every field.")] = False,
    public_key: Annotated[
        list[str] | None,
        typer.Option(help="Ed25519 key of a signer that you trust: hex, base64 or a file; may be repeated."),
    ] = None,
    trust_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with your certificates (.pem): Intel's root and TCB signing.", show_default=False),
    ] = None,
    at: Annotated[
        str, typer.Option(help="When quotes must be valid: receipt, now, or a time such as 2026-08-02T00:00:00Z.")
    ] = "receipt",
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Platform property that you accept: dynamic-platform, cached-keys, smt; may be repeated."),
    ] = None,
    tcb_status: Annotated[
        list[str] | None, typer.Option(help="TCB status that you accept besides UpToDate; may be repeated.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(help="Register and value that you accept, such as mrtd=HEX; may be repeated.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the audit and end with its exit code."""
    from k3_ledger.cli.foreign import ForeignDirectory, signer_key
    from k3_ledger.cli.places import check_apart
    from k3_ledger.cli.told import found
    from k3_ledger.cli.trust_dir import quote_policy
    from k3_ledger.verify.polaris import AuditOptions, audit, render

    check_apart(trust_dir, directory, option="--trust-dir")
    for text in public_key or ():
        check_apart(Path(text) if Path(text).is_file() else None, directory, option="--public-key")
    policy = quote_policy(trust_dir, at, allow or [], tcb_status or [], pin or [])
    files = ForeignDirectory(directory)
    keys = tuple(signer_key(text) for text in public_key or ())
    report = audit(files, AuditOptions(public_keys=keys, attestation=policy, closed=files.closed))
    if files.closed:
        typer.echo(f"note: {len(files.closed)} links, folders or special files were not looked into", err=True)
    with found(int(report.exit_code)):
        if as_json:
            typer.echo(json.dumps(report.as_dict(), indent=2))
        else:
            for line in render(report, verbose=verbose):
                typer.echo(line)
    raise typer.Exit(int(report.exit_code))
