"""A run that was imported more than once counts once, and for nothing where its imports differ, in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.material import DIFFERING
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import IN_FORCE, rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, Builder
from tests.rescore.receipts import pin_body, verified
from tests.rescore.test_claims import claim, decide, speed
from tests.rescore.test_claims_state import why
from tests.rescore.test_standing import seal, take_back
from tests.rescore.test_tiers_that_disagree import TRACK, Item, both, gathered, labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.material import Material
    from tests.commands import Done

HELD = speed("41.39").replace("decode@131072/k3-slice/bf16/node", TRACK)
PIN = "log.main.pin-kept."
READING = {"log.main.frontier.frontier": "35.63", f"{PIN}slot": "SPARKINFER_128K", f"{PIN}pin": "35.0"}


def imported(folder: str = "aaaa", *originals: str, receipt: str = "1f" * 16, **more: str) -> Item:
    """An import of a run whose originals have these first letters in their digests."""
    item = Item(folder, labels(), **{"receipt.receipt_id": receipt, **READING, **more})
    names = ("receipt.json", "result.json", "eval.log")
    item.body["artifacts"] = [
        {"name": f"runs/{folder}/{name}", "sha256": letter * 64, "size": 1, "media_type": "application/json"}
        for name, letter in zip(names, originals or ("d", "e"), strict=False)
    ]
    item.body["original_sha256"] = item.body["artifacts"][0]["sha256"]
    return item


ALIKE: dict[str, tuple[Item, ...]] = {
    "the same again": (imported(), imported()),
    "three times": (imported(), imported(), imported()),
    "in another folder": (imported(), imported("bbbb")),
    "without an id": (imported(receipt=""), imported(receipt="")),
    "with fewer records": (imported(), imported("bbbb", "d", **{"ledger.pr": "9"})),
    "with more records": (imported("bbbb", "d", **{"ledger.pr": "9"}), imported()),
}
DIFFERENT: dict[str, tuple[Item, ...]] = {
    "another receipt": (imported(), imported("aaaa", "c", "e", **{"sealed.tps": "99"})),
    "another receipt of that id": (imported(), imported("bbbb", "c", **{"sealed.tps": "99"})),
    "another record": (imported(), imported("aaaa", "d", "f", **{"ledger.kl": "0.01"})),
    "a record each": (imported(), imported("aaaa", "d", "f")),
    "other fields of the same bytes": (imported(), imported("aaaa", **{"sealed.tps": "99"})),
    "an id in other letters": (imported(), imported("bbbb", "c", receipt="1F" * 16)),
    "one of three": (imported(), imported(), imported("aaaa", "c")),
}
alike = pytest.mark.parametrize("what", ALIKE)
different = pytest.mark.parametrize("what", DIFFERENT)


def once(items: tuple[Item, ...]) -> Item:
    """The import that counts: the fullest."""
    return max(items, key=lambda item: len(item.body["artifacts"]))


def counted(material: Material) -> list[object]:
    """All that commands make of a material, but for where in it things stand."""
    report = rescore(material.candidates, IN_FORCE)
    measured = [(item.track, item.value, item.counts, item.said_by or "run") for item in material.measurements]
    return [
        [(row.candidate.run, row.before, row.change, row.result) for row in report.rows],
        [(climb.track, climb.value, climb.attempts, len(climb.steps)) for climb in derive_climbs(material)],
        [(item.value, item.accepted, item.pull_request) for item in list_evidence(material) if item.receipt],
        [(track, value, counts, said.partition(" of ")[0]) for track, value, counts, said in measured],
        decide(HELD, material).status,
        [decide(claim("accepted", f'receipt = "{name}"\n'), material).status for name in ("aaaa",)],
    ]


@alike
@both
def test_what_was_imported_again_counts_once(what: str, sealed: bool) -> None:
    items = ALIKE[what]
    alone, material = gathered(once(items), sealed=sealed), gathered(*items, sealed=sealed)
    assert counted(material) == counted(alone)
    assert material.unread == []
    assert len(material.repeats) == len(items) - 1
    assert alone.repeats == []
    assert decide(claim("accepted", 'receipt = "aaaa"\n'), material).status is Status.SUPPORTED


@alike
def test_a_run_is_known_by_the_name_of_each_of_its_imports(what: str) -> None:
    builder = Builder().open()
    names = [builder.add("import", item.body, LOG) for item in ALIKE[what]]
    material = gather(verified(builder))
    places = {names.index(one.identity) for one in material.candidates}
    assert places == {ALIKE[what].index(once(ALIKE[what]))}
    for name in (*names, *(item.body["foreign_id"] for item in ALIKE[what])):
        assert decide(claim("accepted", f'receipt = "{name}"\n'), material).status is Status.SUPPORTED
        assert decide(f'{HELD}receipt = "{name}"\n', material).status is Status.SUPPORTED
        assert sum(item.is_of(name) for item in material.measurements) == 1
    assert all(said.endswith(f"of entry {4 + places.pop()}: counted once") for said in material.repeats[:1])


@different
@both
def test_of_imports_that_differ_none_counts_for_or_against(what: str, sealed: bool) -> None:
    items = DIFFERENT[what]
    material = gathered(*items, sealed=sealed)
    assert [(one.voided, one.published) for one in material.candidates] == [(DIFFERING, None)] * len(items)
    assert material.repeats == []
    found = decide(claim("accepted", 'receipt = "aaaa"\n'), material)
    assert (found.status, "and not as the same" in why(found)) == (Status.AMBIGUOUS, True)
    assert decide(HELD, material).status is Status.AMBIGUOUS
    gain = decide(claim("gain", 'receipt = "aaaa"\npercent = 16.17\ntolerance = "rounding"\n'), material)
    assert gain.status is Status.AMBIGUOUS
    credit = 'gain_percent = 16.17\ncredited_percent = 31.2\ntolerance = "rounding"\n'
    assert decide(claim("credit", f'receipt = "aaaa"\n{credit}'), material).status is Status.AMBIGUOUS
    assert derive_climbs(material) == []
    assert [item.counts for item in material.measurements] == [False] * len(items)
    assert {row.change for row in rescore(material.candidates, IN_FORCE).rows} == {"not-comparable"}
    (finding,) = (one for one in material.unread if "none of them counts" in one.message)
    assert (finding.code, finding.position.index) == (
        Code.FOREIGN_CONTRADICTION, 3 + len(items) if sealed else None,
    )  # fmt: skip
    for number, item in enumerate(items):
        assert (f"entry {4 + number}" if sealed else item.body["foreign_id"]) in finding.message


@both
def test_two_runs_are_two(sealed: bool) -> None:
    """The control: of other receipts, of another format, or without an id and under other names."""
    apart = imported("aaaa")
    apart.body["format"] = "polaris/2"
    for other in (imported("bbbb", "c", receipt="2f" * 16), apart):
        material = gathered(imported(), other, sealed=sealed)
        assert [one.voided for one in material.candidates] == ["", ""]
        assert (material.repeats, material.unread) == ([], [])
    nameless = gathered(imported(receipt=""), imported("bbbb", receipt=""), sealed=sealed)
    assert (len(nameless.candidates), nameless.repeats) == (2, [])
    same_folder = gathered(imported(), imported("aaaa", receipt="2f" * 16), sealed=sealed)
    assert (len(same_folder.candidates), same_folder.repeats) == (2, [])


@pytest.mark.parametrize("items", [*ALIKE.values(), *DIFFERENT.values()], ids=[*ALIKE, *DIFFERENT])
def test_what_was_superseded_is_no_import_of_anything(items: tuple[Item, ...]) -> None:
    builder = Builder().open()
    *others, last = [builder.add("import", item.body, LOG) for item in items]
    for name in others:
        take_back(builder, name)
    material = gather(verified(builder))
    assert [(one.identity == last, one.voided) for one in material.candidates] == [
        *((False, "superseded") for _ in others), (True, ""),
    ]  # fmt: skip
    assert (material.repeats, material.unread) == ([], [])


def test_a_later_import_of_an_older_run_is_no_newer_measurement() -> None:
    builder = Builder().open()
    for item in (imported(), imported("cccc", "c", receipt="2f" * 16, **{"sealed.tps": "45"}), imported()):
        builder.add("import", item.body, LOG)
    material = gather(verified(builder))
    (climb,) = derive_climbs(material)
    assert [float(item.value) for item in material.measurements if item.receipt] == [41.39, 45]
    assert (float(climb.value), climb.attempts) == (45, 2)


def test_a_pin_may_name_any_import_of_its_run_and_verdicts_on_each_still_follow() -> None:
    builder = Builder().open()
    names = [builder.add("import", imported().body, LOG) for _ in range(2)]
    for name in names:
        builder.add("pin", pin_body(f"frontier:{TRACK}", "41.39", name), JUDGE)
        material = gather(verified(builder))
        report = reconcile_lock(material.pin_entries, material.measurements, merges=[])
        assert Code.PIN_UNSOURCED not in {finding.code for finding in report.findings}
    seal(builder, find_rule("v0.2.1"))
    assert not settle_judgements(verified(builder)).exit_code


@both
def test_what_one_import_alone_says_decides_nothing_about_all_runs(sealed: bool) -> None:
    honest, other = imported(), imported("bbbb", "c", **{"ledger.kl": "9", "sealed.kl": "9", "result.kl": "9"})
    more = {"receipt.attestation.measurements.primary.kl": "9", "sealed.tps": "99"}
    other.body["fields"] = [
        {"name": step["name"], "value": more.get(step["name"], step["value"])} for step in other.body["fields"]
    ]
    every = claim("every", 'what = "kl"\nmost = 0.5\n')
    assert decide(every, gathered(honest, sealed=sealed)).status is Status.SUPPORTED
    assert decide(every, gathered(other, sealed=sealed)).status is Status.CONTRADICTED
    material = gathered(honest, other, sealed=sealed)
    assert {one.voided for one in material.candidates} == {DIFFERING}
    found = decide(every, material)
    assert (found.status, "and not as the same" in why(found)) == (Status.AMBIGUOUS, True)
    far = imported(
        "cccc",
        "f",
        receipt="2f" * 16,
        **{step["name"]: step["value"] for step in other.body["fields"] if step["name"].endswith("kl")},
    )
    assert decide(every, gathered(honest, other, far, sealed=sealed)).status is Status.CONTRADICTED


@pytest.mark.parametrize(("what", "holds"), [("the same again", True), ("another receipt", False)])
def test_what_differs_wins_no_merge(what: str, holds: bool) -> None:
    builder = Builder().open()
    names = [builder.add("import", item.body, LOG) for item in (ALIKE | DIFFERENT)[what]]
    merge = {"pull_request": 7, "commit": "c" * 40, "slot": f"frontier:{TRACK}", "claimed": None, "run": names[1]}
    builder.add("merge", merge, JUDGE)
    (found,) = gather(verified(builder)).merges
    assert (found.sealed, found.value is not None) == (holds, holds)


COMMANDS = {
    "rescore": ("rescore", "led", "--rule", "in-force"),
    "claims": ("claims", "check", "claims.toml", "--against", "led"),
    "reconcile": ("reconcile", "led"),
    "frontier": ("frontier", "led"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("differ", [False, True])
def test_every_command_says_it(tmp_path: Path, command: Callable[..., Done], name: str, differ: bool) -> None:
    (tmp_path / "claims.toml").write_text(claim("accepted", 'receipt = "aaaa"\n'), encoding="utf-8")
    builder = Builder().open()
    for item in DIFFERENT["another receipt"] if differ else ALIKE["the same again"]:
        builder.add("import", item.body, LOG)
    (tmp_path / "led").mkdir()
    builder.write(tmp_path / "led")
    done = command(*COMMANDS[name])
    if differ:
        assert "imported 2 times, as entry 4 and entry 5, and not as the same: none of them counts" in done.err
        assert done.code == (1 if name == "claims" else 3)
    else:
        assert "note: entry 5 is another import of entry 4: counted once\n" in done.err
        assert done.code == 0
    if name == "rescore":
        found = command(*COMMANDS[name], "--json").json
        assert (len(found["repeated"]), len(found["runs"])) == ((0, 2) if differ else (1, 1))
