from __future__ import annotations

import errno
import os
import threading
from typing import Any

import pytest

from k3_ledger.ledger.core.framing import MAX_LINE
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.store import Ledger, NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError, SchemaError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledger.writer.support import (
    OPENING,
    SIGNERS,
    STRANGER,
    TIME,
    FailingDisk,
    FullDisk,
    RecordingDisk,
    add_line,
    append_notes,
    new_ledger,
    note,
    notes,
    public,
    read_entries,
)

JUDGE = SIGNERS["judge"]


def refused(ledger: Ledger, kind: str, body: dict[str, Any], signer=JUDGE, **options: Any) -> LedgerError:
    """The error of an append; the log is as it was."""
    before = ledger.log_path.read_bytes()
    with ledger.writer(signer) as writer, pytest.raises(LedgerError) as caught:
        writer.append(kind, body, **options)
    assert ledger.log_path.read_bytes() == before
    return caught.value


def test_receipt_says_where_the_entry_stands(ledger):
    size = ledger.log_path.stat().st_size
    with ledger.writer(JUDGE) as writer:
        first = writer.append("note", note("first"), time=TIME)
        second = writer.append("note", note("second"))
    entries = read_entries(ledger.log_path)
    assert (first.index, second.index) == (OPENING, OPENING + 1)
    assert first.byte_offset == size
    assert ledger.log_path.read_bytes()[second.byte_offset :].count(b"\n") == 1
    assert [first.identity, second.identity] == [entry["identity"] for entry in entries[-2:]]
    assert entries[-2]["time"] == TIME
    assert entries[-1]["time"].endswith("Z")


def test_entries_are_on_the_disk_before_success_is_reported(tmp_path):
    disk = RecordingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("warm up"))
        disk.calls.clear()
        writer.append("note", note("one"))
        assert disk.calls[-2:] == ["write", "fdatasync"]
        disk.calls.clear()
        writer.append_many([Draft("note", note(f"many {i}")) for i in range(50)])
    assert disk.calls.count("write") == disk.calls.count("fdatasync") == 1


def test_large_group_is_signed_by_several_threads_in_order(ledger, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    with ledger.writer(JUDGE) as writer:
        receipts = writer.append_many([Draft("note", note(str(i))) for i in range(1001)])
    assert notes(ledger.log_path) == [str(i) for i in range(1001)]
    assert [receipt.index for receipt in receipts] == list(range(OPENING, OPENING + 1001))
    data = ledger.log_path.read_bytes()
    assert all(data[receipt.byte_offset - 1 :].startswith(b'\n{"entry":') for receipt in receipts)


def test_group_commit_of_nothing_writes_nothing(ledger):
    before = ledger.log_path.read_bytes()
    with ledger.writer(JUDGE) as writer:
        assert writer.append_many([]) == []
    assert ledger.log_path.read_bytes() == before


def test_group_commit_with_one_bad_entry_appends_none(ledger):
    before = ledger.log_path.read_bytes()
    with ledger.writer(JUDGE) as writer, pytest.raises(SchemaError):
        writer.append_many([Draft("note", note("good")), Draft("note", {"text": "no artifacts"})])
    assert ledger.log_path.read_bytes() == before


def test_rehearsal_refuses_like_an_append_and_writes_nothing(ledger):
    before = ledger.log_path.read_bytes()
    with ledger.writer(JUDGE) as writer:
        writer.rehearse([Draft("note", note("x"))])
        with pytest.raises(SchemaError):
            writer.rehearse([Draft("note", {})])
    assert ledger.log_path.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"text": "x"}, Code.SCHEMA_MISSING_FIELD, "body.artifacts"),
        ({"text": "x", "artifacts": [], "more": 1}, Code.SCHEMA_UNKNOWN_FIELD, "body.more"),
        ({"text": "", "artifacts": []}, Code.SCHEMA_VALUE, "body.text"),
        ({"text": 1.5, "artifacts": []}, Code.JSON_FLOAT, "body.text"),
        ({"text": "\ud800", "artifacts": []}, Code.JSON_LONE_SURROGATE, "body.text"),
        ({"text": "x", "artifacts": [], "Key": 1}, Code.JSON_KEY_ALPHABET, "body"),
    ],
)
def test_body_is_validated_before_anything_is_written(ledger, body, code, field):
    error = refused(ledger, "note", body)
    assert error.code is code
    assert error.finding.position.field == field


