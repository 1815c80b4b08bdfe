"""Grades a candidate against a reference over nested depths and many rows, and writes the record.

Prompts are random ids of ordinary tokens from a recorded seed; a depth's prompt is the first ``depth`` ids, so
depths are prefixes of one another. A depth is graded on its last ``rows`` positions in every prompt: a boolean a
depth is no rate. The worst depth decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from k3_ledger.engine.parity.compare import NEAR_TIE, Comparison, compare
from k3_ledger.engine.parity.rows import LogitSource, ids_digest
from k3_ledger.schemas.errors import ParityError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.models import Parity, ParityDepth, ParityReference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEPTHS: Final = tuple(2**n for n in range(2, 13))
"""4 to 4096."""
_PLACES: Final = Decimal(1).scaleb(-18)


@dataclass(frozen=True)
class Suite:
    """What is graded.

    Attributes:
        depths: ascending context lengths, each at least 1.
        rows: positions graded at each depth and prompt (all of them where the depth has fewer).
        prompts: number of prompts.
        seed: of the prompts' ids.
        near_tie: nats under which a row counts as a near tie.
    """

    depths: tuple[int, ...] = DEPTHS
    rows: int = 8
    prompts: int = 1
    seed: int = 0
    near_tie: float = NEAR_TIE

    def __post_init__(self) -> None:
        if not self.depths or list(self.depths) != sorted(set(self.depths)) or self.depths[0] < 1:
            raise ValueError("depths are ascending, distinct and at least 1")
        if self.rows < 1 or self.prompts < 1:
            raise ValueError("at least one row and one prompt")

    def ids(self, usable: Sequence[int]) -> list[list[int]]:
        """The prompts, drawn from the usable token ids, as long as the largest depth.

        They are drawn apart from whatever else is drawn from this seed: what is timed has shown none of them.
        """
        apart = np.random.SeedSequence(self.seed).spawn(1)[0]
        generator = np.random.Generator(np.random.Philox(apart))
        pool = np.asarray(usable)
        return [pool[generator.integers(0, len(pool), self.depths[-1])].tolist() for _ in range(self.prompts)]


@dataclass(frozen=True)
class Graded:
    """A record and what must be said about it.

    Attributes:
        record: as a receipt holds it.
        findings: what must be said about it.
        top_differences: of each graded position, however often it was graded, the largest |Δ log p| at the top-1 of
            either side.
        prompts: what was taken, of which each depth graded the beginning.
    """

    record: Parity
    findings: tuple[Finding, ...]
    top_differences: tuple[float, ...]
    prompts: tuple[tuple[int, ...], ...]

    @property
    def worst(self) -> ParityDepth:
        """The depth of greatest KL."""
        return max(self.record.depths, key=lambda depth: Decimal(depth.kl_max))

    @property
    def max_difference(self) -> float:
        """Largest |Δ log p| of any depth."""
        return max(float(depth.max_abs_logprob_difference) for depth in self.record.depths)

    def require(self, bound: float) -> None:
        """Demands that no log-probability differs by more than ``bound`` nats at any depth.

        Raises:
            ParityError: PARITY_OVER_BOUND, naming the worst depth.
        """
        worst = max(self.record.depths, key=lambda depth: Decimal(depth.max_abs_logprob_difference))
        if self.max_difference > bound:
            raise ParityError(
                Code.PARITY_OVER_BOUND,
                f"log-probabilities differ by {worst.max_abs_logprob_difference} nats at depth {worst.depth}",
                expected=f"at most {bound}",
                found=worst.max_abs_logprob_difference,
            )


def decimal_text(value: float) -> str:
    """A finite float as a plain decimal of at most 18 places, trailing zeros removed."""
    text = format(Decimal(repr(float(value))).quantize(_PLACES), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in {"-0", ""} else text


def _depth(depth: int, parts: Sequence[Comparison]) -> ParityDepth:
    kl = np.concatenate([part.kl for part in parts])
    return ParityDepth(
        depth=depth,
        rows=len(kl),
        kl_max=decimal_text(kl.max()),
        kl_mean=decimal_text(kl.mean()),
        top1_agree=sum(part.agree for part in parts),
        ties=sum(part.ties for part in parts),
        near_ties=sum(part.near_ties for part in parts),
        max_abs_logprob_difference=decimal_text(max(part.difference.max() for part in parts)),
    )


def grade(
    candidate: LogitSource,
    reference: LogitSource,
    suite: Suite,
    usable: Sequence[int],
    *,
    path: Literal["prefill", "decode", "both"] = "both",
    chunk: int | None = None,
    progress: Callable[[str], None] = lambda _where: None,
) -> Graded:
    """Runs the suite on both engines.

    Args:
        candidate: the engine that is graded, on the very path and chunk width that is timed.
        reference: the engine taken as right.
        suite: depths, rows and prompts.
        usable: token ids that prompts may hold.
        path: how the candidate takes the graded positions; ``both`` grades each.
        chunk: the candidate's chunk width, for the record.
        progress: told what is graded next.

    Raises:
        ParityError: rows that must not be compared.
    """
    prompts = suite.ids(usable)
    ways: tuple[Literal["prefill", "decode"], ...] = ("prefill", "decode") if path == "both" else (path,)
    depths: list[ParityDepth] = []
    identical = True
    vocabulary = 0
    top: dict[tuple[int, int], float] = {}
    for depth in suite.depths:
        count = min(suite.rows, depth)
        parts: list[Comparison] = []
        for number, ids in enumerate(prompts):
            where = f"depth {depth}, prompt {number}"
            progress(where)
            right = reference.rows(ids[:depth], count, "prefill")
            vocabulary = right.values.shape[1]
            for way in ways:
                mine = candidate.rows(ids[:depth], count, way)
                parts.append(compare(mine, right, near_tie=suite.near_tie, where=f"{where}, {way}"))
                for behind, one in enumerate(parts[-1].top_difference, depth - count):
                    top[number, behind] = max(float(one), top.get((number, behind), 0.0))
        identical = identical and all(part.identical for part in parts)
        depths.append(_depth(depth, parts))
    findings: list[Finding] = []
    if identical:
        findings.append(Finding(Code.PARITY_PERFECT_ZERO, "every log-probability is the same to the last bit"))
    if all(depth.ties == depth.rows for depth in depths):
        rows = sum(depth.rows for depth in depths)
        findings.append(Finding(Code.PARITY_ALL_TIES, f"top-1 rests on the tie rule in all {rows} graded rows"))
    if not reference.independent:
        findings.append(Finding(Code.PARITY_SELF_GRADED, f"the reference {reference.name} is this project's own code"))
    record = Parity(
        reference=ParityReference(name=reference.name, version=reference.version, independent=reference.independent),
        prompt_sha256=ids_digest(prompts),
        vocabulary=vocabulary,
        path=path,
        chunk=chunk,
        processing="raw",
        tie_rule="lowest-id",
        near_tie_bound=decimal_text(suite.near_tie),
        depths=tuple(depths),
    )
    return Graded(record, tuple(findings), tuple(top.values()), tuple(map(tuple, prompts)))
