"""Advances of the frontier: each line against the one that it starts from, and against the run that it names as proof.

What ``new_frontier`` is a figure of differs within the family, and within one log (:class:`Reading`). A line is held to
none of the readings beforehand: it contradicts its proof where none of them holds to the last printed digit. Where one
holds that is not the measured speed, the figure is another quantity than the run's, and that is said.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import Agreement, compare, days_of, written_day
from k3_ledger.verify.polaris.crosscheck import Standing
from k3_ledger.verify.polaris.derived import GAIN, check_record
from k3_ledger.verify.polaris.facts import is_blank
from k3_ledger.verify.polaris.foreign_json import Number, number_of, show
from k3_ledger.verify.polaris.hashes import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from k3_ledger.verify.polaris.crosscheck import CrossChecks
    from k3_ledger.verify.polaris.derived import DerivedChecks
    from k3_ledger.verify.polaris.facts import RunFacts
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.parse import RunLog

PLACES: Final = 2
"""Decimals to which this family's writers round a frontier."""
TAKEN_GAIN: Final = 30
"""Largest gain, in percent, that the family's writers put on a frontier whatever was measured; above it, and where
there is none, some of them take the measured speed if it is the larger one."""
_RUN = re.compile(r"(?:\A|[?&#;/])run=([^&#;]*)")
_ESCAPED = re.compile(r"%([0-7][0-9A-Fa-f])")
_FOLDER = re.compile(r"(?:\A|/)runs/([^/?#]+)")


PARTNERS: Final = {
    "pr": "pr",
    "date": "timestamp_utc",
    "delta_pct": "pct_over_frontier",
    "new_frontier": "tps",
    "prev_frontier": "frontier_tps",
}
"""Fields of a line, and the facts of its proof that they are held against: a date is not the same but not before."""
SPEEDS: Final = frozenset({"new_frontier", "prev_frontier"})
"""Those that are speeds of the run only where that is what the line means."""


class Reading(enum.Enum):
    """What the new frontier of a line is."""

    MEASURED = "the speed that its run measured, over the frontier that this run was scored against"
    RELATIVE = "the frontier before it, raised by the gain that its run measured over another one"
    RAISED = "the larger of the frontier before it and the speed that its run measured over another one"


class _Line(NamedTuple):
    """Figures of a line and of its proof; None for what is not stated as a figure."""

    before: Number | None
    after: Number | None
    gain: Number | None
    speed: Number | None
    base: Number | None


def check_advances(log: RunLog, facts: list[RunFacts], derived: DerivedChecks, cross: CrossChecks) -> Iterator[Finding]:
    """Every advance. Its commit is not the run's: what advanced the frontier is the commit of the merge.

    Args:
        log: the whole log.
        facts: its runs with their facts.
        derived: takes the gains that were recomputed from the figures beside them.
        cross: takes what each field of a line rests on.
    """
    runs = {run.run.run_id: run for run in facts}
    by_id = {name: runs[run_id] for name, run_id in log.names.items()}
    reached: set[str] = set()
    for row in log.advances:
        start = row.leaf("prev_frontier")
        if start is not None and reached and show(start.value) not in reached:
            message = f"line {row.position.line} starts from {show(start.value)}, which no earlier line reached"
            yield Finding(Code.FOREIGN_PIN_GAP, message, start.position)
        end = row.leaf("new_frontier")
        reached.add("" if end is None else show(end.value))
        name = proof_of(row, by_id)
        proof = by_id.get(name)
        line = _line(row, proof)
        if not (_is_raised(line) if proof is not None else _may_be_raised(line)):
            check_record(f"frontier advance in line {row.position.line}", "", GAIN, row, derived)
        for path in row.leaves:
            standing = Standing.ALONE if proof is None else _standing(row, path, proof, line)
            cross.standings.setdefault((Record.ADVANCE, path), Counter())[standing] += 1
        if proof is not None:
            yield from _date(row, proof, cross)
            yield from _against(row, proof, line)
        elif name or not isinstance(row.object.get("proof", ""), str | None):
            message = f"{name or 'nothing'}: named as proof in line {row.position.line}, and not in this log"
            yield Finding(Code.FOREIGN_ROW_WITHOUT_RUN, message, row.at("proof"))
        else:
            message = f"line {row.position.line} names no run as proof: it was held against none"
            yield Finding(Code.FOREIGN_ADVANCE_UNPROVED, message, row.at("proof"))
    yield from _unmeasured(log, by_id)


