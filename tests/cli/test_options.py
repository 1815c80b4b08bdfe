"""A value that is none is a wrong use of the command (2), says which option it is about, and nothing is written."""

from __future__ import annotations

import shlex

import pytest
import typer
import typer.main

from k3_ledger.cli import app, lazy, words
from k3_ledger.schemas.validate import explain_text
from k3_ledger.schemas.values import Name, Origin, Text, Timestamp

TIMES = ("nonsense", "1999-12-31T23:59:59Z", "3000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:60Z", "")
SIGNED = {
    "append note --body body.json --key log.pem --ledger ledger",
    "key enrol judge root.pub.pem --key root.pem --ledger ledger",
    "key rotate log root.pub.pem --key root.pem --ledger ledger",
    "key revoke log --key root.pem --ledger ledger",
    "key threshold 1 --key root.pem --ledger ledger",
    "key append nothing --key root.pem --ledger ledger",
    "init other --origin example.org/o --key root.pem",
    "seal nothing --key runner.pem --ledger ledger",
    "rescore ledger --rule house-1.decode --seal judge.pem",
}
BAD = {
    ("init other --key root.pem", "--origin"): ("a b", "", "é.example", "x" * 200),
    ("key enrol judge root.pub.pem --key root.pem --ledger ledger", "--name"): ("a b", "", "-x", "x" * 201),
    ("key revoke log --key root.pem --ledger ledger", "--reason"): ("x" * 4097,),
    ("key threshold 1 --key root.pem --ledger ledger", "--reason"): ("x" * 4097,),
    ("key revoke log --key root.pem --ledger ledger", "--from"): ("-1", "5", "99", str(2**53), "x"),
    ("trust add size --trust none.toml", None): ("0", str(2**53), "1.5"),
    ("trust add age --trust none.toml", None): ("0", str(2**53), "x"),
    ("bundle from llama-bench body.json --out made --ran true --warmup 0", "--node"): ("a b", ""),
    ("bundle from llama-bench body.json --out made --ran true --warmup 0 --node n", "--started"): TIMES,
    ("bundle from llama-bench body.json --out made --warmup 0 --node n", "--ran"): ("'", 'a "b', "a\\"),
    ("run --out made", "--node"): ("a b", ""),
    ("run --out made", "--round"): ("a b", ""),
}
NEEDS_A_HEAD = (
    "prove 1 --ledger ledger", "prove 1 --ledger ledger --out p", "tiles ledger", "timestamp request ledger --out q",
    "export ledger --dsse --key other.pem --out e", "bundle pack ledger --out b.tar",

    "cosign --ledger ledger --witness wit.example+377cc7dc+BJrjza+QzpUSZLIJeJ8NHrsN9kTBpIgohO/gBCNEt8ST=https://h.invalid",
)  # fmt: skip


def leaves(command, said: tuple[str, ...] = ()):
    for name in list(getattr(command, "commands", ())):
        yield from leaves(command.commands[name], (*said, name))
    if not hasattr(command, "commands"):
        yield " ".join(said), command


def options():
    return [(said, command, param) for said, command in leaves(typer.main.get_command(app)) for param in command.params]


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def room(ledger, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "a note"}')
    return files(tmp_path)


@pytest.mark.parametrize("command", sorted(SIGNED))
def test_a_claimed_time_that_no_entry_can_carry_is_a_wrong_use(run, room, tmp_path, command):
    for time in TIMES:
        done = run(*shlex.split(command), "--time", time)
        assert (done.code, done.out) == (2, ""), (time, done.err)
        assert "--time" in done.err
        assert "2026-01-31T23:59:59Z" in done.err
    assert files(tmp_path) == room


def test_every_command_that_claims_a_time_is_here():
    claims = {said for said, _, param in options() if "--time" in param.opts}
    assert claims == {" ".join(word for word in said.split(" --")[0].split()[: len(said.split())]) for said in claims}
    assert all(any(one == said or one.startswith(f"{said} ") for one in SIGNED) for said in claims)


@pytest.mark.parametrize(("command", "option"), sorted(BAD, key=str))
def test_a_value_that_is_none_is_a_wrong_use(run, room, tmp_path, command, option):
    for value in BAD[command, option]:
        given = (f"{option}={value}",) if option else ("--", value)
        done = run(*shlex.split(command), *given)
        assert (done.code, done.out) == (2, ""), (value, done.err)
        assert option is None or option in done.err, (value, done.err)
        assert "Traceback" not in done.err
    assert files(tmp_path) == room


