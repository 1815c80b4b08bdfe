"""A thief of the root key who writes the log anew is proved a forger by who remembers; a stranger proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.consistency import format_consistency
from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.consistency import check_consistency_file
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry, prove_heads
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.vouched import MAX_ENROLMENTS
from tests.ledgers import (
    LOG,
    ORIGIN,
    ROOT,
    RUNNER,
    Builder,
    Key,
    genesis_body,
    key_body,
    run_body,
    sign_head,
    threshold_body,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

NEW_LOG, NEW_ROOT, STRANGER = Key("thief-log"), Key("root-2"), Key("stranger")
TRUST = TrustPolicy(ROOT.public, ORIGIN)


def begun(root: Key = ROOT, log: Key = LOG, origin: str = ORIGIN, **first: Any) -> Builder:
    """A log with keys of its own choice."""
    made = Builder(origin=origin, root=root)
    made.add("genesis", genesis_body(root, origin), root, **first)
    made.add("key", key_body(log, "log"), root)
    made.add("key", key_body(RUNNER, "runner"), root)
    return made


def remembered(ledger: Builder, log: Key = LOG, origin: str = ORIGIN) -> tuple[bytes, tuple[bytes, ...]]:
    """What a reader keeps of a log that verified: the head, and the entries that enrol its signer."""
    head = sign_head(ledger.lines, log, origin=origin)
    report = check_log(MemorySource(ledger.data, checkpoint=head), None, Options(remember=True))
    assert report.exit_code is ExitCode.VERIFIED
    return head, report.enrolments


def held_against(ledger: Builder, *memories: tuple[bytes, tuple[bytes, ...]], log: Key = NEW_LOG) -> Report:
    """A log against several memories, of which those without entries are bare notes."""
    options = Options(
        expected_heads=tuple((f"m{at}", head) for at, (head, _) in enumerate(memories)),
        enrolments={f"m{at}": lines for at, (_, lines) in enumerate(memories) if lines},
    )
    return check_log(MemorySource(ledger.data, checkpoint=sign_head(ledger.lines, log)), TRUST, options)


def shown(ledger: Builder, memory: tuple[bytes, tuple[bytes, ...]], log: Key = NEW_LOG) -> Report:
    head, lines = memory
    options = Options(expected_heads=(("memory", head),), enrolments={"memory": lines})
    return check_log(MemorySource(ledger.data, checkpoint=sign_head(ledger.lines, log)), TRUST, options)


def judged(report: Report) -> tuple[set[Code], ExitCode]:
    return set(report.counts), report.exit_code


HONEST = begun().runs(5)
MEMORY = remembered(HONEST)


def test_what_is_kept_is_genesis_and_the_enrolment_of_the_signer() -> None:
    assert MEMORY[1] == (HONEST.lines[0][:-1], HONEST.lines[1][:-1])
    bare = check_log(MemorySource(HONEST.data, checkpoint=HONEST.head()), None)
    assert bare.enrolments == ()
    without = check_log(MemorySource(HONEST.data), None, Options(remember=True))
    assert without.enrolments == ()


@pytest.mark.parametrize("runs", [0, 1, 5, 9])
@pytest.mark.parametrize("genesis", ["the same genesis", "a genesis made anew"])
def test_another_history_under_the_same_root_is_a_fork(runs: int, genesis: str) -> None:
    anew: dict[str, Any] = {} if genesis == "the same genesis" else {"time": "2025-12-31T00:00:00Z"}
    assert judged(shown(begun(log=NEW_LOG, **anew).runs(runs), MEMORY)) == ({Code.FORK}, ExitCode.FALSE)


def test_the_log_itself_extends_what_was_remembered() -> None:
    grown = Builder(list(HONEST.lines)).runs(3)
    assert judged(shown(grown, MEMORY, LOG)) == (set(), ExitCode.VERIFIED)


def test_a_log_that_was_cut_in_front_of_the_signer_is_a_rollback_and_no_fork() -> None:
    assert judged(shown(Builder(HONEST.lines[:1]), MEMORY, ROOT)) == (
        {Code.ROLLBACK, Code.CHECKPOINT_SIGNATURE},
        ExitCode.FALSE,
    )


def test_a_rotated_root_and_a_threshold_change_nothing() -> None:
    rotated = Builder()
    rotated.add("genesis", genesis_body(), ROOT)
    rotated.add("key", key_body(NEW_ROOT, "root", "rotate", replaces=ROOT.id), ROOT)
    rotated.add("key", key_body(LOG, "log"), NEW_ROOT)
    rotated.add("key", key_body(RUNNER, "runner"), NEW_ROOT)
    memory = remembered(rotated.runs(2))
    assert len(memory[1]) == 3
    assert judged(shown(begun(log=NEW_LOG).runs(4), memory)) == ({Code.FORK}, ExitCode.FALSE)
    several = Builder()
    several.add("genesis", genesis_body(), ROOT)
    several.add("key", key_body(NEW_ROOT, "root"), ROOT)
    several.add("threshold", threshold_body(2), ROOT)
    several.act("key", key_body(LOG, "log"), ROOT, NEW_ROOT)
    several.act("key", key_body(RUNNER, "runner"), ROOT, NEW_ROOT)
    memory = remembered(several.runs(2))
    assert len(memory[1]) == 5
    assert judged(shown(begun(log=NEW_LOG).runs(4), memory)) == ({Code.FORK}, ExitCode.FALSE)


def test_a_kept_entry_that_is_damaged_where_it_stands_is_no_other_in_its_place() -> None:
    log = Builder()
    log.add("genesis", genesis_body(), ROOT)
    log.add("key", key_body(NEW_ROOT, "root"), ROOT)
    log.add("threshold", threshold_body(2), ROOT)
    log.act("key", key_body(LOG, "log"), ROOT, NEW_ROOT)
    before = Builder(list(log.lines))
    log.act("key", key_body(RUNNER, "runner"), ROOT, NEW_ROOT)
    memory = remembered(log.runs(4))
    assert len(memory[1]) == 5
    cut = Builder(log.lines[:6])
    cut.lines[4] = cut.lines[4].replace(b'"reason":null', b'"reason":"x"')
    report = shown(cut, memory, LOG)
    assert (Code.ROLLBACK in report.counts, Code.FORK in report.counts) == (True, False)
    before.act("key", key_body(NEW_LOG, "log"), ROOT, NEW_ROOT)
    assert judged(shown(before, memory, LOG)) == ({Code.FORK}, ExitCode.FALSE)


# ------------------------------------------------------------------------------------------- it accuses nobody falsely

VICTIM = begun(log=NEW_LOG).runs(5)
"""An honest log that never enrolled the key ``LOG``."""
FOREIGN = ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)


def test_a_stranger_with_a_root_of_his_own_accuses_nobody() -> None:
    assert judged(shown(VICTIM, remembered(begun(root=STRANGER).runs(5)))) == FOREIGN


def test_a_log_of_another_name_under_the_same_root_accuses_nobody() -> None:
    memory = remembered(begun(origin="example.org/other").runs(5), origin="example.org/other")
    assert judged(shown(VICTIM, memory)) == FOREIGN
    head = sign_head(begun().runs(5).lines)
    assert judged(shown(VICTIM, (head, memory[1]))) == FOREIGN
    mixed = (HONEST.lines[0][:-1], *memory[1][1:])
    assert judged(shown(VICTIM, (sign_head(VICTIM.lines, STRANGER), mixed))) == FOREIGN


def test_a_head_by_somebody_else_behind_true_entries_accuses_nobody() -> None:
    for key in (STRANGER, ROOT, RUNNER):
        forged = sign_head([*HONEST.lines[1:], HONEST.lines[0]], key)
        assert judged(shown(VICTIM, (forged, MEMORY[1]))) == FOREIGN
        assert judged(shown(VICTIM, (forged, (*MEMORY[1], HONEST.lines[2][:-1])))) == FOREIGN


def test_a_key_that_a_stranger_enrols_accuses_nobody() -> None:
    """By an entry that looks like the root's, signed by himself, and by a root key that he enrols first."""
    forged = Builder(HONEST.lines[:1])
    forged.add("key", key_body(STRANGER, "log"), STRANGER)
    forged.add("key", key_body(STRANGER, "log"), ROOT)
    forged.lines[2] = forged.lines[2][:-99] + forged.lines[1][-99:]
    head = sign_head(forged.runs(3).lines, STRANGER)
    for lines in (forged.lines[:2], [forged.lines[0], forged.lines[2]], forged.lines[:3]):
        assert judged(shown(VICTIM, (head, tuple(line[:-1] for line in lines)))) == FOREIGN