def test_claimed_time_is_validated(ledger):
    error = refused(ledger, "note", note("x"), time="2026-02-30T00:00:00Z")
    assert error.finding.position.field == "time"


def test_entry_too_long_for_a_line_names_its_largest_field_and_the_cure(ledger):
    error = refused(ledger, "run", {"flags": "f" * 3000, "artifacts": ["a" * 30_000] * 3}, SIGNERS["runner"])
    assert error.code is Code.ENTRY_TOO_LONG
    assert error.finding.position.field == "body.artifacts"
    assert "artifact" in error.finding.advice


def test_longest_entry_that_fits_is_taken(ledger):
    def line(text: str) -> int:
        before = ledger.log_path.stat().st_size
        append_notes(ledger, text)
        return ledger.log_path.stat().st_size - before - 1

    frame = line("x") - 1
    assert line("€" * 21_000 + "x" * (MAX_LINE - frame - 63_000)) == MAX_LINE
    error = refused(ledger, "note", note("€" * 21_000 + "x" * (MAX_LINE - frame - 63_000 + 1)))
    assert error.code is Code.ENTRY_TOO_LONG


@pytest.mark.parametrize(
    ("kind", "role", "code"),
    [
        ("note", "stranger", Code.KEY_UNKNOWN),
        ("pin", "runner", Code.KEY_WRONG_ROLE),
        ("key", "judge", Code.KEY_WRONG_ROLE),
        ("run", "root", Code.KEY_WRONG_ROLE),
        ("genesis", "root", Code.CHAIN_SECOND_GENESIS),
        ("nonsense", "root", Code.SCHEMA_UNKNOWN_KIND),
    ],
)
def test_key_that_may_not_sign_the_kind_is_refused_before_writing(ledger, kind, role, code):
    signer = STRANGER if role == "stranger" else SIGNERS[role]
    assert refused(ledger, kind, {}, signer).code is code


def test_rotated_key_signs_until_its_rotation_and_not_after(ledger):
    with ledger.writer(JUDGE) as old, ledger.writer(SIGNERS["root"]) as root, ledger.writer(STRANGER) as new:
        old.append("note", note("by the old key"))
        rotation = {**enrolment(NewKey("judge", "judge-2", public(STRANGER))), "action": "rotate"}
        root.append("key", {**rotation, "replaces": JUDGE.key_id})
        with pytest.raises(LedgerError) as caught:
            old.append("note", note("too late"))
        assert caught.value.code is Code.KEY_RETIRED
        new.append("note", note("by the new key"))
    assert notes(ledger.log_path) == ["by the old key", "by the new key"]


def test_keys_enrolled_by_another_writer_are_known_at_once(ledger):
    with ledger.writer(STRANGER) as writer:
        with pytest.raises(LedgerError):
            writer.append("note", note("who?"))
        with ledger.writer(SIGNERS["root"]) as root:
            root.append("key", enrolment(NewKey("judge", "new", public(STRANGER))))
        writer.append("note", note("enrolled"))
    assert notes(ledger.log_path) == ["enrolled"]


