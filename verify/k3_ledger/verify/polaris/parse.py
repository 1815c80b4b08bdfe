"""What is in a foreign run log: its records, joined into runs, each field with its exact text and place.

A log is a mapping of relative paths to bytes (:data:`Files`); whoever calls opens the directory. Known places:

- ``ledger.jsonl``: one JSON object a line, either a run (``run_id``) or an advance of the frontier (``new_frontier``);
- ``index.json``: a list of rows, each with ``run_id`` or ``id``;
- ``runs/<id>/``: ``receipt.json``, ``result.json``, ``attestation.json``, and ``eval.log`` or ``log.txt``;
- ``rounds/<commit>/``: ``eval.log`` or ``log.txt`` of a round that published nothing.

Everything else is named in the inventory and not read. What is missing is missing: the one refusal is a directory in
which nothing has the shape of a run log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.polaris.foreign_json import elements, read
from k3_ledger.verify.polaris.logtext import read_log
from k3_ledger.verify.polaris.sealed import Sealed, sealed_output
from k3_ledger.verify.polaris.spelling import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.logtext import Evaluation, LogText

Files: TypeAlias = Mapping[str, bytes]
"""Contents of a directory by path relative to it, ``/`` between parts."""

LEDGER: Final = "ledger.jsonl"
INDEX: Final = "index.json"
LOG_NAMES: Final = ("eval.log", "log.txt")
"""Names of a folder's log text, in the order in which they are looked for: one is read, of a run or a round."""
RUN_FILES: Final = ("receipt.json", "result.json", "attestation.json", *LOG_NAMES)


ROW_NAMES: Final = ("run_id", "id", "receipt_id")
"""Fields in which a row of a listing names its run, in the order in which they are tried."""
SHOWN: Final = 80
"""Most bytes of a row that a finding shows."""
FOLDERS: Final = ("runs", "rounds")
"""Folders of the folders that hold records."""


@dataclass(frozen=True, slots=True)
class Run:
    """Everything the log holds about one run. A missing record is None or empty.

    Attributes:
        run_id: name of its folder under ``runs/``, or the id under which a listing names it.
        sealed: last JSON object of the output that the receipt seals.
        ledger: ledger lines that name it.
        index: index rows that name it.
        files: paths of its files, sorted.
        printed: every other JSON object of that output.
        names: names under which the log's records speak of it, its folder's first.
        named_by_folder: whether its folder's name is one that records are held to: not where most folders of the log
            have other names than the results in them.
    """

    run_id: str
    receipt: Document | None
    sealed: Document | None
    result: Document | None
    attestation: Document | None
    log: LogText | None
    ledger: tuple[Document, ...]
    index: tuple[Document, ...]
    files: tuple[str, ...]
    printed: tuple[Document, ...] = ()
    names: tuple[str, ...] = ()
    named_by_folder: bool = True

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation of its log text that was published under one of its names."""
        if self.log is None:
            return None
        found = (self.log.evaluation_of(name) for name in self.names)
        return next((evaluation for evaluation in found if evaluation is not None), None)

    @property
    def timestamp(self) -> str:
        """Time that the receipt, else an attestation, else the listing claims; empty when none does."""
        for document, path in self._times():
            text = document.text(path)
            if text is not None:
                return text
        return ""

    def _times(self) -> Iterator[tuple[Document, str]]:
        if self.receipt is not None:
            yield self.receipt, "attestation.timestamp_utc"
        for attestation in (self.attestation, None if self.log is None else self.log.attestation):
            if attestation is not None:
                yield attestation, "timestamp_utc"
        for row in (*self.ledger, *self.index):
            yield row, "timestamp_utc"
            yield row, "date"

    @property
    def place(self) -> Position:
        """Where to point when the whole run is meant."""
        if self.files:
            return Position(source=self.files[0].rpartition("/")[0])
        return (*self.ledger, *self.index)[0].position


@dataclass(frozen=True, slots=True)
class RunLog:
    """A whole log.

    Attributes:
        runs: runs that have a folder, then runs that are only listed; each group by timestamp, then id.
        ledger: run lines of the ledger, in order.
        advances: ledger lines that record an advance of the frontier, in order.
        index: rows of the index, in order.
        rounds: logs under ``rounds/`` by folder name.
        logs: distinct log texts: of runs in order of time, then of rounds.
        others: paths that were not read.
        problems: what could not be read, or is odd, in any file.
        listings: which of :data:`LEDGER` and :data:`INDEX` are here to list runs. An index is, though it may list none;
            one that cannot be read has a problem of its own. A ledger is where it names a run: others list advances.
        names: every name under which a record can speak of a run, and the run's id.
        unusable: places of records other than receipts of which nothing, or not all, could be read.
    """

    runs: tuple[Run, ...]
    ledger: tuple[Document, ...]
    advances: tuple[Document, ...]
    index: tuple[Document, ...]
    rounds: dict[str, LogText]
    logs: tuple[LogText, ...]
    others: tuple[str, ...]
    problems: tuple[Finding, ...]
    listings: tuple[str, ...]
    names: Mapping[str, str]
    unusable: tuple[Position, ...] = ()

    def named(self, name: str) -> str:
        """Id of the run that a record calls ``name``; ``name`` itself where there is none."""
        return self.names.get(name) or self.names.get(plain(name), name)

    def run_of(self, row: Document) -> str:
        """Id of the run that a row of a listing is of."""
        return _run_of(row, self.names)


class _Problems(list[Finding]):
    """Problems of a log while it is read, and the places of records of which nothing was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.unusable: list[Position] = []

    def empty_ledger(self, data: bytes) -> None:
        """A ledger that lists nothing is no record, whichever kind of lines it had; lines of it are counted already."""
        at = Position(source=LEDGER)
        message = f"{LEDGER} lists nothing: neither a run nor an advance of the frontier"
        expected, found = "lines with run_id, or with new_frontier", f"{len(data)} bytes"
        self.append(Finding(Code.FOREIGN_LEDGER_EMPTY, message, at, expected, found))
        if all(place.source != LEDGER for place in self.unusable):
            self.unusable.append(at)


