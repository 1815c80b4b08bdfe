from __future__ import annotations

import base64
import errno

import pytest

from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint
from k3_ledger.ledger.core.note import sign_note
from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.checkpoint import NoteSigner, make_checkpoint
from k3_ledger.ledger.writer.recover import Recovered, recover
from k3_ledger.ledger.writer.store import Ledger, NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import (
    OPENING,
    ORIGIN,
    SIGNERS,
    STRANGER,
    TIME,
    FailingDisk,
    Killed,
    MortalDisk,
    RecordingDisk,
    append_notes,
    new_ledger,
    note,
    notes,
    public,
)


def tear(ledger, data: bytes) -> tuple[int, bytes]:
    """Put bytes behind the last line feed; gives where, and the log without them."""
    whole = ledger.log_path.read_bytes()
    ledger.log_path.write_bytes(whole + data)
    return len(whole), whole


def last_line(ledger) -> bytes:
    return ledger.log_path.read_bytes().split(b"\n")[-2]


def test_ledger_that_is_not_torn_is_left_alone(ledger):
    before = ledger.log_path.read_bytes()
    assert recover(ledger) == Recovered(OPENING, len(before), 0, None, complete=False)
    assert ledger.log_path.read_bytes() == before
    assert not ledger.recovered_path.exists()


@pytest.mark.parametrize(
    "tail",
    [b"{", b'{"entry":{"body":{"text":"hal', bytes(1), bytes(5_000_000), b'{"entry":{"body"' + bytes(100)],
    ids=["one byte", "half an entry", "one NUL", "many NULs", "part and NULs"],
)
def test_torn_tail_is_kept_aside_and_cut_off(ledger, tail):
    append_notes(ledger, "acknowledged")
    offset, whole = tear(ledger, tail)
    done = recover(ledger)
    assert done == Recovered(OPENING + 1, offset, len(tail), done.kept, complete=False)
    assert ledger.log_path.read_bytes() == whole
    assert done.kept is not None
    assert done.kept == ledger.recovered_path / f"{offset}-{len(tail)}.torn"
    assert done.kept.read_bytes() == tail
    append_notes(ledger, "goes on")
    assert notes(ledger.log_path) == ["acknowledged", "goes on"]


def test_every_cut_of_an_entry_is_recovered(ledger):
    append_notes(ledger, "kept", "cut é€")
    line = last_line(ledger)
    whole = ledger.log_path.read_bytes()[: -len(line) - 1]
    for cut in (*range(1, 40), *range(40, len(line), 17), len(line)):
        ledger.log_path.write_bytes(whole + line[:cut])
        done = recover(ledger)
        assert (done.cut, done.complete) == (cut, cut == len(line))
        assert ledger.log_path.read_bytes() == whole


def test_second_tear_at_the_same_place_gets_a_file_of_its_own(ledger):
    for tail, name in [(b"{", ""), (b"\0", "-2"), (b"{", "")]:
        offset, _ = tear(ledger, tail)
        done = recover(ledger)
        assert done.kept == ledger.recovered_path / f"{offset}-1{name}.torn"
        assert done.kept.read_bytes() == tail
    assert len(list(ledger.recovered_path.iterdir())) == 2


def test_kept_file_that_was_changed_is_not_taken_for_this_tail(ledger):
    offset, _ = tear(ledger, b"{")
    ledger.recovered_path.mkdir()
    (ledger.recovered_path / f"{offset}-1.torn").write_bytes(b"{longer")
    assert recover(ledger).kept == ledger.recovered_path / f"{offset}-1-2.torn"


def test_tampered_last_entry_is_not_taken_for_a_torn_one(ledger):
    append_notes(ledger, "genuine")
    data = ledger.log_path.read_bytes().replace(b"genuine", b"forgery")
    ledger.log_path.write_bytes(data + b'{"entry":{"bo')
    with pytest.raises(SignatureError) as caught:
        recover(ledger)
    assert caught.value.code is Code.SIGNATURE_MISMATCH
    assert ledger.log_path.read_bytes() == data + b'{"entry":{"bo'
    assert not ledger.recovered_path.exists()


