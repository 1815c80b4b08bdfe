"""Attacks on what several root keys decide together, by who holds one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.attacks.registry import attack
from tests.attacks.world import THIEF, World
from tests.ledgers import ROOT, RUNNER, Key, endorsement, key_body, run_body, threshold_body

if TYPE_CHECKING:
    from tests.attacks.world import LogTrial

BOB, CLEO = Key("bob"), Key("cleo")


def _several(world: World, threshold: int = 2) -> World:
    """The ledger with three root keys, two of which have to act together."""
    world = world.copy()
    for key in (BOB, CLEO):
        world.ledger.add("key", key_body(key, "root"), ROOT)
    world.ledger.add("threshold", threshold_body(threshold), ROOT)
    return world


def _acted(world: World, kind: str, body: dict[str, Any], signer: Key, *given: dict[str, str]) -> LogTrial:
    world.ledger.add(kind, {**body, "endorsements": list(given)}, signer)
    return world.sealed()


def _endorsed(world: World, key: Key, kind: str, body: dict[str, Any]) -> dict[str, str]:
    return endorsement(key, kind, body, world.ledger.newest_action)


@attack
def enrol_a_key_alone(world: World) -> LogTrial:
    return _acted(_several(world), "key", key_body(THIEF, "runner"), CLEO)


@attack
def lower_the_threshold_alone(world: World) -> LogTrial:
    return _acted(_several(world), "threshold", threshold_body(1), CLEO)


@attack
def revoke_the_other_roots_alone(world: World) -> LogTrial:
    return _acted(_several(world), "key", key_body(ROOT, "root", "revoke"), CLEO)


@attack
def endorse_ones_own_action(world: World) -> LogTrial:
    world, body = _several(world), key_body(THIEF, "runner")
    return _acted(world, "key", body, CLEO, _endorsed(world, CLEO, "key", body))


@attack
def have_one_root_endorse_twice(world: World) -> LogTrial:
    world, body = _several(world, 3), key_body(THIEF, "runner")
    given = _endorsed(world, BOB, "key", body)
    return _acted(world, "key", body, CLEO, given, given)


@attack
def have_a_runner_endorse(world: World) -> LogTrial:
    world, body = _several(world), key_body(THIEF, "runner")
    return _acted(world, "key", body, CLEO, _endorsed(world, RUNNER, "key", body))


@attack
def have_a_stranger_endorse(world: World) -> LogTrial:
    world, body = _several(world), key_body(THIEF, "runner")
    return _acted(world, "key", body, CLEO, _endorsed(world, THIEF, "key", body))


@attack
def put_an_endorsement_under_another_key(world: World) -> LogTrial:
    """Bob endorsed the enrolment of a runner; what is appended enrols another key."""
    world = _several(world)
    given = _endorsed(world, BOB, "key", key_body(Key("runner-2"), "runner"))
    return _acted(world, "key", key_body(THIEF, "runner"), CLEO, given)


@attack
def put_an_endorsement_under_another_role(world: World) -> LogTrial:
    world = _several(world)
    given = _endorsed(world, BOB, "key", key_body(THIEF, "runner"))
    return _acted(world, "key", key_body(THIEF, "judge"), CLEO, given)


@attack
def use_an_endorsement_given_to_another_log(world: World) -> LogTrial:
    world, body = _several(world), key_body(THIEF, "runner")
    given = endorsement(BOB, "key", body, world.ledger.newest_action, origin="example.org/staging")
    return _acted(world, "key", body, CLEO, given)


@attack
def use_an_endorsement_again(world: World) -> LogTrial:
    """Bob once endorsed a threshold of two; meanwhile three hold, and his word of then is to lower it again."""
    world, body = _several(world), threshold_body(2)
    given = _endorsed(world, BOB, "threshold", body)
    world.ledger.act("threshold", body, ROOT, BOB)
    world.ledger.act("threshold", threshold_body(3), ROOT, BOB)
    return _acted(world, "threshold", body, CLEO, given, _endorsed(world, ROOT, "threshold", body))


@attack
def use_an_endorsement_from_before_the_threshold_was_lowered_and_raised(world: World) -> LogTrial:
    world, body = _several(world), key_body(THIEF, "runner")
    given = _endorsed(world, BOB, "key", body)
    world.ledger.act("threshold", threshold_body(1), ROOT, BOB)
    world.ledger.act("threshold", threshold_body(2), ROOT)
    return _acted(world, "key", body, CLEO, given)


@attack
def use_an_endorsement_in_a_fork_behind_it(world: World) -> LogTrial:
    """Two histories part behind the newest root action: the state of the keys is one, and so is the action."""
    world, body = _several(world), key_body(Key("runner-2"), "runner")
    given = _endorsed(world, BOB, "key", body)
    world.ledger.add("run", run_body(700), RUNNER)  # in the other history, another run stands here
    return _acted(world, "key", body, CLEO, given)


@attack
def use_an_endorsement_in_a_fork_before_it(world: World) -> LogTrial:
    """The histories part in front of the newest root action, which is therefore another one in each."""
    fork, world, body = world.copy(), _several(world), key_body(Key("runner-2"), "runner")
    given = _endorsed(world, BOB, "key", body)
    fork.ledger.add("run", run_body(700), RUNNER)
    return _acted(_several(fork), "key", body, CLEO, given)


@attack
def pass_an_entrys_signature_off_as_an_endorsement(world: World) -> LogTrial:
    """Bob signed the same bytes as an entry's: another kind of statement, told apart by its first line."""
    world, body = _several(world), key_body(THIEF, "runner")
    given = endorsement(BOB, "key", body, world.ledger.newest_action, prefix=b"k3-ledger/entry/v1\n")
    return _acted(world, "key", body, CLEO, given)


@attack
def ask_for_more_roots_than_there_are(world: World) -> LogTrial:
    """Nobody could ever act again."""
    world = world.copy()
    return _acted(world, "threshold", threshold_body(2), ROOT)


@attack
def leave_too_few_roots(world: World) -> LogTrial:
    """Two act together to revoke one of two: lawful, and the last thing that anybody can do."""
    world = world.copy()
    world.ledger.add("key", key_body(BOB, "root"), ROOT)
    world.ledger.add("threshold", threshold_body(2), ROOT)
    body = key_body(BOB, "root", "revoke")
    return _acted(world, "key", body, ROOT, _endorsed(world, BOB, "key", body))


@attack
def take_back_what_the_revocation_rests_on(world: World) -> LogTrial:
    """Bob, enrolled by the first root, takes back what that root did since before it enrolled him."""
    world = world.copy()
    start = len(world.lines)
    world.ledger.add("key", key_body(BOB, "root"), ROOT)
    return _acted(world, "key", key_body(ROOT, "root", "revoke", revoked_from=start), BOB)


@attack
def leave_the_log_before_its_threshold(world: World) -> LogTrial:
    """The first root's thief continues the log from the entry in front of the threshold, for a newcomer."""
    short = _several(world)
    short.lines.pop()
    return _acted(short, "key", key_body(THIEF, "runner"), ROOT)


@attack
def take_the_log_over_with_the_only_root_key(world: World) -> LogTrial:
    return _acted(world.copy(), "key", key_body(THIEF, "judge"), ROOT)
