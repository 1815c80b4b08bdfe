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
    ],
)
def test_what_is_no_slot_is_refused(text: str) -> None:
    with pytest.raises(RescoreError) as caught:
        parse_slot(text)
    assert caught.value.code is Code.TOML_FIELD
    assert caught.value.finding.expected == "frontier|reference|guard:metric@context/model/quant/node"
