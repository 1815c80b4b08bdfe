"""Every change of the scoring policy of sparkinfer-k3, dated, and the rule each change of arithmetic made.

A change is one of three things. ``arithmetic`` changes what is scored or how and makes a rule; ``pins`` changes a
number that runs are held against; ``process`` changes who does what and when. Only the first makes a rule, because
only it can change a verdict on the same run held against the same numbers.

Rules are named by the release they led to and the commit that made them (``v0.2.1@2fc6cb9``); a release tag
(``v0.2.1``) is the rule that was current when it was tagged, held against the pins of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from k3_ledger.rescore.history.pins import DECODE_64, DECODE_128K, PREFILL_32K, moment, pins_at
from k3_ledger.rescore.rules.parameters import (
    Ceiling,
    Clock,
    Correctness,
    Credit,
    Guard,
    Precision,
    Ratchet,
    Rule,
    Scope,
    Tiers,
)

if TYPE_CHECKING:
    from datetime import datetime

Kind: TypeAlias = Literal["arithmetic", "pins", "process"]


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the dated table.

    Attributes:
        since: when it was merged, UTC; rows given to the minute stand at its start.
        commit: first seven digits.
        pull_request: its number, when the history names one.
        series: release that the change led to; part of an interim rule's name.
        summary: what changed, in a few words.
        rule: the rule it made; None unless ``kind`` is ``arithmetic``.
    """

    since: datetime
    commit: str
    pull_request: int | None
    kind: Kind
    series: str
    summary: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """A release tag: which commit it names and when it was made."""

    tag: str
    commit: str
    since: datetime


RELEASES: Final = (
    Release("v0.1.0", "2916e54", moment("08-02T03:58:49")),
    Release("v0.2.0", "be3c818", moment("08-03T18:15:41")),
    Release("v0.2.1", "c8d8866", moment("08-05T03:14:51")),
    Release("v0.2.2", "7a9b77a", moment("08-06T20:04:19")),
)

_F = Fraction
_SHORT_SUITE: Final = (4, 128, 256, 512, 1024, 2048, 4096)

_TIERS: Final = Tiers(
    significance=_F("0.02"),
    steps=(("XL", _F("0.18")), ("L", _F("0.10")), ("M", _F("0.06")), ("S", _F("0.035"))),
    floor="XS",
)
_FIRST: Final = Rule(
    name="v0.1.0@fb8e012",
    arithmetic="anchored-gain/1",
    scope=Scope("decode", DECODE_64.context),
    tiers=_TIERS,
    credit=Credit(cap=_F(2)),
    correctness=Correctness(top1=_F("0.90"), kl=_F("0.20"), kl_soft=_F("0.15"), depths=(4,), rows=1),
    ratchet=None,
    clock=None,
    ceiling=None,
    guard=None,
    precision=Precision(speed=2, percent=1, kl=4),
    sampling=None,
    pins=(),
)
_CLOCK_READ: Final = Clock(
    metrics=("decode",),
    reading="clock",
    margin=16,
    claim_over_clock=_F("1.25"),
    clock_over_claim=None,
    jitter=None,
)
_CLOCK_BOUND: Final = replace(_CLOCK_READ, reading="claim", margin=128, claim_over_clock=_F("1.5"))
_CLOCK_BOTH: Final = replace(_CLOCK_BOUND, clock_over_claim=_F(2), jitter=_F(2))
_CEILING: Final = Ceiling(multiple=_F(3), metrics=("decode",), basis="scored-reference")
_RATCHET: Final = Ratchet(warn=_F("1.25"), block=_F(2), floor=_F(0), block_from=_F(0))


class _Chain:
    """Builds the table in order, each rule from the one before it."""

    def __init__(self) -> None:
        self.rule = _FIRST
        self.changes: list[Change] = []

    def arithmetic(self, since: str, commit: str, pull_request: int | None, summary: str, **parts: object) -> None:
        """A change that makes a rule: ``parts`` replace those of the rule before."""
        at = moment(since)
        series = _series(at)
        pins = pins_at(at)
        self.rule = replace(self.rule, name=f"{series}@{commit}", pins=pins, **parts)  # type: ignore[arg-type]
        self.changes.append(Change(at, commit, pull_request, "arithmetic", series, summary, self.rule))

    def other(self, since: str, commit: str, pull_request: int | None, kind: Kind, summary: str) -> None:
        """A change that makes no rule."""
        at = moment(since)
        self.changes.append(Change(at, commit, pull_request, kind, _series(at), summary))


def _series(at: datetime) -> str:
    return next((release.tag for release in RELEASES if at <= release.since), "unreleased")


