"""Evidence against a log that a reader keeps: signed heads that it showed, those that he remembered, and the report.

What is kept is what was shown, whatever showed it: a ledger or a mirror, a bundle, a proof file, a consistency file.
"""

from __future__ import annotations

import contextlib
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import typer

from k3_ledger.cli.files import create_file, unwritable
from k3_ledger.ledger.core.checkpoint import kept_path
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.cli.memory import Memory
    from k3_ledger.cli.opening import Named
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource

EVIDENCE_OF: Final = frozenset(
    {
        Code.ROLLBACK,
        Code.FORK,
        Code.CHECKPOINT_BEHIND,
        Code.HEAD_FROZEN,
        Code.CHECKPOINT_AHEAD,
        Code.CHECKPOINT_ROOT,
    }
)
"""Findings for which the notes are kept: those that one of them proves together with the other, or with the log."""


def evidence_beside(memory: Path | None, heads: list[Path]) -> Path | None:
    """Where evidence is kept unless a place was named: beside what the reader brought, if he brought anything."""
    brought = [*([] if memory is None else [memory]), *heads]
    return brought[0].parent / f"{brought[0].name}.evidence" if brought else None


def keep_evidence(folder: Path, remembered: list[tuple[str, Memory]], named: Named, report: Report) -> None:
    """Keep the notes and the report, where the report accuses the log of something that they are evidence of.

    The entries that enrol the signer of a remembered note are kept with it, as ``remembered.jsonl``.
    They stand in a folder of their own below ``folder``, named by a digest of the notes, of what was verified, of its
    head and of what was found: evidence is never overwritten, the same evidence is kept once, and no other for it.

    Raises:
        StoreError: it cannot be written.
    """
    if not EVIDENCE_OF & set(report.counts):
        return
    brought = [held for _, held in remembered]
    files = list(_numbered("shown", _shown(named, brought, report)))
    for (name, note), held in zip(_numbered("remembered", [one.note for one in brought]), brought, strict=True):
        files.append((name, note))
        if held.enrolments:
            files.append((name.replace(".note", ".jsonl"), b"".join(line + b"\n" for line in held.enrolments)))
    root = None if report.head is None else report.head.root
    notes, found = [sha256(data).hexdigest() for _, data in files], sorted(code.id for code in report.counts)
    about = json.dumps([notes, report.subject, root, found]).encode()
    files.append(("report.json", json.dumps(report.as_dict(), indent=2).encode() + b"\n"))
    place = folder / sha256(about).hexdigest()[:16]
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(place, error) from None
    written = [create_file(place / name, data) for name, data in files]
    how = "is kept" if any(written) else "of this was kept before"
    typer.echo(f"note: evidence {how} in {place}: {', '.join(name for name, _ in files)}", err=True)


def _numbered(name: str, notes: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """File names for notes of one sort."""
    for number, note in enumerate(notes, start=1):
        yield f"{name}{f'-{number}' if number > 1 else ''}.note", note


def newest_head(source: LogSource | None) -> bytes | None:
    """The newest head that a log shows, if one is shown; one that cannot be read was reported, and is no evidence."""
    try:
        return None if source is None else source.checkpoint()
    except LedgerError:
        return None


def _shown(named: Named, remembered: list[Memory], report: Report) -> list[bytes]:
    """The heads that the reader was shown, each once, the newest first: what cannot be read was reported."""
    from k3_ledger.cli.opening import PackNamed, ProofNamed
    from k3_ledger.cli.stores import StoreLog

    found: list[bytes] = []
    with contextlib.suppress(LedgerError):
        if isinstance(named, ProofNamed):
            found += _in_proof(named.data)
        else:
            source = StoreLog(named.store) if isinstance(named, PackNamed) else named
            found += [note for note in (newest_head(source),) if note is not None]
            found += _concerned(source, remembered, report)
    return list(dict.fromkeys(found))


def _in_proof(data: bytes) -> list[bytes]:
    """The heads that a proof file or a consistency file leads to and from, the newer first."""
    from k3_ledger.cli.opening import CONSISTENCY_START
    from k3_ledger.ledger.core.consistency import parse_consistency
    from k3_ledger.ledger.core.proof import parse_proof

    if data.startswith(CONSISTENCY_START):
        file = parse_consistency(data)
        return [file.proof.checkpoint, file.old]
    return [parse_proof(data).checkpoint]


def _concerned(source: LogSource, remembered: list[Memory], report: Report) -> Iterator[bytes]:
    """Kept heads that are at fault themselves, or are of the size of a remembered one: two of one size prove a fork."""
    from k3_ledger.cli.pack import size_said

    wanted = {found.position.source for found in report.findings if found.code in EVIDENCE_OF}
    wanted |= {kept_path(size) for held in remembered if (size := size_said(held.note)) is not None}
    for name, note in source.kept_checkpoints():
        if name in wanted:
            yield note
