"""What a target is, and how one input is run."""

from __future__ import annotations

import base64
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from k3_ledger.schemas.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes.

    Attributes:
        name: what to call it; also the name of its corpus.
        read: takes any bytes; raises LedgerError, or an AssertionError when a promise is broken.
        seeds: makes inputs to begin from, from this project's own code.
        longest: longest input that is tried, in bytes.
        needs: modules without which it cannot run.
        share: its part of the budget; whole verifications cost more than one line.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    longest: int = 4096
    needs: tuple[str, ...] = ()
    share: float = 1.0

    @property
    def missing(self) -> str | None:
        """A module that it needs and that is not installed."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), None)

    def known(self) -> list[bytes]:
        """What fuzzing begins with: seeds as they are made today, the corpus, and what once broke the target."""
        seeds = [data[: self.longest] for data in self.seeds()]
        return [*dict.fromkeys((*seeds, *stored("corpus", self.name), *stored("findings", self.name)))]

    def run(self, data: bytes) -> None:
        """Run one input: a LedgerError is an answer, and can be shown; anything else escapes."""
        try:
            self.read(data)
        except LedgerError as error:
            answer = error
        else:
            return
        str(answer).encode()
        assert answer.finding.advice


def stored(folder: str, name: str) -> list[bytes]:
    """The inputs of a corpus, or none."""
    path = HERE / folder / f"{name}.b64"
    return [base64.b64decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def store(folder: str, name: str, inputs: Iterable[bytes]) -> None:
    """Write a corpus: sorted, one line of base64 an input."""
    lines = sorted({base64.b64encode(data).decode() for data in inputs}, key=lambda line: (len(line), line))
    path = HERE / folder / f"{name}.b64"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
