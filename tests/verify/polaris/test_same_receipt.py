"""Receipts that have something in common: one seal for several runs, or several seals of what is alike by right."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.verify.polaris import audit
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import edit, path_of, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.verify.polaris.cases import Files
    from tests.verify.polaris.make_log import Draft

REFUSED = json.dumps({"label": "REJECT", "pass": False, "reason": "correctness gate failed: top1=0.0000"})
SAME, ALIKE = "FOREIGN_SAME_RECEIPT", "FOREIGN_ID_REPEATED"


def said(files: Files) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {SAME: [], ALIKE: []}
    for finding in audit(files).findings:
        found.get(finding.code.name, []).append(finding.message.partition(": ")[2])
    return found


def refused() -> Draft:
    """All runs print one and the same refusal, and all quotes begin alike: all receipts have one id."""
    log = make_log.draft()
    header = make_log.quote(1, bytes(64))[:48]
    for run in log.runs:
        run.sealed = REFUSED
        run.folder = f"{run.number:04d}"
        data = base64.b64decode(make_log.seal_tdx(run)["tdx"]["quote_b64"])
        run.tdx["quote_b64"] = make_log.b64(header + data[48:])
    return log


def test_two_refusals_that_print_the_same_are_two_seals() -> None:
    files = make_log.build(refused())
    ids = {json.loads(data)["receipt_id"] for path, data in files.items() if path.endswith("/receipt.json")}
    assert len(ids) == 1
    found = said(files)
    assert found[SAME] == []
    assert len(found[ALIKE]) == 2
    assert all(
        "receipt_id is that of 0001, which covers a constant and the sealed output alone; it differs in tdx.nonce, "
        "tdx.e2e_pubkey_b64, tdx.files_sha256" in message
        for message in found[ALIKE]
    )


def bit(value: dict[str, Any]) -> None:
    """Changes what of a quote nothing here verifies: its signature."""
    data = bytearray(base64.b64decode(value["tdx"]["quote_b64"]))
    data[640] ^= 1
    value["tdx"]["quote_b64"] = make_log.b64(bytes(data))


def tier(value: dict[str, Any]) -> None:
    value["attestation"]["verdict"]["label"] = "XXL"


def nothing(value: dict[str, Any]) -> None:
    assert value


COPIES = [(start, change) for start in (make_log.draft, refused) for change in (nothing, bit, tier)]


@pytest.mark.parametrize(("start", "change"), [*COPIES, (signed, nothing), (signed, tier)])
def test_a_receipt_that_was_copied_is_the_same_seal_whatever_in_it_nothing_covers(
    start: Callable[[], Draft], change: Callable[[dict[str, Any]], None]
) -> None:
    files = make_log.build(start())
    target = path_of(files, 3, "receipt.json")
    files[target] = files[path_of(files, 2, "receipt.json")]
    edit(files, target, change)
    assert any("receipt_id is that of" in message for message in said(files)[SAME])


def twice(seed: str) -> Draft:
    """One commit, measured in two runs, with nonces as documented."""
    log = make_log.draft()
    for run in log.runs[:2]:
        run.attestation["code"]["commit"] = make_log.commit(1)
        run.attestation["references"]["eval_seed"] = seed
        assert run.result is not None
        run.result["commit"] = make_log.commit(1)[:7]
    return log


@pytest.mark.parametrize("seed", ["", "ids:1"])
def test_a_nonce_that_follows_from_commit_model_and_seed_is_that_of_a_second_measurement(seed: str) -> None:
    found = said(make_log.build(twice(seed)))
    assert found[SAME] == []
    assert len(found[ALIKE]) == 1
    assert "tdx.nonce is that of" in found[ALIKE][0]


def test_a_digest_of_more_than_is_documented_may_be_that_of_a_second_measurement() -> None:
    log = twice("")
    for run in log.runs[:2]:
        run.tdx["nonce"] = make_log.sha("commit, model and something else")
    found = said(make_log.build(log))
    assert found[SAME] == []
    first = path_of(make_log.build(log), 1, "").split("/")[1]
    said_of = f"tdx.nonce is that of {first}, as a digest of one commit, model and seed is; it differs in "
    assert found[ALIKE] == [f"{said_of}tdx.e2e_pubkey_b64, tdx.result_sha256, tdx.files_sha256"]


@pytest.mark.parametrize("start", [make_log.draft, lambda: twice("")], ids=["two commits", "one commit"])
def test_a_random_nonce_stands_for_one_seal(start: Callable[[], Draft]) -> None:
    log = start()
    log.runs[0].tdx["nonce"] = "00112233445566778899aabbccddeeff"
    for run in log.runs[1:2]:
        run.tdx["nonce"] = "00112233445566778899aabbccddeeff"
    found = said(make_log.build(log))
    assert len(found[SAME]) == 1
    assert found[ALIKE] == []


@pytest.mark.parametrize("thief", [0, 1, 2])
def test_of_a_derived_nonce_it_is_the_run_that_it_does_not_follow_from_that_is_named(thief: int) -> None:
    log = make_log.draft()
    owner = (thief + 1) % 3
    log.runs[thief].tdx["nonce"] = make_log.seal_tdx(log.runs[owner])["tdx"]["nonce"]
    files = make_log.build(log)
    named = [f.message for f in audit(files).findings if f.code.name == SAME]
    folders = [path_of(files, number + 1, "").split("/")[1] for number in (thief, owner)]
    assert named == [f"{folders[0]}: tdx.nonce is that of {folders[1]}"]
