"""A static host on this machine that can misbehave, and the mirrors that tests put on it. No product code."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.reference import naive_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.ledgers import Builder


@dataclass
class Host:
    """Files by path, what was asked for, and what goes wrong with which path."""

    files: dict[str, bytes]
    address: str = ""
    asked: list[str] = field(default_factory=list)
    ranges: int = 0
    faults: dict[str, Callable[[Handler, bytes | None], None]] = field(default_factory=dict)
    fallback: bytes | None = None


class Handler(BaseHTTPRequestHandler):
    host: Host
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.host.asked.append(path)
        self.host.ranges += "Range" in self.headers
        data = self.host.files.get(path, self.host.fallback)
        self.host.faults.get(path, answer)(self, data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""

    def start(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


def answer(handler: Handler, data: bytes | None) -> None:
    """What an honest host does, ranges ignored."""
    if data is None:
        handler.start(404, Content_Length=0)
        return
    handler.start(200, Content_Length=len(data))
    handler.wfile.write(data)


def status(number: int) -> Callable[[Handler, bytes | None], None]:
    return lambda handler, _: handler.start(number, Content_Length=0)


def longer(handler: Handler, data: bytes | None) -> None:
    """The file, and one byte more."""
    assert data is not None
    answer(handler, data + b"x")


def truncated(handler: Handler, data: bytes | None) -> None:
    """Announce everything, send half, hang up."""
    assert data is not None
    handler.start(200, Content_Length=len(data))
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True


def short_length(handler: Handler, data: bytes | None) -> None:
    """Announce half and send half, as if that were all."""
    assert data is not None
    answer(handler, data[: len(data) // 2])


def broken_chunks(handler: Handler, data: bytes | None) -> None:
    """Announce no length and die inside a chunk."""
    assert data is not None
    handler.start(200, Transfer_Encoding="chunked")
    handler.wfile.write(b"%x\r\n" % len(data) + data[: len(data) // 2])
    handler.close_connection = True


def dies(handler: Handler, data: bytes | None) -> None:
    """Hang up without a word."""
    handler.close_connection = True


def endless(handler: Handler, data: bytes | None) -> None:
    """Send for ever."""
    handler.start(200, Transfer_Encoding="chunked")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"10000\r\n" + b"{" * 65536 + b"\r\n")


def redirected(target: str) -> Callable[[Handler, bytes | None], None]:
    return lambda handler, _: handler.start(302, Location=f"/{target}", Content_Length=0)


def changing(*versions: bytes) -> Callable[[Handler, bytes | None], None]:
    """Give each version once, and the last one from then on."""
    left = list(versions)
    return lambda handler, _: answer(handler, left.pop(0) if len(left) > 1 else left[0])


@contextlib.contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Host]:
    """A host with these files, on a port that is free, until the block ends."""
    host = Host(files)
    handler = type("_Handler", (Handler,), {"host": host})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ledger_files(ledger: Builder, blobs: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """A ledger directory, by name."""
    found = {"ledger.jsonl": ledger.data, "checkpoint": ledger.head()}
    return found | {f"blobs/sha256/{digest[:2]}/{digest}": data for digest, data in (blobs or {}).items()}


def mirror_files(ledger: Builder, blobs: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """A mirror of it: no log, but tiles, entry bundles and the list of key entries."""
    found = ledger_files(ledger, blobs)
    del found["ledger.jsonl"]
    keys = [index for index, line in enumerate(ledger.lines) if b'"kind":"key"' in line]
    found["key-entries"] = b"".join(b"%d\n" % index for index in keys)
    return found | naive_tiles.files([line[:-1] for line in ledger.lines])


def lay_out(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder
