"""The listings of a log: who is in them, in what order, and what was changed in them afterwards."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.polaris.compare import days_of, instant
from k3_ledger.verify.polaris.facts import other_names
from k3_ledger.verify.polaris.foreign_json import number_of, show
from k3_ledger.verify.polaris.parse import INDEX, LEDGER, LOG_NAMES
from k3_ledger.verify.polaris.spelling import plain, rounded_json, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.foreign_json import Document, Scalar
    from k3_ledger.verify.polaris.parse import Run, RunLog

NEARLY_ALL: Final = 0.9
"""Share of rows that carry a field from which on its absence is worth a word."""
PAIR: Final = 2
"""Of so many, neither one nor the other is most: what one of them lacks is named as what the other has."""
RECORDS: Final = ("receipt.json", "result.json")
"""Files that a run is published with: where fewer than half of the runs have one, the log lacks it as a whole."""
CORE: Final = (
    *(f"attestation.{name}." for name in ("code", "environment", "measurements", "references", "verdict")),
    *(f"attestation.{name}" for name in ("code.commit", "timestamp_utc", "verdict.label", "verdict.tps")),
)
"""Parts of a receipt on whose absence a word is due where half or more have them, as :func:`_held` names parts; on all
others where nearly all have them, and where there are two receipts of one form."""
PUBLISHED: Final = ("commit", "kl", "label", "pass", "top1", "tps")
"""Fields of a result that do not depend on the outcome, nor on the version of the scorer."""
_PREVIOUS: Final = "chain.prev_receipt_hash"
_PLACE: Final = "chain.chain_index"
_EDITED: Final = ("superseded_by", "superseded_reason")


def check_listing(log: RunLog) -> Iterator[Finding]:
    """Membership, files, order, edits and links of a whole log."""
    by_id = {run.run_id: run for run in log.runs}
    yield from _membership(log, by_id)
    yield from _files(log)
    yield from _order(log)
    for source, rows in ((LEDGER, log.ledger), (INDEX, log.index)):
        yield from _absent_fields(log, source, rows)
        yield from _edited(log, source, rows, by_id)
    yield from _absent_parts(log)
    yield from _chain(log)


def _membership(log: RunLog, by_id: dict[str, Run]) -> Iterator[Finding]:
    for run in log.runs:
        for source, rows in ((LEDGER, run.ledger), (INDEX, run.index)):
            if source in log.listings and not rows:
                yield Finding(Code.FOREIGN_UNLISTED, f"{run.run_id}: {source} has no row of this run", run.place)
            for row in rows[1:]:
                message = f"{run.run_id}: {source} has {len(rows)} rows of this run"
                yield Finding(Code.FOREIGN_ROW_REPEATED, message, row.position)
        if not run.files:
            message = f"{run.run_id}: listed, and runs/{run.run_id} is not there"
            yield Finding(Code.FOREIGN_ROW_WITHOUT_RUN, message, run.place)
    for text in log.logs:
        for event in text.all("published"):
            if log.named(event.figures["run_id"]) not in by_id:
                message = f"{event.figures['run_id']}: published by a log, and nowhere else in this directory"
                yield Finding(Code.FOREIGN_ROW_WITHOUT_RUN, message, event.position)


def _files(log: RunLog) -> Iterator[Finding]:
    runs = [run for run in log.runs if run.files]
    held = {run.run_id: {_kind(path) for path in run.files} for run in runs}
    counts = Counter(kind for kinds in held.values() for kind in sorted(kinds))
    for run in runs:
        for kind, count in counts.items():
            if kind not in held[run.run_id] and 2 * count >= len(runs):
                message = f"{run.run_id}: no {kind}, which {count} of {len(runs)} runs have"
                yield Finding(Code.FOREIGN_FILE_MISSING, message, run.place)
    for kind in RECORDS:
        if 2 * counts[kind] < len(runs):
            message = f"no {kind} in {len(runs) - counts[kind]} of {len(runs)} runs"
            yield Finding(Code.FOREIGN_FILE_MISSING, message, Position(source="runs"))


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    return "log" if name in LOG_NAMES else name


def _order(log: RunLog) -> Iterator[Finding]:
    for before, after in (*pairwise(log.ledger), *pairwise(log.advances)):
        if _is_earlier(*(row.text("timestamp_utc") or row.text("date") or "" for row in (after, before))):
            message = f"line {after.position.line} claims an earlier time than line {before.position.line}"
            yield Finding(Code.FOREIGN_TIME_ORDER, message, after.position)
    ledger, index = (dict.fromkeys(log.run_of(row) for row in rows) for rows in (log.ledger, log.index))
    common = [name for name in ledger if name in index]
    listed = [name for name in index if name in ledger]
    if listed not in (common, common[::-1]):
        at = next(i for i, (a, b) in enumerate(zip(listed, common[::-1], strict=True)) if a != b)
        row = next(row for row in log.index if log.run_of(row) == listed[at])
        message = f"{listed[at]}: stands in the index where the ledger has {common[::-1][at]}"
        yield Finding(Code.FOREIGN_INDEX_ORDER, message, row.position)


def _is_earlier(one: str, two: str) -> bool:
    """Whether a date, with or without a time, is before another wherever it was written; what is no date is not."""
    left, right = instant(one), instant(two)
    if left is not None and right is not None:
        return left < right
    days, others = days_of(one), days_of(two)
    return days is not None and others is not None and days[1] < others[0]


def _absent_fields(log: RunLog, source: str, rows: tuple[Document, ...]) -> Iterator[Finding]:
    counts = Counter(key for row in rows for key in row.object)
    usual = [key for key, count in counts.items() if count >= NEARLY_ALL * len(rows)]
    if len(rows) == PAIR:
        usual = [key for key in counts if key not in _EDITED]
    for row in rows:
        for key in usual:
            if key not in row.object:
                message = f"{log.run_of(row)}: {source} has no {key}, which {counts[key]} of {len(rows)} rows have"
                yield Finding(Code.FOREIGN_FIELD_ABSENT, message, row.position)


def _absent_parts(log: RunLog) -> Iterator[Finding]:
    """Parts that a receipt, or a result, lacks and the others have; of a block that is not there, not what is in it."""
    receipts = [(run, run.receipt) for run in log.runs]
    results = [(run, run.result) for run in log.runs]
    for name, pairs in (("receipt", receipts), ("result", results)):
        records = [(run, record, _held(run, record)) for run, record in pairs if record is not None]
        counts = Counter(part for _, _, held in records for part in held)
        usual = [part for part, count in counts.items() if _is_usual(name, part, count, len(records))]
        if name == "receipt" and len(records) == PAIR and len({"tdx." in held for _, _, held in records}) == 1:
            usual = list(counts)
        usual = [part for part in usual if part != _PLACE]  # see _unplaced()
        for run, record, held in records:
            lacking = ["attestation."] if "attestation." not in held else []  # of which check_receipt has said so
            for part in sorted(usual):
                inside = any(part.startswith(block) for block in lacking if block.endswith("."))
                if part in held or f"{part}." in held or inside:
                    continue
                lacking.append(part)
                shown = part.removesuffix(".")
                message = f"{run.run_id}: the {name} has no {shown}, which {counts[part]} of {len(records)} have"
                yield Finding(Code.FOREIGN_FIELD_ABSENT, message, record.at(shown))


def _held(run: Run, record: Document) -> set[str]:
    """Parts of a record by path, those with fields of their own with a point behind it; figures by all their names."""
    other = {fact for name, fact in other_names(run).items() if name in record.leaves}
    return {*record.leaves, *other, *(f"{path}." for path, _ in record.objects())}


def _is_usual(name: str, part: str, count: int, of: int) -> bool:
    if name == "result":
        return part in PUBLISHED and 2 * count >= of
    return count >= NEARLY_ALL * of or (part in CORE and 2 * count >= of)


def _edited(log: RunLog, source: str, rows: tuple[Document, ...], by_id: dict[str, Run]) -> Iterator[Finding]:
    for row in rows:
        marks = [key for key in _EDITED if key in row.object]
        if not marks:
            continue
        name, successor = log.run_of(row), log.named(row.text("superseded_by") or "")
        message = f"{name}: the row in {source} carries {' and '.join(marks)}, written after the row"
        yield Finding(Code.FOREIGN_EDITED_IN_PLACE, message, row.at(marks[0]), found=successor or None)
        if successor not in by_id:
            message = f"{successor or 'nothing'}: said to supersede {name}, and not in this log"
            yield Finding(Code.FOREIGN_ROW_WITHOUT_RUN, message, row.at(marks[0]))
            continue
        times = [instant(by_id[run].timestamp) for run in (name, successor)]
        if times[0] is not None and times[1] is not None and times[1] < times[0]:
            message = f"{name}: superseded in {source} by {successor}, which is older"
            yield Finding(
                Code.FOREIGN_SUPERSEDED_BY_OLDER,
                message,
                row.at("superseded_by"),
                f"later than {by_id[name].timestamp}",
                by_id[successor].timestamp,
            )


def _chain(log: RunLog) -> Iterator[Finding]:
    receipts = [(run, run.receipt) for run in log.runs if run.receipt is not None]
    known: dict[str, int] = {}
    for at, (_, receipt) in enumerate(receipts):
        signed = rounded_json(receipt.object.get("attestation")) or b""
        for name in (receipt.text("receipt_id"), sha256_hex(receipt.raw), sha256_hex(signed)):
            if name:  # a blank link leads nowhere, and to no receipt without a name
                known.setdefault(plain(name), at)
    links = [receipt.leaf(_PREVIOUS) for _, receipt in receipts]
    firsts = [at for at, link in enumerate(links) if link is not None and link.value is None]
    for run, receipt in (receipts[at] for at in firsts) if len(firsts) > 1 else ():
        message = f"{run.run_id}: one of {len(firsts)} receipts that call themselves the first of their chain"
        yield Finding(Code.FOREIGN_CHAIN_UNLINKED, message, receipt.at(_PREVIOUS))
    before: dict[int, int | None] = dict.fromkeys(firsts)
    for at, (run, receipt) in enumerate(receipts):
        link = links[at]
        if link is not None and link.value is not None:
            if plain(show(link.value)) in known:
                before[at] = known[plain(show(link.value))]
            else:
                message = f"{run.run_id}: the previous receipt is none of the log's {len(receipts)} receipts"
                yield Finding(Code.FOREIGN_CHAIN_BROKEN, message, receipt.at(_PREVIOUS), found=show(link.value)[:80])
    yield from _chain_places(receipts, before)


def _chain_places(receipts: list[tuple[Run, Document]], before: dict[int, int | None]) -> Iterator[Finding]:
    """Each receipt's place by the links, and the place that it states: the first is 0, every other one more."""
    places, circles = _places(before)
    for at in circles:
        run, receipt = receipts[at]
        message = f"{run.run_id}: the links to the previous receipt lead back to this one"
        yield Finding(Code.FOREIGN_CHAIN_BROKEN, message, receipt.at(_PREVIOUS))
    yield from _forks(receipts, {at: previous for at, previous in before.items() if at not in circles})
    stated = [receipt.leaf(_PLACE) for _, receipt in receipts]
    numbers = [None if leaf is None else _whole(leaf.value) for leaf in stated]
    yield from _unplaced(receipts, before, [leaf is not None and leaf.value is not None for leaf in stated])
    for at, ((run, receipt), leaf) in enumerate(zip(receipts, stated, strict=True)):
        if leaf is None or leaf.value is None:
            continue
        previous, number, link = before.get(at), numbers[at], receipt.leaf(_PREVIOUS)
        place = places.get(at)
        if place is None and previous is not None and (known := numbers[previous]) is not None:
            place = known + 1
        found = show(leaf.value)[:40]
        if number is None:
            message = f"{run.run_id}: chain_index is {found}, which is no place in a chain"
            yield Finding(Code.FOREIGN_SHAPE, message, leaf.position, expected="a whole number from 0", found=found)
        elif place is not None and number != place:
            message = f"{run.run_id}: chain_index is {found}, by the links it is {place}"
            yield Finding(Code.FOREIGN_CHAIN_INDEX, message, leaf.position, expected=str(place), found=found)
        elif number == 0 and link is not None and link.value not in (None, ""):
            message = f"{run.run_id}: chain_index is 0, and the receipt names one before it"
            yield Finding(Code.FOREIGN_CHAIN_INDEX, message, leaf.position, expected="a number from 1", found=found)


