"""After a theft and the recovery from it: every step can be required again, whichever key was stolen.

What a revocation took back is counted apart in every step, and neither makes it pass nor keeps it from passing. What is
open stays open: what a verdict rests on, and a revocation that may stand among entries that are not here.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from docs.examples.made_up_intel import World as Intel

from k3_ledger.cli.verify import check_ledger
from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.note import parse_note, parse_verifier_key
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import Options
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.report import STEPS
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.timestamps import REPLY_TYPE, Token
from tests.attacks.world import World, artifact, build, identity
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign
from tests.rescore.receipts import DECODE, pin_body
from tests.verify.tee.receipts import Attested

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from k3_ledger.verify.report import Report, StepResult
    from tests.commands import Done

    Run = Callable[..., Done]

NOON = 1_780_000_000
WITNESS = NoteKey("witness.example/w1", "w1", COSIGNER_TYPE)
THIEVES = {role: Key(f"stolen-{role}") for role in ("log", "runner", "judge", "witness", "root")}
NEXT = Key("log-after-the-theft")
POLICY = TrustPolicy(
    ROOT.public,
    ORIGIN,
    witnesses=(Witness(parse_verifier_key(WITNESS.verifier_key), "w1"),),
    quorum=1,
    timestamp_roots=(b"root",),
    attestation=AttestationPolicy(measurements=(("mrtd", frozenset({"c1" * 48})),), anchors=Intel().anchors()),
)
STEP_NAMES = [name for name, _ in STEPS]
NOWHERE = "ab" * 32


def read_token(data: bytes, roots: Sequence[bytes]) -> Token:
    """Tokens of these tests are what they are of."""
    assert tuple(roots) == (b"root",)
    return Token(data, NOON, "CN=a")


def text(head: bytes) -> bytes:
    return parse_note(head).text.encode()


def token_of(data: bytes) -> dict[str, Any]:
    return {**artifact(data, "token"), "media_type": REPLY_TYPE}


def cosigned(head: bytes, key: NoteKey = WITNESS) -> dict[str, Any]:
    line = key.line(text(head).decode(), NOON).removesuffix("\n")
    return {"checkpoint_sha256": hashlib.sha256(text(head)).hexdigest(), "cosignature": line, "witness": key.name}


@dataclass
class Case:
    """A log with something for every step, and what lies beside it."""

    world: World
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    tokens: list[tuple[str, bytes]] = field(default_factory=list)
    log_key: Key = LOG

    @property
    def ledger(self) -> Builder:
        return self.world.ledger

    def store(self, data: bytes) -> bytes:
        self.world.artifacts[hashlib.sha256(data).hexdigest()] = data
        return data

    def sign(self, key: Key) -> bytes:
        head = sign_head(self.ledger.lines, key)
        self.kept.append((f"checkpoints/{len(self.ledger.lines):012d}.note", head))
        return head

    def check(self, *require: str, ledger: Builder | None = None, **options: Any) -> Report:
        made = ledger or self.ledger
        head = cosign(sign_head(made.lines, self.log_key), WITNESS, NOON)
        source = MemorySource(
            made.data, checkpoint=head, kept=self.kept, artifacts=self.world.artifacts, tokens=self.tokens
        )
        policy = replace(POLICY, require=frozenset(require))
        options = {"expected_heads": (("memory", self.kept[0][1]),), **options}
        return check_ledger(source, policy, Options(processes=1, read_token=read_token, **options))


def honest() -> Case:
    """Something for every step to check, and a second key of every role that is still its owner's."""
    case = Case(build())
    ledger = case.ledger
    for role, key in THIEVES.items():
        ledger.add("key", key_body(key, role), ROOT)
    attested = Attested(7).quoted()
    for data in attested.files.values():
        case.store(data)
    ledger.add("run", attested.body, RUNNER)
    raw = case.store(b"raw")
    token = case.store(hashlib.sha256(raw).digest())
    ledger.add("run", run_body(30, artifacts=[artifact(raw, "raw"), token_of(token)]), RUNNER)
    head = case.sign(LOG)
    case.tokens.append(("timestamps/a.tsr", hashlib.sha256(text(head)).digest()))
    ledger.add("witness", cosigned(head), LOG)
    return case


def as_runner(case: Case) -> None:
    """Receipts: one whose artifact is nowhere, one that lies about its enclave, one with a token that is none."""
    thief = THIEVES["runner"]
    case.ledger.add("run", run_body(40, artifacts=[artifact(b"nowhere")]), thief)
    case.ledger.add("run", Attested(41).body, thief)
    case.ledger.add("run", run_body(42, artifacts=[artifact(b"raw", "raw"), token_of(b"of nothing")]), thief)


