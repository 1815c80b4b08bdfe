"""Libraries written in Rust can panic on hostile bytes. In Python that is no ``Exception``, so it ends a program."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULE: Final = "pyo3_runtime"
"""Where PyO3 says its ``PanicException`` lives; it cannot be imported from there."""


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic inside the block into a ``ValueError``: the bytes were refused, if not in words.

    Raises:
        ValueError: a library panicked.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != _MODULE:
            raise
        raise ValueError(f"the library that reads this gave up: {error}"[:300]) from error
