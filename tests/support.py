"""What tests of several rooms share: where the test data is, and what its absence means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""The source tree that these tests belong to."""
DATA_VARIABLE: Final = "K3_LEDGER_TEST_DATA"
MISSING_DATA: Final = f"test data missing (set {DATA_VARIABLE}; CONTRIBUTING.md, Test data, says where it comes from)"
"""First words of every skip for missing test data; tests/conftest.py makes it a failure where the variable is set."""
NOT_SHOWN: Final = "note: golden tables and foreign vectors were not held against anything"
"""How a run closes in which tests were skipped for want of test data; `make test` says it again."""


def data_path(*parts: str) -> Path | None:
    """Folder or file of the test data, or None when it is not on this machine.

    The data (real logs and published vectors) is never part of the repository. It is looked for in the folder that
    ``K3_LEDGER_TEST_DATA`` names, else in ``../shared`` beside this tree. Usable while tests are collected.
    """
    named = os.environ.get(DATA_VARIABLE)
    path = (Path(named) if named else ROOT.parent / "shared").joinpath(*parts)
    return path if path.exists() else None


def plain_environment() -> dict[str, str]:
    """The environment without what measures coverage: for processes whose own imports or speed are looked at."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}
