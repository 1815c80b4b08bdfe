"""Measures how a model's routers spread load: every speed of a mixture is a speed at some spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import ExpertUse, Model, Options

if TYPE_CHECKING:
    from k3_ledger.engine.weights import Weights
    from k3_ledger.schemas.models import ExpertLoad

TOKENS: Final = 512


def measure_spread(weights: Weights, *, tokens: int = TOKENS, seed: int = 0) -> ExpertLoad:
    """Runs a prompt of random ordinary tokens and counts, for the worst layer, distinct experts and the top load."""
    model = Model(weights, Options(numerics=Numerics(deterministic=False), packed=True))
    model.expert_use = ExpertUse()
    pool = np.asarray(weights.tokenizer().ordinary())
    ids = pool[np.random.Generator(np.random.Philox(seed)).integers(0, len(pool), tokens)].tolist()
    model.prefill(ids, model.new_state(tokens), 128)
    return model.expert_use.record(weights.config.experts)
