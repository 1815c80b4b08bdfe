"""From canonical bytes to models and back: the slow, explaining half of validation.

:func:`parse_entry` decides whether an entry is valid and says what is wrong with it. It reads the canonical bytes
(:mod:`k3_ledger.schemas.canonical`), looks at ``kind`` and ``schema`` so that an entry from another version is not
taken for a broken one, and leaves fields and constraints to pydantic. :func:`k3_ledger.schemas.structs.decode_entry`
answers the same question faster, but only with yes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from k3_ledger.schemas import canonical, models
from k3_ledger.schemas.canonical import JsonValue, Limits
from k3_ledger.schemas.envelope import MAX_ENTRY, schema_of
from k3_ledger.schemas.errors import SchemaError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=models.Model)

ENTRY_LIMITS: Final = Limits(max_bytes=MAX_ENTRY)
"""Limits of an entry, and of a bundle, which has to fit into one."""

_EXPECTED: Final = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "string_type": "a string",
    "tuple_type": "a list",
    "model_type": "an object",
    "string_too_short": "at least {min_length} characters",
    "string_unicode": "text of whole Unicode characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "greater_than_equal": "at least {ge}",
    "literal_error": "{expected}",
    "missing": "the field, null or [] where there is nothing to say",
    "extra_forbidden": "no such field",
}
"""What pydantic's error types ask for, in the words of the format; a type that is not here speaks for itself."""

_PATTERNS: Final = {
    get_args(scalar)[1].pattern: words
    for scalar, words in (
        (models.Hex64, "64 lower-case hexadecimal digits"),
        (models.Commit, "40 or 64 lower-case hexadecimal digits"),
        (models.Decimal, "a decimal number such as 12 or -0.5, without exponent, plus sign or leading zero"),
        (models.BigInt, "a non-negative integer as text"),
        (models.Timestamp, "a UTC time such as 2026-01-31T23:59:59Z, a day of the years 2000 to 2999, no leap second"),
        (models.Name, "1 to 200 characters of A-Z a-z 0-9 . _ + : @ / -, the first a letter or digit"),
        (models.FileName, "a relative ASCII path, no part of which starts with a dot"),
        (models.Signature, "strict base64 of 64 bytes"),
        (
            models.Origin,
            "a host and path without scheme such as example.org/speed: at most 199 of A-Z a-z 0-9 . _ / : -",
        ),
    )
}
"""Patterns in words; one that is not here is shown as it is."""


def parse_entry(entry: bytes, *, position: Position = NOWHERE) -> models.AnyEntry:
    """Read a canonical entry of format version 1.

    Args:
        entry: the bytes between a line's head and tail.
        position: where ``entry`` starts in its source.

    Raises:
        MalformedError: the bytes are not canonical JSON.
        SchemaError: they are, but do not fit the model of their kind; the position names the field.
    """
    value = canonical.parse(entry, limits=ENTRY_LIMITS, position=position)
    kind = _check_kind(value, models.ENTRIES, position)
    _check_version(value, schema_of(kind), position)
    return cast("models.AnyEntry", _validate(models.ENTRIES[kind], entry, position))


def parse_bundle(data: bytes, *, position: Position = NOWHERE) -> models.Bundle:
    """Read ``bundle.json``; errors are those of :func:`parse_entry`."""
    value = canonical.parse(data, limits=ENTRY_LIMITS, position=position)
    kind = _check_kind(value, models.BUNDLES, position)
    _check_version(value, schema_of("bundle"), position)
    return _validate(models.BUNDLES[kind], data, position)


def read_body(kind: str, data: bytes, *, position: Position = NOWHERE) -> models.Model:
    """Read the body of an entry of ``kind`` as a person wrote it: any spacing and key order.

    Fields that may be null or empty may also be absent here; the returned model, and so the sealed entry, has them.

    Raises:
        MalformedError: the bytes are not JSON of the profile.
        SchemaError: the value does not fit; the position names the field.
        ValueError: there is no such kind.
    """
    if kind not in models.BODIES:
        raise ValueError(f"no entry kind {kind!r}")
    model = models.BODIES[kind]
    value = _completed(model, canonical.parse_value(data, limits=ENTRY_LIMITS, position=position))
    return _validate(model, canonical.format(value), position)


