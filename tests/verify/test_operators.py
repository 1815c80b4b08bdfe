"""One operator must not count as two in a quorum, however the name is spelled the second time."""

from __future__ import annotations

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
    "cyrillic o": ("Op", "\u041ep"),
    "cyrillic all": ("Cope", "\u0421\u043e\u0440\u0435"),
    "greek o": ("Op", "\u039fp"),
    "greek capital": ("BEHA", "\u0392\u0395\u0397\u0391"),
    "accent": ("Zurich", "Z\u00fcrich"),
    "hyphen": ("Ex-Org", "Ex\u2010Org"),
    "punctuation": ("Example, Inc", "Example Inc."),
    "apostrophe": ("Op's", "Op\u2019s"),
    "dotless i": ("Wit", "W\u0131t"),
}
"""Pairs that are spelled as names are, and look like one."""


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


def test_names_of_keys_that_look_like_one_do_not_count_as_two() -> None:
    keys = [NoteKey(name, name, COSIGNER_TYPE).verifier_key for name in ("w.example", "W.example")]
    with pytest.raises(PolicyError, match="look like one"):
        parse_policy(("quorum = 2\n" + "".join(f'[[witness]]\nkey = "{key}"\n' for key in keys)).encode())


@pytest.mark.parametrize(
    ("first", "second"),
    [("Example Org", "Example Other"), ("Op 1", "Op 2"), ("東京大学", "京都大学"), ("Ждун", "Жук"), ("§", "¶")],
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
    if spelled:
        check_operators([spelled, spelled])
    if spelled.isascii():
        assert set(skeletons(spelled)) & set(skeletons(spelled.upper()))
