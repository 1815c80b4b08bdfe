"""Valid values for tests: one written-out run entry, and strategies that follow the JSON Schemas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

import jsonschema
from hypothesis import strategies as st

from k3_ledger.schemas import canonical, models
from k3_ledger.schemas.generate_schemas import documents

if TYPE_CHECKING:
    from collections.abc import Iterator


def pattern_of(scalar: Any) -> str:
    """The pattern of one of the models' constrained text types."""
    pattern = get_args(scalar)[1].pattern
    assert isinstance(pattern, str)
    return pattern


TEXTS = {
    pattern_of(models.Hex64): ["0" * 64, "f" * 64, "0123456789abcdef" * 4],
    pattern_of(models.Commit): ["0" * 40, "9abcdef0" * 5, "f" * 64],
    pattern_of(models.Decimal): [
        "0",
        "-0",
        "0.0",
        "-1",
        "10",
        "12.500",
        "9" * 31 + "." + "9" * 40,
        "0.006694998054076399",
    ],
    pattern_of(models.BigInt): ["0", "1", "1796000000123456789", "9" * 39],
    pattern_of(models.Timestamp): ["2000-01-01T00:00:00Z", "2024-02-29T23:59:59Z", "2999-12-31T09:10:59Z"],
    pattern_of(models.Name): ["a", "Z9", "0._+:@/-", "n" * 200],
    pattern_of(models.FileName): ["a", "_a/b.c", "x/_/z-1+2@3", "n" * 200],
    pattern_of(models.Signature): ["A" * 86 + "==", "+/09azAZ" * 10 + "aaaaaQ==", "/" * 85 + "w=="],
    pattern_of(models.MediaType): ["text/plain", "application/vnd.a+json;charset=utf-8", "a/b;" + "~" * 80],
    pattern_of(models.Origin): ["a", "example.org/log", "o" * 199],
}
"""Texts at the edges of every pattern that the models have; a pattern that is not here fails the tests."""
PRINTABLE = st.characters(exclude_categories=["Cs"])


def values(part: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema ``part`` admits; arrays without a lower bound have at most three elements."""
    match part:
        case {"$ref": reference}:
            found = values(definitions[reference.rpartition("/")[2]], definitions)
        case {"anyOf": options} | {"oneOf": options}:
            found = st.one_of(*(values(option, definitions) for option in reversed(options)))
        case {"const": value}:
            found = st.just(value)
        case {"enum": options}:
            found = st.sampled_from(options)
        case {"type": "array", "items": items}:
            low = part.get("minItems", 0)
            found = st.lists(values(items, definitions), min_size=low, max_size=max(low, 3))
        case {"type": "object", "properties": properties}:
            found = st.fixed_dictionaries({name: values(value, definitions) for name, value in properties.items()})
        case _:
            found = scalars(part)
    return found


def smallest(name: str) -> Any:
    """The value of a document with ``null`` and empty lists wherever they may be."""
    return _fixed(documents()[name].json_schema(), {}, "nothing")


def sparse(name: str) -> Any:
    """The value of a document with every object there and ``null`` for every scalar that may be so."""
    return _fixed(documents()[name].json_schema(), {}, "objects")


def largest(name: str) -> Any:
    """The value of a document with nothing ``null`` and two elements in every list."""
    return _fixed(documents()[name].json_schema(), {}, "everything")


def _fixed(part: dict[str, Any], definitions: dict[str, Any], what: str) -> Any:
    """One value that the schema ``part`` admits."""
    definitions = part.get("$defs", definitions)
    match part:
        case {"$ref": reference}:
            value = _fixed(definitions[reference.rpartition("/")[2]], definitions, what)
        case {"anyOf": [option, _]}:
            there = what == "everything" or (what == "objects" and "$ref" in option)
            value = _fixed(option, definitions, what) if there else None
        case {"type": "array", "items": items}:
            value = [_fixed(items, definitions, what)] * (part.get("minItems", 0) if what == "nothing" else 2)
        case {"type": "object", "properties": properties}:
            value = {name: _fixed(field, definitions, what) for name, field in properties.items()}
        case {"const": value} | {"enum": [value, *_]} | {"minimum": value}:
            pass
        case {"pattern": pattern}:
            value = TEXTS[pattern][0]
        case _:
            value = {"boolean": True, "string": "text"}[part["type"]]
    return value


def scalars(part: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema without parts."""
    match part:
        case {"type": "null"}:
            return st.none()
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "integer", "minimum": low, "maximum": high}:
            return st.integers(low, high)
        case {"type": "string", "pattern": pattern}:
            return st.sampled_from(TEXTS[pattern])
        case {"type": "string", "maxLength": longest}:
            return st.text(PRINTABLE, min_size=part.get("minLength", 0), max_size=min(20, longest))
    raise AssertionError(part)


