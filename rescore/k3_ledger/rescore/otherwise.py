"""Verdicts that do not follow from what counts today, as they followed where, or when, they were sealed.

1. *From what stood there.* A revocation takes back what a key had signed: runs that a judge held others against are
   gone since, and what a thief had superseded stands again. He judged by what stood where he sealed.
2. *From how runs were read.* What is read of a run was made stricter once for rules that had been released
   (:mod:`k3_ledger.rescore.older`). Who sealed before did what everybody did.

Neither is a lie, and neither is what counts today: such a verdict is not checked. What follows from nothing is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.comparing import place_in
from k3_ledger.rescore.deriving import derive
from k3_ledger.rescore.material import Material
from k3_ledger.schemas.findings import Code, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from k3_ledger.rescore.deriving import Compare, Survey, Verdict
    from k3_ledger.rescore.reach import Reach
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.verify.log import VerifiedLog


@dataclass(frozen=True, slots=True)
class Otherwise:
    """How the verdicts of a log are derived.

    Attributes:
        log: the log.
        survey: what is known of it.
        verdicts: reads the verdicts by rules that are known, in the log's order.
        compare: what holds a verdict against the run it is about, where further rules are known by name.
        missing: what to say of a verdict about a run that is not there.
        rests: what to say of one that names what was taken back; None of one that does not.
        as_sealed: reads where entries counted that were taken back later; None where none were.
        older: whether verdicts by the older reading of runs are left open.
    """

    log: VerifiedLog
    survey: Survey
    verdicts: Callable[[], Iterable[Verdict]]
    compare: Callable[[Iterable[Rule]], Compare]
    missing: Callable[[int, Any], Finding]
    rests: Callable[[Any, int], Finding | None]
    as_sealed: Callable[[], Reach] | None
    older: bool

    def derive(self, wrong: dict[int, Finding], resting: set[int]) -> Iterator[Finding]:
        """What is to be said of each verdict that does not follow: the log is read at most three times.

        Args:
            wrong: those that were derived from what counts today, by position, with what is wrong with them.
            resting: positions of those that were not, for they name what was taken back.
        """
        reach = self.as_sealed() if (wrong or resting) and self.as_sealed is not None else None
        readings: list[tuple[Reach | None, bool]] = [(None, True)] if self.older else []
        if reach is not None and reach.read:
            readings = [(reach, False), *readings, *((reach, older) for _, older in readings)]
        for stood, older in readings:  # what has to be supposed of least is what is said of it
            left = frozenset(wrong) if stood is None else frozenset((*wrong, *resting))
            if left:
                follow, false = self._read(left, stood, older=older)
                wrong |= {index: false[index] for index in resting & false.keys()}
                resting -= left
                for index, found in sorted(follow.items()):
                    wrong.pop(index, None)
                    yield found
        yield from wrong.values()

    def _read(
        self, left: frozenset[int], reach: Reach | None, *, older: bool
    ) -> tuple[dict[int, Finding], dict[int, Finding]]:
        """What is to be said of those verdicts that follow, read like this, and of those that do not."""

        def asked() -> Iterator[Verdict]:
            return ((index, body) for index, body in self.verdicts() if index in left)

        follow: dict[int, Finding] = {}
        compare = self.compare(() if reach is None else reach.rules)

        def note(*compared: Any) -> Finding | None:
            found, (rule, *_, index, body) = compare(*compared), compared
            younger = older and rule.repeats  # nobody ever sealed by that rule and the older reading
            if not younger and (found is None or not found.code.info.exit):
                rests = self.rests(body, index)
                follow[index] = rests or (_from_older(index) if reach is None else _from_what_stood(index, reach))
            return found

        survey = self.survey.again(asked(), reach, older=older)
        read = derive(self.log, survey, asked, note, self.missing, material=Material("what stood then"))
        false = {one.position.index: one for one in read if one is not None and one.position.index is not None}
        return follow, false


def _from_what_stood(index: int, reach: Reach) -> Finding:
    first = min(reach.read)
    message = f"the verdict follows from what stood there: entry {first}, or others behind it, was taken back later"
    return Finding(Code.JUDGEMENT_DISOWNED, message, place_in(index, "target"))


def _from_older(index: int) -> Finding:
    message = "the verdict follows from how runs were read when it was sealed, not from what is read of them today"
    return Finding(Code.VERDICT_OLDER_READING, message, place_in(index, "target"))
