"""Attacks with a key: a stolen runner, judge or log key, and keys that nobody enrolled."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from k3_ledger.verify.policy import TrustPolicy
from tests.attacks.registry import attack
from tests.attacks.world import THIEF, World, entry, resigned
from tests.ledgers import (
    JUDGE,
    LOG,
    ORIGIN,
    ROOT,
    RUNNER,
    Builder,
    Key,
    canonical,
    genesis_body,
    key_body,
    run_body,
    sign_line,
)

if TYPE_CHECKING:
    from tests.attacks.world import LogTrial

NOTE: dict[str, Any] = {"text": "nothing to see here", "artifacts": []}
IDENTITY_POINT = bytes([1]) + bytes(31)


def _added(world: World, kind: str, body: dict[str, Any], key: Key, **more: Any) -> LogTrial:
    """One more entry, chained and signed as it should be but by this key, and a head by the log key over it."""
    world = world.copy()
    world.ledger.add(kind, body, key, **more)
    return world.sealed()


def _signed_again(world: World, name: str, key: Key) -> LogTrial:
    """A stored entry in another key's name and with its signature; what follows is left as it was."""
    world = world.copy()
    at = world.at[name]
    world.lines[at] = sign_line(canonical(entry(world.lines[at]) | {"key": key.id}), key)
    return world.sealed()


# ------------------------------------------------------------------------------------------------- a key of his own


@attack
def add_a_run_under_a_key_nobody_enrolled(world: World) -> LogTrial:
    return _added(world, "run", run_body(99), THIEF)


@attack
def sign_an_entry_again_with_a_key_of_ones_own(world: World) -> LogTrial:
    return _signed_again(world, "note", THIEF)


