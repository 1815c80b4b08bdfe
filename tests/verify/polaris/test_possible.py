"""Values that cannot be are findings of the record in which they stand, whether or not any other record says otherwise.

What honest logs have is tried beside each: a speed of zero where nothing was measured, a loss, a tier without a pass
of a model that was not scored.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log


def impossible(files: dict[str, bytes]) -> list[str]:
    """Messages of values that cannot be."""
    report = audit(files)
    found = [finding for finding in report.findings if finding.code is Code.FOREIGN_IMPOSSIBLE]
    assert not found or report.exit_code is ExitCode.FALSE
    return [finding.message for finding in found]


def lone(**record: object) -> list[str]:
    """What is found in one result that no other record carries."""
    return impossible({"runs/r/result.json": json.dumps({"run_id": "r", **record}).encode()})


FIGURES: Final = [
    # name, values that cannot be, values that can
    ("top1", [1.0001, 2, 97, -0.01, "1.5", "NaN"], [0, 0.0, 1, 1.0, 0.97, "0.97", None, "", "n/a", True]),
    ("pr_top1", [1.2, -1], [0.5]),
    ("guard_top1_bar", [1.2], [0.9]),
    ("tps", [-1, -0.001, "-3.5", "nan", "inf", "-Infinity"], [0, 0.0, 1e9, "12.5", "fast", None]),
    ("pr_decode_tps", [-1], [0]),
    ("frontier_tps", [-1], [0]),
    ("frontier", [-1], [0]),
    ("main_prefill128_pp", [-1], [0]),
    ("guard_4k_baseline", [-1], [0]),
    ("decode", [-1], [1]),
    ("ms_per_token", [-1, "nan"], [0, 5.5]),
    ("prefill_ttft_s", [-1], [0]),
    ("delta_tps", [], [-1, -1735.03]),
    ("prefill_delta_tps", [], [-1]),
    ("pct_over_frontier", [], [-10, -100]),
    ("speed_gain_tps", [], [-1]),
    ("gain_pp", [], [-1]),
    ("kl", [], [0, 99.0]),
    *(
        (f"{word}_{name}", [], [-0.01])
        for word in (
            "delta",
            "drop",
            "reg",
            "regression",
            "margin",
            "rel",
            "err",
            "residual",
            "lift",
            "over",
            "vs_main",
        )
        for name in ("top1", "tps", "ttft_s", "prefill_pp", "frontier")
    ),
    ("notes", [], ["102/88 = 1.16", "SPEEDUP 102/88 = 1.16", "45/50 = 9"]),
    ("agree", ["45/50 = 91.0", "45/50 = 9"], ["45/50 = 90", "45/50 = 90.0"]),
    ("spec_agree", ["METRIC SPEC_AGREE 33/32 = 1.0312", "METRIC SPEC_AGREE 30/32 = 1.0000"], []),
    ("agree", ["5/4 = 1.25", "3/4 = 0.74", "3/4 = .", "1/0 = 1"], ["3/4 = 0.75", "2/3 = 0.66", "2/3 = 0.67"]),
    ("agree", [], ["0/0 = 0", "4/3", "5/4 of all", "METRIC SPEC_AGREE 32/32 = 1.0000", "12/5"]),
]


@pytest.mark.parametrize(("name", "wrong", "right"), FIGURES)
def test_a_figure_is_what_its_name_admits(name: str, wrong: list[object], right: list[object]) -> None:
    for value in wrong:
        (message,) = lone(**{name: value})
        assert f"r: result: {name} is {value}, which cannot be" in message
    for value in right:
        assert lone(**{name: value}) == []


def test_a_figure_that_is_not_finite_is_one_already() -> None:
    for text in ("NaN", "Infinity", "-Infinity"):
        report = audit({"runs/r/result.json": f'{{"run_id": "r", "tps": {text}}}'.encode()})
        assert Code.JSON_NOT_A_NUMBER in {finding.code for finding in report.findings}


VERDICTS: Final[list[tuple[dict[str, Any], int]]] = [
    ({"label": "REJECT", "pass": True}, 1),
    ({"label": "reject", "pass": True}, 1),
    ({"label": "REJECT", "pass": False}, 0),
    *(({"label": tier, "pass": False}, 1) for tier in ("XS", "S", "M", "L", "XL", "xl")),
    *(({"label": tier, "pass": True}, 0) for tier in ("XS", "S", "M", "L", "XL", "none", "BASELINE", "ok")),
    *(({"label": tier, "pass": False}, 0) for tier in ("none", "BASELINE", "infra-error", "")),
    ({"label": "XL", "pass": "false"}, 0),
    ({"label": "XL", "pass": None}, 0),
    ({"label": None, "pass": False}, 0),
    ({"label": 3, "pass": False}, 0),
    ({"pass": False}, 0),
    ({"label": "XL", "tps": 0}, 1),
    ({"label": "XS", "tps": "0"}, 1),
    ({"label": "XL", "tps": 0, "pass": False}, 2),
    *(({"label": tier, "tps": 0}, 0) for tier in ("REJECT", "BASELINE", "none", "infra-error")),
    ({"label": "XL", "tps": "fast"}, 0),
    ({"label": "XL", "tps": 1, "ctx_128_tps": 0}, 0),
]


@pytest.mark.parametrize(("verdict", "count"), VERDICTS)
def test_a_verdict_does_not_contradict_itself(verdict: dict[str, Any], count: int) -> None:
    assert len(lone(**verdict)) == count
    rows = {name: json.dumps([{"id": "r", **verdict}]).encode() for name in ("index.json",)}
    assert len(impossible(rows)) == count
    assert len(impossible({"runs/r/attestation.json": json.dumps({"verdict": verdict}).encode()})) == count
    assert len(impossible({"runs/r/receipt.json": json.dumps({"attestation": {"verdict": verdict}}).encode()})) == count


def test_of_a_model_that_was_not_scored_a_tier_may_not_pass() -> None:
    assert lone(label="XL", score_other={"label": "M", "pass": False, "tps": 3}) == []
    assert len(lone(label="XL", score_other={"label": "REJECT", "pass": True, "tps": 3})) == 1
    assert len(lone(label="XL", score_other={"label": "M", "pass": True, "tps": 0})) == 1


def test_every_record_is_looked_at_advances_and_log_lines_too() -> None:
    log = make_log.sibling_draft()
    assert impossible(make_log.build(log)) == []
    log.advances[1]["new_frontier"] = -1
    assert any(
        "frontier advance in line 2: new_frontier is -1" in message for message in impossible(make_log.build(log))
    )


def test_a_log_line_is_looked_at() -> None:
    log = make_log.draft()
    run = log.runs[0]
    assert run.log is not None
    whole = run.log
    assert impossible(make_log.build(log)) == []
    run.log = [line.replace("worst top1=1.0", "worst top1=1.9") for line in whole]
    assert any("parity line: top1 is 1.9" in message for message in impossible(make_log.build(log)))
    run.log = [line.replace(": tps=", ": tps=-") for line in whole]
    assert any("figures line: tps is -" in message for message in impossible(make_log.build(log)))


def test_all_that_the_enclave_printed_is_looked_at() -> None:
    log = make_log.draft()
    run = log.runs[0]
    run.sealed = f"{json.dumps({'top1': 1.5})}\n{json.dumps((run.result or {}) | {'kl': -1, 'tps': -2})}"
    found = impossible(make_log.build(log))
    assert any("another object of the sealed output: top1 is 1.5" in message for message in found)
    assert any("sealed output: tps is -2" in message for message in found)
    assert len(found) == 2
