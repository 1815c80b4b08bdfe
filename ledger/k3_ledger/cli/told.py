"""Output that nobody takes: a full disk under it, or a pipe that was closed. What was done or found stands.

A command that gives no verdict and changed nothing ends with 3 there, as :func:`k3_ledger.cli.main` has it. What is
written inside :func:`done` or :func:`found` says something that must not be taken for that.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, TextIO

import typer

from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def drop_output(*streams: TextIO) -> None:
    """Forget what is buffered and cannot be written, lest the interpreter's last flush changes the exit code."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_WRITERS = ("typer.", "rich.")
"""What writes to stdout and stderr here, and to nothing else."""


def is_refused(error: OSError) -> bool:
    """Whether stdout or stderr refused what was written to it.

    Then what writes there raised it; or a stream with a buffer still holds that, and refuses it again.
    """
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(_WRITERS):
        return True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            return True
        except ValueError:  # closed: nothing is held
            continue
    return False


@contextlib.contextmanager
def done(*what: str) -> Iterator[None]:
    """Around the answer of a command that has done what it was asked: that stands, whoever takes the answer.

    Args:
        what: sentences for stderr where the answer cannot be written.
    """
    try:
        yield
    except OSError as error:
        drop_output(sys.stdout)
        with contextlib.suppress(OSError):
            for sentence in what:
                typer.echo(printable(f"note: {sentence}"), err=True)
            typer.echo(f"note: only the answer could not be written: {error.strerror or error}", err=True)


@contextlib.contextmanager
def told(tell: Callable[[], None]) -> Iterator[None]:
    """Around things done one after the other: what was done is told, also where a later one fails.

    Args:
        tell: says what was done; says nothing where that is nothing.
    """
    try:
        yield
    finally:
        tell()


@contextlib.contextmanager
def found(code: int) -> Iterator[None]:
    """Around a report: what was found false is false, whoever takes the report.

    Args:
        code: the exit code that the report gives; 1 stands.
    """
    try:
        yield
    except Exception as error:
        if code != ExitCode.FALSE:
            raise
        drop_output(sys.stdout)
        if not isinstance(error, OSError):
            with contextlib.suppress(OSError):
                said = f"note: what was found false stands, but the report could not be made: {error!r}"
                typer.echo(printable(said), err=True)
        raise typer.Exit(code) from None
