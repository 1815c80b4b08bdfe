"""``k3-ledger prove``: write a self-contained proof file; and what ``verify`` does with one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.sources import DirectorySource, open_regular, read_small, unreadable

if TYPE_CHECKING:
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report

MAX_PROOF = 10_000_000
"""Longest proof file that is read, in bytes."""
_PROOF_START = b'{"checkpoint":'

HELP = """Write a proof file for one entry: verifiable with no ledger at hand.

The file carries the entry, the newest checkpoint, the entries that enrolled the keys involved, and an inclusion proof
for each. It is verified before it is written. Check it with `k3-ledger verify FILE`.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("prove", help=HELP)(prove)


def prove(
    index: Annotated[int, typer.Argument(min=0, help="Index of the entry, counted from 0.", show_default=False)],
    ledger: Annotated[Path, typer.Option("--ledger", "-l", help="Ledger directory.")] = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; entry-INDEX.proof when omitted.")
    ] = None,
) -> None:
    """Make, verify and write one proof file."""
    from k3_ledger.ledger.core.proof import format_proof
    from k3_ledger.verify.proof import verify_proof
    from k3_ledger.verify.prove import prove_entry

    target = out or Path(f"entry-{index}.proof")
    data = format_proof(prove_entry(DirectorySource(ledger), index))
    verify_proof(data, target.name)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise unreadable(target, error) from None
    typer.echo(f"{target}: entry {index}, {len(data)} bytes")


def is_proof(path: Path) -> bool:
    """Whether a path names a proof file, by how its bytes begin."""
    try:
        if not path.is_file():
            return False
    except OSError as error:  # a name that no file can have
        raise unreadable(path, error) from None
    with open_regular(path) as stream:
        return stream.read(len(_PROOF_START)) == _PROOF_START


def verify_proof_file(path: Path, policy: TrustPolicy | None, heads: tuple[tuple[str, bytes], ...]) -> Report:
    """Verify a proof file."""
    from k3_ledger.verify.proof import check_proof

    return check_proof(read_small(path, MAX_PROOF), path.name, policy, heads)
