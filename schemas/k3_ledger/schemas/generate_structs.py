"""Source of ``structs.py``, written from the JSON Schemas of the models.

A keyword that this module does not know stops it, so no constraint is lost between the two halves of validation.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import TypeAdapter

from k3_ledger.schemas import models
from k3_ledger.schemas.generate_checks import gathering
from k3_ledger.schemas.generate_schemas import Schema, named_scalars

_HEADER: Final = '''\
"""The models as msgspec structs: the fast half of validation.

GENERATED from ``models.py`` by ``python -m k3_ledger.schemas.generate``; do not edit.

:func:`decode_entry` says "valid" or nothing. Typed decoding checks every field; writing the result again and comparing
proves the bytes canonical, since duplicate keys, white space, other escapes and other number spellings do not survive
the comparison. Whatever is refused here goes to :func:`k3_ledger.schemas.validate.parse_entry`, which decides and
explains. A test holds the two equal. Fields are declared in sorted order because msgspec writes them as declared.

A struct by itself does not check patterns; :func:`decode_entry` matches all texts of one type together, which takes a
third off the whole.
"""

# fmt: off
# ruff: noqa: C901, E501, PERF401, PLR0912 - generated: lines are as long as constraints, functions as structs

from __future__ import annotations

from collections.abc import Callable
from re import compile as compile_pattern
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, convert, field
from msgspec.json import Decoder, Encoder

from k3_ledger.schemas.envelope import MAX_ENTRY
'''

_FOOTER: Final = r'''
_Gather = Callable[[Any], list[str]]
_KINDS: dict[bytes, tuple[type[AnyEntryStruct], _Gather, tuple[str, ...]]] = {{
{rows}
}}
_known: dict[bytes, _Known] = {{}}
_encode = Encoder().encode


class _Known:
    """What reads and writes entries of one schema. Building it takes longer than a small log takes to verify."""

    __slots__ = ("decode", "gather", "match", "struct")

    def __init__(self, schema: bytes) -> None:
        self.struct, self.gather, patterns = _KINDS[schema]
        self.decode = Decoder(self.struct).decode
        whole = "".join(rf"(?:(?:{{pattern}})\n)*\n" for pattern in patterns)
        self.match = compile_pattern(whole + r"\Z").match

    def texts_match(self, value: AnyEntryStruct) -> bool:
        texts = self.gather(value)
        joined = "\n".join(texts) + "\n"
        return joined.count("\n") == len(texts) and self.match(joined) is not None


def _lookup(schema: bytes) -> _Known | None:
    if schema not in _known:
        if schema not in _KINDS:
            return None
        _known[schema] = _Known(schema)
    return _known[schema]


def decode_entry(entry: bytes) -> AnyEntryStruct | None:
    """Decode a valid canonical entry; ``None`` says only that the slow path has to look."""
    if len(entry) > MAX_ENTRY:
        return None
    # What follows the schema is of constant length, so it can be cut out without parsing. A wrong cut costs nothing:
    # the decoder that it picks refuses any other schema.
    known = _lookup(entry[entry.rfind(b'"schema":"') + 10 : -32])
    if known is None:
        return None
    try:
        value = known.decode(entry)
    except (DecodeError, UnicodeDecodeError):  # msgspec up to 0.19 raises the latter for bytes that are not UTF-8
        return None
    return value if _encode(value) == entry and known.texts_match(value) else None


def encode_entry(values: dict[str, object]) -> tuple[bytes, AnyEntryStruct] | None:
    """Write a valid entry from plain values; ``None`` says only that the slow path has to look.

    The bytes are canonical: they are what :func:`decode_entry` would write again and compare.
    """
    known = _lookup(str(values["schema"]).encode())
    if known is None:
        return None
    try:
        value = convert(values, known.struct)
        entry = _encode(value)
    except (ValidationError, TypeError, UnicodeEncodeError):
        return None
    return (entry, value) if len(entry) <= MAX_ENTRY and known.texts_match(value) else None
'''


def structs_module() -> str:
    """Source of ``structs.py``."""
    definitions = TypeAdapter(models.AnyEntry).json_schema()["$defs"]
    scalars = named_scalars()
    used: dict[str, str] = {}
    classes = [_struct(name, definitions[name], scalars, used) for name in _in_dependency_order(definitions)]
    aliases = "\n".join(f"{name} = {source}" for name, source in sorted(used.items()))
    kinds = {kind: model.__name__ for kind, model in models.ENTRIES.items()}
    union = " | ".join(kinds.values())
    functions, rows = gathering(kinds, definitions, scalars)
    base = (
        "class Wire(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):\n"
        '    """Base of all structs: frozen, unknown fields refused, every field required."""\n'
    )
    return (
        f"{_HEADER}\n{aliases}\n\n\n{base}\n\n"
        + "\n\n".join(classes)
        + f"\n\nAnyEntryStruct = (\n    {union}\n)\n\n"
        + functions
        + "\n\n"
        + _FOOTER.format(rows="\n".join(rows))
    )


def _in_dependency_order(definitions: dict[str, Schema]) -> list[str]:
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for other in _references(definitions[name]):
                visit(other)
            order.append(name)

    for name in definitions:
        visit(name)
    return order


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        found = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
        return found + [name for value in schema.values() for name in _references(value)]
    if isinstance(schema, list):
        return [name for value in schema for name in _references(value)]
    return []


def _struct(name: str, schema: Schema, scalars: dict[str, str], used: dict[str, str]) -> str:
    keys = set(schema) - {"description", "title", "type", "properties"}
    assert keys == {"additionalProperties", "required"}, (name, keys)
    assert schema["additionalProperties"] is False, name
    assert set(schema["required"]) == set(schema["properties"]), name
    lines = [f"class {name}(Wire, frozen=True):", f'    """See ``models.{name}``."""', ""]
    for key, value in sorted(schema["properties"].items()):
        kind = _type(value, scalars, used)
        lines.append(f'    schema_: {kind} = field(name="schema")' if key == "schema" else f"    {key}: {kind}")
    return "\n".join(lines) + "\n"


def _type(schema: Schema, scalars: dict[str, str], used: dict[str, str]) -> str:
    """The annotation that says the same as ``schema``; an unknown keyword is an assertion."""
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    match schema:
        case {"$ref": reference, **rest} if not rest:
            source = str(reference).rpartition("/")[2]
        case {"anyOf": [inner, {"type": "null"}], **rest} if not rest:
            source = f"{_type(inner, scalars, used)} | None"
        case {"const": value, "type": "string", **rest} if not rest:
            source = f"Literal[{json.dumps(value)}]"
        case {"enum": values, "type": "string", **rest} if not rest:
            source = f"Literal[{', '.join(json.dumps(value) for value in values)}]"
        case {"type": "boolean", **rest} if not rest:
            source = "bool"
        case {"type": "array", "items": items, "maxItems": _, **rest} if set(rest) <= {"minItems"}:
            inner = f"tuple[{_type(items, scalars, used)}, ...]"
            source = f"Annotated[{inner}, {_meta(schema, minItems='min_length', maxItems='max_length')}]"
        case {"type": "string", **rest} if rest and set(rest) <= {"pattern", "minLength", "maxLength"}:
            source = f"Annotated[str, {_meta(rest, minLength='min_length', maxLength='max_length', pattern='pattern')}]"
        case {"type": "integer", "minimum": _, "maximum": _, **rest} if not rest:
            source = f"Annotated[int, {_meta(schema, minimum='ge', maximum='le')}]"
        case _:
            raise AssertionError(f"no struct type for {schema}")
    name = scalars.get(json.dumps(schema, sort_keys=True))
    if name is None:
        return source
    # A named pattern is matched over all its texts together; see generate_checks.
    used[name] = _without_pattern(schema) if "pattern" in schema else source
    return name


def _without_pattern(schema: Schema) -> str:
    rest = {key: value for key, value in schema.items() if key != "pattern"}
    lengths = _meta(rest, minLength="min_length", maxLength="max_length")
    return "str" if lengths == "Meta()" else f"Annotated[str, {lengths}]"


def _meta(schema: Schema, **names: str) -> str:
    parts = []
    for keyword, argument in names.items():
        if keyword in schema:
            value = schema[keyword]
            # Python's $ also matches before a final line feed; pydantic's and ECMA's do not.
            text = f'r"{value.removesuffix("$")}\\Z"' if keyword == "pattern" else repr(value)
            assert keyword != "pattern" or value.endswith("$"), value
            parts.append(f"{argument}={text}")
    return f"Meta({', '.join(parts)})"
