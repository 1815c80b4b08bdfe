"""A document with claims in it: its claims blocks, and the words that its readers see.

What ties a claim to a document is a quote. It binds only what Markdown shows: no fence, no code block, nothing in raw
HTML (a comment above all), no target of a link, nothing struck out; and it reaches over none of these, for they may
show digits or part them. No character that shows nothing stands in it or joins digits to it, and none that turns the
order of words round stands in its paragraph. A footnote that nothing refers to is not shown, nor is a second of a name.
It begins and ends where words do, so that a part of another number is no quote of it; it stands in one place, so that
it is clear which figure is meant; and it holds the number that is claimed and no other.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final, NoReturn

from markdown_it import MarkdownIt

from k3_ledger.rescore.toml import looks_misspelt
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it.token import Token

_FENCE: Final = re.compile(r"\s*(?:`{3,}|~{3,})([^`]*)$")
_DEEPEST: Final = 19
"""Level of a block that Markdown's parser drops the content of, without a word: 10 lists in one another."""
_INFO: Final = ["toml", "claims"]
_NEARLY: Final = ("claim", "claims")
_BEFORE: Final = frozenset("([{\"'\u00ab\u2018\u201c")
_AFTER: Final = re.compile(r"[.,;:!?)\]}\"'\u00bb\u2019\u201d\u2026]*(?:\s|$)")
_NUMBER: Final = re.compile(r"(?<![\w.,])[-+±\u2010-\u2015\u2212]?[.,]?\d(?:[\w.,]|(?<=[eE])[-+]\d)*")
"""Digits and whatever makes another number of them: a sign, a point, an exponent, a letter such as k for thousands."""
_UNSEEN: Final = "\ufffc"
"""What stands in place of all that is not shown as words: a quote holds none of it, nor do digits meet across it."""
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\U00016fe4\U0001d159")
"""Letters, marks and symbols that show nothing; what else shows nothing has a category or a range for it."""
_RANGES: Final = (("\u180b", "\u180f"), ("\ufe00", "\ufe0f"), ("\ufff0", "\ufff8"), ("\U000e0000", "\U000e0fff"))
"""Selectors of variants, and what no character has yet and is to show nothing once one has (Unicode's defaults)."""
_TURNS: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_MARKS: Final = frozenset("\u061c\u200e\u200f")
"""Marks of a direction: they show nothing, and turn round the order of what has none, such as digits and signs."""
_FOOTNOTE: Final = re.compile(r"^ {0,3}\[\^([^\]\s]+)\]:", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\[\^([^\[\]\s]+)\]")
"""A label holds no bracket, so that each place is looked at once: a stranger's document may hold nothing but them."""
_COMMENT: Final = re.compile(r"<!--(?!-?>)(?:(?!--!?>).)*-->", re.DOTALL)
"""A comment that ends, for a browser too, where it ends for Markdown: it shows nothing, and joins what is beside it."""
_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TIMES: Final = re.compile(r"x?[.,]*$")
_VOID: Final = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


@dataclass(frozen=True, slots=True)
class Document:
    """A document as its claims see it.

    Attributes:
        blocks: (line of its first row, text) of every claims block.
        places: the words of each paragraph, heading and row of a table that readers see, with single spaces; the cells
            of a row are parted by bars.
    """

    blocks: tuple[tuple[int, str], ...]
    places: tuple[str, ...]


def read_document_of_claims(text: str, source: str) -> Document:
    """Part a document into claims and words.

    Raises:
        RescoreError: ``K3L-TOML-FIELD`` for what would be passed over: a fence that is nearly one of claims, one in raw
            HTML, which is none for Markdown, and more lists and quotations in one another than are read.
    """
    tokens = _parser().parse(text)
    return Document(tuple(_blocks(tokens, source)), tuple(_places(tokens)))


def complain(quote: str, numbers: Collection[str], document: Document) -> tuple[str, str] | None:
    """What is wrong with a quote, and what is expected; None when it binds the words of the document to its claim.

    Args:
        quote: as it is written in the claim, in Markdown.
        numbers: the figures of the claim, as they are published.
        document: around the claim.
    """
    words = " ".join(_shown(_parser().parseInline(quote), _Html()))
    return _complain_of_words(words, numbers) or _complain_of_place(words, document.places)


def _complain_of_words(words: str, numbers: Collection[str]) -> tuple[str, str] | None:
    if _UNSEEN in words:
        return "quote holds more than words: an image, raw HTML or what is struck out", "words that readers see"
    if hidden := next(filter(_is_hidden, words), None):
        return f"quote holds a character that shows nothing, {_code_point(hidden)}", "words that readers see"
    found = [_TIMES.sub("", match[0]) for match in _NUMBER.finditer(words)]
    if not any(number in numbers for number in found):
        return "quote carries no number of the claim", " or ".join(numbers) or "a claim with a number"
    other = next((number for number in found if number not in numbers), None)
    if other is not None:
        return f"quote carries another number, {other[:40]}, which nothing ties to the claim", "fewer words"
    return None


def _complain_of_place(words: str, shown: Sequence[str]) -> tuple[str, str] | None:
    places = [place for place in shown for _ in _bound(words, place)]
    if not places and (hidden := _find_hidden(words, shown)):
        return f"the document has a character that shows nothing in or beside this, {hidden}", "plain words there"
    if not places:
        return "the document does not say this outside its claims", "words of the document, from word to word"
    if len(places) > 1 and (len(set(places)) > 1 or len(list(_bound(words, places[0]))) > 1):
        return f"the document says this in {len(places)} places", "more words, so that one place is meant"
    if turning := next(filter(_turns, places[0]), None):
        return f"the paragraph may be shown in another order: {_code_point(turning)} stands in it", "plain words there"
    return None


def _find_hidden(words: str, places: Sequence[str]) -> str | None:
    """The code point that keeps words from being said in a place, where they would be without such characters."""
    for place in places:
        if any(map(_is_hidden, place)):
            plain = " ".join("".join(" " if _is_hidden(sign) else sign for sign in place).split())
            joined = "".join(sign for sign in place if not _is_hidden(sign))
            if words in plain or words in joined:
                return _code_point(next(filter(_is_hidden, place)))
    return None


def _is_hidden(sign: str) -> bool:
    """Whether a character shows nothing, or only moves what is beside it; white space is none of them."""
    if sign.isascii():
        return not sign.isprintable()
    ranged = any(first <= sign <= last for first, last in _RANGES)
    return ranged or sign in _BLANK or unicodedata.category(sign) in {"Cc", "Cf"}


def _turns(sign: str) -> bool:
    """Whether a character turns the order round in which others are shown."""
    return sign in _MARKS or unicodedata.bidirectional(sign) in _TURNS


def _code_point(sign: str) -> str:
    return f"U+{ord(sign):04X}"


def _bound(words: str, place: str) -> Iterator[int]:
    """Where a place holds words as words of their own, and not inside of others or of a longer number.

    Only what stands next to them is looked at: a page of a stranger may repeat them as often as it has room.
    """
    at = place.find(words)
    while at >= 0:
        start, end = at, at + len(words)
        while start and place[start - 1] in _BEFORE:
            start -= 1
        apart = (not start or place[start - 1].isspace()) and _AFTER.match(place, end)
        if apart and not _grouped(words, place, at):
            yield at
        at = place.find(words, at + 1)


def _grouped(words: str, place: str, at: int) -> bool:
    """Whether digits stand beside words that begin or end with one, as in 1 500; what is not shown parts no groups."""
    before, after = at, at + len(words)
    while before and _parts_nothing(place[before - 1]):
        before -= 1
    while after < len(place) and _parts_nothing(place[after]):
        after += 1
    return (words[0].isdigit() and before < at and place[before - 1 : before].isdecimal()) or (
        words[-1].isdigit() and after > at + len(words) and place[after : after + 1].isdecimal()
    )


def _parts_nothing(sign: str) -> bool:
    return sign.isspace() or sign == _UNSEEN or _is_hidden(sign)


# ------------------------------------------------------------------------------------------------------- words


def _parser() -> MarkdownIt:
    """What is escaped stays apart from other text: a bracket that is opens no reference to a footnote."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")


class _Html(HTMLParser):
    """How deep inside raw HTML the reader is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    @property
    def hides(self) -> bool:
        """Whether what follows is inside of an element, or of a tag or a comment that has not ended yet."""
        return bool(self.open) or "<" in self.rawdata

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the base class's
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.handle_starttag(tag, attrs)  # browsers close no element at such a slash

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            del self.open[len(self.open) - 1 - self.open[::-1].index(tag) :]


def _places(tokens: Sequence[Token]) -> Iterator[str]:
    html, row, defined = _Html(), None, set[str]()
    referred = _list_referred(tokens)
    for token in tokens:
        if token.type == "html_block":
            html.feed(token.content)
        elif token.type == "tr_open":
            row = list[str]()
        elif token.type == "tr_close":
            yield " | ".join(row or ())
            row = None
        elif token.type == "inline" and row is not None:
            row.append(" ".join(_shown([token], html)))
        elif token.type == "inline":
            footnotes = _list_footnotes(token)
            new = set(footnotes) - defined
            defined |= new
            if new <= referred and len(new) == len(footnotes):
                yield " ".join(_shown([token], html))


def _list_footnotes(token: Token) -> list[str]:
    """Names of the footnotes that a paragraph holds the text of."""
    return [name.casefold() for name in _FOOTNOTE.findall(token.content)]


def _list_referred(tokens: Sequence[Token]) -> set[str]:
    """Names of footnotes that words outside of footnotes refer to: only their text is shown."""
    return {
        name.casefold()
        for token in tokens
        if token.type == "inline" and not _FOOTNOTE.search(token.content)
        for name in _REFERENCE.findall("".join(_plain(one) for one in token.children or ()))
    }


def _plain(token: Token) -> str:
    """Text as it is written; whatever else stands there parts it, as white space does."""
    return token.content if token.type == "text" else " "


def _shown(tokens: Sequence[Token], html: _Html) -> list[str]:
    """Words that are shown of inline content, with a mark in place of whatever is not shown as words."""
    parts, struck = list[str](), 0
    for token in [child for each in tokens for child in each.children or ()]:
        struck += token.nesting if token.type in {"s_open", "s_close"} else 0
        if token.type == "html_inline":
            html.feed(token.content)
            parts.append(_tag(token.content))
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        elif token.type in {"text", "text_special", "code_inline"} and not struck:
            parts.append(_within_html(token.content) if html.hides else token.content)
        elif not token.nesting:
            parts.append(_UNSEEN)
    return "".join(parts).split()


def _tag(html: str) -> str:
    """What raw HTML within a line puts between what stands on its sides."""
    if _COMMENT.fullmatch(html):
        return ""
    return " " if _BREAK.fullmatch(html) else _UNSEEN


def _within_html(text: str) -> str:
    """What stands in place of words inside of an element: if they are shown, their digits group with those beside."""
    return f"{_UNSEEN}{''.join(sign if sign.isdecimal() else _UNSEEN for sign in text)}{_UNSEEN}"


# ------------------------------------------------------------------------------------------------------- blocks


def _blocks(tokens: Sequence[Token], source: str) -> Iterator[tuple[int, str]]:
    """Claims blocks: the fences that Markdown finds, be they in a quotation or a list; one inside another is text."""
    for token in tokens:
        if token.map is None:
            continue
        line = token.map[0] + 1
        if token.nesting and token.level >= _DEEPEST:
            _pass_over("this is in more lists and quotations than are read", Position(source=source, line=line))
        if token.type == "fence" and _fences_claims(token.info, Position(source=source, line=line)):
            yield line + 1, token.content
        for at, row in enumerate(token.content.split("\n") if token.type == "html_block" else ()):
            position = Position(source=source, line=line + at)
            if (fence := _FENCE.match(row)) and _fences_claims(fence[1], position):
                _pass_over("this fence is within raw HTML", position, fence[1])


def _pass_over(what: str, position: Position, found: str | None = None) -> NoReturn:
    raise RescoreError(
        Code.TOML_FIELD,
        f"{what}, and would be passed over",
        position=position,
        expected="```" + " ".join(_INFO),
        found=found and found.strip()[:60],
    )


def _fences_claims(info: str, position: Position) -> bool:
    """Whether a fence opens a block of claims."""
    words = info.split()
    if words == _INFO:
        return True
    named = [word for word in re.split(r"[^a-z]+", info.lower()) if word]
    claims = [word for word in named if word.removeprefix("toml") in _NEARLY or looks_misspelt(word, _NEARLY)]
    if claims and (len(named) == 1 or "toml" in named):
        _pass_over("this fence is nearly one of claims", position, info)
    return False
