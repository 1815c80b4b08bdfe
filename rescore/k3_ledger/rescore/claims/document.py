"""A document with claims in it: its claims blocks, and the words that its readers see.

What ties a claim to a document is a quote. It binds only what Markdown shows: no fence, no code block, nothing in raw
HTML (a comment above all), no target of a link, nothing struck out. It begins and ends where words do, so that a part
of another number is no quote of it; it stands in one place, so that it is clear which figure is meant; and it holds
the number that is claimed and no other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt

from k3_ledger.rescore.toml import looks_misspelt
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from markdown_it.token import Token

_FENCE: Final = re.compile(r"(`{3,}|~{3,})([^`]*)$")
_INFO: Final = ["toml", "claims"]
_NEARLY: Final = ("claim", "claims")
_BEFORE: Final = frozenset("([{\"'\u00ab\u2018\u201c")
_AFTER: Final = re.compile(r"[.,;:!?)\]}\"'\u00bb\u2019\u201d\u2026]*(?:\s|$)")
_NUMBER: Final = re.compile(r"(?<![\w.,])[-+±\u2010-\u2015\u2212]?[.,]?\d(?:[\w.,]|(?<=[eE])[-+]\d)*")
"""Digits and whatever makes another number of them: a sign, a point, an exponent, a letter such as k for thousands."""
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
        RescoreError: ``K3L-TOML-FIELD`` for a fence that is nearly one of claims: it would be passed over.
    """
    return Document(tuple(_blocks(text, source)), tuple(_places(text)))


def complain(quote: str, numbers: Collection[str], document: Document) -> tuple[str, str] | None:
    """What is wrong with a quote, and what is expected; None when it binds the words of the document to its claim.

    Args:
        quote: as it is written in the claim, in Markdown.
        numbers: the figures of the claim, as they are published.
        document: around the claim.
    """
    words = " ".join(_shown(_parser().parseInline(quote), _Html()))
    found = [_TIMES.sub("", match[0]) for match in _NUMBER.finditer(words)]
    if not any(number in numbers for number in found):
        return "quote carries no number of the claim", " or ".join(numbers) or "a claim with a number"
    other = next((number for number in found if number not in numbers), None)
    if other is not None:
        return f"quote carries another number, {other[:40]}, which nothing ties to the claim", "fewer words"
    places = [place for place in document.places for _ in _bound(words, place)]
    if not places:
        return "the document does not say this outside its claims", "words of the document, from word to word"
    if len(places) > 1 and (len(set(places)) > 1 or len(list(_bound(words, places[0]))) > 1):
        return f"the document says this in {len(places)} places", "more words, so that one place is meant"
    return None


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
        joined = (words[0].isdigit() and re.fullmatch(r"\d\s", place[max(at - 2, 0) : at])) or (
            words[-1].isdigit() and re.match(r"\s\d", place[end : end + 2])
        )  # digits in groups: 1 500
        if apart and not joined:
            yield at
        at = place.find(words, at + 1)


# ------------------------------------------------------------------------------------------------------- words


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


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


def _places(text: str) -> Iterator[str]:
    html, row = _Html(), None
    for token in _parser().parse(text):
        if token.type == "html_block":
            html.feed(token.content)
        elif token.type == "tr_open":
            row = list[str]()
        elif token.type == "tr_close":
            yield " | ".join(row or ())
            row = None
        elif token.type == "inline" and row is None:
            yield " ".join(_shown([token], html))
        elif token.type == "inline" and row is not None:
            row.append(" ".join(_shown([token], html)))


def _shown(tokens: Sequence[Token], html: _Html) -> list[str]:
    """Words that are shown of inline content."""
    parts, struck = list[str](), 0
    for token in [child for each in tokens for child in each.children or ()]:
        if token.type == "html_inline":
            html.feed(token.content)
            parts.append(" " if token.content.lower().startswith("<br") else "")
        elif token.type in {"s_open", "s_close"}:
            struck += 1 if token.type == "s_open" else -1
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
        elif token.type in {"text", "code_inline"} and not html.hides and not struck:
            parts.append(token.content)
    return "".join(parts).split()


# ------------------------------------------------------------------------------------------------------- blocks


def _blocks(text: str, source: str) -> Iterator[tuple[int, str]]:
    """Claims blocks, by CommonMark's fences: one inside another is text, and one never closed ends with all else."""
    fence, first, rows = "", 0, list[str]()
    for number, line in enumerate([*text.split("\n"), None], start=1):
        stripped = "" if line is None else line.strip()
        if fence and (line is None or (len(stripped) >= len(fence) and not stripped.strip(fence[0]))):
            if first:
                yield first, "\n".join(rows) + "\n"
            fence = ""
        elif fence and line is not None:
            rows.append(line)
        elif opening := _FENCE.match(stripped):
            fence, rows = opening[1], []
            first = number + 1 if _fences_claims(opening[2], Position(source=source, line=number)) else 0


def _fences_claims(info: str, position: Position) -> bool:
    """Whether a fence opens a block of claims."""
    words = info.split()
    if words == _INFO:
        return True
    named = [word for word in re.split(r"[^a-z]+", info.lower()) if word]
    claims = [word for word in named if word.removeprefix("toml") in _NEARLY or looks_misspelt(word, _NEARLY)]
    if claims and (len(named) == 1 or "toml" in named):
        raise RescoreError(
            Code.TOML_FIELD,
            "this fence is nearly one of claims, and would be passed over",
            position=position,
            expected="```" + " ".join(_INFO),
            found=info.strip()[:60],
        )
    return False
