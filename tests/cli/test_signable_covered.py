"""What is false below an earlier head of one's own blocks no new head, and hides nothing that is false behind it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli import signable
from k3_ledger.cli.verify import check_ledger
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.report import FINDINGS_KEPT_PER_CODE, VerificationError
from k3_ledger.verify.source import MemorySource
from tests.cli.test_signable import FALSE, A, note, sign, supersede, two_roots
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_line
from tests.rescore.receipts import DECODE, house_ledger, pin_body
from tests.rescore.test_judgements import sealed
from tests.rescore.test_replay import HOUSE, rule_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY_FAULTS: dict[str, tuple[Code, Callable[[Builder], object]]] = {
    "by a key of another role": (
        Code.KEY_WRONG_ROLE,
        lambda ledger: ledger.add("run", run_body(len(ledger.lines)), JUDGE),
    ),
    "by a key that was retired": (Code.KEY_RETIRED, lambda ledger: ledger.runs(1)),
}
"""Faults of which one finding stands for all."""
REPEATABLE = {
    "a reference to nothing": Code.REFERENCE_UNKNOWN,
    "an entry in its own place": Code.SUPERSEDE_REPLACEMENT,
    "repetitions that overlap": Code.RECEIPT_CLOCK,
    "a revocation of nobody": Code.KEY_UNKNOWN_TARGET,
    "a cosignature that is none": Code.WITNESS_ENTRY_FALSE,
    "a winner that claims nothing": Code.JUDGEMENT_UNREADABLE,
}
MANY = FINDINGS_KEPT_PER_CODE + 2


def _spoil(ledger: Builder, old: bytes, new: bytes) -> None:
    """An entry of which nothing can be read, signed and linked all the same, and one behind it."""
    note(ledger)
    data = ledger.lines[-1][9:-99]
    assert old in data
    ledger.lines[-1] = sign_line(data.replace(old, new), JUDGE)
    note(ledger)


def _unframe(ledger: Builder) -> None:
    note(ledger)
    note(ledger)
    ledger.lines[-2] = ledger.lines[-2].replace(b'{"entry"', b'{"Entry"')


def _stretch(ledger: Builder) -> None:
    ledger.add("note", {"text": "x" * 70_000, "artifacts": []}, JUDGE)
    note(ledger)


UNREADABLE: dict[str, Callable[[Builder], object]] = {
    "an entry of no known kind": lambda ledger: _spoil(ledger, b'"kind":"note"', b'"kind":"none"'),
    "an entry that is not canonical": lambda ledger: _spoil(ledger, b'"body":{', b'"body": {'),
    "a judgement of which nothing can be read": lambda ledger: _spoil(ledger, b'"kind":"note"', b'"kind":"pin"'),
    "a line that frames no entry": _unframe,
    "a line that is too long": _stretch,
    "a pin on no slot": lambda ledger: ledger.add("pin", pin_body("frontier:nothing", "5", note(ledger)), JUDGE),
}


def house() -> Builder:
    """Runs to judge, and two root keys."""
    ledger, _ = house_ledger()
    ledger.act("key", key_body(A, "root"), ROOT)
    return ledger


def _run(ledger: Builder, role: str) -> str:
    """Identity of the first run of a role."""
    marks = (f'"role":"{role}"'.encode(), b'"kind":"run"')
    line = next(line for line in ledger.lines if all(mark in line for mark in marks))
    return sha256(line[9:-99]).hexdigest()


def _pin(ledger: Builder, value: str) -> None:
    ledger.add("pin", pin_body(f"frontier:{DECODE}", value, _run(ledger, "frontier")), JUDGE)


def _replace(ledger: Builder, *, itself: bool) -> None:
    target = note(ledger)
    supersede(ledger, target, target if itself else note(ledger))


def _publish(ledger: Builder, significance: str) -> None:
    rule = replace(HOUSE, name="ours", tiers=replace(HOUSE.tiers, significance=Fraction(significance)))
    ledger.add("rule", rule_body(rule), JUDGE)


def _merge(ledger: Builder, claimed: str) -> None:
    run, slot = _run(ledger, "candidate"), f"frontier:{DECODE}"
    body = {"pull_request": None, "commit": "c" * 40, "run": run, "claimed": claimed, "slot": slot}
    ledger.add("merge", body, JUDGE)


def _judge(ledger: Builder, **changes: str) -> None:
    ledger.add("verdict", {**_sealed(), **changes}, JUDGE)


@cache
def _sealed() -> dict[str, Any]:
    return sealed()[1]


JUDGED: dict[str, tuple[Callable[[Builder], None], Callable[[Builder], None], Code]] = {
    "a pin": (lambda on: _pin(on, "50"), lambda on: _pin(on, "60"), Code.PIN_HAND_EDITED),
    "a supersession": (
        lambda on: _replace(on, itself=False),
        lambda on: _replace(on, itself=True),
        Code.SUPERSEDE_REPLACEMENT,
    ),
    "a rule": (lambda on: _publish(on, "0.3"), lambda on: _publish(on, "0.4"), Code.RULE_NAME_TAKEN),
    "a winner": (lambda on: _merge(on, "60"), lambda on: _merge(on, "0"), Code.JUDGEMENT_UNREADABLE),
    "a verdict": (_judge, lambda on: _judge(on, tier="L"), Code.VERDICT_MISMATCH),
}
"""How an honest entry is appended, how a false one, and what it is found to be."""
PINNED_OTHERWISE = ("a pin that nobody measured", "a verdict")
"""A verdict states the pins of its time, the false one too: no verdict behind that one is honest."""


def refused(folder: Path, ledger: Builder, head: bytes) -> tuple[dict[Code, int], set[int | None]]:
    """What ``checkpoint`` finds, and of which entries."""
    with pytest.raises(VerificationError) as caught:
        sign(folder, ledger, head)
    report = caught.value.report
    assert report.exit_code == 1
    return report.counts, {finding.position.index for finding in report.findings}


@pytest.mark.parametrize("new", JUDGED)
@pytest.mark.parametrize("old", [*FALSE, *UNREADABLE])
def test_what_is_false_below_hides_no_judgement_that_is_false_behind(old: str, new: str, tmp_path: Path) -> None:
    ledger = house()
    {**FALSE, **UNREADABLE}[old](ledger)
    assert check_ledger(MemorySource(ledger.data), None, Options()).exit_code == 1
    head = ledger.head()
    honest, false, code = JUDGED[new]
    if (old, new) != PINNED_OTHERWISE:
        honest(ledger)
        assert sign(tmp_path, ledger, head).checkpoint.size == len(ledger.lines)
    false(ledger)
    counts, places = refused(tmp_path, ledger, head)
    assert (counts, places) == ({code: 1}, {len(ledger.lines) - 1})


@pytest.mark.parametrize("old", UNREADABLE)
def test_what_cannot_be_read_below_leaves_nothing_open_behind(old: str, tmp_path: Path) -> None:
    """These very bytes are what the head is over, so that what a new entry names was never among them."""
    ledger = two_roots()
    UNREADABLE[old](ledger)
    head = ledger.head()
    supersede(ledger, "0" * 64)
    assert refused(tmp_path, ledger, head)[0] == {Code.REFERENCE_UNKNOWN: 1}
    ledger.lines.pop()
    ledger.add("key", key_body(Key("nobody"), "judge", "revoke"), ROOT)
    assert refused(tmp_path, ledger, head)[0] == {Code.KEY_UNKNOWN_TARGET: 1}


@pytest.mark.parametrize("count", [2, MANY])
@pytest.mark.parametrize("what", REPEATABLE)
def test_however_much_is_false_below_it_keeps_nobody_from_signing(what: str, count: int, tmp_path: Path) -> None:
    """And what is false in the same way behind it is refused, and named, whatever else is spelled out."""
    ledger = two_roots()
    for _ in range(count):
        FALSE[what](ledger)
    head = ledger.head()
    note(ledger)
    assert sign(tmp_path, ledger, head).checkpoint.size == len(ledger.lines)
    covered, code = len(ledger.lines) - 1, REPEATABLE[what]
    for number in (1, 2):
        FALSE[what](ledger)
        counts, places = refused(tmp_path, ledger, head)
        assert counts == {code: 1 if code is Code.JUDGEMENT_UNREADABLE else number}  # one such stops the rest
        assert min(place or 0 for place in places) > covered


@pytest.mark.parametrize("count", [1, 2, MANY])
@pytest.mark.parametrize("what", KEY_FAULTS)
def test_faults_of_one_key_are_counted_entry_by_entry(what: str, count: int, tmp_path: Path) -> None:
    code, add = KEY_FAULTS[what]
    ledger = two_roots()
    if code is Code.KEY_RETIRED:
        ledger.act("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    for _ in range(count):
        add(ledger)
    head = ledger.head()
    assert check_ledger(MemorySource(ledger.data), None, Options()).counts == {code: count}
    note(ledger)
    assert sign(tmp_path, ledger, head).checkpoint.size == len(ledger.lines)
    at = len(ledger.lines)
    add(ledger)
    with pytest.raises(LedgerError) as caught:
        sign(tmp_path, ledger, head)
    assert (caught.value.code, caught.value.finding.position.index) == (code, at)


def test_one_fault_that_stands_for_many_stands_for_none_on_the_other_side() -> None:
    ledger = two_roots()
    for _ in range(5):
        ledger.add("run", run_body(len(ledger.lines)), JUDGE)
    for vouched, left in ((0, 5), (len(ledger.lines) - 2, 2), (len(ledger.lines), 0)):
        report = check_log(MemorySource(ledger.data), None, Options(vouched=vouched))
        assert report.counts == {Code.KEY_WRONG_ROLE: 5}
        assert report.uncovered == ({Code.KEY_WRONG_ROLE: left} if left else {})


def test_a_log_that_is_another_when_it_is_read_once_more_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was read of it by then, and below a head of one's own too."""
    ledger = house()
    head = ledger.head()
    _pin(ledger, "60")
    other = b"".join([*ledger.lines[:-1], note(swapped := Builder(ledger.lines[:-1])) and swapped.lines[-1]])
    blocks, readings = signable._Lines.blocks, 0
    for honest in range(9):
        count = 0

        def read(lines: signable._Lines, honest: int = honest) -> Iterator[bytes]:
            nonlocal count
            count += 1
            return blocks(lines) if count <= honest else iter([other])

        monkeypatch.setattr(signable._Lines, "blocks", read)
        with pytest.raises(LedgerError) as caught:
            sign(tmp_path, ledger, head)
        assert caught.value.code in {Code.CHANGED_WHILE_READ, Code.PIN_HAND_EDITED}
        readings = max(readings, count)
        if caught.value.code is Code.PIN_HAND_EDITED:
            break
    assert readings >= 3
