"""Records of an imported run that disagree about its tier: no copy of it counts, for the run or against it."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.imported import list_unreadable, read_import
from k3_ledger.rescore.material import CONTESTED
from k3_ledger.rescore.replay import gather, gather_foreign
from k3_ledger.rescore.rescore import IN_FORCE, rescore
from k3_ledger.schemas.findings import Code
from tests.ledgers import LOG, Builder
from tests.rescore.receipts import verified
from tests.rescore.test_claims import claim, decide, speed
from tests.rescore.test_claims_state import why
from tests.rescore.test_imported import FIELDS

if TYPE_CHECKING:
    from k3_ledger.rescore.material import Material
    from k3_ledger.verify.polaris import ImportItem

COPIES = ("ledger.label", "index.label", "result.label", "logged.label", "receipt.attestation.verdict.label")
TRACK = "decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
FORGED = [(name, tier) for name in COPIES for tier in ("XL", "REJECT")]
one_word = pytest.mark.parametrize(("name", "tier"), FORGED)


class Item:
    """What an import of one run would add."""

    def __init__(self, foreign_id: str, labels: dict[str, str], **more: str) -> None:
        fields = {key: value for key, value in FIELDS.items() if not key.endswith("label")} | labels | more
        self.body: dict[str, Any] = {
            "format": "polaris/1", "foreign_id": foreign_id, "original_sha256": "d" * 64, "attestation": "tdx-quote",
            "findings": [],
            "artifacts": [{"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}],
            "fields": [{"name": key, "value": value} for key, value in sorted(fields.items())],
        }  # fmt: skip


def labels(name: str = "", tier: str = "") -> dict[str, str]:
    """A tier in every record, and one of them with another word: all honest but that."""
    honest = {"XL": "REJECT", "REJECT": "XL", "": "XL"}[tier]
    return dict.fromkeys(COPIES, honest) | ({name: tier} if name else {})


def gathered(*items: Item, sealed: bool) -> Material:
    """What is judged: of the log itself, or of a ledger that it was imported into."""
    if not sealed:
        found: list[ImportItem] = list(items)  # type: ignore[arg-type]
        return gather_foreign(found)
    builder = Builder().open()
    for item in items:
        builder.add("import", item.body, LOG)
    return gather(verified(builder))


both = pytest.mark.parametrize("sealed", [False, True])


@one_word
@both
def test_one_word_in_one_record_accepts_no_run_and_refuses_none(name: str, tier: str, sealed: bool) -> None:
    material = gathered(Item("aaaa", labels(name, tier)), sealed=sealed)
    (one,) = material.candidates
    assert (one.published, one.voided) == (None, CONTESTED)
    accepted = decide(claim("accepted", 'receipt = "aaaa"\n'), material)
    assert accepted.status is Status.AMBIGUOUS
    assert f"{tier} in {name}" in why(accepted)
    held = decide(speed("41.39").replace("decode@131072/k3-slice/bf16/node", TRACK), material)
    assert (held.status, why(held)) == (Status.AMBIGUOUS, f"only {held.evidence[0].says} holds it")
    assert CONTESTED in why(held)
    for kind, more in (("gain", "percent = 16.17\n"), ("credit", "gain_percent = 16.17\ncredited_percent = 31.2\n")):
        found = decide(claim(kind, f'receipt = "aaaa"\n{more}tolerance = "rounding"\n'), material)
        assert found.status is Status.AMBIGUOUS, why(found)
    assert [item for item in list_evidence(material) if item.accepted and item.receipt] == []
    assert derive_climbs(material) == []
    assert [item.counts for item in material.measurements if item.receipt] == [False]


@one_word
@both
def test_the_disagreement_is_named_with_every_copy(name: str, tier: str, sealed: bool) -> None:
    (found,) = gathered(Item("aaaa", labels(name, tier)), sealed=sealed).unread
    assert (found.code, found.position.source) == (Code.FOREIGN_CONTRADICTION, "aaaa")
    assert all(copy in found.message for copy in COPIES)
    assert found.position.index == (4 if sealed else None)


@both
def test_records_that_agree_decide_as_they_did(sealed: bool) -> None:
    """The control: whichever copies there are, and whether what is sealed says another word."""
    for count in range(1, len(COPIES) + 1):
        for names in combinations(COPIES, count):
            for tier, status in (("XL", Status.SUPPORTED), ("REJECT", Status.CONTRADICTED)):
                item = Item("aaaa", dict.fromkeys(names, tier), **{"sealed.label": "REJECT", "result.label2": "S"})
                material = gathered(item, sealed=sealed)
                assert (material.candidates[0].published, material.unread) == (tier, [])
                assert decide(claim("accepted", 'receipt = "aaaa"\n'), material).status is status


def test_a_blank_copy_disagrees_with_nobody() -> None:
    fields = {**FIELDS, **labels(), "ledger.label": ""}
    run = read_import("x", fields)
    assert run is not None
    assert (run.published, run.contested, list_unreadable("x", fields)) == ("XL", "", [])


def test_a_run_that_is_contested_takes_no_other_one_with_it() -> None:
    good, odd = Item("aaaa", labels()), Item("bbbb", labels("result.label", "REJECT"), **{"sealed.tps": "50"})
    material = gathered(good, odd, sealed=False)
    held = speed("41.39").replace("decode@131072/k3-slice/bf16/node", TRACK)
    assert decide(held, material).status is Status.SUPPORTED
    both_hold = gathered(good, Item("bbbb", labels("result.label", "REJECT")), sealed=False)
    assert decide(held, both_hold).status is Status.SUPPORTED
    assert [climb.value for climb in derive_climbs(material, metric="decode")] == [material.candidates[0].run.speed]
    by_request = held + "pull_request = 107\n"
    assert decide(by_request, gathered(odd, sealed=False)).status is Status.CONTRADICTED, "it measured something else"
    elsewhere = gathered(Item("cccc", labels("result.label", "REJECT"), **{"ledger.pr": "9"}), sealed=False)
    assert decide(by_request, elsewhere).status is not Status.AMBIGUOUS, "it is of another pull request"


def test_a_contested_run_that_was_superseded_is_superseded() -> None:
    material = gathered(Item("aaaa", labels("result.label", "REJECT"), **{"ledger.superseded_by": "b"}), sealed=False)
    assert material.candidates[0].voided == "superseded"
    assert why(decide(claim("accepted", 'receipt = "aaaa"\n'), material)).endswith("no longer stands")


def test_a_run_whose_tier_nobody_knows_is_judged_and_compared_with_nothing() -> None:
    (row,) = rescore(gathered(Item("aaaa", labels("result.label", "REJECT")), sealed=False).candidates, IN_FORCE).rows
    assert (row.before, row.change) == (None, "not-comparable")


@pytest.mark.parametrize("spelled", ["reject", "Reject", "rEJECT"])
@both
def test_a_tier_in_other_letters_is_that_tier(spelled: str, sealed: bool) -> None:
    """The audit takes it for the same: it neither refuses a run less, nor disagrees with what rules spell."""
    for refused in (dict.fromkeys(COPIES, spelled), dict.fromkeys(COPIES, "REJECT") | {COPIES[0]: spelled}):
        material = gathered(Item("aaaa", refused), sealed=sealed)
        assert (material.candidates[0].published, material.unread) == ("REJECT", [])
        assert decide(claim("accepted", 'receipt = "aaaa"\n'), material).status is Status.CONTRADICTED
        held = speed("41.39").replace("decode@131072/k3-slice/bf16/node", TRACK)
        assert decide(held, material).status is Status.CONTRADICTED
        assert derive_climbs(material) == []
    accepted = gathered(Item("bbbb", labels() | {"result.label": "xl"}), sealed=sealed)
    assert (accepted.candidates[0].published, accepted.unread) == ("XL", [])
    first = gathered(Item("dddd", dict.fromkeys(COPIES, "baseline")), sealed=sealed)
    assert first.candidates[0].published == "BASELINE"
    untold = gathered(Item("cccc", dict.fromkeys(COPIES, "None")), sealed=sealed)
    assert decide(claim("accepted", 'receipt = "cccc"\n'), untold).status is Status.CONTRADICTED, "none is no tier"
