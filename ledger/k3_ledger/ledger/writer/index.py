"""The derived index: ``index.sqlite``, for looking things up and for datasette. It is never trusted.

It is built from ``ledger.jsonl`` alone and can be deleted at any time. A refresh reads only what was appended since
the last one, provided that the last entry it knows still stands where it stood; otherwise it is built anew beside the
old one and put in its place. So is one that declares anything but what is made here: a view or a trigger that somebody
put into it would be run by whoever looks something up. The journal mode is SQLite's rollback journal, never WAL:
whenever nobody writes, the one file is the whole index, and a copy of it loses nothing. Plugins of sqlite-utils are not
loaded.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import sqlite_utils

from k3_ledger.ledger.core.chain import entry_identity
from k3_ledger.ledger.core.framing import MAX_LINE, parse_line
from k3_ledger.ledger.writer.disk import Staging, storage_errors
from k3_ledger.ledger.writer.roster import read_state
from k3_ledger.ledger.writer.state import place_of, read_line, whole_lines
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlite_utils.db import Table

    from k3_ledger.ledger.writer.store import Ledger

SCHEMA_VERSION = 3
"""Changed whenever tables change; an index of another version is built anew."""
WAIT_S = 5.0
"""Seconds to wait for another program that writes to the index."""
STEPS: Final = 100_000
"""Steps of SQLite's machine, a few milliseconds, after which a signal is heard."""

_TABLES: dict[str, dict[str, type]] = {
    "entries": {
        "entry": int, "identity": str, "kind": str, "key": str, "claimed_time": str, "prev": str,
        "byte_offset": int, "length": int, "body": str,
    },
    "runs": {
        "entry": int, "series": int, "bundle": str, "role": str, "subject": str, "version": str, "model": str,
        "quant": str, "node": str, "round": str, "metric": str, "unit": str, "actor": str, "observer": str,
        "context": int, "context_filled": int, "batch": int, "processes": int, "samples": int, "count": int,
        "duration_ns": int,
    },
    "keys": {
        "entry": int, "action": str, "role": str, "name": str, "key_id": str, "public_key": str, "replaces": str,
        "revoked_from": int, "reason": str,
    },
    "disowned": {"entry": int, "disowned_by": int},
    "artifacts": {"entry": int, "sha256": str, "name": str, "size": int, "media_type": str},
}  # fmt: skip
_SHOWN: Final = 5
"""Most entries that are listed where a name could mean several."""
_OF_THE_LOG = tuple(name for name in _TABLES if name != "disowned")
"""Tables whose rows are what the log's entries say, one by one."""
_INDEXED: dict[str, type] = {"version": int, "entries": int, "size": int, "last_offset": int, "last_identity": str}
_RATES = """
select entry, subject, actor, node, model, metric, unit, context, batch, samples,
       count * 1e9 / duration_ns as per_second
from runs
"""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did.

    Attributes:
        entries: entries in the index now.
        added: entries that were added.
        rebuilt: whether the index was built anew.
    """

    entries: int
    added: int
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class _Mark:
    """Up to where the log is indexed: number of entries, byte offset behind them, and the last one's place."""

    entries: int
    size: int
    last_offset: int
    last_identity: str


def refresh_index(ledger: Ledger, *, rebuild: bool = False, compare: bool = False) -> Refreshed:
    """Bring ``index.sqlite`` up to the log as it is now. A torn tail is left out.

    Args:
        ledger: the ledger.
        rebuild: build it anew, whatever stands there.
        compare: read what it says of the log beside the log, from the beginning, and build it anew where they differ.

    Raises:
        StoreError: the index cannot be written there; the log cannot be read.
        LedgerError: a line of the log is not an entry.
    """
    path = ledger.index_path
    for place in (path, *(_beside(path, suffix) for suffix in _SIDECARS)):
        if place.exists() and not place.is_file():  # to SQLite a pipe is a file, and one that never ends
            raise StoreError(
                Code.INDEX_UNUSABLE,
                "the index cannot be written: what stands in its place is no file",
                position=Position(source=str(place)),
                hint="move it away: the index is made anew from ledger.jsonl",
            )
    with _log(ledger) as (read, size):
        if not rebuild and path.exists() and not _beside(path, "-wal").exists():
            with contextlib.suppress(sqlite3.DatabaseError), _connect(path) as db:
                mark = _known(db, read, size)
                if mark is not None and not (compare and _differs(db, read, mark)):
                    with _writing(path, sqlite3.OperationalError):  # damage in it is no reason to fail: see below
                        added = _fill(db, read, size, mark)
                        _mark_disowned(db, ledger)
                    return Refreshed(mark.entries + added, added, rebuilt=False)
        with storage_errors(path, "build the index"), Staging(ledger.disk, ledger.staging_path) as staged:
            with _writing(staged.path), _connect(staged.path) as db:
                # Nobody sees this file before it is whole and synced, so SQLite need not protect it.
                db.execute("pragma journal_mode = off")
                db.execute("pragma synchronous = off")
                _create(db)
                added = _fill(db, read, size, _Mark(0, 0, 0, ""))
                _mark_disowned(db, ledger)
            # What another program left beside the old index does not belong to the new one.
            for suffix in _SIDECARS:
                _beside(path, suffix).unlink(missing_ok=True)
            staged.publish(path)
    return Refreshed(added, added, rebuilt=True)