def test_tampered_entry_without_its_line_feed_is_not_taken_for_a_torn_one(ledger):
    append_notes(ledger, "genuine")
    data = ledger.log_path.read_bytes().replace(b"genuine", b"forgery")[:-1]
    ledger.log_path.write_bytes(data)
    with pytest.raises(SignatureError) as caught:
        recover(ledger)
    assert caught.value.code is Code.SIGNATURE_MISMATCH
    assert ledger.log_path.read_bytes() == data


@pytest.mark.parametrize("tail", [b"hello", b"\n\n", b"   ", b'{"entry":{"body":{}}x'])
def test_damage_is_refused_and_left_as_it_is(ledger, tail):
    tear(ledger, tail)
    before = ledger.log_path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        recover(ledger)
    assert caught.value.code in (Code.TAIL_DAMAGED, Code.BLANK_LINE)
    assert ledger.log_path.read_bytes() == before


def test_ledger_shorter_than_its_checkpoint_is_refused(ledger):
    append_notes(ledger, "a", "b")
    make_checkpoint(ledger, SIGNERS["log"])
    data = ledger.log_path.read_bytes()[:-10]
    ledger.log_path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        recover(ledger)
    assert caught.value.code is Code.RECOVER_REFUSED
    assert "acknowledged entries are lost" in str(caught.value)
    assert ledger.log_path.read_bytes() == data
    ledger.checkpoint_path.unlink()
    with pytest.raises(StoreError):
        recover(ledger)


def test_torn_tail_behind_a_checkpoint_is_recovered(ledger):
    append_notes(ledger, "a")
    make_checkpoint(ledger, SIGNERS["log"])
    tear(ledger, b'{"ent')
    assert recover(ledger).cut == 5


def headed(ledger, *texts: str) -> bytes:
    """A ledger with a signed head over all of it, whose last line feed is lost; gives the log with it."""
    append_notes(ledger, *texts)
    make_checkpoint(ledger, SIGNERS["log"])
    whole = ledger.log_path.read_bytes()
    ledger.log_path.write_bytes(whole[:-1])
    return whole


def test_line_feed_that_a_signed_head_vouches_for_is_put_back(ledger):
    whole = headed(ledger, "a", "b")
    offset = whole.rindex(b"\n", 0, -1) + 1
    done = recover(ledger)
    kept = ledger.recovered_path / f"{offset}-{len(whole) - offset - 1}.torn"
    assert done == Recovered(OPENING + 2, offset, 0, kept, complete=True, restored=True)
    assert ledger.log_path.read_bytes() == whole
    assert kept.read_bytes() == whole[offset:-1]
    assert recover(ledger) == Recovered(OPENING + 2, len(whole), 0, None, complete=False)
    append_notes(ledger, "goes on")


def test_line_feed_is_synced_before_it_is_said_to_be_back(tmp_path):
    disk = RecordingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    headed(ledger, "a")
    disk.calls.clear()
    assert recover(ledger).restored
    written = len(disk.calls) - 1 - disk.calls[::-1].index("write")
    assert "fsync" in disk.calls[written:]
    assert "rename" in disk.calls[:written], "the line as it was is kept first"


def test_kept_head_alone_vouches_for_the_line_feed(ledger):
    whole = headed(ledger, "a")
    ledger.checkpoint_path.unlink()
    assert recover(ledger).restored
    assert ledger.log_path.read_bytes() == whole


def test_line_feed_behind_the_heads_is_cut_with_its_entry_as_before(ledger):
    append_notes(ledger, "a")
    make_checkpoint(ledger, SIGNERS["log"])
    whole = ledger.log_path.read_bytes()
    append_notes(ledger, "never acknowledged")
    ledger.log_path.write_bytes(ledger.log_path.read_bytes()[:-1])
    done = recover(ledger)
    assert (done.complete, done.restored) == (True, False)
    assert ledger.log_path.read_bytes() == whole


