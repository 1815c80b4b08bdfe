"""The command line: the one place that puts rooms together, opens files and turns findings into exit codes.

This package imports typer and nothing heavier; a command's module is imported when the command is asked for, and what
the command needs inside it. Results go to stdout, diagnostics to stderr as ``error:`` and ``hint:`` lines. Exit codes
are those of :class:`k3_ledger.schemas.outcomes.ExitCode`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from k3_ledger.cli.lazy import LazyGroup, OutputClosedError
from k3_ledger.cli.told import drop_output, is_refused
from k3_ledger.schemas.addresses import masked
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.schemas.printable import printable
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
    "fsspec": "remote",
    "aiohttp": "remote",
    "rfc3161_client": "time",
    "starlette": "witness",
    "uvicorn": "witness",
}
"""Which extra brings a module that a plain installation does not have."""


HELD = contextlib.ExitStack()
"""What stays open until the command that is running ends: a log that is read more than once, wherever it came from."""
_INTERRUPTED = 128 + signal.SIGINT
_SHOWN = 120
"""Characters of a path that an error shows."""


def main() -> None:
    """Entry point: run a command; an error about the input or the storage becomes words and an exit code.

    So does what nobody foresaw: the interpreter would end with 1, the code of what was verified and is false.
    """
    try:
        _main()
    except MemoryError:
        with contextlib.suppress(OSError):  # a full disk, a closed stream: the exit code says it all
            os.write(2, _NO_MEMORY)  # words that stand ready: there may be no room to make any
        sys.exit(int(ExitCode.UNREADABLE))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no verdict
        sys.exit(unforeseen(error))


_NO_MEMORY = f"""error: there was not enough memory, and no verdict was reached [{Code.UNREADABLE.id}]
hint: run it again where there is more, with fewer --processes where the command has that option
""".encode()


def unforeseen(error: Exception) -> int:
    """Show a fault that no command expected, with all that tells where it is, and return its exit code."""
    import traceback

    with contextlib.suppress(OSError, ValueError):  # likewise
        typer.echo(masked("".join(traceback.format_exception(error))), err=True, nl=False)
        typer.echo(f"error: a fault of this program or of the machine, and no verdict [{Code.UNREADABLE.id}]", err=True)
        typer.echo("hint: run it again; if it comes again, report it with the lines above", err=True)
    return int(ExitCode.UNREADABLE)


def _main() -> None:
    """Run a command; what it expects to go wrong is said."""
    try:
        with contextlib.suppress(ValueError):  # not the main thread: whoever runs it there has handlers of his own
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _end)
        _fill_streams()
        with HELD:
            _run()
    except LedgerError as error:
        sys.exit(fail(error))
    except OutputClosedError:
        # Whoever closed the pipe, such as `head`, has what he wanted and needs no words; but this was no verdict.
        drop_output(sys.stdout, sys.stderr)
        sys.exit(int(ExitCode.UNREADABLE))
    except OSError as error:
        if error.filename is not None:
            sys.exit(_fail_path(error))
        sys.exit(_fail_output(error) if is_refused(error) else _fail_unnamed(error))
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        typer.echo(f"error: this command needs {error.name}, which is not installed", err=True)
        typer.echo(f'hint: pip install "k3-ledger[{EXTRAS[error.name]}]"', err=True)
        sys.exit(int(ExitCode.USAGE))


def _run() -> None:
    """Run a command; where typer has taken an interrupt for an exit code, it is an interrupt again.

    Raises:
        KeyboardInterrupt: the user ended the command.
    """
    try:
        app()
    except SystemExit as ending:
        if ending.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise


def _fill_streams() -> None:
    """Put something in the place of streams that were closed before the program began, from standard input on.

    Else the next file that is opened takes their number. What is read is at its end, what is said to stderr is lost,
    and stdout refuses what is written to it, as a full disk does: a report that nobody takes is no verdict.
    """
    for name, how in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, how)  # the free number, unless another file has taken it by now
            mode = "r" if name == "stdin" else "w"
            stream = open(opened, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - stays
            setattr(sys, name, stream)


def _end(number: int, _: object) -> None:
    """End as if killed by the signal, but in order: worker processes are told, scratch files go."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _fail_path(error: OSError) -> int:
    """The system refused a path, and no command expected that."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):  # only who writes is told so
        from k3_ledger.cli.files import unwritable

        return fail(unwritable(Path(os.fsdecode(error.filename)), error))
    name = os.fspath(error.filename) if isinstance(error.filename, str | os.PathLike) else repr(error.filename)
    name = masked(name)
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    typer.echo(printable(f"error: {error.strerror}: {shown} [{Code.UNREADABLE.id}]"), err=True)
    typer.echo(f"hint: {Code.UNREADABLE.info.hint}", err=True)
    return int(ExitCode.UNREADABLE)


def _fail_unnamed(error: OSError) -> int:
    """The system refused something, and neither it nor a command says what."""
    number = "" if error.errno is None else f" ({errno.errorcode.get(error.errno, error.errno)})"
    said = f"error: the system refused something: {error.strerror or error}{number} [{Code.UNREADABLE.id}]"
    typer.echo(printable(said), err=True)
    typer.echo("hint: look after the disks and the network that this command uses, and run it again", err=True)
    return int(ExitCode.UNREADABLE)


def _fail_output(error: OSError) -> int:
    """The system refused to take the output: that is no verdict."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        typer.echo(f"error: the output could not be written: {error.strerror or error}", err=True)
        typer.echo("hint: the output is incomplete; write it to a file with room, or to a pipe that is read", err=True)
    drop_output(sys.stdout, sys.stderr)
    return int(ExitCode.UNREADABLE)


def fail(error: LedgerError) -> int:
    """Print one error the way every command does, and return its exit code.

    The code stands where the words cannot be written: a full disk under a log file must not turn it into another.
    """
    finding = error.finding
    try:
        advice, status = finding.advice, int(error.exit_code) or 1
    except OSError:  # the words stand on the disk that fails
        advice, status = "check the disk before anything else", 3
    lines = [f"error: {error} [{finding.code.id}]"]
    if finding.expected is not None:
        lines.append(f"  expected: {finding.expected}")
    if finding.found is not None:
        lines.append(f"  found: {finding.found}")
    lines.append(f"hint: {advice}")
    try:
        for line in lines:
            typer.echo(printable(line), err=True)
    except OSError:
        drop_output(sys.stderr)
    return status
