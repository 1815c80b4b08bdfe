"""``k3-ledger model``: synthesise, inspect and check model files, and grade the engine on one."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.words import finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.engine.fit import Needs
    from k3_ledger.engine.synth import SynthSpec
    from k3_ledger.engine.weights import Weights

GIB = 1 << 30
MOST_GIB = 1 << 30
MOST_TOKENS = 1 << 40
"""Longest context that a file may announce."""
MOST_ROWS = 1 << 16
"""Most rows of logits at a depth, and widest chunk."""
MEASURED_BYTES = 64 << 20
"""Synthetic files up to this size have the spread of their routers measured after writing."""

PathArgument = Annotated[Path, typer.Argument(help="A GGUF file, or any part of a split one.", show_default=False)]
AllowMissing = Annotated[
    list[str] | None,
    typer.Option(help="Optional key or tensor (vocab_size, attn_gate …) that may be absent; may be repeated."),
]
AllowUnknown = Annotated[
    list[str] | None, typer.Option(help="Tensor that may stand in the file without a role; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Context = Annotated[int, typer.Option(min=1, max=MOST_TOKENS, help="Tokens of context to plan for.")]
Dtype = Annotated[str, typer.Option(help="Type of weights and activations: float32 or bfloat16.")]
Packed = Annotated[bool, typer.Option(help="Keep routed experts as they are stored.")]


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(no_args_is_help=True, help="Model files: synthesise, inspect, check, grade.")
    group.command("synth")(synth)
    group.command("inspect")(inspect)
    group.command("check")(check)
    group.command("parity")(parity)
    app.add_typer(group, name="model")


@contextlib.contextmanager
def _opened(path: Path, allow_missing: list[str] | None, allow_unknown: list[str] | None) -> Iterator[Weights]:
    from k3_ledger.cli.given import MODEL, given
    from k3_ledger.engine.config import OPTIONAL_KEYS
    from k3_ledger.engine.tensors import OPTIONAL_TENSORS
    from k3_ledger.engine.weights import open_weights

    optional = OPTIONAL_KEYS | OPTIONAL_TENSORS
    never = sorted(set(allow_missing or ()) - optional)
    if never:
        raise typer.BadParameter(
            f"{', '.join(map(repr, never))}: only these may be absent: {', '.join(sorted(optional))}",
            param_hint="--allow-missing",
        )
    with given(path, MODEL):
        weights = open_weights(
            path, allow_missing=frozenset(allow_missing or ()), allow_unknown=frozenset(allow_unknown or ())
        )
    with weights:
        yield weights


def _print(data: dict[str, Any], *, as_json: bool) -> None:
    """Prints one level of fields, or JSON."""
    if as_json:
        typer.echo(json.dumps(data, indent=2))
        return
    width = max(map(len, data))
    for key, value in data.items():
        if isinstance(value, dict):
            shown: Iterable[str] = (f"{name} {item}" for name, item in value.items())
            typer.echo(f"{key:<{width}}  {', '.join(shown)}")
        elif isinstance(value, list):
            typer.echo(f"{key:<{width}}  {', '.join(map(str, value))}")
        else:
            typer.echo(f"{key:<{width}}  {value}")


def synth(
    out: Annotated[Path, typer.Argument(help="File to write.", show_default=False)],
    preset: Annotated[str, typer.Option(help="Sizes to start from (tiny, parity26, real-period …).")] = "tiny",
    layers: Annotated[int | None, typer.Option(min=1, max=4096, help="Number of layers.")] = None,
    experts: Annotated[int | None, typer.Option(min=1, max=1 << 16, help="Number of routed experts.")] = None,
    hidden: Annotated[int | None, typer.Option(min=1, max=1 << 24, help="Width of the residual stream.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=260, max=1 << 20, help="Number of tokens.")] = None,
    quant: Annotated[str | None, typer.Option(help="Storage outside the routed experts: F32, BF16, Q8_0 …")] = None,
    expert_quant: Annotated[str | None, typer.Option(help="Storage of the routed experts: MXFP4, IQ1_S …")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=(1 << 63) - 1, help="Seed: the same arguments give the same bytes.")
    ] = 0,
    measure: Annotated[
        bool | None, typer.Option(help="Measure how routing spreads.", show_default="for files up to 64 MiB")
    ] = None,
    replace_: Annotated[bool, typer.Option("--replace", help="Write over a file that stands there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a random-weight K3 model of any size, as a stream.

    The same arguments give the same bytes on any machine. How evenly its routers spread a prompt over the experts is
    measured after writing, because the speed of a mixture is a speed at some spread.
    """
    import os
    import shutil

    from k3_ledger.cli.files import check_free, publish, writing
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.engine.synth import write_synthetic
    from k3_ledger.engine.synth.write import synthetic_size
    from k3_ledger.engine.weights import open_weights

    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder", param_hint="OUT")
    check_free(out, replace=replace_, option="OUT")
    wished = {
        "--layers": layers,
        "--experts": experts,
        "--hidden": hidden,
        "--vocabulary": vocabulary,
        "--quant": quant,
        "--expert-quant": expert_quant,
    }
    spec = _spec(preset, seed, {option: value for option, value in wished.items() if value is not None})
    total, done = synthetic_size(spec), 0
    if out.parent.is_dir() and total > shutil.disk_usage(out.parent).free:
        raise typer.BadParameter(f"{out} would take {total} bytes, more than are free there", param_hint="OUT")
    with progress_bar(total, "writing") as bar:

        def advance(written: int) -> None:
            nonlocal done
            done += written
            if bar is not None:
                bar(done)

        aside = out.with_name(f".{out.name}.{os.getpid()}")
        with writing(out):
            try:
                size = write_synthetic(spec, aside, progress=advance)
                publish(aside, out, replace=replace_, option="OUT")
            finally:
                aside.unlink(missing_ok=True)
    with open_weights(out) as weights:
        answer: dict[str, Any] = {"file": str(out), "bytes": size, "sha256": weights.digest(), "quant": weights.quant}
        if size <= MEASURED_BYTES if measure is None else measure:
            from k3_ledger.engine.spread import measure_spread

            answer["expert_load"] = measure_spread(weights).model_dump()
    _print(answer, as_json=as_json)


