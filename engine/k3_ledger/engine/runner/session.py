"""One engine process from start to end: introduced, timed, graded, checked. Knows nothing of model files or bundles.

Everything that has been seen so far is kept on the session, so that a run that ends early can still be written down.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from k3_ledger.engine.parity.suite import Suite, grade
from k3_ledger.engine.runner.bounds import CEILING, LEAST, Tolerance, tolerance
from k3_ledger.engine.runner.channel import Channel
from k3_ledger.engine.runner.checks import check_kernels, check_observations, check_spread
from k3_ledger.engine.runner.folder import Folder
from k3_ledger.engine.runner.measure import Plan, observe, seed_of
from k3_ledger.engine.runner.outputs import Looked, check_outputs
from k3_ledger.engine.runner.places import choose, most_of_a_round
from k3_ledger.engine.runner.record import MOST_RANKS
from k3_ledger.engine.runner.replies import count_of, is_integer, printable
from k3_ledger.engine.runner.sources import ProcessSource
from k3_ledger.engine.runner.telling import LONGEST, tell
from k3_ledger.schemas.errors import LedgerError, RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import ExpertLoad, RankMemory
from k3_ledger.schemas.values import Count, Name, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.parity.suite import Graded
    from k3_ledger.engine.runner.observations import Observations
    from k3_ledger.engine.runner.specification import Specified
    from k3_ledger.engine.runner.telling import Told
    from k3_ledger.schemas.findings import Finding

PROTOCOL = 1
SPREAD_TOKENS = 512
MAX_FOLDER = 2 << 30
"""Most bytes of everything in the engine's folder together, looked at between phases."""
_KERNELS: TypeAdapter[list[dict[Name, Text | Count]]] = TypeAdapter(
    Annotated[list[dict[Name, Text | Count]], Field(max_length=1000)]
)
_NAME: TypeAdapter[str] = TypeAdapter(Name)
_TEXT: TypeAdapter[str] = TypeAdapter(Text)


@dataclass(frozen=True, slots=True)
class Task:
    """What an engine is measured on.

    Attributes:
        vocabulary: number of tokens, which the engine must know.
        usable: ids that prompts may hold.
        reference: makes the engine that is taken as right, for prompts of up to so many tokens.
        plan: how much is timed.
        depths, rows, prompts: what parity grades.
        chunk: the engine's chunk width, for the record; None where it is not known.
        timeout_s: longest wait for one answer, in seconds.
        outputs: how many drawn outputs of timed decodes are compared with the reference's, where more than must be.
        experts: experts of a layer, as the model file says; None where nothing is known of them.
        top_k: experts that a token takes, as the model file says; None where nothing is known of them.
        ceiling: nats that these must keep to for the run's speed to count, whatever parity graded.
        specified: a second opinion on outputs that miss; None where there is none.
        watch: called between phases; raises when the model file is not what it was.
    """

    vocabulary: int
    usable: Sequence[int]
    reference: Callable[[int], LogitSource]
    plan: Plan = field(default_factory=Plan)
    depths: tuple[int, ...] = (4, 16, 64, 128)
    rows: int = 4
    prompts: int = 1
    chunk: int | None = None
    timeout_s: float = 600.0
    outputs: int = 0
    experts: int | None = None
    top_k: int | None = None
    ceiling: float = CEILING
    specified: Specified | None = None
    watch: Callable[[], None] = lambda: None


