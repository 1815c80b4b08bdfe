"""Verification of a proof file: one entry, with no ledger at hand.

Steps are those of a whole log, as far as one entry goes:

1. framing, 2. schema and 4. signatures of every line in the file;
5. keys: genesis pins the root, the key entries in the file enrol the signers of the subject and of the checkpoint;
6. the checkpoint is signed by an enrolled log key, and every line is in the tree that it commits to;
10. the subject, when it is a receipt, does not contradict itself.

What a proof file cannot show is counted as not checked: the chain between the lines, and that nothing later revoked a
key or superseded the entry.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.chain import signed_message
from k3_ledger.ledger.core.ed25519 import check_implementation, check_signature
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.proof import ProofFile, check_inclusions, parse_proof
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome, Position, Severity
from k3_ledger.verify.artifacts import check_artifacts
from k3_ledger.verify.attested import is_attested, read_attested
from k3_ledger.verify.bodies import Naming
from k3_ledger.verify.coverage import check_size
from k3_ledger.verify.freshness import check_freshness
from k3_ledger.verify.head_faults import foreign_head, settled_faults
from k3_ledger.verify.heads import SignedHead, memory_fault, signed_head
from k3_ledger.verify.receipts import check_body, check_import
from k3_ledger.verify.report import FindingLog, Head, Report, VerificationError
from k3_ledger.verify.scan import RESTS_ON_KEYS, Scan
from k3_ledger.verify.settle import check_attested, check_demands, check_keys, count_unchecked, make_report
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.witness_entries import count_witness_entries
from k3_ledger.verify.witnesses import check_witnesses
from k3_ledger.verify.work import RECEIPTS, check_genesis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.source import LogSource


_ENROLLING = ROOT_ACTIONS | {"genesis"}


def check_proof(
    data: bytes,
    name: str,
    policy: TrustPolicy | None = None,
    expected_heads: tuple[tuple[str, bytes], ...] = (),
    artifacts: LogSource | None = None,
    *,
    clock: Clock | None = None,
    enrolments: Mapping[str, tuple[bytes, ...]] | None = None,
) -> Report:
    """Verify a proof file and say everything that was found. Never raises because of the data.

    Args:
        data: the file's bytes.
        name: what to call it in positions.
        policy: whom to trust; None checks integrity and authenticates nobody.
        expected_heads: (name, note bytes) of heads seen earlier. A head of the proof's own size must be the same; one
            of another size cannot be compared, and what was asked for and cannot be checked is exit code 4.
        artifacts: where the subject's artifacts may be found; None counts them as not checked.
        clock: what the reader's clock says, for a policy that limits the age of the head.
        enrolments: by the name of an expected head, the lines that were kept with it.
    """
    check_implementation()
    findings = FindingLog()
    scan = Scan(findings=findings, source=name)
    try:
        proof = parse_proof(data, position=Position(source=name))
    except LedgerError as error:
        scan.tallies["framing"].checked += 1
        scan.tallies["framing"].failed += 1
        findings.add(error.finding)
        return make_report(name, policy, scan)
    entries = check_lines(scan, name, proof, policy)
    scan.tallies["receipts"].detail = "a later supersession would not show in a proof file"
    heads, good = check_head(scan, name, proof)
    if heads:
        check_witnesses(scan, heads, good, policy)
        count_witness_entries(scan)
        check_size(scan, heads[0].checkpoint.size, policy)
    scan.newest_size = good[0].checkpoint.size if good else None
    check_freshness(scan, policy, clock)
    scan.enrolments = enrolments or {}
    check_memory(scan, expected_heads, heads, good)
    _check_subject(scan, name, proof.subject, entries[proof.subject])
    _check_surplus(scan, name, proof.subject, entries)
    _check_artifacts(scan, proof, entries, artifacts)
    _check_import(scan, name, proof.subject, entries[proof.subject], artifacts)
    count_unchecked(scan, whole=False)
    try:
        check_attested(scan, artifacts or MemorySource(b""), policy)
    except LedgerError as error:  # the policy's certificates cannot be used
        findings.add(error.finding)
    check_demands(scan, policy, whole=False)
    return make_report(f"{name}: entry {proof.subject}", policy, scan)


def verify_proof(data: bytes, name: str, policy: TrustPolicy | None = None) -> Any:
    """Verify a proof file and return its subject, decoded.

    Raises:
        VerificationError: any finding that asks for an exit code other than 0; the error carries the report.
    """
    report = check_proof(data, name, policy)
    if report.exit_code:
        raise VerificationError(report)
    return decode(parse_line(parse_proof(data).subject_entry.line).entry)


def check_lines(
    scan: Scan, name: str, proof: ProofFile, policy: TrustPolicy | None
) -> dict[int, tuple[Any, bytes, bytes] | None]:
    """Steps 1 to 5 of the lines that a proof file carries.

    Returns:
        By index: decoded entry, entry bytes and signature, or None for a line that could not be read.
    """
    entries = {entry.index: _read(scan, name, entry.index, entry.line) for entry in proof.entries}
    _check_signatures(scan, name, entries)
    check_keys(scan, policy)
    _check_links(scan, name, entries)
    scan.tallies["keys"].detail = "later revocations, and thresholds that were left out, would not show in a proof file"
    return entries


def _read(scan: Scan, name: str, index: int, raw: bytes) -> tuple[Any, bytes, bytes] | None:
    """Steps 1 and 2 of one line: (decoded entry, entry bytes, signature), or None when it cannot be read."""
    place = Position(source=name, index=index, field="entries line")
    framing, schema = scan.tallies["framing"], scan.tallies["schema"]
    framing.checked += 1
    try:
        line = parse_line(raw, place)
    except LedgerError as error:
        framing.failed += 1
        _note_damage(scan, index)
        scan.findings.add(error.finding)
        return None
    schema.checked += 1
    try:
        entry = decode(line.entry, place)
    except LedgerError as error:
        schema.failed += 1
        _note_damage(scan, index)
        scan.findings.add(error.finding)
        return None
    if entry.index != index:
        schema.failed += 1
        scan.unsettle(-1)  # where it belongs cannot be told
        scan.findings.add(
            Finding(Code.CHAIN_INDEX, "the line is not the entry it is said to be", place, str(index), str(entry.index))
        )
        return None
    return entry, line.entry, line.sig


def _note_damage(scan: Scan, index: int) -> None:
    """A line that is wrong by itself; it may have been one that enrols a key."""
    scan.damaged.add(index)
    scan.unsettle(index)


def _check_signatures(scan: Scan, name: str, entries: dict[int, tuple[Any, bytes, bytes] | None]) -> None:
    """Step 4, and the keys it makes known: in log order, so that a key is known before what it signs."""
    tally = scan.tallies["signatures"]
    known: dict[str, bytes] = {}
    for index, read in entries.items():
        if read is None:
            tally.not_checked += 1
            continue
        entry, data, sig = read
        if index == 0 and entry.kind == "genesis":
            root = bytes.fromhex(entry.body.root_public_key)
            known[sha256(root).hexdigest()] = root
        public_key = known.get(entry.key)
        if public_key is None and scan.is_unsettled(index):
            tally.not_checked += 1  # what enrols the key is there, perhaps, and does not count, as was said
            continue
        if public_key is None:
            tally.failed += 1
            if entry.kind in ROOT_ACTIONS:
                scan.unsettle(index)
            scan.findings.add(
                Finding(
                    Code.PROOF_INCOMPLETE,
                    f"the proof does not carry the entry that enrols key {entry.key[:16]}…",
                    Position(source=name, index=index, field="key"),
                )
            )
            continue
        tally.checked += 1
        try:
            check_signature(public_key, signed_message(data), sig, position=Position(source=name, index=index))
        except LedgerError as error:
            tally.failed += 1
            scan.damaged.add(index)
            if entry.kind in _ENROLLING:
                scan.unsettle(index)
            scan.findings.add(error.finding)
            continue
        scan.keyring.used(entry.key, entry.kind, array("Q", [index]))
        whole = all(at in entries for at in range(index))
        for finding in _apply(scan, index, entry, sha256(data).hexdigest(), whole=whole):
            scan.tallies["keys"].failed += finding.severity is Severity.ERROR
            scan.findings.add(replace(finding, position=replace(finding.position, source=name)))
        # Kept even if it is taken back later: then its signatures still verify.
        if entry.kind == "key" and entry.body.key_id in scan.keyring.lives:
            known[entry.body.key_id] = scan.keyring.lives[entry.body.key_id].public_key


def _apply(scan: Scan, index: int, entry: Any, identity: str, *, whole: bool) -> list[Finding]:
    """Take an entry with a good signature into account, if it changes which keys count; what is wrong with it.

    Args:
        scan: what was found so far.
        index: where the entry stands.
        entry: the entry.
        identity: its identity.
        whole: whether every entry in front of it is in the file. Else whatever depends on those may be for want of one:
            it says nothing of who signed or endorsed the action, and something of the file.
    """
    if index == 0 and entry.kind == "genesis":
        scan.genesis = entry.body
        return [*check_genesis(entry), *scan.keyring.apply_genesis(index, identity, entry.body)]
    if entry.kind not in ROOT_ACTIONS:
        return []
    found = scan.keyring.apply_action(index, identity, entry.kind, entry.key, entry.body)
    said = scan.settled(found, index)
    if any(finding.severity is Severity.ERROR for finding in found):
        scan.unsettle(index)
    if whole:
        return said
    left_open = [finding for finding in said if finding.code in RESTS_ON_KEYS and finding.severity is Severity.ERROR]
    said = [finding for finding in said if finding not in left_open]
    if left_open:
        scan.tallies["keys"].not_checked += 1
        message = "the proof does not carry the root actions that would show that this one counts"
        hint = "make the proof again from the ledger; where it says the same, verify the ledger"
        said.append(Finding(Code.PROOF_INCOMPLETE, message, left_open[0].position, hint=hint))
    return said


def check_memory(
    scan: Scan, expected_heads: tuple[tuple[str, bytes], ...], heads: list[SignedHead], good: list[SignedHead]
) -> None:
    """Step 7, as far as the tree heads go that a proof file holds.

    One that the log did not sign contradicts nothing that it did, and was reported.
    """
    tally = scan.tallies["memory"]
    roots = {head.checkpoint.size: head.checkpoint.root for head in heads}
    for where, raw in expected_heads:
        try:
            held = signed_head(where, raw, step="memory")
            seen = held.checkpoint
        except LedgerError as error:
            tally.checked += 1
            tally.failed += 1
            scan.findings.add(memory_fault(where, raw, error.finding))
            continue
        root = roots.get(seen.size)
        if root is None:
            tally.not_checked += 1
            scan.findings.add(
                Finding(
                    Code.REQUIRED_NOT_CHECKED,
                    "a proof file cannot be compared with a remembered head of another size",
                    Position(source=where, line=2),
                    f"a head of {' or '.join(map(str, sorted(roots)))} entries" if roots else "no head of another size",
                    f"a head of {seen.size} entries",
                    hint="verify the ledger itself, or leave the remembered head out",
                )
            )
            continue
        if seen.root != root and not any(head.checkpoint.size == seen.size for head in good):
            tally.not_checked += 1
            continue
        tally.checked += 1
        if seen.root != root:
            tally.failed += 1
            scan.findings.add(
                foreign_head(scan, held)
                or Finding(
                    Code.FORK,
                    f"the first {seen.size} entries are not those that were seen before",
                    Position(source=where, line=3),
                    seen.root.hex(),
                    root.hex(),
                )
            )


def _check_links(scan: Scan, name: str, entries: dict[int, tuple[Any, bytes, bytes] | None]) -> None:
    """Step 3 between lines of the file that are neighbours in the ledger."""
    tally = scan.tallies["chain"]
    for index, read in entries.items():
        before = entries.get(index - 1)
        if index == 0:
            tally.checked += 1
        elif read is None or before is None or {index - 1, index} & scan.damaged:
            tally.not_checked += 1
        else:
            tally.checked += 1
            expected = sha256(before[1]).hexdigest()
            if read[0].prev != expected:
                tally.failed += 1
                place = Position(source=name, index=index)
                message = "the entry does not name the entry in front of it"
                scan.findings.add(Finding(Code.CHAIN_PREV, message, place, expected, read[0].prev))
    if tally.not_checked:
        tally.detail = "a proof file does not carry the entries in between"


def check_head(scan: Scan, name: str, proof: ProofFile) -> tuple[list[SignedHead], list[SignedHead]]:
    """Step 6: the checkpoint, and every line's place in the tree it commits to.

    Returns:
        The head, if it could be read and every line is in its tree; and again, if it is the log's.
    """
    tally = scan.tallies["checkpoint"]
    tally.checked += 1
    try:
        head = signed_head(f"{name} checkpoint", proof.checkpoint)
    except LedgerError as error:
        tally.failed += 1
        scan.findings.add(error.finding)
        return [], []
    outside = list(_outside(scan, name, proof, head))
    within = len(proof.entries) - len(scan.damaged) - len(outside)
    faults = settled_faults(scan, head)
    if within and any(finding.position.index == 0 for finding in outside):
        faults = []  # they are about the genesis entry of another log, which is what is wrong here
    if not outside:
        tally.checked += within
        scan.head = Head(head.checkpoint.size, head.checkpoint.root.hex(), None)
        tally.detail = f"signed head at {head.checkpoint.size}, {within} lines in its tree"
    tally.failed += bool(outside or faults)
    if any(fault.code is Code.CHECKPOINT_ORIGIN for fault in faults):
        tally.not_checked += len(outside)  # no line of this log is in another log's tree
    elif outside and not within:  # that is one fault, of the head or of the file, and not one of each line
        scan.findings.add_counted(outside[0], len(outside) - 1)
    for finding in [*(outside if within else ()), *faults]:
        scan.findings.add(finding)
    return [] if outside else [head], [] if outside or faults or scan.unsettled is not None else [head]


def _outside(scan: Scan, name: str, proof: ProofFile, head: SignedHead) -> Iterator[Finding]:
    """Lines that are not in the head's tree where their proof says; one that is damaged has been reported."""
    for entry in proof.entries:
        if entry.index in scan.damaged:
            continue
        try:
            check_inclusions(replace(proof, entries=(entry,)), head.checkpoint, position=Position(source=name))
        except LedgerError as error:
            yield error.finding


