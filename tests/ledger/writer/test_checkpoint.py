from __future__ import annotations

import errno

import pytest

from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint, open_checkpoint
from k3_ledger.ledger.core.cosignature import Witness, read_cosignatures
from k3_ledger.ledger.core.note import (
    MAX_NOTE,
    MAX_SIGNATURES,
    NoteSignature,
    Verifier,
    format_note,
    parse_note,
    parse_verifier_key,
    sign_note,
)
from k3_ledger.ledger.core.tlog_witness import parse_answer
from k3_ledger.ledger.writer.checkpoint import NoteSigner, keep_cosignatures, make_checkpoint
from k3_ledger.ledger.writer.store import NewKey, enrolment
from k3_ledger.schemas.errors import LedgerError, MalformedError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import (
    OPENING,
    ORIGIN,
    SIGNERS,
    STRANGER,
    FailingDisk,
    Killed,
    MortalDisk,
    add_line,
    append_notes,
    new_ledger,
    note,
    public,
    read_entries,
)
from tests.reference.naive_note import COSIGNER_TYPE, NoteKey, cosign

LOG = SIGNERS["log"]
VERIFIER = Verifier(ORIGIN, LOG.public_key)


def naive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, as it is written there."""
    from hashlib import sha256

    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return sha256(b"\1" + naive_root(leaves[:split]) + naive_root(leaves[split:])).digest()


def lines_of(ledger) -> list[bytes]:
    return ledger.log_path.read_bytes().split(b"\n")[:-1]


def test_head_commits_to_every_line_and_opens_with_the_log_key(ledger):
    append_notes(ledger, "a", "b")
    made = make_checkpoint(ledger, LOG)
    assert made.added
    assert made.note == ledger.checkpoint_path.read_bytes()
    signed = open_checkpoint(made.note, [VERIFIER], origin=ORIGIN)
    assert signed.checkpoint == made.checkpoint
    assert (signed.checkpoint.size, signed.checkpoint.root) == (OPENING + 2, naive_root(lines_of(ledger)))
    assert (ledger.checkpoints_path / "000000000007.note").read_bytes() == made.note


def test_head_that_is_signed_already_is_not_signed_again(ledger):
    first = make_checkpoint(ledger, LOG)
    again = make_checkpoint(ledger, LOG)
    assert (again.note, again.added) == (first.note, False)
    assert len(list(ledger.checkpoints_path.iterdir())) == 1


def test_every_head_is_kept(ledger):
    for turn in range(3):
        append_notes(ledger, f"turn {turn}")
        make_checkpoint(ledger, LOG)
    assert [path.name for path in sorted(ledger.checkpoints_path.iterdir())] == [
        f"{size:012d}.note" for size in (OPENING + 1, OPENING + 2, OPENING + 3)
    ]


def test_kept_head_that_was_lost_is_kept_again(ledger):
    made = make_checkpoint(ledger, LOG)
    kept = ledger.checkpoints_path / f"{OPENING:012d}.note"
    kept.unlink()
    assert not make_checkpoint(ledger, LOG).added
    assert kept.read_bytes() == made.note


def test_cosignatures_on_the_newest_head_stay(ledger):
    made = make_checkpoint(ledger, LOG)
    text = parse_note(made.note).text
    cosigned = sign_note(text, [NoteSigner(ORIGIN, LOG)], others=[NoteSignature("witness.example", 7, bytes(72))])
    ledger.checkpoint_path.write_bytes(cosigned)
    assert make_checkpoint(ledger, LOG).note == cosigned
    assert ledger.checkpoint_path.read_bytes() == cosigned


W1, W2 = (NoteKey(f"w{number}.example", f"w{number}", COSIGNER_TYPE) for number in (1, 2))
TWINS = [NoteKey("witness.example/w", word, COSIGNER_TYPE) for word in ("t40547", "t100344")]
"""Two keys of one name with one key hash; such a pair is found by trying a hundred thousand keys."""


def keep(ledger, note, key, time):
    """Keep a line by a witness; the note then, and the line."""
    line = parse_note(cosign(note, key, time)).sigs[-1]
    return keep_cosignatures(ledger, note, [line], parse_verifier_key(key.verifier_key)), line


def test_cosignatures_are_added_wherever_the_head_is_kept(ledger):
    made = make_checkpoint(ledger, LOG)
    kept = ledger.checkpoints_path / f"{OPENING:012d}.note"
    _, first = keep(ledger, made.note, W1, 3)
    note, second = keep(ledger, made.note, W2, 3)
    assert kept.read_bytes() == ledger.checkpoint_path.read_bytes() == note
    assert parse_note(note).sigs == (*parse_note(made.note).sigs, first, second)
    assert make_checkpoint(ledger, LOG).note == kept.read_bytes()


def test_of_cosignatures_by_one_witness_the_first_and_the_last_stay(ledger):
    made = make_checkpoint(ledger, LOG)
    _, other = keep(ledger, made.note, W2, 4)
    for time, left in ((5, [5]), (7, [5, 7]), (3, [3, 7]), (9, [3, 9]), (9, [3, 9]), (7, [3, 9])):
        note, _ = keep(ledger, made.note, W1, time)
        assert parse_note(note).sigs[1] == other
        assert [int.from_bytes(sig.signature[:8], "big") for sig in parse_note(note).sigs[2:]] == left
    note, _ = keep(ledger, made.note, W2, 4)
    assert parse_note(note).sigs[1] == other
    assert len(parse_note(note).sigs) == 4
    assert ledger.checkpoint_path.read_bytes() == note


@pytest.mark.parametrize("order", [1, -1])
def test_witnesses_whose_key_hashes_collide_take_no_line_from_one_another(ledger, order):
    made = make_checkpoint(ledger, LOG)
    first, second = TWINS[::order]
    assert first.hash == second.hash
    for key, time in ((first, 3), (second, 5), (first, 7), (second, 1), (first, 9)):
        note, _ = keep(ledger, made.note, key, time)
    for key, times in ((first, (3, 9)), (second, (1, 5))):
        witness = Witness(parse_verifier_key(key.verifier_key), key.word)
        (good,) = read_cosignatures(parse_note(note), [witness]).good
        assert (good.timestamp, good.again) == times
    assert len(parse_note(note).sigs) == 5


def test_cosignatures_of_an_older_head_go_to_that_one_alone(ledger):
    old = make_checkpoint(ledger, LOG)
    append_notes(ledger, "more")
    new = make_checkpoint(ledger, LOG)
    _, line = keep(ledger, old.note, W1, 3)
    assert parse_note((ledger.checkpoints_path / f"{OPENING:012d}.note").read_bytes()).sigs[-1] == line
    assert ledger.checkpoint_path.read_bytes() == new.note


def test_cosignatures_of_a_head_that_is_not_kept_are_dropped(ledger):
    made = make_checkpoint(ledger, LOG)
    for path in (ledger.checkpoint_path, *ledger.checkpoints_path.iterdir()):
        path.unlink()
    assert keep(ledger, made.note, W1, 3)[0] == made.note
    assert not list(ledger.checkpoints_path.iterdir())


def crowd(path, count, name="stranger"):
    """Add lines of strangers to a kept head, so that it has ``count`` in all."""
    note = parse_note(path.read_bytes())
    more = [NoteSignature(f"{name}{number}", number, bytes(72)) for number in range(count - len(note.sigs))]
    path.write_bytes(format_note(note.text, [*note.sigs, *more]))


def fill(path):
    crowd(path, MAX_SIGNATURES)


def swell(path):
    crowd(path, 2, "s" * (MAX_NOTE - 150 - len(path.read_bytes())))


@pytest.mark.parametrize("crowded", [fill, swell])
def test_a_cosignature_for_which_there_is_no_room_is_shown_and_the_other_copy_has_it(ledger, crowded):
    made = make_checkpoint(ledger, LOG)
    kept = ledger.checkpoints_path / f"{OPENING:012d}.note"
    crowded(kept)
    before = kept.read_bytes()
    line = parse_note(cosign(made.note, W1, 3)).sigs[-1]
    with pytest.raises(StoreError) as caught:
        keep(ledger, made.note, W1, 3)
    assert caught.value.code is Code.COSIGNATURE_NO_ROOM
    assert caught.value.finding.position.source == str(kept)
    assert parse_answer(f"{caught.value.finding.found}\n".encode()) == (line,)
    assert kept.read_bytes() == before
    assert parse_note(ledger.checkpoint_path.read_bytes()).sigs[-1] == line


def test_the_last_line_that_there_is_room_for_is_kept_and_one_in_its_place_too(ledger):
    made = make_checkpoint(ledger, LOG)
    for path in (ledger.checkpoint_path, ledger.checkpoints_path / f"{OPENING:012d}.note"):
        crowd(path, MAX_SIGNATURES - 2)
    for time in (3, 5, 7):
        note, line = keep(ledger, made.note, W1, time)
        assert line in parse_note(note).sigs
    assert len(parse_note(note).sigs) == MAX_SIGNATURES
    with pytest.raises(StoreError, match="was not kept: there is no room for it"):
        keep(ledger, made.note, W2, 3)
    assert make_checkpoint(ledger, LOG).note == note


def test_progress_tells_the_bytes_that_were_read(ledger):
    seen: list[int] = []
    make_checkpoint(ledger, LOG, progress=seen.append)
    assert seen[-1] == ledger.log_path.stat().st_size


@pytest.mark.parametrize(
    ("signer", "code"),
    [(STRANGER, Code.KEY_UNKNOWN), (SIGNERS["root"], Code.KEY_WRONG_ROLE), (SIGNERS["judge"], Code.KEY_WRONG_ROLE)],
)
def test_only_an_enrolled_log_key_signs_heads(ledger, signer, code):
    with pytest.raises(LedgerError) as caught:
        make_checkpoint(ledger, signer)
    assert caught.value.code is code
    assert not ledger.checkpoint_path.exists()


def rotate(ledger) -> None:
    body = {**enrolment(NewKey("log", "log-2", public(STRANGER))), "action": "rotate", "replaces": LOG.key_id}
    with ledger.writer(SIGNERS["root"]) as writer:
        writer.append("key", body)


def test_rotated_log_key_signs_no_head_that_covers_its_rotation(ledger):
    make_checkpoint(ledger, LOG)
    rotate(ledger)
    with pytest.raises(LedgerError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.KEY_RETIRED
    assert make_checkpoint(ledger, STRANGER).added


def signed_by(ledger, signer, size: int) -> bytes:
    """A head that only a tool without these rules signs: right in all but its key."""
    head = Checkpoint(ORIGIN, size, naive_root(lines_of(ledger)[:size]))
    return sign_note(format_checkpoint(head), [NoteSigner(ORIGIN, signer)])


@pytest.mark.parametrize(("signer", "size"), [(LOG, OPENING + 1), (STRANGER, OPENING)])
def test_no_head_is_signed_beside_one_by_a_log_key_that_was_retired_or_not_enrolled_there(ledger, signer, size):
    rotate(ledger)
    ledger.checkpoint_path.write_bytes(signed_by(ledger, signer, size))
    with pytest.raises(SignatureError) as caught:
        make_checkpoint(ledger, STRANGER)
    assert caught.value.code is Code.CHECKPOINT_SIGNATURE
    ledger.checkpoint_path.unlink()  # what the hint says
    assert make_checkpoint(ledger, STRANGER).added


def test_fork_is_never_signed(ledger, tmp_path):
    append_notes(ledger, "one history")
    make_checkpoint(ledger, LOG)
    other = new_ledger(tmp_path / "other")
    append_notes(other, "another history", "and longer")
    ledger.log_path.write_bytes(other.log_path.read_bytes())
    before = ledger.checkpoint_path.read_bytes()
    with pytest.raises(StoreError, match="fork") as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.CHECKPOINT_ROOT
    assert ledger.checkpoint_path.read_bytes() == before


def test_smaller_head_is_never_signed(ledger):
    append_notes(ledger, "a", "b")
    make_checkpoint(ledger, LOG)
    ledger.log_path.write_bytes(b"".join(line + b"\n" for line in lines_of(ledger)[:-1]))
    with pytest.raises(StoreError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.CHECKPOINT_AHEAD


def test_rolled_back_checkpoint_file_does_not_hide_a_kept_head(ledger):
    first = make_checkpoint(ledger, LOG)
    append_notes(ledger, "a")
    make_checkpoint(ledger, LOG)
    ledger.checkpoint_path.write_bytes(first.note)
    ledger.log_path.write_bytes(b"".join(line + b"\n" for line in lines_of(ledger)[:-1]))
    with pytest.raises(StoreError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.CHECKPOINT_AHEAD


@pytest.mark.parametrize("data", [b"", bytes(187), b"not a note\n"])
def test_checkpoint_that_cannot_be_read_stops_signing(ledger, data):
    ledger.checkpoint_path.write_bytes(data)
    with pytest.raises(MalformedError):
        make_checkpoint(ledger, LOG)
    assert ledger.checkpoint_path.read_bytes() == data


def test_checkpoint_signed_by_nobody_known_stops_signing(ledger):
    made = make_checkpoint(ledger, LOG)
    ledger.checkpoint_path.write_bytes(sign_note(parse_note(made.note).text, [NoteSigner(ORIGIN, STRANGER)]))
    with pytest.raises(SignatureError):
        make_checkpoint(ledger, LOG)


def test_head_is_not_signed_over_an_entry_that_would_not_verify(ledger):
    append_notes(ledger, "a", "b", "c")
    lines = lines_of(ledger)
    lines[OPENING] = lines[OPENING].replace(b'"a"', b'"x"')
    ledger.log_path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(SignatureError):
        make_checkpoint(ledger, LOG)
    assert not ledger.checkpoint_path.exists()


def test_head_is_not_signed_over_an_entry_that_its_key_could_not_sign(ledger):
    target = read_entries(ledger.log_path)[0]["identity"]
    body = {"target": target, "reason": "none", "replacement": None}
    add_line(ledger.log_path, SIGNERS["runner"], "supersede", body)
    append_notes(ledger, "behind it")
    with pytest.raises(LedgerError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.KEY_WRONG_ROLE
    assert caught.value.finding.position.index == OPENING


def test_head_is_not_signed_over_an_entry_by_a_retired_key(ledger):
    rotate(ledger)
    add_line(ledger.log_path, LOG, "note", note("too late"))
    with pytest.raises(LedgerError) as caught:
        make_checkpoint(ledger, STRANGER)
    assert caught.value.code is Code.KEY_RETIRED


def test_appends_while_the_log_is_read_stay_behind_the_head(ledger):
    append_notes(ledger, "a")
    made = make_checkpoint(ledger, LOG, progress=lambda _: append_notes(ledger, "meanwhile"))
    assert made.checkpoint.size == OPENING + 1
    assert make_checkpoint(ledger, LOG).checkpoint.size == OPENING + 2


def test_two_checkpointers_sign_one_head(ledger):
    append_notes(ledger, "a")
    others = []

    def meanwhile(_: int) -> None:
        if not others:
            others.append(make_checkpoint(ledger, LOG))

    made = make_checkpoint(ledger, LOG, progress=meanwhile)
    assert (made.added, others[0].added) == (False, True)
    assert made.note == others[0].note


def test_log_cut_while_it_is_read_is_noticed(ledger):
    append_notes(ledger, "a", "b")

    def cut(_: int) -> None:
        ledger.log_path.write_bytes(b"".join(line + b"\n" for line in lines_of(ledger)[:-1]))

    with pytest.raises(StoreError) as caught:
        make_checkpoint(ledger, LOG, progress=cut)
    assert caught.value.code is Code.LOG_REPLACED
    assert not ledger.checkpoint_path.exists()


def test_log_is_synced_before_a_head_over_it_is_signed(tmp_path):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(StoreError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.DISK_ERROR
    assert not ledger.checkpoint_path.exists()


@pytest.mark.parametrize("call", ["open", "mkdir", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", [0, 1, 2, 3])
def test_failing_disk_leaves_the_old_head_or_the_new_one(tmp_path, call, nth):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    old = make_checkpoint(ledger, LOG)
    append_notes(ledger, "a")
    disk.fail(call, errno.ENOSPC, nth=nth)
    try:
        made = make_checkpoint(ledger, LOG)
    except StoreError:
        found = ledger.checkpoint_path.read_bytes()
        assert found == old.note or open_checkpoint(found, [VERIFIER], origin=ORIGIN).checkpoint.size == OPENING + 1
        made = make_checkpoint(ledger, LOG)
    assert ledger.checkpoint_path.read_bytes() == made.note
    assert not list(ledger.staging_path.iterdir())


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_at_any_step_leaves_a_whole_head_and_the_next_run_finishes(tmp_path, when):
    for step in range(100):
        disk = MortalDisk()
        ledger = new_ledger(tmp_path / str(step), disk)
        old = make_checkpoint(ledger, LOG)
        append_notes(ledger, "a")
        disk.arm(step, when)
        try:
            make_checkpoint(ledger, LOG)
        except Killed:
            disk.disarm()
        else:
            break
        found = ledger.checkpoint_path.read_bytes()
        assert found == old.note or open_checkpoint(found, [VERIFIER], origin=ORIGIN).checkpoint.size == OPENING + 1
        made = make_checkpoint(ledger, LOG)
        assert ledger.checkpoint_path.read_bytes() == made.note
        assert made.checkpoint.size == OPENING + 1
        assert len(list(ledger.checkpoints_path.iterdir())) == 2
    assert 15 < step < 100


def test_a_tampered_last_entry_without_its_line_feed_is_not_called_torn(ledger):
    append_notes(ledger, "genuine")
    ledger.log_path.write_bytes(ledger.log_path.read_bytes().replace(b"genuine", b"forgery")[:-1])
    with pytest.raises(SignatureError) as caught:
        make_checkpoint(ledger, LOG)
    assert caught.value.code is Code.SIGNATURE_MISMATCH
