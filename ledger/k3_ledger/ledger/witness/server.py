"""A witness over HTTP (c2sp.org/tlog-witness): ``POST /add-checkpoint`` and ``GET /<origin hash>/checkpoint``.

It listens on the loopback interface and nowhere else: what faces others (names, certificates, limits for strangers)
is a reverse proxy's work. Every answer but a cosignature is one line of text, and says nothing that its asker did not
know.

========  ==================================================================================
status    when
========  ==================================================================================
200       cosigned; the body is the witness's signature line
400       the body or the checkpoint cannot be read, or the head is smaller than the old size
403       no key of the log signed the head, or one did badly
404       the log is unknown; for a GET, or nothing of it was cosigned
409       the proof starts elsewhere; the body is the size that was cosigned last
413       the body is longer than any request
422       the proof does not hold: the head contradicts what was cosigned
500       the witness can sign nothing at the moment: its state, its disk or its clock
503       another request or process held the state for too long; try again
========  ==================================================================================
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from k3_ledger.ledger.core.tlog_witness import MAX_REQUEST, SIZE_TYPE, format_answer, format_size, parse_request
from k3_ledger.ledger.witness.cosign import OldSizeError
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from k3_ledger.ledger.witness.cosign import CosigningWitness

LOOPBACK: Final = "127.0.0.1"
CONNECTIONS: Final = 64
"""Connections that are served at once; further ones are answered with 503."""
IDLE_S: Final = 10
"""Seconds after which a connection without a request is closed."""

_STATUS: Final = {
    Code.WITNESS_REQUEST: 400,
    Code.NOTE_MALFORMED: 400,
    Code.CHECKPOINT_MALFORMED: 400,
    Code.WITNESS_SMALLER: 400,
    Code.NOTE_UNSIGNED: 403,
    Code.NOTE_SIGNATURE: 403,
    Code.WITNESS_ORIGIN: 404,
    Code.WITNESS_OLD_SIZE: 409,
    Code.PROOF_SHAPE: 422,
    Code.CONSISTENCY_MISMATCH: 422,
    Code.WITNESS_FORK: 422,
    Code.LOCK_BUSY: 503,
}
"""Whatever is not here is a trouble of the witness's own."""


def make_app(witness: CosigningWitness, report: Callable[[LedgerError], object]) -> Starlette:
    """The application. ``report`` is told every refusal, with its details, which the asker does not get."""

    async def add_checkpoint(request: Request) -> Response:
        body = bytearray()
        try:
            async for part in request.stream():
                body += part
                if len(body) > MAX_REQUEST:
                    return PlainTextResponse(f"more than {MAX_REQUEST} bytes\n", 413)
        except ClientDisconnect:  # nobody is left to answer
            return Response(status_code=400)
        return await run_in_threadpool(_add_checkpoint, witness, bytes(body), report)

    async def checkpoint(request: Request) -> Response:
        return await run_in_threadpool(_checkpoint, witness, request.path_params["name"], report)

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{name}/checkpoint", checkpoint, methods=["GET"]),
        ]
    )


def _add_checkpoint(witness: CosigningWitness, body: bytes, report: Callable[[LedgerError], object]) -> Response:
    try:
        return PlainTextResponse(format_answer([witness.add_checkpoint(parse_request(body))]))
    except OldSizeError as error:
        # As a header: a media type of text would be given a charset, and clients compare the whole.
        return Response(format_size(error.size), _STATUS[error.code], {"Content-Type": SIZE_TYPE})
    except LedgerError as error:
        return _refusal(error, report)


def _checkpoint(witness: CosigningWitness, name: str, report: Callable[[LedgerError], object]) -> Response:
    try:
        note = witness.state.note_of(name)
    except LedgerError as error:
        return _refusal(error, report)
    return PlainTextResponse("not found\n", 404) if note is None else PlainTextResponse(note)


def _refusal(error: LedgerError, report: Callable[[LedgerError], object]) -> Response:
    report(error)
    status = _STATUS.get(error.code, 500)
    words = error.finding.message if status < 500 else "this witness cannot sign at the moment"
    return PlainTextResponse(f"{words} [{error.code.id}]\n", status)


class WitnessServer:
    """A witness that listens on the loopback interface. The port is taken when this is made."""

    def __init__(self, witness: CosigningWitness, port: int, report: Callable[[LedgerError], object]) -> None:
        """Listen.

        Args:
            witness: answers.
            port: TCP port; 0 takes any that is free.
            report: is told every refusal.

        Raises:
            OSError: the port cannot be had.
        """
        self._socket = socket.create_server((LOOPBACK, port))
        self.port: int = self._socket.getsockname()[1]
        """TCP port."""
        self._server = uvicorn.Server(
            uvicorn.Config(
                make_app(witness, report),
                log_level="warning",
                access_log=False,
                lifespan="off",
                loop="asyncio",
                http="h11",
                ws="none",
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=IDLE_S,
                server_header=False,
            )
        )

    def run(self) -> None:
        """Serve until :meth:`stop`, SIGINT or SIGTERM; a request that is being answered is answered."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Make :meth:`run` return; may be called from another thread."""
        self._server.should_exit = True
