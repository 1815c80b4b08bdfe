"""The twenty published figures, each decided with its reasons; and every way a claim can stand or fall."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.check import check_claims
from k3_ledger.rescore.claims.reading import Claim, read_claims
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.inputs import Figure, Parity, RunInputs
from k3_ledger.rescore.material import Candidate, Judged, Material
from k3_ledger.rescore.replay import gather, gather_foreign
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.slots import Track
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Position
from k3_ledger.verify.polaris import audit, parse_log, to_import
from tests.ledgers import JUDGE, RUNNER
from tests.rescore.receipts import DECODE, house_ledger, receipt, series, verified
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.claims.check import Decision

TWENTY = {
    "1": (Status.UNSEALED, "the round's log of af4d983d has it"),
    "2": (Status.UNSEALED, "no receipt does; receipt af4d983d of #49 measured 4.50"),
    "3": (Status.UNSEALED, "no receipt does; receipt 36cc3b34 of #57 measured 9.19"),
    "4": (Status.UNSEALED, "no receipt does; receipt 67e28880 of #59 measured 17.51"),
    "5": (Status.UNSEALED, "no receipt does; receipt 3e5a96d5 of #67 measured 18.15"),
    "6": (Status.UNSEALED, "16.7026 is the pin written in commit e2125da, no receipt"),
    "7": (Status.UNSEALED, "18.87 / 1.01 is 18.683; 1.01 is the round's log of af4d983d"),
    "8a": (Status.SUPPORTED, "so for all 17 runs"),
    "8b": (Status.NO_RECEIPT, "nothing measured this at all"),
    "9": (Status.NO_RECEIPT, "94.08 / 24.25 is 3.880, from figures that nothing holds"),
    "10": (Status.UNSEALED, "41.39 / 18.4435 is 2.2442"),
    "11": (Status.AMBIGUOUS, "receipt c1199812 gained +4.17 %, receipt 446e6eb4 (superseded) gained -31.54 %"),
    "12": (Status.CONTRADICTED, "receipt 6c5bb4ad was credited +23.71 %"),
    "13": (Status.UNSEALED, "56.82 / 18.4435 is 3.0808"),
    "14": (Status.CONTRADICTED, "v0.2.1 leaves 9 runs lower, with own pins"),
    "15": (Status.NO_RECEIPT, "nearest is 98.80, the pin written by hand in commit 5315443"),
    "16": (Status.NO_RECEIPT, "nearest is 59.92, the guarded value in receipt 091146e0 of #148 (REJECT)"),
    "17": (Status.CONTRADICTED, "receipt 091146e0 is REJECT, kl 2.673132"),
    "18": (Status.STALE, "the pin was 31.4 % off: stale"),
    "19": (Status.CONTRADICTED, "not so for 51 of 51 runs: receipt 89fb50be has tdx-quote"),
    "20a": (Status.CONTRADICTED, "not so for 49 of 51 runs: receipt 89fb50be has 0.9"),
    "20b": (Status.CONTRADICTED, "not so for 10 of 51 runs: receipt 89fb50be has 0.2"),
}


def test_each_of_the_twenty_published_figures_is_decided_with_a_reason(test_data: Callable[..., Path]) -> None:
    root = test_data("data", "sparkinfer-k3-log")
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    material = gather_foreign(to_import(parse_log(files), files, audit(files)))
    path = ROOT / "docs" / "examples" / "claims" / "sparkinfer.toml"
    report = check_claims(read_claims(path.read_bytes(), source=path.name), material)
    for decision in report.decisions:
        status, reason = TWENTY[decision.claim.id]
        assert decision.status is status, decision
        assert any(reason in part.why for part in decision.parts), decision
    assert [decision.claim.id for decision in report.decisions] == list(TWENTY)
    assert report.exit_code is ExitCode.FALSE


# ------------------------------------------------------------------------------------------------- native claims

HEAD = f'[[claim]]\nid = "a"\nsays = "x"\nkind = "speed"\ntrack = "{DECODE}"\n'


def decide(text: str, material: Material) -> Decision:
    (decision,) = check_claims(read_claims(text.encode(), source="claims.toml"), material).decisions
    return decision


@pytest.fixture
def material() -> Material:
    return gather(verified(house_ledger()[0]))


def speed(value: str, more: str = "", tolerance: str = '"rounding"') -> str:
    return f"{HEAD}value = {value}\ntolerance = {tolerance}\n{more}"


def test_a_value_that_a_receipt_holds_is_supported_and_can_be_proved(material: Material) -> None:
    decision = decide(speed("60.0"), material)
    assert decision.status is Status.SUPPORTED
    (evidence,) = decision.evidence
    assert (evidence.index, evidence.sealed) == (8, True)
    assert decision.parts[0].why == f"receipt {str(evidence.receipt)[:8]}, entry 8 holds it"


@pytest.mark.parametrize(
    ("value", "tolerance", "status"),
    [
        ("60.04", '"rounding"', Status.NO_RECEIPT),
        ("60", '"rounding"', Status.SUPPORTED),
        ("60.5", '"rounding"', Status.NO_RECEIPT),
        ("60.5", "0.01", Status.SUPPORTED),
        ("62.5", "0.04", Status.SUPPORTED),
        ("62.5001", "0.04", Status.NO_RECEIPT),
        ("60", "0", Status.SUPPORTED),
    ],
)
def test_tolerance_is_a_share_or_half_of_the_last_place(
    material: Material, value: str, tolerance: str, status: Status
) -> None:
    assert decide(speed(value, tolerance=tolerance), material).status is status


def test_a_ratio_is_computed_again_from_both_sides(material: Material) -> None:
    good = decide(speed("60.0", 'ratio = 1.5\nagainst = "reference"\n'), material)
    assert good.status is Status.SUPPORTED
    assert good.parts[1].why == "60.00 / 40 is 1.500"
    inflated = decide(speed("60.0", 'ratio = 1.6\nagainst = "reference"\n'), material)
    assert (inflated.status, inflated.parts[1].why) == (Status.CONTRADICTED, "60.00 / 40 is 1.500, not 1.6")
    assert (
        decide(speed("60.0", 'ratio = 1.5\nagainst = "vllm"\n'), material)
        .parts[1]
        .why.startswith("nothing measured vllm")
    )


def test_a_ratio_of_the_wrong_direction_is_contradicted(material: Material) -> None:
    less = decide(speed("60.0", 'ratio = 0.667\nagainst = "reference"\ninverse = true\n'), material)
    assert (less.status, less.parts[1].why) == (Status.SUPPORTED, "40 / 60.00 is 0.66667")
    assert (
        decide(speed("60.0", 'ratio = 1.5\nagainst = "reference"\ninverse = true\n'), material).status
        is Status.CONTRADICTED
    )


def test_a_climb_needs_both_ends(material: Material) -> None:
    held = decide(speed("60.0", 'start = 50\nratio = 1.2\nagainst = "start"\n'), material)
    assert [part.status for part in held.parts] == [Status.SUPPORTED] * 3
    loose = decide(speed("60.0", 'start = 30\nratio = 2.0\nagainst = "start"\n'), material)
    assert [part.status for part in loose.parts] == [Status.SUPPORTED, Status.NO_RECEIPT, Status.NO_RECEIPT]


def test_a_ratio_against_the_floor_of_the_same_receipt() -> None:
    builder, _ = house_ledger()
    ours = series("verify", "controller", [(1000, 1.25), (1000, 1.2), (1000, 1.3)], context=None, context_filled=None)  # type: ignore[arg-type]
    floor = {**series("verify", "controller", [(1000, 1.0)], context=None, context_filled=None), "actor": "floor"}  # type: ignore[arg-type]
    other = {**floor, "samples": [{"start_ns": 0, "duration_ns": 10**8, "count": 1000}]}
    builder.add("run", receipt(timing=[ours, floor], parity=None, model=None), RUNNER)
    builder.add("run", receipt(timing=[other], parity=None, model=None), RUNNER)
    found = gather(verified(builder))
    text = speed("800").replace(DECODE, "verify@-/-/-/node")
    decision = decide(text + 'ratio = 1.25\nagainst = "floor"\ninverse = true\n', found)
    assert (decision.status, decision.parts[1].why) == (Status.SUPPORTED, "1000 / 800.00 is 1.2500")
    assert (
        decide(text.replace("800", "10000").replace("track", 'actor = "floor"\ntrack'), found).status
        is Status.SUPPORTED
    )


def test_the_newest_value_is_newest_until_another_is_measured() -> None:
    builder, _ = house_ledger()
    claim = speed("60.0", "current = true\n")
    assert decide(claim, gather(verified(builder))).status is Status.SUPPORTED
    builder.add("run", receipt(70.0), RUNNER)
    stale = decide(claim, gather(verified(builder)))
    assert (stale.status, stale.parts[0].status) == (Status.STALE, Status.SUPPORTED)
    assert stale.parts[1].why.endswith("entry 9 measured 70.00 since")
    nothing = decide(claim.replace("decode@131072", "decode@4"), gather(verified(builder)))
    assert [part.status for part in nothing.parts] == [Status.NO_RECEIPT, Status.NO_RECEIPT]


def test_two_receipts_of_one_value_are_ambiguous_until_one_is_named() -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(60.0, 501.0), RUNNER)
    found = gather(verified(builder))
    assert decide(speed("60.0"), found).status is Status.AMBIGUOUS
    named = f'receipt = "{names["candidate"][:12]}"\n'
    assert decide(speed("60.0", named), found).status is Status.SUPPORTED
    assert decide(speed("61.0", named), found).status is Status.CONTRADICTED
    assert decide(speed("60.0", 'receipt = "ffff"\n'), found).status is Status.NO_RECEIPT


@pytest.mark.parametrize("how", ["supersede", "verdict"])
def test_a_refused_or_superseded_run_supports_nothing(how: str) -> None:
    builder, names = house_ledger()
    if how == "supersede":
        builder.add("supersede", {"target": names["candidate"], "reason": "bad build", "replacement": None}, JUDGE)
    else:
        from tests.rescore.test_replay import judged, only, result, verdict_body

        body = verdict_body(names["candidate"], result(only(judged(builder))))
        builder.add("verdict", {**body, "tier": "REJECT"}, JUDGE)
    decision = decide(speed("60.0", 'ratio = 1.5\nagainst = "reference"\n'), gather(verified(builder)))
    assert decision.status is Status.CONTRADICTED
    assert decision.parts[0].why.startswith("only receipt ")
    assert decision.parts[1].why.endswith("from a side that is contradicted")


def test_a_report_names_each_claim_that_is_not_supported(material: Material) -> None:
    text = speed("60.0") + speed("61.0").replace('"a"', '"b"')
    report = check_claims(read_claims(text.encode(), source="claims.toml"), material)
    (finding,) = report.findings
    assert (finding.code, finding.position) == (
        Code.CLAIM_NO_RECEIPT,
        Position("claims.toml", 8, None, None, "claim[1]"),
    )
    assert finding.message.startswith("claim b: nothing holds it; nearest is 60.00, receipt ")
    assert report.exit_code is ExitCode.FALSE
    fine = check_claims(read_claims(speed("60.0").encode(), source="claims.toml"), material)
    assert (fine.findings, fine.exit_code) == ((), ExitCode.VERIFIED)


# ------------------------------------------------------------------------------------------- claims about runs

TRACK = Track("decode", 131_072, "Kimi-K3", "UD-IQ1_S", "h200x8")
AT = datetime(2026, 8, 4, tzinfo=UTC)


def candidate(identity: str, speed_: str | None = "60", frontier: str | None = "50", **fields: Any) -> Candidate:
    published = fields.pop("published", "XL")
    run = RunInputs(
        run=identity,
        track=TRACK,
        speed=None if speed_ is None else Fraction(speed_),
        frontier=None if frontier is None else Figure(Fraction(frontier), "receipt"),
        reference=Figure(Fraction(25), "receipt"),
        parity=fields.pop("parity", Parity(Fraction("0.01"), Fraction(1))),
        at=fields.pop("at", AT),
        pull_request=7,
        published=published,
    )
    return Candidate(identity, run, **fields)


def about(*candidates: Candidate) -> Material:
    return Material("test", list(candidates))


def claim(kind: str, more: str) -> str:
    return f'[[claim]]\nid = "a"\nsays = "x"\nkind = "{kind}"\n{more}'


def status_of(text: str, *candidates: Candidate) -> Status:
    return decide(text, about(*candidates)).status


def test_a_gain_is_supported_contradicted_or_ambiguous() -> None:
    text = claim("gain", 'pull_request = 7\npercent = 20.0\ntolerance = "rounding"\n')
    one, other = candidate("a" * 32), candidate("b" * 32, "61")
    assert status_of(text, one) is Status.SUPPORTED
    assert status_of(text, other) is Status.CONTRADICTED
    assert status_of(text, one, other) is Status.AMBIGUOUS
    assert status_of(text.replace("= 7", "= 8"), one) is Status.NO_RECEIPT
    assert status_of(text, candidate("c", None)) is Status.NO_RECEIPT
    assert status_of(text, candidate("c", "60", "0")) is Status.NO_RECEIPT
    assert status_of(text, candidate("c", "60", None)) is Status.NO_RECEIPT
    assert status_of(text.replace("pull_request = 7", 'receipt = "aaaa"'), one, other) is Status.SUPPORTED


def test_a_credit_is_what_the_rule_of_the_day_gave() -> None:
    text = claim("credit", 'pull_request = 7\ngain_percent = 20\ncredited_percent = 40\ntolerance = "rounding"\n')
    assert status_of(text, candidate("a")) is Status.SUPPORTED
    assert status_of(text.replace("40", "20"), candidate("a")) is Status.CONTRADICTED
    assert status_of(text, candidate("a", "50.1")) is Status.CONTRADICTED
    assert status_of(text, candidate("a"), candidate("b")) is Status.AMBIGUOUS
    assert status_of(text, candidate("a", at=None)) is Status.NO_RECEIPT


def test_whether_a_run_was_accepted() -> None:
    text = claim("accepted", "pull_request = 7\n")
    good, bad = candidate("a"), candidate("b", published="REJECT")
    assert status_of(text, good) is Status.SUPPORTED
    assert status_of(text, bad) is Status.CONTRADICTED
    assert status_of(text, good, bad) is Status.AMBIGUOUS
    house = find_rule("house-1.decode")
    judged = {tier: [Judged(house.name, house.sha256, "decode", tier)] for tier in ("XL", "REJECT")}
    # Judged again, which is not what was accepted then.
    assert status_of(text, replace(bad, verdicts=judged["XL"])) is Status.CONTRADICTED
    assert status_of(text, replace(good, verdicts=judged["REJECT"])) is Status.SUPPORTED
    own = replace(good, native=True)
    assert status_of(text, replace(own, verdicts=[*judged["XL"], *judged["REJECT"]])) is Status.SUPPORTED
    assert status_of(text, replace(own, verdicts=[*judged["REJECT"], *judged["XL"]])) is Status.CONTRADICTED
    blind = candidate("b", published="REJECT", parity=None)
    assert decide(text, about(blind)).parts[0].why == "receipt b is REJECT"


@pytest.mark.parametrize(
    ("what", "good", "bad"),
    [
        ("top1", "least = 1", "least = 1.1"),
        ("kl", "most = 0.01", "most = 0.009999"),
        ("top1-bar", "least = 0.9", "least = 0.95"),
        ("kl-bar", "most = 0.05", "most = 0.02"),
        ("attestation", 'is = "tdx-quote"', 'is = "ed25519"'),
    ],
)
def test_what_is_said_of_every_run(what: str, good: str, bad: str) -> None:
    run = candidate("a", attestation="tdx-quote")
    text = claim("every", f'what = "{what}"\n')
    assert status_of(text + good + "\n", run) is Status.SUPPORTED
    assert status_of(text + bad + "\n", run) is Status.CONTRADICTED
    blind = candidate("b", parity=None, at=None)
    assert status_of(text + good + "\n", run, blind) is Status.NO_RECEIPT
    assert status_of(text + good + "\n") is Status.NO_RECEIPT
    assert status_of(text + good + "\nuntil = 2026-08-03T00:00:00Z\n", run, blind) is Status.NO_RECEIPT
    early = candidate("c", at=datetime(2026, 7, 1, tzinfo=UTC), parity=None)
    assert status_of(text + good + "\n", early) is Status.NO_RECEIPT


def test_what_holds_for_every_run_rests_on_every_one_of_them() -> None:
    text = claim("every", 'what = "kl"\nmost = 0.01\n')
    decision = decide(text, about(candidate("a"), candidate("b")))
    assert [item.receipt for item in decision.evidence] == ["a", "b"]


def test_how_many_runs_a_rescore_changes() -> None:
    text = claim("rescored", 'rule = "v0.2.1"\npins = "own"\nchange = "unchanged"\ncount = 1\n')
    assert status_of(text, candidate("a")) is Status.SUPPORTED
    assert status_of(text.replace("= 1\n", "= 2\n"), candidate("a")) is Status.CONTRADICTED
    many = [candidate(f"{number:08x}") for number in range(21)]
    assert decide(text, about(*many)).parts[0].why == "v0.2.1 leaves 21 runs unchanged, with own pins"


def test_a_pin_that_agreed_is_not_stale() -> None:
    text = claim("pin", f'track = "{TRACK}"\nvalue = 44.85\nmeasured = 45\ntolerance = "rounding"\n')
    decision = decide(text, about(candidate("a", "45")))
    assert [part.name for part in decision.parts] == ["pinned", "measured"]
    assert decision.parts[0].why == "the pin written in commit aa1f61d has it"
    assert decision.status is Status.UNSEALED


def test_a_number_without_a_model_of_the_history_gets_no_history() -> None:
    from k3_ledger.rescore.claims.evidence import list_evidence

    other = candidate("a")
    other.run = replace(other.run, track=replace(TRACK, model="m"))
    assert [item.says for item in list_evidence(about(other))] == ["receipt a of #7"]
    silent = candidate("b", None)
    assert len(list_evidence(about(silent))) > 20


# --------------------------------------------------------------------------------------------------- claim files


@pytest.mark.parametrize(
    ("old", "new", "says", "line"),
    [
        ('kind = "speed"', 'kind = "speeed"', "kind must be one of speed, ratio", 4),
        ("value = 60", "valeu = 60", "unknown field 'valeu'", 6),
        ('tolerance = "rounding"', "", "tolerance is missing", 1),
        ('tolerance = "rounding"', "tolerance = 1", "tolerance is a share from 0 to 1", 7),
        ('tolerance = "rounding"', "tolerance = -0.1", "tolerance is a share from 0 to 1", 7),
        ('tolerance = "rounding"', 'tolerance = "5%"', "carries a unit", 7),
        ('tolerance = "rounding"', 'tolerance = "rounding"\nratio = 2', "ratio and against belong together", 8),
        ('tolerance = "rounding"', 'tolerance = "rounding"\nagainst = "floor"', "ratio and against belong together", 8),
        (
            'tolerance = "rounding"',
            'tolerance = "rounding"\nratio = 2\nagainst = "start"',
            "against start needs a start",
            9,
        ),
        ('tolerance = "rounding"', 'tolerance = "rounding"\ncurrent = "yes"', "current must be true or false", 8),
        ('tolerance = "rounding"', 'tolerance = "rounding"\nrule = "v0.2.1"', "unknown field 'rule'", 8),
        ("decode@131072", "decode", "is not the name of a slot", 5),
        ('tolerance = "rounding"', 'tolerance = "rounding"\nobserver = "me"', "observer must be one of controller", 8),
        ('tolerance = "rounding"', 'tolerance = "rounding"\nquote = "60 tok/s"', "only a claim in a document", 8),
    ],
)
def test_a_typo_is_named_with_file_and_line(old: str, new: str, says: str, line: int) -> None:
    text = speed("60")
    assert old in text
    with pytest.raises(RescoreError, match=says) as caught:
        read_claims(text.replace(old, new, 1).encode(), source="claims.toml")
    position = caught.value.finding.position
    assert (position.source, position.line) == ("claims.toml", line)


def test_a_claim_about_a_run_names_one() -> None:
    with pytest.raises(RescoreError, match="names its receipt or its pull_request"):
        read_claims(claim("accepted", "").encode(), source="claims.toml")


def test_an_id_stands_once() -> None:
    with pytest.raises(RescoreError, match="this id stands twice"):
        read_claims((speed("60") * 2).encode(), source="claims.toml")


@pytest.mark.parametrize("source", ["claims.toml", "README.md"])
def test_a_file_without_claims_is_refused(source: str) -> None:
    with pytest.raises(RescoreError, match="no claim in it"):
        read_claims(b"# nothing here\n", source=source)


@pytest.mark.parametrize("source", ["README.md", "README.MD", "notes.Md", "claims.markdown", "a.toml.md"])
def test_claims_stand_in_fenced_blocks_of_a_document(source: str) -> None:
    first = speed("60")
    second = speed("61").replace('"a"', '"b"')
    text = (
        f"# Speed\n\n```toml claims\n{first}```\n\n```toml\n[[claim]]\nnot = 'ours'\n```\n\n"
        f"~~~~ toml claims\n{second}~~~~\n\n"
    )
    claims: list[Claim] = read_claims(text.encode(), source=source)
    assert [(each.id, each.position.line) for each in claims] == [("a", 4), ("b", 19)]
    broken = text.replace("value = 61", "valeu = 61")
    with pytest.raises(RescoreError) as caught:
        read_claims(broken.encode(), source=source)
    assert caught.value.finding.position.line == 24
    for damage, line in (("[[claim", 4), ("other = 5\n[[claim]]", 4)):
        with pytest.raises(RescoreError) as caught:
            read_claims(text.replace("[[claim]]", damage, 1).encode(), source=source)
        assert caught.value.finding.position.line == line


def test_a_claims_block_that_is_never_closed_is_read_to_the_end() -> None:
    """Claims that a reader sees must not go unchecked because three characters are missing."""
    assert len(read_claims(f"# Speed\n```toml claims\n{speed('60')}".encode(), source="README.md")) == 1
    with pytest.raises(RescoreError) as caught:
        read_claims(b"# Speed\n```toml claims\nnot closed", source="README.md")
    assert caught.value.finding.position.line == 3


@pytest.mark.parametrize(("metric", "meant"), [("decod", "decode"), ("prefil", "prefill"), ("dceode", "decode")])
def test_a_metric_that_is_misspelt_is_named(metric: str, meant: str) -> None:
    text = speed("60.0").replace("decode@", f"{metric}@")
    with pytest.raises(RescoreError, match=f"{metric} is no metric; did you mean {meant}") as caught:
        read_claims(text.encode(), source="claims.toml")
    assert caught.value.finding.position.field == "claim[0].track"


@pytest.mark.parametrize("metric", ["decode-entry", "verify", "start-up", "rescore"])
def test_a_metric_of_ones_own_is_none_of_those(metric: str) -> None:
    assert len(read_claims(speed("60.0").replace("decode@", f"{metric}@").encode(), source="claims.toml")) == 1


def test_a_block_that_is_shown_inside_another_is_no_claim() -> None:
    shown = f"````text\n```toml claims\n{speed('60')}```\n````\n"
    with pytest.raises(RescoreError, match="no claim in it"):
        read_claims(shown.encode(), source="README.md")


# ------------------------------------------------------------------------------------------------- ratios alone


def taking_turns(*pairs: tuple[float, float]) -> dict[str, Any]:
    """A receipt of a program and its floor, in seconds for 1,000 units, one after the other."""
    ours, floor = (
        series("verify", "subject", [(1000, pair[at]) for pair in pairs], context=None, context_filled=None)  # type: ignore[arg-type]
        for at in (0, 1)
    )
    outside = series("verify", "controller", [(1000, 8.0)] * len(pairs), context=None, context_filled=None)  # type: ignore[arg-type]
    return receipt(timing=[ours, outside, {**floor, "actor": "floor"}], parity=None, model=None)


def ratio(value: str, more: str = "", tolerance: str = '"rounding"', against: str = "floor") -> str:
    return (
        f'[[claim]]\nid = "a"\nsays = "it is fast"\nkind = "ratio"\ntrack = "verify@-/-/-/node"\n'
        f'against = "{against}"\ninverse = true\nratio = {value}\ntolerance = {tolerance}\n{more}'
    )


def test_a_multiple_is_that_of_the_newest_receipt_repetition_by_repetition() -> None:
    builder, _ = house_ledger()
    builder.add("run", taking_turns((3.0, 1.0), (3.0, 1.0), (3.0, 1.0)), RUNNER)
    # The machine slowed down in between: medians give 2, every repetition but one gives 1.5.
    builder.add("run", taking_turns((1.5, 1.0), (6.0, 4.0), (4.0, 2.0)), RUNNER)
    found = gather(verified(builder))
    good = decide(ratio("1.5"), found)
    assert (good.status, [item.index for item in good.evidence]) == (Status.SUPPORTED, [10, 10])
    assert good.parts[0].why.endswith("entry 10 measured 1.500")
    assert decide(ratio("2.0"), found).status is Status.CONTRADICTED
    stale = decide(ratio("3.0"), found)
    assert stale.status is Status.STALE
    assert stale.parts[0].why.endswith("had 3")
    assert decide(ratio("1.45", tolerance="0.05"), found).status is Status.SUPPORTED
    outside = decide(ratio("4.0", 'observer = "controller"\n'), found)
    assert (outside.status, outside.parts[0].why[-5:]) == (Status.SUPPORTED, "4.000")
    old = str(found.facts[-6].identity)
    assert decide(ratio("3.0", f'receipt = "{old[:12]}"\n'), found).status is Status.SUPPORTED
    upright = decide(ratio("0.67").replace("inverse = true\n", ""), found)
    assert upright.status is Status.SUPPORTED


def test_a_multiple_that_no_receipt_has_is_not_supported() -> None:
    builder, _ = house_ledger()
    found = gather(verified(builder))
    assert decide(ratio("2.0"), found).parts[0].why == "no receipt measures subject on verify@-/-/-/node"
    body = taking_turns((3.0, 1.0))
    builder.add("run", body, RUNNER)
    found = gather(verified(builder))
    nobody = decide(ratio("2.0", against="vllm"), found)
    assert (nobody.status, nobody.parts[0].why) == (
        Status.NO_RECEIPT, "no receipt measures subject on verify@-/-/-/node beside vllm",
    )  # fmt: skip
    assert decide(ratio("3.0", 'receipt = "ffff"\n'), found).status is Status.NO_RECEIPT


def test_a_multiple_of_a_superseded_receipt_is_not_supported() -> None:
    builder, _ = house_ledger()
    bad = builder.add("run", taking_turns((3.0, 1.0)), RUNNER)
    builder.add("supersede", {"target": bad, "reason": "bad build", "replacement": None}, JUDGE)
    assert decide(ratio("3.0"), gather(verified(builder))).status is Status.NO_RECEIPT


def test_actors_that_repeated_unequally_often_are_compared_by_their_medians() -> None:
    builder, _ = house_ledger()
    body = taking_turns((2.0, 1.0), (8.0, 1.0), (4.0, 1.0))
    del body["timing"][2]["samples"][2]
    builder.add("run", body, RUNNER)
    assert decide(ratio("4.0"), gather(verified(builder))).status is Status.SUPPORTED


def test_a_multiple_of_an_engine_that_no_receipt_holds_is_unsealed(test_data: Callable[..., Path]) -> None:
    root = test_data("data", "sparkinfer-k3-log")
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    real = gather_foreign(to_import(parse_log(files), files, audit(files)))
    text = ratio("3.25", against="reference").replace("verify@-/-/-/node", "decode@131072/Kimi-K3/UD-IQ1_S/h200x8")
    decision = decide(text.replace("inverse = true\n", "").replace("3.25", "3.2"), real)
    assert decision.status is Status.UNSEALED, decision
    assert decision.parts[0].why.endswith("no receipt")


def test_the_readme_says_what_the_published_ledger_holds() -> None:
    from k3_ledger.cli.material import load_material

    claims = read_claims((ROOT / "README.md").read_bytes(), source="README.md")
    report = check_claims(claims, load_material(ROOT / "published", 1)[0])
    assert [finding.message for finding in report.findings] == []
    assert all(claim.quote for claim in claims), "each is tied to the words around it"
