"""Runs a measurement from start to bundle. A run that does not finish leaves a bundle of kind ``failed``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import k3_ledger.engine
import k3_ledger.kernels
from k3_ledger.engine.bundle import describe_artifact, write_bundle
from k3_ledger.engine.grading import reference_for
from k3_ledger.engine.machine import probe_machine, probe_source
from k3_ledger.engine.parity.suite import Suite, grade
from k3_ledger.engine.runner.channel import Channel, python_command
from k3_ledger.engine.runner.checks import check_observations
from k3_ledger.engine.runner.flags import resolve_flags
from k3_ledger.engine.runner.measure import Metric, Observations, Plan, Timed, observe
from k3_ledger.engine.runner.outputs import check_outputs
from k3_ledger.engine.runner.sources import ProcessSource
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.errors import LedgerError, RunError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.measurement import (
    ExpertLoad,
    FailedMeasurement,
    Flag,
    RankMemory,
    RunMeasurement,
    Sample,
    Series,
    Subject,
    Tee,
    WeightsRef,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from k3_ledger.engine.parity.suite import Graded
    from k3_ledger.engine.weights import Weights

SOFTWARE = ["k3-ledger", "torch", "triton", "numpy", "gguf", "xllamacpp"]
SPREAD_TOKENS = 512
_OBSERVERS: Final[tuple[Literal["controller", "subject"], ...]] = ("controller", "subject")


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        model: the model file.
        model_name: what to call it in the receipt.
        out: folder for the bundle; must not exist.
        node: what the operator calls this machine.
        engine: words of the command of an external engine, or empty for this project's.
        flags: given flags of this project's engine, as text by name.
        plan: how much to measure.
        depths: context lengths at which parity is graded.
        rows: positions graded at each.
        own_reference: grade against this project's float64 instead of llama.cpp; such a receipt earns no tier.
        role: role of the receipt.
        command: the command line that asked for this, for the record.
        timeout_s: longest wait for one answer, in seconds.
    """

    model: Path
    model_name: str
    out: Path
    node: str
    engine: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    depths: tuple[int, ...] = (4, 16, 64, 128)
    rows: int = 4
    own_reference: bool = False
    role: Literal["candidate", "frontier", "reference"] = "candidate"
    command: tuple[str, ...] = ("k3-ledger", "run")
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        bundle: the bundle's id.
        kind: ``run`` or ``failed``.
        findings: why it failed, or what must be said about it.
    """

    bundle: str
    kind: Literal["run", "failed"]
    findings: tuple[Finding, ...]


def run(request: Request, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Measure, grade, check, and write the bundle.

    Raises:
        FileExistsError: the bundle's folder is there already.
        RunError: RUN_FLAG, before anything was started: nothing ran, so there is nothing to keep.
        ModelError: the model file cannot be used; nothing ran.
    """
    if request.out.exists():
        raise FileExistsError(request.out)
    resolved = resolve_flags(request.flags, os.environ)
    started = _Started(request, resolved.record)
    with tempfile.TemporaryDirectory() as scratch, open_weights(request.model) as weights:
        started.describe(weights)
        command = list(request.engine) or python_command(
            "k3_ledger.engine.runner.serve", "--model", str(request.model.resolve()), *resolved.arguments()
        )
        try:
            findings = started.measure(command, weights, Path(scratch), progress)
        except LedgerError as error:
            findings = [error.finding]
        except Exception as error:  # whatever went wrong, the attempt is kept and counted
            started.fail(Finding(Code.RUN_ENGINE_FAILED, f"the runner failed: {type(error).__name__}: {error}"))
            raise
        refused = [finding for finding in findings if finding.code.info.exit]
        if refused:
            return started.fail(*findings)
        return started.succeed(findings)


