"""Attacks on what a receipt says, by who measures and seals: its signature is good, and it contradicts itself."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from k3_ledger.verify.policy import TrustPolicy
from tests.attacks.registry import attack
from tests.attacks.world import World, entry
from tests.ledgers import JUDGE, ORIGIN, ROOT, RUNNER
from tests.rescore.receipts import DECODE, pin_body, receipt
from tests.rescore.test_pairs import body, lengths, padded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.attacks.world import LogTrial


def _run(world: World, change: Callable[[dict[str, Any]], object], *, seal: bool = True) -> LogTrial:
    """One more receipt, with something changed before it was sealed, or after."""
    world = world.copy()
    body = copy.deepcopy(entry(world.lines[world.at["candidate"]])["body"])
    change(body)
    world.ledger.add("run", body, RUNNER, seal=seal)
    return world.sealed()


@attack
def add_depths_after_sealing(world: World) -> LogTrial:
    """Parity that was not in the sealed bundle: the digest is that of the bundle without it."""
    return _run(world, lambda body: body["parity"]["depths"].pop(), seal=False)


@attack
def change_a_time_after_sealing(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["timing"][0]["samples"][-1]["duration_ns"] += 1

    return _run(world, change, seal=False)


@attack
def run_the_clock_backwards(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["timing"][0]["samples"][1]["start_ns"] = 0

    return _run(world, change)


@attack
def list_one_repetition_as_seven_series(world: World) -> LogTrial:
    """One load of each length, as often as a rule asks for: no two differ, so the clock has no jitter."""

    def change(body: dict[str, Any]) -> None:
        shortest = [{**one, "samples": one["samples"][:1]} for one in body["timing"]]
        body["timing"] = [copy.deepcopy(one) for _ in range(7) for one in shortest]

    return _run(world, change)


@attack
def do_more_than_a_token_a_nanosecond(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["timing"][0]["samples"][0]["duration_ns"] = 1

    return _run(world, change)


@attack
def fill_more_context_than_there_is(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["timing"][0]["context_filled"] = body["timing"][0]["context"] + 1

    return _run(world, change)


@attack
def grade_one_depth_twice(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["parity"]["depths"][1]["depth"] = body["parity"]["depths"][0]["depth"]

    return _run(world, change)


@attack
def report_a_divergence_below_zero(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["parity"]["depths"][0]["kl_max"] = "-0.001"

    return _run(world, change)


@attack
def report_a_mean_above_the_maximum(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["parity"]["depths"][0]["kl_mean"] = "0.9"

    return _run(world, change)


@attack
def agree_on_more_rows_than_were_compared(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        depth = body["parity"]["depths"][0]
        depth["top1_agree"] = depth["rows"] + 1

    return _run(world, change)


@attack
def write_infinity_for_a_divergence(world: World) -> LogTrial:
    def change(body: dict[str, Any]) -> None:
        body["parity"]["depths"][0]["kl_max"] = "NaN"

    return _run(world, change)


@attack
def call_a_run_attested(world: World) -> LogTrial:
    """A word in the document picks no check: without a quote there is nothing that could pass."""
    trial = _run(world, lambda body: body.update(tee={**body["tee"], "kind": "tdx"}))
    trial.policy = TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"attestations"}))
    return trial


@attack
def report_a_false_speed_that_fits_together(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("run", receipt(600.0, 5000.0, round_=None), RUNNER)
    return world.sealed()


@attack
def seal_only_the_runs_that_came_out_well(world: World) -> LogTrial:
    """Omission before sealing leaves no trace in what was sealed."""
    world = world.copy()
    del world.lines[world.at["run"] :]
    return world.sealed()


def _clocked(world: World, clock: dict[str, Any]) -> LogTrial:
    """A build in front that says it does 80 tokens a second, seen by a clock of three lengths, and a pin of that."""
    world = world.copy()
    source = world.ledger.add("run", body(80.0, clock) | {"role": "frontier", "round": "r2"}, RUNNER)
    world.ledger.add("pin", pin_body(f"frontier:{DECODE}", "80", source), JUDGE)
    return world.sealed()


@attack
def pad_the_clock_with_a_length_that_agrees(world: World) -> LogTrial:
    """It does 50: loading is made longer for the shortest runs, so that they and the longest ones say 80."""
    return _clocked(world, padded(80.0, 50.0, (32, 2080)))


@attack
def read_the_clock_over_three_lengths_that_agree(world: World) -> LogTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    return _clocked(world, lengths(80.0, (1, 32, 2080)))
