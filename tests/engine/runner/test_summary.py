"""What a person is shown of a measurement."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.record import timing_of
from k3_ledger.engine.runner.summary import rates_of, worst_depth
from tests.engine.runner.test_checks import claim, observations


@pytest.mark.parametrize(("claims", "decode"), [(True, 505.05), (False, 500.0)])
def test_rates_are_the_engines_own_to_within_a_hundredth_or_those_of_the_clock(claims: bool, decode: float) -> None:
    """Two milliseconds a token, of which the engine says that they were one."""
    timing = timing_of(observations(claim(0.5)), 0, Plan(), claims=claims)
    rates = {rate.metric: rate for rate in rates_of(SimpleNamespace(timing=timing))}  # type: ignore[arg-type]
    assert rates.keys() == {"prefill", "decode"}
    assert rates["decode"].median == pytest.approx(decode, rel=1e-4)
    assert rates["decode"].marginal == pytest.approx(500.0)
    assert rates["decode"].samples == 10


def test_a_failed_run_has_neither_rates_nor_a_worst_depth() -> None:
    assert rates_of(SimpleNamespace()) == []  # type: ignore[arg-type]
    assert worst_depth(SimpleNamespace()) is None  # type: ignore[arg-type]
    depths = [SimpleNamespace(depth=4, kl_max="0.2"), SimpleNamespace(depth=8, kl_max="0.19")]
    worst = worst_depth(SimpleNamespace(parity=SimpleNamespace(depths=depths)))  # type: ignore[arg-type]
    assert worst is depths[0]
