"""One case per kind of trouble: how a log came to have it, and the codes that an audit then reports, and no others.

A case changes the draft before it is sealed (an honest digest over a wrong record) or the files afterwards (a
tampered record). The name says what was done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.verify.polaris import make_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verify.polaris.make_log import Draft

Files = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """What was done, and the exact set of codes it should give."""

    name: str
    codes: frozenset[str]
    before: Callable[[Draft], None] | None = None
    after: Callable[[Files], None] | None = None
    start: Callable[[], Draft] = make_log.draft

    def files(self) -> Files:
        """The log of this case."""
        log = self.start()
        if self.before is not None:
            self.before(log)
        files = make_log.build(log)
        if self.after is not None:
            self.after(files)
        return files


CASES: list[Case] = []


def before(*codes: str, start: Callable[[], Draft] = make_log.draft) -> Callable[[Callable[[Draft], None]], None]:
    """Register a change of the draft."""

    def register(change: Callable[[Draft], None]) -> None:
        CASES.append(Case(change.__name__, frozenset(codes), before=change, start=start))

    return register


def after(*codes: str, start: Callable[[], Draft] = make_log.draft) -> Callable[[Callable[[Files], None]], None]:
    """Register a change of the files."""

    def register(change: Callable[[Files], None]) -> None:
        CASES.append(Case(change.__name__, frozenset(codes), after=change, start=start))

    return register


def path_of(files: Files, number: int, name: str) -> str:
    """Path of a file of the run with this number."""
    day = f"2026-08-0{number}T".encode()
    folder = next(p.rpartition("/")[0] for p in files if p.endswith("/receipt.json") and day in files[p])
    return f"{folder}/{name}"


def edit(files: Files, path: str, change: Callable[[Any], None]) -> None:
    """Change a JSON file after it was sealed."""
    value = json.loads(files[path])
    change(value)
    files[path] = make_log.dump(value)


def receipt(files: Files, number: int, change: Callable[[Any], None]) -> None:
    """Change a receipt after it was sealed."""
    edit(files, path_of(files, number, "receipt.json"), change)


def rows(files: Files, change: Callable[[list[Any]], None]) -> None:
    """Change the ledger's lines."""
    lines = [json.loads(line) for line in files["ledger.jsonl"].splitlines()]
    change(lines)
    files["ledger.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def swap(log: list[str], old: str, new: str) -> list[str]:
    """A log with a piece of text replaced; it has to be there."""
    assert any(old in line for line in log), old
    return [line.replace(old, new) for line in log]


def of_one_round(*runs: make_log.RunDraft) -> None:
    """Let every run be scored against the frontier of the first one's round."""
    for run in runs:
        assert run.result is not None
        run.result["frontier_commit"] = make_log.commit(runs[0].number + 100)


# -- digests ----------------------------------------------------------------------------------------------------------


@after("FOREIGN_HASH")
def receipt_id_that_is_no_digest(files: Files) -> None:
    def change(value: Any) -> None:
        value["receipt_id"] = "0" * 32

    receipt(files, 3, change)
    edit(files, path_of(files, 3, "result.json"), change)
    old = path_of(files, 3, "")
    for path in [path for path in files if path.startswith(old)]:
        data = files.pop(path).replace(old[5:-1].encode(), b"0" * 32).replace(old[5:17].encode(), b"0" * 12)
        files[path.replace(old, f"runs/{'0' * 32}/")] = data
    for name in ("ledger.jsonl", "index.json"):
        files[name] = files[name].replace(old[5:-1].encode(), b"0" * 32)


@after("FOREIGN_HASH", "FOREIGN_SEALED_VERDICT")
def sealed_output_that_was_replaced(files: Files) -> None:
    def change(value: Any) -> None:
        value["tdx"]["stdout_b64"] = make_log.b64(b'{"label": "REJECT"}\n')

    receipt(files, 1, change)


@after("FOREIGN_HASH")
def workload_that_was_replaced(files: Files) -> None:
    receipt(files, 1, lambda value: value["tdx"].update(workload_sha256="sha256:" + make_log.sha("rm -rf")))


@after("FOREIGN_HASH")
def scorer_that_was_replaced(files: Files) -> None:
    receipt(files, 1, lambda value: value["_expected"].update(scoring_sha256=make_log.sha("another scorer")))


@after("FOREIGN_HASH", "FOREIGN_ATTESTATION_UNBOUND")
def nonce_that_was_replaced(files: Files) -> None:
    receipt(files, 1, lambda value: value["tdx"].update(e2e_pubkey_b64="AAAA"))


@after("FOREIGN_HASH")
def image_that_was_replaced(files: Files) -> None:
    for number in (1, 2, 3):
        receipt(files, number, lambda value: value["tdx"].update(bound_digest="sha256:" + make_log.sha("other image")))


@after("FOREIGN_HASH", "FOREIGN_CONTRADICTION", "FOREIGN_SEALED_VERDICT", "FOREIGN_TIER")
def result_that_was_edited_after_sealing(files: Files) -> None:
    edit(files, path_of(files, 2, "result.json"), lambda value: value.update(label="M"))


@before("FOREIGN_QUOTE", "FOREIGN_ATTESTATION_UNBOUND")
def quote_of_another_version(log: Draft) -> None:
    log.runs[0].tdx["quote_b64"] = make_log.b64((3).to_bytes(2, "little") + make_log.quote(1, bytes(64))[2:])


@after("FOREIGN_QUOTE_PADDING")
def bytes_hidden_behind_a_quote(files: Files) -> None:
    def change(value: Any) -> None:
        value["tdx"]["quote_b64"] = make_log.b64(make_log.base64.b64decode(value["tdx"]["quote_b64"]) + b"hello")

    receipt(files, 1, change)


@after("FOREIGN_SHAPE", "FOREIGN_CHAIN_BROKEN", "FOREIGN_ATTESTATION_UNBOUND")
def receipt_stripped_of_its_quote(files: Files) -> None:
    receipt(files, 1, lambda value: (value["tdx"].pop("quote_b64"), value.pop("receipt_id"), None)[-1])


@after("FOREIGN_SHAPE")
def receipt_with_neither_quote_nor_signature(files: Files) -> None:
    def change(value: Any) -> None:
        del value["tdx"]
        value["attestation_type"] = "none"

    receipt(files, 1, change)
    rows(files, lambda lines: lines[0].update(attestation_type="none"))
    edit(files, "index.json", lambda lines: lines[-1].update(attestation_type="none"))


@before("FOREIGN_ENCLAVE_FAILED")
def enclave_that_printed_a_traceback(log: Draft) -> None:
    log.runs[0].sealed = "TypeError: float() argument must be a string"


@before("FOREIGN_NONCE_UNBOUND", "FOREIGN_ATTESTATION_UNBOUND")
def random_nonce(log: Draft) -> None:
    log.runs[0].tdx["nonce"] = "00112233445566778899aabbccddeeff"


@before("FOREIGN_NONCE_UNBOUND", "FOREIGN_ATTESTATION_UNBOUND")
def nonce_of_the_right_length_and_of_something_else(log: Draft) -> None:
    log.runs[0].tdx["nonce"] = make_log.sha("something else")


@before("FOREIGN_NONCE_UNBOUND", "FOREIGN_ATTESTATION_UNBOUND", "FOREIGN_SAME_RECEIPT")
def nonce_of_another_run(log: Draft) -> None:
    log.runs[1].tdx["nonce"] = make_log.seal_tdx(log.runs[0])["tdx"]["nonce"]


@before("FOREIGN_VERIFICATION_ASSERTED")
def receipt_that_vouches_for_itself(log: Draft) -> None:
    log.runs[0].tdx["verification"] = {"intel_verified": True}


@before("FOREIGN_VERIFICATION_DENIED")
def receipt_that_says_it_was_not_verified(log: Draft) -> None:
    log.runs[0].tdx["verification"] = {"intel_verified": False, "status": None}


@after("FOREIGN_VERSION")
def receipt_of_a_version_to_come(files: Files) -> None:
    receipt(files, 1, lambda value: value.update(polaris_version=2))


@after("FOREIGN_CHAIN_INDEX")
def place_in_the_chain_that_the_links_do_not_have(files: Files) -> None:
    receipt(files, 2, lambda value: value["chain"].update(chain_index=5))


@before("FOREIGN_ADDED_AFTER_SEALING")
def depths_added_after_sealing(log: Draft) -> None:
    run = log.runs[0]
    assert run.result is not None
    run.late["kl_depths"] = run.result.pop("kl_depths")


@before("FOREIGN_CHAIN_UNLINKED")
def receipts_that_were_never_linked(log: Draft) -> None:
    log.linked = False


@after("FOREIGN_CHAIN_BROKEN")
def link_to_a_receipt_that_is_gone(files: Files) -> None:
    receipt(files, 2, lambda value: value["chain"].update(prev_receipt_hash="0" * 64))


# -- the seal against what was published ------------------------------------------------------------------------------


@before("FOREIGN_SEALED_VERDICT")
def enclave_that_rejects_what_was_published(log: Draft) -> None:
    log.runs[0].output.update(label="REJECT", **{"pass": False})


@before("FOREIGN_SEALED_BARS")
def enclave_that_judges_by_other_bars(log: Draft) -> None:
    log.runs[0].output["reason"] = "gate: top1=1.0 (need >= 0.9), kl=0.004 (need <= 0.2)."


@before("FOREIGN_RESULT_REWRITTEN")
def result_rewritten_after_the_measurements_were_sealed(log: Draft) -> None:
    log.runs[0].form = "measurements"


# -- records against one another --------------------------------------------------------------------------------------


@after("FOREIGN_CONTRADICTION")
def speed_edited_in_a_ledger_line(files: Files) -> None:
    rows(files, lambda lines: lines[1].update(tps=21.6))


@after("FOREIGN_CONTRADICTION")
def speed_edited_in_an_attestation(files: Files) -> None:
    receipt(files, 2, lambda value: value["attestation"]["verdict"].update(tps=999.0))


@after("FOREIGN_CONTRADICTION")
def type_of_attestation_edited_in_the_index(files: Files) -> None:
    edit(files, "index.json", lambda lines: lines[0].update(attestation_type="none"))


@after("FOREIGN_CONTRADICTION")
def pull_request_edited_in_the_index(files: Files) -> None:
    edit(files, "index.json", lambda lines: lines[0].update(pr=14))


@before("FOREIGN_CONTRADICTION", "FOREIGN_SEALED_VERDICT")
def pass_that_is_no_boolean_in_one_record(log: Draft) -> None:
    log.runs[0].attestation["verdict"]["pass"] = "yes"


@after("FOREIGN_CONTRADICTION")
def attestation_beside_the_receipt_that_differs(files: Files) -> None:
    for number in (1, 2, 3):
        body = json.loads(files[path_of(files, number, "receipt.json")])["attestation"]
        if number == 2:
            body["environment"]["gpu_name"] = "another accelerator"
        files[path_of(files, number, "attestation.json")] = make_log.dump(body)


@before("FOREIGN_COMMIT")
def short_commit_of_other_code(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result["commit"] = "abcdef0"


@before("FOREIGN_DERIVED")
def gain_that_does_not_follow(log: Draft) -> None:
    for record in (log.runs[0].result, log.runs[0].attestation["verdict"]):
        assert record is not None
        record["delta_tps"] = 0.8


@before("FOREIGN_DERIVED")
def guard_ratio_that_does_not_follow(log: Draft) -> None:
    log.runs[0].attestation["measurements"]["primary"]["guard_128_ratio"] = 1.2


@before("FOREIGN_DERIVED")
def share_of_the_reference_that_does_not_follow(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result["pct_of_llama"] = 50.0


@before("FOREIGN_DERIVED", "FOREIGN_CONTRADICTION")
def worst_depth_that_is_not_the_worst(log: Draft) -> None:
    run = log.runs[0]
    assert run.result is not None
    assert run.log is not None
    run.result["kl_depths"]["ctx128"]["kl"] = 0.02
    run.log = swap(run.log, "kl=0.000010000", "kl=0.020000000")


@before("FOREIGN_PRECISION_LOST")
def figure_rounded_on_the_way_into_the_ledger(log: Draft) -> None:
    run = log.runs[0]
    assert run.result is not None
    for record in (run.result, run.attestation["measurements"]["primary"], run.result["kl_depths"]["ctx4"]):
        record["kl"] = 0.004001


@before("FOREIGN_PRECISION_FEIGNED")
def rounded_figure_printed_in_full(log: Draft) -> None:
    run = log.runs[0]
    assert run.log is not None
    assert run.result is not None
    run.log = [
        line.replace("0.004000000", "0.004050001") if "KLD" not in line else line.replace("0.004000000", "0.0041000")
        for line in run.log
    ]
    run.log = swap(run.log, "kl=0.004", "kl=0.004050001")
    run.log = swap(run.log, "0.004050001050001", "0.004050001")
    for record in (run.result, run.attestation["measurements"]["primary"], run.result["kl_depths"]["ctx4"]):
        record["kl"] = 0.004050001
    for row in (run.row, run.index):
        assert row is not None
        row["kl"] = 0.004050001


@before("FOREIGN_CONTRADICTION")
def other_figure_in_the_ratio_line(log: Draft) -> None:
    run = log.runs[0]
    assert run.log is not None
    run.log = swap(run.log, "KLD 0.004000000 vs main 0.004000000", "KLD 0.002000000 vs main 0.002000000")


@before("FOREIGN_BLANK_COPY")
def field_left_blank_in_one_record(log: Draft) -> None:
    log.runs[0].attestation["verdict"]["score_context"] = None


@before("FOREIGN_IMPOSSIBLE")
def part_of_more_than_the_whole(log: Draft) -> None:
    for run in log.runs:
        assert run.result is not None
        run.result["agreement"] = "32/32 = 1.0"
    log.runs[0].result = (log.runs[0].result or {}) | {"agreement": "33/32 = 1.0312"}


# -- listings ---------------------------------------------------------------------------------------------------------


@after("FOREIGN_UNLISTED")
def run_left_out_of_the_ledger(files: Files) -> None:
    rows(files, lambda lines: lines.pop(1))


@after("FOREIGN_ROW_WITHOUT_RUN")
def run_that_is_only_listed(files: Files) -> None:
    row = {"run_id": "gone", "timestamp_utc": "2026-08-09T12:00:00Z", "label": "S"}
    edit(files, "index.json", lambda lines: lines.insert(0, row))
    rows(files, lambda lines: lines.append(row))


@after("FOREIGN_ROW_REPEATED")
def run_listed_twice(files: Files) -> None:
    rows(files, lambda lines: lines.append(lines[-1]))


@after("FOREIGN_FILE_MISSING")
def log_text_that_was_not_published(files: Files) -> None:
    del files[path_of(files, 1, "eval.log")]


@after("FOREIGN_RECEIPT_GONE", "FOREIGN_FILE_MISSING", "FOREIGN_MISSING_FOR_RESCORE")
def receipt_that_was_not_published(files: Files) -> None:
    del files[path_of(files, 3, "receipt.json")]


@after("FOREIGN_INDEX_ORDER")
def index_in_another_order(files: Files) -> None:
    edit(files, "index.json", lambda lines: lines.insert(0, lines.pop(1)))


@after("FOREIGN_TIME_ORDER", "FOREIGN_INDEX_ORDER")
def ledger_in_another_order(files: Files) -> None:
    rows(files, lambda lines: lines.insert(0, lines.pop(1)))


@before("FOREIGN_TIME_COLLATERAL")
def time_before_the_collateral_was_issued(log: Draft) -> None:
    run = log.runs[0]
    run.tdx["collateral_b64"] = make_log.collateral(5)


@after("FOREIGN_FIELD_ABSENT", "FOREIGN_ROW_WITHOUT_RUN")
def row_without_a_field_that_others_have(files: Files) -> None:
    def change(lines: list[Any]) -> None:
        more = ({"run_id": f"gone-{n:02}", "timestamp_utc": "2026-08-09T12:00:00Z", "seen_by": "me"} for n in range(20))
        for line in lines:
            line["seen_by"] = "me"
        del lines[1]["seen_by"]
        lines += more

    del files["index.json"]
    rows(files, change)


@after("FOREIGN_EDITED_IN_PLACE")
def row_marked_as_superseded_later(files: Files) -> None:
    def change(lines: list[Any]) -> None:
        lines[0].update(superseded_by=lines[2]["run_id"], superseded_reason="stale build")

    rows(files, change)


@after("FOREIGN_EDITED_IN_PLACE", "FOREIGN_SUPERSEDED_BY_OLDER")
def row_superseded_by_an_older_run(files: Files) -> None:
    rows(files, lambda lines: lines[2].update(superseded_by=lines[0]["run_id"]))


@after("FOREIGN_EDITED_IN_PLACE", "FOREIGN_ROW_WITHOUT_RUN")
def row_superseded_by_a_run_that_is_not_there(files: Files) -> None:
    rows(files, lambda lines: lines[2].update(superseded_reason="stale build"))


# -- log texts --------------------------------------------------------------------------------------------------------


@before("FOREIGN_TIER")
def other_tier_applied_in_the_log(log: Draft) -> None:
    assert log.runs[0].log is not None
    log.runs[0].log = swap(log.runs[0].log, "eval:s", "eval:none")


@before("FOREIGN_TIER_HISTORY")
def tier_changed_outside_the_ledger(log: Draft) -> None:
    assert log.runs[1].log is not None
    log.runs[1].log.insert(-1, ">> #11: cleared stale tier (eval:xs) — measured against an old frontier")


@before("FOREIGN_REGRESSION_PUBLISHED")
def regression_that_was_published_as_a_pass(log: Draft) -> None:
    assert log.runs[0].log is not None
    log.runs[0].log.insert(-1, "!! #11: accuracy regression — blocks the automatic merge")


@before("FOREIGN_MERGED_WITHOUT_GAIN", "FOREIGN_PIN_GAP")
def loss_merged_as_a_gain(log: Draft) -> None:
    run = make_log.run_draft(2, 12, 10.0, 10.5, "none", 10.5)
    assert run.log is not None
    run.log.insert(-1, ">> #12: merged (admin) — round's largest verified gain")
    log.runs[1] = run


@before("FOREIGN_MERGED_WITHOUT_GAIN")
def no_gain_at_all_merged_as_one(log: Draft) -> None:
    run = make_log.run_draft(2, 12, 10.5, 10.5, "none", 10.0)
    assert run.log is not None
    run.log.insert(-1, ">> #12: merged (admin) — round's largest verified gain")
    log.runs[1] = run
    log.runs[2] = make_log.run_draft(3, 13, 13.0, 12.6, "XS", 10.5)


@after("FOREIGN_LOG_SILENT")
def log_of_another_run(files: Files) -> None:
    path = path_of(files, 2, "eval.log")
    files[path] = files[path].replace(b"published runs/", b"considered runs/").replace(b"1 sealed", b"0 sealed")


@after("FOREIGN_LOG_COUNT")
def log_that_counts_other_runs(files: Files) -> None:
    path = path_of(files, 2, "eval.log")
    files[path] = files[path].replace(b"1 sealed", b"2 sealed")


@after("FOREIGN_ROW_WITHOUT_RUN", "FOREIGN_LOG_COUNT")
def run_published_by_a_log_only(files: Files) -> None:
    files[path_of(files, 2, "eval.log")] += b">> #99: published runs/0123456789abcdef to made-up/log\n"


@before("FOREIGN_LOG_SHARED")
def one_log_for_two_runs(log: Draft) -> None:
    first, second = log.runs[0], make_log.run_draft(2, 12, 12.6, 10.0, "XL", 10.0)
    assert first.log is not None
    assert second.log is not None
    both = [line.replace("{id", "{id1") for line in first.log[:-1]]
    both += [line.replace("{id", "{id2") for line in second.log[4:-1]]
    first.log = second.log = [*both, "done — 2 evaluated, 2 sealed to the log"]
    of_one_round(first, second)
    log.runs[1:] = [second, make_log.run_draft(3, 13, 13.0, 12.6, "XS", 10.0)]


@before("FOREIGN_FAILURE_UNRECORDED")
def failures_that_no_ledger_line_tells(log: Draft) -> None:
    short = make_log.commit(77)[:8]
    assert log.runs[0].log is not None
    log.runs[0].log[-1:-1] = [f"#15: evaluating {short} on made-up-node …", "#15: eval failed — no result"]
    log.rounds["0123456789ab"] = [
        "main: measuring the frontier at 01234567 on made-up-node …",
        "frontier measurement failed after retries — no nvcc on PATH",
        f"!! main measured 5.0 tok/s but {make_log.SLOT} pins 10.0 — main is 50.0% slower than its own frontier.",
    ]


@before("FOREIGN_FAILURE_UNRECORDED", "FOREIGN_REFUSED_THEN_PUBLISHED")
def commit_refused_and_later_published(log: Draft) -> None:
    short = make_log.commit(3)[:8]
    assert log.runs[0].log is not None
    log.runs[0].log[-1:-1] = [f"#13: evaluating {short} on made-up-node …", "#13: eval failed — over the ceiling"]


@before("FOREIGN_OVERRIDE_UNRECORDED")
def settings_that_no_record_tells(log: Draft) -> None:
    assert log.runs[0].log is not None
    log.runs[0].log.insert(9, "   harness overrides from the controller: CEILING=5.0")


@before("FOREIGN_PIN_GAP", "FOREIGN_CONTRADICTION")
def pin_moved_between_two_logs(log: Draft) -> None:
    assert log.runs[2].log is not None
    log.runs[2].log = swap(log.runs[2].log, f"{make_log.SLOT} 10.5 -> 12.6", f"{make_log.SLOT} 11.0 -> 12.5")


@before("FOREIGN_DERIVED")
def stale_pin_with_a_wrong_percentage(log: Draft) -> None:
    assert log.runs[2].log is not None
    log.runs[2].log.insert(3, f"!! {make_log.SLOT} pinned 10.5 but main measures 12.6 — the pin was stale by 10.0%.")


@before("FOREIGN_COMMIT")
def round_named_by_another_commit(log: Draft) -> None:
    (lines,) = log.rounds.values()
    log.rounds = {"0" * 12: lines}


# -- meanings ---------------------------------------------------------------------------------------------------------


@before("FOREIGN_TWO_MEANINGS")
def prefill_under_the_name_of_decode(log: Draft) -> None:
    assert log.runs[0].result is not None
    assert log.runs[0].log is not None
    log.runs[0].result.update(scored_metric="prefill", speed_source="self_report")


@before("FOREIGN_TWO_MEANINGS", "FOREIGN_MISSING_FOR_RESCORE")
def parity_of_an_unstated_depth(log: Draft) -> None:
    assert log.runs[0].result is not None
    assert log.runs[0].log is not None
    del log.runs[0].result["kl_depths"]
    log.runs[0].log = [line for line in log.runs[0].log if not line.lstrip().startswith("ctx")]


@before("FOREIGN_TWO_MEANINGS")
def gain_under_the_name_of_a_share(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result["pct_of_llama"] = 3.1


@before("FOREIGN_TWO_MEANINGS")
def credit_of_another_kind(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result["effective_pct"] = 10.0


@before("FOREIGN_TWO_MEANINGS", "FOREIGN_TIER_BASIS")
def credit_that_contradicts_its_basis(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result.update(effective_pct=3.9, tier_basis="llama_anchored")


@before("FOREIGN_FIELD_MISFILLED")
def fields_filled_with_something_else(log: Draft) -> None:
    log.runs[0].attestation["environment"]["decode_tokens"] = 93
    log.runs[0].attestation["references"]["model_file"] = "hello.spkl"


@before("FOREIGN_GUARD_UNMEASURED")
def guard_that_passed_unmeasured(log: Draft) -> None:
    log.runs[0].attestation["measurements"]["primary"].update(guard_512_pass=True, guard_512_ratio=None)


@before("FOREIGN_TWO_MEANINGS", "FOREIGN_CLOCK_WRONG_METRIC")
def prefill_bounded_by_a_decode_clock(log: Draft) -> None:
    assert log.runs[0].result is not None
    log.runs[0].result["scored_metric"] = "prefill"


@before("FOREIGN_CLOCK_UNPUBLISHED", "FOREIGN_MISSING_FOR_RESCORE", "FOREIGN_SCORER_COMMIT")
def clock_reading_that_was_not_published(log: Draft) -> None:
    assert log.runs[0].result is not None
    assert log.runs[0].log is not None
    del log.runs[0].result["clock_tps"]
    log.runs[0].log = [line for line in log.runs[0].log if "wall-clock" not in line]


@before("FOREIGN_MISSING_FOR_RESCORE", "FOREIGN_SCORER_COMMIT")
def reference_speed_that_no_record_has(log: Draft) -> None:
    assert log.runs[0].result is not None
    del log.runs[0].result["tier_anchor_ref"]


# -- runs against one another -----------------------------------------------------------------------------------------


@before("FOREIGN_SAME_COMMIT", "FOREIGN_BUILD_DIFFERS", "FOREIGN_ID_REPEATED")
def commit_measured_twice(log: Draft) -> None:
    run, first = log.runs[1], make_log.commit(1)
    assert run.log is not None
    run.log = swap(run.log, make_log.commit(2)[:8], first[:8])
    run.attestation["code"]["commit"] = first
    for record, text in ((run.result, first[:7]), (run.row, first), (run.index, first)):
        assert record is not None
        record["commit"] = text


@before("FOREIGN_BUILD_SHARED")
def build_shared_by_two_commits(log: Draft) -> None:
    for run in log.runs[:2]:
        run.attestation["code"]["build_hash"] = make_log.sha("one build")
        assert run.result is not None
        run.result["build_hash"] = make_log.sha("one build")


@before("FOREIGN_WEIGHTS_CHANGED")
def weights_that_changed_under_one_digest(log: Draft) -> None:
    assert log.runs[2].result is not None
    log.runs[2].result["model_fingerprint"] = "fedcba9876543210"


@before("FOREIGN_EVIDENCE_REPEATED")
def evidence_copied_from_another_run(log: Draft) -> None:
    run = log.runs[1]
    assert run.result is not None
    assert run.log is not None
    run.result["kl_depths"]["ctx128"]["kl"] = 0.00001
    run.log = swap(run.log, "kl=0.000020000", "kl=0.000010000")


@before("FOREIGN_BOUND_DIGEST")
def enclave_image_that_changed(log: Draft) -> None:
    log.runs[2].tdx["bound_digest"] = "sha256:" + make_log.sha("another image")


@before("FOREIGN_ENCLAVE_CHANGED")
def enclave_measured_differently(log: Draft) -> None:
    run = log.runs[2]
    data = make_log.base64.b64decode(make_log.seal_tdx(run)["tdx"]["quote_b64"])
    run.tdx["quote_b64"] = make_log.b64(data[:200] + b"!" + data[201:])


@before("FOREIGN_SCORER_COMMIT")
def scorer_between_two_of_another(log: Draft) -> None:
    log.runs[1].attestation["code"]["scoring_scripts_commit"] = make_log.commit(1001)


@before("FOREIGN_SCORER_COMMIT")
def scorer_that_comes_back(log: Draft) -> None:
    log.runs.append(make_log.run_draft(4, 14, 13.5, 13.0, "XS", 12.6))
    for run in log.runs[1:3]:
        run.attestation["code"]["scoring_scripts_commit"] = make_log.commit(1001)


@before("FOREIGN_SCORER_COMMIT", "FOREIGN_LOG_SHARED")
def scorer_other_than_that_of_the_round(log: Draft) -> None:
    second, third = (make_log.run_draft(n, 10 + n, tps, 10.0, "XL", 10.0) for n, tps in ((2, 12.6), (3, 13.0)))
    both: list[str] = []
    for run in (log.runs[0], second, third):
        assert run.log is not None
        both += [line.replace("{id", f"{{id{run.number}") for line in run.log[4 if both else 0 : -1]]
    log.runs = [log.runs[0], second, third]
    of_one_round(*log.runs)
    for run in log.runs:
        run.log = [*both, "done — 3 evaluated, 3 sealed to the log"]
    third.attestation["code"]["scoring_scripts_commit"] = make_log.commit(1001)


@before("FOREIGN_LOG_SHARED")
def two_scorers_in_a_round_of_two_do_not_tell_which_is_wrong(log: Draft) -> None:
    second = make_log.run_draft(2, 12, 12.6, 10.0, "XL", 10.0)
    assert log.runs[0].log is not None
    assert second.log is not None
    both = [line.replace("{id", "{id1") for line in log.runs[0].log[:-1]]
    both += [line.replace("{id", "{id2") for line in second.log[4:-1]]
    log.runs[0].log = second.log = [*both, "done — 2 evaluated, 2 sealed to the log"]
    second.attestation["code"]["scoring_scripts_commit"] = make_log.commit(1001)
    log.runs = [log.runs[0], second]
    of_one_round(*log.runs)


@after("FOREIGN_CONTRADICTION")
def folder_with_another_name_than_its_receipt(files: Files) -> None:
    old, new = path_of(files, 2, "").split("/")[1], "ab" * 16
    for path in [path for path in files if f"runs/{old}/" in path]:
        data = files.pop(path)
        if path.endswith("eval.log"):
            data = data.replace(old.encode(), new.encode()).replace(old[:12].encode(), new[:12].encode())
        files[path.replace(old, new)] = data
    for name in ("ledger.jsonl", "index.json"):
        files[name] = files[name].replace(old.encode(), new.encode())


@before("FOREIGN_SCORER_COMMIT")
def scorer_that_writes_other_fields(log: Draft) -> None:
    assert log.runs[2].result is not None
    log.runs[2].result["devices"] = "0,1"


REUSED = ("FOREIGN_TIER", "FOREIGN_SEALED_VERDICT", "FOREIGN_RECEIPT_ID_COMMON")


@after("FOREIGN_SAME_RECEIPT", "FOREIGN_CONTRADICTION", "FOREIGN_COMMIT", "FOREIGN_HASH", *REUSED)
def receipt_used_for_two_runs(files: Files) -> None:
    files[path_of(files, 3, "receipt.json")] = files[path_of(files, 2, "receipt.json")]


@before("FOREIGN_RECEIPT_ID_COMMON")
def receipt_ids_over_a_constant(log: Draft) -> None:
    header = make_log.quote(1, bytes(64))[:48]
    for run in log.runs:
        first = make_log.seal_tdx(run)["tdx"]
        data = make_log.base64.b64decode(first["quote_b64"])
        run.tdx["quote_b64"] = make_log.b64(header + data[48:])


# -- provenance -------------------------------------------------------------------------------------------------------


@before("FOREIGN_PROVENANCE_EMPTY")
def provenance_left_empty(log: Draft) -> None:
    log.runs[0].attestation["environment"].update(cuda_version="", clock_mhz=0)


@before("FOREIGN_CLOCKS_UNPINNED")
def clocks_that_were_not_pinned(log: Draft) -> None:
    log.runs[0].attestation["environment"]["clocks_pinned"] = False


@before("FOREIGN_VERIFIER_REFUSES")
def time_that_the_family_cannot_read(log: Draft) -> None:
    run = log.runs[0]
    run.attestation["timestamp_utc"] = "2026-08-01T12:00:00+00:00"


# -- less is no contradiction ------------------------------------------------------------------------------------------


@before()
def log_with_fewer_lines(log: Draft) -> None:
    first, second = log.runs[:2]
    assert first.log is not None
    assert second.log is not None
    first.log = swap(first.log, " against frontier 10.0", "")
    first.log = swap(first.log, " at ctx4 (worst of 2 depths)", "")
    first.log = [line for line in first.log if not line.startswith("main: frontier")]
    second.log[-1:-1] = [f">> #{pr}: cleared stale tier (eval:s) — measured before" for pr in (11, 99)]


@before()
def enclave_that_judges_by_the_published_bars(log: Draft) -> None:
    log.runs[0].output["reason"] = "gate: top1=1.0 (need >= 0.95), kl=0.004 (need <= 0.05)"


@before()
def credit_that_is_what_its_basis_says(log: Draft) -> None:
    for run in log.runs:
        assert run.result is not None
        run.result.update(effective_pct=run.result["pct_of_llama"], tier_basis="llama_anchored")


@before()
def credit_without_the_figure_it_is_anchored_to(log: Draft) -> None:
    for run in log.runs:
        assert run.result is not None
        run.result["tier_basis"] = "llama_anchored"
        del run.result["pct_of_llama"]


@before()
def collateral_that_states_half_a_period(log: Draft) -> None:
    item = make_log.b64(b'{"tcbInfo": {"issueDate": "2030-01-01T00:00:00Z"}, "enclaveIdentity": 7}')
    log.runs[0].tdx["collateral_b64"] = make_log.b64(make_log.dump({"items": {"a": item, "b": 7, "c": "%"}}))
    log.runs[1].tdx["collateral_b64"] = make_log.b64(make_log.dump({"items": [item]}))


@after()
def files_in_other_places(files: Files) -> None:
    files["other/0123456789ab/eval.log"] = b"frontier measurement failed - not a round of this log\n"
    files["runs/eval.log"] = files["rounds/eval.log"] = b"frontier measurement failed - not a run\n"


@before()
def one_attestation_beside_its_receipt(log: Draft) -> None:
    log.runs[0].beside = True


@before()
def branch_that_moves_on_after_its_evaluation(log: Draft) -> None:
    assert log.runs[0].log is not None
    log.runs[0].log.insert(-1, f">> #11: branch updated onto main, {make_log.commit(1)[:8]} -> 01234567")
    log.runs[0].log.insert(0, ">> #11: branch updated onto main, 01234567 -> 89abcdef")


@before("FOREIGN_PRECISION_LOST")
def parity_measured_in_full_and_sealed_rounded(log: Draft) -> None:
    assert log.runs[0].log is not None
    log.runs[0].log = swap(log.runs[0].log, "worst kl=0.004", "worst kl=0.0040004")


# -- signed receipts --------------------------------------------------------------------------------------------------


def signed() -> Draft:
    """A log of Ed25519 receipts."""
    log = make_log.draft()
    for run in log.runs:
        run.form = "ed25519"
        for row in (run.row, run.index):
            assert row is not None
            del row["attestation_type"]
    return log


SIGNED = ("FOREIGN_SIGNER_UNKNOWN", "FOREIGN_CHAIN_UNSIGNED")


@before(*SIGNED, start=signed)
def signed_receipts_are_whole_and_unauthenticated(log: Draft) -> None:
    assert log.runs


@after(*SIGNED, "FOREIGN_SIGNATURE", "FOREIGN_HASH", "FOREIGN_CONTRADICTION", start=signed)
def signed_speed_that_was_edited(files: Files) -> None:
    receipt(files, 2, lambda value: value["attestation"]["verdict"].update(tps=999.0))


@after(*SIGNED, "FOREIGN_SIGNED_ROUNDED", "FOREIGN_PRECISION_LOST", start=signed)
def digits_added_behind_the_signed_ones(files: Files) -> None:
    receipt(files, 2, lambda value: value["attestation"]["verdict"].update(tps=12.60000049))


@after(*SIGNED, "FOREIGN_SIGNATURE", start=signed)
def signature_in_another_spelling(files: Files) -> None:
    receipt(files, 2, lambda value: value.update(signature=value["signature"] + "\n"))


# -- the family's other shape -----------------------------------------------------------------------------------------

SIBLING = ("FOREIGN_RESULT_REWRITTEN", "FOREIGN_FILE_MISSING")


@before(*SIBLING, start=make_log.sibling_draft)
def sibling_log_as_it_is(log: Draft) -> None:
    assert log.runs


@before(*SIBLING, "FOREIGN_PIN_GAP", "FOREIGN_CONTRADICTION", "FOREIGN_DERIVED", start=make_log.sibling_draft)
def advance_from_a_value_that_nobody_reached(log: Draft) -> None:
    log.advances[1]["prev_frontier"] = 110.0


@before(*SIBLING, "FOREIGN_ROW_WITHOUT_RUN", start=make_log.sibling_draft)
def advance_without_its_proof(log: Draft) -> None:
    log.advances[1]["proof"] = "https://example.org/?run=nowhere"


@before(*SIBLING, "FOREIGN_CONTRADICTION", start=make_log.sibling_draft)
def attestation_in_the_log_that_differs(log: Draft) -> None:
    run = log.runs[0]
    assert run.log is not None
    run.log[1] = run.log[1].replace("made-up accelerator", "another accelerator")


@before(*SIBLING, start=make_log.sibling_draft)
def advance_that_states_less(log: Draft) -> None:
    del log.advances[1]["pr"]
    del log.advances[0]["prev_frontier"]


@before(*SIBLING, "FOREIGN_TWO_MEANINGS", "FOREIGN_FRONTIER_UNMEASURED", start=make_log.sibling_draft)
def advance_that_puts_a_gain_on_another_frontier(log: Draft) -> None:
    log.advances[0] |= {"prev_frontier": 200.0, "new_frontier": 210.0}
    log.advances[1] |= {"prev_frontier": 210.0, "new_frontier": 262.5}


@before(*SIBLING, "FOREIGN_ADVANCE_UNPROVED", start=make_log.sibling_draft)
def advance_that_names_no_proof(log: Draft) -> None:
    log.advances[1]["proof"] = None


@after(*SIBLING, "FOREIGN_LEDGER_EMPTY", start=make_log.sibling_draft)
def ledger_of_advances_that_was_emptied(files: Files) -> None:
    files["ledger.jsonl"] = b""
