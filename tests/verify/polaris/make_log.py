"""Makes small run logs of the polaris family that are whole: every digest comes out and nothing contradicts anything.

A log is drafted as plain dictionaries (:class:`Draft`), changed by a test as a careless or dishonest operator would,
and only then sealed (:func:`build`): so a changed result has digests that come out, and what an audit finds is the
contradiction and nothing else. What is changed after sealing, a test changes in the files.

Everything is made up, quotes and keys included: the bytes of a quote here have the structure of one and no origin.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import nacl.signing

SEED = bytes(range(32))
"""Seed of the key that signs Ed25519 receipts; worth nothing."""
LLAMA = "f" * 40
MODEL = hashlib.sha256(b"weights").hexdigest()
SLOT = "MADE_UP_SLOT"
DEPTHS = ("ctx4", "ctx128")


def sha(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def commit(number: int) -> str:
    return hashlib.sha1(f"commit {number}".encode(), usedforsecurity=False).hexdigest()


@dataclass
class RunDraft:
    """One run before it is sealed; None leaves a record out.

    ``output`` is what the enclave prints besides its input, ``late`` what is added to the result after sealing.
    """

    number: int
    result: dict[str, Any] | None
    attestation: dict[str, Any]
    row: dict[str, Any] | None
    index: dict[str, Any] | None
    log: list[str] | None
    output: dict[str, Any] = field(default_factory=dict)
    receipt: dict[str, Any] = field(default_factory=dict)
    tdx: dict[str, Any] = field(default_factory=dict)
    sealed: str | None = None
    form: str = "tdx"
    folder: str | None = None
    log_name: str = "eval.log"
    beside: bool = False
    late: dict[str, Any] = field(default_factory=dict)


@dataclass
class Draft:
    """A log before it is sealed."""

    runs: list[RunDraft]
    rounds: dict[str, list[str]] = field(default_factory=dict)
    advances: list[dict[str, Any]] = field(default_factory=list)
    ledger: bool = True
    listed: bool = True
    linked: bool = True


def result_of(number: int, tps: float, frontier: float, label: str) -> dict[str, Any]:
    gain = round(tps - frontier, 2)
    return {
        "build_hash": sha(f"build {number}"),
        "clock_tps": tps,
        "commit": commit(number)[:7],
        "decode_tps": tps,
        "delta_tps": gain,
        "effective_pct": round(100 * gain / frontier, 1),
        "frontier_commit": commit(number + 100),
        "frontier_tps": frontier,
        "kl": 0.004,
        "kl_bar": 0.05,
        "kl_depths": {
            name: {"kl": kl, "top1": 1.0} for name, kl in zip(DEPTHS, (0.004, round(number / 100000, 9)), strict=True)
        },
        "label": label,
        "llama_commit": LLAMA,
        "layers": 93,
        "model_fingerprint": "0123456789abcdef",
        "ms_per_token": round(1000 / tps, 2),
        "node": "made-up-node",
        "pass": True,
        "pct_of_llama": round(100 * tps / 16.0, 1),
        "pct_over_frontier": round(100 * gain / frontier, 1),
        "rule_version": "1",
        "scored_context": 4096,
        "scored_metric": "decode",
        "speed_source": "self_report_wall_clock_bounded",
        "tier_anchor_ref": 16.0,
        "tier_basis": "frontier_relative",
        "top1": 1.0,
        "top1_bar": 0.95,
        "tps": tps,
    }


def attestation_of(number: int, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "code": {
            "build_hash": sha(f"build {number}"),
            "commit": commit(number),
            "repo": "made-up/engine",
            "scoring_scripts_commit": commit(1000),
        },
        "environment": {
            "clock_mhz": 1980,
            "clocks_pinned": True,
            "cuda_version": "13.0",
            "decode_tokens": 128,
            "driver_version": "580.1",
            "eval_mode": "k3/made-up-node",
            "gpu_name": "made-up accelerator",
        },
        "measurements": {
            "primary": {
                "ctx_128_tps": 100.0,
                "guard_128_baseline": 99.5,
                "guard_128_pass": True,
                "guard_128_ratio": 1.005,
                "kl": result["kl"],
                "model": "made-up-model",
                "model_sha256": MODEL,
                "top1": result["top1"],
            }
        },
        "references": {
            "eval_seed": "ids:0123456789abcdef",
            "llamacpp_commit": LLAMA,
            "model_file": "made-up-00001-of-00002.gguf",
            "model_sha256": MODEL,
        },
        "timestamp_utc": f"2026-08-0{number}T12:00:00Z",
        "verdict": {
            "delta_tps": result["delta_tps"],
            "label": result["label"],
            "model": "made-up-model",
            "pass": result["pass"],
            "pct_over_frontier": result["pct_over_frontier"],
            "score_context": result["scored_context"],
            "tps": result["tps"],
        },
    }


def log_of(number: int, pr: int, result: dict[str, Any], pin: float) -> list[str]:
    """A round's log. ``{id}`` stands for the run's id, which is only known once it is sealed."""
    main, short = commit(number + 100)[:8], commit(number)[:8]
    frontier = result["frontier_tps"]
    kls = [result["kl_depths"][name]["kl"] for name in DEPTHS]
    return [
        f"main: measuring the frontier at {main} on made-up-node …",
        "main: accuracy measured HERE over 2 depths — worst top1=1.0 worst kl=0.004",
        f"main: frontier = {frontier} tok/s @ {main}",
        f">> frontier: {SLOT} pins {frontier}, main measures {frontier} — agrees within 2%, leaving the lock alone"
        if pin == frontier
        else f">> frontier: {SLOT} {pin} -> {frontier} (main @ {main})",
        f">> #{pr}: branch updated onto main, {commit(999)[:8]} -> {short}",
        f"#{pr}: evaluating {short} on made-up-node against frontier {frontier} …",
        *(f"{name:>8}: top1=1.000000 kl={kl:.9f}" for name, kl in zip(DEPTHS, kls, strict=True)),
        f"#{pr}: accuracy measured HERE over 2 depths — worst top1=1.0 worst kl=0.004",
        ">> llama.cpp reference (tier basis): 16.0 tok/s  @ ctx 4096",
        ">> timing sparkinfer decode at ctx 4096 (2 runs, 8 and 2056 tokens) ...",
        f">> wall-clock bound: {result['tps']} tok/s over 2048 marginal tokens",
        f"#{pr}: box-side publish failed (expected); publishing {{id:.12}} from here instead",
        f"#{pr}: tps={result['tps']} top1=1.0 kl=0.004 ms/token={result['ms_per_token']} — tier is derived elsewhere",
        f"#{pr}: KLD 0.004000000 vs main 0.004000000 — 1.00x at ctx4 (worst of 2 depths)",
        f">> #{pr}: published runs/{{id}} to made-up/log",
        f">> #{pr}: tier applied by eval-label.yml — eval:{result['label'].lower()}",
        "done — 1 evaluated, 1 sealed to the log; tiers are derived elsewhere",
    ]


def run_draft(number: int, pr: int, tps: float, frontier: float, label: str, pin: float) -> RunDraft:  # noqa: PLR0917
    result = result_of(number, tps, frontier, label)
    attestation = attestation_of(number, result)
    row = {
        "attestation_type": "tdx-quote",
        "commit": commit(number),
        "kl": result["kl"],
        "label": label,
        "pr": pr,
        "timestamp_utc": attestation["timestamp_utc"],
        "top1": result["top1"],
        "tps": tps,
    }
    return RunDraft(number, result, attestation, row, dict(row), log_of(number, pr, result, pin))


def draft() -> Draft:
    """Three whole runs, each in a round of its own, and one round that published nothing."""
    runs = [
        run_draft(1, 11, 10.5, 10.0, "S", 10.0),
        run_draft(2, 12, 12.6, 10.5, "XL", 10.0),
        run_draft(3, 13, 13.0, 12.6, "XS", 10.5),
    ]
    quiet = f"main: measuring the frontier at {commit(500)[:8]} on made-up-node …"
    return Draft(runs, rounds={commit(500)[:12]: [quiet]})


def sibling_draft() -> Draft:
    """The family's other shape: folders with names of their own, a ledger of advances, sealed measurements.

    Receipts carry filled guard blocks, log texts print results as JSON, one run has no receipt at all.
    """
    runs = []
    for number, (tps, frontier, label) in enumerate(
        [(105.0, 100.0, "S"), (131.25, 105.0, "XL"), (133.0, 131.25, "XS")], 1
    ):
        scored = result_of(number, tps, frontier, label) | {"score_context": 4096}
        attestation = attestation_of(number, scored)
        attestation["measurements"]["guard"] = {"accuracy_ok": True, "ctx_128_tps": 50.0, "kl": 0.02, "top1": 0.97}
        folder = f"{number:04d}-{commit(number)[:7]}"
        shown = {
            "id": folder,
            "pr": number + 10,
            "title": "perf: made up",
            "commit": commit(number)[:7],
            "label": label,
            "tps": tps,
            "frontier": frontier,
            "delta_pct": scored["pct_over_frontier"],
            "date": f"2026-08-0{number}",
            "kl": scored["kl"],
            "top1": scored["top1"],
        }
        index = {key: shown[key] for key in ("id", "pr", "title", "label", "tps", "delta_pct", "date")}
        log = ["RESULT_JSON " + json.dumps(scored), "POLARIS_ATTESTATION " + json.dumps(attestation), "bye"]
        runs.append(
            RunDraft(
                number,
                shown,
                attestation,
                None,
                index,
                log,
                folder=folder,
                log_name="log.txt",
                beside=True,
                form="measurements" if number < 3 else "none",
            )
        )
    advances = [
        {
            "date": f"2026-08-0{number}",
            "pr": number + 10,
            "author": "somebody",
            "commit": commit(number)[:9],
            "delta_pct": pct,
            "prev_frontier": before,
            "new_frontier": after,
            "proof": f"https://example.org/?run={number:04d}-{commit(number)[:7]}",
        }
        for number, before, after, pct in ((1, 100.0, 105.0, 5.0), (2, 105.0, 131.25, 25.0))
    ]
    return Draft(runs, advances=advances)


def quote(number: int, report_data: bytes) -> bytes:
    header = (4).to_bytes(2, "little") + (2).to_bytes(2, "little") + (0x81).to_bytes(4, "little")
    header += hashlib.sha512(f"header {number}".encode()).digest()[:40]
    body = bytearray(584)
    body[136:184] = b"\x11" * 48
    body[520:584] = report_data
    signature = hashlib.sha512(f"signature {number}".encode()).digest()
    return header + bytes(body) + len(signature).to_bytes(4, "little") + signature + bytes(16)


def collateral(day: int) -> str:
    period = {"issueDate": f"2026-08-0{day}T00:00:00Z", "nextUpdate": "2026-09-30T00:00:00Z"}
    items = {"https://example.org/tcb": b64(json.dumps({"tcbInfo": period}).encode())}
    return b64(json.dumps({"items": items, "urls": list(items), "v": 1}).encode())


def spell(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def seal_tdx(run: RunDraft) -> dict[str, Any]:
    """The receipt of a run: everything that it covers is hashed as the family does it."""
    scored = run.attestation["measurements"] if run.form == "measurements" else run.result
    output = (run.sealed if run.sealed is not None else json.dumps((scored or {}) | run.output)) + "\n"
    expected = {"result_sha256": sha(spell(scored)), "scoring_sha256": sha("scorer")}
    files = (
        f"/submission/result.json\t{expected['result_sha256']}\n/submission/score.py\t{expected['scoring_sha256']}\n"
    )
    seed = run.attestation["references"]["eval_seed"]
    tdx: dict[str, Any] = {
        "bound_digest": "sha256:" + sha("image"),
        "collateral_b64": collateral(run.number),
        "cost_usd": 0.0025,
        "e2e_pubkey_b64": b64(hashlib.sha256(f"e2e {run.number}".encode()).digest()),
        "files_sha256": sha(files),
        "nonce": sha(run.attestation["code"]["commit"] + MODEL + seed),
        "result_sha256": sha(output),
        "stdout_b64": b64(output.encode()),
        "workload_sha256": "sha256:" + sha("python3 /submission/score.py"),
    } | run.tdx
    first = hashlib.sha256((tdx["nonce"] + tdx["e2e_pubkey_b64"]).encode()).digest()
    second = hashlib.sha256((tdx["bound_digest"] + tdx["result_sha256"] + tdx["files_sha256"]).encode()).digest()
    tdx.setdefault("quote_b64", b64(quote(run.number, first + second)))
    return {
        "_expected": expected,
        "attestation": run.attestation,
        "attestation_type": "tdx-quote",
        "chain": {"chain_index": 0, "prev_receipt_hash": None},
        "polaris_version": 1,
        "receipt_id": sha(tdx["quote_b64"][:64] + tdx["result_sha256"])[:32],
        "tdx": tdx,
    }


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def signed_form(attestation: dict[str, Any]) -> bytes:
    return json.dumps(rounded(attestation), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def seal_ed25519(run: RunDraft) -> dict[str, Any]:
    key = nacl.signing.SigningKey(SEED)
    signed = signed_form(run.attestation)
    return {
        "attestation": run.attestation,
        "chain": {"chain_index": 0, "prev_receipt_hash": None},
        "polaris_version": 1,
        "public_key": b64(bytes(key.verify_key)),
        "receipt_id": sha(signed),
        "signature": b64(key.sign(signed).signature),
    }


def dump(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def build(log: Draft) -> dict[str, bytes]:
    """Seal every run and lay the files out. In log texts ``{id}`` is the run's own id, ``{id1}`` that of run 1."""
    sealed: list[tuple[RunDraft, str, dict[str, Any] | None]] = []
    previous: str | None = None
    for run in log.runs:
        receipt = None
        if run.form != "none":
            receipt = seal_ed25519(run) if run.form == "ed25519" else seal_tdx(run)
            if log.linked:
                receipt["chain"] = {"chain_index": len(sealed), "prev_receipt_hash": previous}
            receipt |= run.receipt
            previous = receipt["receipt_id"]
        sealed.append((run, run.folder or (receipt or {}).get("receipt_id") or f"run-{run.number}", receipt))
    names = {f"{{id{run.number}}}": name for run, name, _ in sealed}
    files: dict[str, bytes] = {}
    for run, name, receipt in sealed:
        files |= _files_of(run, f"runs/{name}", receipt, {"{id}": name} | names)
    for folder, lines in log.rounds.items():
        files[f"rounds/{folder}/eval.log"] = "\n".join(lines).encode() + b"\n"
    named = [({"id" if run.folder else "run_id": name}, run) for run, name, _ in sealed]
    if log.ledger:
        rows = [head | run.row for head, run in named if run.row is not None] + log.advances
        files["ledger.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    if log.listed:
        files["index.json"] = dump([head | run.index for head, run in named if run.index is not None][::-1])
    return files


def _files_of(run: RunDraft, folder: str, receipt: dict[str, Any] | None, names: dict[str, str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    if receipt is not None:
        files[f"{folder}/receipt.json"] = dump(receipt)
    if run.result is not None:
        ids = {"receipt_id": receipt["receipt_id"]} if receipt is not None and run.form == "tdx" else {}
        files[f"{folder}/result.json"] = dump(run.result | ids | run.late)
    if run.beside:
        files[f"{folder}/attestation.json"] = dump(run.attestation)
    if run.log is not None:
        text = "\n".join(run.log)
        for mark, name in names.items():
            text = text.replace(mark[:-1] + ":.12}", name[:12]).replace(mark, name)
        files[f"{folder}/{run.log_name}"] = text.encode() + b"\n"
    return files
