"""Pages of the documentation that follow from the models and from the registry of findings."""

from __future__ import annotations

import json
from typing import Final

from k3_ledger.schemas import models
from k3_ledger.schemas.envelope import SIGNING_ROLES
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.findings.row import Area
from k3_ledger.schemas.generate_schemas import Schema, all_definitions, named_scalars, words

_FINDINGS: Final = """\
# Findings

Every finding that a command can report, by the part of the work that reports it. Codes are stable: one never changes
meaning, and a retired one is not reused. The exit code is the one that a finding asks for when it is the most serious
of a run.

This page is generated from the registry, `k3_ledger.schemas.findings`.
"""

_BODIES: Final = """\
# Format version 1: every field

This page belongs to [the format](format.md) and is generated from the models, `k3_ledger.schemas.models`. The same
constraints stand in the JSON Schema 2020-12 files under `schemas/k3_ledger/schemas/json/`.

Every field of an object is always written, as `null` or `[]` where there is nothing to say, and no other field may be
there. Fields are listed in the order in which canonical JSON writes them.

## Values
"""


def findings_page() -> str:
    """Text of ``docs/findings.md``."""
    lines = [_FINDINGS.rstrip()]
    for area in Area:
        rows = [code for code in Code if code.info.area is area]
        assert rows, f"an area without codes: {area}"
        lines += ["", f"## {area.value[0].upper()}{area.value[1:]}"]
        for code in rows:
            info = code.info
            lines += [
                "",
                f"### {code.id}",
                "",
                f"{info.title} · {info.severity.value} · exit {info.exit.value}",
                "",
                info.meaning,
                "",
                f"What to do: {info.hint}.",
            ]
    return "\n".join(lines) + "\n"


def bodies_page() -> str:
    """Text of ``docs/format-bodies.md``."""
    known, scalars, definitions = words(), named_scalars(), all_definitions()
    entries = [model.__name__ for model in models.ENTRIES.values()]
    bodies = [model.__name__ for model in models.BODIES.values()]
    bundles = [model.__name__ for model in models.BUNDLES.values()]
    parts = sorted(set(definitions) - {*entries, *bodies, *bundles})
    lines = [_BODIES]
    for text, name in scalars.items():
        lines += [f"- **{name}**: {known[name]}", f"  {_constraint(json.loads(text))}"]
    lines += ["", "## Entries", "", "| kind | body | signed by a key of role |", "|---|---|---|"]
    for kind, body in zip(models.ENTRIES, bodies, strict=True):
        lines.append(f"| `{kind}` | {body} | {', '.join(sorted(SIGNING_ROLES[kind]))} |")
    lines += [
        "",
        *_table(definitions[entries[0]], scalars, {"body": "see above", "kind": "see above", "schema": "text"}),
    ]
    for title, names in (("Bodies", bodies), ("Bundles", bundles), ("Parts", parts)):
        lines += [f"## {title}", ""]
        for name in names:
            schema = definitions[name]
            lines += [f"### {name}", "", schema["description"], "", *_table(schema, scalars, {})]
    return "\n".join(lines).rstrip() + "\n"


def _table(schema: Schema, scalars: dict[str, str], instead: dict[str, str]) -> list[str]:
    rows = [
        f"| `{field}` | {instead.get(field) or _type(value, scalars)} | {value['description']} |"
        for field, value in sorted(schema["properties"].items())
    ]
    return ["| field | value | meaning |", "|---|---|---|", *rows, ""]


def _type(schema: Schema, scalars: dict[str, str]) -> str:
    """What a field holds, in words; named values and objects by their name."""
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    name = scalars.get(json.dumps(schema, sort_keys=True))
    match schema:
        case _ if name is not None:
            text = name
        case {"$ref": reference}:
            text = str(reference).rpartition("/")[2]
        case {"anyOf": [inner, {"type": "null"}]}:
            text = f"{_type(inner, scalars)}, or `null`"
        case {"const": value}:
            text = f"`{json.dumps(value)}`"
        case {"enum": choices}:
            text = " or ".join(f"`{json.dumps(choice)}`" for choice in choices)
        case {"type": "array", "items": items, "maxItems": most}:
            text = f"list of {schema.get('minItems', 0)} to {most}: {_type(items, scalars)}"
        case {"type": "boolean"}:
            text = "`true` or `false`"
        case _:
            text = f"text of {_constraint(schema)}"
    return text


def _constraint(schema: Schema) -> str:
    match schema:
        case {"pattern": pattern}:
            return f"`{pattern}`"
        case {"minimum": low, "maximum": high}:
            return f"{low} to {high}"
    return f"{schema.get('minLength', 0)} to {schema['maxLength']} characters"
