"""``k3-ledger reconcile``: hold every pin against the newest measurement of its slot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.material import (
    CORES,
    ProcessesOption,
    SourceArgument,
    load_material,
    note_empty,
    note_unread,
    read_share,
)
from k3_ledger.cli.options import JsonOption, print_json
from k3_ledger.cli.tables import say
from k3_ledger.cli.told import found
from k3_ledger.cli.trusting import ExpectHeadOption, RequireOption, RootKeyOption, TrustOption, believe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from k3_ledger.rescore.material import Material
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.rescore.reconcile import LockReport, Row

HELP = """Compare each pin with the newest measurement of its slot; tell explained drift from drift nobody can explain.

Pins are the `pin` entries of the ledger and those of --pins; where both pin a slot the entry counts and the file is a
proposal. Winners that landed are the `merge` entries and those of --merges.

Where nothing is pinned nothing is compared: that is said, and no fault. A foreign log has no pins of its own.

Exit codes: 0 every pin holds or its drift is explained, 1 a pin is stale, alarming, without a source or edited by
hand, 2 usage, 3 a file that cannot be read. --strict exits 1 for explained drift too.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("reconcile", help=HELP)(reconcile)


def reconcile(
    source: SourceArgument,
    pins: Annotated[Path | None, typer.Option(help="Pins file, such as pins.toml (docs/reconcile.md).")] = None,
    merges: Annotated[Path | None, typer.Option(help="File of winners that landed, such as merges.toml.")] = None,
    threshold: Annotated[str, typer.Option(help="Drift above this is stale; exactly this is not.")] = "10%",
    bare: Annotated[bool, typer.Option("--bare", help="Let no winner explain anything.")] = False,
    sealed_only: Annotated[
        bool, typer.Option("--sealed-only", help="Let no winner explain whose number stands in no receipt.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for explained drift too.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Raise the pins of the --pins file that should rise. None is ever lowered.")
    ] = False,
    trust: TrustOption = None,
    root_key: RootKeyOption = None,
    require: RequireOption = None,
    expect_head: ExpectHeadOption = None,
    processes: ProcessesOption = CORES,
    as_json: JsonOption = False,
) -> None:
    """Reconcile."""
    from k3_ledger.cli.given import MERGES, PINS, given
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.rescore.pins import read_merges, read_pins
    from k3_ledger.rescore.reconcile import reconcile_lock
    from k3_ledger.schemas.findings import Code

    if write and pins is None:
        raise typer.BadParameter("there is no pins file to write: name it with --pins", param_hint="--write")
    share = read_share(threshold, "--threshold", below=10)
    trusted = believe(trust, root_key, require, expect_head, subject=source)
    material = load_material(source, processes, trusted)[0]
    records = list(material.pin_entries)
    if pins is not None:
        with given(pins, PINS):
            held = read_pins(read_small(pins), source=str(pins))
        note_empty(pins, held)
        records += held
    landed = list(material.merges)
    if merges is not None:
        with given(merges, MERGES):
            landed += read_merges(read_small(merges), source=str(merges), receipts=_receipts(material))
    report = reconcile_lock(
        records, material.measurements, merges=[] if bare else landed, sealed_only=sealed_only, threshold=share
    )
    written = _write(pins, report) if write and pins is not None else ()
    explained = strict and any(finding.code is Code.PIN_EXPLAINED for finding in report.findings)
    code = 1 if explained else int(report.exit_code)
    with found(code):
        if as_json:
            print_json({**_document(report, written), "not_shown": material.unshown})
        else:
            _print(report, written)
    raise typer.Exit(note_unread(material, code))


def _receipts(material: Material) -> dict[str, Fraction]:
    """Value of every receipt that counts and a merge could name: its own identity, or the id of the foreign one."""
    values: dict[str, Fraction] = {}
    for candidate in material.candidates:
        if (counted := candidate.counted) is not None and not candidate.voided:
            values.setdefault(candidate.identity, counted)
            for name in (candidate.run.run, *candidate.also):
                values.setdefault(name, counted)
    return values


