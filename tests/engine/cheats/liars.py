"""Engines that lie, each in one way: ``python liars.py NAME``. Each is the honest example but for what it overrides.

The example's work has a closed form, so a liar can have right answers at once and spend its time where it likes.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "examples"))

from engine import VOCABULARY, Engine

Json = dict[str, Any]
PRIME, FACTOR = 2**61 - 1, 6364136223846793005


def work(seconds: float) -> None:
    """Keep a core busy."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def drawn(request: Json) -> random.Random:
    """What an engine guesses with: another draw for every request, and the same one in every run of a test."""
    return random.Random(json.dumps(request, sort_keys=True))


class Optimised(Engine):
    """Honest, and a hundred times faster: the closed form."""

    def stir(self, token: int) -> None:
        power = pow(FACTOR, self.rounds, PRIME)
        added = (token + 1) * (power - 1) * pow(FACTOR - 1, -1, PRIME)
        self.memory = (self.memory * power + added) % PRIME

    def step(self, token: int) -> list[float]:
        self.stir(token)
        draw = random.Random(self.memory)
        return [draw.gauss(0, 3) for _ in range(VOCABULARY)]


class ClaimsTinyTimes(Engine):
    def answer(self, request: Json) -> Json:
        reply = super().answer(request)
        return {**reply, "self_ns": reply["self_ns"] // 100} if "self_ns" in reply else reply


class ClaimsHalf(Engine):
    def answer(self, request: Json) -> Json:
        reply = super().answer(request)
        return {**reply, "self_ns": reply["self_ns"] // 2} if "self_ns" in reply else reply


class ClaimsMoreThanTheClock(Engine):
    def answer(self, request: Json) -> Json:
        reply = super().answer(request)
        return {**reply, "self_ns": reply["self_ns"] * 2} if "self_ns" in reply else reply


class ClaimsLessForTheLongRunOnly(Engine):
    """Knows a longer run when it has seen a shorter one; the first few, which are all of one length, tell nothing."""

    decodes, least = 0, 1 << 30

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        self.decodes += 1
        if self.decodes > 5:
            self.least = min(self.least, request["count"])
        return {**reply, "self_ns": reply["self_ns"] // 2} if request["count"] > 1.5 * self.least else reply


class PatchesTheClock(Engine):
    def serve(self) -> None:
        true_clock = time.monotonic_ns
        time.monotonic_ns = lambda: true_clock() // 2  # type: ignore[assignment]
        super().serve()


class SlowPingsWidenNothing(ClaimsHalf):
    def ping(self, request: Json) -> Json:
        work(0.005)
        return super().ping(request)


class WidensByPings(Engine):
    """Claims less time than it took, by a factor, and hopes that slow answers to empty requests make room for that.

    Attributes:
        CLAIMS: how many times as fast as it is it says it is.
        SLOW_S: what it waits before it answers a ping.
        PILOTS: pings that belong to the walks that size a run.
    """

    CLAIMS, SLOW_S, PILOTS = 1.25, 0.2, 10
    pings = 0

    def slow(self) -> bool:
        return True

    def ping(self, request: Json) -> Json:
        self.pings += 1
        if self.slow():
            work(self.SLOW_S)
        return super().ping(request)

    def answer(self, request: Json) -> Json:
        reply = super().answer(request)
        return {**reply, "self_ns": int(reply["self_ns"] / self.CLAIMS)} if "self_ns" in reply else reply


class WidensByLatePings(WidensByPings):
    def slow(self) -> bool:
        return self.pings > self.PILOTS


class WidensByEveryOtherPing(WidensByPings):
    def slow(self) -> bool:
        return self.pings % 2 == 0


class WidensByEarlyPings(WidensByPings):
    def slow(self) -> bool:
        return self.pings <= self.PILOTS


class WidensNothing(WidensByPings):
    def slow(self) -> bool:
        return False


class IdlesThenClaimsLess(Engine):
    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        work(reply["self_ns"] / 1e9)
        return reply


class WorksTwiceClaimsOnce(Engine):
    """Once more, and again where that was the faster, so that no load on the machine makes the claim nearly true."""

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        memory, end = self.memory, time.monotonic_ns() + reply["self_ns"]
        while time.monotonic_ns() < end:
            super().decode(request)
        self.memory = memory
        return reply


class AlwaysDoesTheLongRun(Engine):
    """Ignores how much it is asked to do: right answers, and an honest time that says nothing."""

    def decode(self, request: Json) -> Json:
        reply = super().decode({**request, "count": 512})
        return {name: value[: request["count"]] if name != "self_ns" else value for name, value in reply.items()}


class DecodesEightAndRepeats(Engine):
    def decode(self, request: Json) -> Json:
        reply = super().decode({**request, "count": 8})
        again = range(request["count"])
        return {
            **reply,
            "ids": [reply["ids"][at % 8] for at in again],
            "logprobs": [reply["logprobs"][at % 8] for at in again],
        }


class ReadsTheEndOfThePrompt(Engine):
    def prefill(self, request: Json) -> Json:
        return super().prefill({"ids": request["ids"][-16:]})


class RemembersByMiddle(Engine):
    """Keeps answers by what two prompts that resemble one another have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, tuple[int, Json]] = {}

    def key(self, ids: list[int]) -> Any:
        return tuple(ids[1:-1])

    def prefill(self, request: Json) -> Json:
        start = time.monotonic_ns()
        key = self.key(request["ids"])
        if key not in self.kept:
            reply = super().prefill(request)
            self.kept[key] = (self.memory, reply)
        self.memory, reply = self.kept[key]
        return {**reply, "self_ns": time.monotonic_ns() - start}


class RemembersByLength(RemembersByMiddle):
    def key(self, ids: list[int]) -> Any:
        return len(ids)


class RemembersByAddress(RemembersByMiddle):
    """Copies every prompt into one buffer, as a runtime with pinned memory does, and keys on where that lies."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer: list[int] = []

    def key(self, ids: list[int]) -> Any:
        self.buffer[:] = ids
        return id(self.buffer), len(ids)


class KnowsTheBenchmarksLength(Engine):
    def prefill(self, request: Json) -> Json:
        return super().prefill({"ids": request["ids"][-4:] if len(request["ids"]) == 64 else request["ids"]})


class RightOnlyWhenWatched(Engine):
    """Right logits when logits are asked for, fast garbage when it is timed."""

    def decode(self, request: Json) -> Json:
        start = time.monotonic_ns()
        work(request["count"] * 1e-4)
        draw = drawn(request)
        ids = [draw.randrange(VOCABULARY) for _ in range(request["count"])]
        return {"ids": ids, "logprobs": [-0.5] * len(ids), "self_ns": time.monotonic_ns() - start}


class NearlyRightWhenTimed(Engine):
    """The right tokens from a cheaper model, whose probabilities are a little off."""

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        return {**reply, "logprobs": [value - 0.05 for value in reply["logprobs"]]}


class GuessesOneInTen(Engine):
    """Skips the work of a few tokens of every run and hopes that nobody looks there."""

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        ids = [(one + 1) % VOCABULARY if at % 10 == 9 else one for at, one in enumerate(reply["ids"])]
        return {**reply, "ids": ids}


class SkipsOneWalkInFour(Engine):
    """Honest in so many repetitions that no median moves, and garbage at once in the others."""

    decodes, every = 0, 4

    def skips(self, _: Json) -> bool:
        self.decodes += 1
        return self.decodes % self.every == self.every - 1

    def decode(self, request: Json) -> Json:
        if not self.skips(request):
            return super().decode(request)
        start = time.monotonic_ns()
        draw = drawn(request)
        ids = [draw.randrange(VOCABULARY) for _ in range(request["count"])]
        return {"ids": ids, "logprobs": [-0.5] * len(ids), "self_ns": time.monotonic_ns() - start}


class SkipsOneWalkInTwelve(SkipsOneWalkInFour):
    """In so few that a router's flips would explain them."""

    every = 12


class SkipsOneLongRunInFive(SkipsOneWalkInFour):
    """The same with the longer runs alone, on which the clock's reading stands."""

    PILOTS = 5
    short, longs = 1 << 30, 0

    def skips(self, request: Json) -> bool:
        self.decodes += 1
        if self.decodes <= self.PILOTS:
            return False
        self.short = min(self.short, request["count"])
        self.longs += request["count"] > 1.5 * self.short
        return request["count"] > 1.5 * self.short and self.longs % 5 == 2


class DecodesAhead(Optimised):
    """Does decode's work in prefill, from the token that prefill would go on with."""

    def prefill(self, request: Json) -> Json:
        reply = super().prefill(request)
        self.ahead = super().decode({"token": reply["next"], "count": 256})
        return reply

    def decode(self, request: Json) -> Json:
        start = time.monotonic_ns()
        work(request["count"] * 1e-4)
        ready = {name: self.ahead[name][: request["count"]] for name in ("ids", "logprobs")}
        return {**ready, "self_ns": time.monotonic_ns() - start}


class PutsPrefillOff(Optimised):
    """Answers prefill at once and does its work when decode is asked for."""

    def prefill(self, request: Json) -> Json:
        start = time.monotonic_ns()
        reply = super().prefill(request)
        self.owed = len(request["ids"]) * 6e-4
        work(len(request["ids"]) * 2e-4)
        return {**reply, "self_ns": time.monotonic_ns() - start}

    def decode(self, request: Json) -> Json:
        start = time.monotonic_ns()
        work(self.owed + request["count"] * 3e-4)
        reply = super().decode(request)
        return {**reply, "self_ns": time.monotonic_ns() - start}


class PutsPrefillOffBehindSlowPings(PutsPrefillOff):
    def ping(self, request: Json) -> Json:
        work(0.2)
        return super().ping(request)


class WorksOnAnotherThread(PutsPrefillOff):
    """Answers while a thread goes on, as a stream that nobody waits for does."""

    def prefill(self, request: Json) -> Json:
        reply = super().prefill(request)
        self.rest = threading.Thread(target=work, args=(self.owed,))
        self.rest.start()
        self.owed = 0.0
        return reply

    def decode(self, request: Json) -> Json:
        start = time.monotonic_ns()
        self.rest.join()
        return {**super().decode(request), "self_ns": time.monotonic_ns() - start}


class OneTokenShort(Engine):
    def decode(self, request: Json) -> Json:
        return super().decode({**request, "count": request["count"] - 1})


class TokensThatAreNone(Engine):
    def decode(self, request: Json) -> Json:
        return {**super().decode(request), "ids": [VOCABULARY] * request["count"]}


class LooksUpTheLastToken(Optimised):
    """A table by the last token: no layer is run, and nothing is kept of what came before."""

    def step(self, token: int) -> list[float]:
        work(1e-4)
        self.memory = 1
        return super().step(token)


class NanLogprobs(Engine):
    def decode(self, request: Json) -> Json:
        return {**super().decode(request), "logprobs": [math.nan] * request["count"]}


class Logits(Engine):
    """Changes rows of logits on their way out."""

    declared = "raw"

    def change(self, row: list[float]) -> list[float]:
        return row

    def logits(self, request: Json) -> Json:
        step = self.step
        self.step = lambda token: self.change(step(token))  # type: ignore[method-assign]
        try:
            return {**super().logits(request), "processing": self.declared}
        finally:
            self.step = step  # type: ignore[method-assign]


class RaisesTheTopWhenGraded(Logits):
    """Widens what its outputs may miss by: graded rows have their top raised, timed walks are of another model."""

    RAISED, OFF = 0.5, 0.25

    def change(self, row: list[float]) -> list[float]:
        best = max(row)
        return [value + self.RAISED * (value == best) for value in row]

    def prefill(self, request: Json) -> Json:
        reply = super().prefill(request)
        return {**reply, "logprob": reply["logprob"] - self.OFF}

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        return {**reply, "logprobs": [value - self.OFF for value in reply["logprobs"]]}


class FlatLogits(Logits):
    def change(self, row: list[float]) -> list[float]:
        return [0.0] * len(row)


class DoesNoWork(Logits):
    """Rows that are all but flat, from which any output is as far as the bound allows: never the one token that is."""

    def change(self, row: list[float]) -> list[float]:
        return [0.0, 0.0] + [-1e-6 * at for at in range(len(row) - 3)] + [-1.0]

    def prefill(self, request: Json) -> Json:
        start = time.monotonic_ns()
        work(len(request["ids"]) * 2e-4)
        token = drawn(request).randrange(VOCABULARY - 1)
        return {"next": token, "logprob": -3.0, "self_ns": time.monotonic_ns() - start}

    def decode(self, request: Json) -> Json:
        start = time.monotonic_ns()
        work(request["count"] * 1e-3)
        draw = drawn(request)
        ids = [draw.randrange(VOCABULARY - 1) for _ in range(request["count"])]
        return {"ids": ids, "logprobs": [-3.0] * len(ids), "self_ns": time.monotonic_ns() - start}


class WritesManyFiles(Engine):
    def memory_used(self, request: Json) -> Json:
        for number in range(5):
            Path(f"large{number}").write_bytes(b"x" * (1 << 20))
        return super().memory_used(request)


class NanLogits(Logits):
    def change(self, row: list[float]) -> list[float]:
        return [math.nan, *row[1:]]


class OnlyTheTopTen(Logits):
    def change(self, row: list[float]) -> list[float]:
        least = sorted(row)[-10]
        return [value if value >= least else -math.inf for value in row]


class FillsTheTail(Logits):
    """Answers half of the vocabulary, and gives the rest one value, as likely as they were together."""

    KEPT = VOCABULARY // 2

    def filler(self, rest: list[float]) -> float:
        return math.log(sum(map(math.exp, rest)) / len(rest))

    def change(self, row: list[float]) -> list[float]:
        ordered = sorted(row)
        least, filler = ordered[-self.KEPT], self.filler(ordered[: -self.KEPT])
        return [value if value >= least else filler for value in row]


class FillsTheTailWithItsBest(FillsTheTail):
    def filler(self, rest: list[float]) -> float:
        return rest[-1]


class FillsTheTailFarBelow(FillsTheTail):
    def filler(self, rest: list[float]) -> float:
        return rest[0] - 50


class FillsTheTailWithALargeNumber(FillsTheTail):
    def filler(self, rest: list[float]) -> float:
        return -1e9


class FillsTheTailWithTheLeastHalf(FillsTheTail):
    """The least float16, and for a tail of a few tokens."""

    KEPT = VOCABULARY - 3

    def filler(self, rest: list[float]) -> float:
        return -65504.0


class RoundsToBfloat16(Logits):
    """Honest: its values repeat because there are few of them."""

    def change(self, row: list[float]) -> list[float]:
        bits = (struct.unpack("<I", struct.pack("<f", value))[0] for value in row)
        return [struct.unpack("<f", struct.pack("<I", (one + 0x8000) & 0xFFFF0000))[0] for one in bits]


class HiddenTemperature(Logits):
    def change(self, row: list[float]) -> list[float]:
        return [value / 0.7 for value in row]


class DeclaresProcessing(Logits):
    declared = "temperature"


class FewerColumns(Logits):
    def change(self, row: list[float]) -> list[float]:
        return row[:-1]


class LinksToAnotherFile(Engine):
    """Hands over a file that is not its own."""

    def logits(self, request: Json) -> Json:
        reply = super().logits({**request, "out": "elsewhere"})
        Path(request["out"]).symlink_to(Path("elsewhere").resolve())
        return reply


class HandsOverAPipe(Engine):
    def logits(self, request: Json) -> Json:
        os.mkfifo(request["out"])
        return {"rows": request["count"], "vocabulary": VOCABULARY, "processing": "raw"}


class FloodsStdout(Engine):
    def decode(self, _: Json) -> Json:
        for _number in itertools.count():
            os.write(1, b"x" * 65536)
        raise AssertionError


class FloodsStderr(Engine):
    """Writes until the limit on files ends it."""

    def decode(self, _: Json) -> Json:
        for _number in itertools.count():
            os.lseek(2, 1 << 28, os.SEEK_CUR)
            os.write(2, b"x")
        raise AssertionError


class SpeaksFirst(Engine):
    def ping(self, request: Json) -> Json:
        os.write(1, json.dumps({"id": request["id"]}).encode() + b"\n")
        return {}


class AnswersSomethingElse(Engine):
    def ping(self, request: Json) -> Json:
        return {"id": request["id"] + 1}


class SaysNoJson(Engine):
    def ping(self, _: Json) -> Json:
        os.write(1, b"[" * 100_000 + b"\n")
        return {}


class SaysAList(Engine):
    def ping(self, _: Json) -> Json:
        os.write(1, b"[1]\n")
        return {}


class Dies(Engine):
    def decode(self, _: Json) -> Json:
        os.write(2, b"out of \x1b[31mmemory\n")
        os._exit(3)


class NeverStarts(Engine):
    def hello(self, _: Json) -> Json:
        os._exit(1)


class RefusesWithControlCharacters(Engine):
    def decode(self, _: Json) -> Json:
        return {"error": "\ud800 \x00 \x1b[2J no"}


class Hangs(Engine):
    def decode(self, _: Json) -> Json:
        threading.Event().wait()
        raise AssertionError


class ClosesItsOutput(Engine):
    def decode(self, _: Json) -> Json:
        os.close(1)
        threading.Event().wait()
        raise AssertionError


class HasAnUnprintableName(Engine):
    def hello(self, request: Json) -> Json:
        return {**super().hello(request), "name": "llama\n.cpp"}


class HasAnUnprintableVersion(Engine):
    def hello(self, request: Json) -> Json:
        return {**super().hello(request), "version": "\x1b[31mevil"}


class HasABlankVersion(Engine):
    def hello(self, request: Json) -> Json:
        return {**super().hello(request), "version": " "}


class HasAnotherVocabulary(Engine):
    def hello(self, request: Json) -> Json:
        return {**super().hello(request), "vocabulary": 32}


class TimesItselfInSeconds(Engine):
    def prefill(self, request: Json) -> Json:
        reply = super().prefill(request)
        return {**reply, "self_ns": reply["self_ns"] / 1e9}


class HasNegativeTimes(Engine):
    def prefill(self, request: Json) -> Json:
        return {**super().prefill(request), "self_ns": -1}


class RunsInterpretedKernels(Engine):
    def answer(self, request: Json) -> Json:
        if request["op"] == "kernels":
            return {"kernels": [{"op": "rms_norm", "executor": "interpreter", "calls": 7}]}
        return super().answer(request)


class NamesNoKernels(Engine):
    def answer(self, request: Json) -> Json:
        return {"kernels": [{"op": None}]} if request["op"] == "kernels" else super().answer(request)


class DiesOverKernels(Engine):
    def answer(self, request: Json) -> Json:
        if request["op"] == "kernels":
            os._exit(3)
        return super().answer(request)


class PutsOutATokenThatIsNone(Engine):
    """In the middle of a decode, where more stands behind it."""

    NONE = VOCABULARY

    def decode(self, request: Json) -> Json:
        reply = super().decode(request)
        ids = [*reply["ids"]]
        ids[len(ids) // 2] = self.NONE
        return {**reply, "ids": ids}


class PutsOutANegativeToken(PutsOutATokenThatIsNone):
    NONE = -1


class GoesOnWithAnEndlessToken(Engine):
    def prefill(self, request: Json) -> Json:
        return {**super().prefill(request), "next": 10**30}


class HasOneAcceleratorTwice(Engine):
    def memory_used(self, _: Json) -> Json:
        return {"accelerators": [{"rank": 0, "peak_bytes": 5}, {"rank": 0, "peak_bytes": 7}]}


class HasMoreAcceleratorsThanAReceiptHolds(Engine):
    def memory_used(self, _: Json) -> Json:
        return {"accelerators": [{"rank": rank, "peak_bytes": 5} for rank in range(65)]}


class UsesNegativeMemory(Engine):
    def memory_used(self, _: Json) -> Json:
        return {"accelerators": [{"rank": 0, "peak_bytes": -1}]}


if __name__ == "__main__":
    globals()[sys.argv[1]]().serve()
