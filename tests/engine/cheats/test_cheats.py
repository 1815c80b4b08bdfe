"""Each liar is refused with its finding; the honest twin of the same program passes."""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.runner import channel, telling
from k3_ledger.engine.runner import session as session_module
from k3_ledger.engine.runner.bounds import Tolerance
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.session import Session, Task
from k3_ledger.schemas.errors import LedgerError, RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Severity
from tests.engine.cheats import liars
from tests.engine.cheats.virtual import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLAN = Plan(
    context=64,
    decode_tokens=32,
    repetitions=5,
    most_repetitions=8,
    warmup=0,
    most_extra=400,
    shortest_ns=20_000_000,
    signal_to_jitter=4,
    longest_s=5,
)
VIRTUAL = replace(PLAN, most_repetitions=25, longest_s=1e9)
"""For a machine whose clock is its own, which no second of this one ends; as many rounds as a run may have."""
CERTAIN = replace(
    PLAN, repetitions=3, most_repetitions=3, warmup=1, decode_tokens=16, shortest_ns=5_000_000, most_extra=100, seed=7
)
"""For real processes: lies that no clock is needed for, or that no load makes smaller. One that lies about longer runs
has seen both lengths when the first walk counts."""
TIMED = {Code.RUN_SELF_REPORT, Code.RUN_MARGIN, Code.RUN_MARGINAL, Code.RUN_LEFT_OVER}
LIARS: dict[str, set[Code]] = {
    "ClaimsTinyTimes": {Code.RUN_SELF_REPORT},
    "ClaimsHalf": {Code.RUN_SELF_REPORT},
    "ClaimsMoreThanTheClock": {Code.RUN_SELF_REPORT},
    "ClaimsLessForTheLongRunOnly": {Code.RUN_SELF_REPORT},
    "PatchesTheClock": {Code.RUN_SELF_REPORT},
    "SlowPingsWidenNothing": {Code.RUN_SELF_REPORT},
    "IdlesThenClaimsLess": {Code.RUN_SELF_REPORT},
    "WorksTwiceClaimsOnce": {Code.RUN_SELF_REPORT},
    "AlwaysDoesTheLongRun": {Code.RUN_MARGIN, Code.RUN_MARGINAL, Code.RUN_LEFT_OVER},
    "DecodesEightAndRepeats": {Code.RUN_OUTPUT},
    "ReadsTheEndOfThePrompt": {Code.RUN_OUTPUT},
    "RemembersByMiddle": {Code.RUN_OUTPUT},
    "RemembersByLength": {Code.RUN_OUTPUT},
    "RemembersByAddress": {Code.RUN_OUTPUT},
    "KnowsTheBenchmarksLength": {Code.RUN_OUTPUT},
    "RightOnlyWhenWatched": {Code.RUN_OUTPUT},
    "NearlyRightWhenTimed": {Code.RUN_OUTPUT},
    "GuessesOneInTen": {Code.RUN_OUTPUT},
    "SkipsOneWalkInFour": {Code.RUN_OUTPUT},
    "DecodesAhead": {Code.RUN_OUTPUT},
    "PutsPrefillOff": {Code.RUN_LEFT_OVER},
    "WorksOnAnotherThread": {Code.RUN_LEFT_OVER, Code.RUN_MARGINAL, Code.RUN_SELF_REPORT},
    "OneTokenShort": {Code.RUN_OUTPUT},
    "TokensThatAreNone": {Code.RUN_OUTPUT},
    "NanLogprobs": {Code.RUN_OUTPUT},
    "FlatLogits": {Code.PARITY_FLAT},
    "NanLogits": {Code.PARITY_NOT_FINITE},
    "OnlyTheTopTen": {Code.PARITY_NOT_FINITE},
    "FillsTheTail": {Code.PARITY_TRUNCATED},
    "FillsTheTailWithItsBest": {Code.PARITY_TRUNCATED},
    "FillsTheTailFarBelow": {Code.PARITY_TRUNCATED},
    "FillsTheTailWithALargeNumber": {Code.PARITY_TRUNCATED},
    "FillsTheTailWithTheLeastHalf": {Code.PARITY_TRUNCATED},
    "HiddenTemperature": {Code.PARITY_PROCESSED},
    "DeclaresProcessing": {Code.PARITY_PROCESSED},
    "FewerColumns": {Code.RUN_PROTOCOL},
    "LinksToAnotherFile": {Code.RUN_PROTOCOL},
    "HandsOverAPipe": {Code.RUN_PROTOCOL},
    "FloodsStdout": {Code.RUN_PROTOCOL},
    "FloodsStderr": {Code.RUN_ENGINE_FAILED},
    "SpeaksFirst": {Code.RUN_PROTOCOL},
    "AnswersSomethingElse": {Code.RUN_PROTOCOL},
    "SaysNoJson": {Code.RUN_PROTOCOL},
    "SaysAList": {Code.RUN_PROTOCOL},
    "Dies": {Code.RUN_ENGINE_FAILED},
    "NeverStarts": {Code.RUN_ENGINE_FAILED},
    "RefusesWithControlCharacters": {Code.RUN_ENGINE_FAILED},
    "Hangs": {Code.RUN_TIMEOUT},
    "ClosesItsOutput": {Code.RUN_ENGINE_FAILED, Code.RUN_TIMEOUT},
    "HasAnUnprintableName": {Code.RUN_PROTOCOL},
    "HasAnUnprintableVersion": {Code.RUN_PROTOCOL},
    "HasABlankVersion": {Code.RUN_PROTOCOL},
    "HasAnotherVocabulary": {Code.RUN_PROTOCOL},
    "TimesItselfInSeconds": {Code.RUN_PROTOCOL},
    "HasNegativeTimes": {Code.RUN_PROTOCOL},
    "RunsInterpretedKernels": {Code.RUN_INTERPRETED},
    "NamesNoKernels": {Code.RUN_PROTOCOL},
    "DiesOverKernels": {Code.RUN_ENGINE_FAILED},
    "UsesNegativeMemory": {Code.RUN_PROTOCOL},
    "HasOneAcceleratorTwice": {Code.RUN_PROTOCOL},
    "HasMoreAcceleratorsThanAReceiptHolds": {Code.RUN_PROTOCOL},
    "PutsOutATokenThatIsNone": {Code.RUN_OUTPUT},
    "PutsOutANegativeToken": {Code.RUN_OUTPUT},
    "GoesOnWithAnEndlessToken": {Code.RUN_OUTPUT},
}
CLOCKED = {name: codes for name, codes in LIARS.items() if codes & TIMED}
"""Liars that times alone betray."""
REAL = {name: codes for name, codes in LIARS.items() if not codes & {Code.RUN_MARGIN, Code.RUN_LEFT_OVER}}
"""Liars that are refused as real processes too, whatever else the machine does."""
WIDENERS = {
    "WidensNothing",
    "WidensByPings",
    "WidensByLatePings",
    "WidensByEarlyPings",
    "WidensByEveryOtherPing",
    "PutsPrefillOffBehindSlowPings",
    "RaisesTheTopWhenGraded",
    "DoesNoWork",
    "WritesManyFiles",
}
"""Those of ``test_widening``: what they gain is bounded, and some of them are not refused for it."""
FEW = {"SkipsOneWalkInTwelve", "SkipsOneLongRunInFive"}
"""Those that leave out so little that an honest engine's flips look the same: nobody is accused, and nothing gained."""
RIGHT = {"LooksUpTheLastToken"}
"""Right where a model's layers add nothing. Elsewhere parity says how wrong; and when timed they are no other."""
HELPERS = {"Engine", "Logits", "Optimised", "RoundsToBfloat16"}
QUICK = 1.0
"""Seconds that the hanging ones are given."""


