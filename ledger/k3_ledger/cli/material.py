"""Opens what judging commands work on: a ledger, verified first, or a foreign run log, audited first."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.tables import say
from k3_ledger.cli.trusting import NO_HEAD, NOBODY, Trusted, list_unshown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from k3_ledger.rescore.material import Material
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.along import Companion
    from k3_ledger.verify.log import VerifiedLog
    from k3_ledger.verify.polaris import RunLog
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.parse import Run
    from k3_ledger.verify.policy import TrustPolicy

SourceArgument = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="A ledger, or a foreign run log's directory.", show_default=False)
]
ProcessesOption = Annotated[
    int, typer.Option(min=1, help="Worker processes of the verification.", show_default="one per core")
]
CORES = os.cpu_count() or 1
_HEAD = b'{"entry":'


def load_material(path: Path, processes: int = 1, trusted: Trusted | None = None) -> tuple[Material, bool]:
    """Verify a ledger or audit a foreign log, and gather what judging needs; True for a ledger.

    Raises:
        LedgerError: it is neither, or the ledger does not verify under what the reader trusts.
        BadParameter: somebody is to be authenticated whose log has no keys.
    """
    material, log = load_with_log(path, processes, trusted)
    return material, log is not None


def load_with_log(
    path: Path, processes: int = 1, trusted: Trusted | None = None
) -> tuple[Material, VerifiedLog | None]:
    """As :func:`load_material`, with the log that was verified; None for a foreign one."""
    from k3_ledger.rescore.replay import gather, gather_foreign

    if is_foreign(path):
        if trusted is not None and trusted.is_given:
            said = (
                "a foreign run log is signed by nobody that could be named: import it first (k3-ledger import polaris)"
            )
            raise typer.BadParameter(said, param_hint="--trust, --root-key, --require or --expect-head")
        from k3_ledger.cli.foreign import ForeignDirectory
        from k3_ledger.schemas.findings import Code
        from k3_ledger.schemas.outcomes import Severity
        from k3_ledger.verify.polaris import AuditOptions, audit, parse_log, to_import

        files = ForeignDirectory(path)
        report = audit(files, AuditOptions(closed=files.closed))
        log = parse_log(files)
        material = gather_foreign(to_import(log, files, report))
        closed = [finding for finding in report.findings if finding.code is Code.FOREIGN_NOT_READ]
        material.unshown = [NOBODY, NO_HEAD]
        material.audit_errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
        broken = [*closed, *_broken(log)]
        named = {finding.position.source for finding in broken}
        gone = [one for run in log.runs if f"{run.place.source}/receipt.json" not in named for one in _unreceived(run)]
        runs = {run.place.source: run.run_id for run in log.runs}
        folders = ((finding.position.source or "").rpartition("/")[0] for finding in broken)
        material.partly_read |= {runs[folder] for folder in folders if folder in runs}
        material.unread = [*broken, *gone, *(_placed(finding, log) for finding in material.unread)]
        return material, None
    verified = open_verified(path, processes, trusted=trusted)
    material = gather(verified)
    material.unshown = list_unshown(verified.report)
    return material, verified


def _broken(log: RunLog) -> list[Finding]:
    """Records that judging reads and that could not be read, or say two things; what is merely odd is the audit's."""
    from k3_ledger.schemas.findings import Code

    odd = {Code.JSON_BYTE_ORDER_MARK, Code.JSON_NOT_A_NUMBER, Code.FOREIGN_NUMBER}
    broken = [finding for finding in log.problems if finding.code not in odd]
    broken = [finding for finding in broken if not (finding.position.source or "").endswith("/attestation.json")]
    return [*broken, *(finding for run in log.runs for finding in _no_figures(run))]


def _unreceived(run: Run) -> Iterator[Finding]:
    """A folder of a run in which no file is its receipt: it is gone, a folder, or a link, which nobody follows."""
    from k3_ledger.schemas.findings import Code, Finding

    if run.files and not any(path.endswith("/receipt.json") for path in run.files):
        message = "no file receipt.json in it: the other records of the run are figures that no receipt holds"
        yield Finding(Code.FOREIGN_FILE_MISSING, message, run.place)


def _documents(run: Run) -> Iterator[tuple[str, Document]]:
    """The records of a run that judging reads, by the name that their fields carry."""
    named = {"sealed": run.sealed, "result": run.result, "receipt": run.receipt}
    listed = {"ledger": run.ledger[-1:], "index": run.index[-1:]}
    yield from ((name, one) for name, one in named.items() if one is not None)
    yield from ((name, one) for name, rows in listed.items() for one in rows)


def _no_figures(run: Run) -> Iterator[Finding]:
    """What an import does not copy where a figure belongs: lists, objects, and text without end.

    Nothing else would say so: of what is not copied nothing is read.
    """
    from k3_ledger.rescore.imported import FIGURES
    from k3_ledger.schemas.findings import Code, Finding
    from k3_ledger.verify.polaris.foreign_json import Compound, show
    from k3_ledger.verify.polaris.to_import import MAX_TEXT

    for name, one in _documents(run):
        for field in sorted(figure.partition(".")[2] for figure in FIGURES if figure.startswith(f"{name}.")):
            inner = [path for path in one.leaves if path.startswith((f"{field}.", f"{field}["))]
            if inner or (field in one.leaves and isinstance(one.leaves[field].value, Compound)):
                place = one.at(inner[0] if inner else field)
                yield Finding(Code.NUMBER, f"{name}.{field}: a list or an object is not a number", place)
            elif field in one.leaves and len(show(one.leaves[field].value)) > MAX_TEXT:
                length = len(show(one.leaves[field].value))
                yield Finding(Code.NUMBER, f"{name}.{field}: {length} characters are not a number", one.at(field))


