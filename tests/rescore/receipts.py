"""Native receipts for tests: a candidate that every house gate passes, and a ledger of them."""

from __future__ import annotations

import hashlib
from typing import Any

from k3_ledger.verify.log import VerifiedLog, verify_log
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, RUNNER, Builder, run_body

SUITE = (4, 128, 256, 512, 1024, 2048, 4096)
SECOND = 10**9
UNITS = {"verify": "receipt", "append": "entry", "load": "start", "ping": "request"}
MODEL = {
    "name": "k3-slice", "architecture": "kimi-k3", "quant": "bf16", "sha256": "a" * 64, "size": 1, "synthetic": True,
}  # fmt: skip


def series(
    metric: str, observer: str, samples: list[tuple[int, float]], *, context: int, **more: Any
) -> dict[str, Any]:
    """A series of (count, seconds) repetitions, one after another."""
    start, rows = 0, []
    for count, seconds in samples:
        duration = int(seconds * SECOND)
        rows.append({"start_ns": start, "duration_ns": duration, "count": count})
        start += duration
    unit = UNITS.get(metric, "token")
    inputs = "fresh" if unit == "token" else "repeated"
    return {
        "metric": metric, "unit": unit, "actor": "subject", "observer": observer, "context": context,
        "context_filled": context, "batch": 1, "processes": 1, "warmup": 1, "inputs": inputs, "cache": "none",
        "samples": rows, **more,
    }  # fmt: skip


def timed(metric: str, speed: float, *, context: int, load: float = 20.0, jitter: float = 0.5) -> list[dict[str, Any]]:
    """What the program says and what another process saw: three runs of each of two lengths, 2,048 tokens apart.

    Prefill's context is the tokens it does, with nothing in front; decode's the tokens in front of it.
    """
    loads = [load, load + jitter, load + jitter / 2]
    count, shorter, context = (context, context, 0) if metric == "prefill" else (2048, 32, context)
    claim = [(count, count / speed)] * 3
    outside = [(length, length / speed + extra) for length in (shorter, shorter + 2048) for extra in loads]
    return [series(metric, "subject", claim, context=context), series(metric, "controller", outside, context=context)]


def parity(kl: str = "0.004", **more: Any) -> dict[str, Any]:
    depths = [
        {
            "depth": depth, "rows": 32, "kl_max": kl, "kl_mean": kl, "top1_agree": 32, "ties": 0, "near_ties": 0,
            "max_abs_logprob_difference": "0.01",
        }
        for depth in SUITE
    ]  # fmt: skip
    return {
        "reference": {"name": "llama.cpp", "version": "b1", "independent": True}, "prompt_sha256": "b" * 64,
        "vocabulary": 32, "path": "both", "chunk": None, "processing": "raw", "tie_rule": "lowest-id",
        "near_tie_bound": "0.001", "depths": depths, **more,
    }  # fmt: skip


def receipt(
    decode: float = 60.0, prefill: float = 500.0, *, role: str = "candidate", round_: str | None = "r1", **more: Any
) -> dict[str, Any]:
    """A run of both metrics."""
    timing = timed("decode", decode, context=131_072) + timed("prefill", prefill, context=32_768, jitter=0.05)
    body = run_body(0, role=role, model=MODEL, timing=timing, parity=parity(), round=round_)
    body["bundle"] = hashlib.sha256(repr((decode, prefill, role, round_)).encode()).hexdigest()
    return body | more


def pin_body(slot: str, value: str, source: str) -> dict[str, Any]:
    return {"slot": slot, "value": value, "unit": "tok/s", "source": source, "commit": None}


DECODE = "decode@131072/k3-slice/bf16/node"
PREFILL = "prefill@32768/k3-slice/bf16/node"


def verified(builder: Builder) -> VerifiedLog:
    return verify_log(MemorySource(builder.data, checkpoint=builder.head()))


def house_ledger() -> tuple[Builder, dict[str, str]]:
    """A round: the other engine, the frontier build, two reconciled guards, and one candidate."""
    builder = Builder().open()
    names = {"reference": builder.add("run", receipt(40.0, 300.0, role="reference"), RUNNER)}
    names["frontier"] = builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    for track, value in ((DECODE, "50"), (PREFILL, "450")):
        names[track] = builder.add("pin", pin_body(f"frontier:{track}", value, names["frontier"]), JUDGE)
    names["candidate"] = builder.add("run", receipt(60.0, 500.0), RUNNER)
    return builder, names
