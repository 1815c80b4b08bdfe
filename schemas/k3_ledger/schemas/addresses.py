"""Addresses (RFC 3986), and how they are said: never with what opens them.

The user and password in front of a host, what follows a ``?`` (presigned addresses have their signature there) and
what follows a ``#`` are written as ``***``. Findings and errors are masked as they are made
(:class:`~k3_ledger.schemas.findings.Finding`), and so are words about wrong use, wherever they came from; code that
says an address in any other way says :func:`said`. A secret in the path of an address is not told from a name.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]{0,62}"
"""No scheme is longer: else a long word costs the square of its length."""
SCHEME: Final = re.compile(rf"{_SCHEME}://")
"""How an address begins, and a path does not; capitals are as good as small letters."""
_AS_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,62}:/")
"""How an address begins that was taken for a path: a path has no two slashes in a row."""
_IN_TEXT: Final = re.compile(rf"(?:{_SCHEME}://|{_AS_PATH.pattern})[^\s\"<>]*[^\s\"<>:,.;)'\]]")
"""An address in a sentence, without what belongs to the sentence."""
_CHAINED: Final = re.compile(rf"::(?={_SCHEME}://)")
_SMALL: Final = re.compile(rf"(?:\A|(?<=::)){_SCHEME}(?=://)")
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_HOST: Final = re.compile(r"(?:.*@)?(?:\[[^\]]*\]|[^:@]+)(?::[0-9]+)?|")
_NOT_SHOWN: Final = re.compile(r"([?#]).+", re.DOTALL)
_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_INNER: Final = re.compile(r"//([^/]*)@")


def said(address: str) -> str:
    """An address as it is said: without user, password, query and fragment. What is no address is left as it is.

    Words may stand in front of it; all behind is a part of it, blanks too.
    """
    return "::".join(_said(one) for one in _CHAINED.split(address))


def masked(text: str) -> str:
    """A text with every address in it as it is said."""
    return _IN_TEXT.sub(lambda found: said(found[0]), text) if ":/" in text else text


def secrets(address: str) -> tuple[str, ...]:
    """What :func:`said` leaves out, in whole and in part, as it is spelled and as it is meant."""
    found = set()
    for one in _CHAINED.split(address):
        start, rest, at = _parts(one)
        if not rest:
            continue
        for user in (rest[:at] if at >= 0 else "", *_INNER.findall(rest)):
            found |= {user, *re.split(r"[:/?#]", user)}
        hidden = _NOT_SHOWN.search(one, start + at + 1)
        if hidden is not None:
            found |= {hidden[0][1:], *(one.partition("=")[2] or one for one in re.split("[?&#]", hidden[0]))}
    return tuple(sorted((found | {_meant(one) for one in found}) - {""}))


def told(text: str, address: str) -> str:
    """What somebody else says about an address, as far as it may be said: nothing where it holds one of its secrets."""
    return "" if any(secret in text for secret in secrets(address)) else masked(text)


def lower_scheme(address: str) -> str:
    """The address with its scheme in small letters (RFC 3986, section 3.1)."""
    return _SMALL.sub(lambda found: found[0].lower(), address)


def file_name(address: str) -> str:
    """The last part of an address's path, as it is said; empty where there is none."""
    path = _NOT_SHOWN.sub("", said(address)).partition("://")[2]
    return path.partition("/")[2].rpartition("/")[2]


def _meant(text: str) -> str:
    """A text without its percent-encoding (RFC 3986, section 2.1)."""
    raw = text.encode("utf-8", "surrogatepass")
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), raw).decode("utf-8", "replace")


def _parts(address: str) -> tuple[int, str, int]:
    """Where what follows the scheme begins, what that is, and where in it the ``@`` stands that ends a user; or -1.

    A password that is not percent-encoded as it should be may hold what ends an authority: where that is no host with
    a number for a port it is one, and goes as far as the last ``@``.
    """
    begins = SCHEME.search(address) or _AS_PATH.match(address)
    if begins is None:
        return 0, "", -1
    rest = address[begins.end() :]
    authority = _AUTHORITY.match(rest)
    assert authority is not None, "it may be empty"
    whole = authority[0] if _HOST.fullmatch(authority[0]) else rest
    return begins.end(), rest, whole.rfind("@")


def _said(address: str) -> str:
    start, rest, at = _parts(address)
    if not rest:
        return address
    user = f"{HIDDEN}@" if at >= 0 else ""
    shown = _NOT_SHOWN.sub(rf"\1{HIDDEN}", rest[at + 1 :])
    return address[:start] + user + _INNER.sub(f"//{HIDDEN}@", shown)
