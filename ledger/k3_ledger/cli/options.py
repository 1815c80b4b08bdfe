"""Options that several commands share, and how a result is printed as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from k3_ledger.cli.words import finite, free_text, short_name, utc_time

MAX_INTEGER = 2**53 - 1
"""Greatest integer that an entry or a trust policy can hold."""

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


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, indent=2))  # ASCII: no text of an entry reaches the terminal as it is
