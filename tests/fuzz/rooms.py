"""Targets beyond the format: whole verifications, policies, pins and claims, foreign logs, model files."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tests.support
from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.proof import build_proof, format_proof
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.source import MemorySource
from tests.fuzz.formats import consistency_file_seeds, cosigner, json_seeds, ledger, note_seeds
from tests.fuzz.target import Target
from tests.ledgers import ORIGIN, ROOT, sign_head

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = TrustPolicy(root_public_key=ROOT.public, origin=ORIGIN)
VERDICTS = {int(code) for code in ExitCode} - {int(ExitCode.USAGE)}


# --------------------------------------------------------------------------------------------------------- verify


def read_ledger(data: bytes) -> None:
    """A whole verification never raises, and a ledger that it passes is the one that was made here."""
    report = check_log(MemorySource(data, block=997), POLICY, Options(processes=1))
    assert int(report.exit_code) in VERDICTS
    assert report.exit_code or ledger().data.startswith(data), "a forgery verifies"


def ledger_seeds() -> Iterator[bytes]:
    data, lines = ledger().data, ledger().lines
    yield data
    yield data[:-30]
    yield b"".join(lines[:2])
    yield b"".join((*lines[:3], lines[4]))
    yield data.replace(b'"batch":1', b'"batch":2')


def read_head(data: bytes) -> None:
    """A checkpoint beside a good ledger, newest and kept: whatever stands there, there is a report."""
    source = MemorySource(ledger().data, checkpoint=data, kept=[("000000000005.note", data)])
    report = check_log(source, POLICY, Options(processes=1))
    assert int(report.exit_code) in VERDICTS


def read_proof_file(data: bytes) -> None:
    report = check_proof(data, "a.proof", POLICY)
    assert int(report.exit_code) in VERDICTS


def proof_file_seeds() -> Iterator[bytes]:
    lines = [line[:-1] for line in ledger().lines]
    for subject in (3, len(lines) - 1):
        chosen = dict(enumerate(lines[:4])) | {subject: lines[subject]}
        yield format_proof(build_proof(subject, chosen, map(leaf_hash, lines), sign_head(ledger().lines)))


def read_consistency(data: bytes) -> None:
    from k3_ledger.verify.consistency import check_consistency_file

    report = check_consistency_file(data, "a.consistency", POLICY)
    assert int(report.exit_code) in VERDICTS


def read_policy(data: bytes) -> None:
    policy = parse_policy(data)
    assert len(policy.digest) == 64
    assert policy.sentence


def policy_seeds() -> Iterator[bytes]:
    from k3_ledger.ledger.core.note import format_verifier_key

    key = f'root_public_key = "{ROOT.public.hex()}"\norigin = "{ORIGIN}"\n'
    yield key.encode()
    yield (key + 'minimum_size = 7\nrequire = ["checkpoint", "artifacts"]\n').encode()
    witness = f'[[witness]]\nkey = "{format_verifier_key(cosigner())}"\noperator = "someone"\n'
    yield (key + "quorum = 1\n" + witness).encode()
    quotes = '[attestation]\nkinds = ["tdx"]\nat = "2026-08-02T00:00:00Z"\nallow = ["smt"]\n'
    yield (key + quotes + f'[attestation.measurements]\nmrtd = ["{"0" * 96}"]\n').encode()


@functools.cache
def place() -> tempfile.TemporaryDirectory[str]:
    """Where files stand for readers that take a path; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="k3-ledger-fuzz-")


def read_key_file(data: bytes) -> None:
    """A file where a private key, a public key or the policy's root key is expected."""
    from typer import BadParameter

    from k3_ledger.cli.trust import parse_root_key
    from k3_ledger.ledger.writer.keys import load_public_key, load_signer

    path = Path(place().name) / "key.pem"
    path.write_bytes(data)
    path.chmod(0o600)
    for read in (lambda: load_signer(path), lambda: load_public_key(str(path))):
        with contextlib.suppress(LedgerError):
            read()
    # A key that no signature is accepted from is the reader's own mistake, and a wrong use of the command.
    with contextlib.suppress(LedgerError, BadParameter):
        parse_root_key(str(path))


