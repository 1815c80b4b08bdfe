"""What one run's records leave out, assert, or fill with something else. Nothing here compares runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import Agreement, compare_numbers, instant
from k3_ledger.verify.polaris.foreign_json import Number, read, show
from k3_ledger.verify.polaris.spelling import decode_base64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.facts import RunFacts
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.parse import RunLog

WEIGHTS: Final = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx")
"""Endings of files that can be a model's weights."""
ZERO_IS_EMPTY: Final = ("attestation.environment.clock_mhz", "attestation.environment.decode_tokens")
"""Numbers for which zero means that nobody filled them in."""
NEEDED: Final = {
    "speed": ("tps",),
    "frontier": ("frontier_tps",),
    "label": ("label",),
    "reference speed": ("tier_anchor_ref",),
    "rule version": ("rule", "rule_version"),
    "main commit behind the frontier": ("frontier_commit",),
    "scored context": ("scored_context",),
    "scored metric": ("scored_metric",),
    "kl": ("kl",),
    "kl bar": ("kl_bar",),
    "top1": ("top1",),
    "top1 bar": ("top1_bar",),
    "kl by depth": ("kl_depths.ctx4.kl",),
    "decode speed": ("decode_tps", "pr_decode_tps"),
    "clock reading": ("clock_tps",),
    "build digest": ("build_hash",),
    "evaluation seed": ("eval_seed",),
}
"""What a tier rule needs, and facts or fields that would give it. Log text is evidence about these, not a record."""

_BARS = re.compile(r"top1=\S+ \(?need ?>= ?(?P<top1>[0-9.]+).*?kl=\S+ \(?need ?<= ?(?P<kl>[0-9]+(?:\.[0-9]+)?)")
_PROVENANCE = re.compile(
    r"attestation\.(?:code|environment|references)\..*|attestation\..*\.model(?:_sha256)?|llama_commit"
)


def check_provenance(facts: RunFacts) -> Iterator[Finding]:
    """Everything that a single run's records show to be wanting."""
    run = facts.run
    if run.receipt is not None:
        yield from _empty(run.run_id, run.receipt)
        yield from _guards(run.run_id, run.receipt)
        yield from _misfilled(facts, run.receipt)
        yield from _time(run.run_id, run.receipt)
    published = run.result or run.sealed
    if published is not None:
        yield from _empty(run.run_id, published)
    yield from _bars(facts)
    yield from _basis(facts)
    yield from _gates(facts)
    yield from _speeds(facts)
    missing = missing_for_rescore(facts)
    if missing and facts.run.files:
        message = f"{run.run_id}: no record has {', '.join(missing)}"
        yield Finding(Code.FOREIGN_MISSING_FOR_RESCORE, message, run.place)


def missing_for_rescore(facts: RunFacts) -> list[str]:
    """What of :data:`NEEDED` no record of the run states."""
    fields = (
        set()
        if facts.run.result is None
        else {p for p, leaf in facts.run.result.leaves.items() if leaf.value is not None}
    )
    return [
        need
        for need, names in NEEDED.items()
        if fields.isdisjoint(names) and all(facts.first(name) is None for name in names)
    ]


def timed_metrics(log: RunLog) -> frozenset[str]:
    """Metrics that the log texts show being timed."""
    return frozenset(event.figures["metric"] for text in log.logs for event in text.all("timing"))


def check_clock(facts: RunFacts, timed: frozenset[str]) -> Iterator[Finding]:
    """A speed that wall-clock time is said to have bounded should come with the reading, and be of that metric."""
    source = facts.text("speed_source")
    if "wall_clock" not in source:
        return
    evaluation = facts.run.evaluation
    logged = evaluation is not None and evaluation.first("clock") is not None
    if not logged and facts.first("clock_tps") is None:
        message = f"{facts.run.run_id}: speed_source is {source}, and no record or log line has the clock's reading"
        yield Finding(Code.FOREIGN_CLOCK_UNPUBLISHED, message, facts.at("speed_source"))
    metric = facts.text("scored_metric")
    if metric and timed and metric not in timed:
        message = (
            f"{facts.run.run_id}: {metric} is said to be {source}, and the logs time {' and '.join(sorted(timed))}"
        )
        yield Finding(Code.FOREIGN_CLOCK_WRONG_METRIC, message, facts.at("speed_source"))


def _empty(run_id: str, document: Document) -> Iterator[Finding]:
    for path, leaf in document.leaves.items():
        blank = leaf.value in (None, "") and _PROVENANCE.fullmatch(path)
        zero = path in ZERO_IS_EMPTY and isinstance(leaf.value, Number) and leaf.value.value == 0
        if blank or zero:
            message = f"{run_id}: {path} is {show(leaf.value) or 'blank'}"
            yield Finding(Code.FOREIGN_PROVENANCE_EMPTY, message, leaf.position)


def _guards(run_id: str, receipt: Document) -> Iterator[Finding]:
    """Guards that pass although neither ratio nor baseline was written; and clocks that were not pinned."""
    unmeasured = []
    for path, leaf in receipt.leaves.items():
        stem = path.removesuffix("_pass")
        if stem != path and ".guard_" in stem and leaf.value is True:
            figures = [receipt.number(f"{stem}_{part}") for part in ("baseline", "ratio")]
            unmeasured += [path] if figures == [None, None] else []
    if unmeasured:
        message = f"{run_id}: {len(unmeasured)} guards pass without a baseline or a ratio"
        yield Finding(Code.FOREIGN_GUARD_UNMEASURED, message, receipt.at(unmeasured[0]))
    pinned = receipt.leaves.get("attestation.environment.clocks_pinned")
    if pinned is not None and pinned.value is False:
        yield Finding(Code.FOREIGN_CLOCKS_UNPINNED, f"{run_id}: clocks_pinned is false", pinned.position)


