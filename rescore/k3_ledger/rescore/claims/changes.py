"""Claims about what a rule changes: how many runs of a history it leaves lower, higher or as they were published.

Only what was published with a tier can be left lower. A run that nobody judged is in no count, and a claim about runs
of which none was published is about nothing. A run of which a record cannot be read, whose digests do not hold or
whose records disagree about its tier may be one of those that are counted, or not: nobody knows. So a count is
supported where no such run could make it another, contradicted where none could make it so, and ambiguous between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.claims.status import Part, Status
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.reading import Claim
    from k3_ledger.rescore.material import Candidate, Material

_COMPARED: Final = frozenset({"unchanged", "lower", "higher", "other"})
"""Changes of a tier that was published."""
UNREAD: Final = "a record of it cannot be read"
BROKEN: Final = "a digest over its records does not hold"


def decide_change(claim: Claim, material: Material) -> Part:
    """Decide a claim of the kind ``rescored``."""
    assert claim.rule is not None
    assert claim.change is not None
    assert claim.count is not None
    report = rescore(material.candidates, find_rule(claim.rule), pins=claim.pins)
    shown = [row for row in report.rows if row.change == claim.change]
    said = f"{claim.rule} leaves {len(shown)} runs {claim.change}, with {claim.pins} pins"
    unscored = report.count("not-scorable")
    if unscored:
        said = f"{said}; {unscored} of {len(report.rows)} measurements are not scorable"
    if unscored == len(report.rows) and not material.unjudged:
        return Part("count", Status.NO_RECEIPT, f"{claim.rule} scores nothing here: {said}")
    unknown = {id(row.candidate): why for row in report.rows if (why := _unknown(row.candidate, material))}
    known = [row for row in report.rows if id(row.candidate) not in unknown]
    unpublished = sum(row.change in {"first", "not-comparable"} for row in known)
    if unpublished:
        said = f"{said}; {unpublished} had no tier to be compared with"
    if not unknown and not material.unjudged and not any(row.change in _COMPARED for row in known):
        return Part("count", Status.NO_RECEIPT, f"no run that {claim.rule} scores was published with a tier: {said}")
    least = sum(row.change == claim.change for row in known)
    if not least <= claim.count <= least + len(unknown) + len(material.unjudged):
        names = ", ".join(row.candidate.label for row in shown)
        return Part("count", Status.CONTRADICTED, f"{said}: {names}" if shown and len(shown) <= 20 else said)
    if unknown or material.unjudged:
        rows = [row.candidate for row in report.rows if id(row.candidate) in unknown]
        named = [f"{one.label}: {unknown[id(one)]}" for one in rows]
        named += [f"{name[:8]}: {UNREAD}" for name in material.unjudged]
        more = f", and {len(named) - 3} more" if len(named) > 3 else ""
        return Part("count", Status.AMBIGUOUS, f"{said}, but nobody knows of {'; '.join(named[:3])}{more}")
    return Part("count", Status.SUPPORTED, said)


def _unknown(candidate: Candidate, material: Material) -> str:
    """Why nobody knows what a rule makes of a run, or what it was published as; empty where it is known."""
    if candidate.native:
        return ""
    if candidate.contested:
        return candidate.contested
    if not candidate.run.received or candidate.run.run in material.partly_read:
        return UNREAD
    return BROKEN if candidate.broken else ""
