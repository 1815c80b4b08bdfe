"""The operator's commands, run as a person would: words in, words and an exit code out."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from typing import Any

import pytest

from tests.ledger.writer.support import (
    OPENING,
    SIGNERS,
    TIME,
    append_notes,
    new_ledger,
    notes,
    read_entries,
    write_bundle,
)
from tests.ledgers import JUDGE, LOG, ROOT, Key, key_body, small_ledger


def test_keygen_prints_public_keys_and_never_overwrites(run, keys, tmp_path):
    assert keys["root"]["public_path"] == "root.pub.pem"
    before = (tmp_path / "root.pem").read_bytes()
    done = run("keygen", "root.pem")
    assert (done.code, done.out) == (2, "")
    assert "K3L-KEY-FILE-EXISTS" in done.err
    assert "hint:" in done.err
    assert (tmp_path / "root.pem").read_bytes() == before
    assert run("keygen", "more.pem").out.startswith("more.pem: public key ")


def test_key_file_with_a_passphrase_is_opened_from_a_file(run, tmp_path):
    (tmp_path / "pass").write_bytes(b"correct horse\r\nsecond line\n")
    assert run("keygen", "root.pem", "--passphrase-file", "pass").code == 0
    words = ("init", "ledger", "--origin", "o", "--key", "root.pem")
    refused = run(*words)
    assert refused.code == 2
    assert "--passphrase-file" in refused.err
    assert run(*words, "--passphrase-file", "pass").code == 0


def test_passphrase_is_asked_for_on_a_terminal(run, tmp_path, monkeypatch):
    typed: list[str] = []

    def prompt(text: str, **options: Any) -> str:
        assert options["hide_input"]
        typed.append(text)
        return "typed"

    monkeypatch.setattr("typer.prompt", prompt)
    assert run("keygen", "root.pem", "--passphrase").code == 0

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    from k3_ledger.cli.signing import load_key

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO()))
    assert load_key(tmp_path / "root.pem", None).public_key
    assert typed == ["passphrase", f"passphrase of {tmp_path / 'root.pem'}"]


def test_empty_passphrase_is_a_usage_error(run, tmp_path):
    (tmp_path / "pass").write_bytes(b"\n")
    assert run("keygen", "root.pem", "--passphrase-file", "pass").code == 2
    assert not (tmp_path / "root.pem").exists()


def test_init_makes_a_ledger_that_verifies_under_its_root_key(run, ledger, keys):
    assert len(read_entries(ledger / "ledger.jsonl")) == 4
    assert run("verify", "ledger", "--root-key", keys["root"]["public_key"]).code == 0
    again = run("init", "ledger", "--origin", "x", "-k", "root.pem")
    assert again.code == 2
    assert "K3L-STORE-EXISTS" in again.err


def test_init_says_what_it_made_as_json(run, keys):
    done = run(
        "init", "other", "--origin", "o", "-k", "root.pem", "--enrol", f"log={keys['log']['public_key']}", "--json"
    )
    assert done.json == {
        "ledger": "other", "origin": "o", "root_public_key": keys["root"]["public_key"], "entries": 2,
    }  # fmt: skip
    assert [key["name"] for key in run("key", "ls", "-l", "other", "--json").json["keys"]] == [
        "root",
        f"log-{keys['log']['key_id'][:8]}",
    ]


@pytest.mark.parametrize("enrol", ["log.pub.pem", "captain=log.pub.pem"])
def test_enrolment_that_names_no_role_is_a_usage_error(run, keys, enrol, tmp_path):
    assert run("init", "l", "--origin", "o", "-k", "root.pem", "--enrol", enrol).code == 2
    assert not (tmp_path / "l").exists()


def test_hand_written_body_is_completed_and_appended(run, ledger):
    done = run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=b'{ "text" : "by hand" }')
    entry = read_entries(ledger / "ledger.jsonl")[-1]
    assert done.out == f"entry 4 {entry['identity']}: note\n"
    assert entry["body"] == {"text": "by hand", "artifacts": []}


def test_append_as_json_names_the_place(run, ledger, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "x"}')
    size = (ledger / "ledger.jsonl").stat().st_size
    done = run("append", "note", "-b", "body.json", "-k", "judge.pem", "-l", "ledger", "--time", TIME, "--json")
    assert done.json == {
        "index": 4, "identity": read_entries(ledger / "ledger.jsonl")[-1]["identity"], "byte_offset": size,
        "artifacts": [],
    }  # fmt: skip


def test_artifact_of_an_appended_entry_is_stored_first(run, ledger, tmp_path):
    from tests.ledger.writer.support import artifact

    (tmp_path / "plot.txt").write_bytes(b"plot")
    body = json.dumps({"text": "see the plot", "artifacts": [artifact(b"plot", "plot.txt")]}).encode()
    words = ("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", "--artifact")
    assert run(*words, "missing.txt", stdin=body).code == 3
    assert run(*words, "plot.txt", stdin=body).code == 0
    report = run("verify", "ledger", "--json").json
    assert next(step for step in report["steps"] if step["name"] == "artifacts")["outcome"] == "pass"


@pytest.mark.parametrize("body", ["none", "another", "elsewhere", "in part", "no such field"])
def test_an_artifact_that_the_body_does_not_name_is_not_stored(run, ledger, tmp_path, body):
    from tests.ledger.writer.support import artifact, write_bundle

    (tmp_path / "plot.txt").write_bytes(b"plot")
    (tmp_path / "data.txt").write_bytes(b"data")
    plot, data = artifact(b"plot", "plot.txt"), artifact(b"data", "data.txt")
    bodies = {
        "none": {"text": "see the plot"},
        "another": {"text": "see the plot", "artifacts": [data]},
        "elsewhere": {"text": f"see the plot {plot['sha256']}"},
        "in part": {"text": "see the plot", "artifacts": [data]},
        "no such field": {"reason": "wrong", "replacement": None, "target": plot["sha256"]},
    }
    files = {"in part": ("data.txt", "plot.txt")}.get(body, ("plot.txt",))
    kind = "supersede" if body == "no such field" else "note"
    words = [word for name in files for word in ("--artifact", name)]
    if kind == "supersede":  # of a receipt that is there: nothing else is wrong
        write_bundle(tmp_path / "bundle", {"raw": b"raw"})
        assert run("seal", "bundle", "-k", "runner.pem", "-l", "ledger").code == 0
        bodies[body]["target"] = read_entries(ledger / "ledger.jsonl")[-1]["identity"]
    before = {path: path.read_bytes() for path in ledger.rglob("*") if path.is_file()}
    stdin = json.dumps(bodies[body]).encode()
    done = run("append", kind, "-b", "-", "-k", "judge.pem", "-l", "ledger", *words, stdin=stdin)
    assert (done.code, plot["sha256"] in done.err, data["sha256"] in done.err) == (2, True, False), done
    assert {path: path.read_bytes() for path in ledger.rglob("*") if path.is_file()} == before


def test_an_artifact_may_be_named_and_not_given(run, ledger, tmp_path):
    """It may be stored already, or be kept by somebody else."""
    from tests.ledger.writer.support import artifact

    (tmp_path / "data.txt").write_bytes(b"data")
    named = [artifact(b"plot", "plot.txt"), artifact(b"data", "data.txt")]
    stdin = json.dumps({"text": "see both", "artifacts": named}).encode()
    words = ("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", "--artifact", "data.txt")
    assert run(*words, "--artifact", "data.txt", stdin=stdin).code == 0


PIN = b'{"slot":"decode","value":"1.0","unit":"tps","source":"' + b"0" * 64 + b'"}'
SUPERSEDE = b'{"reason":"wrong","replacement":null,"target":"' + b"0" * 64 + b'"}'


@pytest.mark.parametrize(
    ("kind", "stdin", "says"),
    [
        ("note", b'{"text": 1.5}', (3, "K3L-JSON-FLOAT")),
        ("note", b'{"text": "x", "text": "y"}', (3, "K3L-JSON-DUPLICATE-KEY")),
        ("note", b'{"text": "x", "title": "x"}', (3, "K3L-SCHEMA-UNKNOWN-FIELD")),
        ("genesis", b"{}", (2, "not one of")),
        ("receipt", b"{}", (2, "not one of")),
        ("pin", PIN, (1, "K3L-JUDGEMENT-UNREADABLE")),
        ("supersede", SUPERSEDE, (1, "K3L-REFERENCE-UNKNOWN")),
    ],
)
def test_bad_body_is_refused_with_words_and_nothing_is_appended(run, ledger, kind, stdin, says):
    before = (ledger / "ledger.jsonl").read_bytes()
    done = run("append", kind, "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=stdin)
    assert (done.code, done.out) == (says[0], "")
    assert says[1] in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == before


def test_receipt_that_verify_would_refuse_is_not_sealed(run, ledger, tmp_path):
    from tests.ledger.writer.support import bundle_body

    body = bundle_body([])
    body["timing"][0]["samples"].reverse()
    write_bundle(tmp_path / "bundle", {}, body=body)
    done = run("seal", "bundle", "-k", "runner.pem", "-l", "ledger")
    assert done.code == 1
    assert "K3L-RECEIPT-CLOCK" in done.err
    assert len(read_entries(ledger / "ledger.jsonl")) == 4


@pytest.mark.parametrize(
    "enrol",
    [("log=root.pub.pem",), ("root=root.pub.pem",), ("log=log.pub.pem", "runner=log.pub.pem")],
    ids=["the root's as another", "the root's again", "one for two roles"],
)
def test_one_key_for_two_roles_is_a_wrong_use_of_the_command(run, keys, enrol, tmp_path):
    words = ("init", "l", "--origin", "o", "-k", "root.pem")
    done = run(*words, *(word for one in enrol for word in ("--enrol", one)))
    assert done.code == 2
    assert "--enrol" in done.err
    assert not (tmp_path / "l").exists()
    assert run(*words, "--enrol", "log=log.pub.pem", "--enrol", "runner=runner.pub.pem").code == 0


def test_a_bundle_is_held_to_the_id_that_was_printed(run, ledger, tmp_path):
    """Edited between run and seal, it is sound by itself: only the id tells."""
    from tests.ledger.writer.support import bundle_body

    write_bundle(tmp_path / "bundle", {})
    printed = hashlib.sha256((tmp_path / "bundle" / "bundle.json").read_bytes()).hexdigest()
    body = bundle_body([])
    body["timing"][0]["samples"][0]["duration_ns"] -= 1
    write_bundle(tmp_path / "edited", {}, body=body)
    before = (ledger / "ledger.jsonl").read_bytes()
    words = ("-k", "runner.pem", "-l", "ledger")
    done = run("seal", "edited", "--expect", printed, *words)
    assert (done.code, done.out) == (1, "")
    assert "K3L-BUNDLE-MISMATCH" in done.err
    assert printed in done.err
    for given in (("--expect", printed[:-1]), ("--expect", printed.upper()), ("--expect", printed) * 2):
        assert run("seal", "edited", *given, *words).code == 2
    assert (ledger / "ledger.jsonl").read_bytes() == before
    assert not (ledger / "blobs").exists() or not any((ledger / "blobs").rglob("*/*"))
    done = run("seal", "bundle", "edited", "--expect", printed, "--expect", printed, *words)
    assert (done.code, len(read_entries(ledger / "ledger.jsonl"))) == (1, 5), "the first one is, the second is not"
    assert run("seal", "bundle", "--expect", printed, *words).code == 0
    assert run("seal", "edited", *words).code == 0, "the control: nothing else is wrong with it"


def test_sealing_twice_says_so_and_adds_nothing(run, ledger, tmp_path):
    write_bundle(tmp_path / "bundle", {"samples.csv": b"1,2,3\n"})
    first = run("seal", "bundle", "-k", "runner.pem", "-l", "ledger", "--json").json["sealed"][0]
    assert (first["index"], first["added"], first["artifacts_added"]) == (4, True, 1)
    again = run("seal", "bundle", "-k", "runner.pem", "-l", "ledger")
    assert again.code == 0
    assert f"entry 4 {first['identity']}: bundle was sealed already; nothing was appended" in again.out
    assert run("verify", "ledger").code == 0


def test_checkpoint_covers_the_log_and_is_made_once(run, ledger):
    made = run("checkpoint", "-k", "log.pem", "-l", "ledger", "--json").json
    assert (made["size"], made["added"], made["origin"]) == (4, True, "example.org/bench")
    assert "nothing is new" in run("checkpoint", "-k", "log.pem", "-l", "ledger").out
    report = run("verify", "ledger", "--json").json
    assert report["head"]["root"] == made["root"]
    assert report["findings"] == []


def test_wrong_key_for_a_checkpoint_is_refused(run, ledger):
    done = run("checkpoint", "-k", "judge.pem", "-l", "ledger")
    assert done.code == 1
    assert "K3L-KEY-WRONG-ROLE" in done.err


def test_torn_tail_stops_append_with_its_own_exit_code_until_recover(run, ledger):
    size = (ledger / "ledger.jsonl").stat().st_size
    with (ledger / "ledger.jsonl").open("ab") as file:
        file.write(b'{"entry":{"bo')
    append = ("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger")
    refused = run(*append, stdin=b'{"text":"x"}')
    assert refused.code == run("verify", "ledger").code == 5
    assert "k3-ledger recover" in refused.err
    done = run("recover", "-l", "ledger")
    assert done.out == (
        f"cut 13 bytes off at byte {size}, kept in ledger/recovered/{size}-13.torn; 4 entries are whole\n"
    )
    assert run("recover", "-l", "ledger").out == f"nothing is torn: 4 entries, {size} bytes\n"
    assert run(*append, stdin=b'{"text":"x"}').code == 0


def test_recover_says_when_the_cut_bytes_are_a_whole_entry(run, ledger):
    append_notes_with(run, "whole")
    data = (ledger / "ledger.jsonl").read_bytes()
    (ledger / "ledger.jsonl").write_bytes(data[:-1])
    done = run("recover", "-l", "ledger")
    assert "whose line feed was never written; whether its append was acknowledged cannot be told" in done.out
    (ledger / "ledger.jsonl").write_bytes(data[:-1])
    assert run("recover", "-l", "ledger", "--json").json == {
        "entries": 4, "offset": len(data) - len(data.split(b"\n")[-2]) - 1, "cut": len(data.split(b"\n")[-2]),
        "kept": str(next((ledger.relative_to(ledger.parent) / "recovered").iterdir())), "complete": True,
        "restored": False, "removed": False,
    }  # fmt: skip


def test_recover_puts_back_a_line_feed_that_a_signed_head_vouches_for(run, ledger):
    append_notes_with(run, "whole")
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    data = (ledger / "ledger.jsonl").read_bytes()
    for words in ((), ("--json",)):
        (ledger / "ledger.jsonl").write_bytes(data[:-1])
        torn = run("verify", "ledger")
        assert (torn.code, "k3-ledger recover" in torn.out) == (1, True)
        done = run("recover", "-l", "ledger", *words)
        assert (ledger / "ledger.jsonl").read_bytes() == data
        kept = next((ledger.relative_to(ledger.parent) / "recovered").iterdir())
        if words:
            assert (done.json["restored"], done.json["cut"], done.json["kept"]) == (True, 0, str(kept))
        else:
            assert done.out.startswith("put the line feed back behind entry 4: a signed head commits to it")
            assert str(kept) in done.out
        assert run("verify", "ledger").code == 0


def append_notes_with(run, *texts: str) -> None:
    for text in texts:
        body = json.dumps({"text": text}).encode()
        assert run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=body).code == 0


def test_tampering_is_not_recovered(run, ledger):
    append_notes_with(run, "genuine")
    path = ledger / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"genuine", b"forgery"))
    done = run("recover", "-l", "ledger")
    assert done.code == run("verify", "ledger").code == 1
    assert "K3L-SIGNATURE-MISMATCH" in done.err


def test_ls_and_show_find_entries(run, ledger):
    append_notes_with(run, "first", "a \x1b[31mred\x1b[0m word")
    listed = run("ls", "-l", "ledger").out.splitlines()
    assert [line.split()[2] for line in listed] == ["genesis", "key", "key", "key", "note", "note"]
    assert listed[1].endswith("enrol log key log")
    assert "\x1b" not in listed[5]
    rows = run("ls", "-l", "ledger", "--kind", "note", "-n", "1", "--json").json["entries"]
    assert [row["entry"] for row in rows] == [5]
    identity = rows[0]["identity"]
    by_index = run("show", "5", "-l", "ledger", "--json").json
    assert by_index["identity"] == identity
    assert by_index["entry"]["body"]["text"] == "a \x1b[31mred\x1b[0m word"
    shown = run("show", identity[:12], "-l", "ledger")
    assert shown.out.startswith(f"entry 5 {identity}\n")
    assert "not verified" in shown.err
    for nothing in ("99", "f" * 64, "-"):
        assert run("show", nothing, "-l", "ledger").code == 2


def test_index_says_what_it_did(run, ledger):
    assert run("index", "-l", "ledger").out == "ledger/index.sqlite: 4 entries, built anew\n"
    append_notes_with(run, "x")
    assert run("index", "-l", "ledger", "--json").json == {"entries": 5, "added": 1, "rebuilt": False}
    assert run("index", "-l", "ledger", "--rebuild", "--json").json["rebuilt"]


def test_key_is_rotated_by_name_and_revoked_by_file(run, ledger, keys):
    assert run("key", "rotate", "judge", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0
    append = ("append", "note", "-b", "-", "-l", "ledger")
    late = run(*append, "-k", "judge.pem", stdin=b'{"text":"x"}')
    assert late.code == 1
    assert "K3L-KEY-RETIRED" in late.err
    assert run(*append, "-k", "spare.pem", stdin=b'{"text":"x"}').code == 0
    words = ("key", "revoke", "./spare.pub.pem", "-k", "root.pem", "-l", "ledger", "--reason", "lost", "--from", "5")
    assert run(*words, "--json").json["index"] == 6
    listed = run("key", "ls", "-l", "ledger").out
    assert "from entry 3, rotated by entry 4\n" in listed
    assert "from entry 4, retired by entry 6, disowned from entry 5\n" in listed
    assert run("verify", "ledger", "--json").json["counts"] == {"K3L-KEY-DISOWNED": 1, "K3L-UNCHECKPOINTED": 1}
    assert run(*words).code == 1


def test_what_was_taken_back_is_told_apart_wherever_entries_are_shown(run, ledger, tmp_path):
    append_notes_with(run, "good", "bad", "bad too")
    assert run("key", "enrol", "judge", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 0  # entry 7
    append_notes_with(run, "still bad")
    assert run("key", "revoke", "judge", "-k", "root.pem", "-l", "ledger", "--from", "5").code == 0  # entry 9
    report = run("verify", "ledger", "--json").json
    assert report["disowned"] == [{"first": 5, "last": 6, "by": 9}, {"first": 8, "last": 8, "by": 9}]
    rows = run("ls", "-l", "ledger", "--json").json
    assert {row["entry"]: row["disowned_by"] for row in rows["entries"] if row["disowned_by"]} == {5: 9, 6: 9, 8: 9}
    assert rows["disowned_unknown"] is None
    listed = run("ls", "-l", "ledger").out.splitlines()
    assert [line.split()[0] for line in listed if "DISOWNED by entry 9: " in line] == ["5", "6", "8"]
    for entry, by in ((4, None), (5, 9), (7, None), (8, 9), (9, None)):
        shown = run("show", entry, "-l", "ledger")
        assert ("DISOWNED: entry 9 takes back" in shown.out) == (by is not None)
        assert run("show", entry, "-l", "ledger", "--json").json["disowned_by"] == by
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    assert run("prove", "7", "-l", "ledger", "-o", "good.proof").code == 0
    assert run("verify", "good.proof", "--json").json["disowned"] == []


def test_what_was_taken_back_is_called_unknown_where_key_entries_are_damaged(run, ledger):
    append_notes_with(run, "good", "bad")
    assert (
        run("key", "revoke", "judge", "-k", "root.pem", "-l", "ledger", "--from", "5", "--reason", "stolen").code == 0
    )
    assert run("ls", "-l", "ledger").code == 0
    path = ledger / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"stolen", b"st0len"))
    listed = run("ls", "-l", "ledger", "--json")
    assert (listed.code, {row["disowned_by"] for row in listed.json["entries"]}) == (0, {None})
    assert "K3L-SIGNATURE-MISMATCH" in listed.json["disowned_unknown"]
    for words in (("ls",), ("show", "5")):
        done = run(*words, "-l", "ledger")
        assert (done.code, "DISOWNED" in done.out) == (0, False)
        assert "note: which entries were disowned cannot be told: " in done.err


@pytest.mark.parametrize("say", ["stranger", "other role", "retired", "too early", "good"])
def test_what_no_key_may_sign_is_marked_wherever_entries_are_shown(run, tmp_path, say):
    made = small_ledger(1)
    key = {"other role": LOG}.get(say, JUDGE if say in ("retired", "good") else Key("stranger"))
    if say == "retired":
        made.add("key", key_body(JUDGE, "judge", "revoke"), ROOT)
    at, target = len(made.lines), hashlib.sha256(made.lines[4][9:-99]).hexdigest()
    made.add("supersede", {"target": target, "reason": "no", "replacement": None}, key)
    if say == "too early":
        made.add("key", key_body(key, "judge"), ROOT)
    made.runs(1)
    folder = tmp_path / "made"
    folder.mkdir()
    made.write(folder)
    rows = run("ls", "-l", "made", "--json").json
    assert {row["entry"]: row["enrolled"] for row in rows["entries"]} == {
        index: index != at or say == "good" for index in range(len(made.lines))
    }
    assert {row["disowned_by"] for row in rows["entries"]} == {None}
    marked = [line.split()[0] for line in run("ls", "-l", "made").out.splitlines() if "NOT ENROLLED: " in line]
    assert marked == ([] if say == "good" else [str(at)])
    shown = run("show", at, "-l", "made")
    assert ("NOT ENROLLED: its key was never enrolled" in shown.out) == (say != "good")
    assert run("show", at, "-l", "made", "--json").json["enrolled"] is (say == "good")
    assert (run("verify", "made").code == 0) == (say == "good")


def test_an_index_that_lies_about_a_key_hides_nothing_in_show(run, ledger, keys):
    import sqlite3

    append_notes_with(run, "bad")
    assert run("key", "revoke", "judge", "-k", "root.pem", "-l", "ledger", "--from", "4").code == 0
    assert run("index", "-l", "ledger").code == 0
    with sqlite3.connect(ledger / "index.sqlite") as db:
        db.execute("update entries set key = ? where entry = 4", [keys["runner"]["key_id"]])
    db.close()
    assert run("show", "4", "-l", "ledger", "--json").json["disowned_by"] == 5


def ends(run):
    return {key["name"]: (key["ended"], key["retired"], key["disowned_from"]) for key in run_keys(run)}


def run_keys(run):
    return run("key", "ls", "-l", "ledger", "--json").json["keys"]


def test_how_keys_ended_is_told_apart_and_what_to_sign_with_fits_it(run, ledger, keys, tmp_path):
    tail = ("-k", "root.pem", "-l", "ledger")
    assert run("keygen", "new.pem", "root-2.pem", "odd.pem").code == 0
    assert run("key", "rotate", "judge", "spare.pub.pem", *tail).code == 0  # entry 4
    assert run("key", "revoke", "runner", *tail).code == 0
    assert run("key", "enrol", "root", "root-2.pub.pem", *tail).code == 0
    assert run("key", "enrol", "judge", "odd.pub.pem", "-k", "root-2.pem", "-l", "ledger").code == 0
    assert run("key", "revoke", "root-2", *tail, "--from", "7").code == 0
    assert ends(run) == {
        "root": (None, None, None), "log": (None, None, None), "runner": ("revoked", 5, None),
        "judge": ("rotated", 4, None), "spare": (None, None, None), "root-2": ("disowned", 8, 7),
        "odd": ("taken back", 8, None),
    }  # fmt: skip
    assert [key["enrolled"] for key in run_keys(run)] == [0, 1, 2, 3, 4, 6, 7]
    listed = run("key", "ls", "-l", "ledger").out
    for words in ("2, revoked by entry 5", "3, rotated by entry 4", "8, disowned from entry 7",
                  "7, enrolment taken back by entry 8"):  # fmt: skip
        assert f"{words}\n" in listed
    append = ("append", "note", "-b", "-", "-l", "ledger")
    rotated = run(*append, "-k", "judge.pem", stdin=b'{"text":"x"}')
    assert "was rotated by entry 4 [K3L-KEY-RETIRED]" in rotated.err
    assert f"hint: sign with the key that took its place: {keys['spare']['key_id'][:16]}…\n" in rotated.err
    revoked = run(*append, "-k", "runner.pem", stdin=b'{"text":"x"}')
    assert "was revoked by entry 5 [K3L-KEY-RETIRED]" in revoked.err
    assert "took its place" not in revoked.err
    assert "hint: sign with another runner key: `k3-ledger key ls` lists them, `k3-ledger key enrol r" in revoked.err


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "1999-12-31T23:59:59Z", "2026-02-30T00:00:00Z"])
def test_a_time_out_of_range_is_told_the_range(run, ledger, time):
    words = ("append", "note", "-b", "-", "-l", "ledger", "-k", "judge.pem", "--time", time)
    done = run(*words, stdin=b'{"text":"x"}')
    assert (done.code, done.out) == (2, "")
    assert "a day of the years 2000 to 2999, no leap second" in " ".join(done.err.split())


def test_key_is_enrolled_later(run, ledger, keys):
    done = run("key", "enrol", "witness", "spare.pub.pem", "-k", "root.pem", "-l", "ledger", "--name", "w-1")
    assert done.out.endswith("enrol witness key w-1\n")
    assert run("key", "enrol", "captain", "spare.pub.pem", "-k", "root.pem", "-l", "ledger").code == 2


@pytest.mark.parametrize("words", [("ls",), ("show", "0"), ("index",), ("recover",), ("key", "ls")])
def test_missing_ledger_is_named(run, words):
    done = run(*words, "-l", "nowhere")
    assert (done.code, done.out) == (3, "")
    assert "nowhere/ledger.jsonl" in done.err
    assert done.err.startswith("error: ")
    assert "hint: " in done.err


def test_second_writer_gives_up_after_the_wait_it_was_given(run, ledger):
    from k3_ledger.ledger.writer.disk import Disk
    from k3_ledger.ledger.writer.logfile import LogFile

    log = LogFile(Disk(), ledger / "ledger.jsonl")
    with log.locked():
        done = run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", "--wait", "0", stdin=b'{"text":"x"}')
    log.close()
    assert done.code == 3
    assert "K3L-LOCK-BUSY" in done.err


def test_ledger_in_the_current_directory_needs_no_option(run, tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path / "here")
    append_notes(ledger, "x", signer=SIGNERS["judge"])
    monkeypatch.chdir(ledger.root)
    assert len(run("ls").out.splitlines()) == OPENING + 1
    assert notes(ledger.log_path) == ["x"]


@pytest.mark.parametrize("left", [b"", b'{"entry":{', bytes(50), b'{"entry":{"b' + bytes(9), None], ids=str)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_without_a_whole_entry_is_cleared_away_and_begun_again(run, ledger, left, as_json):
    log = ledger / "ledger.jsonl"
    left = log.read_bytes().split(b"\n")[0] if left is None else left
    log.write_bytes(left)
    checked = run("verify", "ledger")
    assert ("k3-ledger recover" in checked.out + checked.err) == (left != bytes(50))  # to verify, that is no ledger
    again = ("init", "ledger", "--origin", "example.org/bench", "-k", "root.pem")
    done = run(*again)
    assert (done.code, "k3-ledger recover" in done.err) == (2, True)
    assert (
        "k3-ledger recover"
        in run("append", "note", "-b", "-", "-k", "root.pem", "-l", "ledger", stdin=b'{"text": "x"}').err
    )
    done = run("recover", "-l", "ledger", *(["--json"] if as_json else []))
    assert done.code == 0
    if as_json:
        assert (done.json["removed"], done.json["cut"], done.json["entries"]) == (True, len(left), 0)
    else:
        assert "k3-ledger init" in done.out
    kept = list((ledger / "recovered").iterdir()) if left else []
    assert [path.read_bytes() for path in kept] == ([left] if left else [])
    assert not log.exists()
    assert run(*again).code == 0
    assert run("verify", "ledger").code == 0


@pytest.mark.parametrize("left", [b"", b'{"entry":{', bytes(50)], ids=str)
@pytest.mark.parametrize("beside", ["checkpoint", "checkpoints/2.note", "blobs/sha256", "index.sqlite"])
def test_a_log_that_held_entries_is_not_cleared_away(run, ledger, left, beside):
    (ledger / "ledger.jsonl").write_bytes(left)
    (ledger / beside).parent.mkdir(exist_ok=True)
    (ledger / beside).write_bytes(b"")
    done = run("recover", "-l", "ledger")
    assert (done.code, done.out) == (1, "")
    assert "K3L-RECOVER-REFUSED" in done.err
    assert "move the directory away" in done.err
    assert (ledger / "ledger.jsonl").read_bytes() == left


def test_what_no_init_leaves_is_not_cleared_away(run, ledger):
    (ledger / "ledger.jsonl").write_bytes(b"PK")
    assert "K3L-NOT-A-LEDGER" in run("recover", "-l", "ledger").err
    assert (ledger / "ledger.jsonl").read_bytes() == b"PK"


def test_verify_sends_nobody_to_a_recovery_that_is_refused(run, ledger):
    append_notes_with(run, "whole")
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    log = ledger / "ledger.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    assert "do not recover" in run("verify", "ledger").out
    done = run("recover", "-l", "ledger")
    assert (done.code, "do not recover" in done.err) == (1, True)
