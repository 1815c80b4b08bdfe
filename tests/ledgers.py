"""Builds small ledgers for tests, written from docs/format.md and using no room of the product.

Every part can be made wrong on purpose: tests tamper with what this makes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nacl.signing import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "example.org/speed"


@dataclass(frozen=True)
class Key:
    """A key pair made from a seed, so that every run of a test signs the same bytes."""

    seed: str

    @cached_property
    def signing(self) -> SigningKey:
        return SigningKey(hashlib.sha256(self.seed.encode()).digest())

    @property
    def public(self) -> bytes:
        return bytes(self.signing.verify_key)

    @property
    def id(self) -> str:
        return hashlib.sha256(self.public).hexdigest()


ROOT, LOG, RUNNER, JUDGE = Key("root"), Key("log"), Key("runner"), Key("judge")


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sign_line(entry: bytes, key: Key) -> bytes:
    """One line, its LF included."""
    sig = key.signing.sign(b"k3-ledger/entry/v1\n" + entry).signature
    return b'{"entry":' + entry + b',"sig":"' + base64.b64encode(sig) + b'"}\n'


def tree_root(lines: list[bytes]) -> bytes:
    """RFC 6962 root over lines (each with its LF), by the definition."""
    if not lines:
        return hashlib.sha256(b"").digest()
    if len(lines) == 1:
        return hashlib.sha256(b"\0" + lines[0][:-1]).digest()
    k = 1
    while k * 2 < len(lines):
        k *= 2
    return hashlib.sha256(b"\1" + tree_root(lines[:k]) + tree_root(lines[k:])).digest()


def sign_head(lines: list[bytes], key: Key = LOG, *, origin: str = ORIGIN, size: int | None = None) -> bytes:
    """A checkpoint: a signed note over origin, size and root."""
    body = f"{origin}\n{len(lines) if size is None else size}\n{base64.b64encode(tree_root(lines)).decode()}\n"
    key_hash = hashlib.sha256(origin.encode() + b"\n\x01" + key.public).digest()[:4]
    sig = key.signing.sign(body.encode()).signature
    return f"{body}\n\u2014 {origin} {base64.b64encode(key_hash + sig).decode()}\n".encode()


def genesis_body(root: Key = ROOT, origin: str = ORIGIN) -> dict[str, Any]:
    return {"format": "k3-ledger/1", "origin": origin, "root_public_key": root.public.hex()}


def key_body(key: Key, role: str, action: str = "enrol", **more: Any) -> dict[str, Any]:
    return {
        "action": action, "role": role, "key_id": key.id, "public_key": key.public.hex(), "name": key.seed,
        "replaces": None, "revoked_from": None, "reason": None, "endorsements": [], **more,
    }  # fmt: skip


def threshold_body(threshold: int, **more: Any) -> dict[str, Any]:
    return {"threshold": threshold, "reason": None, "endorsements": [], **more}


def endorsement(
    key: Key, kind: str, body: dict[str, Any], after: str, *, origin: str = ORIGIN, prefix: bytes | None = None
) -> dict[str, str]:
    """One root's endorsement of an action, for the state of the keys that the identity ``after`` names."""
    action = {name: value for name, value in body.items() if name != "endorsements"}
    statement = canonical({"after": after, "body": action, "kind": kind, "origin": origin})
    sig = key.signing.sign((b"k3-ledger/endorsement/v1\n" if prefix is None else prefix) + statement).signature
    return {"key": key.id, "sig": base64.b64encode(sig).decode()}


