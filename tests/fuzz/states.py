"""Targets that read what a party keeps for itself, what a mirror serves, and the single texts that all of them hold."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.note import format_verifier_key
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.mirror import TileSource
from k3_ledger.verify.prove import prove_from_tiles
from tests.fuzz.formats import cosignature_line, cosigner, ledger, verifier
from tests.fuzz.rooms import POLICY, SLOT, VERDICTS
from tests.fuzz.target import Target
from tests.ledgers import ORIGIN, sign_head
from tests.static_host import mirror_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from k3_ledger.ledger.core.proof import ProofFile
    from k3_ledger.ledger.core.tiles import Tile

# --------------------------------------------------------------------------------------------------------- memories


def read_memory(data: bytes) -> None:
    """Never refused here: a damaged memory is handed on as it is, and believed in nothing."""
    from k3_ledger.cli.memory import parse_memory

    memory = parse_memory(data)
    if memory.note == data or memory.unmoved_since is None:
        assert not memory.sealed
        assert not memory.enrolments


def memory_seeds() -> Iterator[bytes]:
    """The three versions, and a bare note."""
    from k3_ledger.schemas import canonical

    note, line = sign_head(ledger().lines).decode(), ledger().lines[1][:-1].decode()
    value: dict[str, Any] = {"note": note, "unmoved_since": "2026-06-01T00:00:00Z"}
    yield canonical.format(value | {"schema": "k3-ledger/memory/1"})
    yield canonical.format(value | {"schema": "k3-ledger/memory/2", "enrolments": [line]})
    value |= {"schema": "k3-ledger/memory/3", "enrolments": [line]}
    digest = hashlib.sha256(canonical.format(value)).hexdigest()
    yield json.dumps(value | {"sha256": digest}, ensure_ascii=False, indent=2).encode()
    yield note.encode()


@functools.cache
def witness_folder() -> tempfile.TemporaryDirectory[str]:
    """Where a witness's state stands; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="k3-ledger-fuzz-")


@functools.cache
def witness_files() -> dict[str, bytes]:
    """The files of a witness that cosigned a head of one log, and knows another."""
    from k3_ledger.ledger.witness.state import WitnessState, origin_hash

    root = Path(witness_folder().name) / "w"
    state = WitnessState.create(root, cosigner().name, cosigner().public_key)
    state.add_log(ORIGIN, [verifier()])
    state.add_log("example.org/other", [verifier()])
    path = root / "logs" / f"{origin_hash(ORIGIN)}.json"
    head = sign_head(ledger().lines)
    document = json.loads(path.read_bytes()) | {"checkpoint": (head + cosignature_line(head)).decode()}
    path.write_bytes(json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode())
    return {name: (root / name).read_bytes() for name in ("witness.json", f"logs/{path.name}")}


def read_witness_state(data: bytes) -> None:
    """One file of a witness's state replaced: it is read whole, or refused, and the rest is as it was."""
    from k3_ledger.ledger.witness.state import WitnessState

    names = sorted(witness_files())
    name = names[data[0] % len(names)] if data else names[0]
    root = Path(witness_folder().name) / "w"
    (root / name).write_bytes(data[1:])
    try:
        state = WitnessState.open(root)
        with suppress(LedgerError):
            state.log(ORIGIN)
        state.origins()
    finally:
        (root / name).write_bytes(witness_files()[name])


def witness_state_seeds() -> Iterator[bytes]:
    for number, name in enumerate(sorted(witness_files())):
        yield bytes([number]) + witness_files()[name]
    log = json.loads(witness_files()[min(witness_files())])
    more = log | {"checkpoint": "", "dropped": [format_verifier_key(verifier())]}
    yield b"\x00" + json.dumps(more, sort_keys=True, separators=(",", ":")).encode()


# ---------------------------------------------------------------------------------------------------------- mirrors


