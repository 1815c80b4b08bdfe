"""A whole log with every field of a sibling that measures at several contexts, beside those of ``modes.py``.

Folders are named by pull request and commit, results have addresses and name their receipts, the ledger lists advances,
log texts print what was scored for two models, guard blocks are filled.
"""

from __future__ import annotations

import json
from typing import Any

from tests.verify.polaris import make_log
from tests.verify.polaris.make_log import Draft, RunDraft
from tests.verify.polaris.modes import MODES, gain
from tests.verify.polaris.modes import draft as of_a_mode

REPO = "https://example.org/made-up/engine"
GPU = "ABC 5090 (sm_120) · made-up.example"
CONTEXTS = {"128": 128, "512": 512, "4k": 4096, "16k": 16384, "32k": 32768}
SHAPES = ("sealed", "attested", "printed", "logged", "bare", *MODES)
"""What there is: a receipt, an attestation, one in the log text, a result there, one in its file; and the modes."""


def _speeds(n: int, base: float) -> dict[str, Any]:
    """Speeds at every context, and what guards make of them."""
    out: dict[str, Any] = {}
    for at, (name, context) in enumerate(CONTEXTS.items()):
        speed, before = base + n + at / 4, base + at / 8
        out[f"ctx_{context}_tps"] = speed
        out[f"guard_{name}_baseline"] = before
        out[f"guard_{name}_ratio"] = round(speed / before, 4)
        out[f"guard_{name}_pass"] = True
    return out


def _scored(n: int, base: float) -> dict[str, Any]:
    speeds = _speeds(n, base)
    tps, frontier = speeds["ctx_4096_tps"], speeds["guard_4k_baseline"]
    return {
        "commit": make_log.commit(n)[:7],
        "tps": tps,
        "top1": 0.93,
        "kl": 0.0457,
        "frontier_tps": frontier,
        "label": "S",
        "pass": True,
        "delta_tps": round(tps - frontier, 2),
        "pct_over_frontier": gain(tps, frontier),
        "clocks_pinned": True,
        "clock_mhz": "2505",
        "clock_spread_mhz": "3",
        "pin_target_mhz": "2550",
        "eval_seed": f"fd87e728a9e651a{n}",
        "model_sha_pinned": True,
        "llama_commit": make_log.LLAMA,
        "eval_mode": "longctx",
        "decode_tokens": 128,
        "score_context": 4096,
        "best_context_label": "4k-context",
        "context_gains_pct": {
            f"{name}-context": round(100 * (speeds[f"ctx_{context}_tps"] / speeds[f"guard_{name}_baseline"] - 1), 2)
            for name, context in CONTEXTS.items()
        },
        "regression_labels": ["regression-16k"],
        "auto_close": False,
        **speeds,
        "model": "bidir",
    }


def _run(n: int) -> RunDraft:
    scored = _scored(n, 300.0)
    commit, pr = make_log.commit(n), 500 + n
    folder = f"{pr:04d}-{commit[:7]}"
    attestation = make_log.attestation_of(n, scored | {"scored_context": 4096})
    attestation["code"]["repo"] = REPO
    attestation["environment"] |= {
        "clock_mhz": 2505,
        "clock_spread_mhz": 3,
        "eval_mode": "longctx",
        "gpu_arch": "sm_120",
        "gpu_name": "Maker ABC 5090",
        "pin_target_mhz": 2550,
    }
    kept = ("model", "top1", "kl", *_speeds(n, 300.0))
    guard = {f"ctx_{context}_tps": 200.0 + n + at for at, context in enumerate(CONTEXTS.values())}
    guard |= {"model": "another", "model_sha256": make_log.sha("another"), "top1": 0.92, "kl": 0.0407}
    guard |= {"speed_ok": True, "accuracy_ok": True}
    attestation["measurements"] = {"primary": {key: scored[key] for key in kept}, "guard": guard}
    attestation["references"] |= {
        "eval_seed": scored["eval_seed"],
        "guard_model_file": "another.gguf",
        "guard_model_sha256": make_log.sha("another"),
    }
    attestation["verdict"] |= {
        "best_context_label": "4k-context",
        "context_gains_pct": scored["context_gains_pct"],
        "guard_regression_labels": [],
        "model": "bidir",
        "reason": "faster",
        "regression_labels": scored["regression_labels"],
    }
    result = {key: value for key, value in scored.items() if key not in ("pin_target_mhz", "decode_tokens", "model")}
    result["delta_pct"], result["frontier"] = result.pop("pct_over_frontier"), result.pop("frontier_tps")
    result |= {
        "id": folder,
        "pr": pr,
        "title": f"perf: made up {n}",
        "url": f"{REPO}/pull/{pr}",
        "baseline_tps": 299.5,
        "gpu": GPU,
        "date": f"2026-08-0{n}",
        "reason": "faster",
    }
    del result["pass"]
    printed = scored | {"reason": "faster", "mode": "bidir", "label_qwen35": "S", "label_qwen36": "S"}
    shown = {key: value for key, value in guard.items() if not key.startswith("model")}
    printed |= {"guard": shown | {"pass": True, "label": "none"}, "guard_model": guard["model"]}
    two = {f"score_{name}": _scored(n, base) for name, base in (("qwen35", 200.0), ("qwen36", 300.0))}
    two["score_qwen36"] |= {key: printed[key] for key in ("guard", "guard_model")}
    log = ["RESULT_JSON " + json.dumps(printed | two), "POLARIS_ATTESTATION " + json.dumps(attestation), "bye"]
    names = ("id", "pr", "title", "label", "delta_pct", "tps", "score_context", "date")
    index = {key: result[key] for key in names}
    return RunDraft(
        n, result, attestation, None, index, log, folder=folder, log_name="log.txt", beside=True, form="measurements"
    )