def _check_surplus(scan: Scan, name: str, subject: int, entries: dict[int, tuple[Any, bytes, bytes] | None]) -> None:
    """A proof file holds its subject and what that rests on: an entry that is neither shows that the subject is not
    the one that the file was made of.
    """
    for index, read in entries.items():
        if read is not None and index != subject and read[0].kind not in _ENROLLING:
            scan.tallies["framing"].failed += 1
            scan.findings.add(
                Finding(
                    Code.PROOF_FILE,
                    "the proof carries an entry that its subject does not rest on",
                    Position(source=name, index=index, field="subject"),
                    f"entry {subject}, the genesis entry and root actions alone",
                    f"an entry of kind {read[0].kind}",
                )
            )


def _check_subject(scan: Scan, name: str, index: int, read: tuple[Any, bytes, bytes] | None) -> None:
    """Step 10, as far as one receipt goes."""
    verified = any(index in positions for positions in scan.keyring.uses.values())
    if read is None or not verified:
        return
    entry, data, _ = read
    if index in scan.keyring.disowned():
        scan.tallies["keys"].failed += 1
        place = Position(source=name, index=index)
        scan.findings.add(Finding(Code.PROOF_DISOWNED, "a later revocation took this entry back", place))
    if entry.kind == "import" and entry.body.attestation != "none":
        scan.imported.append(index)
    if entry.kind == "run" and is_attested(entry.body):
        scan.attested.append(read_attested(index, data))
    if entry.kind not in RECEIPTS | {"import"}:
        return
    tally = scan.tallies["receipts"]
    tally.checked += 1
    faults = list(check_body(entry.kind, data, entry.body))
    tally.failed += bool(faults)
    for code, where, message, expected, found in faults:
        place = Position(source=name, index=index, field=where)
        scan.findings.add(Finding(code, message, place, expected, found))


