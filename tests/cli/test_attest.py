"""``k3-ledger bundle attest``: from a bundle to a nonce, and from the answer to a receipt that is bound to its GPU."""

from __future__ import annotations

import hashlib
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from docs.examples.made_up_intel import AT

from k3_ledger.schemas.moments import format_time
from tests.ledgers import canonical
from tests.verify.tee.receipts import Attested
from tests.verify.tee.tokens import answer, key_set

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made() -> Attested:
    return Attested(tee="none")


@pytest.fixture
def bundle(made: Attested, tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    (folder / "blobs").mkdir(parents=True)
    for data in made.files.values():
        (folder / "blobs" / hashlib.sha256(data).hexdigest()).write_bytes(data)
    described = canonical({"body": made.body, "kind": "run", "schema": "k3-ledger/bundle/1"})
    (folder / "bundle.json").write_bytes(described)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_nonce_is_the_digest_of_the_bare_bundle(run: Any, bundle: Path, made: Attested) -> None:
    before = files(bundle)
    assert run("bundle", "attest", bundle).out == f"{made.digest.hex()}\n"
    assert run("bundle", "attest", bundle, "--json").json == {"nonce": made.digest.hex()}
    assert files(bundle) == before


def test_an_answer_to_it_makes_a_receipt_that_verifies(
    run: Any, bundle: Path, made: Attested, ledger: Path, tmp_path: Path
) -> None:
    (tmp_path / "answer.json").write_text(json.dumps(answer(made.digest)))
    done = run("bundle", "attest", bundle, "--token", "answer.json")
    identity = hashlib.sha256((bundle / "bundle.json").read_bytes()).hexdigest()
    assert (done.code, done.out) == (0, f"{bundle}: answered; bundle {identity}\n")
    assert run("bundle", "attest", bundle).out == f"{made.digest.hex()}\n"  # an answer does not change the question
    assert run("seal", bundle, "--ledger", ledger, "--key", "runner.pem").code == 0
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "nvidia-jwks.json").write_bytes(key_set())
    (tmp_path / "trust.toml").write_text('[attestation]\ntrust_dir = "service"\nkinds = ["nvidia"]\n')
    done = run("verify", ledger, "--trust", "trust.toml", "--root-key", "root.pub.pem")
    assert "13 attestations pass         1 checked" in done.out
    assert done.code == 0


def test_a_live_token_verifies_at_the_receipt_s_time_and_while_it_is_valid(
    run: Any, bundle: Path, made: Attested, ledger: Path, tmp_path: Path
) -> None:
    """The nonce is known when the run has ended: every token that is asked for begins after the receipt's own time."""
    live = {"iat": AT + 1800, "nbf": AT + 1800, "exp": AT + 5400}
    (tmp_path / "answer.json").write_text(json.dumps(answer(made.digest, overall=live, device=live)))
    assert run("bundle", "attest", bundle, "--token", "answer.json").code == 0
    assert run("seal", bundle, "--ledger", ledger, "--key", "runner.pem").code == 0
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "nvidia-jwks.json").write_bytes(key_set())
    (tmp_path / "trust.toml").write_text('[attestation]\ntrust_dir = "service"\nkinds = ["nvidia"]\n')
    for at, exit_code in (("receipt", 0), (AT + 3600, 0), (AT, 1), (AT + 5401, 1)):
        when = at if isinstance(at, str) else format_time(at)
        done = run("verify", ledger, "--trust", "trust.toml", "--root-key", "root.pub.pem", "--at", when)
        assert (done.code, "K3L-TOKEN-EXPIRED" in done.out) == (exit_code, exit_code == 1), when


@pytest.mark.parametrize(
    ("text", "exit_code", "code"),
    [
        (json.dumps(answer(b"\1" * 32)), 1, "K3L-TOKEN-BINDING"),
        (json.dumps([]), 3, "K3L-TOKEN-MALFORMED"),
        ("", 3, "K3L-TOKEN-MALFORMED"),
        (json.dumps([["JWT", "a.b.c"], {"GPU-0": "a.b.c"}]), 3, "K3L-TOKEN-MALFORMED"),
    ],
    ids=["of another bundle", "another JSON", "empty", "no tokens"],
)
def test_what_is_no_answer_to_it_is_refused_and_changes_nothing(
    run: Any, bundle: Path, text: str, exit_code: int, code: str
) -> None:
    (bundle.parent / "answer.json").write_text(text)
    before = files(bundle)
    done = run("bundle", "attest", bundle, "--token", "answer.json")
    assert done.code == exit_code
    assert "answer.json" in done.err
    assert code in done.err
    assert files(bundle) == before


def test_one_token_of_another_bundle_among_good_ones_is_refused(
    run: Any, bundle: Path, made: Attested, tmp_path: Path
) -> None:
    overall, devices = answer(made.digest)
    devices["GPU-1"] = answer(b"\1" * 32)[1]["GPU-1"]
    (tmp_path / "answer.json").write_text(json.dumps([overall, devices]))
    done = run("bundle", "attest", bundle, "--token", "answer.json")
    assert "the nonce of token GPU-1 is not the bundle's" in done.err


def test_a_second_answer_is_refused(run: Any, bundle: Path, made: Attested, tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text(json.dumps(answer(made.digest)))
    assert run("bundle", "attest", bundle, "--token", "answer.json").code == 0
    before = files(bundle)
    done = run("bundle", "attest", bundle, "--token", "answer.json")
    assert (done.code, files(bundle)) == (1, before)
    assert "K3L-ATTESTATION-REPEATED" in done.err


def test_a_tar_is_asked_about_and_not_written_into(run: Any, bundle: Path, made: Attested, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bundle.tar", "w") as packed:
        packed.add(bundle, ".")
    (tmp_path / "answer.json").write_text(json.dumps(answer(made.digest)))
    assert run("bundle", "attest", "bundle.tar").out == f"{made.digest.hex()}\n"
    done = run("bundle", "attest", "bundle.tar", "--token", "answer.json")
    assert done.code == 1
    assert "unpack the tar" in done.err


def test_a_bundle_that_could_not_be_sealed_has_no_nonce(run: Any, bundle: Path) -> None:
    next((bundle / "blobs").iterdir()).write_bytes(b"edited")
    done = run("bundle", "attest", bundle)
    assert (done.code, done.out) == (1, "")
    assert "K3L-BUNDLE-MISMATCH" in done.err