def as_judge(case: Case) -> None:
    """A false verdict, a pin out of the air, a supersession of nothing, a note."""
    thief, ledger = THIEVES["judge"], case.ledger
    verdict = json.loads(ledger.lines[case.world.at["verdict"]][9:-99])["body"]
    ledger.add("verdict", {**verdict, "tier": "none"}, thief)
    ledger.add("pin", pin_body(f"frontier:{DECODE}", "1", identity(ledger.lines[case.world.at["note"]])), thief)
    ledger.add("supersede", {"target": NOWHERE, "reason": "x", "replacement": None}, thief)
    ledger.add("note", {"text": "x", "artifacts": []}, thief)


def as_log(case: Case) -> None:
    """A head, its timestamp, what a witness said of it, an attested import of nothing."""
    thief, ledger = THIEVES["log"], case.ledger
    original = artifact(b"an original", "original")
    imported = {"attestation": "tdx", "fields": [], "findings": [], "foreign_id": "x", "format": "polaris/1"}
    ledger.add("import", {**imported, "artifacts": [original], "original_sha256": original["sha256"]}, thief)
    head = case.sign(thief)
    case.tokens.append(("timestamps/b.tsr", hashlib.sha256(text(head)).digest()))
    ledger.add("witness", cosigned(head), LOG)
    ledger.add("witness", cosigned(head, NoteKey(WITNESS.name, "other", COSIGNER_TYPE)), thief)


def as_witness(case: Case) -> None:
    """A witness signs nothing in a log but notes."""
    case.ledger.add("note", {"text": "x", "artifacts": [artifact(b"nowhere")]}, THIEVES["witness"])


def as_root(case: Case) -> None:
    """A runner of the thief's own, and what that one seals; the owner's judge is thrown out."""
    evil = Key("evil")
    case.ledger.add("key", key_body(evil, "runner"), THIEVES["root"])
    case.ledger.add("run", run_body(50, artifacts=[artifact(b"nowhere")]), evil)
    case.ledger.add("key", key_body(JUDGE, "judge", "revoke"), THIEVES["root"])


STEAL: dict[str, Callable[[Case], None]] = {
    "runner": as_runner,
    "judge": as_judge,
    "log": as_log,
    "witness": as_witness,
    "root": as_root,
}
DISOWNED = {
    "runner": {"keys": 3, "receipts": 3, "artifacts": 2, "attestations": 1, "timestamps": 1},
    "judge": {"keys": 4, "receipts": 1 + 1 + 1, "verdicts": 2, "pins": 1},
    "log": {
        "keys": 2, "checkpoint": 1, "witnesses": 1, "artifacts": 1, "receipts": 1, "attestations": 1, "timestamps": 1,
    },
    "witness": {"keys": 1, "artifacts": 1},
    "root": {"keys": 3, "receipts": 1, "artifacts": 1},
}  # fmt: skip
"""How many items the theft of each key left in each step."""


def recovered(role: str) -> Case:
    case = honest()
    since = len(case.ledger.lines)
    STEAL[role](case)
    case.ledger.add("key", key_body(THIEVES[role], role, "revoke", revoked_from=since), ROOT)
    return case


def steps(report: Report) -> dict[str, StepResult]:
    return {step.name: step for step in report.steps}


def test_before_the_theft_every_step_passes() -> None:
    report = honest().check(*STEP_NAMES)
    assert (report.exit_code, report.counts) == (0, {})
    assert {step.outcome for step in report.steps} == {Outcome.PASS}
    assert not any(step.disowned for step in report.steps)


@pytest.mark.parametrize("role", THIEVES)
def test_before_the_recovery_something_is_false_or_open(role: str) -> None:
    case = honest()
    STEAL[role](case)
    assert case.check(*STEP_NAMES).exit_code != 0


@pytest.mark.parametrize("role", THIEVES)
def test_a_recovered_log_meets_every_requirement(role: str) -> None:
    report = recovered(role).check(*STEP_NAMES)
    assert (report.exit_code, {step.outcome for step in report.steps}) == (0, {Outcome.PASS}), report.findings
    assert {step.name: step.disowned for step in report.steps if step.disowned} == DISOWNED[role]
    assert set(report.counts) == {Code.KEY_DISOWNED} | ({Code.CHECKPOINT_DISOWNED} if role == "log" else set())
    said = {step["name"]: step["disowned"] for step in report.as_dict()["steps"]}  # type: ignore[attr-defined]
    assert Counter(said) == Counter(DISOWNED[role] | dict.fromkeys(set(STEP_NAMES) - set(DISOWNED[role]), 0))


