from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given, settings

from k3_ledger.ledger.writer import index
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.index import Refreshed, find_entry, list_entries, open_index, refresh_index
from k3_ledger.ledger.writer.seal import seal
from k3_ledger.schemas.envelope import Kind
from k3_ledger.schemas.errors import MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import (
    OPENING,
    SIGNERS,
    FailingDisk,
    append_notes,
    new_ledger,
    note,
    read_entries,
    write_bundle,
)
from tests.schemas.examples import of


def rows(ledger, query: str) -> list[tuple[object, ...]]:
    """What plain SQLite, such as datasette's, finds in the file."""
    connection = sqlite3.connect(f"file:{ledger.index_path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.fixture
def full(ledger, tmp_path):
    """A ledger with a run, its artifacts and a note."""
    bundle = write_bundle(tmp_path / "bundle", {"samples.csv": b"1,2\n", "stdout.log": b"hello\n"})
    with ledger.writer(SIGNERS["runner"]) as writer:
        seal(ledger, bundle, writer)
    append_notes(ledger, "a note")
    return ledger


def test_index_is_a_plain_database_of_the_log(full):
    assert refresh_index(full) == Refreshed(OPENING + 2, OPENING + 2, rebuilt=True)
    entries = read_entries(full.log_path)
    data = full.log_path.read_bytes()
    found = rows(full, "select entry, identity, kind, byte_offset, length from entries order by entry")
    assert [row[:3] for row in found] == [(e["index"], e["identity"], e["kind"]) for e in entries]
    for row, line in zip(found, data.split(b"\n"), strict=False):
        assert data[row[3] : row[3] + row[4]] == line
    assert rows(full, "select role, name from keys order by entry") == [
        (role, f"{role}-1") for role in ("log", "runner", "judge", "witness")
    ]
    assert rows(full, "select entry, name, size from artifacts order by name") == [
        (OPENING, "samples.csv", 4),
        (OPENING, "stdout.log", 6),
    ]
    assert rows(full, "select json_extract(body, '$.text') from entries where kind = 'note'") == [("a note",)]


def test_runs_are_flattened_and_their_rates_are_a_view(full):
    refresh_index(full)
    assert rows(full, "select entry, subject, metric, samples, count, duration_ns from runs") == [
        (OPENING, "engine", "decode", 3, 48, 120_000_003)
    ]
    ((rate,),) = rows(full, "select per_second from rates")
    assert rate == pytest.approx(48e9 / 120_000_003)


def test_refresh_reads_what_was_appended_since(full, monkeypatch):
    refresh_index(full)
    assert refresh_index(full) == Refreshed(OPENING + 2, 0, rebuilt=False)
    append_notes(full, "new")
    offsets = []
    real = index.whole_lines
    monkeypatch.setattr(
        index, "whole_lines", lambda read, start, size: offsets.append(start) or real(read, start, size)
    )
    assert refresh_index(full) == Refreshed(OPENING + 3, 1, rebuilt=False)
    assert offsets[0] > 0
    assert refresh_index(full, rebuild=True) == Refreshed(OPENING + 3, OPENING + 3, rebuilt=True)


def test_log_of_several_blocks_is_indexed_whole(ledger, monkeypatch):
    monkeypatch.setattr("k3_ledger.ledger.writer.state.BLOCK", 4096)
    with ledger.writer(SIGNERS["judge"]) as writer:
        writer.append_many([Draft("note", note("x" * 700)) for _ in range(20)])
    assert refresh_index(ledger).entries == OPENING + 20
    assert rows(ledger, "select count(*) from entries") == [(OPENING + 20,)]


def test_torn_tail_is_left_out(full):
    with full.log_path.open("ab") as file:
        file.write(b'{"entry":{"b')
    assert refresh_index(full).entries == OPENING + 2


def test_refresh_that_did_not_live_to_say_how_far_it_came_is_done_over(full, monkeypatch):
    refresh_index(full)
    append_notes(full, "new")
    real = index._table

    def table(db, name):
        if name == "indexed" and db.execute("select max(entry) from entries").fetchone()[0] == OPENING + 2:
            raise KeyboardInterrupt
        return real(db, name)

    monkeypatch.setattr(index, "_table", table)
    with pytest.raises(KeyboardInterrupt):
        refresh_index(full)
    monkeypatch.undo()
    assert rows(full, "select count(*) from entries where entry = 7") in ([(0,)], [(1,)])
    assert refresh_index(full) == Refreshed(OPENING + 3, 1, rebuilt=False)
    assert rows(full, "select count(*) from entries") == [(OPENING + 3,)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path, db: path.write_bytes(b"not a database" * 100),
        lambda path, db: path.write_bytes(b""),
        lambda path, db: db.execute("update indexed set last_identity = ?", ["0" * 64]),
        lambda path, db: db.execute("update indexed set last_offset = last_offset + 1"),
        lambda path, db: db.execute("update indexed set size = size + 1000000"),
        lambda path, db: db.execute("update indexed set version = 0"),
        lambda path, db: db.executescript(
            "update indexed set version = 2; alter table entries rename claimed_time to time"
        ),
        lambda path, db: db.execute("drop table indexed"),
        lambda path, db: path.with_name(path.name + "-wal").write_bytes(b"somebody's"),
    ],
    ids=["garbage", "empty", "identity", "offset", "size", "version", "columns", "no mark", "wal beside"],
)  # fmt: skip
def test_index_that_is_not_about_this_log_is_built_anew(full, spoil):
    refresh_index(full)
    connection = sqlite3.connect(full.index_path)
    spoil(full.index_path, connection)
    connection.commit()
    connection.close()
    assert refresh_index(full) == Refreshed(OPENING + 2, OPENING + 2, rebuilt=True)
    assert rows(full, "select count(*) from entries") == [(OPENING + 2,)]
    assert not full.index_path.with_name("index.sqlite-wal").exists()


