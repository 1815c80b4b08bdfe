"""A foreign run log as bodies of ``import`` entries, with the original bytes as artifacts.

One item per run, per round that published nothing, and per ledger line that records an advance of the frontier. An
item's ``fields`` are figures copied out of its originals, each with its exact text and its source as name, so that a
rescore needs no parser of foreign logs; the artifacts stay the evidence. Nothing is interpreted, rounded or filled in.

:attr:`ImportItem.key` tells whether a ledger already holds an item: the same originals give the same key. What has the
same :attr:`ImportItem.name` and another key is other evidence of the same thing. A folder that only repeats what
another holds is no item (:func:`list_copies`).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris.facts import LOG_FIGURES
from k3_ledger.verify.polaris.foreign_json import Compound, show
from k3_ledger.verify.polaris.hashes import Record
from k3_ledger.verify.polaris.parse import LOG_NAMES
from k3_ledger.verify.polaris.spelling import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from k3_ledger.verify.polaris.audit import AuditReport
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.logtext import Evaluation, LogText
    from k3_ledger.verify.polaris.parse import Files, Run, RunLog

FORMAT: Final = "polaris/1"
"""Name of the foreign format in import bodies."""
MAX_TEXT: Final = 4096
"""Longest text that a field may hold, in characters; longer values stay in the artifacts."""
MAX_FIELDS_BYTES: Final = 30_000
"""Most bytes that an item's fields take: an entry has to fit one line of the ledger."""
MAX_FIELDS: Final = 256
"""Most fields of an import body."""
MAX_ARTIFACTS: Final = 64
"""Most artifacts of an item: five files, and as many listing rows as one run can have without being hostile."""
MAX_CODES: Final = 64
"""Most finding codes of an import body."""
OMITTED: Final = "import.fields_omitted"
"""Field that counts the fields that did not fit."""
ROUNDS: Final = "rounds/"
"""What the foreign id of a round begins with."""
RUNS: Final = "runs/"
"""What the name of an artifact out of a run's folder begins with."""
PROOF: Final = "advance.proof"
"""Field in which an advance of the frontier names its proof."""
NOTHING: Final = 16
"""Files up to so many bytes say nothing of which run they are: empty ones, or an object without fields."""
ARTIFACTS_OMITTED: Final = "import.artifacts_omitted"
"""Field that counts the originals beyond :data:`MAX_ARTIFACTS`."""
SOURCES: Final = (
    (Record.RESULT, "result", ("",)),
    (
        Record.RECEIPT,
        "receipt",
        (
            "receipt_id",
            "attestation.",
            "chain.",
            "polaris_version",
            "tdx.bound_digest",
            "tdx.files_sha256",
            "tdx.nonce",
            "tdx.result_sha256",
            "_expected.",
        ),
    ),
    (Record.LEDGER, "ledger", ("",)),
    (Record.INDEX, "index", ("",)),
    (Record.SEALED, "sealed", ("",)),
    (Record.LOGGED, "logged", ("",)),
)
"""Record, name of its fields, and the prefixes of the paths that are copied; most useful first."""
COPIES: Final = {"sealed": "result", "logged": "result", "index": "ledger"}
"""Records of which only those fields are copied that the other record lacks or spells otherwise."""

