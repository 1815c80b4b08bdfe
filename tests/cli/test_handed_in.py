"""Every command that reads a file says which one it could not use, and where in it."""

from __future__ import annotations

import pytest

READERS = {
    "append": ("append", "note", "-b", "it", "-l", "ledger", "-k", "judge.pem"),
    "verify --trust": ("verify", "ledger", "--trust", "it"),
    "trust show": ("trust", "show", "-t", "it"),
    "trust add": ("trust", "add", "size", "1", "-t", "it"),
    "key endorse": ("key", "endorse", "it", "-k", "root.pem"),
    "key append": ("key", "append", "it", "-l", "ledger", "-k", "root.pem"),
    "claims check": ("claims", "check", "it", "-a", "ledger"),
    "rescore --pins": ("rescore", "ledger", "--rule", "v0.2.1", "--pins", "it"),
    "reconcile --pins": ("reconcile", "ledger", "--pins", "it"),
    "reconcile --merges": ("reconcile", "ledger", "--merges", "it"),
    "rules show": ("rules", "show", "it.toml"),
}
JSON = {"append", "key endorse", "key append"}
CONTENTS = {"cut": b"{", "other": b'{"other": 1}', "number": b"7"}
TOML_CONTENTS = {"cut": b"x = ", "other": b"other = 1\n", "number": b"7"}


def place(err: str) -> str:
    """What the error line says about where, in front of the message."""
    line = next(line for line in err.splitlines() if line.startswith("error: "))
    return line.removeprefix("error: ")


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("command", READERS)
def test_the_file_that_cannot_be_used_is_named(run, ledger, tmp_path, command, content):
    words = READERS[command]
    name = "it.toml" if "it.toml" in words else "it"
    (tmp_path / name).write_bytes((CONTENTS if command in JSON else TOML_CONTENTS)[content])
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run(*words)
    assert done.code in (2, 3), done
    assert content != "cut" or done.code == 3, "what cannot be read is no wrong use, whatever it was to be"
    assert place(done.err).startswith((f"{name}, ", f"{name}:")), done.err
    assert "hint: " in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize("command", [name for name in READERS if name != "rules show"])
@pytest.mark.parametrize("kind", ["missing", "directory", "too long"])
def test_what_is_no_file_of_a_sane_size_is_named(run, ledger, tmp_path, command, kind):
    if kind == "directory":
        (tmp_path / "it").mkdir()
    elif kind == "too long":
        with (tmp_path / "it").open("wb") as file:
            file.truncate(1 << 33)
    done = run(*READERS[command])
    assert done.code in (2, 3), done
    assert place(done.err).startswith("it: "), done.err


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"text": 1}', "text"),
        (b'{"text": "x", "artifacts": [{"name": "../x"}]}', "artifacts[0]"),
        (b'{"text": "x", "t": 1}', "t"),
    ],
    ids=["type", "inside", "unknown"],
)
def test_the_field_of_a_body_is_named(run, ledger, tmp_path, body, field):
    (tmp_path / "it").write_bytes(body)
    for stdin in (False, True):
        words = [("-" if stdin and word == "it" else word) for word in READERS["append"]]
        done = run(*words, stdin=body)
        assert done.code == 3
        assert place(done.err).startswith(f"{'stdin' if stdin else 'it'}, {field}"), done.err
