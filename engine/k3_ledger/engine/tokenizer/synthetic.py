"""The vocabulary of synthetic files: every byte, then merges learned from the few sentences below, then specials.

Learning is deterministic: the most frequent pair, the smallest spelling among equals. What does not fill the
vocabulary is filled with unused tokens. The last ids are special: at K3's own size they are K3's ids.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.tokenizer.bpe import MODEL, PRE, TokenType, byte_alphabet, spell
from k3_ledger.engine.tokenizer.split import split_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.engine.gguf.header import Value

K3_VOCABULARY: Final = 163_840
K3_SPECIALS: Final = (163_584, 163_586, 163_839)
SMALLEST: Final = 256 + 4
_SENTENCES: Final = (
    "The ledger keeps every receipt that was ever sealed, and a receipt says what was measured, when and with what.",
    "Nobody has to trust the one who measured: the chain of entries is checked again on any machine, offline.",
    "A claim without a receipt is only a sentence; a receipt without its samples is only a number.",
    "When the reference is stale the tiers drift, so the pins are measured again and the reason is written down.",
    "One token after another the model reads the prompt, keeps its state and writes the next word of the answer.",
    "There are seven ways to be faster and six of them are wrong: test the long context, the odd layer, the last bit.",
    "It wasn't the kernel's fault; we'd measured the wrong thing, they'll measure it again and I'm sure it's right.",
    "def forward(x, weights):\n    for layer in weights:\n        x = x + layer(norm(x))\n    return x\n",
    "for (int i = 0; i < n; i++) {\n\tsum += a[i] * b[i];\n}\nreturn sum;\n",
    'if value is None:\n        raise ValueError("nothing to measure")\n    print(f"{value:.3f} tokens per second")\n',
    "Der Speicher ist voll, und die Zahlen stimmen nicht mehr. Où sont les mesures ? ¿Dónde está el recibo?",
    "Журнал хранит каждую запись. Τα δεδομένα είναι εδώ. 模型读取提示并写出下一个词。記録は鎖でつながる。",  # noqa: RUF001 (Greek is Greek)
    "2024, 1999, 1024, 4096, 131072, 163840; 3.14159; 0x7fff; 100 %; a+b=c; x -> y; https://example.org/a?b=c",
)


@dataclass(frozen=True, slots=True)
class SyntheticVocabulary:
    """A vocabulary ready for a header."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    bos: int
    eos: int
    pad: int

    def values(self) -> Mapping[str, Value]:
        """The ``tokenizer.ggml.*`` header values."""
        return {
            "tokenizer.ggml.model": MODEL,
            "tokenizer.ggml.pre": PRE,
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": self.types,
            "tokenizer.ggml.merges": self.merges,
            "tokenizer.ggml.bos_token_id": self.bos,
            "tokenizer.ggml.eos_token_id": self.eos,
            "tokenizer.ggml.padding_token_id": self.pad,
            "tokenizer.ggml.add_bos_token": False,
        }


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    at = 0
    while at < len(word):
        if word[at : at + 2] == pair:
            out.append("".join(pair))
            at += 2
        else:
            out.append(word[at])
            at += 1
    return tuple(out)


@cache
def _learned() -> tuple[tuple[str, str], ...]:
    """Every merge that the sentences support, most useful first."""
    words = Counter(tuple(spell(word)) for sentence in _SENTENCES for word in split_words(sentence))
    merges: list[tuple[str, str]] = []
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        if not pairs:
            return tuple(merges)
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        joined: Counter[tuple[str, ...]] = Counter()
        for word, count in words.items():
            joined[_merged(word, best)] += count
        words = joined


def synthetic_vocabulary(size: int) -> SyntheticVocabulary:
    """A vocabulary of ``size`` tokens, at least :data:`SMALLEST`."""
    if size < SMALLEST:
        raise ValueError(f"a vocabulary needs at least {SMALLEST} tokens, not {size}")
    bos, eos, pad = K3_SPECIALS if size == K3_VOCABULARY else (size - 4, size - 2, size - 1)
    tokens = list(byte_alphabet())
    seen = set(tokens)
    merges: list[str] = []
    for left, right in _learned():
        if len(tokens) >= bos:
            break
        merges.append(f"{left} {right}")
        if left + right not in seen:
            seen.add(left + right)
            tokens.append(left + right)
    types = [int(TokenType.NORMAL)] * len(tokens)
    names = {bos: "[BOS]", eos: "<|end_of_msg|>", pad: "[PAD]"}
    for index in range(len(tokens), size):
        tokens.append(names.get(index, f"<|unused_{index}|>"))
        types.append(int(TokenType.CONTROL if index in names else TokenType.UNUSED))
    return SyntheticVocabulary(tuple(tokens), tuple(types), tuple(merges), bos, eos, pad)
