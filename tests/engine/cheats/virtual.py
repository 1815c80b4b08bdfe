"""Engines of this folder in this process, under a clock that nothing but their work moves.

What a check on times says of a real process depends on what else the machine does. Here every token costs the same,
times a factor that is drawn for each request from a fixed seed: a test that stands on it has one outcome.
"""

from __future__ import annotations

import io
import json
import random
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from k3_ledger.engine.runner import session
from k3_ledger.engine.runner.channel import Reply
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from tests.engine.cheats import liars

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

EXAMPLE = sys.modules[liars.Engine.__module__]
TOKEN_NS, PIPE_NS = 1_000_000, 100_000


class Machine:
    """A clock and a machine that is held up now and then.

    Args:
        spread: standard deviation of the logarithm of how long the same work takes.
        held: share of the requests that take three times as long.
        seed: of both.
    """

    def __init__(self, *, spread: float, held: float, seed: int) -> None:
        self.now = 0
        self._draw = random.Random(seed)
        self._spread, self._held, self._factor = spread, held, 1.0

    def turn(self) -> None:
        """The next request finds another load."""
        slow = 3 if self._draw.random() < self._held else 1
        self._factor = slow * self._draw.lognormvariate(0, self._spread)

    def work(self, seconds: float) -> None:
        """What keeps a core busy for that long when nothing else does."""
        self.now += int(seconds * 1e9 * self._factor)

    def thread(self, *, target: object, args: tuple[float]) -> SimpleNamespace:
        """A thread that works beside: whoever joins it waits for what is left."""
        ends: list[int] = []

        def start() -> None:
            assert target == self.work
            ends.append(self.now + int(args[0] * 1e9 * self._factor))

        def join() -> None:
            self.now = max(self.now, *ends)

        return SimpleNamespace(start=start, join=join)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the engines of this folder run on it, and sessions talk to them."""
        clock = SimpleNamespace(monotonic=lambda: self.now / 1e9, monotonic_ns=lambda: self.now)

        def step(toy: liars.Engine, token: int) -> list[float]:
            self.work(TOKEN_NS / 1e9)
            return list(optimised(toy, token))

        optimised: Any = liars.Optimised.step
        monkeypatch.setattr(liars.Engine, "step", step)
        monkeypatch.setattr(liars.Engine, "stir", liars.Optimised.stir, raising=False)
        for module in (EXAMPLE, liars):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(liars, "work", self.work)
        monkeypatch.setattr(liars, "threading", SimpleNamespace(Thread=self.thread))
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setattr(session, "Channel", lambda command, *_, **__: VirtualChannel(self, command))


class VirtualChannel:
    """A channel to an engine of this folder, as a session uses one."""

    exit_status, environment = None, {"PATH": ""}

    def __init__(self, machine: Machine, command: Sequence[str]) -> None:
        self.machine = machine
        self.engine = getattr(liars, command[-1])()
        self.engine.serve()  # nothing is on standard input: what it does before the first request is done, and no more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, op: str, **fields: object) -> Reply:
        """One request, its pipe included."""
        self.machine.turn()
        start = self.machine.now
        self.machine.work(PIPE_NS / 2e9)
        answer = self.engine.answer(json.loads(json.dumps({"op": op, "id": 1, **fields})))
        self.machine.work(PIPE_NS / 2e9)
        if "error" in answer:
            raise RunError(Code.RUN_ENGINE_FAILED, str(answer["error"]))
        return Reply(json.loads(json.dumps(answer)), start, self.machine.now - start)

    def peak_host_bytes(self) -> int:
        """Nothing is counted here."""
        return 0

    def stderr(self) -> bytes:
        """Nothing is written there."""
        return b""
