"""Puts the certificates of a timestamp token into the order that DER asks for, in a copy that is only for parsing.

A token's certificates and revocation lists are sets, and DER (X.690, section 11.6) orders the members of a set. OpenSSL
writes them in whatever order it has them, and a strict parser refuses that. No signature covers the sets (RFC 5652,
section 5.4: only the content and the signed attributes are digested), so their order says nothing, and another order is
the same token. Not a byte of anything else moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEQUENCE: Final = 0x30
_CERTIFICATES, _LISTS = 0xA0, 0xA1
"""Tags of the two sets in a SignedData."""


class _Element(NamedTuple):
    """Where one DER element stands: its tag, and the offsets of its head, contents and end."""

    tag: int
    head: int
    start: int
    end: int


def with_sorted_sets(data: bytes) -> bytes:
    """The same token with sorted sets; what is not of a token's shape comes back as it is, for a parser to judge."""
    try:
        signed = _signed_data(data)
        for element in signed:
            if element.tag in (_CERTIFICATES, _LISTS):
                members = [data[member.head : member.end] for member in _elements(data, element.start, element.end)]
                data = data[: element.start] + b"".join(sorted(members)) + data[element.end :]
    except ValueError:
        pass
    return data


def _signed_data(data: bytes) -> list[_Element]:
    """Members of the SignedData in a TimeStampResp.

    Raises:
        ValueError: it is none.
    """
    (response,) = _elements(data, 0, len(data))
    _, token = _elements(data, *_inside(response, _SEQUENCE))
    _, content = _elements(data, *_inside(token, _SEQUENCE))
    (signed,) = _elements(data, *_inside(content, 0xA0))
    return list(_elements(data, *_inside(signed, _SEQUENCE)))


def _inside(element: _Element, tag: int) -> tuple[int, int]:
    if element.tag != tag:
        raise ValueError(f"not an element with tag {tag:#x}")
    return element.start, element.end


def _elements(data: bytes, at: int, end: int) -> Iterator[_Element]:
    """Elements with tags of one byte and definite lengths that fill a span exactly.

    Raises:
        ValueError: they do not.
    """
    while at < end:
        head = data[at : min(at + 2, end)]
        if len(head) < 2 or head[0] & 0x1F == 0x1F:
            raise ValueError("not an element")
        length, start = head[1], at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 0 < count <= 4 or start + count > end:
                raise ValueError("not a definite length")
            length, start = int.from_bytes(data[start : start + count], "big"), start + count
        if start + length > end:
            raise ValueError("an element passes the end")
        yield _Element(head[0], at, start, start + length)
        at = start + length
