"""``k3-ledger bundle pack``: one offline file with all that an auditor needs."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from k3_ledger.cli.files import check_free, new_file
from k3_ledger.cli.options import JsonOption, ReplaceOption, print_json
from k3_ledger.cli.sources import BLOCK
from k3_ledger.cli.told import done
from k3_ledger.cli.trusting import TrustOption  # noqa: TC001 - read when the command is built
from k3_ledger.ledger.core.checkpoint import KEPT_NAME
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.core.pack import PackList
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.verify.log import VerifiedLog
    from k3_ledger.verify.source import LogSource

PACK_HELP = """Pack what an auditor needs into one file that verifies with nothing else at hand.

The file is a tar: the record up to the newest checkpoint, or with --entries a proof of each, and the signed heads (with
--entries the proof that the newest extends them), the artifacts and the timestamps that are there. Only a ledger that
verifies is packed, under the policy given with --trust or --root-key, whose digest is noted. Equal content makes equal
bytes. Check it with `k3-ledger verify FILE`.
"""


def pack(
    ledger: Annotated[Path, typer.Argument(help="A ledger, a tar of it, or a mirror.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)],
    entries: Annotated[str, typer.Option(help="`all`, or indexes: 3,5,8.")] = "all",
    trust: TrustOption = None,
    root_key: Annotated[
        str | None, typer.Option("--root-key", "--root", help="Root public key: 64 hex digits, or a PEM file.")
    ] = None,
    artifacts: Annotated[bool, typer.Option(help="Pack artifacts.")] = True,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify, then write the file."""
    from k3_ledger.cli.beyond import read_beyond
    from k3_ledger.cli.opening import held_ledger
    from k3_ledger.cli.settled import verify_settled
    from k3_ledger.cli.trust import load_policy

    check_free(out, replace=replace, reads=(ledger, trust, root_key))
    wanted = parse_indexes(entries)
    source = held_ledger(ledger)
    policy = load_policy(trust, root_key, [], subject=ledger)
    log, _ = verify_settled(source, policy)
    made = _Maker(source, log, wanted, artifacts=artifacts)
    listed = made.make_list(None if policy is None else policy.digest)
    _write(out, made, listed, replace=replace)
    missing = made.missing
    beyond = read_beyond(source.blocks(), listed.size)
    size = out.stat().st_size
    with done(f"the bundle stands: {out}"):
        if missing:
            typer.echo(f"note: {missing} artifacts are not in the ledger's blobs/ and were not packed", err=True)
        if made.unproved:
            typer.echo(f"note: {made.unproved} older signed heads could not be proved and were not packed", err=True)
        beyond.tell("the bundle")
        if as_json:
            print_json(
                {
                    "file": str(out),
                    "bytes": size,
                    "files": len(listed.files),
                    "missing_artifacts": missing,
                    "head": {"origin": made.head.origin, "size": listed.size, "root": made.head.root.hex()},
                    "entries": "all" if wanted is None else list(wanted),
                    "beyond": beyond.as_dict(),
                }
            )
            return
        whole = "the record up to its head" if beyond.entries else "the whole record"
        what = whole if wanted is None else f"{len(wanted)} entries"
        typer.echo(printable(f"{out}: {what}, head of {listed.size} entries, {len(listed.files)} files, {size} bytes"))


def parse_indexes(text: str) -> tuple[int, ...] | None:
    """Indexes that a user wrote, each once in rising order; None for all.

    Raises:
        typer.BadParameter: the text is neither.
    """
    if text == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,16}(?:,[0-9]{1,16}){0,9999}", text):
        raise typer.BadParameter("give `all`, or indexes with commas between: 3,5,8", param_hint="--entries")
    return tuple(sorted({int(part) for part in text.split(",")}))


