"""A command group that imports the module of a command when the command is asked for, and no other.

Every module in ``MODULES`` has a ``register(app)`` that adds its commands; the names beside it say which, so that
listing them imports nothing. A test holds the two together.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import re
from typing import TYPE_CHECKING, Any, Final

import typer
import typer.main
from typer.core import TyperGroup
from typer.models import TyperPath

from k3_ledger.schemas.addresses import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "keys": ("keygen", "key"),
    "store": ("init", "append", "seal", "checkpoint", "recover", "index"),
    "lookup": ("ls", "show"),
    "verify": ("verify",),
    "proofs": ("prove",),
    "witness": ("cosign", "witness"),
    "trust_commands": ("trust",),
    "publish": ("tiles",),
    "export": ("export",),
    "timestamp": ("timestamp",),
    "audit": ("audit",),
    "import_": ("import",),
    "rules": ("rules",),
    "rescore": ("rescore",),
    "reconcile": ("reconcile",),
    "frontier": ("frontier",),
    "claims": ("claims",),
    "run": ("run", "bundle"),
    "model": ("model",),
    "generate": ("generate",),
}
"""Commands by the module of this package that brings them, in the order in which help lists them."""
_SPELLED: Final = {
    "int": (re.compile(r"[+-]?[0-9]+"), "is not a whole number in the digits 0 to 9"),
    "float": (
        re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
        "is not a number such as 0.8 or 12, in the digits 0 to 9",
    ),
}
"""How a number is spelled, by the framework's name of its type, and what is said of one that is not."""
_UNICODE: Final = re.compile(r"[^\ud800-\udfff]*")
NO_NAME: Final = "names no file or folder; . is this folder (is a variable of the shell not set?)"
_NAMED: Final = re.compile(r".+", re.DOTALL)
_MAY_BE_PATHS: Final = frozenset({
    "ledger", "path", "source", "root_key", "public_key", "keys", "old", "enrol", "body", "rule", "pins", "model",
    "first", "second", "names",
})  # fmt: skip
"""Texts that may name a file: a file may be called by any bytes. What names none says so itself."""
_MODULE_OF: Final = {name: module for module, names in MODULES.items() for name in names}


class _Commands(dict[str, Any]):
    """Commands by name; one that is asked for is loaded first. Iterating gives every name and loads nothing."""

    def __missing__(self, name: str) -> Any:
        if name not in _MODULE_OF:
            raise KeyError(name)
        self.update(load_module(_MODULE_OF[name]))
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The command, or ``default`` when there is none of that name."""
        return self[name] if name in _MODULE_OF else default

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULE_OF)

    def __contains__(self, name: object) -> bool:
        return name in _MODULE_OF

    def __len__(self) -> int:
        return len(_MODULE_OF)

    def keys(self) -> Any:
        """Every name."""
        return _MODULE_OF.keys()

    def items(self) -> Any:
        """Every name with its command: loads all of them."""
        return {name: self[name] for name in _MODULE_OF}.items()


def load_module(module: str) -> dict[str, Any]:
    """Import one module of this package and build the commands that it registers, by name."""
    app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, rich_markup_mode=None)
    app.callback()(lambda: None)  # so that a single command stays one of a group
    importlib.import_module(f"k3_ledger.cli.{module}").register(app)
    group: Any = typer.main.get_command(app)
    _refuse_dash(group)
    _spell(group)
    return dict(group.commands)


def _spell(command: Any) -> None:
    """Make every number of every option one that is spelled in ASCII digits, and every text one of Unicode.

    What Python reads as a number besides, such as `1_000` or digits of other scripts, is a slip of the pen. Bytes of an
    argument that are no UTF-8 arrive as lone surrogates, which nothing can write down.
    """
    for child in getattr(command, "commands", {}).values():
        _spell(child)
    for param in command.params:
        spelled = _SPELLED.get(param.type.name.removesuffix(" range"))
        if spelled is not None:
            param.type = _spelled(param.type, *spelled)
        elif param.type.name == "str" and param.name not in _MAY_BE_PATHS:
            param.type = _spelled(param.type, _UNICODE, "is no text in UTF-8")
        elif param.type.name == "str":
            param.type = _spelled(param.type, _NAMED, NO_NAME)


def _spelled(kind: Any, pattern: re.Pattern[str], problem: str) -> Any:
    strict, convert = copy.copy(kind), kind.convert

    def converted(value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, str) and not pattern.fullmatch(value):
            strict.fail(f"{value!r} {problem}.", param, ctx)
        return convert(value, param, ctx)

    strict.convert = converted
    return strict


NO_DASH: Final = "'-' is standard input or output, which is not taken here; ./- names a file that is called so"


class _FilePath(TyperPath):
    """A path that is never ``-``: one word must not be a stream for one option and a file for another."""

    @classmethod
    def like(cls, other: TyperPath) -> _FilePath:
        """With the settings of another."""
        made = cls()
        vars(made).update(vars(other))
        return made

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path, unless it is ``-``."""
        if value == "-":
            self.fail(NO_DASH, param, ctx)
        if value == "":
            self.fail(f"'' {NO_NAME}.", param, ctx)
        return super().convert(value, param, ctx)


def _refuse_dash(command: Any) -> None:
    """Have every option and argument that takes a path, of a command and of those below it, refuse ``-``."""
    for parameter in command.params:
        if isinstance(parameter.type, TyperPath):
            parameter.type = _FilePath.like(parameter.type)
    for below in getattr(command, "commands", {}).values():
        _refuse_dash(below)


_UsageError: Any = typer.BadParameter.__base__
"""The framework's error for every wrong use of a command."""


class OutputClosedError(Exception):
    """Nobody reads the output any more."""


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: MutableMapping[str, Any] = _Commands()

    def _main_shell_completion(self, *args: Any, **extra: Any) -> None:
        """Complete nothing: a variable of the environment must not stand in the place of a verdict."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse a command line; ``--help`` prints here."""
        with _own_ends():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _own_ends():
            return super().invoke(ctx)


@contextlib.contextmanager
def _own_ends() -> Iterator[None]:
    """Keep the framework from ending with 1, which is the exit code of a false ledger, where nothing was found false.

    It does so where a pipe breaks, where something ends early that is no answer, and where a question is not answered.
    What it says of a wrong use says addresses as they may be said.
    """
    try:
        yield
    except _UsageError as error:
        error.message = masked(error.message)
        raise
    except BrokenPipeError as error:
        raise OutputClosedError from error
    except EOFError as error:
        raise RuntimeError("something ended early") from error
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise typer.BadParameter("a passphrase is asked for, and the input ended without one") from None
