"""Field names that stand for different quantities in different records of one log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.derived import Derivation, follows
from k3_ledger.verify.polaris.foreign_json import Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from k3_ledger.verify.polaris.facts import RunFacts
    from k3_ledger.verify.polaris.parse import RunLog


CREDITS: Final = {
    "pct_of_llama": "anchored to the reference",
    "pct_over_frontier": "the gain over the frontier",
}
"""Figures that a credit can be a copy of, in the order in which they are tried."""


def _percent(part: Fraction, whole: Fraction) -> Fraction:
    return 100 * part / whole


MAX_REFERENCES: Final = 32
"""How many reference speeds of a log are tried for a run that states none."""
_SHARE: Final = Derivation("pct_of_llama", ("part", "whole"), _percent, "100 part / whole", ("whole",))


def check_meanings(log: RunLog, facts: list[RunFacts]) -> Iterator[Finding]:
    """Group the runs by what a field means in each; every run outside the largest group is a finding."""
    yield from _minority(facts, "tps", _metric)
    yield from _minority(facts, "kl", _parity)
    yield from _minority(facts, "effective_pct", _credit)
    references = {event.figures["tps"] for text in log.logs for event in text.all("reference")}
    references |= {number.text for run in facts if (number := run.number("tier_anchor_ref")) is not None}
    for run in facts:
        yield from _share(run, [Number(text) for text in sorted(references)[:MAX_REFERENCES]])


def _metric(run: RunFacts) -> str:
    context = run.text("scored_context")
    return f"{run.text('scored_metric') or 'speed'} at {context}" if context else "speed at an unstated context"


def _parity(run: RunFacts) -> str:
    depths = [name for name in run.facts if name.startswith("kl_depths.") and name.endswith(".kl")]
    stated = [name for name in depths if run.first(name) is not None]
    return f"the worst of {len(stated)} depths" if stated else "of an unstated depth"


def _credit(run: RunFacts) -> str:
    """Which other figure the credit equals; empty when the run has none, or none of them."""
    credit = run.number("effective_pct")
    for name, text in (
        ("pct_of_llama", "anchored to the reference"),
        ("pct_over_frontier", "the gain over the frontier"),
    ):
        other = run.number(name)
        if credit is not None and other is not None and credit.value == other.value:
            return text
    return "" if credit is None else "some other figure"


def _minority(facts: list[RunFacts], field: str, meaning: Callable[[RunFacts], str]) -> Iterator[Finding]:
    groups = [(run, meaning(run)) for run in facts if run.first(field) is not None]
    counts = Counter(text for _, text in groups if text)
    for common, count in counts.most_common(1):
        for run, text in groups:
            if text not in ("", common):
                message = f"{run.run.run_id}: {field} is {text} here, {common} in {count} runs"
                yield Finding(Code.FOREIGN_TWO_MEANINGS, message, run.at(field), common, text)


def _share(run: RunFacts, references: list[Number]) -> Iterator[Finding]:
    """``pct_of_llama`` by its name is the speed over the reference's; see whether it is the gain instead.

    The reference is the one that the record states, else any that the log's texts state.
    """
    share, speed, gain = (run.number(name) for name in ("pct_of_llama", "tps", "delta_tps"))
    own = run.number("tier_anchor_ref")
    candidates = references if own is None else [own]
    if share is None or speed is None or gain is None:
        return
    by_speed, by_gain = (
        [whole for whole in candidates if follows(_SHARE, share, {"part": part, "whole": whole})]
        for part in (speed, gain)
    )
    name, shown = run.run.run_id, f"pct_of_llama is {share.text}"
    if by_gain and not by_speed:
        message = f"{name}: {shown}: the gain of {gain.text}, not the speed of {speed.text}, over {by_gain[0].text}"
        yield Finding(Code.FOREIGN_TWO_MEANINGS, message, run.at("pct_of_llama"))
    elif own is not None and not by_speed:
        message = f"{name}: {shown}, which follows neither from the speed nor from the gain over {own.text}"
        yield Finding(Code.FOREIGN_DERIVED, message, run.at("pct_of_llama"), found=share.text)
