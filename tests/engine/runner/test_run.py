"""From a model file to a bundle, through the command line: what is written when it goes well, and when it does not."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import typer
from docs.examples.made_up_intel import AT, World
from typer.testing import CliRunner

from k3_ledger.cli import run as command
from k3_ledger.engine import machine
from k3_ledger.engine.contracts import BIT_IDENTICAL
from k3_ledger.engine.gguf import open_model_file
from k3_ledger.engine.gguf.writer import NewTensor, write_gguf
from k3_ledger.engine.provenance import source_manifest
from k3_ledger.engine.runner import run as runner
from k3_ledger.engine.runner import session
from k3_ledger.engine.runner.channel import python_command
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.options import OPTIONS, option_flags
from k3_ledger.engine.runner.run import Request
from k3_ledger.engine.tsm import Module
from k3_ledger.kernels.dispatch import source_digest
from k3_ledger.rescore.native import read_run
from k3_ledger.schemas.errors import ModelError, RunError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.measurement import FailedMeasurement, RunMeasurement, Source
from k3_ledger.schemas.validate import parse_bundle
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.receipts import check_run
from k3_ledger.verify.source import MemorySource
from tests.engine.simulated_tsm import SimulatedModule
from tests.engine.test_provenance import Repository, repository
from tests.ledgers import RUNNER, small_ledger
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOY = str(ROOT / "docs" / "examples" / "engine.py")
SMALL = Plan(context=8, decode_tokens=4, repetitions=3, most_repetitions=3, warmup=0, shortest_ns=1, most_extra=8)

CERTAIN = Plan(
    context=32, decode_tokens=8, repetitions=3, most_repetitions=3, shortest_ns=1, most_extra=8, longest_s=0, seed=1
)
"""Its walks are the same whatever the machine does: no time decides a length or a number of rounds."""


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a busy machine does to times refuses no run here: what times must be is held on made-up ones."""
    monkeypatch.setattr(session, "check_observations", lambda *_: ())


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    app = typer.Typer(rich_markup_mode=None)
    command.register(app)
    monkeypatch.setenv("K3_LEDGER_UNRELATED", "1")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def artifacts(folder: Path) -> dict[str, bytes]:
    body = parse_bundle((folder / "bundle.json").read_bytes()).body
    return {one.name: (folder / "blobs" / one.sha256).read_bytes() for one in body.artifacts}


