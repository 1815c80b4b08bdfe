"""Names under which this family writes one figure: some always, some only in what a way of evaluating publishes.

A name is in :data:`NAMINGS` where it was the same figure in every honest run in which both stood, and only for the ways
of evaluating of which that is known: elsewhere it may be another figure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.verify.polaris.foreign_json import Document

ALIASES: Final = {
    "date": "timestamp_utc",
    "delta_pct": "pct_over_frontier",
    "frontier": "frontier_tps",
    "guard_model": "guard.model",
    "guard_model_sha256": "guard.model_sha256",
    "guard_ok": "guard.ok",
    "guard_problems": "guard.problems",
    "id": "run_id",
    "label_qwen35": "score_qwen35.label",
    "label_qwen36": "score_qwen36.label",
    "llama_commit": "llamacpp_commit",
    "pass_qwen35": "score_qwen35.pass",
    "pass_qwen36": "score_qwen36.pass",
    "polaris_receipt_id": "receipt_id",
    "score_context": "scored_context",
    "score_qwen35.commit": "commit",
    "score_qwen35.eval_seed": "eval_seed",
    "score_qwen36.eval_seed": "eval_seed",
    "scored_ctx": "scored_context",
}
"""Other names under which this family writes the same fact."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What the names of figures mean where a run was evaluated in a mode that ``mode`` matches."""

    mode: re.Pattern[str]
    names: dict[str, str]


NAMINGS: Final = (
    Naming(
        re.compile(r"(?:museglimmer|qwen38)-128"),
        {
            "ctx_128_tps": "tps",
            "model": "eval_mode",
            "pr_decode_tps": "tps",
            "pr_dspark_tps": "tps",
            "pr_kl": "kl",
            "pr_top1": "top1",
        },
    ),
    Naming(re.compile(r"dflash"), {"model": "eval_mode", "pr_dflash_tps": "tps"}),
)
"""Names that depend on ``eval_mode``."""
_MODES: Final = ("eval_mode", "environment.eval_mode", "attestation.environment.eval_mode")


def names_of(documents: Iterable[Document]) -> dict[str, str]:
    """Every other name of a fact in the records of one run; a mode counts that any of them states."""
    modes = {document.text(path) or "" for document in documents for path in _MODES}
    names = dict(ALIASES)
    for naming in NAMINGS:
        if any(naming.mode.fullmatch(mode) for mode in modes):
            names |= naming.names
    return names
