"""What a reader takes and gives, and strict access to a JSON object."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from k3_ledger.schemas.canonical import MAX_INTEGER
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import Sample, Series
from k3_ledger.schemas.outcomes import Position
from k3_ledger.schemas.values import Timestamp

MAX_BYTES: Final = 64 << 20
"""Longest result file that is read."""
_MOMENT: TypeAdapter[str] = TypeAdapter(Timestamp)
_NS: Final = Decimal(10**9)
_SAMPLES: Final = 512
_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What the operator says because the file does not.

    Attributes:
        warmup: repetitions that were run before the first that is in the file.
        cache: state of the prefix cache during the run.
        inputs: whether every repetition had new input.
        batch, input_tokens, output_tokens: of a vLLM latency file, which holds none of them.
    """

    warmup: int
    cache: Literal["cold", "warm", "none"] | None = None
    inputs: Literal["fresh", "repeated"] | None = None
    batch: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What a result file says of the model that was run.

    Attributes:
        where: the field that names it.
        file: its file, as a path of whatever machine that was.
        tensor_bytes: of all its tensors together.
        parameters: values of all its tensors together.
    """

    where: str
    file: str
    tensor_bytes: int | None = None
    parameters: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file holds.

    Attributes:
        name: of the engine.
        version: that the file names; None where it names none.
        started: when the first run began, by the file, as a timestamp; None where it does not say in UTC.
        cpu: processor that the file names.
        series: raw times; repetitions laid end to end, since such files keep no starting times.
        model: the model file that it names; None where it names none.
    """

    name: str
    version: str | None
    started: str | None
    cpu: str | None
    series: tuple[Series, ...]
    model: Named | None = None


def refuse(
    where: str, message: str, expected: str | None = None, found: object = None, *, hint: str | None = None
) -> RunError:
    """The error that every reader raises."""
    shown = None if found is None else repr(found)[:120]
    place = Position(field=where)
    return RunError(Code.RUN_FOREIGN_FILE, message, position=place, expected=expected, found=shown, hint=hint)


def load_json(data: bytes, where: str) -> Any:
    """A JSON value whose numbers with a point are exact decimals; duplicate keys and NaN are refused.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise refuse(where, "a key stands twice in one object")
        return made

    def constant(text: str) -> Any:
        raise refuse(where, "a number that is none", found=text)

    if len(data) > MAX_BYTES:
        raise refuse(where, f"longer than {MAX_BYTES} bytes")
    if data.startswith(codecs.BOM_UTF8):
        raise refuse(where, "a byte order mark in front of the JSON", hint="save it again as UTF-8 without such a mark")
    try:
        return json.loads(data.decode(), parse_float=Decimal, parse_constant=constant, object_pairs_hook=unique)
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise refuse(where, f"not JSON: {error}") from None


def load_lines(data: bytes) -> list[Any]:
    """One JSON value a line, empty lines left out."""
    return [load_json(line, f"line {number + 1}") for number, line in enumerate(data.splitlines()) if line.strip()]


class Fields:
    """Strict access to one JSON object."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise refuse(where, "not an object", "an object", value)
        self.where = where
        self._value: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self._value.get(name) is not None

    def count(self, name: str, least: int = 1) -> int:
        """An integer of at least ``least``."""
        value = self._value.get(name)
        if type(value) is not int or not least <= value <= MAX_INTEGER:
            raise refuse(f"{self.where}.{name}", "not a count", f"an integer of at least {least}", value)
        return value

    def text(self, name: str) -> str:
        """A string that is not empty."""
        value = self._value.get(name)
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _TEXT:
            raise refuse(f"{self.where}.{name}", "not a text", f"a printable text of at most {_TEXT} characters", value)
        return value

    def list(self, name: str, least: int = 1) -> list[Any]:
        """A list of at least so many values."""
        value = self._value.get(name)
        if not isinstance(value, list):
            raise refuse(f"{self.where}.{name}", "not a list of values", "a list", value)
        if len(value) < least:
            raise refuse(f"{self.where}.{name}", "too few values in a list", f"at least {least}", len(value))
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """A list of counts, not empty; any of them may be 0."""
        where = f"{self.where}.{name}"
        return tuple(Fields({"n": one}, f"{where}[{at}]").count("n", 0) for at, one in enumerate(self.list(name)))

    def object(self, name: str) -> Fields:
        """An object in this one."""
        return Fields(self._value.get(name), f"{self.where}.{name}")

    def timestamp(self, name: str) -> str:
        """A moment in UTC, as receipts write it."""
        try:
            return _MOMENT.validate_python(self.text(name))
        except ValidationError:
            raise refuse(
                f"{self.where}.{name}", "not a moment in UTC", "2026-01-31T12:00:00Z", self._value[name]
            ) from None

    def agree(self, name: str, derived: Fraction, what: str) -> None:
        """Where the file states this figure, hold it against what its times and counts come to."""
        if name in self:
            agree(f"{self.where}.{name}", self._value[name], derived, what)

    def rest(self, without: frozenset[str]) -> dict[str, Any]:
        """Every field that is not among these."""
        return {name: value for name, value in self._value.items() if name not in without}

    def seconds(self, name: str) -> int:
        """A positive duration in seconds, as whole nanoseconds."""
        return seconds(self._value.get(name), f"{self.where}.{name}")