def proof_of(row: Document, known: dict[str, RunFacts]) -> str:
    """Name of the run that a line names as proof: its id, its folder or a file in it, an address that ends so or asks
    for it; empty where it names nothing.
    """
    text = (row.text("proof") or "").strip()
    found = [text, *_RUN.findall(text)[::-1], *_FOLDER.findall(text)[::-1]]
    names = [name for raw in found for name in (raw, _ESCAPED.sub(_unescaped, raw))]
    return next((name for name in names if name in known), next(filter(None, names[2:]), text))


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _line(row: Document, proof: RunFacts | None) -> _Line:
    leaves = [row.leaf(name) for name in ("prev_frontier", "new_frontier", "delta_pct")]
    figures = [None if leaf is None else number_of(leaf.value) for leaf in leaves]
    speed, base = (None, None) if proof is None else (proof.number("tps"), proof.number("frontier_tps"))
    return _Line(*(n if n is not None and n.value is not None else None for n in (*figures, speed, base)))


def _exact(number: Number) -> Fraction:
    assert number.value is not None
    return Fraction(number.value)


def _is_measured(line: _Line) -> bool:
    pairs = (("tps", line.after, line.speed), ("frontier_tps", line.before, line.base))
    return all(a is None or b is None or compare(fact, a, b) is not Agreement.DIFFER for fact, a, b in pairs)


def _is_relative(line: _Line) -> bool:
    """Whether the line's own gain, as printed or as it was before it was rounded, gives the new frontier.

    Speeds are rounded like frontiers, however many zeros are printed.
    """
    if line.before is None or line.after is None or line.gain is None or _exact(line.gain) <= 0:
        return False
    half = Fraction(1, 2 * 10**PLACES)
    after, before = _exact(line.after), _exact(line.before)
    if abs(before * (1 + _exact(line.gain) / 100) - after) <= half:
        return True
    if line.speed is None or line.base is None or _exact(line.base) <= half:
        return False
    speed, base = _exact(line.speed), _exact(line.base)
    return before * (speed - half) / (base + half) - half <= after <= before * (speed + half) / (base - half) + half


def _may_be_raised(line: _Line) -> bool:
    """Whether it may be the speed of a run that is not known."""
    if line.before is None or line.after is None:
        return False
    outside = line.gain is None or not 0 < _exact(line.gain) <= TAKEN_GAIN
    return outside and _exact(line.after) >= _exact(line.before)


def _is_raised(line: _Line) -> bool:
    if not _may_be_raised(line) or line.before is None or line.after is None or line.speed is None:
        return False
    larger = max(line.before, line.speed, key=_exact)
    return compare("tps", line.after, larger) is not Agreement.DIFFER


def _reading(line: _Line) -> Reading | None:
    """The first reading that holds; None where none does."""
    holds = ((Reading.MEASURED, _is_measured), (Reading.RELATIVE, _is_relative), (Reading.RAISED, _is_raised))
    return next((reading for reading, check in holds if check(line)), None)


def _is_free(field: str, line: _Line) -> bool:
    """Whether a field need not be the same as the fact of the proof: a date may be later, a frontier mean another."""
    return field == "date" or (field in SPEEDS and _reading(line) not in (None, Reading.MEASURED))


def _standing(row: Document, path: str, proof: RunFacts, line: _Line) -> Standing:
    """What a field of a line rests on: that it names the proof is no evidence of it."""
    leaf, stated = row.leaves[path], proof.first(PARTNERS[path]) if path in PARTNERS else None
    if stated is None or is_blank(leaf.value):
        return Standing.ALONE
    agreement = compare(PARTNERS[path], leaf.value, stated.leaf.value)
    if agreement is Agreement.NOT_COMPARED:
        return Standing.ALONE
    if agreement is not Agreement.DIFFER:
        return Standing.COPIED
    return Standing.ALONE if _is_free(path, line) else Standing.DISPUTED


