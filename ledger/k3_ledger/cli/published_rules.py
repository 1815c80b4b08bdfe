"""Rules by name, where a ledger is at hand: those that are registered, and those that the ledger itself published."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.verify.log import VerifiedEntry


def load_rule_for(name: str, source: Path | None, also: Sequence[str] = ()) -> Rule:
    """A registered rule, one read from a file, or one that a ledger has published under that name.

    What is registered comes first. Of several entries of one name the newest that stands is meant, else the newest. The
    ledger is opened, and verified, only where nothing else has the name.

    Args:
        name: name or path.
        source: the ledger; None, or a foreign log, where there is none.
        also: words that the caller takes in the place of a rule, for the hint.

    Raises:
        LedgerError: no such rule, or not a rule file; or the ledger does not verify.
    """
    from k3_ledger.cli.material import is_foreign
    from k3_ledger.cli.rules import load_rule
    from k3_ledger.schemas.errors import RescoreError
    from k3_ledger.schemas.findings import Code

    try:
        return load_rule(name, also)
    except RescoreError as error:
        if error.finding.code is not Code.RULE_UNKNOWN or source is None or is_foreign(source):
            raise
        unknown = error.finding
    rules = read_published(source)
    for rule in reversed(rules):
        if rule.name == name:
            return rule
    names = list(dict.fromkeys(rule.name for rule in rules))
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    held = f"published by {source}: {', '.join(names)}" if names else f"{source} has published none"
    hint = f"{meant}{unknown.advice}; {held}"
    raise RescoreError(Code.RULE_UNKNOWN, unknown.message, found=unknown.found, hint=hint)


def describe_namesake(rule: Rule, published: Iterable[Rule] = ()) -> str | None:
    """That the name of a rule is another rule's, with both digests; None where it is not.

    Args:
        rule: whatever is to be called so.
        published: rules of a ledger, oldest first, whose names are taken there.
    """
    from k3_ledger.rescore.rules.registry import find_namesake

    other = find_namesake(rule.name, rule.sha256, published)
    if other is None:
        return None
    return f"{rule.name} is the name of another rule: that one is {other.sha256}, this one {rule.sha256}"


def read_published(ledger: Path) -> list[Rule]:
    """The rules that a ledger has published, those that no longer stand first, each in order.

    Raises:
        LedgerError: it cannot be read, or does not verify.
    """
    found = read_entries(ledger)
    return [rule for last in (False, True) for _, rule, stands in found if stands is last]


def read_entries(ledger: Path) -> list[tuple[VerifiedEntry, Rule, bool]]:
    """The rule entries of a ledger that were not taken back, in order, with their rules and whether they stand.

    One that does not stand need not be a rule, and is left out then: superseding it is what cures a ledger that holds
    one.

    Raises:
        LedgerError: it cannot be read, or does not verify.
    """
    from k3_ledger.cli.material import open_verified
    from k3_ledger.rescore.rule_entries import read_rule_entry
    from k3_ledger.rescore.standing import read_standing
    from k3_ledger.schemas.errors import RescoreError

    log = open_verified(ledger, judged=False)
    standing, found = read_standing(log), []
    for entry in (entry for entry in log.select(b'"kind":"rule"') if entry.entry.kind == "rule"):
        stands = standing.stands(entry.identity)
        try:
            found.append((entry, read_rule_entry(entry.entry.body, entry.index), stands))
        except RescoreError:
            if stands:
                raise
    return found
