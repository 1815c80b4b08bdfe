"""Whether there can be a receipt at all that a rule accepts: the least one is written down and read.

A rule may ask for a million repetitions, for agreement at depth 0 or at more depths than a receipt lists, or score what
no receipt measures. None of these bounds is written here. The smallest body that holds what the rule asks for goes
through the schema and the longest entry that a ledger holds, and what is left is read as every run is read: a rule for
which that fails is one under which nobody ever earns anything, whatever the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach
from k3_ledger.rescore.native import read_run
from k3_ledger.rescore.rules.parameters import GRADING
from k3_ledger.schemas import canonical
from k3_ledger.schemas.envelope import MAX_ENTRY
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.repetitions import PREFILL
from k3_ledger.schemas.validate import ENTRY_LIMITS, parse_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.lint.context import Context
    from k3_ledger.rescore.rules.parameters import Rule

_BEHIND: Final = re.compile(rf"{PREFILL}-behind-([1-9][0-9]{{0,15}})")
_DIGEST: Final = "0" * 64
_BYTES_OF_A_TOKEN: Final = 2
"""Least length of a token id in the text of the prompts, with the comma or the line end behind it."""


def check_receipt(context: Context) -> Iterator[LintFinding]:
    """A rule that asks for what no receipt holds: told once, by the first thing that is in the way."""
    reason = _why_none(context.rule)
    if reason is not None:
        region, shows = context.region("claim"), "no tier, whatever is measured"
        yield LintFinding(Fault.NOTHING_EARNS, Reach.LIVE, region, reason, shows=shows)


def _why_none(rule: Rule) -> str | None:
    """Why no receipt is what the rule asks for; None where the least one is."""
    repetitions = _repetitions(rule)
    if repetitions > MAX_ENTRY:  # one byte each would be too many: not worth writing down
        return f"{repetitions} repetitions of a length are asked for, and a whole entry has {MAX_ENTRY} bytes"
    try:
        body: Any = parse_entry(canonical.format(_entry(rule), limits=ENTRY_LIMITS)).body
    except LedgerError as error:
        where = (error.finding.position.field or "").removeprefix("body.")
        return f"no receipt holds what is asked for: {where and where + ': '}{error.finding.message}"
    measured = {(found.track.metric, found.track.context) for found in read_run(body) if found.track.scorable}
    for name, (metric, length) in _asked(rule).items():
        if (metric, length) not in measured:
            return f"{name} is {metric} at {'no context' if length is None else length}, which no receipt measures"
    return None


def _asked(rule: Rule) -> dict[str, tuple[str, int | None]]:
    """What a receipt must have measured, by the part of the rule that asks."""
    parts = {"scope": rule.scope, "guard": rule.guard}
    return {name: (part.metric, part.context) for name, part in parts.items() if part is not None}


def _repetitions(rule: Rule) -> int:
    """Repetitions of each length; rules whose gates do not grade ask for none."""
    asked = rule.sampling.repetitions if rule.sampling is not None and rule.arithmetic in GRADING else 1
    return max(asked, 1)


def _entry(rule: Rule) -> dict[str, Any]:
    """The least entry that a rule accepts: every name and number in it is as short as can be."""
    return {
        "body": _body(rule),
        "index": 0,
        "key": _DIGEST,
        "kind": "run",
        "prev": _DIGEST,
        "schema": "k3-ledger/run/1",
        "time": "2000-01-01T00:00:00Z",
    }


def _body(rule: Rule) -> dict[str, Any]:
    rows = rule.correctness.rows
    prompts = {"media_type": "text/plain", "name": "prompts.txt", "sha256": _DIGEST, "size": _BYTES_OF_A_TOKEN * rows}
    node = {
        "accelerators": [], "cpu": "", "kernel": "", "logical_cores": 1, "memory_bytes": 0, "name": "n", "os": "",
    }  # fmt: skip
    return {
        "artifacts": [prompts],
        "bundle": _DIGEST,
        "expert_load": None,
        "flags": [],
        "machine": {"command": [""], "node": node, "software": [], "started": "2000-01-01T00:00:00Z"},
        "memory": [],
        "model": {
            "architecture": "a", "name": "m", "quant": "q", "sha256": _DIGEST, "size": 0, "synthetic": False,
        },
        "parity": _parity(rule),
        "role": "candidate",
        "round": None,
        "subject": {"build_sha256": None, "name": "s", "source": None, "version": ""},
        "tee": {"kind": "none", "report_data_sha256": None},
        "timing": [series for at in dict.fromkeys(_asked(rule).values()) for series in _timing(rule, *at)],
    }  # fmt: skip


def _parity(rule: Rule) -> dict[str, Any]:
    """Agreement at the depths that are asked for, and at one where none is: without any, nothing was graded."""
    rows = rule.correctness.rows
    agreement = {
        "kl_max": "0", "kl_mean": "0", "max_abs_logprob_difference": "0", "near_ties": 0, "rows": rows, "ties": 0,
        "top1_agree": rows,
    }  # fmt: skip
    return {
        "chunk": None,
        "depths": [{"depth": depth, **agreement} for depth in sorted(set(rule.correctness.depths)) or [1]],
        "near_tie_bound": "0",
        "path": "both",
        "processing": "raw",
        "prompt_sha256": _DIGEST,
        "reference": {"independent": True, "name": "r", "version": ""},
        "tie_rule": "lowest-id",
        "vocabulary": 1,
    }


def _timing(rule: Rule, metric: str, length: int | None) -> list[dict[str, Any]]:
    """What the program says of itself, and what the clock saw, of one metric at one context."""
    behind = _BEHIND.fullmatch(metric)
    prefills = metric == PREFILL or behind is not None
    front = (int(behind[1]) if behind else 0) if prefills else length
    count = (1 if length is None else length) if prefills else 1
    scored = (metric, length) == (rule.scope.metric, rule.scope.context)
    many = _repetitions(rule) if scored else 1
    name, clock = PREFILL if prefills else metric, rule.clock
    seen: list[tuple[str, list[tuple[int, int]]]] = [("subject", [(count, 1)])]
    if clock is not None and metric in clock.metrics and (scored or rule.bears_out):
        # Both lengths in each series: what a prefill is known by is the shortest of its own.
        seen.append(("controller", [(count, 1), (count + max(clock.margin or 1, 1), 2)]))
    return [_series(name, observer, front, lengths * many) for observer, lengths in seen]


def _series(metric: str, observer: str, front: int | None, samples: list[tuple[int, int]]) -> dict[str, Any]:
    rows = [{"count": count, "duration_ns": duration, "start_ns": 0} for count, duration in samples]
    return {
        "actor": "subject",
        "batch": 1,
        "cache": "none",
        "context": front,
        "context_filled": front,
        "inputs": "fresh",
        "metric": metric,
        "observer": observer,
        "processes": 1,
        "samples": rows,
        "unit": "token",
        "warmup": 0,
    }