def explain_text(kind: Any, text: str) -> str | None:
    """What a text of a type of :mod:`k3_ledger.schemas.values` has to be, where this is none; None where it is one."""
    try:
        TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(text)
    except ValidationError as error:
        return _expected(error.errors(include_url=False)[0])
    return None


def format_bundle(bundle: models.Bundle) -> bytes:
    """The bytes of ``bundle.json``; :func:`parse_bundle` reads them back."""
    return canonical.format(bundle.model_dump(mode="json", by_alias=True), limits=ENTRY_LIMITS)


def _check_kind(value: JsonValue, kinds: Mapping[str, object], position: Position) -> str:
    """The kind that ``value`` says it is, checked before anything that depends on it."""
    if not isinstance(value, dict):
        raise _wrong(Code.SCHEMA_TYPE, "", "an object", _shown(value), position)
    if "kind" not in value:
        raise _wrong(Code.SCHEMA_MISSING_FIELD, "kind", _EXPECTED["missing"], "nothing", position)
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise _wrong(Code.SCHEMA_UNKNOWN_KIND, "kind", f"one of {', '.join(kinds)}", _shown(kind), position)
    return kind


def _check_version(value: JsonValue, schema: str, position: Position) -> None:
    """Tell a version this program does not know from a field that is simply wrong, which pydantic reports."""
    assert isinstance(value, dict)
    given = value.get("schema")
    stem = schema.removesuffix("1")
    if isinstance(given, str) and given != schema and re.fullmatch(re.escape(stem) + "[0-9]+", given):
        raise _wrong(Code.SCHEMA_VERSION, "schema", schema, _shown(given), position)


def _validate(model: type[M], data: bytes, position: Position) -> M:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    # Pydantic adds that a list is too short when one of its elements was refused; the element says it all.
    problems = [p for p in problems if p["type"] != "too_short" or len(p["input"]) < p["ctx"]["min_length"]]
    first, others = problems[0], len(problems) - 1
    code = _code(first["type"])
    found = "nothing" if code is Code.SCHEMA_MISSING_FIELD else _shown(first["input"])
    raise _wrong(code, _path(first["loc"]), _expected(first), found, position, others=others)


def _expected(problem: ErrorDetails) -> str:
    context = problem.get("ctx", {})
    if problem["type"] == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    words = _EXPECTED.get(problem["type"])
    return problem["msg"] if words is None else words.format_map(context)


def _code(problem: str) -> Code:
    if problem == "missing":
        return Code.SCHEMA_MISSING_FIELD
    if problem == "extra_forbidden":
        return Code.SCHEMA_UNKNOWN_FIELD
    return Code.SCHEMA_TYPE if problem.endswith("_type") else Code.SCHEMA_VALUE


def _path(location: tuple[int | str, ...]) -> str:
    """``body.timing[0].samples`` from pydantic's location."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def _wrong(code: Code, field: str, expected: str, found: str, position: Position, *, others: int = 0) -> SchemaError:
    more = f" (and {others} more)" if others else ""
    return SchemaError(
        code,
        f"expected {expected}, found {found}{more}",
        position=dataclasses.replace(position, field=field or None),
        expected=expected,
        found=found,
    )


def _shown(value: object) -> str:
    """A value in one short line: scalars as they are, containers by their size."""
    if isinstance(value, dict):
        return f"an object with {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _completed(annotation: Any, value: JsonValue) -> JsonValue:
    """``value`` with ``null`` or ``[]`` for the fields of ``annotation`` that may be so and are absent."""
    options = [option for option in get_args(annotation) or (annotation,) if isinstance(option, type)]
    if isinstance(value, list):
        return [_completed(options[0], element) for element in value] if options else value
    model = next((option for option in options if issubclass(option, models.Model)), None)
    if not isinstance(value, dict) or model is None:
        return value
    filled: dict[str, JsonValue] = dict(value)
    for name, field in model.model_fields.items():
        if name in filled:
            filled[name] = _completed(field.annotation, filled[name])
        elif type(None) in get_args(field.annotation):
            filled[name] = None
        elif getattr(field.annotation, "__origin__", None) is tuple:
            filled[name] = []
    return filled
