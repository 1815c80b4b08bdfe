"""Judging commands take whom to believe as ``verify`` does, and say what nothing showed; no verdict changes by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer

from k3_ledger.cli import app
from tests.ledgers import ROOT, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, pin_body
from tests.rescore.test_standing import FRONTIER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.commands import Done

CLAIMS = f'[[claim]]\nid = "a"\nsays = "x"\nkind = "speed"\ntrack = "{DECODE}"\nvalue = 60.0\ntolerance = "rounding"\n'
COMMANDS: Final = {
    "rescore": ("rescore", "book", "--rule", "house-1.decode"),
    "rescore --counts": ("rescore", "book", "--rule", "house-1.decode", "--counts"),
    "reconcile": ("reconcile", "book"),
    "frontier": ("frontier", "book"),
    "claims check": ("claims", "check", "claims.toml", "--against", "book"),
}
NOBODY = "signer not authenticated"
CURE = " (--trust or --root-key says whom to believe)"
KEY = ("--root-key", ROOT.public.hex())


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """A house ledger in the folder ``book``, its head signed, and claims and policies beside it."""
    builder, _ = house_ledger()
    (tmp_path / "book").mkdir()
    builder.write(tmp_path / "book")
    (tmp_path / "claims.toml").write_text(CLAIMS)
    (tmp_path / "trust.toml").write_text(f'root_public_key = "{ROOT.public.hex()}"\nrequire = ["checkpoint"]\n')
    return builder


def shown(done: Done) -> list[str]:
    """What is said not to have been shown."""
    found = json.loads(done.out)
    (said,) = {tuple(one["not_shown"]) for one in (found if isinstance(found, list) else [found])}
    return list(said)


def notes(done: Done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("note: ") and ("signe" in line or "cut" in line)]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_nothing_shows_is_said_in_one_line(
    command: Callable[..., Done], builder: Builder, tmp_path: Path, name: str
) -> None:
    words, book = COMMANDS[name], tmp_path / "book"
    assert notes(command(*words)) == [f"note: {NOBODY}{CURE}"]
    believed = command(*words, *KEY)
    assert notes(believed) == []
    assert believed.out == command(*words).out, "no verdict changes"
    assert shown(command(*words, *KEY, "--json")) == []
    builder.runs(2)
    (book / "ledger.jsonl").write_bytes(builder.data)
    size = len(builder.lines) - 2
    beyond = f"no signed head covers the entries from {size} on: more may have been cut"
    assert notes(command(*words)) == [f"note: {NOBODY}; {beyond}{CURE}"]
    (book / "checkpoint").unlink()
    cut = "no signed head: the log may have been cut"
    assert notes(command(*words)) == [f"note: {NOBODY}; {cut}{CURE}"]
    assert notes(command(*words, *KEY)) == [f"note: {cut}"]
    assert shown(command(*words, "--json")) == [NOBODY, cut]
    assert command(*words).code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_whoever_is_not_believed_is_not_judged(
    command: Callable[..., Done], builder: Builder, tmp_path: Path, name: str
) -> None:
    words, book = COMMANDS[name], tmp_path / "book"
    builder.runs(1).write(book)
    (tmp_path / "kept").write_bytes(builder.head())
    policy = ("--trust", "trust.toml")
    assert command(*words, *policy, *KEY, "--expect-head", "kept", "--require", "keys").code == 0
    for wrong in (("--root-key", RUNNER.public.hex()), (*policy, "--root-key", RUNNER.public.hex())):
        refused = command(*words, *wrong)
        assert (refused.code in {1, 2}, refused.out) == (True, "")
    assert command(*words, "--require", "witnesses").code == 4
    assert command(*words, "--require", "witness").code == 2
    (book / "trust.toml").write_bytes((tmp_path / "trust.toml").read_bytes())
    for inside in (("--trust", "book/trust.toml"), ("--expect-head", "book/checkpoint")):
        assert command(*words, *inside).code == 2
    shorter = Builder()
    shorter.lines = builder.lines[:-1]
    shorter.write(book)
    assert command(*words, *policy).code == 0, "an older log that verifies"
    rolled = command(*words, *policy, "--expect-head", "kept")
    assert (rolled.code, rolled.out, "K3L-ROLLBACK" in rolled.err) == (1, "", True)
    (book / "checkpoint").unlink()
    assert command(*words, *policy).code == 4


@pytest.mark.parametrize("name", COMMANDS)
def test_a_policy_may_require_what_only_the_room_that_judges_settles(
    command: Callable[..., Done], builder: Builder, tmp_path: Path, name: str
) -> None:
    """Pins are traced behind the pass over the entries; a pin whose source is another engine's run is false."""
    assert command(*COMMANDS[name], "--require", "pins").code == 0
    builder.add("pin", pin_body(FRONTIER, "51", "0" * 64), RUNNER)
    builder.write(tmp_path / "book")
    assert command(*COMMANDS[name], "--require", "pins").code == 1


@pytest.mark.parametrize("name", [name for name in COMMANDS if "counts" not in name])
def test_a_foreign_log_has_no_keys_that_could_be_believed(
    command: Callable[..., Done], builder: Builder, tmp_path: Path, test_data: Callable[..., Path], name: str
) -> None:
    (tmp_path / "kept").write_bytes(builder.head())
    log = test_data("data", "sparkinfer-k3-log")
    words = [log if word == "book" else word for word in COMMANDS[name]]
    for given in (("--trust", "trust.toml"), KEY, ("--require", "keys"), ("--expect-head", "kept")):
        done = command(*words, *given)
        assert (done.code, done.out) == (2, "")
        assert "import polaris" in " ".join(done.err.replace("│", " ").split())


def test_a_foreign_log_shows_neither_who_wrote_it_nor_that_it_is_all(
    command: Callable[..., Done], test_data: Callable[..., Path]
) -> None:
    done = command("frontier", test_data("data", "sparkinfer-k3-log"), "--json")
    assert shown(done) == [NOBODY, "no signed head: the log may have been cut"]
    assert notes(done) == [f"note: {NOBODY}; no signed head: the log may have been cut{CURE}"]


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(words of a command, name of one of its options, what its help says)."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, (*path, name))
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield path, parameter.opts[0], parameter.help or ""


def test_there_is_one_group_of_options_and_no_second_copy_of_it() -> None:
    found = list(options(typer.main.get_command(app)))
    paths = {words[:2] if words[0] == "claims" else words[:1] for words in COMMANDS.values()}
    for path in paths:
        assert {name for where, name, _ in found if where == path} >= {
            "--trust", "--root-key", "--require", "--expect-head",
        }  # fmt: skip
    paths |= {("verify",), ("export",), ("bundle", "pack")}
    for option in ("--trust", "--expect-head", "--require"):
        assert len({said for where, name, said in found if name == option and where in paths}) == 1
