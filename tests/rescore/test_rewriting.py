"""Raising a pin changes the bytes of that pin's own fields, whatever way the file is written in, and no other byte.

Every form is a template: what the file was and what it has to become are the same text with different figures in it.
"""

from __future__ import annotations

import contextlib
import re
import stat
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from tomlkit.exceptions import TOMLKitError

from k3_ledger.rescore import rewriting
from k3_ledger.rescore.pins import PinRecord, read_pins
from k3_ledger.rescore.rewriting import rewrite_pins
from k3_ledger.rescore.slots import Track
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import RUNNER, Builder
from tests.rescore.receipts import DECODE, receipt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

TRACK = Track("decode", 131_072, "m", "q", "n")
SLOT, OTHER = TRACK.slot("frontier"), TRACK.slot("guard")
OLD, NEW, AT = "a" * 32, "b" * 32, "2026-01-02T03:04:05Z"
CET = "2026-01-02T04:04:05+01:00"
"""The same moment."""
RAISED = PinRecord("frontier", TRACK, Fraction("51.5"), "tok/s", NEW, None, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

TABLE = f'[[pin]]\nslot = "{SLOT}"\nvalue = <50>\nunit = "tok/s"\nsource = "<source>"\ntime = <time>\n'
INLINE = f'{{slot = "{SLOT}", value = <50>, unit = "tok/s", source = "<source>", time = <time>}}'
BESIDE = f'[[pin]]\nslot = "{OTHER}"\nvalue = 50.00  # 50, "value = 50"\nunit = "tok/s"\nsource = "{OLD}"\n'

FORMS = {
    "plain": TABLE,
    "a quoted value": TABLE.replace("<50>", '"<50>"'),
    "quoted keys": re.sub(r"^(value|unit)", r'"\1"', TABLE, flags=re.MULTILINE).replace("source =", "'source' ="),
    "escaped keys": TABLE.replace("value =", '"v\\u0061lue" ='),
    "uneven spaces": TABLE.replace("\n", "  \n").replace(" = ", " \t=    "),
    "none": TABLE.replace(" = ", "="),
    "indented": TABLE.replace("\n", "\n\t  ").rstrip("\t "),
    "comments with quotes and keys": TABLE.replace("\n", ' # it\'s "value = 50" # [[pin]]\n'),
    "a line separator in a comment": TABLE.replace("value", "# why\u2028value = below\u2029value = 7\nvalue"),
    "a next line in a comment": f"# a\u0085value = 3\u0085[[pin]]\n{TABLE}",
    "a header in a comment": f"# [[pin]]\n{TABLE}",
    "carriage returns": f"# a\n{TABLE}\n{BESIDE}".replace("\n", "\r\n"),
    "some carriage returns": TABLE.replace('tok/s"\n', 'tok/s"\r\n'),
    "no end of line": TABLE.removesuffix("\n"),
    "carriage returns, no end of line": TABLE.removesuffix("\n").replace("\n", "\r\n"),
    "blank header": TABLE.replace("[[pin]]", "[[ pin ]] # the pin"),
    "quoted header": TABLE.replace("[[pin]]", '[["pin"]]'),
    "another order": f'[[pin]]\nvalue = <50>\ntime = <time>\nsource = "<source>"\nslot = "{SLOT}"\nunit = "tok/s"\n',
    "comments behind it": f"{TABLE}\n# of the next\n\n# and of nothing\n",
    "another pin behind it": f"{TABLE}\n# the other\n{BESIDE}",
    "another pin before it": f"{BESIDE}# mine\n{TABLE}",
    "inline": f"pin = [{INLINE}]\n",
    "inline on lines": f"# all\npin = [ # first\n  {INLINE},  # mine\n\n  # last\n]\n",
    "inline beside another": "pin = [" + INLINE.replace(SLOT, OTHER).replace("<50>", "50.0").replace("<source>", OLD)
    .replace("<time>", "2025-01-01T00:00:00Z") + f", {INLINE}]",
    "inline, quoted keys": f"pin = [{INLINE}]".replace("value =", '"value"='),
}  # fmt: skip


def filled(form: str, value: str, source: str, time: str) -> bytes:
    return form.replace("<50>", value).replace("<source>", source).replace("<time>", time).encode()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_figures_of_the_pin_change_and_no_other_byte(form: str) -> None:
    before = filled(form, "50", OLD, "2026-01-01T00:00:00Z")
    rewritten = rewrite_pins(before, {SLOT: RAISED})
    assert rewritten.data == filled(form, "51.5", NEW, AT)
    assert [(pin.slot, pin.value, pin.source) for pin in rewritten.raised] == [(SLOT, RAISED.value, NEW)]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_field_that_was_not_there_is_added_to_its_pin(form: str) -> None:
    """In a line of its own behind the last field, in front of comments that belong to what follows."""
    without = re.sub(r"""(, time|(?m:^[ \t]*time))\s*=\s*<time>[^,}\n]*(\r?\n)?""", "", form)
    before = filled(without, "50", OLD, "")
    rewritten = rewrite_pins(before, {SLOT: RAISED})
    here = [pin for pin in read_pins(rewritten.data, source="x") if pin.slot == SLOT]
    assert [(pin.value, pin.source, pin.time) for pin in here] == [(RAISED.value, NEW, RAISED.time)]
    # Taken out again, with the line's end or the comma that it came with, all else is what it was.
    added = re.compile(rf"(, |\r?\n[\t ]*)time = {AT}")
    text = rewritten.data.decode()
    assert len(added.findall(text)) == 1
    assert added.sub("", text).encode() == filled(without, "51.5", NEW, "")
    bare = re.compile(r"(?<!\r)\n")
    assert ("\r\n" in added.findall(text)[0]) <= ("\r\n" in form)
    assert bool(bare.search(text)) <= (bool(bare.search(form)) or "\n" not in form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_commit_that_the_new_receipt_does_not_name_goes(form: str) -> None:
    """It would say of the new value that the old build had it. Its line goes, or its place between two commas."""
    named = re.sub(r"time(\s*=\s*)<time>", r"commit\1'abcdef01'", form)
    assert named != form
    untimed = replace(RAISED, time=None)
    rewritten = rewrite_pins(filled(named, "50", OLD, "2025-01-01T00:00:00Z"), {SLOT: untimed})
    (pin,) = [pin for pin in read_pins(rewritten.data, source="x") if pin.slot == SLOT]
    assert (pin.value, pin.commit, pin.time) == (RAISED.value, None, None)
    assert b"abcdef01" not in rewritten.data


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            f'[[pin]]\n# one\nslot = "{SLOT}"\ncommit = "abcdef0" # of it\nvalue = 50\nunit = "tok/s"\n# end',
            f'[[pin]]\n# one\nslot = "{SLOT}"\nvalue = 51.5\nunit = "tok/s"\nsource = "{NEW}"\ntime = {AT}\n# end',
        ),
        (
            f'pin = [{{commit = "abcdef0", slot = "{SLOT}", value = 50, unit = "tok/s"}}]',
            f'pin = [{{ slot = "{SLOT}", value = 51.5, unit = "tok/s", source = "{NEW}", time = {AT}}}]',
        ),
        (
            f'pin = [{{slot = "{SLOT}" , "commit" = "abcdef0", value = 50, unit = "tok/s"}}]',
            f'pin = [{{slot = "{SLOT}", value = 51.5, unit = "tok/s", source = "{NEW}", time = {AT}}}]',
        ),
        (
            f'pin = [{{slot = "{SLOT}", value = 50, unit = "tok/s", commit = "abcdef0"}}]',
            f'pin = [{{slot = "{SLOT}", value = 51.5, unit = "tok/s", source = "{NEW}", time = {AT}}}]',
        ),
        (
            f"[[pin]]\nslot = '''\n{SLOT}'''\nvalue = \"\"\"\\\n   50\"\"\"\nunit = 'tok/s'\nsource = '''{OLD}'''\n",
            f"[[pin]]\nslot = '''\n{SLOT}'''\nvalue = \"51.5\"\nunit = 'tok/s'\nsource = \"{NEW}\"\ntime = {AT}\n",
        ),
        (
            f'[[pin]]\nslot = "{SLOT}"\nvalue = "5\\u0030"\nunit = "tok/s"\ntime = {CET}\n',
            f'[[pin]]\nslot = "{SLOT}"\nvalue = "51.5"\nunit = "tok/s"\ntime = {CET}\nsource = "{NEW}"\n',
        ),
        (
            f'# "?0?" "??1??"\n[[pin]]\nslot = "{SLOT}"\nvalue = 50\nunit = "tok/s"\nsource = "{OLD}"\ntime = {CET}',
            f'# "?0?" "??1??"\n[[pin]]\nslot = "{SLOT}"\nvalue = 51.5\nunit = "tok/s"\nsource = "{NEW}"\ntime = {CET}',
        ),
    ],
    ids=["table", "inline first", "inline between", "inline last", "multi-line strings", "same time", "marks"],
)  # fmt: skip
def test_what_becomes_of_a_file(before: str, after: str) -> None:
    assert rewrite_pins(before.encode(), {SLOT: RAISED}).data.decode() == after


