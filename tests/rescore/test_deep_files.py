"""Short files that would cost the memory of the machine: refused with the line that goes too far, whatever reads them.

The bounds themselves are those of :mod:`k3_ledger.schemas.toml`, and tested there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.toml import read_document
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

DEEP = {
    "lists": (f"x = {'[' * 30_000}", "nested more than 100 deep"),
    "tables": (f"x = {'{a = ' * 10_000}", "nested more than 100 deep"),
    "a dotted key": (f"{'a.' * 30_000}a = 1", "a name of more than 16 parts"),
    "a header": (f"[{'a.' * 30_000}a]", "a name of more than 16 parts"),
    "a number": (f"x = {'9' * 30_000}", "a number of 30000 digits"),
}


@pytest.mark.parametrize("kind", DEEP)
def test_the_line_is_that_of_the_file_that_a_block_stands_in(kind: str) -> None:
    text, says = DEEP[kind]
    with pytest.raises(RescoreError) as caught:
        read_document(f"# [[[\n{text}\n".encode(), source="it.md", first_line=7)
    assert caught.value.code is Code.TOML_SYNTAX
    assert caught.value.finding.position.line == 7 + 1
    assert str(caught.value).endswith(f"not TOML: {says}")


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize(
    "words",
    [
        ("rules", "lint", "it.toml"),
        ("rules", "show", "it.toml"),
        ("rescore", "ledger", "--rule", "it.toml"),
        ("claims", "check", "it.toml", "--against", "ledger"),
        ("claims", "check", "it.md", "--against", "ledger"),
        ("verify", "ledger", "--trust", "it.toml"),
        ("trust", "show", "it.toml"),
        ("trust", "add", "require", "chain", "--trust", "it.toml"),
        ("trust", "add", "attestation", "--kind", "tdx", "--trust", "it.toml"),
    ],
    ids=" ".join,
)
def test_no_command_falls_over_such_a_file(
    command: Callable[..., Done], tmp_path: Path, kind: str, words: tuple[str, ...]
) -> None:
    text, says = DEEP[kind]
    (tmp_path / "it.toml").write_text(f"# [[[\n\n{text}\n")
    (tmp_path / "it.md").write_text(f"# A page\n```toml claims\n{text}\n```\n")
    done = command(*words)
    assert done.code == 3
    name = "it.md" if "it.md" in words else "it.toml"
    assert f"{name}, line 3" in done.err
    assert says in done.err
    assert "Traceback" not in done.err