_SEAL: Final = ("receipt.receipt_id", "receipt.tdx.files_sha256")
_NONCE: Final = "receipt.tdx.nonce"
_OWN_FILES: Final = ("result.json", "attestation.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:@/-]{0,199}")
_FILE_NAME = re.compile(r"(?=.{1,200}\Z)[A-Za-z0-9_][A-Za-z0-9._+@-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*")
_DIGESTED = re.compile(r"x[A-Za-z0-9._+@-]{0,120}@[0-9a-f]{16}")
_OTHERS = re.compile(r"[^A-Za-z0-9._+@-]")


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One entry to be: a body for :class:`k3_ledger.schemas.models.ImportBody`, and the bytes of its artifacts.

    Attributes:
        body: the body, as plain values.
        blobs: bytes of each artifact by lower-case hexadecimal SHA-256.
    """

    body: dict[str, Any]
    blobs: dict[str, bytes]

    @property
    def key(self) -> tuple[str, str, str]:
        """Format, foreign id and digest of the original: equal for an item that is already imported."""
        return import_key(self.body)

    @property
    def name(self) -> tuple[str, str]:
        """Format and what the item is of: equal for an item of which other evidence is imported."""
        return import_name(self.body)

    @property
    def is_round(self) -> bool:
        """Whether it is a round: its id is a commit, which two logs may both have measured."""
        return bool(self.body["foreign_id"].startswith(ROUNDS))


def import_key(body: dict[str, Any]) -> tuple[str, str, str]:
    """The key of any import body, also one that was read back from a ledger."""
    return body["format"], body["foreign_id"], body["original_sha256"]


def import_name(body: dict[str, Any]) -> tuple[str, str]:
    """What any import body is of: a run or a round by its id, an advance by the proof that it names.

    An advance has no id of its own: its line moves when the log grows, and two logs have a line of that number.
    """
    proof = next((field["value"] for field in body["fields"] if field["name"] == PROOF), None)
    return body["format"], body["foreign_id"] if proof is None else f"{PROOF} {proof}"


class Marks(NamedTuple):
    """What a run is known by whatever its folder is called.

    Attributes:
        seal: what its receipt calls itself and was sealed over; None without a receipt. An id alone names an output:
            two honest receipts can share it, and not the nonce and what was submitted as well.
        files: digests of its own files, the result's first. A log text that is of a round is no run's own.
        nonce: that of the receipt, as it is stated.
    """

    seal: tuple[str, ...] | None
    files: tuple[str, ...]
    nonce: str = ""

    def is_sealed_as(self, other: Marks) -> bool:
        """Whether both are of one receipt. Where its nonce ends no digest says, so one may begin with the other."""
        nonces = self.nonce.startswith(other.nonce) or other.nonce.startswith(self.nonce)
        return nonces and self.seal is not None and self.seal == other.seal


def import_marks(body: dict[str, Any]) -> Marks:
    """What the run of any import body is known by."""
    stated = {field["name"]: field["value"] for field in body["fields"]}
    telling = [artifact for artifact in body["artifacts"] if artifact["size"] > NOTHING]
    digests = {_file_of(artifact["name"]): artifact["sha256"] for artifact in telling}
    of_a_round = any(name.startswith("log.") for name in stated)
    own = _OWN_FILES if of_a_round or any(name in digests for name in _OWN_FILES) else (*_OWN_FILES, *LOG_NAMES)
    seal = tuple(stated.get(name, "") for name in _SEAL) if stated.get(_SEAL[0]) else None
    return Marks(seal, tuple(digests[name] for name in own if name in digests), stated.get(_NONCE, ""))


def _file_of(name: str) -> str:
    """Name of a file in the folder of a run; of any other artifact a text that is none."""
    return name.rpartition("/")[2] if name.startswith(RUNS) else ""


def to_import(log: RunLog, files: Files, report: AuditReport) -> Iterator[ImportItem]:
    """Everything in a log that can be imported, in order: runs as the log lists them, then rounds, then advances.

    A run that another one only repeats carries the code for that.

    Args:
        log: the log, parsed.
        files: the same bytes that ``log`` was parsed from.
        report: the audit of the same bytes.
    """
    copies = list_copies(log, files)
    for run in in_source_order(log.runs):
        if run.run_id in copies:
            continue
        codes = [code.id for code in report.by_run[run.run_id]]
        if run.run_id in copies.values() and Code.FOREIGN_SAME_RECEIPT.id not in codes:
            codes.append(Code.FOREIGN_SAME_RECEIPT.id)
        yield item_of_run(run, files, codes)
    for folder, text in log.rounds.items():
        yield item_of_round(folder, text, files)
    for row in log.advances:
        yield item_of_advance(row)


def item_of_run(run: Run, files: Files, codes: list[str]) -> ImportItem:
    """A run, with codes of what was found of it."""
    originals = [(path, files[path]) for path in _original_first(run.files)]
    originals += [(row_name(row), row.raw) for row in (*run.ledger, *run.index)]
    return _item(run.run_id, _attestation(run), list(_run_fields(run)), codes, originals)


def item_of_round(folder: str, text: LogText, files: Files) -> ImportItem:
    """A round that published nothing."""
    return _item(f"{ROUNDS}{folder}", "none", list(_round_fields(text)), [], [(text.source, files[text.source])])


def item_of_advance(row: Document) -> ImportItem:
    """A line that records an advance of the frontier."""
    return _item(row_name(row), "none", list(_record_fields("advance", row, ("",))), [], [(row_name(row), row.raw)])


def list_copies(log: RunLog, files: Files) -> dict[str, str]:
    """Folders that hold nothing but copies of what another folder holds of the same receipt: names of both.

    No listing names such a one: what a log lists twice it publishes twice, and that is for who judges it. Of two that
    are alike the one that is named by the receipt's id is the original, else the first by time and name.
    """
    alike: dict[bytes, list[Run]] = {}
    for run in log.runs:
        if run.receipt is not None and run.receipt.text("receipt_id"):
            alike.setdefault(run.receipt.raw, []).append(run)
    copies: dict[str, str] = {}
    for runs in alike.values():
        if len(runs) == 1:
            continue  # and none of its files is read
        ranked = sorted(runs, key=lambda run: (not (run.ledger or run.index), -len(run.files), not _is_named(run)))
        held = {run.run_id: {(path.rpartition("/")[2], files[path]) for path in run.files} for run in ranked}
        for number, run in enumerate(ranked):
            kept = [one.run_id for one in ranked[:number] if one.run_id not in copies]
            original = next((name for name in kept if held[run.run_id] <= held[name]), None)
            if original is not None and not (run.ledger or run.index):
                copies[run.run_id] = original
    return copies


def _is_named(run: Run) -> bool:
    return run.receipt is not None and run.receipt.text("receipt_id") == run.run_id


def in_source_order(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order in which the log's ledger lists them, whatever time they claim.

    One that it does not list has no place but the one its time claims: in front of the first listed run that claims a
    later time.

    Args:
        runs: of a parsed log, by claimed time.
    """
    listed = sorted((run for run in runs if run.ledger), key=lambda run: run.ledger[0].position.line or 0)
    latest = list(accumulate((run.timestamp for run in listed), max))
    places = [(bisect_right(latest, run.timestamp), 0, run) for run in runs if not run.ledger]
    places += [(place, 1, run) for place, run in enumerate(listed)]
    return [run for _, _, run in sorted(places, key=lambda item: item[:2])]