def test_a_signer_that_was_revoked_in_front_of_the_head_accuses_nobody() -> None:
    ended = begun()
    ended.add("key", key_body(LOG, "log", "revoke"), ROOT)
    lines = tuple(line[:-1] for line in (*ended.lines[:2], ended.lines[3]))
    assert judged(shown(VICTIM, (sign_head(ended.runs(5).lines), lines))) == FOREIGN


def test_entries_that_were_changed_accuse_nobody_and_break_nothing() -> None:
    for number, line in enumerate(MEMORY[1]):
        for at in range(0, len(line), 7):
            changed = bytearray(line)
            changed[at] ^= 1 << at % 8
            lines = [bytes(changed) if n == number else kept for n, kept in enumerate(MEMORY[1])]
            assert judged(shown(VICTIM, (MEMORY[0], tuple(lines)))) == FOREIGN
    for some in ((), MEMORY[1][:1], MEMORY[1][1:], MEMORY[1][::-1], (*MEMORY[1], MEMORY[1][1]), (b"", b"x")):
        assert judged(shown(VICTIM, (MEMORY[0], some))) == FOREIGN


def test_true_entries_among_which_one_is_damaged_are_no_evidence() -> None:
    damaged = HONEST.lines[2][:-99] + HONEST.lines[1][-99:-1]
    assert judged(shown(VICTIM, (MEMORY[0], (*MEMORY[1], damaged)))) == FOREIGN


