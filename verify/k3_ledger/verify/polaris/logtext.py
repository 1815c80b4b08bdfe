"""What a round's log text says, line by line, as figures with their exact text and place.

The text is free form; :data:`LINES` is the whole list of lines that are understood, and every other line is left
alone. A log tells one round: the frontier measured on the main branch, then one evaluation per pull request, then
what became of each. Lines about a pull request belong to its newest evaluation; depth and override lines belong to
whatever was being measured when they were printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.polaris.foreign_json import MAX_BYTES, read, show
from k3_ledger.verify.polaris.spelling import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.foreign_json import Document

_N = r"-?[0-9]{1,24}(?:\.[0-9]{1,40})?(?:e-?[0-9]{1,3})?"
_H = r"[0-9a-f]{7,40}"
_PR = r"#(?P<pr>[0-9]{1,9})"
_PARITY = rf"(?: over (?P<depths>[0-9]+) depths)? — (?:worst )?top1=(?P<top1>{_N}) (?:worst )?kl=(?P<kl>{_N})$"

MAX_AGAIN: Final = 8
"""How many attestations that a log prints before the newest one are held against it."""

LINES: Final[dict[str, re.Pattern[str]]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "measuring": rf"main: measuring the frontier at (?P<commit>{_H})",
        "main-parity": rf"main: accuracy measured HERE{_PARITY}",
        "frontier": rf"main: frontier = (?P<frontier>{_N}) tok/s @ (?P<commit>{_H})",
        "pin-kept": rf">> frontier: (?P<slot>\w+) pins (?P<pin>{_N}), main measures (?P<frontier>{_N})",
        "pin-moved": rf">> frontier: (?P<slot>\w+) (?P<pin>{_N}) -> (?P<frontier>{_N}) \(main @ (?P<commit>{_H})\)",
        "pin-stale": rf"!! (?P<slot>\w+) pinned (?P<pin>{_N}) but main measures (?P<frontier>{_N}) "
        rf"— the pin was stale by (?P<pct>{_N})%",
        "pin-alarm": rf"!! main measured (?P<frontier>{_N}) tok/s but (?P<slot>\w+) pins (?P<pin>{_N}) "
        rf"— main is (?P<pct>{_N})% slower",
        "lock": rf">> \S+ updated on main — \S+ will re-derive against (?P<frontier>{_N})",
        "main-failed": r"frontier measurement failed(?P<reason>.*)",
        "claimed": rf"{_PR}: skip — claimed \w+ (?P<claim>{_N}) does not beat the pinned (?P<pin>{_N}) frontier "
        rf"\((?P<pct>{_N})%\)",
        "rebased": rf">> {_PR}: branch updated onto main, (?P<before>{_H}) -> (?P<commit>{_H})",
        "evaluating": rf"{_PR}: evaluating (?P<commit>{_H}) on (?P<node>\S+)(?: against frontier (?P<frontier>{_N}))?",
        "depth": rf" +(?P<depth>ctx[0-9]+): top1=(?P<top1>{_N}) kl=(?P<kl>{_N})$",
        "parity": rf"{_PR}: accuracy measured HERE{_PARITY}",
        "override": r" +harness overrides from the controller: (?P<settings>.+)",
        "publishing": rf"{_PR}: box-side publish failed .* publishing (?P<run_id>[0-9A-Za-z_.-]+) from here",
        "figures": rf"{_PR}: tps=(?P<tps>{_N}) top1=(?P<top1>{_N}) kl=(?P<kl>{_N}) ms/token=(?P<ms>{_N})",
        "ratio": rf"{_PR}: KLD (?P<kl>{_N}) vs main (?P<main>{_N}) — (?P<ratio>{_N})x(?: at (?P<depth>ctx[0-9]+))?",
        "regression": rf"!! {_PR}: accuracy regression",
        "published": rf">> {_PR}: published runs/(?P<run_id>[0-9A-Za-z_.-]+)",
        "cleared": rf">> {_PR}: cleared stale tier \(eval:(?P<tier>\w+)\)",
        "tier": rf">> {_PR}: tier applied by \S+ — eval:(?P<tier>\w+)",
        "no-gain": rf">> {_PR}: (?P<tps>{_N}) tok/s does not beat the (?P<frontier>{_N}) tok/s frontier",
        "merge-first": rf">> merge-first: {_PR} \((?P<tps>{_N}) tok/s\)",
        "merged": rf">> {_PR}: merged \(.*\) — .*gain",
        "failed": rf"{_PR}: eval failed — (?P<reason>.*)",
        "clock": rf"(?:>> wall-clock bound: |>> self-reported .* vs wall-clock )(?P<tps>{_N}) tok/s",
        "timing": r">> timing sparkinfer (?P<metric>\w+) at ctx (?P<context>[0-9]+)",
        "reference": rf">> llama\.cpp reference \(tier basis\): (?P<tps>{_N}) tok/s",
        "done": r"done — (?P<evaluated>[0-9]{1,9}) evaluated, (?P<sealed>[0-9]{1,9}) sealed",
        "result": r"RESULT_JSON (?P<json>\{.*)",
        "attestation": r"POLARIS_ATTESTATION (?P<json>\{.*)",
    }.items()
}
"""Every kind of line that is understood, tried in this order."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line that was understood. ``figures`` holds its named parts as exact text."""

    kind: str
    figures: dict[str, str]
    position: Position


