"""What a path promises against the bit-identical one, in numbers; a receipt names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.parity.compare import log_softmax

if TYPE_CHECKING:
    from k3_ledger.engine.parity.rows import Array

BIT_IDENTICAL: Final = "bit-identical: any chunk width gives the bits of the one-token walk"


@dataclass(frozen=True, slots=True)
class Contract:
    """How far rows of logits may lie from those of the bit-identical path of the same type.

    Attributes:
        relative_l2: of all rows together.
        kl: KL(bit-identical ‖ path) of each, in nats.
        gap: the top-1 is the same wherever the two largest logits are further apart than this.
        tenths: tenths of the rows that keep to all of it. Where a type is coarse, a router's choice that hangs on the
            last bit falls the other way once in a while, and that row is another row.
    """

    relative_l2: float
    kl: float
    gap: float
    tenths: int

    @property
    def text(self) -> str:
        """As a receipt names it."""
        rows = "every row" if self.tenths == 10 else f"{self.tenths} rows of 10"
        return (
            f"tolerance against the bit-identical path of the type: relative L2 {self.relative_l2:g}, "
            f"KL {self.kl:g}, same top-1 beyond {self.gap:g}; {rows}"
        )

    def broken_by(self, rows: Array, exact: Array) -> str | None:
        """What of the contract these ``[rows, vocabulary]`` logits do not keep, or None; NaN keeps nothing."""
        p, q = log_softmax(exact), log_softmax(rows)
        kl = (np.exp(p) * (p - q)).sum(axis=1)
        kept = np.argsort(kl)[: max(1, len(kl) * self.tenths // 10)]  # NaN comes last
        rows, exact, kl = rows[kept], exact[kept], kl[kept]
        apart = np.linalg.norm(rows - exact) / np.linalg.norm(exact)
        if not apart <= self.relative_l2:
            return f"relative L2 {apart:.3g}"
        if not kl.max() <= self.kl:
            return f"KL {kl.max():.3g}"
        gap = np.diff(np.partition(exact, -2, axis=1)[:, -2:], axis=1)[:, 0]
        missed = gap[rows.argmax(1) != exact.argmax(1)].max(initial=0.0)
        return f"another top-1 where {missed:.3g} lie between" if missed > self.gap else None


CONTRACTS: Final = {
    "float32": Contract(relative_l2=1e-5, kl=1e-8, gap=1e-3, tenths=10),
    "bfloat16": Contract(relative_l2=2e-2, kl=2e-3, gap=0.5, tenths=9),
}
"""Of the fast path, by type, over as many layers as the tests have: random weights are chaotic where trained ones are
not."""


def contract_text(dtype: str, *, deterministic: bool) -> str:
    """The contract of a path as a receipt names it."""
    return BIT_IDENTICAL if deterministic else CONTRACTS[dtype].text
