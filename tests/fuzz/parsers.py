"""Every function of the rooms that reads bytes or text, and why those need no target that no target runs.

Found by what it is called and takes: ``parse``, ``read``, ``load`` or ``decode``, public or not, with bytes, text, a
path or a stream among its parameters. Whether a target runs one is seen and not written down: by running it.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

    from tests.fuzz.target import Target

ROOMS = ("schemas", "ledger", "verify", "rescore", "engine", "kernels")
_CALLED = re.compile(r"_?(?:parse|read|load|decode)(?:_|$)")
_TAKES = re.compile(r"\b(?:bytes|str|Path|BinaryIO|Readable|memoryview|TextIO)\b")

NEEDED = {
    "k3_ledger.engine.gguf.header.parse_header": "gguf",
    "k3_ledger.engine.config.read_config": "gguf",
    "k3_ledger.cli.tokens.read_token": "timestamp",
    "k3_ledger.cli.tokens.parse_token": "timestamp",
}
"""What one target alone runs, where what that target needs is installed."""

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "opens a file, and hands its bytes to a reader that has a target": (
        "k3_ledger.cli.memory.read_memory",
        "k3_ledger.cli.memory._read",
        "k3_ledger.cli.opening._read_start",
        "k3_ledger.cli.rules.load_rule",
        "k3_ledger.cli.signing.load_key",
        "k3_ledger.cli.sources.DirectorySource.kept_checkpoints.<locals>.read",
        "k3_ledger.cli.sources.read_start",
        "k3_ledger.cli.store._read_body",
        "k3_ledger.cli.stores._Files._read",
        "k3_ledger.cli.stores._read",
        "k3_ledger.cli.stores.read_file",
        "k3_ledger.cli.thresholds.read_proposal",
        "k3_ledger.cli.trust.load_policy",
        "k3_ledger.cli.trust.read_policy",
        "k3_ledger.cli.trust_dir.read_trust_dir",
        "k3_ledger.cli.trusting.read_heads",
        "k3_ledger.cli.witness._read_request",
        "k3_ledger.ledger.regular.read_if_there",
        "k3_ledger.ledger.writer.beside.read_head",
        "k3_ledger.ledger.writer.beside.read_heads",
        "k3_ledger.ledger.writer.seal.read_bundle",
    ),
    "reads a ledger that verifies, by readers that have a target": (
        "k3_ledger.cli.beyond.read_beyond",
        "k3_ledger.cli.material.load_material",
        "k3_ledger.cli.material.load_with_log",
        "k3_ledger.cli.published_rules.load_rule_for",
        "k3_ledger.cli.published_rules.read_entries",
        "k3_ledger.cli.published_rules.read_published",
        "k3_ledger.ledger.writer.heads.read_newest",
        "k3_ledger.rescore.sweeping.fields.decode_lines",
        "k3_ledger.verify.attested.read_attested",
        "k3_ledger.verify.log.VerifiedLog._read",
        "k3_ledger.verify.log.read_entry",
    ),
    "gives bytes of an artifact or a tile, and looks at nothing but their digest": (
        "k3_ledger.cli.cache.Cache.read_tile",
        "k3_ledger.verify.tee.receipts._Place.read",
    ),
    "takes what the user wrote on the command line, and no file": (
        "k3_ledger.cli.material.read_share",
        "k3_ledger.cli.pack.parse_indexes",
        "k3_ledger.engine.runner.flags._one_of.<locals>.parse",
    ),
    "cuts one line off, of the user's own": ("k3_ledger.cli.signing.read_passphrase",),
    "loads a module of this package": ("k3_ledger.cli.lazy.load_module",),
    "puts a name together": ("k3_ledger.rescore.native.read_ground",),
    "reads from a descriptor until a line or a limit; what the line says has a target": (
        "k3_ledger.engine.runner.channel.Channel._read_line",
    ),
    "answers the controller, in the engine's own process": ("k3_ledger.engine.runner.serve.Server._decode",),
    "reads what the kernel wrote": ("k3_ledger.engine.tsm.Module.read",),
    "takes the weights behind a header that was read; tests/engine/test_gguf_hostile.py is about them": (
        "k3_ledger.engine.gguf.file.Shard.read_into",
        "k3_ledger.engine.model.load_model",
        "k3_ledger.engine.weights.Weights.load",
    ),
    "spells every byte there can be": ("k3_ledger.engine.tokenizer.bpe.decode_text",),
}
"""Readers that no target runs, by the reason why."""


def list_parsers() -> dict[tuple[str, int], str]:
    """Where each stands, a file and the line at which its code begins, and what it is called."""
    return dict(_all_parsers())


def _all_parsers() -> Iterator[tuple[tuple[str, int], str]]:
    for room in ROOMS:
        for path in sorted((ROOT / room / "k3_ledger").rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / room).with_suffix("").parts)
            for node, name in _functions(ast.parse(path.read_text(encoding="utf-8")), module):
                if is_parser(node):
                    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                    yield (_within_package(str(path)), first), name


def _functions(node: ast.AST, within: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child, f"{within}.{child.name}"
            yield from _functions(child, f"{within}.{child.name}.<locals>")
        else:
            yield from _functions(child, f"{within}.{child.name}" if isinstance(child, ast.ClassDef) else within)


def is_parser(node: ast.FunctionDef) -> bool:
    """Whether a function is one that reads bytes or text, by its name and what it takes."""
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    taken = [ast.unparse(one.annotation) for one in given if one.annotation is not None]
    return _CALLED.match(node.name) is not None and any(_TAKES.search(one) for one in taken)


def called_by(targets: Iterable[Target]) -> set[tuple[str, int]]:
    """Where the functions stand that the corpora of these targets run."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    for target in targets:
        known = target.known()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            for data in known:
                target.run(data)
        finally:
            sys.setprofile(before)
    return {(_within_package(code.co_filename), code.co_firstlineno) for code in seen}


def _within_package(path: str) -> str:
    """Where a file stands in ``k3_ledger``, which is the same in a checkout and where a wheel was installed."""
    return path.rpartition("/k3_ledger/")[2]
