"""What importing a room brings into a fresh interpreter, and what it must not bring."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.ledgers import small_ledger
from tests.support import plain_environment

if TYPE_CHECKING:
    from pathlib import Path

IMPORT_ALL = """
import importlib, json, pkgutil, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.startswith(tuple(sys.argv[2:])):
        importlib.import_module(module.name)
print(json.dumps({"modules": sorted(sys.modules), "sockets": opened}))
"""
HEAVY = {"torch", "triton", "gguf", "xllamacpp", "numpy"}
SIGNING = {
    "nacl.signing",
    "nacl.public",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "k3_ledger.ledger.writer",
    "k3_ledger.ledger.witness",
}
STORING = {"sqlite3", "sqlite_utils"}
NETWORK = {"ssl", "http.client", "urllib.request", "asyncio", "requests", "fsspec"}
TERMINAL = {"rich", "typer", "click"}
MODELS = {"pydantic"}
ATTESTATIONS = "k3_ledger.verify.tee."
"""The package that may load X.509; nothing imports it unless a receipt is attested."""
X509 = {
    "cryptography.x509",
    "cryptography.hazmat.primitives.asymmetric",
    "dcap_qvl",
    "k3_ledger.verify.tee",
    "k3_ledger.verify.attestation",
}


def loaded_by(package: str, *but: str) -> dict[str, list[str]]:
    """What importing every module of a package loads, those whose names begin with one of ``but`` left out."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, package, *but],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, list[str]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("package", "never"),
    [
        ("k3_ledger.schemas", HEAVY | SIGNING | STORING | NETWORK | TERMINAL),
        ("k3_ledger.ledger.core", HEAVY | SIGNING | STORING | NETWORK | TERMINAL | MODELS | {"socket"}),
        ("k3_ledger.verify", HEAVY | SIGNING | STORING | NETWORK | TERMINAL),
        ("k3_ledger.rescore", HEAVY | SIGNING | STORING | NETWORK | TERMINAL),
        (
            "k3_ledger.ledger.writer",
            HEAVY - {"numpy"} | NETWORK | TERMINAL - {"click"},
        ),  # sqlite_utils brings these two
    ],
)
def test_importing_a_whole_room_never_loads(package: str, never: set[str]) -> None:
    loaded = loaded_by(package, ATTESTATIONS)
    assert never.isdisjoint(loaded["modules"]), sorted(never.intersection(loaded["modules"]))
    assert loaded["sockets"] == []


def test_what_verifies_attestations_loads_certificates_and_still_no_network_or_second_checker() -> None:
    loaded = loaded_by("k3_ledger.verify.tee")
    never = HEAVY | STORING | NETWORK | TERMINAL | MODELS | {"dcap_qvl", "k3_ledger.ledger.writer"}
    assert never.isdisjoint(loaded["modules"]), sorted(never.intersection(loaded["modules"]))
    assert loaded["sockets"] == []


def test_what_decides_in_a_witness_loads_no_network() -> None:
    loaded = loaded_by("k3_ledger.ledger.witness", "k3_ledger.ledger.witness.server", "k3_ledger.ledger.witness.client")
    never = HEAVY | STORING | NETWORK | TERMINAL | {"starlette", "uvicorn"}
    assert "k3_ledger.ledger.witness.cosign" in loaded["modules"]
    assert never.isdisjoint(loaded["modules"]), sorted(never.intersection(loaded["modules"]))
    assert loaded["sockets"] == []


def test_the_probe_sees_what_is_loaded() -> None:
    assert "urllib.request" in loaded_by("urllib")["modules"]
    assert "nacl.signing" in loaded_by("nacl")["modules"]


RUN_COMMAND = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
from k3_ledger.cli import main
try:
    main()
except SystemExit as end:
    status = end.code
print(json.dumps({"status": status or 0, "modules": sorted(sys.modules), "sockets": opened}), file=sys.stderr)
"""


def run_command(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMAND, *arguments],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return result


@pytest.mark.parametrize("processes", ["1", "2"])
def test_verifying_loads_neither_models_nor_terminal_library_and_opens_no_socket(
    tmp_path: Path, processes: str
) -> None:
    small_ledger().write(tmp_path)
    ran = run_command("verify", str(tmp_path), f"--processes={processes}")
    assert ran["status"] == 0
    never = HEAVY | SIGNING | STORING | NETWORK | MODELS | X509 | {"rich"}
    assert never.isdisjoint(ran["modules"]), sorted(never.intersection(ran["modules"]))
    assert ran["sockets"] == []


def test_asking_for_the_version_loads_no_room() -> None:
    if not any(importlib.metadata.distributions(name="k3-ledger")):
        pytest.skip("not installed, so there is no version to ask for")
    ran = run_command("--version")
    rooms = {"k3_ledger.verify", "k3_ledger.ledger", "k3_ledger.rescore", "k3_ledger.engine", "nacl", "msgspec"}
    never = rooms | HEAVY | SIGNING | STORING | NETWORK | MODELS | {"rich"}
    assert never.isdisjoint(ran["modules"]), sorted(never.intersection(ran["modules"]))
