"""``k3-ledger claims``: check published claims against the receipts that must stand behind them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.material import CORES, ProcessesOption, load_material, note_unread, read_share
from k3_ledger.cli.options import JsonOption, ReplaceOption, print_json
from k3_ledger.cli.tables import say
from k3_ledger.cli.told import found
from k3_ledger.cli.trusting import ExpectHeadOption, RequireOption, RootKeyOption, TrustOption, believe

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.check import ClaimsReport, Decision
    from k3_ledger.rescore.claims.evidence import Evidence
    from k3_ledger.rescore.material import Material

HELP = """Check a claims file, or the claims blocks of a document, against a ledger or a foreign run log.

Each claim is decided part by part, with the evidence it rests on: supported by a receipt, only by an unsealed figure,
stale, without a receipt, ambiguous, or contradicted. Ratios are computed again from both sides. --proofs writes the
proof file of every receipt that a decision rests on: it verifies with no ledger at hand.

Exit codes: 0 every claim is supported or rests on an unsealed figure, 1 a claim is not, 2 usage, 3 a file that cannot
be read. --sealed exits 1 for unsealed figures too.
"""


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(no_args_is_help=True, help="Check published claims.", rich_markup_mode=None)
    group.callback()(_group)
    group.command("check", help=HELP)(check)
    app.add_typer(group, name="claims")


def _group() -> None:
    """Check published claims."""


def check(
    file: Annotated[Path, typer.Argument(help="Claims file, or a document with claims blocks.", show_default=False)],
    against: Annotated[
        Path, typer.Option("--against", "-a", help="A ledger, or a foreign run log's directory.", show_default=False)
    ],
    sealed: Annotated[bool, typer.Option("--sealed", help="Accept nothing that no receipt holds.")] = False,
    proofs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the proof file of every receipt that a decision rests on."),
    ] = None,
    tolerance_limit: Annotated[
        str, typer.Option(help="Refuse claims whose tolerance is more than this share of what they claim.")
    ] = "10%",
    replace: ReplaceOption = False,
    trust: TrustOption = None,
    root_key: RootKeyOption = None,
    require: RequireOption = None,
    expect_head: ExpectHeadOption = None,
    processes: ProcessesOption = CORES,
    as_json: JsonOption = False,
) -> None:
    """Check claims."""
    from k3_ledger.cli.given import CLAIMS, given
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.rescore.claims.check import check_claims
    from k3_ledger.rescore.claims.reading import read_claims
    from k3_ledger.rescore.claims.status import Status

    limit = read_share(tolerance_limit, "--tolerance-limit", below=1)
    with given(file, CLAIMS):
        claims = read_claims(read_small(file), source=str(file), tolerance_limit=limit)
    trusted = believe(trust, root_key, require, expect_head, subject=against)
    material, native = load_material(against, processes, trusted)
    if proofs is not None and not native:
        said = "only what is sealed in a ledger can be proved: import the log first (k3-ledger import polaris)"
        raise typer.BadParameter(said, param_hint="--proofs")
    report = check_claims(claims, material)
    proved = {} if proofs is None else _prove(report, (file, against), proofs, replace=replace)
    loose = sealed and any(decision.status is Status.UNSEALED for decision in report.decisions)
    code = 1 if loose else int(report.exit_code)
    with found(code):
        if as_json:
            print_json([_decision(decision, proved, material) for decision in report.decisions])
        else:
            _print(report, against, proved if proofs is not None else None)
    raise typer.Exit(note_unread(material, code))


def _indices(decision: Decision) -> list[int]:
    """Positions of the receipts a decision rests on, each once."""
    return list(dict.fromkeys(item.index for item in decision.evidence if item.index is not None))


def _prove(report: ClaimsReport, reads: tuple[Path, Path], folder: Path, *, replace: bool) -> dict[int, Path]:
    """Write a proof file for each receipt; its path by the receipt's position."""
    from k3_ledger.cli.files import check_free, unwritable
    from k3_ledger.cli.places import check_spared
    from k3_ledger.cli.proofs import write_proof

    check_spared(folder, reads=reads, option="--proofs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    wanted = sorted({index for decision in report.decisions for index in _indices(decision)})
    proved = {index: folder / f"entry-{index}.proof" for index in wanted}
    for path in proved.values():
        check_free(path, replace=replace, reads=reads, option="--proofs")
    for index, path in proved.items():
        write_proof(reads[1], index, path, replace=replace, option="--proofs")
    return proved


def _print(report: ClaimsReport, against: Path, proved: dict[int, Path] | None) -> None:
    from collections import Counter

    for decision in report.decisions:
        allowed = f" ({decision.claim.allowed})" if decision.claim.allowed else ""
        say(f"{decision.claim.id}: {decision.status}: {decision.claim.says}{allowed}")
        for part in decision.parts:
            say(f"  {part.name}: {part.status}: {part.why}")
        for index in _indices(decision):
            shown = f"k3-ledger prove {index} --ledger {against}" if proved is None else proved[index]
            say(f"  proof: {shown}")
        if proved is not None and not _indices(decision):
            say("  no proof: it rests on no single entry of this ledger")
    counts = Counter(str(decision.status) for decision in report.decisions)
    say(f"{len(report.decisions)} claims: {', '.join(f'{count} {status}' for status, count in counts.items())}")


def _decision(decision: Decision, proved: dict[int, Path], material: Material) -> dict[str, Any]:
    return {
        "claim": decision.claim.id,
        "says": decision.claim.says,
        "status": str(decision.status),
        "tolerance": decision.claim.allowed,
        "audit_errors": material.audit_errors,
        "not_shown": material.unshown,
        "proofs": [str(proved[index]) for index in _indices(decision) if index in proved],
        "parts": [
            {
                "part": part.name,
                "status": str(part.status),
                "why": part.why,
                "evidence": [_evidence(item) for item in part.evidence],
            }
            for part in decision.parts
        ],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    from k3_ledger.rescore.exact import format_exact

    return {
        "value": format_exact(item.value),
        "track": str(item.track),
        "actor": item.actor,
        "receipt": item.receipt,
        "index": item.index,
        "says": item.says,
    }
