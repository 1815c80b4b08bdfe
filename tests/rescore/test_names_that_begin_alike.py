"""A name that several receipts begin with means none of them, whatever is claimed; a whole name means whose it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.replay import gather, gather_foreign
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.verify.polaris.to_import import ImportItem
from tests.ledgers import LOG, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, receipt, verified
from tests.rescore.test_claims import claim, decide, speed
from tests.rescore.test_claims_state import import_body
from tests.rescore.test_standing import seal

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.rescore.claims.check import Decision

SHARED: Final = 4
ROUNDING = 'tolerance = "rounding"\nmetric = "decode"\n'
KINDS: Final[dict[str, Callable[[str], str]]] = {
    "speed": lambda name: speed("60.0", f'receipt = "{name}"\n'),
    "speed of another": lambda name: speed("61.0", f'receipt = "{name}"\n'),
    "ratio": lambda name: claim(
        "ratio",
        f'track = "{DECODE}"\nagainst = "reference"\nratio = 1.5\ntolerance = "rounding"\nreceipt = "{name}"\n',
    ),
    "gain": lambda name: claim("gain", f'receipt = "{name}"\npercent = 20.0\n{ROUNDING}'),
    "credit": lambda name: claim(
        "credit",
        f'receipt = "{name}"\ngain_percent = 20.0\ncredited_percent = 20.0\n{ROUNDING}',
    ),
    "accepted": lambda name: claim("accepted", f'receipt = "{name}"\n'),
}


@pytest.fixture(scope="module")
def alike() -> tuple[Material, list[str]]:
    """A ledger two receipts of which begin alike: both of 60, or the second of something else altogether."""
    builder, names = house_ledger()
    by_start = {names["candidate"][:SHARED]: names["candidate"]}
    for number in range(4000):
        identity = builder.add("run", receipt(60.0, 500.0 + number / 100), RUNNER)
        other = by_start.setdefault(identity[:SHARED], identity)
        if other != identity:
            seal(builder, find_rule("house-1.decode"))
            return gather(verified(builder)), [other, identity]
    raise AssertionError("no two of 4000 begin alike")


def said(decision: Decision) -> str:
    assert decision.status is Status.AMBIGUOUS
    (part,) = decision.parts
    return part.why


@pytest.mark.parametrize("kind", KINDS)
def test_a_beginning_of_two_receipts_is_ambiguous_and_says_which(kind: str, alike: tuple[Material, list[str]]) -> None:
    material, two = alike
    start = two[0][:SHARED]
    assert start == two[1][:SHARED]
    shown = said(decide(KINDS[kind](start), material))
    assert shown.startswith(f"2 receipts begin with {start}: ")
    assert all(one[:8] in shown for one in two)
    for one in two:
        for digits in (SHARED + 4, 64):
            if sum(other.startswith(one[:digits]) for other in two) == 1:
                assert decide(KINDS[kind](one[:digits]), material).status is not Status.AMBIGUOUS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("imported", [False, True])
def test_so_is_a_beginning_of_the_ids_of_two_imported_runs(kind: str, imported: bool) -> None:
    bodies = [import_body(name, tps, f"2026-01-0{day}T00:00:00Z") for name, tps, day in
              (("aaaa11" * 5, "60", 1), ("aaaa22" * 5, "60", 2), ("aaaa", "50", 3))]  # fmt: skip
    builder = Builder().open()
    for body in bodies:
        builder.add("import", body, LOG)
    items = [ImportItem(body, {}) for body in bodies]
    material = gather(verified(builder)) if imported else gather_foreign(items)
    text = KINDS[kind]("aaaa1").replace(DECODE, "decode@131072/-/bf16/node")
    assert decide(text, material).parts[0].name != "receipt"
    short = text.replace('"aaaa1"', '"aaaa"')
    assert said(decide(short, gather_foreign(items[:2]))) == "2 receipts begin with aaaa: aaaa11aa, aaaa22aa"
    whole = decide(short, material)
    assert "begin with" not in " ".join(part.why for part in whole.parts), "the whole of one is that one"


def test_it_is_no_matter_what_the_other_measured_or_whether_it_stands(alike: tuple[Material, list[str]]) -> None:
    material, (one, other) = alike
    without = [item for item in material.facts if item.identity != other]
    runs = [item for item in material.candidates if item.identity != other]
    for changed in (
        replace(material, facts=without, candidates=runs),
        replace(material, facts=[replace(item, stands=item.identity != other) for item in material.facts]),
    ):
        assert said(decide(speed("60.0", f'receipt = "{one[:SHARED]}"\n'), changed))


def test_digits_enough_to_tell_them_apart_are_shown_and_no_more_than_five() -> None:
    names = [f"{'a' * 12}{number}{'b' * 19}" for number in range(7)]
    material = Material("made up", weights=dict.fromkeys(names))
    assert said(decide(speed("60.0", 'receipt = "aaaa"\n'), material)) == (
        "7 receipts begin with aaaa: " + ", ".join(f"{'a' * 12}{number}b" for number in range(5)) + ", …"
    )
