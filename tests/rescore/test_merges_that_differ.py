"""A file that claims two numbers of one merge is refused: nothing tells which is meant, and the first is no better."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.pins import read_merges
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from tests.rescore.receipts import DECODE, PREFILL, house_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

NAMES = {
    "pull-request": ("pull_request = 7\n", "pull_request = 7\n"),
    "commit": ('commit = "aaaaaaa"\n', 'commit = "aaaaaaabbb"\n'),
    "run": (f'run = "{"c" * 64}"\n', f'run = "{"c" * 64}"\n'),
    "both": ('pull_request = 7\ncommit = "aaaaaaa"\n', "pull_request = 7\n"),
}
OTHERS = {
    "another-pull-request": ("pull_request = 7\n", "pull_request = 8\n"),
    "another-commit": ('pull_request = 7\ncommit = "aaaaaaa"\n', 'pull_request = 7\ncommit = "bbbbbbb"\n'),
    "no-name": ("", ""),
}


def merge(named: str, claimed: str, hour: int, track: str = DECODE) -> str:
    return f'[[merge]]\ntrack = "{track}"\ntime = 2026-01-01T{hour:02}:00:00Z\nclaimed = {claimed}\n{named}'


def read(*texts: str, receipts: dict[str, Fraction] | None = None) -> list[Fraction | None]:
    found = read_merges("".join(texts).encode(), source="merges.toml", receipts=receipts or {})
    return [one.value for one in found]


@pytest.mark.parametrize("hours", [(9, 10), (10, 9)])
@pytest.mark.parametrize("name", NAMES)
def test_two_numbers_of_one_merge_are_named_with_both_places(name: str, hours: tuple[int, int]) -> None:
    first, second = NAMES[name]
    for one, two in itertools.permutations((first, second)):
        texts = merge(one, "58.7", hours[0]), merge("pull_request = 9\n", "1", 12), merge(two, "58.69", hours[1])
        with pytest.raises(RescoreError, match=r"was claimed at 58\.7 before \(merges\.toml, line 1") as caught:
            read(*texts)
        assert caught.value.code is Code.TOML_FIELD
        line = "".join(texts).splitlines().index("claimed = 58.69") + 1
        assert caught.value.finding.position.line == line
        assert read(texts[0], texts[1], merge(two, "58.70", hours[1])), "the control: one number, spelt twice"


@pytest.mark.parametrize("name", OTHERS)
def test_two_merges_may_have_claimed_two_numbers(name: str) -> None:
    one, two = OTHERS[name]
    assert len(read(merge(one, "58.7", 9), merge(two, "30", 10))) == 2


def test_of_two_tracks_one_merge_claims_two_numbers() -> None:
    assert len(read(merge("pull_request = 7\n", "58.7", 9), merge("pull_request = 7\n", "800", 9, PREFILL))) == 2


def test_what_a_receipt_holds_is_no_claim() -> None:
    run, named = "c" * 64, f'run = "{"c" * 64}"\n'
    assert read(merge(named, "58.7", 9), merge(named, "30", 10), receipts={run: Fraction(60)}) == [60, 60]


def test_reconcile_names_it(command: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    house_ledger()[0].write(tmp_path / "log")
    (tmp_path / "m.toml").write_text(merge("pull_request = 7\n", "58.7", 9) + merge("pull_request = 7\n", "30", 10))
    done = command("reconcile", "log", "--merges", "m.toml")
    assert done.code == 3
    assert "#7 was claimed at 58.7 before (m.toml, line 1" in done.err