def test_where_line_one_is_damaged_nothing_is_accused() -> None:
    broken = Builder(list(VICTIM.lines))
    broken.lines[0] = broken.lines[0].replace(b"example.org", b"exampl3.org")
    assert not {Code.FORK, Code.ROLLBACK, Code.MEMORY_FOREIGN} & set(shown(broken, MEMORY).counts)


def rotated(count: int) -> Builder:
    """A log whose signer rests on as many rotations of the root."""
    made = Builder()
    made.add("genesis", genesis_body(), ROOT)
    root = ROOT
    for number in range(count):
        new = Key(f"root-{number}")
        made.add("key", key_body(new, "root", "rotate", replaces=root.id), root)
        root = new
    made.add("key", key_body(LOG, "log"), root)
    return made


def under_a_threshold(count: int) -> Builder:
    """A log with a threshold of two roots, and as many actions of theirs behind it."""
    made = Builder()
    made.add("genesis", genesis_body(), ROOT)
    made.add("key", key_body(LOG, "log"), ROOT)
    made.add("key", key_body(NEW_ROOT, "root"), ROOT)
    made.add("threshold", threshold_body(2), ROOT)
    for number in range(count):
        made.act("key", key_body(Key(f"runner-{number}"), "runner"), ROOT, NEW_ROOT)
    return made


LONG = {
    "rotations": (rotated, (60, 61, 62, 70, 300)),
    "actions under a threshold": (under_a_threshold, (59, 60, 61, 70, 300)),
}


@pytest.mark.parametrize(("make", "count"), [(make, count) for make, counts in LONG.values() for count in counts])
def test_a_signer_that_rests_on_many_root_actions_is_vouched_for_and_proved_all_the_same(
    make: Callable[[int], Builder], count: int
) -> None:
    ledger = make(count)
    memory = remembered(ledger)
    assert len(memory[1]) >= count
    assert sum(map(len, memory[1])) < MAX_ENROLMENTS / 3
    assert judged(shown(begun(log=NEW_LOG).runs(count + 9), memory)) == ({Code.FORK}, ExitCode.FALSE)
    head = ledger.head()
    proof = format_proof(prove_entry(MemorySource(ledger.data, checkpoint=head), 1))
    assert check_proof(proof, "p", TRUST).exit_code is ExitCode.VERIFIED
    size = len(ledger.lines)
    kept = ((f"checkpoints/{size - 1:012d}.note", sign_head(ledger.lines[:-1])),)
    if make is under_a_threshold:  # a rotation's log has no log key before its last entry
        heads = format_consistency(prove_heads(MemorySource(ledger.data, checkpoint=head, kept=kept), size - 1, size))
        assert check_consistency_file(heads, "c", TRUST).exit_code is ExitCode.VERIFIED


