"""Names of the operators of witnesses: a quorum counts operators, so one must not pass for two.

A name has one spelling: it is in Unicode's normal form NFKC, prints, and has single spaces inside and none around. It
is written in one script, as UTS #39 calls "highly restrictive": one of those in everyday use (UAX #31, table 5), where
Japanese, Korean and Bopomofo bring Han and Latin along; digits of ASCII and punctuation go with any. Two names that a
reader takes for one are refused: names that differ in nothing but case, accents, punctuation or the system of digits,
and names of different scripts, or of Latin alone, whose letters look alike. That "Example" and "Example Org" are one
operator only the reader can know.

The script of a letter is the first word of its name in Unicode, which is all that :mod:`unicodedata` says of it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOTHING: Final[dict[int, int]] = {}
_CAPITALS: Final = str.maketrans("АВЕЅІЈКМНОРСТУХԌԚԜӀΑΒΕΖΗΙΚΜΝΟΡΤΥΧՍՏԼՕ", "ABESIJKMHOPCTYXGQWIABEZHIKMNOPTYXUSLO")
_SMALL: Final = str.maketrans(
    "аеорсухіјѕԁһԛԝӏкмтвнгαορνυικτχεηγμıȷɡհոսցզօլ",
    "aeopcyxijsdhqwlkmtbhraopvuiktxenymijghnugqol",
)
"""Cyrillic, Greek, Armenian and other letters, and the Latin letter that each looks like."""
_WITHIN: Final = str.maketrans("ロエカニタトハヘ一丨〇یىکہھ", "口工力二夕卜八へーlOييك\u0647\u0647")
"""Letters that look alike within Japanese, within Arabic, or across Han and Latin."""
_STROKES: Final = str.maketrans("I1|\u01c00", "llllO")
"""What looks like `l` or `O` in Latin."""
_SCRIPTS: Final = re.compile(
    "ARABIC|ARMENIAN|BENGALI|BOPOMOFO|CJK|CYRILLIC|DEVANAGARI|ETHIOPIC|GEORGIAN|GREEK|GUJARATI|GURMUKHI|HANGUL|HEBREW|"
    "HIRAGANA|KANNADA|KATAKANA|KHMER|LAO|LATIN|MALAYALAM|MYANMAR|ORIYA|SINHALA|TAMIL|TELUGU|THAANA|THAI|TIBETAN"
)
_TOGETHER: Final = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
)
"""Scripts that one name is written in."""
_OTHER_WORDS: Final = {"EXTENDED": "ARABIC", "IDEOGRAPHIC": "CJK"}
_OVERLOOKED: Final = frozenset({"COMBINING", "ARABIC", "HEBREW"})
"""Whose marks a reader overlooks; those of other scripts are vowels."""


def check_operators(names: Iterable[str]) -> None:
    """Check the operators of a policy's witnesses; the same name may stand there several times.

    Raises:
        ValueError: a name is not spelled as names are, or two look like one.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name != plain(name):
            raise ValueError(
                f"operator {ascii(name)[:80]} is not spelled as a name is: printing characters in Unicode's form NFKC, "
                f"single spaces and none at an end, such as {ascii(plain(name))[:80]}"
            )
        _check_script(name)
        for bones in skeletons(name):
            known = seen.setdefault(bones, name)
            if known != name:
                raise ValueError(
                    f"operators {ascii(known)[:80]} and {ascii(name)[:80]} look like one, and would count as two: "
                    "spell them alike, or name them so that they differ"
                )


def _check_script(name: str) -> None:
    """Check that a plain name is written in one script.

    Raises:
        ValueError: it mixes scripts, or has a letter or symbol of none in everyday use.
    """
    scripts: set[str] = set()
    for char in name:
        if char.isascii() and not char.isalpha():
            continue
        kind, word = unicodedata.category(char)[0], _script(char)
        known = _SCRIPTS.fullmatch(word) is not None
        if kind == "S" or (kind in "LMN" and not known and (kind, word) != ("M", "COMBINING")):
            raise ValueError(
                f"operator {ascii(name)[:80]} has U+{ord(char):04X}, which is in none of the scripts that names are "
                "written in today: spell it in letters and digits of one of them"
            )
        if known and kind in "LMN":
            scripts.add(word)
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        mixed = " and ".join(sorted(script.capitalize() for script in scripts))
        raise ValueError(
            f"operator {ascii(name)[:80]} mixes scripts ({mixed}), so that letters of one may pass for another's: "
            "spell it in one script"
        )


def _script(char: str) -> str:
    word = re.split("[ -]", unicodedata.name(char, ""), maxsplit=1)[0]
    return _OTHER_WORDS.get(word, word)


def plain(name: str) -> str:
    """The one spelling of a name."""
    normal = unicodedata.normalize("NFKC", name)
    seen = (" " if char.isspace() else char for char in normal if char.isspace() or char.isprintable())
    kept = "".join(char for char in seen if not _is_unseen(char))
    return unicodedata.normalize("NFKC", " ".join(kept.split()))


def skeletons(name: str) -> Iterator[str]:
    """What is left of a plain name when nothing counts that a reader overlooks: names that share one look like one."""
    for capitals, small in ((_NOTHING, _NOTHING), (_CAPITALS, _NOTHING), (_NOTHING, _SMALL)):
        folded = unicodedata.normalize("NFKC", name.translate(capitals).casefold())
        yield _letters(folded.translate(small)) or folded
    yield _letters(_as_seen(name).casefold()) or name


def _as_seen(name: str) -> str:
    """A name in the letters, capital and small, that it seems to be written in."""
    latin = name.translate(_CAPITALS).translate(_SMALL).translate(_WITHIN).translate(_STROKES)
    return latin.replace("rn", "m").replace("vv", "w")


def _letters(name: str) -> str:
    bare = unicodedata.normalize("NFD", name)
    return "".join(
        str(unicodedata.decimal(char, char))
        for char in bare
        if char.isalnum() or (unicodedata.category(char)[0] == "M" and _script(char) not in _OVERLOOKED)
    )


def _is_unseen(char: str) -> bool:
    """Whether a character shows nothing: joiners, marks of direction, variation selectors, fillers."""
    return (
        unicodedata.category(char) == "Cf"
        or char in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
        or (0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF or 0x180B <= ord(char) <= 0x180F)
    )
