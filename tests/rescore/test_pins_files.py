"""pins.toml and merges.toml: what is read, and that every mistake is named where it stands."""

from __future__ import annotations

from fractions import Fraction

import pytest

from k3_ledger.rescore.history.pins import DECODE_128K, PREFILL_32K, moment
from k3_ledger.rescore.pins import PinRecord, read_merges, read_pins
from k3_ledger.rescore.toml import MAX_BYTES
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Position

RECEIPT = "8641ae28987a4f8fdcc896dbe5443cd5"
PINS = f"""# frontier of the scoring node

[[pin]]
slot = "frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
value = 56.82
unit = "tok/s"
source = "{RECEIPT}"
commit = "cac4595"
time = 2026-08-05T05:03:59+02:00

# the other engine
[[pin]]
slot = "reference:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
value = "18.4435"  # three repetitions
unit = "tok/s"
"""


def test_pins_are_read_exactly() -> None:
    first, second = read_pins(PINS.encode(), source="pins.toml")
    assert first == PinRecord(
        "frontier",
        DECODE_128K,
        Fraction("56.82"),
        "tok/s",
        RECEIPT,
        "cac4595",
        moment("08-05T03:03:59"),
        Position(source="pins.toml", line=3, field="pin[0]"),
    )
    assert (second.role, second.value, second.source, second.time) == ("reference", Fraction("18.4435"), None, None)
    assert second.position.line == 12


@pytest.mark.parametrize(
    ("old", "new", "says", "line"),
    [
        ("value = 56.82", "value = 0", "is zero", 5),
        ("value = 56.82", "value = -3.5", "is negative", 5),
        ("value = 56.82", 'value = "56.82 tok/s"', "carries a unit", 5),
        ("value = 56.82", "value = nan", "nan is not a number to compute with", 5),
        ("value = 56.82", "value = 5.6e1", "carries a unit or an exponent", 5),
        ("value = 56.82", "value = true", "value must be a number", 5),
        ("value = 56.82\n", "", "value is missing", 3),
        ("value = 56.82", "valu = 56.82", "unknown field 'valu'", 5),
        ('unit = "tok/s"\nsource', 'unti = "tok/s"\nunit = "tok/s"\nsource', "unknown field 'unti'", 6),
        ('unit = "tok/s"\nsource', 'zzzzzz = 1\nunit = "tok/s"\nsource', "unknown field 'zzzzzz'", 6),
        ('unit = "tok/s"\nsource', "unit = 5.5\nsource", "unit must be text in quotes", 6),
        ('unit = "tok/s"\nsource', 'unit = " "\nsource', "unit must be text in quotes", 6),
        (RECEIPT, "8641AE28", "source is not identity of a receipt, in hex", 7),
        ('"cac4595"', '"HEAD"', "commit is not a commit, in hex", 8),
        ("2026-08-05T05:03:59+02:00", "2026-08-05T05:03:59", "time must be a date and time with its zone", 9),
        ("2026-08-05T05:03:59+02:00", '"yesterday"', "time must be a date and time with its zone", 9),
        ("reference:decode", "frontier:decode", "this slot is pinned twice", 13),
        ("reference:decode", "best:decode", "is not the name of a slot", 13),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, says: str, line: int) -> None:
    assert PINS.count(old) >= 1
    with pytest.raises(RescoreError, match=says) as caught:
        read_pins(PINS.replace(old, new, 1).encode(), source="pins.toml")
    finding = caught.value.finding
    assert (finding.position.source, finding.position.line) == ("pins.toml", line)
    assert finding.code.info.exit in {ExitCode.USAGE, ExitCode.UNREADABLE}


def test_a_typo_is_answered_with_the_nearest_field() -> None:
    with pytest.raises(RescoreError) as caught:
        read_pins(PINS.replace("commit =", "comit =", 1).encode(), source="pins.toml")
    assert caught.value.finding.advice == "did you mean commit?"


@pytest.mark.parametrize(
    ("data", "code", "says", "line"),
    [
        (b"[[pin]\n", Code.TOML_SYNTAX, "not TOML", 1),
        (b"a = 1\na = 2\n", Code.TOML_SYNTAX, "not TOML", 2),
        (
            b"# a\xe2\x80\xa8b\xc2\x85c\x0bd\n[[pins]]\n".replace(b"\x0b", b""),
            Code.TOML_FIELD,
            r"only \[\[pin\]\] tables",
            2,
        ),
        (b"[[pin]]\nslot = ", Code.TOML_SYNTAX, "not TOML", None),
        (b"\n[[pin]]\nvalue = " + b"9" * 5000, Code.TOML_SYNTAX, "not TOML: a number of 5000 digits", 3),
        (b"\xff\xfe", Code.TOML_SYNTAX, "not UTF-8", None),
        (b"a = " + b"[" * 5000, Code.TOML_SYNTAX, "not TOML: nested more than 100 deep", 1),
        (b"#" * (MAX_BYTES + 1), Code.TOML_SYNTAX, "longer than", None),
        (b"\n[[pins]]\n", Code.TOML_FIELD, r"only \[\[pin\]\] tables", 2),
        (b"threshold = 1\n", Code.TOML_FIELD, r"only \[\[pin\]\] tables", 1),
        (b"pin = 5\n", Code.TOML_FIELD, r"only \[\[pin\]\] tables", 1),
        (b"pin = [5]\n", Code.TOML_FIELD, r"only \[\[pin\]\] tables", 1),
        (b'"\\u0070ins" = 5\n', Code.TOML_FIELD, r"only \[\[pin\]\] tables", None),
        (b"pin = [{}]\n", Code.TOML_FIELD, "slot is missing", None),
    ],
)
def test_what_is_no_pins_file_is_refused(data: bytes, code: Code, says: str, line: int | None) -> None:
    with pytest.raises(RescoreError, match=says) as caught:
        read_pins(data, source="pins.toml")
    assert caught.value.code is code
    assert caught.value.finding.position.line == line


def test_an_empty_file_pins_nothing() -> None:
    assert read_pins(b"", source="pins.toml") == []


MERGES = f"""
[[merge]]
track = "prefill@32768/Kimi-K3/UD-IQ1_S/h200x8"
pull_request = 144
time = 2026-08-06T08:00:00Z
claimed = 63.28

[[merge]]
track = "decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
pull_request = 127
commit = "cac4595"
time = 2026-08-05T03:10:00Z
run = "{RECEIPT}"
"""


def test_merges_are_read_in_the_order_they_landed() -> None:
    sealed, unsealed = read_merges(MERGES.encode(), source="merges.toml", receipts={RECEIPT: Fraction("56.82")})
    assert (sealed.label, sealed.value, sealed.sealed, sealed.track) == ("#127", Fraction("56.82"), True, DECODE_128K)
    assert (unsealed.label, unsealed.value, unsealed.sealed) == ("#144", Fraction("63.28"), False)
    assert unsealed.track == PREFILL_32K


def test_a_merge_whose_receipt_is_not_there_is_unsealed() -> None:
    merge = read_merges(MERGES.encode(), source="merges.toml", receipts={})[0]
    assert (merge.value, merge.sealed, merge.run) == (None, False, RECEIPT)


def test_a_merge_is_called_by_its_commit_when_it_has_no_number() -> None:
    text = MERGES.replace("pull_request = 127\n", "")
    assert read_merges(text.encode(), source="m", receipts={})[0].label == "cac4595"
    assert read_merges(text.replace('commit = "cac4595"\n', "").encode(), source="m", receipts={})[0].label == "a merge"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("claimed = 63.28\n", "", "a merge needs the receipt of its run, or the number it claimed"),
        ("claimed = 63.28", "claimed = 0", "a claimed number must be above zero"),
        ("pull_request = 144", "pull_request = 0", "pull_request must be a whole number of at least 1"),
        ("pull_request = 144", "pull_request = true", "pull_request must be a whole number of at least 1"),
        ("pull_request = 144", "pr = 144", "unknown field 'pr'"),
        ("time = 2026-08-06T08:00:00Z\n", "", "time is missing"),
        ("prefill@32768/", "prefill@32768", "is not the name of a slot"),
    ],
)
def test_a_mistake_in_a_merge_is_named(old: str, new: str, says: str) -> None:
    with pytest.raises(RescoreError, match=says):
        read_merges(MERGES.replace(old, new, 1).encode(), source="merges.toml", receipts={})