def test_root_that_retires_itself_in_a_group_signs_nothing_behind_it(ledger):
    root = SIGNERS["root"]
    rotation = {**enrolment(NewKey("root", "root-2", public(STRANGER))), "action": "rotate", "replaces": root.key_id}
    before = ledger.log_path.read_bytes()
    with ledger.writer(root) as writer, pytest.raises(LedgerError) as caught:
        writer.append_many([Draft("note", note("before")), Draft("key", rotation), Draft("note", note("after"))])
    assert caught.value.code is Code.KEY_RETIRED
    assert ledger.log_path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"key_id": "0" * 64}, Code.KEY_ID_MISMATCH),
        ({"public_key": (b"\1" + bytes(31)).hex()}, Code.KEY_ID_MISMATCH),
        ({"action": "rotate", "replaces": "0" * 64}, Code.KEY_UNKNOWN_TARGET),
        ({"action": "revoke"}, Code.KEY_UNKNOWN_TARGET),
    ],
)
def test_key_entry_that_could_not_count_is_refused(ledger, change, code):
    body = {**enrolment(NewKey("judge", "x", public(STRANGER))), **change}
    assert refused(ledger, "key", body, SIGNERS["root"]).code is code


def test_key_enrolled_twice_is_refused(ledger):
    body = enrolment(NewKey("judge", "again", public(JUDGE)))
    assert refused(ledger, "key", body, SIGNERS["root"]).code is Code.KEY_ENROLLED_TWICE


def test_further_semantics_can_refuse_an_entry(ledger):
    def check(entry: Any):
        if "forbidden" in entry.body.text:
            yield Finding(Code.RECEIPT_CLOCK, "forbidden")

    with ledger.writer(JUDGE, check=check) as writer:
        writer.append("note", note("fine"))
        with pytest.raises(LedgerError) as caught:
            writer.append("note", note("forbidden"))
    assert caught.value.code is Code.RECEIPT_CLOCK
    assert notes(ledger.log_path) == ["fine"]


def supersede(target: str, replacement: str | None = None) -> dict[str, Any]:
    return {"target": target, "reason": "measured again", "replacement": replacement}


def test_entry_that_names_earlier_entries_is_taken(ledger):
    append_notes(ledger, "a", "b")
    identities = [entry["identity"] for entry in read_entries(ledger.log_path)][OPENING:]
    with ledger.writer(JUDGE) as writer:
        for identity in identities:
            writer.append("supersede", supersede(identity))
        last = writer.append("note", note("x")).identity
        writer.append("supersede", supersede(identities[0], last))


def test_entry_may_name_one_in_front_of_it_in_the_same_group(ledger, tmp_path):
    twin = new_ledger(tmp_path / "twin")
    with twin.writer(JUDGE) as writer:
        coming = writer.append("note", note("x"), time=TIME).identity
    with ledger.writer(JUDGE) as writer:
        writer.append_many([Draft("note", note("x"), TIME), Draft("supersede", supersede(coming))])
    with twin.writer(JUDGE) as writer, pytest.raises(LedgerError):
        writer.append_many([Draft("supersede", supersede("1" * 64)), Draft("note", note("x"))])


def round_of(*runs: str) -> dict[str, Any]:
    return {
        "round": "r", "node": "n", "rule": "house-1.decode", "base_commit": "a" * 40, "frontier": None,
        "runs": list(runs),
    }  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, OPENING - 1])
def test_entry_that_names_what_it_cannot_be_about_is_refused(ledger, place):
    target = read_entries(ledger.log_path)[place]["identity"]
    error = refused(ledger, "supersede", supersede(target))
    assert (error.code, error.finding.position.field) == (Code.REFERENCE_KIND, "body.target")
    assert error.finding.found == ("key" if place else "genesis")
    assert refused(ledger, "round", round_of(target)).code is Code.REFERENCE_KIND


def test_a_round_is_of_receipts_in_the_same_group_as_well(ledger, tmp_path):
    twin = new_ledger(tmp_path / "twin")
    with twin.writer(JUDGE) as writer:
        coming = writer.append("note", note("x"), time=TIME).identity
    with ledger.writer(JUDGE) as writer, pytest.raises(LedgerError) as caught:
        writer.append_many([Draft("note", note("x"), TIME), Draft("round", round_of(coming))])
    assert (caught.value.code, caught.value.finding.found) == (Code.REFERENCE_KIND, "note")


