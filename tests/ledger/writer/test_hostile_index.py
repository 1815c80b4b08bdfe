"""An index from a stranger: what it declares is run by nobody, and whoever waits for SQLite can end it."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading

import pytest

from k3_ledger.ledger.writer import index
from k3_ledger.ledger.writer.index import find_entry, list_entries, open_index, refresh_index
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import OPENING, append_notes

ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
DECLARED = {
    "a view in a table's place": "alter table entries rename to e2; create view entries as select * from e2;",
    "a view that never ends": f"alter table entries rename to e2; create view entries as {ENDLESS};",
    "a trigger": "create trigger t before insert on entries begin select raise(ignore); end;",
    "another table": "create table mine (x);",
    "another view": "create view mine as select 1;",
    "another index": "create index mine on entries (kind);",
    "another column": "alter table entries add column mine text;",
    "a generated column": "alter table entries add column mine text as (body) virtual;",
}


def write(ledger, script: str) -> None:
    connection = sqlite3.connect(ledger.index_path)
    connection.executescript(script)
    connection.close()


@pytest.mark.parametrize("script", DECLARED.values(), ids=DECLARED)
def test_an_index_that_declares_anything_else_is_built_anew(ledger, script):
    append_notes(ledger, "honest")
    refresh_index(ledger)
    write(ledger, script)
    append_notes(ledger, "another")
    with open_index(ledger) as db:
        assert [row["summary"] for row in list_entries(db, kind="note")] == ["honest", "another"]
        assert find_entry(ledger, db, str(OPENING))["entry"] == OPENING
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("delete from entries")
    assert not refresh_index(ledger).rebuilt


def test_numbers_that_were_exchanged_are_found(ledger):
    append_notes(ledger, "a", "b")
    refresh_index(ledger)
    write(
        ledger,
        f"update entries set entry = -1 where entry = {OPENING - 1};"
        f"update entries set entry = {OPENING - 1} where entry = {OPENING};"
        f"update entries set entry = {OPENING} where entry = -1;",
    )
    with open_index(ledger) as db, pytest.raises(StoreError, match="another number") as caught:
        find_entry(ledger, db, str(OPENING))
    assert caught.value.code is Code.INDEX_UNUSABLE
    assert caught.value.finding.found == f"entry {OPENING - 1}"


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_a_signal_ends_a_query_that_never_would(how):
    def end(*_: object) -> None:
        raise how

    before = signal.signal(signal.SIGUSR1, end)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(how), index._connect(":memory:") as db:
            db.execute(ENDLESS).fetchall()
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_what_a_signal_raises_is_kept_and_ends_the_query():
    """As in :func:`test_a_signal_ends_a_query_that_never_would`, where nobody who counts lines is told of these."""
    raised: list[BaseException] = []
    listening = index._listen(raised).__self__
    assert next(listening) == 0
    ended = KeyboardInterrupt()
    assert (listening.throw(ended), raised) == (1, [ended])
