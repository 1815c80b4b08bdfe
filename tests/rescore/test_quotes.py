"""A quote ties a claim to what a document's readers see: whole words, whole numbers, and one place."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from k3_ledger.rescore.claims.document import (
    _bound,
    _list_footnotes,
    _list_referred,
    complain,
    read_document_of_claims,
)
from k3_ledger.rescore.claims.reading import Claim, read_claims
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.outcomes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTE = "1.5 times as fast"


def claims(words: str, quote: str = QUOTE, ratio: str = "1.5") -> list[Claim]:
    block = (
        f'[[claim]]\nid = "r"\nsays = "r"\nquote = {json.dumps(quote, ensure_ascii=False)}\nkind = "ratio"\n'
        f'track = "decode@4/m/q/n"\nagainst = "reference"\nratio = {ratio}\ntolerance = "rounding"\n'
    )
    return read_claims(f"{words}\n\n```toml claims\n{block}```\n".encode(), source="page.md")


def refused(words: str, quote: str = QUOTE, ratio: str = "1.5") -> str:
    with pytest.raises(RescoreError) as caught:
        claims(words, quote, ratio)
    assert caught.value.finding.position.field == "claim[0].quote"
    assert caught.value.code.info.exit is ExitCode.UNREADABLE
    return caught.value.finding.message


@pytest.mark.parametrize(
    "words",
    [
        "We are 1.5 times as fast.",
        "1.5 times as fast",
        "We are\n1.5   times\tas fast, on a\ngood day.",
        "# 1.5 times as fast",
        "> - *1.5 times* as **fast**!",
        "(1.5 times as fast)",
        "“1.5 times as fast”…",
        "| a | b |\n| - | - |\n| x | 1.5 times as fast |",
        "We are [1.5 times](http://a.example/) as fast",
        "We are 1.5 times as fast <!-- not 11.5 times as fast -->",
        "It was ~~1.4 times as fast~~ 1.5 times as fast",
        "We are 1&#46;5 times as&nbsp;fast",
        "We are 1.5 times as fast<br>as they are",
        "![x](a.png)<br>\n\nWe are 1.5 times as fast",
        "<details>\n\n1.5 times as fast\n\n</details>\n\nWe are 1.5 times as fast",
        "We are 1.5 times as fast.\n\nWe are 1.5 times as fast.",
        "We are 11.5 times as fast as the first and 1.5 times as fast as the second",
    ],
)
def test_a_quote_binds_what_readers_see(words: str) -> None:
    assert len(claims(words)) == 1


@pytest.mark.parametrize(
    "number",
    [
        "11.5", "21.5", "0.1.5", "v1.5", "v0.1.5", "-1.5", "\u22121.5", "\u20131.5", "+1.5", "±1.5", "~1.5", "<1.5",
        "$1.5", "\u00d71.5", "1,1.5", "3 1.5", "3\u202f1.5", "_1.5", "/1.5",
        "=1.5", "a1.5", "1**1.5**",        "&lt;1.5", "e1.5",
    ],
)  # fmt: skip
def test_the_end_of_another_number_is_no_quote(number: str) -> None:
    assert "does not say this" in refused(f"We are {number} times as fast.")


@pytest.mark.parametrize(
    "number",
    [
        "1.55", "1.5e3", "1.5E+3", "1.5,000", "1.5.1", "1.5k", "1.5%", "1.5\u0338", "1.5\u2030", "1.5-fold",
        "1.5\u00d7", "1.5 000", "1.5\u2009000", "1.5\u00b2", "1.5/2", "1.5**5**", "1.5x", "1.5&#53;",
    ],
)  # fmt: skip
def test_the_beginning_of_another_number_is_no_quote(number: str) -> None:
    assert "does not say this" in refused(f"We are {number} times as fast", "We are 1.5")


INVISIBLE = [
    sign
    for sign in map(chr, range(1, sys.maxunicode + 1))
    if unicodedata.category(sign) in {"Cc", "Cf"} and not sign.isspace()
] + list(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180f\u2065\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\ufff8"
    "\U00016fe4\U0001d159\U000e0000\U000e0002\U000e0080\U000e0100\U000e01ef\U000e01f0\U000e0fff"
)
TURNING = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def complaint(words: str, quote: str) -> str:
    found = complain(quote, ["1.5"], read_document_of_claims(words, "page.md"))
    return "" if found is None else found[0]


def test_no_character_that_shows_nothing_is_in_a_quote_or_joins_digits_to_it() -> None:
    assert {"\u200b", "\u00ad", "\u202e", "\ufeff", "\U000e0041", "\u007f"} < set(INVISIBLE)
    for sign in INVISIBLE:
        point = f"U+{ord(sign):04X}"
        for quote in (f"1.5{sign} times", f"{sign}1.5{sign} times", f"1.5 times {sign}as"):
            assert point in complaint(f"We are {quote} fast.", quote)
        for words in (
            f"1.5 {sign}000 times",
            f"1.5{sign}000",
            f"1.5{sign}",
            f"{sign}1.5",
            f"3 {sign}1.5",
            f"1.5 {sign} 5",
        ):
            said = complaint(f"We are {words} here.", "1.5")
            assert point in said or "does not say" in said, words
        said = complaint(f"We are 1{sign}.5 times so fast.", "1.5 times")
        assert point in said


def test_characters_that_show_nothing_elsewhere_are_nobodys_business() -> None:
    for sign in set(INVISIBLE) - set(TURNING):
        assert complaint(f"A long{sign}word {sign} here, and 1.5 times.", "1.5 times") == "", sign


def test_words_that_may_be_shown_in_another_order_are_no_quote() -> None:
    """Shown as 5.1 times: the mark may stand anywhere in front of it, and its end anywhere behind."""
    for sign in TURNING:
        for words in (f"We are {sign} 1.5 times", f"{sign}We are 1.5 times", f"1.5 times as fast{sign}"):
            assert f"another order: U+{ord(sign):04X}" in complaint(words, "1.5 times")
        assert complaint(f"{sign}Another paragraph.\n\nWe are 1.5 times", "1.5 times") == ""
        assert "another order" in complaint(f"| a | b |\n| - | - |\n| {sign}x | 1.5 times |", "1.5 times")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("[^1]: We do 1.5 times", False),
        ("Words.[^2]\n\n[^1]: We do 1.5 times", False),
        ("[^1]: We do 1.5 times, as [^1] says", False),
        ("[^2]: As [^1] says\n\n[^1]: We do 1.5 times", False),
        ("`[^1]`\n\n[^1]: We do 1.5 times", False),
        ("Words.[^1]\n\n[^1]: As they say\n[^2]: We do 1.5 times", False),
        ("> [^1]: We do 1.5 times", False),
        ("Words.[^1]\n\n[^1]: We do 1.5 times", True),
        ("Words.[^A]\n\n[^a]: We do 1.5 times", True),
        ("[^1]: We do 1.5 times\n\n| a |\n| - |\n| x[^1] |", True),
        ("We do 1.5 times [^1], they say", True),
        ("We [^1]: do 1.5 times", True),
        ("\\[^1]\n\n[^1]: We do 1.5 times", False),
        ("[^1\\]\n\n[^1]: We do 1.5 times", False),
        ("&#91;^1]\n\n[^1]: We do 1.5 times", False),
        ("[^`x`1]\n\n[^1]: We do 1.5 times", False),
        ("\\[^1] and [^1]\n\n[^1]: We do 1.5 times", True),
        ("[^[^1]\n\n[^1]: We do 1.5 times", True),
        ("Words.[^1]\n\n[^1]: As they say\n\n[^1]: We do 1.5 times", False),
        ("Words.[^1]\n\n[^1]: As they say\n[^1]: We do 1.5 times", False),
        ("Words.[^a]\n\n> [^A]: As they say\n\n[^a]: We do 1.5 times", False),
        ("Words.[^1]\n\n[^1]: We do 1.5 times\n\n[^1]: As they say", True),
    ],
)
def test_a_footnote_is_shown_where_words_refer_to_it(words: str, *, shown: bool) -> None:
    assert (complaint(words, "do 1.5 times") == "") == shown


@pytest.mark.parametrize("piece", ["[^", "y[^", "[^a", "\\[^", "[^]", "[^1]:", "\n\n[^1]:", "\n[^"])
def test_footnotes_without_end_are_looked_for_once(piece: str) -> None:
    """Four times as much takes about four times as long: where it is sixteen, a file of a stranger takes an hour."""

    def seconds(count: int) -> float:
        text = Token("text", "", 0, content=piece * count)
        tokens = [Token("inline", "", 0, content=text.content, children=[text])]
        began = time.process_time()
        _list_referred(tokens)
        for token in tokens:
            _list_footnotes(token)
        return time.process_time() - began

    assert seconds(40_000) < 10 * min(seconds(10_000) for _ in range(3)) + 0.2


def test_what_is_escaped_is_quoted_as_it_is_shown() -> None:
    for words in (r"We do \*1.5\* times", "We do &#42;1.5&#42; times"):
        assert complaint(words, r"do \*1.5\* times") == "", words


@pytest.mark.parametrize(
    "words",
    [
        "15 times <!-- 1.5 times as fast -->",
        "<!-- 1.5 times as fast -->\n15 times",
        "<!--\n\n1.5 times as fast\n\n-->\n\n15 times",
        "We are 15 times, ~~1.5 times as fast~~",
        "~~We are 1.5 times as fast, or **so**~~",
        "We are <del>1.5 times as fast</del> 15 times as fast",
        "<del>\n\n1.5 times as fast\n\n</del>\n\n15 times",
        "<div hidden><p>\n\n1.5 times as fast\n\n</p></div>",
        "<div hidden/>\n\n1.5 times as fast\n\n</div>",
        "<span hidden/>1.5 times as fast</span>",
        "<div hidden\n\n1.5 times as fast\n\n</div>",
        "<!--> <div hidden>\n\n1.5 times as fast\n\n</div>",
        '<span style="display:none">1.5 times as fast</span>',
        "<p>1.5 times as fast</p>",
        "[x](http://a.example/ '1.5 times as fast')",
        "![1.5 times as fast](x.png)",
        "[1.5 times as fast]: http://a.example/",
        "```\n1.5 times as fast\n```",
        "~~~\n1.5 times as fast\n~~~",
        "text\n\n    1.5 times as fast\n",
        "1.5 times as\n\nfast",
        "| a | b |\n| - | - |\n| 1.5 times | as fast |",
        "1.5 times as faster",
        "15 times as fast",
    ],
)
def test_what_readers_do_not_see_is_no_quote(words: str) -> None:
    assert "does not say this" in refused(words)


@pytest.mark.parametrize(
    "words",
    [
        "We are 1.5 times as fast as llama.cpp.\n\nWe are 1.5 times as fast as ourselves.",
        "We are 1.5 times as fast here and 1.5 times as fast there.",
        "| a | b |\n| - | - |\n| x | 1.5 times as fast |\n| y | 1.5 times as fast |",
        "# 1.5 times as fast\n\n1.5 times as fast, they say",
    ],
)
def test_words_that_stand_in_two_places_are_ambiguous(words: str) -> None:
    assert "says this in 2 places" in refused(words)


def test_a_row_of_a_table_can_be_quoted_to_tell_it_from_another() -> None:
    words = "| a | b |\n| - | - |\n| x | 1.5 times as fast |\n| y | 1.5 times as fast |"
    assert len(claims(words, "y | 1.5 times as fast")) == 1


def test_a_quote_is_markdown_like_the_document() -> None:
    assert len(claims("It is 1.5 times `python -c pass`.", "1.5 times `python -c pass`")) == 1
    assert len(claims("It is 1.5 times `python -c pass`.", "1.5 times python -c pass")) == 1
    assert "does not say this" in refused("It is 1.5 times ~~so~~ fast", "1.5 times so fast")
    assert len(claims("It is 1.5 times <!-- so -->fast", "1.5 <!-- about --> times fast")) == 1


@pytest.mark.parametrize(
    "quote",
    [
        "as fast", "", " ", "<!-- 1.5 -->", "11.5 times", "1.50 times", "1.5.1", "-1.5 times", "1.5e3", "1.5,000",
        "1.5k",
    ],
)  # fmt: skip
def test_a_quote_carries_the_number_of_its_claim(quote: str) -> None:
    says = refused(f"We are {quote} as it is", quote)
    assert says in {"quote carries no number of the claim", "quote must be text in quotes"}


@pytest.mark.parametrize("quote", ["~~1.5~~", "~~so~~ 1.5", "1.5 ![x](x.png)", "1.5 <b>times</b>", "1.5 \ufffc"])
def test_a_quote_holds_nothing_but_words(quote: str) -> None:
    assert "quote holds more than words" in refused(f"We are {quote} as it is", quote)


@pytest.mark.parametrize("quote", ["15 times what version 1.5 is", "1.5 or 2 times", "from 1.4 to 1.5", "1 1.5"])
def test_a_quote_carries_no_other_number(quote: str) -> None:
    """Which of two numbers is claimed is nowhere said."""
    assert "quote carries another number" in refused(f"We are {quote} as it is", quote)


@pytest.mark.parametrize("quote", ["1.5x", "\u00d71.5", "1.5\u00d7", "~1.5 times", "K3 is 1.5", "1.5-fold", "1.5,"])
def test_marks_and_names_beside_a_number_are_quoted_with_it(quote: str) -> None:
    assert len(claims(f"So: {quote} as it is", quote)) == 1


@pytest.mark.parametrize("word", ["-3.0", "\u22123.0", "3.0"])
def test_a_gain_below_zero_is_quoted_with_its_sign(word: str) -> None:
    block = (
        f'It gained {word} %.\n\n```toml claims\n[[claim]]\nid = "g"\nsays = "g"\nkind = "gain"\npercent = -3.0\n'
        f'tolerance = "rounding"\npull_request = 1\nquote = "gained {word} %"\n```\n'
    )
    if word == "-3.0":
        assert len(read_claims(block.encode(), source="page.md")) == 1
        return
    with pytest.raises(RescoreError, match="carries no number"):
        read_claims(block.encode(), source="page.md")


OPENING, CLOSING = "([{\"'«‘“", ".,;:!?)]}\"'»’”…"  # noqa: RUF001 - marks that words stand between
edges = st.text(st.sampled_from("0123456789.,-+eEkx%/ ()[]\"'«»“”…\u2212\u00a0\u200bé²٣"), max_size=5)


def own_words(text: str) -> list[str]:
    return [word.lstrip(OPENING).rstrip(CLOSING) for word in text.split()]


@given(edges, edges)
@example("", ". 0")
@example("", " 0")
@example("0 ", "")
def test_only_whole_words_are_ever_bound(before: str, after: str) -> None:
    """An oracle that knows of words alone: the quote's own words stand in a row, with no digits beside them."""
    text = f"a {before}1.5 times 1.5{after} z"
    words, quoted = own_words(text), ["1.5", "times", "1.5"]
    rows = [at for at in range(len(words)) if words[at : at + 3] == quoted]
    raw = text.split()
    beside = ((at, raw[one][-1:] + raw[one + 1][:1]) for at in rows for one in (at - 1, at + 2))
    joined = [at for at, edge in beside if edge.isdigit()]
    with contextlib.suppress(RescoreError):
        assert claims(text, "1.5 times 1.5")
        event("bound")
        assert rows
        assert not joined


