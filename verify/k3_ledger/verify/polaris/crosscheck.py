"""Every field that two records share, compared; and for every field, what stands behind it.

For each fact of a run (:mod:`k3_ledger.verify.polaris.facts`) all pairs of statements are compared. Statements with
the same value are one group, and every two groups that do not agree make one finding, which names all places. The
same comparison tells what each field rests on (:class:`Standing`).
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final, Self

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.compare import OPEN, Agreement, compare
from k3_ledger.verify.polaris.facts import FIGURES, documents, fact_of, is_blank, other_names
from k3_ledger.verify.polaris.foreign_json import Compound, join, number_of, show
from k3_ledger.verify.polaris.hashes import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris.facts import RunFacts, Statement
    from k3_ledger.verify.polaris.foreign_json import JsonTree
    from k3_ledger.verify.polaris.hashes import RunHashes
    from k3_ledger.verify.polaris.parse import Run

CODES: Final = {"commit": Code.FOREIGN_COMMIT, "frontier_commit": Code.FOREIGN_COMMIT}
"""Code of a disagreement about a fact; all others are contradictions."""
SHOWN: Final = 120
"""Longest value that a message shows, in characters."""


class Standing(enum.IntEnum):
    """What a field rests on. Where several apply to one field, the highest counts."""

    ALONE = 0, "carried by one record only; nothing binds it"
    COPIED = 1, "other records agree; nothing binds any of them"
    DISPUTED = 2, "another record that nothing binds disagrees"
    CONFIRMED = 3, "agrees with a field that is bound"
    REFUTED = 4, "disagrees with a field that is bound"
    BOUND = 5, "covered by a verified digest or signature"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """Keep the meaning beside the rank."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


