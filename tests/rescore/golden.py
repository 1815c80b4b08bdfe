"""Reads the golden replay of the test data: numbers stay text, so no figure passes through a float."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.exact import parse_number
from k3_ledger.rescore.history.pins import MODEL, NODE, QUANT
from k3_ledger.rescore.inputs import Depth, Figure, Parity, RunInputs
from k3_ledger.rescore.slots import Track

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = ("v0.1.0", "v0.2.0", "v0.2.1", "v0.2.2")
BOUNDS = {"anchor": "anchor", "cap": "cap", "tie": "gain", None: None}
"""The golden rows' words for the term that bound; ``tie`` is what the anchor's absence looked like there."""


@dataclass(frozen=True)
class Row:
    """One golden row."""

    raw: dict[str, Any]
    run: RunInputs

    def under(self, reference: str) -> RunInputs:
        """The run held against another reference."""
        return self.run.with_pins(reference=Figure(parse_number(reference, field="L"), "rule"))


def read_rows(folder: Path) -> list[Row]:
    """All 51 rows, oldest first."""
    document = json.loads((folder / "golden_rescore.json").read_text(), parse_float=str, parse_int=str)
    return [Row(raw, _inputs(raw)) for raw in document["runs"]]


def _inputs(raw: dict[str, Any]) -> RunInputs:
    given = raw["inputs"]
    context = int(given["scored_context"]) if given["scored_context"] is not None else 64
    kl, top1 = (parse_number(given[name], field=name) for name in ("kl", "top1"))
    depths = tuple(Depth(int(name.removeprefix("ctx")), kl, top1) for name in given["parity_depths"] or ())
    inferred = given["llama_ref_source"] != "recorded"
    return RunInputs(
        run=raw["run_id"],
        track=Track(given["metric"], context, MODEL, QUANT, NODE),
        speed=parse_number(given["tps"], field="tps"),
        frontier=Figure(parse_number(given["frontier_tps"], field="frontier_tps"), "receipt"),
        reference=Figure(parse_number(given["llama_ref"], field="L"), "history" if inferred else "receipt", inferred),
        parity=Parity(kl, top1, depths),
        guarded=parse_number(given["decode_tps"], field="decode_tps") if given["decode_tps"] else None,
        at=datetime.fromisoformat(raw["timestamp_utc"]),
        commit=given["main_sha"],
        pull_request=int(raw["pr"]) if raw["pr"] else None,
        published=raw["published_label"],
        inferred=("context",) if given["scored_context"] is None else (),
    )
