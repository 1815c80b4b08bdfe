"""Measures one small thing honestly and writes a measurement bundle: python measure.py FOLDER.

What is measured is how fast this Python hashes 1 MiB blocks with SHA-256. The bundle holds every repetition as it was
timed, the machine, the command, and this very file as the artifact that says what ran. ``k3-ledger seal`` takes it.
Any program in any language can do the same: a bundle is ``bundle.json`` in canonical JSON beside ``blobs/<sha256>``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k3_ledger.schemas import canonical

BLOCK = bytes(range(256)) * 4096
REPETITIONS = 8
BLOCKS_PER_REPETITION = 16
WARM_UP = 2


def samples() -> list[dict[str, int]]:
    """Timed repetitions: start and duration in nanoseconds of the monotonic clock, and how many bytes were hashed."""
    found = []
    origin = time.monotonic_ns()
    for repetition in range(WARM_UP + REPETITIONS):
        data = repetition.to_bytes(8, "big") + BLOCK[8:]  # new input every time
        start = time.monotonic_ns()
        for _ in range(BLOCKS_PER_REPETITION):
            hashlib.sha256(data).digest()
        duration = time.monotonic_ns() - start
        if repetition >= WARM_UP:
            count = BLOCKS_PER_REPETITION * len(data)
            found.append({"start_ns": start - origin, "duration_ns": duration, "count": count})
    return found


def body(source: bytes) -> dict[str, Any]:
    """The receipt-to-be, without the digest of the bundle."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(source).hexdigest()
    return {
        "artifacts": [{"name": "measure.py", "sha256": digest, "size": len(source), "media_type": "text/x-python"}],
        "expert_load": None,
        "flags": [],
        "machine": {
            "command": ["python", "measure.py"],
            "node": {
                "accelerators": [],
                "cpu": platform.processor() or platform.machine(),
                "kernel": platform.release(),
                "logical_cores": os.cpu_count() or 1,
                "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                "name": "example-node",
                "os": platform.system(),
            },
            "software": [{"name": "python", "version": platform.python_version()}],
            "started": started,
        },
        "memory": [],
        "model": None,
        "parity": None,
        "role": "candidate",
        "round": None,
        "subject": {"build_sha256": digest, "name": "hashlib", "source": None, "version": platform.python_version()},
        "tee": {"kind": "none", "report_data_sha256": None},
        "timing": [
            {
                "actor": "subject",
                "batch": 1,
                "cache": "none",
                "context": None,
                "context_filled": None,
                "inputs": "fresh",
                "metric": "sha256",
                "observer": "subject",
                "processes": 1,
                "samples": samples(),
                "unit": "byte",
                "warmup": WARM_UP,
            }
        ],
    }


def main() -> None:
    """Measure, and write the bundle into the folder named on the command line."""
    folder = Path(sys.argv[1])
    source = Path(__file__).read_bytes()
    blobs = folder / "blobs"
    blobs.mkdir(parents=True)
    (blobs / hashlib.sha256(source).hexdigest()).write_bytes(source)
    bundle: Any = {"schema": "k3-ledger/bundle/1", "kind": "run", "body": body(source)}
    (folder / "bundle.json").write_bytes(canonical.format(bundle))


if __name__ == "__main__":
    main()
