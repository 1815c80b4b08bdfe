"""Signing tree heads: never a smaller one, never a fork, never one over entries that would not verify.

The root is computed over ``ledger.jsonl`` itself, streaming. Every head that was signed before must be the root of
this very log at its size; entries behind the largest of them are checked in full (canonical, chained, signed by a key
that could sign them there), since nobody has vouched for them yet. The log is synced before a head over it is signed:
a signed head must not outlive the entries it commits to.

A head is kept in ``checkpoints/`` first and then replaces ``checkpoint``, so a crash leaves the old one or the new
one, and the next run finishes what was begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.chain import entry_identity, genesis_prev, leaf_hash
from k3_ledger.ledger.core.checkpoint import (
    Checkpoint,
    SignedCheckpoint,
    format_checkpoint,
    parse_checkpoint,
)
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.ledger.core.note import (
    MAX_NOTE,
    MAX_SIGNATURES,
    Verifier,
    check_signature_line,
    format_note,
    key_hash,
    parse_note,
    sign_note,
)
from k3_ledger.ledger.writer.batch import check_key
from k3_ledger.ledger.writer.beside import ahead_hint, kept_heads, read_head, read_heads
from k3_ledger.ledger.writer.disk import make_directory, settle_names, storage_errors, sync_directory
from k3_ledger.ledger.writer.heads import open_heads
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.ledger.writer.state import check_entry, check_unchanged, place_of, scan, whole_lines
from k3_ledger.schemas.errors import LedgerError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from k3_ledger.ledger.core.note import NoteSignature
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.ledger.writer.store import Ledger


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A tree head of this log, signed by its log key.

    Attributes:
        checkpoint: origin, size and root.
        note: the signed note, as it stands in ``checkpoint``.
        added: False when this head had been signed before.
    """

    checkpoint: Checkpoint
    note: bytes
    added: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is about to be signed.

    Attributes:
        checkpoint: the head.
        length: length of the lines that it commits to, in bytes.
        covered: entries that the largest earlier head commits to.
        heads: (name, bytes) of the earlier heads; all are of this log.
    """

    checkpoint: Checkpoint
    length: int
    covered: int
    heads: tuple[tuple[str, bytes], ...]


class NoteSigner:
    """A log key as the signer of notes: its name is the log's origin (C2SP signed-note)."""

    def __init__(self, origin: str, signer: Signer) -> None:
        self.name = origin
        self.key_hash = key_hash(origin, signer.public_key)
        self._signer = signer

    def sign(self, text: bytes, /) -> bytes:
        """Ed25519 signature of a note's text."""
        return self._signer.sign(text)


def make_checkpoint(
    ledger: Ledger,
    signer: Signer,
    *,
    lock_timeout_s: float = 30.0,
    progress: Callable[[int], None] | None = None,
    check: Callable[[Candidate], None] | None = None,
) -> SignedHead:
    """Sign the head of the log as it is now, unless it is signed already.

    Args:
        ledger: the ledger.
        signer: an enrolled log key.
        lock_timeout_s: how long to wait for a writer, in seconds.
        progress: called with the bytes of the log read so far.
        check: raises where another room finds false what no earlier head covers; asked where there is something new.

    Raises:
        StoreError: the storage refused, or an earlier head does not belong to this log (``CHECKPOINT_ROOT``,
            ``CHECKPOINT_AHEAD``): nothing is signed.
        LedgerError: the key may not sign heads, or an entry would not verify: nothing is signed.
    """
    log = LogFile(ledger.disk, ledger.log_path, lock_timeout_s=lock_timeout_s)
    sound: tuple[Checkpoint, int] | None = None
    try:
        while True:
            with log.locked():
                state = scan(log.read, log.size())
                _check_signer(signer, state)
                log.settle(state.size)
                heads = open_heads(read_heads(ledger.root), state)
            # Reading the whole log takes a while: others may append meanwhile, behind what is signed here.
            tree = _check_log(log, state, heads, progress)
            covered = max((signed.checkpoint.size for _, signed in heads.values()), default=0)
            asked = Checkpoint(state.origin, tree.end, tree.root()), covered
            # Meanwhile a witness may have cosigned an earlier head: that changes nothing about the entries.
            if check is not None and covered < tree.end and asked != sound:
                known = tuple((str(path), data) for path, (data, _) in heads.items())
                check(Candidate(asked[0], state.size, covered, known))
                sound = asked
            with log.locked():
                check_unchanged(log.read, log.size(), state)
                if open_heads(read_heads(ledger.root), state) == heads:
                    return _settle(ledger, signer, state, heads, tree)
    finally:
        log.close()


