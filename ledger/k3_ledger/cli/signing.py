"""Opening the key files that a command is given."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.ledger.writer.keys import Signer

MAX_PASSPHRASE = 1023
"""Longest passphrase, in bytes, that the library of key files takes."""


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


def shown_by(path: Path | None) -> tuple[str, ...]:
    """Key id of the private half that a user brings to show that he has it.

    Raises:
        KeyFileError: the file cannot be used as it is.
    """
    return () if path is None else (load_key(path, None).key_id,)
