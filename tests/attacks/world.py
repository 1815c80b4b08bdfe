"""A ledger to attack, and what a verifier says of an attacked one.

Two ledgers of the same content are attacked alike: one built byte by byte by tests/ledgers.py, and one that the
product's own writer made. A trial is an attacked ledger, mirror or proof with everything that its reader trusts; run
again under a disabled check it says what that check was worth.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from k3_ledger.cli.verify import check_ledger
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.ledger.writer.keys import PublicKey, Signer
from k3_ledger.ledger.writer.store import Ledger, NewKey
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.log import Options, verify_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, canonical, run_body, sign_line
from tests.rescore.receipts import DECODE, PREFILL, pin_body, receipt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from k3_ledger.schemas.findings import Code
    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource

THIEF = Key("thief")
"""A key of the attacker's own, that nobody enrolled."""
POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
SAMPLES = b'{"samples":[900,901,902,903]}'
TIME = "2026-01-01T00:00:00Z"
HOUSE = find_rule("house-1.decode")


@dataclass(frozen=True)
class Outcome:
    """What the reader is told: finding codes and the exit code of the command."""

    codes: frozenset[str]
    exit: int


class Trial(Protocol):
    """Something attacked, in front of its reader."""

    def run(self) -> Outcome:
        """Let the reader look at it."""
        ...


def outcome(report: Report) -> Outcome:
    """The part of a report that an attack is judged by."""
    return Outcome(frozenset(code.id for code in report.counts), int(report.exit_code))


def codes(*found: Code) -> frozenset[str]:
    """Their names."""
    return frozenset(code.id for code in found)


@dataclass
class World:
    """An honest ledger and its artifacts. Attacks work on copies.

    Attributes:
        ledger: its lines; whoever calls its methods signs with keys that the attacker is said to hold.
        artifacts: stored artifacts by digest.
        at: position of entries by what they are.
    """

    ledger: Builder
    artifacts: dict[str, bytes]
    at: dict[str, int]

    def copy(self) -> World:
        """One to change."""
        return World(replace(self.ledger, lines=list(self.ledger.lines)), dict(self.artifacts), self.at)

    @property
    def lines(self) -> list[bytes]:
        """Lines of the ledger, each with its LF."""
        return self.ledger.lines

    def identity(self, name: str) -> str:
        """Identity of a named entry."""
        return identity(self.lines[self.at[name]])

    def trial(self, **changes: Any) -> LogTrial:
        """The ledger as it is now, with the head that the honest one had unless another is given."""
        return LogTrial(**{"log": b"".join(self.lines), "checkpoint": None, "artifacts": self.artifacts} | changes)

    def sealed(self, **changes: Any) -> LogTrial:
        """The ledger as it is now, under a head that the log key signed over it."""
        return self.trial(checkpoint=self.ledger.head(), **changes)

    def proof(self, index: int, **changes: Any) -> ProofTrial:
        """A proof file of one entry."""
        source = MemorySource(self.ledger.data, checkpoint=self.ledger.head())
        return ProofTrial(format_proof(prove_entry(source, index)), **changes)


@dataclass
class LogTrial:
    """A ledger, and what its reader brings along. ``source`` stands for one that is not simply in memory."""

    log: bytes = b""
    checkpoint: bytes | None = None
    kept: tuple[tuple[str, bytes], ...] = ()
    artifacts: dict[str, bytes] = field(default_factory=dict)
    policy: TrustPolicy | None = POLICY
    memory: tuple[tuple[str, bytes], ...] = ()
    source: Any = None
    clock: Clock | None = None

    def run(self) -> Outcome:
        """Verify it as the command does."""
        source: LogSource = MemorySource(
            self.log, checkpoint=self.checkpoint, kept=self.kept, artifacts=self.artifacts
        ) if self.source is None else self.source()  # fmt: skip
        return outcome(check_ledger(source, self.policy, Options(expected_heads=self.memory, clock=self.clock)))


