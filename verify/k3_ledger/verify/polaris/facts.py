"""Which fields of which records state the same fact: the declarative heart of the cross-check.

A *fact* is a name such as ``tps`` or ``commit``. Every scalar of every record of a run is mapped to a fact by
:data:`PLACES` (drop a prefix), :mod:`~k3_ledger.verify.polaris.names` (other names of one) and :data:`LOG_FIGURES`
(figures of log lines); fields that nothing can share (quote, digests of the receipt itself) map to none. Two fields of
one fact are compared by :data:`KINDS`, whatever they are, so a field that a future log adds to two records is compared
too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris.foreign_json import Compound, Leaf, Nested, Number, number_of, show
from k3_ledger.verify.polaris.hashes import EXPECTED, Record
from k3_ledger.verify.polaris.names import names_of
from k3_ledger.verify.polaris.parts import parts_of, published_again
from k3_ledger.verify.polaris.spelling import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris.foreign_json import Document, JsonTree, Scalar
    from k3_ledger.verify.polaris.logtext import LogText
    from k3_ledger.verify.polaris.parse import Run


class Kind(enum.Enum):
    """How two statements of one fact are compared. See :mod:`k3_ledger.verify.polaris.compare`."""

    VALUE = "numbers by value and rounding, everything else as it is"
    PREFIX = "one may be the beginning of the other, where both are hexadecimal"
    WORDS = "every word of one is in the other"
    TIER = "text without regard to case"
    TIME = "the same instant, or a day that this instant was somewhere; what is no date is not compared"
    REFERENCE = "a number, with or without # in front"
    REPOSITORY = "owner and name, or an address of them, of one host where both name one"
    ARCHITECTURE = "names of one architecture; others are not compared"


@dataclass(frozen=True, slots=True)
class Place:
    """Fields of ``record`` under ``prefix`` state the facts named by the rest of their path after ``fact``."""

    record: Record
    prefix: str
    fact: str = ""
    shared: bool = True


_BODY: Final = (
    ("measurements.primary.", ""),
    ("measurements.dflash.", ""),
    ("measurements.guard.", "guard."),
    ("measurements.qwen_guard.", "guard."),
    ("measurements.", "measurements."),
    ("verdict.", ""),
    ("code.", ""),
    ("environment.", ""),
    ("references.", ""),
    ("", ""),
)

PLACES: Final = (
    *(Place(Record.RECEIPT, f"attestation.{prefix}", fact) for prefix, fact in _BODY),
    *(Place(Record.RECEIPT, prefix, shared=False) for prefix in ("tdx.", "chain.", *EXPECTED)),
    Place(Record.RECEIPT, "_expected."),
    Place(Record.RECEIPT, ""),
    *(Place(record, *body) for record in (Record.ATTESTATION, Record.PRINTED) for body in _BODY),
    Place(Record.SEALED, "reason", shared=False),
    *(
        Place(record, prefix)
        for record in (Record.SEALED, Record.RESULT, Record.LOGGED)
        for prefix in ("provenance.", "")
    ),
    Place(Record.LEDGER, ""),
    Place(Record.INDEX, ""),
)
"""First match counts. The enclave's own reason is not a copy of the published one, so it is not shared."""

KINDS: Final = {
    "commit": Kind.PREFIX,
    "frontier_commit": Kind.PREFIX,
    "gpu_arch": Kind.ARCHITECTURE,
    "gpu_name": Kind.WORDS,
    "label": Kind.TIER,
    "pr": Kind.REFERENCE,
    "llamacpp_commit": Kind.PREFIX,
    "receipt_id": Kind.PREFIX,
    "repo": Kind.REPOSITORY,
    "run_id": Kind.PREFIX,
    "timestamp_utc": Kind.TIME,
}
"""Facts that are not compared as plain values."""

VERDICT: Final = frozenset({"label", "pass", "guard_regression_labels", "regression_labels"})
"""Facts that the enclave decides for itself: where its output differs, the sealed verdict is contradicted."""

