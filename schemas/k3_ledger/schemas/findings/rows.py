"""All rows of the registry, by the names of their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import attestation, engine, foreign, heads, log, numbers, reading, receipts, storing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.schemas.findings.row import CodeInfo

ROWS: Final[Mapping[str, CodeInfo]] = {
    **reading.ROWS,
    **log.ROWS,
    **heads.ROWS,
    **storing.ROWS,
    **receipts.ROWS,
    **foreign.ROWS,
    **engine.ROWS,
    **numbers.ROWS,
    **attestation.ROWS,
}
