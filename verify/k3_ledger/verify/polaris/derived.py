"""Figures that follow from figures beside them, recomputed exactly.

Inputs are read as they are shown, that is rounded: a figure is only called wrong when no values that round to the
inputs shown can give what is shown. All arithmetic is on intervals of exact fractions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import Agreement, compare_numbers
from k3_ledger.verify.polaris.facts import PRINTED, attested, documents
from k3_ledger.verify.polaris.foreign_json import Number
from k3_ledger.verify.polaris.parts import judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris.foreign_json import Document, Leaf
    from k3_ledger.verify.polaris.hashes import Record
    from k3_ledger.verify.polaris.logtext import LogText
    from k3_ledger.verify.polaris.parse import Run, RunLog


@dataclass(frozen=True, slots=True)
class Derivation:
    """``output`` = ``formula`` of ``inputs``, where all of them are in one record and ``formula`` is monotone in each.

    Divisors (the inputs named in ``positive``) must be positive, else nothing follows.

    Attributes:
        cut: whether the family's writers cut ``output`` off behind its last digit, or round it.
        mode: modes of evaluation in which ``output`` is that figure; None where its name says so by itself.
        zero: whether a zero may stand for no figure at all, as where a run was refused.
        others: other formulas that honest writers had under the same name: then the figure is another quantity.
    """

    output: str
    inputs: tuple[str, ...]
    formula: Callable[..., Fraction]
    text: str
    positive: tuple[str, ...] = ()
    cut: bool = False
    mode: re.Pattern[str] | None = None
    zero: bool = False
    others: tuple[Derivation, ...] = ()


def _difference(a: Fraction, b: Fraction) -> Fraction:
    return a - b


def _gain_percent(value: Fraction, base: Fraction) -> Fraction:
    return 100 * (value - base) / base


def _loss_percent(value: Fraction, base: Fraction) -> Fraction:
    return 100 * (base - value) / base


def _ratio(a: Fraction, b: Fraction) -> Fraction:
    return a / b


def _saved_percent(value: Fraction, base: Fraction) -> Fraction:
    return 100 * (value - base) / value


def _same(value: Fraction) -> Fraction:
    return value


def _milliseconds(per_second: Fraction) -> Fraction:
    return 1000 / per_second


_GUARDS: Final = {
    "128": "128",
    "512": "512",
    "2k": "2048",
    "4k": "4096",
    "16k": "16384",
    "32k": "32768",
    "64k": "65536",
    "128k": "131072",
}

GAIN: Final = Derivation(
    "delta_pct",
    ("new_frontier", "prev_frontier"),
    _gain_percent,
    "100 (new_frontier - prev_frontier) / prev_frontier",
    ("prev_frontier",),
)
"""The gain of an advance of the frontier: of most of them, see :mod:`k3_ledger.verify.polaris.advances`."""

_TIME_SAVED: Final = (
    Derivation(
        "pct_over_frontier", ("tps", "frontier_tps"), _saved_percent, "100 (tps - frontier_tps) / tps", ("tps",)
    ),
    Derivation(
        "pct_over_frontier",
        ("prefill_ttft_s", "prefill_frontier_ttft_s"),
        _loss_percent,
        "100 (prefill_frontier_ttft_s - prefill_ttft_s) / prefill_frontier_ttft_s",
        ("prefill_frontier_ttft_s",),
    ),
)
"""By how much the time for one and the same became less: what speeds that are times turned round are said to gain."""


def _gain(output: str, value: str, base: str, *, cut: bool = False) -> Derivation:
    return Derivation(output, (value, base), _gain_percent, f"100 ({value} - {base}) / {base}", (base,), cut)


def _speedup(
    output: str, value: str, base: str, mode: re.Pattern[str] | None = None, *, zero: bool = False
) -> Derivation:
    return Derivation(output, (value, base), _ratio, f"{value} / {base}", (value, base), mode=mode, zero=zero)


DERIVATIONS: Final = (
    Derivation("delta_tps", ("tps", "frontier_tps"), _difference, "tps - frontier_tps"),
    Derivation("delta_tps", ("tps", "frontier"), _difference, "tps - frontier"),
    Derivation(
        "pct_over_frontier",
        ("tps", "frontier_tps"),
        _gain_percent,
        "100 (tps - frontier_tps) / frontier_tps",
        ("frontier_tps",),
        others=_TIME_SAVED,
    ),
    Derivation("ms_per_token", ("tps",), _milliseconds, "1000 / tps", ("tps",)),
    *(
        _gain(f"context_gains_pct.{name}-context", f"ctx_{context}_tps", f"guard_{name}_baseline")
        for name, context in _GUARDS.items()
    ),
    *(
        Derivation(
            f"guard_{name}_ratio",
            (f"ctx_{context}_tps", f"guard_{name}_baseline"),
            _ratio,
            f"ctx_{context}_tps / guard_{name}_baseline",
            (f"ctx_{context}_tps", f"guard_{name}_baseline"),
        )
        for name, context in _GUARDS.items()
    ),
    _speedup("speedup_vs_ar", "pr_dflash_tps", "pr_ar_tps"),
    _speedup("dspark_vs_ar", "pr_dspark_tps", "pr_ar_tps"),
    _speedup("speedup_vs_main", "pr_dflash_tps", "main_dflash_tps"),
    _speedup("speedup_vs_main", "pr_dspark_tps", "main_dspark_tps", zero=True),
    _speedup("speedup_vs_main", "pr_decode_tps", "main_decode_tps", re.compile("museglimmer-128")),
    _speedup("prefill_speedup_vs_main", "pr_prefill128_pp", "main_prefill128_pp"),
    _gain("prefill_delta_pct", "pr_prefill_pp", "main_prefill_pp", cut=True),
    _gain("prefill16k_delta_pct", "pr_prefill16k_pp", "main_prefill16k_pp", cut=True),
    _gain("decode16k_delta_pct", "pr_decode16k_tps", "main_decode16k_tps", cut=True),
    Derivation("pr_decode_tps", ("pr_dspark_tps",), _same, "pr_dspark_tps"),
    Derivation("main_decode_tps", ("main_dspark_tps",), _same, "main_dspark_tps"),
)
"""Derivations within one JSON record. The receipt's are those of its ``attestation.measurements.primary``."""

