"""What only a terminal gets: colours and a progress bar. Into a file or a pipe goes plain text."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLOW_BYTES = 32 << 20
"""A log smaller than this is verified before a bar could be read."""


@contextlib.contextmanager
def progress_bar(total: int | None, what: str) -> Iterator[Callable[[int], None] | None]:
    """A callback that takes the bytes done so far and draws a bar on stderr, or None where nobody watches."""
    if sys.stderr is None or not sys.stderr.isatty() or total is None or total < SLOW_BYTES:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    from rich.console import Console

    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