def _placed(finding: Finding, log: RunLog) -> Finding:
    """The same finding with the file and the line that the figure stands in."""
    record, _, path = (finding.position.field or "").partition(".")
    for run in log.runs:
        if run.run_id != finding.position.source:
            continue
        for name, one in _documents(run):
            if name == record and path in one.leaves:
                return replace(finding, position=one.at(path))
    return finding


def note_empty(path: Path, pins: Sequence[PinRecord]) -> None:
    """Say that a pins file pins nothing: it may be the wrong file."""
    if not pins:
        say(f"note: {path} pins nothing: no [[pin]] in it", err=True)


def read_share(text: str, option: str, *, below: int) -> Fraction:
    """A share as an option gives it, ``10%`` or ``0.1``, above 0."""
    from k3_ledger.rescore.exact import parse_decimal
    from k3_ledger.schemas.errors import RescoreError

    try:
        value = parse_decimal(text.removesuffix("%"), field=option)
    except RescoreError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    share = value / 100 if text.endswith("%") else value
    if not 0 < share < below:
        what = option.removeprefix("--").replace("-", " ")
        raise typer.BadParameter(f"a {what} is above 0 and below {100 * below}%: 10% or 0.1", param_hint=option)
    return share


def note_unread(material: Material, code: int) -> int:
    """Name on standard error what judging could not read, after how many errors the audit found.

    Returns the exit code that this makes of ``code``: what the audit finds is for it to decide.

    A false claim or a stale pin weighs more (1); everything else that was said rests on less than the log holds (3).
    """
    note_unshown(material.unshown)
    if material.audit_errors:
        errors = f"{material.audit_errors} error{'s' if material.audit_errors != 1 else ''}"
        say(f"note: the audit of this log finds {errors}: `k3-ledger audit polaris` names what disagrees", err=True)
    for said in material.repeats:
        say(f"note: {said}", err=True)
    for finding in material.unread:
        say(f"not read: {finding.position}: {finding.message} [{finding.code.id}]", err=True)
    return 3 if material.unread and code != 1 else code


def note_unshown(unshown: Sequence[str]) -> None:
    """Say on standard error, in one line, what nothing showed of who wrote a log and whether it is all."""
    if unshown:
        cure = " (--trust or --root-key says whom to believe)" if NOBODY in unshown else ""
        say(f"note: {'; '.join(unshown)}{cure}", err=True)


def open_verified(
    path: Path,
    processes: int = 1,
    *,
    judged: bool = True,
    companion: Companion | None = None,
    trusted: Trusted | None = None,
) -> VerifiedLog:
    """A ledger that verifies, with a progress bar where it is long.

    Args:
        path: the ledger's directory, a tar of it, or a mirror.
        processes: worker processes.
        judged: whether its verdicts are derived again and its pins traced, as ``verify`` does.
        companion: who reads the entries in the same pass.
        trusted: whom the reader believes; None checks integrity alone.

    Raises:
        LedgerError: it cannot be read, or does not verify.
    """
    from k3_ledger.cli.opening import held_ledger
    from k3_ledger.cli.settled import unsettled
    from k3_ledger.cli.sources import LOG_NAME
    from k3_ledger.cli.terminal import progress_bar
    from k3_ledger.schemas.errors import StoreError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.log import Options, verify_log

    if path.is_dir() and not (path / LOG_NAME).exists() and not (path / "tile").is_dir():
        raise StoreError(
            Code.UNREADABLE,
            f"{path} is neither a ledger nor a foreign run log",
            position=Position(source=str(path)),
            expected=f"a file {LOG_NAME} (a ledger), or a folder runs (a run log)",
            found="neither of them",
            hint="`k3-ledger init` makes a ledger; a run log is a directory that holds runs/<id>/receipt.json",
        )
    source = held_ledger(path)
    with progress_bar(source.size, "verifying") as progress:
        options = Options(processes=processes, progress=progress, companion=companion)
        believed = Trusted() if trusted is None else trusted
        log = verify_log(source, unsettled(believed.policy), believed.under(options))
    if judged:
        _settle(log, believed.policy)
    return log


def _settle(log: VerifiedLog, policy: TrustPolicy | None) -> None:
    """Refuse a log whose judgements do not follow, and say which could not be derived again.

    Raises:
        VerificationError: ``verify`` would refuse one of them.
    """
    from k3_ledger.cli.settled import settle
    from k3_ledger.verify.report import VerificationError

    report = settle(log, policy)
    if report.exit_code:
        raise VerificationError(report)
    for finding in report.findings[len(log.report.findings) :]:
        say(f"{finding.severity}: {finding.position}: {finding.message} [{finding.code.id}]", err=True)


def is_foreign(path: Path) -> bool:
    """Whether a directory holds a foreign run log: folders of runs, and no log of ours beside them."""
    if not (path / "runs").is_dir():
        return False
    listing = path / "ledger.jsonl"
    if not listing.is_file():  # a pipe would be waited for
        return True
    try:
        with listing.open("rb") as stream:
            return stream.read(len(_HEAD)) != _HEAD
    except OSError:
        return True
