"""The command line: the one place that puts rooms together, opens files and turns findings into exit codes.

This package imports typer and nothing heavier; a command's module is imported when the command is asked for, and what
the command needs inside it. Results go to stdout, diagnostics to stderr as ``error:`` and ``hint:`` lines. Exit codes:
0 verified, 1 verified false, 2 usage, 3 unreadable or malformed input, 4 something that the policy requires was not
checked, 5 torn tail.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from k3_ledger.cli.lazy import LazyGroup
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.schemas.version import __version__

app = typer.Typer(
    name="k3-ledger",
    cls=LazyGroup,
    help="Keep published speed claims honest: seal, verify, audit and re-score signed timing and parity receipts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"k3-ledger {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


EXTRAS = {
    "torch": "engine",
    "triton": "engine",
    "gguf": "engine",
    "numpy": "engine",
    "xllamacpp": "parity",
    "matplotlib": "report",
}
"""Which extra brings a module that a plain installation does not have."""


def main() -> None:
    """Entry point: run a command; an error about the input or the storage becomes words and an exit code."""
    try:
        app()
    except LedgerError as error:
        sys.exit(fail(error))
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        typer.echo(f"error: this command needs {error.name}, which is not installed", err=True)
        typer.echo(f'hint: pip install "k3-ledger[{EXTRAS[error.name]}]"', err=True)
        sys.exit(int(ExitCode.USAGE))


def fail(error: LedgerError) -> int:
    """Print one error the way every command does, and return its exit code."""
    finding = error.finding
    typer.echo(f"error: {error} [{finding.code.id}]", err=True)
    if finding.expected is not None:
        typer.echo(f"  expected: {finding.expected}", err=True)
    if finding.found is not None:
        typer.echo(f"  found: {finding.found}", err=True)
    typer.echo(f"hint: {finding.advice}", err=True)
    return int(finding.code.info.exit) or 1
