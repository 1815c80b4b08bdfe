"""A tar reader for measurement bundles, and for nothing else.

Rules, checked header by header before any content is looked at:

1. Headers carry a right checksum, and everything they announce is inside the file.
2. Members are regular files and directories: no links, devices, pipes or sparse files.
3. Names are ASCII, relative, without ``..``, empty or hidden parts, and none stands twice.
4. Extended (pax) headers are skipped when small and when they change neither name nor size; GNU long names are
   refused. What a member is called and how long it is, is what its plain header says.
5. There are at most :data:`MAX_MEMBERS` members.
6. What fills the last block of a content is zeros. After the last member stand two blocks of zeros or more, and nothing
   but zeros up to the end: a tar that was cut short is not taken for a whole one, and nothing rides along behind it or
   between its members that another reader (`tar --ignore-zeros`) would take for part of it. GNU tar, bsdtar and
   Python write no other.

The general-purpose reader of the standard library obeys whatever a header asks for, in memory and in time; a bundle
comes from a machine that nobody trusts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from k3_ledger.schemas.errors import BundleError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from typing import BinaryIO

HEADER = 512
"""Bytes of a header, and the unit that contents are padded to."""
MAX_MEMBERS = 20_000
"""Files and directories in one bundle."""
MAX_PAX = 65_536
"""Bytes of one extended header."""
MAX_END = 1 << 24
"""Zeros behind the last member. Writers fill records of 10 KiB with them, or of what `--blocking-factor` says."""

PLAIN_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@-]*")
_OCTAL = re.compile(rb" *([0-7]{1,12})[ \0]*")
_PAX_RECORD = re.compile(rb"([0-9]{1,6}) ([^=\n]{1,200})=")
_PAX_FORBIDDEN = (b"path", b"linkpath", b"size", b"GNU.")
_WHY_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"7": "a contiguous file",
    b"L": "a GNU long name",
    b"K": "a GNU long link name",
    b"S": "a sparse file",
    b"g": "a global extended header",
}


class Member(NamedTuple):
    """A regular file inside a tar.

    Attributes:
        name: its path, parts joined by ``/``.
        offset: where its content begins in the tar file.
        size: its length in bytes.
    """

    name: str
    offset: int
    size: int


def list_members(file: BinaryIO, length: int, source: str, *, part: re.Pattern[str] = PLAIN_PART) -> dict[str, Member]:
    """Regular files of a tar, by name.

    Args:
        file: the tar, seekable.
        length: its length in bytes.
        source: what to call it in errors.
        part: what each part of a name looks like; ``.`` and ``..`` are refused whatever it says.

    Raises:
        BundleError: the tar breaks a rule of this module; the position is the header's.
    """
    members: dict[str, Member] = {}
    names: set[str] = set()
    offset = 0
    while True:
        place = Position(source=source, byte_offset=offset)
        file.seek(offset)
        header = file.read(HEADER)
        if not header.strip(b"\0"):
            _check_end(file, offset, length, source)
            return members
        kind, size = _check_header(header, length - offset, place)
        content = offset + HEADER
        offset = content + -(-size // HEADER) * HEADER
        _check_filling(file, content + size, offset, source)
        if kind == b"x":
            file.seek(content)
            _check_pax(file.read(size), place)
            continue
        name = _name(header, place, part)
        if name in names:
            raise _refused(place, f"{name} stands twice in the tar")
        names.add(name)
        if len(names) > MAX_MEMBERS:
            raise _refused(place, "the tar has too many members", expected=f"at most {MAX_MEMBERS:,}")
        if kind != b"5":
            members[name] = Member(name, content, size)


def _check_filling(file: BinaryIO, start: int, end: int, source: str) -> None:
    """Check that a content's last block is filled with zeros."""
    file.seek(start)
    filling = file.read(end - start)
    if filling.strip(b"\0"):
        place = Position(source=source, byte_offset=start + len(filling) - len(filling.lstrip(b"\0")))
        raise _refused(
            place,
            "there are bytes behind a member's content that belong to nothing",
            expected="zeros up to a full block",
        )