@pytest.mark.parametrize("which", ["unknown", "origin", "replacement"])
def test_entry_that_names_what_does_not_exist_is_refused(ledger, which):
    append_notes(ledger, "a")
    first, *_, last = read_entries(ledger.log_path)
    body = {
        "unknown": supersede("0" * 64),
        "origin": supersede(first["prev"]),
        "replacement": supersede(last["identity"], "0" * 64),
    }[which]
    error = refused(ledger, "supersede", body)
    assert error.code is Code.REFERENCE_UNKNOWN
    assert error.finding.position.field == ("body.replacement" if which == "replacement" else "body.target")


# ---------------------------------------------------------------------------------------------- what is in the way


def append_raw(ledger: Ledger, data: bytes) -> None:
    with ledger.log_path.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("tail", "code", "exit_code"),
    [
        (b"{", Code.TORN_TAIL, ExitCode.TORN_TAIL),
        (b'{"entry":{"body":{"te', Code.TORN_TAIL, ExitCode.TORN_TAIL),
        (bytes(4096), Code.NUL_TAIL, ExitCode.TORN_TAIL),
        (b'{"entry":{"bo' + bytes(10), Code.NUL_TAIL, ExitCode.TORN_TAIL),
    ],
)
def test_torn_tail_stops_appends_until_recover(ledger, tail, code, exit_code):
    append_raw(ledger, tail)
    error = refused(ledger, "note", note("x"))
    assert isinstance(error, StoreError)
    assert (error.code, error.code.info.exit) == (code, exit_code)
    assert "k3-ledger recover" in error.finding.advice


def test_tear_under_an_open_writer_stops_it_until_recover(ledger):
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("before"))
        append_raw(ledger, b'{"entry":{"bo')
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("x"))
        assert caught.value.code is Code.TORN_TAIL
        recover(ledger)
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["before", "after"]


@pytest.mark.parametrize("tail", [b"hello", b"  ", b'{"entry":{"body":tru!'])
def test_damaged_tail_stops_appends_and_is_not_called_torn(ledger, tail):
    append_raw(ledger, tail)
    error = refused(ledger, "note", note("x"))
    assert error.code is Code.TAIL_DAMAGED


def test_huge_line_without_end_is_damage_in_flat_memory(ledger):
    append_raw(ledger, b"x" * 10_000_000 + b"\n")
    assert refused(ledger, "note", note("x")).code is Code.LINE_TOO_LONG


def test_empty_log_is_no_ledger(ledger):
    ledger.log_path.write_bytes(b"")
    assert refused(ledger, "note", note("x")).code is Code.EMPTY_LEDGER


def test_log_that_is_one_torn_line_is_torn(ledger):
    ledger.log_path.write_bytes(ledger.log_path.read_bytes()[:50])
    assert refused(ledger, "note", note("x")).code is Code.TORN_TAIL


def lines_of(ledger: Ledger) -> list[bytes]:
    return ledger.log_path.read_bytes().split(b"\n")[:-1]


def rewrite(ledger: Ledger, lines: list[bytes]) -> None:
    ledger.log_path.write_bytes(b"".join(line + b"\n" for line in lines))


def flip(line: bytes, at: int) -> bytes:
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]


def test_tampered_last_entry_is_not_built_upon(ledger):
    append_notes(ledger, "genuine")
    *rest, last = lines_of(ledger)
    rewrite(ledger, [*rest, last.replace(b"genuine", b"forgery")])
    error = refused(ledger, "note", note("x"))
    assert isinstance(error, SignatureError)
    assert error.code is Code.SIGNATURE_MISMATCH
    assert "recover is for torn tails only" in error.finding.advice