def key_file_seeds() -> Iterator[bytes]:
    """Public key files of three kinds. No private key is part of a corpus."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    seed = bytes(range(32))
    for key in (
        ed25519.Ed25519PrivateKey.from_private_bytes(seed),
        x25519.X25519PrivateKey.from_private_bytes(seed),
        ec.derive_private_key(7, ec.SECP256R1()),
    ):
        public = key.public_key()
        yield public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    yield b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"


# ------------------------------------------------------------------------------------------------------- rescore


def read_pins(data: bytes) -> None:
    from k3_ledger.rescore.pins import read_pins

    read_pins(data, source="pins.toml")


SLOT = "frontier:decode@131072/model/quant/node"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def pin_seeds() -> Iterator[bytes]:
    yield f'[[pin]]\nslot = "{SLOT}"\nvalue = "12.5"\nunit = "tok/s"\n'.encode()
    rest = f'source = "{"0" * 64}"\ncommit = "{COMMIT}"\ntime = 2026-01-01T00:00:00+02:00\n'
    yield f'[[pin]]\nslot = "{SLOT}"\nvalue = 12.25\nunit = "tok/s"\n{rest}'.encode()


def read_merges(data: bytes) -> None:
    from k3_ledger.rescore.pins import read_merges

    read_merges(data, source="merges.toml", receipts={})


def merge_seeds() -> Iterator[bytes]:
    track = SLOT.partition(":")[2]
    merge = f'[[merge]]\ntrack = "{track}"\ntime = 2026-01-01T00:00:00Z\n'
    yield f'{merge}pull_request = 7\ncommit = "{COMMIT}"\nclaimed = "3.25"\n'.encode()
    yield f'{merge}run = "{"0" * 64}"\nclaimed = 3.25\n'.encode()


def read_claims(data: bytes) -> None:
    from k3_ledger.rescore.claims.reading import read_claims

    read_claims(data[1:], source="claims.toml" if data[:1] > b"\x80" else "README.md")


def claims_seeds() -> Iterator[bytes]:
    """This project's own claims, each alone and in a document."""
    text = (tests.support.ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```toml claims\n(.*?)```", text, re.DOTALL):
        for claim in re.findall(r"\[\[claim\]\].*?\n\n", f"{block}\n\n", re.DOTALL)[:6]:
            yield b"\xff" + re.sub(r"(?m)^quote.*\n", "", claim).encode()
            quote = re.search(r'(?m)^quote = "(.*)"', claim)
            yield f"\x00# Title\n\n{quote[1] if quote else ''}\n\n```toml claims\n{claim}```\n".encode()


def read_rule(data: bytes) -> None:
    from k3_ledger.rescore.rules.reading import read_rule_file

    read_rule_file(data, source="rule.toml")


def rule_seeds() -> Iterator[bytes]:
    """The rules that this project ships, as ``rules show --toml`` prints them."""
    from k3_ledger.rescore.rules.reading import format_rule_file
    from k3_ledger.rescore.rules.registry import RULES

    yield from (format_rule_file(rule).encode() for rule in RULES.values())


def read_slot(data: bytes) -> None:
    from k3_ledger.rescore.exact import parse_decimal
    from k3_ledger.rescore.slots import parse_slot

    text = data.decode("utf-8", "replace")
    if data[:1].isdigit():
        parse_decimal(text, field="value")
    else:
        parse_slot(text)


def slot_seeds() -> Iterator[bytes]:
    yield from (SLOT.encode(), b"0.006694998054076399", b"1e400", b"12", b"1_0")


# ---------------------------------------------------------------------------------------------------- foreign logs


def read_foreign_json(data: bytes) -> None:
    from k3_ledger.verify.polaris.foreign_json import read

    document = read(data, "a.json")
    for path in ("a", "a.b", "[0].a", ""):
        document.text(path)


def foreign_json_seeds() -> Iterator[bytes]:
    yield from json_seeds()
    yield b'{"a": {"b": 1.50}, "c": [1e5, NaN, -Infinity]}'


def read_log_text(data: bytes) -> None:
    from k3_ledger.verify.polaris.logtext import read_log

    read_log(data, "eval.log")


@functools.cache
def foreign_log() -> dict[str, bytes]:
    from tests.verify.polaris import make_log

    return make_log.build(make_log.draft())


def log_text_seeds() -> Iterator[bytes]:
    yield from (data[:4000] for name, data in foreign_log().items() if name.endswith((".log", "log.txt")))


def read_foreign_log(data: bytes) -> None:
    """A good foreign log in which one file is replaced: an audit, whatever stands there."""
    from k3_ledger.verify.polaris.audit import audit

    names = sorted(foreign_log())
    name = names[data[0] % len(names)] if data else names[0]
    audit({**foreign_log(), name: data[1:]})


def foreign_log_seeds() -> Iterator[bytes]:
    for number, name in enumerate(sorted(foreign_log())):
        if len(foreign_log()[name]) < 8000:
            yield bytes([number]) + foreign_log()[name]


# --------------------------------------------------------------------------------------------------- measurements


def read_gguf(data: bytes) -> None:
    from k3_ledger.engine.config import read_config
    from k3_ledger.engine.gguf.header import parse_header

    read_config(parse_header(memoryview(data)).values, embedding_rows=512)


def gguf_seeds() -> Iterator[bytes]:
    """Headers written by hand from the format: magic, version, counts, keys, tensors."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(8, "little") + value.encode()

    def header(tensors: int, keys: int, version: int = 3) -> bytes:
        return b"GGUF" + version.to_bytes(4, "little") + tensors.to_bytes(8, "little") + keys.to_bytes(8, "little")

    number, string, array = ((kind).to_bytes(4, "little") for kind in (4, 8, 9))
    keys = text("general.architecture") + string + text("llama") + text("a.count") + number + bytes(4)
    keys += text("tokens") + array + string + (2).to_bytes(8, "little") + text("a") + text("b")
    tensor = text("w") + (1).to_bytes(4, "little") + (32).to_bytes(8, "little") + bytes(4) + bytes(8)
    yield header(0, 0)
    yield header(0, 3) + keys
    whole = header(1, 3) + keys + tensor
    yield whole + bytes(-len(whole) % 32) + bytes(128)
    yield _tiny_header()


def _tiny_header() -> bytes:
    """All sizes of a small model, and none of its tensors or tokens."""
    from k3_ledger.engine.gguf import write_gguf
    from k3_ledger.engine.synth import preset

    values = {name: value for name, value in preset("tiny").header().items() if not name.startswith("tokenizer.")}
    path = Path(place().name) / "tiny.gguf"
    write_gguf(path, values, [])
    return path.read_bytes()


def read_result_file(data: bytes) -> None:
    from k3_ledger.engine.adapters.llama_bench import read_llama_bench
    from k3_ledger.engine.adapters.reading import Told
    from k3_ledger.engine.adapters.sglang import read_sglang
    from k3_ledger.engine.adapters.vllm import read_vllm

    reader: Any = (read_llama_bench, read_vllm, read_sglang)[data[0] % 3 if data else 0]
    reader(data[1:], Told(0, "cold", "fresh", 1, 16, 16))


def result_file_seeds() -> Iterator[bytes]:
    from tests.engine.adapters import test_adapters as known

    yield b"\x00" + json.dumps([known.llama(), known.llama(**known.DECODE)]).encode()
    for form in (known.LATENCY, known.THROUGHPUT, known.SERVE):
        yield b"\x01" + json.dumps(form).encode()
    yield b"\x02" + b"\n".join([json.dumps(known.BATCH).encode()] * 2)
    yield b"\x02" + json.dumps(known.SERVED).encode()


TARGETS = (
    Target("ledger", read_ledger, ledger_seeds, longest=8192, share=0.2),
    Target("head", read_head, note_seeds, longest=1000, share=0.2),
    Target("proof-file", read_proof_file, proof_file_seeds, longest=8192, share=0.4),
    Target("consistency-report", read_consistency, consistency_file_seeds, longest=8192, share=0.4),
    Target("key-file", read_key_file, key_file_seeds, longest=2000),
    Target("policy", read_policy, policy_seeds, longest=1000),
    Target("pins", read_pins, pin_seeds, longest=1000),
    Target("merges", read_merges, merge_seeds, longest=1000),
    Target("claims", read_claims, claims_seeds, longest=1000),
    Target("rule", read_rule, rule_seeds, longest=2000),
    Target("slot", read_slot, slot_seeds, longest=200),
    Target("foreign-json", read_foreign_json, foreign_json_seeds),
    Target("log-text", read_log_text, log_text_seeds),
    Target("foreign-log", read_foreign_log, foreign_log_seeds, longest=8192, share=0.02),
    Target("gguf", read_gguf, gguf_seeds, needs=("gguf", "numpy")),
    Target("result-file", read_result_file, result_file_seeds),
)