def of(name: str) -> st.SearchStrategy[Any]:
    """JSON values of one document: an entry kind, or ``bundle``."""
    schema = documents()[name].json_schema()
    return values(schema, schema["$defs"])


def ecma_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """The ``pattern`` keyword as ECMA-262 reads it: Python's ``$`` also matches before a final line feed."""
    if isinstance(instance, str) and not re.search(pattern.removesuffix("$") + r"\Z", instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


EcmaValidator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": ecma_pattern})


def ecma_validator(schema: dict[str, Any]) -> jsonschema.protocols.Validator:
    """A validator for one of our schemas."""
    return EcmaValidator(schema)


ACCELERATOR = {"clock_mhz": None, "clocks_locked": True, "driver": None, "memory_bytes": 1 << 37, "name": "gpu"}


def run_body(*, samples: int = 3) -> dict[str, Any]:
    """A run of the size that receipts have in practice."""
    return {
        "artifacts": [
            {"media_type": "text/plain", "name": "stdout.log", "sha256": "5" * 64, "size": 4096},
        ],
        "bundle": "a" * 64,
        "expert_load": None,
        "flags": [],
        "machine": {
            "command": ["engine", "--threads", "2"],
            "node": {
                "accelerators": [],
                "cpu": "x86-64",
                "kernel": "6.1.0",
                "logical_cores": 2,
                "memory_bytes": 8_000_000_000,
                "name": "node-1",
                "os": "linux",
            },
            "software": [{"name": "python", "version": "3.11.9"}],
            "started": "2026-02-28T23:59:59Z",
        },
        "memory": [{"device": "host", "peak_bytes": 123_456_789, "rank": 0}],
        "model": None,
        "parity": None,
        "role": "candidate",
        "round": None,
        "subject": {"build_sha256": "b" * 64, "name": "engine", "source": None, "version": "1.0"},
        "tee": {"kind": "none", "report_data_sha256": None},
        "timing": [
            {
                "actor": "subject",
                "batch": 1,
                "cache": "cold",
                "context": 1024,
                "context_filled": 1024,
                "inputs": "fresh",
                "metric": "decode",
                "observer": "controller",
                "processes": 1,
                "samples": [
                    {"count": 16, "duration_ns": 40_000_000 + i, "start_ns": 50_000_000 * i} for i in range(samples)
                ],
                "unit": "token",
                "warmup": 1,
            }
        ],
    }


def entry(kind: str, body: dict[str, Any], *, index: int = 7) -> dict[str, Any]:
    """An entry around ``body``, with chain fields of the right shape."""
    return {
        "body": body,
        "index": index,
        "key": "c" * 64,
        "kind": kind,
        "prev": "d" * 64,
        "schema": f"k3-ledger/{kind}/1",
        "time": "2026-03-01T00:00:00Z",
    }


def run_entry(*, samples: int = 3) -> bytes:
    """Canonical bytes of a run entry."""
    return canonical.format(entry("run", run_body(samples=samples)))
