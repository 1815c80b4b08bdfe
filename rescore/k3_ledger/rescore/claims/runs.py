"""Claims about runs: what one gained or was credited, whether it was accepted, what holds for every one of them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from k3_ledger.rescore.claims.changes import decide_change
from k3_ledger.rescore.claims.evidence import of_run
from k3_ledger.rescore.claims.status import Part, Status, near
from k3_ledger.rescore.doubt import UNGRADED, doubt_work
from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.inputs import short_weights
from k3_ledger.rescore.material import CONTESTED, DIFFERING
from k3_ledger.rescore.rules.registry import in_force
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT
from k3_ledger.schemas.errors import RescoreError

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.evidence import Evidence
    from k3_ledger.rescore.claims.gains import Gain, Gains
    from k3_ledger.rescore.claims.reading import Amount, Claim
    from k3_ledger.rescore.material import Candidate, Material
    from k3_ledger.rescore.rules.parameters import Correctness


def decide_about_runs(claim: Claim, material: Material, gains: Gains) -> tuple[Part, ...]:
    """Decide a claim of one of the kinds of this module."""
    if claim.kind == "every":
        return (_every(claim, material),)
    if claim.kind == "rescored":
        return (decide_change(claim, material),)
    about = [candidate for candidate in material.candidates if _is_about(claim, candidate)]
    named = claim.receipt[:8] if claim.receipt else f"#{claim.pull_request}"
    about = [candidate for candidate in about if candidate.run.received]
    if not about:
        return (Part("run", Status.NO_RECEIPT, f"no receipt of {named}"),)
    if claim.kind == "accepted":
        return (_accepted(about),)
    if claim.metric is not None:
        about = [one for one in about if claim.metric in {one.run.track.metric, one.run.track.short}]
    if not about:
        return (Part("run", Status.NO_RECEIPT, f"no receipt of {named} measures {claim.metric}"),)
    read = gains.read(about)
    return (_gain(claim, read),) if claim.kind == "gain" else _credit(claim, read)


def _is_about(claim: Claim, candidate: Candidate) -> bool:
    if claim.receipt is not None:
        return claim.receipt in candidate.names
    return candidate.run.pull_request == claim.pull_request


def _name(candidate: Candidate) -> str:
    return f"receipt {candidate.label}{' (superseded)' if candidate.superseded else ''}"


def _evidence(*candidates: Candidate) -> tuple[Evidence, ...]:
    """The receipts that a decision rests on, so that they can be proved."""
    return tuple(of_run(candidate, candidate.run.speed or Fraction(0)) for candidate in candidates)


def _refused(candidate: Candidate) -> bool:
    return candidate.published == REJECT


def _counts(candidate: Candidate) -> bool:
    """Whether a run's figures count: it was neither refused, left unproved nor superseded."""
    return not candidate.voided


def _accepted(about: list[Candidate]) -> Part:
    """Whether what is meant was given a tier and still stands; a receipt refused on one metric is refused.

    ``none`` is no tier: what gained too little, or did not show that it gained, was not refused and not accepted.
    """
    standing = [candidate for candidate in about if not candidate.superseded]
    if contested := [candidate for candidate in standing if candidate.contested]:
        why = f"{_name(contested[0])} is {contested[0].contested}"
        return Part("run", Status.AMBIGUOUS, why, _evidence(contested[0]))
    if not standing:
        return Part("run", Status.CONTRADICTED, f"{_name(about[0])} no longer stands", _evidence(about[0]))
    rejected = {candidate.identity for candidate in standing if _refused(candidate)}
    refused = [candidate for candidate in standing if _refused(candidate)]
    judged = [one for one in standing if one.published is not None and one.identity not in rejected]
    if not refused and not judged:
        said = [verdict for one in standing for verdict in one.said]
        by = " by a rule that was published by then" if said else ""
        if any(verdict.supposed for verdict in said):
            by = " by pins that the ledger holds"
        return Part("run", Status.NO_RECEIPT, f"nobody judged {_name(standing[0])}{by}", _evidence(standing[0]))
    if not refused:
        return _given(judged)
    detail = _why_refused(refused[0])
    if judged:
        why = f"{_name(refused[0])} is REJECT{detail}, {_name(judged[0])} is not"
        return Part("run", Status.AMBIGUOUS, why, _evidence(refused[0], judged[0]))
    return Part("run", Status.CONTRADICTED, f"{_name(refused[0])} is REJECT{detail}", _evidence(refused[0]))


def _why_refused(candidate: Candidate) -> str:
    """What refused a run, as far as its published verdict says; else how far it diverged."""
    by = candidate.refused_by
    if by not in {None, "correctness"}:
        return f", by {by}"
    parity = candidate.run.parity
    kl = parity.worst_kl() if parity else None
    return "" if kl is None else f", kl {format_rounded(kl, 6)}"


