"""Attacks with the judge's key: verdicts that do not follow, pins that nobody measured, names that lead elsewhere."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.verify.log import verify_log
from k3_ledger.verify.source import MemorySource
from tests.attacks.registry import attack
from tests.attacks.world import HOUSE, Outcome, World, artifact, entry, identity
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, key_body
from tests.rescore.receipts import DECODE, pin_body, receipt
from tests.rescore.test_replay import rule_body

if TYPE_CHECKING:
    from tests.attacks.world import LogTrial


def _said(world: World, kind: str, body: dict[str, Any]) -> LogTrial:
    """One more entry by the judge."""
    world = world.copy()
    world.ledger.add(kind, body, JUDGE)
    return world.sealed()


def _verdict(world: World, **changes: Any) -> dict[str, Any]:
    """The honest verdict with something changed."""
    found: dict[str, Any] = entry(world.lines[world.at["verdict"]])["body"] | changes
    return found


def _judged(world: World, **options: Any) -> dict[str, Any]:
    """What the house rule says of the candidate under other circumstances."""
    candidates = gather(verify_log(MemorySource(world.ledger.data))).candidates
    unjudged = [dataclasses.replace(candidates[0], verdicts=[])]
    body: dict[str, Any]
    (body,) = new_verdicts(rescore(unjudged, options.pop("rule", HOUSE), **options))
    return body


def _forged(world: World, value: int) -> dict[str, Any]:
    """A verdict that follows from a frontier that nobody measured, said to be the round's receipt."""
    track = gather(verify_log(MemorySource(world.ledger.data))).candidates[0].run.track
    body = _judged(world, pins=[PinRecord("frontier", track, Fraction(value), "tok/s")])
    for pin in body["pins"]:
        pin["source"] = "receipt" if pin["source"] == "file" else pin["source"]
    return body


@attack
def give_a_run_another_tier(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, tier="L"))


@attack
def leave_a_step_of_a_verdict_out(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, steps=_verdict(world)["steps"][1:]))


@attack
def say_that_a_gate_could_not_be_checked(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, not_checked=["clock"]))


@attack
def judge_against_a_frontier_that_nobody_measured(world: World) -> LogTrial:
    """A weak frontier makes every gain large."""
    return _said(world, "verdict", _forged(world, 30))


@attack
def judge_an_old_run_by_todays_pin(world: World) -> LogTrial:
    """The reference value of today for a run of then."""
    world = world.copy()
    slow = world.ledger.add("run", receipt(20.0, 300.0, role="reference"), RUNNER)
    world.ledger.add("pin", pin_body(f"reference:{DECODE}", "20", slow), JUDGE)
    body = _verdict(world)
    for pin in body["pins"]:
        if pin["slot"].startswith("reference:"):
            pin |= {"value": "20", "source": "pin", "entry": slow}
    body["steps"] = [dict(step, value="20") if step["name"] == "reference" else step for step in body["steps"]]
    return _said(world, "verdict", body)


@attack
def put_a_verdict_on_another_run(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, target=world.identity("run")))


@attack
def put_a_verdict_on_what_is_no_run(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, target=world.identity("note")))


@attack
def judge_an_entry_that_is_not_there(world: World) -> LogTrial:
    return _said(world, "verdict", _verdict(world, target="e" * 64))


@attack
def judge_by_a_rule_that_nobody_published(world: World) -> LogTrial:
    """Nobody can derive it again; it is counted as not checked, and never called ok."""
    return _said(world, "verdict", _verdict(world, rule="kind-1.decode", rule_sha256="9" * 64))


@attack
def judge_by_a_rule_that_nobody_published_under_a_known_name(world: World) -> LogTrial:
    """A file named like a shipped rule, with other bars: whoever reads the name would take the tier for that rule's."""
    return _said(world, "verdict", _verdict(world, rule_sha256="9" * 64))


@attack
def publish_a_looser_rule_under_a_known_name(world: World) -> LogTrial:
    """The verdict follows from a rule with lower bars that calls itself by the house rule's name."""
    loose = dataclasses.replace(HOUSE, tiers=dataclasses.replace(HOUSE.tiers, significance=Fraction("0.0001")))
    world = world.copy()
    world.ledger.add("rule", rule_body(loose), JUDGE)
    return _said(world, "verdict", _judged(world, rule=loose))


