"""Generated files follow their sources, and the generator stops rather than lose a constraint."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from k3_ledger.schemas import canonical, generate, generate_pages, generate_schemas, generate_structs, models
from k3_ledger.schemas.findings import Code
from tests.support import ROOT


def test_the_files_in_the_tree_are_what_the_generator_writes():
    run = [sys.executable, "-m", "k3_ledger.schemas.generate", "--check"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_check_writes_nothing_and_names_what_drifted(tmp_path, capsys):
    (tmp_path / generate.ROOM).mkdir(parents=True)
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(generate.generated())

    changed, missing = tmp_path / generate.ROOM / "structs.py", tmp_path / "docs/findings.md"
    leftover = tmp_path / generate.ROOM / "json/old.schema.json"
    changed.write_text(changed.read_text() + "\n")
    missing.unlink()
    leftover.write_text("{}")
    assert generate.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err
    named = re.findall(r"^error: (\S+) has drifted", said, re.MULTILINE)
    assert sorted(named) == sorted(str(path.relative_to(tmp_path)) for path in (changed, missing, leftover))
    assert "hint: run python -m k3_ledger.schemas.generate" in said
    assert leftover.exists()

    assert generate.main([], tmp_path) == 0
    assert not leftover.exists()
    assert generate.main(["--check"], tmp_path) == 0


def test_what_is_not_an_option_is_refused(tmp_path, capsys):
    assert generate.main(["--chekc"], tmp_path) == 2
    assert capsys.readouterr().err.startswith("usage: ")
    assert list(tmp_path.iterdir()) == []


def test_outside_a_source_tree_nothing_is_written(tmp_path, capsys):
    assert generate.main([], tmp_path) == 2
    assert "is no source tree" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schema", [
    {"type": "string"},
    {"type": "string", "pattern": "^a$", "format": "date"},
    {"type": "integer"},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 3},
    {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
    {"type": "number", "minimum": 0, "maximum": 9},
    {"type": "array", "items": {"type": "boolean"}},
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 3, "uniqueItems": True},
    {"type": "boolean", "const": True},
    {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
    {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 9}]},
    {"$ref": "#/$defs/Node", "default": None},
    {},
], ids=str)  # fmt: skip
def test_a_constraint_that_the_structs_could_not_say_stops_the_generator(schema):
    with pytest.raises(AssertionError):
        generate_structs._type(schema, {}, {})


def test_a_pattern_that_is_open_at_its_end_stops_the_generator():
    with pytest.raises(AssertionError):
        generate_structs._type({"type": "string", "pattern": "^a"}, {}, {})


@pytest.mark.parametrize("change", [
    {"additionalProperties": True}, {"required": []}, {"minProperties": 1}, {"properties": {}},
], ids=str)  # fmt: skip
def test_an_object_that_may_lack_or_add_fields_stops_the_generator(change):
    schema = {
        "type": "object", "title": "Thing", "additionalProperties": False,
        "properties": {"a": {"type": "boolean"}}, "required": ["a"],
    }  # fmt: skip
    assert "    a: bool\n" in generate_structs._struct("Thing", schema, {}, {})
    with pytest.raises(AssertionError):
        generate_structs._struct("Thing", schema | change, {}, {})


def test_a_constraint_without_a_name_is_written_where_it_stands():
    text = {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"}
    source = r"""Annotated[str, Meta(min_length=1, max_length=9, pattern=r"^[a-z]+\Z")]"""
    assert generate_structs._type(text, {}, {}) == source


def test_words_are_found_under_their_field_and_inherited():
    words = generate_schemas.words()
    assert words["Sample.count"] == "How many of the series' units were done in it."
    assert words["RunBody.role"] == words["Measured.role"]
    assert words["NoteEntry.prev"] == words["Entry.prev"]
    assert words["Decimal"].startswith("A decimal number as text")


def test_every_field_of_every_model_has_words():
    words = generate_schemas.words()
    for definition in generate_schemas.all_definitions():
        for field in getattr(models, definition).model_fields:
            assert words[f"{definition}.{field}"].endswith((".", "…")), f"{definition}.{field}"


def test_the_field_page_names_every_object_field_and_named_value():
    page = generate_pages.bodies_page()
    for name, definition in generate_schemas.all_definitions().items():
        if not name.endswith("Entry"):
            assert f"\n### {name}\n" in page
        for field, value in definition["properties"].items():
            assert f"\n| `{field}` | " in page
            assert name.endswith("Entry") or value["description"] in page
    for name in generate_schemas.named_scalars().values():
        assert f"\n- **{name}**: " in page


def test_the_findings_page_has_every_code_with_its_exit_code_and_hint():
    page = generate_pages.findings_page()
    sections = dict(re.findall(r"^### (K3L-[A-Z0-9-]+)\n\n(.*?)(?=\n##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == {code.id for code in Code}
    for code in Code:
        section, info = sections[code.id], code.info
        assert f"{info.title} · {info.severity} · exit {info.exit.value}\n" in section
        assert info.meaning in section
        assert f"What to do: {info.hint}." in section


def test_generated_structs_import_only_msgspec_and_the_standard_library():
    show = "import sys; import k3_ledger.schemas.structs; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()
    assert "msgspec" in loaded
    assert not {name.partition(".")[0] for name in loaded} & {
        "pydantic",
        "pydantic_core",
        "rich",
        "typer",
        "jsonschema",
    }
    ours = {name for name in loaded if name.startswith("k3_ledger.")}
    assert ours == {"k3_ledger.schemas", "k3_ledger.schemas.envelope", "k3_ledger.schemas.structs"}


def test_canonical_json_needs_neither_pydantic_nor_msgspec():
    show = "import sys; import k3_ledger.schemas.canonical; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "msgspec"} & set(loaded)
    assert Path(canonical.__file__).name == "canonical.py"