def by_slices(words: str, place: str) -> Iterator[int]:
    """The rule word for word: what is in front and behind is looked at whole, which costs the square of a page."""
    for at in range(len(place)):
        before, after = place[:at], place[at + len(words) :]
        if place[at : at + len(words)] != words:
            continue
        apart = re.search(rf"(?:^|\s)[{re.escape(OPENING)}]*$", before) and re.match(
            rf"[{re.escape(CLOSING)}]*(?:\s|$)", after
        )
        joined = (words[0].isdigit() and re.search(r"\d[\s\ufffc]+$", before)) or (
            words[-1].isdigit() and re.match(r"[\s\ufffc]+\d", after)
        )
        if apart and not joined:
            yield at


@settings(max_examples=300)
@given(
    st.text(st.sampled_from("0123456789.,-+x%/ ()[]\"'«»“”…\u00a0\ufffc²٣ab"), max_size=30),
    st.sampled_from(["1", "1.5", "1 1", "a 1", "1 a", '"1', "1.", "1 1 1"]),
)
def test_what_stands_next_to_a_quote_decides_and_nothing_further_off(place: str, words: str) -> None:
    for text in (place, f"{place}{words}{place}", f"{words} {place} {words}"):
        assert list(_bound(words, text)) == list(by_slices(words, text))


def test_a_page_that_repeats_a_quote_as_often_as_it_has_room_costs_no_more_than_its_length() -> None:
    """A megabyte of them; looked at whole for each, the page would take hours."""
    page = "# R\n\n| a |\n| 7.2 times `now` |\n\n" + "7.2 times `now" * 60_000 + "\n"
    document = read_document_of_claims(page, "page.md")
    assert complain("7.2 times `now`", ["7.2"], document) is None
