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
from k3_ledger.ledger.core.note import Verifier, check_signature_line, open_note, parse_note
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.freshness import check_freshness
from k3_ledger.verify.signers import Signers
from k3_ledger.verify.source import NOT_LOOKED_FOR, each
from k3_ledger.verify.witnesses import check_witnesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.core.keylife import KeyLife
    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import FindingLog, Tally
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource


_NOT_THIS_LOGS = frozenset({Code.CHECKPOINT_ORIGIN, Code.MEMORY_FOREIGN})
_UNSIGNED = frozenset({Code.CHECKPOINT_SIGNATURE, Code.MEMORY_FOREIGN})
_UNSIGNED_BY_ANY = "no log key of this ledger signed the head"
_OF_THE_TREE = frozenset({Code.CHECKPOINT_ROOT, Code.CHECKPOINT_AHEAD})
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
    """All heads that could be parsed, how many could not, by step, and how many of the log's could not be read; and
    whether the place says which ones it keeps.
    """

    heads: tuple[SignedHead, ...]
    malformed: dict[str, int]
    unreadable: int
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
    for own in chain(each(lambda: _newest(source)), each(source.kept_checkpoints)):
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
            code = Code.MEMORY_UNREADABLE if step == "memory" else error.code
            place = Position(source=name, byte_offset=error.finding.position.byte_offset)
            said = error.finding
            hint = None if step == "memory" else said.hint
            findings.add(Finding(code, said.message, place, said.expected, said.found, hint))
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
    return Heads(tuple(heads), malformed, unreadable, source.lists("checkpoints"))


def _newest(source: LogSource) -> list[tuple[str, bytes]]:
    raw = source.checkpoint()
    return [] if raw is None else [("checkpoint", raw)]


def signed_head(name: str, raw: bytes, *, step: str = "checkpoint", newest: bool = True) -> SignedHead:
    """Parse one head.

    Raises:
        MalformedError: it is no signed note, or not a tree head's.
    """
    return SignedHead(name, step, newest, raw, parse_checkpoint(parse_note(raw).text))


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
    good, signed, remembered = _compare(scan, heads)
    covered = max((head.checkpoint.size for head in good), default=0)
    _report_coverage(scan, scan.tallies["checkpoint"], covered, policy)
    if not scan.tallies["memory"].failed:
        _report_behind(scan, signed, remembered)
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
            tally.not_checked += 1
            if head.step == "checkpoint" and head.checkpoint in seen:
                signed = max(signed, head.checkpoint.size)
            continue
        tally.checked += 1
        found = list(head_faults(scan, head))
        unsigned = head.step == "checkpoint" and (scan.genesis is None or _is_open(scan, head, found))
        if unsigned:  # that no key of this log signed it cannot be said, nor that one did
            found = [finding for finding in found if finding.code is not Code.CHECKPOINT_SIGNATURE]
            tally.not_checked += 1
        if not any(finding.code in _NOT_THIS_LOGS for finding in found):
            found += _root_faults(scan, head)
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
        elif head.newest and _taken_back(scan, head) is not None:
            signed = max(signed, head.checkpoint.size)
    return good, signed, remembered


def _report_behind(scan: Scan, signed: int, remembered: int) -> None:
    """Say so when the largest head that the log signed is older than the remembered one, which the log does extend.

    Whether its root is that of these lines is another question.
    """
    if signed >= remembered:
        return
    scan.findings.add(
        Finding(
            Code.CHECKPOINT_BEHIND,
            "the log shows an older signed head than the one that was remembered",
            Position(source="checkpoint"),
            f"a head of at least {remembered} entries",
            f"a head of {signed} entries" if signed else "no good head",
        )
    )


def head_faults(scan: Scan, head: SignedHead) -> Iterator[Finding]:
    """What is wrong with a head apart from the tree: whose it is and who signed it."""
    if head.step == "memory" and scan.genesis is not None:
        if (foreign := foreign_head(scan, head)) is not None:
            yield foreign
    elif scan.genesis is not None and head.checkpoint.origin != scan.genesis.origin:
        yield Finding(
            Code.CHECKPOINT_ORIGIN,
            "the head belongs to another log",
            Position(source=head.name, line=1),
            scan.genesis.origin,
            head.checkpoint.origin,
        )
        return  # then this log's keys did not sign it, of course
    if head.step == "checkpoint" and (fault := _signature_fault(scan, head)) is not None:
        lost = _taken_back(scan, head)
        yield fault if lost is None else replace(fault, message=lost.message, hint=_cure(scan))


def settled_faults(scan: Scan, head: SignedHead) -> list[Finding]:
    """What is wrong with a head of a proof file, as far as can be told: see :func:`_is_open`."""
    faults = list(head_faults(scan, head))
    if not _is_open(scan, head, faults):
        return [_for_want_of_a_key(scan, head, fault) for fault in faults]
    scan.tallies["checkpoint"].not_checked += 1
    return [fault for fault in faults if fault.code not in _UNSIGNED]