def keep_cosignatures(
    ledger: Ledger, note: bytes, sigs: Iterable[NoteSignature], by: Verifier, *, lock_timeout_s: float = 30.0
) -> bytes:
    """Add signature lines of a witness to a signed head, wherever it is kept. The caller has checked them.

    Of several lines by the witness's key the one with the earliest time stays, because it says when the head existed,
    and the one with the latest, because it says that the head still stood. A head that is not kept any more, or stands
    there with another text, is left alone.

    Args:
        ledger: the ledger.
        note: the signed head that was cosigned.
        sigs: lines to add.
        by: the key that they are by. Another key can have its name and key hash: lines that it does not verify stay.
        lock_timeout_s: how long to wait for a writer, in seconds.

    Returns:
        The note as it is kept now, with every cosignature that it has.

    Raises:
        StoreError: the storage refused, or a head has no room for more lines; then the others that are kept have them.
        MalformedError: a kept head cannot be read.
    """
    text, added = parse_note(note).text, tuple(sigs)
    full: Path | None = None
    kept = ledger.checkpoints_path / f"{parse_checkpoint(text).size:012d}.note"
    log = LogFile(ledger.disk, ledger.log_path, lock_timeout_s=lock_timeout_s)
    try:
        with log.locked(), storage_errors(ledger.checkpoints_path, "keep the cosigned head"):
            for path in (*(path for path in kept_heads(ledger.root) if path == kept), ledger.checkpoint_path):
                data = read_head(path)
                if data is None:
                    continue
                old = parse_note(data, position=Position(source=str(path)))
                if old.text != text:
                    continue
                try:
                    note = format_note(text, _first_and_last(text, old.sigs, added, by))
                except ValueError:  # the one thing that can be wrong with lines that were read, or made, as lines
                    full = path
                else:
                    ledger.publish(path, note)
    finally:
        log.close()
    if full is not None:
        raise StoreError(
            Code.COSIGNATURE_NO_ROOM,
            f"the cosignature by {by.name} was not kept: there is no room for it",
            position=Position(source=str(full)),
            expected=f"at most {MAX_SIGNATURES} signature lines, and {MAX_NOTE} bytes",
            found=format_note("\n", added).decode().strip(),
        )
    return note


def _first_and_last(
    text: str, sigs: Iterable[NoteSignature], added: Iterable[NoteSignature], by: Verifier
) -> list[NoteSignature]:
    """Lines of a note, and of those by one key the first and the last in time, where its first line stood: a time is
    eight bytes.
    """
    lines: list[NoteSignature] = []
    own: list[NoteSignature] = []
    at: int | None = None
    for sig in sigs:
        if _is_by(text, sig, by):
            own.append(sig)
            at = len(lines) if at is None else at
        else:
            lines.append(sig)
    own = sorted({*own, *added}, key=lambda sig: sig.signature[:8])
    at = len(lines) if at is None else at
    return [*lines[:at], *dict.fromkeys((own[0], own[-1])), *lines[at:]]


def _is_by(text: str, sig: NoteSignature, verifier: Verifier) -> bool:
    if (sig.name, sig.key_hash) != (verifier.name, verifier.key_hash):
        return False
    try:
        check_signature_line(text, sig, verifier)
    except SignatureError:
        return False
    return True