def _given(judged: list[Candidate]) -> Part:
    """Whether what was judged and never refused was given a tier that counts, on a metric at least of each receipt."""
    accepted = [one for one in judged if one.accepted]
    identities = {one.identity for one in accepted}
    nothing = [one for one in judged if one.identity not in identities]
    accepted.sort(key=lambda one: one.published == BASELINE)
    if not nothing:
        alone = ", with nothing to compare it with" if accepted[0].published == BASELINE else ""
        why = f"{_name(accepted[0])} was accepted as {accepted[0].published}{alone}"
        return Part("run", Status.SUPPORTED, why, _evidence(accepted[0]))
    lenient = next((one for one in nothing if one.published != NONE), None)
    nothing = [lenient or nothing[0]]
    why = f"{_name(nothing[0])} was given no tier"
    if lenient is not None:
        why = f"{_state(lenient)} was given {lenient.published}, and counts for nothing"
    if not accepted:
        return Part("run", Status.CONTRADICTED, why, _evidence(nothing[0]))
    why = f"{why}, {_name(accepted[0])} was accepted as {accepted[0].published}"
    return Part("run", Status.AMBIGUOUS, why, _evidence(nothing[0], accepted[0]))


def _gain(claim: Claim, about: list[Gain]) -> Part:
    """What is meant gained this much; a run that does not count supports nothing, and can make a claim ambiguous."""
    assert claim.value is not None
    known = [one for one in about if one.gain is not None]
    gains = [(one.candidate, one.gain) for one in about if one.gain is not None]
    if not gains:
        silent = next((one for one in about if one.why), None)
        if silent is None:
            return Part("gain", Status.NO_RECEIPT, "no receipt holds both a speed and the frontier it beat")
        status = Status.AMBIGUOUS if silent.mixed else Status.NO_RECEIPT
        return Part("gain", status, f"{_state(silent.candidate)}: {silent.why}", _evidence(silent.candidate))
    several = _tell_apart([candidate for candidate, _ in gains])
    shown = ", ".join(
        f"{_state(one.candidate, one.refused)}{several[id(one.candidate)]} gained {_percent(gain)}"
        for one, (_, gain) in zip(known, gains, strict=True)
    )
    agree = [near(gain * 100, claim.value, claim.tolerance) for _, gain in gains]
    count = [_counts(one.candidate) and not one.refused for one in known]
    held = _evidence(*(candidate for candidate, _ in gains))
    mixed = next((one for one in about if one.over is not None), None)
    if mixed is not None and mixed.over is not None:
        theirs, mine = short_weights(mixed.over.weights), short_weights(mixed.candidate.run.weights)
        why = f"{shown}, but over a frontier of other weights: {theirs}, and the run of {mine}"
        return Part("gain", Status.AMBIGUOUS, why, held)
    if not any(counts and agrees for counts, agrees in zip(count, agree, strict=True)):
        contested = any(one.contested and agrees for (one, _), agrees in zip(gains, agree, strict=True))
        return Part("gain", Status.AMBIGUOUS if contested else Status.CONTRADICTED, shown, held)
    if all(agree):
        return Part("gain", Status.SUPPORTED, shown, held)
    return Part("gain", Status.AMBIGUOUS, f"{shown}{_which_metric([one for one, _ in gains])}", held)


def _tell_apart(candidates: list[Candidate]) -> dict[int, str]:
    """What to say behind the name of each of some runs, so that two of one receipt are told apart."""
    counts = Counter(candidate.identity for candidate in candidates)
    return {id(one): f" on {one.run.track.short}" if counts[one.identity] > 1 else "" for one in candidates}


def _which_metric(candidates: list[Candidate]) -> str:
    """How a claim says which of several metrics of one receipt it means; empty where it could not."""
    if len({candidate.identity for candidate in candidates}) > 1:
        return ""
    return "; say which with " + " or ".join(f'metric = "{one.run.track.short}"' for one in candidates)


def _state(candidate: Candidate, refused: str = "") -> str:
    """A run's name, and why it does not count."""
    voided = candidate.voided
    if not voided and refused:
        voided = f"unjudged, and refused by {refused}"
    return _name(candidate) if voided in {"", "superseded"} else f"{_name(candidate)} ({voided})"