def _for_want_of_a_key(scan: Scan, head: SignedHead, fault: Finding) -> Finding:
    """That no log key signed a head says nothing of the head where a proof file carries no enrolment of one; of other
    log keys than the file carries nothing is said.
    """
    if fault.code is not Code.CHECKPOINT_SIGNATURE:
        return fault
    if any(life.role == "log" for life in scan.keyring.lives.values()):
        said = _UNSIGNED_BY_ANY, "no log key that the proof enrols signed the head"
        return replace(fault, message=fault.message.replace(*said))
    message = "the proof does not carry the entry that enrols the log key that signed the head"
    return Finding(Code.PROOF_INCOMPLETE, message, Position(source=head.name))


def _is_open(scan: Scan, head: SignedHead, faults: list[Finding]) -> bool:
    """Whether it cannot be told who signed a head that no known log key signed.

    That is so where a line that may have enrolled the signer does not count (:attr:`Scan.unsettled`), unless the head
    says that it is of another log, or by a log key that is known.
    """
    unsigned = any(fault.code in _UNSIGNED for fault in faults)
    own = scan.genesis is None or head.checkpoint.origin == scan.genesis.origin
    if not (unsigned and own and scan.is_unsettled(head.checkpoint.size)):
        return False
    return not _named(scan, head, taken_back=False)


def _signature_fault(scan: Scan, head: SignedHead) -> Finding | None:
    """A log key that was enrolled below the head and not retired by then signed it; no line by such a key is bad."""
    size = head.checkpoint.size
    good, bad = _log_lines(scan, head, _standing(scan, head))
    if good and bad is None:
        return None
    standing = sum(life.role == "log" and life.vouches_at(size) for life in scan.keyring.lives.values())
    return Finding(
        Code.CHECKPOINT_SIGNATURE,
        _UNSIGNED_BY_ANY if bad is None else bad.finding.message,
        Position(source=head.name),
        "a good signature in every line that is by a log key of this ledger"
        if good
        else f"a signature by a log key that is enrolled below entry {size} and not retired there ({standing} are)",
        None if bad is None else bad.finding.found,
    )


def _standing(scan: Scan, head: SignedHead) -> list[bytes]:
    """The log keys that a line of a head may be by, and that can sign one of its size."""
    size = head.checkpoint.size
    return [life.public_key for life in _named(scan, head, taken_back=False) if life.vouches_at(size)]


def _named(scan: Scan, head: SignedHead, *, taken_back: bool = True) -> list[KeyLife]:
    """The log keys, as far as they are known, that the lines of a head may be by: those of a key hash in it.

    Of a log with many keys and many heads nothing else is looked at: all keys for each head were a product of the two.
    """
    keyring, origin = scan.keyring, head.checkpoint.origin
    index = scan.signers
    if index is None or not index.is_of(origin, keyring):
        index = scan.signers = Signers(origin, keyring)
    hashes = dict.fromkeys(sig.key_hash for sig in parse_note(head.raw).sigs)
    found = [key for number in hashes for key in index.keys.get(number, ())]
    places = (keyring.lives, keyring.taken_back) if taken_back else (keyring.lives,)
    lives = (lives.get(key) for lives in places for key in found)
    return [life for life in lives if life is not None and life.role == "log"]


def _log_lines(scan: Scan, head: SignedHead, keys: list[bytes]) -> tuple[int, LedgerError | None]:
    """How many lines of a head are good signatures by one of these log keys; and what is wrong with a line that says it
    is by one of them, and is not good. Two keys can have one key hash: it may then be by either.
    """
    note = parse_note(head.raw)
    known = [Verifier(scan.genesis.origin, public_key) for public_key in keys]
    good, bad = 0, None
    for sig in note.sigs:
        wrong: LedgerError | None = None
        for verifier in (one for one in known if (one.name, one.key_hash) == (sig.name, sig.key_hash)):
            try:
                check_signature_line(note.text, sig, verifier)
            except LedgerError as error:
                wrong = error
            else:
                good, wrong = good + 1, None
                break
        bad = bad or wrong
    return good, bad


def _taken_back(scan: Scan, head: SignedHead) -> Finding | None:
    """Says so when a kept head was good until a revocation took back what its key signed from before there on.

    Then it vouches for nothing, and accuses nobody either: whether the log's owner or the thief signed it cannot be
    told. The newest head is another matter, an error: the owner signs a new one (:func:`_cure`), and a reader would
    remember the thief's. So is one with a bad line by a key that stands.
    """
    size = head.checkpoint.size
    if scan.genesis is None or _log_lines(scan, head, _standing(scan, head)) != (0, None):
        return None
    for life in (life for life in _named(scan, head) if life.lost_at(size)):
        good, bad = _log_lines(scan, head, [life.public_key])
        if good and bad is None:
            return Finding(
                Code.CHECKPOINT_DISOWNED,
                f"entry {life.lost_by(size)} takes back what the head's key signed",
                Position(source=head.name),
            )
    return None