def row_name(row: Document) -> str:
    """What a row of a listing is called as an artifact: its file and line."""
    return f"{row.source}@{row.position.line}"


def _original_first(paths: tuple[str, ...]) -> list[str]:
    return sorted(paths, key=lambda path: (not path.endswith("/receipt.json"), path))


def _attestation(run: Run) -> str:
    if run.receipt is None:
        return "none"
    stated = run.receipt.text("attestation_type")
    if stated is not None:
        return as_name(stated)
    return "ed25519" if "signature" in run.receipt.object else "none"


def _item(
    foreign_id: str,
    attestation: str,
    fields: list[tuple[str, str]],
    codes: list[str],
    originals: list[tuple[str, bytes]],
) -> ImportItem:
    kept = originals[:MAX_ARTIFACTS]
    artifacts = [
        {"name": as_file_name(path), "sha256": sha256_hex(data), "size": len(data), "media_type": media_type(path)}
        for path, data in kept
    ]
    if len(kept) < len(originals):
        fields = [(ARTIFACTS_OMITTED, str(len(originals) - len(kept))), *fields]
    body = {
        "format": FORMAT,
        "foreign_id": as_name(foreign_id),
        "original_sha256": artifacts[0]["sha256"],
        "attestation": attestation,
        "fields": _fitting(fields),
        "findings": codes[:MAX_CODES],
        "artifacts": artifacts,
    }
    return ImportItem(body, {sha256_hex(data): data for _, data in kept})


def as_name(text: str) -> str:
    """``text`` where it is a legal name; otherwise a legal name that ends in a digest of it."""
    return text if _NAME.fullmatch(text) else _digested(text)


