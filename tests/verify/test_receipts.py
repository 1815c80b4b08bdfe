"""A receipt that contradicts itself is found from the receipt alone; the nearest sound one is not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import check_log
from k3_ledger.verify.receipts import MOST_PER_NANOSECOND, MostPerNanosecond
from k3_ledger.verify.source import MemorySource
from tests.ledgers import RUNNER, Builder, bundle_digest, run_body, small_ledger
from tests.support import ROOT


def found(body: dict[str, Any]) -> dict[str, list[str | None]]:
    """Fields of the findings about one receipt, by code."""
    ledger = small_ledger(0)
    ledger.add("run", {**body, "bundle": bundle_digest(body)}, RUNNER)
    report = check_log(MemorySource(ledger.data, checkpoint=ledger.head()))
    fields: dict[str, list[str | None]] = {}
    for finding in report.findings:
        fields.setdefault(finding.code.name, []).append(finding.position.field)
    step = next(step for step in report.steps if step.name == "receipts")
    assert (step.checked, step.failed) == (1, int(bool(fields)))
    assert report.exit_code == bool(fields)
    return fields


def timing(**changes: Any) -> dict[str, Any]:
    body = run_body()
    body["timing"][0].update(changes)
    return body


def samples(*spans: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"start_ns": start, "duration_ns": duration, "count": count} for start, duration, count in spans]


def parity(**changes: Any) -> dict[str, Any]:
    depths = [
        {
            "depth": depth, "rows": 8, "kl_max": "0.02", "kl_mean": "0.0150", "top1_agree": 8, "ties": 1,
            "near_ties": 2, "max_abs_logprob_difference": "0.1",
        }
        for depth in (4, 128, 4096)
    ]  # fmt: skip
    for key, value in changes.items():
        depths[1][key] = value
    record = {
        "reference": {"name": "llama.cpp", "version": "1", "independent": True}, "prompt_sha256": "ab" * 32,
        "vocabulary": 320, "path": "both", "chunk": 64, "processing": "raw", "tie_rule": "lowest-id",
        "near_tie_bound": "0.001", "depths": depths,
    }  # fmt: skip
    return run_body(parity=record)


def load(**changes: int) -> dict[str, Any]:
    return run_body(expert_load={"experts": 896, "distinct": 800, "max_load": 40, "tokens": 512, **changes})


def outputs(value: str, name: str = "run.outputs-decode") -> dict[str, Any]:
    other = {"name": "chunk", "value": "64", "origin": "default"}
    body = run_body(flags=[other, {"name": name, "value": value, "origin": "default"}])
    return {**body, "timing": [*body["timing"], {**body["timing"][0], "observer": "subject"}]}


def unclaimed(body: dict[str, Any]) -> dict[str, Any]:
    """The same, with the controller's clock alone."""
    return {**body, "timing": [one for one in body["timing"] if one["observer"] == "controller"]}


