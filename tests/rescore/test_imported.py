"""Imported runs: which record counts, what is inferred, and what stays absent."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.history.pins import DECODE_64, DECODE_128K, PREFILL_32K
from k3_ledger.rescore.imported import REPOSITORY, read_frontier, read_import
from k3_ledger.rescore.replay import gather_foreign
from k3_ledger.rescore.rescore import Selection, rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import NotScorable, Verdict
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit, parse_log, to_import
from k3_ledger.verify.polaris.logtext import read_log
from tests.rescore.golden import read_rows
from tests.rescore.test_golden_rescore import NINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.material import Material

FIELDS = {
    "receipt.attestation.code.repo": REPOSITORY,
    "receipt.attestation.timestamp_utc": "2026-08-03T18:01:55+00:00",
    "receipt.attestation.verdict.label": "XL",
    "sealed.tps": "41.39",
    "sealed.frontier_tps": "35.63",
    "sealed.kl": "0.0067",
    "sealed.top1": "1.0",
    "sealed.scored_context": "131072",
    "sealed.node": "h200x8",
    "sealed.quant": "UD-IQ1_S",
    "sealed.pct_of_llama": "31.2",
    "ledger.pr": "107",
    "log.main.measuring.commit": "f0e20b3a",
}


def without(*names: str, **more: str) -> dict[str, str]:
    fields = {name: text for name, text in FIELDS.items() if not name.startswith(names)} if names else dict(FIELDS)
    return fields | {name.replace("__", "."): text for name, text in more.items()}


@pytest.mark.parametrize("number", ["107", "#107"])
@pytest.mark.parametrize(
    "moment", ["2026-08-03T18:01:55+00:00", "2026-08-03t18:01:55z", "2026-08-03T20:01:55+02:00", "2026-08-03 18:01:55Z"]
)
def test_a_run_is_the_same_in_every_spelling_that_the_audit_takes_for_the_same(number: str, moment: str) -> None:
    spelled = {"ledger.pr": number, "receipt.attestation.timestamp_utc": moment, "ledger.label": "xl"}
    assert read_import("x", FIELDS | spelled) == read_import("x", FIELDS)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "someday"])
def test_a_moment_that_is_none_in_utc_is_no_moment(moment: str) -> None:
    run = read_import("x", FIELDS | {"receipt.attestation.timestamp_utc": moment})
    assert run is not None
    assert run.at is None


def test_a_run_of_the_history_is_read_with_its_sources() -> None:
    run = read_import("70e6a00a", FIELDS)
    assert run is not None
    assert run.track == DECODE_128K
    assert (run.speed, run.pull_request, run.commit, run.published) == (Fraction("41.39"), 107, "f0e20b3a", "XL")
    assert run.frontier is not None
    assert (run.frontier.source, run.frontier.inferred) == ("sealed.frontier_tps", False)
    assert run.reference is not None
    assert (run.reference.value, run.reference.origin, run.reference.inferred) == (Fraction("18.4435"), "history", True)
    assert run.reference.source == "commit c4598c5; the recorded pct_of_llama agrees"
    assert run.inferred == ("metric",)


def test_the_most_strongly_bound_record_counts() -> None:
    run = read_import("x", without(result__tps="99", ledger__tps="98"))
    assert run is not None
    assert run.speed == Fraction("41.39")
    unsealed = read_import("x", without("sealed.tps", result__tps="99", ledger__tps="98"))
    assert unsealed is not None
    assert unsealed.speed == 99


def test_a_blank_copy_is_no_copy() -> None:
    run = read_import("x", without(sealed__tps="", result__tps="41"))
    assert run is not None
    assert run.speed == 41


def test_what_is_recorded_is_never_inferred() -> None:
    run = read_import("x", without(sealed__tier_anchor_ref="143.88", sealed__scored_metric="prefill"))
    assert run is not None
    assert run.reference is not None
    assert (run.reference.value, run.reference.inferred, run.inferred) == (Fraction("143.88"), False, ())


def test_a_reference_the_record_contradicts_is_not_said_to_agree() -> None:
    for change in ({"sealed__pct_of_llama": "34.5"}, {}):
        fields = without(**change) if change else without("sealed.pct_of_llama")
        run = read_import("x", fields)
        assert run is not None
        assert run.reference is not None
        assert run.reference.source == "commit c4598c5"


def test_the_history_says_nothing_about_another_project() -> None:
    run = read_import("x", without(receipt__attestation__code__repo="somebody/else"))
    assert run is not None
    assert (run.reference, run.track.metric, run.track.model) == (None, "unknown", "-")
    bare = read_import("x", {"ledger.label": "XL"})
    assert bare is not None
    assert (bare.track.context, bare.track.node, bare.parity, bare.speed, bare.at) == (None, "-", None, None, None)


@pytest.mark.parametrize("text", ["yesterday", "2026-08-03T18:01:55"])
def test_a_moment_that_is_none_leaves_the_history_out(text: str) -> None:
    run = read_import("x", without(receipt__attestation__timestamp_utc=text))
    assert run is not None
    assert (run.at, run.reference) == (None, None)


def test_a_moment_before_any_rule_infers_no_metric() -> None:
    run = read_import("x", without("sealed.scored_context", receipt__attestation__timestamp_utc="2026-07-01T00:00:00Z"))
    assert run is not None
    assert (run.track.metric, run.track.context, run.reference) == ("unknown", None, None)


def test_a_figure_that_is_no_number_is_named() -> None:
    with pytest.raises(RescoreError) as caught:
        read_import("70e6a00a", without(sealed__tps="fast"))
    finding = caught.value.finding
    assert (finding.code, finding.position.source, finding.position.field) == (Code.NUMBER, "70e6a00a", "sealed.tps")


def test_a_pull_request_that_is_no_number_is_absent() -> None:
    run = read_import("x", without(ledger__pr="many"))
    assert run is not None
    assert run.pull_request is None


def test_depths_are_read_in_order_and_only_whole_ones() -> None:
    run = read_import(
        "x",
        without(
            result__kl_depths__ctx128__kl="3.8e-05", result__kl_depths__ctx128__top1="1.0",
            result__kl_depths__ctx4__kl="0.0067", result__kl_depths__ctx4__top1="1.0",
            result__kl_depths__ctx8__kl="0.1", result__kl_depths__deep__kl="0.1",
        ),
    )  # fmt: skip
    assert run is not None
    assert run.parity is not None
    assert [depth.tokens for depth in run.parity.depths] == [4, 128]
    assert run.parity.worst_kl() == Fraction("0.0067")


def test_a_guarded_metric_is_held_against_the_pin_of_its_day() -> None:
    fields = without(
        "sealed.scored_context",
        receipt__attestation__timestamp_utc="2026-08-05T09:19:06+00:00",
        sealed__decode_tps="56.81",
    )
    run = read_import("x", fields)
    assert run is not None
    assert run.track == PREFILL_32K
    assert run.guard_pin is not None
    assert (run.guarded, run.guard_pin.value, run.guard_pin.source) == (
        Fraction("56.81"),
        Fraction("56.8"),
        "commit b615cd9",
    )


def test_a_round_that_published_nothing_is_no_run() -> None:
    assert read_import("rounds/x", {"log.main.measuring.commit": "x"}) is None


@pytest.mark.parametrize(
    ("kind", "slot", "track"),
    [
        ("pin-kept", "KIMI_K3_H200X8_IQ1S_SPARKINFER_32K_PP", PREFILL_32K),
        ("pin-moved", "KIMI_K3_H200X8_IQ1S_SPARKINFER_128K", DECODE_128K),
        ("pin-alarm", "KIMI_K3_H200X8_IQ1S_SPARKINFER_128", DECODE_64),
    ],
)
def test_what_the_log_says_of_the_frontier(kind: str, slot: str, track: object) -> None:
    fields = {"log.main.frontier.frontier": "53.13", f"log.main.{kind}.slot": slot, f"log.main.{kind}.pin": "53.02"}
    reading = read_frontier(fields)
    assert reading is not None
    assert (reading.track, reading.value, reading.pin) == (track, Fraction("53.13"), Fraction("53.02"))
    bare = read_frontier({"log.main.frontier.frontier": "53.13", f"log.main.{kind}.slot": slot})
    assert bare is not None
    assert bare.pin is None
    assert read_frontier({f"log.main.{kind}.slot": slot}) is None
    assert read_frontier({"log.main.frontier.frontier": "53.13", f"log.main.{kind}.slot": "other"}) is None


@pytest.fixture(scope="module")
def _material() -> dict[str, Material]:
    return {}


@pytest.fixture
def material(test_data: Callable[..., Path], _material: dict[str, Material]) -> Material:
    """The real log, audited and gathered once."""
    root = test_data("data", "sparkinfer-k3-log")
    if "log" not in _material:
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        _material["log"] = gather_foreign(to_import(parse_log(files), files, audit(files)))
    return _material["log"]


def test_the_real_log_is_read_as_the_golden_rows_have_it(material: Material, test_data: Callable[..., Path]) -> None:
    golden = {row.run.run: row.run for row in read_rows(test_data("data", "rules"))}
    assert len(material.candidates) == 51
    for candidate in material.candidates:
        run, expected = candidate.run, golden[candidate.identity]
        assert (run.speed, run.track, run.published, run.at) == (
            expected.speed, expected.track, expected.published, expected.at,
        )  # fmt: skip
        assert run.frontier.value == expected.frontier.value  # type: ignore[union-attr]
        assert run.reference.value == expected.reference.value  # type: ignore[union-attr]
        assert run.reference.inferred == expected.reference.inferred  # type: ignore[union-attr]


def test_all_51_receipts_of_the_real_log_reproduce(material: Material) -> None:
    report = rescore(material.candidates, "in-force")
    assert (report.count("unchanged"), len(report.rows)) == (51, 51)
    assert [candidate.identity[:8] for candidate in material.candidates if candidate.superseded] == ["446e6eb4"]


def test_v0_2_1_lowers_the_nine_of_the_real_log_and_says_why(material: Material) -> None:
    report = rescore(material.candidates, find_rule("v0.2.1"))
    lower = {row.candidate.identity[:8]: row.why for row in report.rows if row.change == "lower"}
    assert set(lower) == NINE
    assert report.count("higher") == 0
    assert lower["d833ff21"] == "anchor 6.7 % -> cap 5.6 %"
    assert lower["3898c809"] == "cap 26.8 % -> cap 13.4 %"
    assert sum(why.startswith("anchor") for why in lower.values()) == 7
    assert report.reasons == {
        "not scorable: the rule scores decode@131072, the run measured decode@64": 4,
        "not scorable: the rule scores decode@131072, the run measured prefill@32768": 3,
    }


@pytest.mark.parametrize(("pins", "count"), [("own", 10), ("tag", 9)])
def test_v0_2_0_against_v0_2_1_on_the_real_log(material: Material, pins: str, count: int) -> None:
    report = rescore(material.candidates, find_rule("v0.2.1"), pins=pins, against=find_rule("v0.2.0"))  # type: ignore[arg-type]
    assert (report.count("lower"), report.count("higher")) == (count, 0)


def test_a_run_that_would_not_have_been_admitted_has_the_tier_of_its_speed_and_is_named(material: Material) -> None:
    report = rescore(material.candidates, find_rule("v0.2.0"))
    tiers = {row.candidate.identity: row.result.tier for row in report.rows if isinstance(row.result, Verdict)}
    assert all(tiers[identity] == tier for identity, tier, _ in report.not_admitted)
    assert [(identity[:8], said) for identity, _, said in report.not_admitted] == [
        ("87a834ea", "ratchet: kl at depth 2048 is 4.63x the frontier's, more than 2x"),
        ("6be35716", "ratchet: kl at depth 2048 is 4.19x the frontier's, more than 2x"),
        ("8641ae28", "ceiling: decode 56.82/s is above 55.33/s, 3x 18.4435"),
    ]


def test_the_ratchet_is_what_the_rounds_logs_say(material: Material, test_data: Callable[..., Path]) -> None:
    """Every ratio that a log printed follows from the divergences beside it, at the depth it names."""
    root = test_data("data", "sparkinfer-k3-log")
    printed = {}
    for path in sorted(root.glob("runs/*/eval.log")):
        evaluation = read_log(path.read_bytes(), path.name).evaluation_of(path.parent.name)
        for event in evaluation.all("ratio") if evaluation else []:
            printed[path.parent.name] = event.figures
    assert len(printed) == 30
    for candidate in material.candidates:
        run = candidate.run
        if run.run not in printed:
            continue
        figures = printed[run.run]
        assert run.parity is not None
        assert run.frontier_parity is not None
        assert run.frontier_parity.source == "the round's log"
        mine, main = run.parity.kl, run.frontier_parity.kl
        if "depth" in figures:
            tokens = int(figures["depth"].removeprefix("ctx"))
            mine, main = (
                next(depth.kl for depth in parity.depths if depth.tokens == tokens)
                for parity in (run.parity, run.frontier_parity)
            )
        assert mine is not None
        assert main is not None
        # The log divided figures of four decimals where it had no depths.
        allowed = Fraction(1, 200) if "depth" in figures else Fraction(1, 50)
        assert abs(mine / main - Fraction(figures["ratio"])) <= allowed, run.run


def test_the_ratchet_of_the_real_log_is_scored_wherever_a_log_tells_the_frontiers_divergence(
    material: Material,
) -> None:
    rows = rescore(material.candidates, find_rule("v0.2.1")).rows
    gates = [gate for row in rows if isinstance(row.result, Verdict) for gate in row.result.gates]
    counts = Counter((gate.outcome.name, gate.reason) for gate in gates if gate.name == "ratchet")
    assert counts == {("PASS", ""): 36, ("PASS", "drifted"): 6, ("NOT_CHECKED", "no-evidence"): 2}
    said = [step.value for gate in gates for step in gate.steps if step.name == "frontier_kl_source"]
    assert said == ["the round's log"] * 42


def test_every_row_says_what_it_lacks(material: Material) -> None:
    rows = {row.candidate.identity[:8]: row for row in rescore(material.candidates, find_rule("v0.2.1")).rows}
    assert rows["d833ff21"].lacks == ("suite", "clock", "reference (inferred)", "metric (inferred)")
    assert rows["3898c809"].lacks == ("clock", "reference (inferred)", "metric (inferred)")
    assert rows["d15763c3"].lacks == ("scope",)


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(metric="prefill"), 3),
        (Selection(pull_request=115), 2),
        (Selection(pull_request=115, metric="prefill"), 0),
    ],
)
def test_runs_can_be_selected(material: Material, selection: Selection, count: int) -> None:
    assert len(rescore(material.candidates, "in-force", selection=selection).rows) == count


def test_runs_can_be_selected_by_time(material: Material) -> None:
    from k3_ledger.rescore.history.pins import moment

    late = Selection(since=moment("08-05T03:03:59"))
    early = Selection(until=moment("08-05T03:03:58"))
    counts = [len(rescore(material.candidates, "in-force", selection=part).rows) for part in (late, early)]
    assert counts == [4, 47]


def test_results_are_verdicts_or_reasons(material: Material) -> None:
    for row in rescore(material.candidates, find_rule("v0.2.2")).rows:
        assert isinstance(row.result, Verdict | NotScorable)


def test_the_divergence_of_the_frontier_is_that_of_the_rounds_log_and_says_so() -> None:
    fields = {
        "log.main.main-parity.kl": "0.0051", "log.main.main-parity.top1": "1.0",
        "log.main.ctx128.kl": "2e-06", "log.main.ctx128.top1": "1.0",
        "log.main.ctx4.kl": "0.0051", "log.main.ctx4.top1": "0.5",
        "log.main.ctx9.kl": "0.1", "log.main.ctxx.kl": "0.2", "log.main.ctxx.top1": "1",
    }  # fmt: skip
    run = read_import("x", FIELDS | fields)
    assert run is not None
    found = run.frontier_parity
    assert found is not None
    assert [(depth.tokens, depth.kl, depth.top1) for depth in found.depths] == [
        (4, Fraction("0.0051"), Fraction(1, 2)), (128, Fraction("0.000002"), 1),
    ]  # fmt: skip
    assert (found.kl, found.top1, found.source) == (Fraction("0.0051"), 1, "the round's log")
    whole = read_import("x", FIELDS | {"log.main.main-parity.kl": "0.0051"})
    assert whole is not None
    assert whole.frontier_parity is not None
    assert (whole.frontier_parity.depths, whole.frontier_parity.top1) == ((), None)
    silent = read_import("x", FIELDS)
    assert silent is not None
    assert silent.frontier_parity is None


@pytest.mark.parametrize(
    ("logged", "kl"),
    [
        ("0.006694998", "0.006694998"),  # the same figure with all its digits
        ("0.00665", "0.0067"),  # rounds to 0.0066: another one
        ("0.0069", "0.0067"),
        ("", "0.0067"),
    ],
)
def test_a_divergence_is_compared_with_all_its_digits(logged: str, kl: str) -> None:
    run = read_import("x", FIELDS | {"log.parity.kl": logged})
    assert run is not None
    assert run.parity is not None
    assert run.parity.kl == Fraction(kl)
