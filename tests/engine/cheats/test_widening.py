"""Whatever an engine does with what is not timed, its receipt claims no more than the clock gives it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine.runner import session as sessions
from k3_ledger.engine.runner.bounds import CEILING, COARSE
from k3_ledger.engine.runner.checks import check_observations
from k3_ledger.engine.runner.measure import observe
from k3_ledger.engine.runner.observations import METRICS, Observations
from k3_ledger.engine.runner.record import timing_of
from k3_ledger.engine.runner.session import Session
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Severity
from tests.engine.cheats import liars
from tests.engine.cheats.test_cheats import CERTAIN, MACHINES, VIRTUAL, liar, measure, task_of
from tests.engine.cheats.virtual import Machine, VirtualChannel

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.engine.runner.measure import Plan

HOUSE = replace(VIRTUAL, context=32, repetitions=7, most_repetitions=7, most_extra=64, longest_s=0, seed=1)
"""Few tokens and no growth: what is held here holds at every length."""
SEEDED = replace(VIRTUAL, seed=3)
PINGS = ("WidensNothing", "WidensByPings", "WidensByLatePings", "WidensByEarlyPings", "WidensByEveryOtherPing")
CLAIMS = (1.03, 1.075, 1.25, 1.408)
SIGNIFICANT = Fraction("1.02")
"""What a house rule takes for chance, and no more than half of which may be a lie."""


def gained(found: Observations) -> dict[str, Fraction]:
    """How many times as fast as by the clock a receipt of these says the engine was, as a rule reads it."""
    series = {(one.metric, one.observer): one.samples for one in timing_of(found, 0, HOUSE)}

    def rate(metric: str, observer: str) -> Fraction:
        samples = series[metric, observer]
        shortest = min(one.count for one in samples)
        counted = [one for one in samples if metric == "decode" or one.count == shortest]
        return median([Fraction(one.count, one.duration_ns) for one in counted])

    return {metric: rate(metric, "subject") / rate(metric, "controller") for metric in METRICS}


def timed(name: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Observations, set[Code], set[Code]]:
    """What an engine of this folder shows on a machine, the codes of what refuses it and of what is said besides."""
    made = Machine(**MACHINES[machine], seed=1)
    made.install(monkeypatch)
    found = observe(VirtualChannel(made, liar(name)), HOUSE, range(liars.VOCABULARY), liars.VOCABULARY)  # type: ignore[arg-type]
    findings = list(check_observations(found, HOUSE.signal_to_jitter))
    refused = {one.code for one in findings if one.severity is Severity.ERROR}
    return found, refused, {one.code for one in findings} - refused


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("pings", "claims"), list(itertools.product(PINGS, CLAIMS)))
def test_no_claim_gains_what_a_rule_rewards(
    pings: str, claims: float, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused, or with a receipt whose rates are those of the clock to within a hundredth."""
    monkeypatch.setattr(getattr(liars, pings), "CLAIMS", claims)
    found, refused, said = timed(pings, machine, monkeypatch)
    assert all(1 <= gain < 1 + (SIGNIFICANT - 1) * Fraction(51, 100) for gain in gained(found).values())
    assert Code.RUN_OWN_TIME_RAISED in said
    if pings == "WidensNothing" and claims > 1.05:
        assert Code.RUN_SELF_REPORT in refused