def _credit(claim: Claim, about: list[Gain]) -> tuple[Part, ...]:
    """What a run gained, and what it was credited with."""
    runs = [one.candidate for one in about]
    if len({candidate.identity for candidate in runs}) > 1:
        said = ", ".join(_name(candidate) for candidate in runs)
        return (Part("run", Status.AMBIGUOUS, f"{len(runs)} receipts could be meant: {said}", _evidence(*runs)),)
    if not all(_counts(candidate) for candidate in runs):
        worst = next(candidate for candidate in runs if not _counts(candidate))
        status = Status.AMBIGUOUS if worst.voided in {CONTESTED, DIFFERING} else Status.CONTRADICTED
        return (Part("run", status, f"{_state(worst)} counts for nothing", _evidence(worst)),)
    if refused := next((one for one in about if one.refused), None):
        why = f"{_state(refused.candidate, refused.refused)} counts for nothing"
        return (Part("run", Status.CONTRADICTED, why, _evidence(refused.candidate)),)
    ruled = [one for one in about if one.ruled and not one.why]
    if not ruled:
        return (Part("run", Status.NO_RECEIPT, about[0].why or "no rule was in force that credits it"),)
    decided = [_credited(claim, one) for one in ruled]
    if len({max(list(Status).index(part.status) for part in parts) for parts in decided}) > 1:
        which = _which_metric([one.candidate for one in ruled])
        why = f"{_name(runs[0])} was credited on {len(ruled)} metrics{which}"
        return (Part("run", Status.AMBIGUOUS, why, _evidence(runs[0])),)
    return decided[0]


def _credited(claim: Claim, one: Gain) -> tuple[Part, ...]:
    assert claim.gain is not None
    assert claim.credited is not None
    if one.over is not None:
        mine, theirs = short_weights(one.candidate.run.weights), short_weights(one.over.weights)
        why = f"{_name(one.candidate)} of {mine} was held against {theirs}"
        return (Part("weights", Status.AMBIGUOUS, why, _evidence(one.candidate)),)
    return (
        _share_part(claim, "gained", claim.gain, one.gain, one.candidate),
        _share_part(claim, "credited", claim.credited, one.credit, one.candidate),
    )


def _share_part(claim: Claim, name: str, amount: Amount, found: Fraction | None, candidate: Candidate) -> Part:
    if found is None:
        return Part(name, Status.CONTRADICTED, f"{_name(candidate)} was {name} nothing", _evidence(candidate))
    agrees = near(found * 100, amount, claim.tolerance)
    why = f"{_name(candidate)} {'' if name == 'gained' else 'was '}{name} {_percent(found)}"
    return Part(name, Status.SUPPORTED if agrees else Status.CONTRADICTED, why, _evidence(candidate))


def _every(claim: Claim, material: Material) -> Part:
    """What is said of every run up to a moment."""
    runs = [
        candidate
        for candidate in material.candidates
        if claim.until is None or (candidate.run.at is not None and candidate.run.at <= claim.until)
    ]
    if not runs:
        return Part("every", Status.NO_RECEIPT, "there is no run to say it of")
    total = len({candidate.identity for candidate in runs})
    against, unknown = [], set()
    for candidate in runs:
        found = _property(claim, candidate)
        if found is None:
            unknown.add(candidate.identity)
        elif isinstance(found, str):
            against += [(candidate, found)] if found != claim.word else []
        elif (claim.least is not None and found < claim.least) or (claim.most is not None and found > claim.most):
            against.append((candidate, format_exact(found)))
    if against and all(candidate.differing for candidate, _ in against):  # whose figures count for nobody
        candidate, value = against[0]
        why = f"{_name(candidate)} has {value}, and is {candidate.differing}"
        return Part("every", Status.AMBIGUOUS, why, _evidence(candidate))
    against = [(candidate, value) for candidate, value in against if not candidate.differing]
    if against:
        candidate, value = against[0]
        named = len({one.identity for one, _ in against})
        why = f"not so for {named} of {total} runs: {_name(candidate)} has {value}"
        return Part("every", Status.CONTRADICTED, why, _evidence(candidate))
    if unknown:
        return Part("every", Status.NO_RECEIPT, f"{len(unknown)} of {total} runs do not record it")
    return Part("every", Status.SUPPORTED, f"so for all {total} runs", _evidence(*runs))


def _property(claim: Claim, candidate: Candidate) -> Fraction | str | None:
    run = candidate.run
    if claim.what == "attestation":
        return candidate.attestation
    if claim.what in {"top1", "kl"}:
        if run.parity is None or (candidate.native and doubt_work(run.track, run.parity, filled=None) == UNGRADED):
            return None
        return run.parity.worst_top1() if claim.what == "top1" else run.parity.worst_kl()
    bars = _bars(candidate)
    if bars is None:
        return None
    return bars.top1 if claim.what == "top1-bar" else bars.kl


def _bars(candidate: Candidate) -> Correctness | None:
    """The bars that a run was really held against: those of the rule of its published verdict, or of its moment.

    A receipt of this ledger that nobody judged was held against none; the shipped history is that of imported runs.
    """
    run = candidate.run
    if candidate.native:
        return None if candidate.ruled is None else candidate.ruled.correctness
    if run.at is None:
        return None
    try:
        return in_force(run.at, run.commit).correctness
    except RescoreError:
        return None


def _percent(value: Fraction) -> str:
    return f"{'+' if value >= 0 else ''}{format_percent(value, 2)} %"
