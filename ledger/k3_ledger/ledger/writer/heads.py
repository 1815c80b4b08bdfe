"""The signed heads of a ledger, held against its keys before anything is built on them or published.

What a head says of the tree is compared by who reads the log: here it is asked whether a log key of this ledger signed
it, one that could sign a head of that size and that no revocation took back.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import open_checkpoint, parse_checkpoint
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.ledger.core.note import Verifier, parse_note
from k3_ledger.ledger.writer.beside import ahead_hint, read_head, set_aside
from k3_ledger.ledger.writer.disk import storage_errors
from k3_ledger.ledger.writer.state import scan_to_tail, whole_lines
from k3_ledger.schemas.errors import LedgerError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from k3_ledger.ledger.core.checkpoint import Checkpoint, SignedCheckpoint
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.ledger.writer.store import Ledger

Heads: TypeAlias = "dict[Path, tuple[bytes, SignedCheckpoint]]"
"""Bytes of each head and what they say, by file."""


def open_heads(notes: Mapping[Path, bytes], state: LogState) -> Heads:
    """Signed heads of a log, by file; one that cannot be trusted stops everything.

    One that a revocation took back is left out: it vouches for nothing, and a thief's must not keep the log's owner
    from signing a new one.

    Args:
        notes: what stands in each file.
        state: the log.

    Raises:
        MalformedError, SignatureError: the first that is no head of this log.
    """
    known = (*state.keyring.lives.values(), *state.keyring.taken_back.values())
    keys = {life.public_key: life for life in known if life.role == "log"}
    verifiers = [Verifier(state.origin, public_key) for public_key in keys]
    heads: Heads = {}
    for path, data in notes.items():
        place = Position(source=str(path))
        try:
            signed = open_checkpoint(data, verifiers, origin=state.origin, position=place)
        except LedgerError as error:
            said = error.finding
            hint = (
                f"no head of this log: {set_aside(path)} keeps it as evidence, and the next head is signed without it"
            )
            raise type(error)(
                error.code, said.message, position=place, expected=said.expected, found=said.found, hint=hint
            ) from error
        size, lives = signed.checkpoint.size, [keys[sig.verifier.public_key] for sig in signed.note.sigs]
        if any(life.vouches_at(size) for life in lives):
            heads[path] = data, signed
        elif not any(life.lost_at(size) for life in lives):
            raise SignatureError(
                Code.CHECKPOINT_SIGNATURE,
                "an earlier head is signed by a log key that could not sign it: it was not enrolled yet, or retired",
                position=place,
                hint=f"{set_aside(path)} keeps it as evidence: this command signs the newest head anew",
            )
    return heads


def open_published(ledger: Ledger, notes: Mapping[Path, bytes], *, lacking: str) -> Heads:
    """Heads of a ledger that others are to rely on, the newest one among them; none that cannot be trusted.

    What they say of the tree is left to :func:`check_roots`.

    Args:
        ledger: the ledger; a torn tail, which no head covers, is none of this.
        notes: its heads.
        lacking: what to say where the newest is not among them.

    Raises:
        StoreError: there is no newest head (``NOT_CHECKPOINTED``), it commits to more than there is
            (``CHECKPOINT_AHEAD``), or the storage refused.
        SignatureError: no log key that stands signed the newest head, or another is no head of this log.
        MalformedError: a head cannot be read or is of another log, or the log is damaged where its keys are told.
    """
    path = ledger.checkpoint_path
    place = Position(source=str(path))
    if path not in notes:
        raise StoreError(Code.NOT_CHECKPOINTED, lacking, position=place)
    newest = parse_checkpoint(parse_note(notes[path], position=place).text, position=place)
    with storage_errors(ledger.log_path, "read the ledger"), ledger.log_path.open("rb") as log:
        fd = log.fileno()
        state, _ = scan_to_tail(lambda count, at: os.pread(fd, count, at), os.fstat(fd).st_size)
    if newest.size > state.entries:
        raise _ahead(path, newest, state.entries)
    heads = open_heads(notes, state)
    if path not in heads:
        raise SignatureError(
            Code.CHECKPOINT_SIGNATURE,
            "a revocation takes back what the newest head's key signed",
            position=place,
            hint="sign a new head with a log key that stands: `k3-ledger checkpoint --key LOG.pem --ledger DIR`",
        )
    return heads


def read_newest(ledger: Ledger, *, lacking: str) -> SignedCheckpoint:
    """The newest head of a ledger, held against its keys and its entries.

    Raises:
        LedgerError: as :func:`open_published` and :func:`check_roots`.
    """
    data = read_head(ledger.checkpoint_path)
    notes = {} if data is None else {ledger.checkpoint_path: data}
    heads = open_published(ledger, notes, lacking=lacking)
    _, newest = heads[ledger.checkpoint_path]
    tree = CompactRange()
    with storage_errors(ledger.log_path, "read the ledger"):
        for line in first_lines(ledger, newest.checkpoint.size):
            tree.append(leaf_hash(line))
    check_roots(ledger, heads, {tree.end: tree.root()})
    return newest


def first_lines(ledger: Ledger, count: int, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The first ``count`` lines of a log without their LF, or as many as there are.

    Args:
        ledger: whose log.
        count: how many.
        progress: called with the bytes read so far.
    """
    with ledger.log_path.open("rb") as file:
        fd = file.fileno()
        left = count
        for offset, block in whole_lines(lambda n, at: os.pread(fd, n, at), 0, os.fstat(fd).st_size):
            lines = block.split(b"\n")[:-1][:left]
            yield from lines
            left -= len(lines)
            if progress is not None:
                progress(offset + len(block))
            if not left:
                return


def check_roots(ledger: Ledger, heads: Heads, roots: Mapping[int, bytes]) -> None:
    """Hold heads against the log.

    Args:
        ledger: the ledger.
        heads: its heads.
        roots: of the log's tree, by size, up to where it was read. What a kept head says of more is not asked.

    Raises:
        StoreError: the newest head commits to more than there is (``CHECKPOINT_AHEAD``), or one to other entries
            (``CHECKPOINT_ROOT``).
    """
    for path, (_, signed) in heads.items():
        head, root, newest = signed.checkpoint, roots.get(signed.checkpoint.size), path == ledger.checkpoint_path
        if root is None and newest:
            raise _ahead(path, head, max(roots))
        if root is not None and root != head.root:
            raise StoreError(
                Code.CHECKPOINT_ROOT,
                f"the log is not the one that {'its newest' if newest else 'a kept'} head commits to",
                position=Position(source=str(path)),
                expected=head.root.hex(),
                found=root.hex(),
            )


def _ahead(path: Path, head: Checkpoint, entries: int) -> StoreError:
    return StoreError(
        Code.CHECKPOINT_AHEAD,
        "the newest head commits to more entries than the log holds",
        position=Position(source=str(path)),
        expected=f"{head.size} entries",
        found=f"{entries} entries",
        hint=ahead_hint(path),
    )
