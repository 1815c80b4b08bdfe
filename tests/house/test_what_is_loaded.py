"""What importing a room brings into a fresh interpreter, and what it must not bring."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import plain_environment

IMPORT_ALL = """
import importlib, json, pkgutil, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
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
}
STORING = {"sqlite3", "sqlite_utils"}
NETWORK = {"ssl", "http.client", "urllib.request", "asyncio", "requests", "fsspec"}
TERMINAL = {"rich", "typer", "click"}
MODELS = {"pydantic"}


def loaded_by(package: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, package],
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
        ("k3_ledger.ledger.writer", HEAVY | NETWORK | TERMINAL),
    ],
)
def test_importing_a_whole_room_never_loads(package: str, never: set[str]) -> None:
    loaded = loaded_by(package)
    assert never.isdisjoint(loaded["modules"]), sorted(never.intersection(loaded["modules"]))
    assert loaded["sockets"] == []


def test_the_probe_sees_what_is_loaded() -> None:
    assert "urllib.request" in loaded_by("urllib")["modules"]
    assert "nacl.signing" in loaded_by("nacl")["modules"]
