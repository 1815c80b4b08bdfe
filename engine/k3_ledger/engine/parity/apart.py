"""llama.cpp in a process of its own: what ends that process ends no measurement without a word.

llama.cpp answers what it does not expect by ending the process that it runs in. So it never runs in ours: one child
answers every row of a grading, over a pipe, and its end, its silence and whatever else it says are errors with a name.
What it prints is kept aside and never shown but for one line. Run as a module this file is that child.

One request a line, JSON: ``{"ids": [...], "cache": true}``. One answer: a line of JSON, and behind ``{"bytes": n}`` the
row itself, n bytes of little-endian float64. With ``"top": k`` the row is of pairs: the k most probable tokens, and the
log-probability of each. The first answer, unasked, says that the model is loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.util
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.schemas.errors import LedgerError, ParityError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.parity.llamacpp import LlamaCpp
    from k3_ledger.engine.tokenizer import Tokenizer

ANSWER_SECONDS: Final = 3600.0
"""Longest wait for the model to load, and for one row, in seconds."""
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME", "TMPDIR")
_MAX_LINE: Final = 1 << 16
_MAX_PRINTED: Final = 64 << 20
"""Most bytes of what it prints that are kept."""
_TAIL: Final = 1 << 16
_SHOWN: Final = 300
_TEXT: Final = "A"
_VALUE: Final = np.dtype("<f8")


class LlamaCppApart:
    """One model loaded in llama.cpp on the CPU, in a child process that ends with this object.

    Args:
        path: the model file, or the first part of a split one.
        tokenizer: the file's tokenizer, for a token that is text.
        vocabulary: number of tokens.
        context: tokens of room, at least the longest prompt and one.
        ubatch: tokens that it computes together in prefill.
        threads: threads it may use.
        cache: share prefixes between requests. Off, every row is computed from nothing.
        timeout_s: longest wait for one answer, in seconds.
        command: words of the child's command in place of this module's own.

    Raises:
        ImportError: PyPI ``xllamacpp`` is not installed.
        ParityError: PARITY_REFERENCE_FAILED: it did not load the model.
    """

    independent = True
    name = "llama.cpp"

    def __init__(
        self,
        path: Path,
        tokenizer: Tokenizer,
        vocabulary: int,
        *,
        context: int,
        ubatch: int = 512,
        threads: int = 2,
        cache: bool = True,
        timeout_s: float | None = None,
        command: Sequence[str] = (),
    ) -> None:
        if not command and importlib.util.find_spec("xllamacpp") is None:
            raise ModuleNotFoundError("No module named 'xllamacpp'", name="xllamacpp")
        self.vocabulary = vocabulary
        self.cache = cache
        self.timeout_s = ANSWER_SECONDS if timeout_s is None else timeout_s
        options: dict[str, object] = {
            "model": str(path.absolute()),
            "forced": tokenizer.encode(_TEXT)[0],
            "vocabulary": vocabulary,
            "context": context,
            "ubatch": ubatch,
            "threads": threads,
        }
        words = [*(command or (sys.executable, "-P", "-m", __name__)), json.dumps(options)]
        # ggml lets a debugger loose on the process that it ends: hundreds of lines that say nothing to our reader.
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"GGML_NO_BACKTRACE": "1"}
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # noqa: S603 - fixed words
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (_MAX_PRINTED, _MAX_PRINTED))
        resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))
        self.close = weakref.finalize(self, _end, self._process, self._printed)
        """End the process. It ends by itself with this object, and with the interpreter."""
        self._owner: LlamaCppApart | None = None
        self._doing = "loaded the model"
        try:
            hello = self._answer()
            self.version, self.address = str(hello["version"]), str(hello["address"])
        except KeyError:
            self._fail("did not say what it is")
        except BaseException:
            self.close()
            raise

    def afresh(self) -> LlamaCppApart:
        """The same process, which computes every row from nothing."""
        other = copy.copy(self)
        other.cache = False
        other._owner = self  # noqa: SLF001 - the process lives as long as either
        return other

    def row(self, ids: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Log-probabilities after a prompt.

        Raises:
            ParityError: the answer is no full row for these ids, or the process gave none.
        """
        return self._row(ids, self.vocabulary)

    def top(self, ids: Sequence[int], count: int) -> dict[int, float]:
        """Log-probabilities of the most probable tokens after a prompt, for less than a whole row takes.

        Raises:
            ParityError: as for a row; or what came is no such list.
        """
        count = min(count, self.vocabulary)
        tokens, logprobs = self._row(ids, 2 * count, top=count).reshape(2, count)
        found = dict(zip(tokens.tolist(), logprobs.tolist(), strict=True))
        exist = all(token.is_integer() and 0 <= token < self.vocabulary for token in found)
        if len(found) != count or not exist or not np.isfinite(logprobs).all():
            self._fail("gave an answer that is no row of this model")
        return {int(token): logprob for token, logprob in found.items()}

    def _row(self, ids: Sequence[int], values: int, **more: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        self._doing = f"computed a row behind {len(ids)} tokens"
        start = time.monotonic()
        try:
            self._write(json.dumps({"ids": list(ids), "cache": self.cache, **more}).encode() + b"\n", start)
        except BrokenPipeError:
            self._ended()
        size = values * _VALUE.itemsize
        if self._answer(start) != {"bytes": size}:
            self._fail("gave an answer that is no row of this model")
        data = self._read(size, start)
        return np.frombuffer(data, dtype=_VALUE).astype(np.float64)

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:  # noqa: ARG002 (its cache decides)
        """See :class:`~k3_ledger.engine.parity.rows.LogitSource`."""
        first = len(ids) - count + 1
        values = [self.row(ids[:length]) for length in range(first, len(ids) + 1)]
        return Rows(ids_digest([ids]), "raw", np.stack(values))

    def _answer(self, start: float | None = None) -> dict[str, Any]:
        """One line of JSON; an error that the child met is raised here."""
        start = time.monotonic() if start is None else start
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) >= _MAX_LINE:
                self._fail("gave an answer that never ends")
            line += self._some(1, start)  # bytes of the row behind it must stay in the pipe
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self._fail(
                "said something that is no answer", found=printable(line.decode(errors="replace").rstrip())[:_SHOWN]
            )
        if "error" in answer:
            self._refuse(answer)
        return answer

    def _refuse(self, answer: dict[str, Any]) -> NoReturn:
        """Raises what the child raised, or says that it refused."""
        with contextlib.suppress(KeyError):
            raise ParityError(Code[str(answer.get("code"))], printable(str(answer["error"]))[:_SHOWN])
        self._fail("refused", found=printable(str(answer["error"]))[:_SHOWN])

    def _read(self, size: int, start: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._some(size - len(data), start)
        return bytes(data)

    def _some(self, most: int, start: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        self._wait(descriptor, selectors.EVENT_READ, start)
        data = os.read(descriptor, min(most, 1 << 20))
        if not data:
            self._ended()
        return data

    def _write(self, request: bytes, start: float) -> None:
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        view = memoryview(request)
        while view:
            self._wait(descriptor, selectors.EVENT_WRITE, start)
            view = view[os.write(descriptor, view[:4096]) :]

    def _wait(self, descriptor: int, event: int, start: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            if not selector.select(max(0.0, self.timeout_s - (time.monotonic() - start))):
                self._fail(f"gave no answer within {self.timeout_s:g} seconds")

    def _ended(self) -> NoReturn:
        try:
            status = self._process.wait(2.0)
            how = f"with {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        except (subprocess.TimeoutExpired, ValueError):
            how = "and left its pipe"
        self._fail(f"ended {how}")

    def _fail(self, what: str, *, found: str | None = None) -> NoReturn:
        """Ends the process, of which nothing more can be believed."""
        found = found or self._last_words()
        self.close()
        raise ParityError(
            Code.PARITY_REFERENCE_FAILED, f"the reference llama.cpp {what} while it {self._doing}", found=found
        )

    def _last_words(self) -> str | None:
        """The line that says why, of all that it printed: the assertion that did not hold, or the last one."""
        self._printed.seek(max(0, self._printed.seek(0, os.SEEK_END) - _TAIL))
        lines = [line.strip() for line in self._printed.read(_TAIL).decode(errors="replace").splitlines()]
        asserted = [line for line in lines if "GGML_ASSERT" in line or "GGML_ABORT" in line]
        told = (asserted or [line for line in lines if line])[-1:]
        return printable(told[0])[:_SHOWN] if told else None


def _end(process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()
    printed.close()


def _row_of(engine: LlamaCpp, ids: Sequence[int], top: int | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A whole row, or the tokens of its top and behind them their log-probabilities."""
    if top is None:
        return engine.row(ids)
    found = engine.top(ids, top)
    return np.array([*found, *found.values()], dtype=np.float64)


def main(words: Sequence[str]) -> None:
    """Answer rows until standard input ends."""
    from k3_ledger.engine.parity.llamacpp import LlamaCpp  # noqa: PLC0415 (nobody else needs it)

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("options", type=json.loads)
    options = parser.parse_args(words).options
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what llama.cpp prints is no answer

    def say(answer: dict[str, object], data: bytes = b"") -> None:
        answers.write(json.dumps(answer).encode() + b"\n" + data)
        answers.flush()

    try:
        engine = LlamaCpp(Path(options.pop("model")), options.pop("forced"), options.pop("vocabulary"), **options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        say({"error": f"{type(error).__name__}: {error}"})
        return
    fresh = engine.afresh()
    say({"version": engine.version, "address": engine.address})
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
            asked = engine if request["cache"] else fresh
            row = _row_of(asked, request["ids"], request.get("top")).astype(_VALUE).tobytes()
        except LedgerError as error:
            say({"error": error.finding.message, "code": error.code.name})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is said
            say({"error": f"{type(error).__name__}: {error}"})
        else:
            say({"bytes": len(row)}, row)


if __name__ == "__main__":
    main(sys.argv[1:])
