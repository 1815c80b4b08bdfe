"""Ids equal llama.cpp's on the same file."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from k3_ledger.engine.gguf.arrays import Numbers
from k3_ledger.engine.synth import preset
from k3_ledger.engine.tokenizer import Tokenizer, bpe, synthetic_vocabulary
from k3_ledger.engine.tokenizer.bpe import TokenType, byte_alphabet, decode_text, spell
from k3_ledger.engine.tokenizer.split import split_words
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 1024
CORPUS = {
    "code": "def f(x):\n    if x >= 0x7f:\n\t\treturn x**2  # it's\n\n\nfor(int i=0;i<n;++i){a[i]+=b[i];}\r\n",
    "contractions": "I'm sure we'd've said it'LL rain; rock'n'roll, 'tis 'Ve 're they'RE don't",
    "camel": "getUserName iPhone helloWorld HTTPServer snake_case kebab-case",
    "digits": "1 12 123 1234 12345678901 3.14159 1,000,000 0xdeadBEEF ½ Ⅷ ٣٤٥ 4½",
    "french": "Où est l'été ? À l'œuvre, naïf, « là-bas »… Ça va déjà !",
    "decomposed": "e\u0301te\u0301 nai\u0308f o\u0302ver",
    "russian": "Съешь ещё этих мягких французских булок, да выпей чаю.",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "chinese": "模型读取提示，并写出下一个词。今天是2024年12月31日abc中文ABC",  # noqa: RUF001 (its own comma)
    "japanese": "記録は鎖でつながる。カタカナとひらがな、漢字々〇",
    "korean": "안녕하세요 세계 여러분",
    "arabic": "السَّلامُ عَلَيْكُمْ ورحمة الله",
    "hindi": "नमस्ते दुनिया, क्षत्रिय",
    "thai": "สวัสดีชาวโลก",
    "emoji": "👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ☃️ ❤️‍🔥 a😀b 😀😀",
    "white space": "a" + " " * 300 + "b\t\t \n \n\n   c  \u00a0\u2003\u3000d \r\n\r\n e" + "\n" * 70 + "   ",
    "leading space": "   three  two one ",
    "symbols": "a+b=c; x->y; !!! ??? ... ###\n\n##--==>> $100 €5 ©®™ ¬¶§",
    "control": "a\x00b\x1b[31mred\x7f\u200b\ufeff\u2028x",
    "marks of the vocabulary": "[BOS]text<|end_of_msg|> <|unused_800|>",
    "han outside the first plane": "𠀀𪜶𫝀𬺰 㐀䶵 豈",
    "empty": "",
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(preset("tiny", vocabulary=VOCABULARY).header())


@pytest.fixture(scope="module")
def foreign(llama: Callable[..., Any]) -> Callable[..., list[int]]:
    address = llama("tiny", vocabulary=VOCABULARY).address

    def encode(text: str, *, special: bool = False) -> list[int]:
        body = json.dumps({"content": text, "parse_special": special}).encode()
        request = urllib.request.Request(f"{address}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return list(json.load(answer)["tokens"])

    return encode


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("special", [False, True])
def test_ids_equal_llama_cpps(name: str, special: bool, tokenizer: Tokenizer, foreign: Callable[..., Any]) -> None:
    text = CORPUS[name]
    assert tokenizer.encode(text, special=special) == foreign(text, special=special)


def test_ids_equal_llama_cpps_on_random_mixtures(tokenizer: Tokenizer, foreign: Callable[..., Any]) -> None:
    seed = 20261129
    generator = random.Random(seed)
    alphabet = "".join(dict.fromkeys("".join(CORPUS.values())))
    for _ in range(150):
        text = "".join(generator.choice(alphabet) for _ in range(generator.randrange(1, 60)))
        assert tokenizer.encode(text) == foreign(text), f"seed {seed}: {text!r}"


def test_merging_across_words_would_not_equal_llama_cpps(tokenizer: Tokenizer, foreign: Callable[..., Any]) -> None:
    """The negative control: BPE over the whole text, without the pre-tokenizer."""
    text = "wasn't measuredthe receipt,\n\n  1024  4096"
    assert tokenizer.encode(text) == foreign(text)
    assert tokenizer._merge(spell(text)) != foreign(text)


INVALID = {
    "stray continuation": (b"a\x80b", "a\ufffdb"),
    "two bad bytes": (b"a\xff\xfeb", "a\ufffd\ufffdb"),
    "cut short": (b"x\xe2\x82", "x\ufffd\ufffd"),
    "cut short, then text": (b"\xe2\x82z", "\ufffd\ufffdz"),
    "overlong": (b"\xc0\xaf", "/"),
    "overlong in three": (b"a\xe0\x80\xafb", "a/b"),
    "overlong in four": (b"\xf0\x80\x80\xaf", "/"),
    "overlong nothing": (b"\xc0\x80", "\0"),
    "overlong, cut": (b"\xc0", "\ufffd"),
    "half of a pair": (b"\xed\xa0\x80", "\ud800"),
    "five bytes": (b"\xf8\x88\x80\x80\x80", "\ufffd" * 5),
    "four bytes cut": (b"\xf0\x9f\x98!", "\ufffd\ufffd\ufffd!"),
}


@pytest.mark.parametrize("name", INVALID)
def test_bytes_that_are_not_utf8_are_decoded_as_llama_cpp_decodes_them(
    name: str, tokenizer: Tokenizer, library: Callable[[list[bytes]], list[list[int]]]
) -> None:
    raw, text = INVALID[name]
    assert decode_text(raw) == text
    assert [tokenizer.encode(raw)] == library([raw])


def test_random_bytes_have_llama_cpps_ids(
    tokenizer: Tokenizer, library: Callable[[list[bytes]], list[list[int]]]
) -> None:
    draw = random.Random(7)
    some = "Hello wörld 中文 😀 123 \n\t  code(x) Ελ".encode()
    edges = [0x80, 0xBF, 0xC0, 0xC1, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xA0, 0x82, 0xFF]
    raw = []
    while len(raw) < 2000:
        text = bytearray(draw.choice([some, b"abc def", draw.randbytes(12)]))
        for _ in range(draw.randrange(4)):
            at = draw.randrange(len(text) + 1)
            text[at:at] = bytes(draw.choices(edges, k=draw.randrange(1, 4)))
        if not re.search(rb"[\xf4-\xf7][\x80-\xbf]{3}", text):  # above U+10FFFF its process ends
            raw.append(bytes(text))
    assert [tokenizer.encode(one) for one in raw] == library(raw)


def test_what_is_above_every_character_is_no_character() -> None:
    for raw in (b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf"):
        assert decode_text(raw) == "\ufffd" * 4
    assert decode_text(b"\xf4\x8f\xbf\xbf") == "\U0010ffff"


LIBRARY = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 512)]  # larger than llama_model_params of any release so far
def declare(name, result, *taken):
    getattr(library, name).restype, getattr(library, name).argtypes = result, taken
numbers = ctypes.POINTER(ctypes.c_int32)
declare("llama_model_default_params", Parameters)
declare("llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, Parameters)
declare("llama_model_get_vocab", ctypes.c_void_p, ctypes.c_void_p)
declare("llama_tokenize", ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, numbers, ctypes.c_int32,
        ctypes.c_bool, ctypes.c_bool)
library.llama_backend_init()
model = library.llama_model_load_from_file(sys.argv[2].encode(), library.llama_model_default_params())
vocabulary = library.llama_model_get_vocab(model)
room = (ctypes.c_int32 * 10_000)()
for line in sys.stdin:
    raw = bytes.fromhex(line)
    count = library.llama_tokenize(vocabulary, raw, len(raw), room, len(room), False, False)
    print(json.dumps(room[:count]))
"""


