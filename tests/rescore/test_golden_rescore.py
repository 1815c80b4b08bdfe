"""The golden replay: every row under every rule's arithmetic, and the counts the history page states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.exact import format_exact, format_percent
from k3_ledger.rescore.history.pins import pin_at
from k3_ledger.rescore.rules.registry import find_rule, in_force
from k3_ledger.rescore.rules.score import apply_arithmetic, score
from k3_ledger.rescore.rules.verdict import NotScorable, Verdict
from tests.reference import tier_oracle
from tests.rescore.golden import BOUNDS, RELEASES, Row, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule

ORDER = ("REJECT", "none", "XS", "S", "M", "L", "XL")


@pytest.fixture(scope="module")
def _cache() -> dict[str, list[Row]]:
    return {}


@pytest.fixture
def rows(test_data: Callable[..., Path], _cache: dict[str, list[Row]]) -> list[Row]:
    return _cache.setdefault("rows", []) or _cache["rows"].__iadd__(read_rows(test_data("data", "rules")))


def verdict(rule: Rule, row: Row, reference: str | None = None) -> Verdict:
    result = apply_arithmetic(rule, row.run if reference is None else row.under(reference))
    assert isinstance(result, Verdict)
    return result


def percent(result: Verdict) -> str | None:
    return None if result.credit is None else format_percent(result.credit)


def test_there_are_51_rows(rows: list[Row]) -> None:
    assert len(rows) == 51


@pytest.mark.parametrize("release", RELEASES)
def test_every_row_under_every_release_with_its_own_pins(rows: list[Row], release: str) -> None:
    for row in rows:
        expected = row.raw["labels_own_pins"][release]
        found = verdict(find_rule(release), row)
        assert found.tier == expected["label"], row.run.run
        assert percent(found) == expected["eff_pct"], row.run.run
        assert found.credit_bound == BOUNDS[expected["binds"]], row.run.run


@pytest.mark.parametrize("release", RELEASES)
def test_every_row_under_every_release_with_the_tags_pins(rows: list[Row], release: str) -> None:
    for row in rows:
        expected = row.raw["labels_tag_pins"][release]
        found = verdict(find_rule(release), row, expected["llama_ref"])
        assert (found.tier, percent(found)) == (expected["label"], expected["eff_pct"]), row.run.run


@pytest.mark.parametrize("release", RELEASES)
def test_the_pins_a_release_carries_are_the_ones_its_golden_rows_used(rows: list[Row], release: str) -> None:
    for row in rows:
        pinned = find_rule(release).pin(row.run.track.slot("reference"))
        if pinned is None:  # prefill had no pin before it was scored
            assert row.run.track.metric == "prefill"
            continue
        assert pinned == row.under(row.raw["labels_tag_pins"][release]["llama_ref"]).reference.value  # type: ignore[union-attr]


def test_all_51_reproduce_under_the_rule_in_force(rows: list[Row]) -> None:
    for row in rows:
        rule = in_force(row.run.at, row.run.commit)
        found = score(rule, row.run)
        assert isinstance(found, Verdict), found
        assert found.tier == row.raw["published_label"], row.run.run
        assert found.speed_tier == (row.raw["published_speed_label"] or found.speed_tier)
        recorded = row.raw["recorded"]["effective_pct"]
        assert recorded is None or percent(found) == recorded
        assert found.credit_bound == BOUNDS[row.raw["replay_in_force"]["binds"]]


def test_a_rejected_run_keeps_the_tier_of_its_speed(rows: list[Row]) -> None:
    (row,) = [row for row in rows if row.raw["published_label"] == "REJECT"]
    found = verdict(find_rule("v0.2.2"), row)
    assert (found.tier, found.speed_tier, found.bound_by) == ("REJECT", "XL", "correctness")


def test_the_history_table_holds_every_reference_the_log_lacks(rows: list[Row]) -> None:
    for row in rows:
        assert row.run.at is not None
        pin = pin_at(row.run.track.slot("reference"), row.run.at)
        assert pin is not None
        assert pin.value == row.run.reference.value  # type: ignore[union-attr]


def test_the_frontier_pins_of_the_history_are_those_the_runs_recorded(rows: list[Row]) -> None:
    off = set()
    for row in rows:
        assert row.run.at is not None
        pin = pin_at(row.run.track.slot("frontier"), row.run.at)
        if pin is None or pin.value != row.run.frontier.value:  # type: ignore[union-attr]
            off.add(row.run.run[:8])
    # The first run says that there was no frontier, although one had been written by hand that morning.
    assert off == {"89fb50be"}


def test_the_integer_oracle_agrees_on_every_row(rows: list[Row]) -> None:
    for row in rows:
        given = row.raw["inputs"]
        for release, cap in zip(RELEASES, (2, 2, 1, 1), strict=True):
            anchored = not (release == "v0.2.2" and given["metric"] == "prefill")
            bar = "0.95" if release == "v0.2.2" else "0.9"
            label = tier_oracle.label(
                given["tps"], given["frontier_tps"], given["llama_ref"], cap=cap, anchored=anchored,
                top1=given["top1"], kl=given["kl"], top1_bar=bar,
            )  # fmt: skip
            assert label == row.raw["labels_own_pins"][release]["label"] == verdict(find_rule(release), row).tier


def scorable(rule: Rule, rows: list[Row]) -> list[tuple[Row, Verdict]]:
    pairs = [(row, score(rule, row.run)) for row in rows]
    return [(row, found) for row, found in pairs if isinstance(found, Verdict)]


NINE = {
    "d833ff21", "f505cfb0", "6c5bb4ad", "c7832aa0", "87978c0e", "fdbd1fc1", "70e6a00a", "3898c809", "87a834ea",
}  # fmt: skip


def test_v0_2_1_lowers_exactly_nine_published_runs_and_raises_none(rows: list[Row]) -> None:
    pairs = [(row, found) for row, found in scorable(find_rule("v0.2.1"), rows)]
    changed = {row.run.run[:8]: (row.raw["published_label"], found.tier) for row, found in pairs}
    lower = {run for run, (was, now) in changed.items() if was != now and ORDER.index(now) < ORDER.index(was)}
    assert {run for run, (was, now) in changed.items() if was != now} == lower == NINE


def test_v0_2_0_against_v0_2_1_changes_ten_with_own_pins(rows: list[Row]) -> None:
    old = {row.run.run[:8]: found.tier for row, found in scorable(find_rule("v0.2.0"), rows)}
    new = {row.run.run[:8]: found.tier for row, found in scorable(find_rule("v0.2.1"), rows)}
    changed = {run for run in old if old[run] != new[run]}
    assert changed == NINE | {"63bd1de4"}
    assert (old["63bd1de4"], new["63bd1de4"]) == ("M", "S")


def test_v0_2_0_against_v0_2_1_changes_nine_with_tag_pins(rows: list[Row]) -> None:
    rules = [find_rule(name) for name in ("v0.2.0", "v0.2.1")]
    decode = [row for row in rows if row.run.track.short == "decode@131072"]
    slot = decode[0].run.track.slot("reference")
    changed = {
        row.run.run[:8]
        for row in decode
        if len({verdict(rule, row, format_exact(rule.pin(slot))).tier for rule in rules}) > 1  # type: ignore[arg-type]
    }
    assert changed == (NINE | {"63bd1de4"}) - {"f505cfb0"}


def test_the_anchor_off_raises_one_prefill_run(rows: list[Row]) -> None:
    old, new = find_rule("v0.2.2@f561299"), find_rule("v0.2.2")
    prefill = [row for row in rows if row.run.track.metric == "prefill"]
    changed = {
        row.run.run[:8]: (verdict(old, row).tier, verdict(new, row).tier)
        for row in prefill
        if verdict(old, row).tier != verdict(new, row).tier
    }
    assert changed == {"c5efb8b2": ("S", "L"), "d15763c3": ("XS", "S")}


def test_a_run_of_another_metric_or_context_is_not_scorable(rows: list[Row]) -> None:
    refused = [row for row in rows if isinstance(score(find_rule("v0.2.1"), row.run), NotScorable)]
    assert sorted(row.run.track.short for row in refused) == ["decode@64"] * 4 + ["prefill@32768"] * 3
    reason = score(find_rule("v0.2.1"), refused[-1].run)
    assert isinstance(reason, NotScorable)
    assert reason.message == "not scorable: the rule scores decode@131072, the run measured prefill@32768"


def test_a_parity_rescore_is_impossible_before_depths_were_recorded(rows: list[Row]) -> None:
    without = [row for row, found in scorable(find_rule("v0.2.1"), rows) if "suite" in found.not_checked]
    assert all(row.raw["timestamp_utc"] < "2026-08-04T08:12" for row in without)
    assert len(without) == 32


def test_one_run_would_not_have_been_admitted_under_v0_2_0(rows: list[Row]) -> None:
    refused = {
        row.run.run[:8]: found for row, found in scorable(find_rule("v0.2.0"), rows) if "ceiling" in found.refused_by
    }
    assert set(refused) == {"8641ae28"}
    (gate,) = [gate for gate in refused["8641ae28"].gates if gate.name == "ceiling"]
    assert gate.detail == "decode 56.82/s is above 55.33/s, 3x 18.4435"
    assert refused["8641ae28"].tier == "XL"