def _write(path: Path, report: LockReport) -> tuple[PinRecord, ...]:
    """Raise pins in the file, and say which those are; what stands behind a link is written, and keeps its mode."""
    from k3_ledger.cli.files import replace_file
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.rescore.rewriting import rewrite_pins

    rising = {row.pin.slot: row.proposal for row in report.rows if row.proposal is not None and not row.pin.entry}
    updates = {slot: pin for slot, pin in rising.items() if pin.source is not None}
    for slot, pin in rising.items():
        if slot not in updates:
            value = _value(pin.value)
            say(f"note: {slot} is not raised: no receipt holds {value}, and a pin names its source", err=True)
    if not updates:
        return ()
    rewritten = rewrite_pins(read_small(path), updates, source=str(path))
    if rewritten.raised:
        replace_file(path, rewritten.data)
    return rewritten.raised


def _print(report: LockReport, written: Sequence[PinRecord]) -> None:
    from k3_ledger.cli.tables import print_table
    from k3_ledger.rescore.exact import format_percent

    if report.rows:
        print_table(
            ("slot", "pin", "measured", "drift %", "unexplained %", "decision", "predates"),
            [_cells(row) for row in report.rows],
            right=(1, 2, 3, 4),
        )
    else:
        say("no pins")
        say("nothing was compared: there is no pin entry that stands, and --pins names no value")
    for finding in report.findings:
        say()
        say(f"{finding.severity}: {finding.message} [{finding.code.id}]")
        say(f"  at {finding.position}")
        say(f"  hint: {finding.advice}")
    stale = sum(row.drift.decision == "stale" for row in report.rows)
    explained = sum(row.explained for row in report.rows)
    if not report.rows and not report.findings:
        return
    say()
    say(
        f"{len(report.rows)} pins, {stale} more than {format_percent(report.threshold, 0)} % behind, "
        f"{explained} of them explained; {len(report.errors)} errors"
    )
    for pin in written:
        say(f"raised {pin.slot} to {_value(pin.value)}")


def _cells(row: Row) -> tuple[str, ...]:
    from k3_ledger.rescore.exact import format_percent

    decision = f"{row.drift.decision}, explained" if row.explained else row.drift.decision
    return (
        row.pin.slot,
        _value(row.pin.value),
        "-" if row.measured is None else _value(row.measured.value),
        "-" if row.drift.drift is None else format_percent(row.drift.drift),
        "-" if row.drift.unexplained is None else format_percent(row.drift.unexplained),
        decision,
        _since(row) or "0",
    )


def _since(row: Row) -> str:
    """What a pin is older than; empty where nothing that is known of is younger."""
    counts = (("accepted", row.accepted), ("merged", row.merged))
    return ", ".join(f"{count} {what}" for what, count in counts if count)


def _value(value: Fraction) -> str:
    from k3_ledger.rescore.exact import format_exact

    return format_exact(value)


def _document(report: LockReport, written: Sequence[PinRecord]) -> dict[str, Any]:
    return {
        "threshold": _value(report.threshold),
        "pins": [
            {
                "slot": row.pin.slot,
                "pin": _value(row.pin.value),
                "source": row.pin.source,
                "entry": row.pin.entry,
                "measured": None if row.measured is None else _value(row.measured.value),
                "receipt": None if row.measured is None else row.measured.receipt,
                "drift": None if row.drift.drift is None else _value(row.drift.drift),
                "unexplained": None if row.drift.unexplained is None else _value(row.drift.unexplained),
                "decision": row.drift.decision,
                "explained": row.explained,
                "winner": None if row.drift.winner is None else row.drift.winner.label,
                "predates": {"accepted": row.accepted, "merged": row.merged},
                "proposal": None if row.proposal is None else _value(row.proposal.value),
            }
            for row in report.rows
        ],
        "written": [pin.slot for pin in written],
        "findings": [finding.as_dict() for finding in report.findings],
    }