def _is_passed_over(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether a head vouches for nothing and accuses nobody: a kept one was taken back, or whose it is cannot be told.

    The latter is so of a remembered head where the entry that says whose log this is was damaged, or one that may have
    enrolled its signer, and where it is damage that the log differs by. Where not one entry is left, such a head is
    held against that: there is no honest log without entries.
    """
    if head.step == "memory" and scan.genesis is None:
        return scan.lines > 0
    if head.step == "memory":
        found = list(head_faults(scan, head))
        if _is_open(scan, head, found):
            return True
        damaged = not found and _is_damaged_below(scan, head, heads)
        if damaged:
            size = head.checkpoint.size
            scan.tallies[
                "memory"
            ].detail = f"a line is damaged, so whether this extends a head of {size} cannot be told"
        return damaged
    lost = None if head.newest else _taken_back(scan, head)
    if lost is not None:
        scan.findings.add(lost)
    return lost is not None


def may_be_taken_back(scan: Scan, head: SignedHead, heads: Heads) -> bool:
    """Whether a kept head differs from the lines, and a revocation among those that are missing may take it back: not
    where its key signed the newest head as well, for that key stands, or the newest head is at fault.
    """
    size, root = head.checkpoint.size, head.checkpoint.root
    if head.step != "checkpoint" or head.newest or scan.genesis is None or scan.roots.get(size) in (None, root):
        return False
    signers = [key for key in _standing(scan, head) if _log_lines(scan, head, [key])[0]]
    newest = next((one for one in heads.heads if one.step == "checkpoint" and one.newest), None)
    return bool(signers) and (newest is None or not _log_lines(scan, newest, signers)[0])


def foreign_head(scan: Scan, head: SignedHead) -> Finding | None:
    """Says so when a remembered head is of a log of another name, or no log key that this log enrolled once signed it,
    and its root vouches for no other: then the head proves nothing.
    """
    if scan.genesis is not None and head.checkpoint.origin != scan.genesis.origin:
        return Finding(
            Code.MEMORY_FOREIGN,
            "the remembered head is of another log: it proves nothing against this one",
            Position(source=head.name, line=1),
            scan.genesis.origin,
            head.checkpoint.origin,
            hint="give the memory that was kept of this log, or verify the log that this memory is of",
        )
    for life in _named(scan, head):
        try:
            open_note(head.raw, [Verifier(head.checkpoint.origin, life.public_key)])
        except LedgerError:
            continue
        return None
    if scan.enrolments:
        from k3_ledger.verify.vouched import is_own_roots  # noqa: PLC0415 - only where entries were kept with a head

        if is_own_roots(scan, head):  # another history under the same root
            return None
    return Finding(
        Code.MEMORY_FOREIGN,
        "no log key that this log ever enrolled signed the head: it proves nothing against the log",
        Position(source=head.name),
        hint=_OTHER_ROOT if head.name in scan.enrolments else None,
    )


_OTHER_ROOT = (
    "the head was kept with entries that enrol its signer, and the root key of this log is not behind them: two logs "
    "have one name, or the memory is damaged; compare the root key with what the log's owner says"
)


def _cure(scan: Scan) -> str:
    """How the log's owner replaces a newest head that was taken back."""
    if any(life.role == "log" and life.valid_at(scan.lines) for life in scan.keyring.lives.values()):
        return (
            "the head vouches for nothing any more; the log's owner signs a new one with a log key that stands: "
            "`k3-ledger checkpoint --key LOG.pem --ledger DIR`"
        )
    return (
        "the head vouches for nothing any more; the log's owner makes a new log key, enrols it and signs a new head: "
        "`k3-ledger keygen NEW-LOG.pem`, `k3-ledger key enrol log NEW-LOG.pub.pem --key ROOT.pem --ledger DIR`, "
        "`k3-ledger checkpoint --key NEW-LOG.pem --ledger DIR`"
    )


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


def _report_coverage(scan: Scan, tally: Tally, covered: int, policy: TrustPolicy | None) -> None:
    """Say how much of the log the largest good head covers, and whether the policy is content with that."""
    beyond = scan.lines - covered
    if not covered:
        tally.not_checked += 1
        tally.detail = "no good checkpoint: that the log is complete cannot be shown"
    elif beyond:
        tally.not_checked += beyond
        tally.detail = f"signed head at {covered}, {beyond} uncheckpointed"
        scan.findings.add(
            Finding(
                Code.UNCHECKPOINTED,
                f"{beyond} uncheckpointed: no signed head commits to the entries from {covered} on",
                Position(index=covered),
            )
        )
    else:
        tally.detail = f"signed head at {covered} covers every entry"
    check_size(scan, covered, policy)


def check_size(scan: Scan, covered: int, policy: TrustPolicy | None) -> None:
    """The policy's smallest acceptable signed head."""
    if policy is not None and covered < policy.minimum_size:
        explained = not covered and (scan.tallies["checkpoint"].failed > 0 or scan.genesis is None)
        scan.tallies["checkpoint"].failed += 1
        if explained:  # there is a head, and what is wrong with it, or with the genesis entry, was said
            return
        scan.findings.add(
            Finding(
                Code.HEAD_TOO_SMALL,
                "the signed head is smaller than the trust policy accepts",
                Position(source="checkpoint"),
                f"at least {policy.minimum_size}",
                str(covered) if covered else "no good head",
            )
        )