class _Started:
    """A run in progress: what is known so far, so that it can be written down whenever it ends."""

    def __init__(self, request: Request, flags: tuple[Flag, ...]) -> None:
        self.request = request
        self.flags = flags
        self.stage = "start"
        self.origin = time.monotonic_ns()
        self.machine = probe_machine(request.node, list(request.command), SOFTWARE)
        self.subject = Subject(name="unknown-engine", version="unknown", source=None, build_sha256=None)
        self.model: WeightsRef | None = None
        self.files: dict[str, tuple[bytes, str]] = {}
        self.found: Observations | None = None
        self.graded: Graded | None = None
        self.memory: tuple[RankMemory, ...] = ()
        self.load: ExpertLoad | None = None
        self.exit_status: int | None = None

    def describe(self, weights: Weights) -> None:
        """The model, by its file's digest."""
        self.stage = "weights"
        size = sum(path.stat().st_size for path in weights.file.paths)
        self.model = WeightsRef(
            name=self.request.model_name,
            architecture="kimi-k3",
            quant=weights.quant,
            sha256=weights.digest(),
            size=size,
            synthetic=weights.synthetic,
        )

    def measure(
        self, command: Sequence[str], weights: Weights, scratch: Path, progress: Callable[[str], None]
    ) -> list[Finding]:
        """Time, check and grade one engine process; returns findings."""
        request = self.request
        home = scratch / "engine"
        home.mkdir()
        self._note_accelerators("before")
        progress("starting the engine")
        self.stage = "load"
        begin = time.monotonic_ns()
        with Channel(command, home, environment={}, timeout_s=request.timeout_s) as channel:
            try:
                hello = channel.ask("hello", protocol=1)
                load_ns = hello.start_ns + hello.duration_ns - begin
                name, version, vocabulary = self._introduce(hello.data, weights)
                usable = weights.tokenizer().ordinary()
                self.stage = "timing"
                self.found = observe(channel, request.plan, usable, load_ns=load_ns, progress=progress)
                self._note_memory(channel)
                self._note_spread(channel, usable)
                findings = list(check_observations(self.found, request.plan))
                self.stage = "parity"
                progress("parity")
                context = max(*request.depths, self._longest())
                reference = reference_for(weights, request.model, context, own=request.own_reference)
                source = ProcessSource(channel, name, version, vocabulary, home)
                suite = Suite(depths=request.depths, rows=request.rows, seed=self.found.seed)
                chunk = next((int(flag.value) for flag in self.flags if flag.name == "chunk"), None)
                self.graded = grade(
                    source, reference, suite, usable, chunk=None if request.engine else chunk, progress=progress
                )
                findings += self.graded.findings
                self.stage = "outputs"
                progress("outputs of timed runs")
                findings += check_outputs(self.found.timed, reference)
            finally:
                self.exit_status = channel.exit_status
                self.files["stderr.txt"] = (channel.stderr(), "text/plain")
        self._note_accelerators("after")
        self.stage = "done"
        return findings

    def succeed(self, findings: list[Finding]) -> Outcome:
        """Write a bundle of kind ``run``."""
        assert self.found is not None
        assert self.graded is not None
        measurement = RunMeasurement(
            **self._common(),
            timing=tuple(_series(self.found, self.origin, self.request.plan)),
            parity=self.graded.record,
            memory=self.memory,
            flags=self.flags + _plan_flags(self.found, self.request.plan),
            expert_load=self.load,
            tee=Tee(kind="none", report_data_sha256=None),
        )
        return Outcome(write_bundle(self.request.out, measurement, self._blobs()), "run", tuple(findings))

    def fail(self, *findings: Finding) -> Outcome:
        """Write a bundle of kind ``failed``."""
        reason = "; ".join(f"{finding.code.id} {finding.position}: {finding.message}" for finding in findings)
        self.files["findings.json"] = (
            json.dumps([finding.as_dict() for finding in findings], indent=1).encode(),
            "application/json",
        )
        measurement = FailedMeasurement(
            **self._common(), stage=self.stage, reason=reason[:4096], exit_status=self.exit_status
        )
        return Outcome(write_bundle(self.request.out, measurement, self._blobs()), "failed", findings)

    def _common(self) -> dict[str, Any]:
        if self.found is not None:
            self.files["observations.json"] = (
                json.dumps(dataclasses.asdict(self.found), separators=(",", ":")).encode(),
                "application/json",
            )
        artifacts = tuple(describe_artifact(name, data, media) for name, (data, media) in sorted(self.files.items()))
        return {
            "role": self.request.role,
            "subject": self.subject,
            "model": self.model,
            "machine": self.machine,
            "round": None,
            "artifacts": artifacts,
        }

    def _blobs(self) -> dict[str, bytes]:
        return {hashlib.sha256(data).hexdigest(): data for data, _ in self.files.values()}

    def _introduce(self, hello: Mapping[str, Any], weights: Weights) -> tuple[str, str, int]:
        """Take the engine's word for its name and version, not for anything that can be checked."""
        name, version, vocabulary = hello.get("name"), hello.get("version"), hello.get("vocabulary")
        if not isinstance(name, str) or not isinstance(version, str) or vocabulary != weights.config.vocabulary:
            raise RunError(
                Code.RUN_PROTOCOL,
                "the engine's answer to 'hello' does not fit",
                expected=f"a name, a version and vocabulary {weights.config.vocabulary}",
                found=str(dict(hello))[:200],
            )
        if self.request.engine:
            program = shutil.which(self.request.engine[0])
            build = None if program is None else hashlib.sha256(Path(program).read_bytes()).hexdigest()
            self.subject = Subject(name=name, version=version, source=None, build_sha256=build)
        else:
            manifest = source_manifest()
            self.files["sources.sha256"] = (manifest, "text/plain")
            source, patch = probe_source(Path(k3_ledger.engine.__file__).parent)
            if patch:
                self.files["source.patch"] = (patch, "text/x-diff")
            self.subject = Subject(
                name=name, version=version, source=source, build_sha256=hashlib.sha256(manifest).hexdigest()
            )
        return name, version, vocabulary

    def _note_memory(self, channel: Channel) -> None:
        """Host memory as the kernel counted it; accelerator memory as the engine reports it."""
        ranks = [RankMemory(rank=0, peak_bytes=channel.peak_host_bytes(), device="host")]
        reported = channel.ask("memory").data.get("ranks", [])
        ranks += [
            RankMemory(rank=one["rank"], peak_bytes=one["peak_bytes"], device="accelerator")
            for one in reported
            if one.get("device") == "accelerator"
        ]
        self.memory = tuple(ranks)

    def _note_spread(self, channel: Channel, usable: Sequence[int]) -> None:
        """How the router spreads tokens, for engines that can say; external ones need not."""
        assert self.found is not None
        ids = [usable[(at * 7919 + self.found.seed) % len(usable)] for at in range(SPREAD_TOKENS)]
        try:
            self.load = ExpertLoad.model_validate(channel.ask("spread", ids=ids).data)
        except (LedgerError, ValueError):
            self.load = None

    def _note_accelerators(self, when: str) -> None:
        """Clocks, temperature and power as the driver's tool prints them, before and after."""
        tool = shutil.which("nvidia-smi")
        if tool is None:
            return
        query = "timestamp,name,clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,driver_version"
        done = subprocess.run(  # noqa: S603 - a fixed tool with fixed arguments
            [tool, f"--query-gpu={query}", "--format=csv"], capture_output=True, timeout=30, check=False
        )
        self.files[f"accelerators-{when}.csv"] = (done.stdout, "text/csv")

    def _longest(self) -> int:
        assert self.found is not None
        return max(len(one.prompt) + len(one.output) for one in self.found.timed)


