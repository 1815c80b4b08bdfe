"""One cause is one finding, and it stands first: what follows from it is counted as not checked, or comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_heads
from k3_ledger.verify.report import FOLLOWERS
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ROOT, RUNNER, Builder, Key, key_body, run_body, sign_head, small_ledger, threshold_body
from tests.verify.test_proof import edit, prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

LEDGER = small_ledger()
POLICY = TrustPolicy(
    root_public_key=ROOT.public,
    minimum_size=5,
    require=frozenset({"framing", "signatures", "keys", "checkpoint", "chain"}),
)
C = Code


def tampered(at: int, old: str, new: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        entry = document["entries"][at]
        assert old in entry["line"]
        entry["line"] = entry["line"].replace(old, new, 1)

    return change


# The proof of entry 7 carries 0 (genesis), 1 (the log's enrolment), 2 (the runner's) and 7.
PROOFS: dict[str, tuple[Callable[[dict[str, Any]], object], Code, int]] = {
    "genesis changed": (tampered(0, "example", "exbmple"), C.SIGNATURE_MISMATCH, 0),
    "genesis unframed": (tampered(0, '{"entry"', '["entry"'), C.LINE_HEAD, 0),
    "genesis of no known kind": (tampered(0, '"kind":"genesis"', '"kind":"genesys"'), C.SCHEMA_UNKNOWN_KIND, 0),
    "log's enrolment changed": (tampered(1, '"reason":null', '"reason":"x"'), C.SIGNATURE_MISMATCH, 1),
    "log's enrolment unframed": (tampered(1, '{"entry"', '["entry"'), C.LINE_HEAD, 1),
    "runner's enrolment changed": (tampered(2, '"reason":null', '"reason":"x"'), C.SIGNATURE_MISMATCH, 2),
    "subject changed": (tampered(3, '"count":10', '"count":11'), C.SIGNATURE_MISMATCH, 7),
    "subject unframed": (tampered(3, '{"entry"', '["entry"'), C.LINE_HEAD, 7),
}


def causes(report: Report) -> list[tuple[Code, int | None]]:
    """Findings but for those that say that something was not checked; these stand last, whatever they are."""
    found = [finding.code for finding in report.findings]
    last = [code in FOLLOWERS for code in found]
    assert last == sorted(last)
    assert sum(report.counts.values()) == len(found)
    return [(f.code, f.position.index) for f in report.findings if f.code not in FOLLOWERS]


@pytest.mark.parametrize("name", PROOFS)
def test_a_damaged_line_of_a_proof_is_one_fault_and_stands_first(name: str) -> None:
    change, code, index = PROOFS[name]
    proof = prove(LEDGER, 7)
    assert check_proof(proof, "p", POLICY).findings[0].code is C.REQUIRED_NOT_CHECKED  # the chain, of a good proof
    report = check_proof(edit(proof, change), "p", POLICY)
    assert (causes(report), report.exit_code) == ([(code, index)], ExitCode.FALSE)
    assert (C.ROOT_NOT_CHECKED in report.counts) == (index == 0)
    assert all(f.position.source == "p" for f in report.findings if f.code is not C.REQUIRED_NOT_CHECKED)
    assert next(step for step in report.steps if step.name == "signatures").not_checked == {
        "genesis changed": 1, "genesis unframed": 4, "genesis of no known kind": 4, "log's enrolment unframed": 1,
        "runner's enrolment changed": 1, "subject unframed": 1,
    }.get(name, 0)  # fmt: skip


def test_a_head_by_a_stranger_is_one_fault_whatever_else_is_damaged_that_does_not_explain_it() -> None:
    proof = edit(prove(LEDGER, 7), lambda d: d.update(checkpoint=LEDGER.head(key=Key("stranger")).decode()))
    assert causes(check_proof(proof, "p", POLICY)) == [(C.CHECKPOINT_SIGNATURE, None)]
    both = edit(proof, tampered(3, '"count":10', '"count":11'))
    assert causes(check_proof(both, "p", POLICY)) == [(C.SIGNATURE_MISMATCH, 7), (C.CHECKPOINT_SIGNATURE, None)]


def test_a_head_that_its_own_log_key_did_not_sign_is_a_fault_beside_a_damaged_enrolment() -> None:
    head = LEDGER.head().decode()
    at = len(head) - 20
    forged = head[:at] + ("A" if head[at] != "A" else "B") + head[at + 1 :]
    proof = edit(prove(LEDGER, 7), lambda d: d.update(checkpoint=forged))
    proof = edit(proof, tampered(2, '"reason":null', '"reason":"x"'))
    assert causes(check_proof(proof, "p", POLICY)) == [(C.SIGNATURE_MISMATCH, 2), (C.CHECKPOINT_SIGNATURE, None)]


def test_a_head_of_another_tree_is_one_fault_and_not_one_of_each_line() -> None:
    proof = edit(prove(LEDGER, 7), lambda d: d.update(checkpoint=sign_head(LEDGER.lines[:9]).decode()))
    report = check_proof(proof, "p", POLICY)
    assert report.counts[C.INCLUSION_MISMATCH] == 4
    assert [f.code for f in report.findings if f.code not in FOLLOWERS] == [C.INCLUSION_MISMATCH]


def test_two_lines_in_a_wrong_place_are_two_faults() -> None:
    proof = prove(LEDGER, 7)
    for at in (1, 3):
        proof = edit(proof, lambda d, at=at: d["entries"][at]["inclusion"].__setitem__(0, "00" * 32))
    assert causes(check_proof(proof, "p", POLICY)) == [(C.INCLUSION_MISMATCH, 1), (C.INCLUSION_MISMATCH, 7)]


def test_a_genesis_of_another_log_is_the_fault_and_not_the_head_that_does_not_fit_it() -> None:
    other = Builder(origin="else").open().lines[0][:-1].decode()
    report = check_proof(edit(prove(LEDGER, 7), lambda d: d["entries"][0].update(line=other)), "p", POLICY)
    assert causes(report) == [(C.INCLUSION_MISMATCH, 0), (C.CHAIN_PREV, 1)]


def test_a_head_of_another_log_is_the_fault_and_not_the_lines_that_it_does_not_hold() -> None:
    head = sign_head(Builder(origin="else").open().runs(6).lines, origin="else").decode()
    report = check_proof(edit(prove(LEDGER, 7), lambda d: d.update(checkpoint=head)), "p", POLICY)
    assert (causes(report), report.exit_code) == ([(C.CHECKPOINT_ORIGIN, None)], ExitCode.FALSE)


def test_a_key_entry_that_does_not_count_is_one_fault_and_what_it_would_have_enrolled_none() -> None:
    ledger = small_ledger(1)
    ledger.add("key", key_body(Key("new"), "runner", key_id="0" * 64), ROOT)
    ledger.add("run", run_body(1), RUNNER)
    assert causes(check_proof(prove(ledger, 5), "p", POLICY)) == [(C.KEY_ID_MISMATCH, 5)]
    ledger = small_ledger(1)
    for key in (Key("second"), Key("third")):
        ledger.add("key", key_body(key, "root"), ROOT)
    ledger.add("threshold", threshold_body(2), ROOT)
    ledger.add("key", key_body(Key("new"), "runner"), ROOT)  # nobody else stands behind it
    ledger.add("run", run_body(1), Key("new"))
    assert causes(check_proof(prove(ledger, 9), "p", POLICY)) == [(C.PROOF_INCOMPLETE, 8)]


def test_two_heads_of_a_consistency_file_are_not_accused_for_a_damaged_enrolment() -> None:
    heads = [(f"checkpoints/{size}.note", sign_head(LEDGER.lines[:size])) for size in (5, 10)]
    source = MemorySource(LEDGER.data, checkpoint=heads[1][1], kept=heads)
    data = format_consistency(prove_heads(source, 5, 10))
    assert check_consistency_file(data, "c").exit_code == 0
    text = data.replace(b'\\"reason\\":null', b'\\"reason\\":\\"x\\"', 1)
    assert text != data
    report = check_consistency_file(text, "c")
    assert (causes(report), report.exit_code) == ([(C.SIGNATURE_MISMATCH, 1)], ExitCode.FALSE)


# ------------------------------------------------------------------------------------------------------ whole logs


def judged(data: bytes, checkpoint: bytes | None, minimum: int = 5) -> Report:
    policy = TrustPolicy(root_public_key=ROOT.public, minimum_size=minimum, require=frozenset({"checkpoint"}))
    return check_log(MemorySource(data, checkpoint=checkpoint), policy)


def test_a_head_that_was_refused_is_not_called_too_small_as_well() -> None:
    report = judged(LEDGER.data, LEDGER.head(key=RUNNER))
    assert (set(report.counts), report.exit_code) == ({C.CHECKPOINT_SIGNATURE}, ExitCode.FALSE)
    assert set(judged(LEDGER.data, LEDGER.head().replace(b"\n\n", b"\n", 1)).counts) == {C.NOTE_MALFORMED}
    assert set(judged(LEDGER.data[:-1], LEDGER.head(), 10).counts) == {C.TORN_TAIL, C.CHECKPOINT_AHEAD}


def test_a_genesis_that_cannot_be_read_is_not_a_head_that_is_too_small() -> None:
    report = judged(b"x" + LEDGER.data[1:], LEDGER.head())
    assert [finding.code for finding in report.findings][:1] == [C.LINE_HEAD]
    assert C.HEAD_TOO_SMALL not in report.counts


def test_a_small_good_head_is_too_small_beside_a_refused_one_as_well() -> None:
    policy = TrustPolicy(root_public_key=ROOT.public, minimum_size=5)
    kept = [("checkpoints/3.note", sign_head(LEDGER.lines[:3]))]
    source = MemorySource(LEDGER.data, checkpoint=LEDGER.head(key=RUNNER), kept=kept)
    assert set(check_log(source, policy).counts) == {C.CHECKPOINT_SIGNATURE, C.HEAD_TOO_SMALL, C.UNCHECKPOINTED}


def test_where_there_is_no_head_or_a_good_small_one_that_is_the_fault() -> None:
    (none,) = [f for f in judged(LEDGER.data, None).findings if f.code is C.HEAD_TOO_SMALL]
    assert (none.expected, none.found) == ("at least 5", "no good head")
    small = judged(LEDGER.data, sign_head(LEDGER.lines[:3]))
    (finding,) = [f for f in small.findings if f.code is C.HEAD_TOO_SMALL]
    assert (finding.found, small.exit_code) == ("3", ExitCode.FALSE)


def test_what_was_required_comes_behind_what_keeps_it_from_being_checked() -> None:
    policy = TrustPolicy(root_public_key=ROOT.public, require=frozenset({"keys", "memory"}))
    lines = [LEDGER.lines[0].replace(b"example", b"exbmple"), *LEDGER.lines[1:]]
    report = check_log(MemorySource(b"".join(lines), checkpoint=LEDGER.head(key=LOG)), policy)
    assert [finding.code for finding in report.findings[-3:]] == [
        C.ROOT_NOT_CHECKED, C.REQUIRED_NOT_CHECKED, C.REQUIRED_NOT_CHECKED,
    ]  # fmt: skip


def test_a_log_without_a_genesis_is_not_called_too_small_for_a_head_that_nobody_can_judge() -> None:
    ledger = Builder()
    ledger.add("note", {"text": "no beginning", "artifacts": []}, RUNNER)
    report = judged(ledger.data, ledger.head(), 1)
    assert set(report.counts) == {C.CHAIN_NO_GENESIS, C.ROOT_NOT_CHECKED}
    assert report.exit_code == ExitCode.FALSE
