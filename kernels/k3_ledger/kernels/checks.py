"""Checks of tensor arguments, by letters: ``dims.check("q", q, "B T H K")`` binds or compares each size.

Kernels index raw memory, so a wrong shape, stride or device is refused here, before any launch: a kernel that reads
the wrong place returns fluent values, not an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Collection

FLOATS: Final = frozenset({torch.float64, torch.float32, torch.bfloat16, torch.float16})
"""Types of activations and weights. float64 is for the naive versions alone."""
INTEGERS: Final = frozenset({torch.int32, torch.int64})


class Dims:
    """Sizes bound so far, and the one device all tensors of a call live on."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.device: torch.device | None = None

    def __getitem__(self, letter: str) -> int:
        return self.sizes[letter]

    def check(
        self,
        name: str,
        tensor: torch.Tensor,
        shape: str,
        dtypes: Collection[torch.dtype] = FLOATS,
        *,
        rows_strided: bool = False,
    ) -> None:
        """Refuse ``tensor`` unless it has the shape, a type of ``dtypes``, the call's device and plain strides.

        Args:
            name: how the error calls it.
            tensor: the argument.
            shape: one word a dimension: a number, or a letter bound at first sight. A leading ``...`` takes any
                number of dimensions, bound as a whole.
            dtypes: types accepted.
            rows_strided: only the last dimension must be contiguous.

        Raises:
            TypeError: not a tensor, or of another type.
            ValueError: wrong shape, device or strides.
        """
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is a {type(tensor).__name__}, not a tensor")
        if tensor.dtype not in dtypes:
            known = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
            raise TypeError(f"{name} has type {str(tensor.dtype).removeprefix('torch.')}; accepted: {known}")
        self._check_shape(name, tensor, shape.split())
        if self.device is None:
            self.device = tensor.device
        if tensor.device != self.device:
            raise ValueError(f"{name} is on {tensor.device}, other arguments on {self.device}")
        if rows_strided:
            if tensor.stride(-1) != 1 and tensor.shape[-1] > 1:
                raise ValueError(f"{name} must be contiguous in its last dimension; its strides are {tensor.stride()}")
        elif not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous; its strides are {tensor.stride()} for {tuple(tensor.shape)}")

    def _check_shape(self, name: str, tensor: torch.Tensor, words: list[str]) -> None:
        actual = list(tensor.shape)
        if words[0] == "...":
            leading = len(actual) - len(words) + 1
            rows = 1
            for size in actual[: max(leading, 0)]:
                rows *= size
            actual = [rows, *actual[max(leading, 0) :]]
        if len(actual) != len(words):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected [{', '.join(words)}]")
        for word, size in zip(words, actual, strict=True):
            expected = int(word) if word.isdigit() else self.sizes.setdefault(word, size)
            if size != expected:
                raise ValueError(
                    f"{name} has shape {tuple(tensor.shape)}, expected [{', '.join(words)}] with {word} = {expected}"
                )


def check_positive(name: str, value: float) -> None:
    """Refuse a number that is not above zero (NaN included)."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0, not {value}")
