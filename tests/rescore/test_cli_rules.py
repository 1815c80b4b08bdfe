"""``k3-ledger rules``."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.rules.registry import RULES, find_rule, name_by_digest
from k3_ledger.rescore.sealing import rule_body
from tests.ledgers import JUDGE, Builder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done


def test_list_names_every_rule_with_its_digest(command: Callable[..., Done]) -> None:
    done = command("rules", "list")
    assert done.code == 0
    assert all(name in done.out and rule.sha256[:12] in done.out for name, rule in RULES.items())
    assert "c4598c5" not in done.out


def test_list_can_show_what_makes_no_rule(command: Callable[..., Done]) -> None:
    rows = command("rules", "list", "--changes", "--json").json
    (pins,) = [row for row in rows if row["commit"] == "c4598c5"]
    assert (pins["kind"], pins["rule"], pins["since"]) == ("pins", None, "2026-08-03T09:16:59Z")
    assert {row["kind"] for row in rows} == {"arithmetic", "pins", "process", "release", "house"}
    assert "- (c4598c5)" in command("rules", "list", "--changes").out


def test_show_prints_every_parameter(command: Callable[..., Done]) -> None:
    done = command("rules", "show", "v0.2.1@2fc6cb9")
    assert done.out.startswith("v0.2.1@2fc6cb9  sha256 ")
    assert (
        dict(find_rule("v0.2.1@2fc6cb9").parameters())
        == command("rules", "show", "v0.2.1@2fc6cb9", "--json").json["parameters"]
    )


def test_a_rule_of_ones_own_starts_from_a_printed_one(command: Callable[..., Done], tmp_path: Path) -> None:
    text = command("rules", "show", "house-1.decode", "--toml").out
    (tmp_path / "mine.toml").write_text(
        text.replace('credit.anchor = "off"', 'credit.anchor = "on"').replace('credit.cap = "1"', 'credit.cap = "3"')
    )
    assert command("rules", "lint", "house-7.decode").code == 0
    assert command("rules", "lint", "house-2.decode").code == 1
    done = command("rules", "lint", "mine.toml")
    assert done.code == 1
    assert "cap-over-gain: frontier >= 3.000001 x the reference (reachable)" in done.out


def test_diff_shows_what_changed_and_exits_1(command: Callable[..., Done]) -> None:
    done = command("rules", "diff", "v0.2.1@cee15a2", "v0.2.1@2fc6cb9")
    assert done.code == 1
    assert done.out.splitlines()[1].split() == ["credit.cap", "2", "1"]
    assert "only pins differ" not in done.out


RECORDED = "precision.percent and precision.kl say how figures are recorded: "


def test_show_says_which_parameters_change_no_verdict(command: Callable[..., Done]) -> None:
    assert command("rules", "show", "v0.1.0").out.endswith(f"{RECORDED}they change no verdict\n")


def test_diff_says_where_nothing_differs_that_a_verdict_rests_on(command: Callable[..., Done], tmp_path: Path) -> None:
    text = command("rules", "show", "house-7.decode", "--toml").out
    coarse = text.replace('"house-7.decode"', '"coarse"').replace('precision.kl = "9"', 'precision.kl = "0"')
    (tmp_path / "coarse.toml").write_text(coarse)
    done = command("rules", "diff", "house-7.decode", str(tmp_path / "coarse.toml"))
    assert (done.code, done.out.splitlines()[-1]) == (1, f"{RECORDED}the two judge every run alike")
    (tmp_path / "coarse.toml").write_text(coarse.replace('precision.speed = "6"', 'precision.speed = "5"'))
    assert RECORDED not in command("rules", "diff", "house-7.decode", str(tmp_path / "coarse.toml")).out


def test_diff_tells_pins_from_policy(command: Callable[..., Done]) -> None:
    assert command("rules", "diff", "v0.1.0", "v0.1.0@3bc3211").out.endswith("the same policy: only pins differ\n")
    document = command("rules", "diff", "v0.1.0", "v0.1.0@3bc3211", "--json").json
    assert document["same_policy"] is True
    same = command("rules", "diff", "v0.2.1", "v0.2.1@c8d8866")
    assert (same.code, same.out.split(",")[0]) == (0, "v0.2.1 and v0.2.1@c8d8866 are the same rule")


def test_a_pin_that_only_one_rule_has_is_a_difference(command: Callable[..., Done]) -> None:
    done = command("rules", "diff", "v0.1.0@fb8e012", "v0.1.0@e2125da")
    assert "pins.reference:decode@131072/Kimi-K3/UD-IQ1_S/h200x8  -" in done.out


def test_lint_reports_region_and_witness(command: Callable[..., Done]) -> None:
    done = command("rules", "lint", "v0.2.0")
    assert done.code == 1
    assert "warning: cap-over-gain: frontier >= 36.89 tok/s (reachable)" in done.out
    assert "witness: speed 37.63, frontier 36.89, reference 18.4435: S by credit 4.01 %, XS by gain 2.01 %" in done.out


def test_lint_of_everything_separates_rules(command: Callable[..., Done]) -> None:
    done = command("rules", "lint")
    assert done.code == 1
    assert done.out.count("\n\n") == len(RULES) - 1
    assert "house-7.prefill: no findings" in done.out
    reports = command("rules", "lint", "--json").json
    assert [report["rule"] for report in reports] == list(RULES)


def test_lint_takes_what_was_measured_since(command: Callable[..., Done]) -> None:
    done = command("rules", "lint", "v0.2.2@f561299", "--measured", "decode@131072=56.82")
    assert "admits a loss of 19.0 % against a measured 56.82" in done.out
    assert "claim >= 30.12 tok/s" in command("rules", "lint", "v0.2.1", "--jitter", "6.8").out
    assert "claim >= 512.01 tok/s" in command("rules", "lint", "v0.2.1", "--signal", "2").out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("rules", "show", "v9"), 2, "no rule is named 'v9' [K3L-RULE-UNKNOWN]"),
        (("rules", "show", "gone.toml"), 3, "K3L-UNREADABLE"),
        (("rules", "lint", "--jitter", "0"), 2, "must be above zero"),
        (("rules", "lint", "--jitter", "7s"), 2, "carries a unit"),
        (("rules", "lint", "--measured", "decode"), 2, "is not METRIC@CONTEXT=VALUE"),
        (("rules", "lint", "--measured", "decode@4=nan"), 2, "nan is not a number to compute with"),
        (("rules", "diff", "v0.2.0"), 2, "Missing argument"),
    ],
)
def test_bad_input_is_named(command: Callable[..., Done], words: tuple[str, ...], code: int, says: str) -> None:
    done = command(*words)
    assert done.code == code
    assert says in done.err


def test_a_broken_rule_file_is_exit_3(command: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text('name = "x"\narithmetic = "anchored-gain/1"\n')
    done = command("rules", "lint", "broken.toml")
    assert done.code == 3
    assert "scope.metric is missing" in done.err


def published(tmp_path: Path, *bodies: dict[str, Any]) -> Path:
    """A ledger on disk that has published rules."""
    builder = Builder().open()
    for body in bodies:
        builder.add("rule", body, JUDGE)
    (tmp_path / "book").mkdir()
    return builder.write(tmp_path / "book")


def test_the_rules_of_a_ledger_are_known_by_their_digest(command: Callable[..., Done], tmp_path: Path) -> None:
    house, old = find_rule("house-1.decode"), find_rule("v0.2.1")
    forged = replace(old, name="v0.2.2")
    pinned = replace(house, name="mine", pins=(("frontier:decode@131072/m/q/n", Fraction(50)),))
    own = replace(house, name="strict", tiers=replace(house.tiers, significance=Fraction(1, 10)))
    renamed = replace(old, name="ours")
    published(tmp_path, *map(rule_body, (house, forged, pinned, own, renamed)))
    rows = command("rules", "list", "book", "--json").json
    assert [(row["entry"], row["rule"], row["stands_for"]) for row in rows] == [
        (4, "house-1.decode", "registered"),
        (5, "v0.2.2", "registered as v0.2.1"),
        (6, "mine", "house-1.decode with other pins"),
        (7, "strict", "its own"),
        (8, "ours", "registered as v0.2.1"),
    ]
    assert rows[0]["sha256"] == house.sha256
    done = command("rules", "list", "book")
    assert done.out.splitlines()[2].split()[:1] == ["5"]
    assert done.out.splitlines()[2].endswith("decode@131072  registered as v0.2.1")
    assert command("rules", "list", "book", "--changes").code == 2


def test_a_rule_that_took_another_ones_name_is_named(command: Callable[..., Done], tmp_path: Path) -> None:
    house = find_rule("house-1.decode")
    lax = replace(house, tiers=replace(house.tiers, significance=Fraction(0)))
    published(tmp_path, rule_body(lax))
    assert "not the registered rule of its name" in command("rules", "list", "book").out


def test_a_rule_whose_pins_alone_differ_is_told_from_another_policy() -> None:
    house = find_rule("house-1.decode")
    pinned = replace(house, pins=(("frontier:decode@131072/m/q/n", Fraction(50)),))
    assert name_by_digest(pinned) == "house-1.decode with other pins"
    assert name_by_digest(house) == "registered"


@pytest.mark.parametrize(
    ("field", "value"), [("rule_sha256", find_rule("house-1.prefill").sha256), ("arithmetic", "anchored-gain/1")]
)
def test_a_rule_entry_that_states_another_digest_is_refused(
    command: Callable[..., Done], tmp_path: Path, field: str, value: str
) -> None:
    """Whoever reads the digest would believe in another rule than the one that judges."""
    published(tmp_path, {**rule_body(find_rule("house-1.decode")), field: value})
    unreadable = "K3L-JUDGEMENT-UNREADABLE"
    for words, code in (
        (("rules", "list", "book"), "K3L-RULE-DIGEST"),
        (("rescore", "book", "--rule", "in-force"), unreadable),
        (("frontier", "book"), unreadable),
    ):
        done = command(*words)
        assert done.code == 1
        assert code in done.err + done.out
        assert f"body.{field}" in done.err
    assert command("verify", "book", "--processes", "1").code == 1


def test_a_ledger_without_rules_says_so(command: Callable[..., Done], tmp_path: Path) -> None:
    published(tmp_path)
    done = command("rules", "list", "book")
    assert (done.code, done.out, done.err) == (0, "", "book has published no rule\n")


def test_a_rule_is_published_as_it_is_shown(command: Callable[..., Done]) -> None:
    shown = command("rules", "show", "v0.2.1", "--body").json
    assert shown == rule_body(find_rule("v0.2.1"))
    both = command("rules", "show", "v0.2.1", "--body", "--toml")
    assert both.code == 2
    assert "choose one form" in both.err


@pytest.mark.parametrize(
    ("rules", "spec", "says"),
    [
        (("v0.2.2",), "decode@131=56", "no rule that is linted knows decode@131, only prefill@32768, decode@131072"),
        (("v0.2.1",), "decod@131072=56", "no rule that is linted knows decod@131072, only decode@131072"),
        (("v0.2.1",), "prefill@32768=56", "no rule that is linted knows prefill@32768"),
        ((), "decode=56", "no rule that is linted knows decode, only"),
    ],
)
def test_a_value_that_no_rule_asks_for_is_refused(
    command: Callable[..., Done], rules: tuple[str, ...], spec: str, says: str
) -> None:
    done = command("rules", "lint", *rules, "--measured", spec)
    assert (done.code, done.out) == (2, "")
    assert says in " ".join(done.err.split())


def test_a_value_that_some_rule_asks_for_is_taken(command: Callable[..., Done]) -> None:
    assert command("rules", "lint", "v0.2.1", "v0.2.2", "--measured", "prefill@32768=500").code == 1
    assert command("rules", "lint", "house-7.prefill", "--measured", "decode@131072=56.8").code == 0


def test_lint_holds_every_rule_to_the_multiple_that_is_asked_for(command: Callable[..., Done]) -> None:
    for name in ("house-7.decode", "house-7.prefill"):
        assert command("rules", "lint", name).out == f"{name}: no findings\n"
        done = command("rules", "lint", name, "--signal", "1000")
        assert (done.code, "error: margin-drowns: any claim (live)" in done.out) == (1, True)
        assert command("rules", "lint", name, "--signal", "9").code == 0


def test_lint_says_of_a_file_that_its_name_is_another_rules(command: Callable[..., Done], tmp_path: Path) -> None:
    """As a re-score by that file says it, and of a file that says the same as the shipped rule nothing."""
    text = command("rules", "show", "house-7.decode", "--toml").out
    (tmp_path / "same.toml").write_text(text)
    (tmp_path / "lax.toml").write_text(text.replace('clock.jitter_multiple = "10"', 'clock.jitter_multiple = "12"'))
    (tmp_path / "mine.toml").write_text((tmp_path / "lax.toml").read_text().replace('"house-7.decode"', '"mine"'))
    lax = command("rules", "show", "lax.toml", "--json").json["sha256"]
    both = f"that one is {find_rule('house-7.decode').sha256}, this one {lax}"
    note = f"note: house-7.decode is the name of another rule: {both}\n"
    for words in ((), ("--json",)):
        assert command("rules", "lint", "lax.toml", *words).err == note
        assert command("rules", "lint", "v0.2.1", "same.toml", "lax.toml", "mine.toml", *words).err == note
        assert command("rules", "lint", "same.toml", "mine.toml", "house-7.decode", *words).err == ""