def test_log_that_was_cut_or_replaced_is_indexed_anew(full, tmp_path):
    refresh_index(full)
    lines = full.log_path.read_bytes().split(b"\n")
    full.log_path.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    assert refresh_index(full) == Refreshed(OPENING + 1, OPENING + 1, rebuilt=True)


def test_copy_of_the_one_file_is_the_whole_index(full, tmp_path):
    refresh_index(full)
    append_notes(full, "later")
    refresh_index(full)
    assert {path.name for path in full.root.glob("index.sqlite*")} == {"index.sqlite"}
    copy = shutil.copy(full.index_path, tmp_path / "copy.sqlite")
    connection = sqlite3.connect(copy)
    assert connection.execute("select count(*) from entries").fetchone() == (OPENING + 3,)
    assert connection.execute("pragma journal_mode").fetchone() == ("delete",)
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


def test_damaged_line_is_named_and_no_index_is_made(full):
    data = full.log_path.read_bytes().replace(b'"text":"a note"', b'"text" "a note"')
    full.log_path.write_bytes(data)
    with pytest.raises(MalformedError) as caught:
        refresh_index(full)
    assert caught.value.finding.position.index == OPENING + 1
    assert not full.index_path.exists()
    assert not list(full.staging_path.iterdir())


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_read_only_place_is_named_and_looking_things_up_still_works(tmp_path, error):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail("open", error, always=True)
    with pytest.raises(StoreError) as caught:
        refresh_index(ledger)
    assert caught.value.code in (Code.READ_ONLY, Code.ACCESS_DENIED, Code.DISK_FULL)
    with open_index(ledger) as db:
        assert len(list_entries(db)) == OPENING
    assert not ledger.index_path.exists()


def damage(path, keep: int) -> None:
    """Overwrite a database behind its first ``keep`` bytes, in place."""
    data = path.read_bytes()
    path.write_bytes(data[:keep] + b"\xff" * (len(data) - keep))


def test_damaged_index_is_built_anew_when_something_was_appended(full):
    refresh_index(full)
    whole = full.index_path.read_bytes()
    for keep in (0, 50, 4096, len(whole) // 2):
        full.index_path.write_bytes(whole)
        damage(full.index_path, keep)
        append_notes(full, "later")
        with open_index(full) as db:
            assert len(list_entries(db)) == len(read_entries(full.log_path))


def test_index_of_which_any_page_is_damaged_is_built_anew_or_named_with_the_cure(full):
    refresh_index(full)
    whole = full.index_path.read_bytes()
    refused = []
    for page in range(0, len(whole), 4096):
        full.index_path.write_bytes(whole[:page] + b"\xff" * 4096 + whole[page + 4096 :])
        try:
            with open_index(full) as db:
                assert len(list_entries(db)) == len(read_entries(full.log_path))
        except StoreError as error:
            refused.append((error.code, "--rebuild" in error.finding.advice))
            assert refresh_index(full, rebuild=True).rebuilt
    assert set(refused) == {(Code.INDEX_UNUSABLE, True)}


def test_disk_that_fails_while_an_index_is_built_is_named(full, monkeypatch):
    def fill(*_: object) -> int:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(index, "_fill", fill)
    with pytest.raises(StoreError) as caught:
        refresh_index(full)
    assert caught.value.code is Code.INDEX_UNUSABLE
    assert not list(full.staging_path.iterdir())


def test_other_failures_of_the_index_are_not_hidden(tmp_path):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail("rename", errno.EIO)
    with pytest.raises(StoreError), open_index(ledger):
        pass


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("attempt to write a readonly database", Code.READ_ONLY),
        ("database or disk is full", Code.DISK_FULL),
        ("database is locked", Code.INDEX_UNUSABLE),
        ("locking protocol", Code.INDEX_UNUSABLE),
        ("unable to open database file", Code.INDEX_UNUSABLE),
    ],
)
def test_what_sqlite_refuses_becomes_words(full, monkeypatch, reason, code):
    refresh_index(full)
    append_notes(full, "new")

    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError(reason)

    monkeypatch.setattr(index, "_forget_behind", refuse)
    with pytest.raises(StoreError) as caught:
        refresh_index(full)
    assert (caught.value.code, caught.value.finding.found) == (code, reason)
    assert caught.value.finding.position.source == str(full.index_path)


