"""What the log texts say against what was published, and against one another."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import SHORTEST_PREFIX, Agreement, compare_numbers, is_rounding
from k3_ledger.verify.polaris.foreign_json import Number
from k3_ledger.verify.polaris.identity import group
from k3_ledger.verify.polaris.spelling import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.facts import RunFacts
    from k3_ledger.verify.polaris.logtext import Evaluation, Event, LogText
    from k3_ledger.verify.polaris.parse import RunLog


def check_rounds(log: RunLog, facts: list[RunFacts]) -> Iterator[Finding]:
    """Everything that log texts show. ``facts`` are in order of time."""
    logged = [run for run in facts if run.run.log is not None]
    for runs in group(logged, lambda run: "" if run.run.log is None else run.run.log.sha256).values():
        text = runs[0].run.log
        if len(runs) > 1 and text is not None:
            message = f"{len(runs)} runs carry the same log text, the first is {runs[0].run.run_id}"
            yield Finding(Code.FOREIGN_LOG_SHARED, message, runs[0].run.place)
    by_commit = group(facts, lambda run: plain(run.text("commit"))[:SHORTEST_PREFIX])
    for text in log.logs:
        yield from _count(text)
        yield from _failures(text)
        yield from _frontier(text)
        yield from _refused(text, by_commit)
        for evaluation in text.evaluations:
            yield from _feigned(evaluation)
    for folder, text in log.rounds.items():
        for event in text.all("measuring"):
            if not folder.startswith(event.figures["commit"]) and not event.figures["commit"].startswith(folder):
                message = f"rounds/{folder}: the log measures {event.figures['commit']}"
                yield Finding(Code.FOREIGN_COMMIT, message, event.position, folder, event.figures["commit"])
    for run in logged:
        yield from _published(run)
    yield from _tier_history(facts)
    yield from _pins(facts)


def _count(text: LogText) -> Iterator[Finding]:
    published = len(text.all("published"))
    for event in text.all("done"):
        if int(event.figures["sealed"]) != published:
            message = f"{text.source}: the log counts {event.figures['sealed']} sealed runs and shows {published}"
            yield Finding(Code.FOREIGN_LOG_COUNT, message, event.position, str(published), event.figures["sealed"])


def _failures(text: LogText) -> Iterator[Finding]:
    for event in text.events:
        if event.kind in ("failed", "main-failed", "pin-alarm"):
            what = f"pull request {event.figures['pr']}" if event.kind == "failed" else "the main branch"
            reason = event.figures.get("reason", "").strip(" —")[:100] or "slower than its own pin"
            message = f"{text.source}: {what} was not measured: {reason}"
            yield Finding(Code.FOREIGN_FAILURE_UNRECORDED, message, event.position)


def _refused(text: LogText, by_commit: dict[str, list[RunFacts]]) -> Iterator[Finding]:
    for evaluation in text.evaluations:
        failed = evaluation.first("failed")
        runs = by_commit.get(evaluation.commit[:SHORTEST_PREFIX], [])
        if failed is not None and runs:
            names = ", ".join(run.run.run_id for run in runs)
            message = f"commit {evaluation.commit} failed in {text.source}, and is published as {names}"
            yield Finding(Code.FOREIGN_REFUSED_THEN_PUBLISHED, message, failed.position)


def _frontier(text: LogText) -> Iterator[Finding]:
    """The frontier that was measured, the one that the pin line repeats, and the one that runs were scored against."""
    measured = text.main.first("frontier")
    used: Number | None = None
    for pin in (*text.main.all("pin-kept"), *text.main.all("pin-moved")):
        if measured is not None:
            yield from _same(text, "the measured frontier", measured.figures["frontier"], pin, "frontier")
        used = Number(pin.figures["pin" if pin.kind == "pin-kept" else "frontier"])
    for evaluation in text.evaluations:
        start = evaluation.events[0]
        if used is not None and "frontier" in start.figures:
            yield from _same(text, "the frontier to beat", used.text, start, "frontier")


def _same(text: LogText, what: str, expected: str, event: Event, figure: str) -> Iterator[Finding]:
    found = event.figures[figure]
    if compare_numbers(Number(expected), Number(found)) is Agreement.DIFFER:
        message = f"{text.source}: {what} is {expected} in one line and {found} in another"
        yield Finding(Code.FOREIGN_CONTRADICTION, message, event.position, expected, found)


def _feigned(evaluation: Evaluation) -> Iterator[Finding]:
    """The value in a ratio line, against the value measured in the same evaluation."""
    ratio, parity = evaluation.first("ratio"), evaluation.first("parity")
    if ratio is None or parity is None:
        return
    depth = ratio.figures.get("depth")
    if depth is not None:
        parity = next((e for e in evaluation.all("depth") if e.figures["depth"] == depth), parity)
    shown, measured = Number(ratio.figures["kl"]), Number(parity.figures["kl"])
    if shown.value is None or measured.value is None or is_rounding(shown, measured, shown.printed_decimals):
        return
    kind = compare_numbers(shown, measured)
    code = Code.FOREIGN_PRECISION_FEIGNED if kind is Agreement.ROUNDED else Code.FOREIGN_CONTRADICTION
    message = f"pull request {evaluation.pr}: {shown.text} is compared with main, {measured.text} was measured"
    yield Finding(code, message, ratio.position, measured.text, shown.text)


def _published(run: RunFacts) -> Iterator[Finding]:
    """What a run's own log says about it, where records say otherwise or nothing."""
    text, name = run.run.log, run.run.run_id
    if text is None or not text.evaluations:
        return
    evaluation = text.evaluation_of(name)
    if evaluation is None:
        message = f"{name}: {text.source} does not say that this run was published"
        yield Finding(Code.FOREIGN_LOG_SILENT, message, run.run.place)
        return
    override = evaluation.first("override")
    if override is not None:
        settings = override.figures["settings"]
        message = f"{name}: measured with {settings[:100]}, which no record says"
        yield Finding(Code.FOREIGN_OVERRIDE_UNRECORDED, message, override.position)
    regression = evaluation.first("regression")
    if regression is not None and run.text("pass") == "true":
        message = f"{name}: the log blocks it as a regression, the record passes it as {run.text('label')}"
        yield Finding(Code.FOREIGN_REGRESSION_PUBLISHED, message, regression.position)
    merged, speed, frontier = evaluation.first("merged"), run.number("tps"), run.number("frontier_tps")
    values = [number.value for number in (speed, frontier) if number is not None and number.value is not None]
    if merged is not None and len(values) == 2 and values[0] <= values[1]:
        message = f"{name}: merged as a gain with {values[0]} against a frontier of {values[1]}"
        yield Finding(Code.FOREIGN_MERGED_WITHOUT_GAIN, message, merged.position)


