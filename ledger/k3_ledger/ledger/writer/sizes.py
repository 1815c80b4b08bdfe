"""Which entries of a log give an artifact another size than one that is to be appended.

One digest has one size, so of two entries that differ one is wrong, and no later entry mends that. Entries that a
revocation took back count for nothing and are passed over; a line that cannot be read is verify's to report.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.writer.disk import storage_errors
from k3_ledger.ledger.writer.roster import read_state
from k3_ledger.ledger.writer.state import find_lines, read_line
from k3_ledger.schemas.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from k3_ledger.ledger.core.keyring import Keyring
    from k3_ledger.ledger.writer.store import Ledger


class OtherSize(NamedTuple):
    """What an entry says of an artifact.

    Attributes:
        position: index of the entry.
        sha256: digest of the artifact, lower-case hexadecimal.
        size: its length in bytes, according to the entry.
    """

    position: int
    sha256: str
    size: int


def other_sizes(ledger: Ledger, sizes: Mapping[str, int]) -> Iterator[OtherSize]:
    """What entries that count say otherwise than ``sizes`` (bytes by digest), in log order.

    Costs one read of the log at memory speed where an artifact is asked for; only lines that differ are parsed.

    Raises:
        LedgerError: the log cannot be read.
    """
    if not sizes:
        return
    given = b"|".join(b'%b","size":(?!%d\\D)' % (digest.encode(), size) for digest, size in sizes.items())
    differs = re.compile(b'"sha256":"(?:%b)' % given)  # in a text its quotation marks would be escaped
    keyring: Keyring | None = None
    with storage_errors(ledger.log_path, "read the ledger"), ledger.log_path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        for place, raw in find_lines(lambda count, offset: os.pread(file.fileno(), count, offset), end, differs):
            try:
                entry = read_line(parse_line(raw, place), place)
            except LedgerError:
                continue
            assert place.index is not None
            keyring = keyring or read_state(ledger).keyring  # another read of the log, where something differs
            if keyring.disowned_by(entry.key, place.index) is not None:
                continue
            for artifact in getattr(entry.body, "artifacts", ()):
                if sizes.get(artifact.sha256, artifact.size) != artifact.size:
                    yield OtherSize(place.index, artifact.sha256, artifact.size)
