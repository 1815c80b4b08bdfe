"""Rules that ask for what no receipt holds: reported, and silent only where a receipt exists that they accept."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.lint import receipts
from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.native import read_parity, read_run
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.rescore.rules.score import score
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.models import Series
from k3_ledger.schemas.validate import read_body
from tests.rescore.mutants import CLEAN, changed, only
from tests.rescore.runs import native, verdict
from tests.support import ROOT

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction


@st.composite
def demanding(draw: st.DrawFn) -> Rule:
    """A clean rule that asks for more or less of anything a receipt holds, often on the very edge of what it can."""
    around = st.sampled_from([0, 1, 63, 64, 65, 2**52 - 1, 2**52, 2**53 - 1, 2**53])
    depths = draw(
        st.lists(st.integers(0, 5000), max_size=5)
        | st.sampled_from([63, 64, 65]).map(lambda count: list(range(1, count + 1)))
        | st.lists(around, max_size=3)
    )
    scored = draw(st.sampled_from(["decode", "prefill", "load", "ping", "prefill-behind-64", "prefill-behind-0"]))
    guarded = draw(st.sampled_from(["decode", "prefill", "load"]))
    context = st.none() | st.sampled_from([1, 64, 131_072]) | around
    return changed(
        scope={"metric": scored, "context": draw(context)},
        guard={"metric": guarded, "context": draw(context.filter(lambda value: value is not None))},
        clock={"metrics": ("decode", "prefill")},
        sampling={"repetitions": draw(st.integers(0, 12) | st.sampled_from([450, 512, 513, 1400, 10**6]))},
        correctness={"depths": tuple(depths), "rows": draw(st.integers(1, 64) | around.filter(bool))},
    )


def reported(rule: Rule) -> str | None:
    """What is said of the receipt, and not of the ceiling."""
    said = list(receipts.check_receipt(receipts_context(rule)))
    assert [found.fault for found in said] in ([], [Fault.NOTHING_EARNS])
    return said[0].message if said else None


def receipts_context(rule: Rule) -> Any:
    from k3_ledger.rescore.lint.context import Context
    from k3_ledger.rescore.lint.findings import Settings

    return Context(rule, Settings())


@given(demanding())
def test_silence_means_that_a_receipt_exists_which_passes(rule: Rule) -> None:
    """The least receipt that is asked for is a valid one, and no gate finds anything of it absent or too little."""
    if reported(rule) is None:
        check_it_passes(rule)


@pytest.mark.parametrize("metric", ["decode", "prefill"])
@pytest.mark.parametrize("repetitions", [0, 7, 256])
def test_the_least_receipt_of_a_house_rule_passes(metric: str, repetitions: int) -> None:
    rule = RULES[f"house-7.{metric}"]
    assert rule.sampling is not None
    rule = replace(rule, sampling=replace(rule.sampling, repetitions=repetitions))
    assert reported(rule) is None
    check_it_passes(rule)


def check_it_passes(rule: Rule) -> None:
    body: Any = read_body("run", canonical.format(receipts._body(rule)))
    (measured,) = [
        found
        for found in read_run(body)
        if (found.track.metric, found.track.context) == (rule.scope.metric, rule.scope.context)
    ]
    assert measured.speed is not None
    run = native(str(measured.speed), frontier=str(measured.speed / 2), clock=measured.clock)
    run = replace(
        run, track=measured.track, parity=read_parity(body), samples=measured.samples, filled=measured.filled,
        guarded=None,
    )  # fmt: skip
    result = score(rule, run)
    assert isinstance(result, Verdict)
    gates = {gate.name: gate for gate in result.gates}
    assert gates["sampling"].outcome.value == "pass"
    assert gates["suite"].outcome.value == "pass"
    assert rule.clock is not None
    if rule.scope.metric in rule.clock.metrics:
        assert gates["clock"].reason != "no-evidence"
    assert rule.guard is not None
    assert (rule.guard.metric, rule.guard.context) in {
        (found.track.metric, found.track.context) for found in read_run(body)
    }


@given(demanding())
def test_nothing_is_reported_that_another_writer_of_receipts_manages(rule: Rule) -> None:
    """The example of the documents writes a body of its own; one that holds all that is asked for is no accusation."""
    body = invented(rule)
    if body is None:
        return
    try:
        read: Any = read_body("run", canonical.format(body))
    except LedgerError:
        return
    assert rule.guard is not None
    measured = {(found.track.metric, found.track.context): found for found in read_run(read)}
    mine = measured.get((rule.scope.metric, rule.scope.context))
    if mine is None or (rule.guard.metric, rule.guard.context) not in measured:
        return
    assert reported(rule) is None


def invented(rule: Rule) -> dict[str, Any] | None:
    """The example's body with what a rule asks for; None where it would be too long to write."""
    spec = importlib.util.spec_from_file_location("invented", ROOT / "docs/examples/invented.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert rule.sampling is not None
    assert rule.guard is not None
    many = max(rule.sampling.repetitions, 1)
    if many > 1000 or rule.correctness.rows >= 2**52:
        return None
    body: dict[str, Any] = module.body("candidate", 1.0, 1.0)
    (depth, *_), found = body["parity"]["depths"], sorted(set(rule.correctness.depths))
    rows = {"rows": rule.correctness.rows, "top1_agree": rule.correctness.rows}
    body["parity"] = {**body["parity"], "depths": [{**depth, **rows, "depth": at} for at in found]} if found else None
    body["timing"] = []
    for metric, context in {
        (rule.scope.metric, rule.scope.context): None, (rule.guard.metric, rule.guard.context): None,
    }:  # fmt: skip
        behind = metric.startswith("prefill-behind-")
        prefills = metric == "prefill" or behind
        count = (context or 0) if prefills else 1
        front = int(metric.rpartition("-")[2]) if behind else 0 if prefills else context
        name = "prefill" if prefills else metric
        for observer, lengths in (("subject", (count,)), ("controller", (count, count + 2048))):
            rows = [(length, length * 1e-9) for length in lengths]
            body["timing"].append(module.series(name, observer, front, rows * many))
    body["bundle"] = "0" * 64
    return body


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"sampling": {"repetitions": 10**6}}, "1000000 repetitions of a length are asked for, and a whole entry has"),
        ({"sampling": {"repetitions": 600}}, "bytes, at most 65428 are allowed"),
        ({"sampling": {"repetitions": 257}}, "timing[1].samples: expected a list of at most 512"),
        ({"correctness": {"depths": (0, 4096)}}, "parity.depths[0].depth: expected at least 1, found 0"),
        ({"correctness": {"depths": tuple(range(1, 66))}}, "parity.depths: expected a list of at most 64"),
        ({"correctness": {"rows": 2**53 - 1}}, "artifacts[0].size: integer outside ±(2^53-1)"),
        ({"scope": {"context": 2**53}}, "timing[0].context: integer outside ±(2^53-1)"),
        ({"guard": {"metric": "ping"}}, "guard is ping at 32768, which no receipt measures"),
        (
            {"scope": {"metric": "prefill", "context": None}, "ceiling": {"metrics": ("prefill",)}},
            "scope is prefill at no context, which no receipt",
        ),
    ],
)
def test_what_is_in_the_way_is_named_in_the_words_of_the_schema(parts: dict[str, Any], says: str) -> None:
    assert says in only(changed(**parts), Fault.NOTHING_EARNS).message


