"""A pipe to an engine process: one JSON object a line each way, each reply timed and bounded.

The engine gets a scrubbed environment, an empty working folder and no file of the controller's. Nothing that it prints
is trusted to be well-formed, in time, of bounded size, or an answer to what was asked: every request carries a number
that nobody could have guessed, and its answer must repeat it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from k3_ledger.engine.runner.kin import Kin
from k3_ledger.engine.runner.replies import object_of, printable
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_REPLY = 8 << 20
"""Most bytes of one reply."""
KEPT_ENVIRONMENT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "TRITON_CACHE_DIR",
    "TRITON_INTERPRET",
)
"""What an engine inherits; anything else in the environment could change a result without being recorded."""
MAX_FILE = 1 << 30
"""Most bytes of any file that the engine writes, its standard error and its rows of logits among them."""
_QUIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer and when it came.

    Attributes:
        data: the JSON object.
        start_ns: controller's monotonic clock when the request was handed to the pipe.
        duration_ns: from there to the last byte of the answer.
    """

    data: Mapping[str, Any]
    start_ns: int
    duration_ns: int


class Channel:
    """An engine process. Use it as a context manager.

    Args:
        command: program and arguments.
        folder: empty folder that becomes the working directory and home of the process.
        timeout_s: how long one reply may take, in seconds.

    Attributes:
        environment: what the engine was given, in full.
    """

    def __init__(self, command: Sequence[str], folder: Path, *, timeout_s: float = 600.0) -> None:
        self.command = list(command)
        self.timeout_s = timeout_s
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        self.environment = {**kept, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
        # Without a name: what stands at a name in the engine's folder is what the engine puts there.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._kin = Kin()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running the engine that was named is the purpose
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=folder,
                env=self.environment,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._kin.end()
            self._stderr.close()
            raise RunError(
                Code.RUN_ENGINE_FAILED,
                f"the engine could not be started: {error}",
                found=self.command[0],
                hint="give a program that is there and may be executed: its path, or a name on PATH",
            ) from None
        self._kin.started(self._process.pid)
        self._pending = b""
        try:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
        except OSError as error:  # it runs as another user, or the system knows no such limit
            self.close()
            raise RunError(
                Code.RUN_ENGINE_FAILED,
                f"the engine was ended: its files cannot be limited: {error.strerror or error}",
                found=self.command[0],
                hint="give a program that runs as the user who measures",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the engine."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask(self, op: str, **fields: object) -> Reply:
        """Send one request and wait for its reply.

        Raises:
            RunError: the engine ended, took too long, answered with something else than one JSON object, or reported
                an error of its own.
        """
        number = secrets.randbits(48)
        request = json.dumps({"op": op, "id": number, **fields}, separators=(",", ":")).encode() + b"\n"
        self._refuse_unasked()
        start = time.monotonic_ns()
        try:
            self._write(request, start)
            line = self._read_line(op, start)
        except BrokenPipeError:
            raise self._ended(op) from None
        duration = time.monotonic_ns() - start
        data = object_of(line)
        if data is None:
            raise RunError(
                Code.RUN_PROTOCOL,
                f"the engine's answer to {op!r} is not one JSON object on a line, in UTF-8, each name once",
                found=printable(line[:80]),
            )
        if data.get("id") != number or type(data["id"]) is not int:
            raise RunError(
                Code.RUN_PROTOCOL,
                f"the engine's answer to {op!r} is not an answer to that request",
                expected=f"id {number}",
                found=f"id {printable(data.get('id'), 40)}",
            )
        if "error" in data:
            raise RunError(Code.RUN_ENGINE_FAILED, f"the engine refused {op!r}: {printable(data['error'])}")
        return Reply(data, start, duration)

    def peak_host_bytes(self) -> int:
        """Peak resident memory of the engine's processes, as the kernel counted it, added up.

        Those count that live at one of the calls of this, a daemon too; the controller has started nothing else since.
        """
        return self._kin.look()

    def stderr(self, limit: int = 1 << 16) -> bytes:
        """The end of what the engine wrote to standard error."""
        handle = self._stderr.fileno()  # the engine moves the same offset: nothing here goes by it
        return os.pread(handle, limit, max(0, os.fstat(handle).st_size - limit))

    def close(self) -> None:
        """End the process and everything it started, kindly first."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.close()
            process.wait(_QUIT_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            pass
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._kin.end()
            process.stdout.close()
            self._stderr.close()

    def _write(self, request: bytes, start: int) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        view = memoryview(request)
        while view:
            self._wait(descriptor, selectors.EVENT_WRITE, start)
            view = view[os.write(descriptor, view[:65536]) :]

    def _read_line(self, op: str, start: int) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        parts, length = [self._pending], len(self._pending)
        while True:
            self._wait(descriptor, selectors.EVENT_READ, start)
            block = os.read(descriptor, 1 << 16)
            if not block:
                raise self._ended(op)
            parts.append(block)
            length += len(block)
            end = block.find(b"\n")
            if end >= 0:
                line, _, self._pending = b"".join(parts).partition(b"\n")
                return line
            if length > MAX_REPLY:
                raise RunError(Code.RUN_PROTOCOL, f"the engine's answer to {op!r} is longer than {MAX_REPLY} bytes")

    def _refuse_unasked(self) -> None:
        """Whatever the engine has said since its last answer, nobody asked for."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout.fileno(), selectors.EVENT_READ)
            waiting = self._pending or (selector.select(0) and os.read(self._process.stdout.fileno(), 80))
        if waiting:
            raise RunError(
                Code.RUN_PROTOCOL, "the engine said something before it was asked", found=printable(waiting, 80)
            )

    def _wait(self, descriptor: int, event: int, start: int) -> None:
        left = self.timeout_s - (time.monotonic_ns() - start) / 1e9
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            if left <= 0 or not selector.select(left):
                raise RunError(
                    Code.RUN_TIMEOUT,
                    f"the engine gave no answer within {self.timeout_s:g} seconds",
                    expected=f"at most {self.timeout_s:g} s",
                )

    def _ended(self, op: str) -> RunError:
        try:
            status = str(self._process.wait(_QUIT_SECONDS))
        except subprocess.TimeoutExpired:
            status = "unknown: it closed its output and stayed"
        last = self.stderr(2000).decode(errors="replace").strip().splitlines()
        return RunError(
            Code.RUN_ENGINE_FAILED,
            f"the engine ended with status {status} while it was asked {op!r}",
            found=printable(last[-1], 300) if last else None,
        )


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of this project's modules as an engine process."""
    return [sys.executable, "-P", "-u", "-m", module, *arguments]
