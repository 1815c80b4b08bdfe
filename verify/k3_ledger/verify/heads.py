"""Steps 6 to 8: what signed tree heads commit to, and whether this log is still the one that they saw.

Three kinds of heads are checked alike. The newest checkpoint and the kept ones are the log's own word: they must be
signed by a log key of this ledger. A remembered head is the auditor's own, kept from an earlier visit, and this log has
to extend it; but it accuses nobody unless a log key signed it that this log enrolled once, whatever came of the key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.checkpoint import Checkpoint, parse_checkpoint
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.coverage import report_behind, report_coverage
from k3_ledger.verify.freshness import check_freshness
from k3_ledger.verify.head_faults import head_faults, is_open, log_lines, said_stolen, standing, taken_back
from k3_ledger.verify.source import NOT_LOOKED_FOR, each
from k3_ledger.verify.witnesses import check_witnesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import FindingLog
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource


_NOT_THIS_LOGS = frozenset({Code.CHECKPOINT_ORIGIN, Code.MEMORY_FOREIGN})
_OF_THE_TREE = frozenset({Code.CHECKPOINT_ROOT, Code.CHECKPOINT_AHEAD})
MEMORY_VERSION = 3
"""Of the files that the command line keeps remembered heads in, the newest."""
_VERSION = re.compile(rb'"schema"\s*:\s*"k3-ledger/memory/([0-9]{1,9})"')
_KEPT_NAME = re.compile(r"checkpoints/([0-9]{1,20})\.note")


@dataclass(frozen=True, slots=True)
class SignedHead:
    """One tree head, parsed and not yet believed.

    Attributes:
        name: the file it stands in.
        step: ``checkpoint`` for the log's own heads, ``memory`` for remembered ones.
        newest: whether it is the log's newest checkpoint.
        raw: the note's bytes.
        checkpoint: origin, size and root it states.
    """

    name: str
    step: str
    newest: bool
    raw: bytes
    checkpoint: Checkpoint

    def as_the_logs_own(self) -> SignedHead:
        """The same head, to be judged as one that a log shows of itself."""
        return replace(self, step="checkpoint", newest=False)


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of a log and those that are remembered of it, before anything is held against them.

    Attributes:
        heads: those that could be parsed.
        malformed: how many could not, by step.
        unreadable: how many of the log's own could not be read.
        obstructed: whether the newest of the log's is one of these: what it says nobody knows.
        listed: whether the place says which ones it keeps.
    """

    heads: tuple[SignedHead, ...]
    malformed: dict[str, int]
    unreadable: int
    obstructed: bool = False
    listed: bool = True

    @property
    def there(self) -> bool:
        """Whether anything shows that the log held an entry once: a head that says so, or one that cannot be read."""
        return any(head.checkpoint.size for head in self.heads) or any(self.malformed.values()) or self.unreadable > 0


def read_heads(source: LogSource, remembered: tuple[tuple[str, bytes], ...], findings: FindingLog) -> Heads:
    """Parse every head there is, before the log is read: their sizes say where roots are needed.

    A log's own head that is malformed is the log's fault; a remembered one is a fault of the auditor's own memory.

    A head that cannot be read at all stops nothing and accuses nobody: it is reported as not checked, and everything
    else is checked, every other head included.
    """
    heads: list[SignedHead] = []
    malformed, unreadable = {"checkpoint": 0, "memory": 0}, 0
    wanted: list[tuple[str, str, bool, bytes]] = []
    newest = [*each(lambda: _newest(source))]
    for own in chain(newest, each(source.kept_checkpoints)):
        if isinstance(own, StoreError):
            unreadable += 1
            findings.add(replace(own.finding, code=Code.CHECKPOINT_UNREADABLE))
        else:
            wanted.append((own[0], "checkpoint", own[0] == "checkpoint", own[1]))
    wanted += [(name, "memory", False, raw) for name, raw in remembered]
    reported: set[tuple[str, bytes]] = set()
    for name, step, is_newest, raw in wanted:
        try:
            heads.append(head := signed_head(name, raw, step=step, newest=is_newest))
        except LedgerError as error:
            malformed[step] += 1
            if (step, raw) in reported:
                continue  # a copy of a head that was reported
            reported.add((step, raw))
            said = error.finding
            if step == "memory":
                findings.add(memory_fault(name, raw, said))
                continue
            place = Position(source=name, byte_offset=said.position.byte_offset)
            findings.add(Finding(error.code, said.message, place, said.expected, said.found, said.hint))
        else:
            named = None if step == "memory" else _KEPT_NAME.fullmatch(name)
            if named is not None and int(named[1]) != head.checkpoint.size:
                findings.add(
                    Finding(
                        Code.CHECKPOINT_MISNAMED,
                        "the file holds a signed head of another size than its name says",
                        Position(source=name, line=2),
                        f"a head of {int(named[1])} entries",
                        f"a head of {head.checkpoint.size} entries",
                    )
                )
    obstructed = any(isinstance(own, StoreError) for own in newest)
    return Heads(tuple(heads), malformed, unreadable, obstructed, source.lists("checkpoints"))


