"""docs/known-failures.md promises tests; this holds it to that."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "known-failures.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| failure", "| ---"))]
NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")


def test_every_failure_has_tests_and_every_test_exists() -> None:
    assert len(ROWS) >= 20
    functions: dict[str, set[str]] = {}
    for row in ROWS:
        named = NAMED.findall(row.rsplit("|", 2)[1])
        assert named, row
        for path, name in named:
            if path not in functions:
                tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
                functions[path] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in functions[path], f"{path}::{name}"