@dataclass(slots=True)
class CrossChecks:
    """Counts and findings of a cross-check, over as many runs as were added.

    Attributes:
        agreements: pairs compared, by how they relate.
        standings: fields by record and path (see :func:`generic`), counted by what they rest on.
    """

    agreements: Counter[Agreement] = field(default_factory=Counter)
    standings: dict[tuple[Record, str], Counter[Standing]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def check_run(facts: RunFacts, hashes: RunHashes | None, out: CrossChecks) -> None:
    """Compare every field that two records of a run share, and see what binds each field."""
    run = facts.run
    bound = [] if hashes is None else hashes.bound
    standing: dict[tuple[Record, str, Position], Standing] = {}

    def is_bound(record: Record, path: str) -> bool:
        return any(part.covers(record, path) for part in bound)

    for record, document in documents(run):
        for path, leaf in document.leaves.items():
            covered = is_bound(record, path)
            standing[record, path, leaf.position] = Standing.BOUND if covered else Standing.ALONE
    for fact, statements in facts.facts.items():
        for one in statements:  # a figure of a log line, and the folder's name, stand in no document
            standing.setdefault((one.record, one.path, one.leaf.position), Standing.ALONE)
        for a, b in combinations(statements, 2):
            agreement = compare(fact, a.leaf.value, b.leaf.value)
            out.agreements[agreement] += 1
            for one, other in ((a, b), (b, a)):
                key = one.record, one.path, one.leaf.position
                level = _standing(agreement, one, other, other_bound=is_bound(other.record, other.path))
                standing[key] = max(standing.get(key, Standing.ALONE), level)
        if fact in FIGURES and all(isinstance(s.leaf.value, Compound) or is_blank(s.leaf.value) for s in statements):
            out.findings.extend(_hidden(run, fact, statements))
            continue
        bound_first = sorted(statements, key=lambda s: not is_bound(s.record, s.path))
        out.findings.extend(_disagreements(run, fact, bound_first))
    for (record, path, _), level in standing.items():
        out.standings.setdefault((record, generic(path)), Counter())[level] += 1


def check_printed(facts: RunFacts) -> Iterator[Finding]:
    """Everything else that the enclave printed as JSON, held against what is published.

    Another object with a tier or a verdict is another verdict, as is one with tier and speed inside an object; a figure
    without a verdict may be one on the way to the result.
    """
    names = other_names(facts.run)
    sealed = () if facts.run.sealed is None else (facts.run.sealed,)
    parts = [(document, "") for document in facts.run.printed]
    for document in (*sealed, *facts.run.printed):
        parts += [(document, f"{path}.") for path, tree in document.objects() if tree.keys() >= {"label", "tps"}]
    for document, prefix in parts:
        leaves = {path[len(prefix) :]: leaf for path, leaf in document.leaves.items() if path.startswith(prefix)}
        judges = not leaves.keys().isdisjoint(("label", "pass"))
        for path, leaf in leaves.items():
            fact = fact_of(Record.SEALED, path, names)
            published = None if fact is None else facts.first(fact)
            if published is None or fact is None:
                continue
            if compare(fact, leaf.value, published.leaf.value) is Agreement.DIFFER:
                expected, found = show(published.leaf.value)[:SHOWN], show(leaf.value)[:SHOWN]
                message = f"{facts.run.run_id}: {fact} is {expected} in {published.where}, "
                message += f"and {found} in another object of the sealed output"
                code = Code.FOREIGN_SEALED_VERDICT if judges else Code.FOREIGN_TWO_MEANINGS
                yield Finding(code, message, leaf.position, expected, found)


def check_copy(facts: RunFacts) -> Iterator[Finding]:
    """What the receipt's attestation states and ``attestation.json`` lacks; of a block that is not there, the block."""
    run = facts.run
    stated = None if run.receipt is None else run.receipt.object.get("attestation")
    if run.attestation is None or not isinstance(stated, dict):
        return
    for path in _lacking(stated, run.attestation.object, ""):
        message = f"{run.run_id}: attestation.json has no {path[:SHOWN]}, which the receipt states"
        yield Finding(Code.FOREIGN_BLANK_COPY, message, run.attestation.at(path))


def _lacking(stated: dict[str, JsonTree], copy: dict[str, JsonTree], path: str) -> Iterator[str]:
    for key, value in stated.items():
        below, other = join(path, key), copy.get(key)
        block = isinstance(value, dict) and value  # any other value is held against a blank one
        if other in (None, "") and value not in (None, "") and (block or key not in copy):
            yield below
        elif isinstance(value, dict) and isinstance(other, dict):
            yield from _lacking(value, other, below)


def _hidden(run: Run, fact: str, statements: list[Statement]) -> Iterator[Finding]:
    """Objects and lists under the name of a figure that no record states: nothing else can be held against them."""
    for statement in statements:
        if isinstance(statement.leaf.value, Compound):
            message = f"{run.run_id}: {fact} is no plain value in {statement.where}, nor in any other record"
            found = statement.leaf.value.text[:SHOWN]
            yield Finding(Code.FOREIGN_SHAPE, message, statement.leaf.position, expected="a plain value", found=found)


def _standing(agreement: Agreement, one: Statement, other: Statement, *, other_bound: bool) -> Standing:
    if agreement is Agreement.DIFFER:
        return Standing.REFUTED if other_bound else Standing.DISPUTED
    if agreement in OPEN:
        return Standing.ALONE
    if other_bound:
        return Standing.CONFIRMED
    return Standing.COPIED if one.record is not other.record else Standing.ALONE


def _disagreements(run: Run, fact: str, statements: list[Statement]) -> Iterator[Finding]:
    """One finding for every two groups of equal statements that do not agree; the better founded group comes first."""
    groups: dict[tuple[str, str, Code | None], list[Statement]] = {}
    for statement in statements:
        value = statement.leaf.value
        groups.setdefault((type(value).__name__, show(value), statement.code), []).append(statement)
    for first, second in combinations(groups.values(), 2):
        if first[0].code is not None and second[0].code is not None:
            continue  # each of the two is held against the published records
        agreement = compare(fact, first[0].leaf.value, second[0].leaf.value)
        if agreement is not Agreement.EQUAL:
            yield _finding(run, fact, agreement, first, second)


def _finding(run: Run, fact: str, agreement: Agreement, first: list[Statement], second: list[Statement]) -> Finding:
    code = first[0].code or second[0].code or CODES.get(fact, Code.FOREIGN_CONTRADICTION)
    if agreement is Agreement.ROUNDED:
        code = Code.FOREIGN_PRECISION_LOST
        left, right = number_of(first[0].leaf.value), number_of(second[0].leaf.value)
        assert left is not None
        assert right is not None
        if left.decimals < right.decimals:
            first, second = second, first
    if agreement is Agreement.NOT_COMPARED:
        code = Code.FOREIGN_NOT_COMPARED
    if agreement is Agreement.BLANK:
        code = Code.FOREIGN_BLANK_COPY
        if first[0].leaf.value in (None, ""):
            first, second = second, first
    expected, found = (show(group[0].leaf.value) for group in (first, second))
    here, there = (", ".join(dict.fromkeys(statement.where for statement in group)) for group in (first, second))
    message = f"{run.run_id}: {fact} is {expected[:SHOWN]} in {here}; {found[:SHOWN] or 'blank'} in {there}"
    return Finding(code, message, second[0].leaf.position, expected[:SHOWN], found[:SHOWN])


def generic(path: str) -> str:
    """A path without list positions and without the depth of a parity figure."""
    return re.sub(r"\bctx[0-9]+\b", "ctx*", path)