@pytest.mark.parametrize(
    ("mutate", "code"),
    [
        (lambda lines: lines[:-2] + lines[-1:], Code.CHAIN_INDEX),
        (lambda lines: [*lines, lines[-1]], Code.CHAIN_INDEX),
        (lambda lines: [*lines[:-2], lines[-2].replace(b'"text":"a"', b'"text":"b"'), lines[-1]], Code.CHAIN_PREV),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'{"entry":', b'{"ENTRY":')], Code.LINE_HEAD),
        (lambda lines: [*lines, b""], Code.BLANK_LINE),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'"note"', b'"nope"')], Code.SCHEMA_UNKNOWN_KIND),
        (lambda lines: [*lines[:-1], lines[-1][:40] + lines[-1]], Code.GLUED_LINES),
        (lambda lines: lines[1:], Code.CHAIN_NO_GENESIS),
        (lambda lines: [lines[0].replace(b"example.org/test", b"example.org/tesT"), *lines[1:]], Code.CHAIN_PREV),
        (lambda lines: [flip(lines[0], -5), *lines[1:]], Code.SIGNATURE_BASE64),
        (lambda lines: [flip(lines[0], -20), *lines[1:]], Code.SIGNATURE_MISMATCH),
        (lambda lines: [lines[0], flip(lines[1], -20), *lines[2:]], Code.SIGNATURE_MISMATCH),
        (lambda lines: [lines[0], *lines[2:]], Code.CHAIN_INDEX),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], Code.CHAIN_INDEX),
    ],
    ids=[
        "second to last removed", "last repeated", "second to last changed", "head of line", "blank line", "kind",
        "glued", "genesis removed", "genesis changed", "genesis base64", "genesis signature", "key signature",
        "key removed", "keys swapped",
    ],
)  # fmt: skip
def test_damage_that_matters_to_an_append_is_refused_by_cause(ledger, mutate, code):
    append_notes(ledger, "a", "b")
    rewrite(ledger, mutate(lines_of(ledger)))
    assert refused(ledger, "note", note("x")).code is code


def test_genesis_with_a_weak_root_key_is_refused(ledger):
    first, *rest = lines_of(ledger)
    weak = (b"\1" + bytes(31)).hex().encode()
    rewrite(ledger, [first.replace(SIGNERS["root"].public_key.hex().encode(), weak), *rest])
    assert refused(ledger, "note", note("x")).code is Code.KEY_WEAK


def test_key_entries_that_cannot_count_are_left_to_verify(ledger):
    enrol = enrolment(NewKey("judge", "x", public(STRANGER)))
    append_notes(ledger, 'a note that says "kind":"key"')
    add_line(ledger.log_path, STRANGER, "key", enrol)
    add_line(ledger.log_path, SIGNERS["root"], "key", enrolment(NewKey("judge", "again", public(JUDGE))))
    append_notes(ledger, "still here")
    assert refused(ledger, "note", note("x"), STRANGER).code is Code.KEY_UNKNOWN


def test_last_entry_by_an_unknown_key_is_refused(ledger):
    add_line(ledger.log_path, STRANGER, "note", note("by a stranger"))
    assert refused(ledger, "note", note("x")).code is Code.KEY_UNKNOWN


def test_ledger_of_one_entry_is_appended_to(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", origin="o", root=SIGNERS["root"])
    append_notes(ledger, "second entry", signer=SIGNERS["root"])
    assert notes(ledger.log_path) == ["second entry"]


# ---------------------------------------------------------------------------------------------------- the disk fails


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_failed_write_appends_nothing_and_the_writer_goes_on(tmp_path, error):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("before"))
        before = ledger.log_path.read_bytes()
        disk.fail("write", error)
        with pytest.raises(StoreError, match="nothing was appended, the ledger is as it was") as caught:
            writer.append("note", note("lost"))
        assert caught.value.finding.found == os.strerror(error)
        assert str(ledger.log_path) in str(caught.value)
        assert ledger.log_path.read_bytes() == before
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["before", "after"]


@pytest.mark.parametrize("room", [1, 8, 9, 10, 100, 300])
def test_disk_that_fills_up_in_mid_write_is_cut_back(tmp_path, room):
    disk = FullDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        before = ledger.log_path.read_bytes()
        disk.room = room
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("x" * 1000))
        assert caught.value.code is Code.DISK_FULL
        assert "free space" in caught.value.finding.advice
        assert ledger.log_path.read_bytes() == before
        disk.room = None
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["after"]


