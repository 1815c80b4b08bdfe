"""Steps 11 and 12 of verification: verdicts are derived again, pins are traced to receipts.

A verdict passes when the rule of its digest, applied to the run it names and the pins it states, gives the same tier,
the same binding term, the same intermediate values and the same list of what was not checked; when it calls that rule
by a name that a rule of the digest has; and when every pin it states is what stands where the verdict says it stands. A
pin passes when the entry it names measured its value on its slot, stood by then and is no lower than a pin before it:
for a reference a run of the other engine, for any other pin a run of this project's own; and when the commit it states
is not another than that entry's. A rule passes when its digest is that of the parameters it carries, a supersession
when what it names in the place of an entry is another one that stands; both are counted among the verdicts. What cannot
be decided (a rule nobody published, a pin from a file) is counted as not checked, never passed.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.comparing import compare_verdict, place_in
from k3_ledger.rescore.deriving import Survey, derive
from k3_ledger.rescore.doubt import list_counted
from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.otherwise import Otherwise
from k3_ledger.rescore.pins import list_lowered, lowered_finding, stamp_finding
from k3_ledger.rescore.reach import reach_as_sealed
from k3_ledger.rescore.replay import Gathering
from k3_ledger.rescore.rules.registry import RULES, find_namesake, names_by_digest
from k3_ledger.rescore.spans import HEAD
from k3_ledger.rescore.standing import read_standing
from k3_ledger.schemas.envelope import JUDGED_KINDS
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.report import FindingLog, Tally
from k3_ledger.verify.settle import required

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from fractions import Fraction

    from k3_ledger.rescore.deriving import Compare
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.rescore.reach import Reach
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.slots import Track
    from k3_ledger.rescore.standing import Standing
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.log import VerifiedLog
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report

JUDGED = frozenset(JUDGED_KINDS)
"""Names of the steps that this module carries out."""
FEW = frozenset(kind for kinds in JUDGED_KINDS.values() for kind in kinds) - {"verdict"}
"""Kinds that these steps read, but for verdicts: there are few of them."""


def settle_judgements(log: VerifiedLog, policy: TrustPolicy | None = None) -> Report:
    """The log's report with its verdicts and pins checked.

    Args:
        log: a verified log; its policy must not have demanded the steps of this module.
        policy: what was demanded in full.

    Raises:
        VerificationError: its bytes changed since it was verified.
    """
    tallies = {step.name: Tally(disowned=step.disowned) for step in log.report.steps if step.name in JUDGED}
    findings = FindingLog(vouched=log.vouched)
    lost = _taken_back(log)
    try:
        material = read_judgements(log)
    except RescoreError as error:
        tallies["pins"].failed = tallies["verdicts"].failed = 1
        findings.add(dataclasses.replace(error.finding, code=Code.JUDGEMENT_UNREADABLE))
        material = Material("nothing that can be judged")
        for tally in tallies.values():
            tally.detail = _NOT_JUDGED
        steps: tuple[tuple[str, Iterable[Finding | None]], ...] = ()
    else:
        reach = functools.cache(lambda: reach_as_sealed(log, material.standing))  # read where something is wrong, once
        as_sealed = reach if log.disowned else None
        steps = (
            ("verdicts", check_verdicts(log, material, lost, as_sealed=as_sealed)),
            ("pins", trace_pins(material, lost, as_sealed)),
        )
    for name, found in steps:
        tally = tallies[name]
        for outcome in found:
            if outcome is None:
                tally.checked += 1
                continue
            findings.add(outcome)
            if outcome.code.info.exit:
                tally.checked += 1
                tally.failed += 1
            else:
                tally.not_checked += 1
        tally.detail = tally.detail or _counted(name, tally)
    # Gathering compared each rule with its digest, and found that each winner claims more than nothing.
    for name, read, what in (
        ("verdicts", material.rules, "rules"),
        ("pins", material.merges, "merges"),
        ("verdicts", material.supersessions, "supersessions"),
    ):
        if read:
            tally = tallies[name]
            before = f"{tally.detail}, " if tally.checked or tally.not_checked else ""
            tally.detail = f"{before}{len(read)} {what} read"
            tally.checked += len(read)
    for finding in check_supersessions(material, lost):
        findings.add(finding)
        _move(tallies["verdicts"], finding)
    if policy is not None:
        _demand(policy, tallies, findings)
    report = log.report
    return dataclasses.replace(
        report,
        policy=report.policy if policy is None else policy.sentence,
        policy_digest=report.policy_digest if policy is None else policy.digest,
        steps=tuple(tallies[step.name].result(step.name) if step.name in tallies else step for step in report.steps),
        findings=(*report.findings, *findings.kept()),
        counts=_summed(report.counts, findings.counts),
        covered=_summed(report.covered, findings.covered),
    )


def _summed(*counts: Mapping[Code, int]) -> dict[Code, int]:
    """How often each code occurred altogether: one that both have was found by either."""
    total: dict[Code, int] = {}
    for found in counts:
        for code, count in found.items():
            total[code] = total.get(code, 0) + count
    return total


def _move(tally: Tally, finding: Finding) -> None:
    """Count what was counted as checked as what a finding says of it."""
    if finding.code.info.exit:
        tally.failed += 1
    else:
        tally.checked -= 1
        tally.not_checked += 1


def _taken_back(log: VerifiedLog) -> dict[str, int]:
    """Identities of the entries that a revocation took back, with their positions."""
    if not log.disowned:
        return {}
    return {item.identity: item.index for item in log if item.disowned}


def _rests_on_what_was_taken_back(
    what: str, names: Iterable[str | None], lost: Mapping[str, int], place: Position
) -> Finding | None:
    """Says so when one of the entries that a judgement names was taken back after it was made.

    That is nobody's lie: the ledger stays true, and the judgement counts for nothing.
    """
    at = next((lost[name] for name in names if name is not None and name in lost), None)
    if at is None:
        return None
    return Finding(Code.JUDGEMENT_DISOWNED, f"the {what} rests on entry {at}, which was taken back later", place)


_NOT_JUDGED = "an entry of these kinds cannot be read, so none was judged"
_WORDS = {"verdicts": "derived again", "pins": "traced to the entry they were measured in"}


def _counted(name: str, tally: Tally) -> str:
    """What became of the entries of a step, in words; there are none only where there are none."""
    done = [f"{tally.checked} {_WORDS[name]}"] if tally.checked else []
    left = [f"{tally.not_checked} not {_WORDS[name]}"] if tally.not_checked else []
    return ", ".join(done + left) or f"no {name.removesuffix('s')} entries{tally.that_count}"


def _demand(policy: TrustPolicy, tallies: dict[str, Tally], findings: FindingLog) -> None:
    for name in sorted(policy.require & JUDGED):
        if not tallies[name].passed:
            findings.add(required(name, tallies[name]))


# -------------------------------------------------------------------------------------------------- step 11: verdicts


def read_judgements(log: VerifiedLog) -> Material:
    """The pins, rules, merges and supersessions of a log: what is few.

    Raises:
        LedgerError: a pin, a merge or a rule entry is none; its index is named.
        VerificationError: the bytes changed since they were verified.
    """
    standing = read_standing(log)
    gathering = Gathering(Material("verified ledger", standing=standing), standing.gone())
    gathering.vouched = log.vouched
    for entry in log.select(*(b'"kind":"' + kind.encode() + b'"' for kind in sorted(FEW))):
        if entry.entry.kind in FEW:
            gathering.take(entry)
    return gathering.material


def check_verdicts(
    log: VerifiedLog,
    material: Material,
    lost: Mapping[str, int],
    verdicts: Callable[[], Iterable[tuple[int, Any]]] | None = None,
    *,
    as_sealed: Callable[[], Reach] | None = None,
    older: bool = True,
) -> Iterator[Finding | None]:
    """For each verdict entry: None when it follows, else what is wrong with it or why it was not derived.

    Each is derived from what stood at its own position: what was superseded since was nobody's fault by then.

    Args:
        log: the log.
        material: from :func:`read_judgements`; is given the measurements of the entries that pins name.
        lost: identities of entries that a revocation took back.
        verdicts: reads (position, body) of the verdicts to check, in order; those of the log that stand by default.
        as_sealed: reads where entries counted that were taken back later; None where none were.
        older: whether what follows only from how runs were read before is left open, not called false.
    """
    yield from check_rule_names(material)
    read = verdicts or (lambda: _sealed(log, material))
    known = {rule.sha256: rule for rule in RULES.values()}
    standing = [rule for _, rule in material.rules]
    free = [rule for at, rule in material.withdrawn if _is_free(rule, at, material)]
    known |= {rule.sha256: rule for rule in (*free, *standing)}
    turns = material.standing.turns()
    at: dict[str, set[int]] = {}
    resting: set[int] = set()
    for index, body in read():
        if (finding := _taken_back_below(body, lost, index)) is not None:
            if as_sealed is None or body.rule_sha256 not in known:
                yield finding
            else:
                resting.add(index)
        elif body.rule_sha256 in known:
            turn = turns.after(index)
            at.setdefault(body.rule_sha256, set()).add(HEAD if turn is None else turn)
        elif (finding := _misnamed(material, index, body)) is not None:
            yield finding
        else:
            digest = body.rule_sha256
            message = f"no rule has the digest {digest[:12]}…, which the verdict calls {body.rule}"
            yield Finding(Code.VERDICT_UNKNOWN_RULE, message, place_in(index, "rule_sha256"), found=digest)
    survey = Survey(material.standing, known, at, material.sources)

    def by_known() -> Iterator[tuple[int, Any]]:
        return ((index, body) for index, body in read() if body.rule_sha256 in known)  # read once more, in order

    def rests(body: Any, index: int) -> Finding | None:
        return _taken_back_below(body, lost, index)

    def compare(also: Iterable[Rule] = ()) -> Compare:
        return functools.partial(compare_verdict, names=names_by_digest((*free, *standing, *also)))

    wrong: dict[int, Finding] = {}
    if at or survey.sources:
        derivable = lambda: ((index, body) for index, body in by_known() if rests(body, index) is None)  # noqa: E731
        for found in derive(log, survey, derivable, compare(), _not_there, material=material):
            if found is not None and found.code.info.exit and found.position.index is not None:
                wrong[found.position.index] = found
            else:
                yield found
    yield from Otherwise(log, survey, by_known, compare, _not_there, rests, as_sealed, older).derive(wrong, resting)


def _sealed(log: VerifiedLog, material: Material) -> Iterator[tuple[int, Any]]:
    """(position, body) of the verdicts that stand."""
    for entry in log.select(b'"kind":"verdict"'):
        if entry.entry.kind == "verdict" and material.standing.stands(entry.identity):
            yield entry.index, entry.entry.body


def _taken_back_below(body: Any, lost: Mapping[str, int], index: int) -> Finding | None:
    names = (body.target, *(pin.entry for pin in body.pins))
    return _rests_on_what_was_taken_back("verdict", names, lost, place_in(index, "target")) if lost else None


def check_rule_names(material: Material) -> Iterator[Finding]:
    """Rule entries under a name that means another rule."""
    for number, (index, rule) in enumerate(material.rules):
        other = find_namesake(rule.name, rule.sha256, [upto for _, upto in material.rules[: number + 1]])
        if other is not None:
            message = f"{rule.name} is the name of another rule"
            yield Finding(Code.RULE_NAME_TAKEN, message, place_in(index, "rule"), other.sha256, rule.sha256)


def check_supersessions(material: Material, lost: Mapping[str, int]) -> Iterator[Finding]:
    """Supersessions that name in the place of an entry what does not stand: itself, or what was superseded before.

    So replacements never go in a circle: the last supersession of one would name what an earlier one took back.
    """
    for index, body in material.supersessions:
        place = place_in(index, "replacement")
        if body.replacement is None:
            continue
        if body.replacement == body.target:
            message = "the entry is said to stand in its own place"
        elif not material.standing.stands(body.replacement, at=index):
            by = material.standing.since[body.replacement]
            message = f"what is said to stand in its place was superseded by entry {by}"
        else:
            finding = _rests_on_what_was_taken_back("supersession", (body.replacement,), lost, place)
            if finding is not None:
                yield finding
            continue
        yield Finding(
            Code.SUPERSEDE_REPLACEMENT, message, place, "another entry that stands, or null", body.replacement
        )


def _is_free(rule: Rule, at: int, material: Material) -> bool:
    """Whether nobody had a rule's name where it was published. Who has it since makes no verdict under it another's."""
    return find_namesake(rule.name, rule.sha256, [*(one for index, one in material.rules if index < at), rule]) is None


def _misnamed(material: Material, index: int, body: Any) -> Finding | None:
    """A verdict by a rule that nobody knows, under the name of one that is shipped or was published by then."""
    published = [rule for at, rule in material.rules if at < index]
    other = find_namesake(body.rule, body.rule_sha256, published)
    if other is None:
        return None
    message = f"the verdict is not by {body.rule}: its rule has another digest"
    return Finding(Code.RULE_NAME_TAKEN, message, place_in(index, "rule_sha256"), other.sha256, body.rule_sha256)


def _not_there(index: int, body: Any) -> Finding:
    message = f"entry {body.target[:8]}… holds no run of {body.metric} that could be judged"
    return Finding(Code.VERDICT_MISMATCH, message, place_in(index, "target"), found=body.target)


# ------------------------------------------------------------------------------------------------------ step 12: pins


def trace_pins(
    material: Material, lost: Mapping[str, int], as_sealed: Callable[[], Reach] | None = None
) -> Iterator[Finding | None]:
    """For each pin entry: None when its source measured it, else what is wrong with it.

    A pin is no lower than one that did not stand where it was sealed, and does again since a revocation. One whose
    source was taken back is not checked, unless that never measured it: what was false before is false behind it.

    Args:
        material: the pins, and what their sources measured.
        lost: identities of entries that a revocation took back.
        as_sealed: where entries counted that were taken back later; None where none were, or where ``material`` holds
            nothing of them.
    """
    facts: dict[str, list[tuple[bool, Track, Fraction]]] = {}
    refuted: set[tuple[str, Track]] = set()
    commits = {fact.identity: fact.commit for fact in material.facts}
    for fact in material.facts:
        if fact.speed.actor == "subject" and fact.speed.primary:
            if fact.refuted:
                refuted.add((fact.identity, fact.speed.track))
            one, known = fact.speed, [fact.speed.speed]
            if fact.role == "candidate":  # what others are held against is what counts of a run
                known += list_counted(one.track, one.speed, fact.reading)
            found = ((fact.role == "reference", one.track, speed) for speed in known)
            facts.setdefault(fact.identity, []).extend(found)
    for candidate in material.candidates:
        if not candidate.native and candidate.run.speed is not None:
            values = [(candidate.run.track, candidate.run.speed), *candidate.others.items()]
            facts.setdefault(candidate.identity, []).extend((False, track, value) for track, value in values)
    lowered = {
        pin.identity: _lowered(pin, higher, material.pin_entries, as_sealed)
        for pin, higher in list_lowered(material.pin_entries)
    }
    for pin in material.pin_entries:
        source = pin.source or ""
        taken_back = _rests_on_what_was_taken_back("pin", (pin.source,), lost, pin.position)
        if taken_back is not None and as_sealed is None:
            yield taken_back
            continue
        found_out = (
            _ceased(pin, source, material.standing, refuted)
            or _traced(pin, facts.get(source, []))
            or stamp_finding(pin, commit=commits.get(source), time=None)
            or lowered.get(pin.identity)
        )
        yield found_out if found_out is not None and found_out.code.info.exit else taken_back or found_out


def _lowered(
    pin: PinRecord, higher: PinRecord, pins: Iterable[PinRecord], as_sealed: Callable[[], Reach] | None
) -> Finding:
    """What is to be said of a pin that is lower than one in front of it: the highest that stood where it was sealed."""
    if as_sealed is None:
        return lowered_finding(pin, higher)
    reach, index = as_sealed(), pin.position.index or 0
    above = (one for one in pins if one.slot == pin.slot and one.value > pin.value)
    there = [one for one in above if (one.position.index or 0) < index and reach.stood(one.identity or "", index)]
    if there:
        return lowered_finding(pin, max(there, key=lambda one: one.value))
    message = "the pin is lower than one that did not stand by then: what superseded that was taken back later"
    return Finding(Code.JUDGEMENT_DISOWNED, message, pin.position)


def _ceased(pin: PinRecord, source: str, standing: Standing, refuted: Collection[tuple[str, Track]]) -> Finding | None:
    """What is to be said of a pin whose source did not stand where it was sealed, or refutes itself."""
    if not standing.stands(source, at=pin.position.index):
        message = f"{pin.slot}: the entry it names was superseded before"
    elif (source, pin.track) in refuted:
        message = f"{pin.slot}: the clock of its source contradicts what that says of itself"
    else:
        return None
    return Finding(Code.PIN_UNSOURCED, message, pin.position, found=source)


def _traced(pin: PinRecord, measured: list[tuple[bool, Track, Fraction]]) -> Finding | None:
    if not measured:
        message = f"{pin.slot}: the entry it names measured nothing"
        return Finding(Code.PIN_UNSOURCED, message, pin.position, found=pin.source)
    reference = pin.role == "reference"
    values = [value for other, track, value in measured if track == pin.track and other == reference]
    if pin.value in values:
        return None
    expected = format_exact(values[0]) if values else "nothing on this slot"
    message = f"{pin.slot}: pinned {format_exact(pin.value)}, its source measured {expected}"
    return Finding(Code.PIN_HAND_EDITED, message, pin.position, expected, format_exact(pin.value))
