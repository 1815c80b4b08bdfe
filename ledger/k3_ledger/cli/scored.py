"""The rows of a re-score, as ``k3-ledger rescore`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.cli.tables import print_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.rescore.inputs import Figure
    from k3_ledger.rescore.rescore import Rescored

_HEAD: Final = (
    "run", "pr", "measured", "speed", "frontier", "from", "gain %", "credit %", "before", "now", "why", "lacks",
)  # fmt: skip


def print_rows(shown: Sequence[Rescored]) -> None:
    """Print some rows as a table, and what its marks mean."""
    print_table(_HEAD, [_cells(row) for row in shown], right=(1, 3, 4, 6, 7))
    if any(row.candidate.superseded for row in shown):
        say("* superseded: what it would be if it stood; it is judged, and counts for nothing")
    marked = [row for row in shown if _counted(row)]
    if any(not _reads_the_clock(row) for row in marked):
        say("(…) behind a speed: how much of it counts, for its clock bears out no more")
    if any(_reads_the_clock(row) for row in marked):
        say("(…) behind a speed: what its clock read, which the rule scores in its place")
    say()


def _origin(figure: Figure) -> str:
    """Where the frontier that a run was held against came from: its kind, and the entry where there is one."""
    if figure.value <= 0:
        return "-"
    entry = figure.source[:8] if figure.origin in {"receipt", "pin"} and len(figure.source) == 64 else ""
    return f"{figure.origin} {entry}".rstrip()


def _counted(row: Rescored) -> str:
    """What a run's rule scores in the place of what it claims, where that is another number; else empty."""
    from k3_ledger.rescore.exact import format_rounded
    from k3_ledger.rescore.rules.judging import count_claims, scored_speed

    run = row.candidate.run
    if row.rule is None or run.speed is None:
        return ""
    scored = scored_speed(row.rule, count_claims(row.rule, run))
    return "" if scored is None or scored == run.speed else f" ({format_rounded(scored, 2)})"


def _reads_the_clock(row: Rescored) -> bool:
    return row.rule is not None and row.rule.clock is not None and row.rule.clock.reading == "clock"


def _cells(row: Rescored) -> tuple[str, ...]:
    from k3_ledger.rescore.exact import format_percent, format_rounded
    from k3_ledger.rescore.rules.verdict import Verdict

    run = row.candidate.run
    verdict = row.result if isinstance(row.result, Verdict) else None
    slot = run.track.slot("frontier")
    frontier = next((pin.figure for pin in verdict.pins if pin.slot == slot), None) if verdict else run.frontier
    return (
        row.candidate.label + ("*" if row.candidate.superseded else ""),
        "-" if run.pull_request is None else f"#{run.pull_request}",
        run.track.short,
        "-" if run.speed is None else format_rounded(run.exact or run.speed, 2) + _counted(row),
        "-" if frontier is None else format_rounded(frontier.value, 2),
        "-" if frontier is None else _origin(frontier),
        "-" if verdict is None or verdict.gain is None else format_percent(verdict.gain, 2),
        "-" if verdict is None or verdict.credit is None else format_percent(verdict.credit),
        row.before or "-",
        "-" if verdict is None else verdict.tier,
        row.why,
        ", ".join(row.lacks) or "-",
    )