def test_no_number_of_any_command_is_nan_or_infinite():
    seen = 0
    for said, command, param in options():
        if not param.type.name.startswith("float"):
            continue
        for value in ("nan", "inf", "-inf"):
            with pytest.raises(typer.BadParameter):
                param.process_value(typer.Context(command), value)
            seen += 1
        assert param.process_value(typer.Context(command), "1.5") == 1.5, said
    assert seen >= 3 * 15


@pytest.mark.parametrize("command", NEEDS_A_HEAD)
def test_what_needs_a_signed_head_says_that_none_is_and_what_signs_one(run, room, tmp_path, command):
    assert run("keygen", "other.pem").code == 0
    done = run(*shlex.split(command))
    assert (done.code, done.out) == (2, ""), done.err
    assert "[K3L-NOT-CHECKPOINTED]" in done.err
    assert "k3-ledger checkpoint" in done.err
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    if not command.startswith("cosign"):  # which would ask a host
        assert run(*shlex.split(command)).code == 0


def test_the_words_about_a_value_are_those_of_the_schema():
    for kind, good, bad in (
        (Timestamp, "2026-01-31T23:59:59Z", "2026-01-31"),
        (Origin, "example.org/x", "https://"[:7] + " "),
        (Name, "a", ""),
        (Text, "", "\ud800"),
    ):
        assert explain_text(kind, good) is None
        assert not set(explain_text(kind, bad) or "^") & set("^\\$")
    assert words.free_text(None) is None


NOT_UTF8 = "a\udc80b"
"""The bytes 61 80 62, as an argument arrives."""
PATHS = {
    "key enrol log NO --key root.pem --ledger ledger", "key rotate log NO --key root.pem --ledger ledger",
    "init other --origin example.org/o --key root.pem --enrol log=NO", "verify NO", "verify ledger --root-key NO",
    "prove 1 --ledger NO", "trust add key NO --trust trust.toml", "trust init NO --out new.toml",
    "append note --body NO --key runner.pem --ledger ledger", "witness cosign NO --state state --key log.pem",
    "rules show NO",
    "rules diff NO house-1.decode", "rules lint NO", "rescore ledger --rule NO",
    "rescore ledger --rule house-1.decode --pins NO",
    "witness add-log example.org/o NO --state state", "bundle pack NO --out b.tar",
}  # fmt: skip
"""Where a file may be named, and none is called so."""


@pytest.mark.parametrize(
    "param",
    [pytest.param(param, id=f"{said} {param.name}") for said, _, param in options() if param.type.name == "str"],
)
def test_a_text_that_is_no_utf8_is_refused_by_every_option(param):
    if param.name in lazy._MAY_BE_PATHS:
        return
    with pytest.raises(Exception, match="is no text in UTF-8") as caught:
        param.type.convert(NOT_UTF8, param, None)
    assert caught.value.exit_code == 2
    assert param.type.convert("\u00e9\U0001f600\n", param, None) == "\u00e9\U0001f600\n"


@pytest.mark.parametrize(
    "words",
    [
        "init other --key root.pem --origin NO", "show NO --ledger ledger", "trust add origin NO --trust trust.toml",
        "trust add attestation --trust-dir NO --trust trust.toml",
        "key revoke log --key root.pem --ledger ledger --reason NO",
        "key enrol log root.pub.pem --key root.pem --ledger ledger --name NO",
        "init other --key root.pem --origin o --time NO",
    ],
)  # fmt: skip
def test_bytes_that_are_no_utf8_are_a_wrong_use(words, run, ledger, tmp_path):
    assert run("trust", "init", "ledger", "--out", "trust.toml").code == 0
    before = files(tmp_path)
    done = run(*(NOT_UTF8 if word == "NO" else word for word in words.split()))
    assert done.code == 2, done
    assert done.err.count("Error: ") == 1
    assert "'a\\udc80b' is no text in UTF-8" in done.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("words", sorted(PATHS))
def test_a_file_may_be_called_by_any_bytes_and_is_not_there(words, run, ledger, tmp_path):
    assert run("trust", "init", "ledger", "--out", "trust.toml").code == 0
    assert run("witness", "init", "state", "--name", "example.org/w", "--key", "log.pem").code == 0
    before = files(tmp_path)
    done = run(*(word.replace("NO", NOT_UTF8) for word in words.split()))
    assert done.code in (2, 3), done
    assert done.err.lower().count("error: ") == 1
    assert files(tmp_path) == before
