"""Compares two engines' rows. Everything that would make the numbers meaningless is refused before any is computed.

Tie rule (``lowest-id``): of equal values the lowest id is the top-1. A row counts as a tie when either side's largest
value is held by two ids, and as a near tie when either side's two largest differ by at most ``near_tie`` nats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.schemas.errors import ParityError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.engine.parity.rows import Array, Rows

NEAR_TIE: Final = 1e-3
"""Nats between the two largest values of a row at or under which it counts as a near tie."""
_UNDERFLOW: Final = -1e30
_NO_PROBABILITY: Final = math.log(math.ulp(0.0))
"""Nats, -744.4: the logarithm of the least probability that float64 holds. A token below it was never computed."""
_STEP: Final = 0.25
"""Nats between neighbouring bfloat16 values of 32 to 64, the coarsest that honest rows are rounded to."""
_CHANCE: Final = 8
"""Ids that may hold one value beyond what rounding explains."""
_SCALED_SLOPE: Final = 0.01
_SCALED_LEAST: Final = 0.1
"""Factor below which a row is next to flat, and says too little to be called another's times a factor."""
_SCALED_RESIDUE: Final = 0.25
"""What a temperature leaves of how far the two sides are apart, at most; what two models differ by it leaves whole."""
_MOST: Final = 0.9
"""Part of the ids of a row that a temperature explains; the others may have been moved besides."""
_MOVED: Final = 1e-6
"""Nats by which a temperature that matters moves them."""
_FLAT: Final = 1e-9
"""Spread of a row, in nats, below which rounding decides what its slope is."""


@dataclass(frozen=True)
class Comparison:
    """Agreement over some rows, all in float64.

    Attributes:
        kl: KL(reference ‖ candidate) of each row, in nats.
        difference: max |Δ log p| of each row.
        agree: rows whose top-1 is the same id.
        ties, near_ties: rows where top-1 rests on the tie rule, or nearly.
        identical: whether every value of every row is the same to the last bit.
        top_difference: of each row, the larger |Δ log p| at the top-1 of either side, which is what chooses a token.
    """

    kl: Array
    difference: Array
    agree: int
    ties: int
    near_ties: int
    identical: bool
    top_difference: Array


def log_softmax(values: Array) -> Array:
    """Log-probabilities of ``[rows, vocabulary]``; a log-probability row comes back as it was."""
    shifted = values - values.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _check_setup(candidate: Rows, reference: Rows, where: str) -> None:
    if candidate.prompt_sha256 != reference.prompt_sha256:
        raise ParityError(
            Code.PARITY_PROMPTS_DIFFER,
            f"the two engines took different prompts at {where}",
            expected=reference.prompt_sha256,
            found=candidate.prompt_sha256,
        )
    for side, rows in (("candidate", candidate), ("reference", reference)):
        if rows.processing != "raw":
            raise ParityError(Code.PARITY_PROCESSED, f"the {side}'s logits are processed at {where}")
    if candidate.values.shape != reference.values.shape:
        raise ParityError(
            Code.PARITY_TRUNCATED,
            f"the two engines gave rows of different sizes at {where}",
            expected=str(list(reference.values.shape)),
            found=str(list(candidate.values.shape)),
        )


def check_finite(values: Array, side: str, where: str) -> None:
    """Refuses NaN and infinities, with their position.

    Raises:
        ParityError: PARITY_NOT_FINITE.
    """
    bad = np.argwhere(~np.isfinite(values) | (values < _UNDERFLOW))
    if len(bad):
        row, token = (int(i) for i in bad[0])
        raise ParityError(
            Code.PARITY_NOT_FINITE,
            f"the {side}'s value of token {token} in row {row} is {values[row, token]} at {where}",
            position=Position(field=f"rows[{row}][{token}]"),
            expected="finite logits",
            found=f"{len(bad)} others",
        )


def _check_flat(candidate: Array, reference: Array, where: str) -> None:
    """Refuses a row that says nothing where the reference's says something: no work was done for it."""
    flat = (np.ptp(candidate, axis=-1) <= _FLAT) & (np.ptp(reference, axis=-1) > _FLAT)
    if flat.any():
        raise ParityError(
            Code.PARITY_FLAT,
            f"the candidate gives every token the same value at {where}",
            position=Position(field=f"rows[{int(np.argmax(flat))}]"),
            expected="logits that differ",
            found=f"{int(flat.sum())} flat rows",
        )


def _check_floor(values: Array, side: str, where: str) -> None:
    """Refuses log-probabilities that are no probability: what was left out was filled with a large negative number."""
    bad = np.argwhere(values < _NO_PROBABILITY)
    if len(bad):
        row, token = (int(i) for i in bad[0])
        raise ParityError(
            Code.PARITY_TRUNCATED,
            f"the {side}'s log-probability of token {token} in row {row} is {values[row, token]:.6g} at {where}",
            position=Position(field=f"rows[{row}][{token}]"),
            expected=f"at least {_NO_PROBABILITY:.1f}, the logarithm of the least float64",
            found=f"{len(bad)} below",
        )


