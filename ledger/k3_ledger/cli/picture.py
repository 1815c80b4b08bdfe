"""Draws climbs as SVG or PNG. Needs matplotlib (the extra ``report``); loaded by no other command.

Figures are drawn as doubles: a picture is for looking at, and nothing is ever computed from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.cli.files import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from k3_ledger.rescore.frontier import Climb


def draw(climbs: Sequence[Climb], path: Path, *, replace: bool) -> None:
    """Write one panel for each climb, the other engine as a dashed line. The file appears whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    import matplotlib as mpl

    # Text as text and no date inside: the same climbs give the same file.
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "k3-ledger"
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2 * max(len(climbs), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    for number, climb in enumerate(climbs, start=1):
        axes = figure.add_subplot(len(climbs), 1, number)
        places = list(range(1, len(climb.steps) + 1))
        axes.step(places, [float(item.value) for item in climb.steps], where="post", marker="o", label="frontier")
        if climb.reference is not None:
            axes.axhline(float(climb.reference.value), linestyle="--", color="tab:gray", label=climb.reference.says)
        axes.set_ylim(bottom=0)
        axes.set_title(climb.label, fontsize=9)
        axes.set_ylabel("units/s")
        axes.set_xticks(places, [_name(climb, place) for place in places], rotation=60, fontsize=7)
        axes.legend(loc="upper left", fontsize=7)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    with new_file(path, replace=replace, option="--picture") as file:
        figure.savefig(file, format=path.suffix[1:].lower(), metadata=metadata)


def _name(climb: Climb, place: int) -> str:
    item = climb.steps[place - 1]
    return f"#{item.pull_request}" if item.pull_request is not None else (item.receipt or "")[:8]
