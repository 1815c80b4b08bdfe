"""A pipe to an engine process: one JSON object a line each way, each reply timed and bounded.

The engine gets a scrubbed environment, an empty working folder and no file of the controller's. Nothing that it prints
is trusted to be well-formed, in time, or of bounded size.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_REPLY = 8 << 20
"""Most bytes of one reply."""
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "TRITON_INTERPRET")
"""What an engine inherits; anything else in the environment could change a result without being recorded."""
_QUIT_SECONDS = 10.0


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
        environment: variables set on top of what is kept of the controller's; they are recorded by the caller.
        timeout_s: how long one reply may take, in seconds.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, *, environment: Mapping[str, str], timeout_s: float = 600.0
    ) -> None:
        self.command = list(command)
        self.timeout_s = timeout_s
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        self._stderr = (folder / "stderr.txt").open("wb")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running the engine that was named is the purpose
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=folder,
                env={**kept, "HOME": str(folder), "LC_ALL": "C.UTF-8", **environment},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise RunError(
                Code.RUN_ENGINE_FAILED, f"the engine could not be started: {error}", found=self.command[0]
            ) from None
        self._pending = b""
        self._folder = folder

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
        request = json.dumps({"op": op, **fields}, separators=(",", ":")).encode() + b"\n"
        assert self._process.stdin is not None
        start = time.monotonic_ns()
        try:
            self._write(request, start)
            line = self._read_line(op, start)
        except BrokenPipeError:
            raise self._ended(op) from None
        duration = time.monotonic_ns() - start
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise RunError(
                Code.RUN_PROTOCOL,
                f"the engine's answer to {op!r} is not one JSON object on a line",
                found=repr(line[:80]),
            )
        if "error" in data:
            raise RunError(Code.RUN_ENGINE_FAILED, f"the engine refused {op!r}: {str(data['error'])[:400]}")
        return Reply(data, start, duration)

    def peak_host_bytes(self) -> int:
        """Peak resident memory of the engine process, as the kernel counted it; 0 where it cannot be read."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        found = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(next(found, "0")) << 10

    def stderr(self, limit: int = 1 << 16) -> bytes:
        """The end of what the engine wrote to standard error."""
        data = (self._folder / "stderr.txt").read_bytes()
        return data[-limit:]

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
            for signal_all in (os.killpg,):
                try:
                    signal_all(process.pid, 9)
                except (ProcessLookupError, PermissionError):
                    break
            process.wait()
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
        if b"\n" in self._pending:
            raise RunError(
                Code.RUN_PROTOCOL,
                "the engine said something before it was asked",
                found=repr(self._pending[:80]),
            )
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
        status = self._process.wait()
        last = self.stderr(2000).decode(errors="replace").strip().splitlines()
        return RunError(
            Code.RUN_ENGINE_FAILED,
            f"the engine ended with status {status} while it was asked {op!r}",
            found=last[-1][:300] if last else None,
        )


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of this project's modules as an engine process."""
    return [sys.executable, "-P", "-u", "-m", module, *arguments]
