"""Replaces folders of this machine in what a bundle keeps, so that a bundle can be published as it is.

A place that has a meaning gets its name: ``{model}``, ``{folder}`` (the engine's working folder), ``{source}`` (the
tree that this project runs from), ``{python}`` and ``{cwd}``. Any other absolute path becomes ``{path:…}`` with the
first 16 digits of the SHA-256 of it: two runs can be seen to have had the same one, and who guesses it can confirm
the guess. Paths that every Linux machine has (``/usr``, ``/proc`` …) stay.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import k3_ledger.engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SYSTEM: Final = r"/(?:usr|bin|sbin|lib|lib32|lib64|etc|proc|sys|dev)(?![\w.-])"
_ABSOLUTE: Final = re.compile(
    r"(?:(?<![\w.}/\\~-])|(?<=(?i:file)://)|(?<=-[ILB])|(?<=\\[nrt]))"  # where a path can begin
    rf"(?!{_SYSTEM})/(?![/\s])[^\s:;,'\"()\[\]{{}}<>|`\\]+"
)
_WHOLE: Final = re.compile(rf"(?:^|(?<=[:=]))(?!{_SYSTEM})/(?![/\s])[^:=\n]+")
"""A path that is a word, a value or a part of a search path: it may hold spaces."""
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class Places:
    """Names for folders and files.

    Args:
        named: paths by name, beside those that every process of this project has. The longest match is replaced.
    """

    def __init__(self, named: Mapping[str, Path] | None = None) -> None:
        self._named = dict(named or {})
        root = Path(k3_ledger.engine.__file__ or "").parents[2]
        known = {
            "cwd": Path.cwd(),
            "python": Path(sys.prefix),
            "source": root.parent if root.name == "engine" else root,
            **self._named,
        }
        self._names: dict[str, str] = {}
        for name, path in known.items():
            for form in (str(path.absolute()), str(path.resolve())):
                if form != "/" and not re.fullmatch(rf"{_SYSTEM}(?:/bin|/local|/lib)?", form):
                    self._names[form] = name
        listed = "|".join(re.escape(form) for form in sorted(self._names, key=len, reverse=True))
        self._known = re.compile(rf"(?:{listed})(?![\w-])" if listed else r"(?!)")

    def also(self, name: str, path: Path) -> Places:
        """These places and one more."""
        return Places({**self._named, name: path})

    def text(self, text: str) -> str:
        """``text`` without a path of this machine."""
        text = self._known.sub(self._name, text)
        return _ABSOLUTE.sub(_digest, text)

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Every word of a command line, or value of a variable."""
        return tuple(self.text(_WHOLE.sub(_digest, self._known.sub(self._name, word))) for word in words)

    def lines(self, data: bytes) -> bytes:
        """What a program wrote; bytes that are not UTF-8 stay as they are."""
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def json(self, data: bytes) -> bytes:
        """A JSON text with the same bytes but for the strings that hold a path, however these are escaped."""

        def string(found: re.Match[str]) -> str:
            value = json.loads(found[0], strict=False)
            (clean,) = self.words([value])
            return found[0] if clean == value else json.dumps(clean)

        return _STRING.sub(string, data.decode()).encode()

    def _name(self, found: re.Match[str]) -> str:
        return f"{{{self._names[found[0]]}}}"


def _digest(found: re.Match[str]) -> str:
    return f"{{path:{hashlib.sha256(found[0].encode(errors='surrogateescape')).hexdigest()[:16]}}}"
