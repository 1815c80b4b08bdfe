"""Every field of a result that names its figures by what was run: what it is held against, or why it is not.

As in ``test_partners.py``, the tables are whole and each row is tried.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log, modes
from tests.verify.polaris.test_partners import leaves, put, told

if TYPE_CHECKING:
    from tests.verify.polaris.make_log import Draft

CONTROLLER = "what the controller says of itself; no other record has it"
MAIN = "main's own speed without the change's way of decoding; nothing follows from it"
NOTHING: Final[dict[str, dict[str, str]]] = {
    "result": {
        "accuracy_ok": CONTROLLER,
        "scored_dimension": CONTROLLER,
        "main_ar_tps": MAIN,
        "dflash_ctx.4096.pr_dflash_tps": "main has no speed there, so nothing follows from it",
        "dflash_ctx.4096.main_dflash_tps": "where main has none, no gain is stated",
        "prefill_delta_pct": "where no speed is stated, nothing follows",
        "dflash_ctx.4096.delta_pct": "where main has none, nothing follows",
    },
    "attestation": {
        "code.repo": CONTROLLER,
        "environment.clock_mhz": CONTROLLER,
        "environment.cuda_version": CONTROLLER,
        "environment.decode_tokens": CONTROLLER,
        "environment.driver_version": CONTROLLER,
        "environment.gpu_name": CONTROLLER,
        "code.build_hash": "between runs alone",
        "code.scoring_scripts_commit": "between runs, where a neighbour or the round shows another",
        "references.eval_seed": "the nonce binds it, in a receipt that is sealed as documented",
        "references.llamacpp_commit": "the results of these modes have none",
    },
    "index": {},
}
"""Fields that are held against nothing when a log is written, where a mode has them, and why."""
HELD: Final = {("dflash", "main_ar_tps"), ("qwen", "prefill_delta_pct")}
"""Of these one mode has the partner that the other has not."""


def changed(name: str, kind: str, path: tuple[str, ...], *, run: int = 0) -> Draft:
    log = modes.draft(name)
    record = getattr(log.runs[run], kind)
    value: Any = record
    for key in path:
        value = value[key]
    if value is None or value == 0:
        put_at(record, path, 7.5)
    else:
        put(record, path)
    return log


def put_at(record: Any, path: tuple[str, ...], value: object) -> None:
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


@pytest.mark.parametrize("kind", NOTHING)
@pytest.mark.parametrize("name", modes.MODES)
def test_every_field_of_a_mode_is_held_against_its_partner_or_has_none(name: str, kind: str) -> None:
    whole, unnoticed, there = told(make_log.build(modes.draft(name))), set(), set()
    for path, value in leaves(getattr(modes.draft(name).runs[0], kind)):
        shown = ".".join(path)
        there.add(shown)
        if kind == "attestation" and value is None and shown.startswith("verdict."):
            continue  # blank in the one record that has it
        files = make_log.build(changed(name, kind, path))
        if told(files) <= whole:
            unnoticed.add(shown)
    assert unnoticed == {field for field in NOTHING[kind].keys() & there if (name, field) not in HELD}


@pytest.mark.parametrize("name", modes.MODES)
def test_a_mode_that_is_whole_has_no_error_and_no_other_words(name: str) -> None:
    report = audit(make_log.build(modes.draft(name)))
    assert {finding.code.name for finding in report.findings} <= {
        "FOREIGN_RESULT_REWRITTEN",
        "FOREIGN_MISSING_FOR_RESCORE",
        "FOREIGN_FILE_MISSING",
    }
    lacking = {finding.message.partition("no record has ")[2] for finding in report.findings}
    assert not any("speed, " in text.replace("reference speed, ", "") for text in lacking if name != "dflash")
    assert report.failed == 0


@pytest.mark.parametrize("run", [0, 2], ids=["sealed", "no receipt"])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        *((name, field) for name in ("glimmer", "qwen", "dspark") for field in ("pr_decode_tps", "pr_kl", "pr_top1")),
        ("dspark", "pr_dspark_tps"),
        ("dflash", "pr_dflash_tps"),
    ],
)
def test_a_figure_is_held_against_the_one_that_the_attestation_has_by_another_name(
    name: str, field: str, run: int
) -> None:
    errors = {
        f.message
        for f in audit(make_log.build(changed(name, "result", (field,), run=run))).findings
        if f.code.name == "FOREIGN_CONTRADICTION"
    }
    assert any(f"result {field}" in message for message in errors)


def test_the_speed_at_the_one_context_is_the_one_that_was_scored() -> None:
    log = modes.draft("glimmer")
    run = log.runs[0]
    assert run.result is not None
    run.attestation["verdict"]["tps"] = None
    run.attestation["measurements"]["primary"]["ctx_128_tps"] = 7.5
    run.sealed = json.dumps(run.attestation["measurements"]["primary"])
    errors = [f.message for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_CONTRADICTION"]
    assert any("ctx_128_tps" in message and "result pr_decode_tps" in message for message in errors)


def other_mode(log: Draft) -> None:
    for run in log.runs:
        assert run.result is not None
        assert run.index is not None
        for record in (run.result, run.index, run.attestation["environment"]):
            record["eval_mode"] = "another-256"


@pytest.mark.parametrize("name", ["glimmer", "dspark", "dflash"])
def test_in_a_mode_of_which_nothing_is_known_the_same_names_are_other_figures(name: str) -> None:
    """The control: there the speed of decode may be another figure than the one that was scored."""
    log = modes.draft(name)
    other_mode(log)
    for run in log.runs:
        run.attestation["verdict"]["tps"] = 1.5
    assert not [f for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_CONTRADICTION"]


@pytest.mark.parametrize("where", ["result", "index", "attestation"])
def test_the_mode_counts_that_any_record_states(where: str) -> None:
    log = modes.draft("glimmer")
    other_mode(log)
    record: Any = getattr(log.runs[0], where)
    (record["environment"] if where == "attestation" else record)["eval_mode"] = "museglimmer-128"
    assert log.runs[0].result is not None
    log.runs[0].result["pr_kl"] = 0.5
    errors = [f.message for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_CONTRADICTION"]
    assert any("kl is " in message and "result pr_kl" in message for message in errors)


@pytest.mark.parametrize("name", ["", "glimmer", "qwen"])
def test_the_gain_is_one_figure_by_both_of_its_names(name: str) -> None:
    log = modes.draft(name) if name else make_log.sibling_draft()
    before = told(make_log.build(log))
    for run in log.runs:
        for record in (run.result, run.index):
            assert record is not None
            record["delta_pct"] = round(3 * record["delta_pct"] + 1, 1)
    added = {message for code, message in told(make_log.build(log)) - before if code == "FOREIGN_CONTRADICTION"}
    assert len([message for message in added if "pct_over_frontier is" in message]) >= len(log.runs)


# -- figures that follow from figures beside them ---------------------------------------------------------------------

SHOWN = [
    # mode, field, value, whether it is wrong
    ("qwen", "prefill_delta_pct", -0.2, False),  # of -0.2526, cut off
    ("qwen", "prefill_delta_pct", -0.3, False),  # rounded
    ("qwen", "prefill_delta_pct", -0.1, True),
    ("qwen", "prefill_delta_pct", -0.4, True),
    ("qwen", "prefill16k_delta_pct", 3.2, False),
    ("qwen", "prefill16k_delta_pct", 3.1, True),
    ("qwen", "prefill16k_delta_pct", 3.3, True),
    ("qwen", "decode16k_delta_pct", -0.4, False),
    ("qwen", "decode16k_delta_pct", -0.5, False),
    ("qwen", "decode16k_delta_pct", 0.4, True),
    ("qwen", "decode16k_delta_pct", 0.0, True),
    ("dspark", "speedup_vs_main", 0, False),  # refused: there is no figure
    ("dspark", "speedup_vs_main", 1.0, True),
    ("glimmer", "speedup_vs_main", 0, True),
    ("dspark", "dspark_vs_ar", 1.18, False),
    ("dspark", "dspark_vs_ar", 1.181, True),
    ("dflash", "speedup_vs_ar", 2.9, True),
    ("dflash", "delta_pct", None, False),
]


@pytest.mark.parametrize(("name", "field", "value", "wrong"), SHOWN)
def test_a_figure_of_a_result_follows_from_those_beside_it(
    name: str, field: str, value: float | None, wrong: bool
) -> None:
    log = modes.draft(name)
    for record in (log.runs[0].result, log.runs[0].attestation["measurements"].get("dflash", {})):
        if record is not None and field in record:
            record[field] = value
    found = [f.message for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_DERIVED"]
    assert bool(found) is wrong
    assert all(field in message for message in found)


def test_of_one_mode_the_speedup_may_be_that_of_another_dimension() -> None:
    log = modes.draft("qwen")
    before = told(make_log.build(log))
    for run in log.runs:
        assert run.result is not None
        run.result["speedup_vs_main"] = 1.9
    assert told(make_log.build(log)) == before


def test_gains_and_speeds_that_cannot_be_figures_are_not_recomputed() -> None:
    for name, fields in (("dflash", ("main_dflash_tps", "pr_ar_tps")), ("glimmer", ("pr_decode_tps",))):
        log = modes.draft(name)
        for field in fields:
            for run in log.runs:
                assert run.result is not None
                run.result[field] = "none"
        assert not [f for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_DERIVED"]


# -- the time that was saved ------------------------------------------------------------------------------------------


def saved(change: dict[str, Any]) -> Draft:
    log = copy.deepcopy(make_log.draft())
    for record in (log.runs[1].result, log.runs[1].attestation["verdict"]):
        assert record is not None
        record |= {"pct_over_frontier": change["pct_over_frontier"]}
    assert log.runs[1].result is not None
    log.runs[1].result |= change | {"effective_pct": change["pct_over_frontier"]}
    return log


TTFT = {"prefill_ttft_s": 0.386, "prefill_frontier_ttft_s": 0.401}
READINGS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"pct_over_frontier": 20.0}, ""),  # 12.6 over 10.5
    ({"pct_over_frontier": 16.7}, "FOREIGN_TWO_MEANINGS"),  # of the time, 2.1 of 12.6 parts
    ({"pct_over_frontier": 15.0}, "FOREIGN_DERIVED"),
    ({"pct_over_frontier": -16.7}, "FOREIGN_DERIVED"),
    ({"pct_over_frontier": 3.7}, "FOREIGN_DERIVED"),
    ({"pct_over_frontier": 3.7} | TTFT, "FOREIGN_TWO_MEANINGS"),
    ({"pct_over_frontier": 5.0} | TTFT, "FOREIGN_DERIVED"),
    ({"pct_over_frontier": 20.0} | TTFT, ""),
]


@pytest.mark.parametrize(("change", "code"), READINGS)
def test_a_gain_may_be_that_of_the_time(change: dict[str, Any], code: str) -> None:
    report = audit(make_log.build(saved(change)))
    found = [f for f in report.findings if f.code.name in ("FOREIGN_TWO_MEANINGS", "FOREIGN_DERIVED")]
    assert {f.code.name for f in found} == ({code} if code else set())
    honest = audit(make_log.build(saved({"pct_over_frontier": 20.0})))
    assert report.derived == honest.derived
    assert all("100 (" in f.message for f in found if f.code.name == "FOREIGN_TWO_MEANINGS")


@pytest.mark.parametrize(("shown", "wrong"), [(3.2, False), (3.3, False), (3.1, True), (3.4, True)])
def test_a_gain_may_be_cut_off_behind_its_last_digit(shown: float, wrong: bool) -> None:
    log = modes.draft("qwen")
    assert log.runs[0].result is not None
    log.runs[0].result |= {"pr_prefill16k_pp": 13806.5, "prefill16k_delta_pct": shown}  # 3.289 %
    assert any(f.code.name == "FOREIGN_DERIVED" for f in audit(make_log.build(log)).findings) is wrong
