"""What an entry says of its own `time` is called claimed, wherever people or programs meet it."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.schemas.findings import Code
from tests.ledgers import small_ledger
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMAS = sorted((ROOT / "schemas" / "k3_ledger" / "schemas" / "json").glob("*.schema.json"))
SCHEMAS = [path for path in SCHEMAS if path.name != "bundle.schema.json"]  # a bundle has no such field
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def options(command: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(command, help) of every option that gives an entry its time."""
    for param in command.params:
        if "--time" in param.opts:
            yield path, param.help or ""
    for name, child in getattr(command, "commands", {}).items():
        yield from options(child, f"{path} {name}")


def test_every_option_that_sets_it_says_so() -> None:
    found = dict(options(typer.main.get_command(app)))
    assert {" append", " seal", " init"} <= set(found)
    assert [command for command, text in found.items() if "claimed" not in text.lower()] == []


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_every_schema_says_so(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert schema["properties"]["time"]["description"].startswith("Claimed")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_paragraph_that_names_the_field_says_so(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts = re.split(r"\n\s*\n|\n(?=[-|#])", text)
    assert [part for part in parts if "`time`" in part and "claim" not in part.lower()] == []


def test_what_lists_entries_says_so(tmp_path: Path) -> None:
    small_ledger().write(tmp_path)
    assert CliRunner().invoke(app, ["index", "--ledger", str(tmp_path)]).exit_code == 0
    listed = CliRunner().invoke(app, ["ls", "--ledger", str(tmp_path)])
    assert "2026-01-01T00:00:09Z" in listed.stdout
    assert "claimed" in listed.stderr
    rows = json.loads(CliRunner().invoke(app, ["ls", "--ledger", str(tmp_path), "--json"]).stdout)["entries"]
    assert all("claimed_time" in row and "time" not in row for row in rows)


def test_what_shows_an_entry_says_so_in_the_same_words(tmp_path: Path) -> None:
    small_ledger().write(tmp_path)
    listed, shown = (CliRunner().invoke(app, [*words, "--ledger", str(tmp_path)]) for words in (["ls"], ["show", "4"]))
    (said,) = [line for line in listed.stderr.splitlines() if "claimed" in line]
    assert '"time": "2026' in shown.stdout
    assert said in shown.stderr.splitlines()


def test_no_table_of_the_index_has_a_column_that_says_less(tmp_path: Path) -> None:
    small_ledger().write(tmp_path)
    assert CliRunner().invoke(app, ["index", "--ledger", str(tmp_path)]).exit_code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type in ('table', 'view')")]
        columns = {row[1] for name in tables for row in db.execute(f"pragma table_info({name})")}
    assert "claimed_time" in columns
    assert "time" not in columns


def test_the_finding_about_it_says_so() -> None:
    assert "claimed" in Code.CLAIMED_TIME.info.title


def test_no_bound_is_made_of_it(tmp_path: Path) -> None:
    small_ledger().write(tmp_path)
    report = json.loads(CliRunner().invoke(app, ["verify", str(tmp_path), "--json"]).stdout)
    assert (report["existed"], report["timestamped"]) == ([], [])