def seconds(value: Any, where: str) -> int:
    """A positive number of seconds as whole nanoseconds."""
    if type(value) not in {int, Decimal} or not 0 < value < 10**6:  # NaN is refused where the file is parsed
        raise refuse(where, "not a duration", "seconds, above 0 and below a million", value)
    duration = int((Decimal(value) * _NS).to_integral_value())
    if duration < 1:
        raise refuse(where, "shorter than a nanosecond: no clock measured this", "at least 1 ns", value)
    return duration


def one_shape(fields: Fields, *shapes: str) -> str:
    """The one of these keys that a file has: a file that could be read in two ways is refused.

    Raises:
        RunError: RUN_FOREIGN_FILE: it has none, or more than one.
    """
    found = [name for name in shapes if name in fields]
    if len(found) != 1:
        raise refuse(fields.where, "not one shape of file", f"one of {', '.join(shapes)}", found)
    return found[0]


def agree(where: str, stated: Any, derived: Fraction, what: str) -> None:
    """Hold a figure that the file states against what its own times and counts come to, to 1 %.

    Raises:
        RunError: RUN_FOREIGN_FILE: units or counts are not what they are taken for.
    """
    exact = Decimal(derived.numerator) / Decimal(derived.denominator)
    if type(stated) not in {int, Decimal} or not exact * 99 / 100 <= stated <= exact * 100 / 99:
        raise refuse(where, f"{what} does not follow from times and counts in the file", f"about {exact:.6g}", stated)


def per_second(count: int, duration_ns: int) -> Fraction:
    """A rate, exact: what is a count or a time here fits a receipt, but a float need not be near it."""
    return Fraction(count * 10**9, duration_ns)


def make_series(
    metric: str,
    unit: str,
    samples: list[tuple[int, int]],
    told: Told,
    *,
    context: int | None = None,
    batch: int = 1,
    inputs: Literal["fresh", "repeated"] | None = None,
    cache: Literal["cold", "warm", "none"] | None = None,
) -> Series:
    """A series of ``(duration in ns, count)`` as the tool itself timed it.

    Raises:
        RunError: RUN_FOREIGN_FILE: too many samples, or something that neither file nor operator says.
    """
    if len(samples) > _SAMPLES:
        raise refuse(metric, f"{len(samples)} repetitions", f"at most {_SAMPLES}")
    inputs, cache = inputs or told.inputs, cache or told.cache
    if inputs is None or cache is None:
        raise refuse(metric, "the file does not say whether inputs were fresh or a cache was warm: say it")
    placed, at = [], 0
    for number, (duration, count) in enumerate(samples):
        if max(at + duration, count) > MAX_INTEGER:
            raise refuse(
                f"{metric}, repetition {number}", "more than a receipt can count", f"at most {MAX_INTEGER}", count
            )
        placed.append(Sample(start_ns=at, duration_ns=duration, count=count))
        at += duration
    return Series(
        metric=metric,
        unit=unit,
        actor="subject",
        observer="subject",
        context=context,
        context_filled=context,
        batch=batch,
        processes=1,
        warmup=told.warmup,
        inputs=inputs,
        cache=cache,
        samples=tuple(placed),
    )