_FIELDS = {"--quant": "storage", "--expert-quant": "expert_storage"}


def _spec(preset: str, seed: int, wished: dict[str, int | str]) -> SynthSpec:
    """The preset with the wishes; where they do not go together, the first option that does not go is named.

    Raises:
        BadParameter: exit code 2.
    """
    from dataclasses import replace

    from k3_ledger.engine.synth import preset as preset_of
    from k3_ledger.schemas.errors import ModelError

    def changed(given: Iterable[str]) -> SynthSpec:
        changes: dict[str, Any] = {_FIELDS.get(option, option.removeprefix("--")): wished[option] for option in given}
        spec = replace(preset_of(preset, seed=seed), **changes)
        spec.config()
        return spec

    try:
        return changed(wished)
    except (ValueError, ModelError) as error:
        fault = error
    taken: list[str] = []
    for option in ("--preset", *wished):
        taken += [option] if option in wished else []
        try:
            changed(taken)
        except (ValueError, ModelError) as error:
            raise typer.BadParameter(str(error), param_hint=option) from error
    raise AssertionError("the whole is the last of its parts") from fault


def inspect(
    path: PathArgument,
    digest: Annotated[bool, typer.Option(help="Hash the file too.")] = False,
    allow_missing: AllowMissing = None,
    allow_unknown: AllowUnknown = None,
    as_json: AsJson = False,
) -> None:
    """Print what a model file holds. A file that is not a whole K3 model is refused."""
    from k3_ledger.engine.describe import describe

    with _opened(path, allow_missing, allow_unknown) as weights:
        weights.tokenizer()
        answer = describe(weights)
        if digest:
            answer["sha256"] = weights.digest()
    _print(answer, as_json=as_json)


def check(
    path: PathArgument,
    context: Context = 4096,
    memory_gib: Annotated[
        float | None,
        typer.Option(
            "--memory",
            min=0,
            max=MOST_GIB,
            help="GiB that the node has.",
            show_default="this machine's",
            callback=finite,
        ),
    ] = None,
    dtype: Dtype = "float32",
    packed: Packed = False,
    weights_too: Annotated[
        bool, typer.Option("--weights/--no-weights", help="Decode every weight and refuse NaN and infinities.")
    ] = True,
    allow_missing: AllowMissing = None,
    allow_unknown: AllowUnknown = None,
    as_json: AsJson = False,
) -> None:
    """Check that a model file is whole and finite, and that it fits a node at a context length."""
    from k3_ledger.engine.fit import ELEMENT_BYTES, check_context, host_memory, needs, require_fit

    if dtype not in ELEMENT_BYTES:
        raise typer.BadParameter(f"{dtype!r} is none of {', '.join(ELEMENT_BYTES)}", param_hint="--dtype")
    with _opened(path, allow_missing, allow_unknown) as weights:
        check_context(weights.config, context)
        weights.tokenizer()
        need: Needs = needs(weights, context=context, dtype=dtype, packed=packed)
        available = host_memory() if memory_gib is None else int(memory_gib * GIB)
        require_fit(need, available)
        if weights_too:
            for name in weights.tensors:
                weights.load(name)
    answer = {
        "file": str(path),
        "quant": weights.quant,
        "context": context,
        "needs_bytes": need.as_dict(),
        "memory_bytes": available,
        "weights": "finite" if weights_too else "not checked",
        "outcome": "fits",
    }
    _print(answer, as_json=as_json)


def parity(
    path: PathArgument,
    depth: Annotated[
        list[int] | None, typer.Option(min=1, max=MOST_TOKENS, help="Context length to grade; may be repeated.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Positions graded at each depth.")] = 4,
    chunk: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Chunk width of prefill.")] = 64,
    fast: Annotated[bool, typer.Option(help="Grade the fast path instead of the bit-identical one.")] = False,
    bound: Annotated[
        float | None,
        typer.Option(min=0, help="Nats by which no log-probability may differ.", show_default="none", callback=finite),
    ] = None,
    own: Annotated[bool, typer.Option(help="Grade against our own float64 instead of llama.cpp.")] = False,
) -> None:
    """Grade the engine against llama.cpp on a file: KL and top-1 over nested depths, as a receipt records them.

    The record is printed as JSON. Graded against our own float64 it is marked and can never earn a tier.
    Without --bound nothing is judged: exit code 0 says that the rows were compared, and not that they agree.
    """
    from k3_ledger.cli.given import MODEL, given
    from k3_ledger.engine.grading import grade_file

    with given(path, MODEL):
        depths = tuple(sorted(set(depth or (4, 16, 64))))
        graded = grade_file(path, depths=depths, rows=rows, chunk=chunk, fast=fast, own=own)
    typer.echo(graded.record.model_dump_json(indent=2))
    for finding in graded.findings:
        typer.echo(f"{finding.severity}: {finding.message} [{finding.code.id}]", err=True)
    if bound is None:
        typer.echo(
            f"not judged: no --bound was given; the largest difference is {graded.max_difference:.3g} nats, "
            f"the largest KL {float(graded.worst.kl_max):.3g} nats at depth {graded.worst.depth}",
            err=True,
        )
        return
    graded.require(bound)
