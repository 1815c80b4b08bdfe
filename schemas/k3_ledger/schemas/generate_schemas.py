"""JSON Schema 2020-12 documents of the models, with the words that stand under each field."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import json
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from k3_ledger.schemas import bodies, measurement, models, values

Schema = dict[str, Any]

SOURCES: Final = (values, measurement, bodies, models)
"""Modules that define models, in the order of the page."""


def documents() -> dict[str, TypeAdapter[Any]]:
    """What has a JSON Schema file: every entry kind, and bundles."""
    adapters: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(model) for kind, model in models.ENTRIES.items()}
    adapters["bundle"] = TypeAdapter(models.Bundle)
    return adapters


def json_schema(name: str) -> Schema:
    """The JSON Schema 2020-12 document for one entry kind, or for ``bundle``."""
    schema = documents()[name].json_schema()
    for model in [schema, *schema["$defs"].values()]:
        _describe(model)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:k3-ledger:schema:{name}:1",
        **{key: value for key, value in schema.items() if key != "discriminator"},
    }


def all_definitions() -> dict[str, Schema]:
    """The schema of every model that an entry or a bundle consists of, by the model's name."""
    schema = TypeAdapter(models.AnyEntry | models.Bundle).json_schema()
    for model in schema["$defs"].values():
        _describe(model)
    return dict(schema["$defs"])


def named_scalars() -> dict[str, str]:
    """Constrained scalar types that have a name, by the JSON text of their schema."""
    named: dict[str, str] = {}
    for name, value in vars(values).items():
        if get_args(value) and get_args(value)[0] in {str, int}:
            named.setdefault(json.dumps(TypeAdapter(value).json_schema(), sort_keys=True), name)
    return named


@functools.cache
def words() -> dict[str, str]:
    """The string under each assignment: ``{"Hex64": …, "Sample.count": …}``, with inherited fields under each heir."""
    found: dict[str, str] = {}
    for module in SOURCES:
        tree = ast.parse(inspect.getsource(module))
        found |= _words_under(tree.body, "")
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for base in reversed(getattr(module, node.name).__mro__[1:]):
                    prefix = f"{base.__name__}."
                    inherited = {key: text for key, text in found.items() if key.startswith(prefix)}
                    found |= {f"{node.name}.{key.removeprefix(prefix)}": text for key, text in inherited.items()}
                found |= _words_under(node.body, f"{node.name}.")
    return found


def _words_under(body: list[ast.stmt], prefix: str) -> dict[str, str]:
    found = {}
    for statement, after in itertools.pairwise(body):
        match statement, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[prefix + name] = " ".join(text.split())
    return found


def _describe(model: Schema) -> None:
    """Put the words of its fields into the schema of an object; a field without words stops the generator."""
    model.pop("description", None)
    if "properties" not in model:
        return
    name = model["title"]
    model["description"] = " ".join((getattr(models, name).__doc__ or "").split())
    known = words()
    for field, schema in model["properties"].items():
        schema.pop("title", None)
        schema["description"] = known[f"{name}.{'schema_' if field == 'schema' else field}"]
