"""Every field of the public log that nobody here wrote: what it is held against, or why nothing is.

The table of :mod:`tests.verify.polaris.test_partners` is tried on logs made here, which have fewer fields. This one is
held against that log: a field without a row fails, and so does a row that says something else than what happens.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.verify.polaris import audit, parse_log
from k3_ledger.verify.polaris.crosscheck import generic
from k3_ledger.verify.polaris.facts import documents, facts_of, is_blank
from tests.verify.polaris.test_partners import another, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from k3_ledger.verify.polaris.parse import Run
    from tests.verify.polaris.cases import Files

FACTS: Final[dict[str, tuple[str, ...]]] = {
    "accuracy_source": ("result accuracy_source", "sealed output accuracy_source"),
    "attestation_type": ("index row attestation_type", "ledger line attestation_type", "receipt attestation_type"),
    "commit": (
        "index row commit",
        "ledger line commit",
        "log text evaluating commit",
        "log text rebased commit",
        "receipt attestation.code.commit",
        "result commit",
        "sealed output commit",
    ),
    "decode_ctx": ("result decode_ctx", "sealed output decode_ctx"),
    "decode_guard_pct": ("result decode_guard_pct", "sealed output decode_guard_pct"),
    "decode_tps": ("result decode_tps", "sealed output decode_tps"),
    "delta_tps": ("receipt attestation.verdict.delta_tps", "result delta_tps", "sealed output delta_tps"),
    "devices": ("result devices", "sealed output devices"),
    "effective_pct": ("result effective_pct", "sealed output effective_pct"),
    "engine": ("result engine", "sealed output engine"),
    "frontier_tps": (
        "log text evaluating frontier",
        "log text no-gain frontier",
        "result frontier_tps",
        "sealed output frontier_tps",
    ),
    "guard_regression_labels": (
        "receipt attestation.verdict.guard_regression_labels",
        "sealed output guard_regression_labels",
    ),
    "kl": (
        "index row kl",
        "ledger line kl",
        "log text figures kl",
        "log text parity kl",
        "receipt attestation.measurements.primary.kl",
        "result kl",
        "sealed output kl",
    ),
    "kl_bar": ("result kl_bar", "sealed output kl_bar"),
    "kl_depths.ctx*.kl": ("log text ctx* kl", "result kl_depths.ctx*.kl"),
    "kl_depths.ctx*.top1": ("log text ctx* top1", "result kl_depths.ctx*.top1"),
    "kl_prefer": ("result kl_prefer", "sealed output kl_prefer"),
    "label": (
        "index row label",
        "ledger line label",
        "log text tier",
        "receipt attestation.verdict.label",
        "result label",
        "sealed output label",
    ),
    "layers": ("result layers", "result provenance.layers", "sealed output layers", "sealed output provenance.layers"),
    "llamacpp_commit": (
        "receipt attestation.references.llamacpp_commit",
        "result llama_commit",
        "sealed output llama_commit",
    ),
    "model": (
        "receipt attestation.measurements.primary.model",
        "receipt attestation.verdict.model",
        "result model",
        "sealed output model",
    ),
    "model_fingerprint": ("result model_fingerprint", "sealed output model_fingerprint"),
    "model_sha256": (
        "receipt attestation.measurements.primary.model_sha256",
        "receipt attestation.references.model_sha256",
    ),
    "ms_per_token": (
        "log text figures ms",
        "result ms_per_token",
        "result provenance.ms_per_token",
        "sealed output ms_per_token",
        "sealed output provenance.ms_per_token",
    ),
    "node": (
        "log text evaluating node",
        "result node",
        "result provenance.node",
        "sealed output node",
        "sealed output provenance.node",
    ),
    "note": ("result note", "sealed output note"),
    "pass": ("receipt attestation.verdict.pass", "result pass", "sealed output pass"),
    "pct_of_ceiling": ("result pct_of_ceiling", "sealed output pct_of_ceiling"),
    "pct_of_llama": ("result pct_of_llama", "sealed output pct_of_llama"),
    "pct_over_frontier": (
        "receipt attestation.verdict.pct_over_frontier",
        "result pct_over_frontier",
        "sealed output pct_over_frontier",
    ),
    "pr": ("index row pr", "ledger line pr", "log text evaluating pr"),
    "quant": ("result provenance.quant", "result quant", "sealed output provenance.quant", "sealed output quant"),
    "reason": ("receipt attestation.verdict.reason", "result reason"),
    "receipt_id": ("receipt receipt_id", "result receipt_id"),
    "run_id": (
        "folder name",
        "index row run_id",
        "ledger line run_id",
        "log text published run_id",
        "log text publishing run_id",
    ),
    "scored_context": (
        "receipt attestation.verdict.score_context",
        "result scored_context",
        "result scored_ctx",
        "sealed output scored_context",
        "sealed output scored_ctx",
    ),
    "scored_metric": ("result scored_metric", "sealed output scored_metric"),
    "speed_label": ("result speed_label", "sealed output speed_label"),
    "speed_source": ("result speed_source", "sealed output speed_source"),
    "superseded_by": ("index row superseded_by", "ledger line superseded_by"),
    "superseded_reason": ("index row superseded_reason", "ledger line superseded_reason"),
    "tier_anchor_off": ("result tier_anchor_off", "sealed output tier_anchor_off"),
    "tier_anchor_ref": ("result tier_anchor_ref", "sealed output tier_anchor_ref"),
    "tier_basis": ("result tier_basis", "sealed output tier_basis"),
    "timestamp_utc": ("index row timestamp_utc", "ledger line timestamp_utc", "receipt attestation.timestamp_utc"),
    "top1": (
        "index row top1",
        "ledger line top1",
        "log text figures top1",
        "log text parity top1",
        "receipt attestation.measurements.primary.top1",
        "result top1",
        "sealed output top1",
    ),
    "top1_bar": ("result top1_bar", "sealed output top1_bar"),
    "tps": (
        "index row tps",
        "ledger line tps",
        "log text figures tps",
        "log text merge-first tps",
        "log text no-gain tps",
        "receipt attestation.verdict.tps",
        "result tps",
        "sealed output tps",
    ),
}
"""Fields that state one fact, and are all held against one another."""
MIRRORED: Final = ("receipt attestation.", "attestation.json ")
"""Of a field that begins like the first, one that begins like the second is the copy, where there is that file."""
CONTROLLER: Final = "what the controller says of itself and its machine; no other record has it"
LONE: Final[dict[str, tuple[str, str]]] = {
    "log text frontier commit": ("", "held against the other lines about main alone; no result of the log has it"),
    "receipt _expected.result_sha256": ("HASH", "digest of the sealed result"),
    "receipt _expected.scoring_sha256": ("HASH", "a part of files_sha256"),
    "receipt attestation.code.build_hash": ("", "between runs: BUILD-DIFFERS and BUILD-SHARED"),
    "receipt attestation.code.repo": ("", CONTROLLER),
    "receipt attestation.code.scoring_scripts_commit": (
        "",
        "between runs, where a neighbour or the round shows another: SCORER-COMMIT",
    ),
    "receipt attestation.environment.clock_mhz": ("", CONTROLLER),
    "receipt attestation.environment.clock_spread_mhz": ("", CONTROLLER),
    "receipt attestation.environment.clocks_pinned": (
        "",
        "that it is false is CLOCKS-UNPINNED; nothing else says what it is",
    ),
    "receipt attestation.environment.cuda_version": ("", CONTROLLER),
    "receipt attestation.environment.decode_tokens": ("", CONTROLLER),
    "receipt attestation.environment.driver_version": ("", CONTROLLER),
    "receipt attestation.environment.eval_mode": ("", CONTROLLER),
    "receipt attestation.environment.gpu_arch": ("", CONTROLLER),
    "receipt attestation.environment.gpu_name": ("", CONTROLLER),
    "receipt attestation.environment.pin_target_mhz": ("", CONTROLLER),
    "receipt attestation.measurements.primary.ctx_128_tps": ("", "blank in every run"),
    "receipt attestation.measurements.primary.ctx_16384_tps": ("", "blank in every run"),
    "receipt attestation.measurements.primary.ctx_32768_tps": ("", "blank in every run"),
    "receipt attestation.measurements.primary.ctx_4096_tps": ("", "blank in every run"),
    "receipt attestation.measurements.primary.ctx_512_tps": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_128_baseline": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_128_pass": (
        "GUARD_UNMEASURED",
        "that it passes without a measurement is said; from which ratio on it may is a rule's to say",
    ),
    "receipt attestation.measurements.primary.guard_128_ratio": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_16k_baseline": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_16k_pass": (
        "GUARD_UNMEASURED",
        "that it passes without a measurement is said; from which ratio on it may is a rule's to say",
    ),
    "receipt attestation.measurements.primary.guard_16k_ratio": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_32k_baseline": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_32k_pass": (
        "GUARD_UNMEASURED",
        "that it passes without a measurement is said; from which ratio on it may is a rule's to say",
    ),
    "receipt attestation.measurements.primary.guard_32k_ratio": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_4k_baseline": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_4k_pass": (
        "GUARD_UNMEASURED",
        "that it passes without a measurement is said; from which ratio on it may is a rule's to say",
    ),
    "receipt attestation.measurements.primary.guard_4k_ratio": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_512_baseline": ("", "blank in every run"),
    "receipt attestation.measurements.primary.guard_512_pass": (
        "GUARD_UNMEASURED",
        "that it passes without a measurement is said; from which ratio on it may is a rule's to say",
    ),
    "receipt attestation.measurements.primary.guard_512_ratio": ("", "blank in every run"),
    "receipt attestation.references.eval_seed": (
        "",
        "the nonce binds it, in a receipt that is sealed as documented, and none here is",
    ),
    "receipt attestation.references.guard_model_file": ("", "blank in every run"),
    "receipt attestation.references.guard_model_sha256": ("", "blank in every run"),
    "receipt attestation.references.model_file": ("FIELD_MISFILLED", "has to look like a file of weights"),
    "receipt attestation.verdict.best_context_label": ("", "blank in every run"),
    "receipt attestation.verdict.context_gains_pct": ("", "an empty object in every run"),
    "receipt attestation.verdict.regression_labels": ("", "an empty list in every run"),
    "receipt chain.chain_index": ("CHAIN_INDEX", "place among the links"),
    "receipt chain.prev_receipt_hash": ("CHAIN_BROKEN", "leads to a receipt of the log"),
    "receipt polaris_version": ("VERSION", "one that the audit knows"),
    "receipt tdx.bound_digest": ("HASH", "a part of report_data"),
    "receipt tdx.collateral_b64": ("", "read for its dates alone (TIME-COLLATERAL), and with --trust-dir not at all"),
    "receipt tdx.cost_usd": ("", "what somebody paid; nothing binds it"),
    "receipt tdx.e2e_pubkey_b64": ("HASH", "a part of report_data"),
    "receipt tdx.files_sha256": ("HASH", "digest of the two submitted files, and a part of report_data"),
    "receipt tdx.nonce": ("HASH", "a part of report_data"),
    "receipt tdx.quote_b64": ("QUOTE", "has the structure of a quote, and a part of it is in the receipt id"),
    "receipt tdx.result_sha256": ("HASH", "digest of the output, a part of report_data and of the receipt id"),
    "receipt tdx.stdout_b64": ("SHAPE", "is base64; its digest is result_sha256"),
    "receipt tdx.verification.intel_verified": ("VERIFICATION_DENIED", "no evidence, but what it denies is said"),
    "receipt tdx.verification.report_data_match": ("VERIFICATION_DENIED", "no evidence, but what it denies is said"),
    "receipt tdx.workload_sha256": ("HASH", "digest of the one command of the family"),
    "sealed output guard.accuracy_ok": ("HASH", "a part of the output, which result_sha256 is the digest of"),
    "sealed output guard.speed_ok": ("HASH", "a part of the output, which result_sha256 is the digest of"),
    "sealed output reason": (
        "HASH",
        "a part of the output; the enclave's own words, and no copy of the published ones",
    ),
}
"""Fields that no other record has, but for the copy: the code that a change of one brings, or none, and why."""


@pytest.fixture
def log(test_data: Callable[..., Path]) -> Files:
    root = test_data("data", "sparkinfer-k3-log")
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def fields(run: Run) -> Iterator[tuple[str, str, bool]]:
    """Every field of a run's records: its name, its path as it stands there, whether it is filled."""
    for record, document in documents(run):
        for path, leaf in document.leaves.items():
            yield f"{record.value} {generic(path)}", path, not is_blank(leaf.value)