LOG_FIGURES: Final = (
    ("evaluating", "pr", "pr"),
    ("evaluating", "commit", "commit"),
    ("evaluating", "node", "node"),
    ("evaluating", "frontier", "frontier_tps"),
    ("parity", "top1", "top1"),
    ("parity", "kl", "kl"),
    ("publishing", "run_id", "run_id"),
    ("figures", "tps", "tps"),
    ("figures", "top1", "top1"),
    ("figures", "kl", "kl"),
    ("figures", "ms", "ms_per_token"),
    ("published", "run_id", "run_id"),
    ("tier", "tier", "label"),
    ("no-gain", "tps", "tps"),
    ("no-gain", "frontier", "frontier_tps"),
    ("merge-first", "tps", "tps"),
)
"""Kind of log line, figure in it, fact."""

LONE_FIGURES: Final = (("clock", "tps", "clock_tps"), ("reference", "tps", "tier_anchor_ref"))
"""The same, of lines that count where an evaluation has one of them: of two, the text does not say which is meant.

Imports copy :data:`LOG_FIGURES` and not these, nor what the log says of main as of a run: what is imported of the same
bytes has to stay the same.
"""

FIGURES: Final = frozenset({*KINDS, "pass", *(fact for _, _, fact in (*LOG_FIGURES, *LONE_FIGURES))})
"""Facts that are one plain value, whatever other records say: an object under such a name hides it."""

POLARIS: Final = "polaris"
"""Whether the run has a receipt: what a receipt states by being there."""

PRINTED: Final = frozenset({Record.RESULT, Record.LOGGED})
"""Records that hold results of several models, and publish one of them."""

MIRROR: Final = "attestation."
"""What the facts begin with that only the copies of one attestation state."""

MAX_REPEATED: Final = 16
"""How many rows of one listing, or log lines of one kind, are compared for one run; any more are only reported."""

SHORTEST_NAME: Final = 7
"""Fewest characters of an id that may stand for it."""

_TEXT_FIGURES: Final = frozenset({"commit", "frontier_commit", "node", "run_id", "label"})


@dataclass(frozen=True, slots=True)
class Statement:
    """One record's value for one fact.

    Attributes:
        path: path of the field in its record, as a report shows it.
        code: code of a disagreement that involves this statement, when it is not the fact's own.
    """

    record: Record
    path: str
    leaf: Leaf
    code: Code | None = None

    @property
    def where(self) -> str:
        """Record and field, for messages."""
        return f"{self.record} {self.path}".rstrip()


def documents(run: Run) -> Iterator[tuple[Record, Document]]:
    """Every JSON record of a run."""
    logged, printed = (None, None) if run.log is None else (run.log.result, run.log.attestation)
    single = (
        (Record.RECEIPT, run.receipt),
        (Record.SEALED, run.sealed),
        (Record.RESULT, run.result),
        (Record.LOGGED, logged),
        (Record.ATTESTATION, run.attestation),
        (Record.PRINTED, printed),
    )
    yield from ((record, document) for record, document in single if document is not None)
    again = () if run.log is None else run.log.repeated
    yield from ((Record.PRINTED, document) for document in again)
    yield from ((Record.LEDGER, row) for row in run.ledger[:MAX_REPEATED])
    yield from ((Record.INDEX, row) for row in run.index[:MAX_REPEATED])


