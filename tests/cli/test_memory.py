"""What a reader remembers: compared first, updated on success, forgotten on purpose only; and evidence that is kept."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from k3_ledger.cli.kinds import Kind, looks_like
from k3_ledger.cli.memory import SCHEMA, Memory, parse_memory, tree_size
from k3_ledger.verify.heads import MEMORY_VERSION
from tests.ledgers import ROOT, RUNNER, Builder, Key, genesis_body, key_body, run_body, sign_head, small_ledger

if TYPE_CHECKING:
    from pathlib import Path

EARLY, WEEK = "2026-06-01T00:00:00Z", 604_800


@pytest.fixture
def speed(run, tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    return small_ledger().write(folder)


def remembered(path: Path) -> bytes:
    value = json.loads(path.read_bytes())
    more = {"enrolments", "sha256"} if value["schema"] == "k3-ledger/memory/3" else set()
    assert set(value) == {"schema", "note", "unmoved_since"} | more
    note: str = value["note"]
    return note.encode()


def write_memory(path: Path, note: bytes | None) -> None:
    """As another verification leaves it."""
    path.unlink(missing_ok=True)
    if note is not None:
        value = {"schema": "k3-ledger/memory/1", "note": note.decode(), "unmoved_since": "2026-06-01T00:00:00Z"}
        path.write_text(json.dumps(value))


def fork() -> Builder:
    """Another history behind the first eight entries."""
    other = Builder(small_ledger().lines[:8])
    other.add("run", run_body(99), RUNNER)
    return other.runs(4)


VERIFY = ("verify", "speed", "--memory", "memory")


def kept_evidence(tmp_path: Path, name: str = "memory.evidence") -> dict[str, bytes]:
    (folder,) = (tmp_path / name).iterdir()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ------------------------------------------------------------------------------------------------------ remembering


def test_a_head_is_remembered_and_the_log_has_to_extend_it(run, speed, tmp_path):
    ledger = small_ledger()
    assert run(*VERIFY).code == 0
    assert remembered(tmp_path / "memory") == ledger.head()
    grown = Builder(ledger.lines[:]).runs(3)
    grown.write(speed)
    assert run(*VERIFY).code == 0
    assert remembered(tmp_path / "memory") == grown.head()
    ledger.write(speed)
    done = run(*VERIFY)
    assert (done.code, "[K3L-ROLLBACK]" in done.out) == (1, True)
    assert remembered(tmp_path / "memory") == grown.head(), "a head is only replaced by one that extends it"


def test_a_note_that_was_saved_by_hand_is_taken_up_and_left_as_it_is(run, speed, tmp_path):
    (tmp_path / "saved").write_bytes(small_ledger().head())
    assert run(*VERIFY, "--expect-head", "saved", "--now", EARLY).code == 0
    assert json.loads((tmp_path / "memory").read_bytes())["unmoved_since"] == EARLY
    assert (tmp_path / "saved").read_bytes() == small_ledger().head()
    (tmp_path / "saved").write_bytes(fork().head())
    assert "[K3L-ROLLBACK]" in run(*VERIFY, "--expect-head", "saved").out


def test_a_newer_head_is_never_forgotten_for_an_older_one(run, speed, tmp_path):
    ledger = small_ledger()
    write_memory(tmp_path / "memory", ledger.head())
    (speed / "checkpoint").write_bytes(sign_head(ledger.lines[:8]))
    for _ in range(2):
        done = run(*VERIFY)
        assert (done.code, "[K3L-CHECKPOINT-BEHIND]" in done.out) == (0, True)
        assert remembered(tmp_path / "memory") == ledger.head()


def test_nothing_is_remembered_of_a_ledger_without_a_checkpoint(run, speed, tmp_path):
    (speed / "checkpoint").unlink()
    done = run(*VERIFY)
    assert (done.code, (tmp_path / "memory").exists()) == (0, False)
    assert "no head was remembered" in done.err


def test_nothing_is_remembered_of_a_ledger_that_does_not_verify(run, speed, tmp_path):
    log = speed / "ledger.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"count":10', b'"count":11', 1))
    assert run(*VERIFY).code == 1
    assert not (tmp_path / "memory").exists()


def pack(run, ledger: Builder, speed: Path, name: str, *more: str) -> None:
    """An offline bundle of a ledger as it is now."""
    ledger.write(speed)
    assert run("bundle", "pack", "speed", "--out", name, *more).code == 0


def test_the_head_of_a_bundle_of_the_whole_record_is_remembered_as_that_of_a_ledger(run, speed, tmp_path):
    """A reader of monthly bundles notices a rollback and a fork, as one who visits the ledger does."""
    ledger, grown = small_ledger(), small_ledger(9)
    pack(run, ledger, speed, "may.tar")
    pack(run, fork(), speed, "fork.tar")
    pack(run, grown, speed, "june.tar")
    verify = lambda name: run("verify", name, "--memory", "memory", "--root-key", ROOT.public.hex())  # noqa: E731
    assert (verify("may.tar").code, verify("june.tar").code, verify("speed").code) == (0, 0, 0)
    assert remembered(tmp_path / "memory") == grown.head()
    done = verify("may.tar")
    assert (done.code, "[K3L-ROLLBACK]" in done.out) == (1, True)
    evidence = kept_evidence(tmp_path)
    assert (evidence["remembered.note"], evidence["shown.note"]) == (grown.head(), ledger.head())
    done = verify("fork.tar")
    assert (done.code, "[K3L-FORK]" in done.out) == (1, True)
    assert remembered(tmp_path / "memory") == grown.head()


def test_a_bundle_that_stands_still_is_frozen_by_what_was_remembered_of_it(run, speed, tmp_path):
    pack(run, small_ledger(), speed, "may.tar")
    policy = tmp_path / "trust.toml"
    policy.write_text(f'root_public_key = "{ROOT.public.hex()}"\nmaximum_head_age_seconds = {WEEK}\n')
    verify = ("verify", "may.tar", "--memory", "memory", "--trust", "trust.toml", "--now")
    assert [run(*verify, now).code for now in (EARLY, "2026-06-07T00:00:00Z", "2026-06-09T00:00:00Z")] == [0, 0, 1]


@pytest.mark.parametrize("form", ["proof", "consistency file", "bundle of some entries"])
def test_of_an_extract_nothing_is_remembered_and_that_is_said(run, speed, tmp_path, form):
    ledger = small_ledger()
    ledger.write(speed)
    (speed / "checkpoints").mkdir()
    (speed / "checkpoints" / "000000000008.note").write_bytes(sign_head(ledger.lines[:8]))
    make = {
        "proof": ("prove", "5", "--ledger", "speed", "--out", "some"),
        "consistency file": ("prove", "--consistency", "8", "10", "--ledger", "speed", "--out", "some"),
        "bundle of some entries": ("bundle", "pack", "speed", "--entries", "5", "--out", "some"),
    }
    assert run(*make[form]).code == 0
    done = run("verify", "some", "--memory", "memory")
    assert (done.code, (tmp_path / "memory").exists()) == (0, False)
    assert "note: this is an extract and not the log, so no head was remembered" in done.err


def test_of_a_bundle_whose_list_is_none_nothing_is_remembered(run, speed, tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("pack.json"))
    (tmp_path / "none.tar").write_bytes(out.getvalue())
    done = run("verify", "none.tar", "--memory", "memory")
    assert (done.code, (tmp_path / "memory").exists()) == (1, False)


def test_a_memory_of_another_log_is_not_an_accusation_of_rollback(run, speed, tmp_path):
    other = Builder(origin="example.org/other").open().runs(9)
    write_memory(tmp_path / "memory", sign_head(other.lines, origin="example.org/other"))
    done = run(*VERIFY)
    assert (done.code, "MEMORY-FOREIGN" in done.out, "ROLLBACK" in done.out) == (3, True, False)
    assert "give the memory that was kept of this log" in done.out
    assert not (tmp_path / "memory.evidence").exists()


def test_a_memory_that_cannot_be_written_is_said(run, speed):
    done = run("verify", "speed", "--memory", "none/memory")
    assert (done.code, "K3L-UNREADABLE" in done.err) == (3, True)


def test_a_full_disk_loses_no_memory(run, speed, tmp_path, monkeypatch):
    run(*VERIFY)
    before = (tmp_path / "memory").read_bytes()
    small_ledger().runs(1).write(speed)

    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(*VERIFY).code == 3
    assert (tmp_path / "memory").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "speed"]


GOOD = json.dumps({"schema": "k3-ledger/memory/1", "note": small_ledger().head().decode(), "unmoved_since": EARLY})
DAMAGED = {
    "empty": b"",
    "zeros": b"\0" * 187,
    "cut": GOOD[:-20].encode(),
    "no note": GOOD.replace('"note"', '"noted"').encode(),
    "version": GOOD.replace("memory/1", "memory/2").encode(),
    "no time": GOOD.replace(EARLY, "yesterday").encode(),
    "no day": GOOD.replace(EARLY, "2026-02-30T00:00:00Z").encode(),
    "no text": GOOD.replace(f'"{EARLY}"', "7").encode(),
    "list": b'{"schema": ["k3-ledger/memory/1"]}',
    "two notes": GOOD.replace(
        '{"schema"', f'{{"note": {json.dumps(small_ledger().head().decode())}, "schema"'
    ).encode(),
    "deep": b'{"schema": "k3-ledger/memory/2", "note":' + b'{"a":' * 100_000,
    "first letter": b"[" + GOOD.encode()[1:],
    "no schema": GOOD.replace("k3-ledger", "k3_ledger").encode(),
    "NUL bytes inside": GOOD.encode()[:60] + b"\0" * 80 + GOOD.encode()[140:],
    "other head": GOOD.replace("\\u2014", "-").encode(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_memory_is_neither_a_first_visit_nor_an_accusation(run, speed, tmp_path, name):
    (tmp_path / "memory").write_bytes(DAMAGED[name])
    done = run(*VERIFY)
    assert (done.code, "[K3L-MEMORY-UNREADABLE]" in done.out) == (3, True)
    assert not any(word in done.out for word in ("K3L-ROLLBACK", "K3L-FORK", "K3L-HEAD-FROZEN"))
    assert (tmp_path / "memory").read_bytes() == DAMAGED[name]
    assert not (tmp_path / "memory.evidence").exists()


def test_a_memory_that_cannot_be_read_stops_everything(run, speed, tmp_path):
    (tmp_path / "memory").symlink_to("nowhere")
    assert run(*VERIFY).code == 3
    assert (tmp_path / "memory").is_symlink()


# ------------------------------------------------------------------------------------------------------ no memory


def all_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


OTHER_FILES = {
    "head": small_ledger().head(),
    "log": small_ledger().data,
    "private key": b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAA\n-----END PRIVATE KEY-----\n",
    "public key": b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAAAA\n-----END PUBLIC KEY-----\n",
    "policy": b'origin = "example.org/speed"\n',
    "proof": b'{"checkpoint":"x"}',
    "JSON": b'{"note": "of mine"}',
    "deep JSON": b'{"a":' * 100_000,
    "text": b"what I know about memories: k3-ledger/memory/2\n",
    "bytes": bytes(range(128, 256)),
    "tar": b"pack.json".ljust(257, b"\0") + b"ustar\x0000" + bytes(300),
}
IS = {
    "head": "a signed tree head", "log": "the log of a ledger", "private key": "a private key",
    "public key": "a public key", "policy": "TOML", "proof": "a proof file", "JSON": "JSON", "deep JSON": "JSON",
    "text": "text", "bytes": "binary data", "tar": "an offline bundle",
}  # fmt: skip


@pytest.mark.parametrize("forget", [(), ("--forget",)], ids=["", "forget"])
@pytest.mark.parametrize("name", OTHER_FILES)
def test_what_is_no_memory_is_not_believed_or_written_over_or_moved(run, speed, tmp_path, name, forget):
    (tmp_path / "memory").write_bytes(OTHER_FILES[name])
    before = all_below(tmp_path)
    done = run(*VERIFY, *forget)
    assert (done.code, done.out) == (3, "")
    assert f"error: memory: this is {IS[name]}" in done.err
    assert "not a memory of a verified head" in done.err
    assert not any(word in done.err for word in ("delete", "--forget", "blank line"))
    assert all_below(tmp_path) == before


@pytest.mark.parametrize(
    "place",
    ["speed/ledger.jsonl", "speed/checkpoint", "speed/checkpoints/10.note", "speed/new", "speed/blobs/new", "speed",
     "speed/../speed/new", "link/new", "leads-in", "speed/leads-out", "speed/memory"],
)  # fmt: skip
@pytest.mark.parametrize(
    "words",
    [
        ("speed",),
        ("speed", "--evidence", "elsewhere"),
        ("speed", "--forget"),
        ("speed/ledger.jsonl", "--forget"),
        ("link",),
        ("file",),
    ],
    ids=" ".join,
)
def test_nothing_in_a_ledger_vouches_for_it_and_verify_writes_nothing_there(run, speed, tmp_path, place, words):
    subject, *forget = words
    (speed / "checkpoints").mkdir()
    (speed / "checkpoints" / "10.note").write_bytes(small_ledger().head())
    (speed / "blobs").mkdir()
    write_memory(speed / "memory", small_ledger().head())
    write_memory(tmp_path / "outside", small_ledger().head())
    (tmp_path / "link").symlink_to("speed")
    (tmp_path / "leads-in").symlink_to("speed/memory")
    (speed / "leads-out").symlink_to(tmp_path / "outside")
    before = all_below(tmp_path)
    subject = speed.as_uri() if subject == "file" else subject
    done = run("verify", subject, "--memory", place, *forget)
    assert (done.code, done.out) == (2, "")
    assert "nothing vouches for itself" in " ".join(done.err.replace("│", " ").split())
    assert all_below(tmp_path) == before
    assert run("verify", subject, "--memory", "outside", *forget).code == 0


@pytest.mark.parametrize("option", ["--expect-head", "--evidence", "--cache"])
def test_no_other_thing_of_the_readers_lies_in_a_ledger(run, speed, tmp_path, option):
    done = run("verify", "speed", option, "speed/checkpoint")
    said = " ".join(done.err.replace("│", " ").split())
    assert (done.code, "nothing vouches for itself" in said, option in said) == (2, True, True)
    assert sum(other in said for other in ("--expect-head", "--evidence", "--cache")) == 1
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "head").write_bytes((speed / "checkpoint").read_bytes())
    place = "kept/head" if option == "--expect-head" else "kept/new"
    assert run("verify", "speed", option, place).code == 0


def test_a_file_that_is_verified_is_no_memory_of_itself(run, speed, tmp_path):
    assert run("prove", "4", "-l", "speed", "-o", "proof").code == 0
    before = all_below(tmp_path)
    for words in ((), ("--forget",)):
        assert run("verify", "proof", "--memory", "proof", *words).code == 2
        assert run("verify", "proof", "--memory", "speed/checkpoint", *words).code == 3
    assert all_below(tmp_path) == before
    assert run(*VERIFY).code == 0
    assert run("verify", "proof", "--memory", "memory").code == 0


def test_nothing_is_forgotten_for_a_ledger_that_is_not_there(run, speed, tmp_path):
    assert run(*VERIFY).code == 0
    before = all_below(tmp_path)
    assert run("verify", "nowhere", "--memory", "memory", "--forget").code == 3
    assert all_below(tmp_path) == before


def test_a_memory_with_any_one_byte_changed_is_still_known_for_one(run, speed, tmp_path):
    assert run(*VERIFY).code == 0
    data = (tmp_path / "memory").read_bytes()
    kinds = {
        looks_like(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]) for at in range(len(data)) for bit in (1, 128)
    }
    assert kinds == {Kind.MEMORY}
    assert {looks_like(data[:end]) for end in range(60, len(data))} == {Kind.MEMORY}


# -------------------------------------------------------------------------------------------------------- forgetting


def test_forgetting_is_explicit_and_keeps_what_was_remembered_aside(run, speed, tmp_path):
    (tmp_path / "memory").write_bytes(DAMAGED["zeros"])
    done = run(*VERIFY, "--forget")
    assert (done.code, remembered(tmp_path / "memory")) == (0, small_ledger().head())
    assert "a rollback before now goes unnoticed" in done.err
    (aside,) = tmp_path.glob("memory.forgotten-*")
    assert aside.read_bytes() == DAMAGED["zeros"]
    assert str(aside.name) in done.err


def test_forgetting_nothing_says_so(run, speed, tmp_path):
    done = run(*VERIFY, "--forget")
    assert (done.code, "nothing to forget" in done.err) == (0, True)
    assert (tmp_path / "memory").exists()


def test_forgetting_without_a_memory_is_misuse(run, speed):
    assert run("verify", "speed", "--forget").code == 2


def test_what_cannot_be_put_aside_is_not_forgotten(run, speed, tmp_path, monkeypatch):
    run(*VERIFY)

    def refuse(_self, _target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.replace", refuse)
    assert run(*VERIFY, "--forget").code == 3
    assert (tmp_path / "memory").exists()


# ---------------------------------------------------------------------------------------------------------- evidence


@pytest.mark.parametrize("what", ["rollback", "fork", "behind", "freeze"])
def test_both_notes_are_kept_as_evidence(run, speed, tmp_path, what):
    ledger = small_ledger()
    grown = Builder(ledger.lines[:]).runs(3)
    (tmp_path / "trust.toml").write_text(f"maximum_head_age_seconds = {WEEK}\n")
    words = (*VERIFY, "--trust", "trust.toml")
    if what == "freeze":
        assert run(*words, "--now", EARLY).code == 0
    else:
        grown.write(speed)
        assert run(*words).code == 0
        {"rollback": ledger, "fork": fork(), "behind": grown}[what].write(speed)
        if what == "behind":
            (speed / "checkpoint").write_bytes(ledger.head())
    code = {"rollback": "ROLLBACK", "fork": "FORK", "behind": "CHECKPOINT-BEHIND", "freeze": "HEAD-FROZEN"}[what]
    late = ("--now", "2026-07-01T00:00:00Z") if what == "freeze" else ()
    done = run(*words, *late)
    assert f"[K3L-{code}]" in done.out
    assert "note: evidence is kept in " in done.err
    kept = kept_evidence(tmp_path)
    assert kept["shown.note"] == (speed / "checkpoint").read_bytes()
    assert kept["remembered.note"] == (ledger if what == "freeze" else grown).head()
    assert f"K3L-{code}" in json.loads(kept["report.json"])["counts"]
    run(*words, *late)
    assert kept_evidence(tmp_path) == kept, "the same evidence is kept once"


def test_evidence_is_kept_where_it_is_wanted_and_for_heads_given_by_hand(run, speed, tmp_path):
    (tmp_path / "one").write_bytes(fork().head())
    (tmp_path / "two").write_bytes(sign_head(small_ledger().lines[:7]))
    done = run("verify", "speed", "--expect-head", "one", "--expect-head", "two", "--evidence", "found")
    assert done.code == 1
    assert sorted(kept_evidence(tmp_path, "found")) == [
        "remembered-2.note",
        "remembered.note",
        "report.json",
        "shown.note",
    ]
    assert not (tmp_path / "memory.evidence").exists()


@pytest.mark.parametrize("what", ["truncation", "own fork"])
def test_a_head_that_the_log_itself_breaks_is_evidence_without_a_memory(run, speed, tmp_path, what):
    (speed / "ledger.jsonl").write_bytes(b"".join(small_ledger().lines[:9]) if what == "truncation" else fork().data)
    done = run("verify", "speed", "--evidence", "found")
    code = {"truncation": "CHECKPOINT-AHEAD", "own fork": "CHECKPOINT-ROOT"}[what]
    assert (done.code, f"[K3L-{code}]" in done.out) == (1, True)
    kept = kept_evidence(tmp_path, "found")
    assert sorted(kept) == ["report.json", "shown.note"]
    assert kept["shown.note"] == small_ledger().head()
    assert f"K3L-{code}" in json.loads(kept["report.json"])["counts"]
    assert not (tmp_path / "memory.evidence").exists()


def test_a_ledger_that_shows_no_head_is_evidence_too(run, speed, tmp_path):
    run(*VERIFY)
    (speed / "checkpoint").unlink()
    done = run(*VERIFY)
    assert "[K3L-CHECKPOINT-BEHIND]" in done.out
    assert sorted(kept_evidence(tmp_path)) == ["remembered.jsonl", "remembered.note", "report.json"]


def test_a_head_that_cannot_be_read_is_no_evidence(run, speed, tmp_path):
    run(*VERIFY)
    (speed / "checkpoint").unlink()
    (speed / "checkpoint").mkdir()
    small_ledger(2)
    (speed / "ledger.jsonl").write_bytes(small_ledger(2).data)
    assert "[K3L-ROLLBACK]" in run(*VERIFY).out
    assert sorted(kept_evidence(tmp_path)) == ["remembered.jsonl", "remembered.note", "report.json"]


def test_no_evidence_is_made_up_of_a_good_visit(run, speed, tmp_path):
    run(*VERIFY)
    assert run(*VERIFY, "--evidence", "found").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory", "speed"]


def test_evidence_that_cannot_be_kept_is_said(run, speed, tmp_path):
    write_memory(tmp_path / "memory", fork().head())
    (tmp_path / "memory.evidence").write_text("in the way")
    done = run(*VERIFY)
    assert (done.code, "memory.evidence" in done.err) == (1, True)
    assert "NOT VERIFIED (exit code 1)" in done.out


# ------------------------------------------------------------------------------------------------------------ freeze


def test_a_log_that_stands_still_is_frozen_by_the_readers_own_clock(run, speed, tmp_path):
    (tmp_path / "trust.toml").write_text(
        f'root_public_key = "{ROOT.public.hex()}"\nmaximum_head_age_seconds = {WEEK}\n'
    )
    words = (*VERIFY, "--trust", "trust.toml", "--now")
    assert run(*words, EARLY).code == 0
    assert run(*words, "2026-06-08T00:00:00Z").code == 0
    done = run(*words, "2026-06-08T00:00:01Z")
    assert (done.code, "[K3L-HEAD-FROZEN]" in done.out) == (1, True)
    assert "2026-06-01T00:00:00Z according to the reader's own clock" in done.out
    small_ledger().runs(1).write(speed)
    done = run(*words, "2026-06-08T00:00:01Z")
    assert (done.code, "newest head of 2026-06-08T00:00:01Z according to the reader's own clock" in done.out) == (
        0,
        True,
    )
    assert run(*words, "2026-06-15T00:00:01Z").code == 0
    assert run(*words, "2026-06-07T00:00:01Z").code == 4, "a clock that was set back says nothing"


def test_a_first_visit_is_fresh_where_it_is_remembered_and_unknown_where_not(run, speed, tmp_path):
    (tmp_path / "trust.toml").write_text(f"maximum_head_age_seconds = {WEEK}\n")
    assert run("verify", "speed", "--trust", "trust.toml").code == 4
    assert run(*VERIFY, "--trust", "trust.toml").code == 0
    assert run("prove", "4", "-l", "speed").code == 0
    assert run("verify", "entry-4.proof", "--trust", "trust.toml", "--memory", "none").code == 4
    assert not (tmp_path / "none").exists()
    assert run("verify", "entry-4.proof", "--trust", "trust.toml", "--memory", "memory").code == 0


@pytest.mark.parametrize("text", ["yesterday", "2026-06-01", "2026-13-01T00:00:00Z", "2026-06-01T00:00:00+00:00"])
def test_a_present_that_is_no_time_is_misuse(run, speed, text):
    assert run(*VERIFY, "--now", text).code == 2


def test_the_size_is_read_off_a_note():
    assert tree_size(small_ledger().head()) == 10


def test_a_verification_that_ends_late_does_not_overwrite_what_a_faster_one_remembered(
    run, speed, tmp_path, monkeypatch
) -> None:
    import k3_ledger.cli.verify

    old = sign_head(small_ledger().lines[:8])
    (speed / "checkpoint").write_bytes(old)
    check = k3_ledger.cli.verify.check_ledger

    def slow(*given):
        report = check(*given)
        monkeypatch.setattr(k3_ledger.cli.verify, "check_ledger", check)
        (speed / "checkpoint").write_bytes(small_ledger().head())
        with pytest.raises(SystemExit):
            k3_ledger.cli.main()  # the faster one: it sees a newer head
        return report

    monkeypatch.setattr(k3_ledger.cli.verify, "check_ledger", slow)
    done = run(*VERIFY)
    assert done.code == 0
    assert remembered(tmp_path / "memory") == small_ledger().head()


OLDER, NEWER = sign_head(small_ledger().lines[:8]), small_ledger().head()


@pytest.mark.parametrize(
    ("heads", "then"),
    [((None, NEWER, OLDER), (0, NEWER)), ((None, OLDER, NEWER), (1, NEWER)), ((OLDER, NEWER, None), (0, NEWER))],
    ids=["an older head is grown", "a newer head is not rolled back", "nothing is remembered any more"],
)
def test_a_log_is_held_against_what_another_verification_remembered_meanwhile(
    run, speed, monkeypatch, heads, then
) -> None:
    import k3_ledger.cli.verify

    memory, (first, here, meanwhile) = speed.parent / "memory", heads
    check = k3_ledger.cli.verify.check_ledger
    write_memory(memory, first)
    (speed / "checkpoint").write_bytes(here)
    if here is OLDER:
        shutil.rmtree(speed / "checkpoints", ignore_errors=True)
        (speed / "ledger.jsonl").write_bytes(b"".join(small_ledger().lines[:8]))

    def overtaken(*given):
        report = check(*given)
        monkeypatch.setattr(k3_ledger.cli.verify, "check_ledger", check)
        write_memory(memory, meanwhile)
        return report

    monkeypatch.setattr(k3_ledger.cli.verify, "check_ledger", overtaken)
    done = run(*VERIFY)
    assert (done.code, remembered(memory)) == then


def test_a_memory_that_never_rests_is_left_as_it_is_and_that_is_said(run, speed, tmp_path, monkeypatch) -> None:
    import k3_ledger.cli.verify

    seen = []
    check = k3_ledger.cli.verify.check_ledger

    def overtaken(*given):
        seen.append(check(*given))
        write_memory(tmp_path / "memory", (OLDER, NEWER)[len(seen) % 2])
        return seen[-1]

    monkeypatch.setattr(k3_ledger.cli.verify, "check_ledger", overtaken)
    done = run(*VERIFY)
    assert done.code == 0
    assert "the memory changes all the time and was left as it is: verify again" in done.err
    assert len(seen) == 5


def test_a_memory_in_a_folder_that_is_not_there_is_refused(run, speed) -> None:
    done = run("verify", "speed", "--memory", "nowhere/memory")
    assert done.code == 3
    assert "choose a --memory file in a directory that you may write to" in done.err


def test_a_verdict_that_cannot_be_remembered_says_with_which_code_it_ends(run, speed) -> None:
    done = run("verify", "speed", "--memory", "nowhere/memory")
    assert done.code == 3
    assert done.out.rstrip().endswith("\nverified, and could not be remembered (exit code 3)")
    said = json.loads(run("verify", "speed", "--memory", "nowhere/memory", "--json").out)
    assert (said["exit_code"], said["counts"], bool(said["unkept"]["code"])) == (3, {}, True)


def test_a_verdict_that_is_no_pass_ends_with_its_own_code_whatever_is_remembered(run, speed) -> None:
    log = speed / "ledger.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"index":3', b'"index":4', 1))
    done = run("verify", "speed", "--memory", "nowhere/memory")
    assert (done.code, done.out.rstrip()[-13:]) == (1, "(exit code 1)")
    assert json.loads(run("verify", "speed", "--memory", "nowhere/memory", "--json").out)["exit_code"] == 1


def test_a_verdict_that_was_remembered_has_nothing_unkept(run, speed) -> None:
    said = json.loads(run(*VERIFY, "--json").out)
    assert (said["exit_code"], said["unkept"]) == (0, None)


# --------------------------------------------------------------------------------------------- under the same root key


def rewritten(root=ROOT) -> Builder:
    """The log written anew by who holds its root key, with a log key of his own."""
    other = Builder(root=root)
    other.add("genesis", genesis_body(root), root)
    other.add("key", key_body(THIEF, "log"), root)
    other.add("key", key_body(RUNNER, "runner"), root)
    return other.runs(9)


def show(folder: Path, ledger: Builder) -> None:
    (folder / "ledger.jsonl").write_bytes(ledger.data)
    (folder / "checkpoint").write_bytes(ledger.head(key=THIEF))


THIEF = Key("thief-log")


@pytest.mark.parametrize("how", ["--memory", "--expect-head"])
def test_a_root_thiefs_rewrite_is_a_fork_and_what_proves_it_is_kept(run, speed, tmp_path, how):
    assert run(*VERIFY).code == 0
    before = (tmp_path / "memory").read_bytes()
    show(speed, rewritten())
    done = run("verify", "speed", how, "memory", "--evidence", "evidence", "--root-key", ROOT.public.hex())
    assert (done.code, "[K3L-FORK]" in done.out, "K3L-MEMORY-FOREIGN" in done.out) == (1, True, False)
    ledger = small_ledger()
    kept = kept_evidence(tmp_path, "evidence")
    assert kept.pop("report.json")
    assert kept == {
        "remembered.note": ledger.head(),
        "remembered.jsonl": ledger.lines[0] + ledger.lines[1],
        "shown.note": rewritten().head(key=THIEF),
    }
    assert (tmp_path / "memory").read_bytes() == before


def test_a_head_that_is_remembered_alone_is_said_to_be(run, speed, tmp_path, monkeypatch):
    assert "remembered without the entries" not in run(*VERIFY).err
    monkeypatch.setattr("k3_ledger.verify.vouched.MAX_ENROLMENTS", 100)
    (tmp_path / "memory").unlink()
    done = run(*VERIFY)
    assert (done.code, "remembered without the entries" in done.err) == (0, True)
    assert parse_memory((tmp_path / "memory").read_bytes()).enrolments == ()
    assert "remembered without the entries" not in run(*VERIFY).err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    show(speed, rewritten())
    assert (run(*VERIFY).code, "[K3L-FORK]" in run(*VERIFY).out) == (3, False)


@pytest.mark.parametrize("how", ["--memory", "--expect-head"])
def test_a_strangers_log_of_the_same_name_is_no_fork(run, speed, tmp_path, how):
    assert run(*VERIFY).code == 0
    show(speed, rewritten(Key("another root")))
    done = run("verify", "speed", how, "memory", "--evidence", "evidence")
    assert (done.code, "[K3L-MEMORY-FOREIGN]" in done.out, "[K3L-FORK]" in done.out) == (3, True, False)
    assert not (tmp_path / "evidence").exists()


def test_a_memory_of_the_first_version_gets_what_it_lacks(run, speed, tmp_path):
    write_memory(tmp_path / "memory", small_ledger().head())
    show(speed, rewritten())
    assert "[K3L-MEMORY-FOREIGN]" in run(*VERIFY).out
    small_ledger().write(speed)
    assert run(*VERIFY).code == 0
    value = json.loads((tmp_path / "memory").read_text())
    assert (value["schema"], value["unmoved_since"]) == ("k3-ledger/memory/3", "2026-06-01T00:00:00Z")
    assert [line.encode() + b"\n" for line in value["enrolments"]] == small_ledger().lines[:2]
    kept = (tmp_path / "memory").read_bytes()
    assert run(*VERIFY).code == 0
    assert (tmp_path / "memory").read_bytes() == kept
    show(speed, rewritten())
    assert "[K3L-FORK]" in run(*VERIFY).out


LINES = [line[:-1].decode() for line in small_ledger().lines[:2]]
DAMAGED_ENTRIES = {
    "a number": 7,
    "nothing": None,
    "a map": {},
    "text": "text",
    "one that is no text": [LINES[0], 7],
    "one that is no line": [LINES[0], "x"],
    "one that is cut": [LINES[0], LINES[1][:-1]],
    "one that is no entry": [LINES[0], LINES[1].replace('"kind":"key"', '"kind":"kex"')],
    "one flipped bit": [LINES[0], LINES[1].replace("2026", "2027")],
    "the first is lost": LINES[1:],
    "the last is lost": LINES[:1],
    "all are lost": [],
    "another order": LINES[::-1],
}
UNSEEN = {"one flipped bit", "the first is lost", "the last is lost", "all are lost", "another order"}
"""What the second version, which has no digest, cannot tell from what was written."""


def second_version(**changes: object) -> str:
    note = small_ledger().head().decode()
    value = {"schema": "k3-ledger/memory/2", "note": note, "unmoved_since": EARLY, "enrolments": LINES, **changes}
    return json.dumps(value)


@pytest.mark.parametrize("name", DAMAGED_ENTRIES)
@pytest.mark.parametrize("log", ["the log itself", "a thief's"])
def test_a_memory_whose_entries_are_damaged_is_said_and_stops(run, speed, tmp_path, name, log):
    assert run(*VERIFY).code == 0
    value = json.loads((tmp_path / "memory").read_text()) | {"enrolments": DAMAGED_ENTRIES[name]}
    damaged = json.dumps(value)
    for text in (damaged, second_version(enrolments=DAMAGED_ENTRIES[name])):
        if text != damaged and name in UNSEEN:
            continue
        (tmp_path / "memory").write_text(text)
        if log == "a thief's":
            show(speed, rewritten())
        done = run(*VERIFY)
        assert (done.code, "[K3L-MEMORY-UNREADABLE]" in done.out) == (3, True)
        assert not any(word in done.out for word in ("K3L-ROLLBACK", "K3L-FORK", "K3L-HEAD-FROZEN", "FOREIGN"))
        assert (tmp_path / "memory").read_text() == text
        assert not (tmp_path / "memory.evidence").exists()


@pytest.mark.parametrize(
    "change",
    [{"unmoved_since": "2999-01-01T00:00:00Z"}, {"sha256": "0" * 64}, {"sha256": 7}, {"sha256": ...}, {"x": 1}],
)
def test_a_memory_of_which_anything_else_was_changed_is_unreadable_as_well(run, speed, tmp_path, change):
    assert run(*VERIFY).code == 0
    value = json.loads((tmp_path / "memory").read_text()) | change
    (tmp_path / "memory").write_text(json.dumps({name: held for name, held in value.items() if held is not ...}))
    assert run("prove", "4", "-l", "speed", "-o", "entry.proof").code == 0
    for words in (VERIFY, ("verify", "entry.proof", "--expect-head", "memory")):
        done = run(*words)
        assert (done.code, "[K3L-MEMORY-UNREADABLE]" in done.out) == (3, True)
        assert "memory: the memory is damaged: it cannot be read whole, or its digest is of other contents" in done.out
        assert "blank line" not in done.out


@pytest.mark.parametrize(
    "left",
    [lambda _: b"", lambda _: b"\0" * 300, lambda raw: b"\n " + raw[:-9], lambda raw: raw[40:], lambda _: b"\n"],
    ids=["nothing", "NUL bytes", "blanks and the beginning", "the end", "a blank line"],
)
def test_whatever_a_crash_leaves_of_a_memory_is_called_a_damaged_memory(run, speed, tmp_path, left):
    assert run(*VERIFY).code == 0
    (tmp_path / "memory").write_bytes(left((tmp_path / "memory").read_bytes()))
    done = run("verify", "speed", "--expect-head", "memory")
    assert done.code == 3
    kept = run(*VERIFY)
    assert (kept.code, "blank line" in kept.out + kept.err, "[K3L-MEMORY-UNREADABLE]" in kept.out + kept.err) == (
        3,
        False,
        True,
    )
    blank = any(f"memory: this is {what}" in done.err for what in ("an empty file", "a file of blanks or NUL bytes"))
    assert blank or "memory: the memory is damaged: it cannot be read whole" in done.out
    assert "blank line" not in done.out


def test_a_memory_of_a_newer_version_is_called_that(run, speed, tmp_path):
    assert f"k3-ledger/memory/{MEMORY_VERSION}" == SCHEMA
    assert run(*VERIFY).code == 0
    held = (tmp_path / "memory").read_text()
    newer = f"k3-ledger/memory/{MEMORY_VERSION + 1}"
    (tmp_path / "memory").write_text(held.replace(f"k3-ledger/memory/{MEMORY_VERSION}", newer))
    done = run("verify", "speed", "--expect-head", "memory")
    assert done.code == 3
    assert f"of a newer version, {MEMORY_VERSION + 1}, than this program reads, or damaged [K3L-MEMORY" in done.out


def test_a_remembered_note_that_is_damaged_says_what_is_wrong_with_a_note(run, speed, tmp_path):
    (tmp_path / "head").write_bytes(small_ledger().head().replace(b"\n\n", b"\n"))
    done = run("verify", "speed", "--expect-head", "head")
    assert done.code == 3
    assert "there is no blank line in front of the signatures [K3L-MEMORY-UNREADABLE]" in done.out


def test_no_flipped_bit_of_a_memory_makes_another_memory(run, speed, tmp_path):
    assert run(*VERIFY).code == 0
    whole = (tmp_path / "memory").read_bytes()
    known = parse_memory(whole)
    assert known.sealed
    assert len(known.enrolments) == 2
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        assert parse_memory(bytes(flipped)) in (known, Memory(bytes(flipped), None))


@pytest.mark.parametrize("name", sorted(UNSEEN))
def test_a_memory_of_the_second_version_is_written_anew_by_the_log_itself(run, speed, tmp_path, name):
    (tmp_path / "memory").write_text(second_version(enrolments=DAMAGED_ENTRIES[name]))
    assert run(*VERIFY).code == 0
    known = parse_memory((tmp_path / "memory").read_bytes())
    assert (known.sealed, [line.decode() for line in known.enrolments]) == (True, LINES)
    assert json.loads((tmp_path / "memory").read_text())["unmoved_since"] == EARLY
    show(speed, rewritten())
    assert "[K3L-FORK]" in run(*VERIFY).out


def test_a_memory_of_the_second_version_stays_as_it_is_while_an_older_head_is_shown(run, speed, tmp_path):
    grown = Builder(small_ledger().lines[:]).runs(3)
    text = second_version(note=grown.head().decode())
    (tmp_path / "memory").write_text(text)
    grown.write(speed)
    (speed / "checkpoint").write_bytes(small_ledger().head())
    done = run(*VERIFY)
    assert (done.code, (tmp_path / "memory").read_text()) == (0, text)
    show(speed, rewritten())
    assert "[K3L-FORK]" in run(*VERIFY).out, "what is whole in it counts"


def test_a_bare_note_beside_a_memory_is_judged_by_the_entries_that_the_memory_keeps(run, speed, tmp_path):
    assert run(*VERIFY).code == 0
    (tmp_path / "bare").write_bytes((speed / "checkpoint").read_bytes())
    show(speed, rewritten())
    alone = run("verify", "speed", "--expect-head", "bare", "--root-key", ROOT.public.hex())
    assert (alone.code, "[K3L-MEMORY-FOREIGN]" in alone.out) == (3, True)
    done = run(*VERIFY, "--expect-head", "bare", "--root-key", ROOT.public.hex())
    assert (done.code, "[K3L-FORK]" in done.out, "K3L-MEMORY-FOREIGN" in done.out) == (1, True, False)
