"""Words of strangers: no two tracks are spelled alike, no name stops the judging, no word moves a cursor."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.exact import parse_decimal
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.verdict import NotScorable
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.rescore.slots import MOST_SPELLED, Track, parse_slot
from k3_ledger.schemas.errors import RescoreError
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, MODEL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_claims import speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import codes, seal
from tests.rescore.test_sweep import HOUSE, RULES, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

HUB = "moonshotai/Kimi-K3"
names = st.text(alphabet="ab2F3A40B./:@+-_", min_size=1, max_size=8).filter(lambda text: text != "-")


def of_model(name: str, speed_: float = 60.0, *, node: str = "node", **more: Any) -> dict[str, Any]:
    body = receipt(speed_, **more)
    machine = {**body["machine"], "node": {**body["machine"]["node"], "name": node}}
    return {**body, "model": {**MODEL, "name": name}, "machine": machine}


# ---------------------------------------------------------------------------------------------------------- tracks


@given(st.tuples(names, names, names), st.tuples(names, names, names))
def test_no_two_tracks_are_spelled_alike_and_each_reads_back(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    tracks = [Track("decode", 64, *place) for place in (one, other)]
    assert (str(tracks[0]) == str(tracks[1])) == (one == other)
    for track in tracks:
        assert parse_slot(track.slot("frontier")) == ("frontier", track)


@pytest.mark.parametrize(
    "text",
    [
        "frontier:decode@64/a/b/q/n",
        "frontier:decode@64/a+2Bb/q/n",
        "frontier:decode@64/a/q/n/cache:cold+2F",
    ],
)
def test_a_name_has_one_spelling(text: str) -> None:
    assert parse_slot("frontier:decode@64/a+2f/q/n")[1].model == "a+2f", "which is no escape"
    with pytest.raises(RescoreError, match="is not the name of a slot"):
        parse_slot(text)


def test_a_model_that_is_named_as_on_a_hub_can_be_pinned_and_claimed() -> None:
    builder = Builder().open()
    source = builder.add("run", of_model(HUB, 50.0, role="frontier"), RUNNER)
    slot = f"frontier:{DECODE.replace('k3-slice', 'moonshotai+2FKimi-K3')}"
    builder.add("pin", pin_body(slot, "50", source), JUDGE)
    builder.add("run", of_model(HUB, round_=None), RUNNER)
    assert of(builder, speed("60", "").replace("k3-slice", "moonshotai+2FKimi-K3")).status is Status.SUPPORTED
    seal(builder)
    assert codes(builder) == []
    (verdict,) = [body for _, body in gather(verified(builder)).verdicts]
    assert verdict.pins[0].slot == slot
    assert same(builder, HOUSE).slow == 0


def test_a_machine_is_not_named_into_the_track_of_another() -> None:
    """A node that is called like a condition, and the pin of a track that was measured under that condition."""
    builder, _ = house_ledger()
    slow = receipt(10.0, role="frontier", round_=None)
    slow["timing"] = [{**one, "cache": "cold"} for one in slow["timing"]]
    source = builder.add("run", slow, RUNNER)
    builder.add("pin", pin_body(f"frontier:{DECODE}/cache:cold", "10", source), JUDGE)
    run = builder.add("run", of_model("k3-slice", 12.0, node="node/cache:cold", round_=None), RUNNER)
    (row,) = [
        row
        for row in rescore(gather(verified(builder)).candidates, RULES["house, open"]).rows
        if row.candidate.identity == run and not isinstance(row.result, NotScorable)
    ]
    assert row.result.tier == "BASELINE", "nothing was measured on a machine of that name before"  # type: ignore[union-attr]
    same(builder, RULES["house, open"])


def test_one_receipt_with_endless_names_stops_no_judging() -> None:
    builder, _ = house_ledger()
    long = "m" * 190
    builder.add("run", of_model(long, node=long), RUNNER)
    rows = rescore(gather(verified(builder)).candidates, HOUSE).rows
    said = "not scorable: the names of its model and machine are too long for a slot"
    assert [row.why for row in rows[2:]] == [said, said]
    assert len(list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE)))) == 1
    assert seal(builder)
    assert codes(builder) == []
    same(builder, HOUSE)


def test_what_just_fits_into_a_slot_is_scored() -> None:
    room = MOST_SPELLED - len(DECODE) + len("k3-slice")
    for length, verdicts in ((room, 1), (room + 1, 0)):
        builder = Builder().open()
        builder.add("run", of_model("m" * length), RUNNER)
        assert len(seal(builder)) == verdicts
        assert codes(builder) == []
        same(builder, HOUSE)


def test_a_track_that_differs_in_case_or_a_letter_is_named() -> None:
    builder, _ = house_ledger()
    for wrong in (
        "decode@131072/K3-Slice/bf16/node",
        "decode@131072/k3-slice/bf16/nod",
        "decode@131072/k3-slce/bf16/node",
    ):
        missed = of(builder, speed("60", "").replace(DECODE, wrong))
        assert (missed.status, why(missed)) == (
            Status.NO_RECEIPT, f"nothing measured this at all; did you mean {DECODE}?",
        )  # fmt: skip
    far = of(builder, speed("60", "").replace(DECODE, "decode@64/other/q4/elsewhere"))
    assert why(far) == "nothing measured this at all"


# ----------------------------------------------------------------------------------------------------------- words


def test_no_word_of_a_claims_file_moves_a_cursor(command: Callable[..., Done], tmp_path: Path) -> None:
    house_ledger()[0].write(tmp_path)
    text = speed("60", "").replace('says = "', r'says = "\u001b[31m\u202e\u009b2J\r\nb: supported')
    assert "u202e" in text
    (tmp_path / "claims.toml").write_text(text)
    done = command("claims", "check", "claims.toml", "--against", ".", "--processes", "1")
    assert all(line.isprintable() for line in done.out.splitlines())
    assert r"\x1b[31m\u202e\x9b2J\r\nb: supported" in done.out.splitlines()[0]


# --------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("text", ["9" * 45, "0." + "0" * 46 + "1", "-" + "1" * 32])
def test_a_number_that_is_too_long_is_called_that(text: str) -> None:
    with pytest.raises(RescoreError, match=f"the number has {len(text)} characters"):
        parse_decimal(text, field="value")
    assert parse_decimal("9" * 31, field="value") == Fraction(10**31 - 1)
