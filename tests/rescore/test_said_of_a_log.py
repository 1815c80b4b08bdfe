"""What judging commands say of what they judged: how much of a speed counts, and how many errors an audit finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.ledgers import RUNNER
from tests.rescore.receipts import house_ledger, receipt
from tests.rescore.test_bad_input import COMMANDS, log, real
from tests.rescore.test_unjudged import claims_more

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

__all__ = ["log", "real"]
CLAIM = '[[claim]]\nid = "a"\nsays = "x"\nkind = "accepted"\nreceipt = "70e6a00a"\n'


@pytest.mark.parametrize("name", COMMANDS)
def test_how_many_errors_the_audit_finds_is_said_in_one_line(
    command: Callable[..., Done], log: Path, name: str
) -> None:
    (log.parent / "claims.toml").write_text(CLAIM)
    audited = command("audit", "polaris", "log", "--json").json
    errors = sum(finding["severity"] == "error" for finding in audited["findings"])
    assert errors > 1
    said = f"note: the audit of this log finds {errors} errors: `k3-ledger audit polaris` names what disagrees"
    assert command(*COMMANDS[name]).err.splitlines().count(said) == 1
    if name != "reconcile":
        found = command(*COMMANDS[name], "--json").json
        assert (found if isinstance(found, dict) else found[0])["audit_errors"] == errors


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_said_of_an_audit_of_a_ledger(command: Callable[..., Done], tmp_path: Path, name: str) -> None:
    """The control: a ledger is verified, and no log is audited."""
    builder, names = house_ledger()
    (tmp_path / "log").mkdir()
    builder.write(tmp_path / "log")
    (tmp_path / "claims.toml").write_text(CLAIM.replace("70e6a00a", names["candidate"]))
    done = command(*COMMANDS[name])
    assert "audit" not in done.err
    if name != "reconcile":
        found = json.loads(command(*COMMANDS[name], "--json").out)
        assert (found if isinstance(found, dict) else found[0])["audit_errors"] is None


def test_the_table_shows_how_much_of_a_speed_counts(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    builder.add("run", claims_more(72.0, 60.0, round_="r2"), RUNNER)
    legend = "(…) behind a speed: how much of it counts, for its clock bears out no more"
    (tmp_path / "log").mkdir()
    builder.write(tmp_path / "log")
    done = command("rescore", "log", "--rule", "house-6.decode", "--all")
    assert "72.00 (60.60)" in done.out
    assert legend in done.out
    whole = command("rescore", "log", "--rule", "house-4.decode", "--all").out
    assert "72.00 (" not in whole
    assert legend not in whole, "the control: that rule counts all of it"
    honest, _ = house_ledger()
    honest.add("run", receipt(60.0, round_="r2"), RUNNER)
    honest.write(tmp_path / "log")
    assert legend not in command("rescore", "log", "--rule", "house-6.decode", "--all").out