def test_no_pin_is_lowered_and_what_is_not_raised_is_not_said_to_be() -> None:
    data = filled(f"{TABLE}{BESIDE}", "51.5", OLD, AT)
    for value in ("51.5", "51.499999", "3"):
        low = replace(RAISED, value=Fraction(value))
        assert rewrite_pins(data, {SLOT: low}) == rewriting.Rewritten(data, ())
    assert rewrite_pins(data, {}) == rewriting.Rewritten(data, ())
    guard = replace(RAISED, role="guard", value=Fraction(60))
    assert [pin.slot for pin in rewrite_pins(data, {SLOT: RAISED, OTHER: guard}).raised] == [OTHER]


def test_the_other_pin_may_have_figures_that_look_like_this_ones() -> None:
    many = "".join(
        f'[[pin]]\nslot = "frontier:decode@{i}/m/q/n"\nvalue = 50\nunit = "tok/s"\nsource = "{OLD}"\n'
        for i in range(1, 40)
    )
    update = replace(RAISED, track=Track("decode", 20, "m", "q", "n"), time=None)
    rewritten = rewrite_pins(many.encode(), {update.slot: update})
    head, tail = many.split("decode@20/")
    tail = tail.replace("value = 50", "value = 51.5", 1).replace(OLD, NEW, 1)
    assert rewritten.data.decode() == f"{head}decode@20/{tail}"