def test_every_field_of_the_public_log_has_a_row_and_only_its_partners(log: Files) -> None:
    there: set[str] = set()
    found: dict[str, set[str]] = {}
    for run in parse_log(log).runs:
        there |= {name for name, _, _ in fields(run)}
        for fact, statements in facts_of(run).items():
            names = {f"{one.record.value} {generic(one.path)}".strip() for one in statements}
            there |= names
            if not fact.startswith("attestation."):
                found.setdefault(generic(fact), set()).update(names)
    mirrored = {name for name in there if name.startswith(MIRRORED[1])}
    assert {name.replace(MIRRORED[1], MIRRORED[0]) for name in mirrored} <= there
    assert {fact: names for fact, names in found.items() if len(names) > 1} == {
        fact: set(names) for fact, names in FACTS.items()
    }
    assert there - mirrored == set(LONE).union(*FACTS.values())
    assert not set(LONE) & set().union(*FACTS.values())


def test_what_nothing_is_held_against_stands_on_the_list_that_the_audit_prints(log: Files) -> None:
    unbound = {f"{row.record.value} {row.path}" for row in audit(log).fields if not row.bound}
    silent = {name for name, (code, _) in LONE.items() if not code}
    assert silent <= unbound
    assert all(why for _, why in LONE.values())


