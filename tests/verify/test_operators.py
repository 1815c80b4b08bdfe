"""One operator must not count as two in a quorum, however the name is spelled the second time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.operators import check_operators, plain, skeletons
from k3_ledger.verify.policy import parse_policy
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey

KEYS = tuple(NoteKey(f"witness.example/w{number}", f"w{number}", COSIGNER_TYPE).verifier_key for number in (1, 2))

MISSPELT = {
    "space at the end": "Op ",
    "space in front": " Op",
    "tab inside": "Example\tOrg",
    "two spaces inside": "Example  Org",
    "no-break space": "Example\u00a0Org",
    "ideographic space": "Example\u3000Org",
    "line separator": "Example\u2028Org",
    "zero-width space": "O\u200bp",
    "zero-width joiner": "O\u200dp",
    "byte order mark": "\ufeffOp",
    "soft hyphen": "O\u00adp",
    "word joiner": "Op\u2060",
    "direction": "\u202eOp",
    "variation selector": "Op\ufe0f",
    "far variation selector": "Op\U000e0100",
    "mongolian selector": "Op\u180b",
    "grapheme joiner": "O\u034fp",
    "hangul filler": "Op\u3164",
    "tag": "Op\U000e0041",
    "control character": "Op\u0007",
    "full width": "\uff2f\uff50",
    "ligature": "Of\ufb01ce",
    "decomposed": "Zu\u0308rich",
    "nothing that shows": "\u200b",
    "private use": "Op\ue000",
}
"""Names that no policy takes: what a reader sees is another spelling."""

ALIKE = {
    "case": ("Op", "op"),
    "capital sharp s": ("STRASSE", "straße"),
    "dotted capital": ("\u0130NC", "inc"),
    "cyrillic all": ("Cope", "\u0421\u043e\u0440\u0435"),
    "cyrillic capitals": ("COPE", "\u0421\u041e\u0420\u0415"),
    "greek capital and small": ("No", "\u039d\u03bf"),
    "armenian": ("Sonn", "\u054f\u0585\u0578\u0578"),
    "I and l": ("Ilex", "llex"),
    "1 and l": ("Op 1", "Op l"),
    "0 and O": ("Org 0", "Org O"),
    "rn and m": ("Modern", "Modem"),
    "vv and w": ("Wovven", "Wowen"),
    "click and l": ("Wall", "Wa\u01c0\u01c0"),
    "digits of arabic": ("\u0639\u0661", "\u06391"),
    "two arabic digits": ("\u0639\u0661", "\u0639\u06f1"),
    "arabic yeh": ("\u0639\u064a", "\u0639\u06cc"),
    "arabic vowel": ("\u0639\u0628", "\u0639\u064e\u0628"),
    "katakana and han": ("\u53e3\u30a2", "\u30ed\u30a2"),
    "han and l": ("\u53e3l", "\u53e3\u4e28"),
    "greek capital": ("BEHA", "\u0392\u0395\u0397\u0391"),
    "accent": ("Zurich", "Z\u00fcrich"),
    "hyphen": ("Ex-Org", "Ex\u2010Org"),
    "punctuation": ("Example, Inc", "Example Inc."),
    "apostrophe": ("Op's", "Op\u2019s"),
    "dotless i": ("Wit", "W\u0131t"),
}
"""Pairs that are spelled as names are, each in one script, and look like one."""

MIXED = {
    "cyrillic o": ("\u041ep", "Cyrillic and Latin"),
    "greek o": ("\u039fp", "Greek and Latin"),
    "armenian": ("Ex\u0585", "Armenian and Latin"),
    "cyrillic and greek": ("\u0436\u03bf", "Cyrillic and Greek"),
    "two words": ("\u041e\u041e\u041e Example", "Cyrillic and Latin"),
    "mark of another": ("Ox\u0301 \u0915\u093e", "Devanagari and Latin"),
    "digit of another": ("Op \u0661", "Arabic and Latin"),
    "extended digit": ("Op \u06f1", "Arabic and Latin"),
    "korean and japanese": ("\ud55c\u3042", "Hangul and Hiragana"),
}
"""Names in several scripts, and those."""

OUTSIDE = {
    "cherokee": ("\u13a2\u13a2", "U+13A2"),
    "lisu": ("\ua4d3\ua4f3", "U+A4D3"),
    "coptic": ("\u2c9f", "U+2C9F"),
    "apl": ("Op\u237a", "U+237A"),
    "circle": ("\u25cbp", "U+25CB"),
    "modifier apostrophe": ("Op\u02bcs", "U+02BC"),
    "mark of music": ("Op\U0001d165", "U+1D165"),
}
"""Names with what belongs to no script in everyday use, and the first of it."""


def policy(first: str, second: str) -> bytes:
    def text(name: str) -> str:
        return '"' + "".join(f"\\U{ord(char):08x}" for char in name) + '"'

    tables = (
        f'[[witness]]\nkey = "{key}"\noperator = {text(name)}\n'
        for key, name in zip(KEYS, (first, second), strict=True)
    )
    return ("quorum = 2\n" + "".join(tables)).encode()


@pytest.mark.parametrize("name", MISSPELT.values(), ids=MISSPELT)
def test_a_name_that_is_not_spelled_as_names_are_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="not spelled as a name is") as refused:
        parse_policy(policy("Another", name))
    assert refused.value.code is Code.POLICY_MALFORMED
    assert refused.value.finding.message.isascii(), "what cannot be seen is shown by its number"


@pytest.mark.parametrize(("first", "second"), ALIKE.values(), ids=ALIKE)
def test_names_that_look_like_one_do_not_count_as_two(first: str, second: str) -> None:
    assert (plain(first), plain(second)) == (first, second)
    for names in ((first, second), (second, first)):
        with pytest.raises(PolicyError, match="look like one, and would count as two"):
            parse_policy(policy(*names))


@pytest.mark.parametrize(("name", "scripts"), MIXED.values(), ids=MIXED)
def test_a_name_that_mixes_scripts_is_refused(name: str, scripts: str) -> None:
    assert plain(name) == name
    with pytest.raises(PolicyError, match=rf"mixes scripts \({scripts}\).*: spell it in one script") as refused:
        parse_policy(policy("Another", name))
    assert refused.value.code is Code.POLICY_MALFORMED
    assert refused.value.finding.message.isascii()


@pytest.mark.parametrize(("name", "found"), OUTSIDE.values(), ids=OUTSIDE)
def test_a_name_in_no_script_in_everyday_use_is_refused(name: str, found: str) -> None:
    assert plain(name) == name
    with pytest.raises(PolicyError, match=re.escape(f"has {found}, which is in none of the scripts")):
        parse_policy(policy("Another", name))


def test_names_of_keys_that_look_like_one_do_not_count_as_two() -> None:
    keys = [NoteKey(name, name, COSIGNER_TYPE).verifier_key for name in ("w.example", "W.example")]
    with pytest.raises(PolicyError, match="look like one"):
        parse_policy(("quorum = 2\n" + "".join(f'[[witness]]\nkey = "{key}"\n' for key in keys)).encode())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Example Org", "Example Other"),
        ("Op 1", "Op 2"),
        ("東京大学", "京都大学"),
        ("Ждун", "Жук"),
        ("§", "¶"),
        ("NTTデータ", "さくらインターネット々"),
        ("한국 KT", "한국 SK"),
        ("臺ㄅ", "臺ㄆ"),
        ("का", "कि"),
        ("Zürich & Co. (1)", "d\u2019Example"),
        ("Ox\u0301", "Oq\u0301"),
    ],
)
def test_different_names_are_two_operators(first: str, second: str) -> None:
    assert [witness.operator for witness in parse_policy(policy(first, second)).witnesses] == [first, second]


def test_one_operator_may_run_several_witnesses() -> None:
    with pytest.raises(PolicyError, match="a quorum of 2 cannot be asked of witnesses by 1 operators"):
        parse_policy(policy("Op", "Op"))
    check_operators(["Op", "Op", "Other", "Op"])


@given(st.text(min_size=1, max_size=20))
def test_the_one_spelling_is_taken_and_has_one_skeleton(name: str) -> None:
    spelled = plain(name)
    assert plain(spelled) == spelled
    try:
        check_operators([spelled, spelled])
    except ValueError as refused:
        assert "script" in str(refused), "a name that is spelled as names are never looks like itself"  # noqa: PT017
        assert not spelled.isascii()
    if spelled.isascii():
        assert set(skeletons(spelled)) & set(skeletons(spelled.upper()))
