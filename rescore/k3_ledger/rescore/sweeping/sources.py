"""Which weights the receipts measured that pins name as their sources, found without reading the rest of a log.

A pin names an identity, and a sweep takes nobody's: hashing a million entries for the sake of a few pins costs more
than grading them. Each entry names the identity of the one in front of it, so the source of a pin stands on the line
before the one that names it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.native import read_weights
from k3_ledger.verify.log import entries_of, read_entry

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from k3_ledger.verify.log import VerifiedLog


class UnweighedError(Exception):
    """A pin was measured so long before it that the weights of its source have to be looked for in the whole log."""


_PREVIOUS: Final = re.compile(rb'"prev":"([0-9a-f]{64})"')
_SOURCE: Final = re.compile(rb'"source":"([0-9a-f]{64})"')


def named_sources(chunk: bytes) -> set[str]:
    """Identities that the pins of a chunk name as their sources, and perhaps what only looks like one."""
    return {identity.decode() for identity in _SOURCE.findall(chunk)}


def find_weights(
    chunks: Iterable[tuple[int, bytes]], wanted: Container[str], disowned: Container[int] = frozenset()
) -> dict[str, str | None]:
    """Digest of the weights of each entry that is wanted and found, by identity; None where it names none.

    Args:
        chunks: (position of the first entry, whole lines), one behind the other.
        wanted: identities.
        disowned: positions of entries that count for nothing, and are as good as not there.
    """
    found: dict[str, str | None] = {}
    last = b""
    for first, chunk in chunks:
        counted, lines = 0, 0
        for match in _PREVIOUS.finditer(chunk):
            identity = match[1].decode()
            if identity in wanted:
                line = chunk.rfind(b"\n", 0, match.start()) + 1
                start = chunk.rfind(b"\n", 0, max(line - 1, 0)) + 1
                data = entries_of(chunk[start:line] if line else last)
                counted, lines = line, lines + chunk.count(b"\n", counted, line)
                index = first + lines - 1
                # What looks like the name of a field may stand in a text.
                if data and sha256(data[0]).hexdigest() == identity and index not in disowned:
                    entry = read_entry(index, data[0]).entry
                    found[identity] = read_weights(entry.body) if entry.kind == "run" else None
        last = chunk[chunk.rfind(b"\n", 0, len(chunk) - 1) + 1 :]
    return found


def weigh_sources(log: VerifiedLog) -> dict[str, str | None]:
    """The same for every entry that a ``pin`` of a log names as its source.

    Raises:
        VerificationError: the bytes changed since they were verified.
    """
    wanted = {item.entry.body.source for item in log.select(b'"kind":"pin"') if item.entry.kind == "pin"}
    return find_weights(log.chunks(), wanted, log.disowned) if wanted else {}
