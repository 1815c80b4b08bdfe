from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

from tests.support import ROOT

ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")
SUBPACKAGES = ("schemas", "ledger", "verify", "rescore", "engine", "kernels", "cli")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_holds_its_part_of_one_namespace(room: str) -> None:
    assert (ROOT / room / "k3_ledger").is_dir()
    assert not (ROOT / room / "k3_ledger" / "__init__.py").exists()
    assert not (ROOT / room / "__init__.py").exists()


def test_the_namespace_is_a_namespace_where_it_is_installed() -> None:
    spec = importlib.util.find_spec("k3_ledger")
    assert spec is not None
    assert spec.origin is None


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_every_subpackage_is_a_typed_package(name: str) -> None:
    spec = importlib.util.find_spec(f"k3_ledger.{name}")
    assert spec is not None
    assert spec.origin is not None, "a subpackage has an __init__.py"
    assert Path(spec.origin).with_name("py.typed").is_file()


def test_the_wheel_owns_nothing_outside_the_namespace(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--installed"):
        pytest.skip("no wheel to look into: run with --installed, as `make unit` does")
    files = importlib.metadata.files("k3-ledger") or []
    scripts = {file for file in files if file.parts[0] == ".."}
    assert {file.name for file in scripts} == {"k3-ledger"}
    tops = {file.parts[0] for file in files if file not in scripts}
    assert {top for top in tops if not top.startswith("k3_ledger-")} == {"k3_ledger"}
