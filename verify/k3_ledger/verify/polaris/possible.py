"""Values that cannot be, whatever any other record says: each record is looked at alone.

What honest logs of this family write is possible here. A speed of zero says that nothing was measured, so it cannot be
beside a tier that was earned, and stands anywhere else. A result inside another, of a model that was not scored, may
have a tier and not pass.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.facts import documents
from k3_ledger.verify.polaris.foreign_json import Number, join, number_of, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris.foreign_json import Document, Scalar
    from k3_ledger.verify.polaris.logtext import LogText
    from k3_ledger.verify.polaris.parse import RunLog

EARNED: Final = frozenset({"xs", "s", "m", "l", "xl"})
"""Tiers that a run earns, in lower case; ``none`` and ``BASELINE`` are earned by nobody."""
REFUSED: Final = "reject"
PUBLISHED: Final = frozenset({"", "verdict", "attestation.verdict"})
"""Objects of a record that hold the verdict on the run itself."""

_LENGTH = r"[0-9]{1,9}k?"
_SHARE = re.compile(r"(?:pr_|main_|guard_)?top1(?:_bar)?")
_SPEED = re.compile(
    rf"(?:(?:pr|main)_(?:ar|dflash|dspark|decode(?:{_LENGTH})?)_|(?:baseline|clock|decode|frontier)_|ctx_[0-9]{{1,9}}_(?:pp_)?"
    rf"|prefill_(?:frontier_)?)?tps|(?:pr|main|cb)_prefill(?:{_LENGTH})?_pp|(?:new_|prev_)?frontier"
    rf"|guard_{_LENGTH}_(?:pp_)?baseline|decode|prefill|pin|claim"
)
_TIME = re.compile(r"ms_per_token|ms|(?:cb|prefill)_(?:frontier_)?ttft_s|guard_cb_ttft_baseline")
"""Names that are known to be levels. Any other may be a difference, which may be below zero: bound by nothing."""
_AGREEMENT = re.compile(r"(?:spec_)?agree(?:ment)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_COUNTS = re.compile(r"(?:[A-Z0-9_ ]{1,80} )?(?P<part>[0-9]{1,18})/(?P<whole>[0-9]{1,18}) = (?P<rate>[0-9.]{1,24})")


def check_possible(log: RunLog) -> Iterator[Finding]:
    """Every value of every record, of every advance and of every log line that cannot be."""
    for run in log.runs:
        for record, document in documents(run):
            yield from _record(f"{run.run_id}: {record}", document)
        for document in run.printed:
            yield from _record(f"{run.run_id}: another object of the sealed output", document)
    for row in log.advances:
        yield from _record(f"frontier advance in line {row.position.line}", row)
    for text in log.logs:
        yield from _lines(text)


def _record(where: str, document: Document) -> Iterator[Finding]:
    for path, leaf in document.leaves.items():
        yield from _value(where, path, leaf.value, leaf.position)
    for path, tree in (("", document.object), *document.objects()):
        if "label" in tree:
            yield from _verdict(where, path, document)


def _lines(text: LogText) -> Iterator[Finding]:
    for event in text.events:
        for name, figure in event.figures.items():
            if number_of(figure) is not None:
                yield from _value(f"{text.source}: {event.kind} line", name, Number(figure), event.position)


def _value(where: str, path: str, value: Scalar, at: Position) -> Iterator[Finding]:
    """A figure outside of what its name admits, or a rate that is not that of its counts."""
    name, text = path.rpartition(".")[2], show(value)
    share, measured = _SHARE.fullmatch(name), _SPEED.fullmatch(name) or _TIME.fullmatch(name)
    if share or measured:
        number = number_of(value)
        figure = None if number is None else number.value
        expected = "between 0 and 1" if share else "a figure of at least 0"
        beyond = figure is not None and (figure < 0 or bool(share and figure > 1))
        if beyond or (isinstance(value, str) and _NOT_FINITE.fullmatch(value)):
            yield _finding(where, f"{path} is {text[:40]}", at, expected, text)
    counted = bool(share or _AGREEMENT.fullmatch(name))
    counts = _COUNTS.fullmatch(value) if counted and isinstance(value, str) else None
    if counts is not None and not _is_rate(int(counts["part"]), int(counts["whole"]), counts["rate"]):
        yield _finding(where, f"{path} is {text[:80]}", at, "a part of the whole, and its rate", text)


def _is_rate(part: int, whole: int, rate: str) -> bool:
    """Whether ``rate`` is ``part`` of ``whole``, rounded or cut off, in percent or not; no part exceeds the whole."""
    number = number_of(rate)
    if part > whole or number is None or number.value is None:
        return False
    unit = Decimal(1).scaleb(-number.printed_decimals)
    return whole == 0 or any(abs(number.value * whole - part * scale) < unit * whole for scale in (1, 100))


def _verdict(where: str, path: str, document: Document) -> Iterator[Finding]:
    """A tier beside a pass and a speed that it cannot have."""
    label, passes, speed = (document.leaves.get(join(path, name)) for name in ("label", "pass", "tps"))
    if label is None or not isinstance(label.value, str):
        return
    tier = label.value.casefold()
    if passes is not None and passes.value is True and tier == REFUSED:
        yield _finding(where, f"{label.value} and a pass", passes.position, "false", "true")
    if passes is not None and passes.value is False and tier in EARNED and path in PUBLISHED:
        yield _finding(where, f"tier {label.value} and no pass", passes.position, "true", "false")
    number = None if speed is None else number_of(speed.value)
    if speed is not None and number is not None and number.value == 0 and tier in EARNED:
        yield _finding(where, f"tier {label.value} at no speed", speed.position, "a speed", number.text)


def _finding(where: str, what: str, at: Position, expected: str, found: str) -> Finding:
    return Finding(Code.FOREIGN_IMPOSSIBLE, f"{where}: {what}, which cannot be", at, expected, found[:120])