def test_index_locked_by_another_program_is_waited_for_with_a_bound(full, monkeypatch):
    refresh_index(full)
    append_notes(full, "new")
    monkeypatch.setattr(index, "WAIT_S", 0.01)
    other = sqlite3.connect(full.index_path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreError) as caught:
        refresh_index(full)
    assert "locked" in str(caught.value.finding.found)
    with open_index(full) as db:
        assert len(list_entries(db)) == OPENING + 3
    other.close()


def test_entry_is_found_by_index_identity_or_its_beginning(full):
    entries = read_entries(full.log_path)
    with open_index(full) as db:
        for entry in entries:
            for name in (str(entry["index"]), entry["identity"], entry["identity"][:10]):
                row = find_entry(full, db, name)
                assert (row["entry"], row["identity"]) == (entry["index"], entry["identity"])
                assert row["line"] in full.log_path.read_bytes()


@pytest.mark.parametrize("name", ["99", "f" * 64, "", "9" * 30, "%", "'"])
def test_entry_that_is_not_there_is_said_to_be_so(full, name):
    with open_index(full) as db, pytest.raises(StoreError) as caught:
        find_entry(full, db, name)
    assert caught.value.code is Code.NO_SUCH_ENTRY
    assert caught.value.finding.found is None


def test_beginning_that_several_entries_share_names_none(ledger):
    with ledger.writer(SIGNERS["judge"]) as writer:
        writer.append_many([Draft("note", note(str(i))) for i in range(40)])
    with open_index(ledger) as db:
        firsts = [row["identity"][0] for row in list_entries(db)]
        shared = next(first for first in "abcdef" if firsts.count(first) > 1)
        with pytest.raises(StoreError, match="several entries") as caught:
            find_entry(ledger, db, shared)
        which = [row for row in list_entries(db)[::-1] if row["identity"].startswith(shared)]
        named = sorted(which, key=lambda row: row["identity"])[:5]
        shown = ", ".join(f"{row['identity'][:16]}… (entry {row['entry']})" for row in named)
        assert caught.value.finding.found == shown + ", …" * (len(which) > 5)


def test_index_that_lies_about_an_entry_is_caught(full):
    refresh_index(full)
    connection = sqlite3.connect(full.index_path)
    connection.execute("update entries set identity = ? where entry = 2", ["0" * 64])
    connection.commit()
    connection.close()
    with open_index(full) as db, pytest.raises(StoreError) as caught:
        find_entry(full, db, "2")
    assert caught.value.code is Code.INDEX_UNUSABLE


def test_listing_is_the_newest_in_order_and_can_be_narrowed(full):
    append_notes(full, "b", "c")
    with open_index(full) as db:
        assert [row["entry"] for row in list_entries(db, limit=3)] == [OPENING + 1, OPENING + 2, OPENING + 3]
        assert [row["summary"] for row in list_entries(db, kind="note")] == ["a note", "b", "c"]
        assert list_entries(db, kind="note", limit=1)[0]["summary"] == "c"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_has_a_summary_without_control_characters(kind):
    @settings(max_examples=5, deadline=None)
    @given(of(kind))
    def check(value):
        assert index._plain(index._SUMMARIES[kind](value["body"])).isprintable()

    check()


def test_datasette_opens_the_index_and_shows_its_tables(full):
    refresh_index(full)
    path = f"/{full.index_path.stem}/entries.json?_shape=array&_size=max"
    shown = subprocess.run(
        [sys.executable, "-m", "datasette", str(full.index_path), "--get", path], check=True, capture_output=True
    )
    rows = json.loads(shown.stdout)
    assert [row["identity"] for row in rows] == [entry["identity"] for entry in read_entries(full.log_path)]


