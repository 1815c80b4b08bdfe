"""``k3-ledger generate``: text from a model, streamed."""

from __future__ import annotations

from typing import Annotated

import typer

from k3_ledger.cli.words import finite, no_stream

HELP = """Continue a text with a K3-shaped model, on this machine, streamed as it comes.

MODEL is a GGUF file, or a synthetic model by name (`synth:tiny`), which has random weights and writes nonsense.
Greedy unless --temperature is above 0; a drawn text repeats for its seed, which is printed to stderr.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("generate", help=HELP)(generate)


def generate(
    model: Annotated[str, typer.Argument(help="A GGUF file, or synth:PRESET.", callback=no_stream, show_default=False)],
    text: Annotated[str, typer.Argument(help="What to continue.", show_default=False)],
    tokens: Annotated[int, typer.Option(min=1, max=1 << 40, help="Most tokens to write.")] = 64,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.", callback=finite)] = 0.0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=(1 << 63) - 1, help="Seed of a drawn text.", show_default="a new one"),
    ] = None,
    chunk: Annotated[int, typer.Option(min=1, max=1 << 16, help="Chunk width of prefill.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda, or one of several (cuda:1).")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    packed: Annotated[bool, typer.Option(help="Keep routed experts as they are stored.")] = False,
    fast: Annotated[bool, typer.Option(help="Take chunks as one product: faster, not bit-identical.")] = False,
) -> None:
    """Stream the text to stdout."""
    import secrets
    import tempfile
    from pathlib import Path

    from k3_ledger.cli.given import MODEL, given
    from k3_ledger.engine.fit import check_accelerator, check_context, check_host
    from k3_ledger.engine.linear import Numerics, check_device, dtype_named, free_memory, memory_named
    from k3_ledger.engine.model import Model, Options
    from k3_ledger.engine.sampling import Greedy, Seeded
    from k3_ledger.engine.synth import materialise
    from k3_ledger.engine.text import prompt_ids, stream_text
    from k3_ledger.engine.weights import open_weights

    if seed is not None and temperature == 0:
        raise typer.BadParameter("greedy draws nothing; a seed needs --temperature above 0", param_hint="--seed")
    try:
        numerics = Numerics(dtype_named(dtype), deterministic=not fast)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--dtype") from error
    try:
        check_device(device)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--device") from error
    options = Options(device=device, numerics=numerics, packed=packed)
    sampler: Greedy | Seeded = Greedy()
    if temperature > 0:
        sampler = Seeded(secrets.randbits(32) if seed is None else seed, temperature)
        typer.echo(f"seed {sampler.seed}", err=True)
    with tempfile.TemporaryDirectory(prefix="k3-ledger-") as folder:
        try:
            path = materialise(model, Path(folder))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="MODEL") from error
        with given(path, MODEL):
            weights = open_weights(path)
        with weights:
            tokenizer = weights.tokenizer()
            check_context(weights.config, tokenizer.least(text) + tokens)
            longest = len(prompt_ids(tokenizer, text)) + tokens
            check_context(weights.config, longest)
            if device == "cpu":
                check_host(weights, context=longest, dtype=dtype, packed=packed, chunk=chunk)
            else:
                free = free_memory(device)
                check_accelerator(weights, free, context=longest, dtype=dtype, packed=packed, chunk=chunk)
            with memory_named():
                loaded = Model(weights, options)
    with memory_named():
        for piece in stream_text(loaded, tokenizer, text, tokens, sampler=sampler, chunk=chunk):
            typer.echo(piece, nl=False)
    typer.echo()
