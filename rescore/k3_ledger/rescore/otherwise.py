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
        as_sealed: reads where entries counted that were taken back later; None where none were.
        older: whether verdicts by the older reading of runs are left open.
    """

    log: VerifiedLog
    survey: Survey
    verdicts: Callable[[], Iterable[Verdict]]
    compare: Callable[[Iterable[Rule]], Compare]
    missing: Callable[[int, Any], Finding]
    as_sealed: Callable[[], Reach] | None
    older: bool

    def derive(self, wrong: dict[int, Finding]) -> Iterator[Finding]:
        """What is to be said of each verdict that does not follow, by position: at most three times the log is read."""
        reach = self.as_sealed() if wrong and self.as_sealed is not None else None
        readings: list[tuple[Reach | None, bool]] = [(None, True)] if self.older else []
        if reach is not None and reach.read:
            readings = [(reach, False), *readings, *((reach, older) for _, older in readings)]
        for stood, older in readings:  # what has to be supposed of least is what is said of it
            if wrong:
                for index in self._following(frozenset(wrong), stood, older=older):
                    del wrong[index]
                    yield _from_what_stood(index, stood) if stood is not None else _from_older(index)
        yield from wrong.values()

    def _following(self, left: frozenset[int], reach: Reach | None, *, older: bool) -> list[int]:
        """Which of some verdicts follow, read like this."""

        def asked() -> Iterator[Verdict]:
            return ((index, body) for index, body in self.verdicts() if index in left)

        follows = []
        compare = self.compare(() if reach is None else reach.rules)

        def note(*compared: Any) -> Finding | None:
            found = compare(*compared)
            younger = older and compared[0].repeats  # nobody ever sealed by that rule and the older reading
            if not younger and (found is None or not found.code.info.exit):
                follows.append(compared[3])
            return found

        survey = self.survey.again(asked(), reach, older=older)
        for _ in derive(self.log, survey, asked, note, self.missing, material=Material("what stood then")):
            pass
        return sorted(follows)


def _from_what_stood(index: int, reach: Reach) -> Finding:
    first = min(reach.read)
    message = f"the verdict follows from what stood there: entry {first}, or others behind it, was taken back later"
    return Finding(Code.JUDGEMENT_DISOWNED, message, place_in(index, "target"))


def _from_older(index: int) -> Finding:
    message = "the verdict follows from how runs were read when it was sealed, not from what is read of them today"
    return Finding(Code.VERDICT_OLDER_READING, message, place_in(index, "target"))
