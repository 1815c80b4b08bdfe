"""What the log texts say against what was published, and against one another."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import SHORTEST_PREFIX, Agreement, compare, compare_numbers, is_rounding
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
        yield from _worst(text, text.main, "main-parity")
        for evaluation in text.evaluations:
            yield from _worst(text, evaluation, "parity")
            yield from _feigned(evaluation, text.main)
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
    newest = {evaluation.pr: evaluation for evaluation in text.evaluations}.values()
    shown = {
        "sealed": len(text.all("published")),
        "evaluated": sum(evaluation.first("failed") is None for evaluation in newest),
    }
    for event in text.all("done"):
        for name, count in shown.items():
            if int(event.figures[name]) != count:
                message = f"{text.source}: the log counts {event.figures[name]} {name} runs and shows {count}"
                yield Finding(Code.FOREIGN_LOG_COUNT, message, event.position, str(count), event.figures[name])


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


PARTNERS: Final = {
    ("frontier", "commit"): ("measuring", "commit"),
    ("pin-moved", "commit"): ("frontier", "commit"),
    ("pin-kept", "frontier"): ("frontier", "frontier"),
    ("pin-moved", "frontier"): ("frontier", "frontier"),
    ("pin-stale", "frontier"): ("frontier", "frontier"),
    ("pin-alarm", "frontier"): ("frontier", "frontier"),
    ("pin-moved", "pin"): ("pin-stale", "pin"),
    ("lock", "frontier"): ("pin-moved", "frontier"),
}
"""Figures of lines about main, by kind and name, and the figure of an earlier line that they repeat."""


def _frontier(text: LogText) -> Iterator[Finding]:
    """What lines about main repeat of one another, and the frontier that runs were scored against."""
    newest: dict[str, Event] = {}
    used: Number | None = None
    for event in text.main.events:
        if event.kind == "measuring":
            newest.clear()
        for (kind, figure), (other, its) in PARTNERS.items():
            if kind == event.kind and other in newest:
                yield from _same(text, f"{its} ({other})", newest[other].figures[its], event, figure)
        newest[event.kind] = event
        if event.kind in ("pin-kept", "pin-moved"):
            used = Number(event.figures["pin" if event.kind == "pin-kept" else "frontier"])
    for evaluation in text.evaluations:
        start = evaluation.events[0]
        if used is not None and "frontier" in start.figures:
            yield from _same(text, "the frontier to beat", used.text, start, "frontier")


def _same(text: LogText, what: str, expected: str, event: Event, figure: str) -> Iterator[Finding]:
    found = event.figures[figure]
    values = (expected, found) if figure == "commit" else (Number(expected), Number(found))
    if compare(figure, *values) is Agreement.DIFFER:
        code = Code.FOREIGN_COMMIT if figure == "commit" else Code.FOREIGN_CONTRADICTION
        message = f"{text.source}: {what} is {expected} in one line and {found} in another"
        yield Finding(code, message, event.position, expected, found)


def _worst(text: LogText, measured: Evaluation, kind: str) -> Iterator[Finding]:
    """A parity line says how many depths there are, and the worst figures of them."""
    parity = next(reversed(measured.all(kind)), None)
    depths = {event.figures["depth"]: event for event in measured.all("depth")}
    if parity is None or not depths:
        return
    expected = {"depths": Number(str(len(depths)))}
    for name, worst in (("kl", max), ("top1", min)):
        figures = [Number(event.figures[name]) for event in depths.values()]
        expected[name] = worst(figures, key=lambda number: number.value or 0)
    for name, number in expected.items():
        if name in parity.figures:
            yield from _same(text, f"{measured.pr}: {name} of the depths", number.text, parity, name)


def _feigned(evaluation: Evaluation, main: Evaluation) -> Iterator[Finding]:
    """The values in a ratio line, against the values measured in the same evaluation and on main."""
    ratio = evaluation.first("ratio")
    if ratio is None:
        return
    depth, pr = ratio.figures.get("depth"), f"pull request {evaluation.pr}"
    parity, before = evaluation.first("parity"), next(reversed(main.all("main-parity")), None)
    if depth is not None:
        parity = next((e for e in evaluation.all("depth") if e.figures["depth"] == depth), parity)
        before = next((e for e in reversed(main.all("depth")) if e.figures["depth"] == depth), None)
    if parity is not None:
        yield from _compared(ratio, "kl", parity, f"{pr}: {{}} is compared with main, {{}} was measured")
    if before is not None:
        yield from _compared(ratio, "main", before, f"{pr}: it is compared with {{}}, on main {{}} was measured")


def _compared(ratio: Event, figure: str, measurement: Event, message: str) -> Iterator[Finding]:
    shown, measured = Number(ratio.figures[figure]), Number(measurement.figures["kl"])
    if shown.value is None or measured.value is None or is_rounding(shown, measured, shown.printed_decimals):
        return
    kind = compare_numbers(shown, measured)
    code = Code.FOREIGN_PRECISION_FEIGNED if kind is Agreement.ROUNDED else Code.FOREIGN_CONTRADICTION
    yield Finding(code, message.format(shown.text, measured.text), ratio.position, measured.text, shown.text)


def _published(run: RunFacts) -> Iterator[Finding]:
    """What a run's own log says about it, where records say otherwise or nothing."""
    text, name = run.run.log, run.run.run_id
    if text is None or not text.evaluations:
        return
    evaluation = run.run.evaluation
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
