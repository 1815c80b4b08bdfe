"""What a ledger has published can be named wherever a rule is taken with that ledger, without its author's file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.rules.registry import find_rule
from tests.cli.test_told import without_reader
from tests.ledgers import JUDGE, Builder
from tests.rescore.receipts import house_ledger
from tests.rescore.test_claims_state import rule_of
from tests.rescore.test_standing import seal, take_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule
    from tests.commands import Done

SIXTH = find_rule("house-6.decode")


def own(name: str, repetitions: int) -> Rule:
    assert SIXTH.sampling is not None
    return replace(SIXTH, name=name, sampling=replace(SIXTH.sampling, repetitions=repetitions))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A ledger that published two rules and took one back; and one of a registered name."""
    builder, _ = house_ledger()
    builder.add("rule", rule_of(own("mine", 3)), JUDGE)
    gone = builder.add("rule", rule_of(own("gone", 2)), JUDGE)
    take_back(builder, gone)
    seal(builder, own("mine", 3))
    return write(builder, tmp_path / "book")


def write(builder: Builder, folder: Path) -> Path:
    folder.mkdir()
    (folder / "ledger.jsonl").write_bytes(builder.data)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("rescore", "BOOK", "--rule", "mine"),
        ("rescore", "BOOK", "--rule", "mine", "--counts"),
        ("rescore", "BOOK", "--rule", "house-6.decode", "--against", "mine"),
        ("rescore", "BOOK", "--rule", "mine", "--against", "gone"),
        ("rules", "show", "mine", "--ledger", "BOOK"),
        ("rules", "show", "gone", "-l", "BOOK"),
        ("rules", "lint", "mine", "--ledger", "BOOK"),
        ("rules", "lint", "--ledger", "BOOK"),
        ("rules", "diff", "mine", "house-6.decode", "--ledger", "BOOK"),
        ("rules", "diff", "house-6.decode", "mine", "--ledger", "BOOK"),
    ],
    ids=" ".join,
)
def test_a_rule_that_the_ledger_published_has_its_name_there(
    words: tuple[str, ...], command: Callable[..., Done], book: Path
) -> None:
    done = command(*(str(book) if word == "BOOK" else word for word in words))
    assert done.code in ({0, 1} if words[1] in {"lint", "diff"} else {0}), done
    assert "no rule is named" not in done.err


def test_it_is_the_rule_that_was_published(command: Callable[..., Done], book: Path) -> None:
    for name, repetitions in (("mine", "3"), ("gone", "2"), ("house-6.decode", "7")):
        shown = command("rules", "show", name, "--ledger", str(book), "--json").json
        assert (shown["rule"], shown["parameters"]["sampling.repetitions"]) == (name, repetitions)
    rows = command("rescore", str(book), "--rule", "mine", "--json").json
    assert rows["rule"] == "mine"
    assert "1 unchanged, 0 lower" in command("rescore", str(book), "--rule", "mine").out
    assert "0 unchanged, 1 lower" in command("rescore", str(book), "--rule", "house-6.decode").out
    same = command("rules", "diff", "mine", "house-6.decode", "--ledger", str(book))
    assert same.code == 1
    assert "sampling.repetitions" in same.out


def test_of_two_of_one_name_the_one_that_stands_is_meant(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    first = builder.add("rule", rule_of(own("mine", 2)), JUDGE)
    take_back(builder, first)
    second = builder.add("rule", rule_of(own("mine", 2)), JUDGE)
    book = write(builder, tmp_path / "book")
    assert command("rules", "show", "mine", "-l", str(book)).code == 0
    take_back(builder, second)
    assert command("rules", "show", "mine", "-l", str(write(builder, tmp_path / "later"))).code == 0


def test_an_entry_that_is_no_rule_is_in_the_way_until_it_is_superseded(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    builder, _ = house_ledger()
    builder.add("rule", rule_of(own("mine", 2)), JUDGE)
    bad = builder.add("rule", {**rule_of(own("other", 2)), "rule_sha256": "0" * 64}, JUDGE)
    book = write(builder, tmp_path / "book")
    take_back(builder, bad)
    later = write(builder, tmp_path / "later")
    for given in (("show", "mine", "-l"), ("list",)):
        done = command("rules", *given, str(book))
        assert (done.code, "K3L-RULE-DIGEST" in done.err) == (1, True)
        done = command("rules", *given, str(later))
        assert (done.code, "mine" in done.out, "other" in done.out) == (0, True, False)


@pytest.mark.parametrize("words", [("rescore", "BOOK", "--rule"), ("rules", "show", "-l", "BOOK")], ids=" ".join)
def test_a_name_that_nobody_has_lists_both(words: tuple[str, ...], command: Callable[..., Done], book: Path) -> None:
    done = command(*(str(book) if word == "BOOK" else word for word in words), "mien")
    assert done.code == 2
    assert "no rule is named 'mien' [K3L-RULE-UNKNOWN]" in done.err
    hint = " ".join(done.err.split())
    assert "did you mean mine? " in hint
    assert "registered: " in hint
    assert "gone, mine" in hint
    assert command("rules", "show", "mine").code == 2, "no ledger was given"


def test_a_ledger_that_published_none_says_so(command: Callable[..., Done], tmp_path: Path) -> None:
    book = write(house_ledger()[0], tmp_path / "book")
    done = command("rescore", str(book), "--rule", "mien")
    assert done.code == 2
    assert "has published none" in " ".join(done.err.split())
    empty = command("rules", "lint", "--ledger", str(book))
    assert (empty.code, empty.out) == (0, "")
    assert "has published no rule" in empty.err


def test_lint_says_of_a_file_that_the_ledger_gave_its_name_to_another_rule(
    command: Callable[..., Done], book: Path, test_data: Callable[..., Path], tmp_path: Path
) -> None:
    text = command("rules", "show", "mine", "-l", str(book), "--toml").out
    (tmp_path / "same.toml").write_text(text)
    (tmp_path / "lax.toml").write_text(text.replace('sampling.repetitions = "3"', 'sampling.repetitions = "4"'))
    first, other = (own("mine", repetitions).sha256 for repetitions in (3, 4))
    note = f"note: mine is the name of another rule: that one is {first}, this one {other}"
    assert note in command("rules", "lint", "lax.toml", "--ledger", str(book)).err
    assert "another rule" not in command("rules", "lint", "same.toml", "--ledger", str(book)).err
    assert command("rules", "lint", "lax.toml").err == ""
    log = test_data("data", "sparkinfer-k3-log")
    assert command("rules", "lint", "lax.toml", "--ledger", str(log)).err == "", "a log without rules gives no names"


@pytest.mark.parametrize("how", ["pipe", "full"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("rules lint v0.2.1", 1),
        ("rules lint v0.2.1 --json", 1),
        ("rules diff v0.2.1 v0.2.0", 1),
        ("rules diff v0.2.1 v0.2.0 --json", 1),
        ("rules lint house-7.decode", 3),
        ("rules diff v0.2.1 v0.2.1", 3),
        ("rules show v0.2.1", 3),
    ],
)
def test_what_a_rule_was_found_to_be_stands_whoever_takes_the_report(
    how: str, words: str, code: int, tmp_path: Path
) -> None:
    assert without_reader(tmp_path, *words.split(), how=how).returncode == code
