"""The one way to run an operation: ``select("rms_norm", "auto")`` gives a callable, and says what ran.

::

    runs = Runs()
    rms_norm = select("rms_norm", backend="auto", runs=runs)
    y = rms_norm(x, weight, eps=1e-5)
    runs.records()      # [{"op": "rms_norm", "backend": "triton", "executor": "compiled", "device": "cuda", ...}]

Operations, each specified in its package's ``naive.py`` (shapes, types, which space, source). Inputs are contiguous
unless the specification says otherwise; anything else is refused with ValueError or TypeError before a launch. States
are updated in place; other outputs are new tensors.

==============  =======================================================================================================
product         ``(x [T, I] or [T, H, I], weight [O, I] or [H, O, I], *, by_count=False) -> [T, O] or [T, H, O]
                float32``
rms_norm        ``(x [..., D], weight [D], *, eps, gate=None [..., D]) -> [..., D]``
situ            ``(gate [..., F], up [..., F], *, beta, linear_beta) -> [..., F]``
conv            ``(x [B, T, C], window [B, P, C] in place, weight [C, P + 1]) -> [B, T, C]``
kda_step        ``(q, k [B, T, H, K], v [B, T, H, V], f [B, T, H, K], beta [B, T, H], *, a [H], dt_bias [H, K],
                state [B, H, K, V] in place, lower_bound, l2_eps) -> [B, T, H, V]``
kda_chunk       as kda_step, 16 tokens at a time, equal within a tolerance
mla_decode      ``(query [B, T, H, R], cache [B, S, R], lengths [B, T], *, value_dim, scale, slice_rows)
                -> [B, T, H, V]``
mla_slices      as mla_decode ``-> Slices(peak, total [J, B, T, H], latent [J, B, T, H, V])``
mla_merge       ``(peak, total [J, B, T, H], latent [J, B, T, H, V]) -> [B, T, H, V]``
mla_prefill     ``(query [B, T, H, N + P], key [B, S, H, N], key_pe [B, S, P], value [B, S, H, V], *, start, scale)
                -> [B, T, H, V]``
router          ``(logits [T, E], bias [E], *, top_k, renormalise, scale, min_sum) -> ids, weights [T, k]``
experts         ``(x [T, M], ids, weights [T, k], *, gate, up [L, F, M], down [L, M, F], beta, linear_beta,
                first_expert, expert_count, by_load=False) -> [T, M] float32``
residual_mix    ``(bank [N, T, D], x [T, D], score_weight [D], *, count, eps) -> [T, D]``
unpack          ``(data [..., bytes], *, quant, dtype, grid=None) -> [..., values]``
==============  =======================================================================================================

Two contracts hold for both backends. *Bit-identical*: a token's result does not depend on the other tokens of the
call, for every operation but ``kda_chunk``, and ``experts`` and ``product`` where ``by_load`` and ``by_count`` give it
up. *Nothing read that was not
written*: rows past a length, bank vectors past the count and slots of other ranks may hold NaN.

Backends: ``naive`` is torch in float64; ``triton`` is the kernel, compiled on a GPU, or interpreted on a CPU in a
process started with ``TRITON_INTERPRET=1``; ``auto`` is triton for CUDA tensors and naive otherwise. Nothing falls back
in silence: what cannot run where it was asked to run raises :class:`BackendError`. The interpreter is for tests; a
record says ``interpreter`` where it ran, and such a run can earn no parity.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeVar, cast, overload

import torch

from k3_ledger.kernels import (
    conv,
    experts,
    kda_chunk,
    kda_step,
    mla_decode,
    mla_merge,
    mla_prefill,
    product,
    residual_mix,
    rms_norm,
    router,
    situ,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.kernels.op import Op

P = ParamSpec("P")
R = TypeVar("R")

Backend = Literal["naive", "triton", "auto"]
Executor = Literal["torch", "compiled", "interpreter"]

OPS: Final[dict[str, Op[..., Any]]] = {
    op.name: op
    for op in cast(
        "tuple[Op[..., Any], ...]",
        (
            product.OP,
            rms_norm.OP,
            situ.OP,
            conv.OP,
            kda_step.OP,
            kda_chunk.OP,
            mla_decode.OP,
            mla_decode.SLICES,
            mla_merge.OP,
            mla_prefill.OP,
            router.OP,
            experts.OP,
            residual_mix.OP,
            unpack.OP,
        ),
    )
}
"""Every operation by name."""


class BackendError(RuntimeError):
    """The backend asked for cannot run on these tensors in this process."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What ran: recorded with every measurement, because the three executors are not one implementation.

    Attributes:
        op: name of the operation.
        backend: ``naive`` or ``triton``, after ``auto`` was resolved.
        executor: ``torch``, ``compiled`` or ``interpreter``.
        device: type of the device the tensors were on.
        source: SHA-256 over the room's sources (:func:`source_digest`).
    """

    op: str
    backend: Literal["naive", "triton"]
    executor: Executor
    device: str
    source: str


class Runs:
    """Counts of what ran, kept by whoever measures."""

    def __init__(self) -> None:
        self.counts: Counter[Ran] = Counter()

    def records(self) -> list[dict[str, str | int]]:
        """One record for each distinct :class:`Ran`, with ``calls``, sorted by operation, backend and device."""
        ordered = sorted(self.counts.items(), key=lambda item: (item[0].op, item[0].backend, item[0].device))
        return [{**asdict(ran), "calls": calls} for ran, calls in ordered]


class Kernel(Generic[P, R]):
    """An operation bound to a backend. Call it like the operation's naive version."""

    def __init__(self, op: Op[P, R], backend: Backend, runs: Runs | None) -> None:
        self.op = op
        self.backend: Final = backend
        self.runs = runs

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Check the arguments, run, record.

        Raises:
            ValueError: an argument outside the operation's contract.
            TypeError: an argument of a type outside it.
            BackendError: the backend cannot run on these tensors here.
        """
        self.op.check(*args, **kwargs)
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        backend = self.backend
        if backend == "auto":
            backend = "triton" if first.is_cuda else "naive"
        if backend == "naive":
            executor: Executor = "torch"
            function = self.op.naive
        else:
            executor, function = _kernel(self.op, first)
        result = function(*args, **kwargs)
        if self.runs is not None:
            ran = Ran(self.op.name, backend, executor, first.device.type, source_digest())
            self.runs.counts[ran] += 1
        return result


@overload
def select(op: Op[P, R], backend: Backend = ..., *, runs: Runs | None = ...) -> Kernel[P, R]: ...
@overload
def select(op: str, backend: Backend = ..., *, runs: Runs | None = ...) -> Kernel[..., Any]: ...
def select(op: Op[P, R] | str, backend: Backend = "auto", *, runs: Runs | None = None) -> Kernel[..., Any]:
    """Bind an operation to a backend.

    Args:
        op: its name in :data:`OPS`, or the Op itself, which keeps the signature for type checkers.
        backend: ``naive``, ``triton`` or ``auto``.
        runs: where to count what ran.

    Raises:
        ValueError: no such operation or backend.
    """
    if backend not in ("naive", "triton", "auto"):
        raise ValueError(f"unknown backend {backend!r}; known: naive, triton, auto")
    if not isinstance(op, str):
        return Kernel(op, backend, runs)
    if op not in OPS:
        raise ValueError(f"unknown operation {op!r}; known: {', '.join(OPS)}")
    return Kernel(OPS[op], backend, runs)


@functools.cache
def source_digest() -> str:
    """Hex SHA-256 over the Python sources of this room, read once a process.

    Over the concatenation, in order of path, of each file's own digest (32 bytes): operations share code, so they share
    one digest.
    """
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def _kernel(op: Op[P, R], first: torch.Tensor) -> tuple[Executor, Callable[P, R]]:
    try:
        language = importlib.import_module("k3_ledger.kernels.language")
    except ImportError as error:
        raise BackendError(f"{op.name}: triton is not installed; backend 'naive' needs only torch") from error
    executor: Executor = "interpreter" if language.INTERPRETED else "compiled"
    if executor == "compiled" and not first.is_cuda:
        raise BackendError(
            f"{op.name}: compiled kernels need CUDA tensors, these are on {first.device}; "
            "start the process with TRITON_INTERPRET=1 to interpret them, or use backend 'naive'"
        )
    if first.dtype == torch.float64:
        raise BackendError(f"{op.name}: kernels compute in float32; float64 is for backend 'naive'")
    module = importlib.import_module(f"{op.package}.triton_")
    return executor, cast("Callable[P, R]", getattr(module, op.name))
