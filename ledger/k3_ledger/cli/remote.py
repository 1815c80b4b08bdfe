"""Reads addresses (``https://…``, ``s3://…`` and others) through fsspec, as streams with a limit.

A ``file://`` address is no business of this module's: it names a path, and is read as that path is (:func:`path_of`).

fsspec and what it needs for a protocol are optional and imported here only. Nothing that comes over a network is
trusted; an address that answers with an error, or ends before the length that it announced, is an error that names it.
"""

from __future__ import annotations

import io
import queue
import re
import threading
import time
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn, cast
from urllib.parse import unquote

import typer

from k3_ledger.ledger.regular import read_up_to
from k3_ledger.schemas.addresses import SCHEME, lower_scheme, said, told
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

_HERE: Final = re.compile(r"(?:file|local)://(?:localhost(?=/))?(.*)", re.DOTALL | re.IGNORECASE)
CONNECT_SECONDS: Final = 30
SILENCE_SECONDS: Final = 60
"""Longest waits for a connection and for the next byte."""
ANSWER_SECONDS: Final = 120
"""Longest wait until an answer has begun: its header may come byte by byte, and it may lead elsewhere."""
SLOW_SECONDS: Final = 60
LEAST_RATE: Final = 1024
"""Fewest bytes a second on average over each so many seconds that are spent waiting for them. How long a whole transfer
takes is limited by that alone; where a protocol hands over whole blocks, only what each of them took can be seen."""
MAX_PAGE: Final = 1 << 18
"""Most bytes of a host's page for what is not there that are compared."""
_PAGE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|!--)", re.IGNORECASE)
_PAGE_START: Final = 256
_NOBODYS: Final = "no-file-of-a-ledger"
_WHOLE: Final = 200
"""The one answer that a whole file follows: 204 has no content, and 206 is a part that nobody asked for."""
_now = time.monotonic
_ABSENT: Final = frozenset({403, 404, 410})
"""Answers that mean "not there": stores that list nothing to strangers say 403."""


def is_address(text: str) -> bool:
    """Whether a command's argument is an address and not a path."""
    return SCHEME.match(text) is not None