class Files:
    """A mirror in memory; the verifier's own view of it is :class:`~k3_ledger.verify.mirror.TileSource`."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.name, self.files = "mirror", files

    def checkpoint(self) -> bytes | None:
        return self.files.get("checkpoint")

    def kept_checkpoints(self) -> tuple[()]:
        return ()

    timestamps = kept_checkpoints

    def lists(self, folder: str) -> bool:
        return bool(folder)

    def kept_checkpoint(self, size: int) -> None:
        return None

    open_artifact: Callable[..., None] = kept_checkpoint

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        from k3_ledger.ledger.core.tiles import tile_path

        if tile_path(tile) in self.files:
            yield self.files[tile_path(tile)]

    def accept(self, tile: Tile, data: bytes) -> None:
        """Keep nothing."""

    def key_entries(self) -> bytes | None:
        return self.files.get("key-entries")


@functools.cache
def mirror() -> dict[str, bytes]:
    return mirror_files(ledger())


def read_mirror(data: bytes) -> None:
    """One file of a mirror replaced: what verifies is the log itself, and proofs are made or refused."""
    names = sorted(mirror())
    name = names[data[0] % len(names)] if data else names[0]
    source = TileSource(Files({**mirror(), name: data[1:]}))
    report = check_log(source, POLICY, Options(processes=1))
    assert int(report.exit_code) in VERDICTS
    assert report.exit_code or b"".join(source.blocks()) == ledger().data, "a forgery verifies"
    prove_from_tiles(source, 3)


def mirror_seeds() -> Iterator[bytes]:
    for number, name in enumerate(sorted(mirror())):
        yield bytes([number]) + mirror()[name]


@functools.cache
def whole_proof() -> ProofFile:
    return prove_from_tiles(TileSource(Files(mirror())), 4)


def read_key_entries(data: bytes) -> None:
    """A mirror's list of key entries, whatever it says: a proof that holds, or one that is refused; never a crash."""
    from k3_ledger.ledger.core.proof import format_proof
    from k3_ledger.verify.proof import check_proof

    made = prove_from_tiles(TileSource(Files({**mirror(), "key-entries": data})), 4)
    assert set(made.entries) <= set(whole_proof().entries)
    assert check_proof(format_proof(made), "a.proof", POLICY).exit_code is not ExitCode.UNREADABLE


def key_entry_seeds() -> Iterator[bytes]:
    yield mirror()["key-entries"]
    yield from (b"", b"0\n", b"3\n1\n", b"0\n1\n2\n3\n99\n", b"0" * 16 + b"\n", b"1\r\n")


# ------------------------------------------------------------------------------------------------------- originals


@functools.cache
def original() -> tuple[dict[str, Any], dict[str, bytes]]:
    """An import of a run that was made up, and its originals by name."""
    from k3_ledger.verify.polaris import audit, parse_log, to_import
    from tests.fuzz.rooms import foreign_log

    files = foreign_log()
    item = next(iter(to_import(parse_log(files), files, audit(files))))
    names = {artifact["sha256"]: artifact["name"] for artifact in item.body["artifacts"]}
    return item.body, {names[digest]: data for digest, data in item.blobs.items()}


def read_original(data: bytes) -> None:
    """An import whose original is another one, sealed as such: held against it, whatever stands there."""
    from k3_ledger.schemas.bodies import ImportBody
    from k3_ledger.verify.polaris.originals import Originals
    from k3_ledger.verify.source import MemorySource

    body, files = original()
    name = sorted(files)[data[0] % len(files)] if data else min(files)
    blobs = {hashlib.sha256(content).hexdigest(): content for content in {**files, name: data[1:]}.values()}
    digest = hashlib.sha256(data[1:]).hexdigest()
    artifacts = [
        artifact | ({"sha256": digest, "size": len(data[1:])} if artifact["name"] == name else {})
        for artifact in body["artifacts"]
    ]
    changed = ImportBody.model_validate_json(json.dumps(body | {"artifacts": artifacts}))
    Originals(MemorySource(b"", artifacts=blobs)).check(changed)


def original_seeds() -> Iterator[bytes]:
    for number, name in enumerate(sorted(original()[1])):
        yield bytes([number]) + original()[1][name]


