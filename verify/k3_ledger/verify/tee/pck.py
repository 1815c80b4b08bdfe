"""What a PCK certificate says about its platform: Intel's SGX extension, read with a strict DER reader.

The extension (OID 1.2.840.113741.1.13.1) is a list of pairs of an object identifier and a value; the list of the TCB
and the list of the configuration are values of that form again. See Intel's "SGX PCK Certificate and Certificate
Revocation List Profile Specification", section 1.3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from k3_ledger.schemas.errors import AttestationError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Iterator

SGX_EXTENSION: Final = "1.2.840.113741.1.13.1"
_BOOLEAN, _INTEGER, _OCTETS, _IDENTIFIER, _SEQUENCE = 0x01, 0x02, 0x04, 0x06, 0x30


class Item(NamedTuple):
    """One DER element: its tag and its contents."""

    tag: int
    contents: bytes


@dataclass(frozen=True, slots=True)
class Platform:
    """What a PCK certificate vouches for.

    Attributes:
        fmspc: family, model, stepping, platform type and SKU: which TCB info is about it.
        pce_id: the provisioning certification enclave's id.
        components: the 16 security version numbers of the platform's parts.
        pce_svn: security version number of the provisioning certification enclave.
        dynamic: packages can be added to it; None where the certificate does not say, as a single-package one does not.
        cached_keys: keys are cached by the registration server; None likewise.
        smt: simultaneous multithreading is on; None likewise.
    """

    fmspc: bytes
    pce_id: bytes
    components: tuple[int, ...]
    pce_svn: int
    dynamic: bool | None
    cached_keys: bool | None
    smt: bool | None


def parse_platform(extension: bytes) -> Platform:
    """Read the contents of the SGX extension.

    Raises:
        AttestationError: with ``K3L-QUOTE-CHAIN``.
    """
    values = _pairs(extension)
    tcb = _pairs(_take(values, "2", _SEQUENCE), whole=False)
    flags = _pairs(values["7"].contents, whole=False) if "7" in values else {}
    return Platform(
        fmspc=_take(values, "4", _OCTETS, 6),
        pce_id=_take(values, "3", _OCTETS, 2),
        components=tuple(_number(tcb, f"2.{number}") for number in range(1, 17)),
        pce_svn=_number(tcb, "2.17"),
        dynamic=_flag(flags, "7.1"),
        cached_keys=_flag(flags, "7.2"),
        smt=_flag(flags, "7.3"),
    )


def _pairs(data: bytes, *, whole: bool = True) -> dict[str, Item]:
    """Values by the last arcs of their identifiers. ``whole``: the list is one sequence, not its contents."""
    if whole:
        items = list(_read(data))
        if len(items) != 1 or items[0].tag != _SEQUENCE:
            raise _wrong("not one sequence")
        data = items[0].contents
    found: dict[str, Item] = {}
    for item in _read(data):
        pair = list(_read(item.contents))
        if item.tag != _SEQUENCE or len(pair) != 2 or pair[0].tag != _IDENTIFIER:
            raise _wrong("not a list of pairs")
        name = _identifier(pair[0].contents)
        short = name.removeprefix(f"{SGX_EXTENSION}.")
        if short in (name, *found):
            raise _wrong(f"{name} has no place there, or stands twice")
        found[short] = pair[1]
    return found


def _read(data: bytes) -> Iterator[Item]:
    """DER elements, one after the other."""
    at = 0
    while at < len(data):
        length, start = data[at + 1] if at + 1 < len(data) else len(data), at + 2
        if length & 0x80:
            count = length & 0x7F
            length, start = int.from_bytes(data[start : start + count], "big"), start + count
            if length < 0x80 or length.bit_length() <= 8 * (count - 1):
                raise _wrong(f"a length is not as short as it can be, byte {at}")
        if start + length > len(data):
            raise _wrong(f"an element passes the end, byte {at}")
        yield Item(data[at], data[start : start + length])
        at = start + length


def _identifier(contents: bytes) -> str:
    arcs, value = [], 0
    for byte in contents:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = arcs[:1] or [0]
    return ".".join(map(str, (*divmod(first[0], 40), *arcs[1:])))


def _take(values: dict[str, Item], name: str, tag: int, size: int | None = None) -> bytes:
    item = values.get(name)
    if item is None or item.tag != tag or (size is not None and len(item.contents) != size):
        raise _wrong(f"{name} is not there, or not of its type and length")
    return item.contents


def _number(values: dict[str, Item], name: str) -> int:
    number = int.from_bytes(_take(values, name, _INTEGER), "big", signed=True)
    if not 0 <= number <= 0xFFFF:
        raise _wrong(f"{name} is out of range")
    return number


def _flag(values: dict[str, Item], name: str) -> bool | None:
    return _take(values, name, _BOOLEAN, 1) != b"\0" if name in values else None


def _wrong(message: str) -> AttestationError:
    return AttestationError(Code.QUOTE_CHAIN, f"the PCK certificate's SGX extension: {message}")
