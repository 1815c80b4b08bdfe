from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.source import MemorySource
from tests.typing import api_sample

if TYPE_CHECKING:
    from pathlib import Path


def test_canonical_json_as_the_sample_uses_it() -> None:
    assert api_sample.round_trip(b'{"a":1}') == b'{"a":1}'
    assert api_sample.explain(b'{"a":1}') == ""
    assert api_sample.explain(b'{"a": 1}').startswith("K3L-")


def test_a_ledger_written_verified_and_proved_as_the_sample_does_it(tmp_path: Path) -> None:
    root = api_sample.make_ledger(tmp_path, "example.org/sample", "first words")
    source = api_sample.open_ledger(tmp_path / "ledger")
    assert {"framing", "signatures", "checkpoint"} <= set(api_sample.passed_steps(source, root))
    assert api_sample.kinds(source, root) == ["genesis", "key", "note"]
    proof = api_sample.prove(source, 2)
    assert api_sample.proof_exit_code(proof, root) is ExitCode.VERIFIED
    assert api_sample.proof_exit_code(proof.replace(b"first", b"worst"), root) is ExitCode.FALSE


def test_a_log_that_does_not_verify_is_no_verified_log(tmp_path: Path) -> None:
    root = api_sample.make_ledger(tmp_path, "example.org/sample", "first words")
    data = (tmp_path / "ledger" / "ledger.jsonl").read_bytes()
    source = MemorySource(data.replace(b"first", b"worst"))
    assert api_sample.kinds(source, root) == ["K3L-SIGNATURE-MISMATCH"]
