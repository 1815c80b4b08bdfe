"""Options and fixtures of the whole suite."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support import DATA_VARIABLE, MISSING_DATA, NOT_SHOWN, ROOT, data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# How long one example takes depends on what else the machine does: that is no property of the code under test.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--plain-python",
        type=Path,
        default=None,
        help="interpreter of an environment that holds the wheel without extras (`make test` passes .venv-user)",
    )
    parser.addoption(
        "--installed",
        action="store_true",
        help="refuse to run unless the package under test is an installed one, not the sources of this tree",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--installed"):
        spec = importlib.util.find_spec("k3_ledger.schemas")
        if spec is None or spec.origin is None or ROOT / "schemas" in Path(spec.origin).parents:
            raise pytest.UsageError(f"--installed: k3_ledger comes from {spec and spec.origin}, not from a wheel")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where test data was promised, a skip for want of it is a failure."""
    report = yield
    if (
        report.skipped
        and os.environ.get(DATA_VARIABLE)
        and isinstance(report.longrepr, tuple)
        and any(words in str(report.longrepr[2]) for words in (MISSING_DATA, "got empty parameter set"))
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {report.longrepr[2]}, yet {DATA_VARIABLE} promises it"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was not shown: a count of skips tells nobody that golden tables were among them."""
    wants = [report for report in terminalreporter.stats.get("skipped", []) if MISSING_DATA in str(report.longrepr)]
    if wants:
        terminalreporter.write_line(f"{NOT_SHOWN}: {len(wants)} tests, {MISSING_DATA}")


@pytest.fixture
def test_data() -> Callable[..., Path]:
    """``test_data("vectors", "rfc8032")`` is that folder; the test is skipped when it is not on this machine."""

    def require(*parts: str) -> Path:
        path = data_path(*parts)
        if path is None:
            pytest.skip(f"{MISSING_DATA}: {'/'.join(parts)}")
        return path

    return require


@pytest.fixture
def plain_python(request: pytest.FixtureRequest) -> Path:
    """Interpreter of an environment that holds the wheel with no extras."""
    path: Path | None = request.config.getoption("--plain-python")
    if path is None:
        pytest.skip("no environment without extras: pass --plain-python (`make test` does)")
    return path if path.is_absolute() else ROOT / path
