"""What verify would refuse for ever about a judgement, found before it is appended.

A log is append-only: an entry that verify refuses can be superseded and never mended. So whoever appends a pin, a rule,
a merge, a supersession or a verdict asks here first, and is told what verify would say, by the same functions and under
the same codes. That the bytes, the schema, the signing key and the references are right is the writer's to see to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.doubt import is_refuted
from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.judgements import (
    FEW,
    check_rule_names,
    check_supersessions,
    check_verdicts,
    read_judgements,
    trace_pins,
)
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.replay import Gathering
from k3_ledger.rescore.rules.registry import ALIASES, RULES, find_namesake, is_of_a_release
from k3_ledger.rescore.rules.verdict import REJECT
from k3_ledger.rescore.standing import Standing
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.log import VerifiedEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.verify.log import VerifiedLog

ADMITTED: Final = FEW
"""Kinds that :func:`admit` decides from a few entries; a verdict needs the whole log."""
_HINT: Final = "correct the body; nothing was appended"


def admit(entry: Any, before: Iterable[VerifiedEntry]) -> Iterator[Finding]:
    """What verify would find about a pin, rule, merge or supersede entry that is to be appended.

    Args:
        entry: the decoded entry, with the position it would have.
        before: entries that stand in front of it, in order: the one that it names, all others of its kind, and every
            supersession; of a pin every rule too, and the verdicts on the run that it names. More do no harm.
    """
    known, lost = [], {}
    for item in before:
        if item.disowned:
            lost[item.identity] = item.index
        else:
            known.append(item)
    since: dict[str, int] = {}
    for item in known:
        if item.entry.kind == "supersede":
            since.setdefault(item.entry.body.target, item.index)
    standing = Standing(since)
    gathering = Gathering(Material("what an entry rests on", standing=standing), standing.gone())
    for item in known:
        try:
            gathering.take(item)
        except RescoreError:
            continue  # that one is verify's to refuse, and no reason to refuse this one
    try:
        gathering.take(VerifiedEntry(entry.index, "", entry, disowned=False))
    except RescoreError as error:
        yield replace(error.finding, code=Code.JUDGEMENT_UNREADABLE, hint=_HINT)
        return
    material = gathering.material
    found = (
        *check_rule_names(material),
        *_check_kept_names(material),
        *trace_pins(material, lost),
        *_check_source(material, entry),
        *check_supersessions(material, lost),
    )
    yield from _about(entry.index, found)


def _check_source(material: Material, entry: Any) -> Iterator[Finding]:
    """A pin on a run that was published as refused, that its clock refutes, or of more than what counts of it.

    Pins of before stand, and verdicts are derived from them: a new one would make of a false number a frontier, and of
    every honest round behind it an alarm.
    """
    mine = [
        one for one in material.candidates if one.native and entry.kind == "pin" and one.identity == entry.body.source
    ]
    place = Position(index=entry.index, field="body.source")
    if any(one.published == REJECT for one in mine):
        yield Finding(Code.PIN_UNSOURCED, f"{entry.body.slot}: its source was published as refused", place)
        return
    for pin in material.pin_entries:
        for one in mine:
            run = one.run
            if pin.position.index != entry.index or run.track != pin.track or run.speed is None:
                continue
            if not one.clocked and is_refuted(run.track, run.speed, run.clock):
                message = f"{pin.slot}: the clock of its source contradicts what that says of itself"
                yield Finding(Code.PIN_UNSOURCED, message, place)
            elif one.counted is not None and one.counted < pin.value:
                message = f"{pin.slot}: no more counts of its source than its clock bears out"
                value = Position(index=entry.index, field="body.value")
                expected, found = format_exact(one.counted), format_exact(pin.value)
                yield Finding(Code.PIN_HAND_EDITED, message, value, expected, found)


def _check_kept_names(material: Material) -> Iterator[Finding]:
    """Rules of the ledger's own under names that releases give to theirs: a later one could mean another rule by it."""
    for index, rule in material.rules:
        said = find_namesake(rule.name, rule.sha256, [rule])
        registered = RULES.get(ALIASES.get(rule.name, rule.name))
        itself = registered is not None and registered.sha256 == rule.sha256
        if said is None and not itself and is_of_a_release(rule.name):
            yield _kept(index, rule.name)


def _kept(index: int, name: str) -> Finding:
    message = f"{name} is a name that only registered rules are given"
    return Finding(Code.RULE_NAME_TAKEN, message, Position(index=index, field="body.rule"), "a name of its own", name)


def admit_verdict(entry: Any, log: VerifiedLog) -> Iterator[Finding]:
    """What verify would find about a verdict entry that is to be appended to a verified log.

    Raises:
        LedgerError: a pin or rule entry of the log is none.
        VerificationError: the bytes changed since they were verified.
    """
    only, material = [(entry.index, entry.body)], read_judgements(log)
    found = list(check_verdicts(log, material, {}, lambda: only, older=False))
    yield from _about(entry.index, found)
    unknown = any(one is not None and one.code is Code.VERDICT_UNKNOWN_RULE for one in found)
    if unknown and is_of_a_release(entry.body.rule):
        yield from _about(entry.index, [_kept(entry.index, entry.body.rule)])


def _about(index: int, found: Iterable[Finding | None]) -> Iterator[Finding]:
    """The findings about one entry that verify would refuse it for."""
    for finding in found:
        if finding is not None and finding.position.index == index and finding.code.info.exit:
            place = Position(index=index, field=finding.position.field)  # it stands on no line yet
            yield replace(finding, position=place, hint=_HINT)
