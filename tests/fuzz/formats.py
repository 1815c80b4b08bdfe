"""Targets of schemas and of the ledger's core: the bytes of the format itself."""

from __future__ import annotations

import functools
import hashlib
import io
from typing import TYPE_CHECKING, Any

import msgspec

from k3_ledger.ledger.core import lines as lines_of
from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import format_checkpoint, open_checkpoint, parse_checkpoint
from k3_ledger.ledger.core.consistency import (
    ConsistencyFile,
    consistency_hashes,
    format_consistency,
    parse_consistency,
)
from k3_ledger.ledger.core.cosignature import Witness, read_cosignatures
from k3_ledger.ledger.core.framing import format_line, parse_line
from k3_ledger.ledger.core.merkle import (
    CompactRange,
    check_consistency,
    check_inclusion,
    collect_nodes,
    needed_nodes,
    prove_consistency,
    prove_inclusion,
)
from k3_ledger.ledger.core.note import (
    KeyType,
    Verifier,
    format_note,
    format_verifier_key,
    open_note,
    parse_note,
    parse_verifier_key,
)
from k3_ledger.ledger.core.pack import PackFile, PackList, format_pack, parse_pack
from k3_ledger.ledger.core.proof import build_proof, format_proof, parse_proof
from k3_ledger.ledger.core.tiles import format_entries, parse_entries, parse_hashes
from k3_ledger.ledger.core.tlog_proof import format_tlog_proof, parse_tlog_proof, to_tlog_proof
from k3_ledger.ledger.core.tlog_witness import (
    AddCheckpoint,
    format_answer,
    format_request,
    format_size,
    parse_answer,
    parse_request,
    parse_size,
)
from k3_ledger.schemas import canonical, models, structs, validate
from k3_ledger.schemas.errors import LedgerError
from tests.fuzz.target import Target
from tests.ledgers import LOG, ORIGIN, Builder, Key, sign_head, small_ledger
from tests.schemas import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = tuple(models.ENTRIES)
WITNESS = Key("witness")


@functools.cache
def ledger() -> Builder:
    """A ledger with a few entries."""
    return small_ledger(1)


# -------------------------------------------------------------------------------------------------------- schemas


def read_canonical(data: bytes) -> None:
    value = canonical.parse(data)
    assert canonical.format(value) == data


def read_value(data: bytes) -> None:
    value = canonical.parse_value(data)
    assert canonical.parse(canonical.format(value)) == value


def json_seeds() -> Iterator[bytes]:
    yield from (b"{}", b"[]", b'""', b"0", b"-1", b"true", b"null", b'{"a":1,"b":[{"c":"\\u0001\\n"}]}', b"[[[[[]]]]]")
    yield from (
        b"9007199254740991",
        b"1.5",
        b"1e3",
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        '"\u00e9\U0001f600"'.encode(),
        b" {} ",
    )


def read_entry(data: bytes) -> None:
    """The fast reader and the explaining one say the same, and what they say is written as the same bytes."""
    fast = structs.decode_entry(data)
    try:
        slow = validate.parse_entry(data)
    except LedgerError:
        assert fast is None, "the fast path takes what the slow one refuses"
        raise
    assert fast is not None, "the slow path takes what the fast one refuses"
    assert canonical.format(msgspec.to_builtins(fast)) == data
    assert canonical.format(slow.model_dump(mode="json", by_alias=True)) == data


def entry_seeds() -> Iterator[bytes]:
    for kind in KINDS:
        yield canonical.format(examples.smallest(kind))
        yield canonical.format(examples.sparse(kind))


def read_body(data: bytes) -> None:
    kind = KINDS[data[0] % len(KINDS)] if data else KINDS[0]
    body = validate.read_body(kind, data[1:])
    validate.read_body(kind, canonical.format(body.model_dump(mode="json", by_alias=True)))


def body_seeds() -> Iterator[bytes]:
    for number, kind in enumerate(KINDS):
        yield bytes([number]) + canonical.format(examples.smallest(kind)["body"])


def read_bundle(data: bytes) -> None:
    validate.parse_bundle(data)