def part(log: Files, runs: list[Run]) -> Files:
    """Some runs of the log with their rows, all JSON written alike."""
    names = {run.run_id for run in runs}
    files = {path: data for path, data in log.items() if path.startswith("runs/") and path.split("/")[1] in names}
    files = {
        path: json.dumps(json.loads(data)).encode() if path.endswith("json") else data for path, data in files.items()
    }
    rows = [json.loads(line) for line in log["ledger.jsonl"].splitlines()]
    files["ledger.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows if row["run_id"] in names)
    files["index.json"] = json.dumps([row for row in json.loads(log["index.json"]) if row["run_id"] in names]).encode()
    return files


FILES: Final = {"receipt": "receipt.json", "result": "result.json", "attestation.json": "attestation.json"}


def changed(files: Files, run: str, record: str, path: str) -> Files:
    """The same with another value in one field."""
    name = (
        f"runs/{run}/{FILES[record]}"
        if record in FILES
        else "ledger.jsonl"
        if record == "ledger line"
        else "index.json"
    )
    whole = (
        [json.loads(line) for line in files[name].splitlines()] if name == "ledger.jsonl" else json.loads(files[name])
    )
    place: Any = whole if record in FILES else next(row for row in whole if row["run_id"] == run)
    *folders, last = path.split(".")
    for folder in folders:
        place = place[folder]
    old = place[last]
    if isinstance(old, bool) or not isinstance(old, str | int | float) or old == "":
        place[last] = (not old) if isinstance(old, bool) else "something"
    elif isinstance(old, str):
        place[last] = old.replace("2026-0", "2025-0") if old.startswith("2026-0") else another(old)
    else:
        place[last] = old + 3 if isinstance(old, int) else old * 1.37 + 0.5
    data = (
        b"".join(json.dumps(row).encode() + b"\n" for row in whole)
        if name == "ledger.jsonl"
        else json.dumps(whole).encode()
    )
    return {**files, name: data}


LACKS: Final = "FOREIGN_MISSING_FOR_RESCORE"
"""Names what a run lacks, and is another sentence once it lacks less."""


def test_every_field_of_the_public_log_is_held_against_something_or_has_no_partner(log: Files) -> None:
    runs = parse_log(log).runs
    places: dict[str, list[tuple[bool, int, str]]] = {}
    for number, run in enumerate(runs):
        for name, path, filled in fields(run):
            if not name.startswith("sealed output ") and (run.attestation is None or not name.startswith(MIRRORED[0])):
                places.setdefault(name, []).append((not filled, number, path))

    @cache
    def near(number: int) -> tuple[Files, set[tuple[str, str]]]:
        files = part(log, [*runs[number : number + 2]])
        return files, told(files)

    noticed: dict[str, set[str]] = {}
    for name, found in places.items():
        record = next(record for record in (*FILES, "ledger line", "index row") if name.startswith(f"{record} "))
        found.sort()
        for _, number, path in (found[0], found[-1]):
            files, whole = near(number)
            codes = {code for code, _ in told(changed(files, runs[number].run_id, record, path)) - whole} - {LACKS}
            noticed.setdefault(name, set()).update(codes)
            if codes:
                break
    lone = {name: code for name, (code, _) in LONE.items() if name in places}
    assert {name for name, codes in noticed.items() if not codes} == {name for name, code in lone.items() if not code}
    assert {name: code for name, code in lone.items() if code and f"FOREIGN_{code}" not in noticed[name]} == {}