@attack
def call_a_verdict_by_another_rules_name(world: World) -> LogTrial:
    """The digest is that of the rule that was applied, the name that of one that readers know."""
    return _said(world, "verdict", _verdict(world, rule="v0.2.2"))


@attack
def write_a_pin_by_hand(world: World) -> LogTrial:
    return _said(world, "pin", pin_body(f"frontier:{DECODE}", "98.80", world.identity("frontier")))


@attack
def pin_what_another_slot_measured(world: World) -> LogTrial:
    body = pin_body("frontier:decode@4/k3-slice/bf16/node", "50", world.identity("frontier"))
    return _said(world, "pin", body)


@attack
def pin_what_a_pin_says(world: World) -> LogTrial:
    """Pins that vouch for each other rest on no measurement; a circle cannot even be written, for names are hashes."""
    return _said(world, "pin", pin_body(f"frontier:{DECODE}", "50", world.identity("pin")))


@attack
def pin_nothing(world: World) -> LogTrial:
    return _said(world, "pin", pin_body(f"frontier:{DECODE}", "0", world.identity("frontier")))


@attack
def supersede_the_genesis(world: World) -> LogTrial:
    body = {"target": _identity(world, 0), "reason": "void", "replacement": None}
    return _said(world, "supersede", body)


@attack
def supersede_an_enrolment(world: World) -> LogTrial:
    """Who may sign is the roots' to say: a judge cannot take a key away, or seem to."""
    return _said(world, "supersede", {"target": _identity(world, 2), "reason": "void", "replacement": None})


@attack
def put_an_entry_in_its_own_place(world: World) -> LogTrial:
    """In a log that holds nothing else to be judged: a supersession is judged by itself, or by nobody."""
    world = world.copy()
    del world.lines[world.at["pin"] :]
    name = world.identity("frontier")
    return _said(world, "supersede", {"target": name, "reason": "measured anew", "replacement": name})


@attack
def make_a_round_of_key_entries(world: World) -> LogTrial:
    body = {
        "round": "r2", "node": "node", "rule": "house-1.decode", "base_commit": "a" * 40,
        "frontier": _identity(world, 1), "runs": [_identity(world, 2)],
    }  # fmt: skip
    return _said(world, "round", body)


@attack
def merge_what_is_no_run(world: World) -> LogTrial:
    body = {
        "pull_request": 1, "commit": "a" * 40, "run": world.identity("pin"), "claimed": None,
        "slot": f"frontier:{DECODE}",
    }  # fmt: skip
    return _said(world, "merge", body)


@attack
def supersede_an_honest_run(world: World) -> LogTrial:
    body = {"target": world.identity("candidate"), "reason": "contaminated", "replacement": None}
    return _said(world, "supersede", body)


@attack
def keep_a_verdict_on_a_run_that_was_taken_back(world: World) -> LogTrial:
    """The judge was honest and the runner's key was stolen: nobody is accused, and the verdict counts for nothing."""
    world = world.copy()
    body = key_body(RUNNER, "runner", "revoke", revoked_from=world.at["candidate"])
    world.ledger.add("key", body, ROOT)
    return world.sealed()


@attack
def keep_a_pin_on_a_run_that_was_taken_back(world: World) -> LogTrial:
    world = world.copy()
    body = key_body(RUNNER, "runner", "revoke", revoked_from=world.at["frontier"])
    world.ledger.add("key", body, ROOT)
    return world.sealed()


@attack
def import_under_the_name_of_a_native_run(world: World) -> LogTrial:
    """The foreign id is text: an import is known by its own identity, so the native run keeps its verdict."""
    world = world.copy()
    original = b'{"tps":999}'
    found = artifact(original, f"runs/{world.identity('candidate')}/result.json")
    body = {
        "format": "polaris/1", "foreign_id": world.identity("candidate"), "original_sha256": found["sha256"],
        "attestation": "none", "fields": [{"name": "result.tps", "value": "999"}], "findings": [], "artifacts": [found],
    }  # fmt: skip
    world.ledger.add("import", body, LOG)
    return world.sealed(artifacts={**world.artifacts, found["sha256"]: original})


