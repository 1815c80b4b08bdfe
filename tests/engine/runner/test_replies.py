"""Fields of an engine's answer that JSON can hold and a float cannot: refused in words."""

from __future__ import annotations

import json

import pytest

from k3_ledger.engine.runner.replies import numbers_of
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
