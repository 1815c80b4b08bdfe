"""Runs of a foreign log of which no receipt can be read, and records that say two things: named, or not counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.material import UNRECEIVED
from tests.rescore.test_bad_input import COMMANDS, log, real
from tests.rescore.test_claims import claim, decide, speed
from tests.rescore.test_claims_state import why
from tests.rescore.test_tiers_that_disagree import TRACK, Item, both, gathered, labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

__all__ = ["log", "real"]
RECORDS = {"ledger.label": "XL", "result.label": "XL", "result.tps": "41.39", "result.frontier_tps": "35.63"}


def bare(**more: str) -> Item:
    """What is left of a run without a receipt: other records of it."""
    item = Item("aaaa", {})
    kept = [one for one in item.body["fields"] if not one["name"].startswith(("receipt.", "sealed."))]
    more = {"result.scored_context": "131072", "result.node": "h200x8", "result.scored_metric": "decode", **more}
    item.body["fields"] = [*kept, *({"name": name, "value": value} for name, value in (RECORDS | more).items())]
    return item


@both
def test_without_a_receipt_other_records_are_figures_that_no_receipt_holds(sealed: bool) -> None:
    material = gathered(bare(), sealed=sealed)
    (one,) = material.candidates
    assert one.voided == UNRECEIVED
    text = speed("41.39").replace("decode@131072/k3-slice/bf16/node", str(one.run.track))
    held = decide(text, material)
    assert held.status is Status.UNSEALED
    assert why(held) == f"a record of {one.label}, of which no receipt can be read, has it, no receipt does"
    assert held.evidence[0].index is None
    for kind, more in (
        ("accepted", ""),
        ("gain", 'percent = 16.17\ntolerance = "rounding"\n'),
        ("credit", 'gain_percent = 16.17\ncredited_percent = 16.17\ntolerance = "rounding"\n'),
    ):
        found = decide(claim(kind, f'receipt = "aaaa"\n{more}'), material)
        assert (found.status, why(found)) == (Status.NO_RECEIPT, "no receipt of aaaa")
    assert derive_climbs(material) == []
    assert [item.counts for item in material.measurements if item.receipt] in ([], [False])


@both
def test_with_a_receipt_the_same_records_are_what_they_were(sealed: bool) -> None:
    """The control."""
    material = gathered(Item("aaaa", labels()), sealed=sealed)
    assert material.candidates[0].voided == ""
    assert decide(claim("accepted", 'receipt = "aaaa"\n'), material).status is Status.SUPPORTED
    assert derive_climbs(material) != []
    text = speed("41.39").replace("decode@131072/k3-slice/bf16/node", TRACK)
    assert decide(text, material).status is Status.SUPPORTED


def test_a_record_of_a_superseded_run_has_nothing() -> None:
    material = gathered(bare(**{"ledger.superseded_by": "b"}), sealed=False)
    assert [item.accepted for item in list_evidence(material) if item.run] == [False]


@pytest.mark.parametrize("what", ["gone", "folder", "loop", "dangling"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_receipt_that_is_no_file_is_named_once_and_accepts_nothing(
    command: Callable[..., Done], log: Path, what: str, name: str
) -> None:
    accepted = '[[claim]]\nid = "a"\nsays = "x"\nkind = "accepted"\nreceipt = "70e6a00a"\n'
    (log.parent / "claims.toml").write_text(accepted)
    assert command(*COMMANDS[name]).code == (1 if name == "claims" else 0) or name == "claims"
    (path,) = log.glob("runs/*/receipt.json")
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what != "gone":
        path.symlink_to(path if what == "loop" else log / "nowhere")
    done = command(*COMMANDS[name])
    assert done.code == (1 if name == "claims" else 3)
    assert done.err.count(f"not read: {path.parent.relative_to(log)}") == 1
    if name == "claims":
        assert "a: no-receipt: x" in done.out


@pytest.mark.parametrize("digits", [65, 4299, 4300, 6000])
@pytest.mark.parametrize("file", ["receipt.json", "result.json"])
def test_a_figure_without_end_is_named_whatever_its_length(
    command: Callable[..., Done], log: Path, file: str, digits: int
) -> None:
    (path,) = log.glob(f"runs/*/{file}")
    text = path.read_text()
    assert "41.39" in text
    path.write_text(text.replace("41.39", "5" * digits))
    done = command(*COMMANDS["rescore"])
    assert done.code == 3
    assert f"not read: {path.relative_to(log)}" in done.err


def test_a_key_that_stands_twice_is_named(command: Callable[..., Done], log: Path) -> None:
    for file, key in (("receipt.json", "receipt_id"), ("result.json", "tps")):
        (path,) = log.glob(f"runs/*/{file}")
        text = path.read_text()
        assert key in json.loads(text)
        path.write_text(text.replace("{", f'{{"{key}": 99.0, ', 1))
        done = command(*COMMANDS["frontier"])
        assert done.code == 3
        assert f"not read: {path.relative_to(log)}, line" in done.err
        path.write_text(text)
    assert command(*COMMANDS["frontier"]).code == 0, "the control"
