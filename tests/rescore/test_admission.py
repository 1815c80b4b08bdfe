"""What verify would refuse for ever is refused before it is appended; whoever appended it all the same has a cure."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.admission import ADMITTED, admit, admit_verdict
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import ALIASES, RULES, find_namesake, find_rule
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import read_entry
from tests.ledgers import JUDGE, ROOT, Builder, Key, key_body
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, verified
from tests.rescore.test_cli_judging import invented
from tests.rescore.test_replay import HOUSE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.schemas.findings import Finding
    from tests.rescore.conftest import Done

FRONTIER = f"frontier:{DECODE}"
OTHER = replace(HOUSE, name="mine", credit=replace(HOUSE.credit, cap=HOUSE.credit.cap * 2))
UNKNOWN = {"rule": "yours", "rule_sha256": "0" * 64}
MERGE = {"pull_request": 7, "commit": "c" * 40, "run": None, "claimed": "58.7", "slot": FRONTIER}


def ledger() -> tuple[Builder, dict[str, str]]:
    builder, names = house_ledger()
    names["rule"] = builder.add("rule", rule_body(OTHER), JUDGE)
    return builder, names


def verdict() -> dict[str, Any]:
    (body,) = new_verdicts(rescore(gather(verified(ledger()[0])).candidates, HOUSE))
    return body


def forged(names: dict[str, str]) -> dict[str, tuple[str, dict[str, Any], Code]]:
    """Judgements that verify refuses, by what is wrong with them: kind, body, and the code it is refused under."""
    source = names["frontier"]
    unreadable, edited, taken = Code.JUDGEMENT_UNREADABLE, Code.PIN_HAND_EDITED, Code.RULE_NAME_TAKEN
    another = replace(OTHER, credit=HOUSE.credit)
    return {
        "a pin of 0": ("pin", pin_body(FRONTIER, "0", source), unreadable),
        "a negative pin": ("pin", pin_body(FRONTIER, "-50", source), unreadable),
        "a pin in minutes": ("pin", pin_body(FRONTIER, "50", source) | {"unit": "tok/min"}, unreadable),
        "a misspelt role": ("pin", pin_body(f"frontir:{DECODE}", "50", source), unreadable),
        "no slot": ("pin", pin_body("decode", "50", source), unreadable),
        "another value": ("pin", pin_body(FRONTIER, "50.1", source), edited),
        "another metric's value": ("pin", pin_body(FRONTIER, "450", source), edited),
        "the other engine's value": ("pin", pin_body(FRONTIER, "40", names["reference"]), edited),
        "this engine's value": ("pin", pin_body(f"reference:{DECODE}", "50", source), edited),
        "measured on another node": ("pin", pin_body(FRONTIER.replace("/node", "/other"), "50", source), edited),
        "a source that measured nothing": ("pin", pin_body(FRONTIER, "50", names["rule"]), Code.PIN_UNSOURCED),
        "a registered name": ("rule", rule_body(replace(OTHER, name="v0.2.2")), taken),
        "an alias": ("rule", rule_body(replace(OTHER, name="pre-0.1.0")), taken),
        "a published name": ("rule", rule_body(another), taken),
        "another rule's digest": ("rule", rule_body(OTHER) | {"rule_sha256": HOUSE.sha256}, unreadable),
        "half of a rule": ("rule", rule_body(OTHER) | {"parameters": rule_body(OTHER)["parameters"][:9]}, unreadable),  # type: ignore[index]
        "a merge of no slot": ("merge", MERGE | {"slot": f"fronter:{DECODE}"}, unreadable),
        "another tier": ("verdict", verdict() | {"tier": "L"}, Code.VERDICT_MISMATCH),
        "another pin": ("verdict", _repinned(), Code.VERDICT_PIN),
        "another rule by a registered name": (
            "verdict", verdict() | {"rule_sha256": OTHER.sha256}, Code.VERDICT_MISMATCH,
        ),
        "a rule nobody knows by a registered name": ("verdict", verdict() | {"rule_sha256": "0" * 64}, taken),
        "a rule nobody knows by a published name": ("verdict", verdict() | UNKNOWN | {"rule": "mine"}, taken),
    }  # fmt: skip


def _repinned() -> dict[str, Any]:
    body = verdict()
    pins = [pin | {"value": "41"} if pin["slot"].startswith("reference") else pin for pin in body["pins"]]
    steps = [item | {"value": "41"} if item["name"] == "reference" else item for item in body["steps"]]
    return body | {"pins": pins, "steps": steps}


CASES = sorted(forged(dict.fromkeys(("frontier", "reference", "rule"), "0" * 64)))


def asked(builder: Builder, kind: str, body: dict[str, Any]) -> list[Finding]:
    """What admission says of an entry that would stand next in a ledger, which it does not change."""
    log = verified(builder)
    ahead = replace(builder, lines=list(builder.lines))
    ahead.add(kind, body, JUDGE)
    *before, last = list(verified(ahead))
    assert kind in ADMITTED or kind == "verdict"
    return list(admit_verdict(last.entry, log) if kind == "verdict" else admit(last.entry, before))


@pytest.mark.parametrize("what", CASES)
def test_what_verify_refuses_is_not_admitted_and_superseding_it_is_the_cure(what: str) -> None:
    builder, names = ledger()
    kind, body, code = forged(names)[what]
    (said,) = asked(builder, kind, body)
    assert (said.code, said.hint) == (code, "correct the body; nothing was appended")
    entry = builder.add(kind, body, JUDGE)
    refused = settle_judgements(verified(builder))
    assert (refused.exit_code, refused.findings[-1].code) == (ExitCode.FALSE, code)
    assert (said.message, said.expected, said.found) == (
        refused.findings[-1].message, refused.findings[-1].expected, refused.findings[-1].found,
    )  # fmt: skip
    builder.add("supersede", {"target": entry, "reason": "a slip", "replacement": None}, JUDGE)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED
    if kind == "rule":  # and its name is free for the rule that it belongs to
        assert not asked(builder, "rule", rule_body(OTHER))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("rule", rule_body(find_rule("v0.2.2"))),
        ("rule", rule_body(OTHER)),
        ("rule", rule_body(replace(OTHER, name="mine-too"))),
        ("merge", MERGE),
        ("verdict", verdict()),
        ("verdict", verdict() | UNKNOWN),  # not derived, and not refused either
    ],
)
def test_what_verify_takes_is_admitted(kind: str, body: dict[str, Any]) -> None:
    builder, names = ledger()
    assert asked(builder, kind, body) == []
    assert asked(builder, "pin", pin_body(f"guard:{PREFILL}", "450", names["frontier"])) == []


slots = st.sampled_from(
    [FRONTIER, f"guard:{PREFILL}", f"reference:{DECODE}", f"frontir:{DECODE}", f"frontier:{PREFILL}"]
)
values = st.sampled_from(["50", "450", "40", "60", "0", "-1", "50.0000001"])


@settings(max_examples=60)
@given(slots, values, st.sampled_from(["frontier", "reference", "candidate", "rule"]), st.sampled_from(["tok/s", "s"]))
def test_a_pin_is_admitted_exactly_when_verify_takes_it(slot: str, value: str, source: str, unit: str) -> None:
    builder, names = ledger()
    body = pin_body(slot, value, names[source]) | {"unit": unit}
    said = asked(builder, "pin", body)
    builder.add("pin", body, JUDGE)
    assert bool(said) == (settle_judgements(verified(builder)).exit_code is ExitCode.FALSE)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "v0.2.1", "pre-0.1.0"]), st.integers(0, 2), st.booleans()), max_size=5
    ),
    st.tuples(st.sampled_from(["a", "b", "v0.2.1", "pre-0.1.0"]), st.integers(0, 2)),
)
def test_a_rule_is_admitted_exactly_when_verify_takes_it(
    earlier: list[tuple[str, int, bool]], last: tuple[str, int]
) -> None:
    rules = [OTHER, find_rule("v0.2.1"), find_rule("pre-0.1.0")]
    builder = Builder().open()
    for name, which, superseded in earlier:
        body = rule_body(replace(rules[which], name=name))
        wrong = bool(asked(builder, "rule", body))
        entry = builder.add("rule", body, JUDGE)
        if superseded or wrong:
            builder.add("supersede", {"target": entry, "reason": "a slip", "replacement": None}, JUDGE)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED
    body = rule_body(replace(rules[last[1]], name=last[0]))
    said = asked(builder, "rule", body)
    builder.add("rule", body, JUDGE)
    assert bool(said) == (settle_judgements(verified(builder)).exit_code is ExitCode.FALSE)


def test_a_name_is_taken_by_whoever_had_it_first() -> None:
    second = replace(OTHER, credit=HOUSE.credit)
    for name, target in ALIASES.items():
        assert find_namesake(name, "0" * 64) is RULES[target]
    assert find_namesake("mine", second.sha256) is None
    assert find_namesake("mine", second.sha256, [OTHER, second]) is OTHER
    assert find_namesake("mine", OTHER.sha256, [OTHER, second]) is None
    assert find_namesake("v0.2.1", find_rule("v0.2.1").sha256, [replace(OTHER, name="v0.2.1")]) is None


def test_a_broken_judgement_in_front_refuses_no_right_one() -> None:
    builder, names = ledger()
    builder.add("pin", pin_body(FRONTIER, "0", names["frontier"]), JUDGE)
    builder.add("pin", pin_body(FRONTIER, "49", names["frontier"]), JUDGE)
    for value, codes in (("50", []), ("52", [Code.PIN_HAND_EDITED])):
        assert [said.code for said in asked(builder, "pin", pin_body(FRONTIER, value, names["frontier"]))] == codes


def test_what_was_rehearsed_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from k3_ledger.cli.admission import admission
    from k3_ledger.ledger.writer.store import Ledger

    builder, names = ledger()
    builder.write(tmp_path)
    check, times = admission(Ledger.open(tmp_path)), []
    monkeypatch.setattr("k3_ledger.rescore.admission.admit", lambda *_: times.append(1) or ())
    for value in ("50", "50", "51"):
        builder.add("pin", pin_body(FRONTIER, value, names["frontier"]), JUDGE)
        assert list(check(list(verified(builder))[-1].entry)) == []
        builder.lines.pop()
    assert len(times) == 2


def test_a_pin_is_not_raised_to_what_no_receipt_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from datetime import UTC, datetime

    from k3_ledger.cli.reconcile import _write
    from k3_ledger.rescore.pins import read_pins
    from k3_ledger.rescore.reconcile import Measurement, reconcile_lock

    text = f'[[pin]]\nslot = "{FRONTIER}"\nvalue = 50\nunit = "tok/s"\nsource = "{"a" * 64}"\n'
    path = tmp_path / "pins.toml"
    path.write_text(text)
    pins = read_pins(text.encode(), source="pins.toml")
    for receipt_, raised in ((None, []), ("b" * 64, ["b" * 64])):
        newest = Measurement(pins[0].track, Fraction(70), datetime(2026, 1, 1, tzinfo=UTC), receipt_)
        assert [pin.source for pin in _write(path, reconcile_lock(pins, [newest]))] == raised
        said = capsys.readouterr().err
        assert (said == "") == bool(raised)
        assert (path.read_text() == text) == (not raised)
    assert "value = 70" in path.read_text()


# ------------------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def book(command: Callable[..., Done], tmp_path: Path) -> Path:
    """A ledger of the command's own: the other engine, a frontier run and a candidate."""
    command("keygen", "root.pem", "log.pem", "runner.pem", "judge.pem")
    roles = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
    assert command("init", "book", "--origin", "example.org/x", "--key", "root.pem", *roles).code == 0
    for role, decode in (("reference", 40), ("frontier", 50), ("candidate", 60)):
        invented(tmp_path, role, decode)
        assert command("seal", role, "--ledger", "book", "--key", "runner.pem").code == 0
    return tmp_path / "book"


