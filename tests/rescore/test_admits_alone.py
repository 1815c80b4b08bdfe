"""What is said of runs that have a tier under a rule that grades by speed alone, and would not have admitted them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.rules.registry import find_rule
from tests.ledgers import RUNNER
from tests.rescore.receipts import house_ledger, receipt, timed
from tests.rescore.test_standing import seal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

FOOTER = re.compile(
    r"^  (\S+) is given (\S+) by its speed alone, and the rule would not have admitted it: (\w+): ", re.MULTILINE
)


def test_one_run_that_would_not_have_been_admitted(
    command: Callable[..., Done], test_data: Callable[..., Path]
) -> None:
    done = command("rescore", test_data("data", "sparkinfer-k3-log"), "--rule", "v0.2.0", "--pr", "127", "--all")
    (found,) = FOOTER.finditer(done.out)
    assert found.groups() == ("8641ae28", "XL", "ceiling")
    assert "not have admitted it: ceiling: decode 56.82/s is above" in done.out


@pytest.mark.parametrize("rule", ["house-1.decode", "house-4.decode", None])
@pytest.mark.parametrize(("speed", "tier"), [(1000.0, "XL"), (45.0, "none")])
def test_the_tier_that_is_said_is_the_one_of_the_row_whatever_was_published(
    rule: str | None, speed: float, tier: str, tmp_path: Path, command: Callable[..., Done]
) -> None:
    """A run that was refused, one that earned nothing and one that nobody judged has a new tier, and keeps none."""
    builder, _ = house_ledger()
    body = receipt(speed)
    body["timing"][1] = timed("decode", speed / 2, context=131_072)[1]  # the clock saw half of what is claimed
    builder.add("run", body, RUNNER)
    if rule is not None:
        seal(builder, find_rule(rule))
    builder.write(tmp_path)
    words = ("rescore", ".", "--rule", "v0.2.1", "--metric", "decode")
    now = {run["run"][:8]: run["verdict"]["tier"] for run in command(*words, "--json").json["runs"]}
    said = {found[1]: found[2] for found in FOOTER.finditer(command(*words).out)}
    assert tier in said.values()
    assert said == {run: now[run] for run in said}


def test_counting_says_what_a_rule_would_not_have_admitted(tmp_path: Path, command: Callable[..., Done]) -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(1000.0), RUNNER)
    seal(builder, find_rule("house-1.decode"))
    builder.write(tmp_path)
    words = ("rescore", ".", "--rule", "v0.2.1")
    whole, counted = command(*words), command(*words, "--counts")
    assert "REJECT  XL" in whole.out
    count = len(FOOTER.findall(whole.out))
    assert count == 1
    said = f"  {count} are given a tier by their speed alone, and the rule would not have admitted them: "
    assert said in counted.out
    assert command(*words, "--counts", "--json").json["not_admitted"] == count
    assert "admitted" not in command("rescore", ".", "--rule", "house-1.decode", "--counts").out
