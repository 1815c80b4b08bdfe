"""Checkpoints: one spelling each, and no other log's head."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.checkpoint import (
    MAX_SIZE,
    Checkpoint,
    format_checkpoint,
    open_checkpoint,
    parse_checkpoint,
)
from k3_ledger.ledger.core.note import Verifier, sign_note
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import TestKey, code_of, refusal

ROOT = bytes(range(32))
ROOT64 = base64.b64encode(ROOT).decode()
PLACE = Position(source="checkpoint")
LOG = TestKey("log")
ORIGINS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


def test_the_text_is_origin_size_and_root():
    assert format_checkpoint(Checkpoint("example.com/log", 12, ROOT)) == f"example.com/log\n12\n{ROOT64}\n"
    assert format_checkpoint(Checkpoint("o", 0, ROOT, ("a", "b c"))) == f"o\n0\n{ROOT64}\na\nb c\n"


@given(
    st.builds(
        Checkpoint,
        ORIGINS,
        st.integers(min_value=0, max_value=MAX_SIZE),
        st.binary(min_size=32, max_size=32),
        st.lists(ORIGINS, max_size=3).map(tuple),
    )
)
def test_parse_undoes_format(checkpoint):
    assert parse_checkpoint(format_checkpoint(checkpoint)) == checkpoint


@given(st.text(max_size=40))
def test_arbitrary_text_gives_a_checkpoint_or_a_ledger_error(text):
    assert code_of(parse_checkpoint, text) == "CHECKPOINT_MALFORMED"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("o\n7\n", id="two lines"),
        pytest.param(f"o\n7\n{ROOT64}", id="no last line feed"),
        pytest.param(f"o\n7\n{ROOT64}\n\n", id="an empty extension line"),
        pytest.param(f"o\n7\n{ROOT64}\nx\n\ny\n", id="an empty line between extensions"),
        pytest.param(f"\n7\n{ROOT64}\n", id="no origin"),
        pytest.param(f"o\n007\n{ROOT64}\n", id="leading zeros"),
        pytest.param(f"o\n00\n{ROOT64}\n", id="two zeros"),
        pytest.param(f"o\n+7\n{ROOT64}\n", id="plus sign"),
        pytest.param(f"o\n-7\n{ROOT64}\n", id="minus sign"),
        pytest.param(f"o\n 7\n{ROOT64}\n", id="space"),
        pytest.param(f"o\n7_0\n{ROOT64}\n", id="underscore"),
        pytest.param(f"o\n\u0667\n{ROOT64}\n", id="a digit that is not ASCII"),
        pytest.param(f"o\n0x7\n{ROOT64}\n", id="hexadecimal"),
        pytest.param(f"o\n\n{ROOT64}\n", id="no size"),
        pytest.param(f"o\n{MAX_SIZE + 1}\n{ROOT64}\n", id="one leaf too many"),
        pytest.param(f"o\n{9 * 10**999}\n{ROOT64}\n", id="a thousand digits"),
        pytest.param(f"o\n7\n{ROOT64[:-1]}\n", id="no padding"),
        pytest.param(f"o\n7\n{ROOT64[:-2]}9=\n", id="stray bits"),
        pytest.param(f"o\n7\n{ROOT64} \n", id="trailing space"),
        pytest.param("o\n7\nAAAA\n", id="short root"),
        pytest.param(f"o\n7\n{base64.b64encode(bytes(33)).decode()}\n", id="long root"),
        pytest.param("o\n7\n\u00e9\n", id="not base64"),
        pytest.param(f"o\n7\n{ROOT.hex()}\n", id="hexadecimal root"),
    ],
)
def test_other_spellings_are_refused(text):
    error = refusal(parse_checkpoint, text, position=PLACE)
    assert (error.code.name, error.finding.position) == ("CHECKPOINT_MALFORMED", PLACE)


def test_a_size_that_is_no_decimal_number_is_shown():
    assert "'+7' is no tree size" in str(refusal(parse_checkpoint, f"o\n+7\n{ROOT64}\n"))
    assert f"'{'7' * 40}' is no tree size" in str(refusal(parse_checkpoint, f"o\n{'7' * 99}\n{ROOT64}\n"))


@pytest.mark.parametrize("size", [0, 1, 2**53 - 1])
def test_a_tree_may_have_up_to_2_to_the_53_leaves(size):
    assert parse_checkpoint(f"o\n{size}\n{ROOT64}\n").size == size


def test_a_spelling_that_is_not_the_one_says_what_would_have_been():
    error = refusal(parse_checkpoint, f"o\n007\n{ROOT64}\n").finding
    assert (error.expected, error.found) == (f"o\n7\n{ROOT64}\n", f"o\n007\n{ROOT64}\n")
    long = refusal(parse_checkpoint, f"{'o' * 999}\n007\n{ROOT64}\n").finding
    assert (long.expected, long.found) == ("o" * 200, "o" * 200)


@pytest.mark.parametrize(
    "checkpoint",
    [
        Checkpoint("", 1, ROOT),
        Checkpoint("a\nb", 1, ROOT),
        Checkpoint("a", -1, ROOT),
        Checkpoint("a", MAX_SIZE + 1, ROOT),
        Checkpoint("a", 1, ROOT[1:]),
        Checkpoint("a", 1, ROOT, ("",)),
        Checkpoint("a", 1, ROOT, ("a\n",)),
    ],
    ids=range(7),
)
def test_what_would_not_parse_is_not_written(checkpoint):
    with pytest.raises(ValueError, match=r"single lines|no tree"):
        format_checkpoint(checkpoint)


def test_a_signed_checkpoint_opens():
    head = Checkpoint("example.com/log", 12, ROOT)
    data = sign_note(format_checkpoint(head), [LOG])
    verifiers = [Verifier(LOG.name, LOG.public_key)]
    opened = open_checkpoint(data, verifiers, origin="example.com/log")
    assert opened.checkpoint == head
    assert opened.note.text == format_checkpoint(head)


def test_the_head_of_another_log_is_refused_even_when_the_key_is_right():
    data = sign_note(format_checkpoint(Checkpoint("example.com/other", 12, ROOT)), [LOG])
    verifiers = [Verifier(LOG.name, LOG.public_key)]
    error = refusal(open_checkpoint, data, verifiers, origin="example.com/log", position=PLACE)
    assert (error.code.name, error.finding.position) == ("CHECKPOINT_ORIGIN", PLACE)
    assert (error.finding.expected, error.finding.found) == ("example.com/log", "example.com/other")


def test_what_opens_as_a_note_need_not_be_a_checkpoint():
    verifiers = [Verifier(LOG.name, LOG.public_key)]
    data = sign_note("just words\n", [LOG])
    assert code_of(open_checkpoint, data, verifiers, origin="just words") == "CHECKPOINT_MALFORMED"
    assert code_of(open_checkpoint, data, [], origin="just words") == "NOTE_UNSIGNED"
