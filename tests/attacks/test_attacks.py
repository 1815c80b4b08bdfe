"""Every attack on every ledger: found with the right class, by the check that is named, and by no accident.

Each fault is committed twice: before the verifier as it is, and before one whose named check finds nothing. The second
time it has to pass, or to run into the check that the fault names as standing behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.report import STEPS
from tests.attacks import checks, registry
from tests.attacks.page import PAGES, ROOT, page
from tests.attacks.world import World, build, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.registry import Attack

ATTACKS = registry.load()
DETECTED = [each for each in ATTACKS if each.outcome == "detected"]
ELSEWHERE = frozenset(
    {"", "policy", "mirror", "archive", "audit", "memory file", "claims", "proposal", "witness", "reconcile"}
)
"""What speaks up where it is no numbered step."""


@pytest.fixture(scope="module", params=["built", "written"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return build() if request.param == "built" else write(tmp_path_factory.mktemp("world"))


def each(attacks: list[Attack] | tuple[Attack, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", attacks, ids=[attack.name for attack in attacks])


def test_the_honest_ledger_verifies_without_a_finding(world: World) -> None:
    found = world.sealed().run()
    assert (found.codes, found.exit) == (frozenset(), 0)


@each(ATTACKS)
def test_an_attack_comes_to_what_its_file_says(
    attack: Attack, world: World, record_property: Callable[[str, object], None]
) -> None:
    record_property("attack", f"{attack.attacker} {attack.name} {attack.outcome}")
    found = registry.GENERATORS[attack.name](world.copy()).run()
    assert (found.codes, found.exit) == (attack.codes, attack.exit)


@each([attack for attack in ATTACKS if attack.check])
def test_it_is_the_named_check_that_decides(attack: Attack, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with checks.disabled(attack.check, monkeypatch):
        found = registry.GENERATORS[attack.name](world.copy()).run()
    if attack.outcome == "detected":
        assert attack.code not in found.codes
    if attack.then == "passes":
        assert found.exit == 0
    else:
        assert attack.then in found.codes
        assert found.exit != 0


def test_every_fault_has_its_generator_and_every_generator_its_fault() -> None:
    assert {attack.name for attack in ATTACKS} == set(registry.GENERATORS)


@each(ATTACKS)
def test_a_fault_says_all_that_there_is_to_say(attack: Attack) -> None:
    known = {code.id: code for code in Code}
    assert attack.attacker in registry.ATTACKERS
    assert attack.step in {name for name, _ in STEPS} | ELSEWHERE
    assert attack.codes <= known.keys()
    if attack.outcome == "detected":
        assert attack.code
        assert attack.step
        assert attack.exit == int(known[attack.code].info.exit) or attack.exit
        assert attack.check, "what finds it is named, and switched off once"
        assert attack.then == "passes" or attack.then in known
    else:
        assert attack.why, "what passes has a reason"
        assert attack.exit == 0


def test_every_check_that_can_be_switched_off_is_met_by_an_attack() -> None:
    assert {attack.check for attack in ATTACKS} - {""} == set(checks.CHECKS)


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_say_what_the_faults_say(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == page(name, ATTACKS), "python -m tests.attacks.page"


def test_what_fooled_others_is_tried_here() -> None:
    text = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8").partition("## Every attack")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| there", "| ---"))]
    named = [re.findall(r"`([a-z0-9-]+)`", row.rsplit("|", 2)[1]) for row in rows]
    assert len(rows) >= 24
    assert all(named)
    assert {name for row in named for name in row} <= {attack.name for attack in ATTACKS}
