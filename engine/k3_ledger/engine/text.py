"""Text in, text out: a prompt through the tokenizer and the model, streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.engine.model import Model
    from k3_ledger.engine.sampling import Sampler
    from k3_ledger.engine.tokenizer import Tokenizer


def prompt_ids(tokenizer: Tokenizer, text: str | bytes) -> list[int]:
    """Ids of a prompt, with ``bos`` in front where the file asks for it or the text is empty."""
    ids = tokenizer.encode(text, special=True)
    return [tokenizer.bos, *ids] if tokenizer.add_bos or not ids else ids


def stream_text(
    model: Model,
    tokenizer: Tokenizer,
    text: str | bytes,
    count: int,
    *,
    sampler: Sampler | None = None,
    chunk: int = 64,
) -> Iterator[str]:
    """Yields what follows ``text`` piece by piece, at most ``count`` tokens, ending at the end of the turn.

    A piece is held back until its last byte arrives, so no half character is ever yielded.
    """
    decoder = tokenizer.stream()
    stop = frozenset({tokenizer.eos})
    for token in model.generate(prompt_ids(tokenizer, text), count, sampler=sampler, stop=stop, chunk=chunk):
        piece = decoder.decode(tokenizer.decode([token]))
        if piece:
            yield piece
    rest = decoder.decode(b"", final=True)
    if rest:
        yield rest
