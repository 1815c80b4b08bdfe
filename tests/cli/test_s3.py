"""Ledgers and mirrors in an object store that speaks S3: another maker's server, another maker's client."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.ledgers import ROOT, Builder, small_ledger
from tests.static_host import ledger_files, mirror_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("s3fs", reason="s3fs is not installed: make peers")
moto = pytest.importorskip("moto.server", reason="moto is not installed: make peers")
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: make peers")

BUCKET = "ledgers"
ABSENT = "s3://ledgers/nothing"


class Store:
    """One bucket."""

    def __init__(self, address: str) -> None:
        self.address = address
        words = {"aws_access_key_id": "anybody", "aws_secret_access_key": "anything", "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=address, **words)
        self.client.create_bucket(Bucket=BUCKET)

    def lay_out(self, folder: str, files: dict[str, bytes]) -> str:
        for path, data in files.items():
            self.client.put_object(Bucket=BUCKET, Key=f"{folder}/{path}", Body=data)
        return f"s3://{BUCKET}/{folder}"


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    running = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield Store(f"http://{host}:{port}")
    running.stop()


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    words = {"ACCESS_KEY_ID": "anybody", "SECRET_ACCESS_KEY": "anything", "DEFAULT_REGION": "us-east-1"}
    for name, word in {**words, "ENDPOINT_URL": server.address}.items():
        monkeypatch.setenv(f"AWS_{name}", word)
    return server


@pytest.fixture
def ledger() -> Builder:
    return small_ledger(300)


def report(run: Any, address: object) -> dict[str, Any]:
    found: dict[str, Any] = run("verify", address, "--json", "--root-key", ROOT.public.hex()).json
    return found


def test_a_ledger_in_a_bucket_verifies_like_one_on_disk(run: Any, store: Store, ledger: Builder) -> None:
    found = report(run, store.lay_out("whole", ledger_files(ledger)))
    assert (found["exit_code"], found["head"]["size"]) == (0, len(ledger.lines))


def test_a_mirror_in_a_bucket_proves_an_entry(run: Any, store: Store, ledger: Builder, tmp_path: Path) -> None:
    address = store.lay_out("tiles", mirror_files(ledger))
    assert report(run, address)["exit_code"] == 0
    assert run("prove", 7, "--ledger", address, "--out", "seven.proof").code == 0
    shutil.move(tmp_path / "seven.proof", tmp_path / "moved")
    assert report(run, tmp_path / "moved")["exit_code"] == 0


def test_a_changed_byte_in_a_bucket_is_found(run: Any, store: Store, ledger: Builder) -> None:
    files = ledger_files(ledger)
    files["ledger.jsonl"] = files["ledger.jsonl"].replace(b"run", b"ran", 1)
    assert report(run, store.lay_out("changed", files))["exit_code"] == 1


@pytest.mark.parametrize("address", [ABSENT, "s3://another-bucket/whole"])
def test_what_is_not_in_a_bucket_is_said_to_be_absent(run: Any, store: Store, address: str) -> None:
    done = run("verify", address, "--root-key", ROOT.public.hex())
    assert (done.code, done.out) == (3, "")
    assert f"error: {address}: neither ledger.jsonl nor a checkpoint is there" in done.err


def test_json_is_all_that_json_prints(run: Any, store: Store, ledger: Builder) -> None:
    done = run("verify", store.lay_out("quiet", ledger_files(ledger)), "--json", "--root-key", ROOT.public.hex())
    assert json.loads(done.out)["exit_code"] == 0
    assert done.err == ""
