"""Makes ledgers whose receipts are attested, by docs/attestation.md and with none of the code under test."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from docs.examples.made_up_intel import World

from k3_ledger.verify.source import MemorySource
from tests.ledgers import RUNNER, Builder, canonical, run_body, small_ledger
from tests.verify.tee.tokens import answer

DOMAIN = hashlib.sha256(b"k3-ledger/report-data/1\n").digest()
STARTED = "2026-06-01T00:00:00Z"


def artifact(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "media_type": "a/b"}


def bare_digest(body: dict[str, Any]) -> bytes:
    """SHA-256 of the bundle as it was before there was evidence; ``body`` has none yet."""
    bare = {"body": body, "kind": "run", "schema": "k3-ledger/bundle/1"}
    return hashlib.sha256(canonical(bare)).digest()


@dataclass
class Attested:
    """A run receipt under construction; change what a careless or dishonest runner would."""

    number: int = 0
    world: World = field(default_factory=World)
    tee: str = "tdx"
    body: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=lambda: {"notes.txt": b"other artifacts are covered"})

    def __post_init__(self) -> None:
        body = run_body(self.number)
        del body["bundle"]
        body["tee"] = {"kind": self.tee, "report_data_sha256": None}
        body["machine"]["started"] = STARTED
        body["artifacts"] = [artifact(name, data) for name, data in self.files.items()]
        self.body = body
        self.digest = bare_digest(body)

    def attach(self, name: str, data: bytes) -> Attested:
        self.body["artifacts"].append(artifact(name, data))
        self.files[name] = data
        return self

    def quoted(self, report_data: bytes | None = None, *, collateral: bytes | None = b"") -> Attested:
        """Attach a quote, and the collateral unless that is None."""
        wanted = self.digest + DOMAIN
        self.body["tee"]["report_data_sha256"] = hashlib.sha256(wanted).hexdigest()
        self.attach("tdx-quote.bin", self.world.quote(wanted if report_data is None else report_data))
        return self if collateral is None else self.attach("tdx-collateral.json", collateral or self.world.collateral())

    def tokened(self, digest: bytes | None = None, **how: Any) -> Attested:
        """Attach NVIDIA tokens."""
        return self.attach("nvidia-token.json", json.dumps(answer(digest or self.digest, **how)).encode())


def ledger(*receipts: Attested, plain: int = 0) -> tuple[Builder, dict[str, bytes]]:
    """A ledger of plain receipts, then these; and its artifacts by digest."""
    built = small_ledger(plain)
    blobs: dict[str, bytes] = {}
    for receipt in receipts:
        built.add("run", receipt.body, RUNNER)
        blobs |= {hashlib.sha256(data).hexdigest(): data for data in receipt.files.values()}
    return built, blobs


def source(*receipts: Attested, plain: int = 0) -> MemorySource:
    built, blobs = ledger(*receipts, plain=plain)
    return MemorySource(built.data, checkpoint=built.head(), artifacts=blobs)
