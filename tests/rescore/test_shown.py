"""Claims and quotes against the HTML that a document becomes: what its readers see decides, and nothing else."""

from __future__ import annotations

from html.parser import HTMLParser
from types import MethodType

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML

from k3_ledger.rescore.claims.document import complain, read_document_of_claims
from k3_ledger.rescore.claims.reading import read_claims
from k3_ledger.schemas.errors import RescoreError

QUOTE = "1.5 times as fast"


def to_html(text: str, *, raw: bool = True) -> str:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    if not raw:
        assert isinstance(parser.renderer, RendererHTML)
        parser.renderer.rules |= {name: MethodType(lambda *_: "", parser) for name in ("html_block", "html_inline")}
    return str(parser.render(text))


class Reader(HTMLParser):
    """The words of a page, place by place, as plain text.

    Args:
        marks: whether an image and what is struck out are told in marks, or not at all.
    """

    BLOCKS = frozenset({"p", "h1", "li", "blockquote", "td", "th", "tr", "pre", "div"})
    SILENT = frozenset({"script", "style"})

    def __init__(self, html: str, *, marks: bool) -> None:
        super().__init__()
        self.marks, self.hidden, self.places = marks, list[str](), [""]
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.BLOCKS:
            self.places.append("")
        if tag == "br":
            self.show(" ")
        elif tag == "img":
            self.show("[IMG]" if self.marks else "")
        elif tag == "s" and self.marks:
            self.show("[DEL:")
        if self.hidden or tag in self.SILENT or "hidden" in dict(attrs) or (tag == "s" and not self.marks):
            self.hidden += [tag] if tag not in {"br", "img"} else []

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass
        elif tag == "s" and self.marks:
            self.show(":DEL]")
        if tag in self.BLOCKS:
            self.places.append("")

    def handle_data(self, data: str) -> None:
        self.show(data)

    def show(self, text: str) -> None:
        if not self.hidden:
            self.places[-1] += text


def says(place: str, quote: str) -> bool:
    """Whether a place of plain text says a quote in words of their own, with no digits in front of its number."""
    words, quoted = ["", *place.split()], quote.split()
    bare = [word.lstrip("([{\"'").rstrip(".,;:!?)]}\"'") for word in words]
    return any(
        bare[at : at + len(quoted)] == quoted and not (words[at - 1][-1:].isdigit() and words[at][0].isdigit())
        for at in range(1, len(words))
    )


def binds(text: str, quote: str = QUOTE) -> bool:
    complaint = complain(quote, ["1.5"], read_document_of_claims(text, "page.md"))
    return complaint is None or "places" in complaint[0]


HIDING = [
    "<b>{}</b>", "<span hidden>{}</span>", "<sup>{}</sup>", "<sub>{}</sub>", "<kbd>{}</kbd>", "<wbr>{}",
    "<i></i>{}", "![{}](x.png)", "~~{}~~", "<b hidden/>{}</b>", "<br hidden>{}", "<brx>{}</brx>", "<img alt='{}'>",
    "<?x {} ?>", "<!X {}>", "<!-- --!>{}<!-- -->",
]  # fmt: skip
COMMENT = "<!-- {} -->"
SHOWING = ["{}", "**{}**", "*{}*", "`{}`", "[{}](x)", "<br>{}", "\\{}", "{}&nbsp;"]


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    "around",
    [
        "We are 1{}.5 times as fast", "We are 1.5{} times as fast", "We are {}1.5 times as fast", "{}1.5 times as fast",
        "We are 1{}1.5 times as fast", "1.5 times as{} fast", "| a |\n| - |\n| 1{}.5 times as fast |",
    ],
)  # fmt: skip
@pytest.mark.parametrize("hidden", ["1", "5", "2", "-", "million"])
def test_no_quote_reaches_over_what_is_not_shown_as_words(hiding: str, around: str, hidden: str) -> None:
    assert not binds(around.replace("{}", hiding.format(hidden)))


@pytest.mark.parametrize("nothing", ["<b></b>", "![](x.png)", "~~4~~", "<span hidden>x</span>", COMMENT, "<img src=x>"])
def test_what_is_not_shown_parts_no_digits_that_stand_in_groups(nothing: str) -> None:
    assert not binds(f"We are 3 {nothing} 1.5 times as fast")
    assert binds(f"We are so {nothing} 1.5 times as fast")
    document = read_document_of_claims(f"We are 1.5 {nothing} 000 times as fast", "page.md")
    assert complain("are 1.5", ["1.5"], document) is not None


def test_a_comment_shows_nothing() -> None:
    assert binds("We are 1<!-- 1 -->.5 times as fast")
    assert not binds("We are 1<!-- 1 -->1.5 times as fast")


@pytest.mark.parametrize("showing", ["{}", "**{}**", "*{}*", "`{}`", "[{}](x)", "<!-- x -->{}"])
def test_a_quote_reaches_over_what_only_changes_its_looks(showing: str) -> None:
    assert binds(f"We are 1.{showing.format('5')} times as {showing.format('fast')}")


pieces = st.sampled_from(["1", "5", ".", "1.5", " ", " times", " as fast", "1.5 times as fast", "x", ",", "(", "\n"])


