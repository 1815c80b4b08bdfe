"""The list at the front of an offline bundle: what the archive holds, and of which signed head.

An offline bundle is an uncompressed tar (POSIX ustar) whose first member is :data:`LIST_NAME`, canonical JSON::

    {"entries":null,"files":[{"name":"checkpoint","sha256":"…","size":187},…],"origin":"example.org/speed",
     "policy_sha256":null,"root":"<hex>","schema":"k3-ledger/pack/1","size":7}

followed by exactly the files that it names, in its order, which is the order of their names. ``entries`` is null when
the bundle holds the whole record, else the indexes of the entries that it proves, at least one. ``policy_sha256`` is
the digest of the trust policy that its maker verified it under, or null. Equal content makes equal bytes.

The list is signed by nobody. It tells a damaged copy from a changed ledger, and nothing else follows from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

LIST_NAME: Final = "pack.json"
"""Name of the list in the archive."""
SCHEMA: Final = "k3-ledger/pack/1"
LIMITS: Final = canonical.Limits(max_bytes=1 << 23, max_depth=4, max_string=4_096, max_items=200_000)
"""What a list may cost to read: about 20,000 files."""

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(
    r"ledger\.jsonl|checkpoint|checkpoints/[0-9]{12,16}\.note|proofs/[0-9]{12,16}\.proof"
    r"|consistency/[0-9]{12,16}\.proof"
    r"|timestamps/[0-9]{12,16}(?:-[a-z0-9-]{1,40})?\.tsr"
    r"|blobs/sha256/([0-9a-f]{2})/\1[0-9a-f]{62}"
)


@dataclass(frozen=True, slots=True)
class PackFile:
    """One file of an offline bundle: its name in the archive, its digest in hexadecimal, its size in bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class PackList:
    """The list of an offline bundle.

    Attributes:
        origin: the log's name for itself.
        size: entries that the signed head commits to.
        root: its root, hexadecimal.
        entries: indexes of the entries that are proved, at least one, in rising order; None for the whole record.
        policy_sha256: digest of the maker's trust policy, hexadecimal, or None.
        files: what the archive holds besides the list, in rising order of names.
    """

    origin: str
    size: int
    root: str
    entries: tuple[int, ...] | None
    policy_sha256: str | None
    files: tuple[PackFile, ...]


def proof_name(index: int) -> str:
    """Name of the proof file of an entry."""
    return f"proofs/{index:012d}.proof"


def consistency_name(size: int) -> str:
    """Name of the consistency file of an older head."""
    return f"consistency/{size:012d}.proof"


def format_pack(pack: PackList) -> bytes:
    """Write the list.

    Raises:
        ValueError: it breaks a rule of the format, so it would not be read back.
    """
    try:
        data = canonical.format(
            {
                "entries": None if pack.entries is None else list(pack.entries),
                "files": [{"name": file.name, "sha256": file.sha256, "size": file.size} for file in pack.files],
                "origin": pack.origin,
                "policy_sha256": pack.policy_sha256,
                "root": pack.root,
                "schema": SCHEMA,
                "size": pack.size,
            },
            limits=LIMITS,
        )
        parse_pack(data)
    except MalformedError as error:
        raise ValueError(f"not the list of an offline bundle: {error}") from None
    return data


def parse_pack(data: bytes, *, position: Position = NOWHERE) -> PackList:
    """Read the list of an offline bundle. Only its form is checked.

    Raises:
        MalformedError: with ``ARCHIVE_REFUSED``, or a code of the canonical profile.
    """
    value: Any = canonical.parse(data, limits=LIMITS, position=position)
    try:
        pack = _read(value)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(
            Code.ARCHIVE_REFUSED, f"the list in the archive is not one: {error}"[:200], position=position
        ) from None
    return pack


def _read(value: Any) -> PackList:
    if not isinstance(value, dict) or value.pop("schema", None) != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    files = value.pop("files")
    entries = value.pop("entries")
    pack: Any = PackList(
        files=tuple(PackFile(**file) for file in files), entries=None if entries is None else tuple(entries), **value
    )
    numbers = [pack.size, *(pack.entries or ()), *(file.size for file in pack.files)]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("a size or an index is not a number that counts")
    if pack.entries == ():
        raise ValueError("it proves no entry")
    if any(index >= pack.size for index in pack.entries or ()) or not _rising(pack.entries or ()):
        raise ValueError("the entries are not those of the head, in rising order")
    digests = [pack.root, *(file.sha256 for file in pack.files)]
    if not isinstance(pack.origin, str) or not all(isinstance(text, str) and _HEX.fullmatch(text) for text in digests):
        raise ValueError("a digest is not one")
    if pack.policy_sha256 is not None and not _HEX.fullmatch(pack.policy_sha256):
        raise ValueError("the policy's digest is not one")
    names = [file.name for file in pack.files]
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names) or not _rising(names):
        raise ValueError("the names of its files are not those of an offline bundle, in rising order")
    wanted = {"checkpoint"} | ({"ledger.jsonl"} if pack.entries is None else set(map(proof_name, pack.entries)))
    # The record shows whether an older head is the log's; without it, a consistency file does.
    beside = ("blobs/", "timestamps/", "checkpoints/" if pack.entries is None else "consistency/")
    if {name for name in names if not name.startswith(beside)} != wanted:
        raise ValueError("it does not hold just what it is about")
    checked: PackList = pack
    return checked


def _rising(values: Any) -> bool:
    return all(a < b for a, b in pairwise(values))