@pytest.mark.parametrize("name", STEP_NAMES)
@pytest.mark.parametrize("role", THIEVES)
def test_each_step_alone_can_be_required_again(role: str, name: str) -> None:
    assert recovered(role).check(name).exit_code == 0


@pytest.mark.parametrize("role", THIEVES)
def test_what_was_taken_back_makes_no_step_pass(role: str) -> None:
    """In each step as many items pass as without the theft, and the line that cures it."""
    before, after = steps(honest().check()), steps(recovered(role).check())
    lines = len(recovered(role).ledger.lines) - len(honest().ledger.lines)
    for name in ("framing", "schema", "chain", "signatures"):
        assert after[name].checked == before[name].checked + lines
    for name in ("artifacts", "receipts", "verdicts", "pins", "attestations", "timestamps", "memory"):
        assert after[name].checked == before[name].checked, name
    more = {"log": 1}.get(role, 0)  # what the owner's key says of the thief's head is true
    assert after["witnesses"].checked == before["witnesses"].checked + more
    assert after["keys"].checked == before["keys"].checked + 1 + more
    assert after["checkpoint"].checked == before["checkpoint"].checked


@pytest.mark.parametrize("name", ["attestations", "pins", "timestamps", "artifacts", "verdicts"])
def test_where_all_there_was_was_taken_back_the_step_does_not_pass(name: str) -> None:
    """Then nothing is left that could have been checked, as in a log that never held any."""
    case = honest()
    for key, role in ((RUNNER, "runner"), (JUDGE, "judge")):
        case.ledger.add("key", key_body(key, role, "revoke", revoked_from=4), ROOT)
    case.tokens.clear()
    report = case.check(name)
    found = steps(report)[name]
    assert (report.exit_code, found.outcome, found.checked, found.not_checked) == (4, Outcome.NOT_CHECKED, 0, 0)
    assert found.disowned > 0
    (required,) = [each for each in report.findings if each.code is Code.REQUIRED_NOT_CHECKED]
    assert required.found == f"0 checked, 0 not checked, {found.disowned} disowned"
    assert not found.detail or found.detail.endswith((" that count", " that count for nothing"))


def test_a_judgement_on_what_was_taken_back_stays_open_until_it_is_superseded() -> None:
    case = honest()
    since = len(case.ledger.lines)
    stolen = case.ledger.add(
        "run", {**json.loads(case.ledger.lines[case.world.at["frontier"]][9:-99])["body"]}, THIEVES["runner"]
    )
    pin = case.ledger.add("pin", pin_body(f"frontier:{DECODE}", "50", stolen), JUDGE)
    case.ledger.add("key", key_body(THIEVES["runner"], "runner", "revoke", revoked_from=since), ROOT)
    report = case.check("pins")
    assert (report.exit_code, steps(report)["pins"].not_checked) == (4, 1)
    case.ledger.add("supersede", {"target": pin, "reason": "measured by a thief", "replacement": None}, JUDGE)
    report = case.check(*STEP_NAMES)
    assert (report.exit_code, steps(report)["pins"].not_checked) == (0, 0)


def test_a_cosignature_of_a_disowned_head_that_is_not_the_witnesses_is_still_false() -> None:
    case = recovered("log")
    case.ledger.add("witness", cosigned(case.kept[1][1], NoteKey(WITNESS.name, "w1", COSIGNER_TYPE)), LOG)
    assert case.check("witnesses").exit_code == 0
    wrong = {**cosigned(case.kept[1][1]), "checkpoint_sha256": hashlib.sha256(text(case.kept[0][1])).hexdigest()}
    case.ledger.add("witness", wrong, LOG)
    assert Code.WITNESS_ENTRY_FALSE in case.check("witnesses").counts


def test_a_head_that_was_signed_again_by_a_key_that_stands_is_none_that_was_taken_back() -> None:
    """The same text under both: the timestamp is of a head that holds, and bounds."""
    case = honest()
    since = len(case.ledger.lines)
    as_log(case)
    size = since + 1
    case.kept.append((f"checkpoints/{size:012d}-2.note", sign_head(case.ledger.lines[:size], LOG)))
    case.ledger.add("key", key_body(THIEVES["log"], "log", "revoke", revoked_from=since), ROOT)
    report = case.check("timestamps")
    assert (report.exit_code, steps(report)["timestamps"].disowned) == (0, 0)
    assert size in {bound.size for bound in report.stamps}


