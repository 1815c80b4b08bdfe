"""Benchmarks run for minutes: what they could not write down in the end is refused in the beginning."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

BENCHMARKS = ("append", "decode", "rescore", "startup", "verify")
"""Those that need no torch."""


def refused(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("node", ["", "a b", "x" * 201, "ä"])
def test_a_node_that_no_bundle_takes_is_refused_before_anything_is_measured(name: str, node: str) -> None:
    assert "is no name of a machine" in refused(name, "--node", node)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_place_that_no_bundle_can_have_is_refused_before_anything_is_measured(name: str, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent" / "bundle"):
        assert "is to be a new folder in one that is there" in refused(name, "--bundle", str(place))


def test_the_source_of_a_wheel_is_the_tree_that_it_was_built_from_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    running_sources = importlib.import_module("common").running_sources
    rooms = sorted(ROOT.glob("*/k3_ledger"))
    installed = tmp_path / "site-packages" / "k3_ledger"
    for room in rooms:
        shutil.copytree(room, installed, dirs_exist_ok=True)
    assert running_sources([installed]) == running_sources(rooms[::-1]) == rooms
    source = installed / "start.py"
    for changed in (source.read_bytes() + b"\n", b""):
        source.write_bytes(changed)
        assert running_sources([installed]) == [installed]
        assert running_sources([installed, *rooms]) == [installed, *rooms]
        assert running_sources([*rooms, installed]) == [*rooms, installed]
    shutil.copyfile(ROOT / "ledger" / "k3_ledger" / "start.py", source)
    (installed / ".#start.py").symlink_to("nowhere")
    assert running_sources([installed]) == rooms, "what cannot be read does not run"
    assert running_sources([installed, installed]) == [installed, installed]
    source.unlink()
    assert running_sources([installed]) == [installed]


def test_the_source_of_a_benchmark_is_read_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    common = importlib.import_module("common")
    monkeypatch.setattr(common, "probe_source", lambda _: (None, b"before"))
    assert common.parser(None).parse_args([]).source == (None, b"before")


def test_no_published_run_names_a_folder_of_its_machine() -> None:
    entries = [json.loads(line)["entry"] for line in (ROOT / "published" / "ledger.jsonl").read_bytes().splitlines()]
    commands = [entry["body"]["machine"]["command"] for entry in entries if "machine" in entry["body"]]
    assert len(commands) > 20
    assert [word for command in commands for word in command if word.startswith(("/", "~"))] == []