def bundle_seeds() -> Iterator[bytes]:
    for kind in models.BUNDLES:
        body: Any = examples.smallest(kind)["body"]
        body.pop("bundle", None)
        yield canonical.format({"schema": "k3-ledger/bundle/1", "kind": kind, "body": body})


# ---------------------------------------------------------------------------------------------------------- lines


def read_line(data: bytes) -> None:
    line = parse_line(data)
    assert format_line(line.entry, line.sig) == data


def line_seeds() -> Iterator[bytes]:
    yield from (line[:-1] for line in ledger().lines)
    yield b'{"entry":{},"sig":"' + b"A" * 86 + b'=="}'


def read_lines(data: bytes) -> None:
    """Cut anywhere, the same lines and the same tail come out; nothing raises but in words."""
    cut, rest = (data[0] * len(data) // 256, data[1:]) if data else (0, b"")
    whole, parts = lines_of.LineSplitter(), lines_of.LineSplitter()
    found = whole.feed(rest)
    assert found == parts.feed(rest[:cut]) + parts.feed(rest[cut:])
    tail = whole.finish()
    assert tail == parts.finish()
    assert sum(line.length + 1 for line in found) + tail.length == len(rest)
    lines_of.check_is_ledger([rest])
    lines_of.check_tail(tail)
    assert rest == b"" or rest.endswith(b"\n")


def lines_seeds() -> Iterator[bytes]:
    data = ledger().data
    for end in (data[-1:], b"", b"\0\0\0", data[:40], b"\r\n", b"\n\n", b"\xef\xbb\xbf"):
        yield b"\x80" + data[:900] + end
    yield b"\x00" + data[:-20]
    yield b"\x40" + data[:-1] + b"\0"


# ---------------------------------------------------------------------------------------------------------- notes


def read_note(data: bytes) -> None:
    note = parse_note(data)
    assert format_note(note.text, note.sigs) == data
    open_note(data, [verifier()])


def verifier() -> Verifier:
    return Verifier(ORIGIN, LOG.public)


def cosigner() -> Verifier:
    return Verifier("witness.example/w", WITNESS.public, KeyType.COSIGNATURE)


def note_seeds() -> Iterator[bytes]:
    lines = ledger().lines
    head = sign_head(lines)
    yield head
    yield sign_head(lines[:1])
    yield head + cosignature_line(head)
    yield head.replace("\u2014".encode(), b"-")


def cosignature_line(head: bytes, time: int = 1_790_000_000) -> bytes:
    """A witness's line under a head, written from the specification."""
    import base64

    text = head.partition(b"\n\n")[0] + b"\n"
    message = b"cosignature/v1\ntime %d\n" % time + text
    payload = time.to_bytes(8, "big") + WITNESS.signing.sign(message).signature
    key_hash = hashlib.sha256(b"witness.example/w\n\x04" + WITNESS.public).digest()[:4]
    return "\u2014 witness.example/w ".encode() + base64.b64encode(key_hash + payload) + b"\n"


def read_verifier_key(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    key = parse_verifier_key(text)
    assert key is None or format_verifier_key(key) == text


def verifier_key_seeds() -> Iterator[bytes]:
    yield format_verifier_key(verifier()).encode()
    yield format_verifier_key(cosigner()).encode()


def read_checkpoint(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape") if b"\n\n" not in data else ""
    if text:
        text.encode("utf-8", "surrogatepass")
        head = parse_checkpoint(text)
        assert format_checkpoint(head) == text
    open_checkpoint(data, [verifier()], origin=ORIGIN)


def checkpoint_seeds() -> Iterator[bytes]:
    yield from note_seeds()
    yield sign_head(ledger().lines).partition(b"\n\n")[0] + b"\n"
    yield b"example.org/speed\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\nan extension\n"


def read_cosigned(data: bytes) -> None:
    note = parse_note(data)
    found = read_cosignatures(note, [Witness(cosigner(), "operator")])
    assert len(found.good) <= 1
    assert len(found.good) + len(found.bad) + found.repeated + found.unknown == len(note.sigs)


# --------------------------------------------------------------------------------------------------------- proofs


def read_proof(data: bytes) -> None:
    assert format_proof(parse_proof(data)) == data


def proof_seeds() -> Iterator[bytes]:
    yield format_proof(_proof())


def _proof(subject: int | None = None) -> Any:
    lines = [line[:-1] for line in ledger().lines]
    subject = len(lines) - 1 if subject is None else subject
    chosen = dict(enumerate(lines[:4])) | {subject: lines[subject]}
    return build_proof(subject, chosen, map(leaf_hash, lines), sign_head(ledger().lines))


def read_tlog_proof(data: bytes) -> None:
    assert format_tlog_proof(parse_tlog_proof(data)) == data


def tlog_proof_seeds() -> Iterator[bytes]:
    yield format_tlog_proof(to_tlog_proof(_proof()))


def _numbers(data: bytes) -> tuple[int, int, list[bytes]]:
    """Two sizes and hashes, from bytes."""
    first, second, rest = int.from_bytes(data[:8], "big"), int.from_bytes(data[8:16], "big"), data[16:]
    return first, second, [rest[at : at + 32] for at in range(0, len(rest), 32)]


def read_inclusion(data: bytes) -> None:
    index, size, hashes = _numbers(data)
    leaf, root, *proof = [*hashes, b"", b""]
    check_inclusion(index, size, leaf, proof[: max(len(hashes) - 2, 0)], root)


def read_consistency(data: bytes) -> None:
    old, new, hashes = _numbers(data)
    first, second, *proof = [*hashes, b"", b""]
    check_consistency(old, new, first, second, proof[: max(len(hashes) - 2, 0)])


def merkle_seeds() -> Iterator[bytes]:
    leaves = [leaf_hash(b"%d" % number) for number in range(13)]
    for old, new in ((1, 1), (3, 8), (6, 13), (8, 13), (12, 13)):
        tree, nodes = collect_nodes(leaves[:new], needed_nodes(functools.partial(prove_consistency, old, new)))
        earlier = CompactRange()
        for leaf in leaves[:old]:
            earlier.append(leaf)
        proof = prove_consistency(old, new, lambda level, index, nodes=nodes: nodes[level, index])
        yield _packed(old, new, earlier.root(), tree.root(), *proof)
        tree, nodes = collect_nodes(leaves[:new], needed_nodes(functools.partial(prove_inclusion, old - 1, new)))
        proof = prove_inclusion(old - 1, new, lambda level, index, nodes=nodes: nodes[level, index])
        yield _packed(old - 1, new, leaves[old - 1], tree.root(), *proof)


def _packed(first: int, second: int, *hashes: bytes) -> bytes:
    return first.to_bytes(8, "big") + second.to_bytes(8, "big") + b"".join(hashes)


# ---------------------------------------------------------------------------------------------------------- tiles


def read_tile(data: bytes) -> None:
    width = data[0] + 1 if data else 1
    assert b"".join(parse_hashes(data[1:], width)) == data[1 : 1 + 32 * width]


def tile_seeds() -> Iterator[bytes]:
    yield bytes([2]) + bytes(range(96))
    yield bytes([255]) + bytes(32 * 256)


def read_entry_bundle(data: bytes) -> None:
    width = data[0] + 1 if data else 1
    lines = parse_entries(data[1:], width)
    assert len(lines) == width
    assert data[1:].startswith(format_entries(lines))


def entry_bundle_seeds() -> Iterator[bytes]:
    lines = [line[:-1] for line in ledger().lines]
    yield bytes([len(lines) - 1]) + format_entries(lines)
    yield bytes([1]) + format_entries([b"a", b""])
    yield bytes([1]) + format_entries([b"x"] * 256)


def read_pack(data: bytes) -> None:
    assert format_pack(parse_pack(data)) == data


def pack_seeds() -> Iterator[bytes]:
    digest = "0" * 64
    files = (PackFile("checkpoint", digest, 200), PackFile("ledger.jsonl", digest, 9_000))
    yield format_pack(PackList(ORIGIN, 7, digest, None, None, files))
    files = (PackFile("checkpoint", digest, 200), PackFile("proofs/000000000003.proof", digest, 9_000))
    yield format_pack(PackList(ORIGIN, 7, digest, (3,), digest, files))


def read_consistency_file(data: bytes) -> None:
    assert format_consistency(parse_consistency(data)) == data


def consistency_file_seeds() -> Iterator[bytes]:
    lines = [line[:-1] for line in ledger().lines]
    leaves = [leaf_hash(line) for line in lines]
    hashes = consistency_hashes(2, len(lines), leaves)
    yield format_consistency(ConsistencyFile(sign_head(ledger().lines[:2]), hashes, _proof(0)))


def read_request(data: bytes) -> None:
    assert format_request(parse_request(data)) == data


def request_seeds() -> Iterator[bytes]:
    head = sign_head(ledger().lines)
    yield format_request(AddCheckpoint(0, (), head))
    yield format_request(AddCheckpoint(3, (bytes(32), b"\xff" * 32), head))


def read_answer(data: bytes) -> None:
    if data[:1].isdigit():
        assert format_size(parse_size(data)) == data
    else:
        assert format_answer(parse_answer(data)) == data


def answer_seeds() -> Iterator[bytes]:
    yield cosignature_line(sign_head(ledger().lines))
    yield from (b"0\n", b"1234\n", b"007\n")


def read_proposal(data: bytes) -> None:
    from k3_ledger.ledger.writer.proposal import format_proposal, parse_proposal

    proposal = parse_proposal(data)
    assert parse_proposal(format_proposal(proposal)) == proposal
    assert proposal.statement


def proposal_seeds() -> Iterator[bytes]:
    from k3_ledger.ledger.writer.proposal import Proposal, format_proposal

    for kind in ("key", "threshold"):
        body: Any = examples.smallest(kind)["body"]
        yield format_proposal(Proposal(ORIGIN, "0" * 64, kind, body))


def read_tar(data: bytes) -> None:
    from k3_ledger.ledger.writer.tarball import list_members

    for member in list_members(io.BytesIO(data), len(data), "a.tar").values():
        assert 0 <= member.offset <= member.offset + member.size <= len(data)
        assert not member.name.startswith("/")
        assert ".." not in member.name.split("/")


def tar_seeds() -> Iterator[bytes]:
    import tarfile

    for form in (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:", format=form) as tar:
            for name, content in (
                ("bundle.json", b"{}"),
                ("blobs/" + "0" * 64, b"content"),
                ("d/" * 3 + "b" * (90 if form == tarfile.USTAR_FORMAT else 120), b""),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                info.pax_headers = {"comment": "c"} if form == tarfile.PAX_FORMAT else {}
                tar.addfile(info, io.BytesIO(content))
        yield out.getvalue()[:6144]


TARGETS = (
    Target("canonical", read_canonical, json_seeds),
    Target("value", read_value, json_seeds),
    Target("entry", read_entry, entry_seeds),
    Target("body", read_body, body_seeds, share=0.5),
    Target("bundle", read_bundle, bundle_seeds, share=0.5),
    Target("line", read_line, line_seeds),
    Target("lines", read_lines, lines_seeds),
    Target("note", read_note, note_seeds),
    Target("verifier-key", read_verifier_key, verifier_key_seeds, longest=300),
    Target("checkpoint", read_checkpoint, checkpoint_seeds, longest=2000),
    Target("cosignature", read_cosigned, note_seeds, longest=2000),
    Target("proof", read_proof, proof_seeds, longest=16_384),
    Target("tlog-proof", read_tlog_proof, tlog_proof_seeds),
    Target("inclusion", read_inclusion, merkle_seeds, longest=2200),
    Target("consistency", read_consistency, merkle_seeds, longest=2200),
    Target("tile", read_tile, tile_seeds, longest=8300),
    Target("entry-bundle", read_entry_bundle, entry_bundle_seeds),
    Target("pack", read_pack, pack_seeds),
    Target("consistency-file", read_consistency_file, consistency_file_seeds, longest=16_384),
    Target("witness-request", read_request, request_seeds, longest=2000),
    Target("witness-answer", read_answer, answer_seeds, longest=600),
    Target("proposal", read_proposal, proposal_seeds),
    Target("tar", read_tar, tar_seeds, longest=8192),
)