def test_heads_by_the_only_log_key_are_replaced_by_a_new_one() -> None:
    case = honest()
    since = len(case.ledger.lines)
    case.ledger.add("key", key_body(LOG, "log", "revoke", revoked_from=since - 3), ROOT)
    case.ledger.add("key", key_body(NEXT, "log"), ROOT)
    case.log_key = NEXT
    case.sign(NEXT)
    report = case.check("checkpoint", "keys", "memory")
    assert (report.exit_code, steps(report)["checkpoint"].outcome) == (0, Outcome.PASS)
    assert steps(report)["checkpoint"].disowned == 1


# ------------------------------------------------------------------------------------------- the commands, in a folder

TAKE_BACK = ("-k", "root.pem", "-l", "ledger")
TRUSTED = ("--trust", "trust.toml", "--memory", "memory")


def add(run: Run, text: str, key: str) -> None:
    done = run(
        "append", "note", "-b", "-", "-k", f"{key}.pem", "-l", "ledger", stdin=json.dumps({"text": text}).encode()
    )
    assert done.code == 0, done.err


def remembered(folder: Path) -> int:
    note: str = json.loads((folder / "memory").read_bytes())["note"]
    return int(note.splitlines()[1])


def follow(run: Run, role: str) -> None:
    """What the owner does: take back from the first entry that is not his, enrol another key, sign a head."""
    assert run("key", "revoke", role, *TAKE_BACK, "--from", "6").code == 0
    assert run("key", "enrol", role, "next.pub.pem", *TAKE_BACK).code == 0
    assert run("checkpoint", "-k", "next.pem" if role == "log" else "log.pem", "-l", "ledger").code == 0


@pytest.fixture
def stolen(run: Run, ledger: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A reader with the policy that the documents show and a memory; then somebody else has the key of a role."""

    def steal(role: str) -> Path:
        assert run("keygen", "next.pem").code == 0
        add(run, "mine", "judge")
        add(run, "mine", "runner")
        assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
        assert run("trust", "init", "ledger", "--root-key", "root.pub.pem").code == 0
        assert run("trust", "add", "require", "checkpoint", "keys").code == 0
        assert run("verify", "ledger", *TRUSTED).code == 0
        add(run, "not mine", role)
        assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
        shutil.copytree(ledger, tmp_path / "hidden")
        return ledger

    return steal


@pytest.mark.parametrize("role", ["judge", "runner", "log"])
def test_the_recommended_policy_is_met_again_and_the_memory_moves_on(
    role: str, stolen: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    stolen(role)
    assert remembered(tmp_path) == 6
    follow(run, role)
    done = run("verify", "ledger", *TRUSTED)
    assert (done.code, "disowned" in done.out, remembered(tmp_path)) == (0, True, 9)


@pytest.mark.parametrize("role", ["judge", "runner", "log"])
def test_a_copy_that_hides_the_recovery_is_found_out_by_who_has_seen_it(
    role: str, stolen: Callable[[str], Path], run: Run
) -> None:
    stolen(role)
    assert run("verify", "hidden", "--trust", "trust.toml").code == 0, "who has seen nothing cannot tell"
    follow(run, role)
    assert run("verify", "ledger", *TRUSTED).code == 0
    done = run("verify", "hidden", *TRUSTED, "--json")
    assert (done.code, "K3L-ROLLBACK" in done.json["counts"]) == (1, True)


@pytest.mark.parametrize("entries", ["all", "4,8"])
@pytest.mark.parametrize("role", ["judge", "runner", "log"])
def test_a_recovered_log_is_packed_and_proved_under_that_policy(
    role: str, entries: str, stolen: Callable[[str], Path], run: Run
) -> None:
    ledger = stolen(role)
    follow(run, role)
    (ledger / "timestamps").mkdir()
    for size in (6, 7):
        (ledger / "timestamps" / f"{size:012d}-0000000000000000.tsr").write_bytes(b"a token")
    done = run("bundle", "pack", "ledger", "--trust", "trust.toml", "--entries", entries, "--out", "bundle.tar")
    assert done.code == 0, done.err
    done = run("verify", "bundle.tar", "--trust", "trust.toml")
    assert done.code == 0, done.out
    with tarfile.open("bundle.tar") as tar:
        stamps = sum(name.startswith("timestamps/") for name in tar.getnames())
    assert stamps == (1 if (role, entries) == ("log", "4,8") else 2), "one of a head that was taken back shows nothing"
    assert run("prove", "4", "-l", "ledger", "--out", "four.proof").code == 0
    assert run("verify", "four.proof", "--trust", "trust.toml").code == 0