IN_CONTEXT: Final = _gain("delta_pct", "pr_dflash_tps", "main_dflash_tps")
"""The gain in any object of a record, as at one context of several, and in the record itself."""
GAINED: Final = tuple(
    Derivation("delta_tps", (f"pr_{what}_tps", f"main_{what}_tps"), _difference, f"pr_{what}_tps - main_{what}_tps")
    for what in ("decode", "dflash")
)
"""What the attestation says was gained, of the speeds in the published result."""

LOG_DERIVATIONS: Final = {
    "ratio": Derivation("ratio", ("kl", "main"), _ratio, "KLD / main's KLD", ("main",)),
    "pin-stale": Derivation("pct", ("frontier", "pin"), _gain_percent, "100 (measured - pin) / pin", ("pin",)),
    "pin-alarm": Derivation("pct", ("frontier", "pin"), _loss_percent, "100 (pin - measured) / pin", ("pin",)),
    "claimed": Derivation("pct", ("claim", "pin"), _gain_percent, "100 (claim - pin) / pin", ("pin",)),
}
"""Derivations within one log line, by kind of line."""


def interval(number: Number) -> tuple[Fraction, Fraction] | None:
    """Every value that could have been rounded to ``number`` as it is printed; None for what is no figure."""
    if number.value is None:
        return None
    half = Fraction(1, 2 * 10**number.printed_decimals)
    return Fraction(number.value) - half, Fraction(number.value) + half


def follows(derivation: Derivation, output: Number, inputs: dict[str, Number]) -> bool | None:
    """Whether ``output`` can be had from ``inputs``; None when nothing follows from them."""
    ranges = {name: interval(number) for name, number in inputs.items()}
    shown = interval(output)
    known = [limits for limits in ranges.values() if limits is not None]
    if shown is None or len(known) < len(ranges):
        return None
    if any(limits is not None and limits[0] <= 0 for name, limits in ranges.items() if name in derivation.positive):
        return None
    corners = [derivation.formula(*point) for point in product(*known)]
    least, most = shown
    if derivation.cut:  # towards zero, by less than the last digit
        half = (most - least) / 2
        least, most = least - half * (least + most <= 0), most + half * (least + most >= 0)
    return min(corners) <= most and max(corners) >= least


@dataclass(slots=True)
class DerivedChecks:
    """How many derived figures were recomputed, and which do not follow."""

    checked: int
    findings: list[Finding]

    def add(self, where: str, derivation: Derivation, output: Number, inputs: dict[str, Number], at: Position) -> None:
        """Recompute one figure."""
        right = follows(derivation, output, inputs)
        self.checked += right is not None
        if right is False:
            shown = ", ".join(f"{name} {number.text}" for name, number in inputs.items())
            message = f"{where}: {derivation.output} is {output.text}, which does not follow from {shown}"
            self.findings.append(Finding(Code.FOREIGN_DERIVED, message, at, derivation.text, output.text))


