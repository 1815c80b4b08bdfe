"""Byte-level BPE over a GGUF's own tokens and merges.

Tokens are spelled in the printable alphabet that gives each byte one character. Text that is not UTF-8 is taken as
llama.cpp takes it: a byte that begins no character, by its leading bits and those of the bytes behind it, becomes
U+FFFD, and a character that is spelled in more bytes than it needs is that character.
"""

from __future__ import annotations

import codecs
import enum
import heapq
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

from k3_ledger.engine.gguf.header import ARRAYS
from k3_ledger.engine.tokenizer.split import split_words
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from k3_ledger.engine.gguf.header import Value

MODEL: Final = "gpt2"
PRE: Final = "kimi-k2"


class TokenType(enum.IntEnum):
    """Kinds of tokens in a GGUF vocabulary."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


MAX_TOKENS: Final = 1 << 20
"""Most tokens, and most merges: K3 has 163,840. Each becomes an object."""
_TYPES: Final = frozenset(map(int, TokenType))
_ENOUGH: Final = 64
"""Tokens from which prompts of any length can be drawn that differ."""


@cache
def byte_alphabet() -> tuple[str, ...]:
    """The character that spells each byte: itself where it prints, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    out: list[str] = []
    extra = 0
    for byte in range(256):
        if byte in printable:
            out.append(chr(byte))
        else:
            out.append(chr(256 + extra))
            extra += 1
    return tuple(out)


@cache
def _bytes_of_alphabet() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_alphabet())}


def spell(text: str) -> str:
    """``text`` in the byte alphabet."""
    alphabet = byte_alphabet()
    return "".join(alphabet[byte] for byte in text.encode("utf-8", "surrogatepass"))


def decode_text(raw: bytes) -> str:
    """Bytes to text, with U+FFFD for every byte that is not part of a character, one for each.

    Surrogates written in three bytes pass, and so do overlong forms, as they do in llama.cpp. What would be above
    U+10FFFF ends its process; here each byte of it becomes U+FFFD.
    """
    out: list[str] = []
    at = 0
    while at < len(raw):
        try:
            out.append(raw[at:].decode("utf-8", "surrogatepass"))
            break
        except UnicodeDecodeError as error:
            out.append(raw[at : at + error.start].decode("utf-8", "surrogatepass"))
            at += error.start
            character, length = _by_leading_bits(raw, at)
            out.append(character)
            at += length
    return "".join(out)


def _by_leading_bits(raw: bytes, at: int) -> tuple[str, int]:
    """What stands there, and in how many bytes: by the bits that say how long it is, and no other rule of UTF-8."""
    length = next((size for size, mark in ((2, 0b110), (3, 0b1110), (4, 0b11110)) if raw[at] >> (7 - size) == mark), 1)
    rest = raw[at + 1 : at + length]
    value = raw[at] & (0x7F >> length)
    for byte in rest:
        value = value << 6 | byte & 0x3F
    whole = length > 1 and len(rest) == length - 1 and all(byte >> 6 == 0b10 for byte in rest)
    return (chr(value), length) if whole and value <= sys.maxunicode else ("\ufffd", 1)


