"""``k3-ledger run`` and ``k3-ledger bundle``: measure an engine, or take another tool's result, into a bundle."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.words import command_line, finite, no_stream, printable_text, short_name, utc_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from k3_ledger.engine.runner.run import Outcome

RUN_HELP = """Measure an engine and write a bundle, which `seal` turns into a receipt.

The engine is a process of its own, timed from outside at two lengths of prefill and of decode, on fresh prompts; what
it put out and its logits are compared with llama.cpp on the same file. A run that is refused leaves a bundle of kind
`failed`. What is checked, and what no check can see, is in docs/measurement.md.

`--engine k3` is this project's own. `--engine command -- PROGRAM …` measures any program that speaks the protocol; in
its words `{model}` becomes the path of the model file and `{here}` this folder.
"""
BUNDLE_HELP = """Turn the result file of another benchmark tool into a bundle.

The times are the tool's own (observer `subject`), the role is `reference`, nothing is graded. What the file does not
say is null, or asked for by an option; a file that could be read in two ways is refused. The file itself is kept,
with paths of the machine replaced.
"""


MOST_TOKENS = 1 << 40
"""Longest context that a model file may announce, and most of anything that is counted."""
MOST_ROWS = 1 << 16
MOST_SECONDS = 10_000_000


class Engine(enum.StrEnum):
    """What runs."""

    K3 = "k3"
    COMMAND = "command"


class Role(enum.StrEnum):
    """Role of a receipt."""

    CANDIDATE = "candidate"
    FRONTIER = "frontier"
    REFERENCE = "reference"


class Tool(enum.StrEnum):
    """Whose result file it is."""

    LLAMA_BENCH = "llama-bench"
    VLLM = "vllm"
    SGLANG = "sglang"


class Cache(enum.StrEnum):
    """State of the prefix cache."""

    COLD = "cold"
    WARM = "warm"
    NONE = "none"


class Inputs(enum.StrEnum):
    """Whether every repetition had new input."""

    FRESH = "fresh"
    REPEATED = "repeated"


OutOption = Annotated[Path, typer.Option(help="Folder for the bundle; must not exist.", show_default=False)]
NodeOption = Annotated[
    str,
    typer.Option(
        help="What you call this machine; runs are only compared on one node.", show_default=False, callback=short_name
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("run", help=RUN_HELP)(run)
    from k3_ledger.cli.attest import ATTEST_HELP, attest
    from k3_ledger.cli.pack import PACK_HELP, pack

    group = typer.Typer(
        no_args_is_help=True, help="Measurement bundles from other tools' results; offline bundles for auditors."
    )
    group.command("from", help=BUNDLE_HELP)(bundle_from)
    group.command("attest", help=ATTEST_HELP)(attest)
    group.command("pack", help=PACK_HELP)(pack)
    app.add_typer(group, name="bundle")


def run(
    context_: typer.Context,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the bundle; must not exist.", show_default="bundle- and the time, in this one"),
    ] = None,
    model: Annotated[str, typer.Option(help="A GGUF file, or synth:PRESET.", callback=no_stream)] = "synth:tiny",
    engine: Annotated[Engine, typer.Option(help="Which engine.")] = Engine.K3,
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM …", help="Command of an external engine.")
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Flag of the k3 engine (device, dtype, chunk …); may be repeated."),
    ] = None,
    node: NodeOption = "unnamed",
    context: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_TOKENS,
            help="Tokens in front of timed decode, all real, and of timed prefill: scored at it.",
        ),
    ] = 64,
    decode_tokens: Annotated[int, typer.Option(min=1, max=MOST_TOKENS, help="Least tokens of a timed decode.")] = 16,
    repetitions: Annotated[int, typer.Option(min=3, max=40, help="Rounds of timed runs.")] = 7,
    depth: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=MOST_TOKENS, help="Context length to grade; may be repeated.", show_default="4, 16, 64 and 128"
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, max=MOST_ROWS, help="Positions graded at each depth, in prefill and in decode.")
    ] = 4,
    prompts: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Prompts graded at each depth.")] = 4,
    outputs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_ROWS,
            help="Outputs of timed decodes to compare with llama.cpp's where that is more than must be.",
            show_default="as many as must be",
        ),
    ] = None,
    signal: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="How many times the jitter the extra tokens are made to take: what a rule asks."
        ),
    ] = 10,
    longest: Annotated[
        float,
        typer.Option(
            min=0,
            max=MOST_SECONDS,
            help="Seconds of timing after which neither lengths nor rounds grow for that.",
            callback=finite,
        ),
    ] = 60.0,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            help="Round of this run: a candidate is scored against the frontier of its round.",
            callback=short_name,
        ),
    ] = None,
    role: Annotated[Role, typer.Option(help="Role of the receipt.")] = Role.CANDIDATE,
    own_reference: Annotated[
        bool, typer.Option("--own-reference", help="Grade against our own float64: such a receipt earns no tier.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=MOST_SECONDS, help="Longest wait for one answer, in seconds.", callback=finite)
    ] = 600.0,
    collateral: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="What a TDX quote of this machine is checked with, kept with it."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure, write the bundle, print rates; exit 1 when the run is refused."""
    import tempfile
    import time

    out = Path(time.strftime("bundle-%Y%m%dT%H%M%SZ", time.gmtime())) if out is None else out
    _check_new(out)

    from k3_ledger.cli.given import MODEL, given
    from k3_ledger.engine.runner.measure import Plan
    from k3_ledger.engine.runner.run import Request
    from k3_ledger.engine.runner.run import run as measure
    from k3_ledger.engine.synth import materialise

    if (engine is Engine.COMMAND) != bool(program):
        raise typer.BadParameter("--engine command takes a program behind --, and nothing else does")
    if program and flag:
        raise typer.BadParameter("flags are the k3 engine's; give an external engine its own in its command")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"{out.parent} is not a folder", param_hint="--out")
    flags = dict(_pair(text) for text in flag or ())
    if len(flags) != len(flag or ()):
        raise typer.BadParameter("a flag is given twice", param_hint="--flag")
    plan = Plan(
        context=context,
        decode_tokens=decode_tokens,
        repetitions=repetitions,
        most_repetitions=max(25, repetitions),
        signal_to_jitter=signal,
        longest_s=longest,
    )
    with _terminable(), tempfile.TemporaryDirectory(prefix="k3-ledger-") as folder, _progress() as progress:
        try:
            path = materialise(model, Path(folder))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--model") from error
        name = model.replace(":", "-") if model.startswith("synth:") else _called(path)
        request = Request(
            model=path,
            model_name=name,
            out=out,
            node=node,
            engine=tuple(
                word.replace("{model}", str(path.absolute())).replace("{here}", str(Path.cwd()))
                for word in program or ()
            ),
            flags=flags,
            plan=plan,
            depths=tuple(sorted(set(depth or (4, 16, 64, 128)))),
            rows=rows,
            prompts=prompts,
            round=round_,
            own_reference=own_reference,
            role=role.value,
            command=("k3-ledger", *sys.argv[1:]),
            timeout_s=timeout,
            outputs=outputs or 0,
            collateral=collateral,
            given=_set_by_hand(context_),
        )
        with given(path, MODEL), _taken(out):
            outcome = measure(request, progress, _name)
    _show(outcome, as_json=as_json)
    if outcome.kind == "failed":
        raise typer.Exit(1)
    if outcome.out != out:
        raise typer.Exit(3)