def is_record(path: str) -> bool:
    """Whether ``path`` is that of a file which is read as a record."""
    top, _, rest = path.partition("/")
    name, _, file = rest.partition("/")
    return path in (LEDGER, INDEX) or (bool(name) and file in {"runs": RUN_FILES, "rounds": LOG_NAMES}.get(top, ()))


def _second_logs(paths: set[str]) -> set[str]:
    """Log texts in whose folder another one is read."""
    first, second = LOG_NAMES
    read_ones = (path.removesuffix(first) for path in paths if path.endswith(f"/{first}"))
    return paths & {f"{folder}{second}" for folder in read_ones}


def unread_places(closed: Mapping[str, str], others: Iterable[str]) -> Iterator[Finding]:
    """Places of records, or of folders with records, at which nothing was read.

    Args:
        closed: what is in the directory and was not opened, and what it is.
        others: paths that were not read.
    """
    found = {p: what for p, what in closed.items() if is_record(p) or (p.split("/")[0] in FOLDERS and p.count("/") < 2)}
    for path in others:  # a folder that is called as a record is
        found |= {place: "a folder" for place in accumulate(path.split("/")[:-1], "{}/{}".format) if is_record(place)}
    found |= {path: "a second log text of its folder" for path in others if is_record(path)}
    for path, what in sorted(found.items()):
        message = f"{path} is {what}, and nothing was read there"
        yield Finding(
            Code.FOREIGN_NOT_READ, message, Position(source=path), expected="part of the log itself", found=what
        )


def row_ids(row: Document) -> list[str]:
    """Names under which a ledger line or an index row speaks of its run, the first being the one it is known by."""
    return [text for name in ROW_NAMES if (text := row.text(name))]


def _is_advance(row: Document) -> bool:
    return "new_frontier" in row.object and not (row.text("run_id") or row.text("id"))


def _run_of(row: Document, names: Mapping[str, str]) -> str:
    given = row_ids(row)
    known = (names.get(name) or names.get(plain(name)) for name in given)
    return next((name for name in known if name is not None), given[0])


