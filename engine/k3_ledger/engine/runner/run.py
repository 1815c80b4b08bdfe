"""Runs a measurement from model file to bundle. A run that does not finish leaves a bundle of kind ``failed``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import k3_ledger.engine
import k3_ledger.kernels
from k3_ledger.engine.bundle import Reserved, bundle_bytes, describe_artifact
from k3_ledger.engine.contracts import contract_text
from k3_ledger.engine.fit import check_accelerator, check_context, check_host, states_served
from k3_ledger.engine.grading import emulates, reference_for
from k3_ledger.engine.machine import ask_nvidia, free_on_accelerators, probe_machine
from k3_ledger.engine.parity.apart import ANSWER_SECONDS
from k3_ledger.engine.parity.rows import ids_text
from k3_ledger.engine.places import Places
from k3_ledger.engine.provenance import PATCH, probe_source, source_manifest
from k3_ledger.engine.runner.bounds import CEILING, COARSE
from k3_ledger.engine.runner.channel import python_command
from k3_ledger.engine.runner.flags import check_together, resolve_flags
from k3_ledger.engine.runner.folder import working_folder
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.options import option_flags
from k3_ledger.engine.runner.record import plan_flags, plan_with_room, timing_of
from k3_ledger.engine.runner.replies import printable
from k3_ledger.engine.runner.session import Session, Task
from k3_ledger.engine.runner.specification import Specification
from k3_ledger.engine.tsm import Module, attest
from k3_ledger.engine.weights import joined, open_weights
from k3_ledger.schemas.errors import AttestationError, LedgerError, RunError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.measurement import FailedMeasurement, RunMeasurement, Subject, Tee, WeightsRef
from k3_ledger.schemas.outcomes import Position, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from k3_ledger.engine.digest import FileDigest
    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.flags import Resolved
    from k3_ledger.engine.weights import Weights

PACKAGES = [Path(folder) for package in (k3_ledger.engine, k3_ledger.kernels) for folder in package.__path__]
"""What runs: the digest of the build is of their source files."""
CONTROLLER = ["k3-ledger", "numpy", "gguf", "xllamacpp"]
"""What the controller works with, and the reference."""
ENGINE = ["torch", "triton"]
"""What this project's engine works with besides."""
_REASON = _TEXT = 4096


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
        depths: context lengths at which parity is graded, ascending.
        rows: positions graded at each.
        prompts: prompts graded at each.
        round: the round that the run belongs to; a candidate is scored against the frontier run of its round.
        own_reference: grade against this project's float64 instead of llama.cpp; such a receipt earns no tier.
        role: role of the receipt.
        command: the command line that asked for this, for the record; paths of this machine are replaced in it.
        timeout_s: longest wait for one answer, in seconds.
        outputs: how many drawn outputs of timed decodes are compared with the reference's, where more than must be.
        collateral: file with what a quote of this machine can be checked with, kept beside the quote.
        module: access to the machine's security module.
        given: names of options that somebody set, of those in ``OPTIONS``, for the record.
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
    prompts: int = 1
    round: str | None = None
    own_reference: bool = False
    role: Literal["candidate", "frontier", "reference"] = "candidate"
    command: tuple[str, ...] = ("k3-ledger", "run")
    timeout_s: float = 600.0
    outputs: int = 0
    collateral: Path | None = None
    module: Module = field(default_factory=Module)
    given: frozenset[str] = frozenset()

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is sure to come."""
        return max(*self.depths, self.plan.least)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        bundle: the bundle's id.
        kind: ``run`` or ``failed``.
        findings: why it failed, or what must be said about it.
        measurement: what the bundle holds.
        out: where the bundle is: elsewhere than was asked for where that place was lost.
    """

    bundle: str
    kind: Literal["run", "failed"]
    findings: tuple[Finding, ...]
    measurement: RunMeasurement | FailedMeasurement
    out: Path


