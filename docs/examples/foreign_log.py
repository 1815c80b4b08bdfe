"""Writes a made-up run log of the polaris family, to try `k3-ledger audit` on: python foreign_log.py DIR.

Two runs are sealed as the family seals them (the quotes have the structure of one and no origin). Then somebody edits
the second run's speed in the ledger line. Nothing here is real.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

SCORER = hashlib.sha256(b"scorer").hexdigest()
WORKLOAD = "python3 /submission/score.py"


def sha(text: str) -> str:
    """Hexadecimal SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def b64(data: bytes) -> str:
    """Standard base64."""
    return base64.b64encode(data).decode()


def quote(report_data: bytes) -> bytes:
    """Bytes with the structure of a TDX quote around 64 bytes of report data."""
    header = bytes([4, 0, 2, 0, 0x81, 0, 0, 0]) + bytes(40)
    return header + bytes(520) + report_data + (64).to_bytes(4, "little") + bytes(64)


def receipt(result: dict[str, object], attestation: dict[str, object], number: int) -> dict[str, object]:
    """Everything that a receipt covers is hashed as docs/audit.md says."""
    stdout = json.dumps(result) + "\n"
    expected = sha(json.dumps(result, sort_keys=True))
    files = f"/submission/result.json\t{expected}\n/submission/score.py\t{SCORER}\n"
    nonce, key, image = sha(f"nonce {number}")[:32], b64(hashlib.sha256(b"key").digest()), "sha256:" + sha("image")
    first = hashlib.sha256((nonce + key).encode()).digest()
    second = hashlib.sha256((image + sha(stdout) + sha(files)).encode()).digest()
    quoted = b64(quote(first + second))
    return {
        "_expected": {"result_sha256": expected, "scoring_sha256": SCORER},
        "attestation": attestation,
        "attestation_type": "tdx-quote",
        "polaris_version": 1,
        "receipt_id": sha(quoted[:64] + sha(stdout))[:32],
        "tdx": {
            "bound_digest": image,
            "e2e_pubkey_b64": key,
            "files_sha256": sha(files),
            "nonce": nonce,
            "quote_b64": quoted,
            "result_sha256": sha(stdout),
            "stdout_b64": b64(stdout.encode()),
            "workload_sha256": "sha256:" + sha(WORKLOAD),
        },
    }


def main(directory: Path) -> None:
    """Write the log into a directory that need not exist."""
    lines = []
    for number, (speed, frontier) in enumerate([(10.5, 10.0), (11.2, 10.5)], start=1):
        commit = hashlib.sha1(f"commit {number}".encode(), usedforsecurity=False).hexdigest()
        gain = round(speed - frontier, 2)
        result = {"commit": commit[:7], "tps": speed, "frontier_tps": frontier, "delta_tps": gain, "label": "S"}
        attestation = {
            "code": {"commit": commit},
            "timestamp_utc": f"2026-08-0{number}T12:00:00Z",
            "verdict": {"tps": speed, "delta_tps": gain, "label": "S"},
        }
        made = receipt(dict(result), dict(attestation), number)
        run_id = str(made["receipt_id"])
        folder = directory / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "receipt.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        shown = result | {"receipt_id": run_id}
        (folder / "result.json").write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
        lines.append({"run_id": run_id, "commit": commit, "tps": speed, "label": "S"})
    lines[1]["tps"] = 21.2  # here is the edit
    (directory / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