def test_short_writes_are_continued(tmp_path):
    class Sip(FailingDisk):
        def write(self, fd, data):
            return super().write(fd, data[:7])

    ledger = new_ledger(tmp_path / "ledger", Sip())
    append_notes(ledger, "drop by drop")
    assert notes(ledger.log_path) == ["drop by drop"]


def test_write_that_makes_no_progress_is_an_error_not_a_loop(tmp_path):
    class Stuck(FailingDisk):
        stuck = False

        def write(self, fd, data):
            return 0 if self.stuck else super().write(fd, data)

    disk = Stuck()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.stuck = True
    assert refused(ledger, "note", note("x")).code is Code.DISK_ERROR


def test_failed_sync_acknowledges_nothing_and_stops_the_writer_for_good(tmp_path):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        before = ledger.log_path.read_bytes()
        disk.fail("fdatasync", errno.EIO)
        with pytest.raises(StoreError, match="sync") as caught:
            writer.append("note", note("lost"))
        assert caught.value.code is Code.DISK_ERROR
        assert ledger.log_path.read_bytes() == before
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("never"))
        assert caught.value.code is Code.WRITER_STOPPED
        assert "sync" in str(caught.value)
    append_notes(ledger, "a new writer")
    assert notes(ledger.log_path) == ["a new writer"]


@pytest.mark.parametrize("call", ["ftruncate", "fsync"])
def test_when_cutting_back_fails_too_the_message_says_what_is_left(tmp_path, call):
    disk = FullDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("the names are synced"))
        size = ledger.log_path.stat().st_size
        disk.room = 20
        disk.fail(call, errno.EIO)
        with pytest.raises(StoreError, match=f"a torn tail may stand at byte {size}") as caught:
            writer.append("note", note("x"))
        assert caught.value.code is Code.DISK_FULL
        assert "k3-ledger recover" in caught.value.finding.advice
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("never"))
        assert caught.value.code is Code.WRITER_STOPPED
    disk.room = None
    expected = Code.TORN_TAIL if call == "ftruncate" else None
    with ledger.writer(JUDGE) as writer:
        if expected is None:
            writer.append("note", note("after"))
            return
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("after"))
        assert caught.value.code is expected


@pytest.mark.parametrize("call", ["ftruncate", "fsync"])
def test_when_cutting_back_after_a_failed_sync_fails_too_whole_entries_may_stand(tmp_path, call):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("the names are synced"))
        size = ledger.log_path.stat().st_size
        disk.fail("fdatasync", errno.EIO)
        disk.fail(call, errno.EIO)
        with pytest.raises(StoreError, match=f"from byte {size} on, whole entries may stand that are not on") as caught:
            writer.append("note", note("x"))
        assert "restart the machine" in caught.value.finding.advice
        assert "torn tail may stand" not in str(caught.value)


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_writer_that_cannot_sync_what_stands_vouches_for_nothing_and_is_finished(tmp_path, call):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        disk.fail(call, errno.EIO)
        with pytest.raises(StoreError) as caught:
            next(writer.find(b'"kind":"key"'))
        assert caught.value.code is Code.DISK_ERROR
        with pytest.raises(StoreError) as caught:
            writer.append_many([])
        assert caught.value.code is Code.WRITER_STOPPED


def test_interrupt_in_mid_write_is_cut_back_and_passed_on(tmp_path):
    class Impatient(FailingDisk):
        armed = False

        def write(self, fd, data):
            if self.armed:
                super().write(fd, data[:30])
                raise KeyboardInterrupt
            return super().write(fd, data)

    disk = Impatient()
    ledger = new_ledger(tmp_path / "ledger", disk)
    before = ledger.log_path.read_bytes()
    with ledger.writer(JUDGE) as writer:
        disk.armed = True
        with pytest.raises(KeyboardInterrupt):
            writer.append("note", note("x"))
        assert ledger.log_path.read_bytes() == before
        disk.armed = False
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["after"]