def run(
    request: Request,
    progress: Callable[[str], None] = lambda _: None,
    kept: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Measure, grade, check, and write the bundle.

    Args:
        request: what to run.
        progress: told what comes next.
        kept: told of the bundle that a run leaves which ends with an exception.

    Raises:
        FileExistsError: the bundle's folder is there already; nothing ran.
        RunError: RUN_FLAG, before anything was started: nothing ran, so there is nothing to keep.
        ModelError: the model file cannot be used; nothing ran.
        ImportError: llama.cpp was asked for and PyPI ``xllamacpp`` is not installed; a ``failed`` bundle is kept.
    """
    if request.engine and request.flags:
        raise ValueError("flags are those of this project's engine; an external engine has its command")
    resolved = resolve_flags(request.flags, {} if request.engine else os.environ)
    check_together(resolved.values)
    request = dataclasses.replace(request, plan=plan_with_room(request.plan, len(request.depths), request.command))
    with Reserved(request.out) as place, open_weights(request.model) as weights:
        answered = not request.own_reference
        check_context(weights.config, request.longest, answered=answered)
        if not request.engine:
            _check_fit(weights, resolved.values, request.longest)
        room = weights.config.context - answered
        request = dataclasses.replace(request, plan=dataclasses.replace(request.plan, room=room))
        started = _Started(request, resolved, weights, place, progress)
        try:
            findings = started.measure()
            if any(finding.severity is Severity.ERROR for finding in findings):
                return started.fail(*findings)
            return started.succeed(findings)
        except LedgerError as error:
            return started.fail(error.finding)
        except BaseException as error:  # whatever went wrong, the attempt is kept and counted
            why = printable(f"the runner ended: {type(error).__name__}: {error}", _REASON)
            kept(started.fail(Finding(Code.RUN_ENGINE_FAILED, why)))
            raise


def _check_fit(weights: Weights, values: Mapping[str, Any], context: int) -> None:
    """Refuse what has no room, before a file of hundreds of gigabytes is hashed.

    Which GPU it will be is for the engine's own process to say, which asks again: here the one with most room counts.
    """
    sizes = {name: values[name] for name in ("dtype", "packed", "chunk")}
    if values["device"] == "cpu":
        check_host(weights, context=context, **sizes)
    elif (free := free_on_accelerators()) is not None:
        check_accelerator(weights, free, context=context, states=states_served(graph=values["graph"]), **sizes)


class _Started:
    """A run in progress: what is known so far, so that it can be written down whenever it ends."""

    def __init__(
        self,
        request: Request,
        resolved: Resolved,
        weights: Weights,
        place: Reserved,
        progress: Callable[[str], None],
    ) -> None:
        self.request = request
        self.place = place
        self.notes: list[Finding] = []
        self.collateral = None if request.collateral is None else request.collateral.read_bytes()
        self.flags = () if request.engine else resolved.record
        self.contract = (
            None
            if request.engine
            else contract_text(resolved.values["dtype"], deterministic=resolved.values["deterministic"])
        )
        self.weights = weights
        self.progress = progress
        self.origin = time.monotonic_ns()
        parts = {f"model-{number}": path for number, path in enumerate(weights.file.paths, 1)}
        self.places = Places({**parts, "model": request.model, "out": request.out})
        software = CONTROLLER if request.engine else CONTROLLER + ENGINE
        self.machine = probe_machine(request.node, list(self.places.words(request.command)), software)
        self.files: dict[str, tuple[bytes, str]] = {}
        # before anything runs, as the program of an external engine: who edits or commits meanwhile changes no receipt
        self.sources = None if request.engine else (source_manifest(PACKAGES), *probe_source(PACKAGES))
        self.model: WeightsRef | None = None
        self.build: str | None = None
        serve = ("--model", str(request.model.resolve()), "--context", str(request.longest), *resolved.arguments())
        self.command = python_command("k3_ledger.engine.runner.serve", *serve)
        if request.engine:  # the engine works in another folder, where a relative path of its program means nothing
            program = shutil.which(request.engine[0])
            first = request.engine[0] if program is None else str(Path(program).absolute())
            self.command = [first, *request.engine[1:]]
            self.build = _digest_of(program)
        config = weights.config
        chunk = None if request.engine else int(resolved.values["chunk"])
        half = not request.engine and resolved.values["dtype"] != "float32"
        task = Task(
            vocabulary=config.vocabulary,
            usable=weights.tokenizer().ordinary(),
            reference=self._reference,
            plan=request.plan,
            depths=request.depths,
            rows=request.rows,
            prompts=request.prompts,
            chunk=chunk,
            timeout_s=request.timeout_s,
            outputs=request.outputs,
            ceiling=COARSE if emulates(weights) or half else CEILING,
            experts=config.experts,
            top_k=config.top_k,
            specified=Specification(weights),
            watch=self._watch,
        )
        self.pinned: Path | None = None
        self.before = weights.file.identities()
        self.session = Session(task, progress)

    def measure(self) -> list[Finding]:
        """Time, check and grade one engine process; returns findings."""
        self.progress("hashing the model file")
        self._watch()
        digests = self.weights.digests()
        self.files["weights.json"] = (_json([dataclasses.asdict(one) for one in digests]), "application/json")
        self.model = weights_of(self.weights, self.request.model_name, digests)
        self._note_accelerators("before")
        with (
            working_folder() as folder,
            tempfile.TemporaryDirectory(prefix="k3-ledger-", ignore_cleanup_errors=True) as pins,
        ):
            self.places = self.places.also("folder", folder)
            self.pinned = self.weights.file.pin(Path(pins))
            findings = self.session.measure(self.command, folder)
        self._note_accelerators("after")
        return [*findings, *self._changes()]

    def _reference(self, context: int) -> LogitSource:
        """The reference on the very file that was hashed, whatever its name leads to by now."""
        assert self.pinned is not None
        timeout_s = max(self.request.timeout_s, ANSWER_SECONDS)
        return reference_for(self.weights, self.pinned, context, own=self.request.own_reference, timeout_s=timeout_s)

    def _changes(self) -> Iterator[Finding]:
        """The file that was hashed was written to, or its name does not lead to it any more."""
        file, name = self.weights.file, self.request.model.name
        if file.identities() != self.before:
            yield Finding(Code.RUN_MODEL_CHANGED, f"{name} is not the file that was hashed any more")
        elif file.named() != self.before:
            yield Finding(
                Code.RUN_MODEL_CHANGED, f"the path of {name} does not lead to the file that was hashed any more"
            )

    def _watch(self) -> None:
        for finding in self._changes():
            raise RunError(finding.code, finding.message)

    def succeed(self, findings: list[Finding]) -> Outcome:
        """Write a bundle of kind ``run``."""
        session = self.session
        assert session.found is not None
        assert session.graded is not None
        assert session.tolerance is not None
        assert session.looked is not None
        self._note_findings(findings)
        measurement = RunMeasurement(
            **self._common(),
            timing=timing_of(session.found, self.origin, self.request.plan, claims=session.looked.tied),
            parity=session.graded.record,
            memory=session.memory,
            flags=self.flags
            + option_flags(self.request)
            + plan_flags(session.found, session.tolerance, session.looked, self.contract),
            expert_load=session.load,
            tee=Tee(kind="none", report_data_sha256=None),
        )
        try:
            measurement, evidence = attest(measurement, self.collateral, self.request.module)
        except AttestationError as error:
            findings, evidence = [*findings, error.finding], {}
        return self._write(measurement, findings, evidence)

    def fail(self, *findings: Finding) -> Outcome:
        """Write a bundle of kind ``failed``."""
        reason = self.places.text("; ".join(f"{finding.code.id}: {finding.message}" for finding in findings))
        self._note_findings(findings)
        measurement = FailedMeasurement(
            **self._common(),
            stage=self.session.stage,
            reason=printable(reason, _REASON),
            exit_status=self.session.exit_status,
        )
        return self._write(measurement, list(findings))

    def _note_findings(self, findings: Sequence[Finding]) -> None:
        """What refused the run, or must be said about it, as far as it is known before the bundle is written."""
        if noted := [*findings, *self.notes]:
            listed = json.dumps([finding.as_dict() for finding in noted], indent=1)
            self.files["findings.json"] = (self.places.json(listed.encode()), "application/json")

    def _write(
        self,
        measurement: RunMeasurement | FailedMeasurement,
        findings: list[Finding],
        evidence: Mapping[str, bytes] | None = None,
    ) -> Outcome:
        blobs = {hashlib.sha256(data).hexdigest(): data for data, _ in self.files.values()} | dict(evidence or {})
        kind: Literal["run", "failed"] = "run" if isinstance(measurement, RunMeasurement) else "failed"
        data = bundle_bytes(measurement, blobs)
        out, findings = self.place.keep(data, blobs), [*findings, *self.notes]
        if out != self.request.out:
            findings.append(_elsewhere(self.request.out, out))
        return Outcome(hashlib.sha256(data).hexdigest(), kind, tuple(findings), measurement, out)

    def _common(self) -> dict[str, Any]:
        session = self.session
        self.files["stderr.txt"] = (self.places.lines(session.stderr), "text/plain")
        given = session.environment
        environment = dict(zip(given, self.places.words(given.values()), strict=True))
        self.files["environment.json"] = (_json(environment), "application/json")
        if session.told is not None:
            self.files["telling.json"] = (_json(session.told.off), "application/json")
        if session.found is not None:
            self.files["observations.json"] = (_json(dataclasses.asdict(session.found)), "application/json")
        if session.kernels:
            self.files["kernels.json"] = (self.places.json(_json(list(session.kernels))), "application/json")
        if session.graded is not None:
            self.files["prompts.txt"] = (ids_text(session.graded.prompts), "text/plain")
        subject = self._subject()
        artifacts = tuple(describe_artifact(name, data, media) for name, (data, media) in sorted(self.files.items()))
        return {
            "role": self.request.role,
            "subject": subject,
            "model": self.model,
            "machine": self.machine,
            "round": self.request.round,
            "artifacts": artifacts,
        }

    def _subject(self) -> Subject:
        """The engine: its own word for name and version, and a digest of what ran."""
        name, version = self.session.name, self.places.text(self.session.version)[:_TEXT]
        if self.sources is None:
            return Subject(name=name, version=version, source=None, build_sha256=self.build)
        manifest, source, patch = self.sources
        if source_manifest(PACKAGES) != manifest:  # edited meanwhile: the engine may have begun with either
            source, patch = None, b""
        self.files["sources.sha256"] = (manifest, "text/plain")
        if patch:
            self.files[PATCH] = (patch, "text/x-diff")
        build = hashlib.sha256(manifest).hexdigest()
        return Subject(name=name, version=version, source=source, build_sha256=build)

    def _note_accelerators(self, when: str) -> None:
        """Clocks, temperature and power as the driver's tool prints them, before and after."""
        if self.notes:  # the tool gave no answer before the run: it is not waited for again
            return
        said = ask_nvidia(
            "timestamp,name,clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,driver_version", "csv"
        )
        if said is None:
            return
        if said.fault is None:
            self.files[f"accelerators-{when}.csv"] = (said.data, "text/csv")
            return
        why = f"not known: nvidia-smi was asked {when} the run, and {said.fault}"
        self.files[f"accelerators-{when}.txt"] = (f"{why}\n".encode(), "text/plain")
        self.notes.append(Finding(Code.RUN_MACHINE_UNKNOWN, f"state of accelerators {why}"))


def _elsewhere(asked: Path, out: Path) -> Finding:
    return Finding(
        Code.RUN_KEPT_ELSEWHERE,
        f"the bundle is kept in {out}: what was measured could not be put where it was asked for",
        Position(field="--out"),
        str(asked),
        str(out),
    )


def _digest_of(program: str | None) -> str | None:
    """SHA-256 of a program's file before it starts: afterwards the engine may have put anything in its place."""
    if program is None or not Path(program).is_file():
        return None
    with Path(program).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def weights_of(weights: Weights, name: str, digests: Sequence[FileDigest]) -> WeightsRef:
    """What a receipt says of a model file whose parts have these digests."""
    return WeightsRef(
        name=name,
        architecture="kimi-k3",
        quant=weights.quant,
        sha256=joined([one.sha256 for one in digests]),
        size=sum(one.size for one in digests),
        synthetic=weights.synthetic,
    )
