"""Grades this engine on a file, against llama.cpp or against its own float64."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.engine.fit import check_context, check_host
from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import Model, Options
from k3_ledger.engine.parity.apart import ANSWER_SECONDS, LlamaCppApart
from k3_ledger.engine.parity.sources import ModelSource, ReferenceSource
from k3_ledger.engine.parity.suite import Graded, Suite, grade
from k3_ledger.engine.reference import Reference
from k3_ledger.engine.weights import open_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.weights import Weights

SMALL_BYTES: Final = 64 << 20
"""Weights up to which llama.cpp gets one thread."""
TRIED_TOKENS: Final = 4
"""Tokens that it computes with each number of threads that is tried."""
LEAST_TRIED: Final = 17
"""Room for so many tokens makes trying worth while: answers are told from none with 16, and each trial is a load."""


def reference_for(
    weights: Weights, path: Path, context: int, *, own: bool, timeout_s: float = ANSWER_SECONDS
) -> LogitSource:
    """llama.cpp on the same file, in a process of its own, or our own float64 (which is not independent).

    Args:
        weights: the opened file.
        path: where it is.
        context: tokens of room.
        own: take the float64 specification.
        timeout_s: longest wait for llama.cpp to load or to give one row, in seconds.

    Raises:
        ImportError: llama.cpp was asked for and PyPI ``xllamacpp`` is not installed.
        ParityError: PARITY_REFERENCE_FAILED: llama.cpp cannot run this model.
    """
    if own:
        return ReferenceSource(Reference(weights))

    def load(threads: int) -> LlamaCppApart:
        tokenizer, vocabulary = weights.tokenizer(), weights.config.vocabulary
        return LlamaCppApart(path, tokenizer, vocabulary, context=context, threads=threads, timeout_s=timeout_s)

    return load(_threads(weights, load, context))


def _threads(weights: Weights, load: Callable[[int], LlamaCppApart], context: int) -> int:
    """One where a step is shorter than what sharing it out takes: 3 ms a row, and 260 ms with two on busy cores.

    Elsewhere as many as are fastest now: of all cores, a half or a quarter of them. Threads wait for one another, so on
    cores that others keep busy two took 2.0 s a row of a slice of 2 GiB where one took 0.75. One model is loaded at a
    time.
    """
    cores = len(os.sched_getaffinity(0))
    settings = sorted({cores, max(1, cores // 2), max(1, cores // 4)}, reverse=True)
    if sum(info.size for info in weights.tensors.values()) <= SMALL_BYTES:
        return 1
    if len(settings) == 1 or context < LEAST_TRIED:
        return cores
    ids = weights.tokenizer().ordinary()[:TRIED_TOKENS]
    return min(settings, key=lambda threads: _step_seconds(load(threads), ids))


def _step_seconds(reference: LlamaCppApart, ids: Sequence[int]) -> float:
    """The shortest time of a token in decode, of some behind a first one that pays for what is done once."""
    took = []
    for length in range(1, len(ids) + 1):
        start = time.monotonic()
        reference.top(ids[:length], 1)
        took.append(time.monotonic() - start)
    reference.close()
    return min(took[1:])


def emulates(weights: Weights) -> bool:
    """Whether llama.cpp would round activations on this file: any matrix that is not F32."""
    return any(info.storage.name != "F32" for info in weights.tensors.values())


def grade_file(
    path: Path,
    *,
    depths: tuple[int, ...],
    rows: int,
    chunk: int,
    fast: bool = False,
    own: bool = False,
    way: Literal["prefill", "decode", "both"] = "both",
) -> Graded:
    """Loads the model and grades it on the CPU.

    On files with quantised matrices the candidate emulates llama.cpp's rounding of activations, because that is part
    of what the reference computes.

    Args:
        path: the model file.
        depths: ascending context lengths.
        rows: positions graded at each.
        chunk: chunk width of prefill.
        fast: grade the fast path.
        own: grade against the float64 specification.
        way: prefill, decode or both.
    """
    with open_weights(path) as weights:
        check_context(weights.config, depths[-1], answered=not own)
        check_host(weights, context=depths[-1], chunk=chunk)
        numerics = Numerics(deterministic=not fast, emulate=not own and emulates(weights))
        candidate = ModelSource(Model(weights, Options(numerics=numerics)), chunk)
        reference = reference_for(weights, path, depths[-1], own=own)
        usable = weights.tokenizer().ordinary()
        return grade(candidate, reference, Suite(depths=depths, rows=rows), usable, path=way, chunk=chunk)
