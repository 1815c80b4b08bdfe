"""The keys of a ledger as people name them: by name, key id, public key or key file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.ledger.writer.disk import storage_errors
from k3_ledger.ledger.writer.keys import load_public_key
from k3_ledger.ledger.writer.state import KEY_MARK, find_lines, read_line, scan_to_tail
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.ledger.core.keylife import KeyLife
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.ledger.writer.store import Ledger


@dataclass(frozen=True, slots=True)
class EnrolledKey:
    """One key of a ledger.

    Attributes:
        name: what its enrolment calls it.
        role: what it may sign.
        key_id: lower-case hexadecimal SHA-256 of the raw public key.
        public_key: lower-case hexadecimal raw public key.
        enrolled: index of the entry that enrolled it; its entries count behind that.
        retired: index of the entry that rotated or revoked it or took its enrolment back, or None while it is valid.
        ended: which of these: ``rotated``, ``revoked``, ``disowned`` or ``taken back``; None while it is valid.
        disowned_from: first entry that counts for nothing, where a revocation says so.
    """

    name: str
    role: str
    key_id: str
    public_key: str
    enrolled: int
    retired: int | None
    ended: str | None
    disowned_from: int | None


def enrolled_keys(ledger: Ledger) -> list[EnrolledKey]:
    """Every key that was ever enrolled, in the order of enrolment.

    Raises:
        LedgerError: the log cannot be read, or a line that says so is damaged.
    """
    with storage_errors(ledger.log_path, "read the ledger"), ledger.log_path.open("rb") as file:

        def read(count: int, offset: int) -> bytes:
            return os.pread(file.fileno(), count, offset)

        size = file.seek(0, os.SEEK_END)
        state, _ = scan_to_tail(read, size)
        names: dict[str, str] = {}
        for place, raw in find_lines(read, state.size, KEY_MARK):
            body = read_line(parse_line(raw, place), place).body
            names.setdefault(body.key_id, body.name)
    return [
        EnrolledKey(
            names.get(key_id, "root"),
            life.role,
            key_id,
            life.public_key.hex(),
            max(life.enrolled, 0),
            None if life.ended is None else min(life.retired, life.taken_back),
            life.ended,
            None if life.disowned_from == FOREVER else life.disowned_from,
        )
        for key_id, life in sorted({**state.keyring.lives, **state.keyring.taken_back}.items(), key=_enrolled)
    ]


def _enrolled(item: tuple[str, KeyLife]) -> int:
    return item[1].enrolled


def read_state(ledger: Ledger) -> LogState:
    """What a writer knows of the ledger as it is now; a torn tail is left out.

    Raises:
        LedgerError: the log cannot be read, or a line that says so is damaged.
    """
    with storage_errors(ledger.log_path, "read the ledger"), ledger.log_path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        state, _ = scan_to_tail(lambda count, offset: os.pread(file.fileno(), count, offset), size)
    return state


def find_key(ledger: Ledger, spec: str, *, ended: bool = False) -> EnrolledKey:
    """The valid key that ``spec`` names: its name, its key id, its public key, or the file that holds that.

    Args:
        ledger: the ledger.
        spec: what names it.
        ended: whether one that was rotated or revoked is meant where no valid one is.

    Raises:
        LedgerError: no valid key of this ledger, or several, are named so.
        KeyFileError: ``spec`` is neither and is not a public key file.
    """
    every = enrolled_keys(ledger)
    keys = [key for key in every if key.retired is None]
    names = {spec}
    if spec.lower().endswith(".pem") or (os.path.sep in spec and not _named(every, names)):
        names = {load_public_key(spec).key_id}
    found = _named(keys, names)
    if not found and ended:
        found = _named(keys := [key for key in every if key.ended != "taken back"], names)
    if len(found) != 1:
        none = "no key of this ledger is" if ended else "no valid key of this ledger is"
        raise LedgerError(
            Code.NO_SUCH_KEY,
            f"{'several keys are' if found else none} named {spec!r}",
            position=Position(source=str(ledger.log_path)),
            expected="one of " + ", ".join(f"{key.name} ({key.role} {key.key_id[:16]}…)" for key in keys),
            hint="give the key id in full; `k3-ledger key ls` shows it" if found else "see `k3-ledger key ls`",
        )
    return found[0]


def _named(keys: list[EnrolledKey], names: set[str]) -> list[EnrolledKey]:
    return [key for key in keys if not names.isdisjoint((key.name, key.key_id, key.public_key))]