def append(command: Callable[..., Done], tmp_path: Path, kind: str, body: dict[str, Any]) -> Done:
    (tmp_path / "body.json").write_text(json.dumps(body))
    return command("append", kind, "--body", "body.json", "--ledger", "book", "--key", "judge.pem")


def names_of(book: Path) -> dict[str, str]:
    """Identities of the runs by their role."""
    lines = (book / "ledger.jsonl").read_bytes().splitlines()
    entries = [read_entry(index, line[len(b'{"entry":') : -98]) for index, line in enumerate(lines)]
    return {item.entry.body.role: item.identity for item in entries if item.entry.kind == "run"}


def test_append_refuses_what_verify_would_and_leaves_the_ledger_as_it_was(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    names = names_of(book)
    names["rule"] = names["candidate"]
    assert append(command, tmp_path, "rule", rule_body(OTHER)).code == 0
    verdict_ = json.loads(command("rescore", book, "--rule", "house-1.decode", "--json").out)["runs"][0]["verdict"]
    before = (book / "ledger.jsonl").read_bytes()
    judged = {"another tier", "another rule by a registered name", "a rule nobody knows by a published name"}
    left_out = {"a source that measured nothing", "another pin"}
    for what, (kind, body, code) in forged(names).items():
        if what in left_out:
            continue
        wrong = {name: body[name] for name in ("rule", "rule_sha256")} if what in judged else {}
        wrong |= {"tier": "S"} if what == "another tier" else {}
        done = append(command, tmp_path, kind, verdict_ | wrong if wrong else body)
        assert (done.code, done.out) == (1, ""), what
        assert (f"[{code.id}]" in done.err) or kind == "verdict", (what, done.err)
        assert "hint: correct the body; nothing was appended" in done.err
    assert (book / "ledger.jsonl").read_bytes() == before
    assert append(command, tmp_path, "verdict", verdict_).code == 0
    assert (
        append(command, tmp_path, "pin", pin_body(FRONTIER.replace("k3-slice", "slice"), "50", names["frontier"])).code
        == 0
    )
    assert command("verify", "book").code == 0
    # A pin falls for nobody, and after a supersession from where it stands.
    (tmp_path / "faster").mkdir()
    invented(tmp_path / "faster", "frontier", 55)
    assert command("seal", "faster/frontier", "--ledger", "book", "--key", "runner.pem").code == 0
    slot, faster = FRONTIER.replace("k3-slice", "slice"), names_of(book)["frontier"]
    assert append(command, tmp_path, "pin", pin_body(slot, "55", faster)).code == 0
    pin = read_entry(0, (book / "ledger.jsonl").read_bytes().splitlines()[-1][len(b'{"entry":') : -98]).identity
    fallen = append(command, tmp_path, "pin", pin_body(slot, "50", names["frontier"]))
    assert (fallen.code, "[K3L-PIN-LOWERED]" in fallen.err) == (1, True)
    assert append(command, tmp_path, "supersede", {"target": pin, "reason": "slip", "replacement": None}).code == 0
    assert append(command, tmp_path, "pin", pin_body(slot, "50", names["frontier"])).code == 0
    assert command("verify", "book").code == 0


def test_a_file_that_calls_itself_a_registered_rule_seals_nothing(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    text = command("rules", "show", "v0.2.1", "--toml").out
    (tmp_path / "lax.toml").write_text(text.replace('tiers.significance = "0.02"', 'tiers.significance = "0"'))
    before = (book / "ledger.jsonl").read_bytes()
    done = command("rescore", book, "--rule", "lax.toml", "--seal", "judge.pem")
    lax = json.loads(command("rules", "show", "lax.toml", "--json").out)["sha256"]
    assert (done.code, done.out) == (2, "")
    said = "".join(character for character in done.err if character.isalnum() or character == ".")
    assert find_rule("v0.2.1").sha256 in said
    assert lax in said
    assert (book / "ledger.jsonl").read_bytes() == before
    looked = command("rescore", book, "--rule", "lax.toml")
    assert looked.code == 0
    assert looked.err.startswith(f"note: v0.2.1 is the name of another rule: that one is {find_rule('v0.2.1').sha256}")
    # A name that a later release may give to its own, and a copy under a name that nobody published.
    for name, content, said in (
        ("house-77.decode", "lax.toml", "is a name that only registered rules are given"),
        ("copied", "", "is v0.2.1 or v0.2.1@c8d8866 under a name that nobody published"),
    ):
        other = (tmp_path / content).read_text() if content else text
        (tmp_path / "other.toml").write_text(other.replace('name = "v0.2.1"', f'name = "{name}"'))
        done = command("rescore", book, "--rule", "other.toml", "--seal", "judge.pem")
        assert (done.code, done.out, said in " ".join(done.err.replace("│", " ").split())) == (2, "", True)
        assert (book / "ledger.jsonl").read_bytes() == before
        assert command("rescore", book, "--rule", "other.toml").code == 0
    # The registered one under its own name, from a file, is no other rule.
    (tmp_path / "same.toml").write_text(text)
    assert command("rescore", book, "--rule", "same.toml", "--seal", "judge.pem").code == 0
    # A published name is taken, too.
    assert append(command, tmp_path, "rule", rule_body(OTHER)).code == 0
    (tmp_path / "mine.toml").write_text(text.replace('name = "v0.2.1"', 'name = "mine"'))
    taken = command("rescore", book, "--rule", "mine.toml", "--seal", "judge.pem")
    assert (taken.code, "mine is the name of another rule" in taken.err.replace("\n", " ")) == (2, True)


def test_a_rule_under_a_taken_name_judges_nothing_once_it_is_superseded() -> None:
    for name in ("v0.2.1", "mine"):
        builder, _ = ledger()
        lax = replace(OTHER, name=name, credit=HOUSE.credit, guard=None)
        rule = builder.add("rule", rule_body(lax), JUDGE)
        (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, lax))
        entry = builder.add("verdict", body, JUDGE)
        builder.add("supersede", {"target": rule, "reason": "taken", "replacement": None}, JUDGE)
        report = settle_judgements(verified(builder))
        assert [finding.code for finding in report.findings] == [Code.RULE_NAME_TAKEN]
        builder.add("supersede", {"target": entry, "reason": "its rule", "replacement": None}, JUDGE)
        assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED
    # A name of its own was nobody else's: what was judged by it goes on to be derived.
    builder, names = ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, OTHER))
    builder.add("verdict", body, JUDGE)
    builder.add("supersede", {"target": names["rule"], "reason": "another one is better", "replacement": None}, JUDGE)
    (judged,) = [step for step in settle_judgements(verified(builder)).steps if step.name == "verdicts"]
    assert (judged.detail, judged.failed) == ("1 derived again, 1 supersessions read", 0)