class ToyReference:
    """The example's model in double precision, each prefix computed once."""

    independent = True
    name = "toy-reference"
    version = "1"

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {(): 1}

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        engine = liars.Optimised()
        known = next(at for at in range(len(ids) - count, -1, -1) if tuple(ids[:at]) in self._known)
        engine.memory = self._known[tuple(ids[:known])]
        for at in range(known, len(ids) - count):
            engine.stir(ids[at])
        rows = []
        for at in range(len(ids) - count, len(ids)):
            self._known[tuple(ids[:at])] = engine.memory
            rows.append(engine.step(ids[at]))
        self._known[tuple(ids)] = engine.memory
        return Rows(ids_digest([ids]), "raw", np.array(rows))


def task_of(plan: Plan, timeout_s: float = 60.0) -> Task:
    return Task(
        vocabulary=liars.VOCABULARY,
        usable=range(liars.VOCABULARY),
        reference=lambda _: ToyReference(),
        plan=plan,
        depths=(4, 32),
        prompts=8,
        timeout_s=timeout_s,
    )


class ForgetfulReference(ToyReference):
    """Of a model whose layers add nothing: what it says hangs on the last token alone."""

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        engine = liars.LooksUpTheLastToken()
        return Rows(ids_digest([ids]), "raw", np.array([engine.step(token) for token in ids[-count:]]))


