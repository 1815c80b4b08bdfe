"""The pins of sparkinfer-k3 as they rose, for `k3-ledger reconcile`: python pin_history.py FOLDER, then LEDGER.

Every row is one moment at which a pinned value was held against a new measurement, with the winner that had landed in
between (all of them public figures). Given a new FOLDER, it writes for each row what was
pinned, the winner's run where it has a receipt, and what was measured, as bundles in the order of a log. Given the
LEDGER that these were sealed into, it writes pins.toml and merges.toml beside it. Each row has a node of its own, named
by its moment, so that one call reconciles them all; around the figures everything is invented, as in invented.py.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

from k3_ledger.schemas import canonical

invented: Any = importlib.import_module("invented")  # beside this file
TRACKS: Final = {"64": ("decode", 64), "128K": ("decode", 131_072), "32K_PP": ("prefill", 32_768)}
# Moment, slot, pinned, measured, and what landed: its number in a receipt, or after a tilde one that no receipt holds.
ROWS: Final = """
08-01T06:10:02 64     3.55  9.63   9.54
08-01T11:30:02 64     9.63  10.34  -
08-01T11:50:44 128K   1.00  1.01   -
08-01T17:44:09 128K   1.00  4.53   4.50
08-01T23:44:29 128K   4.53  9.04   9.19
08-02T01:34:33 128K   9.04  16.06  14.95
08-02T03:25:32 128K   16.06 17.46  -
08-02T03:49:36 128K   17.46 18.14  -
08-02T03:55:27 128K   18.14 18.14  -
08-02T17:18:07 128K   18.14 18.88  -
08-02T18:03:46 128K   18.88 18.90  -
08-02T19:09:46 128K   18.88 20.14  -
08-02T19:37:35 128K   20.14 21.24  -
08-03T05:01:11 128K   21.24 11.61  -
08-03T05:41:41 128K   21.24 22.12  -
08-03T07:51:13 128K   22.12 26.09  26.08
08-03T09:22:24 128K   26.09 29.93  29.97
08-03T12:18:27 128K   29.93 33.58  33.56
08-03T17:53:31 128K   33.58 35.63  -
08-04T08:00:59 128K   35.63 40.02  41.39
08-04T09:33:41 128K   40.02 40.03  -
08-04T18:24:28 128K   40.02 44.85  45.38
08-05T01:37:42 128K   44.85 46.48  -
08-05T03:03:59 128K   46.48 46.11  -
08-05T05:32:32 128K   46.48 56.80  56.82
08-05T07:04:44 32K_PP 40.35 53.02  -
08-05T09:19:06 32K_PP 53.02 53.13  -
08-06T05:49:00 32K_PP 53.02 59.59  59.06
08-06T09:57:56 32K_PP 59.59 66.62  ~63.28
08-06T11:18:17 32K_PP 66.62 69.02  -
08-06T19:51:58 32K_PP 69.02 98.80  -
"""


def rows() -> list[tuple[str, str, str, str, str]]:
    """(moment, slot, pinned, measured, winner) of every row."""
    return [
        (when, slot, pin, measured, won) for when, slot, pin, measured, won in map(str.split, ROWS.split("\n")[1:-1])
    ]


def write_bundles(folder: Path) -> None:
    """What was measured, as bundles that are named in the order of the log."""
    count = 0
    for when, slot, pin, measured, won in rows():
        for role, value in (("frontier", pin), ("candidate", won), ("frontier", measured)):
            if value[0] in "-~":
                continue
            count += 1
            body = invented.body(role, 1.0, 1.0)
            metric, context = TRACKS[slot]
            body["timing"] = invented.timing(metric, context, float(value))
            body["machine"]["node"]["name"] = when
            body["round"] = f"{when}.{count}"
            body["subject"]["build_sha256"] = hashlib.sha256(f"{when} {role} {value}".encode()).hexdigest()
            place = folder / f"{count:03}"
            (place / "blobs").mkdir(parents=True)
            bundle: Any = {"schema": "k3-ledger/bundle/1", "kind": "run", "body": body}
            (place / "bundle.json").write_bytes(canonical.format(bundle))


def write_pins(ledger: Path) -> None:
    """Each row's pin with the receipt that it was measured in, and what landed before the next measurement."""
    sealed: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for line in (ledger / "ledger.jsonl").read_bytes().splitlines():
        entry = line[len(b'{"entry":') : -98]  # what is left of a line is its signature (docs/format.md)
        read = json.loads(entry)
        if read["kind"] == "run":
            node = read["body"]["machine"]["node"]["name"]
            sealed.setdefault(node, []).append((hashlib.sha256(entry).hexdigest(), read))
    pins, merges = [], []
    for number, (when, slot, pin, _, won) in enumerate(rows(), start=1):
        metric, context = TRACKS[slot]
        track = f"{metric}@{context}/slice/bf16/{when.replace(':', '+3A')}"
        (first, _), *_, (_, last) = sealed[when]
        pins.append(f'[[pin]]\nslot = "frontier:{track}"\nvalue = {pin}\nunit = "tok/s"\nsource = "{first}"\n')
        if won != "-":
            of = f"claimed = {won[1:]}" if won[0] == "~" else f'run = "{sealed[when][1][0]}"'
            merges.append(f'[[merge]]\ntrack = "{track}"\npull_request = {number}\ntime = {last["time"]}\n{of}\n')
    (ledger.parent / "pins.toml").write_text("\n".join(pins), encoding="utf-8")
    (ledger.parent / "merges.toml").write_text("\n".join(merges), encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if place.exists():
        write_pins(place)
    else:
        write_bundles(place)
