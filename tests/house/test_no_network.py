"""Verification needs nothing but the bytes: no extras installed, and no network to ask."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.ledgers import small_ledger
from tests.support import ROOT, plain_environment

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = ["unshare", "--map-root-user", "--net"]
LOOK_AROUND = """
import importlib.util, json, socket
absent = [name for name in ("torch", "triton", "gguf", "numpy", "pytest", "dcap_qvl") if importlib.util.find_spec(name)]
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    reason = error.errno
print(json.dumps({"installed": absent, "interfaces": [name for _, name in socket.if_nameindex()], "errno": reason}))
"""


@pytest.fixture
def offline() -> list[str]:
    """Command words that run what follows in a namespace without a network."""
    if shutil.which(NAMESPACE[0]) is None:
        pytest.skip("no unshare on this machine, so no network namespace can be made")
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine does not allow network namespaces: {tried.stderr.strip()}")
    return NAMESPACE


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, check=False, timeout=120)


def verify(offline: list[str], plain_python: Path, ledger: Path) -> tuple[int, dict[str, Any]]:
    done = run(*offline, plain_python.with_name("k3-ledger"), "verify", ledger, "--json")
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def test_the_namespace_has_no_network_and_the_environment_no_extras(offline: list[str], plain_python: Path) -> None:
    seen = json.loads(run(*offline, plain_python, "-c", LOOK_AROUND).stdout)
    assert seen == {"installed": [], "interfaces": ["lo"], "errno": 101}  # ENETUNREACH


def test_a_ledger_verifies_without_network_and_extras(offline: list[str], plain_python: Path, tmp_path: Path) -> None:
    status, _ = verify(offline, plain_python, small_ledger().write(tmp_path))
    assert status == 0


def test_a_tampered_ledger_is_found_out_without_network_and_extras(
    offline: list[str], plain_python: Path, tmp_path: Path
) -> None:
    ledger = small_ledger().write(tmp_path)
    data = (ledger / "ledger.jsonl").read_bytes()
    (ledger / "ledger.jsonl").write_bytes(data.replace(b'"duration_ns":', b'"duration_ns":1', 1))
    status, report = verify(offline, plain_python, ledger)
    assert status == 1
    assert "K3L-SIGNATURE-MISMATCH" in {finding["code"] for finding in report["findings"]}


@pytest.mark.skipif(not (ROOT / "published").exists(), reason="nothing is published yet")
def test_the_published_ledger_verifies_without_network_and_extras(offline: list[str], plain_python: Path) -> None:
    status, _ = verify(offline, plain_python, ROOT / "published")
    assert status == 0


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [(("generate", "synth:tiny", "words"), "numpy", "engine"), (("model", "inspect", "model.gguf"), "numpy", "engine")],
)
def test_a_command_that_needs_an_extra_says_which(
    plain_python: Path, arguments: tuple[str, ...], missing: str, extra: str
) -> None:
    done = run(plain_python.with_name("k3-ledger"), *arguments)
    assert done.returncode == 2
    assert done.stderr == (
        f'error: this command needs {missing}, which is not installed\nhint: pip install "k3-ledger[{extra}]"\n'
    )
