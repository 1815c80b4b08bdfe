"""What the benchmarks share: timed samples, the table they print, and the bundle they leave.

A benchmark alternates what it measures with the floor it is compared with, in one run, and keeps every repetition.
Ratios are printed from the medians and pair by pair; nothing here judges.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

import k3_ledger
from k3_ledger.engine.bundle import describe_artifact, write_bundle
from k3_ledger.engine.machine import probe_machine
from k3_ledger.engine.provenance import PATCH, probe_source, sources_in
from k3_ledger.schemas.measurement import RankMemory, RunMeasurement, Sample, Series, Subject, Tee
from k3_ledger.schemas.values import Name
from k3_ledger.schemas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

TREE = Path(__file__).resolve().parent.parent
SOFTWARE = ["k3-ledger", "pynacl", "msgspec", "pydantic", "cryptography", "typer"]


@dataclass
class Recorder:
    """Repetitions of several actors on one monotonic clock that starts with the run.

    Attributes:
        metric: what is done, such as ``verify``.
        unit: what a sample counts.
        warmup: repetitions of each actor that are run and not recorded.
    """

    metric: str
    unit: str
    warmup: int = 1
    origin: int = field(default_factory=time.monotonic_ns)
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    processes: dict[tuple[str, str], int] = field(default_factory=dict)

    def record(
        self, actor: str, count: int, work: Callable[[], object], *, observer: str = "subject", processes: int = 1
    ) -> None:
        """Run one repetition and keep its time, unless it is a warm-up.

        Args:
            actor: ``subject``, ``floor`` or a peer's name.
            count: units done in it.
            work: what is timed, from call to return.
            observer: ``controller`` when the work is another process, ``subject`` when it is this one.
            processes: how many processes do the work.
        """
        start = time.monotonic_ns()
        work()
        self.add(actor, count, start, time.monotonic_ns() - start, observer=observer, processes=processes)

    def add(self, actor: str, count: int, start: int, duration: int, *, observer: str, processes: int) -> None:
        """Keep one repetition that was timed elsewhere on the same clock; ``start`` is its absolute reading."""
        key = (actor, observer)
        kept = self.samples.setdefault(key, [])
        self.processes[key] = processes
        sample = Sample(start_ns=start - self.origin, duration_ns=duration, count=count)
        kept.append(sample)

    def series(self) -> tuple[Series, ...]:
        """Everything but the warm-up, as the bundle carries it."""
        return tuple(
            Series(
                metric=self.metric,
                unit=self.unit,
                actor=actor,
                observer=observer,
                context=None,
                context_filled=None,
                batch=1,
                processes=self.processes[actor, observer],
                warmup=self.warmup,
                inputs="repeated",
                cache="none",
                samples=tuple(samples[self.warmup :]),
            )
            for (actor, observer), samples in self.samples.items()
        )

    def table(self) -> str:
        """Median time per unit of every actor, and the ratio to the floor pair by pair."""
        per_unit = {
            key: [sample.duration_ns / sample.count for sample in samples[self.warmup :]]
            for key, samples in self.samples.items()
        }
        floors = next((times for (actor, _), times in per_unit.items() if actor == "floor"), None)
        lines = []
        for (actor, observer), times in per_unit.items():
            text = f"{self.metric:14} {actor:10} {observer:11} {statistics.median(times) / 1000:12.2f} us/{self.unit}"
            if floors is not None and actor != "floor":
                ratios = [a / b for a, b in zip(times, floors, strict=True)]
                text += f"  {statistics.median(ratios):7.3f} x floor ({min(ratios):.3f} to {max(ratios):.3f})"
            lines.append(text)
        return "\n".join(lines)


def running_sources(running: list[Path]) -> list[Path]:
    """The folders of the rooms in this tree where what is installed is those files to the last byte, else where it is.

    Args:
        running: folders of the package, as they are imported.
    """
    rooms = sorted(path for path in TREE.glob("*/k3_ledger") if path.is_dir())
    return rooms if _files(running) == _files(rooms) else running


def _files(folders: list[Path]) -> list[tuple[Path, bytes]]:
    """Every one: a file that two folders have stands twice, for which of them runs is another question."""
    return sorted((path.relative_to(folder), data) for folder in folders for path, data in sources_in(folder).items())


def finish(
    recorders: list[Recorder], subject: str, options: argparse.Namespace, *, peak_bytes: int | None = None
) -> None:
    """Print the tables; with ``--bundle`` also write a measurement bundle that holds this script as an artifact.

    Args:
        recorders: what was timed.
        subject: what to call the program.
        options: of the command line.
        peak_bytes: peak memory of the subject's largest process, where it was measured.
    """
    for recorder in recorders:
        print(recorder.table())
    if options.bundle is None:
        return
    script = Path(sys.argv[0]).resolve()
    files = {path.name: path.read_bytes() for path in (script, Path(__file__).resolve())}
    source, patch = options.source
    if patch:
        files[PATCH] = patch
        print(f"kept in the bundle: {PATCH}, {len(patch)} bytes", file=sys.stderr)
    folders = {str(value): f"{{{name}}}" for name, value in vars(options).items() if isinstance(value, Path)}
    words = [folders.get(word, word) for word in sys.argv[1:]]  # no folder of this machine
    command = ["python", str(script.relative_to(TREE)), *words]
    measurement = RunMeasurement(
        role="candidate",
        subject=Subject(name=subject, version=__version__, source=source, build_sha256=None),
        model=None,
        machine=probe_machine(options.node, command, SOFTWARE),
        round=None,
        artifacts=tuple(describe_artifact(name, data, "text/plain") for name, data in files.items()),
        timing=tuple(series for recorder in recorders for series in recorder.series()),
        parity=None,
        memory=() if peak_bytes is None else (RankMemory(rank=0, peak_bytes=peak_bytes, device="host"),),
        flags=(),
        expert_load=None,
        tee=Tee(kind="none", report_data_sha256=None),
    )
    blobs = {hashlib.sha256(data).hexdigest(): data for data in files.values()}
    print(f"bundle {write_bundle(options.bundle, measurement, blobs)} in {options.bundle}")


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with the options that every benchmark has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=7, help="repetitions of each actor, one warm-up not counted")
    made.add_argument("--bundle", type=_new_folder, help="also write a measurement bundle into this new folder")
    made.add_argument("--node", type=_node, default="local", help="what to call this machine in the bundle")
    running = running_sources([*map(Path, k3_ledger.__path__)])
    made.set_defaults(
        source=probe_source([TREE / "benchmarks", *running])
    )  # whoever edits meanwhile changes no receipt
    return made


def _node(text: str) -> str:
    """A name that a bundle takes: asked before anything is measured, which may take minutes."""
    try:
        return TypeAdapter(Name).validate_python(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a machine: {error.errors()[0]['msg']}") from None


def _new_folder(text: str) -> Path:
    """A folder that is not there yet, in one that is."""
    folder = Path(text)
    if folder.exists() or not folder.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is to be a new folder in one that is there")
    return folder
