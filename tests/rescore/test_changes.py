"""A count of what a rule changes is of runs that were published, and no better than what is known of every one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.changes import BROKEN, UNREAD
from k3_ledger.rescore.claims.status import Status
from k3_ledger.schemas.findings import Code
from tests.rescore.receipts import house_ledger
from tests.rescore.test_bad_input import real
from tests.rescore.test_claims import about, candidate, claim, decide
from tests.rescore.test_claims_state import HOUSE, LENIENT, of, why
from tests.rescore.test_standing import seal
from tests.rescore.test_tiers_that_disagree import Item, both, gathered, labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.material import Candidate
    from tests.commands import Done

__all__ = ["real"]
COUNT = 'rule = "v0.2.1"\npins = "own"\nchange = "{}"\ncount = {}\n'


def rescored(change: str, count: int) -> str:
    return claim("rescored", COUNT.format(change, count))


def published(identity: str, **more: Any) -> Candidate:
    """A run that v0.2.1 leaves as it was published."""
    return candidate(identity, **more)


def spoilt(identity: str, how: str) -> Candidate:
    one = published(identity)
    if how == "unread":
        one.run = replace(one.run, received=False)
    elif how == "contested":
        one.run = replace(one.run, contested="XL in a and S in b", published=None)
    elif how == "differing":
        one.differing = "imported 2 times, and not as the same"
    else:
        one.broken = True
    return one


@pytest.mark.parametrize("how", ["unread", "contested", "differing", "broken"])
@pytest.mark.parametrize("change", ["unchanged", "lower", "higher"])
@pytest.mark.parametrize("spoiled", [0, 1, 2])
def test_a_count_is_supported_where_no_run_that_is_not_known_could_make_it_another(
    how: str, change: str, spoiled: int
) -> None:
    runs = [published(f"{number:08x}") for number in range(3)]
    runs += [spoilt(f"{number:08x}", how) for number in range(10, 10 + spoiled)]
    least = 3 if change == "unchanged" else 0
    for count in range(7):
        found = decide(rescored(change, count), about(*runs))
        if not least <= count <= least + spoiled:
            assert found.status is Status.CONTRADICTED, count
        elif spoiled:
            assert found.status is Status.AMBIGUOUS, count
            assert "but nobody knows of 0000000a: " in why(found)
        else:
            assert found.status is Status.SUPPORTED, count


def test_a_run_that_could_not_be_read_at_all_is_named_too() -> None:
    material = about(published("a" * 8))
    assert decide(rescored("lower", 0), material).status is Status.SUPPORTED
    material.unjudged = [f"{number:08x}" for number in range(4)]
    assert why(decide(rescored("lower", 4), material)).endswith(
        f"but nobody knows of 00000000: {UNREAD}; 00000001: {UNREAD}; 00000002: {UNREAD}, and 1 more"
    )
    assert decide(rescored("lower", 5), material).status is Status.CONTRADICTED
    material.candidates = []
    assert decide(rescored("lower", 0), material).status is Status.AMBIGUOUS


def test_what_was_published_with_no_tier_is_in_no_count() -> None:
    for change in ("unchanged", "lower", "higher"):
        for count in (0, 1):
            assert decide(rescored(change, count), about(candidate("a", published=None))).status is Status.NO_RECEIPT
    both_ = about(candidate("a", published=None), published("b"))
    assert decide(rescored("unchanged", 1), both_).status is Status.SUPPORTED
    assert why(decide(rescored("unchanged", 2), both_)).startswith(
        "v0.2.1 leaves 1 runs unchanged, with own pins; 1 had no tier to be compared with"
    )


def test_a_receipt_that_nobody_judged_is_compared_with_nothing() -> None:
    builder, _ = house_ledger()
    found = of(builder, rescored("lower", 0))
    assert found.status is Status.NO_RECEIPT
    assert why(found).startswith("no run that v0.2.1 scores was published with a tier: ")
    seal(builder, replace(LENIENT, name="nobodys", correctness=replace(LENIENT.correctness, kl=Fraction(1))))
    assert of(builder, rescored("lower", 0)).status is Status.NO_RECEIPT, "a rule that nobody published"
    seal(builder, HOUSE)
    assert of(builder, rescored("lower", 0)).status is not Status.NO_RECEIPT


@both
def test_what_the_audit_or_the_reading_of_a_log_found_is_known_of_its_runs(sealed: bool) -> None:
    good, bad = Item("aaaa", labels()), Item("bbbb", labels())
    bad.body["findings"] = [Code.FOREIGN_HASH.id]
    one, two = gathered(good, bad, sealed=sealed).candidates
    assert (one.broken, two.broken) == (False, True)
    broken, hopeless = Item("cccc", labels(), **{"ledger.tps": "x"}), Item("dddd", labels(), **{"sealed.tps": "x"})
    material = gathered(good, broken, hopeless, sealed=sealed)
    assert material.partly_read == {"cccc", "dddd"}
    assert material.unjudged == ["dddd"]


CLAIM = claim("rescored", COUNT.format("lower", 8))


def spoil_nothing(run: Path) -> None:
    """The control."""


def empty_the_receipt(run: Path) -> None:
    (run / "receipt.json").write_bytes(b"")


def remove_the_receipt(run: Path) -> None:
    (run / "receipt.json").unlink()


def break_the_result(run: Path) -> None:
    (run / "result.json").write_bytes(b"{")


def call_it_prefill(run: Path) -> None:
    result = json.loads((run / "result.json").read_bytes())
    (run / "result.json").write_text(json.dumps({**result, "scored_metric": "prefill"}))


SPOILING: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (spoil_nothing, "v0.2.1 leaves 9 runs lower"),
    "empty-receipt": (empty_the_receipt, UNREAD),
    "no-receipt": (remove_the_receipt, UNREAD),
    "broken-result": (break_the_result, UNREAD),
    "other-metric": (call_it_prefill, BROKEN),
}


@pytest.mark.parametrize("name", SPOILING)
def test_nobody_makes_a_false_count_true_by_spoiling_a_record(
    name: str, command: Callable[..., Done], real: Path, tmp_path: Path
) -> None:
    spoil, said = SPOILING[name]
    log = tmp_path / "log"
    shutil.copytree(real, log, copy_function=shutil.copyfile)
    spoil(next((log / "runs").glob("c7832aa0*")))
    (tmp_path / "c.toml").write_text(CLAIM)
    done = command("claims", "check", str(tmp_path / "c.toml"), "--against", str(log))
    assert done.code == 1
    assert said in done.out