class Tokenizer:
    """Encodes text to ids and decodes ids to bytes.

    Attributes:
        tokens: spelling of every token, by id.
        types: kind of every token, by id (:class:`TokenType`).
        bos, eos, pad: special ids; ``eos`` is what ends a turn.
        add_bos: whether the file asks for ``bos`` in front of a prompt.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        for key, wanted in (("tokenizer.ggml.model", MODEL), ("tokenizer.ggml.pre", PRE)):
            if (found := values.get(key)) != wanted:
                self._fail(key, f"is {found!r:.80}, not {wanted!r}")
        self.tokens = self._strings("tokenizer.ggml.tokens")
        self._ranks = self._merges(self._strings("tokenizer.ggml.merges"))
        self.types = self._token_types()
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self._check_spellings()
        self.bos = self._special("bos_token_id")
        self.eos = self._special("eos_token_id")
        self.pad = self._special("padding_token_id")
        self.add_bos = self._boolean("add_bos_token")
        self._words: dict[str, tuple[int, ...]] = {}
        self._marks = self._marked(TokenType.USER_DEFINED)
        self._all_marks = self._marked(TokenType.USER_DEFINED, TokenType.CONTROL)
        missing = [byte for byte, spelled in enumerate(byte_alphabet()) if spelled not in self._ids]
        if missing:
            self._fail("tokenizer.ggml.tokens", f"has no token for byte 0x{missing[0]:02x}")

    def _fail(self, key: str, message: str) -> NoReturn:
        raise ModelError(Code.TOKENIZER_UNSUPPORTED, f"{key} {message}", position=Position(field=key))

    def _strings(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key)
        if not isinstance(value, ARRAYS) or not all(isinstance(item, str) for item in value):
            self._fail(key, "is missing or is no array of strings")
        if len(value) > MAX_TOKENS:
            self._fail(key, f"has {len(value)} elements, where at most {MAX_TOKENS} are taken")
        return tuple(str(item) for item in value)

    def _check_spellings(self) -> None:
        """Every token is spelled in its own way, and those that are text in the byte alphabet: each has its bytes."""
        if len(self._ids) != len(self.tokens):
            twice = next(index for index, token in enumerate(self.tokens) if self._ids[token] != index)
            self._fail("tokenizer.ggml.tokens", f"spells {twice} and {self._ids[self.tokens[twice]]} alike")
        alphabet = _bytes_of_alphabet().keys()
        for index, token in enumerate(self.tokens):
            if self.types[index] == TokenType.NORMAL and not alphabet >= set(token):
                self._fail("tokenizer.ggml.tokens", f"spells {index} with characters that stand for no byte")

    def _merges(self, lines: Iterable[str]) -> dict[tuple[str, str], int]:
        ranks: dict[tuple[str, str], int] = {}
        for rank, line in enumerate(lines):
            left, _, right = line.partition(" ")
            if not left or not right:
                self._fail("tokenizer.ggml.merges", f"line {rank} is not two tokens")
            ranks.setdefault((left, right), rank)
        return ranks

    def _token_types(self) -> tuple[int, ...]:
        key = "tokenizer.ggml.token_type"
        value = self._values.get(key)
        if not isinstance(value, ARRAYS) or len(value) != len(self.tokens):
            self._fail(key, "is missing or of another length than the tokens")
        for index, item in enumerate(value):
            if type(item) is not int or item not in _TYPES:
                self._fail(key, f"says {item!r:.80} of token {index}, which is no kind of token")
        return tuple(int(item) for item in value)

    def _special(self, name: str) -> int:
        key = f"tokenizer.ggml.{name}"
        value = self._values.get(key)
        if type(value) is not int or not 0 <= value < len(self.tokens):
            self._fail(key, f"is {value!r:.80}")
        return value

    def _boolean(self, name: str) -> bool:
        key = f"tokenizer.ggml.{name}"
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            self._fail(key, f"is {value!r:.80}, no boolean")
        return value

    def _marked(self, *kinds: TokenType) -> tuple[tuple[str, int], ...]:
        """Tokens that are cut out of the text whole, longest first."""
        found = [(token, i) for i, token in enumerate(self.tokens) if self.types[i] in kinds and token]
        return tuple(sorted(found, key=lambda item: (-len(item[0]), item[1])))

    def ordinary(self) -> list[int]:
        """Ids of tokens that are text of more than one byte, or of any length where those are few: for prompts."""
        normal = [i for i, kind in enumerate(self.types) if kind == TokenType.NORMAL]
        longer = [i for i in normal if len(self.tokens[i]) > 1]
        if len(longer) >= _ENOUGH:
            return longer
        return normal if len(normal) >= _ENOUGH else list(range(len(self.tokens)))

    def least(self, text: str) -> int:
        """Ids that ``text`` has at least, were all of it the longest token: told at once, however long it is."""
        return -(-len(text.encode("utf-8", "surrogatepass")) // max(len(token.encode()) for token in self.tokens))

    def encode(self, text: str | bytes, *, special: bool = False) -> list[int]:
        """Ids of ``text``, without ``bos``.

        Args:
            text: text, or bytes that may not be UTF-8.
            special: whether spellings of control tokens stand for those tokens.
        """
        if isinstance(text, bytes):
            text = decode_text(text)
        pieces: list[str | int] = [text]
        for mark, index in self._all_marks if special else self._marks:
            if mark in text:
                pieces = [part for piece in pieces for part in _cut(piece, mark, index)]
        out: list[int] = []
        for piece in pieces:
            if isinstance(piece, int):
                out.append(piece)
            else:
                for word in split_words(piece):
                    out.extend(self._word(word))
        return out

    def _word(self, word: str) -> tuple[int, ...]:
        known = self._words.get(word)
        if known is None:
            known = tuple(self._merge(spell(word)))
            if len(self._words) < 65_536:
                self._words[word] = known
        return known

    def _merge(self, spelled: str) -> list[int]:
        """Merges the pair of lowest rank, the leftmost of equals, until none is left."""
        parts: list[str] = list(spelled)
        after, before = list(range(1, len(parts) + 1)), list(range(-1, len(parts) - 1))
        waiting: list[tuple[int, int, str, str]] = []

        def meet(left: int, right: int) -> None:
            if left >= 0 and right < len(parts):
                pair = (parts[left], parts[right])
                if pair in self._ranks:
                    heapq.heappush(waiting, (self._ranks[pair], left, *pair))

        for left in range(len(parts) - 1):
            meet(left, left + 1)
        while waiting:
            _, left, first, second = heapq.heappop(waiting)
            right = after[left]
            # What was merged since has another spelling, or none: an empty one is no part any more.
            if parts[left] != first or right >= len(parts) or parts[right] != second:
                continue
            parts[left], parts[right] = first + second, ""
            after[left] = after[right]
            if after[left] < len(parts):
                before[after[left]] = left
            meet(before[left], left)
            meet(left, after[left])
        out: list[int] = []
        for part in filter(None, parts):
            index = self._ids.get(part)
            # A merge whose result is no token falls back to its bytes.
            out.extend([index] if index is not None else [self._ids[c] for c in part])
        return out

    def decode(self, ids: Iterable[int]) -> bytes:
        """Bytes of ``ids``; control and unused tokens add none."""
        alphabet = _bytes_of_alphabet()
        out = bytearray()
        for index in ids:
            kind = self.types[index]
            if kind == TokenType.USER_DEFINED:
                out += self.tokens[index].encode()
            elif kind == TokenType.NORMAL:
                out += bytes(alphabet[c] for c in self.tokens[index])
        return bytes(out)

    def stream(self) -> codecs.IncrementalDecoder:
        """A decoder that holds back an unfinished character until its last byte arrives."""
        return codecs.getincrementaldecoder("utf-8")("replace")


def _cut(piece: str | int, mark: str, index: int) -> Iterable[str | int]:
    if isinstance(piece, int):
        yield piece
        return
    first, *rest = piece.split(mark)
    if first:
        yield first
    for part in rest:
        yield index
        if part:
            yield part
