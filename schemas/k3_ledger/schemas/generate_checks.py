"""Source of the functions in ``structs.py`` that gather the texts of an entry whose patterns have to be matched.

msgspec calls a regular expression once for every constrained string, which costs more than all the rest of decoding. So
the texts of an entry are gathered by type and matched in one call: each text is followed by a line feed, each type by
one more. No pattern takes a line feed or an empty text, so with as many line feeds as there are texts and types, the
empty lines are the ends of the types, and no text can be taken for two or for one of another type.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from k3_ledger.schemas.envelope import schema_of

if TYPE_CHECKING:
    from k3_ledger.schemas.generate_schemas import Schema


def patterns(scalars: dict[str, str]) -> dict[str, str]:
    """The patterns of named values, by name; each must be anchored at both ends and must not take a line feed."""
    found: dict[str, str] = {}
    for text, name in scalars.items():
        pattern = json.loads(text).get("pattern")
        if pattern is not None:
            assert pattern.startswith("^"), pattern
            assert pattern.endswith("$"), pattern
            found[name] = pattern[1:-1]
    return found


def gathering(
    entries: dict[str, str], definitions: dict[str, Schema], scalars: dict[str, str]
) -> tuple[str, list[str]]:
    """Source of the patterns and of one function for each entry kind, and the rows of the table that names them.

    Args:
        entries: name of the struct of each kind.
        definitions: schema of every struct.
        scalars: names of constrained values, by the JSON text of their schema.
    """
    used: set[str] = set()
    functions, rows = [], []
    for kind, struct in entries.items():
        gatherer = _Gatherer(definitions, scalars)
        lines = gatherer.struct(struct, "entry", "    ")
        types = sorted(gatherer.met)
        used |= gatherer.met
        functions.append("\n".join([
            f"def _texts_of_{kind}(entry: {struct}) -> list[str]:",
            *(f"    {name.lower()}: list[str] = []" for name in types),
            *lines,
            f"    return [{', '.join(f'*{name.lower()}, {chr(34) * 2}' for name in types)}]",
        ]))  # fmt: skip
        names = ", ".join(f"_{name.upper()}" for name in types)
        rows.append(f'    b"{schema_of(kind)}": ({struct}, _texts_of_{kind}, ({names})),')
    constants = [f'_{name.upper()} = r"{pattern}"' for name, pattern in patterns(scalars).items() if name in used]
    return "\n\n\n".join(["\n".join(constants), *functions]), rows


class _Gatherer:
    """Writes the statements that put the texts of one entry into a list for each type."""

    def __init__(self, definitions: dict[str, Schema], scalars: dict[str, str]) -> None:
        self._definitions = definitions
        self._scalars = scalars
        self._patterns = patterns(scalars)
        self._variables = 0
        self.met: set[str] = set()
        """Types that occur in the entry."""

    def struct(self, name: str, value: str, indent: str) -> list[str]:
        """Statements for the fields of the struct ``name`` that stands in the variable ``value``."""
        plain: defaultdict[str, list[str]] = defaultdict(list)
        nested: list[str] = []
        for field, schema in sorted(self._definitions[name]["properties"].items()):
            place = f"{value}.{'schema_' if field == 'schema' else field}"
            kind = self._pattern_of(schema)
            if kind is None:
                nested += self._statements(schema, place, indent)
            else:
                plain[kind].append(place)
        together = [
            f"{indent}{kind.lower()} += ({', '.join(places)})"
            if len(places) > 1
            else self._append(kind, places[0], indent)
            for kind, places in plain.items()
        ]
        return together + nested

    def _statements(self, schema: Schema, place: str, indent: str) -> list[str]:
        """Statements for a field that is not simply a text with a pattern; none when it cannot hold one."""
        match schema:
            case {"$ref": reference}:
                name = str(reference).rpartition("/")[2]
                variable = self._variable()
                inner = self.struct(name, variable, indent)
                return [f"{indent}{variable} = {place}", *inner] if inner else []
            case {"anyOf": [option, _]}:
                variable = self._variable()
                inner = self._one(option, variable, indent + "    ")
                return [f"{indent}if ({variable} := {place}) is not None:", *inner] if inner else []
            case {"type": "array", "items": items}:
                kind = self._pattern_of(items)
                if kind is not None:
                    return [f"{indent}{kind.lower()} += {place}"]
                variable = self._variable()
                inner = self._one(items, variable, indent + "    ")
                return [f"{indent}for {variable} in {place}:", *inner] if inner else []
        return []

    def _one(self, schema: Schema, variable: str, indent: str) -> list[str]:
        """Statements for an element or an option that stands in ``variable``."""
        kind = self._pattern_of(schema)
        if kind is not None:
            return [self._append(kind, variable, indent)]
        if "$ref" in schema:
            return self.struct(schema["$ref"].rpartition("/")[2], variable, indent)
        return self._statements(schema, variable, indent)

    def _append(self, kind: str, place: str, indent: str) -> str:
        return f"{indent}{kind.lower()}.append({place})"

    def _pattern_of(self, schema: Any) -> str | None:
        plain = {key: value for key, value in schema.items() if key not in {"title", "description"}}
        name = self._scalars.get(json.dumps(plain, sort_keys=True))
        if name is None or name not in self._patterns:
            return None
        self.met.add(name)
        return name

    def _variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"
