"""Opens a foreign run log: a directory as a mapping of paths to bytes, read only when asked for.

Names are listed once. Symbolic links are never followed, hidden folders are left out, and what is neither a file nor
a folder is not opened, nor is a folder in the place of a record; :attr:`ForeignDirectory.closed` names them all.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from k3_ledger.cli.given import RUN_LOG, given
from k3_ledger.ledger.regular import read_small, unreadable
from k3_ledger.schemas.errors import SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.polaris.parse import is_record

_HEX = frozenset("0123456789abcdef")
MAX_FILES = 1 << 18
"""Most files of a log that are listed."""
MAX_FILE = 1 << 26
"""Longest file that is read, in bytes; the audit itself reads less of it."""


class ForeignDirectory(Mapping[str, bytes]):
    """The files below a directory, by their path relative to it with ``/`` between parts.

    A name that is no UTF-8 is shown with its odd bytes escaped.

    Attributes:
        cut: files of which the first :data:`MAX_FILE` bytes were read and no more.
        closed: what was not looked into, by path: a link, a hidden folder, a special file, or a folder in the place of
            a record.
    """

    def __init__(self, root: Path) -> None:
        """List the directory.

        Raises:
            StoreError: it is no directory, cannot be listed, or holds more than :data:`MAX_FILES` files.
        """
        self.closed: dict[str, str] = {}
        self.cut: set[str] = set()
        self._paths: dict[str, Path] = {}
        with given(root, RUN_LOG):
            try:
                self._list(root, "")
            except OSError as error:
                raise unreadable(root, error) from None

    def _list(self, folder: Path, prefix: str) -> None:
        for item in sorted(os.scandir(folder), key=lambda item: item.name):
            name = prefix + os.fsencode(item.name).decode(errors="backslashreplace")
            if item.is_symlink():
                self.closed[name] = "a link"
            elif item.is_dir() and item.name.startswith("."):
                self.closed[name] = "a hidden folder"
            elif item.is_dir() and is_record(name):
                self.closed[name] = "a folder"
            elif item.is_dir():
                self._list(folder / item.name, f"{name}/")
            elif item.is_file():
                self._add(name, folder / item.name)
            else:
                self.closed[name] = "a special file"

    def _add(self, name: str, path: Path) -> None:
        if len(self._paths) == MAX_FILES:
            raise StoreError(
                Code.UNREADABLE,
                f"more than {MAX_FILES} files",
                position=Position(source=str(path.parent)),
                hint="point the command at the log's own directory",
            )
        self._paths[name] = path

    def __getitem__(self, name: str) -> bytes:
        path = self._paths[name]
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise StoreError(Code.UNREADABLE, "no longer a regular file", position=Position(source=str(path)))
                if os.fstat(handle).st_size > MAX_FILE:
                    self.cut.add(name)
                return stream.read(MAX_FILE)
        except OSError as error:
            raise unreadable(path, error) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, name: object) -> bool:
        return name in self._paths


def signer_key(text: str) -> bytes:
    """A raw public key: 64 hexadecimal digits, base64 as receipts write it, or a file that holds either, or PEM.

    Raises:
        KeyFileError: a file cannot be read or holds no Ed25519 public key.
        BadParameter: no signature should be accepted from the key; exit code 2.
    """
    from k3_ledger.cli.given import PUBLIC_KEY, given

    try:
        with given(text, PUBLIC_KEY):
            return _signer_key(text)
    except SignatureError as error:  # the reader's own mistake, and nothing against what he audits
        said = f"{text[:80]!r}: {error.finding.message}, and no signature is accepted from such a key [{error.code.id}]"
        raise typer.BadParameter(said, param_hint="--public-key") from None


def _signer_key(text: str) -> bytes:
    from k3_ledger.ledger.writer.keys import PublicKey, load_public_key

    for spelled in (text, read_small(Path(text)).decode(errors="replace").strip() if Path(text).is_file() else ""):
        if len(spelled) == 64 and set(spelled) <= _HEX:
            return load_public_key(spelled).raw
        raw = _from_base64(spelled)
        if raw is not None:
            return PublicKey(raw).raw
    return load_public_key(text).raw


def _from_base64(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 32 else None
