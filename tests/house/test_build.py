"""The build talks to people: what it says when something fails, and what it sums up at the end."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import NOT_SHOWN, ROOT, plain_environment

if TYPE_CHECKING:
    from pathlib import Path

BUILD = ("Makefile", "pyproject.toml", "constraints.txt", "constraints-engine.txt", ".ci", "README.md", "LICENSE")
ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a newcomer starts from, without anything that was built."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in (*BUILD, *ROOMS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in plain_environment().items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    return subprocess.run(
        command,
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_machine_without_python_is_told_so(checkout: Path) -> None:
    done = run(checkout, "make", "PYTHON=", "demo")
    assert done.returncode == 2
    assert "error: no Python 3.11 or newer with venv and pip was found\nhint: install one" in done.stderr


def test_a_package_index_that_cannot_be_reached_is_named(checkout: Path) -> None:
    nowhere = (checkout / "nowhere").as_uri()
    done = run(
        checkout,
        "make",
        f"PYTHON={sys.executable}",
        "demo",
        PIP_INDEX_URL=nowhere,
        PIP_CONFIG_FILE=os.devnull,
        PIP_FIND_LINKS="",
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 2
    assert ".venv-user: creating (k3-ledger as a user installs it, no extras)" in done.stdout
    assert "error: pip could not install . into .venv-user\nhint: pip's own lines above name the package" in done.stderr
    assert not (checkout / ".venv-user" / "ready").exists()


MAKEFILE = """
TARGETS := environments format types imports generated published demo engine-types engine-unit
.PHONY: lint unit $(TARGETS)
$(TARGETS):
	@echo doing $@
lint:
	@echo a line too long; false
unit:
	@echo '@NOT_SHOWN@: 1 tests, missing'
	@echo '===== 3 failed, 12 passed, 1 skipped in 4.20s ====='; false
"""


def test_every_stage_runs_and_the_summary_says_what_failed_and_why(checkout: Path) -> None:
    (checkout / "Makefile").write_text(MAKEFILE.replace("@NOT_SHOWN@", NOT_SHOWN), encoding="utf-8")
    done = run(checkout, sys.executable, ".ci/stages.py")
    assert done.returncode == 1
    assert "make lint\na line too long\n" in done.stdout
    assert "make format\ndoing format\n" in done.stdout
    summary = done.stdout.partition("\nstage ")[2]
    assert summary.count(" FAILED ") == 2
    assert "error: lint: ruff found something" in summary
    assert "hint: `make unit` repeats this stage alone" in summary
    assert f"\nunit: {NOT_SHOWN}: 1 tests, missing\n" in summary
    assert summary.endswith("===== 3 failed, 12 passed, 1 skipped in 4.20s =====\n")


def test_without_environments_no_other_stage_is_tried(checkout: Path) -> None:
    (checkout / "Makefile").write_text("environments:\n\t@false\n", encoding="utf-8")
    done = run(checkout, sys.executable, ".ci/stages.py")
    assert done.returncode == 1
    assert "error: environments: an environment could not be made" in done.stdout
    assert "make lint" not in done.stdout


def test_every_make_target_has_a_line_of_help() -> None:
    shown = {line.split()[0] for line in run(ROOT, "make", "help").stdout.splitlines()}
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    phony = {name for line in text.splitlines() if line.startswith(".PHONY:") for name in line.split()[1:]}
    assert shown == phony - {"python"}


@pytest.mark.parametrize(
    ("module", "code"),
    [("cli/wrong", 1), ("schemas/wrong", 1), ("start", 1), ("engine/wrong", 0), ("kernels/wrong", 0)],
)
def test_on_a_newer_python_every_module_is_imported_that_needs_no_torch(tmp_path: Path, module: str, code: int) -> None:
    path = tmp_path / "k3_ledger" / f"{module}.py"
    path.parent.mkdir(parents=True)
    for folder in {tmp_path / "k3_ledger", path.parent}:
        (folder / "__init__.py").touch()
    path.write_text("import no_such_module\n", encoding="utf-8")
    newer = runpy.run_path(str(ROOT / ".ci" / "newer.py"))
    words = (sys.executable, "-c", newer["EVERY_MODULE"], *newer["LEFT_OUT"])
    done = run(tmp_path, *words, PYTHONPATH=str(tmp_path))
    assert (done.returncode, "no_such_module" in done.stderr) == (code, bool(code))