def _against(row: Document, proof: RunFacts, line: _Line) -> Iterator[Finding]:
    """A line against its proof: the change it belongs to, the gain, and the frontier by any reading."""
    name = proof.run.run_id
    for field, fact in PARTNERS.items():
        leaf, stated = row.leaf(field), proof.first(fact)
        if leaf is None or stated is None:
            continue
        if is_blank(leaf.value):
            message = f"{name}: {fact} is {show(stated.leaf.value)} in {stated.where}; {field} is blank in the advance"
            yield Finding(Code.FOREIGN_BLANK_COPY, message, leaf.position, show(stated.leaf.value), show(leaf.value))
            continue
        if _is_free(field, line) or compare(fact, leaf.value, stated.leaf.value) is not Agreement.DIFFER:
            continue
        message = f"{name}: {field} is {show(leaf.value)} in the advance, {fact} is "
        message += f"{show(stated.leaf.value)} in {stated.where}"
        expected, found = show(stated.leaf.value), show(leaf.value)
        yield Finding(Code.FOREIGN_CONTRADICTION, message, leaf.position, expected, found)
    reading = _reading(line)
    if reading in (Reading.RELATIVE, Reading.RAISED):
        assert line.after is not None
        measured = "no speed" if line.speed is None else line.speed.text
        over = "" if line.base is None else f" over {line.base.text}"
        message = f"{name}: new_frontier is {line.after.text}, {reading.value}; measured was {measured}{over}"
        at = row.at("new_frontier")
        yield Finding(Code.FOREIGN_TWO_MEANINGS, message, at, Reading.MEASURED.value, reading.value)


def _unmeasured(log: RunLog, by_id: dict[str, RunFacts]) -> Iterator[Finding]:
    """Frontiers above every speed that a run of the log had measured by then; the farthest above comes first.

    The proof was measured by then, whatever day it is where that is said.
    """
    numbers = {name: number for name, run in by_id.items() if (number := run.number("tps")) and number.value}
    dated = sorted(((_day(by_id[name]), number) for name, number in numbers.items()), key=lambda item: item[0])
    days = [day for day, _ in dated]
    fastest: list[Number] = list(accumulate((number for _, number in dated), _faster))
    found: list[tuple[Decimal, Finding]] = []
    for row in log.advances:
        after = _line(row, None).after
        until = written_day(row.text("date") or "")
        proof = numbers.get(proof_of(row, by_id))
        known = fastest[: bisect_right(days, until) if until else None][-1:] + ([] if proof is None else [proof])
        if after is None or after.value is None or not known:
            continue
        most = max(known, key=_exact)
        assert most.value is not None
        if after.value > most.value > 0:
            factor = after.value / most.value
            message = f"line {row.position.line}: new_frontier is {after.text}, {factor:.2f} times {most.text}, "
            message += f"the most that a run of this log had measured{f' by {until}' if until else ''}"
            at = row.at("new_frontier")
            found.append((factor, Finding(Code.FOREIGN_FRONTIER_UNMEASURED, message, at, most.text, after.text)))
    yield from (finding for _, finding in sorted(found, key=lambda item: -item[0]))


def _faster(one: Number, two: Number) -> Number:
    return max(one, two, key=_exact)


def _day(run: RunFacts) -> str:
    return written_day(run.text("timestamp_utc"))


def _date(row: Document, proof: RunFacts, cross: CrossChecks) -> Iterator[Finding]:
    """No advance is older than its proof. It may be later: what it dates is the merge."""
    name, stated = proof.run.run_id, row.leaf("date")
    if stated is None or is_blank(stated.value):
        return  # which _against says
    found = show(stated.value)[:40]
    dated, measured = days_of(found), days_of(proof.text("timestamp_utc"))
    if row.text("date") is None:
        message = f"{name}: the advance has a date that is none"
        yield Finding(Code.FOREIGN_SHAPE, message, stated.position, expected="a date", found=found)
    elif dated is None or (measured is None and proof.text("timestamp_utc")):
        cross.agreements[Agreement.NOT_COMPARED] += 1
        which = "which" if dated is None else f"its proof {proof.text('timestamp_utc')[:40]}, which"
        message = f"{name}: the advance is dated {found}, {which} is no date that can be read"
        yield Finding(Code.FOREIGN_NOT_COMPARED, message, stated.position, expected="a date", found=found)
    elif measured is not None and dated[1] < measured[0]:
        message = f"{name}: the advance is dated {found}, its proof {measured[0]}"
        yield Finding(Code.FOREIGN_CONTRADICTION, message, stated.position, f"{measured[0]} or later", found)