def facts_of(run: Run) -> dict[str, list[Statement]]:
    """Every fact that a run's records state, with every statement of it.

    An object is a statement as a whole (:class:`Nested`) where another record has a plain value, or where the fact is
    one of :data:`FIGURES`; everywhere else it is what its fields are.
    """
    out: dict[str, list[Statement]] = {}
    names = other_names(run)
    copies = mirrors(run)
    for record, document in documents(run):
        mirrored = id(document) in copies
        for path, leaf in document.leaves.items():
            fact = None if mirrored else fact_of(record, path, names)
            if fact is not None:
                code = Code.FOREIGN_SEALED_VERDICT if record is Record.SEALED and fact in VERDICT else None
                out.setdefault(fact, []).append(Statement(record, path, leaf, code))
        for fact, path, leaf in () if mirrored else parts_of(document):
            out.setdefault(fact, []).append(Statement(record, path, leaf))
        for name, path, leaf in published_again(document) if record in PRINTED else ():
            out.setdefault(names.get(name, name), []).append(Statement(record, path, leaf))
    if run.receipt is not None and POLARIS in out:
        out[POLARIS].append(Statement(Record.RECEIPT, "", Leaf(value=True, position=run.receipt.position)))
    for name, statement in (*_mirrors(run), *_log_statements(run)):
        out.setdefault(name, []).append(statement)
    _tell_names_apart(run, out)
    for name, record, document, path, tree in (*_objects(run), *_mirrored_objects(run)):
        object_like = Nested if name.startswith(MIRROR) else Compound  # of a copy, an empty object is no blank
        plain = [
            s for s in out.get(name, ()) if not is_blank(s.leaf.value) and not isinstance(s.leaf.value, object_like)
        ]
        other_name = path.rpartition(".")[2] != name.rpartition(".")[2]
        if other_name and any(s.record is record for s in plain):
            continue  # such as a block ``frontier`` beside the figure ``frontier_tps``
        if name in FIGURES or plain:
            out.setdefault(name, []).append(Statement(record, path, document.nested(path, tree)))
    return out


def _tell_names_apart(run: Run, out: dict[str, list[Statement]]) -> None:
    """A run may be called by its receipt's id where its folder has another name: that is a statement of the id.

    Where folders are not what records call their runs, a record that names the folder states nothing of the name.
    """
    stated = plain(run.receipt.text("receipt_id") or "") if run.receipt is not None else ""
    if stated in ("", plain(run.run_id)) and run.named_by_folder:
        return
    kept: list[Statement] = []
    for statement in out.pop("run_id", ()):
        value = statement.leaf.value
        name = plain(value) if isinstance(value, str) else ""
        if len(name) >= SHORTEST_NAME and stated.startswith(name) and stated != plain(run.run_id):
            out.setdefault("receipt_id", []).append(statement)
        elif run.named_by_folder or value != run.run_id:
            kept.append(statement)
    if kept:
        out["run_id"] = kept


def is_blank(value: Scalar) -> bool:
    """Whether a value states nothing."""
    return value is None or value == ""


_Object: TypeAlias = "tuple[str, Record, Document, str, dict[str, JsonTree]]"


def _objects(run: Run) -> Iterator[_Object]:
    """Objects of a run's records: fact, record, document, path, value. Those that :data:`PLACES` enters are none."""
    names = other_names(run)
    copies = mirrors(run)
    for record, document in documents(run):
        if id(document) in copies:
            continue
        entered = {place.prefix for place in PLACES if place.record is record}
        for path, tree in document.objects():
            fact = None if f"{path}." in entered else fact_of(record, path, names)
            if fact is not None:
                yield fact, record, document, path, tree


def _mirrored_objects(run: Run) -> Iterator[_Object]:
    """Objects of an attestation and of its copies: which values stand where is the same in all."""
    copies = attested(run)
    for record, document, prefix in copies if len(copies) > 1 else ():
        for path, tree in document.objects():
            if path.startswith(prefix):
                yield f"{MIRROR}{path.removeprefix(prefix)}", record, document, path, tree


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run and every statement its records make, for checks that look at a fact whichever record carries it."""

    run: Run
    facts: dict[str, list[Statement]]

    def first(self, fact: str) -> Statement | None:
        """The best founded statement of a fact that is not blank: published result, then what stands behind it."""
        stated = [
            s
            for s in self.facts.get(fact, ())
            if not is_blank(s.leaf.value) and not isinstance(s.leaf.value, Nested) and s.record in PREFERENCE
        ]
        return min(stated, key=lambda s: PREFERENCE[s.record], default=None)

    def text(self, fact: str) -> str:
        """A fact as text; empty when no record states it."""
        statement = self.first(fact)
        return "" if statement is None else show(statement.leaf.value)

    def number(self, fact: str) -> Number | None:
        """A fact as a number; None when no record states one."""
        statement = self.first(fact)
        return None if statement is None else number_of(statement.leaf.value)

    def at(self, fact: str) -> Position:
        """Where a fact is stated; the run's place when it is not."""
        statement = self.first(fact)
        return self.run.place if statement is None else statement.leaf.position


