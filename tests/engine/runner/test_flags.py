"""Every flag unset, 0, 1 and garbage, from the command line and from the environment; recorded as resolved."""

from __future__ import annotations

import os

import pytest

from k3_ledger.engine.runner.flags import FLAGS, FlagSpec, check_together, resolve_flags
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

TAKES: dict[str, dict[str, object]] = {
    "device": {"cpu": "cpu", "cuda": "cuda"},
    "dtype": {"float32": "float32", "bfloat16": "bfloat16"},
    "chunk": {"1": 1, "64": 64, "1000": 1000},
    "deterministic": {"0": False, "1": True, "true": True, "false": False},
    "emulate": {"0": False, "1": True, "true": True, "false": False},
    "backend": {"auto": "auto", "naive": "naive", "triton": "triton"},
    "packed": {"0": False, "1": True, "true": True, "false": False},
    "graph": {"0": False, "1": True, "true": True, "false": False},
    "core": {"any": None, "0": 0, "1": 1},
    "threads": {"1": 1, "2": 2},
}
GARBAGE = ("", " ", "yes", "True", "TRUE", " 1", "1 ", "01", "+1", "-1", "1.0", "0x1", "1_0", "None", "½", "\u0661")
EVERY = pytest.mark.parametrize("spec", FLAGS, ids=[spec.name for spec in FLAGS])


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.parametrize("core", ["2", "9999", "1048577", "9" * 400])
def test_a_core_that_is_not_there_is_refused_before_anything_is_started(core: str) -> None:
    with pytest.raises(RunError) as caught:
        resolve_flags({"core": core}, {})
    assert caught.value.code is Code.RUN_FLAG


def test_every_flag_is_covered_here() -> None:
    assert set(TAKES) == {spec.name for spec in FLAGS}


@EVERY
def test_unset_is_the_documented_default(spec: FlagSpec) -> None:
    resolved = resolve_flags({}, {})
    record = next(flag for flag in resolved.record if flag.name == spec.name)
    assert (record.value, record.origin) == (spec.default, "default")
    assert resolved.values[spec.name] == TAKES[spec.name][spec.default]


@EVERY
@pytest.mark.parametrize("text", ["0", "1", *GARBAGE])
@pytest.mark.parametrize("origin", ["command", "environment"])
def test_a_value_is_taken_as_documented_or_refused(spec: FlagSpec, text: str, origin: str) -> None:
    given = ({spec.name: text}, {}) if origin == "command" else ({}, {spec.variable: text})
    if text in TAKES[spec.name]:
        resolved = resolve_flags(*given)
        assert resolved.values[spec.name] == TAKES[spec.name][text]
        record = next(flag for flag in resolved.record if flag.name == spec.name)
        assert (record.value, record.origin) == (text, origin)
        return
    with pytest.raises(RunError) as caught:
        resolve_flags(*given)
    assert caught.value.code is Code.RUN_FLAG
    assert caught.value.finding.expected == spec.accepts
    assert (spec.variable if origin == "environment" else spec.name) in str(caught.value)


@EVERY
def test_every_documented_value_is_taken(spec: FlagSpec) -> None:
    for text, value in TAKES[spec.name].items():
        assert resolve_flags({spec.name: text}, {}).values[spec.name] == value


def test_the_command_line_wins_over_the_environment() -> None:
    resolved = resolve_flags({"chunk": "8"}, {"K3_CHUNK": "16", "PATH": "/bin"})
    record = next(flag for flag in resolved.record if flag.name == "chunk")
    assert (resolved.values["chunk"], record.value, record.origin) == (8, "8", "command")


def test_a_misspelled_flag_or_variable_is_never_ignored() -> None:
    for given, environment in (({"chunks": "8"}, {}), ({}, {"K3_CHUNKS": "8"}), ({"Chunk": "8"}, {})):
        with pytest.raises(RunError) as caught:
            resolve_flags(given, environment)
        assert caught.value.code is Code.RUN_FLAG
    assert resolve_flags({}, {"K3_LEDGER_TEST_DATA": "x"}).record == resolve_flags({}, {}).record


def test_a_child_process_resolves_to_the_same_values() -> None:
    resolved = resolve_flags({"dtype": "bfloat16"}, {"K3_CHUNK": "16"})
    again = resolve_flags(dict(word.split("=", 1) for word in resolved.arguments()), {})
    assert again.values == resolved.values


@pytest.mark.parametrize("other", [{}, {"device": "cuda", "packed": "1"}, {"device": "cuda", "emulate": "1"}])
def test_a_step_that_cannot_be_recorded_is_refused_before_anything_is_started(other: dict[str, str]) -> None:
    with pytest.raises(RunError, match="a step cannot be recorded there") as caught:
        check_together(resolve_flags({"graph": "1", **other}, {}).values)
    assert caught.value.code is Code.RUN_FLAG
    check_together(resolve_flags({"graph": "1", "device": "cuda"}, {}).values)
    check_together(resolve_flags(other, {}).values)