def test_verify_counts_verdicts_that_it_could_not_derive_again() -> None:
    builder, _ = ledger()
    (judged,) = [step for step in settle_judgements(verified(builder)).steps if step.name == "verdicts"]
    assert judged.detail == "1 rules read"
    builder.add("verdict", verdict() | UNKNOWN, JUDGE)
    (judged,) = [step for step in settle_judgements(verified(builder)).steps if step.name == "verdicts"]
    assert judged.detail == "1 not derived again, 1 rules read"
    builder.add("verdict", verdict(), JUDGE)
    (judged,) = [step for step in settle_judgements(verified(builder)).steps if step.name == "verdicts"]
    assert judged.detail == "1 derived again, 1 not derived again, 1 rules read"


def supersession(target: str, replacement: str | None) -> dict[str, Any]:
    return {"target": target, "reason": "a slip", "replacement": replacement}


SECOND = Key("second-judge")
CIRCLES = {
    "itself": [("a", "a")],
    "two in a circle": [("a", "b"), ("b", "a")],
    "three in a circle": [("a", "b"), ("b", "c"), ("c", "a")],
    "a tail that ends in a circle": [("d", "a"), ("a", "b"), ("b", "c"), ("c", "b")],
    "what was superseded before": [("a", None), ("b", "a")],
    "what was superseded by something else": [("a", "b"), ("c", "a")],
}
"""Supersessions (target, replacement), of which the last is refused and no other."""