@pytest.mark.parametrize("machine", MACHINES)
def test_an_honest_engine_is_read_as_it_says(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a millisecond of pipe on 64 and more: nothing of its own times is taken otherwise."""
    found, refused, said = timed("Engine", machine, monkeypatch)
    assert refused == set()
    assert Code.RUN_OWN_TIME_RAISED not in said
    assert all(one.taken_ns == one.self_ns < one.outer_ns for metric in METRICS for one in found.claimed(metric))


@pytest.mark.parametrize("machine", MACHINES)
def test_an_honest_engine_behind_a_slow_pipe_is_read_by_the_clock(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that keeps everybody waiting: never refused for it, and its times count as the clock has them."""
    monkeypatch.setattr("tests.engine.cheats.virtual.PIPE_NS", 5_000_000)
    found, refused, said = timed("Engine", machine, monkeypatch)
    assert refused == set()
    assert Code.RUN_OWN_TIME_RAISED in said
    assert gained(found)["prefill"] == pytest.approx(1 / 0.99, rel=1e-3)


@pytest.mark.parametrize("machine", ["quiet", "a run in ten is held up"])
@pytest.mark.parametrize("name", ["PutsPrefillOff", "PutsPrefillOffBehindSlowPings"])
def test_no_pings_make_room_for_putting_prefill_off(name: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Code.RUN_LEFT_OVER in timed(name, machine, monkeypatch)[1]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(**MACHINES["quiet"], seed=1).install(monkeypatch)


def graded_by(
    name: str, folder: Path, ceiling: float = CEILING, plan: Plan = SEEDED
) -> tuple[Session, dict[Code, Finding]]:
    task = replace(task_of(plan), ceiling=ceiling, rows=8)
    session = Session(task)
    return session, {one.code: one for one in session.measure(liar(name), folder)}


def claims(session: Session) -> set[str]:
    """Metrics that a receipt of this session has times of the engine's own for."""
    assert session.found is not None
    assert session.looked is not None
    series = timing_of(session.found, 0, VIRTUAL, claims=session.looked.tied)
    return {one.metric for one in series if one.observer == "subject"}


@pytest.mark.usefixtures("quiet")
def test_a_record_made_wide_on_purpose_leaves_the_speed_untied(tmp_path: Path) -> None:
    """KL stays within what rules take, every top-1 is right, and timed walks are of another model."""
    session, said = graded_by("RaisesTheTopWhenGraded", tmp_path)
    assert session.graded is not None
    assert session.tolerance is not None
    assert float(session.graded.worst.kl_max) < 0.05
    assert all(one.top1_agree == one.rows for one in session.graded.record.depths)
    assert session.tolerance.bound > 0.3
    assert said.keys() == {Code.RUN_UNTIED}
    assert said[Code.RUN_UNTIED].severity is Severity.WARNING
    assert claims(session) == set()


@pytest.mark.usefixtures("quiet")
def test_a_coarse_engine_that_is_near_enough_when_timed_keeps_its_claim(tmp_path: Path) -> None:
    """Where the file or the type is coarse, the ceiling is; the same engine is tied to its answers below it."""
    session, said = graded_by("RaisesTheTopWhenGraded", tmp_path, COARSE)
    assert said.keys() == set()
    assert claims(session) == {"prefill", "decode"}


@pytest.mark.usefixtures("quiet")
def test_the_honest_twin_is_tied_to_its_answers(tmp_path: Path) -> None:
    session, said = graded_by("Engine", tmp_path)
    assert said == {}
    assert claims(session) == {"prefill", "decode"}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", range(8))
def test_an_engine_that_does_no_work_earns_nothing_and_is_told_so(tmp_path: Path, seed: int) -> None:
    """The reference's rows say how wide flat ones make its own bound: within it outputs are untied, beyond it wrong."""
    session, said = graded_by("DoesNoWork", tmp_path, plan=replace(VIRTUAL, seed=seed))
    assert said.keys() - {Code.PARITY_ALL_TIES} in ({Code.RUN_UNTIED}, {Code.RUN_OUTPUT})
    assert Code.PARITY_ALL_TIES in said
    assert Code.RUN_UNTIED not in said or claims(session) == set()
    assert Code.RUN_OUTPUT not in said or said[Code.RUN_OUTPUT].severity is Severity.ERROR


def test_an_engine_may_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is as large as it may be; a bound on each is none on all of them."""
    monkeypatch.setattr(sessions, "MAX_FOLDER", 3 << 20)
    session, refused = measure(liar("WritesManyFiles"), tmp_path, CERTAIN)
    assert refused == {Code.RUN_PROTOCOL}
    assert session.stage == "timing"
    monkeypatch.setattr(sessions, "MAX_FOLDER", 6 << 20)
    (tmp_path / "b").mkdir()
    assert measure(liar("WritesManyFiles"), tmp_path / "b", CERTAIN)[0].stage == "done"