def _check_filled(values: Array, other: Array, side: str, where: str) -> None:
    """Refuses a row where one value stands for many ids which the other side tells apart.

    Rounding does that too: as many ids may share a value as the other side has within one coarse step anywhere.
    """
    for row, (mine, theirs) in enumerate(zip(values, other, strict=True)):
        held = int(np.unique(mine, return_counts=True)[1].max())
        ordered = np.sort(theirs)
        within = np.searchsorted(ordered, ordered + _STEP, side="right") - np.arange(len(ordered))
        most = int(within.max()) + _CHANCE
        if held > most:
            raise ParityError(
                Code.PARITY_TRUNCATED,
                f"the {side} gives {held} of {len(mine)} tokens one value in row {row} at {where}",
                position=Position(field=f"rows[{row}]"),
                expected=f"at most {most}, by how close the other side's values lie",
                found=str(held),
            )


def _temperature(candidate: Array, reference: Array) -> float | None:
    """What one row is the other's times, where all but a tenth of its ids lie along that and not along one.

    The slope is the median over pairs of ids that lie half a row apart, so no few ids that were moved besides hide it.
    """
    order, half = np.argsort(reference), len(reference) // 2
    c, r = candidate[order], reference[order]
    rise, run = c[-half:] - c[:half], r[-half:] - r[:half]
    if not (run > _FLAT).any():
        return None
    slope = float(np.median(rise[run > _FLAT] / run[run > _FLAT]))

    def residue(of: float) -> float:
        off = c - of * r
        return float(np.quantile(np.abs(off - np.median(off)), _MOST))

    apart = residue(1.0)
    likely = slope >= _SCALED_LEAST and abs(slope - 1) > _SCALED_SLOPE and apart > _MOVED
    return slope if likely and residue(slope) <= _SCALED_RESIDUE * apart else None


def _check_scaled(candidate: Array, reference: Array, where: str) -> None:
    """Refuses a row that is the reference's own times a factor: a temperature that was not declared."""
    for row, (mine, right) in enumerate(zip(candidate, reference, strict=True)):
        slope = _temperature(mine, right)
        if slope is not None:
            raise ParityError(
                Code.PARITY_PROCESSED,
                f"one side's logits are the other's times {slope:.4f} at {where}: a temperature was applied",
                position=Position(field=f"rows[{row}]"),
            )


def _top(values: Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Array]:
    """Top-1 ids (lowest of equals) and the gap to the second largest value, per row."""
    if values.shape[-1] == 1:
        return values.argmax(axis=-1), np.full(len(values), np.inf)
    largest = np.partition(values, -2, axis=-1)[:, -2:]
    return values.argmax(axis=-1), largest[:, 1] - largest[:, 0]


def compare(candidate: Rows, reference: Rows, *, near_tie: float = NEAR_TIE, where: str = "input") -> Comparison:
    """Compares rows of the same prompt.

    Raises:
        ParityError: PARITY_PROMPTS_DIFFER, PARITY_PROCESSED, PARITY_TRUNCATED, PARITY_NOT_FINITE, PARITY_FLAT,
            PARITY_TRUNCATED (rows that were filled up) or PARITY_PROCESSED (a temperature), in this order.
    """
    _check_setup(candidate, reference, where)
    check_finite(reference.values, "reference", where)
    check_finite(candidate.values, "candidate", where)
    p, q = log_softmax(reference.values), log_softmax(candidate.values)
    _check_flat(q, p, where)
    for side, values, mine, other in (("reference", reference.values, p, q), ("candidate", candidate.values, q, p)):
        _check_floor(mine, side, where)
        _check_filled(values, other, side, where)
    _check_scaled(q, p, where)
    # KL is never negative; what rounding leaves below zero is zero.
    kl = np.maximum((np.exp(p) * (p - q)).sum(axis=-1), 0.0)
    (top_p, gap_p), (top_q, gap_q) = _top(reference.values), _top(candidate.values)
    tie = (gap_p == 0) | (gap_q == 0)
    rows = np.arange(len(p))
    near = ~tie & ((gap_p <= near_tie) | (gap_q <= near_tie))
    return Comparison(
        kl=kl,
        difference=np.abs(p - q).max(axis=-1),
        top_difference=np.maximum(*(np.abs(p - q)[rows, top] for top in (top_p, top_q))),
        agree=int((top_p == top_q).sum()),
        ties=int(tie.sum()),
        near_ties=int(near.sum()),
        identical=bool((p == q).all()),
    )
