"""The frontier of each track: what moves it, what does not, and how it is shown."""

from __future__ import annotations

import builtins
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore import frontier
from k3_ledger.rescore.claims.evidence import Evidence
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.replay import gather
from tests.ledgers import JUDGE, RUNNER
from tests.rescore.receipts import house_ledger, receipt, series, verified
from tests.rescore.test_sweep import HOUSE, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done


def test_only_faster_accepted_receipts_move_the_frontier() -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(55.0), RUNNER)
    best = builder.add("run", receipt(70.0), RUNNER)
    bad = builder.add("run", receipt(99.0), RUNNER)
    builder.add("supersede", {"target": bad, "reason": "reused build directory", "replacement": None}, JUDGE)
    decode, prefill = derive_climbs(gather(verified(builder)))
    assert [item.receipt for item in decode.steps] == [names["frontier"], names["candidate"], best]
    assert (decode.value, decode.attempts, decode.multiple) == (70, 4, Fraction(7, 4))
    assert decode.reference is not None
    assert decode.reference.receipt == names["reference"]
    assert prefill.track.short == "prefill@32768"
    assert [climb.track.metric for climb in derive_climbs(gather(verified(builder)), metric="prefill")] == ["prefill"]


def test_what_is_noted_beside_a_run_has_no_frontier() -> None:
    builder, _ = house_ledger()
    noted = [series(metric, "controller", [(1, 4)], context=None) for metric in ("load", "ping")]  # type: ignore[arg-type]
    body = receipt(71.0)
    builder.add("run", {**body, "timing": [*noted, *body["timing"]]}, RUNNER)
    climbs = derive_climbs(gather(verified(builder)))
    assert [(climb.track.short, climb.value) for climb in climbs] == [("decode@131072", 71), ("prefill@32768", 500)]
    assert sum(same(builder, HOUSE).tiers.values()) == 4, "two metrics of two candidates"


def test_a_history_without_receipts_has_no_frontier() -> None:
    assert derive_climbs(Material("nothing")) == []


def test_a_track_without_a_reference_has_no_multiple() -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:4]
    builder.add("run", receipt(50.0), RUNNER)
    climb = derive_climbs(gather(verified(builder)))[0]
    assert (climb.reference, climb.multiple) == (None, None)


def test_the_climb_of_the_real_log(command: Callable[..., Done], test_data: Callable[..., Path]) -> None:
    done = command("frontier", test_data("data", "sparkinfer-k3-log"), "--metric", "decode")
    assert done.code == 0
    assert "decode@131072/Kimi-K3/UD-IQ1_S/h200x8: 59.90, 27 steps in 45 receipts" in done.out
    assert "receipt 446e6eb4" not in done.out  # superseded
    assert "  3.25 times the reference\n" in done.out
    document = command("frontier", test_data("data", "sparkinfer-k3-log"), "--json").json
    assert [(climb["frontier"], len(climb["steps"])) for climb in document] == [("10.28", 3), ("59.9", 27), ("69", 2)]
    assert document[1]["reference"]["value"] == "18.4435"
    assert all("time" not in step and step["claimed_time"].startswith("2026-") for step in document[1]["steps"])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    folder = tmp_path / "book"
    folder.mkdir()
    return house_ledger()[0].write(folder)


def test_bars_are_drawn_against_the_reference(command: Callable[..., Done], book: Path) -> None:
    lines = command("frontier", book, "--metric", "decode").out.splitlines()
    assert lines[0] == "decode@131072/k3-slice/bf16/node: 60.00, 2 steps in 2 receipts"
    assert [line.count("#") for line in lines[1:3]] == [41, 50]
    assert lines[3].index("|") == lines[1].index("#") + 32
    assert lines[4] == "  1.50 times the reference"
    assert command("frontier", book).out.count("\n\n") == 1


def test_nothing_to_show_is_said(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    assert command("frontier", book, "--metric", "append").code == 2
    builder, _ = house_ledger()
    builder.lines = builder.lines[:4]
    builder.write(tmp_path)
    assert command("frontier", ".").out == "no receipt measures anything\n"
    assert command("frontier", ".", "--json").json == []


@pytest.mark.parametrize("suffix", ["svg", "png", "SVG"])
def test_a_picture_is_the_same_each_time(command: Callable[..., Done], book: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one", "two"):
        done = command("frontier", book, "--picture", f"{name}.{suffix}")
        assert (done.code, f"{name}.{suffix}: 2 climbs" in done.err.splitlines()) == (0, True)
    first = (tmp_path / f"one.{suffix}").read_bytes()
    assert first == (tmp_path / f"two.{suffix}").read_bytes()
    assert first[:4] == (b"\x89PNG" if suffix == "png" else b"<?xm")
    if suffix.lower() == "svg":
        assert b"decode@131072/k3-slice/bf16/node" in first


def test_a_picture_that_cannot_be_written_leaves_nothing(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    assert command("frontier", book, "--picture", "gone/x.svg").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book"]


def test_a_picture_is_svg_or_png(command: Callable[..., Done], book: Path) -> None:
    done = command("frontier", book, "--picture", "x.jpg")
    assert done.code == 2
    assert "a picture is a file ending in .svg or .png" in done.err


def test_without_matplotlib_the_extra_is_named(
    command: Callable[..., Done], book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    done = command("frontier", book, "--picture", "x.svg")
    assert done.code == 2
    assert 'pip install "k3-ledger[report]"' in done.err


def test_a_sealed_reference_counts_before_a_newer_figure_that_no_receipt_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    track = gather(verified(house_ledger()[0])).candidates[0].run.track

    def evidence(actor: str, value: int, receipt_: str | None) -> Evidence:
        return Evidence(track, actor, Fraction(value), None, receipt_, None, accepted=True, says="said")

    sealed, loose = evidence("reference", 40, "b"), evidence("reference", 45, None)
    monkeypatch.setattr(frontier, "list_evidence", lambda _: [evidence("subject", 60, "a"), sealed, loose])
    assert [climb.reference for climb in derive_climbs(Material("two references"))] == [sealed]
    monkeypatch.setattr(frontier, "list_evidence", lambda _: [evidence("subject", 60, "a"), loose])
    assert [climb.reference for climb in derive_climbs(Material("a figure alone"))] == [loose]
