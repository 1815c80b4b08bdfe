from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import DATA_VARIABLE, MISSING_DATA, NOT_SHOWN, ROOT, data_path

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["pytester"]

SUITE = """
import pytest

def test_needs_data(test_data):
    test_data("no-such-folder")

@pytest.mark.parametrize("case", [])
def test_is_made_of_data(case):
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(SUITE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return pytester


def test_missing_data_skips_where_none_was_promised(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    suite.runpytest_subprocess("-rs").stdout.fnmatch_lines([f"*{MISSING_DATA}: no-such-folder*", "*2 skipped*"])


def test_a_run_closes_with_what_was_not_shown(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    suite.runpytest_subprocess().stdout.fnmatch_lines([f"{NOT_SHOWN}: 1 tests, {MISSING_DATA}"])
    suite.makepyfile("def test_needs_nothing():\n    pass\n")
    assert NOT_SHOWN not in suite.runpytest_subprocess().stdout.str()


def test_missing_data_fails_where_it_was_promised(
    suite: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    suite.runpytest_subprocess().stdout.fnmatch_lines([f"*yet {DATA_VARIABLE} promises it*", "*1 failed, 1 error*"])


def test_the_variable_decides_where_data_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vectors").mkdir()
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert data_path("vectors") == tmp_path / "vectors"
    assert data_path("elsewhere") is None


def test_a_skip_says_where_its_data_comes_from() -> None:
    assert "CONTRIBUTING.md, Test data" in MISSING_DATA
    assert "\n## Test data\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
