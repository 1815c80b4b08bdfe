"""Opens what judging commands work on: a ledger, verified first, or a foreign run log, audited first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from k3_ledger.rescore.replay import Material
    from k3_ledger.verify.log import VerifiedLog

SourceArgument = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A ledger, or a foreign run log's directory.", show_default=False)
]
ProcessesOption = Annotated[
    int, typer.Option(min=1, help="Worker processes of the verification.", show_default="one per core")
]
CORES = os.cpu_count() or 1
_HEAD = b'{"entry":'


def load_material(path: Path, processes: int = 1) -> tuple[Material, bool]:
    """Verify a ledger or audit a foreign log, and gather what judging needs; True for a ledger.

    Raises:
        LedgerError: it is neither, or the ledger does not verify.
    """
    from k3_ledger.rescore.replay import gather, gather_foreign

    if is_foreign(path):
        from k3_ledger.cli.foreign import ForeignDirectory
        from k3_ledger.verify.polaris import audit, parse_log, to_import

        files = ForeignDirectory(path)
        report = audit(files)
        return gather_foreign(to_import(parse_log(files), files, report)), False
    return gather(open_verified(path, processes)), True


def open_verified(path: Path, processes: int = 1, *, judged: bool = True) -> VerifiedLog:
    """A ledger that verifies, with a progress bar where it is long.

    Args:
        path: the ledger's directory.
        processes: worker processes.
        judged: whether its verdicts are derived again and its pins traced, as ``verify`` does.

    Raises:
        LedgerError: it cannot be read, or does not verify.
    """
    from k3_ledger.cli.sources import DirectorySource
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.verify.log import Options, verify_log

    source = DirectorySource(path)
    with progress_bar(source.size, "verifying") as progress:
        log = verify_log(source, None, Options(processes=processes, progress=progress))
    if judged:
        _settle(log)
    return log


def _settle(log: VerifiedLog) -> None:
    """Refuse a log whose judgements do not follow, and say which could not be derived again.

    Raises:
        VerificationError: ``verify`` would refuse one of them.
    """
    from k3_ledger.rescore.judgements import JUDGED, settle_judgements
    from k3_ledger.verify.report import VerificationError

    if not any(step.name in JUDGED and step.not_checked for step in log.report.steps):
        return
    report = settle_judgements(log)
    if report.exit_code:
        raise VerificationError(report)
    for finding in report.findings[len(log.report.findings) :]:
        typer.echo(f"{finding.severity}: {finding.position}: {finding.message} [{finding.code.id}]", err=True)


def is_foreign(path: Path) -> bool:
    """Whether a directory holds a foreign run log: folders of runs, and no log of ours beside them."""
    if not (path / "runs").is_dir():
        return False
    try:
        with (path / "ledger.jsonl").open("rb") as stream:
            return stream.read(len(_HEAD)) != _HEAD
    except OSError:
        return True
