"""Heads that several log keys signed: each line by one of them has to be good, in any order, wherever it stands."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify import head_faults
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry, prove_heads
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ORIGIN, ROOT, Builder, Key, key_body, sign_head

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

SECOND, STRANGER, LATER = Key("log-two"), Key("stranger"), Key("log-three")
POLICY = TrustPolicy(ROOT.public, ORIGIN)


def ledger() -> Builder:
    made = Builder().open()
    made.add("key", key_body(SECOND, "log"), ROOT)
    return made.runs(2)


def note(lines: list[bytes], *signers: tuple[Key, bool]) -> bytes:
    """A head with a line by each signer, whose signature is good or has one other character."""
    made = [sign_head(lines, key).rpartition(b"\n\n")[2] for key, _ in signers]
    kept = [line if good else _spoiled(line) for line, (_, good) in zip(made, signers, strict=True)]
    return sign_head(lines).rpartition(b"\n\n")[0] + b"\n\n" + b"".join(kept)


def _spoiled(line: bytes) -> bytes:
    return line[:-20] + (b"A" if line[-20:-19] != b"A" else b"B") + line[-19:]


def everywhere(made: Builder, raw: bytes) -> list[Report]:
    """The head as the newest one, as a kept one, and at the end of a proof and of a consistency file."""
    older = sign_head(made.lines[:5])
    source = MemorySource(made.data, checkpoint=raw, kept=(("checkpoints/000000000005.note", older),))
    kept = MemorySource(made.data, checkpoint=sign_head(made.lines), kept=(("checkpoints/000000000007.note", raw),))
    heads_file = format_consistency(prove_heads(source, 5, 7))
    return [
        check_log(source, POLICY),
        check_log(kept, POLICY),
        check_proof(format_proof(prove_entry(source, 6)), "p", POLICY),
        check_consistency_file(heads_file, "c", POLICY),
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_bad_line_by_one_of_two_log_keys_refuses_the_head(first: bool) -> None:
    for signers in itertools.permutations([(LOG, first), (SECOND, not first)]):
        for report in everywhere(ledger(), note(ledger().lines, *signers)):
            assert (report.exit_code, set(report.counts) - {Code.UNCHECKPOINTED}) == (
                ExitCode.FALSE,
                {Code.CHECKPOINT_SIGNATURE},
            )
            (finding,) = [one for one in report.findings if one.code is Code.CHECKPOINT_SIGNATURE]
            assert finding.expected == "a good signature in every line that is by a log key of this ledger"


@pytest.mark.parametrize(
    "signers",
    [
        [(LOG, True), (SECOND, True)],
        [(SECOND, True), (LOG, True)],
        [(LOG, True), (LOG, True)],
        [(SECOND, True)],
        [(LOG, True), (STRANGER, False)],
        [(STRANGER, False), (SECOND, True)],
    ],
)
def test_good_lines_by_log_keys_and_any_by_strangers_make_a_head(signers: list[tuple[Key, bool]]) -> None:
    for report in everywhere(ledger(), note(ledger().lines, *signers)):
        assert (report.exit_code, report.counts) == (ExitCode.VERIFIED, {})


def test_a_good_line_does_not_make_up_for_a_bad_one_by_the_same_key() -> None:
    report = check_log(MemorySource(ledger().data, checkpoint=note(ledger().lines, (LOG, True), (LOG, False))), POLICY)
    assert set(report.counts) == {Code.CHECKPOINT_SIGNATURE}


def test_a_bad_line_by_a_key_that_stands_is_an_error_beside_a_line_that_was_taken_back() -> None:
    """A kept head whose only signer was taken back is passed over; one that somebody spoiled is not."""
    made = ledger()
    lines = list(made.lines)
    made.add("key", key_body(SECOND, "log", "revoke", revoked_from=6), ROOT)
    for signers, code, exit_code in (
        ([(SECOND, True)], Code.CHECKPOINT_DISOWNED, ExitCode.VERIFIED),
        ([(SECOND, True), (LOG, False)], Code.CHECKPOINT_SIGNATURE, ExitCode.FALSE),
        ([(SECOND, False)], Code.CHECKPOINT_SIGNATURE, ExitCode.FALSE),
    ):
        kept = (("checkpoints/000000000007.note", note(lines, *signers)),)
        report = check_log(MemorySource(made.data, checkpoint=made.head(), kept=kept), POLICY)
        assert (set(report.counts), report.exit_code) == ({code}, exit_code)


def test_two_log_keys_of_one_key_hash_each_sign_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are such pairs; here the hash is cut to nothing instead of searching for one."""

    class Blunt(head_faults.Verifier):
        def __post_init__(self) -> None:
            object.__setattr__(self, "key_hash", HASH)

    raw = note(ledger().lines, (LOG, True), (SECOND, True))
    hashes = {sig.key_hash for sig in head_faults.parse_note(raw).sigs}
    for key_hash in hashes:
        HASH = key_hash  # noqa: N806 - the class reads it
        monkeypatch.setattr(head_faults, "Verifier", Blunt)
        monkeypatch.setattr("k3_ledger.verify.signers.key_hash", lambda _origin, _key, cut=key_hash: cut)
        report = check_log(MemorySource(ledger().data, checkpoint=raw), POLICY)
        assert report.counts == {}