# ------------------------------------------------------------------------------------------------------- refusals


def refused(data: bytes, updates: dict[str, PinRecord]) -> RescoreError:
    with pytest.raises(RescoreError, match="cannot be changed in place") as caught:
        rewrite_pins(data, updates, source="pins.toml")
    assert caught.value.code is Code.PIN_UNWRITTEN
    assert caught.value.code.info.exit is ExitCode.UNREADABLE
    assert str(caught.value.finding.position) == "pins.toml"
    return caught.value


def test_a_file_that_one_parser_reads_and_the_other_does_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise TOMLKitError("no")

    monkeypatch.setattr(tomlkit, "parse", refuse)
    refused(filled(TABLE, "50", OLD, AT), {SLOT: RAISED})


def test_a_layout_that_is_not_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = tomlkit.parse
    monkeypatch.setattr(tomlkit, "parse", lambda text: parse(text.replace("  #", " #")))
    refused(filled(f"{TABLE}{BESIDE}", "50", OLD, AT), {SLOT: RAISED})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda text: text.replace('unit = "tok/s"', 'unit = "tok/s"\ncommit = "abcdef0"'),
        lambda text: text.replace("value = 51.5", "value = 51.6"),
        lambda text: text.replace(TABLE[:8], ""),
        lambda text: text + "a = [",
    ],
    ids=["a field more", "another value", "no header", "not TOML"],
)
def test_what_would_say_something_else_is_refused(wrong: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = rewriting._replaced
    monkeypatch.setattr(rewriting, "_replaced", lambda *given: wrong(replaced(*given)))
    refused(filled(TABLE, "50", OLD, AT), {SLOT: RAISED})


@pytest.mark.parametrize("fields", [{"commit": 'x"\nvalue = 1'}, {"source": "no receipt"}, {"value": Fraction(152, 3)}])
def test_an_update_that_no_file_could_hold_is_refused(fields: dict[str, Any]) -> None:
    refused(filled(TABLE, "50", OLD, AT), {SLOT: replace(RAISED, **fields)})


# ------------------------------------------------------------------------------------------------------- any file

blanks = st.text(" \t", max_size=2)
comments = st.builds(
    lambda text: f"#{text}",
    st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\u2028\u2029\u0085\u00a0"), max_size=12),
)
quotes = st.sampled_from(["", '"', "'"])


@st.composite
def files(draw: st.DrawFn, *, mixed: bool) -> tuple[str, str]:
    """A file, and what it becomes when every second of its pins is raised; with headers spelled alike, or mixed."""
    spelled = f"[[{draw(blanks)}pin{draw(blanks)}]]"
    end = draw(st.sampled_from(["\n", "\r\n"]))
    before = after = ""
    for number in range(draw(st.integers(min_value=1, max_value=4))):
        rises = number % 2 == 0
        fields = [
            ("slot", *[f'"frontier:decode@{number}/m/q/n"'] * 2),
            ("value", *draw(st.sampled_from([("50", "51.5"), ('"50"', '"51.5"'), ("'50'", '"51.5"')]))),
            ("unit", '"tok/s"', '"tok/s"'),
            ("source", f'"{OLD}"', f'"{NEW}"'),
        ]
        filler = "".join(f"{line}{end}" for line in draw(st.lists(blanks | comments, max_size=2)))
        header = f"[[{draw(blanks)}pin{draw(blanks)}]]" if mixed else spelled
        block = [f"{filler}{draw(blanks)}{header}{end}"] * 2
        for key, old, new in draw(st.permutations(fields)):
            head = f"{draw(blanks)}{key.join([draw(quotes)] * 2)}{draw(blanks)}={draw(blanks)}"
            tail = f"{draw(blanks)}{draw(st.just('') | comments)}{end}"
            block = [f"{block[0]}{head}{old}{tail}", f"{block[1]}{head}{new if rises else old}{tail}"]
        before, after = before + block[0], after + block[1]
    last = draw(st.just("") | comments)
    return before + last, after + last


def raise_every_second(before: str) -> bytes:
    pins = read_pins(before.encode(), source="x")
    updates = {pin.slot: replace(pin, value=Fraction("51.5"), source=NEW) for pin in pins[::2]}
    rewritten = rewrite_pins(before.encode(), updates)
    assert [pin.slot for pin in rewritten.raised] == list(updates)
    return rewritten.data


@given(files(mixed=False))
def test_any_file_comes_out_with_the_new_figures_alone(case: tuple[str, str]) -> None:
    before, after = case
    assert raise_every_second(before).decode() == after


@given(files(mixed=True))
def test_a_file_comes_out_right_or_not_at_all(case: tuple[str, str]) -> None:
    before, after = case
    with contextlib.suppress(RescoreError):
        assert raise_every_second(before).decode() == after


# ----------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def drifted(tmp_path: Path) -> Path:
    """A pins file that should rise, for a ledger in the folder."""
    builder = Builder().open()
    frontier = builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.write(tmp_path)
    path = tmp_path / "pins.toml"
    path.write_text(f'[[pin]]\nslot = "frontier:{DECODE}"\nvalue = 1\nunit = "tok/s"\nsource = "{frontier}"\n')
    return path


def test_the_file_behind_a_link_is_written_and_keeps_its_mode(command: Callable[..., Done], drifted: Path) -> None:
    real = drifted.rename(drifted.with_name("real.toml"))
    real.chmod(0o640)
    drifted.symlink_to(real.name)
    done = command("reconcile", ".", "--pins", "pins.toml", "--write")
    assert f"raised frontier:{DECODE} to " in done.out
    assert drifted.is_symlink()
    assert str(drifted.readlink()) == real.name
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert read_pins(real.read_bytes(), source="x")[0].value > 1
    assert sorted(path.name for path in drifted.parent.glob("*real*")) == ["real.toml"]


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_nobody_may_write_stays_as_it_is(
    command: Callable[..., Done], drifted: Path, mode: int, link: bool
) -> None:
    real, before = drifted, drifted.read_bytes()
    if link:
        real = drifted.rename(drifted.with_name("real.toml"))
        drifted.symlink_to(real.name)
    real.chmod(mode)
    done = command("reconcile", ".", "--pins", "pins.toml", "--write")
    assert (done.code, done.out) == (3, "")
    assert "K3L-ACCESS-DENIED" in done.err
    assert (real.read_bytes(), stat.S_IMODE(real.stat().st_mode)) == (before, mode)
    assert not list(drifted.parent.glob(".*toml*"))
    real.chmod(0o200 | mode)
    assert "raised" in command("reconcile", ".", "--pins", "pins.toml", "--write").out


def test_an_inline_pin_is_raised_when_it_is_said_to_be(command: Callable[..., Done], drifted: Path) -> None:
    fields = ", ".join(drifted.read_text().splitlines()[1:])
    drifted.write_text(f"pin = [{{{fields}}}]\n")
    assert "raised" in command("reconcile", ".", "--pins", "pins.toml", "--write").out
    assert drifted.read_text().startswith("pin = [{slot = ")
    assert read_pins(drifted.read_bytes(), source="x")[0].value > 1
    again = command("reconcile", ".", "--pins", "pins.toml", "--write", "--json")
    assert (again.code, again.json["written"]) == (0, [])


def test_a_file_that_cannot_be_changed_in_place_is_left_as_it_is(
    command: Callable[..., Done], drifted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drifted.read_bytes()

    def refuse(_: str) -> None:
        raise TOMLKitError("no")

    monkeypatch.setattr(tomlkit, "parse", refuse)
    done = command("reconcile", ".", "--pins", "pins.toml", "--write")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("error:") == 1
    assert "K3L-PIN-UNWRITTEN" in done.err
    assert drifted.read_bytes() == before
    assert [path.name for path in drifted.parent.iterdir() if "pins" in path.name] == ["pins.toml"]


def test_a_byte_order_mark_is_passed_over_and_kept() -> None:
    slot = "frontier:decode@4/m/q/n"
    plain = f'[[pin]]\nslot = "{slot}"\nvalue = 1\nunit = "tok/s"\n'.encode()
    (pin,) = read_pins(b"\xef\xbb\xbf" + plain, source="pins.toml")
    assert pin == read_pins(plain, source="pins.toml")[0]
    updates = {slot: replace(pin, value=pin.value * 2)}
    assert rewrite_pins(b"\xef\xbb\xbf" + plain, updates).data == b"\xef\xbb\xbf" + rewrite_pins(plain, updates).data