def measure(command: list[str], folder: Path, plan: Plan, timeout_s: float = 60.0) -> tuple[Session, set[Code]]:
    session = Session(task_of(plan, timeout_s))
    try:
        findings = session.measure(command, folder)
    except LedgerError as error:
        findings = [error.finding]
    return session, {finding.code for finding in findings if finding.severity is Severity.ERROR}


def liar(name: str) -> list[str]:
    return [sys.executable, "-S", liars.__file__, name]


def test_every_liar_is_tried() -> None:
    made = {name for name, made in vars(liars).items() if isinstance(made, type) and issubclass(made, liars.Engine)}
    assert made - HELPERS == set(LIARS) | WIDENERS | FEW | RIGHT


@pytest.mark.parametrize(("name", "off"), [("Engine", 1e-5), ("RoundsToBfloat16", 0.1)])
def test_the_honest_twin_passes_for_all_that_a_busy_machine_cannot_change(
    name: str, off: float, tmp_path: Path
) -> None:
    """A real process: its times are the machine's, so what only a quiet one passes is held on the virtual clock."""
    session, refused = measure(liar(name), tmp_path, CERTAIN)
    assert refused <= TIMED
    assert session.stage == "done"
    assert session.graded is not None
    assert session.graded.max_difference < off


MACHINES = {
    "quiet": {"spread": 0.01, "held": 0.0},
    "a run in ten is held up": {"spread": 0.02, "held": 0.1},
    "busy": {"spread": 0.1, "held": 0.1},
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("machine", MACHINES)
def test_the_honest_twin_passes(machine: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(**MACHINES[machine], seed=seed).install(monkeypatch)
    session, refused = measure(liar("Engine"), tmp_path, replace(VIRTUAL, seed=seed))
    assert refused == set()
    assert session.stage == "done"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_graded_is_no_part_of_what_was_timed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is the beginning of the other, nor stands within it: timing shows nothing of the prompts of parity."""
    Machine(**MACHINES["quiet"], seed=seed).install(monkeypatch)
    session, _ = measure(liar("Engine"), tmp_path, replace(VIRTUAL, seed=seed))
    assert session.found is not None
    assert session.graded is not None
    found = session.found
    walks = [*found.pilots, *found.walks, *(walk for one in found.warmups + found.shorter for walk in one.values())]
    timed = {f",{','.join(map(str, walk.prompt))}," for walk in walks}
    graded = {f",{','.join(map(str, ids))}," for ids in session.graded.prompts}
    assert len(timed) >= 20
    assert len(graded) == 8
    assert not [1 for one in timed for other in graded if one in other or other in one]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CLOCKED)
def test_the_liar_is_refused_by_times_alone_on_any_machine(
    name: str, machine: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(**MACHINES[machine], seed=seed).install(monkeypatch)
    _, refused = measure(liar(name), tmp_path, replace(VIRTUAL, seed=seed))
    assert refused & LIARS[name]


@pytest.mark.parametrize(("name", "codes"), REAL.items(), ids=REAL)
def test_the_liar_is_refused(name: str, codes: set[Code], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_QUIT_SECONDS", 0.2)  # how long one that hangs is given to end by itself
    plan, timeout = (
        PLAN if name.startswith("Skips") else CERTAIN,
        QUICK if Code.RUN_TIMEOUT in codes else 60.0,
    )
    _, refused = measure(liar(name), tmp_path, plan, timeout)
    assert refused & codes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", sorted(FEW))
def test_walks_left_out_in_fewer_than_half_of_the_rounds_gain_no_more_than_the_fastest_that_was_not(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(**MACHINES["quiet"], seed=seed).install(monkeypatch)
    session, refused = measure(liar(name), tmp_path, replace(VIRTUAL, seed=seed))
    assert refused <= TIMED | {Code.RUN_OUTPUT}
    assert session.found is not None
    assert session.looked is not None
    assert session.looked.counts["decode"][1] > 0, "it did leave something out"
    assert session.looked.tied
    rates = [one.count / one.outer_ns for one in session.found.claimed("decode")]
    honest = [one for one in rates if one < 2 * min(rates)]
    assert 2 * len(honest) > len(rates) >= len(honest)
    assert median(rates) <= max(honest)


def test_on_a_model_whose_layers_add_nothing_no_engine_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a table by the last token is as right as an engine that runs every layer: it would be a good run."""
    Machine(**MACHINES["quiet"], seed=1).install(monkeypatch)
    task = replace(task_of(replace(VIRTUAL, seed=1)), reference=lambda _: ForgetfulReference())
    session = Session(task)
    with pytest.raises(RunError) as refused:
        session.measure(liar("LooksUpTheLastToken"), tmp_path)
    assert refused.value.code is Code.RUN_DEGENERATE
    assert (session.found, session.name) == (None, "unknown-engine"), "it was not started"
    monkeypatch.setattr(telling.Told, "findings", lambda *_: iter(()))
    believed = Session(task)
    findings = believed.measure(liar("LooksUpTheLastToken"), tmp_path)
    assert [one for one in findings if one.severity is Severity.ERROR] == []
    assert believed.graded is not None
    assert believed.graded.max_difference < 1e-5


def test_what_is_told_from_none_is_asked_again_by_what_outputs_may_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine's own record can make that more than is known before it was graded."""
    Machine(**MACHINES["quiet"], seed=1).install(monkeypatch)
    little = telling.Told({"nothing": (0.03,) * 16})
    monkeypatch.setattr(session_module, "tell", lambda *_: little)
    for tied, refused in ((0.02, []), (0.05, [Code.RUN_DEGENERATE])):
        monkeypatch.setattr(session_module, "tolerance", lambda *_, tied=tied, **__: Tolerance(tied, 1.0))
        folder = tmp_path / str(tied)
        folder.mkdir()
        findings = Session(task_of(replace(VIRTUAL, seed=1))).measure(liar("Engine"), folder)
        assert [one.code for one in findings if one.severity is Severity.ERROR] == refused


@pytest.mark.parametrize(
    ("experts", "says", "kept"),
    [
        (16, (16, 12), True),
        (None, (16, 12), True),
        (16, (896, 896), False),
        (16, (16, 17), False),
    ],
)
def test_a_spread_over_other_experts_than_the_file_has_is_not_kept(
    experts: int | None, says: tuple[int, int], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: liars.Engine, request: liars.Json) -> liars.Json:
        if request["op"] == "spread":
            return {"load": {"experts": says[0], "distinct": says[1], "max_load": 9, "tokens": 512}}
        return plain(self, request)

    plain = liars.Engine.answer
    Machine(**MACHINES["quiet"], seed=1).install(monkeypatch)
    monkeypatch.setattr(liars.Engine, "answer", answer)
    session = Session(replace(task_of(replace(VIRTUAL, seed=1)), experts=experts))
    session.measure(liar("Engine"), tmp_path)
    assert (session.load is not None) == kept
