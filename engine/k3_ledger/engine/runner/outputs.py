"""Checks what timed runs put out against an engine that is taken as right.

Timed requests never show logits, so this is what ties a speed to an answer: every id that is looked at must be, to
within a stated bound, the most probable one after exactly the ids in front of it. Which positions are looked at is
drawn after the run.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.measure import Timed

BOUND: Final = 0.02
"""Nats by which a chosen token may be less probable than the best one: an honest near tie, never a wrong answer."""
POSITIONS: Final = 3
"""Positions looked at in each timed run: the first, the last, and others drawn afterwards."""


def check_outputs(timed: list[Timed], reference: LogitSource, *, bound: float = BOUND) -> Iterator[Finding]:
    """Findings about ids that the reference would not have chosen.

    Args:
        timed: the runs that count.
        reference: the engine taken as right.
        bound: nats below the best token that are still taken.
    """
    for number, one in enumerate(timed):
        drawn = {0, len(one.output) - 1}
        while len(drawn) < min(POSITIONS, len(one.output)):
            drawn.add(secrets.randbelow(len(one.output)))
        for at in sorted(drawn):
            ids = [*one.prompt, *one.output[:at]]
            row = log_softmax(reference.rows(ids, 1, "prefill").values)[0]
            short = float(np.max(row) - row[one.output[at]])
            if not short <= bound:
                yield Finding(
                    Code.RUN_OUTPUT,
                    f"timed {one.metric} put out a token that {reference.name} would not have chosen",
                    Position(field=f"timed run {number}, output {at}"),
                    f"token {int(np.argmax(row))}, or one within {bound} nats of it",
                    f"token {one.output[at]}, {short:.3g} nats below",
                )
