"""From a model file to a bundle, through the command line: what is written when it goes well, and when it does not."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from docs.examples.made_up_intel import AT, World
from typer.testing import CliRunner

from k3_ledger.cli import run as command
from k3_ledger.engine.contracts import BIT_IDENTICAL
from k3_ledger.engine.runner import run as runner
from k3_ledger.engine.runner import session
from k3_ledger.engine.runner.channel import python_command
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.run import Request
from k3_ledger.engine.tsm import Module
from k3_ledger.kernels.dispatch import source_digest
from k3_ledger.rescore.native import read_run
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.measurement import FailedMeasurement, RunMeasurement, Source
from k3_ledger.schemas.validate import parse_bundle
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.receipts import check_run
from k3_ledger.verify.source import MemorySource
from tests.engine.simulated_tsm import SimulatedModule
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
    assert flags["run.outputs-prefill"][0] == "9 looked at, 0 missed, 1 may"
    assert flags["run.outputs-decode"][0] == "27 looked at, 0 missed, 2 may"
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


def quick(synthetic: Callable[..., Path], folder: Path, **how: Any) -> Request:
    return Request(
        model=synthetic("tiny"), model_name="synth-tiny", out=folder / "b", node="here", flags={"chunk": "16"},
        plan=SMALL, outputs=1, depths=(4,), rows=1, own_reference=True, **how,
    )  # fmt: skip


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
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = b"diff --git a/x b/x\n"
    source = Source(commit="1" * 40, dirty=True, patch_sha256=hashlib.sha256(patch).hexdigest(), clean_builds=0)
    monkeypatch.setattr(runner, "probe_source", lambda _: (source, patch))
    tasks = []

    def measure(session: runner.Session, *_: object) -> list[Finding]:
        tasks.append(session.task)
        return [Finding(Code.RUN_TIMEOUT, "no")]

    monkeypatch.setattr(runner.Session, "measure", measure)
    outcome = runner.run(Request(synthetic("tiny"), "m", tmp_path / "b", "here", round="round-7", prompts=3))
    assert (outcome.measurement.round, tasks[0].prompts) == ("round-7", 3)
    assert outcome.measurement.subject.source == source
    assert artifacts(tmp_path / "b")["source.patch"] == patch


def test_a_run_that_fails_is_kept_and_exits_1(
    invoke: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    """The toy has another vocabulary than the model."""
    words = ("run", "--model", synthetic("tiny"), "--out", tmp_path / "b", "--engine", "command", "--json")
    result = invoke(*words, "--", sys.executable, TOY)
    assert result.exit_code == 1, result.output
    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["rates"]) == ("failed", [])
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
    for given, environment in ((("--flag", "chunks=1"), None), (("--flag", "chunk=0"), None), ((), "garbage")):
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
