"""The public API as a caller types it. Checked by pyright in strict mode, and run by tests/house/test_api_sample.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.ledger.writer.checkpoint import SignedHead, make_checkpoint
from k3_ledger.ledger.writer.keys import PublicKey, Signer, keygen, load_signer
from k3_ledger.ledger.writer.store import Ledger, NewKey
from k3_ledger.schemas import canonical
from k3_ledger.schemas.canonical import JsonValue
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Finding
from k3_ledger.schemas.outcomes import ExitCode, Outcome, Severity
from k3_ledger.schemas.structs import RunEntry
from k3_ledger.verify.log import VerifiedLog, check_log, verify_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.report import Report, VerificationError
from k3_ledger.verify.source import LogSource, MemorySource

if TYPE_CHECKING:
    from pathlib import Path


def round_trip(data: bytes) -> bytes:
    """Canonical bytes in, the same bytes out."""
    value = assert_type(canonical.parse(data), JsonValue)
    return assert_type(canonical.format(value), bytes)


def explain(data: bytes) -> str:
    """What is wrong with ``data``, or nothing."""
    try:
        canonical.parse(data)
    except LedgerError as error:
        finding = assert_type(error.finding, Finding)
        assert_type(finding.severity, Severity)
        return f"{finding.code.id}: {finding.message}; {finding.advice}"
    return ""


def make_ledger(folder: Path, origin: str, words: str) -> PublicKey:
    """A ledger of three entries with a signed head; returns the key that an auditor must know."""
    root_key = assert_type(keygen(folder / "root.pem"), PublicKey)
    log_key = keygen(folder / "log.pem")
    root = assert_type(load_signer(folder / "root.pem"), Signer)
    log = load_signer(folder / "log.pem")
    ledger = assert_type(
        Ledger.create(folder / "ledger", origin=origin, root=root, keys=[NewKey("log", "log", log_key)]), Ledger
    )
    with ledger.writer(log) as writer:
        receipt = writer.append("note", {"text": words, "artifacts": []})
        assert_type(receipt.index, int)
        assert_type(receipt.identity, str)
    head = assert_type(make_checkpoint(ledger, log), SignedHead)
    del head
    return root_key


def open_ledger(folder: Path) -> LogSource:
    """The bytes of a ledger, for the verifier."""
    return MemorySource((folder / "ledger.jsonl").read_bytes(), checkpoint=(folder / "checkpoint").read_bytes())


def passed_steps(source: LogSource, root: PublicKey) -> list[str]:
    """Names of the steps that passed; a report never raises because of the data."""
    report = assert_type(check_log(source, TrustPolicy(root_public_key=root.raw)), Report)
    assert_type(report.exit_code, ExitCode)
    return [step.name for step in report.steps if step.outcome is Outcome.PASS]


def kinds(source: LogSource, root: PublicKey) -> list[str]:
    """Kinds of the entries of a log that verifies; of any other, the code of what is wrong with it."""
    try:
        log = assert_type(verify_log(source, TrustPolicy(root_public_key=root.raw)), VerifiedLog)
    except VerificationError as error:
        report = assert_type(error.report, Report)
        return [finding.code.id for finding in report.findings]
    return [verified.entry.kind for verified in log]


def contexts(log: VerifiedLog) -> list[int | None]:
    """Contexts that were measured: which fields a body has follows from the kind of its entry."""
    found: list[int | None] = []
    for verified in log:
        entry = verified.entry
        if entry.kind == "run":
            assert_type(entry, RunEntry)
            found += [series.context for series in entry.body.timing]
    return found


def prove(source: LogSource, index: int) -> bytes:
    """A proof file for one entry."""
    return assert_type(format_proof(prove_entry(source, index)), bytes)


def proof_exit_code(proof: bytes, root: PublicKey) -> ExitCode:
    """What ``k3-ledger verify FILE.proof`` would end with."""
    return check_proof(proof, "entry.proof", TrustPolicy(root_public_key=root.raw)).exit_code
