"""``k3-ledger prove``: write a self-contained proof file; and what ``verify`` does with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.files import check_free, new_file
from k3_ledger.cli.options import ReplaceOption  # noqa: TC001 - read when the command is built
from k3_ledger.cli.told import done
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from k3_ledger.verify.log import Options
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report

HELP = """Write a proof file for one entry, or for two signed heads: verifiable with no ledger at hand.

For an entry the file carries the entry, the newest checkpoint, the entries that enrolled the keys involved, and an
inclusion proof for each. What says that the entry is superseded is named, and not in the file. From a mirror a few
tiles are read and not the log, and that is not looked at, as is said then. --head leads to an older
checkpoint: one that witnesses cosigned early says by when the entry existed. With --consistency the file carries two
checkpoints that the ledger keeps, the proof that the newer one extends the older, and the entries that enrolled their
keys.

It is verified before it is written. Check it with `k3-ledger verify FILE`. --tlog also writes the entry's inclusion
alone, as a C2SP tlog-proof for tools of others: it says nothing of who signed the entry, and `verify` does not take it.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("prove", help=HELP)(prove)


def prove(
    index: Annotated[
        int | None, typer.Argument(min=0, help="Index of the entry, counted from 0.", show_default=False)
    ] = None,
    consistency: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="OLD NEW", help="Sizes of two kept checkpoints, instead of an entry.", show_default=False),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            min=1, help="Size of a kept checkpoint to lead to; the newest one when omitted.", show_default=False
        ),
    ] = None,
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="Ledger directory, mirror, or tar of one, or its address.")
    ] = ".",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; entry-INDEX.proof or consistency-OLD-NEW.proof when omitted."),
    ] = None,
    tlog: Annotated[
        Path | None,
        typer.Option(help="File for the entry's inclusion as a C2SP tlog-proof, besides.", show_default=False),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Directory that keeps what was fetched from an address.", show_default=False)
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Make, verify and write one proof file."""
    if (index is None) == (consistency is None):
        raise typer.BadParameter("give the index of an entry, or --consistency OLD NEW", param_hint="INDEX")
    if consistency is not None and head is not None:
        raise typer.BadParameter("--consistency names its heads", param_hint="--head")
    if consistency is not None and tlog is not None:
        raise typer.BadParameter("a tlog-proof is of an entry", param_hint="--tlog")
    if consistency is not None:
        old, new = consistency
        if not 0 < old < new:
            raise typer.BadParameter("OLD is at least 1 and smaller than NEW", param_hint="--consistency")
        target, what = out or Path(f"consistency-{old}-{new}.proof"), f"heads of {old} and {new} entries"
        check_free(target, replace=replace, reads=(ledger,))
        data = _consistency(ledger, cache, old, new, target.name)
    else:
        assert index is not None, "one of the two is given"
        target, what = out or Path(f"entry-{index}.proof"), f"entry {index}"
        check_free(target, replace=replace, reads=(ledger,))
        if tlog is not None:
            check_free(tlog, replace=replace, reads=(ledger,), option="--tlog")
            if tlog.resolve() == target.resolve():
                raise typer.BadParameter(
                    f"{tlog} is where the proof file goes; choose another file", param_hint="--tlog"
                )
        data = _inclusion(ledger, cache, index, head, target.name)
    alone = None if tlog is None else _as_tlog_proof(data)
    _write(target, data, replace=replace)
    if tlog is not None and alone is not None:
        _write(tlog, alone, replace=replace, option="--tlog")
    with done(f"the proof stands: {target}"):
        typer.echo(printable(f"{target}: {what}, {len(data)} bytes"))
        if tlog is not None and alone is not None:
            typer.echo(printable(f"{tlog}: inclusion of {what} as a C2SP tlog-proof, {len(alone)} bytes"))


def write_proof(ledger: Path, index: int, target: Path, *, replace: bool, option: str) -> None:
    """Make the proof file of one entry, verify it, and write it in one step.

    Raises:
        BadParameter: something stands there, and is not to be replaced.
        LedgerError: there is no such entry, no checkpoint commits to it, or the file cannot be written.
    """
    _write(target, _inclusion(str(ledger), None, index, None, target.name), replace=replace, option=option)


def _as_tlog_proof(data: bytes) -> bytes:
    """The inclusion of a proof file's subject, for tools of others.

    Raises:
        MalformedError: with ``TLOG_PROOF``: it would be longer than such a proof may be.
    """
    from k3_ledger.ledger.core.proof import parse_proof
    from k3_ledger.ledger.core.tlog_proof import MAX_BYTES, format_tlog_proof, to_tlog_proof
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.schemas.findings import Code

    try:
        return format_tlog_proof(to_tlog_proof(parse_proof(data)))
    except ValueError:
        raise MalformedError(
            Code.TLOG_PROOF,
            "the entry and its checkpoint are too long for a tlog-proof",
            expected=f"at most {MAX_BYTES:,} bytes, the entry in base64",
            hint="leave --tlog out",
        ) from None


def _inclusion(ledger: str, cache: Path | None, index: int, head: int | None, name: str) -> bytes:
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.ledger.core.proof import format_proof
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.proof import verify_proof
    from k3_ledger.verify.prove import prove_entry, superseding

    with opened_ledger(ledger, cache, tiles=head is None) as source:
        if head is None and isinstance(source, TileSource):
            data = _from_tiles(source, index, name)
            said = (
                f"whether a later entry says that entry {index} is superseded was not looked at: of a mirror only the"
            )
            typer.echo(f"note: {said} tiles of the proof are read; prove it from the ledger to be told", err=True)
            return data
        proof = prove_entry(source, index, head_size=head)
        by = superseding(source, proof.subject_entry.line)
    data = format_proof(proof)
    verify_proof(data, name)
    for later in by:
        typer.echo(
            f"note: entry {later} says that entry {index} is superseded, and the proof does not show it", err=True
        )
    return data


def _from_tiles(source: TileSource, index: int, name: str) -> bytes:
    """A proof by the mirror's list of key entries, which nobody signed: where it fails, all entries are asked.

    Raises:
        StoreError: the list is wrong and the log is not (``KEY_ENTRIES_WRONG``).
        VerificationError: what is wrong with the log, whatever the list says.
    """
    from k3_ledger.ledger.core.proof import format_proof
    from k3_ledger.schemas.errors import StoreError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.proof import verify_proof
    from k3_ledger.verify.prove import prove_from_tiles
    from k3_ledger.verify.report import VerificationError

    data = format_proof(prove_from_tiles(source, index))
    try:
        verify_proof(data, name)
    except VerificationError:
        verify_proof(format_proof(prove_from_tiles(source, index, listed=False)), name)
        raise StoreError(
            Code.KEY_ENTRIES_WRONG,
            "key-entries is incomplete or wrong; rebuild it with `k3-ledger tiles`",
            position=Position(source="key-entries"),
        ) from None
    return data


def _consistency(ledger: str, cache: Path | None, old: int, new: int, name: str) -> bytes:
    from k3_ledger.cli.opening import opened_ledger
    from k3_ledger.ledger.core.consistency import format_consistency
    from k3_ledger.verify.consistency import verify_consistency_file
    from k3_ledger.verify.prove import prove_heads

    with opened_ledger(ledger, cache) as source:
        data = format_consistency(prove_heads(source, old, new))
    verify_consistency_file(data, name)
    return data


def _write(target: Path, data: bytes, *, replace: bool, option: str = "--out") -> None:
    with new_file(target, replace=replace, option=option) as file:
        file.write(data)


def check_proof_file(data: bytes, name: str, policy: TrustPolicy | None, options: Options) -> Report:
    """Verify a proof file of either kind."""
    from k3_ledger.cli.opening import CONSISTENCY_START

    if data.startswith(CONSISTENCY_START):
        from k3_ledger.verify.consistency import check_consistency_file

        return check_consistency_file(
            data, name, policy, options.expected_heads, clock=options.clock, enrolments=options.enrolments
        )
    from k3_ledger.verify.proof import check_proof

    return check_proof(data, name, policy, options.expected_heads, clock=options.clock, enrolments=options.enrolments)