def check_derived(log: RunLog) -> DerivedChecks:
    """Recompute every derived figure of every run's records, of the frontier's advances and of the log texts."""
    out = DerivedChecks(0, [])
    for run in log.runs:
        for record, document in documents(run):
            where = f"{run.run_id}: {record}"
            for prefix, derivation in product(_prefixes(run, record, document), DERIVATIONS):
                check_record(where, prefix, derivation, document, out)
            for inner in ("", *(f"{path}." for path, _ in document.objects())):
                check_record(where, inner, IN_CONTEXT, document, out)
        _check_gained(run, out)
        _check_worst(run, out)
    for row in log.advances:
        for derivation in DERIVATIONS:
            check_record(f"frontier advance in line {row.position.line}", "", derivation, row, out)
    for text in log.logs:
        _check_log(text, out)
    return out


def _prefixes(run: Run, record: Record, document: Document) -> list[str]:
    """Where figures of a record stand together; a copy of an attestation is held against the other whole."""
    for at, (_, one, prefix) in enumerate(attested(run)):
        if document is one:
            return [f"{prefix}measurements.primary."] if at == 0 else []
    return ["", *(judged(document) if record in PRINTED else ())]


def check_record(where: str, prefix: str, derivation: Derivation, document: Document, out: DerivedChecks) -> None:
    """Recompute a figure of one record, where that states it and all that it is made of."""
    output = _figure(document, prefix + derivation.output)
    if derivation.mode is not None and not derivation.mode.fullmatch(document.text(f"{prefix}eval_mode") or ""):
        return
    inputs = _inputs(prefix, derivation, document)
    if output is None or inputs is None or (derivation.zero and output.value == 0):
        return
    at = document.at(prefix + derivation.output)
    if follows(derivation, output, inputs) is False:
        for other in derivation.others:
            figures = _inputs(prefix, other, document)
            if figures is not None and follows(other, output, figures):
                out.checked += 1
                message = f"{where}: {other.output} is {output.text}, which is {other.text}"
                out.findings.append(Finding(Code.FOREIGN_TWO_MEANINGS, message, at, derivation.text, other.text))
                return
    out.add(where, derivation, output, inputs, at)


def _figure(document: Document, path: str) -> Number | None:
    leaf = document.leaves.get(path)
    return leaf.value if leaf is not None and isinstance(leaf.value, Number) else None


def _inputs(prefix: str, derivation: Derivation, document: Document) -> dict[str, Number] | None:
    numbers = {name: _figure(document, prefix + name) for name in derivation.inputs}
    known = {name: number for name, number in numbers.items() if number is not None}
    return known if len(known) == len(numbers) else None


def _check_gained(run: Run, out: DerivedChecks) -> None:
    _, document, prefix = next(iter(attested(run)), (None, None, ""))
    path = f"{prefix}verdict.delta_tps"
    output = None if document is None else _figure(document, path)
    if run.result is None or document is None or output is None:
        return
    for derivation in GAINED:
        inputs = _inputs("", derivation, run.result)
        if inputs is not None:
            out.add(f"{run.run_id}: attestation and result", derivation, output, inputs, document.at(path))


def _check_log(text: LogText, out: DerivedChecks) -> None:
    for event in text.events:
        derivation = LOG_DERIVATIONS.get(event.kind)
        if derivation is not None:
            inputs = {name: Number(event.figures[name]) for name in derivation.inputs}
            output = Number(event.figures[derivation.output])
            out.add(text.source, derivation, output, inputs, event.position)


def _check_worst(run: Run, out: DerivedChecks) -> None:
    """The published parity figures are the worst of those per depth."""
    if run.result is None:
        return
    for name, worst in (("kl", max), ("top1", min)):
        depths = [
            leaf.value
            for path, leaf in run.result.leaves.items()
            if path.startswith("kl_depths.") and path.endswith(f".{name}") and _is_figure(leaf)
        ]
        published = run.result.leaves.get(name)
        if depths and published is not None and isinstance(published.value, Number):
            out.checked += 1
            figures = [d for d in depths if isinstance(d, Number)]
            extreme = worst(figures, key=lambda n: n.value or 0)
            if compare_numbers(published.value, extreme) is Agreement.DIFFER:
                message = f"{run.run_id}: {name} is {published.value.text}, the worst depth is {extreme.text}"
                at = published.position
                out.findings.append(Finding(Code.FOREIGN_DERIVED, message, at, extreme.text, published.value.text))


def _is_figure(leaf: Leaf) -> bool:
    return isinstance(leaf.value, Number) and leaf.value.value is not None
