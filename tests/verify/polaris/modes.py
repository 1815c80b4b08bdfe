"""Whole logs whose results name their figures by what was run, such as ``pr_decode_tps`` and ``main_decode_tps``."""

from __future__ import annotations

import json
from typing import Any

from tests.verify.polaris import make_log
from tests.verify.polaris.make_log import Draft, RunDraft

Result = dict[str, Any]


def gain(value: float, base: float) -> float:
    return round(100 * (value - base) / base, 1)


def cut(value: float, base: float) -> float:
    """The same in percent, cut off behind one digit as some of these writers do."""
    return int(1000 * (value - base) / base) / 10


def _glimmer(n: int) -> Result:
    value, base = 108.44 + n, 102.8494 + n / 8
    return {
        "delta_pct": gain(value, base),
        "pr_decode_tps": value,
        "main_decode_tps": base,
        "speedup_vs_main": round(value / base, 3),
        "pr_prefill128_pp": 115.7563 + n,
        "main_prefill128_pp": 116.2313 + n,
        "prefill_speedup_vs_main": round((115.7563 + n) / (116.2313 + n), 3),
        "pr_top1": 0.969697,
        "pr_kl": 0.090603,
        "accuracy_ok": True,
    }


def _qwen(n: int) -> Result:
    prefill, prefill_main, long, long_main = 6942.0574 + n, 6959.6392 + n, 13793.8467 + n, 13365.8457 + n
    return {
        "delta_pct": cut(long, long_main),
        "pr_decode_tps": 95.6583 + n,
        "main_decode_tps": 95.6737 + n,
        "pr_prefill_pp": prefill,
        "main_prefill_pp": prefill_main,
        "prefill_delta_pct": cut(prefill, prefill_main),
        "pr_prefill16k_pp": long,
        "main_prefill16k_pp": long_main,
        "prefill16k_delta_pct": cut(long, long_main),
        "pr_decode16k_tps": 90.1463 + n,
        "main_decode16k_tps": 90.5749 + n,
        "decode16k_delta_pct": cut(90.1463 + n, 90.5749 + n),
        "scored_dimension": "prefill@16k",
        "pr_top1": 0.980198,
        "pr_kl": 0.017701,
    }


def _dspark(n: int) -> Result:
    value, base = 106.5608 + n, 90.169 + n
    return {
        "delta_pct": cut(value, base),
        "pr_decode_tps": value,
        "main_decode_tps": base,
        "pr_ar_tps": 90.1184 + n,
        "main_ar_tps": 90.4218 + n,
        "prefill_delta_pct": None,
        "pr_dspark_tps": value,
        "main_dspark_tps": base,
        "speedup_vs_main": round(value / base, 3),
        "dspark_vs_ar": round(value / (90.1184 + n), 3),
        "pr_top1": 0.990099,
        "pr_kl": 0.003461,
    }


def _dflash(n: int) -> Result:
    value, base, ar = 737.5003 + n, 596.7775 + n, 260.3748 + n
    return {
        "delta_pct": gain(value, base),
        "pr_dflash_tps": value,
        "main_dflash_tps": base,
        "pr_ar_tps": ar,
        "main_ar_tps": 260.9414 + n,
        "speedup_vs_main": round(value / base, 3),
        "speedup_vs_ar": round(value / ar, 3),
        "mean_accept": 5.3333,
        "dflash_ctx": {
            "0": {
                "pr_dflash_tps": 893.2258 + n,
                "main_dflash_tps": 850.5 + n,
                "delta_pct": gain(893.2258 + n, 850.5 + n),
            },
            "4096": {"pr_dflash_tps": 549.6245 + n, "main_dflash_tps": 0, "delta_pct": None},
        },
    }


MODES = {
    "glimmer": ("museglimmer-128", _glimmer),
    "qwen": ("qwen38-128", _qwen),
    "dspark": ("qwen38-128", _dspark),
    "dflash": ("dflash", _dflash),
}
"""How a run was evaluated, and the figures that it then publishes."""


def _measured(mode: str, result: Result) -> Result:
    if mode == "dflash":
        kept = ("pr_dflash_tps", "main_dflash_tps", "pr_ar_tps", "main_ar_tps", "mean_accept")
        return {"dflash": {name: result[name] for name in (*kept, "speedup_vs_main", "speedup_vs_ar")}}
    speed = {"model": mode, "ctx_128_tps": result["pr_decode_tps"], "ctx_512_tps": None}
    return {"primary": speed | {"top1": result["pr_top1"], "kl": result["pr_kl"]}}


def draft(name: str) -> Draft:
    """Three runs of one mode, with attestations beside their receipts; the third has no receipt."""
    mode, figures = MODES[name]
    runs = []
    for number in (1, 2, 3):
        result = {
            "id": f"{name}-{number:04d}-{make_log.commit(number)[:7]}",
            "pr": number + 10,
            "title": f"perf: made up {number}",
            "commit": make_log.commit(number)[:7],
            "eval_mode": mode,
            "label": "XL",
            "pass": True,
            "reason": "ok",
            "date": f"2026-08-0{number}",
        } | figures(number)
        what = "dflash" if name == "dflash" else "decode"
        speed = result[f"pr_{what}_tps"]
        attestation = make_log.attestation_of(
            number,
            {
                "kl": None,
                "top1": None,
                "delta_tps": round(speed - result[f"main_{what}_tps"], 4),
                "label": "XL",
                "pass": True,
                "pct_over_frontier": result["delta_pct"],
                "scored_context": None if name == "dflash" else 128,
                "tps": speed,
            },
        )
        attestation["environment"]["eval_mode"] = attestation["verdict"]["model"] = mode
        attestation["verdict"]["reason"] = "ok"
        attestation["measurements"] = _measured(mode, result)
        (measured,) = attestation["measurements"].values()
        index = {key: result[key] for key in ("id", "pr", "title", "label", "delta_pct", "eval_mode", "date")}
        runs.append(
            RunDraft(
                number,
                result,
                attestation,
                None,
                index,
                None,
                sealed=json.dumps(measured),
                folder=result["id"],
                beside=True,
                form="measurements" if number < 3 else "none",
            )
        )
    return Draft(runs, ledger=False)
