"""What ``checkpoint`` holds a ledger to before it signs its head: whatever ``verify`` would call false."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.ledger.writer.checkpoint import Candidate


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines that a head is to commit to, beside the heads that were found good; a log source."""

    log: Path
    candidate: Candidate

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def size(self) -> int | None:
        return self.candidate.length

    def blocks(self) -> Iterator[bytes]:
        from k3_ledger.cli.sources import DirectorySource

        left = self.candidate.length
        for block in DirectorySource(self.log).blocks():
            yield block[:left]
            left -= len(block)
            if left <= 0:
                return

    def checkpoint(self) -> bytes | None:
        return None

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        yield from self.candidate.heads

    def timestamps(self) -> tuple[tuple[str, bytes], ...]:
        return ()

    def lists(self, folder: str) -> bool:  # noqa: ARG002 - there are no others
        return True

    def kept_checkpoint(self, size: int) -> bytes | None:  # noqa: ARG002 - nobody asks
        return None

    def open_artifact(self, sha256: str) -> BinaryIO | None:  # noqa: ARG002 - artifacts are no entries
        return None


def check_signable(log: Path, candidate: Candidate) -> None:
    """Verify a log as ``verify`` does, artifacts aside, and refuse what is false in entries that no head covers yet.

    What is false below that, some earlier head committed to: signing another changes nothing about it, whatever it is
    and however much of it there is; and what is new is judged all the same, verdicts and pins too. Signatures below it,
    which are most of what a verification costs, are not looked at again: the earlier heads are of these very lines, and
    of this log's own.

    Args:
        log: the log file.
        candidate: what is about to be signed.

    Raises:
        VerificationError: an entry that no earlier head covers is false.
        StoreError: the log is not the one that is about to be signed any more.
    """
    from k3_ledger.cli.settled import verify_settled
    from k3_ledger.schemas.errors import StoreError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.report import VerificationError, is_covered

    options = Options(processes=os.cpu_count() or 1, artifacts=False, vouched=candidate.covered)
    try:
        _, report = verify_settled(_Lines(log, candidate), None, options)
    except VerificationError as error:
        report = error.report
    if report.head is None or report.head.root != candidate.checkpoint.root.hex():
        message = "the log changed while it was checked; nothing was signed"
        raise StoreError(Code.CHANGED_WHILE_READ, message, position=Position(source=str(log)))
    wrong = tuple(
        finding for finding in report.findings if finding.code.info.exit and not is_covered(finding, candidate.covered)
    )
    if wrong:
        raise VerificationError(replace(report, findings=wrong, counts=report.uncovered, covered={}))