def run_body(number: int = 0, **more: Any) -> dict[str, Any]:
    samples = [{"start_ns": i * 1000, "duration_ns": 900 + i, "count": 10} for i in range(4)]
    series = {
        "metric": "decode", "unit": "token", "actor": "subject", "observer": "controller", "context": 128,
        "context_filled": 128, "batch": 1, "processes": 1, "warmup": 1, "inputs": "fresh", "cache": "none",
        "samples": samples,
    }  # fmt: skip
    node = {
        "name": "node", "cpu": "cpu", "logical_cores": 2, "memory_bytes": 1 << 34, "os": "linux", "kernel": "6.1",
        "accelerators": [],
    }  # fmt: skip
    body = {
        "role": "candidate",
        "subject": {"name": "engine", "version": "1", "source": None, "build_sha256": None}, "model": None,
        "machine": {"node": node, "software": [], "command": ["run", str(number)], "started": "2026-01-01T00:00:00Z"},
        "timing": [series], "parity": None, "memory": [], "flags": [], "expert_load": None,
        "tee": {"kind": "none", "report_data_sha256": None}, "round": None, "artifacts": [], **more,
    }  # fmt: skip
    return {**body, "bundle": bundle_digest(body)} if "bundle" not in more else body


def bundle_digest(body: dict[str, Any], kind: str = "run") -> str:
    """Digest of the bundle whose body this is."""
    bundle = {"schema": "k3-ledger/bundle/1", "kind": kind, "body": {k: v for k, v in body.items() if k != "bundle"}}
    return hashlib.sha256(canonical(bundle)).hexdigest()


@dataclass
class Builder:
    """A ledger under construction. ``lines`` are its lines so far, each with its LF."""

    lines: list[bytes] = field(default_factory=list)
    origin: str = ORIGIN
    root: Key = ROOT

    def add(self, kind: str, body: dict[str, Any], signer: Key, *, seal: bool = True, **fields: Any) -> str:
        """Append one entry and return its identity; ``fields`` overrides chain fields to make them wrong.

        With ``seal``, a receipt gets the digest of the bundle that its body makes.
        """
        if seal and kind in ("run", "failed"):
            body = {**body, "bundle": bundle_digest(body, kind)}
        prev = hashlib.sha256(self.origin.encode() + b"\n").hexdigest()
        if self.lines:
            prev = hashlib.sha256(self.lines[-1][9:-99]).hexdigest()
        minute, second = divmod(len(self.lines) % 3600, 60)
        entry = {
            "index": len(self.lines), "prev": prev, "time": f"2026-01-01T00:{minute:02}:{second:02}Z", "kind": kind,
            "key": signer.id, "schema": f"k3-ledger/{kind}/1", "body": body, **fields,
        }  # fmt: skip
        data = canonical(entry)
        self.lines.append(sign_line(data, signer))
        return hashlib.sha256(data).hexdigest()

    def open(self) -> Builder:
        """Genesis, and a key for each role."""
        self.add("genesis", genesis_body(self.root, self.origin), self.root)
        for key, role in ((LOG, "log"), (RUNNER, "runner"), (JUDGE, "judge")):
            self.add("key", key_body(key, role), self.root)
        return self

    @property
    def newest_action(self) -> str:
        """Identity of the newest genesis, key or threshold entry."""
        kinds = (b'"kind":"genesis"', b'"kind":"key"', b'"kind":"threshold"')
        newest = [line for line in self.lines if any(kind in line for kind in kinds)][-1]
        return hashlib.sha256(newest[9:-99]).hexdigest()

    def endorsed(self, kind: str, body: dict[str, Any], *keys: Key) -> dict[str, Any]:
        """The body with an endorsement by each of the keys, for the state that the ledger is in."""
        return {**body, "endorsements": [endorsement(key, kind, body, self.newest_action) for key in keys]}

    def act(self, kind: str, body: dict[str, Any], signer: Key, *endorsers: Key) -> str:
        """Append a root action with endorsements."""
        return self.add(kind, self.endorsed(kind, body, *endorsers), signer)

    def runs(self, count: int) -> Builder:
        for _ in range(count):
            self.add("run", run_body(len(self.lines)), RUNNER)
        return self

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    def head(self, **options: Any) -> bytes:
        return sign_head(self.lines, **options)

    def write(self, folder: Path) -> Path:
        """Lay the ledger and its checkpoint out in ``folder``, and return it."""
        (folder / "ledger.jsonl").write_bytes(self.data)
        (folder / "checkpoint").write_bytes(self.head())
        return folder


def small_ledger(runs: int = 6) -> Builder:
    """Genesis, three keys and some runs."""
    return Builder().open().runs(runs)
