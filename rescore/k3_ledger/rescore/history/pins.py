"""Every value that was pinned in sparkinfer-k3, by the moment it came into force, with its commit.

Moments are UTC; a moment that the history gives to the minute stands at the start of that minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from k3_ledger.rescore.slots import Role, Track

MODEL: Final = "Kimi-K3"
QUANT: Final = "UD-IQ1_S"
NODE: Final = "h200x8"

DECODE_64: Final = Track("decode", 64, MODEL, QUANT, NODE)
DECODE_128K: Final = Track("decode", 131_072, MODEL, QUANT, NODE)
PREFILL_32K: Final = Track("prefill", 32_768, MODEL, QUANT, NODE)


@dataclass(frozen=True, slots=True)
class DatedPin:
    """One value of one slot.

    Attributes:
        since: when it came into force.
        commit: first seven digits of the commit that wrote it.
        by_hand: True when a person wrote it rather than the round's measurement.
    """

    since: datetime
    commit: str
    role: Role
    track: Track
    value: Fraction
    by_hand: bool = False

    @property
    def slot(self) -> str:
        """Name of the slot."""
        return self.track.slot(self.role)


def moment(text: str) -> datetime:
    """A moment of 2026 as the tables below write it: ``08-05T04:22`` or ``08-05T04:22:20``, UTC."""
    return datetime.strptime(f"2026-{text}" if len(text) > len("08-05T04:22") else f"2026-{text}:00", _FORM).replace(
        tzinfo=UTC
    )


_FORM: Final = "%Y-%m-%dT%H:%M:%S"


def _rows(role: Role, track: Track, table: str) -> list[DatedPin]:
    """Rows of ``moment commit value [hand]``."""
    return [
        DatedPin(moment(since), commit, role, track, Fraction(value), bool(hand))
        for since, commit, value, *hand in (line.split() for line in table.strip().splitlines())
    ]


PINS: Final[tuple[DatedPin, ...]] = tuple(
    sorted(
        [
            *_rows("reference", DECODE_64, "07-31T02:28:06 fb8e012 18.3210"),
            *_rows(
                "reference",
                DECODE_128K,
                """
                08-01T11:30:02 e2125da 16.7026
                08-03T09:16:59 c4598c5 18.4435
                """,
            ),
            *_rows("reference", PREFILL_32K, "08-05T04:22:20 f561299 143.88"),
            *_rows(
                "frontier",
                DECODE_64,
                """
                07-31T02:28:06 fb8e012 3.55 hand
                08-01T06:10:02 25b7642 9.63
                08-01T11:30:02 e2125da 10.34 hand
                """,
            ),
            *_rows(
                "frontier",
                DECODE_128K,
                """
                08-01T11:30:02 e2125da 1.00 hand
                08-01T17:44:09 473d555 4.53
                08-01T23:44:29 2f9650f 9.04
                08-02T01:34:33 7ac3aeb 16.06
                08-02T03:25:32 ef59a73 17.46
                08-02T03:49:36 23e56f3 18.14
                08-02T17:18:07 11eb5e4 18.88
                08-02T19:09:46 19707c6 20.14
                08-02T19:37:35 5e9347b 21.24
                08-03T05:41:41 fd4dfa7 22.12
                08-03T07:51:13 f76ced5 26.09
                08-03T09:22:24 9f4e43e 29.93
                08-03T12:18:27 7fd9aa6 33.58
                08-03T17:53:31 cc9b0ba 35.63
                08-04T08:00:59 e6a3afb 40.02
                08-04T18:24:28 aa1f61d 44.85
                08-05T01:37:42 cac4595 46.48
                08-05T05:32:32 b615cd9 56.8 hand
                """,
            ),
            *_rows(
                "frontier",
                PREFILL_32K,
                """
                08-05T04:22:20 f561299 40.35 hand
                08-05T07:04:44 64b034f 53.02
                08-06T05:49:00 dd6bcd2 59.59
                08-06T09:57:56 8fe6e33 66.62
                08-06T11:18:17 322b620 69.02
                08-06T19:51:58 5315443 98.80 hand
                """,
            ),
            # The guard reads the decode frontier's slot, which nothing reconciles once prefill is scored.
            *_rows(
                "guard",
                DECODE_128K,
                """
                08-05T04:22:20 f561299 46.48
                08-05T05:32:32 b615cd9 56.8 hand
                """,
            ),
        ],
        key=lambda pin: (pin.since, pin.slot),
    )
)


def pin_at(slot: str, at: datetime) -> DatedPin | None:
    """The pin of ``slot`` that was in force at a moment; None when none was yet."""
    return next((pin for pin in reversed(PINS) if pin.slot == slot and pin.since <= at), None)


def pins_at(at: datetime) -> tuple[tuple[str, Fraction], ...]:
    """Every slot with the value in force at a moment, sorted by slot."""
    return tuple(sorted({pin.slot: pin.value for pin in PINS if pin.since <= at}.items()))