def _newest(source: LogSource) -> list[tuple[str, bytes]]:
    raw = source.checkpoint()
    return [] if raw is None else [("checkpoint", raw)]


def signed_head(name: str, raw: bytes, *, step: str = "checkpoint", newest: bool = True) -> SignedHead:
    """Parse one head.

    Raises:
        MalformedError: it is no signed note, or not a tree head's.
    """
    return SignedHead(name, step, newest, raw, parse_checkpoint(parse_note(raw).text))


def memory_fault(name: str, raw: bytes, said: Finding) -> Finding:
    """What is wrong with a remembered head, of which ``said`` is what its reader says.

    Who keeps heads in a file with more than the note hands a damaged one over as it is: a document, and never a note,
    of which a crash may have left the beginning, the end or nothing.
    """
    text = raw.strip(b"\0\t\r\n ")
    if not text or text.startswith(b"{") or text.endswith(b"}"):
        message = "the memory is damaged: it cannot be read whole, or its digest is of other contents"
        if (version := _VERSION.search(text)) and int(version[1]) > MEMORY_VERSION:
            message = f"the memory is of a newer version, {int(version[1])}, than this program reads, or damaged"
        return Finding(Code.MEMORY_UNREADABLE, message, Position(source=name))
    place = Position(source=name, byte_offset=said.position.byte_offset)
    return Finding(Code.MEMORY_UNREADABLE, said.message, place, said.expected, said.found)


def wanted_sizes(heads: Heads) -> frozenset[int]:
    """Tree sizes at which these heads need a root."""
    return frozenset(head.checkpoint.size for head in heads.heads)


def check_heads_within(scan: Scan, heads: Heads) -> None:
    """Compare the heads of a log that could not be read to its end with the tree of what was read; larger ones, which
    the rest may bear out, and kept ones, which it may take back, are counted as not checked.
    """
    within = tuple(
        head for head in heads.heads if head.checkpoint.size <= scan.lines and not may_be_taken_back(scan, head, heads)
    )
    for head in heads.heads:
        scan.tallies[head.step].not_checked += head not in within
    _compare(scan, replace(heads, heads=within))


def check_heads(scan: Scan, heads: Heads, policy: TrustPolicy | None, clock: Clock | None = None) -> None:
    """Compare every head with the tree that was computed."""
    scan.obstructed = heads.obstructed
    good, signed, remembered = _compare(scan, heads)
    covered = max((head.checkpoint.size for head in good), default=0)
    report_coverage(scan, scan.tallies["checkpoint"], covered, policy)
    if not scan.tallies["memory"].failed:
        report_behind(scan, signed, remembered)
    if not (scan.tallies["memory"].checked or scan.tallies["memory"].not_checked):
        scan.tallies["memory"].detail = "no head of this log was remembered: a rollback would not be noticed"
    scan.good_heads = tuple(good)
    check_witnesses(scan, heads.heads, good, policy)
    scan.newest_size = next((head.checkpoint.size for head in good if head.newest), None)
    check_freshness(scan, policy, clock)
    if not heads.listed:  # which one a host withholds nobody can tell: it is said, and what is here is checked in full
        scan.tallies["checkpoint"].detail += f"; kept heads {NOT_LOOKED_FOR}"


