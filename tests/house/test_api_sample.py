from __future__ import annotations

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.typing import api_sample


def test_the_public_api_does_what_the_typed_sample_says() -> None:
    assert api_sample.round_trip(b'{"a":1}') == b'{"a":1}'
    assert api_sample.explain(b'{"a":1}') == ""
    assert api_sample.explain(b'{"a": 1}').startswith("K3L-")
    assert api_sample.exit_code(Code.NOT_A_LEDGER) is ExitCode.UNREADABLE