def _imported(world: World, **changes: object) -> LogTrial:
    """An import by the log, with its original stored."""
    world, original = world.copy(), b'{"tps": 41.39}'
    found = artifact(original, "receipt.json")
    body = {
        "format": "polaris/1", "foreign_id": "70e6a00a", "original_sha256": found["sha256"], "attestation": "none",
        "fields": [], "findings": [], "artifacts": [found], **changes,
    }  # fmt: skip
    world.ledger.add("import", body, LOG)
    return world.sealed(artifacts={**world.artifacts, found["sha256"]: original})


@attack
def import_without_the_original(world: World) -> LogTrial:
    return _imported(world, original_sha256="e" * 64)


@attack
def import_figures_that_the_original_does_not_hold(world: World) -> LogTrial:
    return _imported(world, fields=[{"name": "result.tps", "value": "999"}])


@attack
def state_a_pin_twice(world: World) -> LogTrial:
    """Two values for one slot: a reader shows the first, and the check would take the last."""
    body = _verdict(world)
    forged = dict(body["pins"][0], value="30")
    return _said(world, "verdict", body | {"pins": [forged, *body["pins"]]})


@attack
def measure_the_frontier_slowly(world: World) -> LogTrial:
    """A frontier build that was held back in its own round makes every candidate's gain large."""
    world = world.copy()
    world.ledger.add("run", receipt(20.0, 450.0, role="frontier", round_="r2"), RUNNER)
    world.ledger.add("run", receipt(49.0, 450.0, round_="r2"), RUNNER)
    return world.sealed()


@attack
def measure_a_lighter_file_under_the_models_name(world: World) -> LogTrial:
    """Half of the layers are twice the speed, and agree with whatever engine reads the same file."""
    world = world.copy()
    light = receipt(120.0, 900.0)
    light["model"] = {**light["model"], "sha256": "f" * 64}
    world.ledger.add("run", light, RUNNER)
    return world.sealed()


@attack
def add_a_run_of_the_same_bundle_again(world: World) -> LogTrial:
    """One measurement counted as two receipts, each with a good signature."""
    world = world.copy()
    world.ledger.add("run", entry(world.lines[world.at["candidate"]])["body"], RUNNER)
    return world.sealed()


def _identity(world: World, index: int) -> str:
    return identity(world.lines[index])


def _built_from(commit: str) -> dict[str, Any]:
    """A frontier run of a build of one commit."""
    body = receipt(50.0, 450.0, role="frontier", round_="r2")
    tree = {"commit": commit, "dirty": False, "patch_sha256": None, "clean_builds": 1}
    return {**body, "subject": {**body["subject"], "source": tree}}


def _stamped(world: World, commit: str) -> LogTrial:
    """A pin of what a build measured, under a commit."""
    world = world.copy()
    source = world.ledger.add("run", _built_from("a" * 40), RUNNER)
    return _said(world, "pin", {**pin_body(f"frontier:{DECODE}", "50", source), "commit": commit})


@attack
def pin_under_a_commit_that_nobody_measured(world: World) -> LogTrial:
    return _stamped(world, "b" * 40)


@attack
def pin_under_the_commit_that_was_measured(world: World) -> LogTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    return _stamped(world, "a" * 40)


@dataclasses.dataclass
class LockTrial:
    """A file of pins that states when the round's frontier was measured, held against the ledger.

    Attributes:
        late: how many seconds late that is.
    """

    world: World
    late: int

    def run(self) -> Outcome:
        """Reconcile it as the command does."""
        material = gather(verify_log(MemorySource(self.world.ledger.data)))
        pinned = next(pin for pin in material.pin_entries if pin.slot == f"frontier:{DECODE}")
        measured = next(item for item in material.measurements if item.receipt == pinned.source)
        assert measured.time is not None
        time = measured.time + timedelta(seconds=self.late)
        line = dataclasses.replace(pinned, entry=False, identity=None, time=time)
        errors = reconcile_lock([line], material.measurements).errors
        exits = {int(error.code.info.exit) for error in errors}
        return Outcome(frozenset(error.code.id for error in errors), max(exits, default=0))


@attack
def date_a_pin_later_than_it_was_measured(world: World) -> LockTrial:
    """Whoever reads the file takes an old value for today's."""
    return LockTrial(world, 86_400)


@attack
def date_a_pin_as_it_was_measured(world: World) -> LockTrial:
    """No attack: what is checked above would otherwise be refused whatever it says."""
    return LockTrial(world, 0)