class _Maker:
    """Puts the content of an offline bundle together."""

    def __init__(self, source: LogSource, log: VerifiedLog, wanted: tuple[int, ...] | None, *, artifacts: bool) -> None:
        from k3_ledger.ledger.core.checkpoint import parse_checkpoint
        from k3_ledger.ledger.core.note import parse_note
        from k3_ledger.ledger.core.pack import proof_name
        from k3_ledger.ledger.core.proof import format_proof
        from k3_ledger.schemas.errors import ProofError
        from k3_ledger.schemas.findings import Code
        from k3_ledger.verify.proof import verify_proof
        from k3_ledger.verify.prove import prove_entry

        note = source.checkpoint()
        if note is None:
            raise ProofError(Code.NOT_CHECKPOINTED, "a ledger without a checkpoint cannot be packed")
        self.source, self.wanted, self.missing = source, wanted, 0
        self.head = parse_checkpoint(parse_note(note).text)
        self.small: dict[str, bytes] = {"checkpoint": note}
        kept = [
            (name, data) for name, data in source.kept_checkpoints() if KEPT_NAME.fullmatch(name.rpartition("/")[2])
        ]
        self.unproved = 0
        if wanted is None:
            self.small |= {name: data for name, data in kept if size_of(name) <= self.head.size}
        else:
            self.small |= self._older(note, kept)
        held = {self.head.size, *map(size_of, self.small.keys() - {"checkpoint"})}
        for name, data in source.timestamps():
            if size_of(name) in held if wanted is not None else size_of(name) <= self.head.size:
                self.small[name] = data
        if wanted is not None:
            for index in wanted:
                self.small[proof_name(index)] = proof = format_proof(prove_entry(source, index))
                verify_proof(proof, proof_name(index))
        self.blobs = sorted(self._blobs(log)) if artifacts else []

    def _older(self, newest: bytes, kept: list[tuple[str, bytes]]) -> dict[str, bytes]:
        """A consistency file for each older head, by name: without the record, nothing else shows that it is the log's.

        A head that a revocation took back vouches for nothing, and has none; its timestamps are not packed either.
        """
        from k3_ledger.ledger.core.consistency import format_consistency
        from k3_ledger.ledger.core.pack import consistency_name
        from k3_ledger.verify.consistency import check_consistency_file
        from k3_ledger.verify.prove import prove_extensions

        sizes = {old: size for _, old in kept if 0 < (size := size_said(old) or 0) < self.head.size}
        proved = prove_extensions(self.source, sizes, newest) if sizes else {}
        files: dict[str, bytes] = {}
        self.unproved = len(sizes)
        for old, file in proved.items():
            name, data = consistency_name(sizes[old]), format_consistency(file)
            if not check_consistency_file(data, name).exit_code:
                files[name] = data
                self.unproved -= 1
        return files

    def _blobs(self, log: VerifiedLog) -> Iterator[str]:
        seen: set[str] = set()
        for item in log:
            if item.index >= self.head.size or (self.wanted is not None and item.index not in self.wanted):
                continue
            for artifact in getattr(item.entry.body, "artifacts", ()):
                if artifact.sha256 in seen:
                    continue
                seen.add(artifact.sha256)
                stream = self.source.open_artifact(artifact.sha256)
                if stream is None:
                    self.missing += 1
                    continue
                stream.close()
                yield artifact.sha256

    def open(self, name: str) -> BinaryIO:
        """One file of the bundle."""
        if name in self.small:
            return io.BytesIO(self.small[name])
        if name == "ledger.jsonl":
            return _Lines(self.source, self.head.size)  # type: ignore[return-value]
        stream = self.source.open_artifact(name.rpartition("/")[2])
        assert stream is not None, "it was there a moment ago"
        return stream

    def make_list(self, policy_sha256: str | None) -> PackList:
        """The list of all files, each read once for its digest.

        Raises:
            MalformedError: no verifier would take such a bundle.
        """
        from k3_ledger.ledger.core.pack import PackFile, PackList
        from k3_ledger.ledger.writer import tarball

        names = [*self.small, *(f"blobs/sha256/{digest[:2]}/{digest}" for digest in self.blobs)]
        names += ["ledger.jsonl"] if self.wanted is None else []
        if len(names) >= tarball.MAX_MEMBERS:  # the list is one more
            raise _too_large(
                "the bundle", f"at most {tarball.MAX_MEMBERS:,} files, its list among them", f"{len(names) + 1:,} files"
            )
        files = []
        for name in sorted(names):
            state, size = hashlib.sha256(), 0
            with self.open(name) as stream:
                while block := stream.read(BLOCK):
                    state.update(block)
                    size += len(block)
                    if size > MAX_FILE:
                        raise _too_large(name, f"at most {MAX_FILE:,} bytes in a file", "more")
            files.append(PackFile(name, state.hexdigest(), size))
        return PackList(
            self.head.origin, self.head.size, self.head.root.hex(), self.wanted, policy_sha256, tuple(files)
        )


MAX_FILE: Final = 0o77777777777
"""Bytes of one file in a tar of the plain format, which writes a length in eleven octal digits."""


def _too_large(what: str, most: str, found: str) -> MalformedError:
    from k3_ledger.schemas.errors import MalformedError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.schemas.outcomes import Position

    return MalformedError(
        Code.ARCHIVE_REFUSED,
        "this is too large for an offline bundle, and no verifier would take it",
        position=Position(source=what),
        expected=most,
        found=found,
        hint="pack fewer --entries or say --no-artifacts, or hand over a copy of the ledger's directory; nothing was "
        "written",
    )


def size_of(name: str) -> int:
    """Tree size in the name of a kept file."""
    return int(name.rpartition("/")[2].partition(".")[0].partition("-")[0])


class _Lines(io.RawIOBase):
    """The first lines of a log as a stream."""

    def __init__(self, source: LogSource, count: int) -> None:
        self._parts, self._held = self._cut(source, count), b""

    @staticmethod
    def _cut(source: LogSource, count: int) -> Iterator[bytes]:
        left = count
        for block in source.blocks():
            lines = block.count(b"\n")
            if lines < left:
                left -= lines
                yield block
                continue
            at = -1
            for _ in range(left):
                at = block.index(b"\n", at + 1)
            yield block[: at + 1]
            return

    def read(self, size: int = -1, /) -> bytes:
        assert size > 0, "it is read in blocks"
        if not self._held:
            self._held = next(self._parts, b"")
        data, self._held = self._held[:size], self._held[size:]
        return data


def _write(out: Path, made: _Maker, listed: PackList, *, replace: bool) -> None:
    """Write the tar whole or not at all."""
    from k3_ledger.ledger.core.pack import LIST_NAME, format_pack

    with (
        new_file(out, replace=replace) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        data = format_pack(listed)
        tar.addfile(_member(LIST_NAME, len(data)), io.BytesIO(data))
        for entry in listed.files:
            with made.open(entry.name) as stream:
                tar.addfile(_member(entry.name, entry.size), stream)


def _member(name: str, size: int) -> tarfile.TarInfo:
    """A header that says nothing about who made it, or when."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o644, 0
    return member


def size_said(note: bytes) -> int | None:
    """Size that a signed head says it commits to; None where it cannot be read, which the verifier reports."""
    from k3_ledger.cli.memory import tree_size
    from k3_ledger.schemas.errors import LedgerError

    try:
        return tree_size(note)
    except LedgerError:
        return None
