"""Find a rule by name or by moment. A name that is not registered is refused with the names that are."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.history.rules import CHANGES, RELEASES, released
from k3_ledger.rescore.rules.house import HOUSE_RULES
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from k3_ledger.rescore.rules.parameters import Rule

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        *(change.rule for change in CHANGES if change.rule),
        *(released(release) for release in RELEASES),
        *HOUSE_RULES,
    )
}
"""Every registered rule by name: interim rules in the order of their commits, releases, and this project's own."""

ALIASES: Final[dict[str, str]] = {
    "pre-0.1.0": "v0.1.0@fb8e012",
    "v0.2.1+prefill": "v0.2.2@f561299",
    **{
        f"{release.tag}@{release.commit}": release.tag
        for release in RELEASES
        if f"{release.tag}@{release.commit}" not in RULES
    },
}
"""Other names of registered rules: names in use elsewhere for rules that were never tagged, and tags by commit."""

SHIPPED_LATER: Final[frozenset[str]] = frozenset({"house-7.decode", "house-7.prefill"})
"""Registered names that ledgers of before may have given to a rule of their own: there they stay its names. Whoever
registers a name adds it here; those that are not here were registered before anybody could have taken them."""
_OF_RELEASES: Final = re.compile(r"house-[0-9]+(\..+)?|v[0-9]+(\.[0-9]+)*([+@].+)?")


def find_rule(name: str, also: Sequence[str] = ()) -> Rule:
    """The rule of that name, release tag, interim id or alias.

    Args:
        name: what to look for.
        also: words that the caller takes in the place of a rule, for the hint.

    Raises:
        RescoreError: ``K3L-RULE-UNKNOWN``, listing the rules that exist.
    """
    rule = RULES.get(ALIASES.get(name, name))
    if rule is None:
        known = [*also, *RULES]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? registered: {', '.join(known)}" if near else f"registered: {', '.join(known)}"
        raise RescoreError(Code.RULE_UNKNOWN, f"no rule is named {name[:80]!r}", found=name[:80], hint=hint)
    return rule


def find_namesake(name: str, sha256: str, published: Iterable[Rule] = ()) -> Rule | None:
    """The rule that has a name which somebody gives to another one; None where the name is free, or the rule the same.

    Args:
        name: the name, which may be an alias.
        sha256: digest of the rule that is called so.
        published: further rules whose names are taken, oldest first; the first of a name has it, also before
            a registered one that was shipped later.
    """
    registered = RULES.get(ALIASES.get(name, name))
    first = next((rule for rule in published if rule.name == name), None)
    owner = (first or registered) if name in SHIPPED_LATER else (registered or first)
    return None if owner is None or owner.sha256 == sha256 else owner


def names_by_digest(published: Iterable[Rule] = ()) -> dict[str, frozenset[str]]:
    """What the rules of a digest are called: two that say the same are one rule, whichever name a verdict has.

    Args:
        published: rules beside the registered ones.
    """
    names: dict[str, set[str]] = {}
    for rule in (*RULES.values(), *published):
        names.setdefault(rule.sha256, set()).add(rule.name)
    for alias, name in ALIASES.items():
        names[RULES[name].sha256].add(alias)
    return {digest: frozenset(found) for digest, found in names.items()}


def is_of_a_release(name: str) -> bool:
    """Whether a name is kept for rules that are registered, now or later, so that nobody's own is to be called so."""
    return name in RULES or name in ALIASES or _OF_RELEASES.fullmatch(name) is not None


def name_by_digest(rule: Rule) -> str:
    """How a rule stands to the registered ones: by its digest, which no name can change.

    Returns:
        ``registered``, ``registered as NAME``, ``NAME with other pins``, ``not the registered rule of its name``, or
        ``its own``.
    """
    same = [known.name for known in RULES.values() if known.sha256 == rule.sha256]
    if same:
        released = min(same, key=lambda name: "@" in name)
        return "registered" if rule.name in same else f"registered as {released}"
    if rule.name in RULES and RULES[rule.name].policy_sha256 != rule.policy_sha256:
        return "not the registered rule of its name"
    for known in reversed(RULES.values()):
        if known.policy_sha256 == rule.policy_sha256:
            return f"{known.name} with other pins"
    return "its own"


def in_force(at: datetime, commit: str | None = None) -> Rule:
    """The rule that was in force at a moment, or, where the table knows the commit, right after that commit.

    Args:
        at: when the frontier that was scored against was current, with a time zone.
        commit: commit of that frontier, seven hex digits or more; wins over ``at`` when the table has it.

    Raises:
        RescoreError: ``K3L-RULE-MOMENT`` when ``at`` is before the first rule.
        ValueError: ``at`` has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError("a moment without a time zone is no moment")
    named = [change.since for change in CHANGES if commit and commit.startswith(change.commit)]
    until = named[0] if named else at
    rules = [change.rule for change in CHANGES if change.rule and change.since <= until]
    if not rules:
        raise RescoreError(
            Code.RULE_MOMENT,
            f"no rule was in force at {at.isoformat()}",
            expected=f"{CHANGES[0].since.isoformat()} or later",
            found=at.isoformat(),
        )
    return rules[-1]
