"""Every attack: one file a fault in faults/, and the function beside it that commits it.

The file says who attacks, what he holds, what he changes, and what has to come of it; the function, found by the file's
name, does it to any ledger. A file without a function, and a function without a file, fail the suite.
"""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.world import Trial, World

    Generator = Callable[[World], Trial]

FAULTS: Final = Path(__file__).parent / "faults"
MODULES: Final = (
    "lines",
    "signers",
    "roots",
    "heads",
    "witnesses",
    "proofs",
    "places",
    "judgements",
    "receipts",
    "foreign",
    "claimed",
    "quotes",
    "cosigners",
    "tokens",
)
ATTACKERS: Final = (
    "host", "author", "runner", "judge", "log", "root", "mirror", "witness", "machine", "publisher",
    "claimant", "reader",
)  # fmt: skip
"""Who attacks, in the order in which the threat model tells of them."""

GENERATORS: Final[dict[str, Generator]] = {}


@dataclass(frozen=True, slots=True)
class Attack:
    """One fault and its class.

    Attributes:
        name: of the file.
        attacker: one of ATTACKERS.
        holds: what the attacker has, beside what everybody has.
        changes: what he does, a phrase that follows "he".
        outcome: ``detected``; ``ignored`` when it changes no verdict; ``undetected`` when it passes, as the threat
            model admits.
        step: the verifier's step that speaks up; empty when it is another part.
        code: the finding that has to be there.
        also: every other finding that comes with it.
        exit: the exit code.
        check: what catches it, a name in checks.CHECKS; empty when nothing does.
        then: what comes of the attack without that check: ``passes``, or the finding of the check that stands behind.
        why: for what passes: what would catch it, or why nothing can.
    """

    name: str
    attacker: str
    holds: str
    changes: str
    outcome: Literal["detected", "ignored", "undetected"] = "detected"
    step: str = ""
    code: str = ""
    also: tuple[str, ...] = ()
    exit: int = 0
    check: str = ""
    then: str = ""
    why: str = ""

    @property
    def codes(self) -> frozenset[str]:
        """All findings."""
        return frozenset({self.code, *self.also} - {""})


def attack(function: Generator) -> Generator:
    """Register a generator under its own name."""
    name = function.__name__.replace("_", "-")
    assert name not in GENERATORS, f"two attacks are called {name}"
    GENERATORS[name] = function
    return function


def load() -> tuple[Attack, ...]:
    """All attacks, by attacker and name."""
    for module in MODULES:
        importlib.import_module(f"tests.attacks.{module}")
    known = {field.name for field in fields(Attack)}
    found = []
    for path in sorted(FAULTS.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        assert table.keys() <= known - {"name"}, path.name
        found.append(Attack(path.stem, **{**table, "also": tuple(table.get("also", ()))}))
    return tuple(sorted(found, key=lambda each: (ATTACKERS.index(each.attacker), each.name)))
