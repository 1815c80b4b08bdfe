"""A receipt whose attestation holds under no certificate is refused by `seal` and `append`, and nothing is stored."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.schemas.findings import Code
from tests.ledgers import RUNNER, bundle_digest, canonical
from tests.verify.tee.receipts import Attested
from tests.verify.tee.test_without_certificates import FAULTS, SOUND

from .test_refused_for_ever import Desk

if TYPE_CHECKING:
    from pathlib import Path

SEAL = ("seal", "bundle", "-l", "ledger", "-k", "runner.pem")


@pytest.fixture
def desk(run: Any, tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def lay_out(place: Path, receipt: Attested) -> dict[str, Any]:
    """The receipt as a bundle, and its body."""
    (place / "bundle" / "blobs").mkdir(parents=True)
    data = canonical({"body": receipt.body, "kind": "run", "schema": "k3-ledger/bundle/1"})
    (place / "bundle" / "bundle.json").write_bytes(data)
    for contents in receipt.files.values():
        (place / "bundle" / "blobs" / hashlib.sha256(contents).hexdigest()).write_bytes(contents)
    return {**receipt.body, "bundle": bundle_digest(receipt.body)}


@pytest.mark.parametrize("what", FAULTS)
def test_it_is_not_sealed_and_not_appended(run: Any, desk: Desk, tmp_path: Path, what: str) -> None:
    make, code = FAULTS[what]
    body = lay_out(tmp_path, make())
    before = desk.files()
    done = run(*SEAL)
    codes = {f"[K3L-{name.replace('_', '-')}]" for name in (code, "QUOTE_BINDING", "ARTIFACT_NAME_TAKEN")}
    assert (done.code, any(said in done.err for said in codes)) == (1, True), done.err
    assert "nothing was appended" in done.err
    (tmp_path / "body.json").write_text(json.dumps(body))
    files = [word for path in sorted((tmp_path / "bundle" / "blobs").iterdir()) for word in ("--artifact", path)]
    done = run("append", "run", "--body", "body.json", *files, "-l", "ledger", "-k", "runner.pem")
    assert (done.code, any(said in done.err for said in codes)) == (1, True), done.err
    assert desk.files() == before


@pytest.mark.parametrize("what", SOUND)
def test_what_may_hold_is_sealed(run: Any, desk: Desk, tmp_path: Path, what: str) -> None:
    lay_out(tmp_path, SOUND[what]())
    done = run(*SEAL)
    assert (done.code, done.err) == (0, "")
    assert run("verify", "ledger").code == 0


def test_append_takes_what_may_hold_whether_its_files_are_brought_or_stand_there(
    run: Any, desk: Desk, tmp_path: Path
) -> None:
    body = lay_out(tmp_path, Attested().quoted())
    (tmp_path / "body.json").write_text(json.dumps(body))
    words = ("append", "run", "--body", "body.json", "-l", "ledger", "-k", "runner.pem")
    assert run(*words).code == 0, "what is not here accuses nobody"
    files = [word for path in sorted((tmp_path / "bundle" / "blobs").iterdir()) for word in ("--artifact", path)]
    assert run(*words, *files).code == 0
    receipt = FAULTS["a bit of the quote flipped"][0]()
    for data in receipt.files.values():
        digest = hashlib.sha256(data).hexdigest()
        path = desk.ledger / "blobs" / "sha256" / digest[:2] / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "body.json").write_text(json.dumps({**receipt.body, "bundle": bundle_digest(receipt.body)}))
    assert f"[{Code.QUOTE_SIGNATURE.id}]" in run(*words).err


def test_sealing_again_what_stands_says_so_whatever_is_wrong_with_it(run: Any, desk: Desk, tmp_path: Path) -> None:
    body = lay_out(tmp_path, Attested())
    desk.builder.add("run", body, RUNNER)
    desk.builder.write(desk.ledger)
    done = run(*SEAL)
    assert (done.code, "was sealed already" in done.out) == (0, True)
