"""The same said in other words: addresses of one repository, names of one architecture, spellings of one day.

Each function reads a text as what it names, or as nothing. What is read as nothing is never held to be something else.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

ARCHITECTURES: Final = {
    "volta": {"70", "72"},
    "turing": {"75"},
    "ampere": {"80", "86", "87"},
    "ada": {"89"},
    "ada lovelace": {"89"},
    "hopper": {"90"},
    "blackwell": {"100", "101", "103", "110", "120", "121"},
    "v100": {"70"},
    "t4": {"75"},
    "a100": {"80"},
    "l4": {"89"},
    "l40s": {"89"},
    "rtx 4090": {"89"},
    "h100": {"90"},
    "h200": {"90"},
    "b200": {"100"},
    "b300": {"103"},
    "rtx 5090": {"120"},
}
"""Compute capabilities, without the point, of what an architecture or an accelerator is called."""
MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
"""Months, of which three letters or more stand for one."""

SITES: Final = {
    "github:": "github.com/",
    "gitlab:": "gitlab.com/",
    "https://api.github.com/repos/": "github.com/",
}
"""Beginnings that stand for a host."""
UNREAD: Final = frozenset({"api.github.com", "raw.githubusercontent.com", "codeload.github.com", "ssh.github.com"})
"""Hosts that serve repositories of another one, in addresses that are not read."""

_ADDRESS = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@\s]+@)?|[\w-]+@|(?=[\w-]+\.))(?P<host>[\w.-]+)(?::[0-9]{1,5}(?=/))?(?::/|[:/])"
    r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)"
)
_PAGE = re.compile(
    r"(?P<of>.*?[^/]/[^/]+)/(?:-|tree|blob|raw|src|commits?|pulls?|issues|releases|tags|branches|actions|wiki)(?:/.*)?"
)
_NAME = re.compile(r"(?P<host>)(?P<path>[\w.~-]+/[\w.~-]+)")
_CAPABILITY = re.compile(r"(?:(?:sm|compute)[_ -]?)?([0-9]{2,3})[af]?|([0-9]{1,2})\.([0-9])")
_MAKER = re.compile(r"(?:nvidia )?(?:geforce )?")
_CLOCK = r"(?:\s+[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)?"
_MONTH_FIRST = re.compile(
    rf"(?:[a-z]{{3,9}},?\s+)?(?P<month>[a-z]{{3,9}})\.?\s+(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?{_CLOCK}"
    r",?\s+(?P<year>[0-9]{4})(?:[\s,].*)?"
)
_DAY_FIRST = re.compile(
    r"(?:[a-z]{3,9},?\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th|\.)?[\s-]+(?P<month>[a-z]{3,9})\.?"
    r",?[\s-]+(?P<year>[0-9]{4})(?:[\s,].*)?"
)
_FIGURES = re.compile(r"(?P<year>[0-9]{4})([-/.]?)(?P<month>[0-9]{2})\2(?P<day>[0-9]{2})(?:[t\s].*)?")


class Repository(NamedTuple):
    """A repository: where it is kept, empty where that is not said, and its owner and name there."""

    host: str
    path: str

    def may_be(self, other: Repository) -> bool:
        """Whether both can be one repository: hosts are held against one another where both name one."""
        return self.path == other.path and (self.host == other.host or not (self.host and other.host))


def repository_of(text: str) -> Repository | None:
    """The repository that a name (``owner/name``) or an address is of; case says nothing in either."""
    plain = re.split(r"[?#]", text.strip().casefold(), maxsplit=1)[0].removeprefix("git+")
    for prefix, site in SITES.items():
        plain = site + plain.removeprefix(prefix) if plain.startswith(prefix) else plain
    page = _PAGE.fullmatch(plain)
    plain = (plain if page is None else page["of"]).rstrip("/").removesuffix(".git")
    match = _ADDRESS.fullmatch(plain) or _NAME.fullmatch(plain)
    if match is None or match["host"] in UNREAD:
        return None
    return Repository(match["host"].removeprefix("www."), match["path"])


def architectures_of(text: str) -> set[str] | None:
    """Compute capabilities that the name of an architecture or an accelerator stands for."""
    name = " ".join(text.casefold().split())
    match = _CAPABILITY.fullmatch(name)
    if match is not None:
        return {match[1] or match[2] + match[3]}
    return ARCHITECTURES.get(_MAKER.sub("", name, count=1))


def day_of(text: str) -> str | None:
    """The day that a text names, as YYYY-MM-DD; a time of day behind it says nothing here."""
    plain = text.strip().casefold()
    match = _FIGURES.fullmatch(plain) or _MONTH_FIRST.fullmatch(plain) or _DAY_FIRST.fullmatch(plain)
    if match is None:
        return None
    month = match["month"]
    number = int(month) if month.isdigit() else _month(month)
    try:
        return f"{date(int(match['year']), number, int(match['day']))}"
    except ValueError:
        return None


def _month(name: str) -> int:
    """Number of a month, from one; none is zero."""
    return next((number for number, month in enumerate(MONTHS, start=1) if month.startswith(name)), 0)
