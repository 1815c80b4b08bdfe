"""This project's engine as a process that speaks the protocol: ``python -m k3_ledger.engine.runner.serve``.

It answers one request a line and does nothing between requests. On a GPU it waits for the device before it answers, so
a reply means that the work is done.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from k3_ledger.engine.fit import check_accelerator, states_served
from k3_ledger.engine.linear import Numerics, free_memory
from k3_ledger.engine.model import ExpertUse, Model, Options
from k3_ledger.engine.runner.flags import resolve_flags
from k3_ledger.engine.walk import graded_rows, timed_decode, timed_prefill
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from k3_ledger.engine.state import State
    from k3_ledger.engine.weights import Weights


class Server:
    """One model, one sequence.

    Args:
        weights: the opened model file.
        flags: values by name, see :mod:`k3_ledger.engine.runner.flags`.
        context: tokens of the longest sequence that is known to come.

    Raises:
        ModelError: MODEL_DOES_NOT_FIT: the accelerator has less free; nothing was loaded.
    """

    def __init__(self, weights: Weights, flags: Mapping[str, Any], context: int = 1) -> None:
        self._chunk: int = flags["chunk"]
        self._cuda = flags["device"] == "cuda"
        if self._cuda:
            sizes = {name: flags[name] for name in ("dtype", "packed", "chunk")}
            states = states_served(graph=flags["graph"])
            check_accelerator(weights, free_memory("cuda"), context=context, states=states, **sizes)
        numerics = Numerics(getattr(torch, flags["dtype"]), flags["deterministic"], flags["emulate"])
        options = Options(flags["device"], numerics, flags["backend"], flags["packed"], graph=flags["graph"])
        torch.set_num_threads(flags["threads"])
        self._model = Model(weights, options)
        if flags["core"] is not None:
            os.sched_setaffinity(0, {flags["core"]})
        self._state: State | None = None
        self._capacity = 0

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request.

        Raises:
            ValueError: the request is unknown or its fields do not fit.
        """
        operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "hello": self._hello,
            "ping": lambda _: {},
            "reset": self._reset,
            "prefill": self._prefill,
            "decode": self._decode,
            "logits": self._logits,
            "memory": self._memory,
            "spread": self._spread,
            "kernels": lambda _: {"kernels": self._model.runs.records()},
        }
        operation = operations.get(request["op"])
        if operation is None:
            raise ValueError(f"unknown operation {request['op']!r}")
        return operation(request)

    def _hello(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "protocol": 1,
            "name": "k3-ledger/engine",
            "version": __version__,
            "vocabulary": self._model.config.vocabulary,
        }

    def _reset(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._capacity = request["capacity"]
        self._state = self._model.new_state(self._capacity)
        self._finish()
        return {}

    def _prefill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        start = time.monotonic_ns()
        token, logprob = timed_prefill(self._model, request["ids"], self._ready(), self._chunk)
        return {"next": token, "logprob": logprob, "self_ns": time.monotonic_ns() - start}

    def _decode(self, request: Mapping[str, Any]) -> dict[str, Any]:
        start = time.monotonic_ns()
        ids, logprobs = timed_decode(self._model, request["token"], request["count"], self._ready())
        return {"ids": ids, "logprobs": logprobs, "self_ns": time.monotonic_ns() - start}

    def _logits(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Raw float32 logits after each of the last ``count`` ids, written to a file that the controller names."""
        ids, count, way = request["ids"], request["count"], request["way"]
        capacity = max(self._capacity, len(ids))
        rows = graded_rows(self._model, ids, count, way, chunk=self._chunk, capacity=capacity)
        Path(request["out"]).write_bytes(rows.float().cpu().numpy().astype("<f4").tobytes())
        return {"rows": count, "vocabulary": rows.shape[1], "processing": "raw"}

    def _memory(self, _: Mapping[str, Any]) -> dict[str, Any]:
        if not self._cuda:
            return {"accelerators": []}
        return {"accelerators": [{"rank": 0, "peak_bytes": torch.cuda.max_memory_reserved()}]}

    def _spread(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """How these ids spread over the experts, counted in a pass of its own that nothing times."""
        self._model.expert_use = ExpertUse()
        try:
            self._model.prefill(request["ids"], self._model.new_state(len(request["ids"])), self._chunk)
            return {"load": self._model.expert_use.record(self._model.config.experts).model_dump()}
        finally:
            self._model.expert_use = None

    def _ready(self) -> State:
        if self._state is None:
            raise ValueError("reset comes first")
        return self._state

    def _finish(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()


def serving(weights: Weights, flags: Mapping[str, Any], context: int) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What answers requests: a server, or where the model cannot be loaded what says so to every one."""
    try:
        return Server(weights, flags, context).answer
    except LedgerError as error:
        refused = error

    def refuse(_: Mapping[str, Any]) -> dict[str, Any]:
        raise refused

    return refuse


def main() -> None:
    """Read requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--context", default=1, type=int, help="tokens of the longest sequence that is known to come")
    parser.add_argument("flags", nargs="*", help="name=value")
    arguments = parser.parse_args()
    given = dict(flag.split("=", 1) for flag in arguments.flags)
    # Replies go to the pipe that was standard output; whatever else prints goes to standard error.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with open_weights(arguments.model) as weights, torch.inference_mode():
        answer = serving(weights, resolve_flags(given, {}).values, arguments.context)
        for line in sys.stdin.buffer:
            request = json.loads(line)
            try:
                reply = answer(request)
            except (ValueError, KeyError, LedgerError, RuntimeError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            reply["id"] = request["id"]
            replies.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