def read_receipt_alone(data: bytes) -> None:
    """The receipt that an import keeps, as its quote is looked for."""
    from k3_ledger.verify.polaris.quotes import _parse

    _parse(data)


def receipt_seeds() -> Iterator[bytes]:
    from tests.fuzz.rooms import foreign_log

    yield from (data for name, data in foreign_log().items() if name.endswith("receipt.json"))


def read_imported(data: bytes) -> None:
    """Fields of an import: lines of a name, a tab and a text."""
    from k3_ledger.rescore.imported import read_frontier, read_import

    pairs = (line.partition("\t") for line in data.decode("utf-8", "replace").split("\n"))
    fields = {name: value[:4096] for name, _, value in pairs}  # the longest text of an entry
    read_frontier(fields)
    read_import("run", fields)


def imported_seeds() -> Iterator[bytes]:
    from tests.rescore.test_imported import FIELDS

    yield "\n".join(f"{name}\t{value}" for name, value in FIELDS.items()).encode()
    slot = "log.main.pin-kept.slot\tSPARKINFER_DECODE_64\nlog.main.pin-kept.pin\t1.5"
    yield f"{slot}\nlog.main.frontier.frontier\t35.6\nledger.pr\t#107\nledger.tps\t4e1".encode()


# ----------------------------------------------------------------------------------------------------------- texts


def read_text(data: bytes) -> None:
    """One text where a time, a number or a certificate is expected: read, or refused as its reader promises."""
    from k3_ledger.rescore.exact import parse_number
    from k3_ledger.schemas.moments import format_time, parse_time
    from k3_ledger.verify.attestation import read_at
    from k3_ledger.verify.policy import parse_certificate

    text = data[1:].decode("utf-8", "replace")
    match data[0] % 4 if data else 0:
        case 0:
            with suppress(ValueError):
                assert format_time(parse_time(text)) == text
        case 1:
            with suppress(ValueError):
                read_at(text)
        case 2:
            parse_number(text, field="value")
        case _:
            parse_certificate(text)


def text_seeds() -> Iterator[bytes]:
    yield from (b"\x002026-06-01T00:00:00Z", b"\x012026-08-02T03:55:27+00:00", b"\x01receipt", b"\x01now")
    yield from (b"\x022.5e-3", b"\x021E60", b"\x02-0.0", b"\x02" + SLOT.encode())
    yield b"\x03-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def read_engine_answer(data: bytes) -> None:
    """A line of an engine's: one object, or nothing; and its fields as they are asked for."""
    from k3_ledger.engine.runner.replies import count_of, numbers_of, object_of, printable, tokens_of

    answer = object_of(data)
    if answer is None:
        printable(data[:80])
        return
    printable(answer.get("error"))
    for read in (
        lambda: count_of(answer, "self_ns"),
        lambda: tokens_of(answer.get("ids"), 2, "decode", 64),
        lambda: numbers_of(answer.get("logprobs"), 2, "decode"),
    ):
        with suppress(LedgerError):
            read()


def engine_answer_seeds() -> Iterator[bytes]:
    yield b'{"id":7,"ids":[1,2],"logprobs":[-0.5,-1.25],"self_ns":1000}'
    yield from (b'{"id":7,"error":"no"}', b'{"id":1,"id":2}', b"[]", b'{"ids":[1e400,NaN]}', b"\xff")


TARGETS = (
    Target("memory", read_memory, memory_seeds, longest=8192),
    Target("witness-state", read_witness_state, witness_state_seeds, longest=4096),
    Target("mirror", read_mirror, mirror_seeds, longest=8192, share=0.1),
    Target("key-entries", read_key_entries, key_entry_seeds, longest=300),
    Target("original", read_original, original_seeds, longest=8192, share=0.1),
    Target("receipt", read_receipt_alone, receipt_seeds, longest=8192),
    Target("imported", read_imported, imported_seeds, longest=8192),
    Target("text", read_text, text_seeds, longest=400),
    Target("engine-answer", read_engine_answer, engine_answer_seeds, longest=2000),
)