def parse_log(files: Files) -> RunLog:
    """Read a log.

    Raises:
        MalformedError: with ``K3L-NOT-A-RUN-LOG`` when nothing in it has the shape of one.
    """
    problems = _Problems()
    rows = _lines(files, problems)
    advances = [row for row in rows if _is_advance(row)]
    ledger = _named((row for row in rows if not _is_advance(row)), problems)
    listed_rows = _index(files, problems)
    index = _named(listed_rows or [], problems)
    folders: dict[str, list[str]] = {}
    rounds: dict[str, LogText] = {}
    others: list[str] = []
    second = _second_logs({*files})
    for path in sorted(files):
        top, _, rest = path.partition("/")
        name = rest.partition("/")[0]
        if not is_record(path) or path in second:
            others.append(path)
        elif top == "runs":
            folders.setdefault(name, []).append(path)
        elif top == "rounds":
            rounds[name] = read_log(files[path], path)
            problems.extend(rounds[name].problems)
    if not (folders or ledger or advances or index):
        raise _not_a_run_log(files)
    if LEDGER in files and not (ledger or advances):
        problems.empty_ledger(files[LEDGER])
    listings = {LEDGER: bool(ledger), INDEX: listed_rows is not None}
    runs = [_run(name, tuple(paths), files, problems) for name, paths in folders.items()]
    names = _names(runs)
    by_row = (_by_run(ledger, names), _by_run(index, names))
    listed = dict.fromkeys(name for rows in by_row for name in rows if name not in folders)
    names |= {name: name for name in listed}
    runs = [_listed(run, by_row, names) for run in _held_to_folders(runs)]
    absent = [_listed(_run(name, (), files, problems), by_row, names) for name in listed]
    runs.sort(key=_when)
    logs: dict[str, LogText] = {}
    for text in (*(run.log for run in runs if run.log is not None), *rounds.values()):
        logs.setdefault(text.sha256, text)
    cut = (
        problem.position for text in logs.values() for problem in text.problems if problem.code is Code.JSON_TOO_LONG
    )
    return RunLog(
        runs=(*runs, *sorted(absent, key=_when)),
        ledger=tuple(ledger),
        advances=tuple(advances),
        index=tuple(index),
        rounds=rounds,
        logs=tuple(logs.values()),
        others=tuple(others),
        problems=tuple(problems),
        listings=tuple(name for name, there in listings.items() if there),
        names=names,
        unusable=(*problems.unusable, *cut),
    )


def _when(run: Run) -> tuple[str, str]:
    return run.timestamp, run.run_id


def _not_a_run_log(files: Files) -> MalformedError:
    hint = None
    if files.get(LEDGER, b"").startswith(b'{"entry":'):
        hint = "this looks like a ledger of k3-ledger itself: use `k3-ledger verify`"
    return MalformedError(
        Code.NOT_A_RUN_LOG,
        "no run, no ledger line and no index row of an evaluation log here",
        expected="runs/<id>/receipt.json or result.json, ledger.jsonl, or index.json",
        found=f"{len(files)} files" if files else "an empty directory",
        hint=hint,
    )


def _by_run(rows: list[Document], names: Mapping[str, str]) -> dict[str, tuple[Document, ...]]:
    out: dict[str, list[Document]] = {}
    for row in rows:
        out.setdefault(_run_of(row, names), []).append(row)
    return {name: tuple(found) for name, found in out.items()}


def _names(runs: list[Run]) -> dict[str, str]:
    """Names of runs with a folder: the folder's, then the receipt's id inside it, then what its result calls itself.

    A name that two folders hold is that of the one with more files, else of the first.
    """
    names = {run.run_id: run.run_id for run in runs}
    ranked = sorted(runs, key=lambda run: (-len(run.files), run.run_id))
    for run in ranked:
        if run.receipt is not None and (name := run.receipt.text("receipt_id")):
            names.setdefault(plain(name), run.run_id)
    for run in ranked:
        for name in () if run.result is None else row_ids(run.result):
            names.setdefault(plain(name), run.run_id)
    return names


