"""What ``verify`` does with an offline bundle: first that it is whole, then what it holds."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.cli.pack import size_of, size_said
from k3_ledger.cli.sources import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.cli.stores import TarStore
    from k3_ledger.ledger.core.pack import PackList
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource


def check_pack(
    store: TarStore,
    policy: TrustPolicy | None,
    options: Options,
    check_ledger: Callable[[LogSource, TrustPolicy | None, Options], Report],
) -> Report:
    """Verify an offline bundle: first that it is whole, then what it holds.

    Args:
        store: the archive.
        policy: whom to trust; its digest is compared with the one that the bundle notes.
        options: as for a ledger.
        check_ledger: verifies a whole record.

    Raises:
        MalformedError: the archive holds something else than its list says.
    """
    from k3_ledger.cli.stores import StoreLog
    from k3_ledger.ledger.core.pack import LIST_NAME
    from k3_ledger.schemas.findings import Code, Finding
    from k3_ledger.schemas.outcomes import Position

    listed = read_list(store)
    _check_files(store, listed)
    _check_head(store, listed)
    source = StoreLog(store)
    if listed.entries is None:
        report = check_ledger(source, policy, options)
    else:
        report = _check_proofs(store, listed, policy, options, source)
    report = replace(report, subject=f"{store.name}: {report.subject}")
    yours = None if policy is None else policy.digest
    if listed.policy_sha256 is None or yours in (None, listed.policy_sha256):
        return report
    other = Finding(
        Code.ARCHIVE_POLICY,
        "the maker verified it under another trust policy",
        Position(source=LIST_NAME),
        yours,
        listed.policy_sha256,
    )
    return replace(report, findings=(*report.findings, other), counts=report.counts | {other.code: 1})


def read_list(store: TarStore) -> PackList:
    """The list at the front of an offline bundle.

    Raises:
        MalformedError: it is none.
    """
    from k3_ledger.cli.stores import read_file
    from k3_ledger.ledger.core.pack import LIMITS, LIST_NAME, parse_pack
    from k3_ledger.schemas.outcomes import Position

    data = read_file(store, LIST_NAME, LIMITS.max_bytes)
    assert data is not None, "the list is what makes it an offline bundle"
    return parse_pack(data, position=Position(source=f"{store.name}: {LIST_NAME}"))


def _check_files(store: TarStore, listed: PackList) -> None:
    from k3_ledger.ledger.core.pack import LIST_NAME
    from k3_ledger.schemas.findings import Code

    names, wanted = list(store.members), [LIST_NAME, *(file.name for file in listed.files)]
    if names != wanted:
        at = next(
            (i for i, (a, b) in enumerate(zip(names, wanted, strict=False)) if a != b), min(map(len, (names, wanted)))
        )
        raise _refuse(
            store,
            Code.ARCHIVE_REFUSED,
            "the archive does not hold just what its list names, in its order",
            wanted[at] if at < len(wanted) else "nothing more",
            names[at] if at < len(names) else "nothing more",
        )
    for file in listed.files:
        state = hashlib.sha256()
        stream = store.open(file.name)
        assert stream is not None, "its name was compared"
        with stream:
            while block := stream.read(BLOCK):
                state.update(block)
        if (state.hexdigest(), store.members[file.name].size) != (file.sha256, file.size):
            raise _refuse(
                store,
                Code.ARCHIVE_MISMATCH,
                f"{file.name} is not the file that was packed",
                file.sha256,
                state.hexdigest(),
            )


def _check_head(store: TarStore, listed: PackList) -> None:
    """The list and the checkpoint say the same; whether a checkpoint that cannot be read is one, others say."""
    from k3_ledger.cli.stores import read_file
    from k3_ledger.ledger.core.checkpoint import parse_checkpoint
    from k3_ledger.ledger.core.note import MAX_NOTE, parse_note
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code

    try:
        head = parse_checkpoint(parse_note(read_file(store, "checkpoint", MAX_NOTE) or b"").text)
    except LedgerError:
        return
    for what, expected, found in (
        ("origin", head.origin, listed.origin),
        ("size", str(head.size), str(listed.size)),
        ("root", head.root.hex(), listed.root),
    ):
        if expected != found:
            message = f"the list in the archive names another {what} than the checkpoint beside it"
            raise _refuse(store, Code.ARCHIVE_CONTRADICTION, message, expected, found)


def _refuse(store: TarStore, code: Code, message: str, expected: str, found: str) -> MalformedError:
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.schemas.outcomes import Position

    return MalformedError(code, message, position=Position(source=store.name), expected=expected, found=found)


def _check_proofs(
    store: TarStore, listed: PackList, policy: TrustPolicy | None, options: Options, source: LogSource
) -> Report:
    from k3_ledger.cli.opening import MAX_PROOF
    from k3_ledger.cli.stores import read_file
    from k3_ledger.ledger.core.consistency import parse_consistency
    from k3_ledger.ledger.core.pack import consistency_name, proof_name
    from k3_ledger.ledger.core.proof import parse_proof
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.extract import check_extract

    proofs, older = [], []
    for index in listed.entries or ():
        name = proof_name(index)
        data = read_file(store, name, MAX_PROOF) or b""
        proof = parse_proof(data, position=Position(source=name))
        if (proof.subject, proof.checkpoint) != (index, source.checkpoint()):
            raise _refuse(
                store,
                Code.ARCHIVE_MISMATCH,
                f"{name} is a proof of something else",
                f"entry {index}",
                f"entry {proof.subject}",
            )
        proofs.append((name, data))
    for name in (file.name for file in listed.files if file.name.startswith("consistency/")):
        data = read_file(store, name, MAX_PROOF) or b""
        file = parse_consistency(data, position=Position(source=name))
        found = size_said(file.old)
        if file.proof.checkpoint != source.checkpoint() or (found is not None and consistency_name(found) != name):
            raise _refuse(
                store,
                Code.ARCHIVE_MISMATCH,
                f"{name} leads from or to another head than its name and the checkpoint in the bundle say",
                f"the head of {size_of(name)} entries, and that of {listed.size}",
                f"a head of {found} entries",
            )
        older.append((name, data))
    return check_extract(proofs, older, source, policy, options)