@pytest.fixture(scope="module")
def library(synthetic: Callable[..., Path]) -> Callable[[list[bytes]], list[list[int]]]:
    """Ids of bytes by llama.cpp's own function, which takes any; it works in a process of its own."""
    xllamacpp = pytest.importorskip("xllamacpp")
    (shared,) = Path(xllamacpp.__file__).parent.glob("xllamacpp*.so")
    model = synthetic("tiny", vocabulary=VOCABULARY)

    def encode(raw: list[bytes]) -> list[list[int]]:
        lines = "".join(f"{one.hex()}\n" for one in raw)
        words = [sys.executable, "-c", LIBRARY, str(shared), str(model)]
        done = subprocess.run(words, input=lines, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return encode


@pytest.mark.parametrize("name", CORPUS)
def test_words_join_to_the_text_and_ids_decode_to_it(name: str, tokenizer: Tokenizer) -> None:
    text = CORPUS[name]
    assert "".join(split_words(text)) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text.encode()


WORDS = {
    "a\U0002f800\uf900b": ["a", "\U0002f800\uf900", "b"],
    "a\u3400\U00020000\U0002a700\U0002b740\U0002b820\U0002ceb0b": [
        "a",
        "\u3400\U00020000\U0002a700\U0002b740\U0002b820\U0002ceb0",
        "b",
    ],
    "a\u3042b": ["a\u3042b"],
    "we're They'LL I'Ve x'dy 'tis o'r": ["we're", " They'LL", " I'Ve", " x'd", "y", " '", "tis", " o", "'r"],
    "1234567": ["123", "456", "7"],
    "a  b": ["a", " ", " b"],
    "a\n\n  b": ["a", "\n\n", " ", " b"],
    "a \n b": ["a", " \n", " b"],
    "x  ": ["x", "  "],
    "!?\r\n\nz": ["!?\r\n\n", "z"],
    "$x \u0301y": ["$x", " \u0301", "y"],
}


@pytest.mark.parametrize("text", WORDS)
def test_words_are_split_by_the_rule(text: str) -> None:
    assert split_words(text) == WORDS[text]


def test_stream_holds_back_half_a_character(tokenizer: Tokenizer) -> None:
    decoder = tokenizer.stream()
    pieces = [decoder.decode(tokenizer.decode([index])) for index in tokenizer.encode("👍")]
    assert "".join(pieces) == "👍"
    assert pieces[0] == ""


def test_special_ids_are_k3s_at_k3s_size() -> None:
    vocabulary = synthetic_vocabulary(163_840)
    assert (vocabulary.bos, vocabulary.eos, vocabulary.pad) == (163_584, 163_586, 163_839)
    assert len(vocabulary.tokens) == 163_840
    assert len(set(vocabulary.tokens)) == 163_840
    assert vocabulary.tokens[:256] == byte_alphabet()
    with pytest.raises(ValueError, match="at least"):
        synthetic_vocabulary(200)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", "llama"),
        ("pre", "llama-bpe"),
        ("tokens", None),
        ("merges", None),
        ("merges", ("ab",)),
        ("token_type", (1, 2)),
        ("eos_token_id", 1024),
        ("eos_token_id", None),
        ("tokens", tuple(f"t{i}" for i in range(VOCABULARY))),
        ("tokens", "text"),
        ("token_type", (1.0,) * VOCABULARY),
        ("token_type", (math.nan,) * VOCABULARY),
        ("token_type", (math.inf,) * VOCABULARY),
        ("token_type", (True,) * VOCABULARY),
        ("token_type", ("1",) * VOCABULARY),
        ("token_type", (1,) * (VOCABULARY - 1) + (9,)),
        ("token_type", (1,) * (VOCABULARY - 1) + (-1,)),
        ("token_type", (1,) * (VOCABULARY - 1) + (2**63,)),
        ("token_type", (0,) * VOCABULARY),
        ("token_type", 1),
        ("eos_token_id", True),
        ("eos_token_id", 1.0),
        ("eos_token_id", -1),
        ("bos_token_id", False),
        ("add_bos_token", 1),
        ("add_bos_token", "true"),
        ("add_bos_token", (True,)),
    ],
)
def test_other_tokenizers_are_refused_by_key(key: str, value: Any) -> None:
    header = preset("tiny", vocabulary=VOCABULARY).header()
    header[f"tokenizer.ggml.{key}"] = value
    with pytest.raises(ModelError) as caught:
        Tokenizer(header)
    assert caught.value.code is Code.TOKENIZER_UNSUPPORTED
    assert caught.value.finding.position.field == f"tokenizer.ggml.{key}"


