"""What a model needs in memory, and whether a node has it. Needs no torch: it is arithmetic on the header."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.gguf.quants import VALUES_AT_ONCE
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from k3_ledger.engine.config import K3Config
    from k3_ledger.engine.weights import Weights

ELEMENT_BYTES: Final = {"float32": 4, "bfloat16": 2}
_FLOAT32: Final = ELEMENT_BYTES["float32"]
_LIVE_ROWS: Final = 6
"""Rows as wide as the widest product that a layer holds at once."""
_DECODING: Final = 16
"""Bytes, at most, that decoding takes for each value of a block beside what is kept of it."""
BESIDE: Final = 256 << 20
"""Bytes that compiled kernels and libraries take of an accelerator beside what torch allots there. On an H200 a model
ended for want of memory with 64 MiB more than it needed, and ran with 256. The context of the device is not in them:
who asks for free memory has one already."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of one sequence's state, by part."""

    cache: int
    windows: int
    memory: int

    @property
    def total(self) -> int:
        """All parts."""
        return self.cache + self.windows + self.memory


def state_bytes(config: K3Config, context: int, *, element: int) -> StateBytes:
    """Bytes of a state with room for ``context`` tokens; ``element`` is the size of one cached value."""
    mla = sum(config.mla)
    kda = config.layers - mla
    return StateBytes(
        cache=mla * context * config.cached_row * element,
        windows=kda * (config.taps - 1) * 3 * config.inner * 4,
        memory=kda * config.heads * config.head**2 * 4,
    )


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes that running a model takes.

    Attributes:
        weights: as loaded: dense in the wished type, routed experts as stored when packed.
        cache: latent rows of the whole context.
        state: convolution windows and KDA memory.
        buffers: the larger of what a chunk takes, with its unpacked experts, and what loading takes beside what it
            keeps: a block that is decoded, and of a tensor that is kept in another type all of it as float32.
    """

    weights: int
    cache: int
    state: int
    buffers: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.state + self.buffers

    def as_dict(self) -> dict[str, int]:
        """JSON form."""
        return {**asdict(self), "total": self.total}


def _widest(config: K3Config) -> int:
    return max(
        3 * config.inner,
        config.dense_width,
        config.shared * config.expert_width,
        config.heads * (config.cached_row + config.value),
        config.hidden,
    )


def _is_float32(name: str, shape: tuple[int, ...]) -> bool:
    """Whether the engine keeps a tensor in float32 whatever type is wished."""
    return len(shape) == 1 or name == "token_embd.weight" or "ffn_gate_inp" in name or "ssm_conv1d" in name


def needs(weights: Weights, *, context: int, dtype: str = "float32", packed: bool = False, chunk: int = 64) -> Needs:
    """Bytes that the model takes at a context length.

    Args:
        weights: the checked file.
        context: tokens of one sequence, at least 1.
        dtype: ``float32`` or ``bfloat16``.
        packed: routed experts stay as stored.
        chunk: tokens taken together in prefill.
    """
    element, config = ELEMENT_BYTES[dtype], weights.config
    held = loading = 0
    for name, info in weights.tensors.items():
        if packed and "_exps." in name:
            held += info.size
            continue
        count = math.prod(info.shape)
        kept = count * (_FLOAT32 if _is_float32(name, info.shape) else element)
        held += kept
        # As float32 it is what decoding writes to: there is no second one.
        copied = 0 if kept == count * _FLOAT32 else count * _FLOAT32
        loading = max(loading, copied + _DECODING * min(count, VALUES_AT_ONCE))
    used = min(config.experts, chunk * config.top_k) if packed else 0
    unpacked = 3 * used * config.expert_width * config.latent * element
    rows = chunk * 4 * (config.hidden * (config.banks + 4) + _LIVE_ROWS * _widest(config))
    scores = chunk * config.heads * context * 4
    state = state_bytes(config, context, element=element)
    return Needs(
        weights=held,
        cache=state.cache,
        state=state.windows + state.memory,
        buffers=max(rows + scores + config.vocabulary * _FLOAT32 + unpacked, loading),
    )


def host_memory() -> int:
    """Bytes of main memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_fit(need: Needs, available: int, where: str = "there are") -> None:
    """Demands that the model fits.

    Raises:
        ModelError: MODEL_DOES_NOT_FIT, with the bytes that are short.
    """
    if need.total > available:
        raise ModelError(
            Code.MODEL_DOES_NOT_FIT,
            f"the model needs {need.total} bytes, {need.total - available} more than {where}",
            expected=f"at most {available} bytes",
            found=", ".join(f"{part} {size}" for part, size in need.as_dict().items()),
        )


def check_host(
    weights: Weights, *, context: int, dtype: str = "float32", packed: bool = False, chunk: int = 64
) -> None:
    """Demands that this machine's main memory holds what is about to be loaded into it, before it is.

    Raises:
        ModelError: MODEL_DOES_NOT_FIT.
    """
    taken = min(chunk, context)
    require_fit(needs(weights, context=context, dtype=dtype, packed=packed, chunk=taken), host_memory())


def check_accelerator(
    weights: Weights,
    free: int,
    *,
    context: int,
    dtype: str = "float32",
    packed: bool = False,
    chunk: int = 64,
    states: int = 1,
) -> None:
    """Demands that an accelerator's free memory holds what is about to be loaded into it, before it is.

    Args:
        weights: the checked file.
        free: bytes of it that nobody has taken.
        context: tokens of one sequence, at least 1.
        dtype: type of matrices and activations.
        packed: routed experts stay as stored.
        chunk: tokens taken together in prefill.
        states: sequences whose state is there at once, see :func:`states_served`.

    Raises:
        ModelError: MODEL_DOES_NOT_FIT.
    """
    taken = min(chunk, context)
    need = needs(weights, context=context, dtype=dtype, packed=packed, chunk=taken)
    held = replace(need, cache=states * need.cache, state=states * need.state, buffers=need.buffers + BESIDE)
    require_fit(held, free, "the accelerator has free")


def states_served(*, graph: bool) -> int:
    """Sequences whose state an engine process holds at once, at most.

    The one that is timed beside the one that a reset or a grading begins; with recorded steps their own tensors, and
    into these the second one moves while the first one moves out. Each is reckoned at the length that is sure to
    come: a run that has to time more tokens resets to more room, for which nothing was asked.
    """
    return 3 if graph else 2


def check_context(config: K3Config, context: int, *, answered: bool = False) -> None:
    """Demands that the file announces the context.

    Args:
        config: of the file.
        context: tokens of the longest sequence.
        answered: whether llama.cpp has to answer behind it, which takes a token of room more.

    Raises:
        ModelError: MODEL_DOES_NOT_FIT.
    """
    if context + answered > config.context:
        more = ", with the one that llama.cpp answers behind it," if answered else ""
        raise ModelError(
            Code.MODEL_DOES_NOT_FIT,
            f"a context of {context} tokens{more} is longer than the file announces",
            expected=f"at most {config.context - answered}",
            found=str(context),
            hint="ask for less: a smaller --context, --decode-tokens or --depth, fewer tokens",
        )
