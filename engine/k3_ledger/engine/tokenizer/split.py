"""Splits text into the words that BPE merges within: the ``kimi-k2`` pre-tokenizer.

The alternatives, first match wins: a run of Han; a run of other letters with at most one leading character that is
neither letter, number nor line break, and an English contraction after it; up to three numbers; punctuation with
at most one leading space and any line breaks after it; white space up to its last line break; white space but for
its last character, when a word follows; white space.

This is the rule as llama.cpp applies it to a file whose ``tokenizer.ggml.pre`` is ``kimi-k2``. Moonshot's own
pattern also splits inside a word where capitals follow small letters; ids are compared with llama.cpp's, so its
rule is followed here.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_WHITE_SPACE: Final = frozenset(
    [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)
_HAN: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2CEB0, 0x2EBEF),
    (0x2F800, 0x2FA1F),
    (0xF900, 0xFAFF),
)
_BREAKS: Final = "\r\n"
_ONE_LETTER: Final = frozenset("stmd")
_TWO_LETTERS: Final = frozenset({"re", "ve", "ll"})
MAX_DIGITS: Final = 3

HAN, LETTER, NUMBER, SPACE, OTHER, END = "H", "L", "N", "S", "O", ""


@lru_cache(maxsize=65_536)
def kind_of(character: str) -> str:
    """Kind of one character; ``END`` for the empty string."""
    if not character:
        return END
    point = ord(character)
    if point in _WHITE_SPACE:
        return SPACE
    category = unicodedata.category(character)[0]
    if category == "L":
        return HAN if any(low <= point <= high for low, high in _HAN) else LETTER
    return NUMBER if category == "N" else OTHER


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds = "".join(kind_of(c) for c in text)

    def kind(self, at: int) -> str:
        return self.kinds[at : at + 1]

    def run(self, at: int, kind: str, limit: int | None = None) -> int:
        """First position from ``at`` on that is of another kind, at most ``limit`` further."""
        end = len(self.kinds) if limit is None else min(len(self.kinds), at + limit)
        while at < end and self.kinds[at] == kind:
            at += 1
        return at

    def letters(self, at: int) -> int:
        """End of a word that starts at ``at``, or ``at`` when none does."""
        start = at
        if self.kind(at) in {SPACE, OTHER} and self.text[at] not in _BREAKS:
            start = at + 1
        end = self.run(start, LETTER)
        return self.contraction(end) if end > start else at

    def contraction(self, at: int) -> int:
        if self.text[at : at + 1] != "'":
            return at
        following = self.text[at + 1 : at + 3]
        lowered = "".join(c.lower() if c.isascii() else c for c in following)
        if lowered[:1] in _ONE_LETTER and lowered:
            return at + 2
        return at + 3 if lowered in _TWO_LETTERS else at

    def punctuation(self, at: int) -> int:
        start = at + 1 if self.text[at] == " " else at
        end = self.run(start, OTHER)
        if end == start:
            return at
        while self.text[end : end + 1] and self.text[end] in _BREAKS:
            end += 1
        return end

    def white_space(self, at: int) -> int:
        end = self.run(at, SPACE)
        blank = self.text[at:end]
        last_break = max(blank.rfind("\r"), blank.rfind("\n"))
        if last_break >= 0:
            return at + last_break + 1
        return end - 1 if end - at > 1 and end < len(self.text) else end

    def next(self, at: int) -> int:
        kind = self.kinds[at]
        if kind == HAN:
            return self.run(at, HAN)
        end = self.letters(at)
        if end == at and kind == NUMBER:
            return self.run(at, NUMBER, MAX_DIGITS)
        if end == at:
            end = self.punctuation(at)
        return end if end > at else self.white_space(at)


def split_words(text: str) -> list[str]:
    """The words of ``text`` in order; joined they are ``text`` again."""
    splitter = _Splitter(text)
    out: list[str] = []
    at = 0
    while at < len(text):
        end = splitter.next(at)
        assert end > at, "every character belongs to a word"
        out.append(text[at:end])
        at = end
    return out
