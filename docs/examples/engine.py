"""The smallest engine that `k3-ledger run --engine command` can measure. Its model is a toy; the rest is the contract.

One JSON object a line comes in, one goes out, and every answer repeats the `id` of its request. Everything that is
timed is finished before it is answered. Nothing is printed that nobody asked for.
"""

from __future__ import annotations

import array
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

VOCABULARY = 64


class Engine:
    """One sequence of a toy model: the memory is one number, and every token stirs it."""

    rounds = 1000
    """How much work a token is."""

    def __init__(self) -> None:
        self.memory = 1

    def step(self, token: int) -> list[float]:
        """Take one token and return the logits of the next."""
        for _ in range(self.rounds):
            self.memory = (self.memory * 6364136223846793005 + token + 1) % (2**61 - 1)
        draw = random.Random(self.memory)  # noqa: S311 (weights of a toy)
        return [draw.gauss(0, 3) for _ in range(VOCABULARY)]

    def choose(self, logits: list[float]) -> tuple[int, float]:
        """Id and log-probability of the most probable token; of equal ones the lowest id."""
        best = max(logits)
        return logits.index(best), -math.log(sum(math.exp(value - best) for value in logits))

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say who answers."""
        return {"protocol": request["protocol"], "name": "toy", "version": "1", "vocabulary": VOCABULARY}

    def ping(self, _: dict[str, Any]) -> dict[str, Any]:
        """Do nothing, at once."""
        return {}

    def reset(self, _: dict[str, Any]) -> dict[str, Any]:
        """Forget the sequence."""
        self.memory = 1
        return {}

    def prefill(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take a prompt; say what would come next, but do not take that."""
        start = time.monotonic_ns()
        token, logprob = self.choose([self.step(token) for token in request["ids"]][-1])
        return {"next": token, "logprob": logprob, "self_ns": time.monotonic_ns() - start}

    def decode(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take the token that is given, then feed back what was chosen."""
        start, token, chosen = time.monotonic_ns(), request["token"], []
        for _ in range(request["count"]):
            chosen.append(self.choose(self.step(token)))
            token = chosen[-1][0]
        ids, logprobs = zip(*chosen, strict=True)
        return {"ids": ids, "logprobs": logprobs, "self_ns": time.monotonic_ns() - start}

    def logits(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write raw float32 logits after each of the last `count` ids to the file that is named."""
        self.memory = 1
        rows = [self.step(token) for token in request["ids"]][-request["count"] :]
        values = array.array("f", [value for row in rows for value in row])
        Path(request["out"]).write_bytes(values.tobytes())
        return {"rows": len(rows), "vocabulary": VOCABULARY, "processing": "raw"}

    def memory_used(self, _: dict[str, Any]) -> dict[str, Any]:
        """Peak bytes of each accelerator; there is none."""
        return {"accelerators": []}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; what this engine cannot do, it says."""
        operations = {"memory": self.memory_used} | {
            name: getattr(self, name) for name in ("hello", "ping", "reset", "prefill", "decode", "logits")
        }
        operation = operations.get(request["op"])
        return {"error": f"no {request['op']} here"} if operation is None else operation(request)

    def serve(self) -> None:
        """Answer until standard input ends."""
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps({"id": request["id"], **self.answer(request)}), flush=True)


if __name__ == "__main__":
    Engine().serve()
