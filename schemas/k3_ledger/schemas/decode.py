"""One way to decode entry bytes: fast where that suffices, explained where it does not."""

from __future__ import annotations

from typing import Any

from k3_ledger.schemas.outcomes import NOWHERE, Position
from k3_ledger.schemas.structs import decode_entry


def decode(entry: bytes, position: Position = NOWHERE) -> Any:
    """Decode canonical entry bytes into a struct, or into a model of the same attributes.

    The fast parser may only say "valid": what it refuses goes to the explaining one, which decides.

    Raises:
        LedgerError: the bytes are not a valid entry; the error says why and where.
    """
    fast = decode_entry(entry)
    if fast is not None:
        return fast
    from k3_ledger.schemas.validate import parse_entry  # noqa: PLC0415 - pydantic, only when something is wrong

    return parse_entry(entry, position=position)