def _check_artifacts(
    scan: Scan, proof: ProofFile, entries: dict[int, tuple[Any, bytes, bytes] | None], source: LogSource | None
) -> None:
    """Step 9, where somebody brought the artifacts along; and what no proof file can show."""
    subject = entries[proof.subject]
    artifacts = () if subject is None else getattr(subject[0].body, "artifacts", ())
    if source is not None:
        for artifact in artifacts:
            scan.named.note(artifact.sha256, Naming(proof.subject, artifact.name, artifact.size, ""))
        check_artifacts(scan, source)
        return
    scan.tallies["artifacts"].not_checked += len(artifacts)
    scan.tallies["artifacts"].detail = f"{len(artifacts)} artifacts, not carried by a proof file"


def _check_import(
    scan: Scan, name: str, index: int, read: tuple[Any, bytes, bytes] | None, source: LogSource | None
) -> None:
    """Step 10, where the subject is an import: held against its originals, if somebody brought them along."""
    verified = any(index in positions for positions in scan.keyring.uses.values())
    if read is None or not verified or read[0].kind != "import" or any(check_import(read[0].body)):
        return
    from k3_ledger.verify.polaris.originals import Originals, describe_open  # noqa: PLC0415 - few proofs are of one

    outcome, finding = (Outcome.NOT_CHECKED, None) if source is None else Originals(source).check(read[0].body)
    tally = scan.tallies["receipts"]
    tally.failed += outcome is Outcome.FAIL
    if finding is not None:
        scan.findings.add(replace(finding, position=Position(name, index=index, field=finding.position.field)))
    if outcome is Outcome.NOT_CHECKED:
        tally.checked -= 1
        tally.not_checked += 1
        tally.detail = f"{describe_open(1)}; {tally.detail}"