@dataclass
class ProofTrial:
    """A proof file, and what its reader brings along."""

    proof: bytes
    policy: TrustPolicy | None = POLICY
    memory: tuple[tuple[str, bytes], ...] = ()

    def run(self) -> Outcome:
        """Check it as the command does."""
        return outcome(check_proof(self.proof, "entry.proof", self.policy, self.memory))


@dataclass
class PolicyTrial:
    """A trust policy that a reader is handed."""

    text: str

    def run(self) -> Outcome:
        """Read it as the command does."""
        try:
            parse_policy(self.text.encode())
        except LedgerError as error:
            return Outcome(frozenset({error.code.id}), int(error.code.info.exit))
        return Outcome(frozenset(), 0)


# ------------------------------------------------------------------------------------------------- honest ledgers


def identity(line: bytes) -> str:
    """Identity of the entry on a line."""
    return hashlib.sha256(line[9:-99]).hexdigest()


def artifact(data: bytes, name: str = "samples.json", **more: Any) -> dict[str, Any]:
    """How an entry names an artifact."""
    digest = hashlib.sha256(data).hexdigest()
    return {"name": name, "sha256": digest, "size": len(data), "media_type": "application/json", **more}


def build() -> World:
    """A ledger with one of everything that is attacked, built from the format's page."""
    ledger = Builder().open()
    at: dict[str, int] = {}

    def add(name: str, kind: str, body: dict[str, Any], key: Key) -> str:
        at[name] = len(ledger.lines)
        return ledger.add(kind, body, key)

    add("reference", "run", receipt(40.0, 300.0, role="reference"), RUNNER)
    frontier = add("frontier", "run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    for name, track, value in (("pin", DECODE, "50"), ("guard", PREFILL, "450")):
        add(name, "pin", pin_body(f"frontier:{track}", value, frontier), JUDGE)
    add("candidate", "run", receipt(60.0, 500.0), RUNNER)
    (verdict,) = new_verdicts(rescore(gather(verify_log(MemorySource(ledger.data))).candidates, HOUSE))
    add("verdict", "verdict", verdict, JUDGE)
    add("evidence", "run", run_body(10, artifacts=[artifact(SAMPLES)]), RUNNER)
    add("run", "run", run_body(11), RUNNER)
    add("note", "note", {"text": "the round ended", "artifacts": []}, JUDGE)
    return World(ledger, {hashlib.sha256(SAMPLES).hexdigest(): SAMPLES}, at)


def write(folder: Path) -> World:
    """A ledger of the same content, made by the product's writer."""
    built = build()
    signers = {key.id: Signer(bytes(key.signing)) for key in (ROOT, LOG, RUNNER, JUDGE)}
    keys = [
        NewKey(role, key.seed, PublicKey(key.public))  # type: ignore[arg-type]
        for role, key in (("log", LOG), ("runner", RUNNER), ("judge", JUDGE))
    ]
    ledger = Ledger.create(folder / "written", origin=ORIGIN, root=signers[ROOT.id], keys=keys, time=TIME)
    known: dict[str, str] = {}
    for line in built.lines[4:]:
        text = line[9:-99].decode()
        for old, new in known.items():
            text = text.replace(old, new)
        entry = json.loads(text)
        with ledger.writer(signers[entry["key"]]) as writer:
            known[identity(line)] = writer.append(entry["kind"], entry["body"], time=entry["time"]).identity
    lines = [line + b"\n" for line in ledger.log_path.read_bytes().split(b"\n")[:-1]]
    return World(Builder(lines), built.artifacts, built.at)


# ------------------------------------------------------------------------------------------------------- changing


def entry(line: bytes) -> dict[str, Any]:
    """The entry on a line, decoded."""
    found: dict[str, Any] = json.loads(line[9:-99])
    return found


def resigned(lines: Iterable[bytes], keys: dict[str, Key]) -> list[bytes]:
    """The lines chained anew, each signed with the key that is held for its signer; others keep their old signature."""
    done: list[bytes] = []
    for index, line in enumerate(lines):
        value = entry(line)
        value["index"] = index
        if done:
            value["prev"] = identity(done[-1])
        data = canonical(value)
        key = keys.get(value["key"])
        done.append(b'{"entry":' + data + line[-99:] if key is None else sign_line(data, key))
    return done
