"""What a model file holds, as plain data for people and programs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from k3_ledger.engine.weights import Weights


def runs_of_layers(mla: tuple[bool, ...]) -> str:
    """The layer map as text, ``K`` for KDA and ``M`` for MLA, in order."""
    return "".join("M" if is_mla else "K" for is_mla in mla)


def active_parameters(weights: Weights) -> int:
    """Parameters read for one token: every tensor but the embedding's other rows and the experts not chosen."""
    config, total = weights.config, 0
    for name, info in weights.tensors.items():
        count = math.prod(info.shape)
        if name == "token_embd.weight":
            count = config.hidden
        elif "_exps." in name:
            count = count // config.experts * config.top_k
        total += count
    return total


def describe(weights: Weights) -> dict[str, Any]:
    """JSON-ready description of a checked file."""
    config, values = weights.config, weights.file.values
    storage: Counter[str] = Counter()
    for info in weights.tensors.values():
        storage[info.storage.name] += info.size
    sizes = {key: value for key, value in asdict(config).items() if key != "mla"}
    return {
        "name": str(values.get("general.name", "")),
        "architecture": str(values["general.architecture"]),
        "files": [path.name for path in weights.file.paths],
        "bytes": weights.file.size,
        "synthetic": weights.synthetic,
        "quant": weights.quant,
        "stored_bytes": dict(storage.most_common()),
        "tensors": len(weights.tensors),
        "parameters": sum(math.prod(info.shape) for info in weights.tensors.values()),
        "active_parameters": active_parameters(weights),
        "layer_map": runs_of_layers(config.mla),
        "kda_layers": config.layers - sum(config.mla),
        "mla_layers": sum(config.mla),
        "banks": config.banks,
        "sizes": sizes,
    }