def revocation(since: int) -> dict[str, object]:
    judge = SIGNERS["judge"]
    return {
        "action": "revoke", "role": "judge", "key_id": judge.key_id, "public_key": judge.public_key.hex(),
        "name": "gone", "replaces": None, "revoked_from": since, "reason": "stolen", "endorsements": [],
    }  # fmt: skip


def test_what_a_revocation_took_back_stands_in_a_table_of_its_own(ledger):
    append_notes(ledger, "honest", "stolen", "stolen too")
    first = OPENING + 1
    refresh_index(ledger)
    assert rows(ledger, "select * from disowned") == []
    body = revocation(first)
    with ledger.writer(SIGNERS["root"]) as writer:
        by = writer.append("key", body).index
    taken = [(first, by), (first + 1, by)]
    assert refresh_index(ledger) == Refreshed(by + 1, 1, rebuilt=False)
    assert rows(ledger, "select entry, disowned_by from disowned order by entry") == taken
    assert refresh_index(ledger) == Refreshed(by + 1, 0, rebuilt=False)
    assert refresh_index(ledger, rebuild=True).rebuilt
    assert rows(ledger, "select entry, disowned_by from disowned order by entry") == taken
    with ledger.writer(SIGNERS["root"]) as writer:  # stolen earlier than was thought
        writer.append("key", body | {"revoked_from": first - 1})
    refresh_index(ledger)
    assert [row[0] for row in rows(ledger, "select entry from disowned order by entry")] == [
        first - 1,
        first,
        first + 1,
    ]
    ledger.index_path.unlink()
    with open_index(ledger) as db:
        assert db["disowned"].count == 3


def test_damaged_key_entries_leave_the_table_empty(ledger, monkeypatch):
    def damaged(_):
        raise MalformedError(Code.NUL_BYTES, "damaged")

    append_notes(ledger, "a note")
    with ledger.writer(SIGNERS["root"]) as writer:
        writer.append("key", revocation(OPENING))
    monkeypatch.setattr(index, "read_state", damaged)
    refresh_index(ledger)
    assert rows(ledger, "select * from disowned") == []


EDITS = {
    "a kind that is none": "update entries set kind = 'zzz' where entry = 4",
    "no identity": "update entries set identity = null where entry = 4",
    "another kind": "update entries set kind = 'run' where entry = 4",
    "a body of another form": "update entries set body = '[]' where entry = 4",
    "a body that is no JSON": "update entries set body = 'x' where entry = 4",
    "no body": "update entries set body = null where entry = 4",
    "a number for a body": "update entries set body = 7 where entry = 4",
    "a time with a line of its own": (
        "update entries set claimed_time = char(10) || '       0  a false line' where entry = 4"
    ),
    "a number for a time": "update entries set claimed_time = 1 where entry = 4",
    "a blob for a key": "update entries set key = x'ff' where entry = 4",
}
QUIET_EDITS = {
    "another text": "update entries set body = replace(body, 'a note', 'a quote') where kind = 'note'",
    "a row too many": "insert into artifacts (entry, sha256, name) values (77, 'x', 'y')",
    "a row too few": "delete from artifacts",
    "another figure": "update runs set count = count + 1",
}


def edit(ledger, statement: str) -> None:
    connection = sqlite3.connect(ledger.index_path)
    try:
        with connection:
            assert connection.execute(statement).rowcount
    finally:
        connection.close()


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_what_somebody_wrote_into_the_index_is_named_and_cured(full, statement):
    append_notes(full, "another")
    refresh_index(full)
    edit(full, statement)
    with open_index(full) as db, pytest.raises(StoreError) as caught:
        list_entries(db)
    finding = caught.value.finding
    assert finding.code is Code.INDEX_UNUSABLE
    assert "k3-ledger index" in finding.advice
    assert refresh_index(full, compare=True).rebuilt
    with open_index(full) as db:
        assert len(list_entries(db)) == OPENING + 3


@pytest.mark.parametrize("statement", QUIET_EDITS.values(), ids=QUIET_EDITS)
def test_what_the_index_says_of_the_log_is_compared_with_it(full, statement):
    refresh_index(full)
    assert refresh_index(full, compare=True) == Refreshed(OPENING + 2, 0, rebuilt=False)
    edit(full, statement)
    assert not refresh_index(full).rebuilt
    assert refresh_index(full, compare=True).rebuilt
    assert refresh_index(full, compare=True) == Refreshed(OPENING + 2, 0, rebuilt=False)