def _build() -> tuple[Change, ...]:
    chain = _Chain()
    suite = _FIRST.correctness
    chain.arithmetic(
        "07-31T02:28:06", "fb8e012", None, "first loop: decode at 64 tokens, credit min(d/L, 2g), KL 0.20, soft 0.15"
    )
    chain.other("08-01T00:58", "58ed4ba", 35, "process", "frontier and reference come from a protected file")
    chain.other("08-01T01:36", "75008f5", 37, "pins", "no default reference (it was 365.85, another model's)")
    chain.other(
        "08-01T08:01", "4a8c2f4", 50, "process", "frontier measured each round: 2 % agree, 0.90 alarm, raise only"
    )
    chain.arithmetic(
        "08-01T11:30:02", "e2125da", 51, "scored at 131,072 tokens", scope=Scope("decode", DECODE_128K.context)
    )
    chain.arithmetic(
        "08-01T13:20",
        "4e11d5f",
        56,
        "the clock's difference is the reading: 8 against 24 tokens, 1.25",
        clock=_CLOCK_READ,
    )
    chain.arithmetic(
        "08-01T17:41",
        "9996452",
        61,
        "self-report is the reading, the clock its bound: 128 tokens, 1.5",
        clock=_CLOCK_BOUND,
    )
    suite = replace(suite, kl=_F("0.05"), kl_soft=_F("0.02"))
    chain.arithmetic("08-02T00:15", "f777564", 66, "KL 0.05, soft 0.02", correctness=suite)
    chain.arithmetic(
        "08-02T01:16",
        "3bc3211",
        68,
        "clock two-sided (2.0, jitter 2 s), ceiling 3.0",
        clock=_CLOCK_BOTH,
        ceiling=_CEILING,
    )
    chain.arithmetic("08-02T18:38", "58f6ec7", 79, "clock margin 512", clock=replace(_CLOCK_BOTH, margin=512))
    chain.arithmetic(
        "08-02T19:34", "0563a6c", 83, "KL ratchet against the round's frontier: warn 1.25, block 2", ratchet=_RATCHET
    )
    chain.other("08-02T19:55", "6b4e0bb", 85, "process", "`none` never merges; a winner must beat the frontier")
    chain.other("08-03T09:16:59", "c4598c5", 101, "pins", "decode reference 16.7026 to 18.4435")
    suite = replace(suite, depths=(*_SHORT_SUITE, 8192))
    chain.arithmetic(
        "08-04T04:04", "d28b5df", 116, "nested depths 4 to 8,192, worst decides; KL to 9 decimals",
        correctness=suite, precision=replace(_FIRST.precision, kl=9),
    )  # fmt: skip
    suite = replace(suite, depths=_SHORT_SUITE)
    chain.arithmetic("08-04T07:49", "cee15a2", 120, "depths capped at 4,096", correctness=suite)
    chain.arithmetic("08-04T14:51:24", "2fc6cb9", 122, "credit capped at the gain", credit=Credit(cap=_F(1)))
    chain.arithmetic("08-04T14:51:45", "0bedd6f", 121, "clock margin 2048", clock=replace(_CLOCK_BOTH, margin=2048))
    ratchet = replace(_RATCHET, floor=_F("0.0005"))
    chain.arithmetic("08-04T14:52", "def43b4", 124, "ratchet ignores depths under 5e-4", ratchet=ratchet)
    ratchet = replace(ratchet, block_from=_F("0.05"))
    chain.arithmetic("08-04T15:08", "e6a1043", 126, "ratchet blocks only from KL 0.05", ratchet=ratchet)
    ceiling = replace(_CEILING, multiple=_F(5))
    chain.arithmetic("08-05T03:14", "c8d8866", 130, "ceiling 5.0", ceiling=ceiling)
    chain.arithmetic(
        "08-05T04:22:20", "f561299", 131, "prefill at 32,768 is scored, anchored; decode guarded at 1 %",
        scope=Scope("prefill", PREFILL_32K.context),
        guard=Guard("decode", DECODE_128K.context, least=_F("0.99"), pin="fixed"),
    )  # fmt: skip
    chain.other("08-05T05:32:32", "b615cd9", 134, "pins", "decode guard's pin 46.48 to 56.8")
    chain.other("08-05T07:22:18", "486c425", 140, "process", "notice when a pin is more than 10 % off")
    chain.other("08-05T07:27", "d1285f8", None, "process", "claims within 2 % of the pin are not run")
    chain.arithmetic(
        "08-05T09:38", "5adb692", 142, "no anchor for prefill", credit=Credit(cap=_F(1), anchor_off=("prefill",))
    )
    chain.other("08-05T23:32", "2ca2211", 146, "process", "a winner's own number advances the pin at merge")
    suite = replace(suite, top1=_F("0.95"))
    chain.arithmetic("08-06T02:46", "e199927", 147, "top1 0.95", correctness=suite)
    return tuple(chain.changes)


CHANGES: Final[tuple[Change, ...]] = _build()
"""The dated table, oldest first."""


def released(release: Release) -> Rule:
    """The rule that a tag names: the arithmetic then current, held against the pins of that moment."""
    current = [change.rule for change in CHANGES if change.rule and change.since <= release.since]
    return replace(current[-1], name=release.tag, pins=pins_at(release.since))