@pytest.mark.usefixtures("untimed")
def test_a_run_holds_raw_times_parity_flags_and_provenance(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    outcome = runner.run(
        Request(
            model=synthetic("tiny"),
            model_name="synth-tiny",
            out=tmp_path / "b",
            node="here",
            flags={"chunk": "16"},
            plan=CERTAIN,
            depths=(4, 16),
            rows=2,
            outputs=30,
            module=Module(reports=tmp_path / "no trusted security module"),
        )
    )
    assert outcome.kind == "run", outcome.findings
    body = outcome.measurement
    scored = {one.track.short: one for one in read_run(body)}
    # Rules find both metrics at --context, with a claim and a clock; load and ping are no more than notes.
    assert scored.keys() == {"prefill@32", "decode@32"}
    assert all(scored[name].speed and scored[name].clock for name in ("prefill@32", "decode@32"))
    assert isinstance(body, RunMeasurement)
    assert (body.tee.kind, body.tee.report_data_sha256) == ("none", None)
    assert body == parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    assert list(check_run(body)) == []
    assert {(one.metric, one.observer) for one in body.timing} == {
        ("load", "controller"),
        ("ping", "controller"),
        *((metric, observer) for metric in ("prefill", "decode") for observer in ("controller", "subject")),
    }
    assert body.parity is not None
    assert (body.parity.chunk, body.parity.path, body.parity.reference.independent) == (16, "both", True)
    flags = {flag.name: (flag.value, flag.origin) for flag in body.flags}
    assert flags["chunk"] == ("16", "command")
    assert flags["dtype"] == ("float32", "default")
    assert flags["run.contract"] == (BIT_IDENTICAL, "default")
    assert int(flags["run.repetitions"][0]) >= 3
    assert (flags["run.context"], flags["run.depth"]) == (("32", "default"), ("4,16", "default"))
    assert flags["run.looked-prefill"][0] == "12 looked at, 0 missed"
    assert flags["run.looked-decode"][0] == "93 looked at, 0 missed"
    assert flags["run.rounds-off"][0] == "0 of 3, 1 may"
    assert float(flags["run.margin-decode"][0]) > 0
    assert flags["run.rounds-set-aside"][0] == "0"
    assert body.memory[0].peak_bytes > 50 << 20
    assert body.expert_load is not None
    kept = artifacts(tmp_path / "b")
    assert {"environment.json", "observations.json", "prompts.txt", "sources.sha256", "stderr.txt"} <= set(kept)
    ran = json.loads(kept["kernels.json"])
    assert {(one["executor"], one["device"], one["source"]) for one in ran} == {("torch", "cpu", source_digest())}
    assert {"rms_norm", "kda_step", "mla_decode", "router", "residual_mix"} <= {one["op"] for one in ran}
    listed = dict(reversed(line.split("  ")) for line in kept["sources.sha256"].decode().splitlines())
    for op in ("kda_step", "experts"):
        for name in ("naive", "triton_"):
            source = ROOT / "kernels" / "k3_ledger" / "kernels" / op / f"{name}.py"
            if source.exists():  # an installed tree has the same bytes elsewhere
                assert listed[f"kernels/{op}/{name}.py"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert body.subject.build_sha256 == hashlib.sha256(kept["sources.sha256"]).hexdigest()
    assert json.loads(kept["weights.json"])[0]["sha256"] == body.model.sha256 if body.model else None
    assert hashlib.sha256(kept["prompts.txt"]).hexdigest() == body.parity.prompt_sha256
    (graded,) = [[int(token) for token in line.split(b",")] for line in kept["prompts.txt"].splitlines()]
    assert len(graded) == 16
    assert set(graded) < set(range(512))
    assert not [name for name in json.loads(kept["environment.json"]) if name.startswith(("K3_", "PYTEST"))]


FIELDS = {
    "out", "model", "engine", "program", "flag", "node", "round_", "role", "own_reference", "collateral", "as_json",
}  # fmt: skip
"""Parameters that a receipt holds in a field of its own, or that change nothing in it."""


def test_every_option_that_decides_what_is_measured_is_a_flag_of_the_receipt() -> None:
    app = typer.Typer()
    command.register(app)
    made = typer.main.get_command(app)
    names = {one.name for one in made.commands["run"].params}  # type: ignore[attr-defined]
    assert names - {"help"} == FIELDS | OPTIONS.keys()


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("swapped", [False, True])
def test_an_option_is_recorded_with_where_it_came_from(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, swapped: bool, monkeypatch: Any
) -> None:
    """Half of them are given, and then the other half; one that is given as it is anyway is given too."""
    given = {
        "context": 8, "decode_tokens": 4, "repetitions": 3, "signal": 9, "longest": 0.5, "depth": 5, "rows": 2,
        "prompts": 2, "outputs": 12, "timeout": 600,
    }  # fmt: skip
    assert given.keys() == OPTIONS.keys()
    asked: list[Request] = []

    def keep(request: Request, *_: object) -> None:
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", keep)
    by_hand = {name: value for at, (name, value) in enumerate(given.items()) if (at % 2 == 0) != swapped}
    words = [word for name, value in by_hand.items() for word in (f"--{name.replace('_', '-')}", value)]
    invoke("run", "--model", synthetic("tiny"), "--out", tmp_path / "b", *words)
    flags = {flag.name: flag for flag in option_flags(asked[0])}
    assert len(flags) == len(OPTIONS)
    for name, (flag, _) in OPTIONS.items():
        assert flags[flag].origin == ("command" if name in by_hand else "default")
        assert name not in by_hand or flags[flag].value == str(by_hand[name])


def quick(synthetic: Callable[..., Path], folder: Path, **how: Any) -> Request:
    return Request(
        model=synthetic("tiny"), model_name="synth-tiny", out=folder / "b", node="here", flags={"chunk": "16"},
        plan=SMALL, outputs=1, depths=(4,), rows=1, own_reference=True, **how,
    )  # fmt: skip


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("own", [False, True])
def test_a_run_goes_up_to_the_context_that_the_file_announces_and_no_further(
    synthetic: Callable[..., Path], tmp_path: Path, own: bool
) -> None:
    """Its own longer lengths too; and where not even the least fits, nothing is started, and nothing left."""
    if not own:
        pytest.importorskip("xllamacpp")
    plan = replace(SMALL, most_extra=4096, shortest_ns=10**9)  # as long as there is room
    context = SMALL.least + (not own)
    for less, depth in ((1, 4), (0, context + own)):
        request = Request(
            synthetic("tiny", context=context - less), "m", tmp_path / f"{less}", "here", plan=plan, depths=(depth,),
            rows=1, outputs=1, own_reference=own,
        )  # fmt: skip
        with pytest.raises(ModelError) as caught:
            runner.run(request)
        assert caught.value.code is Code.MODEL_DOES_NOT_FIT
        assert "layers" not in caught.value.finding.advice, "nor would more memory help"
        assert not request.out.exists()
    depths = (4, context - (not own))
    request = replace(request, model=synthetic("tiny", context=context), depths=depths)
    outcome = runner.run(request)
    assert outcome.kind == "run", outcome.findings


@pytest.mark.usefixtures("untimed")
def test_a_run_in_a_trust_domain_is_bound_to_it_in_full(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    """From the machine's quote to the verifier's verdict; one figure changed afterwards is found."""
    pytest.importorskip("dcap_qvl")
    world = World()
    (tmp_path / "tsm").mkdir()
    (tmp_path / "collateral.json").write_bytes(world.collateral())
    module = SimulatedModule(reports=tmp_path / "tsm", make=world.quote)
    request = quick(synthetic, tmp_path, module=module, collateral=tmp_path / "collateral.json")
    assert runner.run(request).kind == "run"
    body = json.loads((tmp_path / "b" / "bundle.json").read_bytes())["body"]
    assert body["tee"]["kind"] == "tdx"
    assert {"tdx-quote.bin", "tdx-collateral.json"} <= set(artifacts(tmp_path / "b"))
    blobs = {path.name: path.read_bytes() for path in (tmp_path / "b" / "blobs").iterdir()}
    pins = (("mrtd", frozenset({"c1" * 48})),)
    demands = AttestationPolicy(at=AT, measurements=pins, kinds=frozenset({"tdx"}), anchors=world.anchors())

    def verdict(sealed: dict[str, Any]) -> set[Code]:
        ledger = small_ledger(0)
        ledger.add("run", sealed, RUNNER)
        source = MemorySource(ledger.data, checkpoint=ledger.head(), artifacts=blobs)
        policy = TrustPolicy(require=frozenset({"attestations"}), attestation=demands)
        return {code for code in check_log(source, policy).counts if code.info.exit}

    assert verdict(body) == set()
    body["timing"][0]["samples"][0]["duration_ns"] += 1
    assert verdict(body) == {Code.QUOTE_BINDING}


@pytest.mark.usefixtures("untimed")
def test_a_trust_domain_that_gives_no_quote_costs_no_run(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "tsm").mkdir()
    outcome = runner.run(quick(synthetic, tmp_path, module=SimulatedModule(reports=tmp_path / "tsm", fault="read")))
    assert outcome.kind == "run"
    assert Code.RUN_NO_QUOTE in {finding.code for finding in outcome.findings}
    body = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    assert isinstance(body, RunMeasurement)
    assert body.tee.kind == "none"


TOOL = """#!/bin/sh
case "$1" in
  *clocks.mem*) echo "name, clocks.sm, temperature.gpu, power.draw" ; echo "Card, 1980 MHz, 41, 120 W" ;;
  *) echo "NVIDIA Card, 143771, 580.159.04, 1980" ;;
esac
"""


def test_a_machine_with_accelerators_has_their_state_and_driver_in_the_bundle(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(TOOL)
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    engine = (sys.executable, TOY)
    runner.run(Request(synthetic("tiny"), "m", tmp_path / "b", "here", engine=engine, plan=SMALL, depths=(4,)))
    body = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    (card,) = body.machine.node.accelerators
    assert (card.name, card.driver, card.clock_mhz) == ("NVIDIA Card", "580.159.04", 1980)
    kept = artifacts(tmp_path / "b")
    assert b"1980 MHz, 41, 120 W" in kept["accelerators-before.csv"]


def test_the_commit_the_difference_from_it_and_the_round_are_kept(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that fails too; and whoever is to publish it is told what is kept."""
    ours = repository(tmp_path / "ours")
    (ours.top / "thesis.txt").write_text("password = hunter2\n")
    monkeypatch.setattr(runner, "PACKAGES", ours.packages)
    tasks = []

    def measure(session: runner.Session, *_: object) -> list[Finding]:
        tasks.append(session.task)
        return [Finding(Code.RUN_TIMEOUT, "no")]

    monkeypatch.setattr(runner.Session, "measure", measure)
    words = ("run", "--model", synthetic("tiny"), "--round", "round-7", "--prompts", 3, "--json", "--out")
    clean = invoke(*words, tmp_path / "clean")
    ours.module.write_text("two = 3\n")
    dirty = invoke(*words, tmp_path / "dirty")
    assert [task.prompts for task in tasks] == [3, 3]
    assert (clean.exit_code, dirty.exit_code) == (1, 1)
    sources = []
    for name in ("clean", "dirty"):
        body = parse_bundle((tmp_path / name / "bundle.json").read_bytes()).body
        assert body.round == "round-7"
        sources.append(body.subject.source)
    patch = artifacts(tmp_path / "dirty")["source.patch"]
    assert b"+two = 3" in patch
    assert b"hunter2" not in patch
    named = {"commit": ours.git("rev-parse", "HEAD"), "clean_builds": 0}
    assert sources == [
        Source(**named, dirty=False, patch_sha256=None),
        Source(**named, dirty=True, patch_sha256=hashlib.sha256(patch).hexdigest()),
    ]
    assert "source.patch" not in artifacts(tmp_path / "clean")
    assert "source.patch" not in clean.stderr
    assert f"source.patch, {len(patch)} bytes of changes that are not committed" in dirty.stderr


def _link(ours: Repository) -> None:
    (ours.packages[0] / ".#module.py").symlink_to("me@host.1:2")


MEANWHILE: dict[str, tuple[Callable[[Repository], object], bool]] = {
    "committed": (lambda ours: ours.module.write_text("two = 99\n") and ours.commit(), False),
    "edited": (lambda ours: ours.module.write_text("two = 99\n"), False),
    "removed": (lambda ours: ours.module.unlink(), False),
    "another commit of the same files": (lambda ours: ours.commit("--allow-empty"), True),
    "a link to nowhere": (_link, True),
    "nothing": (lambda _: None, True),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_is_named_is_what_lay_there_before_and_behind_the_run(
    what: str, synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = repository(tmp_path / "ours")
    change, same = MEANWHILE[what]
    before, manifest = ours.git("rev-parse", "HEAD"), source_manifest(ours.packages)

    def measure(*_: object) -> list[Finding]:
        change(ours)
        return [Finding(Code.RUN_TIMEOUT, "no")]

    monkeypatch.setattr(runner, "PACKAGES", ours.packages)
    monkeypatch.setattr(runner.Session, "measure", measure)
    outcome = runner.run(Request(synthetic("tiny"), "m", tmp_path / "b", "here"))
    subject = outcome.measurement.subject
    named = Source(commit=before, dirty=False, patch_sha256=None, clean_builds=0)
    assert subject.source == (named if same else None)
    assert subject.build_sha256 == hashlib.sha256(manifest).hexdigest()
    assert artifacts(tmp_path / "b")["sources.sha256"] == manifest


@pytest.mark.parametrize(("engine", "torch"), [((), True), (("/nowhere",), False)])
def test_an_external_engine_is_not_said_to_work_with_what_ours_does(
    engine: tuple[str, ...],
    torch: bool,
    synthetic: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner.Session, "measure", lambda *_: [Finding(Code.RUN_TIMEOUT, "no")])
    outcome = runner.run(Request(synthetic("tiny"), "m", tmp_path / "b", "here", engine=engine))
    software = {one.name for one in outcome.measurement.machine.software}
    assert {"python", "numpy", "gguf"} <= software
    assert ("torch" in software) == torch
    assert ("triton" in software) <= torch


def test_a_run_that_fails_is_kept_and_exits_1(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    """The toy has another vocabulary than the model."""
    words = ("run", "--model", synthetic("tiny"), "--out", tmp_path / "b", "--engine", "command", "--json")
    result = invoke(*words, "--", sys.executable, TOY)
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["rates"], answer["parity"]) == ("failed", [], None)
    assert [finding["code"] for finding in answer["findings"]] == [Code.RUN_PROTOCOL.id]
    body = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    assert isinstance(body, FailedMeasurement)
    assert body.stage == "load"
    assert Code.RUN_PROTOCOL.id in body.reason
    assert json.loads(artifacts(tmp_path / "b")["findings.json"])[0]["code"] == Code.RUN_PROTOCOL.id


def test_a_program_beside_the_caller_is_found_and_told_where_it_was_called(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell script, by a relative path, with a relative model: it works in another folder than the caller's."""
    (tmp_path / "engine.sh").write_text('#!/bin/sh\ntest "$2" = "$(cat "$1/name")" && test -f "$2" && echo fine >&2\n')
    (tmp_path / "engine.sh").chmod(0o755)
    (tmp_path / "m.gguf").symlink_to(synthetic("tiny"))
    (tmp_path / "name").write_text(str(tmp_path / "m.gguf"))
    monkeypatch.chdir(tmp_path)
    words = ("run", "--model", "m.gguf", "--out", "b", "--engine", "command")
    assert invoke(*words, "--", "./engine.sh", "{here}", "{model}").exit_code == 1
    assert artifacts(tmp_path / "b")["stderr.txt"] == b"fine\n"


def test_an_engine_that_cannot_start_or_dies_is_kept(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    for name, words, status in (("a", ("/no/such/engine",), None), ("b", ("sh", "-c", "exit 3"), 3)):
        outcome = runner.run(
            Request(synthetic("tiny"), "m", tmp_path / name, "here", engine=words, plan=SMALL, depths=(4,))
        )
        assert isinstance(outcome.measurement, FailedMeasurement)
        assert [finding.code for finding in outcome.findings] == [Code.RUN_ENGINE_FAILED]
        assert outcome.measurement.exit_status == status


@pytest.mark.parametrize(
    "swap", ["rm $0", "rm $0; mkfifo $0; chmod 755 $0", "rm $0; mkdir $0", "rm $0; ln -s $1 $0", "rm $0; cp $1 $0", ":"]
)
def test_an_engine_that_swaps_its_own_program_is_named_by_the_one_that_started(
    swap: str, synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    """The last one is the control."""
    program, other = tmp_path / "engine.sh", tmp_path / "other"
    program.write_text(f"#!/bin/sh\n{swap}\n")
    other.write_text("another")
    for file in (program, other):
        file.chmod(0o755)
    started = hashlib.sha256(program.read_bytes()).hexdigest()
    outcome = runner.run(
        Request(synthetic("tiny"), "m", tmp_path / "b", "here", engine=(str(program), str(other)), plan=SMALL)
    )
    assert outcome.measurement.subject is not None
    assert outcome.measurement.subject.build_sha256 == started


def test_a_model_file_that_is_touched_during_the_run_is_refused(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(synthetic("tiny").read_bytes())
    serve = " ".join(python_command("k3_ledger.engine.runner.serve", "--model", str(model)))
    engine = ("sh", "-c", f"touch -r {model} {tmp_path}/t; touch {model}; touch -r {tmp_path}/t {model}; exec {serve}")
    outcome = runner.run(
        Request(model, "m", tmp_path / "b", "here", engine=engine, plan=SMALL, depths=(4,), rows=1, own_reference=True)
    )
    assert Code.RUN_MODEL_CHANGED in {finding.code for finding in outcome.findings}
    assert outcome.kind == "failed"


SWAPS = """
import json, os, subprocess, sys
real, evil, at, back = sys.argv[1:5]
child = subprocess.Popen(sys.argv[5:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    op = json.loads(line)["op"]
    if op == at:
        os.rename(real, real + ".kept"); os.rename(evil, real); at = None
    if op == back and at is None:
        os.rename(real, evil); os.rename(real + ".kept", real); back = None
    child.stdin.write(line); child.stdin.flush()
    sys.stdout.buffer.write(child.stdout.readline()); sys.stdout.buffer.flush()
"""


@pytest.mark.parametrize(("at", "back", "found"), [("hello", "logits", True), ("hello", "", True), ("none", "", False)])
def test_another_folder_in_the_place_of_the_models_is_found(
    at: str, back: str, found: bool, synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    """Nothing is written to the file, nor is it renamed: the name of a folder above it is given to another one."""
    for name, seed in (("real", 0), ("evil", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.gguf").write_bytes(synthetic("tiny", **({"seed": seed} if seed else {})).read_bytes())
    model = tmp_path / "real" / "m.gguf"
    serve = python_command("k3_ledger.engine.runner.serve", "--model", str(model))
    words = (sys.executable, "-c", SWAPS, str(tmp_path / "real"), str(tmp_path / "evil"), at, back, *serve)
    outcome = runner.run(
        Request(model, "m", tmp_path / "b", "here", engine=words, plan=SMALL, depths=(4,), rows=1, own_reference=True)
    )
    assert (Code.RUN_MODEL_CHANGED in {finding.code for finding in outcome.findings}) == found
    if found:
        assert outcome.kind == "failed"
        assert isinstance(outcome.measurement, FailedMeasurement)
        assert outcome.measurement.stage == "load", "right behind the first answer"


@pytest.mark.parametrize("parts", [1, 2])
def test_the_reference_reads_the_file_that_was_hashed(
    parts: int, synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where its name leads elsewhere at the moment when the reference opens it, for whatever time."""
    names = ["m.gguf"] if parts == 1 else ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    for folder, seed in (("real", 3), ("evil", 5)):
        (tmp_path / folder).mkdir()
        halves(synthetic("tiny", seed=seed), [tmp_path / folder / name for name in names])
    model = tmp_path / "real" / names[0]
    expected = [(tmp_path / "real" / name).read_bytes() for name in names]
    seen = []

    def reference(_weights: object, path: Path, _context: int, *, own: bool, **_: object) -> None:
        seen.extend((path.parent / name).read_bytes() for name in names)
        assert not own
        raise RunError(Code.RUN_TIMEOUT, "seen")

    def measure(session: runner.Session, *_: object) -> list[Finding]:
        (tmp_path / "real").rename(tmp_path / "kept")
        (tmp_path / "evil").rename(tmp_path / "real")
        with pytest.raises(RunError, match="seen"):
            session.task.reference(8)
        with pytest.raises(RunError, match="does not lead to the file"):
            session.task.watch()
        (tmp_path / "real").rename(tmp_path / "evil")
        with pytest.raises(RunError, match="does not lead to the file"):
            session.task.watch()
        (tmp_path / "kept").rename(tmp_path / "real")
        session.task.watch()
        return []

    monkeypatch.setattr(runner, "reference_for", reference)
    monkeypatch.setattr(runner.Session, "measure", measure)
    monkeypatch.setattr(runner._Started, "succeed", lambda started, _: started.fail(Finding(Code.RUN_TIMEOUT, "end")))
    outcome = runner.run(Request(model, "m", tmp_path / "b", "here"))
    assert [finding.code for finding in outcome.findings] == [Code.RUN_TIMEOUT]
    assert seen == expected
    assert seen[0] != (tmp_path / "evil" / names[0]).read_bytes()
    listed = json.loads(artifacts(tmp_path / "b")["weights.json"])
    assert [one["sha256"] for one in listed] == [hashlib.sha256(data).hexdigest() for data in expected]


def halves(model: Path, parts: list[Path]) -> None:
    """The model in as many files as there are names."""
    if len(parts) == 1:
        parts[0].write_bytes(model.read_bytes())
        return
    with open_model_file(model) as file:
        infos = list(file.tensors.values())
        for number, part in enumerate(parts):
            counts = {"split.no": number, "split.count": len(parts), "split.tensors.count": len(infos)}
            tensors = [
                NewTensor(info.name, info.shape, info.storage, lambda name=info.name: [file.view(name).raw.tobytes()])
                for info in infos[number :: len(parts)]
            ]
            write_gguf(part, {**(file.values if number == 0 else {}), **counts}, tensors)


@pytest.mark.parametrize(
    "tool_and_why",
    [
        ("#!/bin/sh\nsleep 600\n", "it gave no answer in time"),
        ("garbage", "it cannot be executed: Exec format error"),
        ("#!/bin/sh\necho half; exit 9\n", "it ended with status 9"),
        (TOOL, None),
    ],
)
def test_a_driver_tool_that_fails_is_noted_and_costs_no_run(
    tool_and_why: tuple[str, str | None],
    invoke: Callable[..., Any],
    synthetic: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool, why = tool_and_why
    (tmp_path / "nvidia-smi").write_text(tool)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    real = machine.ask
    monkeypatch.setattr(machine, "ask", lambda words: real(words, seconds=0.5 if "no answer" in str(why) else 60))
    monkeypatch.setattr(runner.Session, "measure", lambda *_: [])
    monkeypatch.setattr(
        runner._Started, "succeed", lambda started, found: started.fail(Finding(Code.RUN_TIMEOUT, "the end"), *found)
    )
    result = invoke("run", "--model", synthetic("tiny"), "--out", tmp_path / "b")
    assert (result.exit_code, str(result.exception)) == (1, "1"), result.output
    body = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    assert isinstance(body, FailedMeasurement)
    assert body.reason.startswith("K3L-RUN-TIMEOUT: the end")
    (card,) = body.machine.node.accelerators
    kept = artifacts(tmp_path / "b")
    assert (card.name == "unknown") == (why is not None)
    assert ("K3L-RUN-MACHINE-UNKNOWN" in result.output) == (why is not None)
    assert {name for name in kept if name.startswith("accelerators")} == (
        {"accelerators-before.txt"} if why else {"accelerators-before.csv", "accelerators-after.csv"}
    )
    if why:
        assert why in kept["accelerators-before.txt"].decode()


def test_a_run_that_is_told_no_place_makes_one_of_its_own_and_names_it(
    invoke: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner.Session, "measure", lambda *_: [Finding(Code.RUN_TIMEOUT, "the end")])
    result = invoke("run", "--engine", "k3", "--model", "synth:tiny")
    (made,) = tmp_path.iterdir()
    assert re.fullmatch(r"bundle-[0-9]{8}T[0-9]{6}Z", made.name)
    assert (result.exit_code, result.stdout.split()[-1]) == (1, made.name), result.output
    assert parse_bundle((made / "bundle.json").read_bytes()).kind == "failed"


def test_of_two_runs_with_one_place_the_second_measures_nothing(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "--model", synthetic("tiny"), "--out", tmp_path / "b")
    second, measured = [], []

    def measure(*_: object) -> list[Finding]:
        measured.append(1)
        monkeypatch.setattr(command, "_check_new", lambda _: None)  # it looked before the first one began
        second.append(invoke(*words))
        return [Finding(Code.RUN_TIMEOUT, "the end")]

    monkeypatch.setattr(runner.Session, "measure", measure)
    first = invoke(*words)
    assert (first.exit_code, second[0].exit_code, measured) == (1, 2, [1])
    assert "exists already" in second[0].output
    assert parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).kind == "failed"


@pytest.mark.parametrize("kind", ["run", "failed", "interrupted"])
def test_a_bundle_whose_place_is_lost_during_the_run_is_kept_and_named(
    kind: str,
    invoke: Callable[..., Any],
    synthetic: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "above").mkdir()

    def measure(*_: object) -> list[Finding]:
        (tmp_path / "above").rename(tmp_path / "moved")
        if kind == "interrupted":
            raise KeyboardInterrupt
        return [Finding(Code.RUN_TIMEOUT, "the end")]

    monkeypatch.setattr(runner.Session, "measure", measure)
    if kind == "run":
        fail = runner._Started.fail
        monkeypatch.setattr(runner._Started, "fail", lambda started, *found: replace(fail(started, *found), kind="run"))
    result = invoke("run", "--model", synthetic("tiny"), "--out", tmp_path / "above" / "b")
    assert result.exit_code == {"run": 3, "failed": 1, "interrupted": 130}[kind]
    assert f"in {tmp_path / 'moved' / 'b'}" in result.output
    if kind != "interrupted":
        assert "K3L-RUN-KEPT-ELSEWHERE" in result.output
    assert Code.RUN_KEPT_ELSEWHERE.info.exit == 3, "the page of findings says what the command does"
    assert parse_bundle((tmp_path / "moved" / "b" / "bundle.json").read_bytes()).kind == "failed"


def test_a_runner_that_is_interrupted_leaves_a_failed_bundle(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Session, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runner.run(Request(synthetic("tiny"), "m", tmp_path / "b", "here"))
    assert parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).kind == "failed"


def test_a_run_that_is_told_to_end_leaves_a_failed_bundle(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    """As a queue does when time is up. The engine tells its grandparent to end and says nothing more."""
    engine = f"{sys.executable} -c 'import os, signal, time; os.kill({{}}, signal.SIGTERM); time.sleep(600)'"
    script = (
        "import os, sys; from k3_ledger.cli import main; "
        f"sys.argv[1:] = ['run', '--model', {str(synthetic('tiny'))!r}, '--out', {str(tmp_path / 'b')!r}, "
        f"'--engine', 'command', '--', 'sh', '-c', {engine!r}.format(os.getpid())]; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=600, check=False)
    assert done.returncode == 143, done.stderr
    assert done.stderr.decode().splitlines()[-1].endswith(f" in {tmp_path / 'b'}"), "and it is named"
    body = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body
    assert isinstance(body, FailedMeasurement)
    assert "SystemExit" in body.reason


def test_what_cannot_run_leaves_nothing(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = synthetic("tiny")
    out = tmp_path / "b"
    (tmp_path / "there").mkdir()
    for words in (
        ("--out", tmp_path / "there"),
        ("--out", tmp_path / "no" / "b"),
        ("--out", out, "--flag", "chunk"),
        ("--out", out, "--flag", "chunk=1", "--flag", "chunk=2"),
        ("--out", out, "--engine", "command"),
        ("--out", out, "--engine", "k3", "--", "engine"),
        ("--out", out, "--engine", "command", "--flag", "chunk=1", "--", "engine"),
        ("--out", out, "--repetitions", "2"),
        ("--out", out, "--model", "synth:huge"),
    ):
        result = invoke("run", *(("--model", model) if "--model" not in words else ()), *words)
        assert result.exit_code == 2, words
    wrong = (
        (("--flag", "chunks=1"), None),
        (("--flag", "chunk=0"), None),
        (("--flag", "graph=1"), None),
        ((), "garbage"),
    )
    for given, environment in wrong:
        if environment:
            monkeypatch.setenv("K3_CHUNK", environment)
        result = invoke("run", "--model", model, "--out", out, *given)
        assert isinstance(result.exception, RunError)
        assert result.exception.code is Code.RUN_FLAG
    assert not out.exists()


def test_another_tools_result_becomes_a_bundle(invoke: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(
        '{"elapsed_time": 2.0, "num_requests": 10, "total_num_tokens": 3000, "tokens_per_second": 1500.0}'
    )
    words = ("bundle", "from", "vllm", tmp_path / "r.json", "--node", "here", "--ran", "vllm bench throughput")
    said = ("--warmup", "0", "--cache", "none", "--inputs", "fresh", "--version", "1", "--started")
    result = invoke(*words, *said, "2026-01-31T12:00:00Z", "--out", tmp_path / "b", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rates"][0]["median"] == 1500.0
    assert parse_bundle((tmp_path / "b" / "bundle.json").read_bytes()).body.role == "reference"
    assert isinstance(invoke(*words, "--warmup", "0", "--out", tmp_path / "c").exception, RunError)


@pytest.mark.usefixtures("untimed")
def test_a_run_says_how_near_to_the_reference_it_was(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound run is not a right one: without a look at the record nobody sees an engine that does no work."""
    monkeypatch.setattr("k3_ledger.engine.runner.measure.Plan", lambda **_: SMALL)
    words = ("--model", synthetic("tiny"), "--depth", "4", "--rows", "2", "--outputs", "1", "--own-reference")
    result = invoke("run", *words, "--out", tmp_path / "b")
    assert result.exit_code == 0, result.output
    assert "parity: at worst, at depth 4: KL " in result.stdout
    assert "top-1 16 of 16 rows" in result.stdout
    answer = json.loads(invoke("run", *words, "--out", tmp_path / "c", "--json").stdout)
    assert (answer["parity"]["depth"], answer["parity"]["top1_agree"], answer["parity"]["rows"]) == (4, 16, 16)
    assert float(answer["parity"]["kl_max"]) < 1e-6
