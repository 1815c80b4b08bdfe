"""Verification of an extract of a log: proofs of some entries under one signed head, and what stands beside them.

Every entry is checked by its proof file (:mod:`k3_ledger.verify.proof`), every older head by the consistency file that
leads from it to the newest (:mod:`k3_ledger.verify.consistency`), and every timestamp against the heads that held. The
steps are added up, and the sum is held to what the policy requires.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.consistency import parse_consistency
from k3_ledger.ledger.core.proof import parse_proof
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.heads import signed_head
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.report import FindingLog
from k3_ledger.verify.scan import Scan
from k3_ledger.verify.settle import make_report
from k3_ledger.verify.several import join_reports
from k3_ledger.verify.timestamps import check_timestamps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.verify.log import Options
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource

_SHOWN = frozenset({"framing", "schema", "signatures", "keys", "checkpoint"})
"""Steps that show a head to be the log's, and an entry to be in its tree."""


def check_extract(
    proofs: Sequence[tuple[str, bytes]],
    older: Sequence[tuple[str, bytes]],
    source: LogSource,
    policy: TrustPolicy | None,
    options: Options,
) -> Report:
    """Verify an extract and say everything that was found.

    Args:
        proofs: (name, bytes) of at least one proof file; all lead to one head.
        older: (name, bytes) of consistency files that lead to the same head.
        source: has the artifacts and the timestamps; its log is not looked at.
        policy: whom to trust and what to demand.
        options: as for a log.

    Raises:
        MalformedError: a file of either kind is none.
    """
    first = None if policy is None else replace(policy, require=frozenset())
    reports, heads, lines = [], {}, []
    for name, data in proofs:
        report = check_proof(
            data,
            name,
            first,
            options.expected_heads,
            source if options.artifacts else None,
            clock=options.clock,
            enrolments=options.enrolments,
        )
        reports.append(report)
        if _is_shown(report):
            proof = parse_proof(data)
            heads[proof.checkpoint] = signed_head("checkpoint", proof.checkpoint)
            lines.append((proof.subject, proof.subject_entry.line))
    for name, data in older:
        report = check_consistency_file(data, name, first, clock=options.clock)
        reports.append(report)
        if _is_shown(report):
            note = parse_consistency(data).old
            heads[note] = signed_head(name, note, newest=False)
    scan = Scan(findings=FindingLog())
    scan.good_heads = tuple(heads.values())
    check_timestamps(scan, source, policy, options.read_token, lines if options.artifacts else ())
    stamped = make_report(source.name, policy, scan)
    reports.append(replace(stamped, authenticated=all(report.authenticated for report in reports)))
    return join_reports(f"{len(proofs)} proved entries", reports, policy)


def _is_shown(report: Report) -> bool:
    """Whether what a file is about was shown to be the log's."""
    return not any(step.failed for step in report.steps if step.name in _SHOWN)
