"""Agreement of a run at its depths, against a rule's bars and against the frontier build of its round.

Divergences are compared as the text they are recorded in: below 1 the digits decide from left to right, as letters do.
"""

from __future__ import annotations

from fractions import Fraction
from operator import le
from typing import TYPE_CHECKING

from k3_ledger.rescore.inputs import Parity
from k3_ledger.rescore.rules.parameters import GRADING
from k3_ledger.rescore.sweeping.numbers import lower_text, pair, upper_text, upper_text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.fields import Graded
    from k3_ledger.rescore.sweeping.items import Agreement


class Bars:
    """What a rule asks of agreement by itself."""

    def __init__(self, rule: Rule) -> None:
        self.kl = upper_text(rule.correctness.kl) or ""
        self.top1 = pair(rule.correctness.top1)
        self.rows = rule.correctness.rows
        self.suite = frozenset(rule.correctness.depths)
        self.paths = frozenset({rule.scope.metric, "both"}) if rule.arithmetic in GRADING else None
        self._depths: list[int] = []
        self._complete = not self.suite

    def check(self, parity: Graded, depths: list[int], kls: list[str]) -> tuple[bool, bool]:
        """(correct, suite) of rows that count; fills ``depths`` and ``kls`` with each depth and its divergence."""
        (share, whole), least = self.top1, self.rows
        correct = suite = True
        for depth in parity.depths:
            depths.append(depth.depth)
            kls.append(depth.kl_max)
            rows, agree = depth.rows, depth.top1_agree
            if (agree != rows or share > whole) and agree * whole < share * rows:
                correct = False
            if rows < least:
                suite = False
        if depths != self._depths:  # mostly one suite all along
            self._depths, self._complete = depths, self.suite.issubset(depths)
        return correct and max(kls) <= self.kl, (
            suite and self._complete and (self.paths is None or parity.path in self.paths)
        )


def ratchet_from(rule: Rule) -> str | None:
    """The least divergence that the ratchet looks at, as :func:`lower_text`; None without one, or when it is none."""
    ratchet = rule.ratchet
    return None if ratchet is None else lower_text(max(ratchet.floor, ratchet.block_from))


class Ratchet:
    """A rule's ratchet, whose numbers are ordinary ones."""

    def __init__(self, rule: Rule) -> None:
        self.block = rule.ratchet.block if rule.ratchet else Fraction(0)
        self.least = ratchet_from(rule) or ""

    def beside(self, agreement: Agreement | Parity) -> Beside:
        """Ready to hold runs against a frontier build's."""
        if isinstance(agreement, Parity):
            bounds = {depth.tokens: self.block * depth.kl for depth in agreement.depths}
            texts = {at: upper_text(kl) or kl for at, kl in bounds.items()}
            return Beside((), (), self.block, self.least, texts, ground=agreement.ground)
        return self.beside_text(agreement.depths, agreement.kls.split(" "), agreement.ground)

    def beside_text(self, depths: Sequence[int], kls: Sequence[str], ground: str) -> Beside:
        """Likewise, of divergences as they are recorded."""
        return Beside(depths, kls, self.block, self.least, {}, ground=ground)


class Beside:
    """The most that each depth may diverge beside a round's frontier build, worked out where it is asked for."""

    def __init__(
        self,
        depths: Sequence[int],
        kls: Sequence[str],
        block: Fraction,
        least: str,
        bounds: dict[int, str | Fraction],
        *,
        ground: str | None,
    ) -> None:
        self._ground = ground
        self._depths, self._kls, self._block, self._least, self._bounds = depths, kls, block, least, bounds
        self._texts: list[str] | None = None
        # Text that begins with 0 sorts like its number, and whoever diverges no more is below every multiple.
        self._never_less = block >= 1 and max(kls, default="1") < "1"

    def check(self, depths: Sequence[int], kls: Sequence[str], ground: str) -> bool | None:
        """Whether no depth that is looked at diverges too much; None where it was graded on another ground or depth."""
        if ground != self._ground:
            return None
        if depths == self._depths:
            if self._never_less and all(map(le, kls, self._kls)):
                return True
            if self._texts is None:
                found = [self._bound(depth) for depth in depths]
                self._texts = [bound for bound in found if isinstance(bound, str)]
            if len(self._texts) == len(depths) and all(map(le, kls, self._texts)):
                return True
        elif not all(map(self._is_graded, depths)):
            return None
        for depth, kl in zip(depths, kls, strict=True):
            if kl >= self._least:
                bound = self._bound(depth)
                if kl > bound if isinstance(bound, str) else Fraction(kl) > bound:
                    return False
        return True

    def _is_graded(self, depth: int) -> bool:
        return depth in self._bounds or depth in self._depths

    def _bound(self, depth: int) -> str | Fraction:
        """As :func:`upper_text`, or the number itself where no text stands for it; ``depth`` is one that was graded."""
        if depth not in self._bounds:
            kl = self._kls[self._depths.index(depth)]
            self._bounds[depth] = upper_text_of(kl, self._block) or self._block * Fraction(kl)
        return self._bounds[depth]