def as_file_name(text: str) -> str:
    """``text`` where it is a legal name of an artifact; otherwise one that ends in a digest of it."""
    return text if _FILE_NAME.fullmatch(text) else _digested(text)


def is_digested(name: str) -> bool:
    """Whether a name may be one that a digest stands for."""
    return _DIGESTED.fullmatch(name) is not None


def _digested(text: str) -> str:
    return f"x{_OTHERS.sub('_', text)[:120]}@{sha256_hex(text)[:16]}"


def media_type(path: str) -> str:
    """Media type of an original, by its name."""
    return "text/plain;charset=utf-8" if path.endswith((".log", ".txt")) else "application/json"


def _fitting(fields: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Fields in order while they fit; the last one says how many did not."""
    kept: list[dict[str, str]] = []
    size = omitted = 0
    for name, value in fields:
        cost = len(json.dumps((name, value), ensure_ascii=False).encode()) + 30
        if len(value) > MAX_TEXT or size + cost > MAX_FIELDS_BYTES or len(kept) == MAX_FIELDS - 1:
            omitted += 1
        else:
            kept.append({"name": as_name(name), "value": value})
            size += cost
    if omitted:
        kept.append({"name": OMITTED, "value": str(omitted)})
    return kept


def _run_fields(run: Run) -> Iterator[tuple[str, str]]:
    logged = None if run.log is None else run.log.result
    ledger, index = run.ledger[-1:], run.index[-1:]
    documents: dict[Record, Document | None] = {
        Record.RESULT: run.result,
        Record.RECEIPT: run.receipt,
        Record.SEALED: run.sealed,
        Record.LEDGER: ledger[0] if ledger else None,
        Record.INDEX: index[0] if index else None,
        Record.LOGGED: logged,
    }
    if run.log is not None:
        yield from _log_fields(run.log, run.evaluation)
    given: dict[str, dict[str, str]] = {}
    for record, name, prefixes in SOURCES:
        document = documents[record]
        if document is not None:
            fields = dict(_record_fields(name, document, prefixes))
            given[name] = {path.partition(".")[2]: value for path, value in fields.items()}
            other = given.get(COPIES.get(name, ""), {})
            yield from ((path, value) for path, value in fields.items() if other.get(path.partition(".")[2]) != value)


def _record_fields(name: str, document: Document, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for path, leaf in document.leaves.items():
        if path.startswith(prefixes) and leaf.value is not None and not isinstance(leaf.value, Compound):
            yield f"{name}.{path}", show(leaf.value)


def _log_fields(text: LogText, evaluation: Evaluation | None) -> Iterator[tuple[str, str]]:
    """What the round's log says about the run, then about the frontier that it was scored against."""
    if evaluation is None:
        return
    seen = set()
    for kind, figure, _ in LOG_FIGURES:
        for event in evaluation.all(kind):
            name = f"log.{kind}" if kind == figure else f"log.{kind}.{figure}"
            if figure in event.figures and name not in seen:
                seen.add(name)
                yield name, event.figures[figure]
    for event in evaluation.all("depth"):
        for figure in ("kl", "top1"):
            yield f"log.{event.figures['depth']}.{figure}", event.figures[figure]
    for kind in ("override", "regression", "merged"):
        for event in evaluation.all(kind)[:1]:
            yield f"log.{kind}", event.figures.get("settings", "true")
    yield from _main_fields(text)


def _main_fields(text: LogText) -> Iterator[tuple[str, str]]:
    for kind in ("measuring", "frontier", "pin-kept", "pin-moved", "pin-stale", "pin-alarm", "main-parity"):
        for event in text.main.all(kind)[-1:]:
            for figure, value in event.figures.items():
                yield f"log.main.{kind}.{figure}", value
    for event in text.main.all("depth"):
        for figure in ("kl", "top1"):
            yield f"log.main.{event.figures['depth']}.{figure}", event.figures[figure]


def _round_fields(text: LogText) -> Iterator[tuple[str, str]]:
    yield from _main_fields(text)
    for event in text.all("main-failed")[:1]:
        yield "log.main.failed", event.figures["reason"].strip()
