"""The explaining half of validation: what is wrong, in which field, and what would have been right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k3_ledger.schemas import canonical, envelope, models, structs, validate
from k3_ledger.schemas.errors import LedgerError, MalformedError, SchemaError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from tests.schemas import examples

HERE = Position(source="ledger.jsonl", line=8, byte_offset=9000, index=7)


def refusal(entry: bytes) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        validate.parse_entry(entry, position=HERE)
    assert structs.decode_entry(entry) is None
    return caught.value


def changed(path: str, value: object, *, kind: str = "run") -> bytes:
    """A run entry whose field at ``path`` has another value; ``...`` removes it."""
    body = examples.run_body() if kind == "run" else {"artifacts": [], "text": "hello"}
    entry = examples.entry(kind, body)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = entry
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return canonical.format(entry)


WRONG = [
    ("kind", "runs", Code.SCHEMA_UNKNOWN_KIND, "one of genesis, key, threshold, run,", '"runs"'),
    ("kind", 1, Code.SCHEMA_UNKNOWN_KIND, "one of genesis, key, threshold, run,", "1"),
    ("kind", [], Code.SCHEMA_UNKNOWN_KIND, "one of genesis, key, threshold, run,", "a list of 0"),
    ("kind", ..., Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
    ("kind", "note", Code.SCHEMA_VALUE, "'k3-ledger/note/1'", '"k3-ledger/run/1"'),
    ("schema", "k3-ledger/run/2", Code.SCHEMA_VERSION, "k3-ledger/run/1", '"k3-ledger/run/2"'),
    ("schema", "k3-ledger/run/10", Code.SCHEMA_VERSION, "k3-ledger/run/1", '"k3-ledger/run/10"'),
    ("schema", "k3-ledger/run/1\n", Code.SCHEMA_VALUE, "'k3-ledger/run/1'", '"k3-ledger/run/1\\n"'),
    ("schema", "k3-ledger/run/x", Code.SCHEMA_VALUE, "'k3-ledger/run/1'", '"k3-ledger/run/x"'),
    ("schema", None, Code.SCHEMA_VALUE, "'k3-ledger/run/1'", "null"),
    ("schema", ..., Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
    ("index", -1, Code.SCHEMA_VALUE, "at least 0", "-1"),
    ("index", True, Code.SCHEMA_TYPE, "an integer", "true"),
    ("index", "7", Code.SCHEMA_TYPE, "an integer", '"7"'),
    ("prev", "D" * 64, Code.SCHEMA_VALUE, "64 lower-case hexadecimal digits", '"' + "D" * 59 + "..."),
    ("prev", None, Code.SCHEMA_TYPE, "a string", "null"),
    ("extra", {"a": 1}, Code.SCHEMA_UNKNOWN_FIELD, "no such field", "an object with 1 fields"),
    ("schema_", "k3-ledger/run/1", Code.SCHEMA_UNKNOWN_FIELD, "no such field", '"k3-ledger/run/1"'),
    ("body", [], Code.SCHEMA_TYPE, "an object", "a list of 0"),
    ("body.tee", ..., Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
    ("body.round", ..., Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
    ("body.flags", ..., Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
    ("body.flags", None, Code.SCHEMA_TYPE, "a list", "null"),
    ("body.role", "other", Code.SCHEMA_VALUE, "'candidate', 'frontier' or 'reference'", '"other"'),
    ("body.machine.node.cpu", "x" * 4097, Code.SCHEMA_VALUE, "at most 4096 characters", '"' + "x" * 59 + "..."),
    ("body.machine.software.0.version", "", Code.SCHEMA_VALUE, "at least 1 characters", '""'),
    ("body.machine.command", [], Code.SCHEMA_VALUE, "a list of at least 1", "a list of 0"),
    ("body.machine.command", ["a"] * 257, Code.SCHEMA_VALUE, "a list of at most 256", "a list of 257"),
    ("body.artifacts.0.name", "a/../b", Code.SCHEMA_VALUE, "a relative ASCII path", '"a/../b"'),
    (
        "body.artifacts.0.name",
        "r\u00e9sultats.json",
        Code.SCHEMA_VALUE,
        "a relative ASCII path",
        '"r\\u00e9sultats.json"',
    ),
    ("body.artifacts.0.media_type", "text", Code.SCHEMA_VALUE, "text that matches ^", '"text"'),
    ("body.timing.0.samples.1.count", 0, Code.SCHEMA_VALUE, "at least 1", "0"),
    ("body.timing.0.samples.1.duration_ns", False, Code.SCHEMA_TYPE, "an integer", "false"),
    (
        "body.machine.node.accelerators",
        [examples.ACCELERATOR | {"clocks_locked": 1}],
        Code.SCHEMA_TYPE,
        "true or false",
        "1",
    ),
    ("body.timing.0.samples.1", 5, Code.SCHEMA_TYPE, "an object", "5"),
    ("body.subject.source", {}, Code.SCHEMA_MISSING_FIELD, "the field", "nothing"),
]


@pytest.mark.parametrize(
    ("path", "value", "code", "expected", "found"), WRONG, ids=[f"{n}-{row[0]}" for n, row in enumerate(WRONG)]
)
def test_a_wrong_field_is_named_with_what_was_expected_and_found(path, value, code, expected, found):
    error = refusal(changed(path, value))
    finding = error.finding
    assert isinstance(error, SchemaError)
    assert (error.code, finding.found) == (code, found)
    assert finding.expected.startswith(expected)
    given = finding.position
    assert (given.source, given.line, given.byte_offset, given.index) == ("ledger.jsonl", 8, 9000, 7)
    wanted = "schema" if (path, value) == ("kind", "note") else path
    wanted += {"body.subject.source": ".commit", "body.machine.node.accelerators": ".0.clocks_locked"}.get(path, "")
    assert given.field.replace("[", ".").replace("]", "") == wanted


def test_a_constraint_that_has_no_words_yet_is_told_in_pydantics():
    problem = {"type": "multiple_of", "loc": (), "msg": "a multiple of {3}", "input": 4, "ctx": {"multiple_of": 3}}
    assert validate._expected(problem) == "a multiple of {3}"


def test_several_wrong_fields_are_counted():
    entry = examples.entry("note", {"artifacts": None, "text": ""})
    with pytest.raises(SchemaError, match=r"\(and 1 more\)$"):
        validate.parse_entry(canonical.format(entry))


@pytest.mark.parametrize(("length", "found"), [(58, '"' + "x" * 58 + '"'), (59, '"' + "x" * 59 + "...")])
def test_what_was_found_is_shortened_to_a_readable_length(length, found):
    error = refusal(changed("kind", "x" * length))
    assert error.finding.found == found
    assert error.finding.message.endswith(f", found {found}")


def test_a_list_is_not_called_too_short_because_its_only_element_is_wrong():
    error = refusal(changed("body.timing.0.cache", "hot"))
    assert error.finding.position.field == "body.timing[0].cache"
    assert "more)" not in error.finding.message


@pytest.mark.parametrize("data", [b"[]", b"null", b'"run"', b"1"])
def test_an_entry_is_an_object(data):
    error = refusal(data)
    assert (error.code, error.finding.expected, error.finding.position.field) == (Code.SCHEMA_TYPE, "an object", None)


def test_bytes_that_are_not_canonical_are_refused_before_anything_else():
    error = refusal(b" " + examples.run_entry())
    assert isinstance(error, MalformedError)
    assert error.code is Code.JSON_NOT_CANONICAL
    assert error.finding.position == HERE


def plain(model: models.Model) -> Any:
    return model.model_dump(mode="json", by_alias=True)


def test_the_longest_entry_fits_a_line_and_one_byte_more_does_not():
    def note(length):
        artifact = examples.run_body()["artifacts"][0]
        body = {"artifacts": [artifact] * 250, "text": "x"}
        missing = length - len(canonical.format(examples.entry("note", body)))
        return examples.entry("note", body | {"text": "x" * (1 + missing)})

    entry = canonical.format(note(envelope.MAX_ENTRY), limits=canonical.Limits(max_bytes=100_000))
    assert structs.decode_entry(entry) is not None
    assert plain(validate.parse_entry(entry)) == json.loads(entry)
    longer = canonical.format(note(envelope.MAX_ENTRY + 1), limits=canonical.Limits(max_bytes=100_000))
    assert refusal(longer).code is Code.JSON_TOO_LONG


def test_an_entry_put_around_its_body_is_the_entry():
    entry = examples.run_entry()
    body = canonical.format(plain(validate.parse_entry(entry).body))
    assert entry == envelope.format_entry_around(
        body, index=7, key="c" * 64, kind="run", prev="d" * 64, time="2026-03-01T00:00:00Z"
    )


# ----------------------------------------------------------------------------------------------------- bundles


def bundle(**changes: object) -> bytes:
    body = examples.run_body()
    del body["bundle"]
    return canonical.format({"body": body, "kind": "run", "schema": "k3-ledger/bundle/1"} | changes)


def test_a_bundle_becomes_the_body_of_a_receipt():
    parsed = validate.parse_bundle(bundle())
    assert validate.format_bundle(parsed) == bundle()
    assert plain(parsed.sealed("a" * 64)) == examples.run_body()


def test_a_failed_run_is_sealed_as_a_failure():
    body = {key: examples.run_body()[key] for key in ("artifacts", "machine", "model", "role", "round", "subject")}
    body |= {"exit_status": -9, "reason": "killed", "stage": "prefill"}
    parsed = validate.parse_bundle(bundle(kind="failed", body=body))
    assert isinstance(parsed, models.FailedBundle)
    assert plain(parsed.sealed("a" * 64)) == body | {"bundle": "a" * 64}


@pytest.mark.parametrize(("changes", "code", "field"), [
    ({"kind": "note"}, Code.SCHEMA_UNKNOWN_KIND, "kind"),
    ({"schema": "k3-ledger/bundle/2"}, Code.SCHEMA_VERSION, "schema"),
    ({"schema": "k3-ledger/run/1"}, Code.SCHEMA_VALUE, "schema"),
    ({"body": examples.run_body()}, Code.SCHEMA_UNKNOWN_FIELD, "body.bundle"),
    ({"kind": "failed"}, Code.SCHEMA_MISSING_FIELD, "body.stage"),
])  # fmt: skip
def test_a_wrong_bundle_is_refused_by_name(changes, code, field):
    with pytest.raises(SchemaError) as caught:
        validate.parse_bundle(bundle(**changes))
    assert (caught.value.code, caught.value.finding.position.field) == (code, field)


# ---------------------------------------------------------------------------------------- bodies written by hand


def test_a_hand_written_body_may_leave_out_what_may_be_null_or_empty():
    written = b'{ "reason" : "measured with a stale build",\n "target" : "%s" }' % (b"a" * 64)
    assert canonical.format(plain(validate.read_body("supersede", written))) == (
        b'{"reason":"measured with a stale build","replacement":null,"target":"%s"}' % (b"a" * 64)
    )


def test_parts_of_a_hand_written_body_are_completed_too():
    body = examples.run_body()
    del body["parity"], body["flags"], body["tee"]["report_data_sha256"], body["timing"][0]["context"]
    body["subject"]["source"] = {"dirty": False, "clean_builds": 2}
    read = validate.read_body("run", json.dumps(body, indent=1).encode())
    assert isinstance(read, models.RunBody)
    assert (read.parity, read.flags, read.tee.report_data_sha256, read.timing[0].context) == (None, (), None, None)
    assert read.subject.source == models.Source(commit=None, dirty=False, patch_sha256=None, clean_builds=2)


@pytest.mark.parametrize(("written", "code", "field"), [
    (b'{"text":"a","extra":1}', Code.SCHEMA_UNKNOWN_FIELD, "extra"),
    (b"{}", Code.SCHEMA_MISSING_FIELD, "text"),
    (b"[]", Code.SCHEMA_TYPE, None),
    (b'{"text":"a","artifacts":[1]}', Code.SCHEMA_TYPE, "artifacts[0]"),
    (b'{"text":"a","artifacts":{}}', Code.SCHEMA_TYPE, "artifacts"),
    (b'{"text":["a"]}', Code.SCHEMA_TYPE, "text"),
])  # fmt: skip
def test_a_wrong_hand_written_body_is_refused_by_name(written, code, field):
    with pytest.raises(SchemaError) as caught:
        validate.read_body("note", written)
    assert (caught.value.code, caught.value.finding.position.field) == (code, field)


def test_elements_of_a_hand_written_list_of_words_are_left_alone():
    written = json.dumps({"target": "a" * 64, "rule": "r", "rule_sha256": "b" * 64, "metric": "decode", "tier": "none",
                          "bound_by": "gain", "not_checked": ["parity"]}).encode()  # fmt: skip
    assert validate.read_body("verdict", written).not_checked == ("parity",)


def test_a_kind_that_does_not_exist_is_the_callers_mistake():
    with pytest.raises(ValueError, match="no entry kind 'runs'"):
        validate.read_body("runs", b"{}")
