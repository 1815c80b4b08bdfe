"""Makes proof files: chooses the lines that a verifier without a ledger needs, and proves each of them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.chain import entry_identity, leaf_hash, signed_message
from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.consistency import ConsistencyFile, consistency_hashes, consistency_nodes
from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.ledger.core.lines import check_is_ledger
from k3_ledger.ledger.core.merkle import prove_consistency
from k3_ledger.ledger.core.note import key_hash, parse_note
from k3_ledger.ledger.core.proof import MAX_ENTRIES, ProofEntry, ProofFile, build_proof
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError, MalformedError, ProofError, SignatureError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.chunks import Chunker
from k3_ledger.verify.tail import LOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.ledger.core.framing import Line
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.source import LogSource

_ACTIONS = tuple(f'"kind":"{kind}"'.encode() for kind in sorted(ROOT_ACTIONS))
_POSITIONS = re.compile(rb"(?:[0-9]{1,16}\n){0,65536}")


def prove_entry(source: LogSource, index: int, *, head_size: int | None = None) -> ProofFile:
    """Make the proof file of one entry, leading to the log's newest checkpoint, or to an older one that it keeps.

    An older head that witnesses cosigned early bounds more closely when the entry existed; what was revoked behind it
    is not in such a file. Costs two passes over the log and memory for the key entries. Nothing is verified here: check
    what comes out.

    Args:
        source: the log.
        index: the entry to prove, counted from 0.
        head_size: size of a kept head to lead to; None takes the newest.

    Raises:
        ProofError: there is no such entry (``NO_SUCH_ENTRY``), or no checkpoint commits to it
            (``NOT_CHECKPOINTED``), or none of that size is kept (``NO_SUCH_HEAD``).
        MalformedError: a line that is needed, or the checkpoint, cannot be read.
        StoreError: the source cannot be read.
    """
    if index < 0:
        raise ValueError(f"an index is not negative, got {index}")
    checkpoint = source.checkpoint() if head_size is None else _kept_head(source, head_size)
    if checkpoint is None:
        _check_is_ledger(source)
        raise ProofError(
            Code.NOT_CHECKPOINTED,
            "the ledger has no checkpoint, so nothing can be proved",
            position=Position(source="checkpoint"),
            hint="write one: `k3-ledger checkpoint`",
        )
    lines, key_lines, size = _collect(source, index)
    if index >= size:
        _check_is_ledger(source)
        promised = parse_checkpoint(parse_note(checkpoint, position=Position(source="checkpoint")).text).size
        if index < promised:
            raise ProofError(
                Code.CHECKPOINT_AHEAD,
                f"the checkpoint commits to {promised} entries, and {size} are there",
                position=Position(source="checkpoint"),
            )
        raise ProofError(
            Code.NO_SUCH_ENTRY,
            f"there is no entry {index}",
            position=Position(source=source.name),
            expected=f"0 to {size - 1}" if size else "an entry",
        )
    if head_size is not None and index >= head_size:
        raise ProofError(
            Code.NO_SUCH_HEAD,
            f"the head of {head_size} entries does not commit to entry {index}",
            position=Position(source="checkpoint"),
            expected=f"a head of at least {index + 1} entries",
            hint=_larger_head(source, index),
        )
    if head_size is not None:
        key_lines = {at: raw for at, raw in key_lines.items() if at < head_size}
    lines |= rests_on(index, lines, key_lines, checkpoint, source.name)
    return build_proof(index, lines, map(leaf_hash, _lines(source)), checkpoint, position=Position(source="checkpoint"))


def _larger_head(source: LogSource, index: int) -> str:
    """What to do where the head that was asked for is too small for an entry."""
    sizes = sorted(size for size in _kept_heads(source) if size > index)
    if sizes:
        return f"leave --head out, or give --head {sizes[0]}"
    return "sign a head that commits to it (`k3-ledger checkpoint`), and leave --head out"


def _check_is_ledger(source: LogSource) -> None:
    """Say what is no ledger before what is not in it.

    Raises:
        MalformedError: it is none, or nothing is left of it.
    """
    try:
        check_is_ledger(source.blocks(), position=Position(source=source.name))
    except MalformedError as error:
        if source.checkpoint() is not None or any(True for _ in source.kept_checkpoints()):
            error.finding = replace(error.finding, hint=LOST)
        raise


def prove_from_tiles(source: TileSource, index: int, *, listed: bool = True) -> ProofFile:
    """Make the proof file of one entry from a mirror, reading a few tiles and bundles and no more.

    Besides the entry's own bundle and at most two tiles a level for each line in the file, that is one bundle for each
    256 entries that hold a key entry. Where the mirror does not say which these are, all bundles are read.

    Args:
        source: the mirror.
        index: the entry to prove, counted from 0.
        listed: whether to go by the mirror's list of key entries; else all bundles are read.

    Raises:
        ProofError: there is no such entry (``NO_SUCH_ENTRY``), or a tile is missing or wrong.
        MalformedError: a line that is needed, or the checkpoint, cannot be read.
        StoreError: the mirror cannot be read.
    """
    if index < 0:
        raise ValueError(f"an index is not negative, got {index}")
    subject = source.line(index)
    key_lines = {at: line for at in _key_positions(source, listed) if _is_action(line := source.line(at))}
    note = source.checkpoint()
    assert note is not None, "the tree was read from it"
    lines = {0: source.line(0), index: subject}
    lines |= rests_on(index, lines, key_lines, note, source.name)
    entries = (ProofEntry(at, line, source.tree.inclusion(at)) for at, line in sorted(lines.items()))
    return ProofFile(index, tuple(entries), note)


def _key_positions(source: TileSource, listed: bool) -> Iterable[int]:
    """Where key entries stand: as the mirror says, if it is asked and says so in a sane way, else anywhere."""
    said = source.mirror.key_entries() if listed else None
    if said is not None and _POSITIONS.fullmatch(said):
        positions = [int(text) for text in said.split()]
        if all(at < source.tree.size for at in positions):
            return positions
    return range(source.tree.size)


def _is_action(line: bytes) -> bool:
    return any(mark in line for mark in _ACTIONS)


def rests_on(
    index: int, lines: dict[int, bytes], key_lines: dict[int, bytes], checkpoint: bytes, name: str
) -> dict[int, bytes]:
    """The root actions that a proof of entry ``index`` has to carry, by position; ``lines`` holds it and the genesis.

    Raises:
        ProofError: there are too many of them for a proof file (``PROOF_TOO_LARGE``).
    """
    note = parse_note(checkpoint, position=Position(source="checkpoint"))
    if _has_thresholds(key_lines):
        covered = parse_checkpoint(note.text).size
        needed = {position: raw for position, raw in key_lines.items() if position < covered}
    else:
        needed = _enrolments(lines[0], lines[index], key_lines, {sig.key_hash for sig in note.sigs})
    others = len({0, *needed} - {index})
    if others >= MAX_ENTRIES:
        raise ProofError(
            Code.PROOF_TOO_LARGE,
            f"the entry rests on {others} others, and a proof file holds {MAX_ENTRIES} in all",
            position=Position(source=name, index=index),
        )
    return needed


def prove_heads(source: LogSource, old_size: int, new_size: int) -> ConsistencyFile:
    """Make the consistency file of two signed heads that the ledger keeps.

    Costs three passes over the log and memory for the key entries. Nothing is verified here: check what comes out.

    Args:
        source: the log.
        old_size: size of the older head, at least 1.
        new_size: size of the newer head, larger than that.

    Raises:
        ProofError: no head of such a size is kept (``NO_SUCH_HEAD``), or the log is not the one that a head
            commits to (``CHECKPOINT_AHEAD``, ``CHECKPOINT_ROOT``).
        MalformedError: a line that is needed, or a head, cannot be read.
        StoreError: the source cannot be read.
    """
    if not 0 < old_size < new_size:
        raise ValueError(f"the older head has to be the smaller one and not empty, got {old_size} and {new_size}")
    return prove_extension(source, _kept_head(source, old_size), _kept_head(source, new_size))


def prove_extension(source: LogSource, old: bytes, new: bytes) -> ConsistencyFile:
    """Make the consistency file of two signed heads of a log, of which the older is the smaller one and not empty.

    Raises:
        ProofError: as :func:`prove_heads`, but for ``NO_SUCH_HEAD``.
        MalformedError: a line that is needed, or a head, cannot be read.
        StoreError: the source cannot be read.
    """
    heads = [parse_checkpoint(parse_note(note).text) for note in (old, new)]
    old_size, new_size = (head.size for head in heads)
    hashes_between = consistency_between(source, old_size, new_size, root1=heads[0].root, root2=heads[1].root)
    lines, key_lines, _ = _collect(source, 0)
    key_lines = {index: raw for index, raw in key_lines.items() if index < new_size}
    lines = _carried(source, lines, key_lines, (old, new))
    proof = build_proof(0, lines, map(leaf_hash, _lines(source)), new, position=Position(source="checkpoint"))
    return ConsistencyFile(old, hashes_between, proof)


def prove_extensions(source: LogSource, olds: Iterable[bytes], new: bytes) -> dict[bytes, ConsistencyFile]:
    """As :func:`prove_extension` for many older heads of one newer.

    However many there are, this costs two passes over the log, and one more for each set of key entries that they rest
    on. A head that the log does not have, or that rests on too many entries, is not among the files, which are found by
    the older note.

    Raises:
        MalformedError: a line that is needed, or a head, cannot be read.
        StoreError: the source cannot be read.
        ValueError: an older head is empty, or larger than the newer.
    """
    target = parse_checkpoint(parse_note(new).text)
    heads = {old: parse_checkpoint(parse_note(old).text) for old in olds}
    sizes = {head.size for head in heads.values()}
    _, roots, nodes = consistency_nodes(sizes, target.size, map(leaf_hash, _lines(source)))
    lines, key_lines, _ = _collect(source, 0)
    key_lines = {index: raw for index, raw in key_lines.items() if index < target.size}
    proofs: dict[frozenset[int], ProofFile] = {}
    files: dict[bytes, ConsistencyFile] = {}
    for old, head in heads.items():
        if (roots.get(head.size), roots.get(target.size)) != (head.root, target.root):
            continue
        with contextlib.suppress(ProofError):
            carried = _carried(source, lines, key_lines, (old, new))
            which = frozenset(carried)
            if which not in proofs:
                leaves = map(leaf_hash, _lines(source))
                proofs[which] = build_proof(0, carried, leaves, new, position=Position(source="checkpoint"))
            between = prove_consistency(head.size, target.size, lambda level, index: nodes[level, index])
            files[old] = ConsistencyFile(old, tuple(between), proofs[which])
    return files


def _carried(
    source: LogSource, lines: dict[int, bytes], key_lines: dict[int, bytes], notes: tuple[bytes, bytes]
) -> dict[int, bytes]:
    """Genesis, which is in ``lines``, and the root actions that the consistency file of two heads has to carry.

    Raises:
        ProofError: there are too many of them (``PROOF_TOO_LARGE``).
    """
    if _has_thresholds(key_lines):
        lines = lines | key_lines
    else:
        hashes = {sig.key_hash for note in notes for sig in parse_note(note).sigs}
        lines = lines | _enrolments(lines[0], lines[0], key_lines, hashes)
    if len(lines) > MAX_ENTRIES:
        raise ProofError(
            Code.PROOF_TOO_LARGE,
            f"the heads rest on {len(lines)} entries, and a proof file holds {MAX_ENTRIES}",
            position=Position(source=source.name),
        )
    return lines


def consistency_between(
    source: LogSource, size1: int, size2: int, *, root1: bytes | None = None, root2: bytes | None = None
) -> tuple[bytes, ...]:
    """The consistency proof between two sizes of a log, in one pass over it.

    Raises:
        ProofError: the log is shorter (``CHECKPOINT_AHEAD``), or has other roots (``CHECKPOINT_ROOT``).
        StoreError: the source cannot be read.
    """
    return consistency_hashes(size1, size2, map(leaf_hash, _lines(source)), root1=root1, root2=root2)


def _kept_heads(source: LogSource) -> dict[int, bytes]:
    """Every signed head beside the log, by its size; of several copies the one with the most signatures."""
    newest = source.checkpoint()
    copies = ([newest] if newest is not None else []) + [raw for _, raw in source.kept_checkpoints()]
    kept: dict[int, tuple[int, bytes]] = {}
    for raw in copies:
        note = parse_note(raw)
        size = parse_checkpoint(note.text).size
        kept[size] = max(kept.get(size, (0, b"")), (len(note.sigs), raw), key=itemgetter(0))
    return {size: raw for size, (_, raw) in kept.items()}


def _kept_head(source: LogSource, size: int) -> bytes:
    kept, listed = _kept_heads(source), source.lists("checkpoints")
    if size not in kept and not listed and (named := source.kept_checkpoint(size)) is not None:
        kept |= {size: named} if parse_checkpoint(parse_note(named).text).size == size else {}
    if size not in kept:
        raise ProofError(
            Code.NO_SUCH_HEAD,
            f"the ledger keeps no signed head of {size} entries"
            if listed
            else f"no signed head of {size} entries is here under its name, and this place does not list those it has",
            position=Position(source="checkpoints"),
            expected=f"one of {', '.join(map(str, sorted(kept)))}"[:200] if kept else "a signed head",
        )
    return kept[size]


def superseding(source: LogSource, subject: bytes) -> list[int]:
    """Indexes of the entries that supersede the one in this line, which no proof of it shows.

    An entry that a revocation took back, or that no key signed that may, supersedes nothing, as everywhere. What the
    log says of its keys is taken without a word on what is wrong there: that says who verifies the log.
    """
    target = entry_identity(parse_line(subject).entry).hex()
    keyring = Keyring()
    found = []
    for index, raw in enumerate(_lines(source)):
        says = b'"kind":"supersede"' in raw and target.encode() in raw
        if index == 0 or says or _is_action(raw):
            with contextlib.suppress(LedgerError):
                line = parse_line(raw)
                entry = decode(line.entry)
                if not _take(keyring, index, line, entry) and getattr(entry.body, "target", None) == target:
                    found.append((entry.key, index))
    return [index for key, index in found if keyring.counts(key, "supersede", index)]


def _take(keyring: Keyring, index: int, line: Line, entry: Any) -> bool:
    """Take genesis or a root action into account; False of any other entry, whose signature is good.

    Raises:
        LedgerError: nobody who was enrolled signed it.
    """
    if index == 0 and entry.kind == "genesis":
        keyring.apply_genesis(index, entry_identity(line.entry).hex(), entry.body)
    life = keyring.lives.get(entry.key) or keyring.taken_back.get(entry.key)
    if life is None:
        raise SignatureError(Code.KEY_UNKNOWN, "nobody enrolled the key", position=Position(index=index))
    check_signature(life.public_key, signed_message(line.entry), line.sig)
    if entry.kind in ROOT_ACTIONS:
        keyring.apply_action(index, entry_identity(line.entry).hex(), entry.kind, entry.key, entry.body)
    return entry.kind in ROOT_ACTIONS or index == 0


def _collect(source: LogSource, index: int) -> tuple[dict[int, bytes], dict[int, bytes], int]:
    """Genesis and the line at ``index``; lines that may be root actions; and how many lines there are."""
    lines: dict[int, bytes] = {}
    key_lines: dict[int, bytes] = {}
    size = 0
    for size, raw in enumerate(_lines(source), start=1):
        if size - 1 in (0, index):
            lines[size - 1] = raw
        if _is_action(raw):
            key_lines[size - 1] = raw
    return lines, key_lines, size


def _lines(source: LogSource) -> Iterator[bytes]:
    """Whole lines without their LF."""
    for chunk in Chunker(source.blocks()):
        yield from chunk.data.split(b"\n")[:-1]


def _has_thresholds(key_lines: dict[int, bytes]) -> bool:
    """Whether a threshold was ever set, or an action endorsed. Then a proof carries every root action: an endorsement
    names the one in front of it, and a threshold concerns all behind it.
    """
    return any(b'"kind":"threshold"' in raw or b'"endorsements":[{' in raw for raw in key_lines.values())


def _enrolments(genesis: bytes, subject: bytes, key_lines: dict[int, bytes], hashes: set[int]) -> dict[int, bytes]:
    """The key entries that authenticate the subject and the checkpoint.

    Args:
        genesis: the first line.
        subject: the line that is proved.
        key_lines: lines that may be key entries, by position.
        hashes: key hashes of the signatures on the checkpoint.

    Returns:
        By position: what enrolled the subject's signer and the checkpoint's, the key that the subject takes back or
        replaces where it is a key entry itself, and the keys that this rests on: roots that signed those entries, and
        keys that were rotated out.
    """
    origin = decode(parse_line(genesis).entry).body.origin
    enrolled: dict[str, tuple[int, tuple[str, ...]]] = {}  # key id: where it was enrolled, and what that rests on
    revocations: dict[str, list[tuple[int, str]]] = {}  # key id: where it was revoked, by which key
    proved = decode(parse_line(subject).entry)
    wanted = [proved.key]
    if proved.kind == "key" and proved.body.action == "revoke":
        wanted.append(proved.body.key_id)
    elif proved.kind == "key" and proved.body.replaces is not None:
        wanted.append(proved.body.replaces)
    for position, raw in key_lines.items():
        try:
            entry = decode(parse_line(raw).entry)
        except LedgerError:
            continue  # verification reports it
        assert entry.kind == "key", "quotes inside text are escaped, so nothing else reads so"
        body = entry.body
        if body.action == "revoke":
            revocations.setdefault(body.key_id, []).append((position, entry.key))
            continue
        enrolled.setdefault(body.key_id, (position, (entry.key, *([body.replaces] if body.replaces else []))))
        if body.role == "log" and key_hash(origin, bytes.fromhex(body.public_key)) in hashes:
            wanted.append(body.key_id)
    needed: dict[int, bytes] = {}
    while wanted:
        key = wanted.pop()
        for position, revoker in revocations.get(key, ()):  # what takes a key back travels with what it signed
            if position not in needed:
                needed[position] = key_lines[position]
                wanted.append(revoker)
        found = enrolled.get(key)
        if found is not None and found[0] not in needed:
            needed[found[0]] = key_lines[found[0]]
            wanted.extend(found[1])
    return needed
