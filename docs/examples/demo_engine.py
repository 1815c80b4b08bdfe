"""The whole way of a measurement on two cores: python demo_engine.py. ``make demo-engine`` is this.

A model with random weights is written, run, graded against llama.cpp, sealed with keys that are thrown away, verified,
scored and reconciled. Each command is shown and must end with the exit code that stands beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("A K3-shaped model with random weights.", "k3-ledger model synth model.gguf --preset tiny", (0,)),
    (
        "Timed from outside, its outputs and logits compared with llama.cpp on the same file.",
        "k3-ledger run --model model.gguf --node demo --out bundle --repetitions 3 --depth 4 --depth 64",
        (0,),
    ),
    ("Keys, a ledger, and the receipt.", "k3-ledger keygen root.pem log.pem runner.pem judge.pem", (0,)),
    (
        "",
        (
            "k3-ledger init speed --origin example.org/demo --key root.pem"
            " --enrol log=log.pub.pem --enrol runner=runner.pub.pem --enrol judge=judge.pub.pem"
        ),
        (0,),
    ),
    ("", "k3-ledger seal bundle --ledger speed --key runner.pem", (0,)),
    ("", "k3-ledger checkpoint --ledger speed --key log.pem", (0,)),
    ("Anybody can check all of it.", "k3-ledger verify speed --root-key root.pub.pem", (0,)),
    (
        "A rule over the history: this run is at another context than it scores, and it says so.",
        "k3-ledger rescore speed --rule v0.2.2",
        (0,),
    ),
    ("Pins against the newest measurements: there is no pin yet.", "k3-ledger reconcile speed", (0,)),
)


def main() -> int:
    """Run every step in a folder of its own; stop at the first that does not end as it must."""
    begin = time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with tempfile.TemporaryDirectory(prefix="k3-ledger-demo-") as folder:
        for number, (says, command, ends) in enumerate(STEPS, 1):
            if says:
                print(f"\n# {says}")
            print(f"[{number}/{len(STEPS)}] $ {command}", flush=True)
            status = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path}, check=False
            ).returncode
            if status not in ends:
                print(f"error: that ended with exit code {status} and must end with {ends[0]}", file=sys.stderr)
                return 1
    print(f"\ndone in {time.monotonic() - begin:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