@contextlib.contextmanager
def open_index(ledger: Ledger) -> Iterator[sqlite_utils.Database]:
    """The index, refreshed; where it cannot be written (read-only medium), a fresh one in memory.

    Raises:
        LedgerError: a line of the log is not an entry, or the log cannot be read.
    """
    try:
        refresh_index(ledger)
    except StoreError as error:
        if error.code not in (Code.READ_ONLY, Code.ACCESS_DENIED, Code.DISK_FULL, Code.INDEX_UNUSABLE):
            raise
        with _log(ledger) as (read, size), _connect(":memory:") as db:
            _create(db)
            _fill(db, read, size, _Mark(0, 0, 0, ""))
            _mark_disowned(db, ledger)
            yield db
    else:
        with _reading(ledger.index_path), _connect(ledger.index_path) as db:
            db.execute("pragma query_only = on")
            yield db


def list_entries(db: sqlite_utils.Database, *, kind: str | None = None, limit: int = 0) -> list[dict[str, Any]]:
    """The newest ``limit`` entries (0: all), oldest first, each with a ``summary`` of its body."""
    where, values = (None, []) if kind is None else ("kind = ?", [kind])
    rows = list(
        _table(db, "entries").rows_where(
            where,
            values,
            select="entry, identity, kind, key, claimed_time, body",
            order_by="entry desc",
            limit=limit or None,
        )
    )
    return [_listed(row) for row in reversed(rows)]


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the index with a summary of the body, and without the body.

    Raises:
        StoreError: no entry has such a row.
    """
    body = row.pop("body")
    try:
        if not all(_FORMS[name].fullmatch(value) for name, value in row.items() if name != "entry"):
            raise ValueError("a field has a form that no entry's has")  # noqa: TRY301 - as what the summary finds
        summary = _SUMMARIES[row["kind"]](json.loads(body))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _edited(row["entry"], f"{type(error).__name__}: {error}") from None
    return {**row, "summary": _plain(summary)}


def _edited(entry: int, found: str) -> StoreError:
    return StoreError(
        Code.INDEX_UNUSABLE,
        f"the index says of entry {entry} what no entry says: somebody wrote into it",
        position=Position(source="index.sqlite"),
        found=found[:200],
        hint="run `k3-ledger index`, which compares it with ledger.jsonl and builds it anew",
    )


_FORMS: dict[str, re.Pattern[str]] = {
    "identity": re.compile(r"[0-9a-f]{64}"),
    "key": re.compile(r"[0-9a-f]{64}"),
    "kind": re.compile(r"[a-z]+"),
    "claimed_time": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
}
"""How the columns are written that are printed as they stand."""


def _plain(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


_SUMMARIES: dict[str, Callable[[dict[str, Any]], str]] = {
    "genesis": lambda body: str(body["origin"]),
    "key": lambda body: f"{body['action']} {body['role']} key {body['name']}",
    "threshold": lambda body: f"{body['threshold']} root keys behind each root action",
    "run": lambda body: f"{body['subject']['name']} {', '.join(sorted({s['metric'] for s in body['timing']}))}",
    "failed": lambda body: f"{body['subject']['name']} at {body['stage']}: {body['reason']}",
    "verdict": lambda body: f"{body['tier']} by {body['rule']} for {body['target'][:16]}…",
    "rule": lambda body: str(body["rule"]),
    "round": lambda body: str(body["round"]),
    "pin": lambda body: f"{body['slot']} {body['value']} {body['unit']}",
    "merge": lambda body: f"{body['slot']} at {body['commit'][:12]}",
    "import": lambda body: f"{body['format']} {body['foreign_id']}",
    "supersede": lambda body: f"{body['target'][:16]}…: {body['reason']}",
    "witness": lambda body: str(body["witness"]),
    "note": lambda body: " ".join(body["text"].split())[:80],
}
"""What an entry of each kind is about, in a few words."""


def find_entry(ledger: Ledger, db: sqlite_utils.Database, name: str) -> dict[str, Any]:
    """One entry by its index or by (the beginning of) its identity, read from the log and not from the index.

    Returns:
        The index's row, with ``line``: the line's bytes, whose identity was computed again.

    Raises:
        StoreError: no entry or several have that name, or the index is not about this log any more.
    """
    if name.isdecimal() and len(name) < 16:
        rows = list(_table(db, "entries").rows_where("entry = ?", [int(name)]))
    else:
        like = "identity >= ? and identity < ?"
        rows = list(_table(db, "entries").rows_where(like, [name, name + "g"], order_by="identity", limit=_SHOWN + 1))
    if len(rows) != 1 or not name:
        which = [f"{row['identity'][: max(16, len(name) + 4)]}… (entry {row['entry']})" for row in rows if name]
        raise StoreError(
            Code.NO_SUCH_ENTRY,
            f"{'several entries have' if len(rows) > 1 else 'no entry has'} the index or identity {name!r}",
            position=Position(source=str(ledger.log_path)),
            found=", ".join([*which[:_SHOWN], *["…"] * (len(which) > _SHOWN)]) or None,
            hint="name it by more digits, or by its index" if which else None,
        )
    row: dict[str, Any] = rows[0]
    place = row["byte_offset"], row["length"]
    with _log(ledger) as (read, size):
        # Where the index points to no whole line, that is the index's fault, whatever the bytes there look like.
        if not _is_line(read, size, *place):
            raise _edited(row["entry"], "offset {!r}, length {!r}, where no line stands".format(*place))
        raw = read(row["length"], row["byte_offset"])
    line = parse_line(raw, place_of(row["entry"], row["byte_offset"]))
    if entry_identity(line.entry).hex() != row["identity"]:
        raise StoreError(
            Code.INDEX_UNUSABLE,
            "the index names another entry than the one that stands in the log",
            position=place_of(row["entry"], row["byte_offset"]),
            expected=row["identity"],
            found=entry_identity(line.entry).hex(),
            hint=_ONE_OF_TWO,
        )
    own = read_line(line, place_of(row["entry"], row["byte_offset"])).index
    if own != row["entry"]:
        raise StoreError(
            Code.INDEX_UNUSABLE,
            "the index gives an entry another number than the log does",
            position=place_of(row["entry"], row["byte_offset"]),
            expected=f"entry {row['entry']}",
            found=f"entry {own}",
            hint=_ONE_OF_TWO,
        )
    return {**row, "line": raw}


_ONE_OF_TWO: Final = (
    "one of the two was changed: run `k3-ledger verify`, and `k3-ledger index` only if it finds nothing"
)


def _is_line(read: Callable[[int, int], bytes], size: int, offset: object, length: object) -> bool:
    """Whether a whole line of the log, and nothing else, stands there."""
    if not (isinstance(offset, int) and isinstance(length, int)):
        return False
    if not (0 <= offset <= offset + length < size and length <= MAX_LINE):
        return False
    around = read(length + 2, offset - 1) if offset else b"\n" + read(length + 1, 0)
    return around.startswith(b"\n") and around.find(b"\n", 1) == length + 1


@contextlib.contextmanager
def _log(ledger: Ledger) -> Iterator[tuple[Callable[[int, int], bytes], int]]:
    """The log for reading: ``read(count, offset)``, and its size."""
    with storage_errors(ledger.log_path, "read the ledger"):
        file = ledger.log_path.open("rb")
    with file:

        def read(count: int, offset: int) -> bytes:
            file.seek(offset)
            return file.read(count)

        yield read, file.seek(0, 2)


@contextlib.contextmanager
def _connect(path: Path | str) -> Iterator[sqlite_utils.Database]:
    connection = sqlite3.connect(path, timeout=WAIT_S)
    raised: list[BaseException] = []
    connection.set_progress_handler(_listen(raised), STEPS)
    connection.execute("pragma trusted_schema = off")
    try:
        yield sqlite_utils.Database(connection, execute_plugins=False)
    except Exception:
        if raised:
            raise raised[0] from None
        raise
    finally:
        connection.close()


def _listen(raised: list[BaseException]) -> Callable[[], int]:
    """What SQLite calls now and then, so that handlers of signals run; what they raise is kept, and ends the query.

    SQLite would drop it. A generator, for a handler runs where Python code goes on, and that is inside this ``try``.
    """

    def listen() -> Iterator[int]:
        while True:
            try:
                while True:
                    yield 0
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001 - raised again by whoever holds the connection
                raised.append(error)
                yield 1

    listening = listen()
    next(listening)
    return listening.__next__


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a file it cannot make sense of into an error that names the file and the cure."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(
            Code.INDEX_UNUSABLE,
            "the index cannot be read",
            position=Position(source=str(path)),
            found=str(error),
            hint="remove it, or run `k3-ledger index --rebuild`: everything in it comes from ledger.jsonl",
        ) from error


@contextlib.contextmanager
def _writing(path: Path, refusals: type[sqlite3.DatabaseError] = sqlite3.DatabaseError) -> Iterator[None]:
    """Turn SQLite's refusals into an error that names the file and the cure."""
    try:
        yield
    except refusals as error:
        reason = str(error)
        code, hint = Code.INDEX_UNUSABLE, "look at who may write to the directory and how much room it has"
        if "readonly" in reason:
            code, hint = Code.READ_ONLY, "the index is only a convenience: copy the ledger to where you can write"
        elif "full" in reason:
            code, hint = Code.DISK_FULL, "free space on that file system, then try again"
        elif "locked" in reason or "locking" in reason:
            hint = "another program holds the index, or its file system has no locks: close it, or copy the ledger"
        raise StoreError(
            code, "the index cannot be written", position=Position(source=str(path)), found=reason, hint=hint
        ) from error