def _set_by_hand(context: typer.Context) -> frozenset[str]:
    """Names of the parameters that the command line gives."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def _name(outcome: Outcome) -> None:
    """Say where the bundle is of a run that ends with an error of another kind."""
    _tell_patch(outcome)
    typer.echo(f"{outcome.kind} bundle {outcome.bundle} in {outcome.out}", err=True)


def _tell_patch(outcome: Outcome) -> None:
    """Whoever publishes the bundle publishes uncommitted changes."""
    from k3_ledger.engine.provenance import PATCH

    for one in outcome.measurement.artifacts:
        if one.name == PATCH:
            typer.echo(f"kept in the bundle: {PATCH}, {one.size} bytes of changes that are not committed", err=True)


@contextlib.contextmanager
def _taken(out: Path) -> Iterator[None]:
    """A folder that somebody else has made since it was looked for."""
    try:
        yield
    except FileExistsError as error:
        if error.filename != str(out):
            raise
        raise typer.BadParameter(f"{out} exists already", param_hint="--out") from None


def _check_new(out: Path) -> None:
    """Refuse a folder that is there, or a place that a ledger has for its own files.

    Raises:
        BadParameter: exit code 2.
    """
    from k3_ledger.cli.places import check_no_ledgers

    check_no_ledgers(out, option="--out")
    if os.path.lexists(out):
        raise typer.BadParameter(f"{out} exists already", param_hint="--out")


def bundle_from(
    tool: Annotated[Tool, typer.Argument(help="Whose result it is.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="The result file.", show_default=False)],
    out: OutOption,
    node: Annotated[
        str,
        typer.Option(
            help="What you call this machine: the one that the file was made on.",
            show_default=False,
            callback=short_name,
        ),
    ],
    ran: Annotated[
        str, typer.Option(help="Command line that wrote the file.", show_default=False, callback=command_line)
    ],
    warmup: Annotated[
        int, typer.Option(min=0, max=MOST_TOKENS, help="Repetitions before the first in the file.", show_default=False)
    ],
    version: Annotated[
        str | None,
        typer.Option(help="Version of the engine, where the file names none.", callback=printable_text),
    ] = None,
    started: Annotated[
        str | None,
        typer.Option(
            help="When it began (2026-01-31T12:00:00Z), where the file does not say in UTC.", callback=utc_time
        ),
    ] = None,
    cache: Annotated[Cache | None, typer.Option(help="Prefix cache, where the file does not tell.")] = None,
    inputs: Annotated[Inputs | None, typer.Option(help="Inputs, where the file does not tell.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=MOST_TOKENS, help="Batch of a vLLM latency file.")] = None,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, max=MOST_TOKENS, help="Input tokens of a vLLM latency file.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(min=1, max=MOST_TOKENS, help="Output tokens of a vLLM latency file.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="The K3 model file that was run, if it was one.")] = None,
    role: Annotated[Role, typer.Option(help="Role of the receipt.")] = Role.REFERENCE,
    as_json: JsonOption = False,
) -> None:
    """Read the file, write the bundle, print rates."""
    _check_new(out)
    import shlex

    from k3_ledger.cli.given import MODEL, RESULT, given
    from k3_ledger.engine.adapters import READERS, Told
    from k3_ledger.engine.adapters.reading import MAX_BYTES as MAX_RESULT
    from k3_ledger.engine.adapters.write import Origin, bundle_reading
    from k3_ledger.engine.runner.run import Outcome, weights_of
    from k3_ledger.engine.weights import open_weights
    from k3_ledger.ledger.regular import read_small

    told = Told(
        warmup=warmup,
        cache=None if cache is None else cache.value,
        inputs=None if inputs is None else inputs.value,
        batch=batch,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    with given(file, RESULT):
        data = read_small(file, MAX_RESULT)
        reading = READERS[tool.value](data, told)
    weights = opened = None
    if model is not None:
        with given(model, MODEL):
            opened = open_weights(model)
        with opened:
            weights = weights_of(opened, _called(model), opened.digests())
    file_of = None if opened is None else opened.file
    origin = Origin(node, tuple(shlex.split(ran)), version, started, role.value, weights, file_of)
    with _taken(out):
        bundle, measurement = bundle_reading(reading, data, f"{tool.value}.json", origin, out)
    _show(Outcome(bundle, "run", (), measurement, out), as_json=as_json)


def _called(path: Path) -> str:
    """What a receipt calls a model: its file's name without the ending.

    Raises:
        BadParameter: a receipt cannot say that name.
    """
    from k3_ledger.cli.words import short_name

    try:
        return str(short_name(path.stem))
    except typer.BadParameter as error:
        raise typer.BadParameter(f"a receipt calls it by its file's name: {error}", param_hint="--model") from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--flag")
    return name, value


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Being told to end is an end like any other: the bundle of the attempt is written first."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, on a terminal; nothing elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("starting") as status:
        yield status.update


def _show(outcome: Outcome, *, as_json: bool) -> None:
    from k3_ledger.engine.runner.summary import rates_of, worst_depth
    from k3_ledger.schemas.outcomes import Severity

    rates, worst = rates_of(outcome.measurement), worst_depth(outcome.measurement)
    _tell_patch(outcome)
    if as_json:
        answer: dict[str, Any] = {
            "bundle": outcome.bundle,
            "kind": outcome.kind,
            "out": str(outcome.out),
            "rates": [rate.as_dict() for rate in rates],
            "parity": None if worst is None else worst.model_dump(mode="json"),
            "findings": [finding.as_dict() for finding in outcome.findings],
        }
        typer.echo(json.dumps(answer, indent=2))
        return
    for finding in outcome.findings:
        typer.echo(f"{finding.severity}: {finding.message} [{finding.code.id}]", err=True)
        if finding.expected is not None:
            typer.echo(f"  expected: {finding.expected}", err=True)
        if finding.found is not None:
            typer.echo(f"  found: {finding.found}", err=True)
        if finding.severity is Severity.ERROR:
            typer.echo(f"hint: {finding.advice}", err=True)
    if rates:
        typer.echo(f"{'':<10}{'tokens/s':>12}{'least':>12}{'most':>12}{'by clock':>12}  runs")
    for rate in rates:
        clock = "-" if rate.marginal is None else f"{rate.marginal:.6g}"
        typer.echo(
            f"{rate.metric:<10}{rate.median:>12.6g}{rate.least:>12.6g}{rate.most:>12.6g}{clock:>12}  {rate.samples}"
        )
    if worst is not None:
        typer.echo(
            f"parity: at worst, at depth {worst.depth}: KL {float(worst.kl_max):.3g} nats; "
            f"top-1 {worst.top1_agree} of {worst.rows} rows"
        )
    typer.echo(f"{outcome.kind} bundle {outcome.bundle} in {outcome.out}")
