"""Exit code 1 says that something was verified and is false: no part that the program is made of ends it with that."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from k3_ledger import start
from k3_ledger.cli import app
from k3_ledger.cli.lazy import MODULES
from tests.ledgers import small_ledger
from tests.support import plain_environment

COMMANDS = [name for names in MODULES.values() for name in names]
PROGRAM = """
import sys
module, error = sys.argv[1], sys.argv[2]
del sys.argv[1:3]

class Panic(BaseException):
    pass

class Refusing:
    def find_spec(self, name, *_):
        if name == module:
            raise eval(error)

sys.meta_path.insert(0, Refusing())
from k3_ledger.start import main
main()
"""


@pytest.mark.parametrize("module", ["k3_ledger.cli", "typer", "k3_ledger.schemas.errors", "k3_ledger.cli.verify"])
@pytest.mark.parametrize("error", ["MemoryError()", "OSError(5, 'EIO')", "ImportError('no room')", "Panic('unwrap')"])
def test_a_program_that_cannot_be_loaded_is_no_verdict(module, error):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module, error, "verify", "nothing"],
        env=plain_environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "error: " in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("error", [RuntimeError("\x1b[31m\udc80"), BaseException("panic")], ids=["control", "panic"])
def test_what_comes_through_everything_is_said_in_words(error, monkeypatch, capsys):
    monkeypatch.setattr("k3_ledger.cli.main", failing(error))
    with pytest.raises(SystemExit) as caught:
        start.main()
    assert caught.value.code == 3
    said = capsys.readouterr().err
    assert said.startswith("error: the program could not run, and this is no verdict: ")
    assert said.replace("\n", "").isprintable()
    assert "Traceback" not in said


class Closed:
    """A stream that takes nothing."""

    def write(self, _: str) -> None:
        """Fail."""
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("stream", [None, Closed()], ids=["none", "closed"])
def test_the_exit_code_stands_where_nothing_can_be_said(stream, monkeypatch):
    monkeypatch.setattr("k3_ledger.cli.main", failing(MemoryError()))
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(SystemExit) as caught:
        start.main()
    assert caught.value.code == 3


def failing(error: BaseException):
    """A function that does nothing but fail."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("command", COMMANDS)
def test_something_that_ends_early_is_no_code_of_the_framework(command, monkeypatch):
    monkeypatch.setattr("importlib.import_module", failing(EOFError("of a pipe")))
    done = CliRunner().invoke(app, [command])
    assert isinstance(done.exception, RuntimeError)
    assert isinstance(done.exception.__cause__, EOFError)


@pytest.mark.parametrize("error", [EOFError(), KeyboardInterrupt()], ids=["end", "interrupt"])
def test_a_question_that_is_not_answered_is_no_verdict(error, run, tmp_path, monkeypatch):
    monkeypatch.setattr("typer._click.termui.hidden_prompt_func", lambda _: "secret")
    assert run("keygen", "locked.pem", "--passphrase").code == 0
    monkeypatch.setattr("typer._click.termui.hidden_prompt_func", failing(error))
    if isinstance(error, EOFError):
        done = run("keygen", "new.pem", "--passphrase")
        assert done.code == 2
        assert "the input ended without one" in done.err
    else:
        with pytest.raises(KeyboardInterrupt):
            run("keygen", "new.pem", "--passphrase")
    assert not (tmp_path / "new.pem").exists()


def test_what_is_false_stays_false_where_the_report_cannot_be_made(run, tmp_path, monkeypatch):
    small_ledger().write(tmp_path)
    log = tmp_path / "ledger.jsonl"
    whole = log.read_bytes()
    monkeypatch.setattr("k3_ledger.cli.render.print_report", failing(MemoryError()))
    monkeypatch.setattr("k3_ledger.cli.told.drop_output", lambda *_: None)
    assert run("verify", "ledger.jsonl").code == 3
    log.write_bytes(whole.replace(b'"count":10', b'"count":11', 1))
    done = run("verify", "ledger.jsonl")
    assert done.code == 1
    assert done.err == "note: what was found false stands, but the report could not be made: MemoryError()\n"
