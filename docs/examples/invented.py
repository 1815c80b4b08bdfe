"""Writes a bundle of invented figures, to show what rules read: python invented.py FOLDER ROLE DECODE PREFILL [X].

ROLE is candidate, frontier or reference; DECODE and PREFILL are tokens a second; the digest of the weights is the digit
X over and over, 0 unless another file is meant under the same name. Nothing is measured here: times are made up of the
speeds, with the shape a real run has. The program times itself (observer ``subject``) and another process times whole
runs of two lengths around it (observer ``controller``), so that a rule can hold one against the other; agreement is
graded depth by depth. The weights are marked synthetic.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from k3_ledger.schemas import canonical

SECOND = 10**9
LOADS = (20.0, 20.4, 20.2)  # seconds to load the model, in three runs
SHORT, LONG = 32, 2080  # tokens of the runs that the clock compares
DEPTHS = (4, 128, 256, 512, 1024, 2048, 4096)


def series(metric: str, observer: str, context: int, samples: list[tuple[int, float]]) -> dict[str, Any]:
    """One series of (count, seconds), one after another."""
    start, rows = 0, []
    for count, seconds in samples:
        rows.append({"count": count, "duration_ns": round(seconds * SECOND), "start_ns": start})
        start += rows[-1]["duration_ns"]
    return {
        "actor": "subject",
        "batch": 1,
        "cache": "none",
        "context": context,
        "context_filled": context,
        "inputs": "fresh",
        "metric": metric,
        "observer": observer,
        "processes": 1,
        "samples": rows,
        "unit": "token",
        "warmup": 1,
    }


def timing(metric: str, context: int, speed: float) -> list[dict[str, Any]]:
    """What the program says of itself, and what another process saw of runs of two lengths.

    Decode's context stands in front of it; prefill's is the tokens that it does, with nothing in front.
    """
    decode = metric == "decode"
    count, shorter, front = (2048, SHORT, context) if decode else (context, context, 0)
    shrink = 1 if decode else 20  # loads differ less where everything is faster
    lengths = (shorter, shorter + LONG - SHORT)
    outside = [(length, length / speed + 20 + (load - 20) / shrink) for length in lengths for load in LOADS]
    return [
        series(metric, "subject", front, [(count, count / speed)] * 3),
        series(metric, "controller", front, outside),
    ]


def body(role: str, decode: float, prefill: float, digit: str = "0") -> dict[str, Any]:
    """The receipt-to-be."""
    depth = {
        "kl_max": "0.004",
        "kl_mean": "0.001",
        "max_abs_logprob_difference": "0.02",
        "near_ties": 0,
        "rows": 32,
        "ties": 0,
        "top1_agree": 32,
    }
    name = "another-engine" if role == "reference" else "invented-engine"
    digest = hashlib.sha256(f"{name} {decode} {prefill}".encode()).hexdigest()
    return {
        "artifacts": [],
        "expert_load": None,
        "flags": [],
        "machine": {
            "command": [name, "--bench"],
            "node": {
                "accelerators": [],
                "cpu": "invented",
                "kernel": "0",
                "logical_cores": 1,
                "memory_bytes": 1 << 40,
                "name": "node",
                "os": "Linux",
            },
            "software": [],
            "started": "2026-01-01T00:00:00Z",
        },
        "memory": [],
        "model": {
            "architecture": "kimi-k3",
            "name": "slice",
            "quant": "bf16",
            "sha256": digit * 64,
            "size": 1,
            "synthetic": True,
        },
        "parity": {
            "chunk": None,
            "depths": [{"depth": tokens, **depth} for tokens in DEPTHS],
            "near_tie_bound": "0.001",
            "path": "both",
            "processing": "raw",
            "prompt_sha256": "0" * 64,
            "reference": {"independent": True, "name": "another-engine", "version": "1"},
            "tie_rule": "lowest-id",
            "vocabulary": 163_840,
        },
        "role": role,
        "round": "round-1",
        "subject": {"build_sha256": digest, "name": name, "source": None, "version": "1"},
        "tee": {"kind": "none", "report_data_sha256": None},
        "timing": timing("decode", 131_072, decode) + timing("prefill", 32_768, prefill),
    }


def main() -> None:
    """Write the bundle into the folder named on the command line."""
    folder, role, decode, prefill = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    (folder / "blobs").mkdir(parents=True)
    bundle: Any = {"schema": "k3-ledger/bundle/1", "kind": "run", "body": body(role, decode, prefill, *sys.argv[5:])}
    (folder / "bundle.json").write_bytes(canonical.format(bundle))


if __name__ == "__main__":
    main()