@attack
def enrol_oneself(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("key", key_body(THIEF, "runner"), THIEF)
    return world.sealed()


@attack
def make_the_whole_ledger_anew_under_other_keys(world: World) -> LogTrial:
    """A ledger that vouches for itself; the trusted root never opened it."""
    mallory = Key("mallory")
    names = {ROOT.id: mallory} | {key.id: Key(f"{key.seed}-2") for key in (LOG, RUNNER, JUDGE)}
    ledger = Builder(root=mallory)
    ledger.add("genesis", genesis_body(mallory), mallory)
    for role, key in (("log", LOG), ("runner", RUNNER), ("judge", JUDGE)):
        ledger.add("key", key_body(names[key.id], role), mallory)
    ledger.add("run", run_body(1), names[RUNNER.id])
    return World(ledger, {}, world.at).trial(checkpoint=ledger.head(key=names[LOG.id]))


@attack
def make_the_whole_ledger_anew_for_a_reader_without_a_policy(world: World) -> LogTrial:
    trial = make_the_whole_ledger_anew_under_other_keys(world)
    trial.policy = None
    return trial


@attack
def name_the_trusted_root_and_sign_with_another(world: World) -> LogTrial:
    ledger = Builder()
    ledger.add("genesis", genesis_body(ROOT), THIEF, key=ROOT.id)
    return World(ledger, {}, world.at).trial()


@attack
def show_another_log_by_the_same_root(world: World) -> LogTrial:
    """A genuine log, opened by the trusted root, and not the one that was asked for."""
    other = Builder(origin="example.org/staging").open().runs(2)
    return World(other, {}, world.at).trial(checkpoint=other.head(origin="example.org/staging"))


@attack
def show_another_log_by_the_same_root_to_a_reader_who_names_no_origin(world: World) -> LogTrial:
    trial = show_another_log_by_the_same_root(world)
    trial.policy = TrustPolicy(root_public_key=ROOT.public)
    return trial


@attack
def show_a_log_whose_name_looks_alike(world: World) -> LogTrial:
    """A digit one for an l: to the eye the same, to a comparison of bytes not."""
    name = ORIGIN.replace("l", "1", 1)
    other = Builder(origin=name).open().runs(1)
    return World(other, {}, world.at).trial(checkpoint=other.head(origin=name))


@attack
def name_a_log_in_another_script(world: World) -> LogTrial:
    """A Cyrillic e in the origin: no such name is a log's."""
    name = ORIGIN.replace("e", "\u0435", 1)
    other = Builder(origin=name).open().runs(1)
    return World(other, {}, world.at).trial(checkpoint=other.head(origin=name))


# ------------------------------------------------------------------------------------------------- the runner's key


@attack
def have_the_runner_sign_a_verdict(world: World) -> LogTrial:
    return _added(world, "verdict", entry(world.lines[world.at["verdict"]])["body"], RUNNER)


@attack
def have_the_runner_sign_a_pin(world: World) -> LogTrial:
    return _added(world, "pin", entry(world.lines[world.at["pin"]])["body"], RUNNER)


@attack
def have_the_runner_enrol_a_judge(world: World) -> LogTrial:
    return _added(world, "key", key_body(THIEF, "judge"), RUNNER)


@attack
def have_the_runner_lower_the_threshold(world: World) -> LogTrial:
    return _added(world, "threshold", {"threshold": 1, "reason": None, "endorsements": []}, RUNNER)


@attack
def have_the_runner_sign_an_import(world: World) -> LogTrial:
    body = {
        "format": "polaris/1", "foreign_id": "70e6a00a", "original_sha256": "d" * 64, "attestation": "none",
        "fields": [], "findings": [],
        "artifacts": [{"name": "r.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}],
    }  # fmt: skip
    return _added(world, "import", body, RUNNER)


@attack
def have_the_runner_sign_the_checkpoint(world: World) -> LogTrial:
    return world.trial(checkpoint=world.ledger.head(key=RUNNER))


@attack
def rewrite_the_whole_chain_with_the_runners_key(world: World) -> LogTrial:
    """He drops a run that he does not like and chains and signs anew whatever the runner signed."""
    world = world.copy()
    del world.lines[world.at["evidence"]]
    world.lines[:] = resigned(world.lines, {RUNNER.id: RUNNER})
    return world.sealed()


@attack
def sign_a_false_run_with_the_runners_key(world: World) -> LogTrial:
    return _added(world, "run", run_body(98), RUNNER)


@attack
def sign_with_the_runners_key_after_its_revocation(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    return _added(world, "run", run_body(98), RUNNER)


@attack
def sign_with_the_runners_key_after_its_rotation(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("key", key_body(Key("runner-2"), "runner", "rotate", replaces=RUNNER.id), ROOT)
    return _added(world, "run", run_body(98), RUNNER)


@attack
def sign_before_the_key_was_enrolled(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("run", run_body(98), THIEF)
    world.ledger.add("key", key_body(THIEF, "runner"), ROOT)
    return world.sealed()


@attack
def keep_what_was_signed_before_the_theft_was_known(world: World) -> LogTrial:
    """A compromise revocation reaches back to the theft: what was signed since stands there and counts for nothing."""
    world = world.copy()
    stolen_at = len(world.lines)
    world.ledger.add("run", run_body(98), RUNNER)
    world.ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=stolen_at), ROOT)
    trial = world.sealed()
    trial.policy = TrustPolicy(ROOT.public, ORIGIN, require=frozenset({"keys"}))
    return trial


# ------------------------------------------------------------------------------------------------------- key entries


@attack
def enrol_a_key_under_anothers_id(world: World) -> LogTrial:
    return _added(world, "key", key_body(THIEF, "runner", key_id=JUDGE.id), ROOT)


@attack
def enrol_one_key_for_two_roles(world: World) -> LogTrial:
    return _added(world, "key", key_body(RUNNER, "judge"), ROOT)


@attack
def bring_a_revoked_key_back(world: World) -> LogTrial:
    world = world.copy()
    world.ledger.add("key", key_body(RUNNER, "runner", "revoke"), ROOT)
    return _added(world, "key", key_body(RUNNER, "runner"), ROOT)


@attack
def rotate_into_another_role(world: World) -> LogTrial:
    return _added(world, "key", key_body(THIEF, "judge", "rotate", replaces=RUNNER.id), ROOT)


@attack
def enrol_a_key_of_low_order(world: World) -> LogTrial:
    """Under the identity point a signature verifies for every message in sloppy verifiers."""
    return _added(world, "key", _raw(IDENTITY_POINT), ROOT)


@attack
def enrol_a_key_that_is_no_point(world: World) -> LogTrial:
    return _added(world, "key", _raw(b"\xee" + b"\xff" * 30 + b"\x7f"), ROOT)


@attack
def enrol_a_key_with_a_torsion_component(world: World) -> LogTrial:
    """Its holder can make signatures on which verifiers differ: a ledger that verifies here and not there."""
    return _added(world, "key", _raw(_mixed()), ROOT)


@attack
def open_a_log_under_a_root_of_low_order(world: World) -> LogTrial:
    """Whoever trusts it by mistake would accept a genesis by anybody."""
    ledger = Builder()
    body = {**genesis_body(ROOT), "root_public_key": IDENTITY_POINT.hex()}
    ledger.add("genesis", body, THIEF, key=hashlib.sha256(IDENTITY_POINT).hexdigest())
    return World(ledger, {}, world.at).trial(policy=TrustPolicy(root_public_key=IDENTITY_POINT))


def _raw(public: bytes) -> dict[str, Any]:
    return {**key_body(THIEF, "runner"), "public_key": public.hex(), "key_id": hashlib.sha256(public).hexdigest()}


def _mixed() -> bytes:
    """A good key plus the point of order two (0, -1): (x, y) becomes (-x, -y)."""
    p = 2**255 - 19
    raw = int.from_bytes(THIEF.public, "little")
    sign, y = raw >> 255, raw & (2**255 - 1)
    return ((p - y) | ((1 - sign) << 255)).to_bytes(32, "little")