def _misfilled(facts: RunFacts, receipt: Document) -> Iterator[Finding]:
    run_id = facts.run.run_id
    path = "attestation.environment.decode_tokens"
    tokens, layers = receipt.number(path), facts.number("layers")
    if tokens and layers is not None and tokens == layers.value:
        message = f"{run_id}: decode_tokens is {tokens}, the number of layers"
        yield Finding(Code.FOREIGN_FIELD_MISFILLED, message, receipt.at(path))
    path = "attestation.references.model_file"
    name = receipt.text(path)
    if name and not name.lower().endswith(WEIGHTS):
        message = f"{run_id}: model_file is {name}, which is no file of weights"
        yield Finding(Code.FOREIGN_FIELD_MISFILLED, message, receipt.at(path), "a file of weights", name)


def _bars(facts: RunFacts) -> Iterator[Finding]:
    """The bars that the enclave names in its reason, against those that the published result states."""
    run = facts.run
    match = None if run.sealed is None else _BARS.search(run.sealed.text("reason") or "")
    if run.sealed is None or match is None:
        return
    for name in ("top1", "kl"):
        published = facts.number(f"{name}_bar")
        sealed = Number(match[name].rstrip("."))
        if published is not None and compare_numbers(published, sealed) is not Agreement.EQUAL:
            message = f"{run.run_id}: the enclave judged {name} by {sealed.text}, the result states {published.text}"
            at = run.sealed.at("reason")
            yield Finding(Code.FOREIGN_SEALED_BARS, message, at, published.text, sealed.text)


def _gates(facts: RunFacts) -> Iterator[Finding]:
    """A run that passes is not beyond the bars that it states."""
    if facts.text("pass") != "true":
        return
    for name, sign in (("kl", 1), ("top1", -1)):
        value, bar = facts.number(name), facts.number(f"{name}_bar")
        if value is None or bar is None or value.value is None or bar.value is None:
            continue
        if sign * (value.value - bar.value) > 0:
            message = f"{facts.run.run_id}: pass is true, {name} is {value.text} and its bar {bar.text}"
            yield Finding(Code.FOREIGN_CONTRADICTION, message, facts.at(f"{name}_bar"), "false", "true")


def _speeds(facts: RunFacts) -> Iterator[Finding]:
    """The speed under the name of what it is said to be: that of decode, or the reading of the clock."""
    same = {
        "decode_tps": facts.text("scored_metric") == "decode",
        "clock_tps": facts.text("speed_source") == "wall_clock_differential",
    }
    for name, reason in (("decode_tps", "scored_metric"), ("clock_tps", "speed_source")):
        speed, other = facts.number("tps"), facts.number(name)
        if not same[name] or speed is None or other is None:
            continue
        if compare_numbers(speed, other) is Agreement.DIFFER:
            message = (
                f"{facts.run.run_id}: {reason} is {facts.text(reason)}, tps is {speed.text} and {name} {other.text}"
            )
            yield Finding(Code.FOREIGN_CONTRADICTION, message, facts.at(name), speed.text, other.text)


def _basis(facts: RunFacts) -> Iterator[Finding]:
    credit, anchored = facts.number("effective_pct"), facts.number("pct_of_llama")
    if facts.text("tier_basis") != "llama_anchored" or credit is None or anchored is None:
        return
    if compare_numbers(credit, anchored) is not Agreement.EQUAL:
        message = (
            f"{facts.run.run_id}: tier_basis is llama_anchored, effective_pct is {credit.text} and "
            f"pct_of_llama {anchored.text}"
        )
        at = facts.at("effective_pct")
        yield Finding(Code.FOREIGN_TIER_BASIS, message, at, anchored.text, credit.text)


def _time(run_id: str, receipt: Document) -> Iterator[Finding]:
    """The receipt's own time: readable by the family's verifier, and inside the period of its collateral."""
    path = "attestation.timestamp_utc"
    text = receipt.text(path)
    if text is None:
        return
    if not text.endswith("Z"):
        message = f"{run_id}: timestamp {text} does not end in Z"
        yield Finding(Code.FOREIGN_VERIFIER_REFUSES, message, receipt.at(path), "a trailing Z", text[:40])
    time = instant(text)
    for name, start, end in _periods(receipt):
        first, last = instant(start), instant(end)
        if time is not None and first is not None and last is not None and not first <= time <= last:
            message = f"{run_id}: timestamp {text} is outside the period of {name}"
            yield Finding(Code.FOREIGN_TIME_COLLATERAL, message, receipt.at(path), f"{start} to {end}", text)


def _periods(receipt: Document) -> Iterator[tuple[str, str, str]]:
    """Periods of validity that the collateral states, as text. Nothing here verifies the collateral."""
    collateral = read(decode_base64(receipt.text("tdx.collateral_b64") or "") or b"null", receipt.source)
    items = collateral.object.get("items")
    for encoded in items.values() if isinstance(items, dict) else ():
        data = decode_base64(encoded) if isinstance(encoded, str) else None
        item = read(data or b"null", receipt.source)
        for name in ("tcbInfo", "enclaveIdentity"):
            start, end = item.text(f"{name}.issueDate"), item.text(f"{name}.nextUpdate")
            if start is not None and end is not None:
                yield name, start, end