def test_sound_receipts_have_no_findings() -> None:
    assert found(run_body()) == {}
    assert found(parity()) == {}
    assert found(load()) == {}
    assert found(outputs("240 looked at, 6 missed, 6 may")) == {}
    assert found(outputs("3 of 7, 3 may", name="run.rounds-off")) == {}
    assert found(unclaimed(outputs("7 of 7, 3 may", name="run.rounds-off"))) == {}, "no speed is claimed"
    assert found(unclaimed(outputs("240 looked at, 240 missed, 6 may"))) == {}, "nor here"
    assert found(outputs("240 missed", name="outputs-decode")) == {}, "a flag of an engine's own"
    assert found(timing(context=None, context_filled=None)) == {}
    assert found(timing(samples=samples((0, 10, 1), (10, 5, 1)))) == {}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (timing(samples=samples((0, 10, 1), (9, 5, 1))), Code.RECEIPT_CLOCK, "body.timing[0].samples[1]"),
        (timing(samples=samples((500, 10, 1), (0, 5, 1))), Code.RECEIPT_CLOCK, "body.timing[0].samples[1]"),
        (timing(samples=samples((0, 10, 11))), Code.RECEIPT_IMPOSSIBLE, "body.timing[0].samples[0]"),
        (timing(unit="byte", samples=samples((0, 1, 2**53 - 1))), Code.RECEIPT_IMPOSSIBLE, "body.timing[0].samples[0]"),
        (timing(context_filled=129), Code.RECEIPT_COUNTS, "body.timing[0].context_filled"),
        (timing(context_filled=None), Code.RECEIPT_COUNTS, "body.timing[0].context_filled"),
        (timing(context=None), Code.RECEIPT_COUNTS, "body.timing[0].context_filled"),
        (parity(depth=4), Code.RECEIPT_PARITY, "body.parity.depths[1].depth"),
        (parity(depth=4097), Code.RECEIPT_PARITY, "body.parity.depths[2].depth"),
        (parity(top1_agree=9), Code.RECEIPT_COUNTS, "body.parity.depths[1]"),
        (parity(near_ties=8), Code.RECEIPT_COUNTS, "body.parity.depths[1]"),
        (parity(kl_max="-0.1"), Code.RECEIPT_PARITY, "body.parity.depths[1].kl_max"),
        (parity(kl_mean="-0.1"), Code.RECEIPT_PARITY, "body.parity.depths[1].kl_max"),
        (parity(kl_mean="0.0200000000001"), Code.RECEIPT_PARITY, "body.parity.depths[1].kl_mean"),
        (load(distinct=897), Code.RECEIPT_COUNTS, "body.expert_load"),
        (load(max_load=513), Code.RECEIPT_COUNTS, "body.expert_load"),
        (outputs("240 looked at, 240 missed, 6 may"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("240 looked at, 7 missed, 6 may"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("9 looked at, 2 missed, 1 may", "run.outputs-prefill"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("5 looked at, 6 missed, 6 may"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("240 looked at, 240 missed"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("none"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("4 of 7, 3 may", "run.rounds-off"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("4 of 7, 4 may", "run.rounds-off"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("1 of 0, 1 may", "run.rounds-off"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("none", "run.rounds-off"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (outputs("9" * 400 + " looked at, 0 missed, 0 may"), Code.RECEIPT_COUNTS, "body.flags[1]"),
        (load(distinct=12), Code.RECEIPT_COUNTS, "body.expert_load"),
    ],
)
def test_a_receipt_that_contradicts_itself_is_found(body: dict[str, Any], code: Code, field: str) -> None:
    assert found(body) == {code.name: [field]}


SERIES: dict[str, Any] = {
    "metric": "decode", "unit": "token", "actor": "subject", "observer": "controller", "context": 0,
    "context_filled": 0, "batch": 1, "processes": 1, "warmup": 1, "inputs": "fresh", "cache": "none",
    "samples": samples((0, 10, 4), (10, 10, 8)),
}  # fmt: skip
PREFILL = {**SERIES, "metric": "prefill"}
LATER = samples((20, 10, 4), (30, 12, 8))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (SERIES, {}),
        (SERIES, {"samples": LATER}),
        (SERIES, {"warmup": 2}),
        ({**SERIES, "context": 8}, {"context_filled": 4}),
        ({**SERIES, "context": None, "context_filled": None}, {}),
        (PREFILL, {"samples": samples((0, 9, 4))}),
        (PREFILL, {"context": None, "context_filled": None}),
        ({**PREFILL, "context": 5}, {"metric": "prefill-behind-5", "context": 4, "context_filled": 0}),
        ({**SERIES, "actor": "floor"}, {}),
        ({**SERIES, "metric": "load"}, {}),
    ],
)
def test_what_is_scored_as_one_stands_in_one_series(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Whatever the copies differ in, if it does not keep them apart where times are pooled."""
    other = {**SERIES, "metric": "decode", "context": 77, "context_filled": 77}
    body = run_body(timing=[one, other, {**one, **two}, {**one, **two}])
    assert found(body) == {"RECEIPT_CLOCK": ["body.timing[2]", "body.timing[3]"]}
    assert found(run_body(timing=[one, {**one, **two}])) == {"RECEIPT_CLOCK": ["body.timing[1]"]}, "alone"
    for series in (one, {**one, **two}):
        assert found(run_body(timing=[series, other])) == {}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        *((SERIES, {name: value}) for name, value in {
            "metric": "verify", "unit": "entry", "actor": "floor", "observer": "subject", "context": 1, "batch": 2,
            "processes": 2, "inputs": "repeated", "cache": "warm",
        }.items()),
        (SERIES, {"context": None, "context_filled": None}),
        (PREFILL, {"samples": samples((0, 10, 5))}),
        (PREFILL, {"context": 1}),
    ],
)  # fmt: skip
def test_what_is_scored_apart_may_stand_apart(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert found(run_body(timing=[one, {**one, **two}])) == {}


def test_bytes_and_floating_point_operations_do_pass_a_billion_a_second() -> None:
    assert found(timing(unit="byte", samples=samples((0, 10, 4000)))) == {}


@pytest.mark.parametrize("kind", ["run", "failed"])
def test_a_receipt_is_the_bundle_whose_digest_it_gives(kind: str) -> None:
    body = run_body()
    if kind == "failed":
        for field in ("timing", "parity", "memory", "flags", "expert_load", "tee"):
            del body[field]
        body |= {"stage": "load", "reason": "out of memory", "exit_status": -9}
    body["bundle"] = bundle_digest(body, kind)
    for bundle, expected in ((body["bundle"], 0), ("00" * 32, 1)):
        ledger = Builder().open()
        ledger.add(kind, {**body, "bundle": bundle}, RUNNER, seal=False)
        report = check_log(MemorySource(ledger.data, checkpoint=ledger.head()))
        assert report.exit_code == expected
        assert [finding.code for finding in report.findings] == [Code.RECEIPT_BUNDLE] * expected


def test_decimals_are_compared_exactly() -> None:
    assert found(parity(kl_max="0.1", kl_mean="0.10")) == {}
    assert found(parity(kl_max="2", kl_mean="10")) != {}
    assert found(parity(kl_max="0.30000000000000001", kl_mean="0.3000000000000000100001")) != {}


# ------------------------------------------------------------------------------------------------ what can be at all

UNITS = [*MostPerNanosecond._fields[:-1], "tensor"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("duration", [1, 7, 1_000_000])
def test_a_rate_above_what_any_machine_does_was_not_measured(unit: str, duration: int) -> None:
    """The control is one count less: the bound itself is let through, whatever the unit."""
    most = getattr(MOST_PER_NANOSECOND, unit, MOST_PER_NANOSECOND.other)
    at_most = min(duration * most, 2**53 - 2)
    over = {"context": None, "context_filled": None, "unit": unit}
    assert found(timing(**over, samples=samples((0, duration, at_most)))) == {}
    if at_most < duration * most:
        return  # no integer of the format is too many
    assert found(timing(**over, samples=samples((0, duration, at_most + 1)))) == {
        "RECEIPT_IMPOSSIBLE": ["body.timing[0].samples[0]"]
    }


@pytest.mark.parametrize("unit", UNITS)
def test_the_largest_count_in_the_shortest_time_is_refused_in_every_unit(unit: str) -> None:
    body = timing(unit=unit, context=None, context_filled=None, samples=samples((0, 1, 2**53 - 1)))
    assert found(body) == {"RECEIPT_IMPOSSIBLE": ["body.timing[0].samples[0]"]}


def test_every_repetition_is_held_to_the_bound() -> None:
    slow, fast = (0, 1000, 1000), (2000, 1000, 1001)
    body = timing(samples=samples(slow, fast, (4000, 1000, 1000), (6000, 1000, 2000)))
    assert found(body) == {"RECEIPT_IMPOSSIBLE": ["body.timing[0].samples[1]", "body.timing[0].samples[3]"]}


def test_the_finding_says_how_long_it_must_have_taken_at_least() -> None:
    ledger = small_ledger(0)
    body = timing(unit="byte", context=None, context_filled=None, samples=samples((0, 3, 4 * 10**9 + 1)))
    ledger.add("run", body, RUNNER)
    (finding,) = check_log(MemorySource(ledger.data)).findings
    assert (finding.expected, finding.found) == ("duration_ns of at least 5", "3")


def test_the_page_lists_the_bounds_in_force() -> None:
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8").partition("### What no machine does")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([0-9,]+) \|", page, re.MULTILINE)
    shown = {}
    for units, most in rows:
        for unit in re.findall(r"`([a-z]+)`", units) or ["other"]:
            shown[unit] = int(most.replace(",", ""))
    assert shown == MOST_PER_NANOSECOND._asdict()


def named(*names: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "sha256": f"{number:064x}", "size": 1, "media_type": "text/plain"}
        for number, name in enumerate(names)
    ]


def test_each_artifact_of_a_receipt_has_a_name_of_its_own() -> None:
    taken = {"ARTIFACT_NAME_TAKEN": ["body.artifacts[2].name", "body.artifacts[3].name"]}
    missing = {"ARTIFACT_MISSING"}
    body = run_body(0, artifacts=named("a", "b", "a", "b"))
    ledger = small_ledger(0)
    ledger.add("run", body, RUNNER)
    ledger.add("run", run_body(1, artifacts=named("a", "b", "c")), RUNNER)  # another receipt's names are its own
    report = check_log(MemorySource(ledger.data, checkpoint=ledger.head()))
    fields = [f.position.field for f in report.findings if f.code is Code.ARTIFACT_NAME_TAKEN]
    assert fields == taken["ARTIFACT_NAME_TAKEN"]
    assert {code.name for code in report.counts} == set(taken) | missing
    assert report.exit_code == 1
