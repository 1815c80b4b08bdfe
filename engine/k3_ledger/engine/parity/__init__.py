"""Parity: how far one engine's next-token distribution is from another's, on the same file and the same ids.

The order is fixed. Prompts are compared by digest, then the shape and the kind of the rows, then whether every number
is finite, and only then numbers: KL(reference ‖ candidate) over the full vocabulary in float64 and top-1. Nothing here
decides a tier; a rule does, from the record.
"""

from __future__ import annotations

from k3_ledger.engine.parity.compare import Comparison, compare
from k3_ledger.engine.parity.rows import LogitSource, Rows, ids_digest
from k3_ledger.engine.parity.suite import Graded, Suite, grade

__all__ = ["Comparison", "Graded", "LogitSource", "Rows", "Suite", "compare", "grade", "ids_digest"]
