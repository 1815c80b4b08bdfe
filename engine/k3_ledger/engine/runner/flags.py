"""The flags of this project's engine: one typed table that resolves, records and documents them.

A flag is unset, set on the command line (``--flag name=value``) or set in the environment (``K3_NAME``); the command
line wins. Booleans take ``1``, ``0``, ``true`` and ``false``; anything else is an error, never a silent on or off.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import Flag
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MOST: Final = 1 << 20
_BOOLEANS: Final = {"1": True, "true": True, "0": False, "false": False}


def _boolean(text: str) -> bool:
    return _BOOLEANS[text]


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST or text != str(value):
        raise ValueError(text)
    return value


def _core(text: str) -> int | None:
    if text == "any":
        return None
    value = int(text)
    if value not in os.sched_getaffinity(0) or text != str(value):
        raise ValueError(text)
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One flag.

    Attributes:
        name: as it stands on the command line and in receipts.
        default: its value when nobody sets it, as text.
        parse: text to value; raises ValueError or KeyError.
        accepts: what it takes, in words.
        help: what it does.
    """

    name: str
    default: str
    parse: Callable[[str], Any]
    accepts: str
    help: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "K3_" + self.name.upper().replace("-", "_")


FLAGS: Final[tuple[FlagSpec, ...]] = (
    FlagSpec("device", "cpu", _one_of("cpu", "cuda"), "cpu or cuda", "where weights and state live"),
    FlagSpec(
        "dtype", "float32", _one_of("float32", "bfloat16"), "float32 or bfloat16", "type of matrices and activations"
    ),
    FlagSpec("chunk", "64", _positive, f"an integer from 1 to {_MOST}", "tokens taken together in prefill"),
    FlagSpec(
        "deterministic", "1", _boolean, "1, 0, true or false", "the path that is bit-identical for every chunk width"
    ),
    FlagSpec(
        "emulate", "0", _boolean, "1, 0, true or false", "round activations as llama.cpp does on quantised weights"
    ),
    FlagSpec("backend", "auto", _one_of("auto", "naive", "triton"), "auto, naive or triton", "which kernels run"),
    FlagSpec("packed", "0", _boolean, "1, 0, true or false", "keep routed experts as they are stored"),
    FlagSpec("graph", "0", _boolean, "1, 0, true or false", "record a decode step once and replay it; on cuda"),
    FlagSpec(
        "core",
        "any",
        _core,
        "any, or the number of a CPU core that this process may use",
        "core it keeps to once it has loaded",
    ),
    FlagSpec("threads", "1", _positive, f"an integer from 1 to {_MOST}", "threads of torch on the CPU"),
)
_BY_NAME: Final = {spec.name: spec for spec in FLAGS}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Flags with the values that apply.

    Attributes:
        values: parsed value by name.
        record: text and origin of each, for the receipt, in the table's order.
    """

    values: Mapping[str, Any]
    record: tuple[Flag, ...]

    def arguments(self) -> list[str]:
        """The same flags as command-line words, so that a child process resolves to the same values."""
        return [f"{flag.name}={flag.value}" for flag in self.record]


def resolve_flags(given: Mapping[str, str], environment: Mapping[str, str]) -> Resolved:
    """Resolve every flag of the table.

    Args:
        given: text by name, from the command line.
        environment: environment variables; only those of the table are looked at, and other ``K3_`` names refused.

    Raises:
        RunError: RUN_FLAG, for an unknown flag or a value that the flag does not take.
    """
    for name in given:
        if name not in _BY_NAME:
            raise _wrong(f"flag {name}", f"there is no flag {name!r}", "one of " + ", ".join(_BY_NAME), name)
    variables = {spec.variable for spec in FLAGS}
    for variable in environment:
        if variable.startswith("K3_") and not variable.startswith("K3_LEDGER_") and variable not in variables:
            raise _wrong(variable, f"{variable} sets no flag", "one of " + ", ".join(sorted(variables)), variable)
    values: dict[str, Any] = {}
    record = []
    for spec in FLAGS:
        if spec.name in given:
            text, origin, place = given[spec.name], "command", f"flag {spec.name}"
        elif spec.variable in environment:
            text, origin, place = environment[spec.variable], "environment", spec.variable
        else:
            text, origin, place = spec.default, "default", spec.name
        try:
            values[spec.name] = spec.parse(text)
        except (ValueError, KeyError):
            raise _wrong(place, f"{spec.name} does not take {text!r}", spec.accepts, text) from None
        record.append(Flag.model_validate({"name": spec.name, "value": text, "origin": origin}))
    return Resolved(values, tuple(record))


def check_together(values: Mapping[str, Any]) -> None:
    """What the engine would refuse once it is started.

    Raises:
        RunError: RUN_FLAG, for values that each flag takes and that do not go together.
    """
    against = {"device": "cuda", "packed": False, "emulate": False}
    if values["graph"] and (other := [name for name, value in against.items() if values[name] != value]):
        found = ", ".join(f"{name}={_text(values[name])}" for name in other)
        raise _wrong(
            "flag graph", "a step cannot be recorded there", "graph with device=cuda, packed=0, emulate=0", found
        )


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _wrong(place: str, message: str, expected: str, found: str) -> RunError:
    return RunError(Code.RUN_FLAG, message, position=Position(field=place), expected=expected, found=found)
