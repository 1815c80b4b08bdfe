"""Shows, before anything is timed, that the answers of this model tell work from none.

Outputs are held against a reference. Where the model's layers add nothing, because its weights are zero or were made
so, a table by the last token gives the same ones, and an engine that runs no layer is as right as one that runs all. So
the reference is asked first, for rows behind drawn prompts, and what an engine that does nothing could answer is held
against them by the very measure that outputs are held to:

- what the last token gives alone: everything that leaves out the layers, or copies its input, is a function of that;
- what comes behind the prompt with everything between its first and its last token replaced;
- what came behind another prompt, as a constant does;
- the row of zeros.

Each must be further off than outputs may be, behind some of the prompts: so many outputs of a round are looked at that
a share of them is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.parity.compare import check_finite, log_softmax
from k3_ledger.engine.runner.outputs import Known
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.outputs import Row

PROMPTS: Final = 16
"""Prompts that are drawn."""
LONGEST: Final = 16
"""Tokens of one, where a sequence that is timed is as long."""
LEAST_TOLD: Final = 2
"""Prompts behind which work is told from none. Where one output in eight is, a round of a hundred has a dozen of them;
an honest model of two layers in bfloat16 has nine in sixteen beyond half a nat."""
_ALONE, _MIDDLE = "the last token alone", "a prompt with another middle"
_CONSTANT, _ZEROS = "the row behind another prompt", "a row of zeros"


@dataclass(frozen=True, slots=True)
class Told:
    """By how many nats what does no work is off, behind each prompt.

    Attributes:
        off: by what gives an answer without the work.
    """

    off: dict[str, tuple[float, ...]]

    def findings(self, tolerance: float) -> Iterator[Finding]:
        """What cannot be told from work where outputs may be off by so many nats."""
        for name, those in self.off.items():
            told = sum(one > tolerance for one in those)
            if told < LEAST_TOLD:
                yield Finding(
                    Code.RUN_DEGENERATE,
                    f"the reference gives behind drawn prompts what {name} gives: who does no work would pass",
                    Position(field="model"),
                    f"further off than {tolerance:.3g} nats behind at least {LEAST_TOLD} of {len(those)}",
                    f"behind {told}, and at most {max(those):.3g} nats",
                )


def tell(reference: LogitSource, usable: Sequence[int], length: int, seed: int) -> Told:
    """Ask the reference for rows behind drawn prompts, and hold against them what needs no work.

    Args:
        reference: the engine taken as right.
        usable: ids that prompts may hold.
        length: tokens of a prompt, at least 3.
        seed: of the run; the prompts are drawn apart from those that it times and grades.
    """
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed).spawn(2)[1]))
    pool = np.asarray(usable)
    off: dict[str, list[float]] = {name: [] for name in (_ALONE, _MIDDLE, _CONSTANT, _ZEROS)}
    before = _row(reference, _draw(generator, pool, length))
    for _ in range(PROMPTS):
        ids = _draw(generator, pool, length)
        other = [ids[0], *_draw(generator, pool, length)[1:-1], ids[-1]]
        row = _row(reference, ids)
        answers = {
            _ALONE: _row(reference, ids[-1:]),
            _MIDDLE: _row(reference, other),
            _CONSTANT: before,
            _ZEROS: np.full(len(row), -np.log(len(row))),
        }
        for name, answer in answers.items():
            off[name].append(_off(row, answer))
        before = row
    return Told({name: tuple(those) for name, those in off.items()})


def _draw(generator: np.random.Generator, pool: np.ndarray[tuple[int], np.dtype[np.int64]], length: int) -> list[int]:
    return [int(token) for token in pool[generator.integers(0, len(pool), length)]]


def _row(reference: LogitSource, ids: list[int]) -> Row:
    values = reference.rows(ids, 1, "prefill").values
    check_finite(values, "reference", f"behind {len(ids)} drawn tokens")
    row: Row = log_softmax(values)[0]
    return row


def _off(row: Row, answer: Row) -> float:
    token = int(np.argmax(answer))
    return Known.of(row, 0.0, token).off((token, float(answer[token])))
