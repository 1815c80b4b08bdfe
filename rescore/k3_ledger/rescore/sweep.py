"""Tiers of every native receipt of a long ledger under one rule, in integers.

:func:`sweep` gives the same tiers as :func:`~k3_ledger.rescore.rescore.rescore` and no more than tiers: no steps, no
reasons. It decodes the few fields a rule reads and compares scaled integers; whatever is out of the ordinary goes to
the explaining path, which is the only one that writes verdicts. Tests hold the two equal. Memory does not grow with
the log, except by the superseded runs and the verdicts that it is asked to compare with.

Each chunk is prepared by itself, in this process or in others; what depends on the ledger's order (pins, rounds, the
frontier as it climbs) is settled here, chunk by chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from k3_ledger.rescore.rule_entries import read_known
from k3_ledger.rescore.standing import read_standing
from k3_ledger.rescore.sweeping.grading import NOT_SCORABLE
from k3_ledger.rescore.sweeping.prepare import Preparer, prepare
from k3_ledger.rescore.sweeping.rounds import KEPT_ROUNDS, ForgottenError
from k3_ledger.rescore.sweeping.settle import Settling, Sweep
from k3_ledger.rescore.sweeping.sources import UnweighedError, weigh_sources
from k3_ledger.schemas.errors import LedgerError, RescoreError
from k3_ledger.verify.again import Lines
from k3_ledger.verify.log import VerifiedLog
from k3_ledger.verify.parallel import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.items import Prepared
    from k3_ledger.verify.again import Piece

_Work: TypeAlias = "Callable[[VerifiedLog, int, Settling], Sweep]"
PARALLEL_BYTES: Final = 256 << 20
"""Logs smaller than this are swept in one process: that takes about a second, and starting others half of one."""

AHEAD: Final = 4
"""Pieces that each process has: of a few milliseconds each, two would be done before this one looks again."""

__all__ = ["NOT_SCORABLE", "Along", "Sweep", "sweep"]


def sweep(log: VerifiedLog, rule: Rule, *, processes: int = 1) -> Sweep:
    """Judge every native receipt of a verified log under a rule, against what was judged of it before.

    Args:
        log: the log.
        rule: the rule.
        processes: how many work on it, this one among them.

    Raises:
        TypeError: ``log`` is not a verified log.
        LedgerError: a pin or a rule entry is none.
        VerificationError: the bytes changed since they were verified.
    """
    if not isinstance(log, VerifiedLog):
        raise TypeError("only a verified log can be judged: pass what verify_log() returns")
    return _insisting(_sweep, rule, log, processes)


def _insisting(work: _Work, rule: Rule, log: VerifiedLog, processes: int) -> Sweep:
    """Do what keeps little of what lies behind; where that is too little, once more with what it was about."""
    kept: int | None = KEPT_ROUNDS
    weights: Mapping[str, str | None] | None = None
    while True:
        try:
            return work(log, processes, Settling(rule, log.disowned, kept=kept, weights=weights))
        except ForgottenError:
            kept = None
        except UnweighedError:
            weights = weigh_sources(log)


def _sweep(log: VerifiedLog, processes: int, settling: Settling) -> Sweep:
    again = settling.anew()
    try:
        _run(settling, log, processes)
    except RescoreError:
        if not read_standing(log).since:
            raise
        return _knowing(log, processes, again)  # what cannot be read may be superseded by now
    return _knowing(log, processes, again) if settling.judged_before else settling.result


class Along:
    """A sweep in the pass that verifies a log: ``verify_log(source, policy, Options(companion=Along(rule)))``.

    It costs what the arithmetic costs, for the entries are decoded and compared with their digest already. What it
    comes to is had when the log has verified, and not before: until then nobody knows whose receipts they were.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.start = Preparer(rule).start
        self._settling = Settling(rule, kept=KEPT_ROUNDS)
        self._log: VerifiedLog | None = None
        self._error: LedgerError | ForgottenError | UnweighedError | None = None

    def take(self, first_line: int, chunk: bytes, read: Prepared) -> None:
        """Settle the next chunk; see :class:`k3_ledger.verify.along.Companion`."""
        if self._error is None:
            try:
                self._settling.settle(first_line, Lines(chunk), read)
            except (LedgerError, ForgottenError, UnweighedError) as error:
                self._error = error  # the verification says first what it has to say

    def verified(self, log: VerifiedLog) -> None:
        """The log holds."""
        self._log = log

    def result(self, *, processes: int = 1) -> Sweep:
        """The same as :func:`sweep` of the log that was verified.

        Where entries were taken back, or say something of runs in front of them, that was known too late, and where
        something is said of a round that ended long ago, or a pin is of what was measured long before it, that was kept
        no longer: the log is swept once more.

        Args:
            processes: how many work on it then.

        Raises:
            ValueError: no log has verified with it.
            LedgerError: as :func:`sweep`.
        """
        if self._log is None:
            raise ValueError("no log has verified with this sweep along")
        if self._log.disowned or isinstance(self._error, RescoreError | ForgottenError | UnweighedError):
            return sweep(self._log, self.rule, processes=processes)
        if self._error is not None:
            raise self._error
        if not self._settling.judged_before:
            return self._settling.result
        return _insisting(_knowing, self.rule, self._log, processes)


def _knowing(log: VerifiedLog, processes: int, settling: Settling) -> Sweep:
    """Once more, knowing from the start what is said of a run behind it."""
    standing, known = read_standing(log), read_known(log)
    for entry in log.select(b'"kind":"verdict"', b'"kind":"supersede"'):
        noted = entry.entry
        if noted.kind != "verdict" or standing.stands(entry.identity):
            settling.note(entry, known)
    return _run(settling, log, processes).result


def _run(settling: Settling, log: VerifiedLog, processes: int) -> Settling:
    with log.rereading():
        for (first, piece), prepared in _prepared(Preparer(settling.rule, by_round=settling.all_stand), log, processes):
            settling.settle(first, piece, prepared)
    return settling


def _prepared(preparer: Preparer, log: VerifiedLog, processes: int) -> Iterator[tuple[tuple[int, Piece], Prepared]]:
    if processes > 1 and log.size >= PARALLEL_BYTES:
        return in_order(((place, (preparer, place[1])) for place in log.pieces()), prepare, processes, ahead=AHEAD)
    return (((first, Lines(chunk)), preparer.prepare(chunk)) for first, chunk in log.chunks())
