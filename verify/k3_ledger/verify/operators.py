"""Names of the operators of witnesses: a quorum counts operators, so one must not pass for two.

A name has one spelling: it is in Unicode's normal form NFKC, prints, and has single spaces inside and none around. Two
names that a reader takes for one are refused: names that differ in nothing but case, and names that differ in letters
which look alike in the Latin, Greek and Cyrillic alphabets. That "Example" and "Example Org" are one operator only the
reader can know.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOTHING: Final[dict[int, int]] = {}
_CAPITALS: Final = str.maketrans("АВЕЅІЈКМНОРСТУХԌԚԜӀΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABESIJKMHOPCTYXGQWIABEZHIKMNOPTYX")
_SMALL: Final = str.maketrans("аеорсухіјѕԁһԛԝӏкмтвнгαορνυικτχεηγμıȷɡ", "aeopcyxijsdhqwlkmtbhraopvuiktxenymijg")
"""Cyrillic, Greek and other letters, and the Latin letter that each looks like."""


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
        for bones in skeletons(name):
            known = seen.setdefault(bones, name)
            if known != name:
                raise ValueError(
                    f"operators {ascii(known)[:80]} and {ascii(name)[:80]} look like one, and would count as two: "
                    "spell them alike, or name them so that they differ"
                )


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
        bare = unicodedata.normalize("NFD", folded.translate(small))
        letters = "".join(char for char in bare if char.isalnum())
        yield letters or folded


def _is_unseen(char: str) -> bool:
    """Whether a character shows nothing: joiners, marks of direction, variation selectors, fillers."""
    return (
        unicodedata.category(char) == "Cf"
        or char in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
        or (0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF or 0x180B <= ord(char) <= 0x180F)
    )
