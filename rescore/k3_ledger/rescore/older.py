"""How runs were read when the first verdicts were sealed, for verdicts that follow from that alone.

What a rule reads of a run is no part of its digest, and it was made stricter once without a new arithmetic (ADR 0050
and 0051): a run that its own clock refutes is nobody's frontier or reference, a round's divergence is that of the run's
own track and ground, and every pair of a clock's lengths is read. A verdict that was sealed before is not false for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.slots import ABSENT, Track

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.native import Measured

ANY: Final = Track(ABSENT, None, ABSENT, ABSENT, ABSENT)
"""In the place of a track: whatever the frontier build of a round timed, its newest divergence was the round's."""


def read_older(body: Any, parity: Parity | None, measured: list[Measured]) -> tuple[Parity | None, list[Measured]]:
    """A run's agreement without its ground, by a reference as independent as is said; clocks of two lengths."""
    if parity is not None:
        parity = replace(parity, ground=None, independent=bool(body.parity.reference.independent))
    clocks = [one if one.clock is None else replace(one, clock=replace(one.clock, pairs=())) for one in measured]
    return parity, clocks