def test_what_one_clock_saw_of_one_metric_is_written_in_one_series() -> None:
    """So many repetitions as one series holds can be there, and no more: two of one thing are refused."""
    (bound,) = [each for each in Series.model_fields["samples"].metadata if hasattr(each, "max_length")]
    most = bound.max_length // 2  # two lengths
    for count in (1, 40, most, most + 1):
        rule = changed(sampling={"repetitions": count})
        timing = receipts._body(rule)["timing"]
        assert len({(one["metric"], one["observer"]) for one in timing}) == len(timing) == 4
        assert (reported(rule) is None) == (count <= most)


@pytest.mark.parametrize("name", RULES)
def test_every_registered_rule_has_a_receipt(name: str) -> None:
    assert reported(RULES[name]) is None


@pytest.mark.parametrize(("count", "lucky"), [(2, True), (3, False), (4, False), (5, False), (6, False), (7, False)])
def test_two_repetitions_show_a_jitter_that_is_small_by_luck(count: int, lucky: bool) -> None:
    for arithmetic in ("measured-gain/1", "measured-gain/7"):
        rule = replace(changed(sampling={"repetitions": count}), arithmetic=arithmetic)
        assert (Fault.JITTER_BY_LUCK in lint(rule).faults) == lucky
    if lucky:
        assert "in 19.0 % of all cases" in only(changed(sampling={"repetitions": 2}), Fault.JITTER_BY_LUCK).message


# What is recorded and never compared.


@given(
    st.sampled_from(sorted(RULES)),
    st.integers(0, 40),
    st.integers(0, 40),
    st.fractions(min_value=0, max_value=F(1, 10), max_denominator=10**6),
    st.fractions(min_value=50, max_value=70, max_denominator=10**6),
)
def test_no_verdict_rests_on_the_decimals_that_a_figure_is_recorded_in(
    name: str, percent: int, kl: int, nats: Fraction, speed: Fraction
) -> None:
    rule = RULES[name]
    made = native(str(speed), metric=rule.scope.metric, reference="18", parity=None)
    base = native().parity
    assert base is not None
    made = replace(
        made,
        parity=replace(base, kl=nats, depths=tuple(replace(depth, kl=nats) for depth in base.depths)),
        frontier_parity=None,
        track=replace(made.track, metric=rule.scope.metric, context=rule.scope.context),
        frontier=Figure(F(50), "receipt"),
    )
    other = replace(rule, precision=replace(rule.precision, percent=percent, kl=kl))
    one, two = score(rule, made), score(other, made)
    assert isinstance(one, Verdict)
    assert isinstance(two, Verdict)
    assert replace(two, rule_sha256=one.rule_sha256) == one
    assert lint(other).faults == lint(rule).faults


def test_a_divergence_beyond_the_bar_is_refused_whatever_the_record_would_show() -> None:
    base = native().parity
    assert base is not None
    for kl, tier in (("0.05004", "REJECT"), ("0.05", "XL")):
        parity = replace(base, kl=F(kl))
        assert verdict("v0.1.0", native(reference="18", parity=parity)).tier == tier


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"kl": 3}, "precision.kl is 3, and a bar of 0.0005 has more decimals"),
        ({"kl": 4}, None),
        ({"percent": 0}, "precision.percent is 0, and a bar of 3.5 has more decimals"),
        ({"percent": 40}, None),
    ],
)
def test_a_record_that_cannot_show_a_bar_is_noted(parts: dict[str, int], says: str | None) -> None:
    report = lint(changed(precision=parts))
    assert [found.message.partition(":")[0] for found in report.findings] == ([] if says is None else [says])
    assert report.exit_code == 0
    assert lint(CLEAN).findings == ()
