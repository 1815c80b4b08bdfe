"""The end of step 6: whether the log's newest head is younger than the reader's policy asks for.

A mirror that always shows the same old head rolls nothing back and forks nothing: it freezes its readers in the past.
Only a time can tell, and only a time that is not the log's own word: ``time`` in an entry is never looked at. In this
order:

1. the cosignatures on the newest head, where the policy names witnesses and a quorum of operators gave theirs: the head
   is as old as the quorum's newest word for it. Witnesses cosign a head again that has not moved, so a quiet log stays
   fresh. A word from the future is none: it neither counts nor hides those of others. Where the head is fresh without
   it, it is fresh; where it might be with it, that could not be told;
2. else the reader's own clock: since when he has been shown no larger head than the one that he remembers. A quiet log
   then has to move now and then.

The present is the reader's clock too, handed in: nothing here reads one.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.cosignature import MAX_AHEAD_S
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.ledger.core.cosignature import Cosigned
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.scan import Scan


_OWN: Final = "the reader's own clock"


@dataclass(frozen=True, slots=True)
class Clock:
    """What the reader's own clock says.

    Attributes:
        now: the present, in seconds since the Epoch.
        unmoved_size: the largest head that the reader remembers, in entries; None when he keeps no memory.
        unmoved_since: since when no larger one was shown to him, in seconds since the Epoch.
    """

    now: int
    unmoved_size: int | None = None
    unmoved_since: int = 0


def check_freshness(scan: Scan, policy: TrustPolicy | None, clock: Clock | None) -> None:
    """Hold the newest head's age against the policy's limit, where it has one."""
    limit = None if policy is None else policy.maximum_head_age_seconds
    if policy is None or limit is None:
        return
    tally = scan.tallies["checkpoint"]
    seen = None if clock is None or scan.newest_size is None else _last_sign_of_life(scan, policy, clock, limit)
    if clock is None or seen is None or seen[0] > clock.now:
        tally.not_checked += 1
        if scan.newest_size is None and (tally.failed or scan.genesis is None):
            return  # what is wrong with the head, or with the genesis entry, was said
        scan.findings.add(
            Finding(
                Code.REQUIRED_NOT_CHECKED,
                "the trust policy limits the age of the newest head, and that could not be told",
                Position(source="checkpoint"),
                "a quorum of cosignatures on the newest head, or a memory of when it last moved",
                "no good head" if scan.newest_size is None
                else "no clock" if clock is None
                else "neither" if seen is None
                else f"{format_time(seen[0])} according to {seen[1]}, "
                f"and {format_time(clock.now)} by the reader's clock",
                hint=_hint(seen),
            )
        )  # fmt: skip
        return
    time, source = seen
    age = clock.now - time
    tally.checked += 1
    said = f"newest head of {format_time(time)} according to {source}, now {format_time(clock.now)}"
    tally.detail = f"{tally.detail}; {said}" if tally.detail else said
    if age > limit:
        tally.failed += 1
        scan.findings.add(
            Finding(
                Code.HEAD_FROZEN,
                f"the newest head has not moved for {age} seconds, longer than the trust policy accepts",
                Position(source="checkpoint"),
                f"a sign of life within {limit} seconds of {format_time(clock.now)}",
                f"{format_time(time)} according to {source}",
            )
        )


def _hint(seen: tuple[int, str] | None) -> str:
    """What to do where the age cannot be told; of two clocks that disagree nobody can tell which one is wrong."""
    if seen is None:
        return "verify with --memory, or name witnesses"
    if seen[1] == _OWN:
        return "this machine's clock was set back since the memory was kept: set it right"
    return (
        "one of the clocks is wrong: hold this machine's against a third one; if it is right, a witness's runs ahead, "
        "and its operator has to hear of it"
    )


def _last_sign_of_life(scan: Scan, policy: TrustPolicy, clock: Clock, limit: int) -> tuple[int, str] | None:
    """(time, whose it is) of the newest trustworthy word for the newest head; None where there is none.

    A little ahead of the reader's clock is the present: no two clocks agree to the second.
    """
    given = [(time, one) for one in scan.newest_cosigned for time in {one.timestamp, one.latest}]
    past = [(min(time, clock.now), one) for time, one in given if time <= clock.now + MAX_AHEAD_S]
    seen, told = _newest_words(past, policy.quorum), _newest_words(given, policy.quorum)
    if told is not None:
        fresh = seen is not None and clock.now - seen[0] <= limit
        if fresh or clock.now - told[0] > limit:
            return seen
        return min((time, one.witness.name) for time, one in given if time > clock.now + MAX_AHEAD_S)
    if clock.unmoved_size is None:
        return None
    moved = scan.newest_size is not None and scan.newest_size > clock.unmoved_size
    return (clock.now if moved else clock.unmoved_since), _OWN


def _newest_words(given: Iterable[tuple[int, Cosigned]], quorum: int) -> tuple[int, str] | None:
    """(time, names) of the newest words of a quorum of operators, of which the oldest counts; None without one."""
    latest: dict[str, tuple[int, Cosigned]] = {}
    for time, one in sorted(given, key=itemgetter(0)):
        latest[one.witness.operator] = time, one
    newest = sorted(latest.values(), key=itemgetter(0), reverse=True)[:quorum]
    if not quorum or len(newest) < quorum:
        return None
    return newest[-1][0], ", ".join(one.witness.name for _, one in newest)