@dataclass(slots=True)
class Session:
    """What is known of one engine process.

    Attributes:
        task: what it is measured on; with a seed as soon as it begins, the same for telling and for timing.
        progress: told what comes next.
        stage: what is being done.
        name, version: as the engine reports itself; nothing else that can be checked is taken from it.
        told: what an engine that does nothing would be off by.
        found: timings, as soon as there are some.
        graded: the parity record.
        tolerance: what timed tokens may miss by.
        looked: the timed tokens that were compared.
        memory: peak of each rank.
        load: spread over experts, where the engine can say.
        kernels: which kernels ran on what, where the engine can say.
        environment: variables that the process was given.
        stderr: the end of what it wrote there.
        exit_status: of the process, negative for a signal; None while it ran until it was ended.
    """

    task: Task
    progress: Callable[[str], None] = lambda _: None
    stage: str = "start"
    name: str = "unknown-engine"
    version: str = "unknown"
    told: Told | None = None
    found: Observations | None = None
    graded: Graded | None = None
    tolerance: Tolerance | None = None
    looked: Looked | None = None
    memory: tuple[RankMemory, ...] = ()
    load: ExpertLoad | None = None
    kernels: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    stderr: bytes = b""
    exit_status: int | None = None

    def measure(self, command: Sequence[str], folder: Path) -> list[Finding]:
        """Time, check and grade one process of ``command`` in an empty ``folder``.

        Returns:
            Everything that must be said. A finding of severity error refuses the run.

        Raises:
            LedgerError: the first thing after which nothing more can be measured.
        """
        self.task = replace(self.task, plan=replace(self.task.plan, seed=seed_of(self.task.plan)))
        self._tell()
        self._next("load", "starting the engine")
        begin = time.monotonic_ns()
        with Folder(folder) as held, Channel(command, folder, timeout_s=self.task.timeout_s) as channel:
            self.environment = channel.environment
            try:
                hello = channel.ask("hello", protocol=PROTOCOL)
                self._introduce(hello.data)
                self._look(held)
                channel.peak_host_bytes()
                load_ns = hello.start_ns + hello.duration_ns - begin
                return self._examine(channel, load_ns, held)
            finally:
                self.exit_status = channel.exit_status
                self.stderr = channel.stderr()

    def _tell(self) -> None:
        """Show that answers tell work from none, with a reference that has ended when the engine starts."""
        self._next("telling", "asking whether answers tell work from none")
        task, length = self.task, min(LONGEST, self.task.plan.least)
        self.told = tell(task.reference(length), task.usable, length, seed_of(task.plan))
        for finding in self.told.findings(LEAST):
            raise RunError(
                finding.code,
                finding.message,
                position=finding.position,
                expected=finding.expected,
                found=finding.found,
            )

    def _examine(self, channel: Channel, load_ns: int, folder: Folder) -> list[Finding]:
        task = self.task
        self._next("timing", "timing")
        found = observe(channel, task.plan, task.usable, task.vocabulary, progress=self.progress, keep=self._keep)
        found.load_ns = load_ns
        self._note_kernels(channel)
        self._note_memory(channel)
        self._note_spread(channel)
        self._look(folder)
        findings = [*check_observations(found, task.plan.signal_to_jitter), *check_kernels(self.kernels)]
        findings += check_spread(self.load, task.top_k)
        self._next("parity", "parity")
        longest = max(len(walk.prompt) + 1 + len(walk.output) for walk in found.walks)
        reference = task.reference(max(*task.depths, longest))
        source = ProcessSource(channel, self.name, self.version, task.vocabulary, folder)
        suite = Suite(depths=task.depths, rows=task.rows, prompts=task.prompts, seed=found.seed)
        self.graded = grade(
            source,
            reference,
            suite,
            task.usable,
            chunk=task.chunk,
            progress=lambda where: self.progress(f"parity: {where}"),
        )
        findings += self.graded.findings
        self._look(folder)
        self._next("outputs", "outputs of timed runs")
        rounds = found.in_order
        places = choose(rounds, task.outputs)
        most = most_of_a_round(rounds, places)
        self.tolerance = tolerance(self.graded.top_differences, task.ceiling, rounds=len(rounds), places=most)
        self.looked = check_outputs(
            rounds,
            reference,
            engine=source,
            specified=task.specified,
            given=self.tolerance,
            places=places,
        )
        self._look(folder)
        assert self.told is not None
        findings += [*self.told.findings(self.tolerance.tied), *self.looked.findings]
        self.stage = "done"
        return findings

    def _look(self, folder: Folder) -> None:
        """Between phases: the model file is what it was, and the engine's folder holds no more than it may."""
        self.task.watch()
        size = folder.size(MAX_FOLDER)
        if size > MAX_FOLDER:
            raise RunError(
                Code.RUN_PROTOCOL,
                "the engine wrote more into its folder than it may",
                expected=f"at most {MAX_FOLDER} bytes in all",
                found=f"at least {size} bytes",
            )

    def _next(self, stage: str, words: str) -> None:
        self.stage = stage
        self.progress(words)

    def _keep(self, found: Observations) -> None:
        self.found = found

    def _introduce(self, hello: Mapping[str, Any]) -> None:
        try:
            self.name, self.version = (
                _NAME.validate_python(hello.get("name")),
                _TEXT.validate_python(hello.get("version")),
            )
        except ValidationError:
            raise self._unfit(hello) from None
        wanted = {"vocabulary": self.task.vocabulary, "protocol": PROTOCOL}
        said = self.version.strip() and self.version.isprintable()
        if not said or not all(is_integer(hello.get(name), value) for name, value in wanted.items()):
            raise self._unfit(hello)

    def _unfit(self, hello: Mapping[str, Any]) -> RunError:
        return RunError(
            Code.RUN_PROTOCOL,
            "the engine's answer to 'hello' does not fit",
            expected=f"protocol {PROTOCOL}, a name, a version, and vocabulary {self.task.vocabulary}",
            found=printable(dict(hello), 200),
        )

    def _note_memory(self, channel: Channel) -> None:
        """Host memory as the kernel counted it; accelerator memory as the engine reports it."""
        host = RankMemory(rank=0, peak_bytes=channel.peak_host_bytes(), device="host")
        reported = channel.ask("memory").data.get("accelerators", [])
        fits = isinstance(reported, list) and len(reported) <= MOST_RANKS
        if not fits or not all(isinstance(one, dict) for one in reported):
            raise self._unfit_memory(reported)
        ranks = [
            RankMemory(rank=count_of(one, "rank"), peak_bytes=count_of(one, "peak_bytes"), device="accelerator")
            for one in reported
        ]
        if len({one.rank for one in ranks}) < len(ranks):
            raise self._unfit_memory(reported)
        self.memory = (host, *ranks)

    def _unfit_memory(self, reported: object) -> RunError:
        return RunError(
            Code.RUN_PROTOCOL,
            "the engine's answer to 'memory' does not fit",
            expected=f"a list of at most {MOST_RANKS} accelerators, each with a rank of its own and peak_bytes",
            found=printable(reported, 80),
        )

    def _note_kernels(self, channel: Channel) -> None:
        """What ran in the timed walks, by the engine's own count; an engine that has no kernels to name refuses."""
        try:
            reported = channel.ask("kernels").data.get("kernels")
        except LedgerError as error:
            if error.code is not Code.RUN_ENGINE_FAILED or channel.exit_status is not None:
                raise
            return
        try:
            self.kernels = _KERNELS.validate_python(reported, strict=True)
        except ValidationError:
            raise RunError(
                Code.RUN_PROTOCOL,
                "the engine's answer to 'kernels' does not fit",
                expected="a list of records, each field a printable text or a count",
                found=printable(reported, 80),
            ) from None

    def _note_spread(self, channel: Channel) -> None:
        """How the router spreads tokens, by the engine's own count; not kept where it is of other experts or tokens."""
        assert self.found is not None
        usable = self.task.usable
        many = min(SPREAD_TOKENS, self.task.plan.room or SPREAD_TOKENS)
        ids = [usable[(at * 7919 + self.found.seed) % len(usable)] for at in range(many)]
        try:
            load = ExpertLoad.model_validate(channel.ask("spread", ids=ids).data.get("load"))
            known = load.experts if self.task.experts is None else self.task.experts
            fits = load.experts == known and load.distinct <= known and load.max_load <= load.tokens == many
            self.load = load if fits else None
        except ValidationError:
            self.load = None
        except LedgerError as error:
            if error.code is not Code.RUN_ENGINE_FAILED or channel.exit_status is not None:
                raise
