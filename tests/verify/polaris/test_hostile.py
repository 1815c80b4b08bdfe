"""Whatever bytes a log holds, an audit gives a report or a LedgerError, and so does an import."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.polaris import AuditOptions, audit, parse_log, render, to_import
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, signed


def first(log: make_log.Draft) -> dict[str, bytes]:
    """A log of one run: damage does not need more."""
    log.runs, log.advances = log.runs[:1], log.advances[:1]
    return make_log.build(log)


WHOLE, SIGNED, SIBLING = first(make_log.draft()), first(signed()), first(make_log.sibling_draft())
NAMES = [
    "ledger.jsonl",
    "index.json",
    *(path_of(WHOLE, 1, name) for name in ("receipt.json", "result.json", "eval.log", "attestation.json")),
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def survives(files: dict[str, bytes]) -> None:
    try:
        report = audit(files, AuditOptions(public_keys=(bytes(32),)))
        log = parse_log(files)
    except LedgerError:
        return
    json.dumps(report.as_dict())
    assert all(line.isprintable() for line in render(report, verbose=True))
    for item in to_import(log, files, report):
        json.dumps(item.body).encode()


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=120), min_size=1))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_arbitrary_bytes_in_any_file(change: dict[str, bytes]) -> None:
    survives(change)
    survives(WHOLE | change)


@given(st.sampled_from(NAMES), json_values)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_json_value_in_any_file(name: str, value: object) -> None:
    survives(WHOLE | {name: json.dumps(value).encode()})


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
def test_any_json_value_at_any_field_of_any_record(data: st.DataObject) -> None:
    files = dict(data.draw(st.sampled_from([WHOLE, SIGNED, SIBLING])))
    name = data.draw(st.sampled_from(sorted(path for path in files if path.endswith(".json"))))
    document = json.loads(files[name])
    place: Any = document
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(json_values)
    survives(files | {name: json.dumps(document).encode()})


def test_every_field_of_every_record_may_be_of_any_type() -> None:
    """Not left to chance: each leaf of a receipt, a result and a row is replaced by a value of every type."""
    for name in ("receipt.json", "result.json"):
        path = path_of(WHOLE, 1, name)
        body = json.loads(WHOLE[path])
        for holder, key in walk(body):
            old = holder[key]
            for new in (None, True, "text", 1.5, [None], {"x": 1}):
                holder[key] = new
                survives({path: json.dumps(body).encode()})
            holder[key] = old


def walk(value: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    out = [(value, key) for key in value]
    for inner in value.values():
        if isinstance(inner, dict):
            out += walk(inner)
    return out


@pytest.mark.parametrize("files", [WHOLE, SIGNED, SIBLING], ids=["whole", "signed", "sibling"])
def test_every_file_may_be_missing_cut_or_damaged(files: dict[str, bytes]) -> None:
    seed = 4
    chance = random.Random(seed)
    for name, data in files.items():
        survives({path: other for path, other in files.items() if path != name})
        for _ in range(3):
            at = chance.randrange(len(data) + 1)
            survives(files | {name: data[:at]})
            survives(files | {name: data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]})
        survives(files | {name: b""})
        survives(files | {name: b"[" * 20_000})
        survives(files | {name: b'{"a": 1' + b"0" * 10_000 + b"}"})
        survives(files | {name: b"\xff" * 50})
        survives(files | {name: b"\0" * 50})


@pytest.mark.parametrize(
    "name", ["runs/\udc80/result.json", "runs/..//receipt.json", "runs/a/b/receipt.json", "", "/", "runs//x"]
)
def test_any_path(name: str) -> None:
    survives(WHOLE | {name: b'{"tps": 1}'})


@pytest.mark.parametrize("text", ["1e999", "1" * 24 + "." + "1" * 40, "-1e-999"])
def test_figures_that_are_none_in_a_log(text: str) -> None:
    log = make_log.draft()
    for run in log.runs:
        assert run.log is not None
        run.log = [line.replace("0.004000000", text).replace("10.5", text) for line in run.log]
    survives(make_log.build(log))
