"""What was published of a run was published where its verdict was sealed: no rule that comes later decides it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rule_entries import read_known
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.sweep import sweep
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, key_body
from tests.rescore.receipts import house_ledger, receipt, verified
from tests.rescore.test_admission import append, book
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal, take_back
from tests.rescore.test_sweep import same
from tests.rescore.test_unproved import PROVING

__all__ = ["book"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule
    from tests.commands import Done

STRICT = replace(PROVING, name="strict")
"""Refuses a run whose guarded metric fell."""
LAX = replace(STRICT, name="lax", guard=replace(STRICT.guard, least=Fraction(1, 2)))  # type: ignore[type-var]
"""Does not."""


def fallen() -> tuple[Builder, str]:
    """A ledger whose only candidate gained in one metric by losing in the other."""
    builder, _ = house_ledger()
    builder.lines.pop()
    return builder, builder.add("run", receipt(60.0, 400.0), RUNNER)


def publish(builder: Builder, rule: Rule) -> str:
    return builder.add("rule", rule_body(rule), JUDGE)


def published(builder: Builder) -> str | None:
    """What is published of the candidate's decoding, and the same as a sweep has it."""
    found = next(one.published for one in gather(verified(builder)).candidates if one.run.track.metric == "decode")
    for rule in (STRICT, LAX):
        same(builder, rule)
    return found


@pytest.mark.parametrize(("first", "second"), [(LAX, STRICT), (STRICT, LAX)])
def test_a_rule_that_is_published_behind_its_verdict_moves_nothing(first: Rule, second: Rule) -> None:
    builder, run = fallen()
    publish(builder, second)
    seal(builder, first)
    assert published(builder) is None, "nobody knows that rule"
    seal(builder, second)
    tier = {"strict": "REJECT", "lax": "XL"}
    speeds, accepted = speed("60.0", ""), claim("accepted", f'receipt = "{run}"\n')
    seen = (tier[second.name], of(builder, speeds).status, of(builder, accepted).status, climbs(builder))
    assert seen[1] is seen[2] is (Status.CONTRADICTED if second is STRICT else Status.SUPPORTED)
    for _ in range(2):
        assert (published(builder), of(builder, speeds).status, of(builder, accepted).status, climbs(builder)) == seen
        assert rescore(gather(verified(builder)).candidates, first).rows[0].before == tier[second.name]
        publish(builder, first)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED, "it follows all the same"


def climbs(builder: Builder) -> list[Fraction]:
    return [climb.value for climb in derive_climbs(gather(verified(builder)))]


def test_the_control_a_rule_that_is_published_in_front_of_its_verdict_decides() -> None:
    for rule, tier in ((LAX, "XL"), (STRICT, "REJECT")):
        builder, _ = fallen()
        publish(builder, rule)
        seal(builder, rule)
        assert published(builder) == tier


def test_whoever_published_too_late_seals_again_and_that_counts() -> None:
    builder, run = fallen()
    (early,) = seal(builder, LAX)
    assert list(new_verdicts(rescore(gather(verified(builder)).candidates, LAX))) == [], "it would be no more known"
    publish(builder, LAX)
    text = claim("accepted", f'receipt = "{run}"\n')
    assert why(of(builder, text)) == f"nobody judged receipt {run[:8]} by a rule that was published by then"
    assert rescore(gather(verified(builder)).candidates, LAX).rows[0].change == "not-comparable"
    assert sweep(verified(builder), LAX).changes == {"not-comparable": 1}
    assert len(seal(builder, LAX)) == 1
    assert published(builder) == "XL"
    assert seal(builder, LAX) == []
    take_back(builder, early)
    assert published(builder) == "XL"


def test_a_rule_that_was_taken_back_by_then_publishes_nothing_and_one_taken_back_later_does() -> None:
    builder, _ = fallen()
    rule = publish(builder, LAX)
    take_back(builder, rule)
    seal(builder, LAX)
    assert published(builder) is None
    seal(builder, STRICT)
    assert published(builder) is None
    builder, _ = fallen()
    rule = publish(builder, LAX)
    seal(builder, LAX)
    take_back(builder, rule)
    assert published(builder) == "XL"


def test_a_rule_that_is_published_once_more_is_known_again_from_there() -> None:
    builder, _ = fallen()
    take_back(builder, publish(builder, LAX))
    publish(builder, LAX)
    seal(builder, LAX)
    assert published(builder) == "XL"
    builder, _ = fallen()
    take_back(builder, publish(builder, LAX))
    seal(builder, LAX)
    publish(builder, LAX)
    assert published(builder) is None


def test_a_rule_that_a_revocation_took_back_was_never_published() -> None:
    builder, _ = fallen()
    other = len(builder.lines)
    publish(builder, LAX)
    builder.add("key", key_body(JUDGE, "judge", "revoke", revoked_from=other, reason="stolen"), ROOT)
    assert LAX.sha256 not in read_known(verified(builder))


def test_a_rule_entry_that_cannot_be_read_is_known_to_nobody() -> None:
    builder, _ = fallen()
    bad = builder.add("rule", {**rule_body(LAX), "rule_sha256": "0" * 64}, JUDGE)
    with pytest.raises(RescoreError):
        read_known(verified(builder))
    take_back(builder, bad)
    assert LAX.sha256 not in read_known(verified(builder))


STEPS = st.lists(st.sampled_from(["publish lax", "publish strict", "back", "seal lax", "seal strict"]), max_size=7)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_nothing_but_a_verdict_ever_changes_what_is_published(steps: list[str]) -> None:
    builder, _ = fallen()
    standing: list[str] = []
    known: list[str] = []  # an oracle of its own: which rules stand
    expected: str | None = None
    for step in steps:
        word, _, name = step.partition(" ")
        rule = LAX if name == "lax" else STRICT
        if word == "publish":
            standing.append(publish(builder, rule))
            known.append(name)
        elif word == "back" and standing:
            take_back(builder, standing.pop())
            known.pop()
        elif word == "seal":
            made = seal(builder, rule)
            assert bool(made) or expected is not None or name not in known
            if expected is None and name in known:
                expected = "XL" if rule is LAX else "REJECT"
        assert published(builder) == expected


def test_whoever_seals_under_a_rule_that_nobody_has_published_is_told(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    rule = tmp_path / "own.toml"
    rule.write_text(command("rules", "show", "house-4.decode", "--toml").out.replace('"house-4.decode"', '"own"'))
    rule.write_text(rule.read_text().replace('ceiling.multiple = "4"', 'ceiling.multiple = "5"'))
    given = ("rescore", book, "--rule", "own.toml", "--metric", "decode", "--processes", "1", "--seal", "judge.pem")
    done = command(*given)
    assert (done.code, "1 verdicts sealed" in done.err) == (0, True)
    assert "warning: the ledger has not published own, so what is sealed by it publishes nothing" in done.err
    assert "0 verdicts sealed, 1 were there already" in command(*given).err
    body = command("rules", "show", "own.toml", "--body").json
    assert append(command, tmp_path, "rule", body).code == 0
    done = command(*given)
    assert ("1 verdicts sealed" in done.err, "has not published" in done.err) == (True, False)