PREFERENCE: Final = {
    record: rank
    for rank, record in enumerate(
        (
            Record.RESULT,
            Record.SEALED,
            Record.LOGGED,
            Record.RECEIPT,
            Record.ATTESTATION,
            Record.PRINTED,
            Record.LEDGER,
            Record.INDEX,
        )
    )
}
"""Records in the order in which a fact is looked up; figures of log lines are evidence, not records."""


def other_names(run: Run) -> dict[str, str]:
    """Names of figures in this run's records, with the facts that they state."""
    return names_of(document for _, document in documents(run))


def fact_of(record: Record, path: str, names: Mapping[str, str]) -> str | None:
    """The fact that a field states; None for a field that no other record can share.

    Args:
        record: where it stands.
        path: the field.
        names: of :func:`other_names`.
    """
    for place in PLACES:
        if place.record is record and path.startswith(place.prefix):
            fact = place.fact + path[len(place.prefix) :]
            return names.get(fact, fact) if place.shared else None
    return path


def _mirrors(run: Run) -> Iterator[tuple[str, Statement]]:
    """An attestation beside the receipt, or printed in the log, should be the receipt's, value for value."""
    copies = attested(run)
    for record, document, prefix in copies if len(copies) > 1 else ():
        for path, leaf in document.leaves.items():
            if path.startswith(prefix):
                yield f"{MIRROR}{path.removeprefix(prefix)}", Statement(record, path, leaf)


def attested(run: Run) -> list[tuple[Record, Document, str]]:
    """Every copy of what a run's attestation says, with its prefix there: the one that is looked at, and its copies."""
    prefixes = {Record.RECEIPT: "attestation.", Record.ATTESTATION: "", Record.PRINTED: ""}
    return [(record, document, prefixes[record]) for record, document in documents(run) if record in prefixes]


def mirrors(run: Run) -> frozenset[int]:
    """Identities of the documents that are copies of the attestation that is looked at."""
    return frozenset(id(document) for _, document, _ in attested(run)[1:])


def _log_statements(run: Run) -> Iterator[tuple[str, Statement]]:
    if run.named_by_folder:
        yield "run_id", Statement(Record.NAME, "", Leaf(run.run_id, run.place))
    if run.log is None:
        return
    evaluation = run.evaluation
    if evaluation is None:
        return
    for kind, figure, fact in LOG_FIGURES:
        for event in evaluation.all(kind)[:MAX_REPEATED]:
            if figure in event.figures:
                path = kind if kind == figure else f"{kind} {figure}"
                yield fact, _figure(path, event.figures[figure], event.position, fact)
    for event in evaluation.all("depth")[: 4 * MAX_REPEATED]:
        for figure in ("kl", "top1"):
            fact = f"kl_depths.{event.figures['depth']}.{figure}"
            yield fact, _figure(f"{event.figures['depth']} {figure}", event.figures[figure], event.position, fact)
    for kind, figure, fact in LONE_FIGURES:
        events = evaluation.all(kind)
        if len(events) == 1:
            yield fact, _figure(f"{kind} {figure}", events[0].figures[figure], events[0].position, fact)
    measured = [event for event in run.log.main.events if event.kind in ("measuring", "frontier")]
    for event in measured[-1:]:
        fact = "frontier_commit"
        yield fact, _figure(f"{event.kind} commit", event.figures["commit"], event.position, fact)
    yield from _rebased(run.log, evaluation.pr, evaluation.events[0].position.line or 0)


def _rebased(log: LogText, pr: str, before: int) -> Iterator[tuple[str, Statement]]:
    lines = [e for e in log.all("rebased") if e.figures["pr"] == pr and (e.position.line or 0) < before]
    for event in lines[-1:]:
        yield "commit", _figure("rebased commit", event.figures["commit"], event.position, "commit")


def _figure(path: str, text: str, position: Position, fact: str) -> Statement:
    value = text if fact in _TEXT_FIGURES else Number(text)
    code = Code.FOREIGN_TIER if fact == "label" else None
    return Statement(Record.LOG, path, Leaf(value, position), code)
