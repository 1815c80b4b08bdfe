"""Audit and import of foreign run logs of the polaris family: what such a log shows, and what it only claims.

Pure: a directory comes in as a mapping of paths to bytes, reports and import bodies come out. Nothing here opens a
file, signs, or trusts a field because a record says so.
"""

from __future__ import annotations

from k3_ledger.verify.polaris.audit import AuditOptions, AuditReport, audit
from k3_ledger.verify.polaris.imported import compare_imported
from k3_ledger.verify.polaris.parse import Files, RunLog, parse_log
from k3_ledger.verify.polaris.render import render
from k3_ledger.verify.polaris.to_import import ImportItem, import_key, import_marks, import_name, list_copies, to_import

__all__ = [
    "AuditOptions",
    "AuditReport",
    "Files",
    "ImportItem",
    "RunLog",
    "audit",
    "compare_imported",
    "import_key",
    "import_marks",
    "import_name",
    "list_copies",
    "parse_log",
    "render",
    "to_import",
]