def _tier_history(facts: list[RunFacts]) -> Iterator[Finding]:
    """A tier that a log takes off a change should be the one that the change's last published run had."""
    last: dict[str, RunFacts] = {}
    for runs in group(facts, lambda run: run.run.run_id if run.run.log is None else run.run.log.sha256).values():
        text = runs[0].run.log
        for event in () if text is None else text.all("cleared"):
            before = last.get(event.figures["pr"])
            if before is not None and before.text("label").casefold() != event.figures["tier"].casefold():
                message = (
                    f"{before.run.run_id}: published as {before.text('label')}, taken off as {event.figures['tier']}"
                )
                at = event.position
                yield Finding(Code.FOREIGN_TIER_HISTORY, message, at, before.text("label"), event.figures["tier"])
        last.update((run.text("pr").removeprefix("#"), run) for run in runs)


def _pins(facts: list[RunFacts]) -> Iterator[Finding]:
    """Each log's pin against what the log before it, of the same slot, left behind."""
    slots: dict[str, list[Event]] = {}
    texts = {run.run.log.sha256: run.run.log for run in facts if run.run.log is not None}
    for text in texts.values():
        for event in text.main.events:
            if event.kind in ("pin-kept", "pin-moved"):
                slots.setdefault(event.figures["slot"], []).append(event)
    for slot, events in slots.items():
        for before, after in pairwise(events):
            left = before.figures["pin" if before.kind == "pin-kept" else "frontier"]
            if Number(left).value != Number(after.figures["pin"]).value:
                message = f"{slot}: left at {left} by {before.position.source}, found at {after.figures['pin']}"
                yield Finding(Code.FOREIGN_PIN_GAP, message, after.position, left, after.figures["pin"])
