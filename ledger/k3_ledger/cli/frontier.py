"""``k3-ledger frontier``: the frontier of every track, as text in the terminal and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.files import check_free
from k3_ledger.cli.material import CORES, ProcessesOption, SourceArgument, load_material, note_unread
from k3_ledger.cli.options import JsonOption, ReplaceOption, print_json
from k3_ledger.cli.tables import say
from k3_ledger.cli.trusting import ExpectHeadOption, RequireOption, RootKeyOption, TrustOption, believe

if TYPE_CHECKING:
    from k3_ledger.rescore.frontier import Climb

BAR = 50
"""Characters of the longest bar."""
PICTURES = (".svg", ".png")

HELP = """Derive the frontier of every track from receipts, and draw its climb against the other engine.

Only receipts that were neither refused, refuted or left unproved by their clock, nor superseded move a frontier, and
of what a model does no unjudged candidate without a clock that proves it, whose context was not filled, or whose
agreement was not graded in full. Of a claim counts what its clock bears out. What was measured on other weights under
one name is another frontier, and that is said. --picture writes the same climbs as SVG or PNG (needs the extra
k3-ledger[report]).
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("frontier", help=HELP)(frontier)


def frontier(
    source: SourceArgument,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write the climbs to this .svg or .png file.")] = None,
    replace: ReplaceOption = False,
    trust: TrustOption = None,
    root_key: RootKeyOption = None,
    require: RequireOption = None,
    expect_head: ExpectHeadOption = None,
    processes: ProcessesOption = CORES,
    as_json: JsonOption = False,
) -> None:
    """Show frontiers."""
    from k3_ledger.rescore.frontier import derive_climbs, list_metrics

    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"a picture is a file ending in {' or '.join(PICTURES)}", param_hint="--picture")
    if picture is not None:
        check_free(picture, replace=replace, reads=(source,), option="--picture")
    trusted = believe(trust, root_key, require, expect_head, subject=source)
    material = load_material(source, processes, trusted)[0]
    if metric is not None and metric not in (known := list_metrics(material)):
        there = f"there are {', '.join(known)}" if known else "there is none"
        raise typer.BadParameter(f"nothing measures {metric}; {there}", param_hint="--metric")
    climbs = derive_climbs(material, metric=metric)
    if as_json:
        print_json(
            [
                {**_document(climb), "audit_errors": material.audit_errors, "not_shown": material.unshown}
                for climb in climbs
            ]
        )
    elif not climbs:
        say("no receipt measures anything" if metric is None else f"no receipt measures {metric}")
    else:
        for number, climb in enumerate(climbs):
            if number:
                say()
            _print(climb)
        if any(item.time for climb in climbs for item in climb.steps):
            say("note: times are claimed by whom the receipts are from", err=True)
    if picture is not None:
        from k3_ledger.cli.picture import draw

        draw(climbs, picture, replace=replace)
        say(f"{picture}: {len(climbs)} climbs", err=True)
    raise typer.Exit(note_unread(material, 0))


def _print(climb: Climb) -> None:
    from k3_ledger.rescore.exact import format_rounded

    steps = f"{len(climb.steps)} step{'s' if len(climb.steps) != 1 else ''} in {climb.attempts} receipts"
    say(f"{climb.label}: {format_rounded(climb.value, 2)}, {steps}")
    most = max(climb.value, climb.reference.value) if climb.reference else climb.value
    width = max(len(format_rounded(item.value, 2)) for item in climb.steps)
    for item in climb.steps:
        when = item.time.strftime("%Y-%m-%d %H:%M") if item.time else "-"
        bar = "#" * max(1, int(item.value / most * BAR))
        say(f"  {when:<16}  {format_rounded(item.value, 2):>{width}}  {bar}  {item.says}")
    if climb.reference is not None and climb.multiple is not None:
        at = int(climb.reference.value / most * BAR)
        value = format_rounded(climb.reference.value, 2)
        say(f"  {'reference':<16}  {value:>{width}}  {'-' * (at - 1)}|  {climb.reference.says}")
        say(f"  {format_rounded(climb.multiple, 2)} times the reference")


def _document(climb: Climb) -> dict[str, Any]:
    from k3_ledger.rescore.exact import format_exact

    return {
        "track": str(climb.track),
        "weights": climb.weights,
        "weights_under_name": climb.namesakes,
        "frontier": format_exact(climb.value),
        "attempts": climb.attempts,
        "steps": [
            {
                "value": format_exact(item.value),
                "claimed_time": item.time.isoformat() if item.time else None,
                "receipt": item.receipt,
                "index": item.index,
                "pull_request": item.pull_request,
            }
            for item in climb.steps
        ],
        "reference": None
        if climb.reference is None
        else {
            "value": format_exact(climb.reference.value),
            "receipt": climb.reference.receipt,
            "says": climb.reference.says,
        },
    }
