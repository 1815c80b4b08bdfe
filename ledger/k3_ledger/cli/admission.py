"""What an entry is held to before it is appended: whatever verify would refuse it for, for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from k3_ledger.ledger.writer.batch import EntryCheck
    from k3_ledger.ledger.writer.seal import Bundle, BundleFiles
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.log import VerifiedEntry

_CORRECT: Final = "correct the body; nothing was appended"
_UNMADE: Final = (
    "no certificate makes this receipt hold; nothing was appended: have the bundle attested again where it was "
    "measured, or measure again"
)
_ONE_IS_WRONG: Final = (
    "one of the two is wrong, and nothing was appended: correct the size; or, if the bytes have this one, revoke the "
    "key of entry {index} from there on, which takes its word back, and try again"
)


def faults(entry: Any) -> Iterator[Finding]:
    """What verify would report about an entry by itself."""
    from msgspec.json import encode

    from k3_ledger.schemas.findings import Finding
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.receipts import check_body

    if entry.kind == "witness":
        yield from _cosignature_faults(entry)
    for fault in check_body(entry.kind, encode(entry), entry.body):
        place = Position(index=entry.index, field=fault.field)
        yield Finding(fault.code, fault.message, place, fault.expected, fault.found)


def evidence_faults(
    body: Mapping[str, Any], name: str, open_file: Callable[[str], BinaryIO | None]
) -> Iterator[Finding]:
    """What is wrong with the attestation of a run receipt, whoever's certificates will count.

    Args:
        body: its body, as plain values.
        name: what to call where it comes from.
        open_file: the artifact with a digest, opened for reading; None where it is not at hand.
    """
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.attested import attested_of

    receipt = attested_of(0, body)
    if not receipt.is_any:
        return
    from k3_ledger.verify.tee.receipts import faults_within

    for finding in faults_within(receipt, _Files(name, open_file)):
        yield replace(finding, position=Position(name, field=finding.position.field), hint=_UNMADE)


def bundle_faults(bundle: Bundle, files: BundleFiles) -> Iterator[Finding]:
    """The same of a bundle that is about to be sealed."""
    from io import BytesIO

    from k3_ledger.ledger.writer.seal import BLOBS_PREFIX, BUNDLE_NAME
    from k3_ledger.verify.attested import MAX_EVIDENCE

    def open_file(digest: str) -> BinaryIO:
        with files.open(BLOBS_PREFIX + digest) as file:
            return BytesIO(file.read(MAX_EVIDENCE + 1))

    if bundle.kind == "run":
        yield from evidence_faults(bundle.body, f"{files.source}/{BUNDLE_NAME}", open_file)


def check_evidence(ledger: Ledger, body: Mapping[str, Any], files: Mapping[str, Path], name: str) -> None:
    """Refuse a receipt whose attestation holds under no certificate: no later entry could mend that.

    Args:
        ledger: has the artifacts that stand already.
        body: the receipt's body, as plain values.
        files: those that are about to be stored, by their digests.
        name: what to call where the body comes from.

    Raises:
        LedgerError: the position names what is wrong.
    """
    from k3_ledger.ledger.writer.batch import refusal

    for finding in evidence_faults(body, name, _opener(ledger, files)):
        raise refusal(finding)


def check_copied(ledger: Ledger, body: Mapping[str, Any], files: Mapping[str, Path], name: str) -> None:
    """Refuse an import whose originals are here and say something else: as :func:`check_evidence`."""
    import json

    from k3_ledger.ledger.writer.batch import refusal
    from k3_ledger.schemas.bodies import ImportBody
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.polaris.originals import Originals
    from k3_ledger.verify.receipts import check_import

    copied = ImportBody.model_validate_json(json.dumps(body))
    _, finding = Originals(_Files(name, _opener(ledger, files))).check(copied)
    if finding is not None and not any(check_import(copied)):
        raise refusal(replace(finding, position=Position(name, field=finding.position.field), hint=_CORRECT))


def _opener(ledger: Ledger, files: Mapping[str, Path]) -> Callable[[str], BinaryIO | None]:
    """Opens an artifact that is about to be stored, or stands already; None where neither is so."""
    from k3_ledger.ledger.writer.blobs import blob_path

    def open_file(digest: str) -> BinaryIO | None:
        path = files.get(digest, blob_path(ledger, digest))
        return path.open("rb") if path.is_file() else None

    return open_file


@dataclass(frozen=True, slots=True)
class _Files:
    name: str
    open_artifact: Callable[[str], BinaryIO | None]


def size_faults(ledger: Ledger, named: Iterable[tuple[Position, str, int]]) -> Iterator[Finding]:
    """Where artifacts that are to be named have another size than entries give them that count, or one another.

    Args:
        ledger: the ledger, whose log its writer is about to continue, under its lock.
        named: place, digest and size in bytes of each.
    """
    from k3_ledger.ledger.writer.sizes import other_sizes
    from k3_ledger.schemas.findings import Code, Finding

    first: dict[str, tuple[Position, int]] = {}
    for place, digest, size in named:
        known = first.setdefault(digest, (place, size))[1]
        if known != size:
            yield Finding(Code.ARTIFACT_SIZE, "one digest is given two sizes", place, str(known), str(size), _CORRECT)
    for other in other_sizes(ledger, {digest: size for digest, (_, size) in first.items()}):
        place, size = first[other.sha256]
        said = f"entry {other.position} gives this digest another size"
        hint = _ONE_IS_WRONG.format(index=other.position)
        yield Finding(Code.ARTIFACT_SIZE, said, place, str(other.size), str(size), hint)


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


def sealing(ledger: Ledger) -> EntryCheck:
    """What verify would report about a receipt that is to stand next in a ledger.

    Only bytes that the writer is about to continue are read, under its lock.
    """
    from k3_ledger.schemas.outcomes import Position

    asked: set[tuple[int, tuple[tuple[str, int], ...]]] = set()

    def check(entry: Any) -> Iterator[Finding]:
        yield from faults(entry)
        sizes = tuple((one.sha256, one.size) for one in getattr(entry.body, "artifacts", ()))
        if (entry.index, sizes) in asked:  # rehearsed a moment ago, of the same log
            return
        places = (Position(index=entry.index, field=f"body.artifacts[{at}].size") for at in range(len(sizes)))
        yield from size_faults(ledger, ((place, *named) for place, named in zip(places, sizes, strict=True)))
        asked.add((entry.index, sizes))

    return check


def check_kept_line(ledger: Ledger, body: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuse a `witness` entry that is false to whoever has the ledger's heads and these keys; say what nobody checked.

    Args:
        ledger: has the heads, and the keys that its log enrolled.
        body: the entry's body, as plain values.
        keys: verifier keys of witnesses, as a user gave them.

    Raises:
        LedgerError: the line is false.
        BadParameter: a key is none, or with the keys that were given nothing can be told.
    """
    from types import SimpleNamespace

    import typer

    from k3_ledger.cli.witness import witness_key
    from k3_ledger.ledger.core.cosignature import Witness
    from k3_ledger.ledger.writer.beside import read_heads
    from k3_ledger.ledger.writer.roster import read_state
    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.witness_entries import false_line

    given = [witness_key(key, "--witness") for key in keys]
    witnesses = [Witness(verifier, verifier.name) for verifier in given]
    keyring = read_state(ledger).keyring
    said = false_line(SimpleNamespace(**body), read_heads(ledger.root).values(), witnesses, keyring)
    if said:
        place = Position(field="body.cosignature")
        hint = "ask the witness again; nothing was appended"
        raise LedgerError(Code.WITNESS_ENTRY_FALSE, said, position=place, hint=hint)
    why = "no key that is known could have signed the line, or no signed head that is kept has that digest"
    if said == "" and given:
        raise typer.BadParameter(f"nothing could be checked: {why}", param_hint="--witness")
    if said == "":
        more = "a false line would stand for ever; --witness KEY has it checked"
        typer.echo(f"warning: whether the cosignature is the witness's was not checked: {why}; {more}", err=True)


def admission(ledger: Ledger) -> EntryCheck:
    """What verify would report about an entry that is to stand next in a ledger, judgements included.

    Only bytes that the writer is about to continue are read, under its lock. A verdict costs a verification.
    """
    from k3_ledger.schemas.envelope import SELF_CONTAINED

    alone = sealing(ledger)
    seen: set[tuple[int, bytes]] = set()

    def check(entry: Any) -> Iterator[Finding]:
        from msgspec.json import encode

        yield from alone(entry)
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
    from hashlib import sha256

    from k3_ledger.ledger.core.framing import parse_line
    from k3_ledger.ledger.writer.roster import read_state
    from k3_ledger.verify.log import read_entry

    named = {"pin": "source", "merge": "run"}.get(entry.kind)
    wanted = None if named is None else getattr(entry.body, named)
    kinds = {"rule": ("rule", "supersede"), "pin": ("pin", "rule", "supersede"), "supersede": ("supersede",)}.get(
        entry.kind, ()
    )
    keyring = None
    marks = [f'"kind":"{kind}"'.encode() for kind in kinds]
    if entry.kind == "pin":
        marks.append(f'"target":"{wanted}"'.encode())  # what was judged of the run
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
