"""Verification of a mirror that lacks some of its entries: what is there is checked, what is missing is counted.

An entry bundle that cannot be read is missing as well, and keeps nobody from the others; the report then carries what
the medium said, and its exit code is 3 when nothing worse was found.

The steps are those of :mod:`k3_ledger.verify.log`, run on the bundles that are there. Every one of them is traced to
the signed head through the tiles of hashes, so it is known to be part of the log. What depends on entries that are
missing is not checked, and never an accusation: the link to a missing neighbour, a signer who may have been enrolled
there, a key entry that may rest on one there, an entry that is referred to, what an entry says that may have been taken
back there. The verdict is never "verified": the report
carries ``MIRROR_INCOMPLETE``, and its exit code is 4 when nothing worse was found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.ed25519 import check_implementation
from k3_ledger.ledger.core.tiles import ENTRIES, tiles_of
from k3_ledger.ledger.core.tiletree import TileMissingError, TileUnreadableError
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.artifacts import check_artifacts
from k3_ledger.verify.chunks import Chunk
from k3_ledger.verify.head_faults import head_faults
from k3_ledger.verify.heads import Heads, check_heads, may_be_taken_back, read_heads, wanted_sizes
from k3_ledger.verify.references import count_references
from k3_ledger.verify.report import FindingLog, Head
from k3_ledger.verify.scan import Joiner, Scan
from k3_ledger.verify.settle import (
    check_attested,
    check_demands,
    check_imports,
    check_keys,
    count_unchecked,
    make_report,
)
from k3_ledger.verify.timestamps import check_timestamps
from k3_ledger.verify.witness_entries import count_witness_entries
from k3_ledger.verify.work import LOG_NAME, check_chunk

if TYPE_CHECKING:
    from k3_ledger.ledger.core.tiles import Tile
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report

GAPS_NAMED = 5
"""Gaps that the report spells out; the rest are counted."""
_PER_ENTRY = ("framing", "schema", "chain", "signatures", "keys")
"""Steps that look at every entry, and so could not look at those that are missing."""
_UNSIGNED = frozenset({Code.CHECKPOINT_SIGNATURE, Code.MEMORY_FOREIGN})


class _Joiner(Joiner):
    """Joins what is there; a key entry that does not count may rest on one that is missing."""

    def note_key_fault(self, finding: Finding) -> None:
        """Count it as not checked."""
        del finding
        self.scan.tallies["keys"].not_checked += 1


def check_partial(source: TileSource, policy: TrustPolicy | None, options: Options) -> Report:
    """Verify what a mirror has and say what it lacks. Never raises because of the data.

    Args:
        source: the mirror.
        policy: whom to trust and what to demand.
        options: as for a whole log; the work is done in this process.
    """
    check_implementation()
    findings = FindingLog()
    scan = Scan(findings=findings)
    try:
        heads = read_heads(source, options.expected_heads, findings)
        gaps, unreadable = _read(source, scan, wanted_sizes(heads))
        _count_missing(scan, gaps, unreadable)
        check_keys(scan, policy if scan.genesis is not None else None)
        scan.bodies.settle(scan)
        settled = _settled(scan, heads)
        open_heads = [head for head in heads.heads if head.step == "checkpoint" and head not in settled.heads]
        judged = _without_heads(policy) if open_heads else policy
        check_heads(scan, settled, judged, options.clock)
        count_witness_entries(scan)
        check_artifacts(scan, source if options.artifacts else None)
        scan.tallies["receipts"].not_checked += count_references(scan)
        check_imports(scan, None)
        count_unchecked(scan)
        check_attested(scan, source, policy, artifacts=options.artifacts)
        check_timestamps(scan, source, policy, options.read_token)
        check_demands(scan, policy)
    except LedgerError as error:  # the head cannot be read, its border is missing, or a tile is wrong
        findings.add(error.finding)
    return make_report(source.name, policy, scan)


def _read(source: TileSource, scan: Scan, sizes: frozenset[int]) -> tuple[list[Tile], int]:
    """Check every bundle that is there, in log order; returns those that are not, and how many entries are in such as
    cannot be read.
    """
    joiner = _Joiner(scan, sizes)
    tree = source.tree
    gaps: list[Tile] = []
    unreadable = 0
    lost: TileMissingError | None = None
    offset = 0
    for tile in tiles_of(tree.size, level=ENTRIES):
        first = tile.index * 256
        try:
            lines = tree.entries(tile.index)
        except TileMissingError as error:
            scan.open_up(first + tile.width - 1)
            if isinstance(error, TileUnreadableError):
                unreadable += tile.width
                scan.findings.add(error.finding)
            else:
                gaps.append(tile)
            try:
                if lost is None:
                    _skip(source, scan, first, first + tile.width, joiner.sizes)
            except TileMissingError as deeper:
                lost = deeper
            continue
        if lost is not None:
            continue  # only traced to the signed head: what would join it to the others is missing
        chunk = Chunk(b"\n".join(lines) + b"\n", first, offset, len(lines))
        offset += len(chunk.data)
        joiner.enrol(chunk)
        joiner.join(chunk, check_chunk(chunk, joiner.sizes, joiner.keys))
    if lost is not None:
        raise lost
    scan.lines = tree.size
    scan.head = Head(tree.size, scan.tree.root().hex(), scan.last_identity)
    return gaps, unreadable


def _skip(source: TileSource, scan: Scan, begin: int, end: int, sizes: tuple[int, ...]) -> None:
    """Carry the tree over entries that are missing, by the hashes that stand for them.

    Raises:
        TileMissingError: not even the hash of the whole bundle is there.
    """
    scan.last = scan.last_identity = None
    marks = [begin, *(size for size in sizes if begin < size < end), end]
    try:
        parts = [source.tree.range(a, b) for a, b in pairwise(marks)]
    except TileMissingError:  # the leaf hashes are missing as well: heads that end between them stay unchecked
        parts = [source.tree.range(begin, end)]
    for part in parts:
        scan.tree.extend(part)
        if scan.tree.end in sizes:
            scan.roots[scan.tree.end] = scan.tree.root()


def _count_missing(scan: Scan, gaps: list[Tile], unreadable: int) -> None:
    """What the missing entries leave open, in every step that would have looked at them."""
    absent = sum(tile.width for tile in gaps)
    missing = scan.missing = absent + unreadable
    if not missing:  # asked twice, it gave two answers: what is checked here is less than a whole log's verdict needs
        message = "the mirror lacked a tile at the first reading and had it at the second"
        scan.findings.add(
            Finding(Code.MIRROR_INCOMPLETE, message, Position(source=LOG_NAME), hint="verify the mirror again")
        )
        return
    for name in _PER_ENTRY:
        scan.tallies[name].not_checked += missing
        scan.tallies[name].detail = "; ".join(
            f"{count} entries {what}"
            for count, what in ((absent, "are not on this mirror"), (unreadable, "cannot be read"))
            if count
        )
    known = scan.keyring.lives.keys() | scan.keyring.taken_back.keys()
    for key, kind in list(scan.keyring.uses):
        if key not in known:  # its enrolment may be among what is missing
            scan.tallies["keys"].not_checked += len(scan.keyring.uses.pop((key, kind)))
    if scan.genesis is None:
        scan.tallies["keys"].not_checked += 1
    if not gaps:  # what cannot be read was said
        return
    named = [f"{tile.index * 256} to {tile.index * 256 + tile.width - 1}" for tile in gaps[:GAPS_NAMED]]
    if len(gaps) > GAPS_NAMED:
        named.append(f"and {len(gaps) - GAPS_NAMED} more bundles")
    scan.findings.add(
        Finding(
            Code.MIRROR_INCOMPLETE,
            f"{absent} of {scan.lines} entries are not on this mirror: {', '.join(named)}",
            Position(index=gaps[0].index * 256),
            f"{scan.lines} entries",
            f"{scan.lines - absent} entries",
        )
    )


def _without_heads(policy: TrustPolicy | None) -> TrustPolicy | None:
    """The policy without what it asks of signed heads: one that could not be judged has not failed it."""
    return (
        None
        if policy is None
        else replace(policy, minimum_size=0, witnesses=(), quorum=0, maximum_head_age_seconds=None)
    )


def _settled(scan: Scan, heads: Heads) -> Heads:
    """The heads that can be judged: others need a root, or a log key's enrolment or revocation, that is missing."""
    kept = []
    for head in heads.heads:
        size = head.checkpoint.size
        open_root = size <= scan.lines and size not in scan.roots
        own = scan.genesis is None or head.checkpoint.origin == scan.genesis.origin
        unsigned = own and any(finding.code in _UNSIGNED for finding in head_faults(scan, head))
        if open_root or unsigned or may_be_taken_back(scan, head, heads):
            scan.tallies[head.step].not_checked += 1
        else:
            kept.append(head)
    return replace(heads, heads=tuple(kept))
