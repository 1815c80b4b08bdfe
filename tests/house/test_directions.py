"""Import directions: each contract of pyproject.toml is seen to fail; together they leave only the allowed edges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")
ALLOWED = {
    "schemas": set(),
    "ledger.core": {"schemas"},
    "ledger.writer": {"schemas", "ledger.core"},
    "ledger.witness": {"schemas", "ledger.core", "ledger.writer"},
    "verify": {"schemas", "ledger.core"},
    "rescore": {"schemas", "ledger.core", "verify"},
    "engine": {"schemas", "kernels"},
    "kernels": set(),
    "cli": {"schemas", "ledger.core", "ledger.writer", "ledger.witness", "verify", "rescore", "engine", "kernels"},
}

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
CONTRACTS: dict[str, dict[str, Any]] = {contract["id"]: contract for contract in SETTINGS["contracts"]}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package. Its top-level __init__.py makes it hide the installed one, so only the copy is linted."""
    for room in ROOMS:
        shutil.copytree(
            ROOT / room / "k3_ledger",
            tmp_path / "k3_ledger",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for package in ["", *ALLOWED, "ledger"]:
        folder = tmp_path / "k3_ledger" / package.replace(".", "/")
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            Path(sys.executable).with_name("lint-imports"),
            "--no-logo",
            "--no-cache",
            *(f"--contract={contract}" for contract in contracts),
        ],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


def plant(tree: Path, package: str, imports: list[str]) -> None:
    text = "".join(f"import {name}\n" for name in imports)
    (tree / package.replace(".", "/") / "planted.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("contract", "source"),
    [(name, source) for name, contract in CONTRACTS.items() for source in contract["source_modules"]],
)
def test_every_import_that_a_contract_forbids_is_caught(tree: Path, contract: str, source: str) -> None:
    forbidden = CONTRACTS[contract]["forbidden_modules"]
    plant(tree, source, forbidden)
    done = lint(tree, contract)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{CONTRACTS[contract]['name']} BROKEN" in done.stdout
    missed = [name for name in forbidden if f"{source}.planted -> {name} (l." not in done.stdout]
    assert not missed


def test_every_edge_that_is_not_allowed_has_a_contract() -> None:
    forbidden = {
        (source, target)
        for contract in CONTRACTS.values()
        for source in contract["source_modules"]
        for target in contract["forbidden_modules"]
    }

    def covered(source: str, target: str) -> bool:
        return any(
            f"k3_ledger.{source}.".startswith(f"{s}.") and f"k3_ledger.{target}.".startswith(f"{t}.")
            for s, t in forbidden
        )

    open_edges = {
        (source, target)
        for source, allowed in ALLOWED.items()
        for target in ALLOWED
        if target not in allowed | {source} and not covered(source, target)
    }
    assert not open_edges


def test_allowed_edges_break_no_contract(tree: Path) -> None:
    for source, allowed in ALLOWED.items():
        plant(tree, f"k3_ledger.{source}", [f"k3_ledger.{target}" for target in sorted(allowed)])
    done = lint(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout
