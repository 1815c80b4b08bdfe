"""Fields of an engine's answer that JSON can hold and a float cannot: refused in words."""

from __future__ import annotations

import json

import pytest

from k3_ledger.engine.runner.replies import numbers_of, tokens_of
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

NOT_NUMBERS = ("1" + 400 * "0", "-1" + 400 * "0", "1" + 30 * "0", "1e400", "NaN", "true", '"-3.0"', "null", "[]")


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_a_log_probability_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RunError, match="does not hold what it was asked for") as caught:
        numbers_of([-1.5, json.loads(text)], 2, "decode")
    assert caught.value.code is Code.RUN_OUTPUT
    assert len(str(caught.value.finding.found)) < 200


def test_numbers_are_taken_as_they_are_written() -> None:
    assert numbers_of(json.loads("[-3, 0, -1.5, -0.0]"), 4, "decode") == (-3.0, 0.0, -1.5, 0.0)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("token", [-1, 64, 10**30, -(10**30)])
def test_a_token_that_the_model_does_not_have_is_the_engines_fault_wherever_it_stands(token: int, at: int) -> None:
    ids = [0, 63, 5]
    assert tokens_of(ids, 3, "decode", 64) == (0, 63, 5)
    ids[at] = token
    with pytest.raises(RunError, match="a token that the model does not have") as caught:
        tokens_of(ids, 3, "decode", 64)
    assert (caught.value.code, caught.value.finding.expected) == (Code.RUN_OUTPUT, "ids from 0 to 63")
    assert len(str(caught.value.finding.found)) <= 80
