"""The public API as a caller types it. Checked by pyright in strict mode, and run by tests/house/test_api_sample.py."""

from __future__ import annotations

from typing import assert_type

from k3_ledger.schemas import canonical
from k3_ledger.schemas.canonical import JsonValue
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode, Severity


def round_trip(data: bytes) -> bytes:
    """Canonical bytes in, the same bytes out."""
    value = assert_type(canonical.parse(data), JsonValue)
    return assert_type(canonical.format(value), bytes)


def explain(data: bytes) -> str:
    """What is wrong with ``data``, or nothing."""
    try:
        canonical.parse(data)
    except LedgerError as error:
        finding = assert_type(error.finding, Finding)
        assert_type(finding.severity, Severity)
        return f"{finding.code.id}: {finding.message}; {finding.advice}"
    return ""


def exit_code(code: Code) -> ExitCode:
    """Exit code that a finding asks for."""
    return code.info.exit