@dataclass(slots=True)
class Evaluation:
    """What a log says about measuring one pull request once; the first event is its ``evaluating`` line."""

    pr: str
    events: list[Event] = field(default_factory=list)

    def first(self, kind: str) -> Event | None:
        """First event of a kind."""
        return next((event for event in self.events if event.kind == kind), None)

    def all(self, kind: str) -> list[Event]:
        """Every event of a kind, in order."""
        return [event for event in self.events if event.kind == kind]

    @property
    def commit(self) -> str:
        """Short commit that was measured."""
        return self.events[0].figures["commit"]


@dataclass(frozen=True, slots=True)
class LogText:
    """One log file.

    Attributes:
        source: its path.
        sha256: digest of its bytes: logs of one round are the same text.
        events: every event, in order.
        main: events of the frontier's measurement.
        evaluations: one per ``evaluating`` line, in order.
        result: newest result that the log prints as JSON, for logs that do.
        attestation: newest attestation that the log prints, likewise.
        repeated: those that it printed before that of the same evaluation, newest first, :data:`MAX_AGAIN` at most.
        problems: bytes that are no text, JSON that breaks.
    """

    source: str
    sha256: str
    events: tuple[Event, ...]
    main: Evaluation
    evaluations: tuple[Evaluation, ...]
    result: Document | None
    attestation: Document | None
    problems: tuple[Finding, ...]
    repeated: tuple[Document, ...] = ()

    def all(self, kind: str) -> list[Event]:
        """Every event of a kind, in order."""
        return [event for event in self.events if event.kind == kind]

    def evaluation_of(self, run_id: str) -> Evaluation | None:
        """The evaluation that was published as ``run_id``."""
        for evaluation in self.evaluations:
            if any(event.figures["run_id"] == run_id for event in evaluation.all("published")):
                return evaluation
        return None


