"""Writes what docs/threat-model.md and docs/attacks.md say of each attacker: ``python -m tests.attacks.page``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.attacks import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.attacks.registry import Attack

ROOT: Final = Path(__file__).resolve().parent.parent.parent
BEGIN: Final = "<!-- begin: python -m tests.attacks.page -->"
END: Final = "<!-- end -->"
WHO: Final = {
    "host": "who holds the files: a host, a courier, a disk",
    "author": "an outsider with keys of his own",
    "runner": "a thief of a runner's key",
    "judge": "a thief of a judge's key",
    "log": "a log operator who lies, or a thief of the log key",
    "root": "a thief of a root key, or of fewer than the threshold asks for",
    "mirror": "who runs a mirror",
    "witness": "who runs witnesses",
    "machine": "who runs the machine that measures",
    "publisher": "who publishes a foreign log that is imported",
    "claimant": "who publishes numbers",
    "reader": "who can write the reader's own files",
}


def page(name: str, attacks: Sequence[Attack]) -> str:
    """The page as it should be: what stands between the marks is made anew."""
    before, _, rest = (ROOT / name).read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, mark, after = rest.partition(END)
    assert mark, f"{name} has no place for the tables"
    return before + f"{BEGIN}\n\n" + "\n".join(PAGES[name](attacks)) + f"\n\n{mark}" + after


def _summary(attacks: Sequence[Attack]) -> Iterator[str]:
    """One row an attacker."""
    yield "| attacker | tried | detected | by the step | not detected |"
    yield "| --- | --- | --- | --- | --- |"
    for attacker in registry.ATTACKERS:
        his = [attack for attack in attacks if attack.attacker == attacker]
        found = [attack for attack in his if attack.outcome == "detected"]
        steps = Counter(attack.step for attack in found)
        by = ", ".join(f"{step} {count}" for step, count in sorted(steps.items(), key=lambda item: (-item[1], item[0])))
        missed = "; ".join(f"{attack.changes} ({attack.why})" for attack in his if attack.outcome == "undetected")
        yield f"| {WHO[attacker]} | {len(his)} | {len(found)} | {by or '-'} | {missed or '-'} |"


def _counted(attacks: Sequence[Attack]) -> str:
    """How many there are, and how many of those that are detected are made again without the check that they name."""
    kinds = Counter(attack.outcome for attack in attacks)
    named = sum(attack.outcome == "detected" and bool(attack.check) for attack in attacks)
    return (
        f"{len(attacks)} attacks: {kinds['detected']} detected, {kinds['ignored']} without effect, "
        f"{kinds['undetected']} undetected. Of those that are detected, {named} name the check that finds them."
    )


def _all(attacks: Sequence[Attack]) -> Iterator[str]:
    """Every attack, by attacker."""
    yield _counted(attacks)
    yield ""
    for attacker in registry.ATTACKERS:
        yield f"### {WHO[attacker][0].upper()}{WHO[attacker][1:]}"
        yield ""
        yield "| name | he holds | he | found by | finding | exit | without that check |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for attack in attacks:
            if attack.attacker != attacker:
                continue
            if attack.outcome == "detected":
                found = f"`{attack.check}`, {attack.step}" if attack.step else f"`{attack.check}`"
                code = f"`{attack.code}`"
            elif attack.outcome == "ignored":
                found, code = f"no need: {attack.why}", "-"
            else:
                found, code = f"**nothing**: {attack.why}", "-"
            then = "-" if not attack.then else "passes" if attack.then == "passes" else f"`{attack.then}`"
            yield f"| `{attack.name}` | {attack.holds} | {attack.changes} | {found} | {code} | {attack.exit} | {then} |"
        yield ""


PAGES: Final = {
    "docs/threat-model.md": _summary,
    "docs/attacks.md": lambda attacks: list(_all(attacks))[:-1],
}


def main() -> None:
    """Write both pages."""
    attacks = registry.load()
    for name in PAGES:
        (ROOT / name).write_text(page(name, attacks), encoding="utf-8")


if __name__ == "__main__":
    main()