def _held_to_folders(runs: list[Run]) -> list[Run]:
    """Runs, told whether folders of this log are called as the results in them."""
    stated = [(run, run.result.text("run_id") or run.result.text("id")) for run in runs if run.result is not None]
    own = [(run, name) for run, name in stated if name]
    sealed = {run.run_id: run.receipt.text("receipt_id") for run in runs if run.receipt is not None}
    other = [name for run, name in own if name not in (run.run_id, sealed.get(run.run_id))]
    return [replace(run, named_by_folder=2 * len(other) < len(own) or not own) for run in runs]


def _listed(run: Run, rows: tuple[Mapping[str, tuple[Document, ...]], ...], names: Mapping[str, str]) -> Run:
    """A run with its rows and names."""
    ledger, index = (listing.get(run.run_id, ()) for listing in rows)
    inside = (name for document in (run.receipt, run.result) if document is not None for name in row_ids(document))
    own = (name for name in inside if names.get(name, names.get(plain(name))) == run.run_id)
    return replace(run, ledger=ledger, index=index, names=tuple(dict.fromkeys((run.run_id, *own))))


def _lines(files: Files, problems: _Problems) -> list[Document]:
    out: list[Document] = []
    offset = 0
    for number, raw in enumerate(files.get(LEDGER, b"").split(b"\n"), start=1):
        if raw.strip():
            document = read(raw.rstrip(b"\r"), LEDGER, line=number, byte_offset=offset)
            if _usable(document, dict, problems):
                out.append(document)
        offset += len(raw) + 1
    return out


def _index(files: Files, problems: _Problems) -> list[Document] | None:
    """Elements of the index; None when there is none, or none that can be read."""
    if INDEX not in files:
        return None
    whole = read(files[INDEX], INDEX)
    return list(elements(whole)) if _usable(whole, list, problems) else None


def _named(rows: Iterable[Document], problems: _Problems) -> list[Document]:
    """Rows that name a run. Any other is held against nothing, whatever it says: that is a problem."""
    out: list[Document] = []
    for row in rows:
        if row_ids(row):
            out.append(row)
        else:
            expected = "an object with the id of a run"
            message = f"{row.source} has a row that names no run"
            problems.unusable.append(row.position)
            found = row.raw[:SHOWN].decode(errors="replace")
            problems.append(Finding(Code.FOREIGN_SHAPE, message, row.position, expected, found))
    return out


def _usable(document: Document, kind: type[dict[str, object] | list[object]], problems: _Problems) -> bool:
    problems.extend(document.problems)
    if document.readable and not isinstance(document.root, kind):
        wanted = "an object" if issubclass(kind, dict) else "a list"
        message = f"{document.source} should hold {wanted} here"
        problems.append(Finding(Code.FOREIGN_SHAPE, message, document.position, expected=wanted))
    usable = document.readable and isinstance(document.root, kind)
    if not usable and not document.source.endswith("/receipt.json"):
        problems.unusable.append(document.position)
    return usable


def _run(
    name: str,
    paths: tuple[str, ...],
    files: Files,
    problems: _Problems,
) -> Run:
    """A run without its rows, which are found by what is in it."""
    by_name = {path.rpartition("/")[2]: path for path in paths}

    def record(file: str) -> Document | None:
        if file not in by_name:
            return None
        document = read(files[by_name[file]], by_name[file])
        return document if _usable(document, dict, problems) else None

    receipt = record("receipt.json")
    log_name = next((file for file in LOG_NAMES if file in by_name), None)
    log = None if log_name is None else read_log(files[by_name[log_name]], by_name[log_name])
    sealed = Sealed() if receipt is None else sealed_output(receipt)
    problems.extend(sealed.problems)
    for document in (sealed.last, *sealed.others, log):
        problems.extend(() if document is None else document.problems)
    return Run(
        run_id=name,
        receipt=receipt,
        sealed=sealed.last,
        result=record("result.json"),
        attestation=record("attestation.json"),
        log=log,
        ledger=(),
        index=(),
        files=paths,
        printed=tuple(sealed.others),
    )
