"""What is settled when the bytes have been read: keys, policy, what nobody checked, and the report.

Whole logs (:mod:`k3_ledger.verify.log`) and proof files (:mod:`k3_ledger.verify.proof`) end alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.schemas.envelope import JUDGED_KINDS
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.policy import NO_POLICY_SENTENCE
from k3_ledger.verify.report import Report
from k3_ledger.verify.source import MemorySource

if TYPE_CHECKING:
    from k3_ledger.verify.attested import Attested
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import StepResult, Tally
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

_OWNERS = {"verdicts": "re-derived by the rescore command", "pins": "traced by the reconcile command"}
"""Who carries out the steps of :data:`JUDGED_KINDS`."""


def check_keys(scan: Scan, policy: TrustPolicy | None) -> None:
    """Step 5. Every use of a key lies within its life and role; genesis is opened by the key the auditor trusts."""
    tally = scan.tallies["keys"]
    tally.checked += sum(len(positions) for positions in scan.keyring.uses.values())
    open_genesis = scan.genesis is None and scan.tallies["framing"].checked > 0 and not scan.missing
    if open_genesis:
        _set_aside(scan)
    settled = FOREVER if scan.unsettled is None else scan.unsettled
    for finding, more in scan.keyring.check_use(
        only_genesis=open_genesis, settled=settled, apart=scan.findings.vouched, open_below=scan.open_below
    ):
        if finding is None:
            tally.checked -= more
            tally.not_checked += more
            continue
        tally.failed += (more + 1) if finding.code.info.exit else 0
        place = scan.place(finding.position.index or 0, finding.position.field)
        scan.findings.add_counted(replace(finding, position=place), more)
    tally.disowned = len(scan.keyring.disowned())
    tally.checked += scan.keyring.endorsements - tally.disowned
    notes = []
    if scan.keyring.endorsements:
        notes.append(f"{scan.keyring.endorsements} endorsements")
    if scan.keyring.threshold > 1:
        roots = scan.keyring.roots_after(scan.lines)
        notes.append(f"root actions need {scan.keyring.threshold} of {roots} root keys")
    tally.detail = "; ".join([*notes, tally.detail] if tally.detail else notes)
    if policy is None or not scan.tallies["framing"].checked:
        return
    _check_opened_by(scan, policy)
    _check_origin(scan, policy)


def _set_aside(scan: Scan) -> None:
    """Without a genesis entry no key is enrolled. That is one fault, of line 1, and not one of each key.

    Where the genesis entry's own key is unknown, that is the fault, so it stays.
    """
    unknown = sum(len(positions) for (_, kind), positions in scan.keyring.uses.items() if kind != "genesis")
    scan.tallies["keys"].checked -= unknown
    scan.tallies["keys"].not_checked += unknown
    scan.findings.add(
        Finding(
            Code.ROOT_NOT_CHECKED,
            "whose log this is cannot be told: there is no genesis entry that can be read and has a good signature",
            Position(scan.source),
            found=f"{unknown} entries by keys whose enrolment cannot be known",
        )
    )


def _genesis(scan: Scan) -> Position:
    place = scan.place(0)
    return place if place.line is None else replace(place, byte_offset=0)


def _check_opened_by(scan: Scan, policy: TrustPolicy) -> None:
    """The genesis entry is signed by the root key that the policy names."""
    if policy.root_public_key is None:
        return
    tally = scan.tallies["keys"]
    if scan.genesis is None:  # says nothing about who opened the log
        tally.not_checked += 1
        return
    tally.checked += 1
    found = scan.genesis.root_public_key
    if found == policy.root_public_key.hex():
        return
    tally.failed += 1
    scan.findings.add(
        Finding(
            Code.ROOT_NOT_TRUSTED,
            "the log was not opened by the root key that the trust policy names",
            _genesis(scan),
            policy.root_public_key.hex(),
            found,
        )
    )


def _check_origin(scan: Scan, policy: TrustPolicy) -> None:
    """The log is the one that the policy names, and no other one by the same root."""
    if policy.origin is None or scan.genesis is None or scan.genesis.origin == policy.origin:
        return
    scan.tallies["keys"].failed += 1
    scan.findings.add(
        Finding(
            Code.ORIGIN_NOT_TRUSTED,
            "the log gives itself another origin than the trust policy names",
            _genesis(scan),
            policy.origin,
            scan.genesis.origin,
        )
    )


def count_unchecked(scan: Scan, *, whole: bool = True) -> None:
    """Steps 11 and 12 as far as this room goes: how many items that count wait for another room.

    Args:
        scan: what was found.
        whole: False for a proof file: that it holds none of them says nothing of the log.
    """
    judged = {kind for kinds in JUDGED_KINDS.values() for kind in kinds}
    by_kind: dict[str, list[int]] = {}
    for (_, kind), positions in scan.keyring.uses.items():
        if kind in judged:
            by_kind.setdefault(kind, []).extend(positions)
    for step, kinds in JUDGED_KINDS.items():
        standing = {kind: len(scan.standing(step, by_kind[kind])) for kind in kinds if kind in by_kind}
        counts = {kind: count for kind, count in standing.items() if count}
        tally = scan.tallies[step]
        tally.not_checked += sum(counts.values())
        said = " and ".join(f"{count} {kind} entries" for kind, count in counts.items())
        none = f"no {kinds[0]} entries{tally.that_count}" if whole else ""
        tally.detail = f"{said}, {_OWNERS[step]}" if said else none


def check_imports(scan: Scan, source: LogSource | None) -> None:
    """Step 10: what imports copied out of their originals. Where these or the log are not at hand, it is not checked.

    Args:
        scan: what was found.
        source: where log and artifacts come from; None where these are not to be read.
    """
    settled = scan.keyring.disowned() | scan.bodies.entries()  # what is wrong by itself was counted as that
    count = sum(position not in settled for position in scan.imports)
    if not count:
        return
    from k3_ledger.verify.polaris.originals import check_originals, describe_open  # noqa: PLC0415 - few logs have any

    if source is not None and _at_hand(scan):
        check_originals(scan, source)
        return
    tally = scan.tallies["receipts"]
    tally.checked -= count
    tally.not_checked += count
    tally.detail = "; ".join(filter(None, (tally.detail, describe_open(count))))


def _at_hand(scan: Scan) -> bool:
    """Whether the entries can be read again, each of them."""
    return bool(scan.marks) and not scan.missing and Code.LINE_TOO_LONG not in scan.findings.counts


def check_attested(scan: Scan, source: LogSource, policy: TrustPolicy | None, *, artifacts: bool = True) -> None:
    """Step 13. Evidence of attested receipts. Where the policy does not say whose certificates count none passes, and
    one that nobody's could let pass fails.

    Args:
        scan: what was found.
        source: has the evidence.
        policy: whom to trust and what to demand.
        artifacts: whether evidence is read that no certificates of the policy's could let pass.
    """
    tally = scan.tallies["attestations"]
    standing = set(scan.standing("attestations", [receipt.position for receipt in scan.attested]))
    attested = [receipt for receipt in scan.attested if receipt.position in standing]
    imported = len(scan.standing("attestations", scan.imported))
    demands = None if policy is None else policy.attestation
    notes = []
    if demands is not None and demands.kinds is not None:
        _check_kinds(scan, attested, demands.kinds)
    if attested:
        from k3_ledger.verify.tee.receipts import check_attestations  # noqa: PLC0415 - X.509, where a quote is

        counting = demands if demands is not None and demands.anchors else None
        unread = counting is None and not artifacts
        said = check_attestations(scan, attested, MemorySource(b"") if unread else source, counting)
        said += ", and none was read, on request" if unread else ""
        notes.append(f"{len(attested)} receipts say that they are attested; {said}")
    imports = any(kind == "import" for _, kind in scan.keyring.uses)
    if imports and _at_hand(scan) and demands is not None and demands.anchors:
        from k3_ledger.verify.polaris.quotes import check_imported  # noqa: PLC0415 - X.509, where a quote is

        found = check_imported(scan, source, demands)
        notes += [found] if found is not None else []
    elif imported:
        tally.not_checked += imported
        why = "no trust directory says whose certificates count" if _at_hand(scan) else "the log is not here in full"
        notes.append(
            f"{imported} imported receipts with foreign attestations: {why}; `k3-ledger audit polaris` checks the "
            "log that they come from"
        )
    tally.detail = "; ".join(notes) or f"no enclave quotes{tally.that_count}"


def _check_kinds(scan: Scan, attested: list[Attested], kinds: frozenset[str]) -> None:
    """Every run receipt is attested in a way that the policy accepts."""
    tally = scan.tallies["attestations"]
    by_position = {receipt.position: receipt.kinds for receipt in attested}
    runs = {at for (_, kind), positions in scan.keyring.uses.items() if kind == "run" for at in positions}
    none = frozenset({"none"})
    unlike = sorted(at for at in runs - scan.keyring.disowned() if not (by_position.get(at) or none) & kinds)
    wrong = [at for at in unlike if at >= scan.open_below]
    tally.not_checked += len(unlike) - len(wrong)
    for at in wrong:
        found = ", ".join(sorted(by_position.get(at) or none))
        place = scan.place(at, "body.tee")
        expected = ", ".join(sorted(kinds))
        message = "the receipt is not attested in a way that the trust policy accepts"
        scan.findings.add(Finding(Code.ATTESTATION_KIND, message, place, expected, found))
    unattested = [at for at in wrong if at not in by_position]
    tally.checked += len(unattested)
    tally.failed += len(wrong)


def check_demands(scan: Scan, policy: TrustPolicy | None, *, whole: bool = True) -> None:
    """What the policy requires must have been checked; exit code 4 says that it was not.

    Args:
        scan: what was found.
        policy: what is required.
        whole: False for a proof file, which shows some steps in part or not at all: the cure is then another file.
    """
    if policy is None:
        return
    for name in policy.require:
        tally = scan.tallies[name]
        if not tally.passed and not tally.failed:  # a failure was reported, and weighs more
            scan.findings.add(required(name, tally, whole=whole))


def required(name: str, step: Tally | StepResult, *, whole: bool = True) -> Finding:
    """The policy requires a step that was not fully checked."""
    why = "was not fully checked" if whole else "this proof file cannot show in full"
    cure = f"verify the ledger, a mirror or a bundle of it, or take {name!r} out of what the policy requires of a proof"
    return Finding(
        Code.REQUIRED_NOT_CHECKED,
        f"the trust policy requires the step {name!r}, which {why}",
        expected="every item checked",
        found=f"{step.checked} checked, {step.not_checked} not checked"
        + (f", {step.disowned} disowned" if step.disowned else ""),
        hint=None if whole else cure,
    )


def make_report(subject: str, policy: TrustPolicy | None, scan: Scan) -> Report:
    """Freeze everything that was found."""
    return Report(
        subject=subject,
        policy=NO_POLICY_SENTENCE if policy is None else policy.sentence,
        policy_digest=None if policy is None else policy.digest,
        authenticated=(
            policy is not None
            and policy.root_public_key is not None
            and scan.genesis is not None
            and scan.genesis.root_public_key == policy.root_public_key.hex()
        ),
        origin=None if scan.genesis is None else scan.genesis.origin,
        head=scan.head,
        steps=tuple(tally.result(name) for name, tally in scan.tallies.items()),
        findings=scan.findings.kept(),
        counts=dict(scan.findings.counts),
        covered=dict(scan.findings.covered),
        bounds=scan.bounds,
        stamps=scan.stamps,
        artifact_stamps=scan.artifact_stamps,
        disowned=scan.keyring.disowned_ranges(),
    )
