"""What is no ledger is no ledger to every command: exit 3, one code, and nothing is written, link or file."""

from __future__ import annotations

import pytest

from k3_ledger.ledger.core.lines import MAX_JUNK

CONTENT = {
    "text": b"hello\n",
    "no line feed": b"hello",
    "JSON lines": b'{"a":1}\n{"b":2}\n',
    "bytes": bytes(range(256)) * 20,
    "line feeds": b"\n" * 70_000,
    "one long line": b"x" * 70_000,
    "UTF-16": "hello\n".encode("utf-16"),
    "NUL bytes": bytes(5000),
    "nothing": b"",
}
COMMANDS = (
    "verify L", "ls -l L", "show 0 -l L", "index -l L", "key ls -l L", "append note -b body.json -k log.pem -l L",
    "seal nothing -k runner.pem -l L", "checkpoint -k log.pem -l L", "tiles L", "prove 0 -l L", "recover -l L",
    "key enrol log spare.pub.pem -k root.pem -l L", "timestamp request L -o q",
)  # fmt: skip


@pytest.fixture
def room(run, keys, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "a note"}')
    (tmp_path / "L").mkdir()
    return tmp_path


def place(room, how, data):
    (room / "other").write_bytes(data)
    log = room / "L" / "ledger.jsonl"
    if how == "symbolic link":
        log.symlink_to(room / "other")
    elif how == "hard link":
        log.hardlink_to(room / "other")
    else:
        log.write_bytes(data)


@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("how", ["file", "symbolic link", "hard link"])
def test_every_command_says_so(run, room, how, content):
    data = CONTENT[content]
    place(room, how, data)
    before = {path: path.lstat().st_mtime_ns for path in room.rglob("*") if path.name != "L"}
    torn = content in ("NUL bytes", "nothing")
    said = set()
    for command in COMMANDS:
        if torn and command.startswith("recover"):
            continue
        done = run(*command.split())
        assert (done.code, "Traceback" in done.err) == (3, False), (command, done)
        said |= {word for word in (done.out + done.err).split() if word.startswith("[K3L-")}
    assert len(said) == 1, said
    assert {path: path.lstat().st_mtime_ns for path in room.rglob("*") if path.name != "L"} == before
    if torn:  # what a cut leaves of a first entry is put aside, so that there can be a ledger again
        assert run("recover", "-l", "L").code == 0
        assert run("init", "L", "--origin", "example.org/o", "-k", "root.pem").code == 0


def test_a_ledger_behind_a_link_is_one(run, ledger, room):
    (room / "L" / "ledger.jsonl").symlink_to(ledger / "ledger.jsonl")
    for command in COMMANDS[:6]:
        assert run(*command.split()).code == 0, command


@pytest.mark.parametrize("first", [b"x", b"\n", b"hello\n", b"\0"])
def test_what_does_not_begin_like_a_ledger_is_left_soon_however_long_it_is(run, room, first):
    log = room / "L" / "ledger.jsonl"
    log.write_bytes(first * 5000)
    with log.open("r+b") as file:
        file.truncate(1 << 40)  # holes cost no disk, and hours to read
    for command in COMMANDS:
        if first == b"\0" and command.startswith("recover"):
            continue
        done = run(*command.split())
        assert done.code == 3, (command, done.err)


def test_a_line_that_never_ends_behind_good_ones_is_false_and_not_read_to_its_end(run, ledger):
    log = ledger / "ledger.jsonl"
    good = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(good)
        file.write(b"x")
        file.truncate(1 << 40)
    done = run("verify", ledger, "--json")
    assert (done.code, set(done.json["counts"]) & {"K3L-TAIL-DAMAGED"}) == (1, {"K3L-TAIL-DAMAGED"})


def test_nul_bytes_in_the_place_of_a_log_that_there_was_are_read_to_their_end(run, ledger):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    (ledger / "ledger.jsonl").write_bytes(bytes(2 * MAX_JUNK))
    done = run("verify", ledger, "--json")
    assert (done.code, done.json["counts"]) == (1, {"K3L-NUL-TAIL": 1, "K3L-CHECKPOINT-AHEAD": 1})
    (ledger / "ledger.jsonl").write_bytes(b"x" + bytes(2 * MAX_JUNK))
    assert run("verify", ledger).code == 3
