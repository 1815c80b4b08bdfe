"""What the names of folders say of the runs in them.

Some logs name a folder by the pull request and the commit of its run. That counts as said where it holds for half of
the folders at least of which another record states the same fact: elsewhere the parts of a name may be something else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from k3_ledger.verify.polaris.compare import Agreement, compare
from k3_ledger.verify.polaris.facts import RunFacts, Statement, facts_of
from k3_ledger.verify.polaris.foreign_json import Leaf
from k3_ledger.verify.polaris.hashes import Record
from k3_ledger.verify.polaris.parts import value_of

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.parse import RunLog

NAMED: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9.]*-)*(?P<pr>[0-9]{1,9})-(?P<commit>[0-9a-f]{7,40})")
"""A folder that is named by a pull request and a commit, with words in front; groups are facts."""


def view(log: RunLog) -> list[RunFacts]:
    """Every run of a log with its facts, in the log's order."""
    runs = [RunFacts(run, facts_of(run)) for run in log.runs]
    named = [(run, match) for run in runs if run.run.files and (match := NAMED.fullmatch(run.run.run_id))]
    for fact in NAMED.groupindex:
        said = [(run, _said(run, match, fact)) for run, match in named]
        held = [_holds(run, fact, statement) for run, statement in said if run.first(fact) is not None]
        if 2 * sum(held) >= len(held) > 0:
            for run, statement in said:
                run.facts.setdefault(fact, []).append(statement)
    return runs


def _said(run: RunFacts, match: re.Match[str], fact: str) -> Statement:
    return Statement(Record.NAME, fact, Leaf(value_of(fact, match[fact]), run.run.place))


def _holds(run: RunFacts, fact: str, said: Statement) -> bool:
    """Whether any record of the run states the same."""
    return any(compare(fact, said.leaf.value, other.leaf.value) is Agreement.EQUAL for other in run.facts[fact])
