"""Files that are nested without end: refused with the line that goes too far, whatever reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.toml import MOST_NESTED, read_document
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

ASIDE = "# " + "[" * 150 + '\nname = "' + "[" * 150 + " # " + "{" * 150 + '"\n'
ASIDE += "other = '[[['\nfigures = [1.5, 2.5]\n"
DEEP = {
    "a list": lambda many: f"{ASIDE}x = {'[' * many}{']' * many}\n",
    "a table": lambda many: f"{ASIDE}x = {'{a = ' * many}1{'}' * many}\n",
    "a dotted key": lambda many: f"{ASIDE}{'.'.join('a' * (many + 1))} = 1\n",
    "a header": lambda many: f"{ASIDE}[{'.'.join('a' * many)}]\n",
}
"""So many lists or tables inside one another, on the fifth line."""


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("many", [MOST_NESTED + 1, 3000])
def test_what_is_nested_too_deep_is_refused_with_its_line(kind: str, many: int) -> None:
    with pytest.raises(RescoreError) as caught:
        read_document(DEEP[kind](many).encode(), source="it.toml", first_line=7)
    assert caught.value.code is Code.TOML_SYNTAX
    assert caught.value.finding.position.line == 7 + 4
    assert str(caught.value).endswith(f"not TOML: nested more than {MOST_NESTED} deep")


@pytest.mark.parametrize("kind", DEEP)
def test_as_deep_as_that_is_read(kind: str) -> None:
    assert read_document(DEEP[kind](MOST_NESTED).encode(), source="it.toml")[1]["other"] == "[[["


@pytest.mark.parametrize("many", [MOST_NESTED + 1, 3000])
def test_the_line_is_the_one_that_goes_too_far(many: int) -> None:
    lines = "x = [\n" + "[\n" * (many - 1) + "1" + "]\n" * many
    with pytest.raises(RescoreError) as caught:
        read_document(lines.encode(), source="it.toml")
    assert caught.value.finding.position.line == MOST_NESTED + 1


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize(
    "words",
    [
        ("rules", "lint", "it.toml"),
        ("rules", "show", "it.toml"),
        ("rescore", "ledger", "--rule", "it.toml"),
        ("claims", "check", "it.toml", "--against", "ledger"),
    ],
    ids=" ".join,
)
def test_no_command_falls_over_such_a_file(
    command: Callable[..., Done], tmp_path: Path, kind: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "it.toml").write_text(DEEP[kind](3000))
    done = command(*words)
    assert done.code == 3
    assert "it.toml, line 5" in done.err
    assert "Traceback" not in done.err