def _sign_another_root(ledger, whole):
    other = new_ledger(ledger.root.parent / "other")
    append_notes(other, "something else")
    make_checkpoint(other, SIGNERS["log"])
    ledger.checkpoint_path.write_bytes(other.checkpoint_path.read_bytes())


def _sign_more(ledger, whole):
    ledger.log_path.write_bytes(whole)
    append_notes(ledger, "one more")
    make_checkpoint(ledger, SIGNERS["log"])
    ledger.log_path.write_bytes(whole[:-1])


def _forge(ledger, whole):
    note, _, _ = ledger.checkpoint_path.read_bytes().rpartition(b"\n\n")
    key_hash = b"\0" * 4
    forged = base64.b64encode(key_hash + bytes(64))
    ledger.checkpoint_path.write_bytes(note + b"\n\n\xe2\x80\x94 " + ORIGIN.encode() + b" " + forged + b"\n")


def _change(ledger, whole):
    ledger.log_path.write_bytes(whole[:-1].replace(b'"a"', b'"b"'))


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_sign_another_root, Code.RECOVER_REFUSED),
        (_sign_more, Code.RECOVER_REFUSED),
        (_forge, Code.RECOVER_REFUSED),
        (_change, Code.SIGNATURE_MISMATCH),
    ],
    ids=["another root", "a larger head", "nobody's head", "another entry"],
)
def test_line_feed_that_no_head_vouches_for_is_not_put_back(ledger, spoil, code):
    whole = headed(ledger, "a")
    spoil(ledger, whole)
    before = ledger.log_path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        recover(ledger)
    assert caught.value.code is code
    assert ledger.log_path.read_bytes() == before
    assert not ledger.recovered_path.exists()


@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_putting_back_on_a_failing_disk_can_be_repeated(tmp_path, call, nth):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    whole = headed(ledger, "a")
    disk.fail(call, errno.ENOSPC, nth=nth)
    try:
        recover(ledger)
    except StoreError:
        assert ledger.log_path.read_bytes() in (whole[:-1], whole)
        disk.calls.clear()
        recover(new_ledger_at(ledger.root))
    assert ledger.log_path.read_bytes() == whole


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_putting_back_killed_at_any_step_can_be_repeated(tmp_path, when):
    for step in range(100):
        disk = MortalDisk()
        ledger = new_ledger(tmp_path / str(step), disk)
        whole = headed(ledger, "a")
        disk.arm(step, when)
        try:
            recover(ledger)
        except Killed:
            disk.disarm()
            recover(ledger)
        else:
            break
        assert ledger.log_path.read_bytes() == whole
    assert 10 < step < 100


def test_checkpoint_that_cannot_be_read_stops_recovery(ledger):
    tear(ledger, b"{")
    ledger.checkpoint_path.write_bytes(bytes(187))
    with pytest.raises(StoreError) as caught:
        recover(ledger)
    assert caught.value.code is Code.RECOVER_REFUSED
    assert str(ledger.checkpoint_path) in str(caught.value)


@pytest.mark.parametrize("call", ["mkdir", "open", "write", "fsync", "rename", "ftruncate"])
@pytest.mark.parametrize("nth", [0, 1, 2])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_recovery_on_a_failing_disk_loses_nothing_and_can_be_repeated(tmp_path, call, nth, error):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    append_notes(ledger, "acknowledged")
    _, whole = tear(ledger, b'{"entry":{"b')
    disk.fail(call, error, nth=nth)
    try:
        recover(ledger)
    except StoreError:
        assert ledger.log_path.read_bytes().startswith(whole)
        disk.calls.clear()
        recover(new_ledger_at(ledger.root))
    assert ledger.log_path.read_bytes() == whole
    kept = list(ledger.recovered_path.iterdir())
    assert [path.read_bytes() for path in kept] == [b'{"entry":{"b']