@pytest.mark.parametrize("column", ["byte_offset", "length"])
@pytest.mark.parametrize("value", ["null", "-1", "'x'"])
def test_an_entry_is_not_looked_for_where_no_place_is(full, column, value):
    refresh_index(full)
    edit(full, f"update entries set {column} = {value} where entry = 4")
    with open_index(full) as db, pytest.raises(StoreError) as caught:
        find_entry(full, db, "4")
    assert caught.value.code is Code.INDEX_UNUSABLE


def write_into(ledger, statement: str) -> None:
    with sqlite3.connect(ledger.index_path) as connection:
        connection.execute(statement)
    connection.close()


NOWHERE = [-(2**63), -1, 1, 5, 10**9, 2**63 - 1, "'x'", "null", "1.5", "x''"]


@pytest.mark.parametrize("column", ["last_offset", "size", "entries"])
@pytest.mark.parametrize("value", [*NOWHERE, 0])
def test_an_index_that_says_it_ends_where_no_line_does_is_built_anew(full, column, value):
    refresh_index(full)
    plain = rows(full, "select * from entries")
    write_into(full, f"update indexed set {column} = {value}")
    append_notes(full, "one more")
    refresh_index(full)
    found = rows(full, "select * from entries order by entry")
    assert found[:-1] == plain
    assert len(found) == len(plain) + 1


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_log_that_was_cut_behind_the_back_of_its_index_is_indexed_anew(full, cut):
    refresh_index(full)
    full.log_path.write_bytes(full.log_path.read_bytes()[:-cut])
    with open_index(full) as db:
        assert find_entry(full, db, "0")["entry"] == 0
    assert not refresh_index(full).rebuilt


@pytest.mark.parametrize("column", ["byte_offset", "length"])
@pytest.mark.parametrize("value", NOWHERE)
def test_an_index_that_points_to_no_line_accuses_itself_and_not_the_log(full, column, value):
    refresh_index(full)
    for entry in (0, 3, OPENING + 1):
        write_into(full, f"update entries set {column} = {value} where entry = {entry}")
        with open_index(full) as db, pytest.raises(StoreError) as caught:
            find_entry(full, db, str(entry))
        assert caught.value.code is Code.INDEX_UNUSABLE
    refresh_index(full, compare=True)
    with open_index(full) as db:
        assert [find_entry(full, db, str(entry))["entry"] for entry in (0, 3, OPENING + 1)] == [0, 3, OPENING + 1]


def test_a_damaged_line_of_the_log_is_the_logs_fault(full):
    refresh_index(full)
    data = full.log_path.read_bytes()
    at = rows(full, "select byte_offset from entries where entry = 3")[0][0]
    full.log_path.write_bytes(data[:at] + b"[" + data[at + 1 :])
    with open_index(full) as db, pytest.raises(MalformedError) as caught:
        find_entry(full, db, "3")
    assert caught.value.code is Code.LINE_HEAD


def test_an_index_whose_last_line_was_damaged_since_is_not_gone_on_from(full):
    refresh_index(full)
    data = full.log_path.read_bytes()
    at = data.rindex(b"\n", 0, -1) + 1
    full.log_path.write_bytes(data[:at] + b"[" + data[at + 1 :])
    with pytest.raises(MalformedError) as caught:
        refresh_index(full)
    assert caught.value.code is Code.LINE_HEAD


@pytest.mark.parametrize("what", ["a folder", "a full folder", "a pipe", "a link to a folder"])
@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite-wal", "index.sqlite-journal"])
def test_what_stands_in_the_place_of_the_index_is_left_and_one_in_memory_is_used(full, tmp_path, what, name):
    expected = [row["identity"] for row in read_entries(full.log_path)]
    path = full.root / name
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a link to a folder":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()
        if what == "a full folder":
            (path / "x").write_bytes(b"x")
    with open_index(full) as db:
        assert [row["identity"] for row in list_entries(db)] == expected
    for rebuild in (True, False):
        with pytest.raises(StoreError) as caught:
            refresh_index(full, rebuild=rebuild)
        assert (caught.value.code, caught.value.finding.position.source) == (Code.INDEX_UNUSABLE, str(path))
    assert path.exists()
    assert not path.is_file()


@pytest.mark.parametrize("what", ["a link to nowhere", "a link to a file", "an empty file"])
def test_a_link_in_the_place_of_the_index_is_replaced_as_before(full, tmp_path, what):
    """The control."""
    if what == "an empty file":
        full.index_path.touch()
    else:
        if what == "a link to a file":
            (tmp_path / "elsewhere").touch()
        full.index_path.symlink_to(tmp_path / "elsewhere")
    with open_index(full) as db:
        assert len(list_entries(db)) == OPENING + 2
    assert full.index_path.is_file()
