"""One damaged byte accuses nobody else: what rests on its entry is counted as not checked, and is no finding more."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry, prove_extension
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, ORIGIN, ROOT, RUNNER, Builder, Key, canonical, key_body, sign_head, threshold_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

C = Code
POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
A, B, NEW, SECOND, LOG2 = Key("A"), Key("B"), Key("new"), Key("second"), Key("log-two")


def note(ledger: Builder, key: Key, text: str = "x") -> str:
    return ledger.add("note", {"text": text, "artifacts": []}, key)


def made() -> Builder:
    """Root keys, a threshold, endorsed enrolments, a rotation, a revocation: every entry rests on earlier ones."""
    ledger = Builder().open()
    for key in (A, B):
        ledger.act("key", key_body(key, "root"), ROOT)
    ledger.act("threshold", threshold_body(2), ROOT)
    ledger.act("key", key_body(NEW, "runner"), ROOT, A)
    first = note(ledger, NEW)
    ledger.act("key", key_body(SECOND, "judge", "rotate", replaces=JUDGE.id), A, B)
    ledger.add("supersede", {"target": first, "reason": "x", "replacement": None}, SECOND)
    ledger.act("key", key_body(LOG2, "log", "rotate", replaces=LOG.id), B, ROOT)
    ledger.act("key", key_body(RUNNER, "runner", "revoke", revoked_from=4), ROOT, B)
    ledger.act("threshold", threshold_body(3), ROOT, B)
    note(ledger, LOG2, "last")
    return ledger


LEDGER = made()
HEAD = LEDGER.head(key=LOG2)
ENTRIES = range(len(LEDGER.lines))


def in_signature(line: bytes) -> bytes:
    at = len(line) - 40
    return line[:at] + (b"A" if line[at : at + 1] != b"A" else b"B") + line[at + 1 :]


def in_a_name(line: bytes) -> bytes:
    """A byte of the body that leaves the entry readable: only its signature shows that it was changed."""
    for old, new in (
        (b'"reason":null', b'"reason":"x"'),
        (b'"text":"', b'"text":"y'),
        (b'"reason":"x"', b'"reason":"z"'),
    ):
        if old in line:
            return line.replace(old, new, 1)
    return line.replace(b'"origin":"example', b'"origin":"eyample')


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "signature": in_signature,
    "text": in_a_name,
    "schema": lambda line: line[:12] + b"?" + line[13:],
    "frame": lambda line: b"?" + line[1:],
    "kind": lambda line: line.replace(b'"kind":"', b'"kind":"?', 1),
}
UNREADABLE = frozenset({"schema", "frame", "kind"})
"""Damage after which it cannot be told of what kind the entry was."""


def damaged(index: int, how: str, ledger: Builder = LEDGER) -> list[bytes]:
    lines = list(ledger.lines)
    lines[index] = DAMAGE[how](lines[index])
    assert lines[index] != ledger.lines[index]
    return lines


def step(report: Report, name: str) -> tuple[int, int]:
    (found,) = [item for item in report.steps if item.name == name]
    return found.failed, found.not_checked


def test_the_ledger_is_good() -> None:
    report = check_log(MemorySource(LEDGER.data, checkpoint=HEAD), POLICY)
    assert (report.exit_code, report.counts) == (0, {})


@pytest.mark.parametrize("chunk_bytes", [1 << 22, 700])
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("index", ENTRIES)
def test_one_damaged_byte_of_a_log_is_one_fault(index: int, how: str, chunk_bytes: int) -> None:
    options = Options(expected_heads=(("seen", HEAD),), chunk_bytes=chunk_bytes)
    source = MemorySource(b"".join(damaged(index, how)), checkpoint=HEAD)
    report = check_log(source, POLICY, options)
    first, *others = report.findings
    assert (report.exit_code, first.position.line) == (1, index + 1), "the fault stands first"
    if (index, how) != (0, "text"):  # that is another origin, to which its prev does not belong
        assert (first.code is C.SIGNATURE_MISMATCH) == (how not in UNREADABLE)
    others = [finding for finding in others if finding.position.line != index + 1]
    assert {finding.code for finding in others} <= {C.CHAIN_PREV, C.CHECKPOINT_ROOT, C.ROOT_NOT_CHECKED}
    assert (C.ROOT_NOT_CHECKED in report.counts) == (index == 0)


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("index", ENTRIES)
def test_one_damaged_byte_of_a_proof_is_one_fault_and_stands_first(index: int, how: str) -> None:
    source = MemorySource(LEDGER.data, checkpoint=HEAD)
    document = json.loads(format_proof(prove_entry(source, len(LEDGER.lines) - 1)))
    carried = {entry["index"]: entry for entry in document["entries"]}
    if index not in carried:
        return
    carried[index]["line"] = damaged(index, how)[index][:-1].decode()
    report = check_proof(canonical(document), "p", POLICY)
    first, *others = [finding for finding in report.findings if finding.code is not C.ROOT_NOT_CHECKED]
    assert (report.exit_code, first.position.index, others) == (1, index, [])


@pytest.mark.parametrize("index", ENTRIES)
def test_one_damaged_byte_of_a_consistency_file_accuses_no_head(index: int) -> None:
    source = MemorySource(LEDGER.data, checkpoint=HEAD)
    old = sign_head(LEDGER.lines[:9], LOG)
    document = json.loads(format_consistency(prove_extension(source, old, HEAD)))
    assert check_consistency_file(canonical(document), "c", POLICY).exit_code == 0
    carried = {entry["index"]: entry for entry in document["proof"]["entries"]}
    if index not in carried:
        return
    carried[index]["line"] = in_signature(LEDGER.lines[index])[:-1].decode()
    report = check_consistency_file(canonical(document), "c", POLICY)
    assert [f.code for f in report.findings if f.code is not C.ROOT_NOT_CHECKED] == [C.SIGNATURE_MISMATCH]


def test_what_rests_on_a_damaged_entry_is_counted_as_not_checked() -> None:
    threshold = next(index for index, line in enumerate(LEDGER.lines) if b'"kind":"threshold"' in line)
    report = check_log(MemorySource(b"".join(damaged(threshold, "signature")), checkpoint=HEAD), POLICY)
    assert step(report, "keys") == (0, 2), "the endorsed enrolment behind it, and what the new key signed"
    assert report.counts == {C.SIGNATURE_MISMATCH: 1, C.CHECKPOINT_ROOT: 1}


# ------------------------------------------------------------------------------ what is false is still called so


def codes(ledger: Builder, lines: list[bytes] | None = None, head: bytes | None = None) -> set[Code]:
    data = ledger.data if lines is None else b"".join(lines)
    return set(check_log(MemorySource(data, checkpoint=head), POLICY).counts) - {C.CHECKPOINT_ROOT, C.UNCHECKPOINTED}


def test_a_stranger_in_front_of_the_damage_is_called_one_and_behind_it_cannot_be() -> None:
    ledger = made()
    at = len(ledger.lines)
    note(ledger, Key("nobody"))
    note(ledger, SECOND, "later")
    assert codes(ledger) == {C.KEY_UNKNOWN}
    assert codes(ledger, damaged(at + 1, "frame", ledger)) >= {C.KEY_UNKNOWN}
    assert C.KEY_UNKNOWN not in codes(ledger, damaged(at - 1, "frame", ledger))
    assert codes(ledger, damaged(at - 1, "signature", ledger)) == {C.KEY_UNKNOWN, C.SIGNATURE_MISMATCH}, (
        "no root action"
    )


def test_a_retired_key_in_front_of_the_damage_is_called_one_and_behind_it_cannot_be() -> None:
    ledger = made()
    at = len(ledger.lines)
    note(ledger, JUDGE, "retired")
    note(ledger, SECOND, "between")
    note(ledger, JUDGE, "again")
    lines = damaged(at + 1, "frame", ledger)
    report = check_log(MemorySource(b"".join(lines)), POLICY)
    assert (report.counts[C.KEY_RETIRED], step(report, "keys")) == (1, (1, 1))
    assert C.KEY_RETIRED not in codes(ledger, damaged(at - 1, "frame", ledger))


def test_a_key_of_another_role_is_called_so_wherever_the_damage_is() -> None:
    ledger = made()
    ledger.add("supersede", {"target": "0" * 64, "reason": "x", "replacement": None}, NEW)
    for index in (8, 10):
        assert C.KEY_WRONG_ROLE in codes(ledger, damaged(index, "frame", ledger))


def test_an_action_that_is_wrong_by_itself_is_called_so_wherever_the_damage_is() -> None:
    ledger = Builder().open()
    note(ledger, JUDGE)
    ledger.act("key", key_body(A, "root", key_id="0" * 64), ROOT)
    assert codes(ledger, damaged(4, "frame", ledger)) >= {C.KEY_ID_MISMATCH}


def test_a_bad_endorsement_in_front_of_the_damage_is_called_so() -> None:
    ledger = Builder().open()
    ledger.act("key", key_body(A, "root"), ROOT)
    body = ledger.endorsed("key", key_body(B, "root"), A)
    ledger.add("key", {**body, "reason": "another"}, ROOT)
    at = len(ledger.lines)
    note(ledger, JUDGE)
    note(ledger, JUDGE)
    assert codes(ledger) == {C.ENDORSEMENT_SIGNATURE}
    assert codes(ledger, damaged(at, "frame", ledger)) >= {C.ENDORSEMENT_SIGNATURE}
    assert C.ENDORSEMENT_SIGNATURE not in codes(ledger, damaged(2, "frame", ledger))


def test_a_bad_line_by_a_known_log_key_is_called_so_wherever_the_damage_is() -> None:
    ledger = Builder().open()
    note(ledger, JUDGE)
    head = ledger.head()
    forged = head[:-20] + (b"A" if head[-20:-19] != b"A" else b"B") + head[-19:]
    lines = damaged(3, "signature", ledger)
    assert C.CHECKPOINT_SIGNATURE in codes(ledger, lines, forged)
    assert C.CHECKPOINT_SIGNATURE not in codes(ledger, lines, head)
    stranger = ledger.head(key=Key("stranger"))
    assert C.CHECKPOINT_SIGNATURE in codes(ledger, None, stranger)
    assert C.CHECKPOINT_SIGNATURE not in codes(ledger, lines, stranger), "entry 3 may have enrolled it"
    assert C.CHECKPOINT_ORIGIN in codes(ledger, lines, ledger.head(origin="else"))


def test_a_remembered_head_by_a_key_that_may_have_been_enrolled_is_not_checked() -> None:
    ledger = Builder().open()
    note(ledger, JUDGE)
    seen = (("seen", ledger.head(key=Key("stranger"))),)
    report = check_log(MemorySource(ledger.data), POLICY, Options(expected_heads=seen))
    assert C.MEMORY_FOREIGN in report.counts
    report = check_log(MemorySource(b"".join(damaged(3, "signature", ledger))), POLICY, Options(expected_heads=seen))
    assert (set(report.counts), step(report, "memory")) == ({C.SIGNATURE_MISMATCH}, (0, 1))


def test_what_names_a_broken_line_is_not_accused_and_what_names_nothing_in_front_of_it_is() -> None:
    ledger = Builder().open()
    names = [note(ledger, JUDGE, f"{n}") for n in range(2)]
    at = len(ledger.lines)
    ledger.add("supersede", {"target": names[1], "reason": "x", "replacement": None}, JUDGE)
    note(ledger, JUDGE, "last")
    for how in DAMAGE:
        report = check_log(MemorySource(b"".join(damaged(at - 1, how, ledger))), POLICY)
        assert C.REFERENCE_UNKNOWN not in report.counts
        assert step(report, "receipts") == (0, how != "signature")
    ledger = Builder().open()
    ledger.add("supersede", {"target": "0" * 64, "reason": "x", "replacement": None}, JUDGE)
    note(ledger, JUDGE, "last")
    assert C.REFERENCE_UNKNOWN in codes(ledger, damaged(len(ledger.lines) - 1, "frame", ledger))


def test_uses_up_to_a_settled_position_are_judged_and_later_ones_counted() -> None:
    """Of the ring itself: what is said of a key is said of each of its uses."""
    ring = Keyring()
    ring.used("0" * 64, "note", array("Q", [1, 5, 9]))
    assert [(None if f is None else f.position.index, more) for f, more in ring.check_use(settled=5)] == [
        (1, 1),
        (None, 1),
    ]
    assert [(None if f is None else f.position.index, more) for f, more in ring.check_use(settled=0)] == [(None, 3)]
    assert [more for _, more in ring.check_use(settled=FOREVER)] == [2]