def new_ledger_at(root):
    from k3_ledger.ledger.writer.store import Ledger

    return Ledger.open(root)


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_recovery_killed_at_any_step_can_be_repeated(tmp_path, when):
    for step in range(100):
        disk = MortalDisk()
        ledger = new_ledger(tmp_path / str(step), disk)
        append_notes(ledger, "acknowledged")
        _, whole = tear(ledger, b'{"entry":{"b')
        disk.arm(step, when)
        try:
            recover(ledger)
        except Killed:
            disk.disarm()
            recover(ledger)
        else:
            break
        assert ledger.log_path.read_bytes() == whole
        kept = list(ledger.recovered_path.iterdir())
        assert [path.read_bytes() for path in kept] == [b'{"entry":{"b']
    assert 10 < step < 100


def test_group_cut_in_the_middle_keeps_its_first_entries(ledger):
    with ledger.writer(SIGNERS["judge"]) as writer:
        writer.append_many([Draft("note", note(text)) for text in "abc"])
    data = ledger.log_path.read_bytes()
    ledger.log_path.write_bytes(data[:-100])
    recover(ledger)
    assert notes(ledger.log_path) == ["a", "b"]


@pytest.mark.parametrize("action", ["enrol", "rotate"])
def test_line_feed_is_put_back_behind_the_entry_that_made_the_key_of_the_head(tmp_path, action):
    """The head over a log whose last entry enrols its signer is known by no key in front of that entry."""
    made = NewKey("log", "log-2", public(STRANGER))
    keys = [NewKey("log", "log-1", public(SIGNERS["log"]))] if action == "rotate" else []
    ledger = Ledger.create(tmp_path / "led", origin=ORIGIN, root=SIGNERS["root"], keys=keys, time=TIME)
    replaces = SIGNERS["log"].key_id if action == "rotate" else None
    with ledger.writer(SIGNERS["root"]) as writer:
        writer.append("key", {**enrolment(made), "action": action, "replaces": replaces})
    make_checkpoint(ledger, STRANGER)
    whole = ledger.log_path.read_bytes()
    ledger.log_path.write_bytes(whole[:-1])
    assert recover(ledger).restored
    assert ledger.log_path.read_bytes() == whole


def test_a_head_by_a_key_that_nothing_enrols_still_stops_recovery(tmp_path):
    ledger = Ledger.create(
        tmp_path / "led", origin=ORIGIN, root=SIGNERS["root"], keys=[NewKey("log", "log-1", public(SIGNERS["log"]))]
    )
    head = Checkpoint(ORIGIN, 2, bytes(32))
    ledger.checkpoint_path.write_bytes(sign_note(format_checkpoint(head), [NoteSigner(ORIGIN, STRANGER)]))
    torn = ledger.log_path.read_bytes()[:-1]
    ledger.log_path.write_bytes(torn)
    with pytest.raises(StoreError) as caught:
        recover(ledger)
    assert caught.value.code is Code.RECOVER_REFUSED
    assert ledger.log_path.read_bytes() == torn


@pytest.mark.parametrize("junk", [b"\xff", b" ", b"\0x", b"x"], ids=["no UTF-8", "a space", "behind a NUL", "a letter"])
def test_a_log_that_begins_like_an_entry_and_goes_on_like_none_is_not_cleared_away(ledger, junk):
    data = ledger.log_path.read_bytes().split(b"\n")[0][:-1] + junk * 70_000
    ledger.log_path.write_bytes(data)
    with pytest.raises(LedgerError) as caught:
        recover(Ledger.open(ledger.root, torn=True))
    assert caught.value.code is Code.TAIL_DAMAGED
    assert ledger.log_path.read_bytes() == data


