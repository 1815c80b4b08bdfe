"""``-`` is standard input or output everywhere, whatever stands in the folder; a file of that name is ``./-``."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3_ledger.cli.lazy import MODULES, _FilePath, load_module
from tests.cli.test_named import LEDGER, tar_of
from tests.ledgers import ROOT

FORGED = LEDGER.data.replace(b'"count":10', b'"count":11', 1)


@pytest.mark.parametrize("beside", [LEDGER.data, tar_of("led"), b"", b"junk"], ids=["log", "tar", "empty", "junk"])
def test_a_file_called_dash_does_not_stand_in_for_what_is_piped(run, tmp_path, beside):
    (tmp_path / "-").write_bytes(beside)
    done = run("verify", "-", "--root-key", ROOT.public.hex(), stdin=FORGED)
    assert (done.code, "NOT VERIFIED" in done.out) == (1, True)
    assert run("verify", "-", "--root-key", ROOT.public.hex(), stdin=LEDGER.data).code == 0


def test_a_file_called_dash_is_named_by_a_folder_in_front(run, tmp_path):
    (tmp_path / "-").write_bytes(FORGED)
    assert run("verify", "./-", stdin=LEDGER.data).code == 1
    (tmp_path / "-").write_bytes(LEDGER.data)
    assert run("verify", "./-", stdin=FORGED).code == 0


def test_a_body_comes_from_standard_input_and_no_file(run, ledger, tmp_path):
    (tmp_path / "-").write_text('{"text":"from the file"}')
    words = ("append", "note", "-l", "ledger", "-k", "judge.pem", "-b")
    assert run(*words, "-", stdin=b'{"text":"from the pipe"}').code == 0
    assert b"from the pipe" in (ledger / "ledger.jsonl").read_bytes()
    assert b"from the file" not in (ledger / "ledger.jsonl").read_bytes()
    assert run(*words, "./-", stdin=b"").code == 0
    assert b"from the file" in (ledger / "ledger.jsonl").read_bytes()
    (tmp_path / "-").write_text("{}")
    assert "-, text: expected the field" in run(*words, "./-").err


@pytest.mark.parametrize(
    "words",
    [
        ("keygen", "-"),
        ("verify", "ledger", "--memory", "-"),
        ("verify", "ledger", "--trust", "-"),
        ("verify", "ledger", "--root-key", "-"),
        ("verify", "ledger", "--expect-head", "-"),
        ("prove", "0", "-l", "ledger", "--out", "-"),
        ("seal", "-", "-l", "ledger", "-k", "judge.pem"),
        ("ls", "-l", "-"),
        ("key", "enrol", "judge", "-", "-l", "ledger", "-k", "root.pem"),
        ("append", "note", "-l", "ledger", "-k", "-", "-b", "-"),
        ("reconcile", "ledger", "--pins", "-"),
        ("run", "--model", "-", "--out", "bundle"),
        ("generate", "-", "a word"),
        ("cosign", "-", "--keep", "--state", "state", "-k", "judge.pem"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("there", [True, False])
def test_where_no_stream_is_taken_dash_is_a_wrong_use_and_no_file(run, ledger, tmp_path, words, there):
    if there:
        (tmp_path / "-").write_bytes((tmp_path / "root.pub.pem").read_bytes())
    before = sorted(path.name for path in tmp_path.iterdir())
    log = (ledger / "ledger.jsonl").read_bytes()
    done = run(*words, stdin=b'{"text":"x"}')
    assert done.code == 2, done
    assert "./- names a file" in done.err or "--keep" in words
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (ledger / "ledger.jsonl").read_bytes() == log


def test_a_key_is_made_in_a_file_called_dash_where_the_folder_is_named(run, tmp_path):
    assert run("keygen", "./-").code == 0
    assert (tmp_path / "-").is_file()


def parameters(command):
    yield from ((command.name, parameter) for parameter in command.params)
    for below in getattr(command, "commands", {}).values():
        yield from parameters(below)


@pytest.mark.parametrize("module", MODULES)
def test_every_option_that_takes_a_path_keeps_to_the_rule(module):
    for command in load_module(module).values():
        for name, parameter in parameters(command):
            if parameter.type.name in ("path", "file", "directory"):
                assert isinstance(parameter.type, _FilePath), (name, parameter.name)
    assert Path("./-") == Path("-"), "which is why the rule is held before a word becomes a path"
