"""llama.cpp as the independent reference, through PyPI ``xllamacpp``, on the same file and the same ids.

It answers with log-probabilities of the next token only, so every row is a request of its own; prefixes share its
prompt cache. They are the raw softmax over the whole vocabulary: a bias that forces the answered token does not
enter them (it is needed because no row comes back when that token would be half a character). They are float32
numbers that llama.cpp computed with its own rounding of activations.

It may end the process that it runs in: see :mod:`k3_ledger.engine.parity.apart`, the only caller.
"""

from __future__ import annotations

import copy
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from k3_ledger.schemas.errors import ParityError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FORCED: Final = 1000.0
_SUM_SLACK: Final = 1e-3


class LlamaCpp:
    """One model loaded in llama.cpp on the CPU.

    Args:
        path: the model file, or the first part of a split one.
        forced: a token that is text.
        vocabulary: number of tokens.
        context: tokens of room, at least the longest prompt and one.
        ubatch: tokens that it computes together in prefill.
        threads: threads it may use.
        cache: share prefixes between requests. Off, every row is computed from nothing.
    """

    def __init__(
        self,
        path: Path,
        forced: int,
        vocabulary: int,
        *,
        context: int,
        ubatch: int = 512,
        threads: int = 2,
        cache: bool = True,
    ) -> None:
        import xllamacpp  # noqa: PLC0415 (only who grades needs it)

        self.version = f"xllamacpp {version('xllamacpp')}"
        self.vocabulary = vocabulary
        self.cache = cache
        self._forced = forced
        params: Any = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context + 1
        params.n_parallel = 1
        params.n_batch = max(32, context)
        params.n_ubatch = ubatch
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        params.warmup = False
        params.verbosity = 0
        # Float32 cache and plain attention: nothing is rounded that the file does not round.
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_F32
        params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        self._server: Any = xllamacpp.Server(params)

    @property
    def address(self) -> str:
        """Loopback address of its own HTTP interface (for its tokenizer)."""
        return str(self._server.listening_address)

    def afresh(self) -> LlamaCpp:
        """The same engine, which computes every row from nothing.

        Once, behind 688 tokens on one machine, it gave two rows in a row that neither another machine's llama.cpp nor
        this engine's CPU path gives; why is not known.
        """
        other = copy.copy(self)
        other.cache = False
        return other

    def row(self, ids: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Log-probabilities after a prompt.

        Raises:
            ParityError: the answer is no full row for these ids.
        """
        out = np.full(self.vocabulary, np.nan)
        for token, logprob in self.top(ids, self.vocabulary).items():
            out[token] = logprob
        missing = int(np.isnan(out).sum())
        if missing:
            raise ParityError(Code.PARITY_TRUNCATED, f"llama.cpp's row lacks {missing} of {self.vocabulary} tokens")
        total = float(np.exp(out).sum())
        if not abs(total - 1) < _SUM_SLACK:
            raise ParityError(Code.PARITY_PROCESSED, f"llama.cpp's probabilities add up to {total}, not to 1")
        return out

    def top(self, ids: Sequence[int], count: int) -> dict[int, float]:
        """Log-probabilities of the most probable tokens after a prompt: putting a whole vocabulary into words costs
        more than a small model's step.

        Raises:
            ParityError: the answer is not for these ids, or not of so many tokens.
        """
        count = min(count, self.vocabulary)
        answer = self._server.handle_completions(
            {
                "prompt": list(ids),
                "max_tokens": 1,
                "logprobs": count,
                "temperature": 0.0,
                "cache_prompt": self.cache,
                "logit_bias": [[self._forced, _FORCED]],
            }
        )
        if "choices" not in answer:  # an error of its own, of which the graded engine knows nothing
            why = f"llama.cpp gave no row behind {len(ids)} tokens: {str(answer)[:200]}"
            raise ParityError(Code.PARITY_REFERENCE_FAILED, why)
        if answer["choices"][0]["logprobs"] is None:
            raise ParityError(Code.PARITY_TRUNCATED, f"llama.cpp gave no row: {str(answer)[:200]}")
        taken = answer["usage"]["prompt_tokens"]
        if taken != len(ids):
            raise ParityError(Code.PARITY_PROMPTS_DIFFER, f"llama.cpp took {taken} tokens where {len(ids)} were sent")
        given = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        found = {int(item["id"]): float(item["logprob"]) for item in given}
        if count < self.vocabulary and len(found) != count:
            raise ParityError(Code.PARITY_TRUNCATED, f"llama.cpp gave {len(found)} tokens where {count} were asked for")
        return found