def test_disk_that_cannot_be_read_is_named(tmp_path):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail("read", errno.EIO)
    error = refused(ledger, "note", note("x"))
    assert error.code is Code.DISK_ERROR
    assert "read the ledger" in str(error)


def test_disk_that_does_not_say_how_long_the_log_is_is_named(tmp_path):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    with ledger.writer(JUDGE) as writer:
        disk.fail("fstat", errno.EIO)
        with pytest.raises(StoreError, match="look at the ledger"):
            writer.append("note", note("x"))
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["after"]


def test_reads_that_come_in_pieces_are_put_together(tmp_path):
    class Trickle(FailingDisk):
        def read(self, fd, count, offset):
            return super().read(fd, min(count, 100), offset)

    ledger = new_ledger(tmp_path / "ledger", Trickle())
    append_notes(ledger, "a", "b")
    assert notes(ledger.log_path) == ["a", "b"]


# ------------------------------------------------------------------------------------------ others change the file


def test_writers_take_turns_without_reopening(ledger):
    with ledger.writer(JUDGE) as one, ledger.writer(SIGNERS["runner"]) as two:
        for turn in range(5):
            one.append("note", note(f"one {turn}"))
            two.append("note", note(f"two {turn}"))
    assert notes(ledger.log_path) == [f"{who} {turn}" for turn in range(5) for who in ("one", "two")]


def test_file_replaced_by_another_tool_is_the_one_appended_to(ledger):
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("before"))
        copy = ledger.root / "copy"
        copy.write_bytes(ledger.log_path.read_bytes())
        copy.rename(ledger.log_path)
        writer.append("note", note("after"))
    assert notes(ledger.log_path) == ["before", "after"]


@pytest.mark.parametrize("how", ["cut", "rewritten"])
def test_file_cut_or_rewritten_under_a_writer_stops_it(ledger, how):
    append_notes(ledger, "a")
    with ledger.writer(JUDGE) as writer:
        writer.append("note", note("b"))
        lines = lines_of(ledger)
        shorter = lines[:-1] if how == "cut" else [*lines[:-1], lines[-1].replace(b'"b"', b'"c"')]
        rewrite(ledger, shorter)
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("x"))
        assert caught.value.code is Code.LOG_REPLACED
        with pytest.raises(StoreError) as caught:
            writer.append("note", note("x"))
        assert caught.value.code is Code.WRITER_STOPPED
    assert lines_of(ledger) == shorter


def test_one_writer_shared_by_threads_keeps_one_chain(ledger):
    def work(name: str) -> None:
        for turn in range(20):
            writer.append("note", note(f"{name} {turn}"))

    with ledger.writer(JUDGE) as writer:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(notes(ledger.log_path)) == sorted(f"{name} {turn}" for name in "abc" for turn in range(20))


def test_entries_are_found_by_a_mark_in_their_line(ledger):
    append_notes(ledger, "needle one", "hay", "needle two")
    with ledger.writer(JUDGE) as writer, writer.exclusive():
        found = list(writer.find(b"needle"))
    assert [(receipt.index, entry.body.text) for receipt, entry in found] == [
        (OPENING, "needle one"),
        (OPENING + 2, "needle two"),
    ]
    assert [receipt.identity for receipt, _ in found] == [read_entries(ledger.log_path)[i]["identity"] for i in (5, 7)]


def test_log_larger_than_a_block_is_scanned_whole(ledger, monkeypatch):
    monkeypatch.setattr("k3_ledger.ledger.writer.state.BLOCK", 4096)
    with ledger.writer(JUDGE) as writer:
        writer.append_many([Draft("note", note(f"{i:03} " + "x" * 500)) for i in range(40)])
    with ledger.writer(SIGNERS["root"]) as root:
        root.append("key", enrolment(NewKey("judge", "late", public(STRANGER))))
    append_notes(ledger, "by the late key", signer=STRANGER)
    assert len(notes(ledger.log_path)) == 41