_SIDECARS: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file."""


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _table(db: sqlite_utils.Database, name: str) -> Table:
    return cast("Table", db[name])


def _create(db: sqlite_utils.Database) -> None:
    for name, columns in _TABLES.items():
        key = {"entries": "entry", "runs": ("entry", "series"), "disowned": "entry"}.get(name)
        foreign = [] if name == "entries" else [("entry", "entries", "entry")]
        _table(db, name).create(columns, pk=key, foreign_keys=foreign)
    _table(db, "entries").create_index(["identity"], unique=True)
    _table(db, "entries").create_index(["kind"])
    for name in ("keys", "artifacts"):
        _table(db, name).create_index(["entry"])
    _table(db, "artifacts").create_index(["sha256"])
    _table(db, "indexed").create(_INDEXED, pk="version")
    db.create_view("rates", _RATES)


def _known(db: sqlite_utils.Database, read: Callable[[int, int], bytes], size: int) -> _Mark | None:
    """What the index covers, if that is still the beginning of this log and there is nothing else in it."""
    with _connect(":memory:") as fresh:
        _create(fresh)
        if _schema(db) != _schema(fresh):
            return None
    rows = list(_table(db, "indexed").rows_where("version = ?", [SCHEMA_VERSION]))
    said = [rows[0].get(name) for name in ("entries", "size", "last_offset")] if rows else []
    numbers = [number for number in said if isinstance(number, int) and number >= 0]
    if len(numbers) < len(said) or not said:
        return None
    entries, end, last_offset = numbers
    mark = _Mark(entries, end, last_offset, rows[0].get("last_identity", ""))
    last = _table(db, "entries").rows_where("entry = ?", [mark.entries - 1], select="identity")
    if [row["identity"] for row in last] != [mark.last_identity]:
        return None
    length = mark.size - mark.last_offset - 1
    if not _is_line(read, size, mark.last_offset, length):
        return None
    try:
        found = entry_identity(parse_line(read(length, mark.last_offset)).entry).hex()
    except LedgerError:
        return None
    return mark if found == mark.last_identity else None


def _schema(db: sqlite_utils.Database) -> list[Any]:
    """Everything that a database declares."""
    return db.execute("select type, name, tbl_name, sql from sqlite_master order by type, name, sql").fetchall()


def _fill(db: sqlite_utils.Database, read: Callable[[int, int], bytes], size: int, mark: _Mark) -> int:
    """Index the lines behind ``mark``, block by block. Returns how many there were."""
    index, end, last, identity = mark.entries, mark.size, mark.last_offset, mark.last_identity
    for offset, block in whole_lines(read, mark.size, size):
        if end == mark.size:
            _forget_behind(db, mark)
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
        at = offset
        for raw in block.split(b"\n")[:-1]:
            identity = _add_rows(rows, raw, index, at)
            last, index, at = at, index + 1, at + len(raw) + 1
        for name, found in rows.items():
            _table(db, name).insert_all(found)
        end = at
        _table(db, "indexed").upsert(
            {
                "version": SCHEMA_VERSION,
                "entries": index,
                "size": end,
                "last_offset": last,
                "last_identity": identity,
            },
            pk="version",
        )
    return index - mark.entries


def _mark_disowned(db: sqlite_utils.Database, ledger: Ledger) -> None:
    """Say which entries a revocation took back, anew each time: a later one can take more back, or that one itself.

    Where the key entries are damaged that cannot be told, and the table says nothing: verify says what is wrong.
    """
    if not _table(db, "keys").count_where("action = 'revoke'"):
        return
    rows = []
    with contextlib.suppress(LedgerError):
        keyring = read_state(ledger).keyring
        for key in [*keyring.lives, *keyring.taken_back]:
            for row in _table(db, "entries").rows_where("key = ?", [key], select="entry"):
                by = keyring.disowned_by(key, row["entry"])
                if by is not None:
                    rows.append({"entry": row["entry"], "disowned_by": by})
    with db.conn:
        _table(db, "disowned").delete_where()
        _table(db, "disowned").insert_all(rows, replace=True)


def _differs(db: sqlite_utils.Database, read: Callable[[int, int], bytes], mark: _Mark) -> bool:
    """Whether the index says something else of the entries in front of ``mark`` than the log does."""
    index = 0
    totals = dict.fromkeys(_OF_THE_LOG, 0)
    for offset, block in whole_lines(read, 0, mark.size):
        first, at = index, offset
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _OF_THE_LOG}
        for raw in block.split(b"\n")[:-1]:
            _add_rows(rows, raw, index, at)
            index, at = index + 1, at + len(raw) + 1
        for name, found in rows.items():
            stored = _table(db, name).rows_where("entry >= ? and entry < ?", [first, index], order_by="rowid")
            if list(stored) != found:
                return True
            totals[name] += len(found)
    return index != mark.entries or any(_table(db, name).count != total for name, total in totals.items())


def _forget_behind(db: sqlite_utils.Database, mark: _Mark) -> None:
    """Remove rows of a refresh that did not live to say how far it came."""
    with db.conn:
        for name in reversed(_TABLES):
            _table(db, name).delete_where("entry >= ?", [mark.entries])


def _add_rows(rows: dict[str, list[dict[str, Any]]], raw: bytes, index: int, offset: int) -> str:
    place = place_of(index, offset)
    line = parse_line(raw, place)
    entry = read_line(line, place)
    identity = entry_identity(line.entry).hex()
    # Behind the body come members of fixed form only, so the last mark is the one that ends it.
    body = line.entry[len(b'{"body":') : line.entry.rfind(b',"index":')]
    rows["entries"].append(
        {
            "entry": index, "identity": identity, "kind": entry.kind, "key": entry.key,
            "claimed_time": entry.time, "prev": entry.prev, "byte_offset": offset, "length": len(raw),
            "body": body.decode(),
        }
    )  # fmt: skip
    if entry.kind == "run":
        rows["runs"] += _runs(index, entry.body)
    elif entry.kind == "key":
        rows["keys"].append({"entry": index, **{name: getattr(entry.body, name) for name in list(_TABLES["keys"])[1:]}})
    for artifact in getattr(entry.body, "artifacts", ()):
        rows["artifacts"].append(
            {
                "entry": index, "sha256": artifact.sha256, "name": artifact.name, "size": artifact.size,
                "media_type": artifact.media_type,
            }
        )  # fmt: skip
    return identity


def _runs(index: int, body: Any) -> Iterator[dict[str, Any]]:
    """One row a series: what was measured, flattened, with sums instead of samples."""
    for number, series in enumerate(body.timing):
        yield {
            "entry": index, "series": number, "bundle": body.bundle, "role": body.role,
            "subject": body.subject.name, "version": body.subject.version,
            "model": body.model.name if body.model else None, "quant": body.model.quant if body.model else None,
            "node": body.machine.node.name, "round": body.round, "metric": series.metric, "unit": series.unit,
            "actor": series.actor, "observer": series.observer, "context": series.context,
            "context_filled": series.context_filled, "batch": series.batch, "processes": series.processes,
            "samples": len(series.samples), "count": sum(sample.count for sample in series.samples),
            "duration_ns": sum(sample.duration_ns for sample in series.samples),
        }  # fmt: skip
