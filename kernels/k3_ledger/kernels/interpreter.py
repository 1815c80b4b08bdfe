"""Triton's CPU interpreter on current NumPy: one repair, made only in processes that interpret."""

from __future__ import annotations

from typing import Any

from triton.runtime import interpreter


def read_loop_bounds() -> None:
    """Let interpreted kernels loop to a bound that is an argument.

    Triton 3.6 keeps scalars as arrays of one element and reads them with ``int(array)``, which NumPy 2.4 refuses. The
    compiled kernels do not come by here.
    """
    patch = interpreter._patch_lang_tensor  # noqa: SLF001  the one place where it decides how a scalar is read

    def patch_and_read(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_and_read  # noqa: SLF001  likewise
