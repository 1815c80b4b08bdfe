"""What CI cannot run, on a machine with one NVIDIA GPU: ``make gpu-check``, or ``.ci/gpu_check.py --out FOLDER``.

Kernels compiled against their specification (float32 and bfloat16), whole runs of a tiny and of a real-width model
graded against llama.cpp on the CPU, and the time of every kernel. Each part has a time limit of its own and a failure
ends none of the others. In FOLDER stay a tar of every bundle, one log, and what every kernel took.

Runs on whatever Python it is started with, which needs torch, triton and the packages of this project; the network is
not used. Uses the standard library alone. Exit code 0: every part did what it must.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")
CLI = ("-m", "k3_ledger.cli")
LAST = 12
"""Lines of a part's output that are shown; the log has all of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to check.

    Attributes:
        name: what it is called, and the bundle that it writes.
        words: arguments of Python; ``{scratch}`` is a folder that is thrown away, ``{out}`` the one that stays.
        limit_s: seconds after which it is ended.
    """

    name: str
    words: tuple[str, ...]
    limit_s: int

    @property
    def bundle(self) -> bool:
        """Whether it measures."""
        return "run" in self.words


def parts(node: str, device: str, threads: int, longest: str, *, only_tiny: bool) -> list[Part]:
    """What is checked, in order; where there is no GPU, the same as far as it goes.

    Runs of one model share a round: the bit-identical path is its frontier, and the fast paths are held against it. A
    second round of each has recorded steps throughout, so that what is held against them is not paid for recording.
    """
    flags = ("--flag", f"device={device}", "--flag", f"threads={threads}", "--node", node)
    width = "tiny" if only_tiny else "real-slice"
    graded = ("--context", "64", "--depth", "4", "--depth", "64")
    tiny = (*CLI, "run", "--model", "synth:tiny", "--out", "{scratch}/tiny", *flags, *graded, "--depth", "128")
    # llama.cpp grades on the CPU, where a prompt of 256 tokens at K3's widths takes seconds: timed, and so looked at,
    # not for long. What the host takes for a token wanders, and the longer a decode is the less of that is left.
    lengths = ("--longest", longest, "--decode-tokens", "64")

    def write(preset: str) -> tuple[str, ...]:
        return (*CLI, "model", "synth", f"{{scratch}}/{preset}.gguf", "--preset", preset, "--no-measure")

    def sliced(name: str, preset: str, role: str, *own: str, of: str = "") -> Part:
        model = ("--model", f"{{scratch}}/{preset}.gguf", "--out", f"{{scratch}}/{name}")
        round_ = ("--role", role, "--round", f"{node}-{preset}{of}")
        words = [word for flag in own for word in ("--flag", flag)]
        return Part(name, (*CLI, "run", *model, *round_, *graded, *lengths, *flags, *words), 300)

    def recorded(*run: str, of: str = "") -> list[Part]:
        return [sliced(*run, of=of)] if device == "cuda" else []  # nothing else records a step

    spread = ("-p", "xdist", "-n", "8") if device == "cuda" and find_spec("xdist") else ()  # compiling is most of it
    half, fast, graph = "dtype=bfloat16", "deterministic=0", "graph=1"
    listed = [
        Part("kernels", ("-m", "pytest", "tests/kernels", "-q", "-p", "no:cacheprovider", *spread), 1800),
        Part("steps", ("-m", "pytest", "tests/engine/test_steps.py", "-q", "-p", "no:cacheprovider"), 120),
        Part("tiny", tiny, 120),
        Part("write", write(width), 120),
        sliced("slice", width, "frontier"),
        sliced("fast", width, "candidate", fast),
        *recorded("graph", width, "candidate", graph),
        *recorded("fast-graph", width, "candidate", fast, graph),
        *recorded("graph-first", width, "frontier", graph, of="-graph"),
        *recorded("graph-fast", width, "candidate", fast, graph, of="-graph"),
        Part("write-bf16", write(f"{width}-bf16"), 120),
        sliced("slice-bf16", f"{width}-bf16", "frontier", half),
        sliced("fast-bf16", f"{width}-bf16", "candidate", half, fast),
        sliced("fast-16-bf16", f"{width}-bf16", "candidate", half, fast, "chunk=16"),
        *recorded("graph-bf16", f"{width}-bf16", "candidate", half, graph),
        *recorded("fast-graph-bf16", f"{width}-bf16", "candidate", half, fast, graph),
        *recorded("graph-first-bf16", f"{width}-bf16", "frontier", half, graph, of="-graph"),
        *recorded("graph-fast-bf16", f"{width}-bf16", "candidate", half, fast, graph, of="-graph"),
        Part("times", ("-m", "benchmarks.kernels", "--out", "{out}/kernels.json"), 300),
    ]
    return [part for part in listed if device == "cuda" or part.name != "times"]


def run(part: Part, scratch: Path, out: Path, left_s: float) -> tuple[bool, float]:
    """Run one part in the time that is left; its output goes to the log, the end of that to the terminal."""
    words = [word.format(scratch=scratch, out=out) for word in part.words]
    paths = [str(ROOT / room) for room in ROOMS] + [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    compiled = {"TRITON_CACHE_DIR": str(scratch / "compiled")}  # one run's kernels are the next one's
    path = os.pathsep.join(filter(None, paths))
    environment = os.environ | compiled | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    begin = time.monotonic()
    print(f"\n== {part.name}", flush=True)
    log = scratch / f"{part.name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
        try:
            status = process.wait(max(1.0, min(part.limit_s, left_s)))
        except subprocess.TimeoutExpired:
            file.write(b"error: ended: it took too long\n")
            process.send_signal(signal.SIGINT)  # a run that is interrupted still writes its bundle
            status = process.wait() or 1
    text = log.read_text(errors="replace")
    with (out / "gpu-check.log").open("a", encoding="utf-8") as kept:
        kept.write(f"== {part.name}\n{text}\n")
    lines = text.splitlines()
    print("\n".join(lines[-LAST:] if part.name != "times" else lines), flush=True)
    if part.bundle and (scratch / part.name).is_dir():
        with tarfile.open(out / f"{part.name}.tar", "w") as tar:
            tar.add(scratch / part.name, arcname=part.name, filter=anonymous)
    return status == 0, time.monotonic() - begin


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member that says nothing of who wrote it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> int:
    """Run every part and say what each came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for what stays")
    parser.add_argument("--node", default="gpu", help="what you call this machine")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the same without a GPU")
    parser.add_argument("--threads", type=int, default=8, help="CPU threads of torch")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all of it")
    parser.add_argument("--longest", default="40", help="seconds of timing in each run of the real-width models")
    parser.add_argument("--only", default="", help="parts to run, separated by commas")
    parser.add_argument("--only-tiny", action="store_true", help="a tiny model in place of the real-width one")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    listed = parts(given.node, given.device, given.threads, given.longest, only_tiny=given.only_tiny)
    wanted = [part for part in listed if not given.only or part.name in given.only.split(",")]
    with tempfile.TemporaryDirectory(prefix="k3-ledger-gpu-", ignore_cleanup_errors=True) as folder:
        end = time.monotonic() + given.limit
        out = given.out.resolve()
        results = [(part.name, *run(part, Path(folder), out, end - time.monotonic())) for part in wanted]
    print("\npart           result   seconds")
    for name, ok, seconds in results:
        print(f"{name:<14} {'ok' if ok else 'FAILED':<6} {seconds:9.1f}")
    return 0 if all(ok for _, ok, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
