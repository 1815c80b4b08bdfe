"""Slots: one spelling, and anything else is refused."""

from __future__ import annotations

import pytest

from k3_ledger.rescore.slots import Track, parse_slot
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code

TEXT = "frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"


def test_a_slot_reads_back_as_it_was_written() -> None:
    role, track = parse_slot(TEXT)
    assert role == "frontier"
    assert track == Track("decode", 131_072, "Kimi-K3", "UD-IQ1_S", "h200x8")
    assert track.slot(role) == TEXT


def test_a_metric_without_context_has_a_dash() -> None:
    role, track = parse_slot("reference:verify@-/-/-/laptop")
    assert (role, track.context, track.short) == ("reference", None, "verify")
    assert track.slot(role) == "reference:verify@-/-/-/laptop"
    assert track.at("append", 4).short == "append@4"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decode@4/a/b/c",
        "best:decode@4/a/b/c",
        "frontier:decode@04/a/b/c",
        "frontier:decode@4/a/b",
        TEXT + "/x",
        TEXT + "\n",
        TEXT + "/",
        TEXT + "/batch:1",  # usual, so it is not written
        TEXT + "/batch:08",
        TEXT + "/batch:two",
        TEXT + "/unit:token",
        TEXT + "/inputs:fresh",
        TEXT + "/inputs:repeated/unit:token",
        TEXT + "/inputs:repeated/unit:byte",  # what is no token is done on the same input
        TEXT + "/cache:none",
        TEXT + "/cache:lukewarm",
        TEXT + "/batch:8/batch:8",
        TEXT + "/processes:8/batch:8",
        TEXT + "/batch:8/",
        TEXT + "/speed:8",
        TEXT + "/batch:8,unit:byte",
        TEXT + "/unit:byte/batch:8",
        "frontier:verify@-/-/-/laptop/unit:receipt",
    ],
)
def test_what_is_no_slot_is_refused(text: str) -> None:
    with pytest.raises(RescoreError) as caught:
        parse_slot(text)
    assert caught.value.code is Code.TOML_FIELD
    assert (
        caught.value.finding.expected == "frontier|reference|guard:metric@context/model/quant/node[/condition:value...]"
    )


@pytest.mark.parametrize(
    ("text", "conditions", "scorable"),
    [
        ("", (), True),
        ("/batch:64", (("batch", "64"),), False),
        ("/processes:8", (("processes", "8"),), True),
        ("/cache:cold", (("cache", "cold"),), True),
        ("/unit:byte", (("unit", "byte"),), False),
        ("/batch:2/cache:cold/inputs:fresh/processes:8/unit:byte", (
            ("batch", "2"), ("cache", "cold"), ("inputs", "fresh"), ("processes", "8"), ("unit", "byte"),
        ), False),
    ],
)  # fmt: skip
def test_conditions_that_are_not_usual_make_another_track(
    text: str, conditions: tuple[tuple[str, str], ...], scorable: bool
) -> None:
    role, track = parse_slot(TEXT + text)
    assert (track.conditions, track.scorable) == (conditions, scorable)
    assert track.slot(role) == TEXT + text
    assert (track == parse_slot(TEXT)[1]) is (text == "")
    assert track.short == ("decode@131072" + text.replace("/", " "))


def test_the_guarded_metric_is_measured_alike() -> None:
    track = parse_slot(TEXT + "/batch:2/cache:cold/processes:8/unit:byte")[1]
    assert track.at("prefill", 4).conditions == (("batch", "2"), ("cache", "cold"), ("processes", "8"))
    assert (track.unit, track.at("verify", None).unit) == ("byte", "receipt")