def notes() -> tuple[Builder, dict[str, str]]:
    builder = Builder().open()
    return builder, {name: builder.add("note", {"text": name, "artifacts": []}, JUDGE) for name in "abcd"}


@pytest.mark.parametrize("what", CIRCLES)
def test_a_replacement_that_does_not_stand_is_not_admitted_and_verify_refuses_it_until_it_is_superseded(
    what: str,
) -> None:
    builder, names = notes()
    *earlier, (target, replacement) = CIRCLES[what]
    for one, other in earlier:
        body = supersession(names[one], other and names[other])
        assert asked(builder, "supersede", body) == []
        builder.add("supersede", body, JUDGE)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED
    body = supersession(names[target], replacement and names[replacement])
    (said,) = asked(builder, "supersede", body)
    assert (said.code, said.hint) == (Code.SUPERSEDE_REPLACEMENT, "correct the body; nothing was appended")
    bad = builder.add("supersede", body, JUDGE)
    report = settle_judgements(verified(builder))
    assert (report.exit_code, [finding.code for finding in report.findings]) == (ExitCode.FALSE, [said.code])
    assert report.findings[0].position.index == len(builder.lines) - 1
    (step,) = [step for step in report.steps if step.name == "verdicts"]
    assert (step.checked, step.failed, step.detail) == (
        len(CIRCLES[what]), 1, f"{len(CIRCLES[what])} supersessions read",
    )  # fmt: skip
    builder.add("supersede", supersession(bad, None), JUDGE)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", "d", None])), max_size=6))
