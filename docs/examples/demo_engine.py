"""The whole way of a measurement on two cores: python demo_engine.py. ``make demo-engine`` is this.

A model with random weights is written and run five times: prefilled in chunks of 16 tokens, which is the frontier, and
between two and two such runs in chunks of 64, which is a change that fills a prompt twice as fast. Each run is graded
against llama.cpp, and sealed with keys that are thrown away, the change behind the four frontier runs: a gain has to be
more than what these differ by, and worth ten times the jitter of the change's own times. Where a busy machine made that
too large, the change is measured once more, and where the last run of the frontier was a tenth slower than the fastest,
so is that: noise alone decides it, never a gain, and all of them are sealed. Each command is shown and must end with
the exit code that stands beside it; at the end the change is judged, and its tiers are shown with their reasons.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = "k3-ledger run --model model.gguf --node demo --round demo --context 64 --depth 4 --depth 64"
TRIES = 2


def again(bundle: str, run: str) -> str:
    """A second try where the machine was too busy for the first: a run whose times say nothing is refused."""
    return f"{run} || {{ mv {bundle} {bundle}-refused; {run}; }}"


HOUSE = (
    "for metric in decode prefill; do k3-ledger rules show house-7.$metric --toml |"
    """ sed -e '/^name/s/house-7/demo/' -e '/^scope.context/s/".*"/"64"/' -e '/^guard.context/s/".*"/"64"/'"""
    """ -e '/^correctness.depths/s/".*"/"4, 64"/'"""
    """ -e '/^guard.least/s/".*"/"0.5"/' >$metric.toml; k3-ledger rules show $metric.toml --json |"""
    " python $EXAMPLES/bodies.py rule | k3-ledger append rule --body - --ledger speed --key judge.pem; done"
)
PINS = (
    "for role in frontier guard; do for metric in decode prefill; do"
    " k3-ledger frontier speed --metric $metric --json | python $EXAMPLES/bodies.py pin $role |"
    " k3-ledger append pin --body - --ledger speed --key judge.pem; done; done"
)
SCORE = (
    "for metric in decode prefill; do"
    " k3-ledger rescore speed --rule $metric.toml --metric $metric --all --seal judge.pem; done"
)
VERDICTS = 'test $(k3-ledger ls --ledger speed --kind verdict --json | grep -c \'"kind": "verdict"\') -ge 2'
SEAL = "k3-ledger seal {} --ledger speed --key runner.pem"
SHORT = "K3L-RUN-SHORT-MARGIN"
"""The run is sound, and its times do not stand out of their jitter: no rule gives it a tier."""


def measure(bundle: str, role: str, chunk: int, seconds: int) -> str:
    """One run, which grows its lengths for so many seconds where the machine is noisy."""
    flags = f"--flag deterministic=0 --flag chunk={chunk}"
    return f"{RUN} --longest {seconds} --out {bundle} --role {role} {flags}"


def frontier(number: int) -> str:
    """One run of the frontier, and its receipt. No margin is asked of it: what four of them differ by is its noise."""
    bundle = f"main-{number}"
    return f"{{ {again(bundle, measure(bundle, 'frontier', 16, 2))}; }} && {SEAL.format(bundle)}"


def change() -> str:
    """Runs of the change, until the times of one stand out of their jitter. The last one has the lowest number."""
    numbers = " ".join(map(str, range(TRIES, 0, -1)))
    run = f"{measure('change-$try', 'candidate', 64, 8)} --repetitions 15 2>said; status=$?; cat said >&2"
    noisy = f"[ $status -ne 0 ] || grep -q {SHORT} said || break"
    return f"for try in {numbers}; do {run}; {noisy}; done; [ $status -le 1 ]"


Step = tuple[str, str, tuple[int, ...]]
STEPS: tuple[Step, ...] = (
    ("A K3-shaped model with random weights.", "k3-ledger model synth model.gguf --preset tiny --layers 2", (0,)),
    ("Keys and a ledger.", "k3-ledger keygen root.pem log.pem runner.pem judge.pem", (0,)),
    (
        "",
        (
            "k3-ledger init speed --origin example.org/demo --key root.pem"
            " --enrol log=log.pub.pem --enrol runner=runner.pub.pem --enrol judge=judge.pub.pem"
        ),
        (0,),
    ),
    (
        "What is to be beaten: timed from outside, outputs and logits compared with llama.cpp on the same file.",
        frontier(1),
        (0,),
    ),
    (
        "The rules of this project, for 64 tokens, with a guard that the noise of a busy machine does not trip.",
        HOUSE,
        (0,),
    ),
    ("The frontier once more: what two runs of it differ by is no gain.", frontier(2), (0,)),
    (
        "Between its runs a change: chunks of 64 tokens. Prefill gains by it; decode has no chunks.",
        change(),
        (0,),
    ),
    (
        "And twice more the frontier, so that whatever the machine does meanwhile shows in its own runs.",
        frontier(3),
        (0,),
    ),
    ("", frontier(4), (0,)),
    (
        "The fastest of them becomes what others are held against, and what may not be lost.",
        PINS,
        (0,),
    ),
    (
        "Where the last of them was slower by a tenth, the machine is not what it was: the frontier is measured again.",
        f"k3-ledger reconcile speed >/dev/null 2>&1 || {{ {frontier(5)}; }}",
        (0,),
    ),
    (
        "The change is sealed behind them: it is held against the runs that stand in front of it. The last try first.",
        SEAL.format("change-?"),
        (0,),
    ),
    (
        (
            "The change judged, exactly, with the reason. It has to gain more than the four frontier runs differ by:"
            "\n# prefill does, where the machine let one of two tries stand out of its jitter; decode has no chunks."
        ),
        SCORE,
        (0,),
    ),
    ("", VERDICTS, (0,)),
    ("", "k3-ledger checkpoint --ledger speed --key log.pem", (0,)),
    ("Anybody can check all of it.", "k3-ledger verify speed --root-key root.pub.pem", (0,)),
    (
        (
            "Pins against the newest measurements. Where a machine was busy meanwhile they differ by over a tenth,"
            "\n# and that is an alarm, as it has to be: nobody else can tell a slow minute from a slow program."
        ),
        "k3-ledger reconcile speed",
        (0, 1),
    ),
)
WIDTH = 40


def main() -> int:
    """Run every step in a folder of its own; stop at the first that does not end as it must."""
    begin = time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = os.environ | {"PATH": path, "EXAMPLES": str(HERE)}
    with tempfile.TemporaryDirectory(prefix="k3-ledger-demo-") as folder:
        for number, (says, command, ends) in enumerate(STEPS, 1):
            if says:
                print(f"\n# {says}")
            print(f"[{number}/{len(STEPS)}] $ {command}", flush=True)
            status = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, check=False
            ).returncode
            if status not in ends:
                print(f"error: that ended with exit code {status} and must end with {ends[0]}", file=sys.stderr)
                return 1
            bar(number, time.monotonic() - begin)
    print(f"\ndone in {time.monotonic() - begin:.0f} seconds")
    return 0


def bar(number: int, seconds: float) -> None:
    """How far it is, on a terminal alone."""
    if sys.stderr.isatty():
        full = WIDTH * number // len(STEPS)
        print(f"[{'#' * full}{'.' * (WIDTH - full)}] {seconds:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