@st.composite
def inline(draw: st.DrawFn) -> str:
    parts = draw(
        st.lists(st.tuples(st.sampled_from(["{}"] * 9 + SHOWING + HIDING + [COMMENT]), pieces), min_size=1, max_size=9)
    )
    return "".join(frame.format(piece) for frame, piece in parts)


@settings(max_examples=600)
@given(inline(), inline())
def test_a_quote_binds_only_what_a_plain_text_rendering_shows(before: str, after: str) -> None:
    """However images and struck words are told."""
    for text in (
        f"a {before}{after} z",
        f"a {before}1.5 times as fast{after} z",
        f"a {before}1.5{after} times as fast z",
    ):
        if binds(text):
            event("bound")
            for marks in (False, True):
                assert any(says(place, QUOTE) for place in Reader(to_html(text), marks=marks).places), text


# ------------------------------------------------------------------------------------------------------- blocks


class Blocks(HTMLParser):
    """The text of every block of code that is marked as TOML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found, self.inside = list[str](), False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "code" and ("class", "language-toml") in attrs:
            self.found.append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "code"

    def handle_data(self, data: str) -> None:
        self.found[-1:] = [self.found[-1] + data] if self.inside else self.found[-1:]


rows = st.tuples(
    st.lists(st.sampled_from(["> ", ">", "- ", "1. ", "  ", "    ", "\t"]), max_size=3),
    st.sampled_from([
        "```toml claims", "~~~ toml claims", "````toml claims", "```", "```", "~~~", "````", "```sh", "", "# {n}",
        "id = {n}",
        "id = {n}", "<!-- {n}", "-->", "<div>", "| {n} |", "| - |", "{n}\r",
    ]),
)  # fmt: skip


@settings(max_examples=1000)
@given(st.lists(rows, max_size=14))
def test_every_block_of_claims_that_is_shown_is_read_where_it_stands(drawn: list[tuple[list[str], str]]) -> None:
    """In quotations, in lists, behind code that is indented: whatever the HTML has as a block of TOML, and no more."""
    lines = ["".join(before) + row.format(n=f"n{at}") for at, (before, row) in enumerate(drawn)]
    text = "\n".join(lines)
    try:
        document = read_document_of_claims(text, "page.md")
    except RescoreError as error:
        event(error.finding.message)
        assume("within raw HTML" not in error.finding.message)
        raise
    shown = Blocks(to_html(text, raw=False)).found
    assert [block.strip("\n") for _, block in document.blocks] == [block.strip("\n") for block in shown]
    for first, block in document.blocks:
        for at, row in enumerate(block.splitlines()):
            event("a row")
            assert row.strip() in lines[first - 1 + at]


def table(number: str) -> str:
    return f"""[[claim]]
id = "{number}"
says = "{number} times"
kind = "ratio"
track = "decode@4/m/q/n"
against = "reference"
ratio = {number}
tolerance = "rounding"
"""


FENCED = f"```toml claims\n{table('9.5')}```\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("".join(f"> {row}\n" for row in FENCED.splitlines()), 6),
        ("".join(f"{'  ' if at else '- '}{row}\n" for at, row in enumerate(FENCED.splitlines())), 6),
        (f"text\n\n    ```\n    [[claim]]\n\n{FENCED}", 11),
        (f"\ufeff{FENCED}", 6),
        (f"a\rb\r\n\n{FENCED}", 9),
        (f"<div hidden>\n\n{FENCED}", 8),
        ("text\n" + FENCED.replace('"9.5 times"', '"""\n    ```\n"""'), 9),
    ],
)
def test_a_block_that_readers_see_is_not_passed_over(text: str, line: int) -> None:
    """Beside one that is read whatever stands around it."""
    page = f"{text}\n\n```toml claims\n{table('1.5')}```\n"
    read = read_claims(page.encode(), source="page.md")
    assert [claim.id for claim in read] == ["9.5", "1.5"]
    with pytest.raises(RescoreError) as caught:
        read_claims(page.replace('kind = "ratio"', 'kind = "ration"', 1).encode(), source="page.md")
    assert caught.value.finding.position.line == line - 1


@pytest.mark.parametrize(
    "around", ["<!--\n{}-->\n", "<div>\n{}</div>\n", "<!-- not closed\n\n{}", "<details><summary>x\n{}"]
)
def test_a_block_in_raw_html_is_none_and_is_named(around: str) -> None:
    page = f"```toml claims\n{table('1.5')}```\n\n" + around.replace("{}", FENCED)
    with pytest.raises(RescoreError, match="within raw HTML, and would be passed over") as caught:
        read_claims(page.encode(), source="page.md")
    assert caught.value.finding.position.line == page[: page.index(FENCED)].count("\n") + 1


@pytest.mark.parametrize("deep", [1, 5, 9, 10, 12, 19, 20, 30])
@pytest.mark.parametrize("mark", ["> ", "- "])
def test_a_block_that_stands_too_deep_is_named(mark: str, deep: int) -> None:
    rows = [(mark if at == 0 or mark == "> " else "  ") * deep + row for at, row in enumerate(FENCED.splitlines())]
    page = f"```toml claims\n{table('1.5')}```\n\n" + "\n".join(rows)
    if deep < (10 if mark == "- " else 20):
        assert [claim.id for claim in read_claims(page.encode(), source="page.md")] == ["1.5", "9.5"]
        return
    with pytest.raises(RescoreError, match="more lists and quotations than are read, and would be passed over"):
        read_claims(page.encode(), source="page.md")
