"""A plain mutator: what fuzzes where atheris is not installed, and in ``make test`` for a moment.

It is not guided by coverage. Its inputs are the corpus with bytes flipped, taken out, repeated, put in, numbers and
words of the formats put in, and inputs spliced; a seed makes them reproducible.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORDS = (
    b"\n", b"\n\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r\n", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"=",
    b"null", b"true", b"-0", b"1e3", b"007", b"9007199254740993", b"18446744073709551615", b"\\ud800", b"\\u0000",
    b'{"entry":', b'","sig":"', b'"body"', b'"index":', b"\xe2\x80\x94 ", b"[[[[[[[[", b"../", b"\xc3\xa9", b"\x80" * 4,
    b"\xff" * 8, b"\x7f" + b"\xff" * 7,
)  # fmt: skip


def inputs(corpus: Sequence[bytes], longest: int, seed: int) -> Iterator[bytes]:
    """Inputs without end, at most ``longest`` bytes each: the corpus as it is first, then changed."""
    yield from (data[:longest] for data in corpus)
    chance = random.Random(seed)
    while True:
        data = bytearray(chance.choice(corpus) if corpus else b"")
        for _ in range(1 << chance.randrange(4)):
            _change(data, corpus, chance)
        yield bytes(data[:longest])


def _change(data: bytearray, corpus: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    length = chance.choice((1, 1, 2, 4, 8, 32, 200))
    match chance.randrange(8):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(data):
            data[at] = chance.randrange(256)
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = data[at : at + length] * chance.randrange(1, 4)
        case 4:
            data[at : at + chance.choice((0, 0, length))] = chance.choice(WORDS)
        case 5:
            other = chance.choice(corpus) if corpus else b""
            start = chance.randrange(len(other) + 1)
            data[at : at + chance.choice((0, length))] = other[start : start + length * 4]
        case 6 if at < len(data) and data[at : at + 1].isdigit():
            data[at : at + 1] = str(chance.randrange(-2, 300)).encode()
        case _:
            data[at:at] = chance.randbytes(length)
