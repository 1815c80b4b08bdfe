"""Reads addresses (``https://…``, ``s3://…``, ``file://…``) through fsspec, as streams with a limit.

fsspec and what it needs for a protocol are optional and imported here only. Nothing that comes over a network is
trusted; an address that answers with an error, or ends before the length that it announced, is an error that names it.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn, cast

import typer

from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from typing_extensions import Buffer

SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")
"""How an address begins, and a path does not."""
CONNECT_SECONDS: Final = 30
SILENCE_SECONDS: Final = 60
"""Longest waits for a connection and for the next byte; how long a whole transfer takes is not limited."""
_WHOLE: Final = 200
"""The one answer that a whole file follows: 204 has no content, and 206 is a part that nobody asked for."""
_ABSENT: Final = frozenset({403, 404, 410})
"""Answers that mean "not there": stores that list nothing to strangers say 403."""


def is_address(text: str) -> bool:
    """Whether a command's argument is an address and not a path."""
    return SCHEME.match(text) is not None


class RemoteStore:
    """Files below an address."""

    def __init__(self, address: str) -> None:
        """Find who can read such addresses; most protocols connect to nothing yet.

        Raises:
            ModuleNotFoundError: fsspec or aiohttp is not installed (the extra ``remote``).
            typer.BadParameter: another package is missing, or nothing reads such addresses.
            StoreError: it connects already, and cannot (``REMOTE_UNREADABLE``).
        """
        import fsspec.core

        self.name = address.rstrip("/")
        self._http = address.startswith(("http://", "https://"))
        options: dict[str, Any] = {"use_listings_cache": False}
        if self._http:
            import aiohttp

            limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
            options["client_kwargs"] = {"timeout": limits}
        try:
            self._fs, root = fsspec.core.url_to_fs(address, **options)
        except (ImportError, ValueError) as error:  # fsspec names the package that a protocol needs
            raise typer.BadParameter(f"{address} cannot be read: {error}", param_hint="address") from None
        except Exception as error:  # noqa: BLE001 - some connect here, and every protocol raises its own
            _fail(address, error)
        self._root = root.rstrip("/")

    def open(self, path: str) -> BinaryIO | None:
        """A file below the address, as a stream, or None when it is not there; the address itself for ``""``.

        Raises:
            StoreError: it cannot be read (``REMOTE_UNREADABLE``).
        """
        full = f"{self._root}/{path}" if path else self._root
        try:
            # A size of 1 keeps fsspec from asking for the size first, and blocks of 0 from asking for ranges.
            stream = self._fs.open(full, "rb", **({"block_size": 0, "size": 1} if self._http else {}))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - every protocol raises its own
            if getattr(error, "status", None) in _ABSENT or isinstance(error, PermissionError | IsADirectoryError):
                return None
            _fail(full, error)
        status = getattr(getattr(stream, "r", None), "status", _WHOLE) if self._http else _WHOLE
        if status != _WHOLE:
            stream.close()
            raise StoreError(
                Code.REMOTE_UNREADABLE,
                f"cannot be read: the host answered {status}, which is no whole file",
                position=Position(source=full),
            )
        return cast(BinaryIO, _Stream(stream, full))

    def names(self, folder: str) -> list[str]:
        """None: a static host lists nothing."""
        del folder
        return []


class _Stream(io.RawIOBase):
    """A foreign stream whose errors are ours."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        try:
            data = self._stream.read(len(view))
        except Exception as error:  # noqa: BLE001 - every protocol raises its own
            _fail(self._name, error)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _fail(name: str, error: Exception) -> NoReturn:
    raise StoreError(
        Code.REMOTE_UNREADABLE,
        f"cannot be read: {_words(error)}",
        position=Position(source=name),
    ) from error


def _words(error: Exception) -> str:
    """What happened, where the error's own text is none that a person reads."""
    history = getattr(error, "history", None)
    if isinstance(history, tuple) and type(error).__name__ == "TooManyRedirects":
        return f"the host redirected {len(history)} times, most likely in a circle"
    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        return " ".join(f"the host answered {status} {getattr(error, 'message', '')}".split())[:300]
    return " ".join(str(error).split())[:300] or type(error).__name__
