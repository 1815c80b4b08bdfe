"""Attesting a run on a guest with TDX, against a folder that behaves like the kernel's; and everywhere else."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine.bundle import write_bundle
from k3_ledger.engine.tsm import ATTEMPTS, PAUSE_S, Module, attest, take_quote
from k3_ledger.schemas.attested import bare_digest, report_data
from k3_ledger.schemas.errors import AttestationError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import RunMeasurement
from tests.engine.simulated_tsm import SimulatedModule, structure
from tests.ledgers import run_body

if TYPE_CHECKING:
    from pathlib import Path

WANTED = bytes(range(64))


@pytest.fixture
def measurement() -> RunMeasurement:
    body = run_body()
    del body["bundle"]
    return RunMeasurement.model_validate_json(json.dumps(body))


def simulated(folder: Path, **how: Any) -> tuple[SimulatedModule, list[float]]:
    waits: list[float] = []
    return SimulatedModule(reports=folder, wait=waits.append, **how), waits


def refusal(folder: Path, **how: Any) -> AttestationError:
    module, _ = simulated(folder, **how)
    with pytest.raises(AttestationError) as caught:
        take_quote(WANTED, module)
    assert caught.value.code is Code.RUN_NO_QUOTE
    assert list(folder.iterdir()) == []  # whatever happened, the report is taken away
    return caught.value


def test_the_report_data_come_back_in_a_quote(tmp_path: Path) -> None:
    module, waits = simulated(tmp_path)
    assert take_quote(WANTED, module) == structure(WANTED)
    assert (module.log, waits) == (["read", "closed"], [])
    assert list(tmp_path.iterdir()) == []


def test_a_busy_module_is_asked_again_and_not_forever(tmp_path: Path) -> None:
    module, waits = simulated(tmp_path, busy=ATTEMPTS - 1)
    assert take_quote(WANTED, module) == structure(WANTED)
    assert waits == [PAUSE_S] * (ATTEMPTS - 1)
    assert "busy" in str(refusal(tmp_path, busy=ATTEMPTS))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"fault": "mkdir"}, "could be opened"),
        ({"fault": "intruder"}, "somebody else wrote"),
        ({"fault": "short-write"}, "32 of 64 bytes"),
        ({"fault": "generation"}, "not a number"),
        ({"fault": "read"}, "the security module failed"),
        ({"make": lambda data: structure(data)[:632]}, "cut short"),
        ({"make": lambda _: b""}, "cut short"),
        ({"make": lambda _: structure(bytes(64))}, "other report data"),
    ],
)
def test_a_module_that_fails_gives_no_quote_and_leaves_nothing_behind(
    tmp_path: Path, how: dict[str, Any], words: str
) -> None:
    assert words in str(refusal(tmp_path, **how))


def test_a_kernel_that_takes_only_part_of_a_write_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _, data: len(data) - 1)
    assert "63 of 64 bytes" in str(refusal(tmp_path))


@pytest.mark.parametrize("how", [{"provider": "sev_guest"}, {"fault": "no-provider"}])
def test_a_machine_with_another_module_or_none_behind_configfs_gives_none(tmp_path: Path, how: dict[str, Any]) -> None:
    module, _ = simulated(tmp_path, **how)
    assert take_quote(WANTED, module) is None
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_taken_away_loses_no_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(SimulatedModule, "close", refuse)
    assert take_quote(WANTED, simulated(tmp_path)[0]) == structure(WANTED)


def test_report_data_have_64_bytes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        take_quote(b"short", simulated(tmp_path)[0])


def test_elsewhere_the_measurement_stays_as_it_was(tmp_path: Path, measurement: RunMeasurement) -> None:
    assert attest(measurement, b"{}", Module(reports=tmp_path / "none")) == (measurement, {})
    assert attest(measurement, b"{}", simulated(tmp_path, provider="sev_guest")[0]) == (measurement, {})
    assert measurement.tee.kind == "none"


@pytest.mark.parametrize("collateral", [None, b'{"items":{}}'])
def test_a_quote_binds_the_bundle_that_carries_it(
    tmp_path: Path, measurement: RunMeasurement, collateral: bytes | None
) -> None:
    (tmp_path / "tsm").mkdir()
    attested, blobs = attest(measurement, collateral, simulated(tmp_path / "tsm")[0])
    names = [artifact.name for artifact in attested.artifacts]
    assert names == ["tdx-quote.bin"] + (["tdx-collateral.json"] if collateral else [])
    wanted = report_data(bare_digest("run", attested.model_dump(mode="json")))
    quote = blobs[attested.artifacts[0].sha256]
    assert quote[568:632] == wanted
    assert attested.tee.kind == "tdx"
    assert attested.tee.report_data_sha256 == hashlib.sha256(wanted).hexdigest()
    write_bundle(tmp_path / "bundle", attested, blobs)
    changed = attested.model_copy(update={"role": "frontier"})
    assert report_data(bare_digest("run", changed.model_dump(mode="json"))) != wanted