def test_a_line_that_never_ends_is_refused_by_writers_before_its_end(ledger):
    offset = ledger.log_path.stat().st_size
    with ledger.log_path.open("r+b") as file:
        file.seek(offset)
        file.write(b"x")
        file.truncate(1 << 40)  # holes cost no disk, and hours to read
    for refused in (lambda: recover(ledger), lambda: append_notes(Ledger.open(ledger.root), "one more")):
        with pytest.raises(LedgerError) as caught:
            refused()
        assert (caught.value.code, caught.value.finding.position.byte_offset) == (Code.TAIL_DAMAGED, offset)
    assert ledger.log_path.stat().st_size == 1 << 40


def tamper(ledger, index: int) -> bytes:
    """Change one byte of an entry; gives the log as it is then."""
    lines = ledger.log_path.read_bytes().split(b"\n")
    at = lines[index].index(b'"time":"') + len(b'"time":"202')
    lines[index] = lines[index][:at] + bytes([lines[index][at] ^ 1]) + lines[index][at + 1 :]
    ledger.log_path.write_bytes(b"\n".join(lines))
    return ledger.log_path.read_bytes()


@pytest.mark.parametrize("tail", [b"", b'{"entry":{"bo'], ids=["whole", "torn"])
@pytest.mark.parametrize("newest", [True, False], ids=["newest head", "kept head"])
def test_what_was_changed_below_a_signed_head_is_tampering_wherever_it_is(ledger, tail, newest):
    append_notes(ledger, "one", "two", "three")
    covered = OPENING + 3
    make_checkpoint(ledger, SIGNERS["log"])
    append_notes(ledger, "four", "five", "six")
    if not newest:
        ledger.checkpoint_path.unlink()
    tear(ledger, tail)
    whole = ledger.log_path.read_bytes()
    assert recover(ledger).cut == len(tail)
    for index in range(OPENING, covered):
        ledger.log_path.write_bytes(whole)
        before = tamper(ledger, index)
        with pytest.raises(StoreError, match=f"commits to {covered} other entries") as caught:
            recover(ledger)
        assert caught.value.code is Code.RECOVER_REFUSED
        assert caught.value.exit_code == 1
        assert ledger.log_path.read_bytes() == before
    ledger.log_path.write_bytes(whole)
    tamper(ledger, covered)  # what no head covers is not looked at, but for the last entry
    assert recover(ledger).entries == covered + 3


def test_a_head_that_no_log_key_of_the_ledger_signed_accuses_no_entry(ledger):
    append_notes(ledger, "one")
    text = format_checkpoint(Checkpoint(ORIGIN, OPENING, bytes(32)))
    ledger.checkpoint_path.write_bytes(sign_note(text, [NoteSigner(ORIGIN, STRANGER)]))
    assert recover(ledger).entries == OPENING + 1
    ledger.checkpoint_path.write_bytes(sign_note(text, [NoteSigner(ORIGIN, SIGNERS["log"])]))
    with pytest.raises(StoreError, match="other entries") as caught:
        recover(ledger)
    assert str(ledger.checkpoint_path) in str(caught.value)


@pytest.mark.parametrize("place", ["recovered", ".incoming"])
@pytest.mark.parametrize("what", ["file", "link to nowhere", "link to a folder"])
def test_what_stands_in_the_place_of_a_folder_of_the_ledger_is_named(ledger, tmp_path, place, what):
    tear(ledger, b"{")
    before, path, outside = ledger.log_path.read_bytes(), ledger.root / place, tmp_path / "outside"
    if path.is_dir():
        path.rmdir()
    if what == "file":
        path.write_bytes(b"")
    else:
        path.symlink_to(outside)
    if what == "link to a folder":
        outside.mkdir()
    if (place, what) == (".incoming", "link to a folder"):  # scratch: nothing stays there
        assert recover(ledger).cut == 1
        assert list(outside.iterdir()) == []
        return
    with pytest.raises(StoreError) as caught:
        recover(ledger)
    assert caught.value.code is Code.STORE_MISSING
    assert caught.value.finding.position.source == str(path)
    assert "move it away" in (caught.value.finding.hint or "")
    assert ledger.log_path.read_bytes() == before
    path.unlink()
    assert recover(ledger).cut == 1