def _forks(receipts: list[tuple[Run, Document]], before: dict[int, int | None]) -> Iterator[Finding]:
    """Receipts that name the previous one of another receipt: of a chain each is the previous one of one at most.

    Two copies of one receipt are one.
    """
    behind: dict[int, dict[str, list[int]]] = {}
    for at, previous in before.items():
        if previous is not None:
            name = plain(receipts[at][1].text("receipt_id") or "") or receipts[at][0].run_id
            behind.setdefault(previous, {}).setdefault(name, []).append(at)
    for previous, following in behind.items():
        for name, copies in following.items():
            others = [receipts[also[0]][0].run_id for other, also in following.items() if other != name]
            for run, receipt in (receipts[at] for at in copies if others):
                message = f"{run.run_id}: its previous receipt, {receipts[previous][0].run_id}, is that of "
                message += f"{others[0]} too" if len(others) == 1 else f"{len(others)} others too"
                yield Finding(Code.FOREIGN_CHAIN_BROKEN, message, receipt.at(_PREVIOUS))


def _unplaced(
    receipts: list[tuple[Run, Document]], before: dict[int, int | None], placed: list[bool]
) -> Iterator[Finding]:
    """Receipts that state no place, where a receipt beside them in the chain does, or half of all others do."""
    linked: dict[int, set[int]] = {}
    for at, previous in before.items():
        if previous is not None:
            linked.setdefault(at, set()).add(previous)
            linked.setdefault(previous, set()).add(at)
    count = sum(placed)
    for at, (run, receipt) in enumerate(receipts):
        if placed[at] or not isinstance(receipt.object.get("chain"), dict):
            continue  # a receipt without the block lacks more
        if 2 * count >= len(receipts) or any(placed[other] for other in linked.get(at, ())):
            message = f"{run.run_id}: the receipt has no {_PLACE}, which {count} of {len(receipts)} have"
            yield Finding(Code.FOREIGN_FIELD_ABSENT, message, receipt.at(_PLACE))


def _whole(value: Scalar) -> int | None:
    number = number_of(value)
    if number is None or number.value is None or number.value < 0 or number.value != number.value.to_integral_value():
        return None
    return int(number.value)


def _places(before: dict[int, int | None]) -> tuple[dict[int, int], list[int]]:
    """How many links lie before each receipt, where they end at a first one; and receipts in a circle of links.

    Every receipt is walked over once, so that a long chain costs no more than its length.
    """
    places: dict[int, int] = {}
    circles: list[int] = []
    done: set[int] = set()
    for start in before:
        path: list[int] = []
        at: int | None = start
        while at is not None and at in before and at not in done:
            done.add(at)
            path.append(at)
            at = before[at]
        if at in path:
            circles += path[path.index(at) :]
        place = -1 if at is None else places.get(at)
        if place is not None:
            places |= {step: place + more for more, step in enumerate(reversed(path), start=1)}
    return places, sorted(circles)
