"""What an option takes, checked before anything is opened: a value that is none is a wrong use of the command.

A body that is built of options is held to its schema like any other. What the schema would refuse of one option is said
here, by the option's name and as usage: nothing that was read is at fault.
"""

from __future__ import annotations

import math

import typer


def _text(kind: str, value: str | None) -> str | None:
    if value is not None:
        from k3_ledger.schemas import values
        from k3_ledger.schemas.validate import explain_text

        expected = explain_text(getattr(values, kind), value)
        if expected is not None:
            shown = repr(value) if len(value) <= 60 else f"text of {len(value)} characters"
            raise typer.BadParameter(f"{shown} is not {expected}")
    return value


def utc_time(value: str | None) -> str | None:
    """A claimed time.

    Raises:
        BadParameter: no entry can carry it.
    """
    return _text("Timestamp", value)


def log_origin(value: str | None) -> str | None:
    """The name of a log.

    Raises:
        BadParameter: no log can be called so.
    """
    return _text("Origin", value)


def new_origin(value: str) -> str:
    """The name of a log that is about to begin. Logs that have a scheme in theirs are read; none is made any more.

    Raises:
        BadParameter: no log can be called so.
    """
    log_origin(value)
    if "://" in value:
        raise typer.BadParameter(f"{value!r} is not a host and path without scheme such as example.org/speed")
    return value


def short_name(value: str | None) -> str | None:
    """The name of a key, a machine or a round.

    Raises:
        BadParameter: nothing can be called so.
    """
    return _text("Name", value)


def free_text(value: str | None) -> str | None:
    """A reason.

    Raises:
        BadParameter: it is longer than an entry takes, or no text.
    """
    return _text("Text", value)


def printable_text(value: str | None) -> str | None:
    """A version, as a file that names one must have it.

    Raises:
        BadParameter: it is longer than an entry takes, blank, or holds what cannot be printed.
    """
    free_text(value)
    if value is not None and not (value.strip() and value.isprintable()):
        raise typer.BadParameter(f"{value!r} is not a text that can be printed")
    return value


def no_stream(value: str) -> str:
    """The name of a file, or something else in the place of one.

    Raises:
        BadParameter: it is ``-``.
    """
    if value == "-":
        from k3_ledger.cli.lazy import NO_DASH

        raise typer.BadParameter(NO_DASH)
    return value


def finite(value: float | None) -> float | None:
    """A number to count with.

    Raises:
        BadParameter: it is NaN or infinite.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number to count with")
    return value


def command_line(value: str) -> str:
    """A command as it was typed.

    Raises:
        BadParameter: a quote in it is never closed.
    """
    import shlex

    try:
        shlex.split(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is no command line: a quote or a backslash is left open") from None
    return value