def read_log(data: bytes, source: str) -> LogText:
    """Read a log. Arbitrary bytes give a :class:`LogText`, never an exception."""
    problems: list[Finding] = []
    if len(data) > MAX_BYTES:
        message = f"log of more than {MAX_BYTES} bytes, the first of which are read"
        problems.append(Finding(Code.JSON_TOO_LONG, message, Position(source, byte_offset=MAX_BYTES)))
        data = data[:MAX_BYTES]
    try:
        data.decode()
    except UnicodeDecodeError as error:
        at = Position(source, line=data.count(b"\n", 0, error.start) + 1, byte_offset=error.start)
        problems.append(Finding(Code.JSON_NOT_UTF8, "log holds bytes that are no UTF-8 text", at))
    events = tuple(_events(data, source))
    main = Evaluation("main")
    evaluations: list[Evaluation] = []
    newest: dict[str, Evaluation] = {}
    current = main
    for event in events:
        pr = event.figures.get("pr")
        if event.kind == "evaluating":
            current = newest[event.figures["pr"]] = Evaluation(event.figures["pr"])
            evaluations.append(current)
        (current if pr is None else newest.get(pr, main)).events.append(event)
    results = [_json(event, data) for event in events if event.kind == "result"][-1:]
    attestations, aside = _attestations(events, data)
    problems.extend(problem for document in (*results, *attestations) for problem in document.problems)
    problems.extend(aside)
    return LogText(
        source=source,
        sha256=sha256_hex(data),
        events=events,
        main=main,
        evaluations=tuple(evaluations),
        result=results[-1] if results else None,
        attestation=attestations[-1] if attestations else None,
        problems=tuple(problems),
        repeated=tuple(attestations[-2::-1]),
    )


def _events(data: bytes, source: str) -> Iterator[Event]:
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        line = raw.decode(errors="replace").rstrip("\r")
        for kind, pattern in LINES.items():
            match = pattern.match(line)
            if match is not None:
                figures = {name: text for name, text in match.groupdict().items() if text is not None}
                yield Event(kind, figures, Position(source, line=number, byte_offset=offset))
                break
        offset += len(raw) + 1


def _attestations(events: tuple[Event, ...], data: bytes) -> tuple[list[Document], list[Finding]]:
    """The newest attestation last, behind those of its try, and what was put aside: said, and held against nothing.

    A try ends where the next evaluation begins, or the next result is printed.
    """
    tries: list[list[Event]] = []
    begun = True
    for event in events:
        if event.kind == "attestation":
            tries = [*tries, []] if begun else tries
            tries[-1].append(event)
        begun = event.kind in ("evaluating", "result") or (begun and event.kind != "attestation")
    if not tries:
        return [], []
    *before, newest = tries[-1]
    last = _json(newest, data)
    kept = [_json(event, data) for event in before[-MAX_AGAIN:]]
    same = [document for document in kept if document.problems or _is_same(document, last)]
    earlier = sum(_line(event, data) != _line(newest, data) for events in tries[:-1] for event in events)
    aside = len(before) - len(same) + earlier
    if not aside:
        return [*same, last], []
    message = (
        f"{aside} attestations that are printed before the newest are of another try or change, or beyond {MAX_AGAIN}"
    )
    return [*same, last], [Finding(Code.FOREIGN_NOT_READ, message, tries[0][0].position, found=f"{aside} attestations")]


def _is_same(one: Document, two: Document) -> bool:
    """Whether two attestations are of one commit or pull request; those that name neither are not told apart."""
    pairs = [(one.leaf(name), two.leaf(name)) for name in ("code.commit", "code.pr", "pr")]
    stated = [(show(a.value), show(b.value)) for a, b in pairs if a is not None and b is not None]
    return not stated or any(a == b for a, b in stated)


def _json(event: Event, data: bytes) -> Document:
    """The value that a line prints, at its place."""
    source, line, offset = event.position.source, event.position.line, event.position.byte_offset
    assert source is not None
    assert line is not None
    assert offset is not None
    return read(_line(event, data), source, line=line, byte_offset=data.index(b"{", offset))


def _line(event: Event, data: bytes) -> bytes:
    """What a line prints, from its first brace to its end."""
    assert event.position.byte_offset is not None
    start = data.index(b"{", event.position.byte_offset)
    end = data.find(b"\n", start)
    return data[start : end if end >= 0 else len(data)]