def test_supersessions_that_are_admitted_never_go_in_a_circle(pairs: list[tuple[str, str | None]]) -> None:
    builder, names = notes()
    after: list[tuple[str, str | None]] = []
    for target, replacement in pairs:
        body = supersession(names[target], replacement and names[replacement])
        if not asked(builder, "supersede", body):
            builder.add("supersede", body, JUDGE)
            after.append((target, replacement))
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED
    for start in "abcd":
        reached, fresh = {start}, [start]
        while fresh:
            at = fresh.pop()
            fresh += [to for one, to in after if one == at and to is not None]
            assert start not in fresh
            reached.update(fresh)


def test_what_stands_in_its_place_may_be_older_and_may_itself_be_superseded_later() -> None:
    builder, names = notes()
    builder.add("supersede", supersession(names["d"], names["a"]), JUDGE)
    builder.add("supersede", supersession(names["a"], names["b"]), JUDGE)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED


def test_a_supersession_that_was_taken_back_bars_no_replacement_and_one_by_what_was_taken_back_is_not_checked() -> None:
    builder, names = notes()
    first = len(builder.lines)
    builder.add("supersede", supersession(names["a"], names["b"]), JUDGE)
    stolen = builder.add("note", {"text": "stolen", "artifacts": []}, JUDGE)
    builder.add("key", key_body(JUDGE, "judge", "revoke", revoked_from=first), ROOT)
    builder.add("key", key_body(SECOND, "judge"), ROOT)
    honest = supersession(names["b"], names["a"])
    ahead = list(verified(builder))
    assert [item.disowned for item in ahead[first : first + 2]] == [True, True]
    builder.add("supersede", honest, SECOND)
    assert list(admit(list(verified(builder))[-1].entry, ahead)) == []
    builder.add("supersede", supersession(names["c"], stolen), SECOND)
    report = settle_judgements(verified(builder))
    (step,) = [step for step in report.steps if step.name == "verdicts"]
    assert (report.exit_code, step.checked, step.not_checked) == (ExitCode.VERIFIED, 1, 1)
    assert report.findings[-1].code is Code.JUDGEMENT_DISOWNED
