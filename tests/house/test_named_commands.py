"""Every command line that the program names, in hints, messages and help, is one that it takes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from k3_ledger.schemas.findings import Code
from tests.docs.test_commands import COMMANDS
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")
NAMED = re.compile(r"(?<!`)`(k3-ledger [^`]*)`(?!`)")


class Wrong(NamedTuple):
    """Why a command line is none."""

    reason: str


def problem(line: str) -> Wrong | None:
    """What is wrong with a command line whose values may be placeholders; None when it is one that exists."""
    words = line.split()
    name = words.pop(0)
    if words and words[0] in {"--version", "--help"}:
        return None
    while words and f"{name} {words[0]}" in COMMANDS:
        name += f" {words.pop(0)}"
    command = COMMANDS[name]
    if hasattr(command, "commands"):
        if words[:1] == ["…"]:  # any command of the group
            kinds = [f"{name} {child} {' '.join(words[1:])}" for child in command.commands]
            return None if any(problem(kind) is None for kind in kinds) else Wrong(f"none of {name} takes this")
        return None if words == ["--help"] else Wrong(f"{name} is a group, and {words[:1]} is none of it")
    return surplus(command, name, words)


def surplus(command: Any, name: str, words: list[str]) -> Wrong | None:
    """The first word that the command does not take."""
    options = {spelled: p for p in command.params for spelled in (*p.opts, *p.secondary_opts) if spelled[0] == "-"}
    room = [p.nargs for p in command.params if p.param_type_name == "argument"]
    left = 10**6 if -1 in room else sum(room)
    given = iter(words)
    for word in given:
        if word.startswith("-") and word != "-":
            if word in {"--help", "-h"}:
                continue
            if word not in options:
                return Wrong(f"{name} has no option {word}")
            if not options[word].is_flag:
                next(given, None)
        elif word != "…":
            left -= 1
    return Wrong(f"{name} takes fewer words") if left < 0 else None


def text_of(node: ast.AST) -> str:
    """A text as it will be printed, with a placeholder for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)  # type: ignore[misc]
    return ""


def named() -> Iterator[tuple[str, str]]:
    """Command lines in the registry and in every text of the program, with the place of each."""
    for code in Code:
        for text in (code.info.title, code.info.meaning, code.info.hint):
            yield from ((code.id, line) for line in NAMED.findall(text))
    for room in ROOMS:
        for path in sorted((ROOT / room / "k3_ledger").rglob("*.py")):
            if path.parent.name == "findings":
                continue  # the registry itself
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                found = NAMED.findall(text_of(node).replace("\n", " "))
                yield from ((f"{path.name}:{node.lineno}", line) for line in found)  # type: ignore[attr-defined]


LINES = sorted(set(named()))


@pytest.mark.parametrize("code", Code, ids=lambda code: code.id)
def test_the_registry_names_commands_in_backquotes_alone(code: Code) -> None:
    bare = NAMED.sub("", f"{code.info.meaning} {code.info.hint}")
    assert not re.search(r"k3-ledger [a-z]", bare)


def test_commands_are_named_in_the_registry_and_elsewhere() -> None:
    places = {place for place, _ in LINES}
    assert any(place.startswith("K3L-") for place in places)
    assert any(not place.startswith("K3L-") for place in places)


@pytest.mark.parametrize(("place", "line"), LINES)
def test_a_command_that_is_named_exists_with_its_options(place: str, line: str) -> None:
    assert problem(line) is None, place


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("k3-ledger key enrol --role log", "k3-ledger key enrol has no option --role"),
        ("k3-ledger import", "k3-ledger import is a group, and [] is none of it"),
        ("k3-ledger key forge", "k3-ledger key is a group, and ['forge'] is none of it"),
        ("k3-ledger frobnicate", "k3-ledger is a group, and ['frobnicate'] is none of it"),
        ("k3-ledger key enrol log FILE more", "k3-ledger key enrol takes fewer words"),
        ("k3-ledger key … --quorum", "none of k3-ledger key takes this"),
    ],
)
def test_a_command_line_that_does_not_exist_is_found(line: str, reason: str) -> None:
    assert problem(line) == Wrong(reason)


@pytest.mark.parametrize("line", ["k3-ledger --version", "k3-ledger key enrol log FILE -k KEY", "k3-ledger key … -k K"])
def test_a_command_line_that_exists_is_none_of_these(line: str) -> None:
    assert problem(line) is None
