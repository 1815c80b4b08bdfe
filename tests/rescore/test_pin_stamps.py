"""What a pin says of the receipt it names, commit and time, is what that receipt says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.admission import admit
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, pin_body, receipt, verified

if TYPE_CHECKING:
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.schemas.findings import Finding

MINE, OTHER = "a" * 40, "b" * 40


def built(commit: str | None, *, source: bool = True) -> dict[str, Any]:
    """The frontier run of a build of one commit; without ``source`` nobody says what it was built from."""
    body = receipt(50.0, 450.0, role="frontier")
    tree = {"commit": commit, "dirty": False, "patch_sha256": None, "clean_builds": 1}
    return {**body, "subject": {**body["subject"], "source": tree if source else None}}


def pinned(body: dict[str, Any], commit: str | None) -> tuple[Builder, str]:
    builder = Builder().open()
    source = builder.add("run", body, RUNNER)
    builder.add("pin", {**pin_body(f"frontier:{DECODE}", "50", source), "commit": commit}, JUDGE)
    return builder, source


def errors(builder: Builder, *pins: PinRecord) -> list[Finding]:
    material = gather(verified(builder))
    return list(reconcile_lock(pins or list(material.pin_entries), material.measurements).errors)


@pytest.mark.parametrize("commit", [OTHER, MINE[:39] + "b", "a" * 64])
def test_a_pin_under_another_commit_than_its_receipts_is_refused_found_and_an_error(commit: str) -> None:
    """A value under a stamp that says it was measured on a build which nobody measured."""
    builder, _ = pinned(built(MINE), commit)
    (found,) = settle_judgements(verified(builder)).findings
    assert (found.code, found.expected, found.found) == (Code.PIN_STAMP, MINE, commit)
    assert found.code.info.exit is ExitCode.FALSE
    assert found.message == f"frontier:{DECODE}: pinned as commit {commit[:12]}, its receipt measured aaaaaaaaaaaa"
    assert [one.code for one in errors(builder)] == [Code.PIN_STAMP]
    entries = list(verified(builder))
    entry = entries[-1].entry
    assert [one.code for one in admit(entry, entries[:-1])] == [Code.PIN_STAMP]


@pytest.mark.parametrize(
    ("commit", "body"),
    [
        (MINE, built(MINE)), (None, built(MINE)), (OTHER, built(None)),
        (OTHER, built(None, source=False)),
    ],
)  # fmt: skip
def test_a_pin_that_says_what_its_receipt_says_or_nothing_against_it_passes(
    commit: str | None, body: dict[str, Any]
) -> None:
    builder, _ = pinned(body, commit)
    assert settle_judgements(verified(builder)).findings == ()
    assert errors(builder) == []


def test_a_file_that_states_another_time_than_its_receipt_is_an_error() -> None:
    builder, source = pinned(built(MINE), None)
    material = gather(verified(builder))
    (entry,) = material.pin_entries
    at = next(item.time for item in material.measurements if item.receipt == source)
    file = replace(entry, entry=False, identity=None, time=at, commit=MINE)
    for other in (at - timedelta(seconds=1), datetime(2030, 1, 1, tzinfo=UTC)):
        (found,) = errors(builder, replace(file, time=other))
        assert found.code is Code.PIN_STAMP
        assert found.message.startswith(
            f"frontier:{DECODE}: pinned as of {other:%Y-%m-%dT%H:%M:%SZ}, its receipt is of"
        )
    for agrees in (file, replace(file, time=None), replace(file, commit=None), replace(file, commit=MINE[:7])):
        assert errors(builder, agrees) == []
    assert [one.code for one in errors(builder, replace(file, commit=OTHER))] == [Code.PIN_STAMP]


def test_a_time_is_that_of_its_receipt_to_the_second() -> None:
    """Imported runs state fractions of a second, and a raised pin is written in whole ones."""
    builder, _ = pinned(built(MINE), None)
    material = gather(verified(builder))
    (entry,) = material.pin_entries
    (at,) = {item.time for item in material.measurements}
    measured = [replace(item, time=at.replace(microsecond=250_000)) for item in material.measurements]
    file = replace(entry, entry=False, identity=None, time=at)
    assert reconcile_lock([file], measured).errors == ()
    (found,) = reconcile_lock([replace(file, time=at - timedelta(seconds=1))], measured).errors
    assert found.code is Code.PIN_STAMP


def test_what_is_raised_carries_the_stamp_of_what_it_is_raised_to() -> None:
    builder, _ = pinned(built(MINE), MINE)
    newer = built(OTHER)
    newer["timing"] = receipt(60.0, 450.0)["timing"]
    builder.add("run", newer, RUNNER)
    material = gather(verified(builder))
    (row,) = reconcile_lock(list(material.pin_entries), material.measurements).rows
    assert row.proposal is not None
    assert row.proposal.commit == OTHER
    assert errors(builder, replace(row.proposal)) == []