def source_manifest() -> bytes:
    """SHA-256 and path of every source file of the engine and of every kernel, one a line, sorted."""
    lines = []
    for package in (k3_ledger.engine, k3_ledger.kernels):
        assert package.__file__ is not None
        folder = Path(package.__file__).parent
        for path in sorted(folder.rglob("*.py")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"{digest}  {folder.name}/{path.relative_to(folder).as_posix()}\n")
    return "".join(lines).encode()


def _series(found: Observations, origin: int, plan: Plan) -> list[Series]:
    """Raw repetitions as the receipt holds them: both lengths in one series, by both observers."""
    made = [
        Series(
            metric="load", unit="start", actor="subject", observer="controller", context=None, context_filled=None,
            batch=1, processes=1, warmup=0, inputs="fresh", cache="none",
            samples=(Sample(start_ns=0, duration_ns=found.load_ns, count=1),),
        ),
        Series(
            metric="ping", unit="request", actor="subject", observer="controller", context=None, context_filled=None,
            batch=1, processes=1, warmup=0, inputs="repeated", cache="none",
            samples=_in_order([(0, duration, 1) for duration in found.pings]),
        ),
    ]  # fmt: skip
    metrics: tuple[Metric, ...] = ("prefill", "decode")
    for metric in metrics:
        context = plan.context if metric == "decode" else 0
        timed = [one for one in found.timed if one.metric == metric]
        made += [
            Series(
                metric=metric,
                unit="token",
                actor="subject",
                observer=observer,
                context=context,
                context_filled=context,
                batch=1,
                processes=1,
                warmup=2 * plan.warmup,
                inputs="fresh",
                cache="none",
                samples=tuple(_sample(one, observer, origin) for one in timed),
            )
            for observer in _OBSERVERS
        ]
    return made


def _sample(one: Timed, observer: str, origin: int) -> Sample:
    duration = one.outer_ns if observer == "controller" else one.self_ns
    return Sample(start_ns=one.start_ns - origin, duration_ns=max(1, duration), count=one.count)


def _in_order(samples: list[tuple[int, int, int]]) -> tuple[Sample, ...]:
    """Durations laid end to end: only their lengths were kept."""
    placed, at = [], 0
    for _, duration, count in samples:
        placed.append(Sample(start_ns=at, duration_ns=duration, count=count))
        at += duration
    return tuple(placed)


def _plan_flags(found: Observations, plan: Plan) -> tuple[Flag, ...]:
    """The plan as it was carried out, beside the engine's own flags."""
    values = {
        "run.seed": found.seed,
        "run.context": plan.context,
        "run.decode-tokens": plan.decode_tokens,
        "run.prefill-tokens": plan.prefill_tokens,
        "run.extra-decode": found.extra["decode"],
        "run.extra-prefill": found.extra["prefill"],
        "run.jitter-decode-ns": found.jitter_ns["decode"],
        "run.jitter-prefill-ns": found.jitter_ns["prefill"],
        "run.repetitions": plan.repetitions,
        "run.signal-to-jitter": plan.signal_to_jitter,
    }
    return tuple(Flag(name=name, value=str(value), origin="default") for name, value in values.items())