@pytest.mark.parametrize(
    ("module", "bound"), [("vouched.MAX_ENROLMENTS", 4_000), ("prove.MAX_ENTRIES", 5)], ids=["bytes", "entries"]
)
def test_more_entries_than_a_memory_holds_are_not_kept(
    module: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remembered(rotated(4))[1]
    monkeypatch.setattr(f"k3_ledger.verify.{module}", bound)
    assert remembered(rotated(2))[1]
    assert remembered(rotated(9))[1] == ()


# ------------------------------------------------------------------------------------------------------ proof files


def test_a_proof_of_another_history_under_the_same_root_is_a_fork() -> None:
    other = begun(log=NEW_LOG).runs(5)
    source = MemorySource(other.data, checkpoint=sign_head(other.lines, NEW_LOG))
    data = format_proof(prove_entry(source, 4))
    head, lines = MEMORY
    for kept, wanted in (
        ({"memory": lines}, {Code.FORK}),
        ({"another": lines}, {Code.FORK}),
        ({}, {Code.MEMORY_FOREIGN}),
    ):
        found = check_proof(data, "p", TRUST, (("memory", head),), enrolments=kept)
        assert set(found.counts) == wanted
    kept = ((f"checkpoints/{size:012d}.note", sign_head(other.lines[:size], NEW_LOG)) for size in (5,))
    source = MemorySource(other.data, checkpoint=sign_head(other.lines, NEW_LOG), kept=tuple(kept))
    data = format_consistency(prove_heads(source, 5, 8))
    found = check_consistency_file(data, "c", TRUST, (("memory", head),), enrolments={"memory": lines})
    assert set(found.counts) == {Code.FORK}


def test_a_run_that_differs_alone_is_a_fork_as_ever() -> None:
    other = begun()
    other.add("run", run_body(99), RUNNER)
    assert judged(shown(other.runs(7), MEMORY, LOG)) == ({Code.FORK}, ExitCode.FALSE)


def bare(ledger: Builder = HONEST, key: Key = LOG, size: int | None = None) -> tuple[bytes, tuple[bytes, ...]]:
    return sign_head(ledger.lines[:size], key), ()


@pytest.mark.parametrize("order", [1, -1])
def test_a_bare_note_beside_a_memory_that_enrols_its_signer_is_a_fork_as_well(order: int) -> None:
    older = remembered(begun().runs(2))
    forged = begun(log=NEW_LOG).runs(9)
    report = held_against(forged, *[bare(), older][::order])
    assert judged(report) == ({Code.FORK}, ExitCode.FALSE)
    assert report.counts[Code.FORK] == 2
    assert judged(held_against(forged, bare())) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE), "alone it is nothing"


def test_a_bare_note_of_more_entries_than_the_rewrite_has_is_a_fork_and_no_rollback() -> None:
    report = held_against(begun(log=NEW_LOG).runs(3), bare(), remembered(begun().runs(2)))
    assert (judged(report), report.counts[Code.FORK]) == (({Code.FORK}, ExitCode.FALSE), 2)


def test_a_bare_note_of_a_log_that_was_rolled_back_is_a_rollback() -> None:
    cut = begun().runs(3)
    report = held_against(cut, bare(), remembered(begun().runs(2)), log=LOG)
    assert judged(report) == ({Code.ROLLBACK}, ExitCode.FALSE)


def test_two_bare_notes_by_one_key_accuse_nobody() -> None:
    """Anybody can sign two notes of one name: that an older one is by the same key says nothing of the log's root."""
    forged = begun(log=NEW_LOG).runs(9)
    report = held_against(forged, bare(), bare(size=4))
    assert judged(report) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)


def test_a_strangers_bare_note_beside_a_memory_accuses_nobody() -> None:
    honest = begun().runs(7)
    report = held_against(honest, bare(key=STRANGER), MEMORY, log=LOG)
    assert judged(report) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)


def test_a_bare_note_beside_a_memory_under_another_root_accuses_nobody() -> None:
    other = begun(Key("another root"), STRANGER).runs(5)
    theirs = sign_head(other.lines, STRANGER), tuple(line.removesuffix(b"\n") for line in other.lines[:2])
    report = held_against(begun().runs(7), bare(other, STRANGER), theirs, log=LOG)
    assert judged(report) == ({Code.MEMORY_FOREIGN}, ExitCode.UNREADABLE)


def test_a_head_with_entries_of_its_own_that_show_nothing_is_not_held_against_anothers() -> None:
    broken = bare()[0], (MEMORY[1][0], MEMORY[1][1][:-1])
    forged = begun(log=NEW_LOG).runs(9)
    assert Code.MEMORY_FOREIGN in held_against(forged, broken, MEMORY).counts


def test_a_bare_note_that_the_log_extends_is_one_beside_a_memory() -> None:
    assert judged(held_against(HONEST, bare(size=4), MEMORY, log=LOG)) == (set(), ExitCode.VERIFIED)
