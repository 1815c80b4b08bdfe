"""Every field and every figure of the formats: what it is held against, or why it is not.

The tables are whole, and each row is tried: what is said to be held against something is changed in an otherwise honest
log, before it is sealed, and has to be found; what is said to have no partner has to pass. So neither a new field of a
format nor a comparison that is lost goes by unseen.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.hashes import Record
from k3_ledger.verify.polaris.logtext import LINES
from tests.verify.polaris import make_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.verify.polaris.cases import Files
    from tests.verify.polaris.make_log import Draft

SLOT = make_log.SLOT
MAIN, FAILED = make_log.commit(103)[:8], make_log.commit(500)[:8]


def talkative() -> Draft:
    """A log with a line of every kind."""
    log = make_log.draft()
    first, third = log.runs[0].log, log.runs[2].log
    assert first is not None
    assert third is not None
    first[-1:-1] = [f"#15: evaluating {make_log.commit(77)[:8]} on made-up-node …", "#15: eval failed — no result"]
    pinned = next(at for at, line in enumerate(third) if line.startswith(">> frontier"))
    third[pinned + 1 : pinned + 1] = [
        ">> bench/reference.lock updated on main — eval-label.yml will re-derive against 12.6",
    ]
    third[pinned:pinned] = [f"!! {SLOT} pinned 10.5 but main measures 12.6 — the pin was stale by 20.0%."]
    third[1:1] = ["    ctx4: top1=1.000000 kl=0.004000000", "  ctx128: top1=1.000000 kl=0.000010000"]
    third[0:0] = ["#99: skip — claimed decode 9.0 does not beat the pinned 10.5 frontier (-14.3%) by the gate"]
    evaluated = next(at for at, line in enumerate(third) if line.startswith("#13: evaluating"))
    third[evaluated + 1 : evaluated + 1] = ["   harness overrides from the controller: CEILING=5.0"]
    third[-1:-1] = [
        ">> #12: cleared stale tier (eval:xl) — measured against an old frontier",
        "!! #13: accuracy regression — blocks the automatic merge",
        ">> #13: 13.0 tok/s does not beat the 12.6 tok/s frontier — not a merge candidate",
        ">> merge-first: #13 (13.0 tok/s)",
        ">> #13: merged (admin) — round's largest verified gain",
    ]
    (lines,) = log.rounds.values()
    lines += [
        f"main: frontier = 5.0 tok/s @ {FAILED}",
        f"!! main measured 5.0 tok/s but {SLOT} pins 10.0 — main is 50.0% slower than its own frontier.",
        "frontier measurement failed after retries — no compiler",
    ]
    return log


def another(text: str) -> str:
    """Another value of the same kind."""
    if re.fullmatch(r"[0-9]+", text):
        return str(int(text) + 3)
    if re.fullmatch(r"-?[0-9]+\.[0-9]+", text):
        return f"{float(text) * 1.37 + 0.5:.{len(text.partition('.')[2])}f}"
    if re.fullmatch(r"[0-9a-f]{7,40}", text):
        return ("f" if text[0] != "f" else "e") + text[1:]
    return "xs" if text in ("s", "xl") else "s" if text == "xs" else "ctx9" if text.startswith("ctx") else f"{text}x"


def told(files: Files) -> set[tuple[str, str]]:
    return {(finding.code.name, finding.message) for finding in audit(files).findings}


WHOSE = "it says whose line this is, and a line that is somebody else's says nothing here"
SLOTS = "it names a row of the lock, which is not in the log; of one name, pins are held against one another"
ALONE: Final[dict[tuple[str, str], str]] = {
    ("pin-kept", "slot"): SLOTS,
    ("pin-stale", "slot"): SLOTS,
    ("pin-alarm", "slot"): SLOTS,
    ("claimed", "pr"): "a pull request that was skipped has no record",
    ("rebased", "pr"): WHOSE,
    ("rebased", "before"): "the commit before a rebase is in no record",
    ("depth", "depth"): "a depth that only one of two places has is no contradiction",
    ("ratio", "depth"): "a depth that only one of two places has is no contradiction",
    ("timing", "metric"): "a log may time several; that none is the scored one is CLOCK-WRONG-METRIC",
    ("timing", "context"): "a clock may be read at another context than the one that is scored",
    **{(kind, "pr"): WHOSE for kind in ("parity", "publishing", "figures", "ratio", "regression", "cleared", "tier")},
    **{(kind, "pr"): WHOSE for kind in ("no-gain", "merge-first", "merged")},
}
"""Figures of log lines that are held against nothing, and why."""
RECORDS: Final = {("result", "json"), ("attestation", "json")}
"""JSON that a log prints: a record of its own, whose fields are among those below."""


def edits() -> Iterator[tuple[tuple[str, str], Files]]:
    """The talkative log with one figure of one line changed, for every one of them."""
    files = make_log.build(talkative())
    for path, data in files.items():
        lines = data.decode().split("\n") if path.endswith(".log") else []
        for number, line in enumerate(lines):
            kind, match = next(((k, m) for k, p in LINES.items() if (m := p.match(line))), ("", None))
            for name, text in {} if match is None else match.groupdict().items():
                if text is not None:
                    assert match is not None
                    start, end = match.span(name)
                    changed = [*lines[:number], line[:start] + another(text) + line[end:], *lines[number + 1 :]]
                    yield (kind, name), files | {path: "\n".join(changed).encode()}


def test_every_figure_of_a_log_line_is_held_against_its_partner_or_has_none() -> None:
    whole = told(make_log.build(talkative()))
    assert {name for name, _ in whole} == {
        "FOREIGN_FAILURE_UNRECORDED",
        "FOREIGN_OVERRIDE_UNRECORDED",
        "FOREIGN_REGRESSION_PUBLISHED",
    }
    found: dict[tuple[str, str], bool] = {}
    for name, files in edits():
        found[name] = found.get(name, False) or not told(files) <= whole
    assert set(found) == {(kind, name) for kind, pattern in LINES.items() for name in pattern.groupindex} - RECORDS
    assert {name for name, noticed in found.items() if not noticed} == set(ALONE)


CONTROLLER = "what the controller says of itself; no other record has it"
NOT_ALONE: Final[dict[str, dict[str, str]]] = {
    "result": {
        "layers": "no other record has it, but for the decode_tokens that it was once taken for",
        "rule_version": CONTROLLER,
        "speed_source": "how the speed was had; of wall_clock_differential it has to be the clock's",
        "tier_basis": "how the tier was had; of llama_anchored the credit has to be that share",
    },
    "attestation": {
        "code.repo": CONTROLLER,
        "environment.clock_mhz": CONTROLLER,
        "environment.cuda_version": CONTROLLER,
        "environment.decode_tokens": CONTROLLER,
        "environment.driver_version": CONTROLLER,
        "environment.eval_mode": CONTROLLER,
        "environment.gpu_name": CONTROLLER,
        "measurements.primary.guard_128_pass": "from which ratio on a guard passes is a rule's to say",
        "references.eval_seed": "the nonce binds it, in a receipt that is sealed as documented",
    },
    "row": {},
    "index": {},
}
"""Fields of an honest log's records that are held against nothing when it is written, and why."""
ADVANCE_ALONE: Final = {
    "author": "nothing else names whoever wrote the change",
    "commit": "the commit of the merge, which no run was measured at: in the public log, none of ten is the run's",
}
CHANGED: Final[dict[str, Any]] = {"kl_bar": 0.0001, "top1_bar": 1.8, "date": "2026-07-01"}
"""Values that contradict something, where another value would not."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def put(record: Any, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        record = record[key]
    old = record[path[-1]]
    if path[-1] in CHANGED:
        record[path[-1]] = CHANGED[path[-1]]
    elif isinstance(old, str):
        record[path[-1]] = old.replace("2026-08", "2026-07") if old.startswith("2026") else another(old)
    else:
        record[path[-1]] = not old if isinstance(old, bool) else old + 3 if isinstance(old, int) else old * 1.37 + 0.5


@pytest.mark.parametrize("form", ["tdx", "ed25519"])
@pytest.mark.parametrize("kind", NOT_ALONE)
def test_every_field_of_a_record_is_held_against_its_partner_or_has_none(kind: str, form: str) -> None:
    def draft() -> Draft:
        log = make_log.draft()
        for run in log.runs:
            run.form = form
        return log

    whole, unnoticed = told(make_log.build(draft())), set()
    for path, _ in leaves(getattr(draft().runs[1], kind)):
        log = draft()
        put(getattr(log.runs[1], kind), path)
        if told(make_log.build(log)) <= whole:
            unnoticed.add(".".join(path))
    assert unnoticed == set(NOT_ALONE[kind])


def test_every_field_of_an_advance_is_held_against_its_proof_or_has_no_partner() -> None:
    whole, unnoticed = told(make_log.build(make_log.sibling_draft())), set()
    for path, _ in leaves(make_log.sibling_draft().advances[0]):
        log = make_log.sibling_draft()
        put(log.advances[0], path)
        if told(make_log.build(log)) <= whole:
            unnoticed.add(".".join(path))
    assert unnoticed == set(ADVANCE_ALONE)


@pytest.mark.parametrize("change", [{"date": "2026-08-05"}, {"commit": "deadbeefd"}])
def test_an_advance_may_be_dated_later_than_its_proof_and_has_a_commit_of_its_own(change: dict[str, Any]) -> None:
    log = make_log.sibling_draft()
    log.advances[1] |= change
    assert told(make_log.build(log)) == told(make_log.build(make_log.sibling_draft()))


@pytest.mark.parametrize(("date", "wrong"), [("2026-08-02", False), ("2026-08-01", True), ("2026-07-31", True)])
def test_an_advance_may_have_the_day_of_another_place(date: str, wrong: bool) -> None:
    log = make_log.sibling_draft()
    for run in log.runs:  # then the moment in the attestation is all there is, and it is one in UTC
        for record in (run.result, run.index):
            assert record is not None
            del record["date"]
    del log.advances[0]
    before = told(make_log.build(log))
    log.advances[0]["date"] = date
    added = {message for _, message in told(make_log.build(log)) - before}
    assert bool(added) is wrong
    assert all("its proof 2026-08-02" in message for message in added)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_an_advance_is_held_against_the_first_and_the_last_day_there_is(moment: str) -> None:
    log = make_log.sibling_draft()
    for run in log.runs:
        for record in (run.result, run.index):
            assert record is not None
            del record["date"]
        run.attestation["timestamp_utc"] = moment
    found = {message for _, message in told(make_log.build(log))}
    assert any("the advance is dated" in message for message in found) is moment.startswith("9999")


# -- a run against itself ---------------------------------------------------------------------------------------------

HONEST = "no finding"
CONTRADICTS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"clock_tps": 1.0}, "clock_tps is 1.0"),
    ({"clock_tps": 900.0}, "clock_tps is 900.0"),
    ({"decode_tps": 1.0}, "scored_metric is decode, tps is 12.6 and decode_tps 1.0"),
    ({"kl_bar": 0.0001}, "pass is true, kl is 0.004 and its bar 0.0001"),
    ({"top1_bar": 1.8}, "pass is true, top1 is 1.0 and its bar 1.8"),
    ({"frontier_commit": "e" * 40}, "frontier_commit is eeee"),
    ({"tier_anchor_ref": 99.0}, "tier_anchor_ref is 99.0"),
    ({"kl_bar": 0.004}, HONEST),
    ({"top1_bar": 1.0}, HONEST),
    ({"kl_bar": None}, HONEST),
    ({"kl_bar": "none"}, HONEST),
    ({"decode_tps": 12.6004}, HONEST),
    ({"decode_tps": None}, HONEST),
    ({"frontier_commit": make_log.commit(102)[:9].upper()}, HONEST),
]


@pytest.mark.parametrize(("change", "told_as"), CONTRADICTS, ids=lambda value: str(value)[:40])
def test_a_result_is_held_against_itself_and_against_the_log(change: dict[str, Any], told_as: str) -> None:
    log = make_log.draft()
    assert log.runs[1].result is not None
    log.runs[1].result |= change
    errors = {f.message for f in audit(make_log.build(log)).findings if f.severity.value == "error"}
    assert bool(errors) is (told_as != HONEST)
    assert all(any(told_as in message for message in errors) for _ in errors)


def without_clock_lines(log: Draft) -> Draft:
    for run in log.runs:
        assert run.log is not None
        run.log = [line for line in run.log if "wall-clock" not in line]
    return log


@pytest.mark.parametrize(
    ("source", "clock", "wrong"),
    [
        ("wall_clock_differential", 12.6, False),
        ("wall_clock_differential", 1.0, True),
        ("wall_clock_differential", 13.0, True),
        ("self_report_wall_clock_bounded", 13.0, False),
        ("self_report_wall_clock_bounded", 10.0, False),  # by how much a claim may beat the clock is a rule's
    ],
)
def test_a_speed_that_is_the_clocks_is_its_reading(source: str, clock: float, wrong: bool) -> None:
    log = without_clock_lines(make_log.draft())
    assert log.runs[1].result is not None
    log.runs[1].result |= {"speed_source": source, "clock_tps": clock}
    assert any(name == "FOREIGN_CONTRADICTION" for name, _ in told(make_log.build(log))) is wrong


def test_prefill_has_another_speed_than_decode_and_a_run_that_fails_may_be_beyond_a_bar() -> None:
    for change in ({"scored_metric": "prefill", "decode_tps": 1.0}, {"scored_metric": None, "decode_tps": 1.0}):
        log = make_log.draft()
        for run in log.runs:
            assert run.result is not None
            run.result |= copy.deepcopy(change)
        assert not [m for name, m in told(make_log.build(log)) if "CONTRADICTION" in name]
    log = make_log.draft()
    for record in (log.runs[1].result, log.runs[1].attestation["verdict"]):
        assert record is not None
        record["pass"] = False
    assert log.runs[1].result is not None
    log.runs[1].result |= {"kl_bar": 0.0001, "top1_bar": 1.8}
    assert not [m for name, m in told(make_log.build(log)) if "CONTRADICTION" in name]


# -- main -------------------------------------------------------------------------------------------------------------


def test_of_two_clocks_in_one_evaluation_neither_is_taken_for_the_record() -> None:
    log = make_log.draft()
    assert log.runs[1].log is not None
    at = next(at for at, line in enumerate(log.runs[1].log) if "wall-clock bound" in line)
    log.runs[1].log[at:at] = [">> wall-clock bound: 99.0 tok/s over 2048 marginal tokens"]
    assert told(make_log.build(log)) == set()


@pytest.mark.parametrize("said", [True, False])
def test_main_that_moves_while_it_is_measured_is_measured_anew(said: bool) -> None:
    log = make_log.draft()
    assert log.runs[1].log is not None
    if not said:
        log.runs[1].log = [line for line in log.runs[1].log if not line.startswith("main: frontier")]
    old = make_log.commit(4711)[:8]
    log.runs[1].log[0:0] = [
        f"main: measuring the frontier at {old} on made-up-node …",
        f"main: frontier = 3.0 tok/s @ {old}",
    ]
    assert told(make_log.build(log)) == set()


def test_a_ratio_at_a_depth_that_main_does_not_show_is_not_held_against_its_worst() -> None:
    log = make_log.draft()
    run = log.runs[1]
    assert run.log is not None
    run.log = [line.replace("at ctx4 (", "at ctx128 (") for line in run.log]
    run.log = [
        line.replace("KLD 0.004000000 vs main 0.004000000", "KLD 0.000020000 vs main 0.000020000") for line in run.log
    ]
    assert told(make_log.build(log)) == set()
    run.log[1:1] = ["  ctx128: top1=1.000000 kl=0.000030000", "    ctx4: top1=1.000000 kl=0.004000000"]
    (found,) = told(make_log.build(log))
    assert found == (
        "FOREIGN_CONTRADICTION",
        "pull request 12: it is compared with 0.000020000, on main 0.000030000 was measured",
    )


def test_what_a_log_does_not_say_is_held_against_nothing() -> None:
    log = make_log.draft()
    first, second = log.runs[0].log, log.runs[1].log
    assert first is not None
    assert second is not None
    log.runs[0].log = [line.replace(" over 2 depths", "") for line in first]
    log.runs[1].log = [
        line.replace(" at ctx4 (worst of 2 depths)", "") for line in second if not line.startswith("#12: accuracy")
    ]
    assert told(make_log.build(log)) == set()


def test_a_figure_of_a_log_text_that_no_record_has_is_listed_as_bound_by_nothing() -> None:
    def unbound(log: Draft) -> dict[str, list[tuple[str, int]]]:
        rows = [row for row in audit(make_log.build(log)).fields if row.record is Record.LOG and not row.bound]
        return {row.path: [(standing.name, count) for standing, count in row.standings] for row in rows}

    log = make_log.draft()
    assert log.runs[0].result is not None
    del log.runs[0].result["frontier_commit"]
    assert unbound(make_log.draft())["frontier commit"] == [("CONFIRMED", 3)]
    assert unbound(log)["frontier commit"] == [("ALONE", 1), ("CONFIRMED", 2)]