def _check_end(file: BinaryIO, start: int, length: int, source: str) -> None:
    """Check that nothing but zeros follows, two blocks of them at least, in whole blocks."""
    if length - start > MAX_END:
        raise _refused(
            Position(source=source, byte_offset=start),
            "the tar has more zeros behind its last member than a tar ends with",
            expected=f"at most {MAX_END:,} bytes",
            found=f"{length - start:,} bytes",
        )
    file.seek(start)
    rest = file.read(max(length - start, 0))  # a last block that is cut off ends behind the file
    if rest.strip(b"\0"):
        raise _refused(
            Position(source=source, byte_offset=start + len(rest) - len(rest.lstrip(b"\0"))),
            "there are bytes behind the blocks of zeros that end the tar",
            expected="nothing but zeros",
            hint="tars that were joined, or carry something along, are not read: make one tar of the directory",
        )
    if len(rest) < 2 * HEADER or len(rest) % HEADER:
        raise _refused(
            Position(source=source, byte_offset=start),
            "the tar ends without the two blocks of zeros that end a tar: it was cut short",
            found=f"{len(rest)} bytes",
            hint="copy it again",
        )


def _check_header(header: bytes, left: int, place: Position) -> tuple[bytes, int]:
    """Type and size of a member, once its header is sound."""
    claimed = _octal(header[148:156])
    if claimed is None or claimed != sum(header) - sum(header[148:156]) + 8 * 0x20:
        raise _refused(
            place, "this is not a tar header", hint="give an uncompressed tar of the bundle, or its directory"
        )
    kind = header[156:157].replace(b"\0", b"0")
    if kind not in (b"0", b"5", b"x"):
        what = _WHY_REFUSED.get(kind, f"a member of type {kind!r}")
        raise _refused(
            place, f"the tar holds {what}", expected="regular files and directories",
            hint="make it with `tar --format=ustar --sort=name -cf bundle.tar -C BUNDLE .`",
        )  # fmt: skip
    size = _octal(header[124:136])
    if size is None or (kind == b"5" and size) or (kind == b"x" and size > MAX_PAX):
        raise _refused(place, "a member's size is not one that a bundle can have", found=repr(header[124:136])[2:-1])
    if HEADER + size > left:
        raise _refused(
            place,
            "a member is longer than the tar",
            expected=f"at most {left - HEADER:,} bytes",
            found=f"{size:,} bytes",
        )
    return kind, size


def _octal(field: bytes) -> int | None:
    match = _OCTAL.fullmatch(field)
    return None if match is None else int(match[1], 8)


def _check_pax(data: bytes, place: Position) -> None:
    at = 0
    while at < len(data):
        record = _PAX_RECORD.match(data, at)
        if (
            record is None
            or int(record[1]) <= len(record[0])
            or data[at + int(record[1]) - 1 : at + int(record[1])] != b"\n"
        ):
            raise _refused(place, "an extended header does not parse")
        if record[2].startswith(_PAX_FORBIDDEN):
            raise _refused(place, f"an extended header changes {record[2].decode(errors='replace')!r} of a member")
        at += int(record[1])


def _name(header: bytes, place: Position, part: re.Pattern[str]) -> str:
    name = header[:100].partition(b"\0")[0]
    # Only the POSIX form has a prefix; GNU keeps times there.
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    path = (prefix + b"/" + name if prefix else name).decode("ascii", errors="backslashreplace")
    parts = path.removesuffix("/").split("/")
    if parts[0] == "." and len(parts) > 1:
        del parts[0]
    plain = all(part.fullmatch(text) and text not in (".", "..") for text in parts)
    if parts != ["."] and not plain:
        raise _refused(
            place, "a name in the tar is absolute, climbs, or is not plain ASCII", found=path,
            expected="a relative path of letters, digits and ._+@- whose parts do not begin with a dot",
        )  # fmt: skip
    return "/".join(parts)


def _refused(
    place: Position, message: str, *,
    expected: str | None = None, found: str | None = None, hint: str | None = None,
) -> BundleError:  # fmt: skip
    return BundleError(Code.BUNDLE_TAR, message, position=place, expected=expected, found=found, hint=hint)