NUMPY = ["<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8"]


@pytest.mark.parametrize("kind", [*NUMPY, "<f4", "<f8", "?"])
def test_kinds_of_tokens_are_integers_of_whichever_width(kind: str) -> None:
    header = preset("tiny", vocabulary=VOCABULARY).header()
    header["tokenizer.ggml.token_type"] = Numbers(np.array(header["tokenizer.ggml.token_type"], dtype=kind))
    if kind in NUMPY:
        assert set(Tokenizer(header).types) <= set(TokenType)
        return
    with pytest.raises(ModelError, match="no kind of token"):
        Tokenizer(header)


@pytest.mark.parametrize(
    ("spelling", "says"),
    [("漢", "stand for no byte"), ("a b", "stand for no byte"), ("\x00", "stand for no byte"), ("a", "alike")],
)
def test_a_token_without_bytes_of_its_own_is_refused(spelling: str, says: str) -> None:
    """Of a token of text, that is: the marks of a vocabulary are spelled as they please."""
    header = preset("tiny", vocabulary=VOCABULARY).header()
    tokens = list(header["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    at = tokens.index(spell(" the"))
    header["tokenizer.ggml.tokens"] = (*tokens[:at], spelling, *tokens[at + 1 :])
    with pytest.raises(ModelError, match=says) as caught:
        Tokenizer(header)
    assert caught.value.finding.position.field == "tokenizer.ggml.tokens"
    types = list(header["tokenizer.ggml.token_type"])  # type: ignore[arg-type]
    types[at] = TokenType.CONTROL
    header["tokenizer.ggml.token_type"] = tuple(map(int, types))
    if spelling != "a":
        assert Tokenizer(header).decode([at]) == b""


def test_more_tokens_than_are_taken_become_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "MAX_TOKENS", VOCABULARY - 1)
    with pytest.raises(ModelError, match="at most 1023 are taken"):
        Tokenizer(preset("tiny", vocabulary=VOCABULARY).header())


@pytest.mark.parametrize("size", [260, 261, 300, 324, 512])
def test_every_vocabulary_has_enough_text_for_prompts(size: int) -> None:
    ordinary = Tokenizer(preset("tiny", vocabulary=size).header()).ordinary()
    assert len(ordinary) >= 64
    assert max(ordinary) < size - 4


def test_a_vocabulary_without_text_is_drawn_from_as_it_is() -> None:
    header = preset("tiny", vocabulary=VOCABULARY).header()
    header["tokenizer.ggml.token_type"] = (int(TokenType.CONTROL),) * VOCABULARY
    assert Tokenizer(header).ordinary() == list(range(VOCABULARY))


@pytest.mark.parametrize("size", [260, 261])
def test_the_smallest_vocabularies_are_read_by_both(size: int, llama: Callable[..., Any]) -> None:
    """At 260 there is no merge at all."""
    reader = llama("tiny", vocabulary=size)
    text = "every byte é 漢 \n"
    request = urllib.request.Request(
        f"{reader.address}/tokenize", json.dumps({"content": text}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        theirs = json.load(answer)["tokens"]
    ours = Tokenizer(preset("tiny", vocabulary=size).header())
    assert ours.encode(text) == theirs
    assert ours.decode(theirs) == text.encode()


def one_by_one(tokenizer: Tokenizer, word: str) -> list[int]:
    """The rule as it is written: all pairs anew for every merge."""
    parts, ranks, ids = list(spell(word)), tokenizer._ranks, tokenizer._ids
    while ranked := [(ranks[pair], at) for at, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]:
        at = min(ranked)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ids[one] for part in parts for one in ([part] if part in ids else part)]


@pytest.mark.parametrize("alphabet", ["a", "ab", "the ", "etaoin shrdlu", "é\u4e2d\U0001f600a", None])
def test_merges_are_those_of_the_rule(alphabet: str | None, tokenizer: Tokenizer) -> None:
    draw = random.Random(str(alphabet))
    letters = alphabet or [token for token in tokenizer.tokens[300:] if token.isascii()]
    for length in (0, 1, 2, 3, 5, 17, 60):
        for _ in range(20):
            word = "".join(draw.choice(letters) for _ in range(length))
            assert tokenizer._merge(spell(word)) == one_by_one(tokenizer, word)


class Counts(dict[Any, Any]):
    asked = 0

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("word", ["the", "a", "etaoinshrdlu"])
def test_a_long_word_is_merged_with_three_looks_a_character(word: str, tokenizer: Tokenizer, monkeypatch: Any) -> None:
    ranks = Counts(tokenizer._ranks)
    monkeypatch.setattr(tokenizer, "_ranks", ranks)
    spelled = word * (30_000 // len(word))
    tokenizer._merge(spelled)
    assert ranks.asked <= 3 * len(spelled)


def test_no_text_has_fewer_ids_than_the_least(tokenizer: Tokenizer) -> None:
    longest = max(tokenizer.tokens, key=len)
    for text in ("", "a", "the the the", "\U0001f600" * 9, longest * 5, " " * 100):
        assert tokenizer.least(text) <= len(tokenizer.encode(text, special=True))
    assert tokenizer.least("x" * 100_000) > 100
