"""A clock that proves nothing is told from one that contradicts a claim; what it did not prove counts for nothing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.doubt import UNPROVED
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.inputs import ClockReading
from k3_ledger.rescore.material import Judged
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rules.clock import check_clock_or_excuse
from k3_ledger.rescore.rules.registry import RULES, find_rule
from k3_ledger.rescore.sealing import rule_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from tests.ledgers import JUDGE, RUNNER
from tests.rescore.receipts import DECODE, house_ledger, pin_body, receipt, timed, verified
from tests.rescore.runs import clock, gate, native, verdict
from tests.rescore.test_claims import about, candidate, claim, decide, speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal, take_back

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Clock
    from tests.ledgers import Builder

HOUSE = find_rule("house-4.decode")
PROVING = replace(HOUSE, name="proving", sampling=replace(HOUSE.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
assert HOUSE.clock is not None
CLOCK: Clock = HOUSE.clock
both_metrics = pytest.mark.parametrize("metric", ["decode", "prefill"])


# ----------------------------------------------------------------------------------------------------- what it says


@both_metrics
def test_a_sound_run_that_is_too_short_for_its_jitter_earns_nothing_and_is_not_refused(metric: str) -> None:
    short = native("60", metric=metric, clock=clock(600, "10", "1.000001"))
    found = verdict(f"house-4.{metric}", short)
    assert (found.tier, found.speed_tier, found.bound_by) == ("none", "XL", "clock")
    assert (found.refused_by, found.not_checked) == ((), ("clock",))
    open_ = gate(f"house-4.{metric}", short, "clock")
    assert (open_.outcome, open_.reason) == (Outcome.NOT_CHECKED, "drowned")
    assert open_.detail == "600 tokens are 10.000 s of signal against 1.000 s of jitter: less than 10x"
    assert {step.name: step.text for step in open_.steps} == {
        "clock_tokens": "600", "clock_seconds": "10", "claim": "60", "jitter_seconds": "1.000001",
    }  # fmt: skip
    for old in ("house-1", "house-2", "house-3"):
        assert verdict(f"{old}.{metric}", short).tier == "REJECT"
    assert verdict(f"house-4.{metric}", native("60", metric=metric, clock=clock(600, "10", "1"))).tier == "XL"


@pytest.mark.parametrize(
    ("tokens", "seconds", "jitter", "reason", "outcome"),
    [
        # 600 tokens at 60 tok/s are 10 s, too few for a jitter of 2 s: what is read may be off by 4 s either way.
        (600, "10", "2", "drowned", Outcome.NOT_CHECKED),
        (600, "16.5", "2", "drowned", Outcome.NOT_CHECKED),  # 12.5 s whatever the jitter: exactly 1.25 times
        (600, "16.500001", "2", "faster-than-clock", Outcome.FAIL),
        (600, "4", "2", "drowned", Outcome.NOT_CHECKED),  # 8 s at most: exactly 1/1.25 of the work
        (600, "3.999999", "2", "work-not-done", Outcome.FAIL),
        (600, "-4", "2", "non-positive", Outcome.FAIL),
        (600, "-3.999999", "2", "work-not-done", Outcome.FAIL),
        # A negative reading that so much jitter explains says nothing.
        (600, "-1", "5", "drowned", Outcome.NOT_CHECKED),
        # Exactly ten times the jitter is long enough, and is held to the bounds as they are.
        (600, "12.5", "1", "", Outcome.PASS),
        (600, "12.500001", "1", "faster-than-clock", Outcome.FAIL),
        (600, "8", "1", "", Outcome.PASS),
        (600, "7.999999", "1", "work-not-done", Outcome.FAIL),
        (600, "0", "1", "non-positive", Outcome.FAIL),
        # The least bit more jitter, and a reading just beyond the bound is within what it accounts for.
        (600, "12.500001", "1.000001", "drowned", Outcome.NOT_CHECKED),
        # Jitter that nobody measured excuses nothing.
        (600, "12.500001", None, "faster-than-clock", Outcome.FAIL),
        (600, "0", None, "non-positive", Outcome.FAIL),
        (600, "10", None, "no-jitter", Outcome.NOT_CHECKED),
    ],
)
def test_a_claim_is_refused_where_it_is_beyond_a_bound_by_more_than_the_jitter_accounts_for(
    tokens: int, seconds: str, jitter: str | None, reason: str, outcome: Outcome
) -> None:
    inputs = native("60", clock=clock(tokens, seconds, jitter))
    found = gate("house-4.decode", inputs, "clock")
    assert (found.reason, found.outcome) == (reason, outcome)
    tier = {Outcome.PASS: "XL", Outcome.NOT_CHECKED: "none", Outcome.FAIL: "REJECT"}[outcome]
    assert verdict("house-4.decode", inputs).tier == tier


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        ("10", "short-margin"),
        ("12.5", "short-margin"),
        ("12.500001", "faster-than-clock"),
        ("8", "short-margin"),
        ("7.999999", "work-not-done"),
        ("0", "non-positive"),
    ],
)
def test_too_few_tokens_prove_nothing_either(seconds: str, reason: str) -> None:
    asks = replace(CLOCK, margin=601, jitter_multiple=None)
    found = check_clock_or_excuse(asks, "decode", Fraction(60), clock(600, seconds))
    assert (found.reason, found.outcome is Outcome.FAIL) == (reason, reason != "short-margin")
    enough = check_clock_or_excuse(replace(asks, margin=600), "decode", Fraction(60), clock(600, "10"))
    assert enough.outcome is Outcome.PASS
    widened = check_clock_or_excuse(asks, "decode", Fraction(60), clock(600, "12.500001", "0.0000005"))
    assert widened.reason == "short-margin"


def test_one_side_is_excused_like_two() -> None:
    asks = replace(CLOCK, clock_over_claim=None)
    assert check_clock_or_excuse(asks, "decode", Fraction(60), clock(600, "0.1", "2")).reason == "drowned"


def test_what_is_missing_is_said_as_before() -> None:
    reading = clock(600, "10", "2")
    assert check_clock_or_excuse(CLOCK, "verify", Fraction(60), reading).reason == "not-read"
    assert check_clock_or_excuse(CLOCK, "decode", Fraction(60), None).reason == "no-evidence"
    assert check_clock_or_excuse(CLOCK, "decode", None, reading).reason == "no-claim"


def test_what_one_gate_refuses_is_refused_whatever_another_leaves_open() -> None:
    """The clock, which leaves it open, comes first."""
    found = verdict("house-4.decode", native("60", clock=clock(600, "10", "2"), guarded=Fraction(1)))
    assert (found.not_checked, found.refused_by) == (("clock",), ("guard",))
    assert (found.tier, found.bound_by) == ("REJECT", "guard")


def test_a_liar_whose_margin_drowns_is_still_refused() -> None:
    """Ten times what the clock saw, and the least jitter under which a tenth of the signal is lost."""
    liar = native("600", clock=clock(600, "10", "0.11"))
    found = verdict("house-4.decode", liar)
    assert (found.tier, found.bound_by, found.refused_by) == ("REJECT", "clock", ("clock", "ceiling"))
    assert gate("house-4.decode", liar, "clock").detail.startswith(
        "claim 600.00/s, 600 more tokens took at least 9.780 s"
    )


noise = st.fractions(min_value=0, max_value=20, max_denominator=1000)


@given(
    tokens=st.integers(1, 10_000),
    claim_=st.fractions(min_value=1, max_value=2000, max_denominator=100),
    jitter=noise,
    one=st.fractions(min_value=-1, max_value=1, max_denominator=50),
    other=st.fractions(min_value=-1, max_value=1, max_denominator=50),
)
def test_no_honest_run_is_refused_by_its_clock_whatever_its_noise(
    tokens: int, claim_: Fraction, jitter: Fraction, one: Fraction, other: Fraction
) -> None:
    seconds = tokens / claim_ + (one + other) * jitter
    found = check_clock_or_excuse(CLOCK, "decode", claim_, ClockReading(tokens, seconds, jitter, jitter))
    assert found.outcome is not Outcome.FAIL
    assert (found.outcome is Outcome.PASS) == (tokens / claim_ >= 10 * jitter)


@given(
    tokens=st.integers(1, 10_000),
    claim_=st.fractions(min_value=1, max_value=2000, max_denominator=100),
    jitter=noise,
    times=st.fractions(min_value=Fraction(1001, 1000), max_value=20, max_denominator=1000),
)
def test_no_claim_passes_that_the_older_rule_would_refuse(
    tokens: int, claim_: Fraction, jitter: Fraction, times: Fraction
) -> None:
    """A claim that is ``times`` as fast as the clock, or as slow, passes under both rules or under neither."""
    for seconds in (times * tokens / claim_, tokens / claim_ / times):
        inputs = native("60", clock=ClockReading(tokens, seconds, jitter, jitter))
        inputs = replace(inputs, speed=claim_)
        old, new = (gate(f"house-{number}.decode", inputs, "clock") for number in (3, 4))
        assert (old.outcome is Outcome.PASS) == (new.outcome is Outcome.PASS)
        assert old.outcome is Outcome.FAIL or new.outcome is Outcome.PASS


def test_the_older_house_rules_are_what_they_were() -> None:
    assert {name: rule.sha256[:16] for name, rule in RULES.items() if name.startswith("house")} == FROZEN


FROZEN = {
    "house-1.decode": "77d2ac3b6282f35c",
    "house-1.prefill": "b9de0137a0f66cf8",
    "house-2.decode": "41ade9b7c28a2532",
    "house-2.prefill": "eebe034536911063",
    "house-3.decode": "ba54d53d137f0c64",
    "house-3.prefill": "087573461d0b5bff",
    "house-4.decode": "22e7e2548b4e1377",
    "house-4.prefill": "18c19a737932b776",
    "house-5.decode": "f3b024a6798b762c",
    "house-5.prefill": "2bd20fbde23f8367",
    "house-6.decode": "8230a861815104be",
    "house-6.prefill": "7ad2fc7aff956dd4",
    "house-7.decode": "d05245cd470592f6",
    "house-7.prefill": "811cb5d2dd846ddd",
}


# ----------------------------------------------------------------------------------------------- what it counts for


def noisy(decode: float = 70.0, **more: Any) -> dict[str, Any]:
    """A run whose loads differ by so much that nothing is proved of decode; prefill is as it should be."""
    body = receipt(decode, 510.0, **more)
    return {**body, "timing": [*timed("decode", decode, context=131_072, jitter=15.0), *body["timing"][2:]]}


def opened() -> tuple[Builder, dict[str, str]]:
    builder, names = house_ledger()
    builder.add("rule", rule_body(PROVING), JUDGE)
    seal(builder, PROVING)
    return builder, names


@pytest.fixture
def ledger() -> tuple[Builder, dict[str, str]]:
    builder, names = opened()
    names["noisy"] = builder.add("run", noisy(), RUNNER)
    return builder, names


def test_a_number_that_its_clock_did_not_prove_moves_no_frontier_and_supports_no_claim(
    ledger: tuple[Builder, dict[str, str]],
) -> None:
    builder, names = ledger
    assert why(of(builder, speed("70.0", ""))) == f"only receipt {names['noisy'][:8]} ({UNPROVED}), entry 11 holds it"
    assert derive_climbs(gather(verified(builder)))[0].value == 60, "nor before anybody judged it"
    seal(builder, PROVING)
    material = gather(verified(builder))
    (one, other) = [one for one in material.candidates if one.identity == names["noisy"]]
    assert (one.published, one.voided, other.voided) == ("none", "unproved", "")
    decode, prefill = derive_climbs(material)
    assert [int(climb.value) for climb in (decode, prefill)] == [60, 510]
    assert decode.attempts == 2
    refused = of(builder, speed("70.0", ""))
    assert (refused.status, why(refused)) == (
        Status.CONTRADICTED, f"only receipt {names['noisy'][:8]} (unproved), entry {one.index} holds it",
    )  # fmt: skip
    assert of(builder, speed("510.0", "").replace("decode@131072", "prefill@32768")).status is Status.SUPPORTED
    seal(builder, find_rule("v0.2.1"))  # judged again, by a rule that asks less
    assert of(builder, speed("70.0", "")).status is Status.CONTRADICTED
    take_back(builder, names["noisy"])
    assert "(superseded)" in why(of(builder, speed("70.0", "")))


def test_a_number_that_its_clock_did_not_prove_is_no_pins_source_and_explains_no_drift(
    ledger: tuple[Builder, dict[str, str]],
) -> None:
    builder, names = ledger
    builder.add("pin", pin_body(f"frontier:{DECODE}", "70", names["noisy"]), JUDGE)
    merge = {
        "pull_request": 1, "commit": "c" * 40, "run": names["noisy"], "slot": f"frontier:{DECODE}", "claimed": None,
    }  # fmt: skip
    builder.add("merge", merge, JUDGE)
    for judged in (False, True):
        material = gather(verified(builder))
        sourced = [pin for pin in material.pin_entries if pin.source == names["noisy"]]
        codes = {found.code for found in reconcile_lock(sourced, material.measurements).findings}
        assert Code.PIN_UNSOURCED in codes, judged
        assert [(merge.value, merge.sealed) for merge in material.merges] == [(None, False)]
        assert any(item.counts for item in material.measurements if item.value == 510)
        if not judged:
            seal(builder, PROVING)


def test_a_run_that_gained_too_little_was_measured_all_the_same() -> None:
    builder, names = opened()
    slow = builder.add("run", receipt(50.5, 510.0), RUNNER)
    seal(builder, PROVING)
    material = gather(verified(builder))
    assert [one.published for one in material.candidates if one.identity == slow] == ["none", None]
    assert of(builder, speed("50.5", "")).status is Status.SUPPORTED
    assert names["frontier"] in {item.receipt for item in derive_climbs(material)[0].steps}


def test_what_is_open_beside_the_clock_leaves_the_number_a_number() -> None:
    """A stale pin of what is guarded is no word about decode."""
    builder, _ = opened()
    builder.add("run", receipt(50.0, 900.0, role="frontier", round_="r2"), RUNNER)
    run = builder.add("run", receipt(65.0, 900.0, round_="r2"), RUNNER)
    seal(builder, PROVING)
    (one, _) = [one for one in gather(verified(builder)).candidates if one.identity == run]
    assert (one.published, one.voided) == ("none", "")
    assert of(builder, speed("65.0", "")).status is Status.SUPPORTED


def test_a_rule_that_admits_a_run_without_a_clock_proves_nothing_of_it() -> None:
    builder, _ = house_ledger()
    body = receipt(50.5)
    run = builder.add("run", {**body, "timing": [body["timing"][0], *body["timing"][2:]]}, RUNNER)
    seal(builder, find_rule("v0.2.1"))
    (one, _) = [one for one in gather(verified(builder)).candidates if one.identity == run]
    assert (one.published, one.voided) == ("none", "judged by v0.2.1 alone, and seen by no clock")


# -------------------------------------------------------------------------------------------------------- accepted


def test_accepted_is_what_was_given_a_tier() -> None:
    text = claim("accepted", "pull_request = 7\n")
    for tier, status in (
        ("XS", Status.SUPPORTED), ("BASELINE", Status.SUPPORTED), ("none", Status.CONTRADICTED),
        ("REJECT", Status.CONTRADICTED),
    ):  # fmt: skip
        assert decide(text, about(candidate("a" * 32, published=tier))).status is status
    nothing = decide(text, about(candidate("a" * 32, published="none")))
    assert why(nothing) == "receipt aaaaaaaa was given no tier"
    two = decide(text, about(candidate("a" * 32, published="none"), candidate("b" * 32, published="L")))
    assert (two.status, why(two)) == (
        Status.AMBIGUOUS, "receipt aaaaaaaa was given no tier, receipt bbbbbbbb was accepted as L",
    )  # fmt: skip


def test_a_receipt_that_got_a_tier_on_one_metric_and_was_refused_on_none_was_accepted() -> None:
    builder, names = house_ledger()
    text = claim("accepted", f'receipt = "{names["candidate"]}"\n')
    prefill = find_rule("house-4.prefill")
    steep = replace(prefill, sampling=PROVING.sampling, tiers=replace(prefill.tiers, significance=Fraction(1)))
    seal(builder, steep)
    assert of(builder, text).status is Status.NO_RECEIPT, "nobody knows that rule"
    steep = replace(steep, name="steep")
    builder.add("rule", rule_body(steep), JUDGE)
    assert of(builder, text).status is Status.NO_RECEIPT, "nobody knew it where it was sealed"
    seal(builder, steep)
    assert [one.published for one in gather(verified(builder)).candidates] == [None, "none"]
    assert of(builder, text).status is Status.CONTRADICTED
    builder.add("rule", rule_body(PROVING), JUDGE)
    seal(builder, PROVING)
    assert [one.published for one in gather(verified(builder)).candidates] == ["XL", "none"]
    assert of(builder, text).status is Status.SUPPORTED
    other, names = house_ledger()
    seal(other, prefill)
    assert [one.published for one in gather(verified(other)).candidates] == [None, "REJECT"], "three are not seven"
    text = claim("accepted", f'receipt = "{names["candidate"]}"\n')
    assert of(other, text).status is Status.CONTRADICTED


def test_an_import_is_as_proved_as_it_says() -> None:
    imported = candidate("a" * 32, published="L")
    imported.verdicts.append(Judged("house-4.decode", HOUSE.sha256, "decode", "none", unproved=True))
    assert imported.voided == ""
