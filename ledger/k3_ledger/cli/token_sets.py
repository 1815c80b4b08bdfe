"""Puts the certificates of a timestamp token into the order that DER asks for, in a copy that is only for parsing; and
finds which certificate the signed part of a token names, and of what it says that it is the signature.

A token's certificates and revocation lists are sets, and DER (X.690, section 11.6) orders the members of a set. OpenSSL
writes them in whatever order it has them, and a strict parser refuses that. No signature covers the sets (RFC 5652,
section 5.4: only the content and the signed attributes are digested), so their order says nothing, and another order is
the same token. Not a byte of anything else moves.
"""

from __future__ import annotations

from hashlib import sha1, sha256, sha384, sha512
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_SEQUENCE: Final = 0x30
_CERTIFICATES, _LISTS = 0xA0, 0xA1
"""Tags of the two sets in a SignedData."""
_SIGNING_CERTIFICATE: Final = bytes.fromhex("2a864886f70d010910020c")
_SIGNING_CERTIFICATE_V2: Final = bytes.fromhex("2a864886f70d010910022f")
"""Attributes that name the signer's certificate: RFC 2634, section 5.4, and RFC 5035, section 3."""
_CONTENT_TYPE: Final = bytes.fromhex("2a864886f70d010903")
_OF_A_TIMESTAMP: Final = bytes.fromhex("060b2a864886f70d0109100104")
"""The attribute that says what is signed (RFC 5652, section 11.1), and its value here: an identifier, whole."""
_DIGESTS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    bytes.fromhex("608648016503040201"): lambda data: sha256(data).digest(),
    bytes.fromhex("608648016503040202"): lambda data: sha384(data).digest(),
    bytes.fromhex("608648016503040203"): lambda data: sha512(data).digest(),
}
_SHA256: Final = next(iter(_DIGESTS))


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


def with_certificates(data: bytes, kept: Collection[bytes]) -> bytes:
    """The same token with these of its certificates alone. Nobody signs which ones it carries.

    Raises:
        ValueError: it is no token.
    """
    (response,) = _elements(data, 0, len(data))
    status, token = _elements(data, *_inside(response, _SEQUENCE))
    kind, _ = _elements(data, *_inside(token, _SEQUENCE))
    members = []
    for element in _signed_data(data):
        whole = data[element.head : element.end]
        if element.tag == _CERTIFICATES:
            carried = (data[one.head : one.end] for one in _elements(data, element.start, element.end))
            whole = _wrapped(_CERTIFICATES, b"".join(one for one in carried if one in kept))
        members.append(whole)
    signed = _wrapped(0xA0, _wrapped(_SEQUENCE, b"".join(members)))
    inner = _wrapped(_SEQUENCE, data[kind.head : kind.end] + signed)
    return _wrapped(_SEQUENCE, data[status.head : status.end] + inner)


def names_certificate(data: bytes, certificate: bytes) -> bool:
    """Whether the signed part of a token names this certificate as its signer's, in each attribute that names one.

    The first identifier of an attribute is the signer's; further ones narrow the chain, which is judged whole anyhow.

    Raises:
        ValueError: it names none, or in a way that cannot be read.
    """
    found = []
    for name, values in _signed_attributes(data):
        if name in (_SIGNING_CERTIFICATE, _SIGNING_CERTIFICATE_V2):
            (value,) = values
            identifiers = _first(data, *_inside(value, _SEQUENCE))
            first = _first(data, *_inside(identifiers, _SEQUENCE))
            found.append(_is_named(data, first, name, certificate))
    if not found:
        raise ValueError("it does not say which certificate is its signer's")
    return all(found)


def check_content(data: bytes) -> None:
    """The signed part of a token says, once, that it signs a timestamp: RFC 5652, section 5.3, demands it.

    Without it the same bytes could have been signed as content of another kind.

    Raises:
        ValueError: it does not, or cannot be read.
    """
    said = [values for name, values in _signed_attributes(data) if name == _CONTENT_TYPE]
    if [[data[one.head : one.end] for one in values] for values in said] != [[_OF_A_TIMESTAMP]]:
        raise ValueError("its signed part does not say that it is one of a timestamp")


def _signed_attributes(data: bytes) -> Iterator[tuple[bytes, list[_Element]]]:
    """Names and values of what the one signer of a token signed beside its content."""
    signers = list(_elements(data, *_inside(_signed_data(data)[-1], 0x31)))
    if len(signers) != 1:
        raise ValueError(f"it has {len(signers)} signers, not one")
    signed = (one for one in _elements(data, *_inside(signers[0], _SEQUENCE)) if one.tag == 0xA0)
    for attribute in (one for attributes in signed for one in _elements(data, attributes.start, attributes.end)):
        kind, values = _elements(data, *_inside(attribute, _SEQUENCE))
        yield data[kind.start : kind.end], list(_elements(data, *_inside(values, 0x31)))


def _is_named(data: bytes, identifier: _Element, kind: bytes, certificate: bytes) -> bool:
    """Whether an ESSCertID is a certificate's. Of version 2 its digest is SHA-256 unless it says otherwise."""
    at, end = _inside(identifier, _SEQUENCE)
    digest = _first(data, at, end)
    if kind == _SIGNING_CERTIFICATE:
        return data[digest.start : digest.end] == sha1(certificate, usedforsecurity=False).digest()
    algorithm = _SHA256
    if digest.tag == _SEQUENCE:
        name = _first(data, digest.start, digest.end)
        algorithm, digest = data[name.start : name.end], _first(data, digest.end, end)
    if algorithm not in _DIGESTS:
        raise ValueError("it names its signer's certificate by a digest of another kind than SHA-2")
    return data[digest.start : digest.end] == _DIGESTS[algorithm](certificate)


def _first(data: bytes, at: int, end: int) -> _Element:
    """The first element of a span.

    Raises:
        ValueError: there is none.
    """
    for element in _elements(data, at, end):
        return element
    raise ValueError("an element is missing")


def _wrapped(tag: int, body: bytes) -> bytes:
    if len(body) < 0x80:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


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