def _compare(scan: Scan, heads: Heads) -> tuple[list[SignedHead], int, int]:
    """Compare heads with the tree; returns the log's own good ones, and the sizes of the largest that the log signed,
    whether these are its lines or not, and of the largest remembered one.

    A newest head that a revocation took back was signed by the log as well, and so was a kept one that is the very head
    that was remembered: whoever shows it keeps nothing back.
    """
    for step, count in heads.malformed.items():
        scan.tallies[step].checked += count
        scan.tallies[step].failed += count
    scan.tallies["checkpoint"].not_checked += heads.unreadable
    signed, remembered = 0, 0
    good: list[SignedHead] = []
    reported: set[tuple[str, Checkpoint, Code]] = set()
    seen = {head.checkpoint for head in heads.heads if head.step == "memory"}
    for head in heads.heads:
        tally = scan.tallies[head.step]
        if _is_passed_over(scan, head, heads):
            if head.step == "checkpoint" and head.checkpoint in seen:
                signed = max(signed, head.checkpoint.size)
            continue
        tally.checked += 1
        found = list(head_faults(scan, head))
        unsigned = head.step == "checkpoint" and (scan.genesis is None or is_open(scan, head, found))
        if unsigned:  # that no key of this log signed it cannot be said, nor that one did
            found = [finding for finding in found if finding.code is not Code.CHECKPOINT_SIGNATURE]
            tally.not_checked += 1
        if not any(finding.code in _NOT_THIS_LOGS for finding in found):
            found += (_with_loss(scan, head, fault) for fault in _root_faults(scan, head))
        tally.failed += bool(found)
        for finding in found:
            # The newest head and its kept copy are one head, and what is wrong with it is one fault.
            if (fault := (head.step, head.checkpoint, finding.code)) not in reported:
                reported.add(fault)
                scan.findings.add(finding)
        if head.step == "memory":
            remembered = max(remembered, head.checkpoint.size)
        elif not unsigned and {finding.code for finding in found} <= _OF_THE_TREE:
            signed = max(signed, head.checkpoint.size)
            good += [] if found else [head]
        elif head.newest and taken_back(scan, head) is not None:
            signed = max(signed, head.checkpoint.size)
    return good, signed, remembered