@pytest.mark.parametrize("metric", ["decode", "prefill", "prefill-behind-4"])
@pytest.mark.parametrize("unit", ["ms", "tokens", "TOK/S", "tok/s "])
def test_a_unit_that_is_not_the_metrics_is_refused(metric: str, unit: str) -> None:
    text = f'[[pin]]\nslot = "frontier:{metric}@4/a/b/c"\nvalue = 5\nunit = "{unit}"\n'
    with pytest.raises(RescoreError) as caught:
        read_pins(text.encode(), source="pins.toml")
    finding = caught.value.finding
    assert (finding.code, finding.code.info.exit) == (Code.PIN_INVALID, 3)
    assert (finding.position.line, finding.position.field) == (4, "pin[0].unit")
    assert (finding.expected, finding.found) == ("tok/s", unit)


def test_a_pin_is_in_the_unit_of_its_track() -> None:
    for track, unit in (
        ("append@-/-/-/c", "entry/s"), ("append@-/-/-/c/unit:byte", "byte/s"), ("decode@4/m/q/c/unit:byte", "byte/s"),
        ("my-own@-/-/-/c", "furlong/s"),
    ):  # fmt: skip
        text = f'[[pin]]\nslot = "frontier:{track}"\nvalue = 5\nunit = '
        (pin,) = read_pins(f'{text}"{unit}"\n'.encode(), source="x")
        assert pin.unit == unit
        if track != "my-own@-/-/-/c":
            with pytest.raises(RescoreError):
                read_pins(f'{text}"tok/s"\n'.encode(), source="x")