def _advance(run: RunDraft, n: int) -> dict[str, Any]:
    assert run.result is not None
    return {
        "date": run.result["date"],
        "pr": run.result["pr"],
        "author": "somebody",
        "commit": make_log.commit(n + 700)[:9],
        "delta_pct": run.result["delta_pct"],
        "prev_frontier": run.result["frontier"],
        "new_frontier": run.result["tps"],
        "proof": f"https://example.org/log/?run={run.folder}",
    }


def draft(shape: str) -> Draft:
    """Three runs of one shape; names of receipts are put in by :func:`build`."""
    if shape in MODES:
        log = of_a_mode(shape)
        for run in log.runs:
            assert run.result is not None
            assert run.index is not None
            run.form = "measurements"
            run.folder = f"{shape}-{run.result['pr']:04d}-{run.result['commit']}"
            run.result |= {"id": run.folder, "url": f"{REPO}/pull/{run.result['pr']}", "gpu": GPU}
            run.index["id"] = run.folder
            run.attestation["code"]["repo"] = REPO
            run.attestation["environment"] |= {"gpu_arch": "sm_120", "gpu_name": "Maker ABC 5090"}
            if shape == "dflash":
                run.result |= {"guard_ok": True, "guard_problems": []}
                guard = {"ok": True, "problems": [], "qwen36": {"0": {"decode": 486.5, "prefill": 8126.9}}}
                run.sealed = json.dumps(run.attestation["measurements"]["dflash"] | {"guard": guard})
                run.attestation["measurements"]["qwen_guard"] = guard
            else:
                run.result |= {"q36_guard_ok": True, "q36_guard_problems": []}
        return log
    log = Draft([_run(n) for n in (1, 2, 3)])
    log.advances = [_advance(run, n) for n, run in enumerate(log.runs, 1)]
    for run in log.runs:
        if shape != "sealed":
            run.form = "none"
        run.beside = shape in ("sealed", "attested")
        if shape in ("attested", "bare"):
            run.log = None
        if shape == "logged":
            assert run.log is not None
            del run.log[1]  # there is no attestation to print
    return log


def build(log: Draft) -> dict[str, bytes]:
    """The files; rows and results say which receipt a run has."""
    files = make_log.build(log)
    rows = json.loads(files["index.json"])
    for row in rows:
        folder = f"runs/{row['id']}"
        receipt = files.get(f"{folder}/receipt.json")
        if receipt is not None:
            name = json.loads(receipt)["receipt_id"]
            result = json.loads(files[f"{folder}/result.json"])
            files[f"{folder}/result.json"] = make_log.dump(result | {"polaris": True, "polaris_receipt_id": name})
            row |= {"polaris": True, "polaris_receipt_id": name[:16]}
    return files | {"index.json": make_log.dump(rows)}