def _is_passed_over(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether a head vouches for nothing and accuses nobody: then it is counted here. A kept one was taken back, or
    whose a remembered one is cannot be told.
    """
    if head.step == "checkpoint":
        return not head.newest and _is_disowned(scan, head)
    left_open = _is_left_open(scan, head, heads)
    scan.tallies["memory"].not_checked += left_open
    return left_open


def _is_left_open(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether it cannot be told whose a remembered head is.

    That is so where the entry that says whose log this is was damaged, or one that may have enrolled its signer, and
    where it is damage that the log differs by. Where not one entry is left, such a head is held against that: there is
    no honest log without entries.
    """
    if scan.genesis is None:
        return scan.lines > 0
    found = list(head_faults(scan, head))
    if is_open(scan, head, found):
        return True
    damaged = not found and _is_damaged_below(scan, head, heads)
    if damaged:
        size = head.checkpoint.size
        scan.tallies["memory"].detail = f"a line is damaged, so whether this extends a head of {size} cannot be told"
    return damaged


def _is_disowned(scan: Scan, head: SignedHead) -> bool:
    """Whether a kept head was taken back: then it is counted as that, vouches for nothing and accuses nobody."""
    lost = taken_back(scan, head)
    if lost is None:
        return False
    scan.tallies["checkpoint"].disowned += 1
    scan.disowned_heads.append(head)
    scan.findings.add(lost)
    return True


def may_be_taken_back(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether a kept head differs from the lines, and a revocation among those that are missing may take it back: not
    where its key signed the newest head as well, for that key stands, or the newest head is at fault.
    """
    size, root = head.checkpoint.size, head.checkpoint.root
    if head.step != "checkpoint" or head.newest or scan.genesis is None or scan.roots.get(size) in (None, root):
        return False
    signers = [key for key in standing(scan, head) if log_lines(scan, head, [key])[0]]
    newest = next((one for one in heads.heads if one.step == "checkpoint" and one.newest), None)
    return bool(signers) and (newest is None or not log_lines(scan, newest, signers)[0])


def _is_damaged_below(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether it is damage, and no other history, that a remembered head differs from.

    A line that is damaged has another hash, and so has the tree from there on; where it lost its LF, it is one with
    the next. That accuses nobody: it takes entries that verify and differ, or the log's own signature under what
    differs: another head of that size, or a larger one of these very lines.
    """
    size, root = head.checkpoint.size, head.checkpoint.root
    glued = sum(scan.findings.counts.get(code, 0) for code in (Code.GLUED_LINES, Code.TAIL_DAMAGED))
    first = scan.lines if scan.unsound is None else scan.unsound
    if not first < size <= scan.lines + glued or scan.roots.get(size) == root:
        return False
    return not any(_contradicts(scan, other, head.checkpoint) for other in heads.heads)


def _contradicts(scan: Scan, other: SignedHead, seen: Checkpoint) -> bool:
    """Whether the log signed a head that one that differs from these lines cannot stand beside, whatever is damaged."""
    said = other.checkpoint
    of_these_lines = said.size >= seen.size and scan.roots.get(said.size) == said.root
    differs = of_these_lines or (said.size == seen.size and said.root != seen.root)
    return other.step == "checkpoint" and differs and not list(head_faults(scan, other))


def _with_loss(scan: Scan, head: SignedHead, fault: Finding) -> Finding:
    """The same, with the word of a log that says that the key of a remembered head was not its owner's any more.

    It stays an error: an owner could fork his log, and take his own key back.
    """
    said = said_stolen(scan, head) if head.step == "memory" else None
    if said is None:
        return fault
    hint = (
        f"{fault.code.info.hint}; ask the owner, elsewhere than here, whether that key was stolen: if you believe it, "
        "put the memory aside with --forget"
    )
    return replace(fault, message=f"{fault.message}; {said}", hint=hint)


def _root_faults(scan: Scan, head: SignedHead) -> Iterator[Finding]:
    remembered = head.step == "memory"
    size = head.checkpoint.size
    if remembered and size > scan.lines and _parts(scan, head):
        yield Finding(
            Code.FORK,
            "the root key of this log stands behind the head, and this history parts from that one: it was replaced",
            Position(source=head.name, line=3),
            f"the history that a head of {size} entries commits to",
            f"another one, of {scan.lines} entries",
        )
    elif size > scan.lines:
        yield Finding(
            Code.ROLLBACK if remembered else Code.CHECKPOINT_AHEAD,
            f"the log is shorter than when it was last seen: {size - scan.lines} entries are gone"
            if remembered
            else f"the head commits to {size - scan.lines} more entries than the log holds: they are missing",
            Position(source=head.name, line=2),
            f"at least {size} entries",
            f"{scan.lines} entries",
        )
    elif (root := scan.roots[size]) != head.checkpoint.root:
        yield Finding(
            Code.FORK if remembered else Code.CHECKPOINT_ROOT,
            f"the first {size} entries are not those that were seen before: the log's history was replaced"
            if remembered
            else f"the first {size} entries are not those that the head commits to",
            Position(source=head.name, line=3),
            head.checkpoint.root.hex(),
            root.hex(),
        )


def _parts(scan: Scan, head: SignedHead) -> bool:
    """Whether this history parts from that of a larger head: an entry that was kept with it is not what stands here."""
    if not scan.enrolments:
        return False
    from k3_ledger.verify.vouched import parts  # noqa: PLC0415 - only where entries were kept with a head

    return parts(scan, head)
