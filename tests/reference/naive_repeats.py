"""Second way to what a round's frontier runs differ by: the ledger's lines, read as JSON, in integers.

Written from the rule: of the frontier runs in front of a run, of its round, on its weights, under its names and on its
machine, that stood at a position, how many bundles there are, and the slowest and the fastest of them. A gain over 2 %
is proved where there are four bundles or more and it is greater than (fastest - slowest) / slowest. Speeds count
10**-6 tokens a second; nothing of the product is used.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

FOUR = 4


def claimed(body: dict[str, Any], metric: str, context: int) -> int | None:
    """What the program says of a metric: the middle rate of its repetitions, an odd number of one count each."""
    for series in body["timing"]:
        long = series["samples"][0]["count"] if metric == "prefill" else series["context"]
        if (series["metric"], series["observer"], long) == (metric, "subject", context):
            middle = sorted(row["duration_ns"] for row in series["samples"])[len(series["samples"]) // 2]
            whole, rest = divmod(series["samples"][0]["count"] * 10**15, middle)
            return whole + (2 * rest > middle or (2 * rest == middle and whole % 2))
    return None


def alike(body: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two runs are of one round, on one file under one name, on one machine."""
    names = [(one["model"]["name"], one["model"]["quant"], one["model"]["sha256"]) for one in (body, other)]
    nodes = [one["machine"]["node"]["name"] for one in (body, other)]
    return body["round"] is not None and body["round"] == other["round"] and names[0] == names[1] and len({*nodes}) == 1


def repeats(data: bytes, run: str, metric: str, context: int, *, at: int | None = None) -> tuple[int, int, int]:
    """(bundles, slowest, fastest) that a run is held against; zeros where there are none.

    Args:
        data: the ledger.
        run: identity of the run.
        metric: of what was measured.
        context: likewise.
        at: position that a verdict is sealed at; None for the end.
    """
    lines = [line[9:-99] for line in data.splitlines(keepends=True)]
    entries = [(sha256(line).hexdigest(), json.loads(line)) for line in lines]
    gone = {entry["body"]["target"] for _, entry in entries[:at] if entry["kind"] == "supersede"}
    (place,) = [number for number, (identity, _) in enumerate(entries) if identity == run]
    own = entries[place][1]["body"]
    found = [
        (entry["body"]["bundle"], speed)
        for identity, entry in entries[:place]
        if entry["kind"] == "run" and entry["body"]["role"] == "frontier" and identity not in gone
        if alike(entry["body"], own) and (speed := claimed(entry["body"], metric, context)) is not None
    ]
    speeds = [speed for _, speed in found]
    return len({bundle for bundle, _ in found}), min(speeds, default=0), max(speeds, default=0)


def is_proved(speed: int, frontier: int, found: tuple[int, int, int]) -> bool | None:
    """Whether a speed gained over a frontier, by the rule; None where there is nothing to prove."""
    bundles, slowest, fastest = found
    if 50 * (speed - frontier) <= frontier:
        return None
    return bundles >= FOUR and (speed - frontier) * slowest > frontier * (fastest - slowest)
