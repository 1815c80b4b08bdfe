"""``k3-ledger verify``: check a ledger or a proof file, offline."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.trusting import (
    ExpectHeadOption,
    RequireOption,
    RootKeyOption,
    TrustOption,
    read_heads,
    token_reader,
)

if TYPE_CHECKING:
    from k3_ledger.cli.opening import Named
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource

HELP = """Check a ledger, a mirror, a proof file or an offline bundle; no GPU, and no network but for an address.

PATH is a ledger directory, a ledger.jsonl, a mirror made by `k3-ledger tiles`, a tar of one of these, a file that
`k3-ledger prove` or `k3-ledger bundle pack` wrote, or the address (https://…, s3://…, file://…) of any of them, which
needs the extra k3-ledger[remote]; - is such a file on standard input. Without a trust policy (--trust or --root-key)
integrity is checked and nobody is authenticated: the report says so. Of a mirror that lacks entries, what is there is
checked (exit code 4).

Exit codes: 0 verified, 1 verified false, 2 usage, 3 unreadable or not a ledger, 4 the policy requires something that
was not checked, 5 torn tail (everything before it verified).
"""


_TRIES = 5
"""How often a log is held against a memory that another verification changed meanwhile."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("verify", help=HELP)(verify)


def verify(  # noqa: PLR0915 - one command, its imports counted
    path: Annotated[
        str,
        typer.Argument(help="Ledger directory, ledger.jsonl, mirror, proof file, tar, or address.", show_default=False),
    ],
    trust: TrustOption = None,
    root_key: RootKeyOption = None,
    require: RequireOption = None,
    expect_head: ExpectHeadOption = None,
    memory: Annotated[
        Path | None,
        typer.Option(help="File that remembers the last verified signed head: compared first, updated on success."),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Put what --memory remembers aside first: this is a first visit.")
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the signed heads where a rollback, cut, fork or freeze is found.",
            show_default="beside --memory or --expect-head, with .evidence at its end",
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            help="The present, YYYY-MM-DDTHH:MM:SSZ, for a policy that limits the age of a head or judges quotes now.",
            show_default="this machine's clock",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="When attestations must be valid: receipt, now or a time.", show_default="what --trust says"),
    ] = None,
    artifacts: Annotated[
        bool, typer.Option(help="Re-hash artifacts, and read quotes where no certificates are given.")
    ] = True,
    processes: Annotated[
        int, typer.Option(min=1, help="Worker processes.", show_default="one per core")
    ] = os.cpu_count() or 1,
    cache: Annotated[
        Path | None, typer.Option(help="Directory that keeps what was fetched from an address.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the verification and end with its exit code."""
    from k3_ledger.cli import fail
    from k3_ledger.cli import memory as memories
    from k3_ledger.cli.evidence import evidence_beside, keep_evidence, newest_head
    from k3_ledger.cli.opening import opened, record_of
    from k3_ledger.cli.render import print_report
    from k3_ledger.cli.told import found
    from k3_ledger.cli.trust import load_policy
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.verify.log import Options

    present = _present(now)
    policy = load_policy(trust, root_key, require or [], present, subject=path)
    if at is not None:
        from k3_ledger.cli.trust_dir import judged_at

        policy = judged_at(policy, at, present)
    heads = read_heads(expect_head or (), subject=path)
    evidence = evidence or evidence_beside(memory, expect_head or [])
    _keep_apart(path, memory, evidence, cache)
    if forget and memory is None:
        raise typer.BadParameter("there is nothing to forget without --memory", param_hint="--forget")
    options = Options(processes=processes, artifacts=artifacts, read_token=token_reader(policy))
    refused, tries = None, 0
    with opened(path, cache) as named:
        if forget and memory is not None:
            memories.forget(memory)
        record = record_of(named)
        while True:
            tries += 1
            known = None if memory is None else memories.read_memory(memory)
            held = heads if known is None else [*heads, (str(memory), known)]
            first = known is None and memory is not None and record is not None
            clock = memories.clock_of(present, kept=known is not None or first, known=known)
            seen = replace(
                options,
                expected_heads=tuple((name, one.note) for name, one in held),
                enrolments={name: one.enrolments for name, one in held if one.enrolments},
                remember=memory is not None,
            )
            report = _check(named, policy, seen, clock)
            other = _other_kind(report, named, path)
            if memory is None or report.exit_code:
                break
            try:
                if memories.keep_head(
                    memory, known, newest_head(record), present, report.enrolments, whole=record is not None
                ):
                    break
            except LedgerError as error:  # what cannot be kept takes nothing from the verdict
                refused = error
                break
            if tries == _TRIES:
                typer.echo("note: the memory changes all the time and was left as it is: verify again", err=True)
                break
        try:
            if evidence is not None:
                keep_evidence(evidence, held, named, report)
        except LedgerError as error:
            refused = error
    with found(int(report.exit_code)):
        print_report(report, as_json=as_json, unkept=refused)
    codes = [fail(said) for said in (other, refused) if said is not None]
    raise typer.Exit(int(report.exit_code) or max(codes, default=0))


def _keep_apart(path: str, memory: Path | None, evidence: Path | None, cache: Path | None) -> None:
    """Refuse what the reader keeps of a log where it lies in that log.

    Raises:
        BadParameter: exit code 2.
    """
    from k3_ledger.cli.places import check_apart, subject_of

    subject = subject_of(path)
    check_apart(memory, subject, option="--memory")
    check_apart(evidence, subject, option="--evidence")
    check_apart(cache, subject, option="--cache")


def _check(named: Named, policy: TrustPolicy | None, options: Options, clock: Clock) -> Report:
    """Verify whatever was named."""
    from k3_ledger.cli.opening import PackNamed, ProofNamed
    from k3_ledger.cli.terminal import progress_bar

    if isinstance(named, ProofNamed):
        from k3_ledger.cli.proofs import check_proof_file

        return check_proof_file(named.data, named.name, policy, replace(options, clock=clock))
    if isinstance(named, PackNamed):
        from k3_ledger.cli.packed import check_pack

        return check_pack(named.store, policy, replace(options, clock=clock), check_ledger)
    with progress_bar(named.size, "verifying") as progress:
        return check_ledger(named, policy, replace(options, progress=progress, clock=clock))


def _other_kind(report: Report, named: Named, text: str) -> LedgerError | None:
    """What to say of a bare file that the verifier found to be no log: what it is, if that can be told."""
    from k3_ledger.cli.given import LEDGER_FILE, explain, standing
    from k3_ledger.cli.sources import LOG_NAME, DirectorySource, is_stream
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import ExitCode

    if report.exit_code != ExitCode.UNREADABLE or not isinstance(named, DirectorySource) or named.name == LOG_NAME:
        return None
    found = standing(named.log)
    if found is None or found in LEDGER_FILE.fits:
        return None
    error = MalformedError(Code.NOT_A_LEDGER, "this is not a ledger")
    explain(error, named.name if is_stream(text) else text, found, LEDGER_FILE)
    return error


def _present(now: str | None) -> int:
    """The reader's clock, or what he gives in its place."""
    from k3_ledger.schemas.moments import parse_time

    try:
        return int(time.time()) if now is None else parse_time(now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--now") from None


def check_ledger(source: LogSource, policy: TrustPolicy | None, options: Options) -> Report:
    """Verify a log, then let the room that judges derive its verdicts again and trace its pins, where it has any."""
    from k3_ledger.cli.settled import verify_settled
    from k3_ledger.schemas.findings import Code
    from k3_ledger.verify.report import VerificationError

    try:
        return verify_settled(source, policy, options)[1]
    except VerificationError as error:
        if not error.report.counts.keys().isdisjoint({Code.TILE_MISSING, Code.UNREADABLE, Code.REMOTE_UNREADABLE}):
            from k3_ledger.verify.mirror import TileSource
            from k3_ledger.verify.partial import check_partial

            if isinstance(source, TileSource):
                return check_partial(source, policy, options)
        if policy is None:
            return error.report
        return replace(error.report, policy=policy.sentence, policy_digest=policy.digest)
