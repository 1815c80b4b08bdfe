"""What an entry is held to before it is appended: whatever verify would refuse it for, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.writer.batch import EntryCheck
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedEntry


def faults(entry: Any) -> Iterator[Finding]:
    """What verify would report about an entry by itself."""
    from msgspec.json import encode

    from k3_ledger.schemas.findings import Finding
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.receipts import check_artifact_names, check_bundle, check_run

    if entry.kind == "witness":
        yield from _cosignature_faults(entry)
    if entry.kind not in ("run", "failed"):
        return
    found = [*check_bundle(encode(entry), entry.kind, entry.body.bundle), *check_artifact_names(entry.body)]
    found += check_run(entry.body) if entry.kind == "run" else ()
    for fault in found:
        place = Position(index=entry.index, field=fault.field)
        yield Finding(fault.code, fault.message, place, fault.expected, fault.found)


def _cosignature_faults(entry: Any) -> Iterator[Finding]:
    """What is wrong with a kept cosignature whatever the checkpoint is."""
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code, Finding
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.witness_entries import read_line

    try:
        read_line(entry.body)
    except LedgerError as error:
        place = Position(index=entry.index, field="body.cosignature")
        yield Finding(Code.WITNESS_ENTRY_FALSE, error.finding.message, place)


def admission(ledger: Ledger) -> EntryCheck:
    """What verify would report about an entry that is to stand next in a ledger, judgements included.

    Only bytes that the writer is about to continue are read, under its lock. A verdict costs a verification.
    """
    from k3_ledger.schemas.envelope import SELF_CONTAINED

    seen: set[tuple[int, bytes]] = set()

    def check(entry: Any) -> Iterator[Finding]:
        from msgspec.json import encode

        yield from faults(entry)
        if entry.kind in SELF_CONTAINED:
            return
        asked = (entry.index, encode(entry.body))
        if asked in seen:  # rehearsed a moment ago
            return
        from k3_ledger.rescore.admission import admit, admit_verdict

        if entry.kind == "verdict":
            from k3_ledger.cli.material import open_verified

            yield from admit_verdict(entry, open_verified(ledger.log_path.parent, judged=False))
        else:
            yield from admit(entry, _before(ledger, entry))
        seen.add(asked)

    return check


def _before(ledger: Ledger, entry: Any) -> Iterator[VerifiedEntry]:
    """The entries of a log that a pin, a rule, a merge or a supersession rests on."""
    from dataclasses import replace
    from hashlib import sha256

    from k3_ledger.ledger.core.framing import parse_line
    from k3_ledger.ledger.writer.roster import read_state
    from k3_ledger.verify.log import read_entry

    named = {"pin": "source", "merge": "run"}.get(entry.kind)
    wanted = None if named is None else getattr(entry.body, named)
    kinds = {"rule": ("rule", "supersede"), "pin": ("pin", "supersede"), "supersede": ("supersede",)}.get(
        entry.kind, ()
    )
    keyring = None
    marks = [f'"kind":"{kind}"'.encode() for kind in kinds]
    with ledger.log_path.open("rb") as lines:
        for index, line in enumerate(lines):
            if index == entry.index:
                return
            marked = any(mark in line for mark in marks)
            if marked or wanted is not None:
                data = parse_line(line.removesuffix(b"\n")).entry
                if marked or sha256(data).hexdigest() == wanted:
                    keyring = keyring or read_state(ledger).keyring
                    item = read_entry(index, data)
                    yield replace(item, disowned=keyring.disowned_by(item.entry.key, index) is not None)
