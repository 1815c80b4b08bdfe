"""Checks what timed walks put out against an engine that is taken as right.

This is what ties a speed to an answer. Every id that is looked at must be, to within a bound, the most probable one
after exactly the ids in front of it, and the log-probability that the engine gave with it must be the reference's.
Which positions are looked at is drawn after the run.

The bound follows from what parity measured on rows of logits, see :func:`tolerance`: an engine that is right when it
is asked for logits must be as right when it is timed, and one that widens the bound by being wrong there has a parity
record that says so.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.parity.compare import check_finite, log_softmax
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.measure import Walk

LEAST: Final = 0.02
"""Nats that are always taken: float32 against llama.cpp stays a hundred times under this."""
MULTIPLE: Final = 2
"""How many times the largest difference seen at the top of a graded row is taken."""
DRAWN: Final = 3
"""Positions of decode looked at in each walk: the last, and others drawn afterwards."""
CONSTANT_SHARE: Final = 0.9
"""Share of the looked-at ids that may be one and the same before they say nothing about the engine."""


def tolerance(graded: float) -> float:
    """Nats by which a timed token may miss, given the largest miss at the top of rows that parity graded."""
    return max(LEAST, MULTIPLE * graded)


def check_outputs(walks: Sequence[Walk], reference: LogitSource, *, bound: float = LEAST) -> Iterator[Finding]:
    """Findings about ids and log-probabilities that the reference would not have given.

    Args:
        walks: the walks that count.
        reference: the engine taken as right.
        bound: nats that are taken, see :func:`tolerance`.
    """
    chosen: Counter[int] = Counter()
    for number, walk in enumerate(walks):
        looked = [("prefill", 0, walk.prompt, walk.next, walk.next_logprob)]
        for at in _draw(len(walk.output)):
            ids = (*walk.prompt, walk.start, *walk.output[:at])
            looked.append(("decode", at, ids, walk.output[at], walk.logprobs[at]))
        for op, at, ids, token, logprob in looked:
            chosen[token] += 1
            place = Position(field=f"walk {number}, {op}, output {at}")
            yield from _check_one(reference, ids, (token, logprob), bound, place)
    most = max(chosen.values(), default=0)
    if most > CONSTANT_SHARE * chosen.total():
        yield Finding(
            Code.RUN_DEGENERATE,
            f"{most} of {chosen.total()} tokens that were looked at are the same one: a constant would have passed",
            Position(field="outputs"),
            f"at most {CONSTANT_SHARE:.0%} the same",
            f"token {chosen.most_common(1)[0][0]}" if chosen else None,
        )


def _draw(length: int) -> list[int]:
    drawn = {length - 1}
    while len(drawn) < min(DRAWN, length):
        drawn.add(secrets.randbelow(length))
    return sorted(drawn)


def _check_one(
    reference: LogitSource, ids: Sequence[int], given: tuple[int, float], bound: float, place: Position
) -> Iterator[Finding]:
    token, logprob = given
    values = reference.rows(list(ids), 1, "prefill").values
    check_finite(values, "reference", str(place))
    row = log_softmax(values)[0]
    best = int(np.argmax(row))
    if not 0 <= token < len(row) or row[best] - row[token] > bound:
        short = f"{row[best] - row[token]:.3g} nats below" if 0 <= token < len(row) else "outside the vocabulary"
        yield Finding(
            Code.RUN_OUTPUT,
            f"a timed walk put out a token that {reference.name} would not have chosen",
            place,
            f"token {best}, or one within {bound:.3g} nats of it",
            f"token {token}, {short}",
        )
    elif abs(row[token] - logprob) > bound:
        yield Finding(
            Code.RUN_OUTPUT,
            f"a timed walk gave a token another log-probability than {reference.name} does",
            place,
            f"{row[token]:.6f}, to within {bound:.3g} nats",
            f"{logprob:.6f}",
        )