def path_of(address: str) -> Path | None:
    """The path that an address on this machine names (``file://…``, RFC 8089); None for any other.

    Raises:
        typer.BadParameter: it names what no path can be.
    """
    here = _HERE.fullmatch(address)
    path = None if here is None else unquote(here[1], errors="surrogateescape")
    if path is not None and "\0" in path:
        raise typer.BadParameter(f"{said(address)} names no path: none has a NUL in it", param_hint="address")
    return None if path is None else Path(path)


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

        self.name = said(address).rstrip("/")
        self._address = address = lower_scheme(address)
        self._http = address.startswith(("http://", "https://"))
        options: dict[str, Any] = {"use_listings_cache": False}
        if self._http:
            import aiohttp

            limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
            options["client_kwargs"] = {
                "timeout": limits, "auto_decompress": False, "headers": {"Accept-Encoding": "gzip"},
            }  # fmt: skip
        try:
            self._fs, root = fsspec.core.url_to_fs(address, **options)
        except (ImportError, ValueError) as error:  # fsspec names the package that a protocol needs
            raise typer.BadParameter(
                f"{self.name} cannot be read: {_own_words(error, address)}", param_hint="address"
            ) from None
        except Exception as error:  # noqa: BLE001 - some connect here, and every protocol raises its own
            self._fail(self.name, error)
        self._root = root.rstrip("/")
        self._page: bytes | None = None

    def open(self, path: str) -> BinaryIO | None:
        """A file below the address, as a stream, or None when it is not there; the address itself for ``""``.

        Raises:
            StoreError: it cannot be read (``REMOTE_UNREADABLE``).
        """
        full = f"{self._root}/{path}" if path else self._root
        try:
            # A size of 1 keeps fsspec from asking for the size first, and blocks of 0 from asking for ranges.
            options = {"block_size": 0, "size": 1} if self._http else {}
            stream = _within(ANSWER_SECONDS, partial(self._fs.open, full, "rb", **options))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - every protocol raises its own
            if getattr(error, "status", None) in _ABSENT or isinstance(error, PermissionError | IsADirectoryError):
                return None
            self._fail(full, error)
        status = getattr(getattr(stream, "r", None), "status", _WHOLE) if self._http else _WHOLE
        if status != _WHOLE:
            stream.close()
            raise StoreError(
                Code.REMOTE_UNREADABLE,
                f"cannot be read: the host answered {status}, which is no whole file",
                position=Position(source=full),
            )
        found = _Stream(stream, full, self._fail)
        is_page = True
        try:
            is_page = self._http and path != "" and self._is_page(path, found)
        finally:  # what cannot be read to see what it is, is given back as well
            if is_page:
                found.close()
        return None if is_page else cast(BinaryIO, found)

    def _is_page(self, path: str, stream: _Stream) -> bool:
        """Whether a host answers with a web page where nothing is: many do, and say 200. No file of a ledger is one; an
        artifact may be, and is held against what the host says of a name that nobody has.
        """
        if _PAGE.match(stream.peek(_PAGE_START)) is None:
            return False
        if not path.startswith("blobs/"):
            return True
        if self._page is None:
            self._page = b""
            if (other := self.open(f"blobs/{_NOBODYS}")) is not None:
                with other:
                    self._page = read_up_to(other, MAX_PAGE)
        return bool(self._page) and stream.peek(MAX_PAGE) == self._page

    def _fail(self, name: str, error: Exception) -> NoReturn:
        raise StoreError(
            Code.REMOTE_UNREADABLE,
            f"cannot be read: {_words(error, self._address)}",
            position=Position(source=name),
        ) from error

    def names(self, folder: str) -> list[str] | None:
        """Names of what a folder holds; None where the place does not say: a static host lists nothing, and a store may
        keep its list to itself.

        Raises:
            StoreError: it would say, and this time it cannot (``REMOTE_UNREADABLE``).
        """
        if self._http:
            return None
        full = f"{self._root}/{folder}"
        try:
            found = self._fs.ls(full, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (PermissionError, NotImplementedError):
            return None
        except Exception as error:  # noqa: BLE001 - every protocol raises its own
            self._fail(full, error)
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found)


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """What ``ask`` answers, or the error that it raises; what takes longer goes on without us.

    Raises:
        TimeoutError: there is no answer in time.
    """
    outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((ask(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        answer, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer has begun within {seconds:g} s") from None
    if error is not None:
        raise error
    return answer


class _Stream(io.RawIOBase):
    """A foreign stream whose errors are ours, left where it is slower than :data:`LEAST_RATE`.

    What is compressed is unpacked as it is asked for, and no further.
    """

    def __init__(self, stream: Any, name: str, fail: Callable[[str, Exception], NoReturn]) -> None:
        self._stream, self._name, self._fail = stream, name, fail
        self._held = b""
        self._packed = b""
        self._unpacker: zlib._Decompress | None = None
        self._waited, self._brought = 0.0, 0
        headers = getattr(getattr(stream, "r", None), "headers", {})
        self._encoding = headers.get("Content-Encoding", "identity").strip().lower()

    def readable(self) -> bool:
        return True

    def peek(self, count: int) -> bytes:
        """The next ``count`` bytes, or fewer where it ends before; they are read again."""
        self._held = read_up_to(cast(BinaryIO, self), count)
        return self._held

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data, self._held = self._held[: len(view)], self._held[len(view) :]
        if not data:
            try:
                data = self._next(len(view))
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - every protocol raises its own
                self._fail(self._name, error)
        view[: len(data)] = data
        return len(data)

    def _next(self, count: int) -> bytes:
        """Some of the next bytes, unpacked; none at the end."""
        if self._encoding in {"identity", ""}:
            return self._take(count)
        if self._encoding not in {"gzip", "x-gzip"}:
            raise ValueError(f"it is encoded as {self._encoding}, which nobody asked for")
        data = b""
        while not data:
            self._packed = self._packed or self._take(count)
            if not self._packed and self._unpacker is None:
                break
            if not self._packed:
                raise ValueError("what is packed ends early")
            unpacker = self._unpacker or zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = unpacker.decompress(self._packed, count)
            self._packed = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            self._unpacker = None if unpacker.eof else unpacker
        return data

    def _take(self, count: int) -> bytes:
        """Some of the next bytes as they come; time that is not spent waiting for them is not the host's."""
        begin = _now()
        data: bytes = self._stream.read(count)
        self._waited += _now() - begin
        self._brought += len(data)
        if data and self._waited >= SLOW_SECONDS:
            if self._brought < LEAST_RATE * self._waited:
                raise StoreError(
                    Code.REMOTE_UNREADABLE,
                    "cannot be read: the host sends so slowly that reading might never end",
                    position=Position(source=self._name),
                    expected=f"at least {LEAST_RATE:,} bytes a second",
                    found=f"{self._brought:,} bytes in {self._waited:,.0f} s",
                    hint="ask another mirror, or copy it to this machine with a program that waits, and give the copy",
                )
            self._waited, self._brought = 0.0, 0
        return data

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _words(error: Exception, address: str) -> str:
    """What happened, where the error's own text is none that a person reads."""
    history = getattr(error, "history", None)
    if isinstance(history, tuple) and type(error).__name__ == "TooManyRedirects":
        return f"the host redirected {len(history)} times, most likely in a circle"
    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        return " ".join(f"the host answered {status} {getattr(error, 'message', '')}".split())[:300]
    return _own_words(error, address)


def _own_words(error: Exception, address: str) -> str:
    return told(" ".join(str(error).split()), address)[:300] or type(error).__name__
