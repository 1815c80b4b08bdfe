"""Claims look at what stands: superseded, refused and never judged receipts, pins that are none, and who is newest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.check import check_claims
from k3_ledger.rescore.claims.reading import read_claims
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.material import Judged, Material
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_claims import AT, about, candidate, claim, decide, speed
from tests.rescore.test_standing import seal, take_back, timed_otherwise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.claims.check import Decision
    from tests.commands import Done

HOUSE, LENIENT = find_rule("house-1.decode"), find_rule("v0.2.1")
RATIO = 'ratio = 1.50\nagainst = "reference"\n'


def of(builder: Builder, text: str) -> Decision:
    return decide(text, gather(verified(builder)))


def why(decision: Decision) -> str:
    return decision.parts[-1].why


# ------------------------------------------------------------------------------------------ what no longer stands


def test_a_superseded_receipt_supports_nothing_whoevers_it_is() -> None:
    builder, names = house_ledger()
    assert of(builder, speed("50", "")).status is Status.SUPPORTED
    assert of(builder, speed("60", RATIO)).status is Status.SUPPORTED
    take_back(builder, names["frontier"])
    gone = of(builder, speed("50", ""))
    assert (gone.status, why(gone)) == (
        Status.CONTRADICTED, f"only receipt {names['frontier'][:8]} (superseded), entry 5 holds it",
    )  # fmt: skip
    take_back(builder, names["reference"])
    assert of(builder, speed("60", RATIO)).status is Status.NO_RECEIPT
    (climb, _) = derive_climbs(gather(verified(builder)))
    assert (int(climb.value), climb.attempts) == (60, 1)
    assert climb.reference is None


def test_a_reference_that_was_superseded_gives_way_to_the_one_before() -> None:
    builder, _ = house_ledger()
    wrong = builder.add("run", receipt(20.0, 300.0, role="reference"), RUNNER)
    builder.add("run", receipt(61.0), RUNNER)
    text = speed("61.0", 'ratio = 3.05\nagainst = "reference"\n')
    assert of(builder, text).status is Status.SUPPORTED
    take_back(builder, wrong)
    assert why(of(builder, text)) == "61.00 / 40 is 1.5250, not 3.05"


def test_a_multiple_is_of_the_reference_that_was_there_by_then() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(20.0, 300.0, role="reference"), RUNNER, time="2020-01-01T00:00:00Z")
    assert of(builder, speed("60.0", RATIO)).status is Status.SUPPORTED
    assert why(of(builder, speed("60.0", RATIO.replace("1.50", "3.00")))) == "60.00 / 40 is 1.5000, not 3"
    alone = claim("ratio", f'track = "{DECODE}"\nratio = 1.50\nagainst = "reference"\ntolerance = "rounding"\n')
    assert of(builder, alone).status is Status.SUPPORTED


# --------------------------------------------------------------------------------------------- what was published


def liar(builder: Builder) -> str:
    """A run whose clock contradicts it: 150 by its own word, 50 by the clock."""
    body = receipt(150.0)
    slow = receipt(50.0)["timing"][1]
    return builder.add("run", {**body, "timing": [body["timing"][0], slow, *body["timing"][2:]]}, RUNNER)


def test_judging_again_never_makes_a_refused_run_count() -> None:
    builder, _ = house_ledger()
    liar(builder)
    seal(builder)
    refused = of(builder, speed("150", ""))
    assert (refused.status, "(REJECT)" in why(refused)) == (Status.CONTRADICTED, True)
    for rule in (LENIENT, replace(HOUSE, name="none", clock=None)):
        builder.add("rule", rule_of(rule), JUDGE) if rule is not LENIENT else None
        seal(builder, rule)
        assert of(builder, speed("150", "")).status is Status.CONTRADICTED
        assert derive_climbs(gather(verified(builder)))[0].value == 60


def rule_of(rule: Any) -> dict[str, object]:
    from k3_ledger.rescore.sealing import rule_body

    return rule_body(rule)


def test_a_verdict_by_an_unknown_rule_neither_refuses_nor_accepts() -> None:
    builder, names = house_ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE))
    builder.add("verdict", {**body, "rule_sha256": "0" * 64, "tier": "REJECT"}, JUDGE)
    assert of(builder, speed("60", "")).status is Status.SUPPORTED
    accepted = claim("accepted", f'receipt = "{names["candidate"]}"\n')
    assert of(builder, accepted).status is Status.NO_RECEIPT
    bad, _ = house_ledger()
    liar(bad)
    seal(bad)
    bad.add("verdict", {**body, "rule_sha256": "0" * 64, "target": gather(verified(bad)).candidates[2].identity}, JUDGE)
    assert of(bad, speed("150", "")).status is Status.CONTRADICTED


def test_a_run_that_is_refused_on_one_metric_supports_nothing_on_another() -> None:
    builder, _ = house_ledger()
    identity = liar(builder)
    seal(builder)
    builder.add("pin", pin_body(f"frontier:{PREFILL}", "450", gather(verified(builder)).facts[4].identity), JUDGE)
    text = speed("500", f'receipt = "{identity}"\n').replace(DECODE, PREFILL)
    assert of(builder, text).status is Status.CONTRADICTED


# ------------------------------------------------------------------------------------------------ who is the newest


def import_body(foreign_id: str, tps: str, at: str) -> dict[str, Any]:
    artifact = {"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}
    fields = {
        "ledger.tps": tps, "receipt.attestation.timestamp_utc": at, "sealed.scored_metric": "decode",
        "sealed.scored_context": "131072", "sealed.node": "node", "sealed.quant": "bf16", "ledger.label": "XL",
    }  # fmt: skip
    return {
        "format": "polaris/1", "foreign_id": foreign_id, "original_sha256": "d" * 64, "attestation": "none",
        "findings": [], "artifacts": [artifact],
        "fields": [{"name": name, "value": value} for name, value in sorted(fields.items())],
    }  # fmt: skip


@pytest.mark.parametrize("times", [("00:00:00", "00:00:00"), ("23:00:00", "00:00:00"), ("00:00:00", "23:00:00")])
@pytest.mark.parametrize("kind", ["run", "import"])
def test_the_newest_is_the_last_in_the_log_whatever_time_it_claims(times: tuple[str, str], kind: str) -> None:
    builder = Builder().open()
    for value, time in zip((60.0, 50.0), times, strict=True):
        at = f"2026-01-02T{time}Z"
        if kind == "run":
            builder.add("run", receipt(value, round_=None), RUNNER, time=at)
        else:
            builder.add("import", import_body(f"r{value}", str(value), at), LOG)
    track = DECODE if kind == "run" else "decode@131072/-/bf16/node"
    fast, slow = (of(builder, speed(value, "current = true\n").replace(DECODE, track)) for value in ("60", "50"))
    assert (fast.status, slow.status) == (Status.STALE, Status.SUPPORTED)
    assert "measured 50.00 since" in why(fast)


def test_imports_and_receipts_stand_in_one_order() -> None:
    builder = Builder().open()
    builder.add("import", import_body("old", "60", "2026-01-03T00:00:00Z"), LOG)
    builder.add("run", receipt(50.0, round_=None, model=None), RUNNER)
    builder.add("import", import_body("new", "55", "2026-01-01T00:00:00Z"), LOG)
    found = [(item.index, int(item.value)) for item in evidence_of(builder) if item.track.metric == "decode"]
    assert found == [(4, 60), (5, 50), (5, 17), (6, 55)], "two clocks of the receipt in between"


def evidence_of(builder: Builder) -> list[Any]:
    from k3_ledger.rescore.claims.evidence import list_evidence

    return list_evidence(gather(verified(builder)))


def test_a_climb_begins_before_it_ends() -> None:
    builder = Builder().open()
    for value in (60.0, 50.0, 61.0):
        builder.add("run", receipt(value, round_=None), RUNNER, time="2026-01-02T00:00:00Z")
    climb = 'start = 50\nratio = 1.20\nagainst = "start"\n'
    backwards = of(builder, speed("60.0", climb))
    assert [part.status for part in backwards.parts] == [Status.SUPPORTED, Status.CONTRADICTED, Status.CONTRADICTED]
    assert "entry 5 measured it, after receipt" in backwards.parts[1].why
    assert of(builder, speed("61.0", climb.replace("1.20", "1.22"))).status is Status.SUPPORTED
    never = of(builder, speed("60.0", climb.replace("50", "30").replace("1.20", "2.00")))
    assert never.parts[1].status is Status.NO_RECEIPT


# ------------------------------------------------------------------------------------------------- whose figure it is


def test_a_candidate_cannot_bring_its_own_reference() -> None:
    builder, _ = house_ledger()
    body = receipt(61.0)
    slow = {**receipt(10.0)["timing"][0], "actor": "reference"}
    builder.add("run", {**body, "timing": [*body["timing"], slow]}, RUNNER)
    six = claim("ratio", f'track = "{DECODE}"\nratio = 6.1\nagainst = "reference"\ntolerance = "rounding"\n')
    assert why(of(builder, six)).endswith("measured 1.525, not 6.1")
    assert of(builder, speed("61.0", 'ratio = 6.1\nagainst = "reference"\n')).status is Status.CONTRADICTED
    assert of(builder, speed("10", 'actor = "reference"\n')).status is Status.NO_RECEIPT
    (climb, _) = derive_climbs(gather(verified(builder)))
    assert climb.reference is not None
    assert climb.reference.value == 40


@pytest.mark.parametrize(
    ("change", "spelled"), [({"unit": "byte"}, "inputs:fresh/unit:byte"), ({"batch": 64}, "batch:64")]
)
def test_a_rate_of_something_else_supports_no_claim_in_tokens(change: dict[str, Any], spelled: str) -> None:
    builder, _ = house_ledger()
    builder.add("run", timed_otherwise(96.0, **change), RUNNER)
    assert of(builder, speed("96", "")).status is Status.NO_RECEIPT
    assert of(builder, speed("96", "").replace(DECODE, f"{DECODE}/{spelled}")).status is Status.SUPPORTED
    climbs = {str(climb.track): int(climb.value) for climb in derive_climbs(gather(verified(builder)))}
    assert (climbs[DECODE], climbs[f"{DECODE}/{spelled}"]) == (60, 96)


# ---------------------------------------------------------------------------------------- accepted, gained, credited


def test_accepted_is_what_was_judged_was_not_refused_and_stands() -> None:
    builder, names = house_ledger()
    text = claim("accepted", f'receipt = "{names["candidate"]}"\n')
    unjudged = of(builder, text)
    assert (unjudged.status, why(unjudged)) == (
        Status.NO_RECEIPT, f"nobody judged receipt {names['candidate'][:8]}",
    )  # fmt: skip
    seal(builder)
    assert of(builder, text).status is Status.SUPPORTED
    take_back(builder, names["candidate"])
    assert why(of(builder, text)).endswith("(superseded) no longer stands")
    bad, _ = house_ledger()
    identity = liar(bad)
    seal(bad)
    refused = of(bad, claim("accepted", f'receipt = "{identity}"\n'))
    assert (refused.status, why(refused)) == (Status.CONTRADICTED, f"receipt {identity[:8]} is REJECT, by clock")


def test_a_superseded_or_refused_run_gained_nothing_that_counts() -> None:
    text = claim("gain", 'pull_request = 7\npercent = 20.0\ntolerance = "rounding"\n')
    good, gone = candidate("a" * 32), candidate("b" * 32, superseded=True)
    refused = candidate("c" * 32, published="REJECT")
    assert decide(text, about(gone)).status is Status.CONTRADICTED
    assert why(decide(text, about(gone))) == "receipt bbbbbbbb (superseded) gained +20.00 %"
    assert decide(text, about(refused)).status is Status.CONTRADICTED
    assert why(decide(text, about(refused))) == "receipt cccccccc (REJECT) gained +20.00 %"
    assert decide(text, about(good, gone, refused)).status is Status.SUPPORTED
    assert decide(text, about(good, candidate("d" * 32, "70", superseded=True))).status is Status.AMBIGUOUS
    assert decide(text, about(candidate("d" * 32, "70"), gone)).status is Status.CONTRADICTED


@pytest.mark.parametrize(
    ("state", "says"), [({"superseded": True}, "(superseded)"), ({"published": "REJECT"}, "(REJECT)")]
)
def test_a_run_that_does_not_count_was_credited_with_nothing(state: dict[str, Any], says: str) -> None:
    text = claim("credit", 'pull_request = 7\ngain_percent = 20.0\ncredited_percent = 40.0\ntolerance = "rounding"\n')
    assert decide(text, about(candidate("a", at=AT))).parts[0].name == "gained"
    (part,) = decide(text, about(candidate("a", at=AT, **state))).parts
    assert (part.status, part.why) == (Status.CONTRADICTED, f"receipt a {says} counts for nothing")


def test_a_native_receipt_of_two_metrics_is_one_receipt() -> None:
    builder, names = house_ledger()
    text = claim(
        "credit",
        f'receipt = "{names["candidate"]}"\ngain_percent = 20.0\ncredited_percent = 20.0\ntolerance = "rounding"\n',
    )
    assert of(builder, text).status is Status.NO_RECEIPT, "the ledger had published no rule"
    published = Builder(builder.lines[:8])
    published.add("rule", rule_of(HOUSE), JUDGE)
    identity = published.add("run", receipt(60.0), RUNNER)
    assert of(published, text.replace(names["candidate"], identity)).status is Status.SUPPORTED


# ------------------------------------------------------------------------------------------------------------- pins


def test_a_measurement_is_no_pin() -> None:
    text = claim("pin", f'track = "{DECODE}"\nvalue = 60.0\nmeasured = 60.0\ntolerance = "rounding"\n')
    builder, names = house_ledger()
    never = of(builder, text)
    assert (never.parts[0].status, never.parts[0].why) == (
        Status.NO_RECEIPT, "never pinned; nearest is 50, the pin entry 6",
    )  # fmt: skip
    pin = builder.add("pin", pin_body(f"frontier:{DECODE}", "60", names["candidate"]), JUDGE)
    pinned = of(builder, text)
    assert (pinned.status, pinned.parts[0].why) == (Status.SUPPORTED, "the pin entry 9 has it")
    assert pinned.evidence[0].index == 9
    take_back(builder, pin)
    assert of(builder, text).status is Status.NO_RECEIPT
    assert of(builder, text.replace("decode@131072", "decode@4")).parts[0].why.startswith("nothing pins decode@4/")


def test_a_reference_pin_is_no_pin_of_our_own() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"reference:{DECODE}", "40", names["reference"]), JUDGE)
    text = claim("pin", f'track = "{DECODE}"\nvalue = 40.0\nmeasured = 60.0\ntolerance = "rounding"\n')
    assert of(builder, text).parts[0].status is Status.NO_RECEIPT


# ------------------------------------------------------------------------------------------------------- tolerances


def both(field: str, value: str, tolerance: str) -> str:
    more = {"value": "", "start": f'start = {value}\nratio = 1.50\nagainst = "start"\n'}.get(
        field, f'ratio = {value}\nagainst = "reference"\n'
    )
    return speed(value if field == "value" else "60.0", more, tolerance)


@pytest.mark.parametrize("field", ["value", "ratio", "start"])
@pytest.mark.parametrize(
    ("value", "share"), [("2", "25.0"), ("1", "50.0"), ("4", "12.5"), ("0.4", "12.5"), ("0.04", "12.5")]
)
def test_half_of_a_last_place_is_no_wider_than_the_limit(field: str, value: str, share: str) -> None:
    with pytest.raises(RescoreError, match=f"half a unit in the last place of {value} is {share} % of it") as caught:
        read_claims(both(field, value, '"rounding"').encode(), source="c.toml")
    assert caught.value.finding.position.field == f"claim[0].{field}"
    assert caught.value.code is Code.TOML_FIELD
    finer = both(field, value + ("0" if "." in value else ".0"), '"rounding"')
    assert read_claims(finer.encode(), source="c.toml")


def test_exactly_the_limit_is_allowed_and_the_caller_sets_it() -> None:
    from fractions import Fraction

    assert read_claims(both("value", "5", '"rounding"').encode(), source="c.toml")
    assert read_claims(both("value", "60", "0.1").encode(), source="c.toml")
    for text, field in ((both("value", "60", "0.1000001"), "tolerance"), (both("ratio", "1.50", "0.999"), "tolerance")):
        with pytest.raises(RescoreError, match=r"tolerance is more than 10\.0 %") as caught:
            read_claims(text.encode(), source="c.toml")
        assert caught.value.finding.position.field == f"claim[0].{field}"
    assert read_claims(both("value", "2", '"rounding"').encode(), source="c.toml", tolerance_limit=Fraction(1, 4))
    with pytest.raises(RescoreError):
        read_claims(both("value", "60", "0.05").encode(), source="c.toml", tolerance_limit=Fraction(1, 25))


def test_percentages_are_read_to_their_last_place() -> None:
    text = claim("gain", 'pull_request = 7\npercent = 2\ntolerance = "rounding"\n')
    assert read_claims(text.encode(), source="c.toml")
    with pytest.raises(RescoreError, match="tolerance is more"):
        read_claims(text.replace('"rounding"', "0.5").encode(), source="c.toml")


@pytest.mark.parametrize("kind", ["speed", "ratio"])
@pytest.mark.parametrize(("actor", "against"), [("", "subject"), ('actor = "vllm"\n', "vllm")])
def test_nothing_is_a_multiple_of_itself(kind: str, actor: str, against: str) -> None:
    more = f'{actor}ratio = 1.00\nagainst = "{against}"\n'
    text = speed("60.0", more) if kind == "speed" else claim(kind, f'track = "{DECODE}"\ntolerance = 0\n{more}')
    with pytest.raises(RescoreError, match="compared with itself") as caught:
        read_claims(text.encode(), source="c.toml")
    assert caught.value.finding.position.field == "claim[0].against"


def test_the_tolerance_is_shown(command: Callable[..., Done], tmp_path: Path) -> None:
    house_ledger()[0].write(tmp_path)
    text = speed("60.0") + speed("58", tolerance="0.05").replace('"a"', '"b"')
    every = claim("every", 'what = "top1"\nleast = 1\n').replace('"a"', '"c"')
    (tmp_path / "c.toml").write_text(text + every)
    done = command("claims", "check", "c.toml", "--against", ".")
    assert done.out.splitlines()[0] == "a: supported: x (to the last place)"
    assert "b: supported: x (within 5 %)" in done.out
    assert "c: supported: x\n" in done.out
    found = command("claims", "check", "c.toml", "--against", ".", "--json").json
    assert [one["tolerance"] for one in found] == ["to the last place", "within 5 %", None]
    refused = command("claims", "check", "c.toml", "--against", ".", "--tolerance-limit", "4%")
    assert (refused.code, "claim[1].tolerance: tolerance is more than 4.0 %" in refused.err) == (3, True)
    for bad in ("0%", "100%", "x"):
        assert command("claims", "check", "c.toml", "--against", ".", "--tolerance-limit", bad).code == 2


# ----------------------------------------------------------------------------------------------------------- fences

BLOCK = f"```toml claims\n{speed('60.0')}```\n"


@pytest.mark.parametrize(
    "info",
    [
        "toml  Claims",
        "TOML claims",
        "toml claim",
        "toml, claims",
        "tomlclaims",
        "claims",
        "toml clams",
        "toml claims x",
    ],
)
def test_a_fence_that_is_nearly_one_of_claims_is_not_passed_over(info: str) -> None:
    text = f"# Page\n{BLOCK}\n```{info}\n[[claim]]\n```\n"
    with pytest.raises(RescoreError, match="nearly one of claims") as caught:
        read_claims(text.encode(), source="page.md")
    assert (caught.value.finding.position.line, caught.value.finding.found) == (len(BLOCK.splitlines()) + 3, info)


@pytest.mark.parametrize("info", ["toml", "", "text", "python claims.py", "toml pins", "toml claims"])
def test_any_other_fence_is(info: str) -> None:
    again = BLOCK.partition("\n")[2].replace('"a"', '"b"')
    found = read_claims(f"{BLOCK}\n```{info}\n{again}".encode(), source="page.md")
    assert len(found) == (2 if info == "toml claims" else 1)


# ---------------------------------------------------------------------------------------------------------- frontier


def test_a_metric_that_nothing_measures_is_refused_with_those_that_are(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    house_ledger()[0].write(tmp_path)
    done = command("frontier", ".", "--metric", "prefil")
    assert (done.code, "nothing measures prefil; there are decode, prefill" in " ".join(done.err.split())) == (2, True)
    assert command("frontier", ".", "--metric", "prefill").code == 0


def test_an_empty_history_has_no_metric(command: Callable[..., Done], tmp_path: Path) -> None:
    Builder().open().write(tmp_path)
    done = command("frontier", ".", "--metric", "decode")
    assert (done.code, "there is none" in done.err) == (2, True)


def test_material_without_receipts_decides_nothing() -> None:
    (decision,) = check_claims(read_claims(speed("60.0").encode(), source="c.toml"), Material("nothing")).decisions
    assert decision.status is Status.NO_RECEIPT


def test_judged_by_nobody_known_is_not_judged() -> None:
    own = replace(candidate("a"), native=True, verdicts=[Judged("r", "s", "decode", "XL")])
    assert own.published is None
