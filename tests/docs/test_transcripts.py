from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import transcripts
from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if "```console" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_commands_print(document: str, tmp_path: Path) -> None:
    transcripts.lay_out(tmp_path)
    transcripts.check(transcripts.run(transcripts.steps((ROOT / document).read_text(encoding="utf-8")), tmp_path))


def block(body: str) -> str:
    return f"words\n\n```console\n{body}\n```\n"


@pytest.mark.parametrize(
    "body",
    [
        "$ echo one\none\n$ echo two; echo three\ntwo\nthree",
        "$ printf '%s\\n' a b c d\na\n…\nd",
        "$ printf '%s\\n' a b c d\na\n…",
        "$ echo from 1 to 10\nfrom … to 10",
        "$ cd /\n$ pwd\n/",
        "$ name=value\n$ echo $name\nvalue",
        "$ false\n$ echo $?\n1",
        "$ echo one \\\n> two\none two",
        "$ echo warning >&2\nwarning",
        "$ echo abc | sha256sum\nedeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18ff  -",
        "$ echo 2026-01-01T00:00:00Z took 3.25 s\n1999-12-31T23:59:59Z took 12 s",
        "$ echo quiet >file\n$ cat file   # a comment\nquiet",
    ],
)
def test_what_a_command_prints_is_compared(body: str, tmp_path: Path) -> None:
    transcripts.check(transcripts.run(transcripts.steps(block(body)), tmp_path))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("$ echo one\ntwo", "it printed\none"),
        ("$ echo one", "it printed\none"),
        ("$ true\nsomething", "the document shows\nsomething"),
        ("$ echo 12 entries\n13 entries", "12 entries"),
        ("$ printf 'a\\nb\\n'\na", "printed"),
        ("$ printf 'a\\nb\\nc\\n'\nb\n…", "printed"),
        ("$ echo from 1\nfrom … to 10", "printed"),
        ("$ false", "exit status 1"),
        ("$ exit 3\n$ echo on", "the shell stopped after 0 of 2 commands"),
        ("output first", "begins with a command"),
    ],
)
def test_a_document_that_shows_something_else_fails(body: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(transcripts.TranscriptError, match=r"(?s).*" + says):
        transcripts.check(transcripts.run(transcripts.steps(block(body)), tmp_path))


def test_a_document_is_recorded_again_where_it_no_longer_matches(tmp_path: Path) -> None:
    old = (
        block("$ echo 1 >&2; echo two\nwrong\nlines\n$ echo from 1 to 10\nfrom … to 10\n$ echo end \\\n> here")
        + "after\n"
    )
    new = transcripts.recorded(old, transcripts.run(transcripts.steps(old), tmp_path))
    assert (
        new
        == block("$ echo 1 >&2; echo two\n1\ntwo\n$ echo from 1 to 10\nfrom … to 10\n$ echo end \\\n> here\nend here")
        + "after\n"
    )
    transcripts.check(transcripts.run(transcripts.steps(new), tmp_path))


def test_a_document_that_was_recorded_in_parts_is_refused() -> None:
    one, two, three = ("1" * 64, "2" * 64, "3" * 64)

    def ran(line: int, expected: str, printed: str) -> transcripts.Ran:
        return transcripts.Ran(transcripts.Step(line, "k3-ledger x", expected, line, line + 1), printed, 0)

    transcripts.check([ran(1, f"key {one}", f"key {two}"), ran(2, f"again {one}", f"again {two}")])
    with pytest.raises(transcripts.TranscriptError, match="recorded in parts"):
        transcripts.check([ran(1, f"key {one}", f"key {two}"), ran(2, f"again {three}", f"again {two}")])
    with pytest.raises(transcripts.TranscriptError, match="recorded in parts"):
        transcripts.check([ran(1, f"key {one}", f"key {two}"), ran(2, f"other {one}", f"other {three}")])
    transcripts.check([ran(1, f"key {one}", f"key {two}"), ran(2, "…", f"again {two}")])