def _check_signer(signer: Signer, state: LogState) -> None:
    life = state.keyring.lives.get(signer.key_id)
    if life is None or life.role != "log" or not life.enrolled < state.entries <= life.retired:
        found = "no enrolled key" if life is None else f"a {life.role} key"
        if life is not None and life.role == "log":
            found = f"a log key, valid from entry {life.enrolled} to entry {life.retired}"
        raise LedgerError(
            Code.KEY_UNKNOWN if life is None else Code.KEY_WRONG_ROLE if life.role != "log" else Code.KEY_RETIRED,
            f"the key {signer.key_id[:16]}… may not sign a tree head here",
            position=Position(index=state.entries),
            expected="an enrolled, valid log key",
            found=found,
            hint="sign with the log key; `k3-ledger key enrol log FILE` enrols one",
        )


def _check_log(
    log: LogFile,
    state: LogState,
    heads: dict[Path, tuple[bytes, SignedCheckpoint]],
    progress: Callable[[int], None] | None,
) -> CompactRange:
    """The tree over the log up to ``state``, once it is consistent with every head and its new entries are sound."""
    sizes = {signed.checkpoint.size for _, signed in heads.values()}
    vouched = max(sizes, default=0)
    tree, roots = CompactRange(), {0: CompactRange().root()}
    prev = genesis_prev(state.origin).hex()
    for offset, block in whole_lines(log.read, 0, state.size):
        at = offset
        for raw in block.split(b"\n")[:-1]:
            if tree.end >= vouched - 1:
                line = parse_line(raw, place := place_of(tree.end, at))
                if tree.end >= vouched:
                    entry = check_entry(line, place, prev, state.keyring)
                    check_key(state.keyring.lives.get(entry.key), entry.key, entry.kind, tree.end)
                prev = entry_identity(line.entry).hex()
            tree.append(leaf_hash(raw))
            at += len(raw) + 1
            if tree.end in sizes:
                roots[tree.end] = tree.root()
        if progress is not None:
            progress(at)
    for path, (_, signed) in heads.items():
        _check_head(path, signed.checkpoint, roots.get(signed.checkpoint.size), tree.end)
    return tree


def _check_head(path: Path, head: Checkpoint, root: bytes | None, entries: int) -> None:
    place = Position(source=str(path))
    if root is None:
        raise StoreError(
            Code.CHECKPOINT_AHEAD,
            "an earlier head commits to more entries than the log holds; a smaller head is never signed",
            position=place,
            expected=f"at least {head.size} entries",
            found=f"{entries} entries",
            hint=ahead_hint(path),
        )
    if root != head.root:
        raise StoreError(
            Code.CHECKPOINT_ROOT,
            f"the first {head.size} entries are not those of an earlier head; a fork is never signed",
            position=place,
            expected=head.root.hex(),
            found=root.hex(),
            hint="history was replaced: keep both files as evidence, restore ledger.jsonl from a copy that verifies",
        )


def _settle(
    ledger: Ledger,
    signer: Signer,
    state: LogState,
    heads: dict[Path, tuple[bytes, SignedCheckpoint]],
    tree: CompactRange,
) -> SignedHead:
    """Write the new head, or put the one that is signed already where it belongs; either way its names are durable."""
    signed = [(data, head.checkpoint) for data, head in heads.values() if head.checkpoint.size == tree.end]
    if signed:
        note, head = signed[0]
    else:
        head = Checkpoint(state.origin, tree.end, tree.root())
        note = sign_note(format_checkpoint(head), [NoteSigner(state.origin, signer)])
    kept = ledger.checkpoints_path / f"{tree.end:012d}.note"
    with storage_errors(ledger.checkpoints_path, "keep the signed head"):
        if kept not in heads:
            make_directory(ledger.disk, ledger.checkpoints_path)
            ledger.publish(kept, note)
        else:
            sync_directory(ledger.disk, ledger.checkpoints_path)
        current = heads.get(ledger.checkpoint_path)
        if current is None or current[1].checkpoint.size < tree.end:
            ledger.publish(ledger.checkpoint_path, note)
        else:
            settle_names(ledger.disk, ledger.root)  # one may have put it there since the log was settled
    return SignedHead(head, note, added=not signed)
