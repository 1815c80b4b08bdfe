"""Matrices of a loaded model: how they are kept, and the two ways to multiply with them.

*Deterministic*: a token's bits do not depend on which tokens share its chunk. On a GPU that is a contract of the kernel
``product``; elsewhere every token is a matrix-vector product of its own, the same call that decoding makes. *Fast*: one
matrix product a chunk; the library picks its tiles from the number of tokens, so results agree within a tolerance only.
A token by itself is the kernel's on either path.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from k3_ledger.engine.gguf.quants import round_activations
from k3_ledger.engine.gguf.types import F32, Storage
from k3_ledger.kernels.dispatch import Backend, Runs, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def check_device(name: str) -> None:
    """Refuse what is no device that the engine runs on, and one that is not here.

    Raises:
        ValueError: it is none of `cpu`, `cuda` and `cuda:N`, or cannot hold a tensor.
    """
    unfit = f"{name!r} is no device that torch has here; cpu always is"
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,4})?", name):
        raise ValueError(unfit)
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise ValueError(unfit) from None


def free_memory(device: str) -> int:
    """Bytes of an accelerator that nobody has taken, as its driver says."""
    return torch.cuda.mem_get_info(device)[0]


@contextmanager
def memory_named() -> Iterator[None]:
    """Call it by one name when memory runs out within, of a host or of an accelerator.

    Raises:
        MemoryError: what torch wanted could not be had.
    """
    try:
        yield
    except RuntimeError as error:  # a host's is nothing else to torch, and says so in words
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            raise MemoryError(str(error)) from error
        raise


def dtype_named(name: str) -> torch.dtype:
    """The type that a person asked for by name; ``ValueError`` lists the names that there are."""
    if name not in DTYPES:
        raise ValueError(f"{name} is none of {', '.join(DTYPES)}")
    return DTYPES[name]


@dataclass(frozen=True)
class Numerics:
    """How a model computes.

    Attributes:
        dtype: type of weights and of the activations they multiply; sums and the residual stream are float32.
        deterministic: one product a token (see the module) or one a chunk.
        emulate: round activations as llama.cpp's CPU kernels do for each weight's storage type.
    """

    dtype: torch.dtype = torch.float32
    deterministic: bool = True
    emulate: bool = False


@dataclass(frozen=True)
class Matrix:
    """A weight ``[..., out, in]`` with the storage type it came from.

    Attributes:
        weight: on its device.
        storage: of the file.
        numerics: how to compute.
        backend: which kernels run on a GPU.
        runs: where to count them.
    """

    weight: Tensor
    storage: Storage
    numerics: Numerics
    backend: Backend = "auto"
    runs: Runs | None = None

    def rounded(self, x: Tensor) -> Tensor:
        """``x`` as the kernel of the storage type would see it, when that is emulated."""
        if not self.numerics.emulate or self.storage is F32:
            return x
        return torch.from_numpy(round_activations(x.cpu().numpy(), self.storage)).to(x.device)

    def __call__(self, x: Tensor) -> Tensor:
        """``[T, in]`` to ``[T, out]``, float32."""
        x = self.rounded(x)
        if self._by_kernel(x):
            return self._product(x)
        x = x.to(self.weight.dtype)
        if not self.numerics.deterministic:
            return torch.nn.functional.linear(x, self.weight).float()
        # A fresh, aligned copy of each row: the library's kernels may look at the address.
        return torch.stack([torch.mv(self.weight, row.clone()) for row in x]).float()

    def per_head(self, x: Tensor) -> Tensor:
        """``[T, heads, in]`` to ``[T, heads, out]`` for a weight ``[heads, out, in]``, float32."""
        x = self.rounded(x)
        if self._by_kernel(x):
            return self._product(x)
        x = x.to(self.weight.dtype)
        if not self.numerics.deterministic:
            return torch.einsum("hoi,thi->tho", self.weight, x).float()
        return torch.stack([torch.bmm(self.weight, row.clone()[:, :, None])[:, :, 0] for row in x]).float()

    def _by_kernel(self, x: Tensor) -> bool:
        """Whether the kernel multiplies: chunks of the fast path are the library's."""
        alone = self.numerics.deterministic or x.shape[0] == 1
        return alone and self.weight.is_cuda and self.backend != "naive"

    def _product(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            x = x.to(self.weight.dtype)
        operation = select("product", self.backend, runs=self.runs)
        out: Tensor = operation(x.contiguous(), self.weight, by_count=not self.numerics.deterministic)
        return out
