"""The JSON Schema files: valid 2020-12, and of one mind with the models."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from k3_ledger import schemas
from k3_ledger.schemas import canonical, models, validate
from k3_ledger.schemas.errors import LedgerError
from tests.schemas import examples
from tests.schemas.test_two_paths import broken_fields

FILES = [*models.ENTRIES, "bundle"]


def document(name: str) -> dict[str, object]:
    return json.loads((files(schemas) / "json" / f"{name}.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_a_schema_file_is_valid_2020_12_and_describes_every_field(name):
    schema = document(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    objects = [part for part in [schema, *schema["$defs"].values()] if "properties" in part]
    for part in objects:
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])
        assert part["description"]
        assert all(field["description"] for field in part["properties"].values())


@pytest.mark.parametrize("name", FILES)
def test_valid_values_are_valid_under_their_schema(name):
    validator = examples.ecma_validator(document(name))
    parse = validate.parse_bundle if name == "bundle" else validate.parse_entry

    @settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=20)
    @given(examples.of(name))
    def check(value):
        parse(canonical.format(value))
        validator.validate(value)

    check()


@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=150)
@given(broken_fields())
def test_schemas_and_models_agree_on_entries_that_were_changed(entry):
    value = canonical.parse(entry)
    kind = value.get("kind")
    try:
        validate.parse_entry(entry)
    except LedgerError:
        valid = False
    else:
        valid = True
    told = isinstance(kind, str) and kind in models.ENTRIES
    assert (told and examples.ecma_validator(document(kind)).is_valid(value)) == valid
